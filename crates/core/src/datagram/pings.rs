//! When a lane is asked whether it is there, and whether it carries long packets.

use std::collections::VecDeque;
use std::time::Duration;

use super::mtu::Search;
use crate::Instant;

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

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) id: u64,
    /// The packet that it is as long as, in bytes, if it is a probe.
    pub(super) size: Option<usize>,
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
    /// For the longest packet that gets through.
    search: Search,
}

impl Pings {
    /// Those of a lane for packets of `mtu` bytes at most.
    pub(super) fn new(is_initiator: bool, mtu: usize, now: Instant) -> Self {
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
            search: Search::new(mtu),
        }
    }

    /// The longest packet that is known to get through, in bytes.
    pub(super) fn longest_packet(&self) -> usize {
        self.search.longest()
    }

    /// What is longer does not get through, for all that is known, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.search.limit()
    }

    /// A packet of data has come at the other end.
    pub(super) fn note_delivered(&mut self, sequence: u64, bytes: u64) {
        self.search.note_came(sequence, usize::try_from(bytes).unwrap_or(0));
    }

    /// One is lost, and later ones have come.
    pub(super) fn note_lost(&mut self, sequence: u64, bytes: u64, now: Instant) {
        if self.is_up {
            self.search.note_lost(sequence, usize::try_from(bytes).unwrap_or(0), now);
        }
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
        if !std::mem::replace(&mut self.is_up, true) {
            self.search.came_up(now);
        }
        self.unanswered = 0;
    }

    /// The lane is silent.
    pub(super) fn fell_silent(&mut self, now: Instant) {
        (self.is_up, self.since, self.asked) = (false, now, None);
        self.search.fell_silent();
    }

    /// An answer; how long it took, if it answers one of the last questions.
    pub(super) fn handle_answer(&mut self, id: u64, now: Instant) -> Option<Duration> {
        let place = self.awaited.iter().position(|(question, _)| question.id == id)?;
        // What was asked before is not waited for any more.
        let (question, at) = self.awaited.drain(..=place).next_back()?;
        if let Some(size) = question.size {
            self.search.handle_answer(size, now);
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
        [answer, idle, self.search.due()].into_iter().flatten().min()
    }

    /// The question that is to be asked now.
    pub(super) fn ask(&mut self, now: Instant) -> Option<Question> {
        let patience = self.patience();
        let size = self.is_up.then(|| self.search.take_probe(patience, now)).flatten();
        let is_first = !self.is_up && self.asked.is_none();
        if size.is_none() {
            if !is_first && self.due().is_none_or(|due| due > now) {
                return None;
            }
            let is_again = self.awaited.back().is_some_and(|(question, _)| question.size.is_none());
            self.unanswered += u32::from(is_again);
        }
        let question = Question { id: self.next, size };
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
    use super::super::mtu::SHORT_PACKET;
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
                    pings.handle_answer(question.id, at(*now));
                    pings.answered(at(*now));
                }
            }
            *now += 10;
        }
        asked
    }

    #[test]
    fn a_lane_is_asked_often_when_it_is_new_and_seldom_when_it_is_idle() {
        let (mut pings, mut now) = (Pings::new(true, 1400, at(0)), 0);
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
        let (mut pings, mut now) = (Pings::new(false, 1400, at(0)), 0);
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
            let (mut pings, mut answers) = (Pings::new(true, 1400, at(0)), VecDeque::new());
            let (mut asked, mut up_at) = (0, None);
            for now in (0..200_000).step_by(10) {
                while answers.front().is_some_and(|&(due, _)| due <= now) {
                    let (_, id) = answers.pop_front().expect("it was there");
                    if pings.handle_answer(id, at(now)).is_some() {
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
        let (mut pings, mut now) = (Pings::new(true, 1400, at(0)), 0);
        asks(&mut pings, &mut now, 1000, true);
        while !pings.is_in_vain() {
            let end = now + 100;
            asks(&mut pings, &mut now, end, false);
            assert!(now < 40_000);
        }
    }

    #[test]
    fn long_packets_that_do_not_get_through_are_tried_again_later() {
        let mut pings = Pings::new(true, 1400, at(0));
        let (mut long, mut now) = (0, 0);
        while now < 300_000 {
            if let Some(question) = pings.ask(at(now)) {
                if question.size == Some(1400) {
                    long += 1;
                } else if question.size.is_none() {
                    pings.handle_answer(question.id, at(now));
                    pings.answered(at(now));
                }
            }
            now += 10;
        }
        assert!((12..20).contains(&long) && !pings.is_in_vain(), "{long}");
        assert_eq!(pings.longest_packet(), SHORT_PACKET);
    }
}
