//! The application's end of a connection of messages.

use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use weftline_core::ByteCount;
use weftline_core::session::{Incoming, MessageId, MessageOptions, MessageOutcome, SendError};

use crate::clock;
use crate::connection::{Connection, Handle};
use crate::control::Control;
use crate::coop::CoopBudget;
use crate::error::Error;
pub use crate::shared::MessageError;
use crate::shared::Shared;

/// Whole messages in each direction, over all the paths.
///
/// A message is handed over as soon as all of it is there, even while an earlier one is missing.
/// It may have a deadline, past which nothing of it is sent any more, and may be cancelled; the
/// peer is told of it, and both ends agree on whether it was delivered. Messages leave in the
/// order in which they were given to [`send`](Self::send).
///
/// Dropping it (both halves of it) does what dropping a [`Connection`] does.
#[derive(Debug)]
pub struct Messages {
    sender: MessageSender,
    receiver: MessageReceiver,
}

/// The sending half of [`Messages`].
#[derive(Debug)]
pub struct MessageSender {
    handle: Arc<Handle>,
    coop: CoopBudget,
}

/// The receiving half of [`Messages`].
#[derive(Debug)]
pub struct MessageReceiver {
    handle: Arc<Handle>,
    coop: CoopBudget,
}

/// How messages end, as it becomes known. Does not keep the connection open.
pub struct MessageOutcomes {
    inbox: mpsc::Receiver<MessageOutcome>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for MessageOutcomes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageOutcomes").finish_non_exhaustive()
    }
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// How long after the call of `send` the message is dropped if bytes of it would still have to
    /// be sent, for the first time or again; by default never.
    pub deadline: Option<Duration>,
    /// What the application calls the message, below 2^62. The peer gets it with the message, or
    /// with the notice that it was dropped.
    pub tag: u64,
}

impl Messages {
    /// Takes a message for sending; waits while there is no memory for it or too many are open.
    /// What is given as [`Bytes`] is not copied. Cancel safe: a call that is dropped has sent
    /// nothing.
    ///
    /// # Errors
    /// The connection failed; or the message is empty, too long for the peer, has a tag too
    /// large, or waited past its deadline: it was not sent, and has no outcome.
    pub async fn send(
        &mut self,
        payload: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<MessageId, MessageError> {
        self.sender.send(payload, options).await
    }

    /// See [`MessageSender::try_send`].
    ///
    /// # Errors
    /// As there.
    pub fn try_send(
        &mut self,
        payload: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<MessageId, MessageError> {
        self.sender.try_send(payload, options)
    }

    /// The next message that is there, or notice of one that was dropped; `None` when the peer has
    /// shut down its direction and everything was taken. Cancel safe.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn recv(&mut self) -> Result<Option<Incoming>, Arc<Error>> {
        self.receiver.recv().await
    }

    /// See [`MessageSender::cancel`].
    pub fn cancel(&self, id: MessageId) -> bool {
        self.sender.cancel(id)
    }

    /// See [`MessageSender::put_off`].
    pub fn put_off(&self, after: Duration, by: Duration) {
        self.sender.put_off(after, by);
    }

    /// See [`MessageSender::unsent`].
    pub fn unsent(&self) -> ByteCount {
        self.sender.unsent()
    }

    /// See [`MessageSender::outcomes`].
    pub fn outcomes(&self) -> MessageOutcomes {
        self.sender.outcomes()
    }

    /// Half-closes: the peer gets what was sent so far, then the end.
    pub fn shutdown(&mut self) {
        self.sender.shutdown();
    }

    /// The two halves, for as long as this is borrowed.
    pub(crate) fn halves(&mut self) -> (&mut MessageSender, &mut MessageReceiver) {
        (&mut self.sender, &mut self.receiver)
    }

    /// The two halves, for two tasks.
    pub fn into_split(self) -> (MessageSender, MessageReceiver) {
        (self.sender, self.receiver)
    }
}

impl Deref for Messages {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.sender.handle.0
    }
}

