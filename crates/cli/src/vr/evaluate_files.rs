//! The files of an evaluation: sessions, GoPs, and one moment of each video.

use std::fmt::Write as _;
use std::fs;
use std::io::BufWriter;
use std::path::Path;

use weftline_scenario::{
    VR_GOPS, VR_GOPS_HEADER, VR_MOMENTS, VR_OURS, VR_SESSIONS, VR_STEPS, VrRecord,
};
use weftline_video::evaluate::GopOutcome;
use weftline_video::ows::Entry;
use weftline_vr::evaluate::{Audience, Moment, Played, Rates, Scene, Settings, Transport};
use weftline_vr::package::Package;
use weftline_vr::{Ffmpeg, Stop};

use crate::failure::Failure;

/// A scene with its package and audience, as far as it is known by now.
pub(super) struct Loaded {
    pub(super) packages: Vec<Package>,
    pub(super) scenes: Vec<(Scene, Audience)>,
}

/// An evaluation that is done.
#[derive(Clone, Copy)]
pub(super) struct Whole<'a> {
    pub(super) loaded: &'a Loaded,
    /// Of each scene.
    pub(super) rates: &'a [Vec<Rates>],
    pub(super) settings: &'a Settings,
    pub(super) played: &'a [Played],
    pub(super) records: &'a [VrRecord],
}

impl<'a> Whole<'a> {
    fn rates_of(&self, one: &Played) -> &'a Rates {
        &self.rates[one.scene][one.rates]
    }
}

fn wrong(file: &Path, why: std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {why}", file.display()))
}

/// Makes the directory.
pub(super) fn prepare(dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|why| wrong(dir, why))
}

/// Writes sessions and GoPs.
pub(super) fn write(dir: &Path, whole: &Whole<'_>) -> Result<(), Failure> {
    let file = dir.join(VR_SESSIONS);
    fs::write(&file, lines(whole.records)?).map_err(|why| wrong(&file, why))?;
    let file = dir.join(VR_GOPS);
    let written =
        fs::File::create(&file).and_then(|out| write_gops(&mut BufWriter::new(out), whole));
    written.map_err(|why| wrong(&file, why))
}

/// One JSON object per session.
pub(super) fn lines(records: &[VrRecord]) -> Result<String, Failure> {
    let mut text = String::new();
    for record in records {
        text += &serde_json::to_string(record).map_err(Failure::failed)?;
        text.push('\n');
    }
    Ok(text)
}

fn write_gops(out: &mut impl std::io::Write, whole: &Whole<'_>) -> std::io::Result<()> {
    writeln!(out, "{VR_GOPS_HEADER}")?;
    let outcomes = whole.played.iter().flat_map(|one| &one.outcomes);
    let mut line = String::new();
    for (record, outcome) in whole.records.iter().zip(outcomes) {
        for gop in &outcome.gops {
            line.clear();
            row(&mut line, record, gop);
            out.write_all(line.as_bytes())?;
        }
    }
    out.flush()
}

fn row(line: &mut String, record: &VrRecord, gop: &GopOutcome) {
    let names = [&record.video, &record.condition, &record.transport, &record.scheme];
    for name in names.into_iter().chain([&record.concealment, &record.viewer]) {
        // A name is one cell, whatever a directory or a file of traces is called.
        line.extend(
            name.chars().map(|c| if matches!(c, ',' | '"' | '\n' | '\r') { '_' } else { c }),
        );
        line.push(',');
    }
    writeln!(
        line,
        "{},{},{:.3},{:.3},{},{},{},{}",
        record.seed,
        gop.gop,
        gop.psnr_db(),
        gop.mean_psnr_db,
        gop.late,
        gop.dropped,
        gop.sent.as_u64(),
        gop.carried.as_u64()
    )
    .expect("a String takes all that is written");
}

