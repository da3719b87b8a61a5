//! When a lane is asked whether it is there, and whether it carries long packets.

use std::collections::VecDeque;
use std::time::Duration;

use super::Carrier;
use super::mtu::Search;
use crate::Instant;

/// How often a lane is asked that is new or silent: at first, after a while, and then, ever more seldom, at
/// least: so often that its return costs as long as a sixtieth of its absence, and a link that never carries
/// UDP some 11 MB a month.
const OFTEN: Duration = Duration::from_millis(200);
const OFTEN_FOR: Duration = Duration::from_secs(30);
const SELDOM: Duration = Duration::from_secs(2);
const SELDOM_PART: u32 = 60;
const LEAST_OFTEN: Duration = Duration::from_secs(30);
/// The end that did not begin asks no longer after that, until it hears something.
const RESPONDER_ASKS_FOR: Duration = Duration::from_secs(60);
/// How long an idle lane is not spoken on: routers forget what is idle for 30 s.
const IDLE: Duration = Duration::from_secs(25);
/// How long an answer may take on a lane that is up, over UDP and TCP, and how often it is asked again.
const ANSWER: Duration = Duration::from_millis(500);
const ANSWER_TCP: Duration = Duration::from_secs(1);
/// How long that of a probe may take at least (RFC 8899 §5.1.1, PROBE_TIMER: no less than a second). The
/// round trip is known, so that it need not be the 15 s that are asked for where it is not.
const PROBE_ANSWER: Duration = Duration::from_secs(1);
/// Questions that are remembered, and probes: those of three seconds on a lane that is new.
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
    /// How long an answer may take at least.
    answer: Duration,
    is_up: bool,
    next: u64,
    /// Those without an answer that are no probes, the oldest first.
    awaited: VecDeque<(u64, Instant)>,
    /// Probes without an answer, the oldest first. Answers to other questions overtake theirs, as those are
    /// shorter.
    probes: VecDeque<(Question, Instant)>,
    /// One more than the newest question that was answered.
    answered_to: u64,
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
    pub(super) fn new(carrier: Carrier, is_initiator: bool, mtu: usize, now: Instant) -> Self {
        let answer = match carrier {
            Carrier::Udp => ANSWER,
            Carrier::Tcp => ANSWER_TCP,
        };
        Self {
            is_initiator,
            answer,
            is_up: false,
            next: 0,
            awaited: VecDeque::new(),
            probes: VecDeque::new(),
            answered_to: 0,
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

    /// What it goes over has changed: one that is silent is asked often again.
    pub(super) fn note_change(&mut self, now: Instant) {
        if !self.is_up {
            (self.since, self.asked) = (now, None);
        }
    }

    /// An answer; how long it took, if it answers one of the last questions.
    pub(super) fn handle_answer(&mut self, id: u64, now: Instant) -> Option<Duration> {
        let at = match self.probes.iter().position(|(probe, _)| probe.id == id) {
            Some(place) => {
                let (probe, at) = self.probes.remove(place)?;
                if let Some(size) = probe.size {
                    self.search.handle_answer(size, now);
                }
                at
            }
            None => self.awaited.iter().find(|(asked, _)| *asked == id)?.1,
        };
        // What was asked before is not waited for any more.
        self.awaited.retain(|(asked, _)| *asked > id);
        self.answered_to = self.answered_to.max(id + 1);
        self.took = now.since(at);
        Some(self.took)
    }

    /// When a question is due.
    pub(super) fn due(&self) -> Option<Instant> {
        if !self.is_up {
            let Some(asked) = self.asked else { return Some(self.since) };
            let absent = asked.since(self.since);
            let seldom = (absent / SELDOM_PART).clamp(SELDOM, LEAST_OFTEN);
            let wait = if absent < OFTEN_FOR { OFTEN } else { seldom };
            let goes_on = self.is_initiator || asked.since(self.heard) < RESPONDER_ASKS_FOR;
            return goes_on.then(|| asked + wait);
        }
        // A probe without an answer says nothing: it may be too long, or the lane be dead.
        let newest = self.probes.back().filter(|(probe, _)| probe.id >= self.answered_to);
        let asked = self.awaited.back().map(|(_, at)| *at).or(newest.map(|(_, at)| *at));
        let answer = asked.map(|at| at + self.patience(self.answer));
        let idle = self.is_initiator.then(|| self.sent + IDLE);
        [answer, idle, self.search.due()].into_iter().flatten().min()
    }

    /// The question that is to be asked now.
    pub(super) fn ask(&mut self, now: Instant) -> Option<Question> {
        let patience = self.patience(PROBE_ANSWER);
        let size = self.is_up.then(|| self.search.take_probe(patience, now)).flatten();
        let question = Question { id: self.next, size };
        if size.is_some() {
            remember(&mut self.probes, (question, now));
        } else {
            let is_first = !self.is_up && self.asked.is_none();
            if !is_first && self.due().is_none_or(|due| due > now) {
                return None;
            }
            self.unanswered += u32::from(!self.awaited.is_empty());
            remember(&mut self.awaited, (question.id, now));
        }
        self.next += 1;
        (self.asked, self.sent) = (Some(now), now);
        Some(question)
    }

    /// How long an answer is waited for before it is asked again, at least so long.
    fn patience(&self, least: Duration) -> Duration {
        least.max(self.took * 2)
    }

    /// How long it has been new or silent.
    pub(super) fn down_for(&self, now: Instant) -> Option<Duration> {
        (!self.is_up).then(|| now.since(self.since))
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

/// Adds one, and forgets the oldest where there are too many.
fn remember<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() >= REMEMBERED {
        all.pop_front();
    }
    all.push_back(one);
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
        let (mut pings, mut now) = (Pings::new(Carrier::Udp, true, 1400, at(0)), 0);
        assert_eq!(asks(&mut pings, &mut now, 1000, false), 5);
        assert_eq!(asks(&mut pings, &mut now, 1200, true), 2, "one short, one long");
        assert_eq!(pings.longest_packet(), 1400);
        assert_eq!(asks(&mut pings, &mut now, 101_200, true), 4);
        pings.fell_silent(at(now));
        let hour = now + 3_600_000;
        let asked = asks(&mut pings, &mut now, hour, false);
        assert!((380..450).contains(&asked), "{asked}");
        // A day later it is asked twice a minute, and often again when the link has changed.
        now += 86_400_000;
        let minutes = now + 600_000;
        let asked = asks(&mut pings, &mut now, minutes, false);
        assert!((19..=21).contains(&asked), "{asked}");
        pings.note_change(at(now));
        let second = now + 1000;
        assert_eq!(asks(&mut pings, &mut now, second, false), 5);
    }

    #[test]
    fn the_end_that_did_not_begin_gives_up() {
        let (mut pings, mut now) = (Pings::new(Carrier::Udp, false, 1400, at(0)), 0);
        let asked = asks(&mut pings, &mut now, 3_600_000, false);
        assert!(asked < 200, "{asked}");
        pings.note_came(at(now));
        pings.fell_silent(at(now));
        assert_eq!(pings.due(), Some(at(now)), "whoever waits for it is told");
        assert!(pings.ask(at(now)).is_some());
    }

    /// As over a satellite: answers come after the next questions.
    #[test]
    fn a_lane_with_a_long_round_trip_comes_up_and_stays_up() {
        for rtt in [250, 600, 2500] {
            let (mut pings, mut answers) =
                (Pings::new(Carrier::Udp, true, 1400, at(0)), VecDeque::new());
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
        let (mut pings, mut now) = (Pings::new(Carrier::Udp, true, 1400, at(0)), 0);
        asks(&mut pings, &mut now, 1000, true);
        while !pings.is_in_vain() {
            let end = now + 100;
            asks(&mut pings, &mut now, end, false);
            assert!(now < 40_000);
        }
    }

    /// One on which nothing but probes is sent is found out as soon as any other.
    #[test]
    fn one_that_dies_while_it_is_searched_is_found_out() {
        let (mut pings, mut now) = (Pings::new(Carrier::Udp, true, 1400, at(0)), 0);
        let first = pings.ask(at(0)).unwrap();
        pings.handle_answer(first.id, at(0));
        pings.answered(at(0));
        while !pings.is_in_vain() {
            let end = now + 10;
            asks(&mut pings, &mut now, end, false);
            assert!(now <= 2_100, "{pings:?}");
        }
    }

    /// As over a modem: a long packet alone takes longer than the answers to several short ones.
    #[test]
    fn answers_to_short_questions_do_not_take_a_probe_s_place() {
        let mut pings = Pings::new(Carrier::Udp, true, 1400, at(0));
        let first = pings.ask(at(0)).unwrap();
        pings.handle_answer(first.id, at(10));
        pings.answered(at(10));
        let (mut answers, mut short, mut probes) = (Vec::new(), 0, Vec::new());
        for now in (10..960).step_by(10) {
            while let Some(question) = pings.ask(at(now)) {
                match question.size {
                    Some(size) => probes.push((now, size)),
                    None => short += 1,
                }
                answers.push((now + if question.size.is_some() { 900 } else { 20 }, question.id));
            }
            let due = answers.iter().filter(|(at, _)| *at == now).map(|(_, id)| *id);
            for id in due.collect::<Vec<_>>() {
                assert!(pings.handle_answer(id, at(now)).is_some());
            }
        }
        assert_eq!((probes, short), (vec![(10, 1400)], 1), "a second is waited for a probe");
        assert_eq!((pings.longest_packet(), pings.is_in_vain()), (1400, false));
    }

    #[test]
    fn long_packets_that_do_not_get_through_are_tried_again_later() {
        let mut pings = Pings::new(Carrier::Udp, true, 1400, at(0));
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
