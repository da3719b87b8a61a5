//! What tiles could be on time at most: a bound that knows the links' rates, delays and losses.
//!
//! Nothing but the links limits it: it has no congestion control to learn their rates and no queue from
//! the GoP before, loses no byte to overtaking, and repairs what is lost at once. What is more, a tile may
//! be anywhere in its GoP's time. The tiles of a GoP that fit what the links bring in that time are then a
//! knapsack.

use std::ops::Range;

use weftline_core::Instant;
use weftline_link::LinkConfig;

/// Steps into which a GoP's capacity is divided. A tile counts so many whole ones: the bound is too large by
/// a step for each tile at most.
const STEPS: u64 = 4000;

/// A link, and the share of what it carries that is payload that arrives.
pub(crate) struct Carrying<'a> {
    pub(crate) link: &'a LinkConfig,
    pub(crate) share: f64,
}

/// The bytes of payload that the links bring within a time, counted from their start at `epoch`.
pub(crate) fn capacity(links: &[Carrying<'_>], epoch: Instant, time: &Range<Instant>) -> u64 {
    let brings = |carrying: &Carrying<'_>| {
        let [from, to] = [time.start, time.end].map(|at| at.since(epoch));
        let to = to.saturating_sub(carrying.link.delay);
        let bytes = match to > from {
            true => carrying.link.rate.bytes_between(from, to).as_u64(),
            false => 0,
        };
        (bytes as f64 * carrying.share) as u64
    };
    links.iter().map(brings).sum()
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
    use std::time::Duration;

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
        let links = [&near, &far].map(|link| Carrying { link, share: 0.5 });
        let [epoch, from, to] = [500, 1000, 2000].map(Instant::from_millis);
        assert_eq!(capacity(&links, epoch, &(from..to)), 450_000);
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
