//! A series of runs: every scheme, again and again, recorded as it goes.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weftline_scenario::{
    Bundle, Comparison, Congestion, ResultsError, ResultsWriter, RunRecord, Sample, Scenario,
    Scheme, VideoRecord, Workload,
};

use crate::LabError;
use crate::child::StopFlag;
use crate::control;
use crate::emulator::Cut;
use crate::guest::{self, Guests, Series};
use crate::load::LoadMeter;
use crate::observe::Observer;
use crate::player;
use crate::privilege;
use crate::progress::Progress;
use crate::record;
use crate::run::{Outcome, Plan, check_scenario};

/// How often a run whose emulator was late is done again before it is kept, marked invalid.
const RETRIES: usize = 2;

/// What to run, and where the results go.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// The scenario; its duration, warm-up and workload are those of the runs.
    pub scenario: Scenario,
    /// The schemes to compare.
    pub schemes: Vec<Scheme>,
    /// The congestion control of every connection.
    pub congestion: Congestion,
    /// Whether weftline's connections are encrypted; those of other schemes never are.
    pub tls: bool,
    /// Seed of the first repeat; the next has the next number. Every scheme of a repeat gets the
    /// same.
    pub seed: u64,
    /// How often each scheme runs.
    pub repeat: u64,
    /// Paths, or directions of paths, that go dead during each run.
    pub cuts: Vec<Cut>,
    /// Where `runs.jsonl`, `series.csv` and the scenario are written, if anywhere.
    pub out: Option<PathBuf>,
    /// One JSON object per run on standard output, and no table.
    pub json: bool,
    /// No progress on standard error.
    pub quiet: bool,
    /// The program's version, for the records and what is kept beside them.
    pub version: String,
    /// The program started as the lab's endpoints (with
    /// [`ENDPOINT_COMMAND`](crate::ENDPOINT_COMMAND)): this very program, unless a test has
    /// another.
    pub program: PathBuf,
    /// Who is told how runs go, if anybody.
    pub observer: Option<Arc<dyn Observer>>,
}

impl LabOptions {
    /// Runs `schemes` once over `scenario`: cubic, seed 1, no files.
    ///
    /// # Errors
    /// If the path of this program cannot be found out.
    pub fn new(scenario: Scenario, schemes: Vec<Scheme>) -> Result<Self, LabError> {
        let program = std::env::current_exe().map_err(LabError::os("finding this program"))?;
        Ok(Self {
            scenario,
            schemes,
            congestion: Congestion::CUBIC,
            tls: false,
            seed: 1,
            repeat: 1,
            cuts: Vec::new(),
            out: None,
            json: false,
            quiet: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program,
            observer: None,
        })
    }

    /// The results directory, ready for these runs.
    fn writer(&self, guests: Option<&Guests>) -> Result<Option<ResultsWriter>, ResultsError> {
        let Some(out) = &self.out else { return Ok(None) };
        let mut writer = ResultsWriter::open(out)?;
        let mut bundle = Bundle::of_runs(&self.scenario, &self.version);
        if !self.cuts.is_empty() {
            // No record says that a path was cut.
            let cuts: Vec<String> = self.cuts.iter().map(Cut::to_string).collect();
            bundle = bundle.with_option("--cut", &cuts.join(" "));
        }
        if let Some(guests) = guests {
            bundle = bundle.with_guests(&guests.kernel());
        }
        writer.begin(&bundle)?;
        Ok(Some(writer))
    }
}

