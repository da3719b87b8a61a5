//! The evaluation of tiled 360° video (FBDT §6.3): scenes × rates of transports × tile schemes ×
//! concealments × viewers, from tables, and checked against decoded pictures.
//!
//! Rates come from outside, per second and path: from the simulator, from the lab, or as constants.
//! A transport that fills in order is given the rate that it reached in order; FBDT those of its
//! paths. A server's plan does not depend on who watches, so that all viewers of a scene share it.

mod compose;
mod moment;
mod played;
mod rates;
mod reference;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use weftline_core::{Bitrate, ByteCount};
use weftline_video::evaluate::{
    Concealment, ConcealmentTable, EvaluateError, GopDetail, Parts, Session, SessionOutcome, Views,
};
use weftline_video::geometry::{FieldOfView, Grid, Viewport};
use weftline_video::head::{TileProbabilities, Trace};
use weftline_video::ows::{Entry, Recency};
use weftline_video::rd::RdTable;

use crate::error::VrError;
use crate::ffmpeg::Stop;
use crate::package::Package;

pub use moment::{Moment, Seen};
pub use played::{PlayedGop, Viewed, check_played};
pub use rates::{PAPER_SHARE, Rates, fitting_scale};
pub use reference::{Check, CheckOptions, Drawn, Gap, check, sample};

/// How the bytes of a GoP are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Kernel MPTCP: in order, at the rate that it reached.
    LinuxMptcp,
    /// Our FBDT with a message for each tile, as `vr serve` has it: of messages with deadlines the paths
    /// take one after the other, so that it is in order, at the rates of all paths.
    Fbdt,
    /// FBDT with windows as in the paper, and a message for each tile.
    FbdtWindows,
    /// FBDT with windows as in the paper, as a byte stream.
    FbdtStream,
}

impl Transport {
    /// All with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("linux", Self::LinuxMptcp),
        ("fbdt", Self::Fbdt),
        ("fbdt-windows", Self::FbdtWindows),
        ("fbdt-stream", Self::FbdtStream),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, transport)| *transport == self);
        found.map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = VrError;

    fn from_str(name: &str) -> Result<Self, VrError> {
        // The lab's name for it.
        let name = if name == "linux-mptcp" { "linux" } else { name };
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, transport)| *transport).ok_or_else(|| {
            let known = Self::ALL.map(|(name, _)| name).join(", ");
            VrError::Invalid(format!("there is no transport '{name}'; there are {known}"))
        })
    }
}

/// A packaged source, as far as sessions need it.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Its name: that of the package's directory.
    pub name: String,
    /// Its rate-distortion table.
    pub table: RdTable,
    /// What concealments lose.
    pub concealments: ConcealmentTable,
    /// Where in the tiles their losses are; not in packages of before.
    pub parts: Option<Arc<Parts>>,
    /// The same where viewports mix their pixels.
    mixed_parts: Option<Arc<Parts>>,
    /// What the decoder of an encoding is set up from.
    pub init: ByteCount,
}

impl Scene {
    /// The scene of a package.
    ///
    /// # Errors
    /// [`VrError::Damaged`] if the package has no table of concealments.
    pub fn of(package: &Package) -> Result<Self, VrError> {
        let name = package.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (table, concealments) = (package.table().clone(), package.concealments()?);
        let [parts, mixed_parts] = package.parts()?.map(|parts| parts.map(Arc::new));
        Ok(Self { name, table, concealments, parts, mixed_parts, init: package.init_bytes() })
    }

    /// The same scene as viewports show it that mix each pixel from four of the frame. What
    /// concealments lose stays as it is: pictures differ from grey, and from older ones, by areas,
    /// which mixing does not smooth away.
    ///
    /// # Errors
    /// [`VrError::Invalid`] if that was not measured when the source was packaged.
    pub fn mixed(&self) -> Result<Self, VrError> {
        let Self { name, concealments, init, mixed_parts, .. } = self.clone();
        let table = self.table.mixed().ok_or_else(|| {
            VrError::Invalid(format!(
                "the table of the package '{name}' has no mixed_mse, as those of before; run \
                 weftline vr package on its source again, into a new directory"
            ))
        })?;
        let parts = mixed_parts.clone();
        Ok(Self { name, table, concealments, parts, mixed_parts, init })
    }

    /// The grid of what losses are known of: cells, or else tiles.
    pub(crate) fn cells(&self) -> Result<Grid, VrError> {
        self.parts.as_ref().map_or_else(|| self.grid(), |parts| Ok(parts.cells()))
    }

    /// Its tiles.
    ///
    /// # Errors
    /// [`VrError::Geometry`] if the table's grid cannot be one of a frame.
    pub fn grid(&self) -> Result<Grid, VrError> {
        Ok(Grid::new(self.table.columns().into(), self.table.rows().into())?)
    }

    /// What all tiles take at their finest rungs, in Mb/s.
    pub fn finest_mbps(&self) -> f64 {
        let finest = |tile: &weftline_video::rd::TileTable| tile.rungs()[0].bytes.as_u64();
        let gops = self.table.gops();
        let bytes: u64 = gops.iter().flat_map(|gop| gop.tiles().iter().map(finest)).sum();
        bytes as f64 * 8e-6 / (gops.len() as f64 * self.table.gop_duration().as_secs_f64())
    }
}

/// Who watches a scene: P(t) of some viewers, and the motion of others.
#[derive(Clone, Debug)]
pub struct Audience {
    /// How the viewers of the past looked at it.
    pub probabilities: TileProbabilities,
    /// Those who are scored: their traces, and what they see.
    pub viewers: Vec<(Trace, Views)>,
}

