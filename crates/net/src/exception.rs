//! Connections that are not captured.

use std::net::IpAddr;
use std::str::FromStr;

/// Connections that go their usual ways although all others are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exception {
    /// Those to a network: an address, and how many of its first bits count.
    Network(IpAddr, u8),
    /// Those to a port.
    Port(u16),
    /// Those of a user's programs.
    User(u32),
}

/// A text that is no exception.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no exception; write a network (192.168.7.0/24), an address (203.0.113.9, 2001:db8::9), a \
     port (port:22) or a user's number (uid:1000)"
)]
pub struct ParseExceptionError(String);

impl FromStr for Exception {
    type Err = ParseExceptionError;

    /// `ADDRESS/LENGTH`, `ADDRESS`, `port:N` or `uid:N`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text).ok_or_else(|| ParseExceptionError(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Exception> {
    if let Some(port) = text.strip_prefix("port:") {
        return port.parse().ok().filter(|&port| port != 0).map(Exception::Port);
    }
    if let Some(user) = text.strip_prefix("uid:") {
        // The greatest number stands for no user.
        return user.parse().ok().filter(|&user| user != u32::MAX).map(Exception::User);
    }
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address.parse().ok()?, Some(length.parse().ok()?)),
        None => (text.parse().ok()?, None),
    };
    let most = if IpAddr::is_ipv4(&address) { 32 } else { 128 };
    let length = length.unwrap_or(most);
    // The kernel has no rule to "everything", and nothing would be left to capture.
    (1..=most).contains(&length).then(|| Exception::Network(masked(address, length), length))
}

/// An address without the bits that do not count.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match address {
        IpAddr::V4(one) => {
            IpAddr::V4((one.to_bits() & !u32::MAX.checked_shr(length).unwrap_or(0)).into())
        }
        IpAddr::V6(one) => {
            IpAddr::V6((one.to_bits() & !u128::MAX.checked_shr(length).unwrap_or(0)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read() {
        let network = |address: &str, length| Exception::Network(address.parse().unwrap(), length);
        for (text, exception) in [
            ("192.168.7.9/24", network("192.168.7.0", 24)),
            ("203.0.113.9", network("203.0.113.9", 32)),
            ("2001:db8::9", network("2001:db8::9", 128)),
            ("2001:db8:7:8::9/48", network("2001:db8:7::", 48)),
            ("port:22", Exception::Port(22)),
            ("uid:1000", Exception::User(1000)),
        ] {
            assert_eq!(text.parse(), Ok(exception), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_told_with_the_forms() {
        for text in [
            "",
            "home",
            "10.0.0.0/33",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/",
            "::/129",
            "port:0",
            "port:70000",
            "port:",
            "uid:-1",
            "uid:4294967295",
            "uid:root",
            "10.0.0.1:22",
        ] {
            let error = text.parse::<Exception>().unwrap_err().to_string();
            assert!(error.contains("port:22") && error.contains("uid:1000"), "{error}");
        }
    }
}
