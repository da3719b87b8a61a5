//! What a package is to be: sizes, grid, ladder, GoPs; and its description on disk.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weftline_video::geometry::{FrameSize, Grid};
use weftline_video::live::Digest;
use weftline_video::live::wire::GOP_LENGTHS;
use weftline_video::rd::{MAX_GOPS, MAX_RUNGS};

use super::track::SoundTrack;
use crate::colour::Colour;
use crate::error::VrError;
use crate::fingerprint::Fingerprint;
use crate::rate::FrameRate;
use crate::source::{Source, Track};

/// The format of a package, in its description.
const FORMAT: &str = "weftline-vr-1";
/// The highest QP of H.264 with 8 bits.
pub const MAX_QP: u8 = 51;
/// The QPs at which a ladder by rates is measured.
pub(crate) const PROBED: [u8; 4] = [12, 22, 32, 42];
/// x264's presets, from the fastest to the most thorough.
pub const PRESETS: [&str; 9] = [
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
];
/// The least side of a tile in pixels: less than a macroblock is no tile.
const MIN_TILE: u32 = 16;
/// A source's pictures may be so much wider or higher than a sphere's, as what rounds their sides
/// makes them.
const SHAPE_TOLERANCE: f64 = 0.03;
/// The most luma of a GoP that is held while its tiles are measured: 8K at 60 per second is 2 GB.
const MAX_GOP_BYTES: u64 = 4 << 30;

/// How to package a source.
#[derive(Clone, Debug)]
pub struct PackageOptions {
    /// The tiles.
    pub grid: Grid,
    /// The ladder: each tile is encoded at each of these QPs.
    pub qps: Vec<u8>,
    /// How thorough x264 is, one of [`PRESETS`].
    pub preset: String,
    /// How long a GoP is; rounded to whole pictures.
    pub gop_s: f64,
    /// The size of the frame, if not the source's.
    pub size: Option<FrameSize>,
    /// In place of `qps`: rates of the whole frame in Mb/s, for each of which the QP is taken that comes
    /// nearest on average.
    pub mbps: Vec<f64>,
    /// Whether the source's sound is left out.
    pub no_sound: bool,
    /// Whether pixels of more than 8 bits may be rounded to 8.
    pub to_8_bits: bool,
    /// The QPs at which the whole sphere is encoded, too, for players that know nothing of tiles.
    pub whole: Vec<u8>,
}

impl Default for PackageOptions {
    fn default() -> Self {
        Self {
            grid: Grid::default(),
            qps: vec![22, 27, 32, 37, 42],
            preset: "medium".to_owned(),
            gop_s: 1.0,
            size: None,
            mbps: Vec::new(),
            no_sound: false,
            to_8_bits: false,
            whole: Vec::new(),
        }
    }
}

/// The whole sphere in one picture, beside the tiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WholeSphere {
    /// Ascending.
    pub(crate) qps: Vec<u8>,
    /// What it says of its colours: always something, as players guess otherwise, each its own way.
    pub(crate) colour: Colour,
}

/// The description of a package, `package.json`: what it is made of, and whether it is whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    pub(crate) format: String,
    /// The source's file name, for people.
    pub(crate) source: String,
    pub(crate) source_bytes: u64,
    /// Of both its ends.
    pub(crate) source_digest: String,
    /// Of blocks between them; nothing in packages of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source_blocks: Option<String>,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) columns: u32,
    pub(crate) rows: u32,
    pub(crate) qps: Vec<u8>,
    pub(crate) fps_numerator: u32,
    pub(crate) fps_denominator: u32,
    /// Pictures in a GoP.
    pub(crate) gop_frames: u32,
    pub(crate) gops: u32,
    pub(crate) preset: String,
    pub(crate) ffmpeg: String,
    /// The rates in Mb/s for which the QPs were chosen, if they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) mbps: Vec<f64>,
    /// What the tiles say of their colours; nothing in packages of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) colour: Option<Colour>,
    /// Its sound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sound: Option<SoundTrack>,
    /// The whole sphere in one picture, if it has that, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) whole: Option<WholeSphere>,
    /// Of the tables that are of no GoP's record; nothing in packages of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tables: Option<TableDigests>,
    /// Whether every GoP is there, and the table and the manifest with them.
    pub(crate) complete: bool,
}

