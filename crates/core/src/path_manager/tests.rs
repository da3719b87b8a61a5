//! The path manager against a model of a network: paths that answer after their round-trip time, or
//! are dark and swallow everything.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::path::MAX_DIALS;
use super::*;

const RTT: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(5);
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// What comes to an attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    Connected,
    Secured,
    Up,
}

/// A path of the model.
#[derive(Default)]
struct Model {
    /// When it is dark.
    dark: Vec<(u64, u64)>,
    /// Its subflow, with when it began and since when it is replaced or stays idle.
    subflow: Option<(SubflowId, Instant)>,
    /// Whether the connection has data on it all the time.
    busy: bool,
    /// Whether the server refuses.
    refuses: Option<Failure>,
    /// When it begins to acknowledge what is sent, in milliseconds, if not from the beginning.
    acks_from: Option<u64>,
}

impl Model {
    fn is_dark(&self, now: Instant) -> bool {
        self.dark.iter().any(|&(from, until)| (at(from)..at(until)).contains(&now))
    }

    /// Since when, if it is.
    fn dark_since(&self, now: Instant) -> Option<Instant> {
        let all = self.dark.iter().map(|&(from, until)| at(from)..at(until));
        all.filter(|dark| dark.contains(&now)).map(|dark| dark.start).min()
    }
}

struct World {
    manager: PathManager,
    paths: Vec<Model>,
    now: Instant,
    /// What is on its way, and on which path each attempt is.
    coming: BTreeSet<(Instant, ConnectingId, News)>,
    connecting: BTreeMap<ConnectingId, (usize, SubflowId)>,
    /// All actions, with when they were wanted.
    log: Vec<(Instant, Action)>,
}

impl World {
    fn new(paths: Vec<Model>, reserve: &[usize]) -> Self {
        Self::with(DIAL_TIMEOUT, paths, reserve)
    }

    fn with(dial_timeout: Duration, paths: Vec<Model>, reserve: &[usize]) -> Self {
        let plan = |index: usize| PathPlan {
            id: PathId(index as u64),
            reserve: reserve.contains(&index),
            seat: ProbeSeat::default(),
            rng: crate::rng::Rng::stream(7, &format!("path/{index}")),
        };
        let plans = (0..paths.len()).map(plan).collect();
        let manager = PathManager::new(plans, TIMEOUT, Some(dial_timeout), Instant::ZERO);
        let (coming, connecting, log) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        Self { manager, paths, now: Instant::ZERO, coming, connecting, log }
    }

    fn run(&mut self, until: Instant) {
        let mut at_once = 0;
        loop {
            self.act();
            let news = self.coming.first().map(|&(at, ..)| at);
            let next = self.manager.poll_timeout().into_iter().chain(news).min();
            let Some(next) = next.filter(|&next| next <= until) else { break };
            let (news, next) = (news.filter(|&news| news <= next), next.max(self.now));
            at_once = if next == self.now { at_once + 1 } else { 0 };
            assert!(at_once < 100, "it does not spin at {next}");
            self.now = next;
            if news.is_some() {
                let (_, connecting, news) = self.coming.pop_first().expect("seen just now");
                self.tell(connecting, news);
            } else {
                // Traffic goes on, wherever it goes.
                self.manager.handle_timeout(next.as_nanos(), next);
            }
        }
        self.now = until;
    }

