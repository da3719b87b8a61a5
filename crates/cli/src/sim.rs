//! `weftline sim`: experiments in the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use clap::builder::UnknownArgumentValueParser;
use clap::{ArgAction, Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weftline_report::WeavePicture;
use weftline_scenario::{
    Bundle, Case, Comparison, Congestion, Merged, Part, ResultsWriter, RunRecord, Scenario, Scheme,
    Sweep, merge, read_runs, render_table,
};
use weftline_sim::{Job, Outcome, Plan, Woven, run_all, simulate_plan_unless};

use crate::daemon::parse_duration;
use crate::failure::Failure;
use crate::run_args::CommonArgs;
use crate::watch::{self, Watch, WatchArgs};
use crate::{VERSION, list, output, ray};

/// What the simulator can do.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// List the built-in scenarios and sweeps
    List,
    /// Run schemes over a scenario and compare them
    Run(Box<RunArgs>),
    /// Do every run of a sweep file, on all cores; goes on where an interrupted one stopped
    Sweep(SweepArgs),
    /// Put the parts of a sweep together that `sim sweep --part` made
    Merge(MergeArgs),
}

/// Options of `sim run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// How many runs at once [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Draw which path carried which part of the stream, of one scheme: FILE.svg, or FILE.html as on
    /// the dashboard
    #[arg(long, value_name = "FILE")]
    weave: Option<PathBuf>,
    /// From when on an SVG file shows it [default: the middle of the run]
    #[arg(long, value_name = "TIME", requires = "weave", hide_short_help = true)]
    weave_from: Option<String>,
    /// How much time an SVG file shows [default: as many rows as there is room for, none left out]
    #[arg(long, value_name = "TIME", requires = "weave", hide_short_help = true)]
    weave_for: Option<String>,
    #[command(flatten)]
    watch: WatchArgs,
    /// What only the lab has, for a hint.
    #[arg(long, hide = true, value_parser = UnknownArgumentValueParser::suggest(
        "cuts are of 'weftline lab run'; in the simulator give the path a trace that falls to 0"
    ))]
    cut: Option<String>,
    /// The same.
    #[arg(long, hide = true, action = ArgAction::SetTrue,
        value_parser = UnknownArgumentValueParser::suggest(
            "TLS is of 'weftline lab run'; it costs nothing in the simulator"
        )
    )]
    tls: Option<String>,
}

/// Options of `sim sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// A built-in sweep or a TOML file
    sweep: String,
    /// Where to write results [default: results/NAME]; runs found there are not done again, but for
    /// those that failed
    #[arg(short, long, value_name = "DIR", alias = "output")]
    out: Option<PathBuf>,
    /// Keep time series of every run in series.csv, as `series = true` in the sweep does
    #[arg(long)]
    series: bool,
    /// How many runs at once [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// One JSON object per run on standard output and nothing else
    #[arg(long)]
    json: bool,
    /// Do the I-th of N equal parts only, as one job of an array on a cluster; `sim merge` puts them
    /// together
    #[arg(long, value_name = "I/N", value_parser = read_part)]
    part: Option<Part>,
    /// Where to run: ray is a Ray cluster, by the Python package
    #[arg(long, value_name = "WHERE", conflicts_with_all = ["part", "json"])]
    on: Option<On>,
}

/// Where a sweep runs.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum On {
    /// A Ray cluster
    Ray,
}

/// Options of `sim merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The directory of the sweep, the --out of its parts
    dir: PathBuf,
}

fn read_part(text: &str) -> Result<Part, String> {
    text.parse().map_err(|error: weftline_scenario::BadPart| error.to_string())
}

impl RunArgs {
    /// Those that the lab has, too.
    pub(crate) fn common(&self) -> &CommonArgs {
        &self.common
    }
}

/// Failed runs that are named one by one.
const NAMED: usize = 20;
/// Stretches of the stream that are kept for a picture, and its rows.
const STRETCHES: usize = 1 << 20;
const ROWS: usize = 32;
/// Rows of a page, which can be looked at from near.
#[cfg(feature = "web")]
const PAGE_ROWS: usize = 1500;
/// How often progress is told where there is no terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Does what was asked of the simulator.
pub(crate) fn run(command: SimCommand) -> Result<(), Failure> {
    match command {
        SimCommand::List => output::print(&(list::scenarios(|_| true)? + "\n" + &list::sweeps()?)),
        SimCommand::Run(args) => run_schemes(&args),
        SimCommand::Sweep(args) => run_sweep(&args),
        SimCommand::Merge(args) => merge_parts(&args.dir),
    }
}