/// The digests of what is made of the whole package.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableDigests {
    /// `miss.csv`.
    pub(crate) concealments: Digest,
    /// `manifest.mpd`.
    pub(crate) manifest: Digest,
}

impl Description {
    /// What becomes of `source`.
    pub(crate) fn new(
        source: &Source,
        options: &PackageOptions,
        ffmpeg: &str,
    ) -> Result<Self, VrError> {
        let plan = Self::live(source, options, ffmpeg)?;
        options.check_losses(source).map_err(|why| VrError::source(&source.path, why))?;
        let gops = source.frames / u64::from(plan.gop_frames);
        if gops == 0 {
            let (frames, gop_frames) = (source.frames, plan.gop_frames);
            return Err(VrError::source(
                &source.path,
                format!("has {frames} pictures, less than one GoP of {gop_frames} (--gop SECONDS)"),
            ));
        }
        let Fingerprint { bytes, ends, blocks } = source.fingerprint()?;
        if gops > MAX_GOPS as u64 {
            return Err(VrError::Invalid(format!(
                "{gops} GoPs are more than a package has ({MAX_GOPS}); take a longer --gop"
            )));
        }
        let gops = gops as u32;
        let (source_bytes, source_digest, source_blocks) = (bytes, ends, Some(blocks));
        Ok(Self { source_bytes, source_digest, source_blocks, gops, ..plan })
    }

    /// What becomes of a source of which nobody knows how long it is.
    pub(crate) fn live(
        source: &Source,
        options: &PackageOptions,
        ffmpeg: &str,
    ) -> Result<Self, VrError> {
        check_shape(source, options.size.is_some())
            .map_err(|why| VrError::source(&source.path, why))?;
        let size = match options.size {
            Some(size) => size,
            None => FrameSize::new(source.width, source.height).map_err(|why| {
                VrError::source(&source.path, format!("{why} (--size WxH scales)"))
            })?,
        };
        options.check(size)?;
        let gop_frames = source.rate.frames_in(options.gop_s);
        let luma = u64::from(gop_frames) * u64::from(size.width()) * u64::from(size.height());
        if luma > MAX_GOP_BYTES {
            return Err(VrError::Invalid(format!(
                "a GoP of {gop_frames} pictures of {size} is too large ({luma} bytes of luma); \
                 take a shorter --gop or a smaller --size"
            )));
        }
        let name = source.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plan = Self {
            format: FORMAT.to_owned(),
            source: name,
            source_bytes: 0,
            source_digest: String::new(),
            source_blocks: None,
            width: size.width(),
            height: size.height(),
            columns: options.grid.columns(),
            rows: options.grid.rows(),
            qps: options.ladder(),
            fps_numerator: source.rate.numerator(),
            fps_denominator: source.rate.denominator(),
            gop_frames,
            gops: 0,
            preset: options.preset.clone(),
            ffmpeg: ffmpeg.to_owned(),
            mbps: options.mbps.clone(),
            colour: source.colour,
            sound: options.sound_of(source),
            whole: WholeSphere::of(&options.whole, source.colour),
            tables: None,
            complete: false,
        };
        plan.check_gop(options.gop_s)?;
        Ok(plan)
    }

    /// Whether a GoP of whole pictures, as near to what was asked for as there is one, may be that
    /// long.
    fn check_gop(&self, asked_s: f64) -> Result<(), VrError> {
        let [least, most] = GOP_LENGTHS;
        let lasts = self.gop_duration();
        if (least..=most).contains(&lasts) {
            return Ok(());
        }
        let (frames, rate) = (self.gop_frames, self.rate());
        Err(VrError::Invalid(format!(
            "--gop: the GoP next to {asked_s} s has {frames} pictures at {rate} a second and lasts {:.3} s, \
             which is not from {} to {} s; give {}",
            lasts.as_secs_f64(),
            least.as_secs_f64(),
            most.as_secs_f64(),
            if lasts < least { "more" } else { "less" }
        )))
    }

