//! How a peer can break the protocol.

use crate::wire::WireError;

/// How a peer broke the protocol. The connection ends; others are not touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// An acknowledgement of stream bytes that were never sent.
    #[error("the peer acknowledged bytes up to {0} that were never sent")]
    AckOfUnsent(u64),
    /// An acknowledgement of more pieces of the stream than any honest receiver holds.
    #[error("the peer acknowledged more than {0} separate ranges")]
    AckTooFragmented(usize),
    /// Stream bytes beyond the end the peer announced.
    #[error("the peer sent bytes up to {0}, beyond the end of its stream")]
    BeyondEnd(u64),
    /// More stream bytes than the peer had credit for.
    #[error("the peer sent bytes up to {end} with credit up to {credit}")]
    CreditExceeded {
        /// One past the last byte sent.
        end: u64,
        /// The credit it had.
        credit: u64,
    },
    /// A subflow acknowledgement of more bytes than the subflow carried.
    #[error("the peer echoed {1} bytes on subflow {0}, more than were sent")]
    SubflowAckOfUnsent(u64, u64),
    /// Acknowledgements of the stream's bytes that leave out, again and again, what has come on the
    /// subflow.
    #[error("the peer does not say what has arrived on subflow {0}")]
    SubflowAckMissing(u64),
    /// Two different ends of the stream, or one below bytes already received.
    #[error("the peer moved the end of its stream to {0}")]
    EndMoved(u64),
    /// Two messages at one offset.
    #[error("the peer changed the length or tag of its message at {0}")]
    MessageChanged(u64),
    /// A message over offsets of another.
    #[error("the peer's message at {0} overlaps another")]
    MessageOverlap(u64),
    /// A message longer than this side has said it takes.
    #[error("the peer announced a message of {len} bytes, more than the {longest} taken here")]
    MessageTooLong {
        /// Its length.
        len: u64,
        /// The longest taken.
        longest: u64,
    },
    /// Bytes that belong to no message.
    #[error("the peer sent bytes at {0} that belong to no message it announced")]
    NoSuchMessage(u64),
    /// More holes in the stream than any honest sender leaves.
    #[error("the peer's stream has more than {0} holes")]
    TooFragmented(usize),
    /// More messages, or cancels, than may be open at once.
    #[error("the peer has more than {0} messages open")]
    TooManyMessages(usize),
    /// A record about messages in a connection that carries a byte stream.
    #[error("the peer sent a record about messages on a byte stream")]
    NoMessages,
    /// A record that has no place in an open connection.
    #[error("the peer sent a handshake record on an open subflow")]
    UnexpectedRecord,
    /// Bytes that are no records.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl SessionError {
    /// What its reader may do about it, unless its text says so.
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Wire(
                WireError::NotWeftline(_) | WireError::Version(..) | WireError::JoinAddress(_),
            ) => None,
            _ => Some(
                "one end has a fault, or the way between them changes bytes: use TLS, give both ends \
                 the newest version, and report it if it stays",
            ),
        }
    }
}

/// A driver called the session as it must not: nothing has changed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// Bytes were written after [`Session::finish`](super::Session::finish).
    #[error("this direction of the session is finished; nothing is written after that")]
    Finished,
    /// A connection of messages was used as a byte stream.
    #[error("the session carries messages; send_message and poll_message are for these")]
    CarriesMessages,
    /// More was consumed than there was to read.
    #[error("{asked} bytes were consumed, {there} were there to read")]
    ConsumedTooMuch {
        /// How many bytes were consumed.
        asked: u64,
        /// How many could be read.
        there: u64,
    },
    /// The number of a subflow or path has no place in a record.
    #[error("number {0} is too large for the wire; subflows and paths have numbers below 2^62")]
    NumberTooLarge(u64),
    /// The number of a subflow that is up was given to another.
    #[error("subflow number {0} is in use; give each subflow a number of its own")]
    SubflowInUse(u64),
}

/// A scheduler broke its contract. The connection goes on with `min-rtt`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler '{scheduler}' {}; the connection goes on with min-rtt", self.what())]
pub struct SchedulerFault {
    /// The scheduler's name.
    pub scheduler: &'static str,
    /// What it did.
    pub wrong: Wrong,
}

/// How a scheduler broke its contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It assigned these offsets of the stream, and what is wrong with that.
    Assigned(std::ops::Range<u64>, &'static str),
    /// It panicked.
    Panicked,
}

impl SchedulerFault {
    fn what(&self) -> String {
        match &self.wrong {
            Wrong::Assigned(range, reason) => {
                format!("assigned {}..{}, which {reason}", range.start, range.end)
            }
            Wrong::Panicked => "panicked".to_owned(),
        }
    }
}
