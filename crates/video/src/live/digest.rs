//! What tells the bytes of a package from others.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The first half of the SHA-256 of some bytes; as text 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; Self::LENGTH]);

impl Digest {
    /// Its length in bytes.
    pub const LENGTH: usize = 16;

    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut half = [0; Self::LENGTH];
        half.copy_from_slice(&Sha256::digest(bytes)[..Self::LENGTH]);
        Self(half)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        let mut text = Self::new();
        write!(text, "{digest}").expect("a String takes all that is written");
        text
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const WANTED: &str = "a digest has 32 hexadecimal digits";
        let mut half = [0; Self::LENGTH];
        if text.len() != 2 * Self::LENGTH || !text.is_ascii() {
            return Err(WANTED);
        }
        for (byte, at) in half.iter_mut().zip((0..text.len()).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| WANTED)?;
        }
        Ok(Self(half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_first_half_of_sha_256() {
        // FIPS 180-2, appendix B.1: of "abc".
        let text = "ba7816bf8f01cfea414140de5dae2223";
        assert_eq!(Digest::of(b"abc").to_string(), text);
        assert_eq!(Digest::try_from(text.to_owned()), Ok(Digest::of(b"abc")));
        for wrong in ["", "ba7816bf8f01cfea414140de5dae222", "ga7816bf8f01cfea414140de5dae2223"] {
            assert!(Digest::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