    /// Reads the description of the package in `dir`, if there is one.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, VrError> {
        let path = path(dir);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(VrError::io("read", &path)(error)),
        };
        let description: Self = serde_json::from_str(&text).map_err(|why| {
            VrError::damaged(&path, format!("is no description of a package: {why}"))
        })?;
        description.check().map_err(|why| VrError::damaged(&path, why))?;
        Ok(Some(description))
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<(), VrError> {
        let text = serde_json::to_string_pretty(self).expect("it has only plain fields") + "\n";
        write_whole(&path(dir), text.as_bytes())
    }

    /// Whether it can be: nobody but us writes it, but anybody may change it.
    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("has the format '{}'; this program reads {FORMAT}", self.format));
        }
        let size = FrameSize::new(self.width, self.height).map_err(|why| why.to_string())?;
        let grid = Grid::new(self.columns, self.rows).map_err(|why| why.to_string())?;
        let options = PackageOptions {
            grid,
            qps: self.qps.clone(),
            preset: self.preset.clone(),
            whole: self.whole_qps().to_vec(),
            ..PackageOptions::default()
        };
        options.check(size).map_err(|why| why.to_string())?;
        if self.sound.is_some_and(|sound| !sound.is_sane()) {
            return Err("has sound that no package has".to_owned());
        }
        FrameRate::new(self.fps_numerator, self.fps_denominator).map_err(|why| why.to_string())?;
        let luma = u64::from(self.gop_frames) * u64::from(self.width) * u64::from(self.height);
        if self.gops == 0 || self.gop_frames == 0 || luma > MAX_GOP_BYTES {
            let (gops, frames) = (self.gops, self.gop_frames);
            return Err(format!("cannot have {gops} GoPs of {frames} pictures"));
        }
        Ok(())
    }

    /// In what it is another package than `other`, if it is.
    pub(crate) fn differs(&self, other: &Self) -> Option<String> {
        let ladder = |qps: &[u8]| qps.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
        let rates = |mbps: &[f64]| mbps.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        let whole = match (self.whole_qps(), other.whole_qps()) {
            // It is added; or was never finished, and may be given up.
            (ours, theirs) if !self.complete || ours.iter().all(|qp| theirs.contains(qp)) => {
                [String::new(), String::new()]
            }
            (ours, []) => [ladder(ours), "none".to_owned()],
            (ours, theirs) => [ladder(ours), ladder(theirs)],
        };
        let [our_whole, their_whole] = whole;
        let parts = [
            ("another source", self.source_text(self), self.source_text(other)),
            ("another size", self.frame().to_string(), other.frame().to_string()),
            ("another grid", self.grid().to_string(), other.grid().to_string()),
            ("other rates", rates(&self.mbps), rates(&other.mbps)),
            ("other QPs", ladder(&self.qps), ladder(&other.qps)),
            ("other GoPs", self.gop_frames.to_string(), other.gop_frames.to_string()),
            ("another preset", self.preset.clone(), other.preset.clone()),
            ("other QPs of the whole sphere", our_whole, their_whole),
            ("other sound", self.sound_text(), other.sound_text()),
            ("another ffmpeg", self.ffmpeg.clone(), other.ffmpeg.clone()),
        ];
        let (what, ours, theirs) = parts.into_iter().find(|(_, ours, theirs)| ours != theirs)?;
        Some(format!("{what} ({ours}, not {theirs})"))
    }

    fn sound_text(&self) -> String {
        self.sound.map_or("none".to_owned(), |sound| {
            let channels = if sound.channels == 1 { "one channel" } else { "two channels" };
            format!("{channels} at {} Hz", sound.rate_hz)
        })
    }

    /// What is known here of the source of `plan`.
    fn source_text(&self, plan: &Self) -> String {
        let known = plan.source_blocks.as_ref().filter(|_| self.source_blocks.is_some());
        let blocks = known.map(|blocks| format!(", of its middle {blocks}")).unwrap_or_default();
        format!("{} bytes, digest {}{blocks}", plan.source_bytes, plan.source_digest)
    }

    /// The file name of its source.
    pub fn source_name(&self) -> &str {
        &self.source
    }

    /// Whether the source has this fingerprint.
    pub(crate) fn is_of(&self, source: &Fingerprint) -> bool {
        let is_known = self.source_blocks.as_ref().is_none_or(|blocks| *blocks == source.blocks);
        self.source_bytes == source.bytes && self.source_digest == source.ends && is_known
    }

    /// The size of its frames.
    pub fn frame(&self) -> FrameSize {
        FrameSize::new(self.width, self.height).expect("it was checked when read or made")
    }

    /// Its tiles.
    pub fn grid(&self) -> Grid {
        Grid::new(self.columns, self.rows).expect("it was checked when read or made")
    }

    /// The QPs of its ladder, ascending.
    pub fn qps(&self) -> &[u8] {
        &self.qps
    }

    /// The rates in Mb/s for which its QPs were chosen; none if the QPs were given.
    pub fn mbps(&self) -> &[f64] {
        &self.mbps
    }

    /// Its sound, if it has any.
    pub fn sound(&self) -> Option<SoundTrack> {
        self.sound
    }

    /// The QPs of the whole sphere, ascending; none if it is in tiles only.
    pub fn whole_qps(&self) -> &[u8] {
        self.whole.as_ref().map_or(&[], |whole| &whole.qps)
    }

    /// How many GoPs it has.
    pub fn gops(&self) -> u32 {
        self.gops
    }

    /// Pictures in a GoP.
    pub fn gop_frames(&self) -> u32 {
        self.gop_frames
    }

    /// Pictures per second.
    pub fn rate(&self) -> FrameRate {
        FrameRate::new(self.fps_numerator, self.fps_denominator)
            .expect("it was checked when read or made")
    }

    /// How long a GoP lasts.
    pub fn gop_duration(&self) -> Duration {
        let nanos = u128::from(self.gop_frames) * u128::from(self.fps_denominator) * 1_000_000_000
            / u128::from(self.fps_numerator);
        Duration::from_nanos(nanos as u64)
    }

    /// Units of time in a second of the tiles' tracks, and how many a picture lasts.
    pub(crate) fn timescale(&self) -> (u32, u32) {
        // Fine enough for players that round, whatever the rate.
        let factor = 10_000_u32.div_ceil(self.fps_numerator);
        (self.fps_numerator * factor, self.fps_denominator * factor)
    }

    /// As what the whole sphere is encoded, if it is: as one tile.
    pub(crate) fn whole_plan(&self) -> Option<Self> {
        let WholeSphere { qps, colour } = self.whole.clone()?;
        let colour = Some(colour);
        Some(Self { columns: 1, rows: 1, qps, colour, whole: None, ..self.clone() })
    }
}