/// Runs every scheme `repeat` times, scheme after scheme within a repeat. Progress goes to standard
/// error, with `json` one record per run to standard output, otherwise a table at the end.
///
/// A run whose emulator was late is done again, twice at most. A scheme that fails is a result:
/// its record says why.
///
/// # Errors
/// Wrong use, what this machine cannot do, an interrupt, or results that cannot be written. Runs
/// recorded before stay recorded.
pub fn run_many(options: &LabOptions) -> Result<Vec<RunRecord>, LabError> {
    check_scenario(&options.scenario)?;
    refuse_model(&options.scenario.workload)?;
    for scheme in &options.schemes {
        check_scheme(scheme, &options.scenario, options.congestion)?;
    }
    if options.tls && options.schemes.iter().all(|scheme| scheme.scheduler().is_none()) {
        let message = "--tls encrypts weftline's connections, and none of these schemes has any; leave it \
                       out, or add fbdt";
        return Err(LabError::Usage(message.to_owned()));
    }
    for cut in &options.cuts {
        if options.scenario.path(&cut.path).is_none() {
            let known: Vec<_> = options.scenario.paths.iter().map(|path| &*path.name).collect();
            let known = known.join(", ");
            let message = format!("--cut: the scenario has no path '{}'; it has {known}", cut.path);
            return Err(LabError::Usage(message));
        }
        let duration = options.scenario.duration;
        if cut.from >= duration {
            let message = format!("--cut: {cut} begins when the run of {duration:?} is over");
            return Err(LabError::Usage(message));
        }
    }
    let guests = guest::needed(options.schemes.iter(), &options.program)?;
    // A guest's kernel is not this one: neither rights nor a congestion control are needed here.
    let only_guests = options.schemes.iter().all(|scheme| scheme.guest_scheduler().is_some());
    if !only_guests {
        privilege::ensure()?;
    }
    let provided = (!only_guests).then(|| control::provide(options.congestion)).transpose()?;
    let in_kernel = provided.as_ref().map_or(options.congestion.name(), |there| &there.kernel_name);
    let stop = StopFlag::on_signals()?;
    let mut writer = options.writer(guests.as_ref()).map_err(cannot_write)?;
    let progress = Progress::new(options.schemes.len() * options.repeat as usize, options.quiet);
    let control = play_controls(&options.scenario.workload, 1, &stop, &progress)?;
    let mut records = Vec::new();
    for repeat in 0..options.repeat {
        for scheme in &options.schemes {
            let plan = Plan {
                scenario: &options.scenario,
                scheme,
                congestion: options.congestion,
                in_kernel,
                tls: options.tls,
                seed: options.seed + repeat,
                cuts: &options.cuts,
                version: &options.version,
                program: &options.program,
                observer: options.observer.as_deref(),
            };
            let guests = guests.as_ref();
            let (mut record, done) =
                run_valid(&plan, guests, records.len(), true, &stop, &progress)?;
            plan.observer.iter().for_each(|observer| observer.ends(record.error.as_deref()));
            player::with_control(&mut record, control.as_ref());
            if let Some(writer) = &mut writer {
                writer.write_run(&record, &done.samples(&plan)).map_err(cannot_write)?;
            }
            if options.json {
                print_json(&record)?;
            }
            progress.line(&summary(&record));
            records.push(record);
        }
    }
    drop(progress);
    if let Some(writer) = writer {
        writer.finish().map_err(cannot_write)?;
    }
    if !options.json {
        let table = weftline_scenario::render_table(&Comparison::all(&records));
        ignore_closed_pipe(writeln!(io::stdout(), "{table}"))?;
    }
    Ok(records)
}

/// Refuses a scheme that cannot run, before anything is run.
pub(crate) fn check_scheme(
    scheme: &Scheme,
    scenario: &Scenario,
    congestion: Congestion,
) -> Result<(), LabError> {
    scheme.check(scenario).map_err(|error| LabError::Usage(error.to_string()))?;
    match scheme.guest_scheduler() {
        Some(_) => guest::check(scheme, scenario, congestion),
        None => control::check(congestion),
    }
}

/// Refuses the simulator's model of a player.
pub(crate) fn refuse_model(workload: &Workload) -> Result<(), LabError> {
    let Workload::Video(_) = workload else { return Ok(()) };
    let message = "the lab plays videos with real players: give --workload vlc, mpv or mpv-hls; \
                   the model of a player is in 'weftline sim run'";
    Err(LabError::Usage(message.to_owned()))
}

/// The least time between the beginnings of two players' runs. A player that starts takes as much
/// as the links carry and more of the processor than later; ten at once discard pictures for want
/// of it, where ten in turn do not.
pub(crate) const SPACING: Duration = Duration::from_secs(12);

/// How often a thread that waits looks whether it is to stop.
const TICK: Duration = Duration::from_millis(100);

