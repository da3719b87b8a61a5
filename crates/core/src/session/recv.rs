//! The receiving half of a session: the stream as it arrives, the credit given to the peer, and
//! the acknowledgements due.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{SessionConfig, SessionError};
use crate::Instant;
use crate::path::SubflowId;
use crate::reassembly::{MAX_PIECES, Reassembly};
use crate::wire::{Ack, Data, Echo, INITIAL_CREDIT, MAX_ACK_ECHOES, MAX_ACK_RANGES};

/// At most one acknowledgement per subflow in this time, unless [`ACK_BYTES`] have come: a quarter
/// of the round-trip time of a nearby access point.
const ACK_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes received that are acknowledged at once.
const ACK_BYTES: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct RecvHalf {
    pub(super) stream: Reassembly,
    /// How much the peer may have outstanding above the application's read offset.
    window: u64,
    max_window: u64,
    /// The credit the peer knows of.
    advertised: u64,
    final_offset: Option<u64>,
    /// Payload bytes received on each live subflow.
    received: BTreeMap<SubflowId, u64>,
    unacked: u64,
    last_ack: Instant,
    ack_at: Option<Instant>,
}

impl RecvHalf {
    pub(super) fn new(config: &SessionConfig) -> Self {
        let max_memory = config.memory();
        Self {
            stream: Reassembly::new(),
            window: config.first_window.as_u64().clamp(INITIAL_CREDIT, max_memory),
            max_window: max_memory,
            advertised: INITIAL_CREDIT,
            final_offset: None,
            received: BTreeMap::new(),
            unacked: 0,
            last_ack: Instant::ZERO,
            ack_at: None,
        }
    }

    pub(super) fn subflow_up(&mut self, id: SubflowId) {
        self.received.insert(id, 0);
    }

    pub(super) fn subflow_down(&mut self, id: SubflowId) {
        self.received.remove(&id);
    }

    /// Takes a data record. Returns whether the in-order point moved.
    pub(super) fn handle_data(
        &mut self,
        id: SubflowId,
        data: &Data,
        now: Instant,
    ) -> Result<bool, SessionError> {
        let len = data.payload.len() as u64;
        let end = data.offset + len;
        if end > self.advertised {
            return Err(SessionError::CreditExceeded { end, credit: self.advertised });
        }
        if self.final_offset.is_some_and(|last| end > last) {
            return Err(SessionError::BeyondEnd(end));
        }
        if let Some(received) = self.received.get_mut(&id) {
            *received += len;
        }
        let before = self.stream.in_order();
        self.stream.insert(data.offset, &data.payload);
        if self.stream.above().len() > MAX_PIECES {
            return Err(SessionError::TooFragmented(MAX_PIECES));
        }
        self.unacked += len;
        self.schedule_ack(self.unacked >= ACK_BYTES || self.is_complete(), now);
        Ok(self.stream.in_order() > before)
    }

    pub(super) fn handle_fin(&mut self, offset: u64, now: Instant) -> Result<(), SessionError> {
        let received = self.stream.above().last().map_or(self.stream.in_order(), |r| r.end);
        if self.final_offset.is_some_and(|known| known != offset) || offset < received {
            return Err(SessionError::EndMoved(offset));
        }
        self.final_offset = Some(offset);
        self.schedule_ack(true, now);
        Ok(())
    }

    /// The peer would like this much outstanding; it gets it up to the configured memory.
    pub(super) fn handle_wish(&mut self, wish: u64, now: Instant) {
        let granted = wish.clamp(self.window, self.max_window.max(self.window));
        if granted > self.window {
            self.window = granted;
            self.schedule_ack(true, now);
        }
    }

    /// Frees what the application has read. Credit goes out when an eighth of it is new.
    pub(super) fn consume(&mut self, n: u64, now: Instant) {
        self.stream.consume(n);
        if self.credit() - self.advertised >= self.window / 8 {
            self.schedule_ack(false, now);
        }
    }

    fn credit(&self) -> u64 {
        (self.stream.read_offset() + self.window).max(self.advertised)
    }

    fn schedule_ack(&mut self, at_once: bool, now: Instant) {
        let at = if at_once { now } else { (self.last_ack + ACK_INTERVAL).max(now) };
        self.ack_at = Some(self.ack_at.map_or(at, |planned| planned.min(at)));
    }

    pub(super) const fn ack_at(&self) -> Option<Instant> {
        self.ack_at
    }

    /// Whether an acknowledgement is due; if so it counts as given on every subflow.
    pub(super) fn take_due_ack(&mut self, now: Instant) -> bool {
        let due = self.ack_at.is_some_and(|at| at <= now);
        if due {
            self.ack_at = None;
            self.unacked = 0;
            self.last_ack = now;
        }
        due
    }

    /// The state to acknowledge.
    pub(super) fn ack(&mut self) -> Ack {
        self.advertised = self.credit();
        let echoes = self.received.iter().rev().take(MAX_ACK_ECHOES);
        Ack {
            in_order: self.stream.in_order(),
            credit: self.advertised,
            fin: self.final_offset.is_some(),
            ranges: self.stream.above().iter().take(MAX_ACK_RANGES).collect(),
            echoes: echoes.map(|(id, &received)| Echo { subflow: id.0, received }).collect(),
        }
    }

    /// Whether the peer has ended its stream and all of it is here.
    pub(super) fn is_complete(&self) -> bool {
        self.final_offset == Some(self.stream.in_order())
    }
}
