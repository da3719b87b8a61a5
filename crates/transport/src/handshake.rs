//! How a subflow becomes part of a connection: hello for the first, join for the others.
//!
//! A hello is not waited for: what the application writes follows it at once, and the reader of the
//! subflow finds the answer. As the client cannot know what became of it if the subflow breaks off
//! before that, the next subflow says it again with the same nonce, and the server takes it for the
//! connection it has.
//!
//! The first subflow's server answers a hello with the connection's number and a secret. A later
//! subflow proves that it belongs to the connection by a keyed hash of that secret over its own
//! TLS channel, so that neither a guessed number nor a recorded join is worth anything.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use ring::hmac;
use tokio::sync::oneshot;
use weftline_core::wire::{
    Hello, HelloNonce, HelloReply, Join, JoinReply, Preface, Record, WireError, check_join_address,
};

use crate::channel::{self, Channel, Parts};
use crate::error::Error;
use crate::random::random;
use crate::refusal::{self, printable};
use crate::token::Token;

/// The exporter label (RFC 8446 §7.5) under which a join's proof is bound to its channel.
const JOIN_LABEL: &str = "EXPORTER-weftline-join";

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
    /// of a byte stream. Joins are taken at `join_addresses`, if there are any.
    pub(crate) fn reply(&self, messages: u64, join_addresses: &[SocketAddr]) -> Record {
        let (session, join_secret) = (self.id.0, self.secret);
        let join_addresses = join_addresses.to_vec();
        Record::HelloReply(HelloReply { session, join_secret, messages, join_addresses })
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

/// What a server says of a connection that it has accepted.
#[derive(Clone)]
pub(crate) struct Accepted {
    pub(crate) keys: SessionKeys,
    /// The longest message that it takes; 0 if the connection carries a byte stream.
    pub(crate) longest_message: u64,
    /// Where it takes joins; without any, where it was told hello.
    pub(crate) join_addresses: Arc<[SocketAddr]>,
}

impl Accepted {
    /// What the server at `peer` has answered.
    ///
    /// # Errors
    /// When it announces an address for joins that a client must not dial. One of this machine
    /// itself is for a server that was reached there: another one would use the client to reach
    /// what listens on its loopback.
    fn by(peer: SocketAddr, reply: HelloReply) -> Result<Self, Error> {
        let loopback = peer.ip().to_canonical().is_loopback();
        for &address in &reply.join_addresses {
            let refused = |error| Error::Protocol { peer, source: WireError::from(error).into() };
            check_join_address(address, loopback).map_err(refused)?;
        }
        Ok(Self {
            keys: SessionKeys { id: SessionId(reply.session), secret: reply.join_secret },
            longest_message: reply.messages,
            join_addresses: reply.join_addresses.into(),
        })
    }
}

/// The server's answer to a hello.
pub(crate) type Answer = oneshot::Receiver<Result<Accepted, Error>>;

/// The answer to a hello, which comes before anything else on the subflow that said it.
pub(crate) struct Awaited {
    preface: Preface,
    peer: SocketAddr,
    is_plain: bool,
    /// Whether the connection is to carry messages.
    messages: bool,
    told: oneshot::Sender<Result<Accepted, Error>>,
}

impl Awaited {
    /// Takes what has come. When the answer is there it is `Some`.
    ///
    /// # Errors
    /// When the server refuses, announces what it must not, or speaks something else.
    pub(crate) fn take(&mut self, input: &mut BytesMut) -> Result<Option<Accepted>, Error> {
        self.preface.take(&input.split());
        match channel::poll_preface(&mut self.preface, self.peer, self.is_plain)? {
            None => Ok(None),
            Some(Record::HelloReply(reply)) if self.messages && reply.messages == 0 => {
                Err(Error::NoMessages { peer: self.peer })
            }
            Some(Record::HelloReply(reply)) => Accepted::by(self.peer, reply).map(Some),
            Some(other) => Err(unexpected(self.peer, other, "hello reply")),
        }
    }

    /// Tells who waits for it. Returns what has come after it.
    pub(crate) fn tell(self, answer: Result<Accepted, Error>) -> BytesMut {
        // Who waited may have given up.
        let _ = self.told.send(answer);
        self.preface.into_rest()
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
) -> Result<(Parts, Awaited, Answer), Error> {
    if let Some(token) = token {
        hello.token = token.prove(&channel)?.into();
    }
    let (told, answer) = oneshot::channel();
    let messages = hello.messages > 0;
    let parts = channel.into_parts(Some(&Record::Hello(hello)));
    let (peer, is_plain) = (parts.peer, parts.tls.is_none());
    let preface = Preface::default();
    let awaited = Awaited { preface, peer, is_plain, messages, told };
    Ok((parts, awaited, answer))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(peer: &str, join: &str) -> Result<Accepted, Error> {
        let join_addresses = vec![join.parse().expect("an address")];
        let (session, join_secret) = ([1; 16], [2; 32]);
        let reply = HelloReply { session, join_secret, messages: 0, join_addresses };
        Accepted::by(peer.parse().expect("an address"), reply)
    }

    #[test]
    fn only_a_server_on_this_machine_may_announce_its_loopback() {
        for (peer, join) in [
            ("192.0.2.1:7000", "192.0.2.2:7000"),
            ("192.0.2.1:7000", "[2001:db8::1]:7000"),
            ("127.0.0.1:7000", "127.0.0.2:7000"),
            ("127.0.0.1:7000", "[::1]:7000"),
            ("[::ffff:127.0.0.1]:7000", "127.0.0.1:7000"),
            ("127.0.0.1:7000", "192.0.2.2:7000"),
        ] {
            assert!(accepted(peer, join).is_ok(), "{peer} announces {join}");
        }
        for join in ["127.0.0.1:22", "127.1.2.3:22", "[::1]:22", "[::ffff:127.0.0.1]:22"] {
            for peer in ["192.0.2.1:7000", "[2001:db8::1]:7000"] {
                let error = accepted(peer, join).err().expect("refused");
                assert!(matches!(error, Error::Protocol { .. }), "{error}");
                let text = error.to_string();
                assert!(text.starts_with(peer) && text.contains(join), "{text}");
                assert!(text.contains("the client's own machine"), "{text}");
            }
        }
    }
}