fn threads(jobs: Option<NonZero<usize>>) -> usize {
    jobs.or(available_parallelism().ok()).map_or(1, NonZero::get)
}

// ---- sim run ----

fn run_schemes(args: &RunArgs) -> Result<(), Failure> {
    let common = &args.common;
    let scenario = common.scenario()?;
    let congestion = common.congestion()?;
    let schemes = common.schemes(&scenario)?;
    for scheme in &schemes {
        // What makes no sense is said before anything runs.
        Plan::new(&scenario, scheme, congestion, common.seed).map_err(Failure::wrong_use)?;
    }
    let mut writer = common.out.as_deref().map(ResultsWriter::open).transpose()?;
    if let Some(writer) = &mut writer {
        writer.begin(&Bundle::of_runs(&scenario, VERSION))?;
    }
    if let Some(file) = &args.weave {
        return run_woven(args, file, (&scenario, &schemes, congestion), writer);
    }
    if let Some(address) = args.watch.watch {
        return run_watched(args, address, (&scenario, &schemes, congestion), writer);
    }
    let job = |seed: u64, scheme: &Scheme| Job {
        scenario: scenario.clone(),
        scheme: scheme.clone(),
        congestion,
        seed,
        case: BTreeMap::new(),
        series: common.out.is_some(),
    };
    let seeds = (0..common.repeat).map(|repeat| common.seed + repeat);
    let jobs = seeds.flat_map(|seed| schemes.iter().map(move |scheme| (seed, scheme)));
    let mut runs = Runs::new(schemes.len() * common.repeat as usize, writer, common.json);
    run_all(jobs.map(|(seed, scheme)| job(seed, scheme)), threads(args.jobs), |outcome| {
        runs.take(&outcome)
    });
    let records = runs.finish()?;
    if !common.json {
        output::print(&(render_table(&Comparison::all(&records)) + "\n"))?;
    }
    tell_failed(&records, &[])
}

/// Runs one after the other, which a browser watches.
fn run_watched(
    args: &RunArgs,
    address: SocketAddr,
    (scenario, schemes, congestion): (&Scenario, &[Scheme], Congestion),
    writer: Option<ResultsWriter>,
) -> Result<(), Failure> {
    let common = &args.common;
    let watch = Watch::open(address, "sim run", args.watch.pace, common.json)?;
    let mut runs = Runs::new(schemes.len() * common.repeat as usize, writer, common.json);
    for repeat in 0..common.repeat {
        for scheme in schemes {
            let plan = Plan::new(scenario, scheme, congestion, common.seed + repeat);
            let plan = plan.map_err(Failure::wrong_use)?;
            let plan = Plan { series: common.out.is_some(), ..plan };
            let what = (scenario, scheme, congestion);
            let outcome = watch::sim::run(&watch, args.watch.pace, plan, what)?;
            if !runs.take(&outcome) {
                return runs.finish().map(|_| ());
            }
        }
    }
    let records = runs.finish()?;
    if !common.json {
        output::print(&(render_table(&Comparison::all(&records)) + "\n"))?;
    }
    watch.linger()?;
    tell_failed(&records, &[])
}

