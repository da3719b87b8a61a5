//! `weftline vr evaluate`: what viewers see of packages, by transport, tile scheme and concealment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use weftline_scenario::{SCHEMA_VERSION, VrRecord};
use weftline_video::evaluate::{Concealment, SessionOutcome};
use weftline_video::ows::{Entry, SearchBudget};
use weftline_vr::evaluate::{Audience, Played, Rates, Scene, Settings, Transport, play};
use weftline_vr::package::Package;

use super::evaluate_files::{self as files, Loaded, Whole};
use super::evaluate_table as table;
use super::heads::HeadArgs;
use super::progress::SharedProgress;
use super::rates::{RateArgs, Scaled};
use super::stop_on_signals;
use crate::failure::Failure;
use crate::output;

/// Options of `vr evaluate`.
#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// Packages, as `vr package` makes them
    #[arg(required = true, value_name = "PACKAGE")]
    packages: Vec<PathBuf>,
    #[command(flatten)]
    rates: RateArgs,
    /// Transports: linux (kernel MPTCP), fbdt (as vr serve has it), fbdt-windows and fbdt-stream
    /// (the paper's) [default: linux,fbdt; of rates that are given fbdt]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    transport: Vec<String>,
    /// Tile schemes: ows, ows-order, fix, fix-margin, fix-margin-80, fix-margin-90, uniform,
    /// viewport-only, ows-paper, ows-paper-desc, oracle
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "fix,ows-order,ows,ows-paper,oracle"
    )]
    scheme: Vec<String>,
    /// What is shown in place of late tiles: grey, last-received, base-layer
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "grey,last-received,base-layer"
    )]
    concealment: Vec<String>,
    /// How viewports are drawn: mixed (each pixel from four, as graphics processors do) or nearest (a
    /// pixel is the frame's nearest one)
    #[arg(long, value_enum, default_value_t = Viewport::Mixed, hide_short_help = true)]
    viewport: Viewport,
    #[command(flatten)]
    heads: HeadArgs,
    /// Where to write results: vr.jsonl (sessions), vr.csv (GoPs), vr-moments.jsonl
    #[arg(short, long, value_name = "DIR", alias = "output")]
    out: Option<PathBuf>,
    /// Draw viewports for the report, too; wants ffmpeg and the packages' sources beside them
    #[arg(long, requires = "out", hide_short_help = true)]
    pictures: bool,
    /// One JSON object per session on standard output and nothing else
    #[arg(long)]
    json: bool,
}

/// How the pixels of a viewport come from those of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Viewport {
    Nearest,
    Mixed,
}

/// Opens packages and seats their audiences.
pub(super) fn load(dirs: &[PathBuf], heads: &HeadArgs) -> Result<Loaded, Failure> {
    let heads = heads.read()?;
    let (mut packages, mut scenes): (Vec<Package>, Vec<(Scene, Audience)>) =
        (Vec::new(), Vec::new());
    for dir in dirs {
        let dir = std::path::absolute(dir)?;
        let package = Package::open(&dir)?;
        let scene = Scene::of(&package)?;
        if scenes.iter().any(|(other, _)| other.name == scene.name) {
            let name = &scene.name;
            return Err(Failure::wrong_use(format!(
                "two packages are called '{name}', and results go by name: give one each"
            )));
        }
        let audience = heads.audience(&scene)?;
        packages.push(package);
        scenes.push((scene, audience));
    }
    Ok(Loaded { packages, scenes })
}

/// The tile schemes called so.
pub(super) fn schemes(names: &[String]) -> Result<Vec<&'static Entry>, Failure> {
    names.iter().map(|name| Entry::find(name).map_err(Failure::wrong_use)).collect()
}

/// Evaluates packages.
pub(super) fn run(args: &EvaluateArgs) -> Result<(), Failure> {
    let settings = Settings {
        schemes: schemes(&args.scheme)?,
        concealments: concealments(&args.concealment)?,
        warm_up: args.rates.warm_up,
        search_units: SearchBudget::DEFAULT_UNITS,
    };
    let stop = stop_on_signals()?;
    let transports = args.transports()?;
    // Before the long work.
    args.out.as_deref().map(files::prepare).transpose()?;
    let mut loaded = load(&args.packages, &args.heads)?;
    if args.viewport == Viewport::Mixed {
        for (scene, _) in &mut loaded.scenes {
            *scene = scene.mixed()?;
        }
    }
    let scenes: Vec<&Scene> = loaded.scenes.iter().map(|(scene, _)| scene).collect();
    let scaled = args.rates.measure(&transports, &scenes)?;
    let progress = SharedProgress::new("sessions");
    let played = play(&loaded.scenes, &scaled.rates, &settings, &stop, &|done, total| {
        progress.set(done as u64, total as u64);
    });
    drop(progress);
    let played = played?;
    let mut records = records(&loaded.scenes, &scaled, &settings, &played);
    records.iter_mut().for_each(|record| record.mixed = args.viewport == Viewport::Mixed);
    let whole = Whole {
        loaded: &loaded,
        rates: &scaled.rates,
        settings: &settings,
        played: &played,
        records: &records,
    };
    if let Some(dir) = &args.out {
        files::write(dir, &whole)?;
        let drawn = args.pictures.then_some(&stop);
        files::write_moments(dir, &whole, drawn)?;
    }
    if args.json {
        return output::print(&files::lines(&records)?);
    }
    output::print(&table::render(&records, &heading(&scaled, &loaded, args.viewport)))?;
    match &args.out {
        Some(dir) => told(dir),
        None => Ok(()),
    }
}

