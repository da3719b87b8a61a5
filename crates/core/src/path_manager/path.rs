//! One path of a connection: waiting, trying, up, or dark.

use std::collections::VecDeque;
use std::time::Duration;

use super::connecting::{Connecting, Stage};
use super::monitor::{LOOK_INTERVAL, Look, Monitor, Verdict};
use super::pace::{Backoff, Pace, RACE_INTERVAL};
use super::{Action, ConnectingId, FAILURES, Failure, PathPlan, Turn};
use crate::{Instant, SubflowId};

/// A subflow that goes on within this time after it was found potentially failed is kept. One that
/// took longer is replaced all the same: its other direction may wait for a timer yet.
const SHORT_FAILURE: Duration = Duration::from_millis(400);
/// A subflow that goes on after a longer stall is kept if nothing has taken its place by then.
const LONG_FAILURE: Duration = Duration::from_secs(3);
/// Dials under way at once on one path.
pub(super) const MAX_DIALS: usize = 16;
/// The least time between two dials, however often links and routes change, or subflows come up that
/// are soon gone again.
const LEAST_WAIT: Duration = Duration::from_millis(50);
/// A subflow that was up for less than this is no success: something on the path may end each.
const SHORT_LIFE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Path {
    pub(super) plan: PathPlan,
    /// How often it has failed while the connection was not open.
    pub(super) failures: u32,
    /// From the shortest wait again once a subflow has lived.
    backoff: Backoff,
    /// How many of its subflows in a row were none for long.
    short_lives: u32,
    /// When it was dialled last.
    dialled: Option<Instant>,
    connecting: Vec<Connecting>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It is tried then.
    Waiting { until: Instant },
    /// Its first subflow is being brought up.
    Trying,
    /// It has a subflow.
    Up(Watched),
    /// It has none, or a potentially failed one, and is dialled again and again.
    Dark(Box<Dark>),
}

/// A subflow that is watched.
#[derive(Debug)]
struct Watched {
    subflow: SubflowId,
    up_at: Instant,
    /// Whether it is counted among those that were none for long.
    is_counted: bool,
    monitor: Monitor,
    /// `None` while nothing is on its way: then its next write tells.
    next_look: Option<Instant>,
    /// Whether the driver tells of its next write.
    rests: bool,
}

#[derive(Debug)]
struct Dark {
    /// The potentially failed subflow.
    old: Option<(Watched, Failing)>,
    pace: Pace,
    /// When it is looked at, and dialled if that is due.
    next: Instant,
    dials_from: Instant,
    /// Whether it waits because its last attempt was answered and came to nothing: that others are
    /// answered is no news then.
    is_put_off: bool,
}

/// Since when a subflow makes no progress, and again does.
#[derive(Debug)]
struct Failing {
    began: Instant,
    recovered: Option<Instant>,
}

impl Path {
    pub(super) fn new(plan: PathPlan, until: Instant) -> Self {
        let backoff = Backoff::new(plan.rng.clone());
        let state = State::Waiting { until };
        Self {
            plan,
            failures: 0,
            backoff,
            short_lives: 0,
            dialled: None,
            connecting: Vec::new(),
            state,
        }
    }

    pub(super) fn connecting(&self) -> impl Iterator<Item = &Connecting> {
        self.connecting.iter()
    }

    pub(super) fn connecting_mut(&mut self) -> impl Iterator<Item = &mut Connecting> {
        self.connecting.iter_mut()
    }

    pub(super) fn find_connecting(&mut self, id: ConnectingId) -> Option<&mut Connecting> {
        self.connecting.iter_mut().find(|connecting| connecting.id == id)
    }

    /// Its subflow, up or potentially failed.
    pub(super) fn subflow(&self) -> Option<SubflowId> {
        match &self.state {
            State::Up(watched) => Some(watched.subflow),
            State::Dark(dark) => dark.old.as_ref().map(|(watched, _)| watched.subflow),
            State::Waiting { .. } | State::Trying => None,
        }
    }

    pub(super) const fn is_dark(&self) -> bool {
        matches!(self.state, State::Dark(_))
    }

    /// When it has something to do; attempts and dials only while a subflow is `wanted`.
    pub(super) fn deadline(&self, wanted: bool) -> Option<Instant> {
        let own = match &self.state {
            State::Waiting { until } => Some(*until),
            State::Dark(dark) => Some(dark.next),
            State::Up(_) | State::Trying => None,
        };
        let look = match &self.state {
            State::Up(watched) => watched.next_look,
            _ => None,
        };
        let deadlines = self.connecting.iter().filter_map(Connecting::deadline);
        deadlines.chain(own.filter(|_| wanted)).chain(look.filter(|_| wanted)).min()
    }