/// One run, of which a picture is drawn.
fn run_woven(
    args: &RunArgs,
    file: &Path,
    (scenario, schemes, congestion): (&Scenario, &[Scheme], Congestion),
    writer: Option<ResultsWriter>,
) -> Result<(), Failure> {
    let common = &args.common;
    let ([scheme], 1) = (schemes, common.repeat) else {
        return Err(Failure::wrong_use(
            "--weave draws one run: give one --scheme, and no --repeat",
        ));
    };
    let is_page = is_page(file)?;
    if is_page && (args.weave_from.is_some() || args.weave_for.is_some()) {
        return Err(Failure::wrong_use(
            "--weave-from and --weave-for are for FILE.svg: a page has all of the run",
        ));
    }
    let from = match &args.weave_from {
        Some(text) => parse_duration("--weave-from", text)?,
        None => scenario.duration / 2,
    };
    let span = args.weave_for.as_deref().map(|text| parse_duration("--weave-for", text));
    let span = span.transpose()?;
    let plan = Plan::new(scenario, scheme, congestion, common.seed).map_err(Failure::wrong_use)?;
    let plan = Plan { series: common.out.is_some(), weave: Some(STRETCHES), ..plan };
    let stop = AtomicBool::new(false);
    let outcome =
        simulate_plan_unless(&stop, plan, scenario, scheme, congestion).map_err(Failure::failed)?;
    if let Some(error) = &outcome.record.error {
        return Err(Failure::failed(error));
    }
    let woven = outcome.weave.clone().unwrap_or_default();
    let title = format!("{} over {}, {congestion}", scheme, scenario.name);
    let drawn = match is_page {
        true => weave_page(&title, &woven)?,
        false => {
            let picture = WeavePicture {
                title: &title,
                paths: &woven.paths,
                record: &woven.sent,
                from: weftline_core::Instant::ZERO + from,
                span,
                rows: ROWS,
            };
            picture.draw().ok_or_else(|| {
                Failure::failed(format!(
                    "nothing to draw from {from:?} on: {scheme} sent nothing then, or it has one path \
                     only; --weave-from takes another time"
                ))
            })?
        }
    };
    std::fs::write(file, drawn)
        .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    let mut runs = Runs::new(1, writer, common.json);
    runs.take(&outcome);
    let records = runs.finish()?;
    if !common.json {
        output::print(&(render_table(&Comparison::all(&records)) + "\n"))?;
    }
    Ok(())
}

/// Whether a file is to be a page, and no picture: by its name.
fn is_page(file: &Path) -> Result<bool, Failure> {
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("html") => Ok(true),
        Some("svg") => Ok(false),
        _ => Err(Failure::wrong_use(format!(
            "--weave {}: a picture is FILE.svg, and a page FILE.html",
            file.display()
        ))),
    }
}

/// The page of a run's weave, as the dashboard draws it.
#[cfg(feature = "web")]
#[expect(clippy::unnecessary_wraps, reason = "it is refused in a program without pages")]
fn weave_page(title: &str, woven: &Woven) -> Result<String, Failure> {
    let names = (0..).zip(&woven.paths).map(|(path, name)| (path, name.as_str().into()));
    let look = weftline_web::WeaveLook {
        now: woven.end,
        since: weftline_core::Instant::ZERO,
        sent: woven.sent.clone(),
        received: woven.received.clone(),
        names: names.collect(),
    };
    Ok(weftline_web::weave_page(title, &look, PAGE_ROWS))
}

/// There is none.
#[cfg(not(feature = "web"))]
fn weave_page(_: &str, _: &Woven) -> Result<String, Failure> {
    Err(Failure::not_possible(
        "--weave: this program is built without pages; give a name that ends with .svg, or build it \
         with the feature web",
    ))
}

// ---- sim sweep ----

fn run_sweep(args: &SweepArgs) -> Result<(), Failure> {
    let sweep = Sweep::find(&args.sweep)?;
    let whole = args.out.clone().unwrap_or_else(|| Path::new("results").join(sweep.name()));
    if let Some(On::Ray) = args.on {
        return ray::sweep(&args.sweep, &whole, args.series);
    }
    let (out, range) = match args.part {
        Some(part) => (part.directory(&whole), part.range(sweep.len())),
        None => (whole, 0..sweep.len()),
    };
    let series = args.series || sweep.series();
    let (writer, done) = resume(&sweep, &out, series, range.len())?;
    let mut refused = Vec::new();
    let mut runs = Runs::new(range.len().saturating_sub(done.len()), Some(writer), args.json);
    // Each scenario is built when its run begins: all of them together may not fit in memory.
    let jobs = sweep.cases_in(range).filter_map(|case| match case {
        Ok(case) => (!done.contains(&case.id())).then(|| job(case, series)),
        Err(error) => {
            refused.push(error.to_string());
            None
        }
    });
    run_all(jobs, threads(args.jobs), |outcome| runs.take(&outcome));
    let took = runs.began.elapsed().as_secs_f64();
    let fresh = runs.finish()?;
    if !args.json {
        let line = format!("{}: {} runs in {took:.1} s\n", out.display(), fresh.len());
        output::print(&line)?;
    }
    tell_failed(&read_runs(&out)?, &refused)
}

