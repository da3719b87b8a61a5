//! What tiles could be on time at most: a bound that knows the links' rates, delays and losses.
//!
//! Nothing but the links limits it: it has no congestion control to learn their rates and no queue from
//! the GoP before, loses no byte to overtaking, and repairs what is lost at once. What is more, a tile may
//! be anywhere in its GoP's time. The tiles of a GoP that fit what the links bring in that time are then a
//! knapsack.

use std::ops::Range;
use std::time::Duration;

use weftline_core::Instant;
use weftline_link::LinkConfig;

/// Steps into which a GoP's capacity is divided. A tile counts so many whole ones: the bound is too large by
/// a step for each tile at most.
const STEPS: u64 = 4000;

/// A link, and the share of what it carries that is payload.
pub(crate) struct Carrying<'a> {
    pub(crate) link: &'a LinkConfig,
    pub(crate) payload: f64,
}

/// The bytes of payload that the links bring within a time, counted from their start at `epoch`.
pub(crate) fn capacity(links: &[Carrying<'_>], epoch: Instant, time: &Range<Instant>) -> u64 {
    let brings = |carrying: &Carrying<'_>| {
        let [from, to] = [time.start, time.end].map(|at| at.since(epoch));
        let arriving = arriving(carrying.link, from, to.saturating_sub(carrying.link.delay));
        (arriving * carrying.payload) as u64
    };
    links.iter().map(brings).sum()
}

/// What a link serves between two times since its start and does not lose, in bytes. A packet is lost or
/// not when it is offered, which may be at any time since `from`: the least share since then counts.
fn arriving(link: &LinkConfig, from: Duration, to: Duration) -> f64 {
    let mut cuts: Vec<Duration> =
        link.loss.changes().filter(|at| (from..to).contains(at)).chain([from]).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().skip(1).copied().chain([to]);
    let mut least = 1.0_f64;
    let parts = cuts.iter().zip(ends).filter(|(from, to)| *from < to).map(|(&from, to)| {
        least = least.min(link.loss.share_at(from));
        link.rate.bytes_between(from, to).as_u64() as f64 * (1.0 - least)
    });
    parts.sum()
}

/// The most weight that tiles of those lengths and weights have that fit together.
pub(crate) fn most_weight(tiles: &[(u64, u64)], capacity: u64) -> u64 {
    let sum: u64 = tiles.iter().map(|(bytes, _)| bytes).sum();
    if sum <= capacity {
        return tiles.iter().map(|(_, weight)| weight).sum();
    }
    // best[n]: the most weight in n steps.
    let mut best = vec![0; STEPS as usize + 1];
    for &(bytes, weight) in tiles.iter().filter(|(bytes, _)| *bytes <= capacity) {
        let steps = (u128::from(bytes) * u128::from(STEPS) / u128::from(capacity)) as usize;
        for room in (steps..best.len()).rev() {
            best[room] = best[room].max(best[room - steps] + weight);
        }
    }
    best.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use weftline_core::Bitrate;
    use weftline_link::{LossModel, QueueLimit, RateTrace};

    use super::*;

    #[test]
    fn links_bring_what_can_arrive_in_time() {
        let near = LinkConfig {
            rate: RateTrace::constant(Bitrate::mbps(8)),
            delay: Duration::from_millis(100),
            jitter: Duration::ZERO,
            queue: QueueLimit::Packets(10),
            loss: LossModel::None,
        };
        let far = LinkConfig { delay: Duration::from_secs(2), ..near.clone() };
        let links = [&near, &far].map(|link| Carrying { link, payload: 0.5 });
        let [epoch, from, to] = [500, 1000, 2000].map(Instant::from_millis);
        assert_eq!(capacity(&links, epoch, &(from..to)), 450_000);
    }

    #[test]
    fn what_is_lost_is_lost_by_the_schedule() {
        let ms = Duration::from_millis;
        let schedule = |changes: &[(u64, f64)]| LinkConfig {
            rate: RateTrace::constant(Bitrate::mbps(8)),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            queue: QueueLimit::Packets(10),
            loss: LossModel::Schedule(changes.iter().map(|&(at, share)| (ms(at), share)).collect()),
        };
        // A megabyte in a second.
        let within = |changes: &[(u64, f64)], from: u64, to: u64| {
            let links = [Carrying { link: &schedule(changes), payload: 1.0 }];
            let time = Instant::from_millis(500 + from)..Instant::from_millis(500 + to);
            capacity(&links, Instant::from_millis(500), &time)
        };
        // Whatever the loss is in the 59 minutes that nobody looks at.
        let long = [(0, 0.25), (60_000, 0.75)];
        assert_eq!(within(&long, 1000, 2000), 750_000);
        assert_eq!(within(&long, 60_000, 61_000), 250_000);
        // Half of a second at each; what could be offered before the loss grew is lost as it was then.
        assert_eq!(within(&[(0, 0.5), (1500, 0.0)], 1000, 2000), 750_000);
        assert_eq!(within(&[(0, 0.0), (1500, 0.5)], 1000, 2000), 1_000_000);
        assert_eq!(within(&[(1500, 0.5)], 1500, 1500), 0);
    }

    #[test]
    fn the_best_tiles_that_fit_are_chosen() {
        let tiles = [(60, 60), (50, 45), (50, 45)];
        assert_eq!(most_weight(&tiles, 100), 90);
        assert_eq!(most_weight(&tiles, 99), 60);
        assert_eq!(most_weight(&tiles, 1000), 150);
        assert_eq!((most_weight(&tiles, 10), most_weight(&tiles, 0)), (0, 0));
    }
}