impl WholeSphere {
    /// That of a source which says this of its colours, at these QPs, if there are any.
    fn of(qps: &[u8], said: Option<Colour>) -> Option<Self> {
        let whole = Self { qps: ascending(qps), colour: Colour::or_usual(said) };
        (!qps.is_empty()).then_some(whole)
    }
}

/// QPs in their order, each once.
fn ascending(qps: &[u8]) -> Vec<u8> {
    let mut qps = qps.to_vec();
    qps.sort_unstable();
    qps.dedup();
    qps
}

/// Whether sound may be ambisonics by its channels: of the first, second or third order.
pub(crate) fn is_ambisonic(channels: u8) -> bool {
    matches!(channels, 4 | 9 | 16)
}

/// Two cardioids, one to the left and one to the right: the first channel of AmbiX is what comes
/// from all sides, and the second the difference between left and right.
pub(crate) const AMBIX_TO_STEREO: &str = "pan=stereo|c0=0.5*c0+0.5*c1|c1=0.5*c0-0.5*c1";

/// Refuses pictures that are not those of one sphere: scaled to another shape they would be packaged as
/// one. One that was squeezed, as into 16:9, is stretched by a size that was given.
fn check_shape(source: &Source, is_scaled: bool) -> Result<(), String> {
    let (width, height) = (source.width, source.height);
    let ratio = f64::from(width) / f64::from(height.max(1));
    let is_about = |wanted: f64| (ratio / wanted - 1.0).abs() <= SHAPE_TOLERANCE;
    if is_about(2.0) {
        return Ok(());
    }
    let eyes = match ratio {
        _ if is_about(1.0) => Some(("one above the other", "crop=iw:ih/2:0:0")),
        _ if is_about(4.0) => Some(("side by side", "crop=iw/2:ih:0:0")),
        _ => None,
    };
    Err(match eyes {
        Some((how, crop)) => format!(
            "has pictures of {width}x{height}, as those for two eyes, {how}, and a sphere for one is twice \
             as wide as high; take one of them: ffmpeg -i SOURCE -vf {crop} -c:v libx264 -crf 12 NEW.mp4"
        ),
        None if is_scaled => return Ok(()),
        None => {
            let (where_bars, crop) = match ratio < 2.0 {
                true => ("above and below", "iw:iw/2"),
                false => ("left and right", "2*ih:ih"),
            };
            format!(
                "has pictures of {width}x{height}, and a whole sphere is twice as wide as high; if there are \
                 black bars {where_bars}, cut them off: ffmpeg -i SOURCE -vf crop={crop} -c:v libx264 -crf 12 \
                 NEW.mp4; if it was squeezed, --size {}x{height} stretches it",
                2 * height
            )
        }
    })
}

