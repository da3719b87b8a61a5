//! One end of a connection: its session, its life, and an application that writes and reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::OnceLock;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weftline_core::life::{Cause, Ending, Life};
use weftline_core::rng::Rng;
use weftline_core::session::Event;
use weftline_core::{ByteCount, Instant, PathId, Session, SessionConfig, SubflowId};

use super::Wrong;
use super::plan::{Plan, READ_STEP};

/// A subflow, as an end has it.
#[derive(Debug)]
pub struct Sub {
    pub conn: u64,
    pub path: PathId,
    pub input: BytesMut,
    /// Since when the session finds that nothing arrives.
    pub stalled_since: Option<Instant>,
    /// Whether the path manager wants to know of the next write.
    pub rests: bool,
}

pub struct Node {
    pub which: usize,
    /// Whether what arrives must be what was sent.
    promises: bool,
    pub session: Session,
    pub life: Life,
    pub subs: BTreeMap<SubflowId, Sub>,
    /// Writers that may have something to say.
    pub ready: BTreeSet<SubflowId>,
    /// What the application has written, of how much.
    written: u64,
    bytes: u64,
    /// What it has read, and what the peer has to say.
    pub read: u64,
    expected: u64,
    pub stopped_until: Instant,
    /// Until when it reads slowly, how much at a time, and when next.
    slow: (Instant, u64),
    next_read: Instant,
    memory: u64,
    pub ending: Option<Ending>,
    left: bool,
    /// Each path that came up, and when.
    pub ups: Vec<(PathId, Instant)>,
    /// The longest time between two reads, and when it began.
    pub longest_gap: (Duration, Instant),
    last_read: Option<Instant>,
}

/// What an end sends, over and over: a prime number of bytes, so that nothing which is in its wrong
/// place looks right.
const PATTERN: usize = 65_537;

fn pattern(which: usize) -> &'static [u8] {
    static PATTERNS: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let make = |which| {
        let mut rng = Rng::stream(0, &format!("bytes/{which}"));
        (0..PATTERN).map(|_| rng.next_u64() as u8).collect()
    };
    &PATTERNS.get_or_init(|| [0, 1].map(make))[which]
}

impl Node {
    pub fn new(plan: &Plan, which: usize, now: Instant) -> Self {
        let config = SessionConfig {
            scheduler: plan.scheduler,
            max_memory: ByteCount::new(plan.memory[which]),
            first_window: ByteCount::kib(256),
            peer_timeout: Some(plan.peer_timeout),
            ping_interval: Duration::from_secs(1),
            ..SessionConfig::default()
        };
        Self {
            which,
            promises: !plan.is_garbled(),
            session: Session::new(&config, now),
            life: Life::new(&config, plan.grace),
            subs: BTreeMap::new(),
            ready: BTreeSet::new(),
            written: 0,
            bytes: plan.bytes[which],
            read: 0,
            expected: plan.bytes[1 - which],
            stopped_until: Instant::ZERO,
            slow: (Instant::ZERO, 0),
            next_read: Instant::ZERO,
            memory: plan.memory[which],
            ending: None,
            left: false,
            ups: Vec::new(),
            longest_gap: (Duration::ZERO, Instant::ZERO),
            last_read: None,
        }
    }

    pub fn attach(&mut self, id: SubflowId, path: PathId, conn: u64, now: Instant) {
        let (input, stalled_since, rests) = (BytesMut::new(), None, false);
        self.subs.insert(id, Sub { conn, path, input, stalled_since, rests });
        self.ups.push((path, now));
        self.life.subflow_up();
        self.session.subflow_up(id, path, now).expect("called in turn");
    }

    pub fn detach(&mut self, id: SubflowId, answered: bool, now: Instant) {
        if self.subs.remove(&id).is_some() {
            self.ready.remove(&id);
            self.life.subflow_down(answered, now);
            self.session.subflow_down(id, now);
        }
    }

    /// Takes records that have come on a subflow.
    pub fn take(&mut self, id: SubflowId, records: &[Bytes], now: Instant) {
        let Some(sub) = self.subs.get_mut(&id).filter(|_| !self.life.is_over()) else { return };
        records.iter().for_each(|bytes| sub.input.extend_from_slice(bytes));
        if self.session.handle_input(id, &mut sub.input, now).is_err() {
            self.life.broken();
        }
    }

    /// Does all that is to be done now but for writing to sockets. Returns the subflows about which
    /// the session has changed its mind.
    ///
    /// # Errors
    /// When a byte is not the one that was sent.
    pub fn turn(&mut self, now: Instant) -> Result<Vec<SubflowId>, Wrong> {
        let mut changed = Vec::new();
        loop {
            self.write(now);
            let moved = self.read_all(now)?;
            self.life.handle_progress(&mut self.session, now);
            while let Some(event) = self.session.poll_event() {
                self.life.handle_event(&event, &mut self.session, now);
                let (id, since) = match event {
                    Event::SubflowStalled(id) => (id, Some(now)),
                    Event::SubflowRecovered(id) => (id, None),
                    Event::SchedulerReplaced(fault) => {
                        return Err(Wrong::Scheduler(fault.to_string()));
                    }
                    _ => continue,
                };
                self.subs.get_mut(&id).into_iter().for_each(|sub| sub.stalled_since = since);
                changed.push(id);
            }
            while let Some(id) = self.session.poll_wake() {
                self.ready.insert(id);
            }
            if let Some(ending) = self.life.poll_ending() {
                self.ending = Some(ending);
                // Each writer looks whether it has anything left to say.
                self.ready.extend(self.subs.keys());
            }
            if !moved {
                return Ok(changed);
            }
        }
    }