/// Opens the results of a sweep, and finds out which of its runs need not be done again.
fn resume(
    sweep: &Sweep,
    out: &Path,
    series: bool,
    runs: usize,
) -> Result<(ResultsWriter, BTreeSet<String>), Failure> {
    let mut writer = ResultsWriter::open(out)?;
    let kept = if series { "yes" } else { "no" };
    writer.begin(&Bundle::of_sweep(sweep, "sim", VERSION).with_option("--series", kept))?;
    let done = writer.done()?;
    let again = read_runs(out)?.len() - done.len();
    if done.len() + again > 0 {
        let (out, done) = (out.display(), done.len());
        output::note(format_args!("{out}: {done} of {runs} runs are there already"));
    }
    if again > 0 {
        let out = out.display();
        output::note(format_args!("{out}: {again} more failed or are invalid and are done again"));
    }
    Ok((writer, done))
}

/// Puts the parts of a sweep together.
fn merge_parts(dir: &Path) -> Result<(), Failure> {
    let Merged { runs, of, next, refused } = merge(dir, VERSION)?;
    let at = dir.display();
    if let Some(part) = next {
        return Err(Failure::failed(format_args!(
            "{at}: {runs} of {of} runs; part {part} of {at} has not made all of its own; run \
             `weftline sim sweep FILE --out {at} --part {part}`, and merge again"
        )));
    }
    output::print(&format!("{at}: {runs} of {of} runs\n"))?;
    tell_failed(&read_runs(dir)?, &refused)
}

fn job(case: Case, series: bool) -> Job {
    let Case { scenario, scheme, congestion, seed, case, .. } = case;
    Job { scenario, scheme, congestion, seed, case, series }
}

// ---- both ----

/// The runs as they come in.
struct Runs {
    began: Instant,
    told: Instant,
    total: usize,
    writer: Option<ResultsWriter>,
    json: bool,
    bar: Option<ProgressBar>,
    records: Vec<RunRecord>,
    error: Option<Failure>,
}

impl Runs {
    fn new(total: usize, writer: Option<ResultsWriter>, json: bool) -> Self {
        let is_shown = std::io::stderr().is_terminal() && !output::is_quiet();
        let bar = is_shown.then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(total as u64), target);
            let style = "{wide_bar} {pos}/{len} runs, {eta} left";
            bar.with_style(ProgressStyle::with_template(style).expect("it is well formed"))
        });
        let now = Instant::now();
        let records = Vec::new();
        Self { began: now, told: now, total, writer, json, bar, records, error: None }
    }

    /// Takes a run that is over. Returns whether to go on.
    fn take(&mut self, outcome: &Outcome) -> bool {
        let record = RunRecord { version: VERSION.to_owned(), ..outcome.record.clone() };
        if let Err(error) = self.keep(record, outcome) {
            self.error = Some(error);
            return false;
        }
        self.tell();
        true
    }

    fn keep(&mut self, record: RunRecord, outcome: &Outcome) -> Result<(), Failure> {
        if let Some(writer) = &mut self.writer {
            let samples: Vec<_> = outcome.samples().collect();
            writer.write_run(&record, &samples)?;
        }
        if self.json {
            let line = serde_json::to_string(&record).map_err(Failure::failed)?;
            output::print(&(line + "\n"))?;
        }
        self.records.push(record);
        Ok(())
    }

    fn tell(&mut self) {
        let done = self.records.len();
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
        } else if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let left =
                self.began.elapsed().as_secs_f64() / done as f64 * (self.total - done) as f64;
            output::note(format_args!("{done}/{} runs, {left:.0} s left", self.total));
        }
    }

    fn finish(self) -> Result<Vec<RunRecord>, Failure> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        if let Some(writer) = self.writer {
            writer.finish()?;
        }
        Ok(self.records)
    }
}

/// Names the runs that failed and the cases that could not be built; any is a failure.
fn tell_failed(records: &[RunRecord], refused: &[String]) -> Result<(), Failure> {
    let failed: Vec<_> = records.iter().filter(|record| record.error.is_some()).collect();
    for record in failed.iter().take(NAMED) {
        let error = record.error.as_deref().unwrap_or_default();
        eprintln!("weftline: {}: {error}", record.case_id());
    }
    refused.iter().take(NAMED).for_each(|error| eprintln!("weftline: {error}"));
    match failed.len() + refused.len() {
        0 => Ok(()),
        n => Err(Failure::failed(format!("{n} of {} runs failed", records.len() + refused.len()))),
    }
}
