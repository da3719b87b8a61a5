//! One GoP, from the source to files in a directory of its own: the commands for ffmpeg, and the
//! measuring of what they made.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use weftline_video::metric::{Plane, SphereWeights};

use super::layer::Layer;
use super::parts::Cells;
use super::pictures::{self, Decoded, From};
use super::plan::Description;
use super::tiles::{TileReader, TileSource};
use crate::colour::Colour;
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::mp4::{self, Segments};
use crate::source::Source;

/// The raw pictures of the GoP that is worked on.
const RAW: &str = "source.yuv";

/// What the work on a GoP needs.
pub(crate) struct Workshop<'a> {
    /// What is encoded, by a `plan` of its own.
    pub(crate) layer: Layer,
    pub(crate) ffmpeg: &'a Ffmpeg,
    pub(crate) source: &'a Source,
    pub(crate) plan: &'a Description,
    pub(crate) weights: &'a SphereWeights,
    /// Whether it is measured where in the tiles their losses are.
    pub(crate) with_parts: bool,
}

/// A GoP that is being worked on; its directory is gone when it is dropped.
pub(crate) struct OpenGop {
    pub(crate) gop: u32,
    pub(crate) dir: PathBuf,
    /// The luma of its pictures, one after the other.
    luma: Vec<u8>,
}

/// One rung of all tiles.
pub(crate) struct EncodedRung {
    pub(crate) qp: u8,
    pub(crate) tiles: Vec<EncodedTile>,
}

/// One rung of one tile.
pub(crate) struct EncodedTile {
    pub(crate) segments: Segments,
    pub(crate) ws_mse: f64,
    pub(crate) mixed_mse: f64,
    /// The shares of its cells in these two.
    pub(crate) parts: [Vec<f64>; 2],
}

/// What was measured of one tile.
struct Measured {
    ws_mse: f64,
    mixed_mse: f64,
    parts: [Vec<f64>; 2],
}

/// The luma of all encoders of one process, in pixels: with all rungs in it, a process saves others'
/// starts, but each encoder holds some ten pictures.
const PIXELS_AT_ONCE: u64 = 4 << 20;
/// The encoders of one process: each has a file open, of which systems allow 1,024, and takes some 400
/// bytes of the command line.
const ENCODERS_AT_ONCE: usize = 400;

impl<'a> Workshop<'a> {
    /// For a layer of a package.
    pub(crate) fn new(
        layer: Layer,
        ffmpeg: &'a Ffmpeg,
        source: &'a Source,
        plan: &'a Description,
        weights: &'a SphereWeights,
    ) -> Self {
        Self { layer, ffmpeg, source, plan, weights, with_parts: layer == Layer::Tiles }
    }

