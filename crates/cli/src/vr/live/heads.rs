//! Head motion for live streams: recorded or synthetic.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weftline_video::geometry::{FieldOfView, Grid, Viewport};
use weftline_video::head::{Format, Label, SyntheticViewers, TileProbabilities, Trace, read};

use crate::failure::Failure;
use crate::vr::heads::text;

/// What synthetic viewers watch: the same crowd on both sides of a stream.
const CROWD: (u64, &str) = (1, "live");
/// The first viewer of whom a server's probabilities are; players are below.
const FIRST_KNOWN: u32 = 1_000_000;

/// The traces of a file.
pub(super) fn load(file: &Path, format: Format) -> Result<Vec<Trace>, Failure> {
    let wrong = |reason: String| Failure::wrong_use(format!("{}: {reason}", file.display()));
    let text = text(file).map_err(|error| wrong(error.to_string()))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    read(format, Label { viewer: &name, video: &name }, &text)
        .map_err(|error| wrong(error.to_string()))
}

/// The one trace of a file that a player's head follows: of the viewer of this name, or the only
/// one.
pub(super) fn one(file: &Path, format: Format, name: Option<&str>) -> Result<Trace, Failure> {
    let traces = load(file, format)?;
    let fits = |trace: &Trace| name.is_none_or(|name| trace.viewer() == name);
    let found: Vec<&Trace> = traces.iter().filter(|trace| fits(trace)).collect();
    match found[..] {
        [trace] => Ok(trace.clone()),
        ref found => {
            let names: Vec<&str> = traces.iter().map(Trace::viewer).take(8).collect();
            Err(Failure::wrong_use(format!(
                "{}: {} traces fit, and one is wanted; choose with --head-viewer among {}",
                file.display(),
                found.len(),
                names.join(", ")
            )))
        }
    }
}

/// The motion of synthetic viewer `number` for `length`.
pub(super) fn synthetic(number: u32, length: Duration) -> Result<Trace, Failure> {
    let (seed, video) = CROWD;
    // A trace has two poses at least.
    let length = length.max(Duration::from_secs(1));
    SyntheticViewers::new(seed, video).trace(number, length).map_err(Failure::wrong_use)
}

/// P(t) of the viewers of these files, and of so many synthetic ones; `None` without any.
pub(super) fn probabilities(
    files: &[PathBuf],
    format: Format,
    viewers: u32,
    grid: Grid,
    gop: Duration,
    gops: u32,
) -> Result<Option<TileProbabilities>, Failure> {
    let mut traces = Vec::new();
    for file in files {
        traces.extend(load(file, format)?);
    }
    for number in 0..viewers {
        traces.push(synthetic(FIRST_KNOWN + number, gop * gops)?);
    }
    if traces.is_empty() {
        return Ok(None);
    }
    let fov = FieldOfView::default();
    let measured = TileProbabilities::measure(&traces, grid, &Viewport::new(fov), gop);
    let measured = measured.map_err(Failure::wrong_use)?;
    // One more who looked anywhere, so that nothing is impossible for want of viewers.
    Ok(Some(measured.smoothed(fov, 1.0, traces.len())))
}