    fn write(&mut self, now: Instant) {
        if self.life.is_over() || self.left || self.session.is_finished() {
            return;
        }
        while self.written < self.bytes {
            let at = (self.written % PATTERN as u64) as usize;
            let most = (PATTERN - at).min((self.bytes - self.written) as usize);
            let n = self
                .session
                .write(&pattern(self.which)[at..at + most], now)
                .expect("called in turn");
            self.written += n as u64;
            if n < most {
                return;
            }
        }
        self.session.finish(now);
    }

    fn read_all(&mut self, now: Instant) -> Result<bool, Wrong> {
        let mut left = match now < self.slow.0 {
            true if now < self.next_read => 0,
            true => self.slow.1,
            false => u64::MAX,
        };
        let mut moved = false;
        while !self.left && left > 0 && now >= self.stopped_until {
            let chunk = self.session.read_chunk();
            if chunk.is_empty() {
                break;
            }
            let at = (self.read % PATTERN as u64) as usize;
            let n = chunk.len().min(PATTERN - at).min(usize::try_from(left).unwrap_or(usize::MAX));
            if self.promises && chunk[..n] != pattern(1 - self.which)[at..at + n] {
                let text = format!("end {} reads other bytes from {} on", self.which, self.read);
                return Err(Wrong::Bytes(text));
            }
            self.note_read(now);
            self.read += n as u64;
            left -= n as u64;
            self.session.consume(n, now).expect("called in turn");
            self.next_read = now + READ_STEP;
            moved = true;
        }
        if self.promises && self.read > self.expected {
            return Err(Wrong::Double(format!("end {} reads more than was sent", self.which)));
        }
        Ok(moved)
    }

    fn note_read(&mut self, now: Instant) {
        if let Some(last) = self.last_read.replace(now) {
            self.longest_gap = self.longest_gap.max((now.since(last), last));
        }
    }

    /// The application reads no more than `most` bytes at a time until then.
    pub fn read_slowly(&mut self, until: Instant, most: u64) {
        self.slow = (until, most);
    }

    /// Nothing keeps the application from reading any more.
    pub fn read_the_rest(&mut self) {
        (self.stopped_until, self.slow) = (Instant::ZERO, (Instant::ZERO, 0));
    }

    /// The application lets go of the connection.
    pub fn leave(&mut self, now: Instant) {
        self.left = true;
        self.life.leave(&mut self.session, now);
    }

    /// There is only so much memory from now on; `None`: as much as at first.
    pub fn limit_memory(&mut self, limit: Option<u64>, now: Instant) {
        let limit = limit.unwrap_or(self.memory).min(self.memory);
        self.session.set_send_limit(limit, limit, now);
        self.session.set_receive_limit(limit, now);
    }

    pub fn next(&self, now: Instant) -> Option<Instant> {
        let session = self.session.poll_timeout(now).filter(|_| !self.life.is_over());
        let waits = now < self.slow.0 && !self.left && !self.session.read_chunk().is_empty();
        let slow = waits.then_some(self.next_read);
        let reads = (self.stopped_until > now).then_some(self.stopped_until).or(slow);
        session.into_iter().chain(self.life.poll_timeout()).chain(reads).min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        let is_due = self.session.poll_timeout(now).is_some_and(|at| at <= now);
        if is_due && !self.life.is_over() {
            self.session.handle_timeout(now);
        }
        self.life.handle_timeout(&mut self.session, now);
    }

    /// What is to be written to the socket of a subflow that has so much room. Nothing more will be
    /// said on it if that is nothing and the connection is over.
    pub fn transmit(&mut self, id: SubflowId, room: u64, now: Instant) -> Vec<Bytes> {
        let mut out = VecDeque::new();
        self.session.handle_room(id, room);
        let _ = self.session.poll_transmit(id, &mut out, now);
        out.into()
    }

    /// Whether memory keeps to its bounds.
    pub fn check_memory(&self) -> Result<(), Wrong> {
        let held = self.session.stats().receive_memory.as_u64();
        // What was granted stays granted; a part of a record more.
        let most = 2 * self.memory.max(1 << 20) + (1 << 20);
        match held <= most && self.session.send_held() <= most {
            true => Ok(()),
            false => Err(Wrong::Grows(format!("end {} holds {held} received bytes", self.which))),
        }
    }

    pub fn read_to_end(&self) -> bool {
        self.read == self.expected
    }

    /// How many bytes it says were delivered and received, if it failed for want of a peer.
    pub fn told(&self) -> Option<(u64, u64)> {
        match &self.ending {
            Some(Ending::Failed(
                Cause::NoPath { delivered, received, .. }
                | Cause::PeerLost { delivered, received, .. },
            )) => Some((*delivered, *received)),
            _ => None,
        }
    }

    /// Bytes of the peer's stream that are here in order.
    pub fn in_order(&self) -> u64 {
        self.session.stats().delivered
    }
}
