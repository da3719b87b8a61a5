//! When a lane is asked whether it is there, and for how long packets.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Instant;

/// The longest packet that every lane is taken to carry (RFC 8200 §5 asks for as much).
pub(super) const SHORT_PACKET: usize = 1280 - 100;
/// How often a lane is asked that is new or silent, at first and after a while.
const OFTEN: Duration = Duration::from_millis(200);
const OFTEN_FOR: Duration = Duration::from_secs(30);
const SELDOM: Duration = Duration::from_secs(2);
/// The end that did not begin asks no longer after that, until it hears something.
const RESPONDER_ASKS_FOR: Duration = Duration::from_secs(60);
/// How long an idle lane is not spoken on: routers forget what is idle for 30 s.
const IDLE: Duration = Duration::from_secs(25);
/// How long an answer may take on a lane that is up, and how often it is asked again.
const ANSWER: Duration = Duration::from_millis(500);
/// Questions that are remembered: those of three seconds on a lane that is new.
const REMEMBERED: usize = 16;
const ASKED: u32 = 3;
/// How often it is tried whether long packets get through, and when it is tried again.
const LONG_TRIES: u32 = 3;
const LONG_AGAIN: Duration = Duration::from_secs(60);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) id: u64,
    /// Whether it is as long as the longest packet.
    pub(super) is_long: bool,
}

/// The questions of a lane.
#[derive(Debug)]
pub(super) struct Pings {
    is_initiator: bool,
    is_up: bool,
    next: u64,
    /// Those without an answer, the oldest first.
    awaited: VecDeque<(Question, Instant)>,
    /// How long the last answer took.
    took: Duration,
    unanswered: u32,
    /// Since when it has been new or silent, and when something was heard or sent last.
    since: Instant,
    heard: Instant,
    sent: Instant,
    asked: Option<Instant>,
    /// The longest packet that gets through; tries so far, and when the next is.
    longest: usize,
    long_tries: u32,
    long_at: Option<Instant>,
}

impl Pings {
    pub(super) fn new(is_initiator: bool, now: Instant) -> Self {
        Self {
            is_initiator,
            is_up: false,
            next: 0,
            awaited: VecDeque::new(),
            took: Duration::ZERO,
            unanswered: 0,
            since: now,
            heard: now,
            sent: now,
            asked: None,
            longest: SHORT_PACKET,
            long_tries: 0,
            long_at: None,
        }
    }

    /// The longest packet that is known to get through, in bytes.
    pub(super) fn longest_packet(&self) -> usize {
        self.longest
    }

    /// Something is sent.
    pub(super) fn note_sent(&mut self, now: Instant) {
        self.sent = now;
    }

    /// Something authentic has come.
    pub(super) fn note_came(&mut self, now: Instant) {
        self.heard = now;
    }

