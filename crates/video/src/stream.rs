//! A video file for progressive download: pictures and audio in file order, each with its place,
//! its decode time and its presentation time.
//!
//! Nothing is encoded: a clip has the sizes and times that an MP4 file with H.264 and AAC has. The
//! header (`moov`) comes first, as files for progressive download have it; then pictures and audio,
//! interleaved by decode time.

use std::time::Duration;

use weftline_core::rng::Rng;
use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount};

/// AAC at 128 kb/s, as the slides' clip has it within its 5.24 Mb/s.
const AUDIO_RATE: Bitrate = Bitrate::kbps(128);

/// An AAC frame: 1024 samples (ISO/IEC 14496-3), at 48 kHz.
const AUDIO_FRAME_SAMPLES: u64 = 1024;

/// Samples of sound in a second.
const AUDIO_SAMPLE_RATE: u64 = 48_000;

/// Bytes of index in the header for each picture or audio frame: its size in `stsz` (4), and its
/// share of the time, offset and chunk tables (ISO/IEC 14496-12).
const INDEX_BYTES: u64 = 8;

/// Pictures between two P pictures: `IBBPBBP…`, the arrangement of broadcast encoders and close to
/// what x264 chooses by default.
const B_PICTURES: u64 = 2;

/// Mean sizes of I, P and B pictures against each other. Our choice, of the order that H.264
/// encoders give at this rate; the I pictures then carry a twelfth of the bytes.
const WEIGHTS: [f64; 3] = [12.0, 4.0, 1.5];

/// Standard deviation of the logarithm of a GoP's size, from the change of scenes.
const GOP_SPREAD: f64 = 0.3;

/// How much of a GoP's deviation the next one keeps.
const GOP_MEMORY: f64 = 0.6;

/// Standard deviation of the logarithm of a picture's size within its GoP.
const PICTURE_SPREAD: f64 = 0.2;

/// The longest clip: what a player's tables of it need is 50 bytes for each of 77 samples a second.
const MAX_DURATION: Duration = Duration::from_secs(2 * 3600);

/// Settings of a generated clip. The default is the slides' (Table 1): 180 s, 5.24 Mb/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipConfig {
    /// Playing time, 1 s to 2 h.
    pub duration: Duration,
    /// Mean rate of the whole file, header and audio included; 400 kb/s to 1 Gb/s.
    pub rate: Bitrate,
    /// Pictures a second, 1 to 120. The slides do not say; 30 is what most video on the web and
    /// Japanese television (29.97) have.
    pub fps: u32,
    /// Time from one I picture to the next, one picture to a minute; 2 s are common for streaming.
    pub gop: Duration,
    /// Seed of the sizes. It belongs to the clip: runs with different seeds play one clip.
    pub seed: u64,
}

impl Default for ClipConfig {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(180),
            rate: Bitrate::kbps(5240),
            fps: 30,
            gop: Duration::from_secs(2),
            seed: 1,
        }
    }
}

/// Why there can be no such clip.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a clip's {what}")]
pub struct ClipError {
    what: &'static str,
}

impl ClipConfig {
    /// Checks the limits that the fields name.
    ///
    /// # Errors
    ///
    /// If a field is beyond its limits.
    pub fn check(&self) -> Result<(), ClipError> {
        let good = |holds: bool, what| if holds { Ok(()) } else { Err(ClipError { what }) };
        let second = Duration::from_secs(1);
        good((second..=MAX_DURATION).contains(&self.duration), "duration must be 1s to 2h")?;
        let rates = Bitrate::kbps(400)..=Bitrate::mbps(1000);
        good(rates.contains(&self.rate), "rate must be 400kbps to 1Gbps")?;
        good((1..=120).contains(&self.fps), "pictures a second must be 1 to 120")?;
        let gops = second / self.fps..=60 * second;
        good(gops.contains(&self.gop), "GoP must be one picture to 60s long")
    }

    /// Bytes of the whole file.
    pub fn total_bytes(&self) -> ByteCount {
        self.rate.bytes_in(self.duration)
    }
}

/// What a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// A frame of sound.
    Audio,
    /// A picture that others refer to only within its group, or none at all.
    B,
    /// A picture that stands alone and opens a closed group.
    I,
    /// A picture that refers to the one before.
    P,
}

/// A picture or a frame of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What it is.
    pub kind: SampleKind,
    /// The offset in the file below which everything must be there for it to be complete.
    pub end: u64,
    /// When it is to be decoded, from the start of the clip.
    pub decode: Duration,
    /// When it is to be shown or heard, from the start of the clip; not before `decode`.
    pub present: Duration,
}

impl Sample {
    /// Whether it is a picture.
    pub fn is_picture(&self) -> bool {
        self.kind != SampleKind::Audio
    }
}

/// A generated file: its samples in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    samples: Vec<Sample>,
    header_bytes: u64,
    duration: Duration,
    pictures: u64,
}

