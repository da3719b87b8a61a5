//! Procedural texture with detail at all scales.
//!
//! Photographs have amplitude spectra of about 1/f (Field, "Relations between the statistics of
//! natural images and the response properties of cortical cells", 1987): every octave has the same
//! contrast. A [`Texture`] is one periodic tile of such noise, five octaves of it, with a mip
//! pyramid; [`Texture::detail`] lays the tile over a surface in three layers, each 32 times finer
//! than the one before and turned, so that the octaves go on without a gap down to what a pixel
//! shows, and nothing is seen to repeat.

use weftline_core::rng::Rng;

use super::vector::{floor, mix};

/// Samples along the side of the finest level.
const SIDE: usize = 512;
/// Lattice points along the side in the coarsest octave; each further octave has twice as many.
const COARSEST: usize = 16;
/// Octaves in the tile: the finest has one lattice point for every two samples.
const OCTAVES: usize = 5;
/// How much finer a layer is than the one before: the tile's octaves go on in the next layer.
const LAYER_RATIO: f32 = 32.0;
/// How many layers there are: a factor of 16 384 between the coarsest and the finest detail.
const LAYERS: usize = 3;
/// The coarsest level of the pyramid is this large; below it only the mean is left.
const SMALLEST: usize = 4;

/// A periodic tile of noise with mean 0 and standard deviation 1, and its mip pyramid.
pub(super) struct Texture {
    /// By descending size; each is `size × size` samples.
    levels: Vec<Level>,
    /// How much less contrast each layer has than the one before.
    layer_contrast: f32,
}

struct Level {
    size: usize,
    samples: Vec<f32>,
}

impl Texture {
    /// A tile drawn from `rng`. An octave has `persistence` times the contrast of the one before
    /// it: 1 is a photograph's spectrum, less is smoother.
    pub(super) fn new(rng: &mut Rng, persistence: f32) -> Self {
        let mut samples = vec![0.0; SIDE * SIDE];
        let mut contrast = 1.0;
        for octave in 0..OCTAVES {
            add_octave(&mut samples, COARSEST << octave, contrast, rng);
            contrast *= persistence;
        }
        normalise(&mut samples);
        let mut levels = vec![Level { size: SIDE, samples }];
        while let Some(last) = levels.last().filter(|last| last.size > SMALLEST) {
            levels.push(last.halved());
        }
        Self { levels, layer_contrast: contrast }
    }

    /// The tile at (`u`, `v`), in tiles, where a pixel covers `footprint` tiles: mean 0, standard
    /// deviation at most 1.
    pub(super) fn sample(&self, u: f32, v: f32, footprint: f32) -> f32 {
        let samples_per_pixel = footprint * SIDE as f32;
        if samples_per_pixel <= 1.0 {
            return self.levels[0].bilinear(u, v);
        }
        let (level, part) = log2(samples_per_pixel);
        let (Some(fine), coarse) = (self.levels.get(level), self.levels.get(level + 1)) else {
            return 0.0;
        };
        mix(fine.bilinear(u, v), coarse.map_or(0.0, |coarse| coarse.bilinear(u, v)), part)
    }

    /// Detail at all scales from a sixteenth of `size` downwards at the place (`x`, `y`), where a
    /// pixel covers `footprint`; all in metres.
    pub(super) fn detail(&self, x: f32, y: f32, size: f32, footprint: f32) -> f32 {
        let scale = 1.0 / size;
        let (mut u, mut v, mut footprint) = (x * scale, y * scale, footprint * scale);
        let (mut sum, mut contrast) = (0.0, 1.0);
        for _ in 0..LAYERS {
            if footprint >= 1.0 {
                break;
            }
            sum += contrast * self.sample(u, v, footprint);
            contrast *= self.layer_contrast;
            // Turned by an angle that no multiple of brings back, lest the layers line up.
            (u, v) = ((0.8 * u - 0.6 * v) * LAYER_RATIO, (0.6 * u + 0.8 * v) * LAYER_RATIO);
            footprint *= LAYER_RATIO;
        }
        sum
    }
}

impl Level {
    /// The tile at (`u`, `v`), in tiles.
    fn bilinear(&self, u: f32, v: f32) -> f32 {
        let (left, across) = split(u * self.size as f32 - 0.5);
        let (top, down) = split(v * self.size as f32 - 0.5);
        // The size is a power of two: the mask wraps negative places, too.
        let mask = self.size - 1;
        let (x0, x1) = (left as usize & mask, left.wrapping_add(1) as usize & mask);
        let (y0, y1) = (top as usize & mask, top.wrapping_add(1) as usize & mask);
        let at = |x: usize, y: usize| self.samples[y * self.size + x];
        mix(mix(at(x0, y0), at(x1, y0), across), mix(at(x0, y1), at(x1, y1), across), down)
    }

