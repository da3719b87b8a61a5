//! How a subflow becomes part of a connection: hello for the first, join for the others.
//!
//! A hello is not waited for: what the application writes follows it at once, and the reader of the
//! subflow finds the answer. As its fate is unknown if the subflow breaks off before that, the next
//! subflow says it again with the same nonce, and the server takes it for the connection it has.
//!
//! The first subflow's server answers a hello with the connection's number and a secret. A later
//! subflow proves that it belongs to the connection by a keyed hash of that secret over its own
//! TLS channel, so that neither a guessed number nor a recorded join is worth anything.

use std::net::SocketAddr;

use bytes::BytesMut;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::oneshot;
use weftline_core::wire::{
    Greeting, Hello, HelloNonce, HelloReply, Join, JoinReply, Record, WireError,
};

use crate::channel::{self, Channel, Parts};
use crate::error::Error;
use crate::refusal::{self, printable};
use crate::token::Token;

/// The exporter label (RFC 8446 §7.5) under which a join's proof is bound to its channel.
const JOIN_LABEL: &str = "EXPORTER-weftline-join";

/// A number to seed random streams that need not be secret.
///
/// # Errors
/// When the system has no randomness to give.
pub(crate) fn random_seed() -> Result<u64, Error> {
    Ok(u64::from_ne_bytes(random()?))
}

/// Secret random bytes.
///
/// # Errors
/// When the system has no randomness to give.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::Invalid("the system gives no random numbers".to_owned()))?;
    Ok(bytes)
}

/// A connection's public number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

/// What joins a subflow to its connection.
#[derive(Clone)]
pub(crate) struct SessionKeys {
    pub(crate) id: SessionId,
    secret: [u8; 32],
}

impl SessionKeys {
    /// New random ones.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub(crate) fn random() -> Result<Self, Error> {
        Self::of(SessionId(random()?))
    }

    /// Random ones of the connection `id`.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub(crate) fn of(id: SessionId) -> Result<Self, Error> {
        Ok(Self { id, secret: random()? })
    }

    /// The server's answer to a hello; `messages` is the longest message taken, 0 in a connection
    /// of a byte stream.
    pub(crate) fn reply(&self, messages: u64) -> Record {
        let (session, join_secret) = (self.id.0, self.secret);
        Record::HelloReply(HelloReply { session, join_secret, messages })
    }

    fn tag(&self, channel: &Channel, subflow: u64) -> Result<hmac::Tag, Error> {
        let message = self.proof_message(channel, subflow)?;
        Ok(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.secret), &message))
    }

    fn proof_message(&self, channel: &Channel, subflow: u64) -> Result<Vec<u8>, Error> {
        let material = channel.keying_material(JOIN_LABEL)?;
        Ok([&material[..], &self.id.0, &subflow.to_be_bytes()].concat())
    }

    /// Whether `join`, received on `channel`, comes from who has the secret. Takes the same time
    /// for every wrong proof.
    pub(crate) fn verify(&self, channel: &Channel, join: &Join) -> Result<bool, Error> {
        let message = self.proof_message(channel, join.subflow)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        Ok(hmac::verify(&key, &message, &join.proof).is_ok())
    }
}

/// How a server numbers the connections it opens: by the nonces of their hellos.
pub(crate) struct Numbering(hmac::Key);

impl Numbering {
    /// New ones, of which nobody knows which nonce has which number.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub(crate) fn random() -> Result<Self, Error> {
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &random::<32>()?)))
    }

    /// The number of the connection that a hello with this nonce opens. It says nothing about the
    /// nonce, nor does the time that it takes to find it.
    pub(crate) fn id(&self, nonce: &HelloNonce) -> SessionId {
        let tag = hmac::sign(&self.0, &nonce.0);
        SessionId(*tag.as_ref().first_chunk().expect("HMAC-SHA256 has 32 bytes"))
    }
}

/// The server's answer to a hello: the connection's keys.
pub(crate) type Answer = oneshot::Receiver<Result<SessionKeys, Error>>;

/// The answer to a hello, which comes before anything else on the subflow that said it.
pub(crate) struct Awaited {
    greeting: Greeting,
    peer: SocketAddr,
    is_plain: bool,
    /// Whether the connection is to carry messages.
    messages: bool,
    told: oneshot::Sender<Result<SessionKeys, Error>>,
}

impl Awaited {
    /// Takes what has come. When the answer is there it is `Some`: the keys, and the longest
    /// message that the server takes, 0 if the connection carries a byte stream.
    ///
    /// # Errors
    /// When the server refuses or speaks something else.
    pub(crate) fn take(
        &mut self,
        input: &mut BytesMut,
    ) -> Result<Option<(SessionKeys, u64)>, Error> {
        self.greeting.take(&input.split());
        match channel::poll_greeting(&mut self.greeting, self.peer, self.is_plain)? {
            None => Ok(None),
            Some(Record::HelloReply(reply)) if self.messages && reply.messages == 0 => {
                Err(Error::NoMessages { peer: self.peer })
            }
            Some(Record::HelloReply(reply)) => {
                let keys = SessionKeys { id: SessionId(reply.session), secret: reply.join_secret };
                Ok(Some((keys, reply.messages)))
            }
            Some(other) => Err(unexpected(self.peer, other, "hello reply")),
        }
    }

    /// Tells who waits for it. Returns what has come after it.
    pub(crate) fn tell(self, answer: Result<SessionKeys, Error>) -> BytesMut {
        // Who waited may have given up.
        let _ = self.told.send(answer);
        self.greeting.into_rest()
    }
}

/// Opens a connection on `channel` (client): what its subflow says, and what it awaits.
///
/// # Errors
/// When the TLS channel has no keying material.
pub(crate) fn hello(
    channel: Channel,
    mut hello: Hello,
    token: Option<&Token>,
) -> Result<(Parts, Answer), Error> {
    if let Some(token) = token {
        hello.token = token.prove(&channel)?.into();
    }
    let (told, answer) = oneshot::channel();
    let messages = hello.messages > 0;
    let mut parts = channel.into_parts(Some(&Record::Hello(hello)));
    let (peer, is_plain) = (parts.peer, parts.tls.is_none());
    let greeting = Greeting::default();
    parts.awaited = Some(Awaited { greeting, peer, is_plain, messages, told });
    Ok((parts, answer))
}

/// Adds a subflow on `channel` to the connection of `keys` (client); `join` says all but number and
/// proof.
///
/// # Errors
/// When the server refuses, goes away or speaks something else.
pub(crate) async fn join(
    mut channel: Channel,
    keys: &SessionKeys,
    join: Join,
) -> Result<Parts, Error> {
    let tag = keys.tag(&channel, join.subflow)?;
    let proof = tag.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes");
    let join = Join { session: keys.id.0, proof, ..join };
    channel.send(&Record::Join(join)).await?;
    match channel.receive().await? {
        Record::JoinReply(JoinReply {}) => Ok(channel.into_parts(None)),
        other => Err(unexpected(channel.peer(), other, "join reply")),
    }
}

fn unexpected(peer: SocketAddr, record: Record, wanted: &'static str) -> Error {
    match record {
        Record::Refusal(refusal) if refusal.code == refusal::TLS_WANTED => Error::WantsTls { peer },
        Record::Refusal(refusal) => {
            Error::Refused { peer, code: refusal.code, reason: printable(&refusal.reason) }
        }
        _ => Error::Protocol { peer, source: WireError::Unexpected(wanted).into() },
    }
}
