//! SOCKS 5 (RFC 1928) for local programs: no authentication, outgoing TCP connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::refusal::printable;

const VERSION: u8 = 5;
/// The method "no authentication required" (RFC 1928 §3).
const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
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

/// Negotiates with the program at the other end of `stream` and returns the `host:port` it wants
/// to be connected to; [`reply`] then answers it.
///
/// # Errors
/// When the program speaks something else or wants what is not offered (it has been told then), or
/// goes away.
pub(super) async fn negotiate(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<String> {
    let wrong = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    let version = stream.read_u8().await?;
    if version != VERSION {
        return Err(wrong(format!("not SOCKS 5: the first byte is {version:#04x}")));
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_ACCEPTABLE_METHOD]).await?;
        return Err(wrong("the program insists on SOCKS authentication, there is none".to_owned()));
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
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
        let (mut ours, mut theirs) = duplex(4096);
        theirs.write_all(says).await.unwrap();
        theirs.shutdown().await.unwrap();
        let result = negotiate(&mut ours).await;
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

    proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(talk(&[&[5, 1, 0][..], &bytes].concat()));
            let _ = runtime.block_on(talk(&bytes));
        }
    }
}
