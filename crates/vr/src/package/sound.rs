//! The sound of a package: AAC, in a segment of its own for each GoP.
//!
//! ```text
//! DIR/sound/init.mp4    what its decoder is set up from
//! DIR/sound/000003.m4s  the frames of AAC that begin within GoP 3
//! DIR/sound/sound.json  the lengths and digests of all segments: it is finished
//! ```
//!
//! A frame of AAC is 1024 samples, and GoPs are no multiples of it. So segment n begins with the first
//! frame that begins at the GoP's first picture or after it: less than a frame later, and at the time
//! that it says, to a sample. A player that goes by these times is in sync; one that plays a segment's
//! first sample with the GoP's first picture is off by less than a frame (21.3 ms at 48 kHz).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weftline_core::ByteCount;
use weftline_video::live;
use weftline_video::live::Digest;
use weftline_video::live::wire::{SoundFormat, TileDigests};

use super::plan::{Description, write_whole};
use super::record::differs;
use super::track::SoundTrack;
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, as_file};
use crate::mp4;
use crate::source::Source;

/// Samples in a frame of AAC-LC (ISO/IEC 14496-3, 4.5.1.1).
pub(crate) const FRAME_SAMPLES: u32 = 1_024;
/// What AAC-LC is called in a manifest (RFC 6381).
pub(crate) const CODEC: &str = "mp4a.40.2";
/// Bits a second of each channel.
const CHANNEL_BPS: u32 = 64_000;
/// The longest frame: 6144 bits a channel (ISO/IEC 14496-3, 4.5.3), and boxes around it.
const MAX_BOX: u64 = 1 << 16;

/// What was written: a segment for each GoP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SoundRecord {
    init_bytes: u64,
    init: Digest,
    segments: Vec<SegmentRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentRecord {
    bytes: u64,
    digest: Digest,
}

/// The file of one GoP, relative to the package.
pub(crate) fn segment(gop: u32) -> PathBuf {
    Path::new("sound").join(format!("{gop:06}.m4s"))
}

/// The file that a decoder is set up from, relative to the package.
pub(crate) fn init() -> PathBuf {
    Path::new("sound").join("init.mp4")
}

fn record_path(dir: &Path) -> PathBuf {
    dir.join("sound").join("sound.json")
}

impl SoundRecord {
    /// The record in `dir`, if all that it names is there.
    pub(crate) fn read(dir: &Path, plan: &Description) -> Result<Option<Self>, VrError> {
        let path = record_path(dir);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(VrError::io("read", &path)(error)),
        };
        let Ok(record) = serde_json::from_str::<Self>(&text) else { return Ok(None) };
        let length = |file: PathBuf| fs::metadata(dir.join(file)).map(|file| file.len()).ok();
        let is_whole = record.segments.len() == plan.gops as usize
            && length(init()) == Some(record.init_bytes)
            && (0..plan.gops)
                .zip(&record.segments)
                .all(|(gop, one)| length(segment(gop)) == Some(one.bytes));
        Ok(is_whole.then_some(record))
    }

    /// The first of its files that has other bytes than were written.
    pub(crate) fn spoiled(&self, dir: &Path) -> Result<Option<PathBuf>, VrError> {
        if differs(&dir.join(init()), Some(self.init))? {
            return Ok(Some(init()));
        }
        for (gop, one) in (0_u32..).zip(&self.segments) {
            if differs(&dir.join(segment(gop)), Some(one.digest))? {
                return Ok(Some(segment(gop)));
            }
        }
        Ok(None)
    }

    /// What was written of a GoP.
    pub(crate) fn digests(&self, gop: u32) -> Option<TileDigests> {
        let segment = self.segments.get(gop as usize)?.digest;
        Some(TileDigests { init: self.init, segment })
    }

    /// The same for a server.
    pub(crate) fn live(&self, track: SoundTrack) -> live::Sound {
        let SoundTrack { rate_hz, channels } = track;
        let segments = self.segments.iter().map(|segment| ByteCount::new(segment.bytes)).collect();
        let format = SoundFormat { rate_hz, channels };
        live::Sound { format, init: ByteCount::new(self.init_bytes), segments }
    }

    /// The longest segment, bytes.
    pub(crate) fn longest(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).max().unwrap_or(0)
    }
}

