//! A neighbour: its key, the sessions with it, and the handshakes that make them.
//!
//! The initiator starts a handshake when there is no session, when it has heard nothing for
//! [`SILENCE`] (the other side may have restarted), and when keys are used up. The responder changes to
//! a new session with the first datagram that comes in it, so a replayed initiation changes nothing.
//! Both sides still accept datagrams of the previous session.

use std::collections::VecDeque;
use std::time::Duration;

use snow::HandshakeState;
use weftline_core::Instant;

use super::Refused;
use super::rising::{Allowance, Rising};
use super::session::{Nonce, RENEW_AFTER, Session};
use crate::key::PublicKey;

/// Silence after which the initiator starts another handshake: six keepalives are missing then.
pub(crate) const SILENCE: Duration = Duration::from_millis(600);
/// The first wait for a response; each further wait is twice as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The initiator repeats the same initiation for so long: a response to any copy will do, even if it
/// takes longer than the wait.
const SAME_INITIATION: Duration = Duration::from_secs(5);
/// The age at which keys are made anew.
const RENEW_AGE: Duration = Duration::from_secs(120);
/// Sessions that the responder prepared and that are not used yet, at most.
const PENDING: usize = 4;
/// Initiations of a neighbour that are answered in a row, and the time after which there may be another
/// one: it makes one each 5 s, or at its start. Each costs about 0.2 ms.
const INITIATIONS: Allowance = Allowance::new(16, Duration::from_millis(200));

/// Which side of the handshake a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The node further from the gateway: it starts handshakes.
    Initiator,
    /// The other one: it answers them.
    Responder,
}

/// An initiation that waits for its response.
pub(super) struct Initiation {
    pub(super) noise: HandshakeState,
    pub(super) index: u32,
    pub(super) datagram: Vec<u8>,
    pub(super) begun: Instant,
    next: Instant,
    wait: Duration,
}

impl Initiation {
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
    pub(super) initiation: Option<Initiation>,
    current: Option<Session>,
    previous: Option<Session>,
    pending: VecDeque<Session>,
    heard: Option<Instant>,
    /// The times in our initiations.
    pub(super) times: Rising,
    /// The newest initiation that was answered, and the response.
    answered: Option<Answered>,
    allowance: Allowance,
}

/// An initiation that was answered.
struct Answered {
    time: u64,
    initiation: Vec<u8>,
    response: Vec<u8>,
}

impl Channel {
    pub(crate) fn new(role: Role, peer: PublicKey) -> Self {
        let pending = VecDeque::new();
        Self {
            role,
            peer,
            initiation: None,
            current: None,
            previous: None,
            pending,
            heard: None,
            times: Rising::default(),
            answered: None,
            allowance: INITIATIONS,
        }
    }

    /// Whether to answer an initiation that the neighbour made at `time`: it must be newer than all
    /// that were answered. A copy of the newest gets the same response again, which may have been lost;
    /// then the response is in `out`.
    ///
    /// # Errors
    /// [`Refused::Old`] and [`Refused::Flood`].
    pub(super) fn admit(
        &mut self,
        time: u64,
        initiation: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<bool, Refused> {
        if let Some(answered) = &self.answered {
            if answered.initiation == initiation {
                out.extend_from_slice(&answered.response);
                return Ok(false);
            }
            if time <= answered.time {
                return Err(Refused::Old);
            }
        }
        if self.allowance.take(now) { Ok(true) } else { Err(Refused::Flood) }
    }

    /// Remembers what was answered.
    pub(super) fn answered(&mut self, time: u64, initiation: &[u8], response: &[u8]) {
        let (initiation, response) = (initiation.to_vec(), response.to_vec());
        self.answered = Some(Answered { time, initiation, response });
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

    /// When something is due, if this side is the initiator.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.role == Role::Responder {
            return None;
        }
        if let Some(initiation) = &self.initiation {
            return Some(initiation.next);
        }
        let Some(current) = &self.current else { return Some(Instant::ZERO) };
        let heard = self.heard.unwrap_or(current.begun);
        Some((heard + SILENCE).min(current.begun + RENEW_AGE))
    }

    /// Appends the initiation to `out` if it is to be sent now.
    pub(super) fn repeat_initiation(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Some(initiation) = self.initiation.as_mut().filter(|initiation| now >= initiation.next)
        else {
            return false;
        };
        initiation.next = now + initiation.wait;
        initiation.wait = (2 * initiation.wait).min(LONGEST_WAIT);
        out.extend_from_slice(&initiation.datagram);
        true
    }

    /// Forgets an initiation that is too old, or that is no longer wanted.
    pub(super) fn drop_old_initiation(&mut self, now: Instant) {
        if self
            .initiation
            .as_ref()
            .is_some_and(|initiation| now >= initiation.begun + SAME_INITIATION)
        {
            self.initiation = None;
        }
    }

    /// Goes over to a session that this side opened.
    pub(super) fn begin(&mut self, session: Session, now: Instant) {
        self.initiation = None;
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