/// Waits, unless it is to stop.
pub(crate) fn wait_until(start: Instant, stop: &StopFlag) -> Result<(), LabError> {
    loop {
        stop.check()?;
        let wait = start.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Ok(());
        }
        std::thread::sleep(wait.min(TICK));
    }
}

/// Where a real player plays: what it discards without any links, when it plays as often at once as
/// `jobs` runs will. The medians of all counts.
pub(crate) fn play_controls(
    workload: &Workload,
    jobs: usize,
    stop: &StopFlag,
    progress: &Progress,
) -> Result<Option<VideoRecord>, LabError> {
    let Workload::Player(program, video) = workload else { return Ok(None) };
    player::prepare(*program, video, &mut |line| progress.line(line))?;
    let began = Instant::now();
    let play = |job: usize| {
        wait_until(began + SPACING * job as u32, stop)?;
        player::control(*program, video, stop)
    };
    let controls = std::thread::scope(|scope| {
        let players: Vec<_> = (0..jobs).map(|job| scope.spawn(move || play(job))).collect();
        let join = players
            .into_iter()
            .map(|player| player.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        join.collect::<Result<Vec<VideoRecord>, LabError>>()
    })?;
    let control = medians(&controls);
    let VideoRecord { picture_discards, buffer_underflows, decoder_drops, .. } = control;
    progress.line(&format!(
        "control: {} without links, {jobs} at once, discards {picture_discards} pictures and its \
         decoder {}, {buffer_underflows} underflows",
        program.name(),
        decoder_drops.map_or("an unknown number".to_owned(), |drops| drops.to_string())
    ));
    Ok(Some(control))
}

/// Each count's median, the larger of the two in the middle.
fn medians(controls: &[VideoRecord]) -> VideoRecord {
    let median = |value: &dyn Fn(&VideoRecord) -> Option<u64>| {
        let mut values: Vec<u64> = controls.iter().filter_map(value).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    VideoRecord {
        picture_discards: median(&|control| Some(control.picture_discards)).unwrap_or(0),
        buffer_underflows: median(&|control| Some(control.buffer_underflows)).unwrap_or(0),
        decoder_drops: median(&|control| control.decoder_drops),
        ..VideoRecord::default()
    }
}

/// What there is of a run besides its record.
#[derive(Debug)]
pub(crate) enum Done {
    /// Nothing: it failed.
    Failed,
    /// It ran on this kernel.
    Here(Box<Outcome>),
    /// It ran in a guest.
    InGuest(Series),
}

impl Done {
    /// The run's series.
    pub(crate) fn samples<'a>(&'a self, plan: &'a Plan<'a>) -> Vec<Sample<'a>> {
        match self {
            Self::Failed => Vec::new(),
            Self::Here(outcome) => record::samples(plan, outcome),
            Self::InGuest(series) => series.samples().collect(),
        }
    }
}

/// Runs a plan in a guest. Its links are never late for what else the host does, so that nothing would
/// change if it ran again.
fn run_in_guest(
    plan: &Plan<'_>,
    guests: &Guests,
    stop: &StopFlag,
    progress: &Progress,
) -> Result<(RunRecord, Done), LabError> {
    match guests.run(plan, stop, &mut |elapsed| plan.has_come_to(elapsed, progress)) {
        Ok((record, series)) => Ok((record, Done::InGuest(series))),
        Err(LabError::Failed(message)) => Ok((record::record(plan, Err(message)), Done::Failed)),
        Err(error) => Err(error),
    }
}

