//! What an access point can say with a name of the gateway's.

use super::*;

/// While the size of a generation is not known its name lets packets in that would be of the next ones. An
/// access point has these, too: under the wrong name they would make the generation longer than it is,
/// so that an honest link's combinations of it contradicted it; and what is in between would be given up.
#[test]
fn a_packet_is_taken_in_its_own_generation_only() {
    for repaired in [true, false] {
        let mut world = World::joined(brief(), honest);
        let first = send(&mut world, 0..4);
        world.now += Duration::from_millis(2);
        let second = send(&mut world, 4..8);
        let is = |frame: &&Vec<u8>, kinds: &[u8]| kinds.contains(&(frame[CODED_HEADER] & 7));
        let packets: Vec<_> = first.iter().chain(&second).filter(|frame| is(frame, &[0])).collect();
        let combinations: Vec<_> = second.iter().filter(|frame| is(frame, &[1, 2])).collect();
        assert!(packets.len() == 8 && !combinations.is_empty());
        assert_eq!(packets[0][CODED_HEADER + 9], 0, "a size that is not known");

        // The last one, as if it were of the first generation.
        let header = CODED_HEADER..CODED_HEADER + 21;
        let mut forged = packets[7].clone();
        forged[header.clone()].copy_from_slice(&packets[0][header.clone()]);
        forged[header.end - 1] = 7;
        let take = |world: &mut World, link, frame: &[u8]| {
            world.device.receive(link, Frame::decode(frame).unwrap(), Class::NONE, world.now);
        };
        take(&mut world, 1, &forged);
        // With a loss that the combinations make up for, or without one and the generation closes.
        let came = if repaired { 3 } else { 4 };
        packets[..came].iter().for_each(|frame| take(&mut world, 0, frame));
        if repaired {
            combinations.iter().for_each(|frame| take(&mut world, 0, frame));
        } else {
            world.now += Duration::from_millis(50);
            world.device.handle_timeout(world.now);
        }
        packets[4..].iter().for_each(|frame| take(&mut world, 0, frame));
        world.now += Duration::from_secs(1);
        world.device.handle_timeout(world.now);
        let got = &mut world.got;
        world.device.deliver(|packet| {
            got.push(u32::from_be_bytes(packet[..4].try_into().unwrap()));
        });
        assert_eq!(*got, (0..8).collect::<Vec<_>>(), "{repaired}");
        assert_eq!(world.counter("packets_polluted"), 1);
        assert_eq!([0, 1].map(|link| world.device.wrong(link)), [0, 1], "who said it is blamed");
    }
}
