//! Listening sockets that somebody else has made: socket activation (sd_listen_fds(3)).
#![expect(unsafe_code, reason = "the descriptors of passed sockets come as numbers")]

use std::fmt;
use std::io;
use std::net::{AddrParseError, SocketAddr, TcpListener};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::str::FromStr;

use serde::Deserialize;

use crate::failure::Failure;

/// A socket that was passed to the program.
pub(crate) struct Passed {
    /// Its name in LISTEN_FDNAMES: `FileDescriptorName=` of the socket unit.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    listener: TcpListener,
}

impl Passed {
    /// The socket, to listen on.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub(crate) fn listener(&self) -> Result<TcpListener, Failure> {
        Ok(self.listener.try_clone()?)
    }
}

/// Takes the sockets that were passed. To be called once, before anything else is opened.
///
/// # Errors
/// When the environment or one of the descriptors is not what it should be.
pub(crate) fn take() -> Result<Vec<Passed>, Failure> {
    let wrong = |error: io::Error| {
        Failure::failed(format!(
            "the sockets passed in LISTEN_FDS cannot be used: {error}; check the socket unit"
        ))
    };
    let passed = sd_notify::listen_fds_with_names().map_err(wrong)?;
    passed
        .map(|(number, name)| {
            // SAFETY: LISTEN_PID said that the descriptors are this process's, and they have just
            // been seen to be open. It happens once, before anything else opens descriptors, so
            // that nobody else owns them.
            let fd = unsafe { OwnedFd::from_raw_fd(number) };
            let is_listening = rustix::net::sockopt::socket_acceptconn(&fd);
            let listener = TcpListener::from(fd);
            match (is_listening, listener.local_addr()) {
                (Ok(true), Ok(address)) => Ok(Passed { name, address, listener }),
                _ => Err(Failure::failed(format!(
                    "the socket '{name}' passed in LISTEN_FDS is no listening TCP socket; give the \
                     socket unit ListenStream= with an address and a port"
                ))),
            }
        })
        .collect()
}

/// Where to take connections: an address, or a socket that was passed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Place {
    Address(SocketAddr),
    /// By its name; without one, the only one there is.
    Passed(String),
}

impl Place {
    /// The socket that is meant.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub(crate) fn find<'a>(&self, passed: &'a [Passed]) -> Result<Option<&'a Passed>, Failure> {
        let Self::Passed(name) = self else { return Ok(None) };
        let fits = |one: &&Passed| name.is_empty() || one.name == *name;
        let mut found = passed.iter().filter(fits);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(Some(one)),
            (one, _) => {
                let names: Vec<&str> = passed.iter().map(|one| one.name.as_str()).collect();
                let problem = if one.is_some() { "more than one socket" } else { "no socket" };
                Err(Failure::wrong_use(format!(
                    "{self}: {problem} of this name was passed to the program (passed: {})",
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                )))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Passed(name) if name.is_empty() => f.write_str("fd"),
            Self::Passed(name) => write!(f, "fd:{name}"),
        }
    }
}

impl FromStr for Place {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("fd") {
            Some("") => Ok(Self::Passed(String::new())),
            Some(rest) if rest.starts_with(':') => Ok(Self::Passed(rest[1..].to_owned())),
            _ => text.parse().map(Self::Address),
        }
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map_err(|error| {
            let text = text.escape_debug();
            format!("'{text}' is no address such as 127.0.0.1:8080, and no fd:NAME: {error}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_or_names() {
        for text in ["127.0.0.1:80", "[fd00::1]:80", "fd", "fd:web"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        assert!("fdweb".parse::<Place>().is_err());
        let error = Place::try_from("web".to_owned()).unwrap_err();
        assert!(error.starts_with("'web' is no address such as"), "{error}");
    }

    #[test]
    fn a_socket_is_found_by_its_name_or_by_being_the_only_one() {
        let passed = |name: &str| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            Passed { name: name.to_owned(), address, listener }
        };
        let find = |text: &str, passed: &[Passed]| {
            let found = text.parse::<Place>().unwrap().find(passed).map_err(|e| e.to_string())?;
            Ok::<_, String>(found.map(|one| one.name.clone()))
        };
        let two = [passed("web"), passed("proxy")];
        assert_eq!(find("fd:proxy", &two), Ok(Some("proxy".to_owned())));
        assert_eq!(find("fd", &two[..1]), Ok(Some("web".to_owned())));
        assert_eq!(find("127.0.0.1:80", &two), Ok(None));
        assert!(find("fd", &two).unwrap_err().contains("fd: more than one socket"));
        assert!(find("fd:x", &two).unwrap_err().contains("(passed: web, proxy)"));
        assert!(find("fd", &[]).unwrap_err().contains("(passed: none)"));
    }
}