impl Clip {
    /// The clip of these settings. One setting gives one clip, on every machine: only integers and
    /// + − × ÷ are used.
    ///
    /// # Errors
    ///
    /// If a setting is beyond its limits.
    pub fn generate(config: &ClipConfig) -> Result<Self, ClipError> {
        config.check()?;
        let pictures = pictures(config);
        let audio = audio_times(config.duration);
        let header_bytes = INDEX_BYTES * (pictures.len() + audio.len()) as u64;
        let total = config.total_bytes().as_u64();
        let mut samples: Vec<Sample> = Vec::with_capacity(pictures.len() + audio.len());
        samples.extend(audio.iter().map(|&time| Sample {
            kind: SampleKind::Audio,
            end: 0,
            decode: time,
            present: time,
        }));
        samples.extend(pictures.iter().map(|picture| picture.sample));
        // Stable: of samples of one decode time sound comes first.
        samples.sort_by_key(|sample| sample.decode);

        let audio_bytes = AUDIO_RATE.bytes_in(config.duration).as_u64();
        let mut audio = Shares::new(audio_bytes, audio.len() as u64);
        let video_bytes = total - header_bytes - audio_bytes;
        let mut video = Shares::new(video_bytes, pictures.iter().map(|p| p.weight).sum());
        let mut weights = pictures.iter().map(|picture| picture.weight);
        let mut end = header_bytes;
        for sample in &mut samples {
            end += match sample.kind {
                SampleKind::Audio => audio.take(1),
                _ => video.take(weights.next().expect("a weight for each picture")),
            };
            sample.end = end;
        }
        let pictures = pictures.len() as u64;
        Ok(Self { samples, header_bytes, duration: config.duration, pictures })
    }

    /// Bytes of the whole file.
    pub fn total_bytes(&self) -> u64 {
        self.samples.last().map_or(self.header_bytes, |sample| sample.end)
    }

    /// Bytes of the header, without which nothing can be decoded.
    pub fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// Playing time.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Pictures and sound in file order, which is the order of decode times.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The pictures in file order.
    pub fn pictures(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.is_picture())
    }

    /// How many pictures there are.
    pub fn picture_count(&self) -> u64 {
        self.pictures
    }
}

/// A budget of bytes handed out by weight: exact in total, each share within a byte of its own.
struct Shares {
    bytes: u64,
    weight: u64,
    taken_weight: u64,
    taken_bytes: u64,
}

impl Shares {
    fn new(bytes: u64, weight: u64) -> Self {
        Self { bytes, weight, taken_weight: 0, taken_bytes: 0 }
    }

    fn take(&mut self, weight: u64) -> u64 {
        self.taken_weight += weight;
        let due = u128::from(self.bytes) * u128::from(self.taken_weight) / u128::from(self.weight);
        let share = due as u64 - self.taken_bytes;
        self.taken_bytes = due as u64;
        share
    }
}

/// A picture and its weight in the sharing out of the bytes.
struct Picture {
    sample: Sample,
    weight: u64,
}

/// The pictures in decode order. `IBBP`: a P picture is decoded before the two B pictures shown
/// before it, so every picture is shown one period after a decoder could at the earliest.
fn pictures(config: &ClipConfig) -> Vec<Picture> {
    let fps = u64::from(config.fps);
    let count = (nanos(config.duration) * fps / 1_000_000_000).max(1);
    let gop = (nanos(config.gop) * fps / 1_000_000_000).max(1);
    let time = |picture: u64| Duration::from_nanos(picture * 1_000_000_000 / fps);
    let mut rng = Rng::stream(config.seed, "video/sizes");
    let mut pictures = Vec::with_capacity(count as usize);
    let mut scene = 0.0;
    for first in (0..count).step_by(gop as usize) {
        let length = gop.min(count - first);
        let fresh = (1.0 - GOP_MEMORY * GOP_MEMORY).sqrt();
        scene = GOP_MEMORY * scene + fresh * GOP_SPREAD * rng.normal_f64();
        for place in 0..length {
            let (kind, shown) = place_in_gop(place, length);
            let weight = WEIGHTS[match kind {
                SampleKind::I => 0,
                SampleKind::P => 1,
                _ => 2,
            }];
            let size = weight * exponential(scene + PICTURE_SPREAD * rng.normal_f64());
            let sample = Sample {
                kind,
                end: 0,
                decode: time(first + place),
                present: time(first + shown + u64::from(gop > 1)),
            };
            pictures.push(Picture { sample, weight: 1 + (size * 65536.0) as u64 });
        }
    }
    pictures
}

/// Kind and display order of the picture decoded at `place` of a closed GoP of `length` pictures.
fn place_in_gop(place: u64, length: u64) -> (SampleKind, u64) {
    if place == 0 {
        return (SampleKind::I, 0);
    }
    let group = B_PICTURES + 1;
    let (start, within) = (1 + (place - 1) / group * group, (place - 1) % group);
    let size = group.min(length - start);
    match within {
        0 => (SampleKind::P, start + size - 1),
        _ => (SampleKind::B, start + within - 1),
    }
}

