//! The tiles of a GoP of 360° video: their lengths, what each is worth, and the order in which a plan
//! sends them.

use weftline_core::rng::Rng;
use weftline_scenario::TILES;

/// Lengths of a photograph's tiles at one quality, in thousandths of their mean.
const CONTENT: [u64; TILES] = [
    1657, 1585, 1557, 1345, 1339, 1280, 1151, 1059, 966, 948, 934, 879, 862, 849, 837, 808, 806,
    789, 777, 747, 743, 728, 698, 654,
];

/// The share of the time in which viewers see a tile, in thousandths, by rank: viewports of 100° × 100° of
/// 48 viewers of ten videos.
const SEEN: [u64; TILES] = [
    555, 488, 426, 386, 303, 268, 236, 207, 176, 158, 139, 123, 102, 91, 78, 60, 51, 39, 30, 21,
    12, 7, 3, 1,
];

/// Draws a GoP of `bytes` in all: the length and the weight of each tile, in the order of a plan, which has
/// the most weight for a byte first.
///
/// A missing tile costs the more the more often it is seen and the more there is in it. Bits are best spent
/// where another one gains the same everywhere: with a distortion of content ÷ bits that is as the root of
/// how often a tile is seen.
pub(super) fn draw(bytes: u64, rng: &mut Rng) -> [(u64, u64); TILES] {
    let mut content = CONTENT;
    shuffle(&mut content, rng);
    let mut tiles: [(u64, u64); TILES] =
        std::array::from_fn(|at| (content[at] * (1000 * SEEN[at]).isqrt(), content[at] * SEEN[at]));
    let sum: u64 = tiles.iter().map(|(length, _)| length).sum();
    for (length, _) in &mut tiles {
        let part = u128::from(bytes) * u128::from(*length) / u128::from(sum);
        *length = u64::try_from(part).unwrap_or(u64::MAX).max(1);
    }
    let worth = |(bytes, weight): &(u64, u64)| *weight as f64 / *bytes as f64;
    tiles.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    tiles
}

/// Fisher and Yates's.
fn shuffle(values: &mut [u64], rng: &mut Rng) {
    for at in (1..values.len()).rev() {
        values.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gop_has_its_rate_and_the_most_worth_comes_first() {
        let mut rng = Rng::stream(1, "tiles");
        let [first, second] = [(); 2].map(|()| draw(100_000, &mut rng));
        let sum: u64 = first.iter().map(|(bytes, _)| bytes).sum();
        assert!((99_900..=100_000).contains(&sum), "{sum}");
        assert_ne!(first, second, "each GoP is drawn");
        let worth = first.map(|(bytes, weight)| weight as f64 / bytes as f64);
        assert!(worth.is_sorted_by(|a, b| a >= b), "{worth:?}");
    }
}