impl PackageOptions {
    /// Whether all that a package does not carry of the source may be lost.
    fn check_losses(&self, source: &Source) -> Result<(), String> {
        let tracks = if self.no_sound { &[][..] } else { &source.sound[..] };
        let keep = "ffmpeg -i SOURCE -map 0:v:0 -map 0:a:0 -c copy NEW.mkv";
        match tracks {
            [] | [Track { channels: 1 | 2, .. }] => {}
            [Track { channels, codec }] => {
                let mix = "ffmpeg -i SOURCE -c:v copy -ac 2 NEW.mkv";
                let mix = match is_ambisonic(*channels) {
                    true => format!(
                        "mix them first, loudspeakers by {mix}, ambisonics (AmbiX), which that would \
                         spoil, by ffmpeg -i SOURCE -c:v copy -af '{AMBIX_TO_STEREO}' NEW.mkv"
                    ),
                    false => format!("mix them first: {mix}"),
                };
                return Err(format!(
                    "has sound of {channels} channels ({codec}), and a package carries one or two; \
                     {mix}, or give --no-sound to leave it out"
                ));
            }
            several => {
                let codecs: Vec<&str> = several.iter().map(|track| track.codec.as_str()).collect();
                return Err(format!(
                    "has {} tracks of sound ({}), and a package carries one; keep one: {keep}, or \
                     give --no-sound to leave them out",
                    several.len(),
                    codecs.join(", ")
                ));
            }
        }
        if source.is_deep() && !self.to_8_bits {
            let pixels = &source.pixels;
            return Err(format!(
                "has pixels of more than 8 bits ({pixels}), and tiles have 8; give --to-8-bits to \
                 round them"
            ));
        }
        Ok(())
    }

    /// What becomes of the source's sound.
    fn sound_of(&self, source: &Source) -> Option<SoundTrack> {
        let track = source.sound.first().filter(|_| !self.no_sound)?;
        Some(SoundTrack::of(track.channels))
    }

