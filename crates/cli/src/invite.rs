//! Invites: all that a machine needs to come to a server, in one word that can be pasted or scanned.
//!
//! `weftline:` and, in base64url, a version, the addresses, the certificate's fingerprint, the
//! client's name and secret. The last four bytes are a checksum in every version, so that a slip of
//! the hand is told from an invite of another version.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use weftline::Fingerprint;

/// What an invite begins with.
const PREFIX: &str = "weftline:";
const VERSION: u8 = 1;
const CHECKSUM: usize = 4;
/// The most addresses in an invite, and the longest text that is looked at.
pub(crate) const MAX_ADDRESSES: usize = 8;
const MAX_TEXT: usize = 1024;

/// What a client needs to come in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Invite {
    /// Where the server is, the best first.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) fingerprint: Fingerprint,
    /// The client's name at the server.
    pub(crate) name: String,
    pub(crate) secret: String,
}

/// Nothing of the secret.
impl fmt::Debug for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invite").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a text is no invite. It never shows the text, which may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotInvite {
    Other,
    Damaged,
    Version(u8),
}

impl fmt::Display for NotInvite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str(
                "that is no invite; it begins with 'weftline:', as 'weftline invite NAME' prints it \
                 at the server",
            ),
            Self::Damaged => f.write_str(
                "the invite is damaged or cut off; copy all of it, or print it again with \
                 'weftline invite NAME' at the server",
            ),
            Self::Version(version) => write!(
                f,
                "the invite is of version {version}, and this program knows version {VERSION}; \
                 update weftline on the older of the two machines"
            ),
        }
    }
}

impl fmt::Display for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |length: usize| u8::try_from(length).expect("checked when it was made");
        let mut bytes = vec![VERSION, short(self.addresses.len())];
        for address in &self.addresses {
            match address.ip() {
                IpAddr::V4(ip) => {
                    bytes.push(4);
                    bytes.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    bytes.push(6);
                    bytes.extend(ip.octets());
                }
            }
            bytes.extend(address.port().to_be_bytes());
        }
        bytes.extend(self.fingerprint.to_bytes());
        for text in [&self.name, &self.secret] {
            bytes.push(short(text.len()));
            bytes.extend(text.as_bytes());
        }
        f.write_str(&sealed(bytes))
    }
}

/// The text of these bytes, with their checksum.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> String {
    bytes.extend(checksum(&bytes));
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
}

impl FromStr for Invite {
    type Err = NotInvite;

    /// White space does not count: a terminal may have broken the line.
    fn from_str(text: &str) -> Result<Self, NotInvite> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).take(MAX_TEXT).collect();
        let encoded = text.strip_prefix(PREFIX).ok_or(NotInvite::Other)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| NotInvite::Damaged)?;
        let at = bytes.len().checked_sub(CHECKSUM).ok_or(NotInvite::Damaged)?;
        let (content, found) = bytes.split_at(at);
        if checksum(content) != found {
            return Err(NotInvite::Damaged);
        }
        match content {
            [VERSION, rest @ ..] => read(rest).ok_or(NotInvite::Damaged),
            [version, ..] => Err(NotInvite::Version(*version)),
            [] => Err(NotInvite::Damaged),
        }
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    *digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

fn read(mut bytes: &[u8]) -> Option<Invite> {
    let from = &mut bytes;
    let count = usize::from(take::<1>(from)?[0]);
    if !(1..=MAX_ADDRESSES).contains(&count) {
        return None;
    }
    let mut addresses = Vec::new();
    for _ in 0..count {
        let ip: IpAddr = match take::<1>(from)? {
            [4] => Ipv4Addr::from(take::<4>(from)?).into(),
            [6] => Ipv6Addr::from(take::<16>(from)?).into(),
            _ => return None,
        };
        addresses.push(SocketAddr::new(ip, u16::from_be_bytes(take(from)?)));
    }
    let fingerprint = take::<32>(from)?.into();
    let (name, secret) = (take_text(from)?, take_text(from)?);
    from.is_empty().then_some(Invite { addresses, fingerprint, name, secret })
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*first)
}

fn take_text(from: &mut &[u8]) -> Option<String> {
    let length = usize::from(take::<1>(from)?[0]);
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use proptest::prelude::*;

    fn invite() -> Invite {
        Invite {
            addresses: vec![
                "203.0.113.5:4433".parse().unwrap(),
                "[2001:db8::5]:4433".parse().unwrap(),
            ],
            fingerprint: [7; 32].into(),
            name: "laptop".to_owned(),
            secret: "0123456789abcdefghijkl".to_owned(),
        }
    }

    #[test]
    fn it_fits_on_a_line_and_comes_back() {
        let text = invite().to_string();
        assert!(text.starts_with(PREFIX) && text.len() < 160, "{} {text}", text.len());
        assert_eq!(text.parse::<Invite>().unwrap(), invite());
        let broken = text.replace('-', "-\n  ") + "\n";
        assert_eq!(broken.parse::<Invite>().unwrap(), invite());
        assert!(!format!("{:?}", invite()).contains(&invite().secret));
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let text = invite().to_string();
        for cut in 1..text.len() - PREFIX.len() {
            assert_eq!(
                text[..text.len() - cut].parse::<Invite>(),
                Err(NotInvite::Damaged),
                "{cut}"
            );
        }
        assert_eq!("".parse::<Invite>(), Err(NotInvite::Other));
        assert_eq!("wireguard:abc".parse::<Invite>(), Err(NotInvite::Other));
        let mut bytes = URL_SAFE_NO_PAD.decode(&text[PREFIX.len()..]).unwrap();
        bytes.truncate(bytes.len() - CHECKSUM);
        bytes[0] = 2;
        let other = sealed(bytes);
        assert_eq!(other.parse::<Invite>(), Err(NotInvite::Version(2)));
    }

    proptest! {
        #[test]
        fn one_wrong_letter_is_found(at in 0_usize..120, letter in "[A-Za-z0-9_-]") {
            let text = invite().to_string();
            let at = PREFIX.len() + at % (text.len() - PREFIX.len());
            let changed = format!("{}{letter}{}", &text[..at], &text[at + 1..]);
            prop_assume!(changed != text);
            prop_assert_eq!(changed.parse::<Invite>(), Err(NotInvite::Damaged));
        }

        #[test]
        fn no_text_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(&bytes)).parse::<Invite>();
            let _ = read(&bytes);
            // The same with a checksum that is right.
            let _ = sealed(bytes).parse::<Invite>();
        }
    }
}