impl Audience {
    /// P(t) from `fit`, and those of `test` to be scored, over `scene`. One viewer more who may
    /// look anywhere is counted to `fit`, so that no tile has probability 0 for want of viewers.
    ///
    /// # Errors
    /// If there are no viewers to fit to, or one of `test` does not watch a whole GoP.
    pub fn new(scene: &Scene, fit: &[Trace], test: Vec<Trace>) -> Result<Self, VrError> {
        let grid = scene.grid()?;
        let fov = FieldOfView::default();
        let viewport = Viewport::new(fov);
        let gop = scene.table.gop_duration();
        let wrong = |why: weftline_video::head::HeadError| {
            VrError::Invalid(format!("head motion for {}: {why}", scene.name))
        };
        let probabilities = TileProbabilities::measure(fit, grid, &viewport, gop)
            .map_err(wrong)?
            .smoothed(fov, 1.0, fit.len());
        let most = scene.table.gops().len();
        let cells = scene.cells()?;
        let views = |trace: Trace| {
            let views = Views::new(&trace, cells, &viewport, gop, most);
            (trace, views)
        };
        let viewers: Vec<_> = test.into_iter().map(views).collect();
        if let Some((trace, views)) = viewers.iter().find(|(_, views)| views.gops() < most) {
            return Err(VrError::Invalid(format!(
                "the head motion of viewer '{}' ends in GoP {} of {}, which has {most}; give longer \
                 traces, or package less of the source",
                trace.viewer(),
                views.gops(),
                scene.name
            )));
        }
        Ok(Self { probabilities, viewers })
    }
}

/// What is compared, beside scenes and rates.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tile schemes.
    pub schemes: Vec<&'static Entry>,
    /// What is shown in place of late tiles.
    pub concealments: Vec<Concealment>,
    /// Seconds of rates before the first GoP.
    pub warm_up: usize,
    /// The work a scheme may do for a GoP.
    pub search_units: u64,
}

/// A session of each viewer of one scene: what came of them, in the order of the audience.
#[derive(Clone, Debug)]
pub struct Played {
    /// The scene, as an index.
    pub scene: usize,
    /// The rates, as an index into those of the scene.
    pub rates: usize,
    /// The tile scheme.
    pub scheme: &'static Entry,
    /// The concealment.
    pub concealment: Concealment,
    /// For each viewer.
    pub outcomes: Vec<SessionOutcome>,
}

/// Plays every scene with all its rates, schemes and concealments to all its viewers, on all cores; the
/// result is in that order and does not depend on the cores. `rates` has those of each scene, in the
/// order of the scenes; those of one that has none there are none. `progress` is told how many of how
/// many are done.
///
/// # Errors
/// If the rates are shorter than a scene with the history before it, if tables do not fit together,
/// or if `stop` is asked for.
pub fn play(
    scenes: &[(Scene, Audience)],
    rates: &[Vec<Rates>],
    settings: &Settings,
    stop: &Stop,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Played>, VrError> {
    let mut all = Vec::new();
    for (scene, ((place, _), rates)) in scenes.iter().zip(rates).enumerate() {
        rates.iter().try_for_each(|rates| rates.check(place, settings.warm_up))?;
        for rates in 0..rates.len() {
            for &concealment in &settings.concealments {
                all.extend(
                    settings.schemes.iter().map(|&scheme| (scene, rates, scheme, concealment)),
                );
            }
        }
    }
    let (done, total) = (AtomicUsize::new(0), all.len());
    let played = all.into_par_iter().map(|(scene, at, scheme, concealment)| {
        if stop.asked() {
            return Err(VrError::Stopped);
        }
        let (place, audience) = &scenes[scene];
        let one = One { scene: place, audience, rates: &rates[scene][at], scheme, concealment };
        let outcomes = one.play(settings, &mut |_| {})?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        Ok(Played { scene, rates: at, scheme, concealment, outcomes })
    });
    played.collect()
}

/// One scene with one of everything.
#[derive(Clone, Copy)]
pub(crate) struct One<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) audience: &'a Audience,
    pub(crate) rates: &'a Rates,
    pub(crate) scheme: &'static Entry,
    pub(crate) concealment: Concealment,
}

impl One<'_> {
    /// Plays it to all viewers.
    pub(crate) fn play(
        &self,
        settings: &Settings,
        watch: &mut dyn FnMut(&GopDetail<'_>),
    ) -> Result<Vec<SessionOutcome>, VrError> {
        let viewport = Viewport::new(FieldOfView::default());
        let Some((trace, _)) = self.audience.viewers.first() else { return Ok(Vec::new()) };
        let delivery = self.rates.delivery();
        let session = Session {
            table: &self.scene.table,
            concealments: &self.scene.concealments,
            parts: self.scene.parts.as_deref(),
            init: self.scene.init,
            probabilities: &self.audience.probabilities,
            viewport: &viewport,
            trace,
            seconds: &self.rates.seconds,
            warm_up: settings.warm_up,
            delivery: delivery.as_ref(),
            recency: Recency::default(),
            scheme: self.scheme,
            concealment: self.concealment,
            search_units: settings.search_units,
        };
        let views: Vec<&Views> = self.audience.viewers.iter().map(|(_, views)| views).collect();
        session
            .run_for(&views, watch)
            .map_err(|why: EvaluateError| VrError::Invalid(format!("{}: {why}", self.scene.name)))
    }
}

/// `mbps` as a rate; what is negative or no number is none.
fn bitrate(mbps: f64) -> Bitrate {
    // The cast saturates, and takes what is no number for 0.
    Bitrate::bps((mbps * 1e6).round() as u64)
}

/// Makes a directory with those above it.
fn make_dir(dir: &Path) -> Result<(), VrError> {
    std::fs::create_dir_all(dir).map_err(VrError::io("make", dir))
}
