//! The longest packet that a lane carries: path MTU discovery by probes (RFC 8899), and how it is found out
//! that less gets through than before.
//!
//! Sizes are those of packets. The longest that a bond has is tried first, as most links carry it; then
//! ever more, in large steps and then in small ones. A size that gets through is known after a round trip, one
//! that does not after three seconds: so a search has three of these at most, where one by halves has six. What
//! is longer than the end of a search is not sent, and its sender is told so. After a while it is tried whether
//! more gets through.

use std::time::Duration;

use super::place::PLACE;
use crate::Instant;

/// The longest packet that every lane is taken to carry (RFC 8200 §5 asks for as much).
pub(super) const SHORT_PACKET: usize = 1280 - 100;
/// So many probes of a size without an answer, and it does not get through (RFC 8899 §5.1.2).
const MAX_PROBES: u32 = 3;
/// A search ends when it is known as closely as that, in bytes.
const GRAIN: usize = 8;
/// What a search goes ahead by until it has gone too far, in bytes: the root of what there is, in grains.
const STRIDE: usize = 40;
/// When it is tried again whether more gets through: at first, as a link may just have lost much, and later
/// (RFC 8899 §5.1.1).
const RAISE: Duration = Duration::from_secs(60);
const RAISE_LATER: Duration = Duration::from_secs(600);
/// How often it is the shorter of these times.
const SOON_RAISED: u32 = 10;
/// So many long packets lost, and none as long that was sent after them has come: what is as long may not get
/// through any more.
const MOST_LOST: usize = 6;

/// What the next probe is to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// How much gets through.
    Search,
    /// Whether the longest does now.
    Raise,
    /// Whether a little more does now.
    RaiseALittle,
    /// Whether what got through still does.
    Confirm,
}

/// The search of a lane.
#[derive(Debug)]
pub(super) struct Search {
    /// The longest packet of the bond.
    most: usize,
    /// The longest that is known to get through.
    confirmed: usize,
    /// What was confirmed before the lane fell silent.
    before: Option<usize>,
    /// The shortest that is known not to.
    failed: Option<usize>,
    /// Whether a search has ended, and none has become necessary since.
    is_settled: bool,
    aim: Aim,
    /// The size that is probed, and how often it has been.
    size: usize,
    tries: u32,
    /// When the next probe goes, or the last one is given up; none while the lane is not up.
    at: Option<Instant>,
    raises: u32,
    /// Long packets that were lost, and came: sequence number and bytes of each. Of those that were lost, none
    /// has been followed by one as long that came; each that came is the newest as long.
    lost: Vec<(u64, usize)>,
    came: Vec<(u64, usize)>,
}