fn told(dir: &Path) -> Result<(), Failure> {
    output::print(&format!("\nweftline report {} draws it\n", dir.display()))
}

impl EvaluateArgs {
    fn transports(&self) -> Result<Vec<Transport>, Failure> {
        if self.transport.is_empty() {
            let given = self.rates.are_given();
            let usual = [Transport::LinuxMptcp, Transport::Fbdt];
            return Ok(usual[usize::from(given)..].to_vec());
        }
        Ok(self.transport.iter().map(|name| name.parse()).collect::<Result<_, _>>()?)
    }
}

fn concealments(names: &[String]) -> Result<Vec<Concealment>, Failure> {
    let find = |name: &String| {
        Concealment::find(name).ok_or_else(|| {
            let known = Concealment::ALL.map(|(name, _)| name).join(", ");
            Failure::wrong_use(format!("there is no concealment '{name}'; there are {known}"))
        })
    };
    names.iter().map(find).collect()
}

/// What was evaluated, in two lines.
fn heading(scaled: &Scaled, loaded: &Loaded, viewport: Viewport) -> String {
    let scenes = loaded.scenes.iter();
    let gops: Vec<usize> = scenes.clone().map(|(scene, _)| scene.table.gops().len()).collect();
    let finest = scenes.clone().map(|(scene, _)| scene.finest_mbps()).sum::<f64>();
    let viewers = scenes.map(|(_, audience)| audience.viewers.len()).max().unwrap_or(0);
    let frame = loaded
        .packages
        .first()
        .map_or(String::new(), |package| package.description().frame().to_string());
    let (least, most) = (gops.iter().min().unwrap_or(&0), gops.iter().max().unwrap_or(&0));
    let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let pixels = match viewport {
        Viewport::Nearest => "the frame's nearest pixels",
        Viewport::Mixed => "pixels mixed from four of the frame",
    };
    format!(
        "{} videos ({frame}) of {range} GoPs, {viewers} viewers each; the finest encodings take \
         {:.1} Mb/s on average\nrates are scaled by {}; viewports are of {pixels}\n",
        gops.len(),
        finest / gops.len().max(1) as f64,
        scales(&scaled.scales)
    )
}

/// The factors of all videos in words.
fn scales(scales: &[f64]) -> String {
    let least = scales.iter().copied().fold(f64::INFINITY, f64::min);
    let most = scales.iter().copied().fold(0.0, f64::max);
    match scales {
        [one, rest @ ..] if rest.iter().all(|scale| scale == one) => format!("{one:.5}"),
        _ => format!("{least:.5} to {most:.5}, for each video by its own factor"),
    }
}

/// A record for each session.
fn records(
    scenes: &[(Scene, Audience)],
    scaled: &Scaled,
    settings: &Settings,
    played: &[Played],
) -> Vec<VrRecord> {
    let mut records = Vec::new();
    for one in played {
        let (scene, audience) = &scenes[one.scene];
        let rates = &scaled.rates[one.scene][one.rates];
        for (outcome, (trace, _)) in one.outcomes.iter().zip(&audience.viewers) {
            let played = scene.table.gop_duration() * outcome.gops.len() as u32;
            let common = record(outcome, rates, settings.warm_up, played);
            records.push(VrRecord {
                video: scene.name.clone(),
                scheme: one.scheme.name.to_owned(),
                concealment: one.concealment.name().to_owned(),
                viewer: trace.viewer().to_owned(),
                rate_scale: scaled.scales[one.scene],
                // A GoP is shown when its time to be sent is over, and what is late is concealed: the picture
                // never stands still after that.
                initial_loading_delay_s: Some(scene.table.gop_duration().as_secs_f64()),
                constant: scaled.constant,
                ..common
            });
        }
    }
    records
}

fn record(outcome: &SessionOutcome, rates: &Rates, warm_up: usize, played: Duration) -> VrRecord {
    let gops = &outcome.gops;
    let count = gops.len().max(1) as f64;
    VrRecord {
        schema: SCHEMA_VERSION,
        condition: rates.condition.clone(),
        transport: rates.transport.to_string(),
        seed: rates.seed,
        rate_mbps: rates.mean_mbps(warm_up, played),
        gops: gops.len(),
        psnr_db: outcome.psnr_of_mean_db(),
        mean_psnr_db: outcome.mean_psnr_db(),
        late_tiles: outcome.mean_late(),
        dropped_tiles: gops.iter().map(|gop| gop.dropped as f64).sum::<f64>() / count,
        concealed_tiles: Some(outcome.mean_concealed()),
        sent_bytes: gops.iter().map(|gop| gop.sent.as_u64()).sum(),
        carried_bytes: gops.iter().map(|gop| gop.carried.as_u64()).sum(),
        version: crate::VERSION.to_owned(),
        ..VrRecord::default()
    }
}