/// Runs until the emulator was in time, [`RETRIES`] times more at most; a scheme of `guests` once, in
/// one of them. Says what other programs took of the machine if this run should be `alone`.
pub(crate) fn run_valid(
    plan: &Plan<'_>,
    guests: Option<&Guests>,
    run: usize,
    alone: bool,
    stop: &StopFlag,
    progress: &Progress,
) -> Result<(RunRecord, Done), LabError> {
    let name = format!("{} {}", plan.scenario.name, plan.scheme);
    plan.begins();
    if let Some(guests) = guests.filter(|_| plan.scheme.guest_scheduler().is_some()) {
        progress.begin(run, &name, plan.scenario.duration);
        return run_in_guest(plan, guests, stop, progress);
    }
    for attempt in 0.. {
        progress.begin(run, &name, plan.scenario.duration);
        let load = LoadMeter::start();
        let outcome = match plan.run(stop, &mut |elapsed| plan.has_come_to(elapsed, progress)) {
            Ok(outcome) => outcome,
            // The scheme, or a program of it, failed: that is a result.
            Err(LabError::Failed(message)) => {
                return Ok((record::record(plan, Err(message)), Done::Failed));
            }
            Err(error) => return Err(error),
        };
        if let Some(lost) = load.lost(outcome.cpu()).filter(|_| alone) {
            progress.line(&format!("{name}: {lost}"));
        }
        let record = record::record(plan, Ok(&outcome));
        if record.is_valid() || attempt == RETRIES {
            return Ok((record, Done::Here(Box::new(outcome))));
        }
        let share = outcome.emulator.late_share();
        progress.line(&format!(
            "{name}: the emulator was late ({:.1} % of packets by more than 1 ms); again",
            share * 100.0
        ));
        plan.observer.iter().for_each(|one| one.fails_to_count("the emulator was late"));
        plan.begins();
    }
    unreachable!("the loop ends at the last attempt")
}

/// One line on a run that is over.
pub(crate) fn summary(record: &RunRecord) -> String {
    let mut parts = Vec::new();
    match (record.goodput_mbps, record.completion_s) {
        (Some(goodput), Some(time)) => parts.push(format!("{goodput:.1} Mb/s in {time:.4} s")),
        (Some(goodput), None) => parts.push(format!("{goodput:.1} Mb/s")),
        (None, Some(time)) => parts.push(format!("{time:.4} s")),
        (None, None) => {}
    }
    if let Some(video) = &record.video {
        let VideoRecord { picture_discards, buffer_underflows, underflow_s, .. } = video;
        let decoder =
            video.decoder_drops.map_or(String::new(), |d| format!(" and {d} by the decoder"));
        let net = video.net_discards();
        let net =
            net.map_or(String::new(), |net| format!(", {net:+} against the run without links"));
        parts.push(format!(
            "{picture_discards} pictures discarded{decoder}{net}, {buffer_underflows} underflows of \
             {underflow_s:.1} s in all"
        ));
    }
    parts.extend(record.error.as_ref().map(|error| format!("failed: {error}")));
    if let Some(emulator) = record.emulator {
        parts.push(format!("late {:.2} %", emulator.late_over_1ms_share * 100.0));
        parts.extend((!emulator.valid).then(|| "invalid".to_owned()));
    }
    format!("{} (seed {}): {}", record.scheme, record.seed, parts.join(", "))
}

pub(crate) fn print_json(record: &RunRecord) -> Result<(), LabError> {
    let text = serde_json::to_string(record)
        .map_err(|error| LabError::Failed(format!("writing a record: {error}")))?;
    ignore_closed_pipe(writeln!(io::stdout(), "{text}"))
}

/// Who stops reading our output has all they want.
fn ignore_closed_pipe(written: io::Result<()>) -> Result<(), LabError> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(LabError::Os { context: "writing to standard output".to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

pub(crate) fn cannot_write(error: ResultsError) -> LabError {
    match error.is_wrong_use() {
        true => LabError::Usage(error.to_string()),
        false => LabError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_commas_between_its_parts_alone() {
        let video = VideoRecord { picture_discards: 89, ..VideoRecord::default() };
        let mut record = RunRecord { scheme: "tr-sty".to_owned(), seed: 1, ..RunRecord::default() };
        record.video = Some(video);
        let words = "tr-sty (seed 1): 89 pictures discarded, 0 underflows of 0.0 s in all";
        assert_eq!(summary(&record), words);
        (record.video, record.goodput_mbps) = (None, Some(1.25));
        (record.completion_s, record.error) = (Some(0.5), Some("it ended".to_owned()));
        assert_eq!(summary(&record), "tr-sty (seed 1): 1.2 Mb/s in 0.5000 s, failed: it ended");
    }
}