    /// It is wanted now, if it has been in reserve.
    pub(super) fn end_reserve(&mut self, now: Instant) {
        if let State::Waiting { until } = &mut self.state
            && self.plan.reserve
            && self.failures == 0
        {
            *until = now.min(*until);
        }
    }

    /// Dials soon, if it is dark.
    pub(super) fn hurry(&mut self) {
        if let State::Dark(dark) = &mut self.state {
            let soon = self.dialled.map_or(dark.next, |last| last + LEAST_WAIT);
            (dark.next, dark.dials_from) = (dark.next.min(soon), dark.dials_from.min(soon));
        }
    }

    /// As `hurry`, unless the answer that it got itself has put it off.
    pub(super) fn hurry_unless_put_off(&mut self) {
        if !matches!(&self.state, State::Dark(dark) if dark.is_put_off) {
            self.hurry();
        }
    }

    /// Does what is due. Returns the turn of the dial that is, if one is.
    pub(super) fn handle_timeout(
        &mut self,
        moved: u64,
        now: Instant,
        actions: &mut VecDeque<Action>,
    ) -> Option<Turn> {
        match &mut self.state {
            State::Waiting { until } if *until <= now => {
                self.state = State::Trying;
                Some(Turn::First)
            }
            State::Up(watched) => {
                if watched.next_look.is_some_and(|at| at <= now) {
                    watched.next_look = Some(now + LOOK_INTERVAL);
                    actions.push_back(Action::Look(watched.subflow));
                }
                None
            }
            State::Dark(dark) if dark.next <= now => {
                if let Some((old, _)) = &dark.old {
                    actions.push_back(Action::Look(old.subflow));
                }
                if now < dark.dials_from {
                    dark.next = dark.dials_from.min(now + RACE_INTERVAL);
                    return None;
                }
                dark.is_put_off = false;
                dark.next = now + dark.pace.wait(&self.plan.seat, moved, &mut self.backoff, now);
                let dials =
                    self.connecting.iter().filter(|one| one.stage == Stage::Dialing).count();
                let entering = self.connecting.iter().any(Connecting::is_entering);
                let turn = if dark.pace.has_seat() { Turn::Often } else { Turn::Again };
                (dials < MAX_DIALS && !entering).then_some(turn)
            }
            State::Waiting { .. } | State::Trying | State::Dark(_) => None,
        }
    }

    pub(super) fn dial(&mut self, connecting: Connecting, now: Instant) {
        self.dialled = Some(now);
        self.connecting.push(connecting);
    }

    /// An attempt's TCP connection stands. `most` is what a handshake may take.
    pub(super) fn connected(
        &mut self,
        id: ConnectingId,
        rtt: Duration,
        most: Duration,
        now: Instant,
        actions: &mut VecDeque<Action>,
    ) {
        if let Some(connecting) = self.find_connecting(id) {
            connecting.connected(rtt);
        }
        match self.subflow() {
            // A look first: the potentially failed subflow may go on after all.
            Some(old) => actions.push_back(Action::Look(old)),
            None => self.secure_next(most, now, actions),
        }
    }

    /// Goes on with the next connection that stands, if none is further.
    fn secure_next(&mut self, most: Duration, now: Instant, actions: &mut VecDeque<Action>) {
        if self.connecting.iter().any(Connecting::is_entering) {
            return;
        }
        let is_dark = self.is_dark();
        let mut all = self.connecting.iter_mut();
        if let Some(next) = all.find(|one| one.stage == Stage::Connected) {
            let limit = if is_dark { next.quick(most) } else { most };
            next.enter(Stage::Securing, limit, now);
            actions.push_back(Action::Secure(next.id));
        }
    }

    /// An attempt's subflow is up.
    pub(super) fn up(&mut self, id: ConnectingId, now: Instant, actions: &mut VecDeque<Action>) {
        let subflow = self.find_connecting(id).and_then(|connecting| connecting.subflow);
        self.connecting.retain(|connecting| connecting.id != id);
        self.abandon_all(actions);
        if let Some(old) = self.subflow() {
            actions.push_back(Action::Replace(old));
        }
        if let Some(subflow) = subflow {
            let (monitor, next_look) = (Monitor::default(), Some(now + LOOK_INTERVAL));
            self.state = State::Up(Watched {
                subflow,
                up_at: now,
                is_counted: false,
                monitor,
                next_look,
                rests: false,
            });
        }
    }

