//! Questions to DNS by TCP (RFC 7766) to where a client may not go, as a resolver on its own network: this
//! machine's resolvers answer them, as they do those that come by UDP over lanes. An answer that was cut there
//! is asked for here.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::waiting::Waiting;
use crate::race::{race, was_tried};

/// The port of DNS.
pub(super) const PORT: u16 = 53;
/// How long a client may be silent, and a resolver.
const IDLE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one may take before the next is asked beside it. The first may know names that others do not, and
/// answers most questions within that.
const STAGGER: Duration = Duration::from_secs(2);
/// The longest question, in bytes: a name and some options.
const LONGEST: usize = 4096;
/// The most questions that wait for an answer, of all clients and of one.
const MOST: usize = 64;
const MOST_OF_ONE: usize = 8;
/// The header of a message (RFC 1035 §4.1.1).
const HEADER: usize = 12;
/// Questions for all of a zone, or what has changed in it (RFC 1995, RFC 5936): what a resolver tells this
/// machine of its zones is for nobody else.
const TRANSFERS: [u16; 2] = [251, 252];

/// The questions that wait for an answer: each holds a connection to a resolver, which may take few.
pub(super) fn questions() -> Arc<Waiting> {
    Waiting::new(MOST, MOST_OF_ONE)
}

/// Answers one question of a client after another until it has no more.
///
/// # Errors
/// When it is silent for too long, sends what is no question, asks too much at once, or is gone.
pub(super) async fn answer(
    from: &mut (impl AsyncRead + AsyncWrite + Unpin),
    client: &str,
    resolvers: &[SocketAddr],
    waiting: &Arc<Waiting>,
) -> io::Result<()> {
    loop {
        let question = match timeout(IDLE, read_message(from, LONGEST)).await {
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            question => question??,
        };
        if !is_question(&question) {
            let message = "a message to DNS is not one question about a name";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let answer = {
            let full = || io::Error::other("too many questions wait for an answer");
            let _turn = waiting.take(client).ok_or_else(full)?;
            ask(resolvers, &question).await?
        };
        timeout(IDLE, write_message(from, &answer)).await??;
    }
}

/// The answer of the first resolver that gives one. One that says nothing is not waited for: who asks
/// has no more patience than we have.
async fn ask(resolvers: &[SocketAddr], question: &[u8]) -> io::Result<Vec<u8>> {
    let question: Arc<[u8]> = question.into();
    let talk = |resolver| {
        let question = Arc::clone(&question);
        async move {
            timeout(PATIENCE, ask_one(resolver, &question))
                .await
                .unwrap_or_else(|late| Err(late.into()))
        }
    };
    let none = || Err(io::Error::other("this machine has no resolver"));
    race(resolvers.to_vec(), STAGGER, talk, |error| was_tried(error.kind()))
        .await
        .unwrap_or_else(none)
}

async fn ask_one(resolver: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    write_message(&mut stream, question).await?;
    let answer = read_message(&mut stream, usize::from(u16::MAX)).await?;
    match answer.get(..2) == question.get(..2) {
        true => Ok(answer),
        false => Err(io::Error::other("a resolver answers something else")),
    }
}

/// A message of so many bytes at most, behind its length.
async fn read_message(from: &mut (impl AsyncRead + Unpin), most: usize) -> io::Result<Vec<u8>> {
    let length = usize::from(from.read_u16().await?);
    if length > most {
        let message = format!("a message to DNS has {length} bytes, more than {most}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message).await?;
    Ok(message)
}

async fn write_message(to: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    to.write_all(&[&length.to_be_bytes(), message].concat()).await?;
    to.flush().await
}

/// Whether a message is one question about a name, and no notice, update or transfer.
fn is_question(message: &[u8]) -> bool {
    message.len() >= HEADER
        && message[2] & 0xf8 == 0
        && message[4..6] == [0, 1]
        && type_of(message).is_some_and(|kind| !TRANSFERS.contains(&kind))
}

/// The type that the first question of a message asks for.
fn type_of(message: &[u8]) -> Option<u16> {
    let mut at = HEADER;
    loop {
        match *message.get(at)? {
            0 => {
                let kind = message.get(at + 1..at + 5)?;
                return Some(u16::from_be_bytes([kind[0], kind[1]]));
            }
            length if length < 64 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use std::time::Instant;

    use super::*;

    const QUESTION: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03far\x07example\x00\x00\x01\x00\x01";

    fn of_type(kind: u8) -> Vec<u8> {
        let mut message = QUESTION.to_vec();
        let at = message.len() - 3;
        message[at] = kind;
        message
    }

    #[test]
    fn a_question_about_a_name_is_one_and_a_transfer_is_none() {
        assert!(is_question(QUESTION) && is_question(&of_type(255)));
        assert!(!is_question(&of_type(251)) && !is_question(&of_type(252)));
        let changed = |at: usize, to: u8| {
            let mut message = QUESTION.to_vec();
            message[at] = to;
            message
        };
        // An answer, an update, two questions, a name that points elsewhere or beyond the end.
        for wrong in [changed(2, 0x80), changed(2, 0x28), changed(5, 2), changed(12, 0xc0)] {
            assert!(!is_question(&wrong), "{wrong:x?}");
        }
        for length in 0..QUESTION.len() {
            assert!(!is_question(&QUESTION[..length]));
        }
    }

    /// A resolver that answers each question with itself and these bytes.
    async fn resolver(more: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let asked = read_message(&mut stream, LONGEST).await.unwrap();
                write_message(&mut stream, &[&asked, more].concat()).await.unwrap();
            }
        });
        address
    }

    /// Of two resolvers the first takes questions and says nothing.
    #[tokio::test]
    async fn a_resolver_that_says_nothing_is_not_waited_for() {
        let mut outcome = None;
        for _ in 0..20 {
            let began = Instant::now();
            outcome = timeout(PATIENCE * 2, ask_past_a_silent_one()).await.ok();
            // Where this machine stands still one is given up before it could have answered.
            if began.elapsed() < PATIENCE - STAGGER {
                break;
            }
        }
        assert_eq!(outcome, Some(Ok(QUESTION.to_vec())));
    }

    /// What the second of two resolvers answers, which is asked while the first one may still do so.
    async fn ask_past_a_silent_one() -> Result<Vec<u8>, String> {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let second = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let resolvers = [silent.local_addr().unwrap(), second.local_addr().unwrap()];
        let asking = tokio::spawn(async move { ask(&resolvers, QUESTION).await });
        let (mut first, _) = silent.accept().await.unwrap();
        read_message(&mut first, LONGEST).await.unwrap();
        let (mut stream, _) = second.accept().await.unwrap();
        let question = read_message(&mut stream, LONGEST).await.map_err(|why| why.to_string())?;
        let given_up = timeout(Duration::from_millis(1), first.read_u8()).await;
        if given_up.is_ok() {
            return Err("the first one was given up before the second was asked".to_owned());
        }
        write_message(&mut stream, &question).await.map_err(|why| why.to_string())?;
        asking.await.unwrap().map_err(|why| why.to_string())
    }

    #[tokio::test]
    async fn questions_are_answered_by_the_first_resolver_that_does() {
        let gone = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap()
        };
        let resolvers = [gone, resolver(&[7; 5000]).await];
        let (mut client, mut server) = tokio::io::duplex(64);
        let serving =
            tokio::spawn(
                async move { answer(&mut server, "client", &resolvers, &questions()).await },
            );
        for _ in 0..2 {
            write_message(&mut client, QUESTION).await.unwrap();
            let answer = read_message(&mut client, 65_535).await.unwrap();
            assert_eq!(
                (answer.len(), &answer[..QUESTION.len()]),
                (QUESTION.len() + 5000, QUESTION)
            );
        }
        drop(client);
        serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_is_no_question_is_not_asked_and_silence_has_an_end() {
        let resolvers = [resolver(&[]).await];
        let (mut client, mut server) = tokio::io::duplex(64);
        write_message(&mut client, &of_type(252)).await.unwrap();
        let refused = answer(&mut server, "client", &resolvers, &questions()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        let (_client, mut server) = tokio::io::duplex(64);
        tokio::time::pause();
        let silent = answer(&mut server, "client", &resolvers, &questions()).await.unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        let nobody = ask(&[], QUESTION).await.unwrap_err();
        assert!(nobody.to_string().contains("no resolver"));
    }
}
