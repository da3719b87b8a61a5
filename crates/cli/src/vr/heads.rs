//! Who watches: head motion from files, or synthetic viewers.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use flate2::read::MultiGzDecoder;
use weftline_video::evaluate::Views;
use weftline_video::head::{Format, Label, SyntheticViewers, Trace, read, split_viewers};
use weftline_vr::evaluate::{Audience, Scene};

use crate::failure::Failure;
use crate::output;

/// The name of the video where a file of traces does not say one.
pub(super) const UNNAMED: &str = "";

/// Options about viewers.
#[derive(Debug, Args)]
pub(super) struct HeadArgs {
    /// Head motion from files or directories, gzipped or not, instead of synthetic viewers; a file
    /// without names of viewers is one viewer
    #[arg(long, value_name = "FILE|DIR", num_args = 1.., value_delimiter = ',')]
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
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        conflicts_with = "heads",
        hide_short_help = true
    )]
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

/// The most files of a directory of traces, and how deep they may lie.
const MOST_FILES: usize = 100_000;
const DEEPEST: usize = 8;

/// The traces of a file, or of all files of a directory.
///
/// # Errors
/// In words, with the file.
pub(super) fn load(path: &Path, format: Format) -> Result<Vec<Trace>, String> {
    let mut traces = Vec::new();
    for file in files_of(path, format)? {
        let wrong = |why: &dyn std::fmt::Display| told(&file, why);
        let text = text(&file).map_err(|why| wrong(&why))?;
        let (viewer, video) = names_of(&file, format);
        let label = Label { viewer: &viewer, video: &video };
        traces.extend(read(format, label, &text).map_err(|why| wrong(&why))?);
    }
    Ok(traces)
}

fn told(at: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{}: {why}", at.display())
}

/// The file itself, or what is below a directory, in the order of the names; but nothing hidden.
fn files_of(path: &Path, format: Format) -> Result<Vec<PathBuf>, String> {
    let (mut files, mut waiting) = (Vec::new(), vec![(path.to_owned(), 0)]);
    while let Some((at, depth)) = waiting.pop() {
        if !at.is_dir() {
            if depth == 0 || has_traces(&at, format) {
                files.push(at);
            }
            continue;
        }
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(&at).map_err(|why| told(&at, &why))? {
            let entry = entry.map_err(|why| told(&at, &why))?;
            if !entry.file_name().to_string_lossy().starts_with('.') {
                inside.push((entry.path(), depth + 1));
            }
        }
        if depth > DEEPEST || files.len() + waiting.len() + inside.len() > MOST_FILES {
            let why = format!(
                "more than {MOST_FILES} files, or deeper than {DEEPEST} directories; name those with traces"
            );
            return Err(told(path, &why));
        }
        // The last one is the next.
        inside.sort_unstable_by(|one, other| other.cmp(one));
        waiting.extend(inside);
    }
    if files.is_empty() { Err(told(path, &"there is no file of traces in it")) } else { Ok(files) }
}

/// Corbillon's directories have other files beside the traces, which are called as their directory and
/// numbered.
fn has_traces(file: &Path, format: Format) -> bool {
    let name = |part: &OsStr| part.to_string_lossy().into_owned();
    let directory = file.parent().and_then(Path::file_name).map(name);
    let own = file.file_name().map(name).unwrap_or_default();
    format != Format::Corbillon2017
        || directory.is_some_and(|directory| own.starts_with(&format!("{directory}_")))
}

