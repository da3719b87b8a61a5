//! The static keys of nodes: Curve25519 pairs, as text in files and options.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr;

use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver as _, DefaultResolver};
use snow::types::Dh;

use crate::TunnelError;

/// Bytes of a key (RFC 7748).
pub const KEY_BYTES: usize = 32;

/// More than a file with a secret has.
const MAX_FILE: u64 = 1024;

const PUBLIC: &str = "public:";
const SECRET: &str = "secret:";

/// What a node is known by; written `public:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(pub(crate) [u8; KEY_BYTES]);

/// What a node proves that it is itself with; in its file `secret:` and 64 hexadecimal digits.
/// Never shown.
#[derive(Clone)]
pub struct SecretKey {
    secret: [u8; KEY_BYTES],
    public: PublicKey,
}

/// A text that is no public key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no public key; write public: and 64 digits, as `weftline cotag key` prints it")]
pub struct ParseKeyError(String);

impl PublicKey {
    /// Its first digits, to tell it from others in a line of a log.
    pub fn short(&self) -> String {
        hex(&self.0[..4])
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.short())
    }
}

impl FromStr for PublicKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let key = text.trim().strip_prefix(PUBLIC).and_then(from_hex);
        // What is a secret by mistake is not told again.
        let shown = if text.contains(SECRET) { "secret:…" } else { text };
        key.map(Self).ok_or_else(|| ParseKeyError(shown.chars().take(80).collect()))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public.short())
    }
}

/// Refuses keys of a node and of those it knows of which two are the same, under their names: one stands
/// where another belongs.
pub(crate) fn check_distinct(keys: &[(&str, PublicKey)]) -> Result<(), TunnelError> {
    for (index, (name, key)) in keys.iter().enumerate() {
        if let Some((other, _)) = keys[..index].iter().find(|(_, other)| other == key) {
            return Err(TunnelError::Usage(format!(
                "'{other}' and '{name}' have the same key, {}; each node has its own, made by weftline \
                 cotag key",
                key.short()
            )));
        }
    }
    Ok(())
}

impl SecretKey {
    /// A new one from the system's random numbers.
    ///
    /// # Errors
    /// If the system has none.
    pub fn generate() -> Result<Self, TunnelError> {
        let mut secret = [0; KEY_BYTES];
        let random = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&random, &mut secret)
            .map_err(|_| TunnelError::not_possible("no random numbers", "see getrandom(2)"))?;
        Ok(Self::from_bytes(secret))
    }

    pub(crate) fn from_bytes(secret: [u8; KEY_BYTES]) -> Self {
        let mut dh = curve();
        dh.set(&secret);
        let mut public = [0; KEY_BYTES];
        public.copy_from_slice(dh.pubkey());
        Self { secret, public: PublicKey(public) }
    }

    /// What its owner is known by.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// What only its owner and `peer`'s can compute (RFC 7748 §6.1); zeros for a key that is none.
    pub(crate) fn shared(&self, peer: &PublicKey) -> [u8; KEY_BYTES] {
        let mut dh = curve();
        dh.set(&self.secret);
        let mut shared = [0; KEY_BYTES];
        // A peer whose key is no point has no handshakes either.
        let _ = dh.dh(&peer.0, &mut shared);
        shared
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.secret
    }

    /// Reads the secret in `file`.
    ///
    /// # Errors
    /// If it cannot be read or is none; what is in it is not told.
    pub fn read(file: &Path) -> Result<Self, TunnelError> {
        let wrong =
            |why: &str| TunnelError::Usage(format!("secret key file {}: {why}", file.display()));
        let mut text = String::new();
        let opened =
            fs::File::open(file).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => wrong(&format!(
                "there is none; make one with weftline cotag key {}",
                file.display()
            )),
            _ => wrong(&error.to_string()),
        })?;
        let text = text.trim();
        if text.starts_with(PUBLIC) {
            return Err(wrong(
                "it holds a public key; give the file that `weftline cotag key` made",
            ));
        }
        let secret = text.strip_prefix(SECRET).and_then(from_hex);
        let secret = secret
            .ok_or_else(|| wrong("no secret key; make one with `weftline cotag key FILE`"))?;
        Ok(Self::from_bytes(secret))
    }

    /// Writes the secret to `file`, which must not be there, so that only its owner can read it.
    ///
    /// # Errors
    /// If the file is there or cannot be written.
    pub fn write_new(&self, file: &Path) -> Result<(), TunnelError> {
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(file);
        let text = format!("{SECRET}{}\n", hex(&self.secret));
        let written = opened.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(TunnelError::os(format!("writing {}", file.display())))
    }
}

fn curve() -> Box<dyn Dh> {
    DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("switched on in Cargo.toml")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first scalar of RFC 7748 §5.2 times the base point, by another implementation.
    #[test]
    fn the_public_key_is_that_of_the_curve() {
        let secret = "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4";
        let secret = SecretKey::from_bytes(from_hex(secret).unwrap());
        let public = "1c9fd88f45606d932a80c71824ae151d15d73e77de38e8e000852e614fae7019";
        assert_eq!(hex(&secret.public().0), public);
    }

    #[test]
    fn keys_come_back_from_text() {
        let secret = SecretKey::from_bytes([7; 32]);
        let text = secret.public().to_string();
        assert_eq!(text.parse(), Ok(secret.public()));
        assert_eq!(text.len(), PUBLIC.len() + 64);
        for bad in ["", "public:", "public:zz", &text[..70], &text[7..], &format!("{text}0")] {
            assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
        }
        let told = format!("{SECRET}{}", hex(&[9; 32])).parse::<PublicKey>().unwrap_err();
        assert!(!told.to_string().contains("0909"), "{told}");
        assert!(!format!("{secret:?}").contains("0707"));
    }
}