    /// The level of half the size: means of 2 × 2 samples.
    fn halved(&self) -> Self {
        let size = self.size / 2;
        let mean = |i: usize| {
            let (x, y) = (i % size * 2, i / size * 2);
            let row =
                |y: usize| self.samples[y * self.size + x] + self.samples[y * self.size + x + 1];
            (row(y) + row(y + 1)) * 0.25
        };
        Self { size, samples: (0..size * size).map(mean).collect() }
    }
}

/// Whole part and fraction.
fn split(x: f32) -> (i32, f32) {
    let whole = floor(x);
    (whole, x - whole as f32)
}

/// log₂ of `x` ≥ 1 as whole part and fraction, the fraction by a straight line between powers of
/// two (within 0.09 of the true one): read off the bits of the number.
fn log2(x: f32) -> (usize, f32) {
    let bits = x.to_bits();
    let exponent = (bits >> 23) as usize - 127;
    let fraction = f32::from_bits((bits & 0x007f_ffff) | 0x3f80_0000) - 1.0;
    (exponent, fraction)
}

/// Adds periodic value noise with `cells × cells` lattice points to the finest level.
fn add_octave(samples: &mut [f32], cells: usize, contrast: f32, rng: &mut Rng) {
    let lattice: Vec<f32> =
        (0..cells * cells).map(|_| (rng.unit_f64() as f32 * 2.0 - 1.0) * contrast).collect();
    let step = cells as f32 / SIDE as f32;
    // Where each sample lies between its lattice points, the same along both axes.
    let places: Vec<(usize, usize, f32)> = (0..SIDE)
        .map(|i| {
            let (cell, t) = split((i as f32 + 0.5) * step);
            (cell as usize % cells, (cell as usize + 1) % cells, t * t * (3.0 - 2.0 * t))
        })
        .collect();
    for (row, &(y0, y1, down)) in samples.chunks_exact_mut(SIDE).zip(&places) {
        for (sample, &(x0, x1, across)) in row.iter_mut().zip(&places) {
            let at = |x: usize, y: usize| lattice[y * cells + x];
            *sample +=
                mix(mix(at(x0, y0), at(x1, y0), across), mix(at(x0, y1), at(x1, y1), across), down);
        }
    }
}

/// Shifts and scales to mean 0 and standard deviation 1.
fn normalise(samples: &mut [f32]) {
    let n = samples.len() as f64;
    let mean = samples.iter().map(|&s| f64::from(s)).sum::<f64>() / n;
    let square =
        samples.iter().map(|&s| (f64::from(s) - mean) * (f64::from(s) - mean)).sum::<f64>();
    let scale = 1.0 / (square / n).sqrt();
    for sample in samples {
        *sample = ((f64::from(*sample) - mean) * scale) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texture() -> Texture {
        Texture::new(&mut Rng::stream(7, "test"), 0.9)
    }

    #[test]
    fn the_tile_has_mean_0_and_deviation_1_and_coarser_levels_less() {
        let texture = texture();
        let deviation = |level: &Level| {
            let n = level.samples.len() as f32;
            let mean = level.samples.iter().sum::<f32>() / n;
            assert!(mean.abs() < 1e-3, "{mean}");
            (level.samples.iter().map(|s| s * s).sum::<f32>() / n).sqrt()
        };
        let deviations: Vec<f32> = texture.levels.iter().map(deviation).collect();
        assert!((deviations[0] - 1.0).abs() < 1e-3, "{deviations:?}");
        assert!(deviations.windows(2).all(|pair| pair[1] < pair[0]), "{deviations:?}");
    }

    #[test]
    fn it_repeats_and_goes_on_across_its_edges() {
        let texture = texture();
        for (u, v) in [(0.1, 0.2), (0.5, 0.999), (0.0, 0.0)] {
            let (here, there) = (texture.sample(u, v, 0.0), texture.sample(u - 2.0, v + 3.0, 0.0));
            assert!((here - there).abs() < 2e-2, "{here} {there}");
        }
        let (before, after) = (texture.sample(-1e-5, 0.3, 0.0), texture.sample(1e-5, 0.3, 0.0));
        assert!((before - after).abs() < 2e-2);
    }

    #[test]
    fn what_is_finer_than_a_pixel_is_gone() {
        let texture = texture();
        assert_eq!(texture.sample(0.3, 0.4, 1.0), 0.0);
        assert_eq!(texture.detail(3.0, 4.0, 10.0, 20.0), 0.0);
    }

    #[test]
    fn the_logarithm_is_exact_at_powers_of_two() {
        assert_eq!(log2(1.0), (0, 0.0));
        assert_eq!(log2(8.0), (3, 0.0));
        assert_eq!(log2(3.0), (1, 0.5));
    }
}
