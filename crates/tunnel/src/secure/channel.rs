//! A neighbour: its key, the sessions with it, and the handshakes that make them.
//!
//! The opener makes a session when there is none, when nothing is heard for [`SILENCE`] (the other
//! side may have been started anew), and when keys are used up. The answerer goes over to a new
//! session with the first datagram that comes in it: an opening that was recorded and comes again
//! changes nothing. What is on its way in the session before is still taken.

use std::collections::VecDeque;
use std::time::Duration;

use snow::HandshakeState;
use weftline_core::Instant;

use super::Refused;
use super::rising::{Allowance, Rising};
use super::session::{Nonce, RENEW_AFTER, Session};
use crate::key::PublicKey;

/// Silence after which the opener tries another handshake; nodes greet each other six times in it.
pub(crate) const SILENCE: Duration = Duration::from_millis(600);
/// The first wait for an answer; each further one is twice as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// An opening is repeated as it is for so long: an answer to any of them will do, even if it takes
/// longer than the wait.
const SAME_OPENING: Duration = Duration::from_secs(5);
/// The age at which keys are made anew.
const RENEW_AGE: Duration = Duration::from_secs(120);
/// Sessions that were answered for and not used yet, at most.
const PENDING: usize = 4;
/// Openings of a neighbour that are answered in a row, and the time after which there may be another
/// one: it makes one each 5 s, or at its start. Each costs about 0.2 ms.
const OPENINGS: Allowance = Allowance::new(16, Duration::from_millis(200));

/// Who begins handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// This side: it is further from the gateway.
    Opener,
    /// The other side.
    Answerer,
}

/// An opening that waits for its answer.
pub(super) struct Opening {
    pub(super) noise: HandshakeState,
    pub(super) index: u32,
    pub(super) datagram: Vec<u8>,
    pub(super) begun: Instant,
    next: Instant,
    wait: Duration,
}

impl Opening {
    pub(super) fn new(noise: HandshakeState, index: u32, datagram: Vec<u8>, now: Instant) -> Self {
        Self { noise, index, datagram, begun: now, next: now, wait: FIRST_WAIT }
    }
}

/// What a datagram did to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Bytes of the frame.
    pub(crate) length: usize,
    /// Whether a session began with it.
    pub(crate) begun: bool,
    /// Whether it came in the newest session.
    pub(crate) current: bool,
    /// Its number in the session.
    pub(crate) counter: u64,
}

/// A neighbour and the sessions with it.
pub(crate) struct Channel {
    pub(super) role: Role,
    pub(super) peer: PublicKey,
    pub(super) opening: Option<Opening>,
    current: Option<Session>,
    previous: Option<Session>,
    pending: VecDeque<Session>,
    heard: Option<Instant>,
    /// The times in our openings.
    pub(super) times: Rising,
    /// The newest opening that was answered, and the answer.
    answered: Option<Answered>,
    allowance: Allowance,
}

/// An opening that was answered.
struct Answered {
    time: u64,
    opening: Vec<u8>,
    answer: Vec<u8>,
}

impl Channel {
    pub(crate) fn new(role: Role, peer: PublicKey) -> Self {
        let pending = VecDeque::new();
        Self {
            role,
            peer,
            opening: None,
            current: None,
            previous: None,
            pending,
            heard: None,
            times: Rising::default(),
            answered: None,
            allowance: OPENINGS,
        }
    }