    /// An attempt has failed; `is_open` is whether the connection was open.
    pub(super) fn failed(
        &mut self,
        id: ConnectingId,
        failure: Failure,
        is_open: bool,
        most: Duration,
        now: Instant,
        actions: &mut VecDeque<Action>,
    ) {
        self.connecting.retain(|connecting| connecting.id != id);
        match &mut self.state {
            State::Trying if is_open => {
                self.go_dark(None, now, now);
                if failure != Failure::Temporary {
                    self.put_off(now);
                }
            }
            State::Trying => {
                self.failures += if failure == Failure::Permanent { FAILURES } else { 1 };
                self.state = State::Waiting { until: now + self.backoff.next() };
            }
            State::Dark(_) => {
                if failure != Failure::Temporary {
                    self.put_off(now);
                }
                self.secure_next(most, now, actions);
            }
            State::Waiting { .. } | State::Up(_) => {}
        }
    }

    /// A subflow is gone.
    pub(super) fn down(&mut self, subflow: SubflowId, now: Instant) {
        if self.subflow() != Some(subflow) {
            return;
        }
        match &mut self.state {
            State::Dark(dark) => dark.old = None,
            State::Up(watched) => {
                let (up_at, is_counted) = (watched.up_at, watched.is_counted);
                self.go_dark(None, now, now);
                if !self.has_lived(up_at, is_counted, now) {
                    self.keep_pace(now);
                }
            }
            State::Waiting { .. } | State::Trying => {}
        }
    }

    /// Whether its subflow has been up for long enough to begin with short waits again.
    fn has_lived(&mut self, up_at: Instant, is_counted: bool, now: Instant) -> bool {
        let has_lived = now.since(up_at) >= SHORT_LIFE;
        if !has_lived {
            self.short_lives = self.short_lives.saturating_add(u32::from(!is_counted));
        } else {
            self.short_lives = 0;
            self.backoff = Backoff::new(self.plan.rng.clone());
        }
        has_lived
    }

    /// One subflow after the other comes up and is gone: the one connection that dials often goes on
    /// so, the others wait.
    fn keep_pace(&mut self, now: Instant) {
        let State::Dark(dark) = &mut self.state else { return };
        if dark.pace.takes(&self.plan.seat) {
            dark.next = self.dialled.map_or(now, |last| now.max(last + LEAST_WAIT));
        } else {
            self.put_off(now);
        }
    }

    /// It was answered, and that came to nothing.
    fn put_off(&mut self, now: Instant) {
        if let State::Dark(dark) = &mut self.state {
            (dark.next, dark.is_put_off) = (now + self.backoff.next(), true);
        }
    }

    /// Its first attempt is not waited for any longer than one on a dark path: others are begun beside
    /// it, and what it has begun has little time.
    pub(super) fn hasten(&mut self, most: Duration, now: Instant) {
        if matches!(self.state, State::Trying) {
            self.connecting.iter_mut().for_each(|connecting| connecting.hasten(most, now));
            self.go_dark(None, now + RACE_INTERVAL, now);
        }
    }

    /// It is dialled at `next`, and again and again.
    fn go_dark(&mut self, old: Option<(Watched, Failing)>, next: Instant, now: Instant) {
        let pace = Pace::new(now);
        let dark = Dark { old, pace, next, dials_from: next, is_put_off: false };
        self.state = State::Dark(Box::new(dark));
    }

    /// Something has happened to its subflow, which may have been written to.
    pub(super) fn news(&mut self, actions: &mut VecDeque<Action>) {
        if let State::Up(watched) = &mut self.state {
            watched.rests = false;
            actions.push_back(Action::Look(watched.subflow));
        }
    }

