//! SOCKS 5 (RFC 1928) for local programs: outgoing TCP connections, with a user name and a password
//! (RFC 1929) where some are given.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ring::hmac;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::error::Error;
use crate::refusal::printable;

const VERSION: u8 = 5;
/// The method "no authentication required" (RFC 1928 §3).
const NO_AUTHENTICATION: u8 = 0;
/// The method "username/password", and the version of its own negotiation (RFC 1929 §2).
const USER_AND_PASSWORD: u8 = 2;
const AUTHENTICATION_VERSION: u8 = 1;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
/// The most users of a proxy: all of them are tried for each program.
const MAX_USERS: usize = 1024;
/// The command "connect" and the address types (RFC 1928 §4 and §5).
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const DOMAIN: u8 = 3;
const IPV6: u8 = 4;

/// How a request ended (RFC 1928 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply(pub(super) u8);

impl Reply {
    pub(super) const SUCCEEDED: Self = Self(0);
    pub(super) const FAILED: Self = Self(1);
    const NETWORK_UNREACHABLE: Self = Self(3);
    const HOST_UNREACHABLE: Self = Self(4);
    const REFUSED: Self = Self(5);
    const TTL_EXPIRED: Self = Self(6);
    const COMMAND_NOT_SUPPORTED: Self = Self(7);
    const ADDRESS_TYPE_NOT_SUPPORTED: Self = Self(8);
}

impl From<&io::Error> for Reply {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::REFUSED,
            io::ErrorKind::HostUnreachable => Self::HOST_UNREACHABLE,
            io::ErrorKind::NetworkUnreachable => Self::NETWORK_UNREACHABLE,
            io::ErrorKind::TimedOut => Self::TTL_EXPIRED,
            _ => Self::FAILED,
        }
    }
}

/// Who may use a SOCKS proxy. Passwords are not kept, only keyed hashes under a key of this
/// process.
#[derive(Clone)]
pub struct SocksUsers(Arc<Users>);

struct Users {
    key: hmac::Key,
    known: Vec<hmac::Tag>,
}

impl fmt::Debug for SocksUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SocksUsers({})", self.0.known.len())
    }
}

impl SocksUsers {
    /// Those in the text of a file: `user:password` on each line, each of 1 to 255 bytes. Empty
    /// lines and lines that begin with `#` do not count.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the number of the line that is wrong; never with what is in it.
    pub fn read_all(text: &str) -> Result<Self, Error> {
        let random = ring::rand::SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random)
            .map_err(|_| Error::Invalid("the system gives no random numbers".to_owned()))?;
        let mut known = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fits = |part: &str| (1..=255).contains(&part.len());
            let parts = line.split_once(':').filter(|(user, word)| fits(user) && fits(word));
            let Some((user, password)) = parts else {
                let message = "write user:password, each of 1 to 255 bytes";
                return Err(Error::Invalid(format!("line {number}: {message}")));
            };
            if known.len() == MAX_USERS {
                return Err(Error::Invalid(format!("line {number}: more than {MAX_USERS} users")));
            }
            known.push(hmac::sign(&key, &Self::message(user.as_bytes(), password.as_bytes())));
        }
        if known.is_empty() {
            return Err(Error::Invalid("there is no user:password in it".to_owned()));
        }
        Ok(Self(Arc::new(Users { key, known })))
    }

    /// Whether somebody is among them. Every user is tried whoever it is, each in constant time.
    fn admit(&self, user: &[u8], password: &[u8]) -> bool {
        let message = Self::message(user, password);
        let fits = |tag: &hmac::Tag| hmac::verify(&self.0.key, &message, tag.as_ref()).is_ok();
        self.0.known.iter().fold(false, |found, tag| found | fits(tag))
    }

    fn message(user: &[u8], password: &[u8]) -> Vec<u8> {
        // The length keeps the border between the two.
        [&[u8::try_from(user.len()).unwrap_or(u8::MAX)], user, password].concat()
    }
}