    /// The lane is up.
    pub(super) fn answered(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.is_up, true) && self.longest == SHORT_PACKET {
            (self.long_at, self.long_tries) = (Some(now), 0);
        }
        self.unanswered = 0;
    }

    /// The lane is silent.
    pub(super) fn fell_silent(&mut self, now: Instant) {
        (self.is_up, self.since, self.asked) = (false, now, None);
        // Another way may carry less.
        (self.longest, self.long_at) = (SHORT_PACKET, None);
    }

    /// An answer; how long it took, if it answers one of the last questions.
    pub(super) fn handle_answer(&mut self, id: u64, mtu: usize, now: Instant) -> Option<Duration> {
        let place = self.awaited.iter().position(|(question, _)| question.id == id)?;
        // What was asked before is not waited for any more.
        let (question, at) = self.awaited.drain(..=place).next_back()?;
        if question.is_long {
            (self.longest, self.long_at) = (mtu, None);
        }
        self.took = now.since(at);
        Some(self.took)
    }

    /// When a question is due.
    pub(super) fn due(&self) -> Option<Instant> {
        if !self.is_up {
            let asked = self.asked?;
            let wait = if asked.since(self.since) < OFTEN_FOR { OFTEN } else { SELDOM };
            let goes_on = self.is_initiator || asked.since(self.heard) < RESPONDER_ASKS_FOR;
            return goes_on.then(|| asked + wait);
        }
        let answer = self.awaited.back().map(|(_, at)| *at + self.patience());
        let idle = self.is_initiator.then(|| self.sent + IDLE);
        [answer, idle, self.long_at].into_iter().flatten().min()
    }

    /// The question that is to be asked now.
    pub(super) fn ask(&mut self, now: Instant) -> Option<Question> {
        let is_first = !self.is_up && self.asked.is_none();
        if !is_first && self.due().is_none_or(|due| due > now) {
            return None;
        }
        let is_long = self.is_up && self.long_at.is_some_and(|at| at <= now);
        if is_long {
            self.long_tries += 1;
            let is_last = self.long_tries.is_multiple_of(LONG_TRIES);
            let again = if is_last { LONG_AGAIN } else { self.patience() };
            self.long_at = Some(now + again);
        } else if self.awaited.back().is_some_and(|(question, _)| !question.is_long) {
            self.unanswered += 1;
        }
        let question = Question { id: self.next, is_long };
        self.next += 1;
        if self.awaited.len() >= REMEMBERED {
            self.awaited.pop_front();
        }
        self.awaited.push_back((question, now));
        (self.asked, self.sent) = (Some(now), now);
        Some(question)
    }

    /// How long an answer is waited for before it is asked again.
    fn patience(&self) -> Duration {
        ANSWER.max(self.took * 2)
    }

    /// Whether something has come within such a time.
    pub(super) fn was_heard_within(&self, time: Duration, now: Instant) -> bool {
        now.since(self.heard) <= time
    }

    /// Whether it has been asked in vain too often to be up.
    pub(super) fn is_in_vain(&self) -> bool {
        self.is_up && self.unanswered >= ASKED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Lets time go by; how often it asks until `end`.
    fn asks(pings: &mut Pings, now: &mut u64, end: u64, answers: bool) -> usize {
        let mut asked = 0;
        while *now < end {
            while let Some(question) = pings.ask(at(*now)) {
                asked += 1;
                if answers {
                    pings.handle_answer(question.id, 1400, at(*now));
                    pings.answered(at(*now));
                }
            }
            *now += 10;
        }
        asked
    }

    #[test]
    fn a_lane_is_asked_often_when_it_is_new_and_seldom_when_it_is_idle() {
        let (mut pings, mut now) = (Pings::new(true, at(0)), 0);
        assert_eq!(asks(&mut pings, &mut now, 1000, false), 5);
        assert_eq!(asks(&mut pings, &mut now, 1200, true), 2, "one short, one long");
        assert_eq!(pings.longest_packet(), 1400);
        assert_eq!(asks(&mut pings, &mut now, 101_200, true), 4);
        pings.fell_silent(at(now));
        let hour = now + 3_600_000;
        let asked = asks(&mut pings, &mut now, hour, false);
        assert!((1900..2000).contains(&asked), "{asked}");
    }

    #[test]
    fn the_end_that_did_not_begin_gives_up() {
        let (mut pings, mut now) = (Pings::new(false, at(0)), 0);
        let asked = asks(&mut pings, &mut now, 3_600_000, false);
        assert!(asked < 200, "{asked}");
        pings.note_came(at(now));
        pings.fell_silent(at(now));
        assert!(pings.ask(at(now)).is_some());
    }

    /// As over a satellite: answers come after the next questions.
    #[test]
    fn a_lane_with_a_long_round_trip_comes_up_and_stays_up() {
        for rtt in [250, 600, 2500] {
            let (mut pings, mut answers) = (Pings::new(true, at(0)), VecDeque::new());
            let (mut asked, mut up_at) = (0, None);
            for now in (0..200_000).step_by(10) {
                while answers.front().is_some_and(|&(due, _)| due <= now) {
                    let (_, id) = answers.pop_front().expect("it was there");
                    if pings.handle_answer(id, 1400, at(now)).is_some() {
                        pings.answered(at(now));
                        up_at.get_or_insert(now);
                    }
                }
                while let Some(question) = pings.ask(at(now)) {
                    asked += 1;
                    answers.push_back((now + rtt, question.id));
                }
                assert!(!pings.is_in_vain(), "{rtt} ms: at {now}");
            }
            assert_eq!(up_at, Some(rtt));
            assert_eq!(pings.longest_packet(), 1400);
            assert!(asked < 60, "{rtt} ms: {asked}");
        }
    }

    #[test]
    fn one_that_is_idle_and_dies_is_found_out() {
        let (mut pings, mut now) = (Pings::new(true, at(0)), 0);
        asks(&mut pings, &mut now, 1000, true);
        while !pings.is_in_vain() {
            let end = now + 100;
            asks(&mut pings, &mut now, end, false);
            assert!(now < 40_000);
        }
    }

    #[test]
    fn long_packets_that_do_not_get_through_are_tried_again_later() {
        let mut pings = Pings::new(true, at(0));
        let (mut long, mut now) = (0, 0);
        while now < 300_000 {
            if let Some(question) = pings.ask(at(now)) {
                if question.is_long {
                    long += 1;
                } else {
                    pings.handle_answer(question.id, 1400, at(now));
                    pings.answered(at(now));
                }
            }
            now += 10;
        }
        assert!((12..20).contains(&long) && !pings.is_in_vain(), "{long}");
        assert_eq!(pings.longest_packet(), SHORT_PACKET);
    }
}