    /// Whether an opening that the neighbour made at `time` is to be answered: only what is newer
    /// than all that were. The newest itself is answered as it was, should the answer have been
    /// lost: then the answer is in `out`.
    ///
    /// # Errors
    /// [`Refused::Old`] and [`Refused::Flood`].
    pub(super) fn admit(
        &mut self,
        time: u64,
        opening: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<bool, Refused> {
        if let Some(answered) = &self.answered {
            if answered.opening == opening {
                out.extend_from_slice(&answered.answer);
                return Ok(false);
            }
            if time <= answered.time {
                return Err(Refused::Old);
            }
        }
        if self.allowance.take(now) { Ok(true) } else { Err(Refused::Flood) }
    }

    /// Remembers what was answered.
    pub(super) fn answered(&mut self, time: u64, opening: &[u8], answer: &[u8]) {
        let (opening, answer) = (opening.to_vec(), answer.to_vec());
        self.answered = Some(Answered { time, opening, answer });
    }

    /// Whether there is a session in which something came lately.
    pub(crate) fn is_up(&self, now: Instant) -> bool {
        self.current.is_some() && !self.is_silent(now)
    }

    fn is_silent(&self, now: Instant) -> bool {
        self.heard.is_none_or(|heard| now >= heard + SILENCE)
    }

    /// Whether a handshake is due.
    pub(super) fn wants_handshake(&self, now: Instant) -> bool {
        let Some(current) = &self.current else { return true };
        self.is_silent(now) || now >= current.begun + RENEW_AGE || current.used() >= RENEW_AFTER
    }

    /// When something is due of a channel that this side opens.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.role == Role::Answerer {
            return None;
        }
        if let Some(opening) = &self.opening {
            return Some(opening.next);
        }
        let Some(current) = &self.current else { return Some(Instant::ZERO) };
        let heard = self.heard.unwrap_or(current.begun);
        Some((heard + SILENCE).min(current.begun + RENEW_AGE))
    }

    /// Appends the opening to `out` if it is to be sent now.
    pub(super) fn repeat_opening(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Some(opening) = self.opening.as_mut().filter(|opening| now >= opening.next) else {
            return false;
        };
        opening.next = now + opening.wait;
        opening.wait = (2 * opening.wait).min(LONGEST_WAIT);
        out.extend_from_slice(&opening.datagram);
        true
    }

    /// Forgets an opening that is too old, or that is no longer wanted.
    pub(super) fn drop_old_opening(&mut self, now: Instant) {
        if self.opening.as_ref().is_some_and(|opening| now >= opening.begun + SAME_OPENING) {
            self.opening = None;
        }
    }

    /// Goes over to a session that this side opened.
    pub(super) fn begin(&mut self, session: Session, now: Instant) {
        self.opening = None;
        self.heard = Some(now);
        let before = self.current.replace(session);
        // The other side goes over to a session when it is spoken to in it: one in which nothing
        // came was never used there, and what is on its way is of the one before that.
        if self.previous.is_none() || before.as_ref().is_some_and(Session::was_heard) {
            self.previous = before;
        }
    }

    /// Keeps a session that this side answered for until it is used.
    pub(super) fn prepare(&mut self, session: Session) {
        if self.pending.len() >= PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(session);
    }

    /// Decrypts a datagram into `out`.
    pub(super) fn open(
        &mut self,
        receiver: u32,
        counter: u64,
        sealed: &[u8],
        now: Instant,
        out: &mut [u8],
    ) -> Result<Opened, Refused> {
        let of = |session: &Option<Session>| session.as_ref().is_some_and(|s| s.local == receiver);
        let (length, begun, current) = if of(&self.current) {
            let session = self.current.as_mut().expect("seen above");
            (session.open(counter, sealed, out)?, false, true)
        } else if of(&self.previous) {
            let session = self.previous.as_mut().expect("seen above");
            (session.open(counter, sealed, out)?, false, false)
        } else {
            let found = self.pending.iter().position(|session| session.local == receiver);
            let at = found.ok_or(Refused::Unknown)?;
            let length = self.pending[at].open(counter, sealed, out)?;
            self.previous = std::mem::replace(&mut self.current, self.pending.remove(at));
            self.pending.clear();
            (length, true, true)
        };
        self.heard = Some(now);
        Ok(Opened { length, begun, current, counter })
    }

    /// Appends a datagram with `frame` to `out`; its counter, or `None` if there is no session.
    pub(crate) fn seal(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Option<u64> {
        self.current.as_mut()?.seal(frame, out)
    }

    /// Appends a packet's ciphertext to `out`; whether there is a session.
    pub(crate) fn seal_packet(&mut self, nonce: Nonce, packet: &[u8], out: &mut Vec<u8>) -> bool {
        self.current.as_mut().is_some_and(|session| session.seal_packet(nonce, packet, out))
    }

    /// Decrypts a packet into `out`, of this session or the one before; its length.
    pub(crate) fn open_packet(
        &mut self,
        nonce: Nonce,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Refused> {
        let mut refused = Refused::Unknown;
        for session in [&mut self.current, &mut self.previous].into_iter().flatten() {
            match session.open_packet(nonce, sealed, out) {
                // Only the keys tell the sessions apart.
                Err(error) => refused = error,
                opened => return opened,
            }
        }
        Err(refused)
    }

    /// Whether there is a session.
    pub(crate) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Whether a packet was sealed in this session.
    pub(crate) fn has_packets(&self) -> bool {
        self.current.as_ref().is_some_and(Session::has_packets)
    }

    /// What comes in the session before is no longer taken.
    pub(crate) fn forget_previous(&mut self) {
        self.previous = None;
    }

    /// The counter of the next datagram to send in this session.
    pub(crate) fn sent(&self) -> u64 {
        self.current.as_ref().map_or(0, Session::sent)
    }
}