impl Search {
    /// One for packets of `most` bytes at most.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            confirmed: SHORT_PACKET.min(most),
            before: None,
            failed: None,
            is_settled: false,
            aim: Aim::Search,
            size: most,
            tries: 0,
            at: None,
            raises: 0,
            lost: Vec::new(),
            came: Vec::new(),
        }
    }

    /// The longest packet that gets through, by all that is known now, in bytes.
    pub(super) fn longest(&self) -> usize {
        // What is lost may be so by chance, until a probe is, too.
        let is_in_doubt = self.aim == Aim::Confirm && self.tries > 1;
        if is_in_doubt { SHORT_PACKET.min(self.most) } else { self.confirmed }
    }

    /// A longer packet does not get through, for all that is known.
    pub(super) fn limit(&self) -> usize {
        match self.failed {
            _ if self.is_settled => self.confirmed,
            None => self.most,
            Some(failed) => failed - 1,
        }
    }

    /// The lane is up.
    pub(super) fn came_up(&mut self, now: Instant) {
        if self.at.is_none() && self.confirmed < self.most {
            self.at = Some(now);
        }
    }

    /// The lane is silent: another way may carry less. That nothing longer got through, and the tries of a
    /// size, are remembered: it may be silent as all that was sent was too long.
    pub(super) fn fell_silent(&mut self) {
        if self.confirmed > SHORT_PACKET {
            self.before = Some(self.confirmed);
            self.confirmed = SHORT_PACKET;
        }
        self.is_settled = self.confirmed == self.most;
        if self.aim != Aim::Search || self.size <= self.confirmed {
            let next = self.candidate().unwrap_or(self.most);
            self.turn_to(Aim::Search, next);
        }
        self.at = None;
        self.lost.clear();
    }

    /// When [`Self::take_probe`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.at
    }

    /// The size of a probe that is to be sent now, whose answer is waited for so long.
    pub(super) fn take_probe(&mut self, patience: Duration, now: Instant) -> Option<usize> {
        self.at.filter(|at| *at <= now)?;
        let most = if self.aim == Aim::RaiseALittle { 1 } else { MAX_PROBES };
        if self.tries >= most {
            self.give_up(now);
            self.at.filter(|at| *at <= now)?;
        }
        self.tries += 1;
        self.at = Some(now + patience);
        Some(self.size)
    }

    /// A probe of this size was answered.
    pub(super) fn handle_answer(&mut self, size: usize, now: Instant) {
        let is_due = size == self.size && self.at.is_some();
        self.lost.clear();
        if size > self.confirmed {
            self.confirmed = size;
            self.failed = self.failed.filter(|failed| *failed > size);
        }
        if self.confirmed >= self.most {
            (self.is_settled, self.failed, self.at) = (true, None, None);
            self.turn_to(Aim::Search, self.most);
        } else if is_due && self.aim == Aim::Confirm && self.is_settled {
            self.rest(now);
        } else if is_due {
            if self.aim == Aim::RaiseALittle {
                // The longest has just been tried.
                self.failed = Some(self.most);
            }
            self.go_on(now);
        }
    }

    /// A packet with this sequence number has come.
    pub(super) fn note_came(&mut self, sequence: u64, bytes: usize) {
        if bytes <= SHORT_PACKET {
            return;
        }
        self.lost.retain(|&(lost, length)| lost > sequence || length > bytes);
        if !self.is_followed(sequence, bytes) {
            self.came.retain(|&(came, length)| came > sequence || length > bytes);
            self.came.push((sequence, bytes));
        }
    }

    /// Whether a packet as long has come that was sent after this one.
    fn is_followed(&self, sequence: u64, bytes: usize) -> bool {
        self.came.iter().any(|&(came, length)| came > sequence && length >= bytes)
    }

    /// A packet with this sequence number is lost while others come; a bulk one is counted with its place. That
    /// what is longer than what gets through is lost is no news, nor is what is lost before others as long that
    /// come, as by the overflow of a queue.
    pub(super) fn note_lost(&mut self, sequence: u64, bytes: usize, now: Instant) {
        let is_of_concern = bytes > SHORT_PACKET && bytes <= self.confirmed + PLACE;
        if !is_of_concern || self.confirmed <= SHORT_PACKET || self.aim == Aim::Confirm {
            return;
        }
        if self.is_followed(sequence, bytes) {
            return;
        }
        self.lost.push((sequence, bytes));
        if self.lost.len() >= MOST_LOST {
            self.lost.clear();
            self.turn_to(Aim::Confirm, self.confirmed);
            self.at = Some(now);
        }
    }

    fn turn_to(&mut self, aim: Aim, size: usize) {
        (self.aim, self.size, self.tries) = (aim, size, 0);
    }

    /// The size that was probed does not get through.
    fn give_up(&mut self, now: Instant) {
        match self.aim {
            Aim::Raise => {
                let little = (self.confirmed + GRAIN).min(self.most);
                self.turn_to(Aim::RaiseALittle, little);
                self.at = Some(now);
                return;
            }
            Aim::RaiseALittle => return self.rest(now),
            Aim::Search => {}
            Aim::Confirm => (self.confirmed, self.is_settled) = (SHORT_PACKET, false),
        }
        let failed = self.failed.map_or(self.size, |failed| failed.min(self.size));
        self.failed = Some(failed);
        self.go_on(now);
    }

    /// The size that is to be probed to know more; none if it is known closely enough.
    fn candidate(&mut self) -> Option<usize> {
        let Some(failed) = self.failed else { return Some(self.most) };
        let before = self.before.take().filter(|one| (self.confirmed + 1..failed).contains(one));
        let step = if failed > self.confirmed + STRIDE { STRIDE } else { GRAIN };
        (failed > self.confirmed + GRAIN).then(|| before.unwrap_or(self.confirmed + step))
    }

    fn go_on(&mut self, now: Instant) {
        match self.candidate() {
            Some(size) => {
                self.turn_to(Aim::Search, size);
                self.at = Some(now);
            }
            None => {
                self.is_settled = true;
                self.rest(now);
            }
        }
    }

    /// It is known; after a while it may be otherwise.
    fn rest(&mut self, now: Instant) {
        let wait = if self.raises < SOON_RAISED { RAISE } else { RAISE_LATER };
        self.raises += 1;
        self.turn_to(Aim::Raise, self.most);
        self.at = (self.confirmed < self.most).then(|| now + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1400;
    const PATIENCE: Duration = Duration::from_secs(1);

    /// A lane that carries packets of so many bytes, with a round trip of 50 ms.
    struct Path {
        search: Search,
        carries: usize,
        now: u64,
        answers: Vec<(u64, usize)>,
        probes: usize,
        sent: u64,
    }

    impl Path {
        fn new(carries: usize) -> Self {
            let mut search = Search::new(MOST);
            search.came_up(Instant::ZERO);
            Self { search, carries, now: 0, answers: Vec::new(), probes: 0, sent: 0 }
        }

        fn run(&mut self, ms: u64) {
            let end = self.now + ms;
            while self.now < end {
                self.now += 10;
                let now = Instant::from_millis(self.now);
                let came = self.answers.iter().filter(|(at, _)| *at <= self.now).copied();
                let came: Vec<_> = came.collect();
                self.answers.retain(|(at, _)| *at > self.now);
                came.into_iter().for_each(|(_, size)| self.search.handle_answer(size, now));
                while let Some(size) = self.search.take_probe(PATIENCE, now) {
                    self.probes += 1;
                    assert!(size <= MOST && size > SHORT_PACKET, "{size}");
                    if size <= self.carries {
                        self.answers.push((self.now + 50, size));
                    }
                }
            }
        }

        /// Sends packets of so many bytes that are lost or come, as the path has it.
        fn send(&mut self, bytes: usize, times: usize) {
            for _ in 0..times {
                self.sent += 1;
                match bytes <= self.carries {
                    true => self.search.note_came(self.sent, bytes),
                    false => self.note_lost(bytes),
                }
            }
        }

        fn note_lost(&mut self, bytes: usize) {
            self.sent += 1;
            self.search.note_lost(self.sent, bytes, Instant::from_millis(self.now));
        }

        #[track_caller]
        fn is_known(&self) {
            let (longest, carries) = (self.search.longest(), self.carries);
            assert!(longest <= carries && longest + GRAIN > carries, "{longest}, not {carries}");
            assert_eq!(self.search.limit(), longest);
        }
    }

    #[test]
    fn what_a_path_carries_is_known_within_seconds() {
        for carries in SHORT_PACKET..=MOST {
            let mut path = Path::new(carries);
            path.run(10_000);
            path.is_known();
            assert!(path.probes <= 18, "{carries}: {} probes", path.probes);
        }
        let mut path = Path::new(MOST);
        path.run(100);
        assert_eq!((path.search.limit(), path.probes, path.search.due()), (MOST, 1, None));
    }

    #[test]
    fn what_does_not_get_through_any_more_is_found_out() {
        for (before, then) in [(MOST, 1300), (MOST, SHORT_PACKET), (1350, 1210), (1200, 1185)] {
            let mut path = Path::new(before);
            path.run(10_000);
            path.carries = then;
            // What is shorter still comes.
            path.send(then, 100);
            let longest = path.search.longest();
            for _ in 0..MOST_LOST {
                assert_eq!(path.search.longest(), longest);
                path.send(longest, 1);
                path.send(then, 3);
            }
            path.run(10);
            assert_eq!(path.search.longest(), longest, "it may be chance");
            path.run(PATIENCE.as_millis() as u64);
            assert_eq!(path.search.longest(), SHORT_PACKET, "other lanes are used meanwhile");
            assert_eq!(path.search.limit(), longest, "no sender is told yet");
            path.run(2 * PATIENCE.as_millis() as u64 + 100);
            assert!(path.search.limit() < longest);
            path.run(9_000);
            path.is_known();
        }
    }

    #[test]
    fn losses_by_chance_change_nothing_for_long() {
        let mut path = Path::new(MOST);
        path.run(1_000);
        for _ in 0..10_000 {
            path.note_lost(MOST);
            path.send(MOST, 4);
        }
        assert_eq!((path.probes, path.search.longest()), (1, MOST));
        (0..MOST_LOST).for_each(|_| path.note_lost(MOST));
        path.run(10);
        assert_eq!((path.search.longest(), path.search.limit()), (MOST, MOST));
        path.run(90);
        assert_eq!((path.probes, path.search.longest(), path.search.due()), (2, MOST, None));
    }

    #[test]
    fn that_more_gets_through_is_found_out_in_a_while() {
        for then in [1240, 1330, MOST] {
            let mut path = Path::new(1200);
            path.run(50_000);
            path.is_known();
            path.carries = then;
            path.run(80_000);
            path.is_known();
        }
        // Where nothing changes little is asked.
        let mut path = Path::new(1200);
        path.run(3_600_000);
        assert!(path.probes < 100, "{}", path.probes);
        path.is_known();
    }

    /// As all that is sent is too long, nothing is told to have come; short questions bring it up again.
    #[test]
    fn a_lane_that_falls_silent_again_and_again_gets_to_an_end() {
        let mut path = Path::new(MOST);
        path.run(1_000);
        path.carries = 1290;
        let mut flaps = 0;
        while path.search.limit() > path.carries {
            path.search.fell_silent();
            path.run(200);
            path.search.came_up(Instant::from_millis(path.now));
            path.run(100);
            flaps += 1;
            assert!(flaps < 60, "{:?}", path.search);
        }
        path.run(10_000);
        path.is_known();
        // What was known before a silence is known soon after it.
        path.search.fell_silent();
        assert_eq!(path.search.longest(), SHORT_PACKET);
        path.search.came_up(Instant::from_millis(path.now));
        path.run(200);
        path.is_known();
    }
}