/// Encodes the source's sound, unless that is done, and cuts it into segments. `work` is a directory
/// that may be written.
pub(crate) fn encode(
    ffmpeg: &Ffmpeg,
    source: &Source,
    plan: &Description,
    dir: &Path,
    work: &Path,
) -> Result<(), VrError> {
    let Some(track) = plan.sound else { return Ok(()) };
    if let Some(record) = SoundRecord::read(dir, plan)?
        && record.spoiled(dir)?.is_none()
    {
        return Ok(());
    }
    fs::create_dir_all(work).map_err(VrError::io("make", work))?;
    let doing = "to encode the sound";
    ffmpeg.run(&encode_args(source, plan, track), work, doing)?;
    let path = work.join(ENCODED);
    let file = File::open(&path).map_err(VrError::io("read", &path))?;
    let frames = Frames::open(BufReader::new(file));
    let failed = |reason| VrError::Ffmpeg { doing: doing.to_owned(), reason };
    let record = write(frames.map_err(failed)?, plan, track, dir)?;
    fs::remove_file(&path).map_err(VrError::io("remove", &path))?;
    let text = serde_json::to_string(&record).expect("it has only plain fields") + "\n";
    write_whole(&record_path(dir), text.as_bytes())
}

/// What ffmpeg writes.
const ENCODED: &str = "sound.mp4";

/// Sound that begins with the first picture, silent where the source has none, and as long as all GoPs.
fn encode_args(source: &Source, plan: &Description, track: SoundTrack) -> Vec<OsString> {
    let lasts_s = plan.gop_duration().as_secs_f64() * f64::from(plan.gops);
    let first_s = source.first_s();
    // One frame more, of which only a part is of the last GoP.
    let whole_s = lasts_s + 2.0 * f64::from(FRAME_SAMPLES) / f64::from(track.rate_hz);
    let filter = format!(
        "aresample={}:async=1:first_pts=0,atrim=start={first_s:.6}:duration={whole_s:.6},\
         asetpts=PTS-STARTPTS,apad=whole_dur={whole_s:.6}",
        track.rate_hz
    );
    let mut args: Vec<OsString> = vec!["-i".into(), as_file(&source.path)];
    args.extend(["-map", "0:a:0", "-vn", "-af", &filter].map(OsString::from));
    args.extend(encoder_args(track));
    args.push(ENCODED.into());
    args
}

/// How sound is encoded: each frame in a fragment of its own.
pub(crate) fn encoder_args(track: SoundTrack) -> Vec<OsString> {
    let rate = (CHANNEL_BPS * u32::from(track.channels)).to_string();
    let channels = track.channels.to_string();
    let mut args = vec!["-ac", &channels, "-c:a", "aac", "-b:a", &rate, "-map_metadata", "-1"];
    let flags = "+frag_every_frame+empty_moov+default_base_moof+skip_trailer";
    args.extend(["-movflags", flags, "-flags:a", "+bitexact", "-fflags", "+bitexact"]);
    args.extend(["-flush_packets", "1", "-f", "mp4"]);
    args.into_iter().map(OsString::from).collect()
}

/// The frames of a file of ffmpeg's, which has each in a fragment of its own.
pub(crate) struct Frames<R> {
    file: R,
    /// What a decoder is set up from.
    pub(crate) init: Vec<u8>,
    /// A box that was read and is not of the beginning.
    next: Option<Typed>,
}

impl<R: Read> Frames<R> {
    pub(crate) fn open(mut file: R) -> Result<Self, String> {
        let mut init = Vec::new();
        loop {
            match read_box(&mut file)? {
                Some((kind, bytes)) if &kind == b"ftyp" || &kind == b"moov" => init.extend(bytes),
                next => return Ok(Self { file, init, next }),
            }
        }
    }

    /// The next frame; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            let found = match self.next.take() {
                Some(found) => Some(found),
                None => read_box(&mut self.file)?,
            };
            match found {
                None => return Ok(None),
                Some((kind, bytes)) if &kind == b"mdat" => return Ok(Some(bytes[8..].to_vec())),
                Some((kind, bytes)) if &kind == b"moof" && mp4::pictures(&bytes)? != 1 => {
                    return Err("a fragment of the sound has more than one frame".to_owned());
                }
                Some(_) => {}
            }
        }
    }
}

/// A box with its type, header included.
type Typed = ([u8; 4], Vec<u8>);