    fn tell(&mut self, connecting: ConnectingId, news: News) {
        let Some(&(path, subflow)) = self.connecting.get(&connecting) else { return };
        if self.paths[path].is_dark(self.now) {
            return;
        }
        match news {
            News::Connected => self.manager.handle_connected(connecting, RTT, self.now),
            News::Secured => self.manager.handle_secured(connecting, self.now),
            News::Up => {
                self.connecting.remove(&connecting);
                if let Some(failure) = self.paths[path].refuses {
                    return self.manager.handle_failed(connecting, failure, self.now);
                }
                self.paths[path].subflow = Some((subflow, self.now));
                self.manager.handle_up(connecting, self.now);
            }
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.manager.poll_action() {
            self.log.push((self.now, action));
            let soon = self.now + RTT;
            match action {
                Action::Dial { connecting, path, .. } => {
                    self.connecting.insert(connecting, (path.0 as usize, SubflowId(0)));
                    let of_path = self.connecting.values().filter(|one| one.0 == path.0 as usize);
                    assert!(of_path.count() <= MAX_DIALS + 1, "dials are bounded");
                    self.coming.insert((soon, connecting, News::Connected));
                }
                Action::Secure(connecting) => {
                    self.coming.insert((soon, connecting, News::Secured));
                }
                Action::Hello(connecting, subflow) | Action::Join(connecting, subflow) => {
                    self.connecting.get_mut(&connecting).expect("under way").1 = subflow;
                    self.coming.insert((soon, connecting, News::Up));
                }
                Action::Abandon(connecting) | Action::TimeOut(connecting, _) => {
                    self.connecting.remove(&connecting);
                }
                Action::Look(subflow) | Action::Rest(subflow) => self.look(subflow),
                Action::Probe(_)
                | Action::PotentiallyFailed(..)
                | Action::Recovered(_)
                | Action::Replace(_)
                | Action::Carried(_)
                | Action::ClosePath(_)
                | Action::GiveUp => {}
            }
        }
    }

    /// On a busy path what is sent is acknowledged until it is dark.
    fn look(&mut self, subflow: SubflowId) {
        let of = |path: &&Model| path.subflow.is_some_and(|(id, _)| id == subflow);
        let look = self.paths.iter().find(of).map(|path| {
            let acked = path.dark_since(self.now).unwrap_or(self.now).as_nanos();
            let acked = if path.acks_from.is_some_and(|ms| self.now < at(ms)) { 0 } else { acked };
            Look { acked, unacked: u64::from(path.busy), srtt: RTT, ..Look::default() }
        });
        self.manager.handle_look(subflow, look, self.now);
    }

    fn count(&self, wanted: impl Fn(&Action) -> bool) -> usize {
        self.log.iter().filter(|(_, action)| wanted(action)).count()
    }

    /// When the first such action was wanted after `from`.
    fn first(&self, from: Instant, wanted: impl Fn(&Action) -> bool) -> Option<Instant> {
        self.log.iter().find(|(at, action)| *at >= from && wanted(action)).map(|(at, _)| *at)
    }
}

fn bright(count: usize) -> Vec<Model> {
    (0..count).map(|_| Model::default()).collect()
}

fn dark(from: u64, until: u64) -> Model {
    Model { dark: vec![(from, until)], busy: true, ..Model::default() }
}

fn plan(id: u64) -> PathPlan {
    let rng = crate::rng::Rng::stream(1, "plan");
    PathPlan { id: PathId(id), reserve: false, seat: ProbeSeat::default(), rng }
}

/// Handshakes and joins pass, and nothing that is larger: what the application writes is never
/// acknowledged. One subflow after the other is not given its data every half second.
#[test]
fn a_way_that_swallows_all_but_handshakes_is_tried_ever_more_seldom() {
    let swallows = Model { acks_from: Some(1_000_000), busy: true, ..Model::default() };
    let mut world = World::new(vec![Model { busy: true, ..Model::default() }, swallows], &[]);
    world.run(at(30_000));
    let joins = world.count(|action| matches!(action, Action::Join(..)));
    assert!((5..=20).contains(&joins), "{joins} joins in half a minute");
}

#[test]
fn one_path_says_hello_and_the_others_join() {
    let mut world = World::new(bright(3), &[]);
    world.run(at(1000));
    assert_eq!(world.count(|action| matches!(action, Action::Hello(..))), 1);
    assert_eq!(world.count(|action| matches!(action, Action::Join(..))), 2);
    let up: BTreeSet<_> = world.paths.iter().filter_map(|path| path.subflow).collect();
    assert_eq!(up.len(), 3);
    assert!(up.iter().all(|&(_, since)| since <= at(80)), "three round trips and a join");
    assert_eq!(world.manager.dark().count(), 0);
}

#[test]
fn a_connection_with_nothing_on_its_way_wants_nothing() {
    let mut world = World::new(bright(2), &[]);
    world.run(at(10_000));
    assert_eq!(world.manager.poll_timeout(), None);
    assert_eq!(world.count(|action| matches!(action, Action::Rest(_))), 2);
    // A write wakes the watch, until all is through.
    world.manager.handle_news(SubflowId(0));
    world.run(at(20_000));
    assert_eq!(world.manager.poll_timeout(), None);
    assert_eq!(world.count(|action| matches!(action, Action::Rest(_))), 3);
}

#[test]
fn a_hello_that_goes_dark_holds_the_others_up_for_a_second() {
    let mut paths = bright(2);
    // Its TCP connection and TLS stand; then it goes dark.
    paths[0].dark = vec![(50, 60_000)];
    let mut world = World::new(paths, &[]);
    world.run(at(4000));
    assert_eq!(world.count(|action| matches!(action, Action::Hello(..))), 2);
    let (_, since) = world.paths[1].subflow.expect("it says hello in its turn");
    assert!(since <= at(1100), "{since}");
    assert!(world.manager.dark().eq([PathId(0)]));
}

#[test]
fn a_dark_path_is_up_soon_after_it_is_back() {
    let mut world = World::new(vec![dark(2000, 9000), Model::default()], &[]);
    world.run(at(12_000));
    let failed = world.first(at(2000), |action| matches!(action, Action::PotentiallyFailed(..)));
    // Looked at every 100 ms, and given 2 srtt + 200 ms.
    assert!(failed.is_some_and(|failed| failed <= at(2400)), "{failed:?}");
    let (_, since) = world.paths[0].subflow.unwrap();
    assert!(since >= at(9000) && since <= at(9000 + 200 + 80), "{since}");
    assert_eq!(world.count(|action| matches!(action, Action::Replace(_))), 1);
}

#[test]
fn a_short_stall_keeps_the_subflow() {
    let mut world = World::new(vec![dark(2000, 2450), Model::default()], &[]);
    world.run(at(12_000));
    assert_eq!(world.count(|action| matches!(action, Action::PotentiallyFailed(..))), 1);
    assert_eq!(world.count(|action| matches!(action, Action::Recovered(_))), 1);
    assert_eq!(world.count(|action| matches!(action, Action::Replace(_))), 0);
    assert_eq!(world.manager.dark().count(), 0);
    assert!(world.connecting.is_empty(), "dials are given up");
}

#[test]
fn a_subflow_that_is_gone_is_replaced() {
    let mut world = World::new(bright(2), &[]);
    world.run(at(1000));
    world.manager.handle_down(SubflowId(0), at(1000));
    world.run(at(2000));
    assert_eq!(world.manager.dark().count(), 0);
    assert_eq!(world.count(|action| matches!(action, Action::Replace(_))), 0);
    // What it is told of one that it does not know any more is of no matter.
    world.manager.handle_down(SubflowId(0), at(2000));
    world.manager.handle_look(SubflowId(0), None, at(2000));
    world.manager.handle_up(ConnectingId(0), at(2000));
    assert_eq!(world.manager.dark().count(), 0);
}

#[test]
fn it_gives_up_when_every_path_has_failed_twice_or_for_good() {
    let refusing = |failure| Model { refuses: Some(failure), ..Model::default() };
    let tried = |paths: Vec<Model>| {
        let mut world = World::new(paths, &[]);
        world.run(at(5000));
        world.first(Instant::ZERO, |action| *action == Action::GiveUp)
    };
    let twice = tried(vec![refusing(Failure::Busy), refusing(Failure::Temporary)]);
    assert!(twice.is_some_and(|at_| at_ > at(200) && at_ < at(1500)), "{twice:?}");
    let at_once = tried(vec![refusing(Failure::Permanent)]);
    assert_eq!(at_once, Some(at(60)));
    assert_eq!(tried(vec![refusing(Failure::Permanent), Model::default()]), None);
    let dark = tried(vec![dark(0, 60_000)]);
    assert!(dark.is_some_and(|gave_up| gave_up >= at(2000) && gave_up <= at(2500)), "{dark:?}");
}

#[test]
fn a_path_in_reserve_leaves_the_first_word_to_others() {
    let dialled = |paths: Vec<Model>| {
        let mut world = World::new(paths, &[1]);
        world.run(at(3000));
        let path = |action: &Action| {
            matches!(action, Action::Dial { path: PathId(1), turn: Turn::First, .. })
        };
        world.first(Instant::ZERO, path)
    };
    assert_eq!(dialled(bright(2)), Some(Instant::ZERO + HEAD_START));
    let refused = Model { refuses: Some(Failure::Permanent), ..Model::default() };
    assert_eq!(dialled(vec![refused, Model::default()]), Some(at(60)));
}

#[test]
fn a_refusal_on_a_dark_path_is_no_reason_to_hurry() {
    let mut world = World::new(bright(2), &[]);
    world.run(at(1000));
    world.paths[0].refuses = Some(Failure::Busy);
    world.manager.handle_down(SubflowId(0), at(1000));
    world.run(at(31_000));
    // Waits that double to 2 s, in place of five dials a second.
    let dials = world.count(|action| matches!(action, Action::Dial { path: PathId(0), .. }));
    assert!((15..=30).contains(&dials), "{dials}");
}

/// Of the connections that lose a path at once only the one that dials often dials without a turn.
#[test]
fn who_dials_often_waits_for_nobody_and_the_others_take_turns() {
    let seat = ProbeSeat::default();
    let turns = |seat: &ProbeSeat| {
        let mut world = World::new(bright(2), &[]);
        world.run(at(1000));
        world.paths[0].refuses = Some(Failure::Temporary);
        world.manager.paths.iter_mut().for_each(|path| path.plan.seat = seat.clone());
        let begin = world.log.len();
        world.manager.handle_down(SubflowId(0), at(1000));
        world.run(at(5000));
        let dials = world.log[begin..].iter().filter_map(|(_, action)| match action {
            Action::Dial { turn, .. } => Some(*turn),
            _ => None,
        });
        (dials.collect::<Vec<_>>(), world)
    };
    let (first, _keeps_the_seat) = turns(&seat);
    let (second, _) = turns(&seat);
    assert!(first.len() > 2 && first.contains(&Turn::Often), "{first:?}");
    assert!(second.len() > 2 && second.iter().all(|turn| *turn == Turn::Again), "{second:?}");
}

#[test]
fn a_path_that_was_refused_does_not_hurry_when_others_are_answered() {
    let mut world = World::new(bright(2), &[]);
    world.run(at(1000));
    world.paths[0].refuses = Some(Failure::Busy);
    world.manager.handle_down(SubflowId(0), at(1000));
    for ms in (1000..31_000).step_by(20) {
        world.manager.handle_answered(PathId(0));
        world.run(at(ms));
    }
    let dials = world.count(|action| matches!(action, Action::Dial { path: PathId(0), .. }));
    assert!((15..=30).contains(&dials), "{dials}");
    // A change of the links is a reason.
    world.manager.handle_links_changed();
    world.run(at(31_010));
    let again = world.count(|action| matches!(action, Action::Dial { path: PathId(0), .. }));
    assert_eq!(again, dials + 1);
}

/// Something on the path ends each subflow as soon as it is up.
#[test]
fn subflows_that_are_gone_at_once_do_not_follow_each_other_without_a_pause() {
    let dials = |is_first: bool, lives: Duration| {
        let mut world = World::new(bright(2), &[]);
        let mut other = pace::Pace::new(at(0));
        assert!(is_first || other.takes(&world.manager.paths[0].plan.seat));
        for ms in (0..30_000).step_by(5) {
            world.run(at(ms));
            let old = |&mut (_, since): &mut (SubflowId, Instant)| world.now.since(since) >= lives;
            if let Some((subflow, _)) = world.paths[0].subflow.take_if(old) {
                world.manager.handle_down(subflow, at(ms));
                world.manager.handle_answered(PathId(0));
            }
        }
        world.count(|action| matches!(action, Action::Dial { path: PathId(0), .. }))
    };
    // Three round trips to be up: one that dials often takes no longer for each.
    let often = dials(true, Duration::ZERO);
    assert!((400..=30_000 / 60).contains(&often), "{often}");
    // The others wait.
    let seldom = dials(false, Duration::ZERO);
    assert!((15..=30).contains(&seldom), "{seldom}");
    // One that has lived is followed at once.
    let lived = dials(false, Duration::from_millis(1500));
    assert_eq!(lived, 30_000 / (60 + 1500) + 1);
}

#[test]
fn nothing_is_dialled_more_than_twenty_times_a_second() {
    let mut manager = PathManager::new(vec![plan(0)], TIMEOUT, None, at(0));
    for (connecting, ms) in (0..100).map(|number| (ConnectingId(number), 50 * number)) {
        assert_eq!(manager.poll_timeout(), Some(at(ms)));
        manager.handle_timeout(0, at(ms));
        manager.handle_connected(connecting, Duration::from_millis(1), at(ms + 1));
        manager.handle_secured(connecting, at(ms + 2));
        manager.handle_up(connecting, at(ms + 3));
        manager.handle_down(SubflowId(connecting.0), at(ms + 3));
    }
}

/// Dials, secures and joins by hand over a path with a round trip of 100 ms.
#[test]
fn a_join_that_is_on_its_way_is_waited_for_when_the_old_subflow_goes_on() {
    let rtt = Duration::from_millis(100);
    let rng = crate::rng::Rng::stream(7, "join");
    let plan = PathPlan { id: PathId(0), reserve: false, seat: ProbeSeat::default(), rng };
    let mut manager = PathManager::new(vec![plan], TIMEOUT, None, at(0));
    let (first, second) = (ConnectingId(0), ConnectingId(1));
    manager.handle_timeout(0, at(0));
    manager.handle_connected(first, rtt, at(100));
    manager.handle_secured(first, at(200));
    manager.handle_up(first, at(300));
    let stalled = Look { acked: 0, unacked: 1, srtt: rtt, ..Look::default() };
    let mut now = at(300);
    while manager.dark().count() == 0 {
        assert!(now < at(3000), "it stalls");
        now = manager.poll_timeout().expect("it is looked at");
        manager.handle_timeout(0, now);
        manager.handle_look(SubflowId(0), Some(stalled), now);
    }
    manager.handle_timeout(0, now);
    manager.handle_connected(second, rtt, now + rtt);
    manager.handle_look(SubflowId(0), Some(stalled), now + rtt);
    manager.handle_secured(second, now + 2 * rtt);
    let all: Vec<Action> = std::iter::from_fn(|| manager.poll_action()).collect();
    assert!(all.contains(&Action::Join(second, SubflowId(1))), "{all:?}");
    // The server may have the join, and then the old subflow is gone there.
    let goes_on = Look { acked: 9, ..stalled };
    manager.handle_look(SubflowId(0), Some(goes_on), now + 2 * rtt);
    manager.handle_up(second, now + 3 * rtt);
    let all: Vec<Action> = std::iter::from_fn(|| manager.poll_action()).collect();
    assert_eq!(all, [Action::Replace(SubflowId(0))]);
}

#[test]
fn a_connection_that_is_over_lets_another_one_dial_often() {
    let mut world = World::new(vec![dark(500, 60_000), Model::default()], &[]);
    world.run(at(2000));
    let seat = world.manager.paths[0].plan.seat.clone();
    let mut other = pace::Pace::new(at(2000));
    assert!(!other.takes(&seat));
    world.manager.set_wanted(false, at(2000));
    assert!(other.takes(&seat));
}

#[test]
fn a_hello_that_is_abandoned_is_another_ones_turn() {
    for is_over in [false, true] {
        let mut world = World::new(vec![dark(50, 60_000), Model::default()], &[]);
        world.run(at(55));
        assert_eq!(world.count(|action| matches!(action, Action::Hello(..))), 1);
        if is_over {
            world.manager.set_wanted(false, at(55));
            world.manager.set_wanted(true, at(55));
        } else {
            world.manager.set_paths(vec![plan(1)], at(55));
        }
        world.run(at(55 + 200));
        assert!(world.paths[1].subflow.is_some(), "it says hello");
    }
}

#[test]
fn a_path_that_is_wanted_again_while_it_drains_keeps_its_subflow() {
    let mut world = World::new(bright(2), &[]);
    world.run(at(1000));
    let (subflow, _) = world.paths[0].subflow.unwrap();
    world.manager.set_paths(vec![plan(1)], at(1000));
    world.run(at(1070));
    world.manager.set_paths(vec![plan(0), plan(1)], at(1070));
    world.run(at(3000));
    let dials = world.count(|action| matches!(action, Action::Dial { .. }));
    assert_eq!((dials, world.manager.path_of(subflow)), (2, Some(PathId(0))));
    world.manager.handle_down(subflow, at(3000));
    world.run(at(3100));
    assert!(world.paths[0].subflow.is_some_and(|(_, since)| since > at(3000)), "it is watched");
    // Nor is one kept that has lost its subflow meanwhile.
    let (subflow, _) = world.paths[0].subflow.unwrap();
    world.manager.set_paths(vec![plan(1)], at(5000));
    world.manager.handle_down(subflow, at(5010));
    world.manager.set_paths(vec![plan(0), plan(1)], at(5020));
    world.run(at(5200));
    assert!(world.paths[0].subflow.is_some_and(|(_, since)| since > at(5000)));
}

#[test]
fn a_path_taken_out_of_use_drains_beside_another() {
    let mut world = World::new(bright(2), &[]);
    world.run(at(1000));
    world.manager.set_paths(vec![plan(1)], at(1000));
    let carried = |outstanding, received, is_spare| Carried { outstanding, received, is_spare };
    let close = |world: &mut World, now, carried| {
        world.run(now);
        world.manager.handle_carried(PathId(0), Some(carried), now);
        world.manager.poll_action() == Some(Action::ClosePath(PathId(0)))
    };
    assert!(!close(&mut world, at(1050), carried(0, 9, false)), "there is no other");
    assert!(!close(&mut world, at(1100), carried(5, 9, true)), "it carries something");
    assert!(!close(&mut world, at(1150), carried(0, 10, true)), "something came");
    assert!(close(&mut world, at(1200), carried(0, 10, true)));
    world.manager.handle_carried(PathId(0), None, at(1250));
    // One that is wanted again is dialled.
    world.manager.set_paths(vec![plan(0), plan(1)], at(1300));
    world.run(at(1400));
    let back = |action: &Action| matches!(action, Action::Dial { path: PathId(0), .. });
    assert_eq!(world.first(at(1250), back), Some(at(1300)));
    // And what never runs dry is closed in the end.
    world.manager.set_paths(vec![plan(1)], at(2000));
    let ticks = (2050..).step_by(50);
    let mut closed = ticks.skip_while(|&ms| !close(&mut world, at(ms), carried(5, ms, true)));
    assert_eq!(closed.next(), Some(7050));
}

#[test]
fn one_that_is_over_wants_nothing_until_it_needs_a_path_to_drain() {
    let mut world = World::new(vec![dark(500, 60_000), Model::default()], &[]);
    world.run(at(2000));
    assert!(world.manager.dark().eq([PathId(0)]));
    world.manager.set_wanted(false, at(2000));
    world.run(at(4000));
    assert!(world.connecting.is_empty());
    assert_eq!(world.manager.poll_timeout(), None);
    world.manager.handle_down(SubflowId(1), at(4000));
    world.manager.set_wanted(true, at(4000));
    world.run(at(4200));
    assert!(world.manager.dark().eq([PathId(0)]));
}

#[test]
fn a_first_handshake_has_a_second_once_there_is_no_subflow() {
    let up_at = |lost: bool| {
        let mut paths = bright(2);
        // Its TCP connection stands; what secures it is lost.
        paths[1].dark = vec![(30, 50)];
        let mut world = World::new(paths, &[]);
        world.run(at(300));
        if lost {
            // The other path's subflow is gone, and the path as well.
            world.paths[0].dark = vec![(300, 60_000)];
            world.manager.handle_down(SubflowId(0), at(300));
        }
        world.run(at(20_000));
        let (_, since) = world.paths[1].subflow.expect("it is tried again");
        since
    };
    // A server that is busy is waited for as long as there is another path.
    assert!(up_at(false) > at(5000), "{}", up_at(false));
    assert!(up_at(true) <= at(300 + 1000 + 200 + 80), "{}", up_at(true));
}

#[test]
fn a_first_dial_is_not_waited_for_once_there_is_no_subflow() {
    let mut paths = bright(2);
    // Nobody answers its dial.
    paths[1].dark = vec![(0, 290)];
    paths[0].dark = vec![(300, 60_000)];
    let mut world = World::with(60 * DIAL_TIMEOUT, paths, &[]);
    world.run(at(300));
    world.manager.handle_down(SubflowId(0), at(300));
    world.run(at(20_000));
    let (_, since) = world.paths[1].subflow.expect("it is dialled beside the first dial");
    assert!(since <= at(300 + 200 + 80), "{since}");
}

/// Drivers that do not give a dial up for long.
#[test]
fn dials_that_nobody_answers_are_bounded() {
    let mut world = World::with(60 * DIAL_TIMEOUT, vec![dark(500, 20_000)], &[]);
    world.run(at(20_000));
    assert_eq!(world.connecting.len(), MAX_DIALS, "as many as may be");
}

proptest! {
    /// Whatever goes dark and when: one hello at a time, dials within bounds, no spinning; and once
    /// everything is bright again every path has a subflow.
    #[test]
    fn every_path_is_up_in_the_end(
        outages in prop::collection::vec(
            prop::collection::vec((0_u64..20_000, 1_u64..6_000), 0..6), 1..5),
        busy in any::<bool>(),
    ) {
        let path = |outages: &Vec<(u64, u64)>| Model {
            dark: outages.iter().map(|&(from, len)| (from, from + len)).collect(),
            busy,
            ..Model::default()
        };
        let mut world = World::new(outages.iter().map(path).collect(), &[]);
        world.run(at(40_000));
        prop_assert_eq!(world.manager.dark().count(), 0);
        prop_assert!(world.paths.iter().all(|path| path.subflow.is_some()));
        prop_assert!(world.connecting.is_empty());
        let mut numbers = BTreeSet::new();
        for (_, action) in &world.log {
            if let Action::Hello(_, subflow) | Action::Join(_, subflow) = action {
                prop_assert!(numbers.insert(*subflow), "numbers are not used twice");
            }
        }
    }
}