/// Negotiates with the program at the other end of `stream` and returns the `host:port` it wants
/// to be connected to; [`reply`] then answers it.
///
/// # Errors
/// When the program speaks something else or wants what is not offered (it has been told then), or
/// goes away.
pub(super) async fn negotiate(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    users: Option<&SocksUsers>,
) -> io::Result<String> {
    let version = stream.read_u8().await?;
    if version != VERSION {
        return Err(wrong(format!("not SOCKS 5: the first byte is {version:#04x}")));
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut methods).await?;
    let (method, otherwise) = match users {
        None => (NO_AUTHENTICATION, "the program insists on a SOCKS password, there are none"),
        Some(_) => (USER_AND_PASSWORD, "the program gives no SOCKS user name and password"),
    };
    if !methods.contains(&method) {
        stream.write_all(&[VERSION, NO_ACCEPTABLE_METHOD]).await?;
        return Err(wrong(otherwise.to_owned()));
    }
    stream.write_all(&[VERSION, method]).await?;
    if let Some(users) = users {
        authenticate(stream, users).await?;
    }
    take_request(stream).await
}

fn wrong(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Lets the program say who it is (RFC 1929 §2).
async fn authenticate(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    users: &SocksUsers,
) -> io::Result<()> {
    let version = stream.read_u8().await?;
    if version != AUTHENTICATION_VERSION {
        return Err(wrong(format!("a SOCKS password cannot begin with {version:#04x}")));
    }
    let mut user = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut user).await?;
    let mut password = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut password).await?;
    let admitted = users.admit(&user, &password);
    stream.write_all(&[AUTHENTICATION_VERSION, u8::from(!admitted)]).await?;
    if admitted { Ok(()) } else { Err(wrong("a wrong SOCKS user name or password".to_owned())) }
}

/// Where the program wants to go.
async fn take_request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<String> {
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let [version, command, _, address_type] = request;
    if version != VERSION {
        return Err(wrong(format!("not SOCKS 5: a request begins with {version:#04x}")));
    }
    let host = match address_type {
        IPV4 => Ipv4Addr::from(stream.read_u32().await?).to_string(),
        IPV6 => format!("[{}]", Ipv6Addr::from(stream.read_u128().await?)),
        DOMAIN => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            printable(&String::from_utf8_lossy(&name))
        }
        other => {
            reply(stream, Reply::ADDRESS_TYPE_NOT_SUPPORTED).await?;
            return Err(wrong(format!("SOCKS address type {other} is not offered")));
        }
    };
    let port = stream.read_u16().await?;
    if command != CONNECT {
        reply(stream, Reply::COMMAND_NOT_SUPPORTED).await?;
        return Err(wrong(format!("SOCKS command {command} is not offered, only CONNECT (1)")));
    }
    Ok(format!("{host}:{port}"))
}

