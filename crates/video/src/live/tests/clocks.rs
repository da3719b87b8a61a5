//! A server and a player whose clocks differ.

use super::*;

/// Ten minutes over a network with which little of a buffer is left: what is lost to the player's
/// clock is noticed there.
#[test]
fn a_clock_that_is_fast_does_not_use_up_the_buffer() {
    const GOPS: u32 = 1_200;
    let mut world = World::new(GOPS, Concealment::Grey);
    let cheap =
        ServerSettings { scheme: Entry::find("fix").unwrap(), ..settings(Concealment::Grey) };
    world.server = Server::new(content(GOPS), cheap);
    world.gains = 100;
    // A buffer of half a second: 20 ms are left, and the clock takes 60.
    world.run(&mut || MS, &mut || Fate::Arrives(GOP - 20 * MS));
    whole(&world.reports, GOPS);
    let late: Vec<u32> = world.reports.iter().filter(|r| r.late > 0).map(|r| r.gop).collect();
    assert!(late.is_empty(), "{late:?}");
    let arrived: usize = world.reports.iter().map(|report| report.arrived).sum();
    assert!(arrived > GOPS as usize);
}
