//! `weftline vr check`: the fast path of the evaluation against viewports drawn from decoded tiles.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use weftline_vr::Ffmpeg;
use weftline_vr::evaluate::{Check, CheckOptions, Drawn, check};

use super::evaluate::{load, schemes};
use super::heads::HeadArgs;
use super::progress::Progress;
use super::stop_on_signals;
use super::{check_played, check_screens, check_shown};
use crate::failure::Failure;
use crate::output;

/// The largest mean gap in dB at which the fast path may stand for the truth, and what a player says for what
/// its pages have shown.
const LIMIT_DB: f64 = 0.3;

/// How many GoPs are checked where nothing else is said.
const GOPS: usize = 3;

/// The ways to draw viewports, and what their pixels are.
const DRAWN: [(Drawn, &str); 2] = [(Drawn::Nearest, "nearest"), (Drawn::Bilinear, "mixed")];

/// Options of `vr check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Packages, as `vr package` makes them, with their sources beside them
    #[arg(required_unless_present = "shown", value_name = "PACKAGE")]
    packages: Vec<PathBuf>,
    /// Where the source is, if not beside the package (for one package)
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// How many GoPs of each, chosen at random [default: 3, and with --played all]
    #[arg(long, value_name = "N")]
    gops: Option<usize>,
    /// The tile schemes that choose the rungs
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "fix,ows")]
    scheme: Vec<String>,
    /// The rates that are planned for, as shares of what the finest rungs take
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_value = "0.1,0.4")]
    share: Vec<f64>,
    /// Width of a viewport's pixel in pixels of the frame
    #[arg(long, value_name = "PIXELS", default_value_t = 1.0)]
    pixel: f64,
    /// Compare what pages have shown, as `weftline vr play --shown` has written it, with what the player
    /// says arrived, instead
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "packages", "source", "gops", "scheme", "share", "pixel", "heads", "viewers", "fit_viewers",
    ])]
    shown: Option<PathBuf>,
    /// Compare the pictures in this directory, which a page that measures has drawn, with the same drawn
    /// here, instead (of one package)
    #[arg(long, value_name = "DIR", conflicts_with = "shown", hide_short_help = true)]
    screens: Option<PathBuf>,
    /// Draw what a player has shown, as `weftline vr play --log FILE.jsonl` has written it, and compare it
    /// with what the player said of it and what `evaluate` adds up, instead (of one package)
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = [
        "shown", "screens", "scheme", "share", "heads", "heads_format", "heads_video", "viewers", "fit_viewers", "heads_seed",
    ])]
    played: Option<PathBuf>,
    #[command(flatten)]
    heads: HeadArgs,
    /// One JSON object per GoP, scheme, rate and viewer, or per page, or per GoP that was played, on standard
    /// output and nothing else
    #[arg(long)]
    json: bool,
}

/// Checks packages.
pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    if let Some(shown) = &args.shown {
        return check_shown::run(shown, args.json, LIMIT_DB);
    }
    let options = CheckOptions {
        gops: args.gops.unwrap_or(GOPS),
        schemes: schemes(&args.scheme)?,
        shares: args.share.clone(),
        pixel: args.pixel,
        seed: 1,
    };
    if args.source.is_some() && args.packages.len() > 1 {
        return Err(Failure::wrong_use("--source is for one package; put the sources beside them"));
    }
    if let Some(share) = args.share.iter().find(|share| !(**share > 0.0 && **share <= 100.0)) {
        return Err(Failure::wrong_use(format!("--share {share}: it is above 0, like 0.4")));
    }
    let stop = stop_on_signals()?;
    let ffmpeg = Ffmpeg::find(&stop)?;
    if let Some(screens) = &args.screens {
        let [package] = &args.packages[..] else {
            return Err(Failure::wrong_use("--screens is for the one package that was played"));
        };
        return check_screens::run(screens, package, args.source.as_deref(), &ffmpeg, args.json);
    }
    if let Some(log) = &args.played {
        let [dir] = &args.packages[..] else {
            return Err(Failure::wrong_use("--played is for the one package that was played"));
        };
        let package =
            check_played::Played { dir, source: args.source.as_deref(), pixel: args.pixel };
        return check_played::run(log, &package, args.gops, &ffmpeg, args.json, LIMIT_DB);
    }
    let loaded = load(&args.packages, &args.heads)?;
    let mut progress = Progress::new("packages", loaded.packages.len() as u64, 0);
    let mut checks = Vec::new();
    for (package, (_, audience)) in loaded.packages.iter().zip(&loaded.scenes) {
        // What other bytes decode to says nothing of the package.
        package.verify()?;
        let source = package.source(&ffmpeg, args.source.as_deref())?;
        checks.push(check(&ffmpeg, package, &source, audience, &options)?);
        progress.set(checks.len() as u64);
    }
    drop(progress);
    if args.json {
        output::print(&lines(&checks)?)?;
    } else {
        output::print(&table(&checks))?;
    }
    // Each by itself: what is right in one package says nothing of another.
    let mut off = Vec::new();
    for (check, (drawn, name)) in checks.iter().flat_map(|check| DRAWN.map(|way| (check, way))) {
        let mean = check.of_mean_db(drawn)[1].max(check.mean_db(drawn)[1]);
        if mean > LIMIT_DB {
            off.push(format!("{}: {mean:.2} dB off viewports of {name} pixels", check.scene));
        }
    }
    if off.is_empty() {
        return Ok(());
    }
    let off = off.join("; ");
    Err(Failure::failed(format!("the fast path is more than {LIMIT_DB} dB off on average: {off}")))
}

fn table(checks: &[Check]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "package",
        "viewport's pixels",
        "GoPs",
        "PSNR of mean MSE: mean dB",
        "mean |dB|",
        "worst |dB|",
        "mean of PSNR: mean dB",
        "mean |dB|",
        "worst |dB|",
    ]);
    let all = Check {
        scene: "all".to_owned(),
        gaps: checks.iter().flat_map(|check| check.gaps.clone()).collect(),
    };
    for check in checks.iter().chain([&all]) {
        for (drawn, name) in DRAWN {
            let values = check.of_mean_db(drawn).into_iter().chain(check.mean_db(drawn));
            let mut row = vec![check.scene.clone(), name.to_owned(), check.gaps.len().to_string()];
            row.extend(values.map(|value| format!("{value:.3}")));
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("The fast path less the truth (drawn viewports)\n{table}\n")
}

fn lines(checks: &[Check]) -> Result<String, Failure> {
    let mut text = String::new();
    for check in checks {
        for gap in &check.gaps {
            let value = serde_json::json!({
                "video": check.scene,
                "gop": gap.gop,
                "scheme": gap.scheme,
                "share": gap.share,
                "viewer": gap.viewer,
                "fast_psnr_db": gap.of_mean_db[0][0],
                "nearest_psnr_db": gap.of_mean_db[0][1],
                "fast_mixed_psnr_db": gap.of_mean_db[1][0],
                "mixed_psnr_db": gap.of_mean_db[1][1],
                "fast_mean_psnr_db": gap.mean_db[0][0],
                "nearest_mean_psnr_db": gap.mean_db[0][1],
                "fast_mixed_mean_psnr_db": gap.mean_db[1][0],
                "mixed_mean_psnr_db": gap.mean_db[1][1],
            });
            text += &serde_json::to_string(&value).map_err(Failure::failed)?;
            text.push('\n');
        }
    }
    Ok(text)
}
