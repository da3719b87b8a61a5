//! A live stream of tiles over a connection of messages: the state machines of
//! `weftline_video::live`, driven as `weftline vr serve` and `vr play` drive them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weftline_core::session::{Incoming, MessageOptions, SendError};
use weftline_core::{ByteCount, Instant, Session};
use weftline_video::live::wire::{Message, Tile, TileDigests};
use weftline_video::live::{Client, Digest, Outgoing, Server, TileOrder};

use super::ends::{CLIENT, SERVER, ZEROS};
use crate::plan::{LiveOutcome, LivePlan};

/// How often counters are read, and heads are looked at (the same as in the programs).
const TICK: Duration = Duration::from_millis(50);

/// The server and its player.
#[derive(Debug)]
pub(super) struct Live {
    plan: Arc<LivePlan>,
    server: Server,
    player: Client,
    /// What the server wants sent, and what the player does, until the connection takes it.
    queues: [VecDeque<Outgoing>; 2],
    digests: Digests,
    /// When the next tick is, once the stream has begun.
    tick: Option<Instant>,
    outcome: LiveOutcome,
}

impl Live {
    pub(super) fn new(plan: &Arc<LivePlan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            server: Server::new(Arc::clone(&plan.content), plan.settings.clone()),
            player: Client::new(plan.player),
            queues: [VecDeque::new(), VecDeque::new()],
            digests: Digests::default(),
            tick: None,
            outcome: LiveOutcome::default(),
        }
    }

    /// The player connects.
    pub(super) const fn begin(&mut self, now: Instant) {
        self.tick = Some(now);
    }

    /// Whether the player's program is stopped.
    pub(super) fn is_stopped(&self, now: Instant) -> bool {
        let at = now.since(Instant::ZERO);
        self.plan.stops.iter().any(|[from, until]| (*from..*until).contains(&at))
    }

    /// When something is due.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let tick = self.tick.filter(|_| !self.is_done())?;
        let player = self.player.poll_timeout().filter(|_| !self.is_stopped(now));
        [self.server.poll_timeout(), player]
            .into_iter()
            .flatten()
            .min()
            .map_or(Some(tick), |at| Some(at.min(tick)))
    }

    /// Does what is due. Returns whether anything was.
    pub(super) fn handle_timeout(&mut self, sessions: &[Session; 2], now: Instant) -> bool {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if !is_due(self.next(now)) {
            return false;
        }
        if is_due(self.tick) {
            self.tick = Some(now + TICK);
        }
        self.read_counters(&sessions[SERVER], now);
        let planned = self.server.handle_timeout(now);
        planned.expect("what is streamed can be planned");
        if !self.is_stopped(now) {
            let at = self.player.position(now).unwrap_or(Duration::ZERO);
            self.player.handle_pose(self.plan.head.at(at), now);
            self.player.handle_timeout(now);
        }
        self.note_events();
        true
    }

    /// Gives the server what the connection has carried so far.
    fn read_counters(&mut self, session: &Session, now: Instant) {
        let queued: ByteCount = self.queues[SERVER].iter().map(Outgoing::bytes).sum();
        let waiting = queued + ByteCount::new(session.unsent());
        self.server.handle_stats(&session.stats(), waiting, now);
    }

    /// Takes what has come to one end.
    pub(super) fn receive(&mut self, end: usize, session: &mut Session, now: Instant) {
        while let Some(incoming) = session.poll_message(now) {
            let handled = match (incoming, end) {
                (Incoming::Message(message), SERVER) => {
                    self.server.handle_message(&message.payload, now)
                }
                (Incoming::Message(message), _) => {
                    self.player.handle_message(&message.payload, now).map(drop)
                }
                (Incoming::Dropped(dropped), CLIENT) => {
                    self.player.handle_dropped(dropped.tag);
                    Ok(())
                }
                (Incoming::Dropped(_), _) => Ok(()),
            };
            handled.expect("both ends are ours and keep to the protocol");
            while let Some(put_off) = self.server.poll_put_off() {
                self.queues[SERVER].iter_mut().for_each(|outgoing| put_off.apply(outgoing));
                session.put_off(put_off.after, put_off.by, now);
            }
        }
        self.note_events();
    }

    /// Gives the connection what one end has to send, as far as there is room.
    pub(super) fn send(&mut self, end: usize, session: &mut Session, now: Instant) {
        if self.tick.is_none() {
            return;
        }
        while session.poll_outcome().is_some() {}
        let queue = &mut self.queues[end];
        if end == SERVER {
            queue.extend(std::iter::from_fn(|| self.server.poll_transmit()));
        } else {
            let messages = std::iter::from_fn(|| self.player.poll_transmit());
            queue.extend(messages.map(Outgoing::Message));
        }
        while let Some(first) = queue.front() {
            let (payload, options) = match first {
                Outgoing::Message(bytes) => (bytes.clone().into(), MessageOptions::default()),
                Outgoing::Tile(order) => {
                    (self.digests.message(order, self.plan.init), options(order))
                }
            };
            match session.send_message(payload, options, now) {
                Ok(_) | Err(SendError::Expired) => drop(queue.pop_front()),
                Err(SendError::Full) => return,
                Err(error) => unreachable!("both ends are ours and keep to the protocol: {error}"),
            }
        }
    }

    fn note_events(&mut self) {
        self.outcome.planned.extend(std::iter::from_fn(|| self.server.poll_event()));
        self.outcome.gops.extend(std::iter::from_fn(|| self.player.poll_event()));
    }

    /// Whether the last GoP has been shown.
    pub(super) fn is_done(&self) -> bool {
        self.player.is_done()
    }

    pub(super) const fn outcome(&self) -> &LiveOutcome {
        &self.outcome
    }
}

/// The digests of so many zeros.
#[derive(Debug, Default)]
struct Digests(BTreeMap<usize, Digest>);

impl Digests {
    /// A tile as it is sent. Its content does not matter here.
    fn message(&mut self, order: &TileOrder, init: usize) -> Bytes {
        let init = &ZEROS[..if order.with_init { init.min(ZEROS.len()) } else { 0 }];
        let segment = vec![0; order.bytes.as_u64() as usize];
        let digests = TileDigests { init: self.of(init), segment: self.of(&segment) };
        Message::Tile(Tile { id: order.id, init, segment: &segment, digests }).to_bytes().into()
    }

    /// There are as many lengths as a package has rungs of tiles.
    fn of(&mut self, zeros: &[u8]) -> Digest {
        *self.0.entry(zeros.len()).or_insert_with(|| Digest::of(zeros))
    }
}

fn options(order: &TileOrder) -> MessageOptions {
    MessageOptions { deadline: Some(order.deadline), tag: order.id.tag() }
}
