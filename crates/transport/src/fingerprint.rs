//! By what a certificate is known without an authority.

use std::fmt;
use std::str::FromStr;

/// The SHA-256 hash of a certificate, written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of a certificate in DER form.
    pub fn of(certificate: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// The hash's bytes.
    pub const fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

/// A text that is no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no fingerprint; write sha256: and 64 hexadecimal digits, as the server prints it"
)]
pub struct ParseFingerprintError(String);

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    /// Reads the printed form; upper case and colons between the bytes are fine.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (name, digits) = text.trim().split_once(':')?;
            let digits: Vec<u8> = digits.bytes().filter(|&b| b != b':').collect();
            if !name.eq_ignore_ascii_case("sha256") || digits.len() != 64 {
                return None;
            }
            let mut hash = [0; 32];
            for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
                let digit = |d: u8| char::from(d).to_digit(16);
                *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
            }
            Some(Self(hash))
        };
        parse().ok_or_else(|| ParseFingerprintError(text.to_owned()))
    }
}
