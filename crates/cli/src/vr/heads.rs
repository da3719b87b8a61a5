//! Who watches: head motion from files, or synthetic viewers.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use flate2::read::MultiGzDecoder;
use weftline_video::head::{Format, Label, SyntheticViewers, Trace, read, split_viewers};
use weftline_vr::evaluate::{Audience, Scene};

use crate::failure::Failure;

/// The name of the video where a file of traces does not say one.
pub(super) const UNNAMED: &str = "";

/// Options about viewers.
#[derive(Debug, Args)]
pub(super) struct HeadArgs {
    /// Head motion from files, which gzip may have packed, instead of synthetic viewers; a file
    /// without names of viewers is one viewer
    #[arg(long, value_name = "FILE", num_args = 1.., value_delimiter = ',')]
    heads: Vec<PathBuf>,
    /// Their format: avtrack360, corbillon2017, csv or nasrabadi2019
    #[arg(
        long,
        value_name = "NAME",
        requires = "heads",
        default_value = "csv",
        hide_short_help = true
    )]
    heads_format: String,
    /// Which video's motion to take for all packages [default: that of the package's name, or the
    /// only one]
    #[arg(long, value_name = "NAME", requires = "heads", hide_short_help = true)]
    heads_video: Option<String>,
    /// How many viewers are scored
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(super) viewers: usize,
    /// How many other synthetic viewers P(t) is made of; of recorded ones it is all the others
    #[arg(long, value_name = "N", default_value_t = 16, hide_short_help = true)]
    fit_viewers: usize,
    /// Seed of synthetic viewers, and of the choice among recorded ones
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    heads_seed: u64,
}

/// The longest text of a file of traces.
const MAX_TEXT: u64 = 256 << 20;
/// What a file begins with that gzip made (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The text of a file of traces, which gzip may have packed, without the mark of its byte order that
/// some programs put before it.
pub(super) fn text(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let mut head = [0; GZIP.len()];
    let read = file.read(&mut head)?;
    let all = head[..read].chain(&mut file);
    let mut text = String::new();
    let length = match head == GZIP {
        true => MultiGzDecoder::new(all).take(MAX_TEXT + 1).read_to_string(&mut text),
        false => all.take(MAX_TEXT + 1).read_to_string(&mut text),
    }?;
    if length as u64 > MAX_TEXT {
        let why = format!("its text is longer than the {MAX_TEXT} bytes of a head trace");
        return Err(io::Error::other(why));
    }
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// Those of `traces` that are of one video: the one that was asked for, else that of this name, else the
/// only one there is.
pub(super) fn of_video(
    traces: &[Trace],
    asked: Option<&str>,
    name: &str,
) -> Result<Vec<Trace>, Failure> {
    let mut videos: Vec<&str> = traces.iter().map(Trace::video).collect();
    videos.sort_unstable();
    videos.dedup();
    let wanted = asked.unwrap_or(name);
    let video = match (videos.binary_search(&wanted), &videos[..], asked) {
        (Ok(_), ..) => wanted,
        (Err(_), [only], None) => only,
        _ => {
            let names: Vec<&str> = videos.iter().copied().take(20).collect();
            return Err(Failure::wrong_use(format!(
                "the head motion is of {}, none of them '{wanted}'; choose one (--heads-video)",
                names.join(", ")
            )));
        }
    };
    Ok(traces.iter().filter(|trace| trace.video() == video).cloned().collect())
}

/// Where viewers come from.
pub(super) enum Heads<'a> {
    Synthetic(&'a HeadArgs),
    Recorded(&'a HeadArgs, Vec<Trace>),
}

impl HeadArgs {
    /// Reads what there is to read.
    pub(super) fn read(&self) -> Result<Heads<'_>, Failure> {
        if self.viewers == 0 || self.fit_viewers == 0 {
            return Err(Failure::wrong_use("--viewers and --fit-viewers: at least 1 each"));
        }
        if self.heads.is_empty() {
            return Ok(Heads::Synthetic(self));
        }
        let format: Format = self.heads_format.parse().map_err(Failure::wrong_use)?;
        let mut traces = Vec::new();
        for file in &self.heads {
            let told = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
            let text = text(file).map_err(|why| Failure::failed(told(&why)))?;
            let viewer = file.file_stem().unwrap_or_default().to_string_lossy();
            let label = Label { viewer: &viewer, video: UNNAMED };
            traces.extend(read(format, label, &text).map_err(|why| Failure::failed(told(&why)))?);
        }
        Ok(Heads::Recorded(self, traces))
    }
}

impl Heads<'_> {
    /// Those who watch `scene`.
    pub(super) fn audience(&self, scene: &Scene) -> Result<Audience, Failure> {
        let (fit, test) = match self {
            Self::Synthetic(args) => synthetic(args, scene)?,
            Self::Recorded(args, traces) => recorded(args, traces, scene)?,
        };
        Ok(Audience::new(scene, &fit, test)?)
    }
}

fn synthetic(args: &HeadArgs, scene: &Scene) -> Result<(Vec<Trace>, Vec<Trace>), Failure> {
    let crowd = SyntheticViewers::new(args.heads_seed, &scene.name);
    let gops = u32::try_from(scene.table.gops().len()).unwrap_or(u32::MAX);
    // To the end of the last GoP, however its length is rounded.
    let length = scene.table.gop_duration() * gops + Duration::from_millis(200);
    let mut all = Vec::new();
    for viewer in 0..args.fit_viewers + args.viewers {
        let number = u32::try_from(viewer).unwrap_or(u32::MAX);
        all.push(crowd.trace(number, length).map_err(Failure::wrong_use)?);
    }
    let test = all.split_off(args.fit_viewers);
    Ok((all, test))
}

fn recorded(
    args: &HeadArgs,
    traces: &[Trace],
    scene: &Scene,
) -> Result<(Vec<Trace>, Vec<Trace>), Failure> {
    let of_video = of_video(traces, args.heads_video.as_deref(), &scene.name)?;
    let (fit, test) = split_viewers(&of_video, args.viewers, args.heads_seed)
        .map_err(|why| Failure::wrong_use(format!("{why} (--viewers)")))?;
    let of = |names: &[&str]| {
        let chosen = of_video.iter().filter(|trace| names.contains(&trace.viewer()));
        chosen.cloned().collect::<Vec<_>>()
    };
    Ok((of(&fit), of(&test)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_file_is_read_whether_gzip_packed_it_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = "t_s,yaw_deg,pitch_deg\n0,0,0\n";
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(wanted.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        for (name, bytes) in [
            ("plain", wanted.as_bytes()),
            ("heads.csv.gz", &packed[..]),
            ("marked.csv", "\u{feff}t_s,yaw_deg,pitch_deg\n0,0,0\n".as_bytes()),
            ("short", b"t"),
            ("no", b""),
        ] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let read = |name: &str| text(&dir.path().join(name));
        assert_eq!(read("plain").unwrap(), wanted);
        assert_eq!(read("heads.csv.gz").unwrap(), wanted);
        assert_eq!(read("marked.csv").unwrap(), wanted);
        assert_eq!((read("short").unwrap().as_str(), read("no").unwrap().as_str()), ("t", ""));
        std::fs::write(dir.path().join("cut"), &packed[..packed.len() - 9]).unwrap();
        assert!(read("cut").is_err());
    }
}
