//! Seeded randomness: one stream per component and purpose, all split from one master seed.
//!
//! A stream is named, so that adding a component does not shift what the others draw. The
//! generator is PCG-64 MCG (O'Neill, 2014), whose output is the same on every platform.

use rand_core::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A named stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The stream called `name` under the master `seed`, for example `"wigig/down/loss"`.
    pub fn stream(seed: u64, name: &str) -> Self {
        // FNV-1a over the name, then SplitMix64 to spread it over the whole seed.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut bytes = [0; 16];
        for half in bytes.chunks_exact_mut(8) {
            hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = hash;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            half.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
        }
        Self(Pcg64Mcg::from_seed(bytes))
    }

    /// A uniform 64-bit integer.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in [0, 1) with 53 random bits.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A uniform integer in [0, `bound`).
    ///
    /// # Panics
    /// When `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no numbers");
        // Lemire's multiply-shift; the bias is below 2^-64 × bound, nothing for our bounds.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether an event of probability `threshold` ÷ 2^64 happens; see [`probability`].
    pub fn happens(&mut self, threshold: u64) -> bool {
        self.next_u64() < threshold
    }

    /// A standard normal number as the sum of twelve uniforms less six: only additions, so the
    /// same bits everywhere. The tails end at ±6.
    pub fn normal_f64(&mut self) -> f64 {
        (0..12).map(|_| self.unit_f64()).sum::<f64>() - 6.0
    }
}

/// The threshold for [`Rng::happens`] that makes an event of probability `p` (0 to 1), so that
/// loss is an integer comparison. `p ≥ 1` gives the largest threshold.
pub fn probability(p: f64) -> u64 {
    // 2^64 as f64; the cast saturates at u64::MAX for p >= 1 and at 0 for p <= 0.
    (p * 18_446_744_073_709_551_616.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_pinned() {
        let draw = |seed, name| {
            let mut rng = Rng::stream(seed, name);
            [rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(draw(1, "wifi/loss"), draw(1, "wifi/loss"));
        assert_ne!(draw(1, "wifi/loss"), draw(1, "wigig/loss"));
        assert_ne!(draw(1, "wifi/loss"), draw(2, "wifi/loss"));
        insta::assert_debug_snapshot!(draw(1, "wifi/loss"));
    }

    #[test]
    fn draws_follow_their_distribution() {
        let mut rng = Rng::stream(7, "test");
        let n = 100_000;
        let hits = (0..n).filter(|_| rng.happens(probability(0.05))).count();
        assert!((4_700..5_300).contains(&hits), "{hits}");
        let mean = (0..n).map(|_| rng.normal_f64()).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((0..1000).all(|_| rng.below(3) < 3));
        assert!((0..1000).all(|_| !rng.happens(probability(0.0))));
    }
}
