//! How a subflow becomes part of a connection: hello for the first, join for the others.
//!
//! The first subflow's server answers a hello with the connection's number and a secret. A later
//! subflow proves that it belongs to the connection by a keyed hash of that secret over its own
//! TLS channel, so that neither a guessed number nor a recorded join is worth anything.

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use weftline_core::wire::{Hello, HelloReply, Join, JoinReply, Record, WireError};

use crate::channel::{Channel, Parts};
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
        Ok(Self { id: SessionId(random()?), secret: random()? })
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

/// Opens a connection on `channel` (client). Returns also the longest message that the server
/// takes, 0 if the connection carries a byte stream.
///
/// # Errors
/// When the server refuses, goes away or speaks something else.
pub(crate) async fn hello(
    mut channel: Channel,
    mut hello: Hello,
    token: Option<&Token>,
) -> Result<(Parts, SessionKeys, u64), Error> {
    if let Some(token) = token {
        hello.token = token.prove(&channel)?.into();
    }
    channel.send(&Record::Hello(hello)).await?;
    match channel.receive().await? {
        Record::HelloReply(reply) => {
            let keys = SessionKeys { id: SessionId(reply.session), secret: reply.join_secret };
            Ok((channel.into_parts(), keys, reply.messages))
        }
        other => Err(unexpected(&channel, other, "hello reply")),
    }
}

/// Adds a subflow on `channel` to the connection of `keys` (client); `join` says all but number and
/// proof.
///
/// # Errors
/// As for [`hello`].
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
        Record::JoinReply(JoinReply {}) => Ok(channel.into_parts()),
        other => Err(unexpected(&channel, other, "join reply")),
    }
}

fn unexpected(channel: &Channel, record: Record, wanted: &'static str) -> Error {
    let peer = channel.peer();
    match record {
        Record::Refusal(refusal) if refusal.code == refusal::TLS_WANTED => Error::WantsTls { peer },
        Record::Refusal(refusal) => {
            Error::Refused { peer, code: refusal.code, reason: printable(&refusal.reason) }
        }
        _ => Error::Protocol { peer, source: WireError::Unexpected(wanted).into() },
    }
}