    /// Its subflow has been looked at.
    pub(super) fn looked(
        &mut self,
        look: Option<&Look>,
        wanted: bool,
        most: Duration,
        now: Instant,
        actions: &mut VecDeque<Action>,
    ) {
        let evaluate = |watched: &mut Watched| {
            look.map_or(Verdict::PotentiallyFailed, |look| watched.monitor.evaluate(look, now))
        };
        match &mut self.state {
            State::Up(watched) => {
                let verdict = evaluate(watched);
                if !watched.note(verdict, now, actions) || !wanted {
                    return;
                }
                actions.push_back(Action::PotentiallyFailed(self.plan.id, watched.subflow));
                let State::Up(watched) = std::mem::replace(&mut self.state, State::Trying) else {
                    unreachable!("it was up a moment ago");
                };
                let has_lived = self.has_lived(watched.up_at, watched.is_counted, now);
                let watched = Watched { is_counted: true, ..watched };
                self.go_dark(Some((watched, Failing { began: now, recovered: None })), now, now);
                if !has_lived && self.short_lives > 1 {
                    // The way may let handshakes through, and nothing larger: the next would fare alike.
                    // What it has may go on all the same, and is looked at.
                    let wait = self.backoff.next();
                    if let State::Dark(dark) = &mut self.state {
                        (dark.dials_from, dark.is_put_off) = (now + wait, true);
                    }
                }
            }
            State::Dark(dark) => {
                let Some((watched, stall)) = &mut dark.old else { return };
                stall.note(evaluate(watched), now);
                // A join that is on its way may have replaced the subflow at the server already.
                let is_joining = self.connecting.iter().any(|one| one.stage == Stage::HelloSent);
                if is_joining || !stall.is_past(now) {
                    return self.secure_next(most, now, actions);
                }
                let Some((mut watched, _)) = dark.old.take() else { return };
                actions.push_back(Action::Recovered(watched.subflow));
                watched.next_look = Some(now + LOOK_INTERVAL);
                self.state = State::Up(watched);
                self.abandon_all(actions);
            }
            State::Waiting { .. } | State::Trying => {}
        }
    }

    /// Forgets all that is under way, until it is wanted again.
    pub(super) fn pause(&mut self, now: Instant, actions: &mut VecDeque<Action>) {
        self.abandon_all(actions);
        match &mut self.state {
            State::Trying => self.state = State::Waiting { until: now },
            State::Dark(dark) => dark.pace.leave_seat(),
            State::Waiting { .. } | State::Up(_) => {}
        }
    }

    /// It is looked after again, after it was not for a while.
    pub(super) fn resume(&mut self, now: Instant) {
        match &mut self.state {
            State::Waiting { until } => *until = now,
            State::Up(watched) => watched.next_look = Some(now + LOOK_INTERVAL),
            State::Dark(dark) => dark.next = now,
            State::Trying => {}
        }
    }

    /// Forgets all that is under way.
    pub(super) fn abandon_all(&mut self, actions: &mut VecDeque<Action>) {
        actions.extend(self.connecting.drain(..).map(|connecting| Action::Abandon(connecting.id)));
    }
}

impl Watched {
    /// Takes a verdict on the subflow. Returns whether it is potentially failed.
    fn note(&mut self, verdict: Verdict, now: Instant, actions: &mut VecDeque<Action>) -> bool {
        match verdict {
            Verdict::PotentiallyFailed => return true,
            Verdict::Idle if self.rests => {
                self.next_look = None;
                return false;
            }
            Verdict::Idle => {
                // Once more, when its next write tells: what was written before counts as seen then.
                self.rests = true;
                actions.push_back(Action::Rest(self.subflow));
                return false;
            }
            Verdict::Quiet => actions.push_back(Action::Probe(self.subflow)),
            Verdict::Alive => {}
        }
        self.rests = false;
        let soon = now + LOOK_INTERVAL;
        self.next_look = Some(self.next_look.map_or(soon, |at| at.min(soon)));
        false
    }
}

impl Failing {
    fn note(&mut self, verdict: Verdict, now: Instant) {
        self.recovered = match verdict {
            Verdict::PotentiallyFailed => None,
            _ => Some(self.recovered.unwrap_or(now)),
        };
    }

    /// Whether to be content with the subflow: it goes on so soon that it is better than a fresh
    /// one, or nothing has taken its place for long.
    fn is_past(&self, now: Instant) -> bool {
        self.recovered
            .is_some_and(|at| at.since(self.began) < SHORT_FAILURE || now.since(at) >= LONG_FAILURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stall_keeps_the_subflow_and_a_long_one_only_in_the_end() {
        let at = Instant::from_millis;
        let mut short = Failing { began: at(0), recovered: None };
        short.note(Verdict::PotentiallyFailed, at(200));
        assert!(!short.is_past(at(200)));
        short.note(Verdict::Alive, at(399));
        assert!(short.is_past(at(399)));
        let mut long = Failing { began: at(0), recovered: None };
        long.note(Verdict::Alive, at(600));
        assert!(!long.is_past(at(3599)) && long.is_past(at(3600)));
        long.note(Verdict::PotentiallyFailed, at(3600));
        assert!(!long.is_past(at(9000)));
    }
}