/// The next box of a file; `None` at its end.
fn read_box(file: &mut impl Read) -> Result<Option<Typed>, String> {
    let cut = |_| "the encoded sound is cut short".to_owned();
    let mut header = Vec::new();
    file.by_ref().take(8).read_to_end(&mut header).map_err(cut)?;
    let Some((length, kind)) = header.split_first_chunk::<4>() else { return Ok(None) };
    let length = u64::from(u32::from_be_bytes(*length));
    let kind: [u8; 4] = kind.try_into().map_err(|_| "a box is cut short".to_owned())?;
    if !(8..=MAX_BOX).contains(&length) {
        return Err(format!("the encoded sound has a box of {length} bytes"));
    }
    let mut bytes = header;
    let rest = file.by_ref().take(length - 8).read_to_end(&mut bytes);
    if rest.map_err(cut)? as u64 != length - 8 {
        return Err("the encoded sound is cut short".to_owned());
    }
    Ok(Some((kind, bytes)))
}

/// Writes all segments, and says what was written.
fn write(
    mut frames: Frames<impl Read>,
    plan: &Description,
    track: SoundTrack,
    dir: &Path,
) -> Result<SoundRecord, VrError> {
    let failed = |reason: String| VrError::Ffmpeg { doing: "to cut the sound".to_owned(), reason };
    let put = |file: PathBuf, bytes: &[u8]| {
        let path = dir.join(file);
        fs::write(&path, bytes).map_err(VrError::io("write", &path))
    };
    let folder = dir.join("sound");
    fs::create_dir_all(&folder).map_err(VrError::io("make", &folder))?;
    put(init(), &frames.init)?;
    // The first frame is what the encoder begins with before the first sample, and is not heard.
    frames.next().map_err(failed)?;
    let mut segments = Vec::with_capacity(plan.gops as usize);
    let (mut frame, mut next) = (0_u64, frames.next().map_err(failed)?);
    for gop in 0..plan.gops {
        let (first, mut of_gop) = (frame, Vec::new());
        while gop_of(frame, plan, track) == u64::from(gop)
            && let Some(bytes) = next
        {
            of_gop.push(bytes);
            frame += 1;
            next = frames.next().map_err(failed)?;
        }
        // One that begins before the GoP ends is there unless the encoder ended early.
        if of_gop.is_empty() || gop_of(frame, plan, track) == u64::from(gop) {
            return Err(failed(format!("it ends in GoP {gop} of {}", plan.gops)));
        }
        let time = first * u64::from(FRAME_SAMPLES);
        let bytes = mp4::fragment(gop + 1, time, FRAME_SAMPLES, &of_gop);
        put(segment(gop), &bytes)?;
        segments.push(SegmentRecord { bytes: bytes.len() as u64, digest: Digest::of(&bytes) });
    }
    let (init_bytes, init) = (frames.init.len() as u64, Digest::of(&frames.init));
    Ok(SoundRecord { init_bytes, init, segments })
}

/// The GoP within which a frame begins.
pub(crate) fn gop_of(frame: u64, plan: &Description, track: SoundTrack) -> u64 {
    let rate = plan.rate();
    let samples = u128::from(frame) * u128::from(FRAME_SAMPLES) * u128::from(rate.numerator());
    let gop = u128::from(plan.gop_frames) * u128::from(rate.denominator());
    (samples / (gop * u128::from(track.rate_hz))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn box4(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32 + 8).to_be_bytes();
        [&length[..], kind, content].concat()
    }

    #[test]
    fn frames_are_read_one_by_one_and_what_is_cut_is_told() {
        let trun = box4(b"trun", &[0, 0, 0, 0, 0, 0, 0, 1]);
        let moof = box4(b"moof", &box4(b"traf", &trun));
        let all = [
            box4(b"ftyp", b"iso5"),
            box4(b"moov", &[]),
            moof.clone(),
            box4(b"mdat", &[1, 2]),
            moof,
            box4(b"mdat", &[3]),
        ];
        let file = all.concat();
        let mut frames = Frames::open(&file[..]).unwrap();
        assert_eq!(frames.init, all[..2].concat());
        assert_eq!(frames.next().unwrap(), Some(vec![1, 2]));
        assert_eq!(frames.next().unwrap(), Some(vec![3]));
        assert_eq!(frames.next().unwrap(), None);
        let mut frames = Frames::open(&file[..file.len() - 1]).unwrap();
        frames.next().unwrap();
        assert!(frames.next().unwrap_err().contains("cut short"));
        let huge = [0xff, 0xff, 0xff, 0xff, b'm', b'd', b'a', b't'];
        assert!(Frames::open(&huge[..]).err().unwrap().contains("a box of"));
    }
}