    /// Some QPs, those together that one process encodes. They do not depend on the number of processes
    /// at once, and what is encoded does not depend on them.
    pub(crate) fn together<'q>(&self, qps: &'q [u8]) -> impl Iterator<Item = &'q [u8]> + use<'q> {
        let pixels = u64::from(self.plan.width) * u64::from(self.plan.height);
        let most = usize::try_from(PIXELS_AT_ONCE / pixels.max(1)).unwrap_or(usize::MAX);
        qps.chunks(most.max(1))
    }

    /// Decodes the GoP's pictures once: all that follows reads them as they are.
    pub(crate) fn open(&self, gop: u32, dir: PathBuf) -> Result<OpenGop, VrError> {
        fs::create_dir_all(&dir).map_err(VrError::io("make", &dir))?;
        let mut open = OpenGop { gop, dir, luma: Vec::new() };
        let mut decoded = Decoded::default();
        for from in From::for_gop(self.source, gop) {
            decoded = self.decode(&open, *from)?;
            if decoded.is_whole(self.plan) {
                open.luma = self.read_luma(&open)?;
                return Ok(open);
            }
        }
        Err(decoded.refusal(self.source, self.plan, gop))
    }

    /// Decodes the GoP's pictures into a file.
    fn decode(&self, open: &OpenGop, from: From) -> Result<Decoded, VrError> {
        let mut args = pictures::args(self.source, self.plan, open.gop, from, "format=yuv420p");
        args.extend(["-f", "rawvideo"].map(OsString::from));
        args.extend(self.ffmpeg.passthrough().map(OsString::from));
        args.push(RAW.into());
        let doing = format!("to decode the pictures of GoP {}", open.gop);
        let said = self.ffmpeg.run_heard(&args, &open.dir, &doing)?;
        let path = open.dir.join(RAW);
        let length = fs::metadata(&path).map_err(VrError::io("read", &path))?.len();
        let picture = u64::from(self.plan.width) * u64::from(self.plan.height) * 3 / 2;
        Ok(Decoded::new(length / picture, &said, self.source))
    }

    /// The luma planes of the raw pictures.
    fn read_luma(&self, open: &OpenGop) -> Result<Vec<u8>, VrError> {
        let path = open.dir.join(RAW);
        let mut file = File::open(&path).map_err(VrError::io("read", &path))?;
        let pixels = self.plan.width as usize * self.plan.height as usize;
        let frames = self.plan.gop_frames as usize;
        let mut luma = vec![0; pixels * frames];
        for plane in luma.chunks_exact_mut(pixels) {
            file.read_exact(plane)
                .and_then(|()| file.seek(SeekFrom::Current(pixels as i64 / 2)))
                .map_err(VrError::io("read", &path))?;
        }
        Ok(luma)
    }

    /// Encodes all tiles at some QPs, takes the files apart, decodes them again and measures them.
    pub(crate) fn encode(&self, open: &OpenGop, qps: &[u8]) -> Result<Vec<EncodedRung>, VrError> {
        let named = |&qp: &u8| (qp, self.names(qp));
        let rungs: Vec<(u8, Vec<String>)> = qps.iter().map(named).collect();
        let list = qps.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        let doing = format!("to encode GoP {} at QP {list}", open.gop);
        for part in parts(self.plan.grid().tiles(), rungs.len()) {
            self.ffmpeg.run(&self.encode_args(&rungs, part), &open.dir, &doing)?;
        }
        let all: Vec<&String> = rungs.iter().flat_map(|(_, names)| names).collect();
        let mut errors = self.measure(open, qps, &all)?.into_iter();
        let mut encoded = Vec::with_capacity(rungs.len());
        for (qp, names) in &rungs {
            let mut tiles = Vec::with_capacity(names.len());
            for (name, measured) in names.iter().zip(errors.by_ref()) {
                let Measured { ws_mse, mixed_mse, parts } = measured;
                let path = open.dir.join(name);
                let file = fs::read(&path).map_err(VrError::io("read", &path))?;
                let segments = self.segments(&file, open.gop).map_err(|why| VrError::Ffmpeg {
                    doing: doing.clone(),
                    reason: format!("{name}: {why}"),
                })?;
                fs::remove_file(&path).map_err(VrError::io("remove", &path))?;
                tiles.push(EncodedTile { segments, ws_mse, mixed_mse, parts });
            }
            encoded.push(EncodedRung { qp: *qp, tiles });
        }
        Ok(encoded)
    }

    /// The files of all tiles at a QP.
    fn names(&self, qp: u8) -> Vec<String> {
        let prefix = self.layer.prefix();
        let name = |tile| format!("{prefix}q{qp:02}t{tile:03}.mp4");
        (0..self.plan.grid().tiles()).map(name).collect()
    }

    /// One process for some tiles, nearly always all, of several rungs: reading the pictures and starting
    /// cost more than small encoders.
    fn encode_args(&self, rungs: &[(u8, Vec<String>)], part: Range<usize>) -> Vec<OsString> {
        let plan = self.plan;
        let size = format!("{}x{}", plan.width, plan.height);
        let rate = plan.rate().to_string();
        let mut args: Vec<String> = ["-f", "rawvideo", "-pixel_format", "yuv420p", "-video_size"]
            .map(str::to_owned)
            .to_vec();
        args.extend([size, "-framerate".to_owned(), rate, "-i".to_owned(), RAW.to_owned()]);
        args.extend(["-filter_complex".to_owned(), self.cut(rungs.len(), part.clone())]);
        let (timescale, _) = plan.timescale();
        for (rung, (qp, names)) in rungs.iter().enumerate() {
            for (tile, name) in part.clone().zip(&names[part.clone()]) {
                args.extend(["-map".to_owned(), format!("[t{tile}r{rung}]")]);
                args.extend(["-c:v", "libx264", "-preset", &plan.preset].map(str::to_owned));
                args.extend(["-qp".to_owned(), qp.to_string()]);
                args.extend(["-g".to_owned(), plan.gop_frames.to_string()]);
                args.extend(["-x264-params", "scenecut=0:open-gop=0"].map(str::to_owned));
                // Many encoders in one process need no threads of their own.
                args.extend(["-threads", "1", "-map_metadata", "-1"].map(str::to_owned));
                args.extend(plan.colour.into_iter().flat_map(Colour::encoder_args));
                args.extend(["-video_track_timescale".to_owned(), timescale.to_string()]);
                let flags = "+frag_keyframe+empty_moov+default_base_moof+negative_cts_offsets\
                             +skip_trailer";
                args.extend(
                    ["-movflags", flags, "-fflags", "+bitexact", "-f", "mp4"].map(str::to_owned),
                );
                args.push(name.clone());
            }
        }
        args.into_iter().map(OsString::from).collect()
    }

    /// The filters that cut each tile of a part out, once for each of `rungs`.
    fn cut(&self, rungs: usize, part: Range<usize>) -> String {
        let plan = self.plan;
        let mut graph = format!("split={}", part.len());
        part.clone().for_each(|tile| graph += &format!("[s{tile}]"));
        for tile in part {
            let rect = plan.grid().rect(tile, plan.frame());
            let (width, height, left, top) = (rect.width, rect.height, rect.left, rect.top);
            graph += &format!(";[s{tile}]crop={width}:{height}:{left}:{top},split={rungs}");
            (0..rungs).for_each(|rung| graph += &format!("[t{tile}r{rung}]"));
        }
        graph
    }

    fn segments(&self, file: &[u8], gop: u32) -> Result<Segments, String> {
        let mut segments = mp4::split(file)?;
        let (frames, wanted) = (mp4::pictures(&segments.media)?, self.plan.gop_frames);
        if frames != wanted {
            return Err(format!("it has {frames} pictures instead of {wanted}"));
        }
        let (_, picture) = self.plan.timescale();
        let time = u64::from(gop) * u64::from(wanted) * u64::from(picture);
        mp4::place(&mut segments.media, gop + 1, time)?;
        Ok(segments)
    }

    /// The part of the frame's WS-MSE that each tile has, and what of it viewports show that mix
    /// their pixels; of all tiles at the first QP, then at the next.
    fn measure(
        &self,
        open: &OpenGop,
        qps: &[u8],
        names: &[&String],
    ) -> Result<Vec<Measured>, VrError> {
        let plan = self.plan;
        let (frame, frames) = (plan.frame(), plan.gop_frames as usize);
        let pixels = plan.width as usize * plan.height as usize;
        let files = names.iter().map(|name| TileSource::Whole(name.into())).collect::<Vec<_>>();
        let first = qps.first().copied().unwrap_or_default();
        let what = format!("GoP {} from QP {first} on", open.gop);
        let list = format!("{}q{first:02}.txt", self.layer.prefix());
        let mut reader = TileReader::start(self.ffmpeg, plan, &open.dir, &list, &files, &what)?;
        let mut errors = Vec::with_capacity(names.len());
        let cells = Cells::new(plan);
        for at in 0..names.len() {
            let rect = plan.grid().rect(at % plan.grid().tiles(), frame);
            let (mut sums, mut parts) = ([0.0; 2], cells.nothing());
            for (index, picture) in open.luma.chunks_exact(pixels).enumerate() {
                let decoded = reader.next()?;
                let compared = Plane::new(picture, plan.width, plan.height, plan.width as usize)
                    .and_then(|original| original.crop(rect))
                    .and_then(|original| {
                        let sum = self.weights.error_sum(rect.top, original, decoded)?;
                        let mixed = self.weights.mixed_error_sum(rect.top, original, decoded)?;
                        if self.with_parts && Cells::takes(index) {
                            cells.add(&mut parts, self.weights, rect.top, [original, decoded])?;
                        }
                        Ok([sum, mixed])
                    });
                let compared = compared.map_err(|why| VrError::Ffmpeg {
                    doing: format!("to decode {what}"),
                    reason: why.to_string(),
                })?;
                sums.iter_mut().zip(compared).for_each(|(sum, more)| *sum += more);
            }
            let whole = self.weights.total() * frames as f64;
            let [ws_mse, mixed_mse] = sums.map(|sum| sum / whole);
            let parts = parts.shares();
            errors.push(Measured { ws_mse, mixed_mse, parts });
        }
        reader.finish()?;
        Ok(errors)
    }
}