/// Who looked at what, of a file that does not say it. Corbillon's set has each viewer's in a directory
/// `uid-…`, and the video's name is that of the directory that the file is in.
fn names_of(file: &Path, format: Format) -> (String, String) {
    let name = |part: &OsStr| part.to_string_lossy().into_owned();
    let directory = file.parent().filter(|_| format == Format::Corbillon2017);
    let directory = directory.filter(|_| has_traces(file, format));
    // The nearest one: who reads them may be called so, too.
    let above = directory.into_iter().flat_map(Path::ancestors).filter_map(Path::file_name);
    let viewer = above.map(name).find(|part| part.starts_with("uid-"));
    match (viewer, directory.and_then(Path::file_name)) {
        (Some(viewer), Some(video)) => (viewer, name(video)),
        _ => (name(file.file_stem().unwrap_or_default()), UNNAMED.to_owned()),
    }
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
        for path in &self.heads {
            traces.extend(load(path, format).map_err(Failure::failed)?);
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
    // Who leaves before the end says how the beginning is looked at, and is not scored.
    let (gop, gops) = (scene.table.gop_duration(), scene.table.gops().len());
    let watches_all = |trace: &Trace| Views::begun(trace, gop) >= gops;
    let all = of_video.len();
    let (mut whole, mut short): (Vec<Trace>, Vec<Trace>) =
        of_video.into_iter().partition(watches_all);
    let viewers =
        |traces: &[Trace]| traces.iter().map(Trace::viewer).collect::<BTreeSet<_>>().len();
    if viewers(&whole) < args.viewers || short.is_empty() {
        // Too few are left: who they are is told where they are seated.
        whole.append(&mut short);
    }
    let (fit, test) = match viewers(&whole) == args.viewers && !short.is_empty() {
        true => (Vec::new(), whole.iter().map(Trace::viewer).collect()),
        false => split_viewers(&whole, args.viewers, args.heads_seed)
            .map_err(|why| Failure::wrong_use(format!("{why} (--viewers)")))?,
    };
    // Nobody is judged by what he did himself.
    short.retain(|trace| !test.contains(&trace.viewer()));
    if !short.is_empty() {
        output::warn(format_args!(
            "{}: {} of {all} traces end before the video does; they count for P(t), and are not scored",
            scene.name,
            short.len()
        ));
    }
    let of = |names: &[&str]| {
        let chosen = whole.iter().filter(|trace| names.contains(&trace.viewer()));
        chosen.cloned().collect::<Vec<_>>()
    };
    let (mut fit, test) = (of(&fit), of(&test));
    fit.extend(short);
    Ok((fit, test))
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

    /// As the set comes: a directory for each viewer, in it one for each test and each video.
    #[test]
    fn corbillons_directories_say_who_looked_at_what() {
        let dir = tempfile::tempdir().unwrap();
        for (viewer, video) in [("uid-a", "Diving"), ("uid-a", "Paris"), ("uid-b", "Diving")] {
            let at = dir.path().join("results").join(viewer).join("test0").join(video);
            std::fs::create_dir_all(&at).unwrap();
            let file = at.join(format!("{video}_0.txt"));
            std::fs::write(file, "0.0 0 1 0 0 0\n0.5 15 1 0 0 0\n").unwrap();
        }
        for other in ["testInfo.txt", "Diving.ini", ".notes"] {
            std::fs::write(dir.path().join("results/uid-a/test0").join(other), "no trace").unwrap();
        }
        let traces = load(dir.path(), Format::Corbillon2017).unwrap();
        let names: Vec<_> = traces.iter().map(|trace| (trace.viewer(), trace.video())).collect();
        assert_eq!(names, [("uid-a", "Diving"), ("uid-a", "Paris"), ("uid-b", "Diving")]);
        // So do the files by themselves, as a shell lists them.
        let file = dir.path().join("results/uid-b/test0/Diving/Diving_0.txt");
        let [trace] = &load(&file, Format::Corbillon2017).unwrap()[..] else { panic!() };
        assert_eq!((trace.viewer(), trace.video()), ("uid-b", "Diving"));
        // One that is not in such directories is its viewer.
        let alone = dir.path().join("ann.txt");
        std::fs::write(&alone, "0.0 0 1 0 0 0\n0.5 15 1 0 0 0\n").unwrap();
        let [trace] = &load(&alone, Format::Corbillon2017).unwrap()[..] else { panic!() };
        assert_eq!((trace.viewer(), trace.video()), ("ann", UNNAMED));
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        let why = load(&dir.path().join("empty"), Format::Csv).unwrap_err();
        assert!(why.contains("empty: there is no file"), "{why}");
    }
}
