//! The name of an interface.

use std::fmt;
use std::str::FromStr;

/// The bytes of a name with the zero at its end (IFNAMSIZ).
const LENGTH: usize = 16;

/// The name of an interface, such as `eth1`, whether there is one or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName([u8; LENGTH]);

/// A text that is no name of an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no name of an interface; write one that 'ip link' shows, such as eth1")]
pub struct ParseLinkNameError(String);

impl LinkName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl FromStr for LinkName {
    type Err = ParseLinkNameError;

    /// What the kernel takes for one: at most 15 bytes, neither `.` nor `..`, and no slash, colon or space.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_wrong = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
        if text.is_empty() || matches!(text, "." | "..") || text.contains(is_wrong) {
            return Err(ParseLinkNameError(text.to_owned()));
        }
        let mut name = [0; LENGTH];
        let room = name.get_mut(..text.len()).filter(|room| room.len() < LENGTH);
        room.ok_or_else(|| ParseLinkNameError(text.to_owned()))?.copy_from_slice(text.as_bytes());
        Ok(Self(name))
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_kernel_takes_for_one() {
        for text in ["eth1", "br-lan", "enp0s31f6.100", "fifteen-bytes-1", "wläß"] {
            let name: LinkName = text.parse().unwrap();
            assert_eq!((name.as_str(), name.to_string()), (text, text.to_owned()));
        }
        for text in ["", ".", "..", "eth 1", "../eth1", "eth0:1", "sixteen-bytes-16", "a\0b"] {
            let error = text.parse::<LinkName>().unwrap_err().to_string();
            assert!(error.contains("ip link"), "{error}");
        }
    }
}