/// Answers a request. The bound address is left open: it is the server's, not ours.
pub(super) async fn reply(stream: &mut (impl AsyncWrite + Unpin), reply: Reply) -> io::Result<()> {
    let answer = [VERSION, reply.0, 0, IPV4, 0, 0, 0, 0, 0, 0];
    stream.write_all(&answer).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::duplex;

    /// What the other end gets, and what comes of it.
    async fn talk(says: &[u8]) -> (Vec<u8>, io::Result<String>) {
        talk_with(says, None).await
    }

    async fn talk_with(says: &[u8], users: Option<&str>) -> (Vec<u8>, io::Result<String>) {
        let users = users.map(|text| SocksUsers::read_all(text).unwrap());
        let (mut ours, mut theirs) = duplex(4096);
        theirs.write_all(says).await.unwrap();
        theirs.shutdown().await.unwrap();
        let result = negotiate(&mut ours, users.as_ref()).await;
        drop(ours);
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).await.unwrap();
        (got, result)
    }

    #[tokio::test]
    async fn each_kind_of_address_is_understood() {
        let v4: &[u8] = &[5, 1, 0, 1, 192, 0, 2, 7, 0x1f, 0x90];
        let name: &[u8] = b"\x05\x01\x00\x03\x0bexample.org\x01\xbb";
        let v6 = [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 22]].concat();
        for (request, target) in
            [(v4, "192.0.2.7:8080"), (name, "example.org:443"), (&v6[..], "[::1]:22")]
        {
            let (got, result) = talk(&[&[5, 2, 2, 0], request].concat()).await;
            assert_eq!((got, result.unwrap()), (vec![5, 0], target.to_owned()));
        }
    }

    #[tokio::test]
    async fn what_is_not_offered_is_refused_as_the_rfc_says() {
        let (got, result) = talk(&[5, 1, 2]).await;
        assert_eq!(got, [5, 0xff], "{result:?}");
        let bind = [5, 1, 0, 5, 2, 0, 1, 192, 0, 2, 7, 0, 80];
        assert_eq!(talk(&bind).await.0, [5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]);
        let strange = [5, 1, 0, 5, 1, 0, 9];
        assert_eq!(talk(&strange).await.0, [5, 0, 5, 8, 0, 1, 0, 0, 0, 0, 0, 0]);
        let (got, result) = talk(b"GET / HTTP/1.1\r\n").await;
        assert!(got.is_empty() && result.unwrap_err().to_string().contains("not SOCKS 5"));
    }

    #[tokio::test]
    async fn with_users_only_those_with_their_passwords_come_in() {
        let users = Some("# proxy users\nalice:open sesame\r\nbob:p:w\n");
        let to = [5, 1, 0, 1, 192, 0, 2, 7, 0, 80];
        let login = |user: &[u8], password: &[u8]| {
            let lengths = [user.len() as u8, password.len() as u8];
            [&[5, 2, 0, 2, 1, lengths[0]], user, &[lengths[1]], password, &to].concat()
        };
        for (user, password) in [(&b"alice"[..], &b"open sesame"[..]), (b"bob", b"p:w")] {
            let (got, result) = talk_with(&login(user, password), users).await;
            assert_eq!((&got[..], &*result.unwrap()), (&[5, 2, 1, 0][..], "192.0.2.7:80"));
        }
        for (user, password) in [
            (&b"alice"[..], &b"open"[..]),
            (b"alice", b""),
            (b"", b""),
            (b"nobody", b"open sesame"),
            (b"aliceopen", b" sesame"),
            (b"bob:p", b"w"),
        ] {
            let (got, result) = talk_with(&login(user, password), users).await;
            assert_eq!(got, [5, 2, 1, 1], "{user:?}");
            assert!(result.unwrap_err().to_string().contains("wrong SOCKS user name or password"));
        }
        // Nobody comes in without saying who it is.
        let (got, result) = talk_with(&[&[5, 1, 0][..], &to].concat(), users).await;
        assert_eq!(got, [5, 0xff], "{result:?}");
        let (got, result) = talk_with(&[5, 1, 2, 9, 1, 1, 1, 1], users).await;
        assert_eq!(got, [5, 2], "{result:?}");
    }

    #[test]
    fn files_of_users_are_checked_and_never_shown() {
        for (text, message) in [
            ("", "there is no user:password in it"),
            ("\nalice\n", "line 2: write user:password, each of 1 to 255 bytes"),
            (":x", "line 1: write"),
            ("x:", "line 1: write"),
        ] {
            let error = SocksUsers::read_all(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        assert_eq!(format!("{:?}", SocksUsers::read_all("a:secret").unwrap()), "SocksUsers(1)");
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(talk(&[&[5, 1, 0][..], &bytes].concat()));
            let _ = runtime.block_on(talk(&bytes));
            let greeting = [&[5, 1, 2][..], &bytes].concat();
            let _ = runtime.block_on(talk_with(&greeting, Some("a:b")));
        }
    }
}
