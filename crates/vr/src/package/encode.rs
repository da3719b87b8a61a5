//! One GoP, from the source to files in a directory of its own: the commands for ffmpeg, and the
//! measuring of what they made.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use weftline_video::metric::{Plane, SphereWeights};

use super::mp4::{self, Segments};
use super::plan::Description;
use super::tiles::{TileReader, TileSource};
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, as_file};
use crate::source::Source;

/// The raw pictures of the GoP that is worked on.
const RAW: &str = "source.yuv";

/// What the work on a GoP needs.
pub(crate) struct Workshop<'a> {
    pub(crate) ffmpeg: &'a Ffmpeg,
    pub(crate) source: &'a Source,
    pub(crate) plan: &'a Description,
    pub(crate) weights: &'a SphereWeights,
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
}

impl Workshop<'_> {
    /// Decodes the GoP's pictures once: all that follows reads them as they are.
    pub(crate) fn open(&self, gop: u32, dir: PathBuf) -> Result<OpenGop, VrError> {
        fs::create_dir_all(&dir).map_err(VrError::io("make", &dir))?;
        let mut open = OpenGop { gop, dir, luma: Vec::new() };
        let first = u64::from(gop) * u64::from(self.plan.gop_frames);
        let mut args = Vec::new();
        let seek_s = self.source.seek_s(first);
        if seek_s > 0.0 {
            args.extend(["-ss".into(), OsString::from(format!("{seek_s:.6}"))]);
        }
        args.extend(["-noautorotate".into(), "-i".into(), as_file(&self.source.path)]);
        let (width, height) = (self.plan.width, self.plan.height);
        let scale = match (self.source.width, self.source.height) == (width, height) {
            true => String::new(),
            false => format!("scale={width}:{height}:flags=lanczos,"),
        };
        let frames = self.plan.gop_frames.to_string();
        args.extend(["-map", "0:v:0", "-vf"].map(OsString::from));
        args.push(format!("{scale}format=yuv420p").into());
        args.extend(["-frames:v", &frames, "-f", "rawvideo"].map(OsString::from));
        args.extend(self.ffmpeg.passthrough().map(OsString::from));
        args.push(RAW.into());
        let doing = format!("to decode the pictures of GoP {gop}");
        self.ffmpeg.run(&args, &open.dir, &doing)?;
        open.luma = self.read_luma(&open)?;
        Ok(open)
    }

    /// The luma planes of the raw pictures, of which there must be as many as a GoP has.
    fn read_luma(&self, open: &OpenGop) -> Result<Vec<u8>, VrError> {
        let path = open.dir.join(RAW);
        let mut file = File::open(&path).map_err(VrError::io("read", &path))?;
        let pixels = self.plan.width as usize * self.plan.height as usize;
        let frames = self.plan.gop_frames as usize;
        let length = file.metadata().map_err(VrError::io("read", &path))?.len();
        let picture = pixels as u64 * 3 / 2;
        if length != picture * frames as u64 {
            let (gop, got) = (open.gop, length as f64 / picture as f64);
            return Err(VrError::source(
                &self.source.path,
                format!("GoP {gop} decodes to {got} pictures instead of {frames}; is it damaged?"),
            ));
        }
        let mut luma = vec![0; pixels * frames];
        for plane in luma.chunks_exact_mut(pixels) {
            file.read_exact(plane)
                .and_then(|()| file.seek(SeekFrom::Current(pixels as i64 / 2)))
                .map_err(VrError::io("read", &path))?;
        }
        Ok(luma)
    }

    /// Encodes all tiles at one QP, takes the files apart, decodes them again and measures them.
    pub(crate) fn encode(&self, open: &OpenGop, qp: u8) -> Result<EncodedRung, VrError> {
        let names: Vec<String> =
            (0..self.plan.grid().tiles()).map(|tile| format!("q{qp:02}t{tile:03}.mp4")).collect();
        let doing = format!("to encode GoP {} at QP {qp}", open.gop);
        self.ffmpeg.run(&self.encode_args(qp, &names), &open.dir, &doing)?;
        let errors = self.measure(open, qp, &names)?;
        let mut tiles = Vec::with_capacity(names.len());
        for (name, [ws_mse, mixed_mse]) in names.iter().zip(errors) {
            let path = open.dir.join(name);
            let file = fs::read(&path).map_err(VrError::io("read", &path))?;
            let segments = self.segments(&file, open.gop).map_err(|why| VrError::Ffmpeg {
                doing: doing.clone(),
                reason: format!("{name}: {why}"),
            })?;
            fs::remove_file(&path).map_err(VrError::io("remove", &path))?;
            tiles.push(EncodedTile { segments, ws_mse, mixed_mse });
        }
        Ok(EncodedRung { qp, tiles })
    }

    /// One process for all tiles: reading the pictures and starting cost more than small encoders.
    fn encode_args(&self, qp: u8, names: &[String]) -> Vec<OsString> {
        let plan = self.plan;
        let size = format!("{}x{}", plan.width, plan.height);
        let rate = plan.rate().to_string();
        let mut args: Vec<String> = ["-f", "rawvideo", "-pixel_format", "yuv420p", "-video_size"]
            .map(str::to_owned)
            .to_vec();
        args.extend([size, "-framerate".to_owned(), rate, "-i".to_owned(), RAW.to_owned()]);
        let mut graph = format!("split={}", names.len());
        (0..names.len()).for_each(|tile| graph += &format!("[s{tile}]"));
        for tile in 0..names.len() {
            let rect = plan.grid().rect(tile, plan.frame());
            let (width, height, left, top) = (rect.width, rect.height, rect.left, rect.top);
            graph += &format!(";[s{tile}]crop={width}:{height}:{left}:{top}[t{tile}]");
        }
        args.extend(["-filter_complex".to_owned(), graph]);
        let (timescale, _) = plan.timescale();
        for (tile, name) in names.iter().enumerate() {
            args.extend(["-map".to_owned(), format!("[t{tile}]")]);
            args.extend(["-c:v", "libx264", "-preset", &plan.preset].map(str::to_owned));
            args.extend(["-qp".to_owned(), qp.to_string()]);
            args.extend(["-g".to_owned(), plan.gop_frames.to_string()]);
            args.extend(["-x264-params", "scenecut=0:open-gop=0"].map(str::to_owned));
            // Many encoders in one process need no threads of their own.
            args.extend(["-threads", "1", "-map_metadata", "-1"].map(str::to_owned));
            args.extend(["-video_track_timescale".to_owned(), timescale.to_string()]);
            let flags = "+frag_keyframe+empty_moov+default_base_moof+negative_cts_offsets\
                         +skip_trailer";
            args.extend(
                ["-movflags", flags, "-fflags", "+bitexact", "-f", "mp4"].map(str::to_owned),
            );
            args.push(name.clone());
        }
        args.into_iter().map(OsString::from).collect()
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
    /// their pixels.
    fn measure(&self, open: &OpenGop, qp: u8, names: &[String]) -> Result<Vec<[f64; 2]>, VrError> {
        let plan = self.plan;
        let (frame, frames) = (plan.frame(), plan.gop_frames as usize);
        let pixels = plan.width as usize * plan.height as usize;
        let files = names.iter().map(|name| TileSource::Whole(name.into())).collect::<Vec<_>>();
        let what = format!("GoP {} at QP {qp}", open.gop);
        let list = format!("q{qp:02}.txt");
        let mut reader = TileReader::start(self.ffmpeg, plan, &open.dir, &list, &files, &what)?;
        let mut errors = Vec::with_capacity(names.len());
        for tile in 0..names.len() {
            let rect = plan.grid().rect(tile, frame);
            let mut sums = [0.0; 2];
            for picture in open.luma.chunks_exact(pixels) {
                let decoded = reader.next()?;
                let compared = Plane::new(picture, plan.width, plan.height, plan.width as usize)
                    .and_then(|original| original.crop(rect))
                    .and_then(|original| {
                        let sum = self.weights.error_sum(rect.top, original, decoded)?;
                        let mixed = self.weights.mixed_error_sum(rect.top, original, decoded)?;
                        Ok([sum, mixed])
                    });
                let compared = compared.map_err(|why| VrError::Ffmpeg {
                    doing: format!("to decode {what}"),
                    reason: why.to_string(),
                })?;
                sums.iter_mut().zip(compared).for_each(|(sum, more)| *sum += more);
            }
            let whole = self.weights.total() * frames as f64;
            errors.push(sums.map(|sum| sum / whole));
        }
        reader.finish()?;
        Ok(errors)
    }
}

impl OpenGop {
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
