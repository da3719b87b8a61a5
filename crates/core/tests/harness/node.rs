//! One end of the connection: its session, the application on it, and how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BytesMut;
use weftline_core::path::SubflowId;
use weftline_core::session::Event;
use weftline_core::{Bitrate, Instant, Session, SessionConfig};

use super::{DRAIN_TIME, START};

/// How a node's part in the connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both directions were finished and acknowledged.
    Closed,
    /// The process is gone, and everything in it.
    Crashed,
    /// It was without any subflow for the grace time: what the error says.
    NoPath {
        /// Bytes of ours that the peer has acknowledged.
        acknowledged: u64,
        /// Bytes of the peer's that have come.
        received: u64,
    },
    /// The peer does not know the connection any more.
    Refused,
    /// One of the two has ended it at once.
    Reset,
}

pub(super) struct Node {
    pub(super) session: Session,
    /// What has arrived of incomplete records on each live subflow.
    pub(super) input: BTreeMap<SubflowId, BytesMut>,
    write_total: u64,
    written: u64,
    pub(super) read: u64,
    finished: bool,
    /// How much more the application writes and reads for the time being.
    pub(super) may_write: u64,
    pub(super) may_read: u64,
    /// The last write was refused: the application waits for the event.
    write_blocked: bool,
    pub(super) end: Option<End>,
    pub(super) ended_at: Instant,
    /// After the end the peer has said on a subflow that it is over, too.
    answered: bool,
    pub(super) no_path_since: Option<Instant>,
    pub(super) last_read_at: Instant,
    /// Events, wake-ups and timeouts so far.
    pub(super) calls: u64,
}

impl Node {
    pub(super) fn new(config: &SessionConfig, write_total: u64) -> Self {
        Self {
            session: Session::new(config, Instant::ZERO),
            input: BTreeMap::new(),
            write_total,
            written: 0,
            read: 0,
            finished: false,
            may_write: u64::MAX,
            may_read: u64::MAX,
            write_blocked: false,
            end: None,
            ended_at: Instant::ZERO,
            answered: false,
            no_path_since: Some(Instant::ZERO),
            last_read_at: Instant::ZERO,
            calls: 0,
        }
    }

    pub(super) const fn is_finished(&self) -> bool {
        self.finished
    }

    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.end == Some(End::Crashed)
    }

    pub(super) fn end_with(&mut self, end: End, now: Instant) {
        if self.end.is_none() {
            self.end = Some(end);
            self.ended_at = now;
        }
    }

    /// Whether a new subflow is of use: one that has closed says its last acknowledgement on it,
    /// for a while.
    pub(super) fn wants_path(&self, now: Instant) -> bool {
        match self.end {
            None => true,
            Some(End::Closed) => {
                self.input.is_empty() && !self.answered && now.since(self.ended_at) < DRAIN_TIME
            }
            Some(_) => false,
        }
    }

    /// The subflow is gone at this end; whether the peer had said all on it.
    pub(super) fn down(&mut self, id: SubflowId, said_all: bool, now: Instant) {
        if self.input.remove(&id).is_some() {
            self.answered |= self.end.is_some() && said_all;
            self.session.subflow_down(id, now);
            if self.input.is_empty() {
                self.no_path_since = Some(now);
            }
        }
    }

    /// When the connection is given up for want of a path.
    pub(super) fn gives_up_at(&self, grace: Option<Duration>) -> Option<Instant> {
        let since = self.no_path_since.filter(|_| self.end.is_none())?;
        Some(since + grace?)
    }

    /// When an end that is over waits no longer for its peer to close the subflows.
    pub(super) fn hangs_up_at(&self) -> Option<Instant> {
        let waits = self.end.is_some() && !self.input.is_empty();
        waits.then(|| self.ended_at + DRAIN_TIME)
    }

    /// What a driver makes of the session's news.
    pub(super) fn take(&mut self, event: &Event, now: Instant) {
        self.calls += 1;
        match event {
            Event::Closed => self.end_with(End::Closed, now),
            Event::Reset(..) => self.end_with(End::Reset, now),
            Event::Writable => self.write_blocked = false,
            _ => {}
        }
    }

    /// Writes what there is room for and reads what there is; returns whether anything moved.
    pub(super) fn run_application(&mut self, now: Instant, pace: Option<Bitrate>) -> bool {
        if matches!(self.end, Some(End::Crashed | End::NoPath { .. } | End::Refused | End::Reset)) {
            return false;
        }
        let written = now >= START && self.end.is_none() && self.write(now, pace);
        self.read(now) | written
    }

    fn write(&mut self, now: Instant, pace: Option<Bitrate>) -> bool {
        let mut moved = false;
        // Whole milliseconds: an application that writes at every event would write single bytes.
        let written_for = Duration::from_millis(now.since(START).as_millis() as u64);
        let paced = pace.map_or(u64::MAX, |rate| rate.bytes_in(written_for).as_u64());
        let allowed = self.write_total.min(paced).min(self.written.saturating_add(self.may_write));
        while self.written < allowed && !self.write_blocked {
            // A little more than there is room for, so that it is refused and waits.
            let end = allowed.min(self.written + (64 << 10).min(self.session.room() + 1));
            let data: Vec<u8> = (self.written..end).map(byte_at).collect();
            let n = self.session.write(&data, now).expect("called in turn");
            self.written += n as u64;
            self.may_write -= n as u64;
            moved |= n > 0;
            self.write_blocked = n == 0;
        }
        if self.written == self.write_total && !self.finished {
            self.finished = true;
            self.session.finish(now);
            moved = true;
        }
        moved
    }

    fn read(&mut self, now: Instant) -> bool {
        let mut moved = false;
        loop {
            let chunk = self.session.read_chunk();
            let n = chunk.len().min(usize::try_from(self.may_read).unwrap_or(usize::MAX));
            if n == 0 {
                return moved;
            }
            assert!(
                chunk[..n].iter().zip(self.read..).all(|(&b, offset)| b == byte_at(offset)),
                "bytes after {} are wrong",
                self.read
            );
            self.read += n as u64;
            self.may_read -= n as u64;
            self.session.consume(n, now).expect("called in turn");
            self.last_read_at = now;
            moved = true;
        }
    }
}

fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 11) as u8
}