    /// The QPs, ascending and each once; for a ladder by rates those at which these are measured.
    fn ladder(&self) -> Vec<u8> {
        if self.mbps.is_empty() { ascending(&self.qps) } else { PROBED.to_vec() }
    }

    fn check(&self, size: FrameSize) -> Result<(), VrError> {
        self.grid.check(size)?;
        let tile = self.grid.rect(0, size);
        if tile.width < MIN_TILE || tile.height < MIN_TILE {
            return Err(VrError::Invalid(format!(
                "tiles of {}x{} pixels are too small for an encoder (least {MIN_TILE}); take a \
                 coarser grid",
                tile.width, tile.height
            )));
        }
        if self.qps.is_empty() || self.qps.iter().any(|&qp| qp == 0 || qp > MAX_QP) {
            return Err(VrError::Invalid(format!(
                "QPs must be from 1 to {MAX_QP}, at least one of them"
            )));
        }
        if self.whole.iter().any(|&qp| qp == 0 || qp > MAX_QP) {
            return Err(VrError::Invalid(format!("--whole: QPs must be from 1 to {MAX_QP}")));
        }
        if self.mbps.len() > MAX_RUNGS
            || self.mbps.iter().any(|mbps| !(*mbps > 0.0 && *mbps <= 1e6))
        {
            return Err(VrError::Invalid(format!(
                "--ladder-mbps: rates are above 0 and at most 1000000, {MAX_RUNGS} of them at most"
            )));
        }
        if !PRESETS.contains(&self.preset.as_str()) {
            let (preset, presets) = (&self.preset, PRESETS.join(", "));
            return Err(VrError::Invalid(format!(
                "there is no preset '{preset}'; x264 has {presets}"
            )));
        }
        if !(self.gop_s >= 0.1 && self.gop_s <= 60.0) {
            let gop_s = self.gop_s;
            return Err(VrError::Invalid(format!("a GoP of {gop_s} s is not from 0.1 to 60 s")));
        }
        Ok(())
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("package.json")
}

/// Writes a file so that after a crash there is the old one or the new one, whole.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), VrError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    });
    written.map_err(VrError::io("write", path))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Makes what was renamed in a directory last.
fn sync_dir(dir: &Path) -> Result<(), VrError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(VrError::io("write", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(frames: usize, rate: &str, gop_s: f64) -> Result<Description, String> {
        let source = Source::drawn(frames, rate, "yuv420p");
        let options =
            PackageOptions { gop_s, grid: Grid::new(2, 1).unwrap(), ..Default::default() };
        Description::new(&source, &options, "5").map_err(|why| why.to_string())
    }

    /// Rounded to pictures, a GoP may be shorter than any player takes, or longer.
    #[test]
    fn a_gop_has_its_length_when_it_is_whole_pictures() {
        let why = planned(48, "24/1", 0.1).unwrap_err();
        assert!(why.contains("2 pictures at 24/1") && why.contains("0.083 s"), "{why}");
        assert!(why.contains("give more"), "{why}");
        let why = planned(400, "3/2", 59.9).map(|plan| plan.gop_duration());
        assert_eq!(why.map(|lasts| lasts.as_secs_f64()), Ok(60.0));
        let why = planned(400, "10/9", 59.9).unwrap_err();
        assert!(why.contains("60.300 s") && why.contains("give less"), "{why}");
        assert_eq!(planned(48, "24/1", 0.12).map(|plan| plan.gops()), Ok(16));
    }

    /// All of them would be encoded before the table has too many.
    #[test]
    fn too_many_gops_are_refused_before_one_is_encoded() {
        let why = planned(3 * (MAX_GOPS + 1), "30/1", 0.1).unwrap_err();
        assert!(why.contains("86401 GoPs") && why.contains("longer --gop"), "{why}");
        assert_eq!(planned(3 * MAX_GOPS, "30/1", 0.1).map(|plan| plan.gops()), Ok(86_400));
    }
}