/// Decode times of the sound's frames.
fn audio_times(duration: Duration) -> Vec<Duration> {
    let frame = |index: u64| {
        let ns = u128::from(index * AUDIO_FRAME_SAMPLES) * 1_000_000_000;
        Duration::from_nanos((ns / u128::from(AUDIO_SAMPLE_RATE)) as u64)
    };
    (0..).map(frame).take_while(|&time| time < duration).collect()
}

/// e^x to within a few per cent for |x| ≤ 2, by multiplications alone: (1 + x/32)^32.
fn exponential(x: f64) -> f64 {
    let mut power = (1.0 + x / 32.0).max(0.0);
    for _ in 0..5 {
        power *= power;
    }
    power
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_slides_clip() {
        let clip = Clip::generate(&ClipConfig::default()).unwrap();
        // 5.24 Mb/s × 180 s: 112.4 MiB, "113 MBytes" in the slides' Table 1.
        assert_eq!(clip.total_bytes(), 117_900_000);
        assert_eq!((clip.picture_count(), clip.pictures().count()), (5400, 5400));
        let starts = [clip.header_bytes()].into_iter().chain(clip.samples().iter().map(|s| s.end));
        let starts: Vec<u64> = starts.collect();
        let size = |kind: SampleKind| {
            let samples = clip.samples().iter().zip(&starts).filter(|(s, _)| s.kind == kind);
            let mut sizes: Vec<u64> = samples.map(|(sample, start)| sample.end - start).collect();
            sizes.sort_unstable();
            let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
            let quantile = |part: usize| sizes[(sizes.len() - 1) * part / 100];
            format!(
                "{kind:?}: {} of mean {mean}, 5 % {}, median {}, 95 % {}, largest {}",
                sizes.len(),
                quantile(5),
                quantile(50),
                quantile(95),
                quantile(100)
            )
        };
        let kinds = [SampleKind::I, SampleKind::P, SampleKind::B, SampleKind::Audio];
        let head: Vec<String> = clip.samples()[..14]
            .iter()
            .map(|s| format!("{:?} {} {:?} {:?}", s.kind, s.end, s.decode, s.present))
            .collect();
        let sizes = kinds.map(size).join("\n");
        insta::assert_snapshot!(format!("{sizes}\n{}", head.join("\n")));
    }

    #[test]
    fn wrong_settings_name_their_limits() {
        let clip = ClipConfig::default();
        let wrong = [
            ClipConfig { duration: Duration::from_millis(999), ..clip },
            ClipConfig { rate: Bitrate::kbps(399), ..clip },
            ClipConfig { fps: 0, ..clip },
            ClipConfig { gop: Duration::from_secs(61), ..clip },
        ];
        let errors = wrong.map(|config| Clip::generate(&config).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn seeds_change_sizes_and_nothing_else() {
        let [one, two] = [1, 2]
            .map(|seed| Clip::generate(&ClipConfig { seed, ..ClipConfig::default() }).unwrap());
        assert_ne!(one, two);
        assert_eq!(one.total_bytes(), two.total_bytes());
        let times = |clip: &Clip| -> Vec<_> {
            clip.samples().iter().map(|sample| (sample.decode, sample.present)).collect()
        };
        assert_eq!(times(&one), times(&two));
    }

    prop_compose! {
        fn configs()(
            ms in 1000_u64..20_000,
            kbps in 400_u64..20_000,
            fps in 1_u32..=120,
            gop_ms in 1_u64..5000,
            seed: u64,
        ) -> ClipConfig {
            let gop = Duration::from_millis(gop_ms).max(Duration::from_secs(1) / fps);
            let (duration, rate) = (Duration::from_millis(ms), Bitrate::kbps(kbps));
            ClipConfig { duration, rate, fps, gop, seed }
        }
    }

    proptest! {
        #[test]
        fn files_are_whole_and_in_order(config in configs()) {
            let clip = Clip::generate(&config).unwrap();
            prop_assert_eq!(clip.total_bytes(), config.total_bytes().as_u64());
            let samples = clip.samples();
            prop_assert!(samples[0].end >= clip.header_bytes());
            let order = |w: &[Sample]| w[0].end <= w[1].end && w[0].decode <= w[1].decode;
            prop_assert!(samples.windows(2).all(order));
            prop_assert!(samples.iter().all(|sample| sample.decode <= sample.present));
            // Each presentation time once, evenly spaced.
            let mut shown: Vec<_> = clip.pictures().map(|picture| picture.present).collect();
            shown.sort_unstable();
            let period = Duration::from_secs(1) / config.fps;
            for pair in shown.windows(2) {
                let gap = pair[1] - pair[0];
                prop_assert!(gap.abs_diff(period) <= Duration::from_nanos(2), "{:?}", gap);
            }
        }
    }
}
