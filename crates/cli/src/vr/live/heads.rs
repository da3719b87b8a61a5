//! Head motion for live streams: recorded or synthetic.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use weftline_video::geometry::{FieldOfView, Grid, Viewport};
use weftline_video::head::{Format, SyntheticViewers, TileProbabilities, Trace};

use crate::failure::Failure;
use crate::vr::heads::{UNNAMED, load, of_video};

/// What synthetic viewers watch: the same crowd on both sides of a stream.
const CROWD: (u64, &str) = (1, "live");
/// The first viewer of whom a server's probabilities are; players are below.
const FIRST_KNOWN: u32 = 1_000_000;
/// A trace is a day long at most; after that a synthetic viewer keeps still.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Who is known to have watched before.
#[derive(Debug, Args)]
pub(super) struct KnownArgs {
    /// Files, or directories of them, with head motion of viewers who watched before: how likely each
    /// tile is seen
    #[arg(long, value_name = "FILE|DIR", value_delimiter = ',', conflicts_with = "source")]
    heads: Vec<PathBuf>,
    /// Their format: csv, avtrack360, corbillon2017, nasrabadi2019
    #[arg(long, value_name = "NAME", default_value = "csv", hide_short_help = true)]
    heads_format: Format,
    /// Which video's motion to take [default: that of the package's name, or the only one]
    #[arg(long, value_name = "NAME", requires = "heads", hide_short_help = true)]
    heads_video: Option<String>,
    /// The same from so many synthetic viewers
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "source")]
    viewers: u32,
}

impl KnownArgs {
    /// P(t) of those who have watched the video `name`, which is `length` long; `None` without any.
    pub(super) fn probabilities(
        &self,
        name: &str,
        grid: Grid,
        gop: Duration,
        length: Duration,
    ) -> Result<Option<TileProbabilities>, Failure> {
        let mut traces = Vec::new();
        for file in &self.heads {
            traces.extend(load(file, self.heads_format).map_err(Failure::wrong_use)?);
        }
        if !self.heads.is_empty() {
            traces = of_video(&traces, self.heads_video.as_deref(), name)?;
        }
        for number in 0..self.viewers {
            traces.push(synthetic(FIRST_KNOWN + number, length)?);
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
}

/// The one trace of a file that a player's head follows: of this viewer and this video, or the only one.
pub(super) fn one(
    file: &Path,
    format: Format,
    viewer: Option<&str>,
    video: Option<&str>,
) -> Result<Trace, Failure> {
    let traces = load(file, format).map_err(Failure::wrong_use)?;
    let fits = |trace: &Trace| {
        viewer.is_none_or(|name| trace.viewer() == name)
            && video.is_none_or(|name| trace.video() == name)
    };
    let found: Vec<&Trace> = traces.iter().filter(|trace| fits(trace)).collect();
    if let [trace] = found[..] {
        return Ok(trace.clone());
    }
    let named = |trace: &&Trace| match trace.video() {
        UNNAMED => trace.viewer().to_owned(),
        video => format!("{} ({video})", trace.viewer()),
    };
    // Of those that fit, if any does: then the other option is wanted.
    let (count, shown) = match found.is_empty() {
        true => (0, traces.iter().collect()),
        false => (found.len(), found),
    };
    let names: Vec<String> = shown.iter().take(8).map(named).collect();
    Err(Failure::wrong_use(format!(
        "{}: {count} traces fit, and one is wanted; choose a viewer (--head-viewer) and, in brackets, a \
         video (--head-video): {}",
        file.display(),
        names.join(", ")
    )))
}

/// The motion of synthetic viewer `number` for `length`.
pub(super) fn synthetic(number: u32, length: Duration) -> Result<Trace, Failure> {
    let (seed, video) = CROWD;
    // A trace has two poses at least.
    let length = length.clamp(Duration::from_secs(1), LONGEST);
    SyntheticViewers::new(seed, video).trace(number, length).map_err(Failure::wrong_use)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As AVTrack360 has them: each viewer has watched each video.
    const MANY: &str = "viewer,video,t_s,yaw_deg,pitch_deg\n1,reef,0,0,0\n1,reef,1,9,0\n\
                        1,town,0,90,0\n1,town,1,99,0\n2,reef,0,180,0\n2,reef,1,189,0\n";

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_head_is_chosen_by_viewer_and_video() {
        let file = file(MANY);
        let one = |viewer, video| one(file.path(), Format::Csv, viewer, video);
        let yaw = |trace: Trace| trace.at(Duration::ZERO).degrees().0;
        assert!((yaw(one(Some("1"), Some("town")).unwrap()) - 90.0).abs() < 1e-6);
        assert_eq!(one(None, Some("town")).unwrap().viewer(), "1");
        let why = one(Some("1"), None).unwrap_err().to_string();
        assert!(why.contains("--head-video") && why.contains("1 (reef), 1 (town)"), "{why}");
        let why = one(Some("7"), None).unwrap_err().to_string();
        assert!(why.contains("0 traces fit") && why.contains("2 (reef)"), "{why}");
    }

    /// What is seen of another video says nothing of this one.
    #[test]
    fn only_the_packages_own_video_counts() {
        let file = file(MANY);
        let known = |video: Option<&str>| KnownArgs {
            heads: vec![file.path().to_owned()],
            heads_format: Format::Csv,
            heads_video: video.map(str::to_owned),
            viewers: 0,
        };
        let (grid, second) = (Grid::new(6, 4).unwrap(), Duration::from_secs(1));
        let measured = |video, name| known(video).probabilities(name, grid, second, second);
        let town = measured(None, "town").unwrap().unwrap();
        assert_eq!(measured(Some("town"), "reef").unwrap().unwrap(), town);
        assert_ne!(measured(None, "reef").unwrap().unwrap(), town);
        let why = measured(None, "lake").unwrap_err().to_string();
        assert!(why.contains("reef, town") && why.contains("--heads-video"), "{why}");
    }
}