/// Writes, for each video, the moment at which the whole gains most for one viewer, or what was played
/// in its place: under the last condition, with the first concealment and the first seed. With `draw` its viewports too.
pub(super) fn write_moments(
    dir: &Path,
    whole: &Whole<'_>,
    draw: Option<&Stop>,
) -> Result<(), Failure> {
    let ffmpeg = draw.map(Ffmpeg::find).transpose()?;
    let mut text = String::new();
    for (index, (scene, audience)) in whole.loaded.scenes.iter().enumerate() {
        let played = shown(whole, index);
        let Some((gop, viewer)) = best_moment(whole, index, &played) else { continue };
        let concealment = whole.settings.concealments[0];
        let moment = Moment { scene, audience, concealment, gop, viewer };
        let pairs: Vec<(&Rates, &'static Entry)> =
            played.iter().map(|one| (whole.rates_of(one), one.scheme)).collect();
        let mut seen = moment.look(&pairs, whole.settings)?;
        if let Some(ffmpeg) = &ffmpeg {
            let package = &whole.loaded.packages[index];
            let source = package.source(ffmpeg, None)?;
            moment.draw(ffmpeg, package, &source, &mut seen, dir)?;
        }
        text += &serde_json::to_string(&seen.moment).map_err(Failure::failed)?;
        text.push('\n');
    }
    let file = dir.join(VR_MOMENTS);
    fs::write(&file, text).map_err(|why| wrong(&file, why))
}

/// What was played of a scene by a pair, under the last condition that has it with the first seed,
/// with the first concealment.
fn find<'a>(whole: &Whole<'a>, scene: usize, scheme: &str, transport: &str) -> Option<&'a Played> {
    let of_scene = whole.rates.get(scene)?;
    let condition = &of_scene.last()?.condition;
    let seed = of_scene.iter().filter(|r| r.condition == *condition).map(|r| r.seed).min()?;
    let concealment = *whole.settings.concealments.first()?;
    whole.played.iter().find(|one| {
        let rates = whole.rates_of(one);
        one.scene == scene
            && one.scheme.name == scheme
            && one.concealment == concealment
            && rates.transport.name() == transport
            && rates.condition == *condition
            && rates.seed == seed
    })
}

/// What is shown of a scene: the steps of the whole, or, if not both its ends were played, all that was
/// under the last condition with the first seed.
fn shown<'a>(whole: &Whole<'a>, scene: usize) -> Vec<&'a Played> {
    let mut all: Vec<&Played> = Vec::new();
    let mut add = |played: Option<&'a Played>| {
        if let Some(played) = played
            && !all.iter().any(|one| std::ptr::eq(*one, played))
        {
            all.push(played);
        }
    };
    if ends(whole, scene).is_some() {
        for (scheme, transport) in VR_STEPS.iter().flat_map(|step| [step.from, step.to]) {
            add(find(whole, scene, scheme, transport));
        }
        return all;
    }
    for scheme in &whole.settings.schemes {
        for (transport, _) in Transport::ALL {
            add(find(whole, scene, scheme.name, transport));
        }
    }
    all
}

/// Both ends of the whole, if they were played.
fn ends<'a>(whole: &Whole<'a>, scene: usize) -> Option<[&'a Played; 2]> {
    let end = |(scheme, transport): (&str, &str)| find(whole, scene, scheme, transport);
    Some([end(VR_OURS.from)?, end(VR_OURS.to)?])
}

/// GoP and viewer for whom the whole gains most; if not both its ends were played, for whom the last of
/// what is shown gains most over the first.
fn best_moment(whole: &Whole<'_>, scene: usize, shown: &[&Played]) -> Option<(usize, usize)> {
    let [from, to] = match ends(whole, scene) {
        Some(ends) => ends,
        None => [*shown.first()?, *shown.last()?],
    };
    let mut best = (f64::NEG_INFINITY, (0, 0));
    for (viewer, (before, after)) in from.outcomes.iter().zip(&to.outcomes).enumerate() {
        for (gop, (before, after)) in before.gops.iter().zip(&after.gops).enumerate() {
            let gain = after.psnr_db() - before.psnr_db();
            if gain > best.0 {
                best = (gain, (gop, viewer));
            }
        }
    }
    Some(best.1)
}
