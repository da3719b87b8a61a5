//! What the application does with a connection of messages.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use weftline_core::session::{
    Incoming, MAX_OPEN_MESSAGES, MessageId, MessageOptions, MessageOutcome, SendError,
};

use super::{Effects, End, Inner, Shared};
use crate::error::Error;

/// Ends of messages kept for the application. A message is taken for sending while there is room
/// for the ends of all that may be open, so that none is lost.
const OUTCOMES: usize = 2 * MAX_OPEN_MESSAGES;

/// Why a message was not taken for sending.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MessageError {
    /// The connection failed.
    #[error(transparent)]
    Failed(Arc<Error>),
    /// This message cannot be sent, or not now.
    #[error(transparent)]
    Refused(#[from] SendError),
}

impl Shared {
    /// Whether the connection carries messages.
    pub(crate) fn carries_messages(&self) -> bool {
        self.see(|inner| inner.session.has_messages())
    }

    /// Queues a message; `None` while there is no room: `waker` is woken when that changes.
    pub(crate) fn send_message(
        &self,
        waker: Option<&Waker>,
        payload: &Bytes,
        options: MessageOptions,
    ) -> Option<Result<MessageId, MessageError>> {
        self.with(|inner, now| {
            match &inner.end {
                Some(End::Failed(error)) => {
                    return Some(Err(MessageError::Failed(Arc::clone(error))));
                }
                Some(End::Closed) => return Some(Err(SendError::Finished.into())),
                None => {}
            }
            inner.reserve_send(payload.len() as u64, now);
            let room = inner.outcomes.as_ref().map_or(OUTCOMES, mpsc::Sender::capacity);
            let sent = match room > MAX_OPEN_MESSAGES {
                true => inner.session.send_message(payload.clone(), options, now),
                false => Err(SendError::Full),
            };
            match (sent, waker) {
                (Ok(id), _) => Some(Ok(id)),
                (Err(SendError::Full), Some(waker)) => {
                    inner.writer = Some(waker.clone());
                    None
                }
                (Err(error), _) => Some(Err(error.into())),
            }
        })
    }

    /// Drops a message whose outcome is open.
    pub(crate) fn cancel_message(&self, id: MessageId) -> bool {
        self.with(|inner, now| inner.end.is_none() && inner.session.cancel_message(id, now))
    }

    /// Gives messages whose deadline is later than `after` from now so much more time.
    pub(crate) fn put_off(&self, after: Duration, by: Duration) {
        self.with(|inner, now| {
            if inner.end.is_none() {
                inner.session.put_off(now + after, by, now);
            }
        });
    }

    /// Bytes of messages that no path has been given.
    pub(crate) fn unsent(&self) -> u64 {
        self.see(|inner| inner.session.unsent())
    }

    /// The next message; `Some(Ok(None))` at the end, `None` when there is none now: `waker` is
    /// woken when that changes.
    pub(crate) fn receive(&self, waker: &Waker) -> Option<Result<Option<Incoming>, Arc<Error>>> {
        self.with(|inner, now| {
            if let Some(incoming) = inner.session.poll_message(now) {
                return Some(Ok(Some(incoming)));
            }
            match &inner.end {
                _ if inner.session.is_read_to_end() => Some(Ok(None)),
                Some(End::Failed(error)) => Some(Err(Arc::clone(error))),
                Some(End::Closed) => Some(Ok(None)),
                None => {
                    inner.reader = Some(waker.clone());
                    None
                }
            }
        })
    }

    /// The ends of messages from here on. Only the newest receiver gets them.
    pub(crate) fn open_outcomes(&self) -> mpsc::Receiver<MessageOutcome> {
        let (to, from) = mpsc::channel(OUTCOMES);
        self.with(|inner, _| inner.outcomes = Some(to));
        from
    }

    /// The application has taken an end of a message, or lets go of them.
    pub(crate) fn took_outcome(&self) {
        if self.has_panicked() {
            return;
        }
        self.with(|inner, _| inner.took_outcome = true);
    }
}

impl Inner {
    /// Hands on the ends of messages.
    pub(super) fn drain_outcomes(&mut self, effects: &mut Effects) {
        while let Some(ended) = self.session.poll_outcome() {
            // It fails when the application does not want them any more.
            self.outcomes =
                self.outcomes.take().filter(|outcomes| outcomes.try_send(ended).is_ok());
        }
        if self.end.is_some() {
            self.outcomes = None;
        }
        if std::mem::take(&mut self.took_outcome) {
            self.outcomes = self.outcomes.take().filter(|outcomes| !outcomes.is_closed());
            effects.wakers.extend(self.writer.take());
        }
    }
}
