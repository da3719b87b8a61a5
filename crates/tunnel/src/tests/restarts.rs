//! What is lost when a node begins anew is counted: packets that had come, and no others.

use super::*;

fn value(counters: &[Counter], name: &str) -> u64 {
    counters.iter().find(|counter| counter.name == name).map_or(0, |counter| counter.value)
}

#[test]
fn a_gateway_counts_what_it_had_not_sent_to_a_device_that_was_started_anew() {
    let default = brief();
    let schemes = [
        default,
        // Packets that are in a cohort at once.
        Sending { queue: None, ..default },
        Sending { scheme: Scheme::Plain, ..default },
    ];
    for sending in schemes {
        let mut world = World::new(sending, honest);
        for _ in 0..5 {
            world.now += Duration::from_millis(20);
            world.speak();
        }
        let now = world.now;
        (0..50).for_each(|number| world.gateway.push(0, &content(number, 100), now));
        for _ in 0..3 {
            assert!(world.gateway.poll_transmit(0, now, &mut Vec::new()).is_some());
        }
        world.device =
            DeviceEnd::new(local(2), secret(1).public(), vec!["a".into(), "b".into()], 8);
        for _ in 0..5 {
            world.now += Duration::from_millis(20);
            world.speak();
        }
        let counters = world.gateway.counters();
        assert_eq!(value(&counters, "packets_discarded"), 47, "{sending:?}");
    }
}

/// Labels go round in less than 100 days; half of them are taken for old.
#[test]
fn a_device_that_was_away_for_long_is_served_again() {
    for (intervals, begins_anew) in [(3_u64 << 30, true), (1 << 30, true), (1 << 28, false)] {
        let mut world = World::joined(brief(), honest);
        world.run(50);
        (0..20).for_each(|_| world.step(0));
        let epoch = world.gateway.epoch();
        world.now += Duration::from_millis(2 * intervals);
        (0..100).for_each(|_| world.step(0));
        let first = world.next;
        world.run(50);
        (0..20).for_each(|_| world.step(0));
        assert_eq!(world.check(first), (world.next - first) as usize, "{intervals}");
        assert_eq!(world.gateway.epoch() != epoch, begins_anew, "{intervals}");
        assert_eq!(world.device.follows(), world.gateway.epoch());
    }
}

/// Begins the gateway anew and lets the device hear of it; what the device has discarded.
fn begin_anew(world: &mut World) -> u64 {
    let sending = brief();
    let settings = sending.settings(&local(1), true).unwrap();
    let device = secret(2).public();
    world.gateway = GatewayEnd::new(local(1), device, settings, sending, 2, world.now).unwrap();
    for _ in 0..100 {
        world.now += Duration::from_millis(20);
        world.speak();
    }
    assert_eq!(world.device.mtu(), Some(world.mtu as u16));
    assert_eq!(world.device.follows(), world.gateway.epoch());
    assert_eq!(value(&world.device.counters(), "restarts"), 1);
    value(&world.device.counters(), "packets_discarded")
}

#[test]
fn a_device_counts_what_it_had_not_handed_out_of_a_gateway_that_was_started_anew() {
    let take = |world: &mut World, frames: &[Vec<u8>]| {
        for frame in frames {
            world.device.receive(0, Frame::decode(frame).unwrap(), Class::NONE, world.now);
        }
    };
    let mut world = World::joined(brief(), honest);
    let frames = send(&mut world, 0..40);
    // The first is handed out, and its generation waits for the others; three of them, and four of
    // the next, wait for the second.
    take(&mut world, &frames[..1]);
    world.device.deliver(|_| {});
    take(&mut world, &frames[2..5]);
    take(&mut world, &frames[34..38]);
    assert_eq!(begin_anew(&mut world), 7);

    let mut world = World::joined(brief(), honest);
    let frames = send(&mut world, 0..40);
    // A whole generation is due, and so is what follows.
    take(&mut world, &frames[..35]);
    assert_eq!(begin_anew(&mut world), 35);

    let mut world = World::joined(brief(), honest);
    let frames = send(&mut world, 0..40);
    take(&mut world, &frames);
    world.device.deliver(|_| {});
    assert_eq!(begin_anew(&mut world), 0, "everything was handed out");
}
