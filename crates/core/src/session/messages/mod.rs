//! Messages: pieces of the stream that are handed over whole, each as soon as all of it is there,
//! and that the sender may drop (docs/protocol.md, Messages).
//!
//! [`outbox::Outbox`] is what the sender knows of its messages beside the stream's bytes,
//! [`inbox::Inbox`] what the receiver has of the peer's. A session of a byte stream has neither.

pub(super) mod inbox;
pub(super) mod outbox;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::{Event, Session, SessionError};
use crate::Instant;
use crate::path::SubflowId;
use crate::wire::{Cancel, DeliveryStatus};

/// Most messages that are begun and not yet taken by the peer's application, in each direction.
pub const MAX_OPEN_MESSAGES: usize = 16_384;
/// The longest message that a side takes if it does not say otherwise, bytes.
pub const DEFAULT_LONGEST_MESSAGE: u64 = 16 << 20;
/// The longest message that can be agreed upon, bytes: each side has memory for at least one.
pub const MAX_LONGEST_MESSAGE: u64 = 1 << 30;

/// What the two ends of a connection of messages have told each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// The longest message that the peer takes, bytes.
    pub longest_sent: u64,
    /// The longest message that this side takes, bytes. It has memory for at least that much.
    pub longest_received: u64,
}

impl MessageLimits {
    /// Both within what can be agreed upon.
    pub(super) fn clamped(self) -> Self {
        let clamp = |longest: u64| longest.clamp(1, MAX_LONGEST_MESSAGE);
        Self {
            longest_sent: clamp(self.longest_sent),
            longest_received: clamp(self.longest_received),
        }
    }
}

/// A message of one direction: the offset of its first byte in the stream. Later messages have
/// larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageOptions {
    /// When the message is dropped if bytes of it would still have to be sent. The peer is not
    /// told. `earliest` and `fbdt` send nothing more of one that cannot be whole by then.
    pub deadline: Option<Instant>,
    /// What the application calls the message, below 2^62. The peer's application gets it with the
    /// message, or with the notice that the message was dropped.
    pub tag: u64,
}

/// A message received whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The message.
    pub id: MessageId,
    /// What the sender's application calls it.
    pub tag: u64,
    /// Its bytes.
    pub payload: Bytes,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It arrived whole; the receiver's application gets it.
    Delivered,
    /// The sender's application dropped it.
    Cancelled,
    /// Its deadline passed before all of it was sent.
    Expired,
}

/// The end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageOutcome {
    /// The message.
    pub id: MessageId,
    /// What the sender's application calls it.
    pub tag: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// What the receiver's application gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The peer dropped a message, which will not come any more.
    Dropped(MessageOutcome),
    /// A message.
    Message(Message),
}

/// Why a message was not taken for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// A message has at least one byte.
    #[error("an empty message cannot be sent; say it with a byte")]
    Empty,
    /// The deadline has passed already.
    #[error("the message's deadline has passed")]
    Expired,
    /// This direction was finished.
    #[error("this direction of the connection is shut down")]
    Finished,
    /// There is no room now: [`Event::Writable`] tells when there is.
    #[error("the memory for messages to send is full")]
    Full,
    /// The session carries a byte stream.
    #[error("the connection carries a byte stream, not messages")]
    NotMessages,
    /// The tag does not fit the wire.
    #[error("the tag {0} is larger than 2^62 - 1")]
    Tag(u64),
    /// The peer takes no message of that length.
    #[error("a message of {len} bytes is longer than the {longest} that the peer takes")]
    TooLong {
        /// Its length, bytes.
        len: u64,
        /// The longest message there can be, bytes.
        longest: u64,
    },
}

impl Session {
    /// Whether the connection carries messages rather than a byte stream.
    pub const fn has_messages(&self) -> bool {
        self.send.outbox.is_some()
    }

    /// The peer has said what messages it takes, after the session began. Has no effect in a
    /// session of a byte stream.
    pub fn set_longest_message(&mut self, longest_sent: u64) {
        if let Some(outbox) = &mut self.send.outbox {
            outbox.set_longest(longest_sent.clamp(1, MAX_LONGEST_MESSAGE));
        }
    }

    /// Queues a message behind those before it. Its bytes are kept, not copied, if they are many.
    ///
    /// # Errors
    ///
    /// It was not taken. [`SendError::Full`] is over after [`Event::Writable`].
    pub fn send_message(
        &mut self,
        payload: Bytes,
        options: MessageOptions,
        now: Instant,
    ) -> Result<MessageId, SendError> {
        let id = self.send.send_message(payload, options, now)?;
        self.wake_idle();
        self.update(now);
        Ok(id)
    }

    /// Drops a message, all of it that has not arrived. Returns whether there was anything to drop:
    /// `false` means that its outcome is known already or about to be. It may still turn out
    /// to have been delivered; [`poll_outcome`](Self::poll_outcome) tells.
    pub fn cancel_message(&mut self, id: MessageId, now: Instant) -> bool {
        let dropped = self.send.cancel_message(id, Outcome::Cancelled);
        if dropped {
            self.wake_all();
            self.update(now);
        }
        dropped
    }

    /// Gives all messages whose deadline is later than `after`, and has not passed, so much more time.
    pub fn put_off(&mut self, after: Instant, by: Duration, now: Instant) {
        let outbox = self.send.outbox.as_mut();
        if outbox.is_some_and(|outbox| outbox.put_off(after, by)) {
            // What could not be whole in time may be now.
            self.wake_all();
            self.update(now);
        }
    }

    /// The next message that is there, or the next notice of a dropped one.
    pub fn poll_message(&mut self, now: Instant) -> Option<Incoming> {
        let incoming = self.recv.take_message(now)?;
        self.readable_told = false;
        self.acknowledge(now);
        self.update(now);
        Some(incoming)
    }

    /// The end of the next message of ours: to be drained like [`poll_event`](Self::poll_event).
    pub fn poll_outcome(&mut self) -> Option<MessageOutcome> {
        self.send.outbox.as_mut()?.poll_outcome()
    }

    /// Bytes written that no subflow has been given yet.
    pub fn unsent(&self) -> u64 {
        self.send.unsent()
    }

    // ---- the session's side ----

    /// Drops a message of the peer's and has the cancel answered where it came from.
    pub(super) fn handle_cancel(
        &mut self,
        id: SubflowId,
        cancel: &Cancel,
        now: Instant,
    ) -> Result<(), SessionError> {
        let Some(status) = self.recv.handle_cancel(cancel, now)? else { return Ok(()) };
        let Some(control) = self.control.get_mut(&id) else { return Ok(()) };
        if control.delivery_statuses.len() >= MAX_OPEN_MESSAGES {
            return Err(SessionError::TooManyMessages(MAX_OPEN_MESSAGES));
        }
        control.delivery_statuses.push(status);
        self.wake(id);
        Ok(())
    }

    pub(super) fn handle_delivery_status(
        &mut self,
        status: DeliveryStatus,
    ) -> Result<(), SessionError> {
        let outbox = self.send.outbox.as_mut().ok_or(SessionError::NoMessages)?;
        if outbox.handle_delivery_status(status) {
            self.wake_all();
        }
        Ok(())
    }

    /// Drops what is past its deadline and would have to be sent.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.send.expire(now) {
            self.wake_all();
        }
    }

    /// Updates what any change entails in a session of messages.
    pub(super) fn update_messages(&mut self) {
        if self.send.take_message_room() {
            self.events.push_back(Event::Writable);
        }
        let Some(outbox) = &mut self.send.outbox else { return };
        if outbox.take_new_cancels() {
            self.wake_all();
        }
    }
}