/// The tiles that one process encodes each.
fn parts(tiles: usize, rungs: usize) -> impl Iterator<Item = Range<usize>> {
    let most = (ENCODERS_AT_ONCE / rungs.max(1)).max(1);
    (0..tiles).step_by(most).map(move |first| first..tiles.min(first + most))
}

impl OpenGop {
    /// A GoP whose pictures are written to it one by one; its number is not known yet.
    pub(crate) fn begin(dir: PathBuf) -> Result<(Self, File), VrError> {
        fs::create_dir_all(&dir).map_err(VrError::io("make", &dir))?;
        let path = dir.join(RAW);
        let file = File::create(&path).map_err(VrError::io("write", &path))?;
        Ok((Self { gop: 0, dir, luma: Vec::new() }, file))
    }

    /// Writes a picture, of which the first `pixels` bytes are its luma.
    pub(crate) fn write(
        &mut self,
        file: &mut File,
        picture: &[u8],
        pixels: usize,
    ) -> Result<(), VrError> {
        self.luma.extend_from_slice(&picture[..pixels]);
        file.write_all(picture).map_err(VrError::io("write", &self.dir.join(RAW)))
    }

    /// The luma of its pictures, one after the other.
    pub(crate) fn luma(&self) -> &[u8] {
        &self.luma
    }

    /// The directory in which all unfinished work of this process is.
    pub(crate) fn workdir(dir: &Path) -> PathBuf {
        dir.join(format!(".work-{}", std::process::id()))
    }
}

impl Drop for OpenGop {
    fn drop(&mut self) {
        // What stays behind is removed by the next run.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight hundred tiles at five QPs were one command line of two megabytes.
    #[test]
    fn no_process_has_more_encoders_than_it_has_room_for() {
        for (tiles, rungs) in [(1, 1), (24, 7), (800, 5), (4_096, 20), (3, 51)] {
            let parts: Vec<_> = parts(tiles, rungs).collect();
            assert!(parts.iter().all(|part| part.len() * rungs <= ENCODERS_AT_ONCE), "{parts:?}");
            assert!(parts.iter().cloned().flatten().eq(0..tiles), "{parts:?}");
        }
        assert_eq!(parts(24, 7).count(), 1);
    }
}