impl MessageSender {
    /// See [`Messages::send`].
    ///
    /// # Errors
    /// As there.
    pub async fn send(
        &mut self,
        payload: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<MessageId, MessageError> {
        let payload = payload.into();
        let deadline = options.deadline.map(|after| clock::now() + after);
        let options = MessageOptions { deadline, tag: options.tag };
        let Self { handle, coop } = self;
        let sending = poll_fn(|cx| {
            ready!(coop.poll(cx));
            let sent = handle.0.shared.send_message(Some(cx.waker()), &payload, options);
            sent.map_or(Poll::Pending, Poll::Ready)
        });
        let sent = match deadline {
            None => sending.await,
            Some(at) => tokio::time::timeout_at(clock::to_tokio(at), sending)
                .await
                .unwrap_or(Err(SendError::Expired.into())),
        };
        coop.count(payload.len());
        sent
    }

    /// As [`send`](Self::send) without waiting.
    ///
    /// # Errors
    /// As there, and [`SendError::Full`] when it would have to wait.
    pub fn try_send(
        &mut self,
        payload: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<MessageId, MessageError> {
        let deadline = options.deadline.map(|after| clock::now() + after);
        let options = MessageOptions { deadline, tag: options.tag };
        let sent = self.handle.0.shared.send_message(None, &payload.into(), options);
        sent.unwrap_or(Err(SendError::Full.into()))
    }

    /// Drops a message, all of it that has not been sent. Returns whether its outcome was open;
    /// whether it was delivered nevertheless, [`outcomes`](Self::outcomes) tells.
    pub fn cancel(&self, id: MessageId) -> bool {
        self.handle.0.shared.cancel_message(id)
    }

    /// Gives the messages that were sent so far, and whose deadline is later than `after` from now, so
    /// much more time: whoever waits for them waits longer. One whose deadline has passed stays dropped.
    pub fn put_off(&self, after: Duration, by: Duration) {
        self.handle.0.shared.put_off(after, by);
    }

    /// Bytes of messages that no path has been given yet.
    pub fn unsent(&self) -> ByteCount {
        ByteCount::new(self.handle.0.shared.unsent())
    }

    /// How messages end from here on. While it exists it has to be read: `send` waits when 16,384
    /// ends have not been taken. A second call ends the first one's.
    pub fn outcomes(&self) -> MessageOutcomes {
        let shared = Arc::clone(&self.handle.0.shared);
        MessageOutcomes { inbox: shared.open_outcomes(), shared }
    }

    /// Half-closes: the peer gets what was sent so far, then the end.
    pub fn shutdown(&mut self) {
        self.handle.0.shared.finish();
    }

    /// The connection's counters, events and end.
    pub fn control(&self) -> Control {
        self.handle.0.clone()
    }
}

impl MessageReceiver {
    /// See [`Messages::recv`].
    ///
    /// # Errors
    /// As there.
    pub async fn recv(&mut self) -> Result<Option<Incoming>, Arc<Error>> {
        let Self { handle, coop } = self;
        let receiving = poll_fn(|cx| {
            ready!(coop.poll(cx));
            handle.0.shared.receive(cx.waker()).map_or(Poll::Pending, Poll::Ready)
        });
        let received = receiving.await;
        coop.count(match &received {
            Ok(Some(Incoming::Message(message))) => message.payload.len(),
            _ => 0,
        });
        received
    }

    /// The connection's counters, events and end.
    pub fn control(&self) -> Control {
        self.handle.0.clone()
    }
}

impl MessageOutcomes {
    /// The outcome of the next message that ends; `None` when the connection is over, or another
    /// [`MessageSender::outcomes`] was called. Messages open when a connection fails have no
    /// outcome. Cancel safe.
    pub async fn next(&mut self) -> Option<MessageOutcome> {
        let ended = self.inbox.recv().await;
        self.shared.took_outcome();
        ended
    }
}

impl Drop for MessageOutcomes {
    fn drop(&mut self) {
        self.inbox.close();
        self.shared.took_outcome();
    }
}

impl Connection {
    /// Whether the connection carries messages rather than a byte stream: whether the client was
    /// built with [`ClientBuilder::messages`](crate::ClientBuilder::messages).
    pub fn carries_messages(&self) -> bool {
        self.shared.carries_messages()
    }

    /// The connection as what it is when it carries messages.
    ///
    /// # Errors
    /// It carries a byte stream, and is given back.
    pub fn into_messages(self) -> Result<Messages, Self> {
        if !self.carries_messages() {
            return Err(self);
        }
        let handle = self.into_handle();
        let sender = MessageSender { handle: Arc::clone(&handle), coop: CoopBudget::default() };
        let receiver = MessageReceiver { handle, coop: CoopBudget::default() };
        Ok(Messages { sender, receiver })
    }
}
