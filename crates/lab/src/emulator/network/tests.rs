//! Starts, cuts and waits in virtual time.

use super::super::cut::Cut;
use super::super::direction::Sent;
use super::super::made::{self, link, number};
use super::*;

use hdrhistogram::Histogram;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u32) -> Instant {
    Instant::ZERO + ms * MS
}

/// One path of 12 Mb/s, where 1500 bytes take 1 ms, and 9 ms of delay.
fn path(name: &str) -> PathConfig {
    PathConfig { name: name.to_owned(), down: link(12, 9, 1000), up: link(12, 9, 1000) }
}

fn network(start: Start) -> Network {
    Network::new(vec![path("a"), path("b")], 1, start)
}

/// A packet of 1500 bytes comes.
fn offer(direction: &mut Direction, number: u32, now: Instant) {
    let packet = made::whole(number, 1500);
    direction.room().unwrap()[..packet.len()].copy_from_slice(&packet);
    direction.handle_packet(packet.len(), now);
}

/// The numbers of what leaves.
fn wake(direction: &mut Direction, now: Instant) -> Vec<u32> {
    let mut lateness = Histogram::new(2).unwrap();
    let mut numbers = Vec::new();
    while let Some(run) = direction.poll_transmit(now) {
        let packet = direction.packet(&run);
        let sent = if packet.is_some() { Sent::Written } else { Sent::Cut };
        numbers.extend(packet.map(number));
        direction.handle_transmit(&run, sent, now, &mut lateness);
    }
    numbers
}

/// The switches of one cut of the path of index 0.
fn schedule(network: &mut Network, cut: &str) {
    network.schedule(cut.parse::<Cut>().unwrap().switches(0).collect());
}

#[test]
fn a_cut_holds_from_its_first_moment_to_its_last() {
    let mut network = network(Start::Explicit);
    schedule(&mut network, "a/down@40ms..60ms");
    network.start(at(100));
    let mut arrived = [Vec::new(), Vec::new(), Vec::new()];
    // A packet each 2 ms in three directions; each takes 10 ms.
    for ms in (100..200).step_by(2) {
        network.handle_timeout(at(ms));
        let [a, b] = &mut network.lanes[..] else { panic!("two paths") };
        for (direction, arrived) in
            [&mut a.down, &mut a.up, &mut b.down].into_iter().zip(&mut arrived)
        {
            arrived.extend(wake(direction, at(ms)));
            offer(direction, ms, at(ms));
        }
    }
    let sent: Vec<u32> = (100..190).step_by(2).collect();
    assert_eq!((&arrived[1], &arrived[2]), (&sent, &sent));
    // What came or would have arrived from 140 to 158 ms is gone.
    let gone = 130..160;
    let left: Vec<u32> = sent.into_iter().filter(|sent| !gone.contains(sent)).collect();
    assert_eq!(arrived[0], left);
    assert_eq!(network.lanes[0].down.report().counters.cut.packets, 15);
}

#[test]
fn cuts_wait_for_the_start_and_wake_the_thread() {
    let mut network = network(Start::Explicit);
    schedule(&mut network, "a@40ms..60ms");
    assert_eq!(network.poll_wait(at(0), at(0)), Wait::Poll(None));
    network.handle_timeout(at(1000));
    assert!(!network.lanes[0].down.cut);
    network.start(at(1000));
    assert_eq!(network.poll_wait(at(1000), at(1001)), Wait::Poll(Some(39 * MS)));
    network.handle_timeout(at(1040));
    assert!(network.lanes[0].down.cut && network.lanes[0].up.cut && !network.lanes[1].up.cut);
    assert_eq!(network.poll_wait(at(1040), at(1040)), Wait::Poll(Some(20 * MS)));
    network.handle_timeout(at(1060));
    assert!(!network.lanes[0].down.cut && !network.lanes[0].up.cut);
    assert_eq!(network.poll_wait(at(1060), at(1060)), Wait::Poll(None));
}

#[test]
fn a_late_driver_makes_up_for_every_cut_it_missed() {
    let mut network = network(Start::Explicit);
    schedule(&mut network, "a@40ms..60ms");
    network.start(at(1000));
    network.handle_timeout(at(1110));
    assert!(!network.lanes[0].down.cut && !network.lanes[0].up.cut);
    assert_eq!(network.poll_wait(at(1110), at(1110)), Wait::Poll(None));
}

#[test]
fn a_start_is_one_of_all_directions() {
    let mut network = network(Start::Explicit);
    network.start(at(1000));
    for lane in &mut network.lanes {
        for direction in [&mut lane.down, &mut lane.up] {
            offer(direction, 1, at(1095));
            assert_eq!(wake(direction, at(1105)), [1]);
            assert_eq!(direction.report().series, [0, 1460]);
        }
    }
}

#[test]
fn a_slow_network_wakes_for_each_packet() {
    let mut network = network(Start::Explicit);
    offer(&mut network.lanes[1].up, 1, at(5));
    offer(&mut network.lanes[0].down, 2, at(3));
    assert_eq!(network.poll_wait(at(5), at(6)), Wait::Poll(Some(7 * MS)));
    assert_eq!(network.poll_wait(at(5), at(13)), Wait::Sleep(Duration::ZERO));
    assert_eq!(wake(&mut network.lanes[0].down, at(13)), [2]);
    assert_eq!(network.poll_wait(at(13), at(13)), Wait::Poll(Some(2 * MS)));
}

#[test]
fn a_fast_network_works_in_quanta_while_packets_are_on_their_way() {
    let fast = |mbps| PathConfig { down: link(mbps, 9, 1000), ..path("a") };
    let mut network = Network::new(vec![fast(200), fast(100)], 1, Start::Explicit);
    assert_eq!(network.poll_wait(at(0), at(0)), Wait::Poll(None));
    offer(&mut network.lanes[0].up, 1, at(0));
    let us = Duration::from_micros;
    let rest = |later| network.poll_wait(at(0), at(0) + us(later));
    assert_eq!(
        (rest(20), rest(50), rest(70)),
        (Wait::Sleep(us(30)), Wait::Sleep(us(0)), Wait::Sleep(us(0)))
    );
    let mut slow = Network::new(vec![fast(200), fast(99)], 1, Start::Explicit);
    offer(&mut slow.lanes[0].up, 1, at(0));
    assert_eq!(slow.poll_wait(at(0), at(0)), Wait::Poll(Some(10 * MS)));
}

#[test]
fn the_first_data_start_everything_once() {
    let mut network = network(Start::FirstData(1024));
    assert!(!network.starts_with(1023) && network.starts_with(1024));
    network.start(at(7));
    assert_eq!((network.starts_with(1024), network.epoch()), (false, Some(at(7))));
    assert!(!self::network(Start::Explicit).starts_with(65_000));
}

#[test]
fn directions_of_one_seed_draw_independently() {
    let lossy = || {
        let loss = weftline_link::LossModel::Bernoulli(0.5);
        let config = LinkConfig { loss, ..link(1200, 9, 1000) };
        PathConfig { name: "a".to_owned(), down: config.clone(), up: config }
    };
    let mut network = Network::new(
        vec![lossy(), PathConfig { name: "b".to_owned(), ..lossy() }],
        1,
        Start::Explicit,
    );
    let mut survivors = Vec::new();
    for lane in &mut network.lanes {
        for direction in [&mut lane.down, &mut lane.up] {
            (0..200).for_each(|number| offer(direction, number, at(number)));
            survivors.push(wake(direction, at(1000)));
        }
    }
    survivors.sort();
    survivors.dedup();
    assert_eq!(survivors.len(), 4);
}
