//! What the transports carry in each second: from the simulator, from results of it or of the lab,
//! or constant.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use weftline_scenario::{
    Congestion, RunRecord, Sample, Scenario, Scheme, SeriesReader, Workload, read_runs,
};
use weftline_sim::{Job, run_all};
use weftline_vr::evaluate::{Rates, Scene, Transport, fitting_scale};

use crate::failure::Failure;
use crate::output;
use crate::vr::progress::Progress;

/// The paper's three channel conditions.
const CONDITIONS: &str = "fbdt-6c-los,fbdt-6c-nlos,fbdt-6c-mobility";

/// Options about rates.
#[derive(Debug, Args)]
pub(super) struct RateArgs {
    /// The scenarios that are simulated for the rates
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = CONDITIONS)]
    scenario: Vec<String>,
    /// Rates from a results directory, as `sim run --out` and `lab run --out` write it, or from a
    /// CSV file of your own, instead: a column of Mb/s for each path under its name, a row for each
    /// second; before them the columns condition, transport and seed, if there are several runs
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "scenario")]
    rates: Option<PathBuf>,
    /// Constant rates of the content instead
    #[arg(long, value_name = "R,…", value_delimiter = ',', conflicts_with_all = ["scenario", "rates", "rate_scale"], hide_short_help = true)]
    rates_mbps: Vec<f64>,
    /// By what rates are multiplied, or fit: for each package so that the fastest mean is to its
    /// finest encodings as 1920 to 4370, the paper's [default: fit; 1 with --rates of a file]
    #[arg(long, value_name = "FACTOR|fit", hide_short_help = true)]
    rate_scale: Option<RateScale>,
    /// How many runs of each scenario, with seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with_all = ["rates", "rates_mbps"])]
    seeds: u64,
    /// Seconds of rates before the first GoP, which a server has seen
    #[arg(
        long = "warmup",
        value_name = "SECONDS",
        alias = "warm-up",
        default_value_t = 20,
        hide_short_help = true
    )]
    pub(super) warm_up: usize,
    /// The congestion control of the runs [default: cubic]
    #[arg(long, value_name = "NAME", conflicts_with = "rates_mbps", hide_short_help = true)]
    congestion: Option<String>,
}

/// By what rates are multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RateScale {
    Factor(f64),
    /// Each package has its own, which fits its content.
    Fit,
}

impl FromStr for RateScale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "fit" {
            return Ok(Self::Fit);
        }
        let factor = text.parse().ok().filter(|scale: &f64| *scale > 0.0 && scale.is_finite());
        factor.map(Self::Factor).ok_or_else(|| "give a number above 0, or fit".to_owned())
    }
}

/// Rates, and by what they were multiplied.
pub(super) struct Scaled {
    /// Of each scene.
    pub(super) rates: Vec<Vec<Rates>>,
    /// Of each scene.
    pub(super) scales: Vec<f64>,
    pub(super) constant: bool,
}

/// Rates of one run, not scaled: per second and path, Mb/s.
struct Measured {
    condition: String,
    transport: Transport,
    seed: u64,
    mbps: Vec<Vec<f64>>,
}

impl RateArgs {
    /// The rates of all conditions for `transports`, which fit `scenes`.
    pub(super) fn measure(
        &self,
        transports: &[Transport],
        scenes: &[&Scene],
    ) -> Result<Scaled, Failure> {
        if self.warm_up == 0 || self.seeds == 0 {
            return Err(Failure::wrong_use("--warmup and --seeds: at least 1 each"));
        }
        if !self.rates_mbps.is_empty() {
            return self.constant(transports, scenes);
        }
        if self.are_given() && self.congestion.is_some() {
            return Err(Failure::wrong_use(
                "--congestion chooses among the runs of a directory; a file of rates has one set",
            ));
        }
        let measured = match &self.rates {
            Some(file) if file.is_file() => own(file, transports)?,
            Some(dir) => self.recorded(dir, transports)?,
            None => self.simulated(transports, scenes)?,
        };
        let means = measured.iter().map(|run| mean_mbps(&run.mbps));
        let fastest = means.fold(0.0, f64::max);
        // Who gives rates means them.
        let usual = if self.are_given() { RateScale::Factor(1.0) } else { RateScale::Fit };
        let fitting = |scene| match self.rate_scale.unwrap_or(usual) {
            RateScale::Factor(factor) => factor,
            RateScale::Fit => fitting_scale(scene, fastest),
        };
        let scales: Vec<f64> = scenes.iter().map(|scene| fitting(scene)).collect();
        if let Some(scale) = scales.iter().find(|scale| !(**scale > 0.0 && scale.is_finite())) {
            return Err(Failure::wrong_use(format!(
                "the rates cannot be multiplied by {scale}: are they all 0?"
            )));
        }
        let scaled = |scale: &f64| {
            let run = |run: &Measured| {
                Rates::new(&run.condition, run.transport, run.seed, &run.mbps, *scale)
            };
            measured.iter().map(run).collect::<Result<Vec<Rates>, _>>()
        };
        let rates = scales.iter().map(scaled).collect::<Result<_, _>>()?;
        Ok(Scaled { rates, scales, constant: false })
    }

    fn congestion(&self) -> &str {
        self.congestion.as_deref().unwrap_or("cubic")
    }

    /// Whether the rates are what was asked for, and not what some transport reached.
    pub(super) fn are_given(&self) -> bool {
        !self.rates_mbps.is_empty() || self.rates.as_ref().is_some_and(|path| path.is_file())
    }

    /// How many seconds the longest of the scenes needs.
    fn seconds(&self, scenes: &[&Scene]) -> usize {
        let played = scenes.iter().map(|scene| {
            scene.table.gop_duration().as_secs_f64() * scene.table.gops().len() as f64
        });
        self.warm_up + (played.fold(0.0, f64::max) - 1e-9).ceil() as usize
    }

    fn constant(&self, transports: &[Transport], scenes: &[&Scene]) -> Result<Scaled, Failure> {
        let mut rates = Vec::new();
        for &mbps in &self.rates_mbps {
            if !(mbps > 0.0 && mbps <= 1e6) {
                return Err(Failure::wrong_use(format!(
                    "--rates-mbps {mbps}: a rate is above 0 and at most 1000000"
                )));
            }
            let seconds = vec![vec![mbps]; self.seconds(scenes)];
            for &transport in transports {
                rates.push(Rates::new(&format!("{mbps}Mbps"), transport, 1, &seconds, 1.0)?);
            }
        }
        let scales = vec![1.0; scenes.len()];
        Ok(Scaled { rates: vec![rates; scenes.len()], scales, constant: true })
    }

    /// Runs the scenarios in the simulator.
    fn simulated(
        &self,
        transports: &[Transport],
        scenes: &[&Scene],
    ) -> Result<Vec<Measured>, Failure> {
        let congestion: Congestion = self.congestion().parse()?;
        let mut schemes: Vec<Scheme> = transports.iter().map(|&t| scheme_of(t)).collect();
        schemes.sort();
        schemes.dedup();
        let seconds = self.seconds(scenes);
        let mut jobs = Vec::new();
        for name in &self.scenario {
            let mut scenario = Scenario::find(name)?;
            scenario.workload = Workload::Bulk;
            scenario.duration = std::time::Duration::from_secs(seconds as u64);
            scenario.warmup = std::time::Duration::ZERO;
            for seed in 1..=self.seeds {
                jobs.extend(schemes.iter().map(|scheme| Job {
                    scenario: scenario.clone(),
                    scheme: scheme.clone(),
                    congestion,
                    seed,
                    case: BTreeMap::new(),
                    series: true,
                }));
            }
        }
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut progress = Progress::new("runs of the simulator", jobs.len() as u64, 0);
        let (mut measured, mut done, mut error) = (Vec::new(), 0, None);
        run_all(jobs.into_iter(), threads, |outcome| {
            done += 1;
            progress.set(done);
            let samples: Vec<Sample<'_>> = outcome.samples().collect();
            match measure(&outcome.record, &samples, transports) {
                Ok(runs) => measured.extend(runs),
                Err(why) => error = Some(why),
            }
            error.is_none()
        });
        match error {
            Some(error) => Err(error),
            None => Ok(measured),
        }
    }

    /// Takes what is in a results directory.
    fn recorded(&self, dir: &Path, transports: &[Transport]) -> Result<Vec<Measured>, Failure> {
        let records = read_runs(dir)?;
        let wanted = |record: &RunRecord| {
            let known = transports.iter().any(|&t| names_of(t).contains(&record.scheme.as_str()));
            known && record.congestion == self.congestion() && record.workload == "bulk"
        };
        let mut samples: BTreeMap<usize, Vec<(f64, String, f64)>> = BTreeMap::new();
        let mut reader = SeriesReader::find(dir)?;
        while let Some(row) = reader.as_mut().map_or(Ok(None), SeriesReader::next_row)? {
            let Sample { time_s, path, metric, value } = row.sample;
            if metric == GOODPUT && records.get(row.run).is_some_and(wanted) {
                samples.entry(row.run).or_default().push((time_s, path.to_owned(), value));
            }
        }
        let mut measured = Vec::new();
        for (run, rows) in &samples {
            let record = &records[*run];
            if !record.is_valid() {
                output::warn(format_args!(
                    "run {run} of {} does not count: the emulator was late",
                    dir.display()
                ));
                continue;
            }
            let sample =
                |(time_s, path, value): &'_ (f64, String, f64)| (*time_s, path.clone(), *value);
            let rows: Vec<(f64, String, f64)> = rows.iter().map(sample).collect();
            let samples: Vec<Sample<'_>> = rows
                .iter()
                .map(|(time_s, path, value)| Sample {
                    time_s: *time_s,
                    path,
                    metric: GOODPUT,
                    value: *value,
                })
                .collect();
            measured.extend(measure(record, &samples, transports)?);
        }
        for &transport in transports {
            if !measured.iter().any(|run| run.transport == transport) {
                let schemes = names_of(transport).join(" or ");
                return Err(Failure::failed(format!(
                    "{}: no run of {schemes} with {} and the workload bulk has a series; make one \
                     with weftline sim run SCENARIO --scheme fbdt,linux --out DIR",
                    dir.display(),
                    self.congestion()
                )));
            }
        }
        Ok(measured)
    }
}

/// The longest file of rates of one's own, and the most paths.
const OWN: (u64, usize) = (64 << 20, 16);
/// The most runs in a file of rates: looking for a row's run takes the longer the more there are.
const MOST_RUNS: usize = 1_000;
/// What columns before those of the paths may say of a row.
const LABELS: [&str; 3] = ["condition", "transport", "seed"];

/// The rates of a CSV file: a header with the names of the paths, and a row for each second with what
/// each carried, in Mb/s. A transport that fills in order has their sum. Without labels all rows are one
/// run, under the file's name, of every transport.
fn own(file: &Path, transports: &[Transport]) -> Result<Vec<Measured>, Failure> {
    let wrong = |why: String| Failure::failed(format!("{}: {why}", file.display()));
    let length = std::fs::metadata(file).map_err(|why| wrong(why.to_string()))?.len();
    if length > OWN.0 {
        return Err(wrong(format!(
            "{length} bytes are more than the {} of a file of rates",
            OWN.0
        )));
    }
    let text = std::fs::read_to_string(file).map_err(|why| wrong(why.to_string()))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut measured = Vec::new();
    for run in own_runs(&text).map_err(wrong)? {
        let of = |transport: &&Transport| match &run.scheme {
            Some(scheme) => names_of(**transport).contains(&scheme.as_str()),
            None => true,
        };
        measured.extend(transports.iter().filter(of).map(|&transport| {
            let mbps = match transport {
                Transport::LinuxMptcp => {
                    run.mbps.iter().map(|rates| vec![rates.iter().sum()]).collect()
                }
                Transport::Fbdt | Transport::FbdtWindows | Transport::FbdtStream => {
                    run.mbps.clone()
                }
            };
            let condition = run.condition.clone().unwrap_or_else(|| stem.clone());
            Measured { condition, transport, seed: run.seed, mbps }
        }));
    }
    match transports.iter().find(|&&t| !measured.iter().any(|run| run.transport == t)) {
        Some(transport) => Err(wrong(format!("it has no row of the transport '{transport}'"))),
        None => Ok(measured),
    }
}

/// Rows of a file of rates that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
struct OwnRun {
    condition: Option<String>,
    /// The name of the transport that carried it.
    scheme: Option<String>,
    seed: u64,
    mbps: Vec<Vec<f64>>,
}

/// The runs of a file of rates, in the order in which they first appear.
fn own_runs(text: &str) -> Result<Vec<OwnRun>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header: Vec<&str> =
        lines.next().map_or("", |(_, line)| line).split(',').map(str::trim).collect();
    let count = header.iter().take_while(|name| LABELS.contains(name)).count();
    let (labels, names) = header.split_at(count);
    let is_name =
        |name: &&str| !name.is_empty() && name.parse::<f64>().is_err() && !LABELS.contains(name);
    let twice = labels.iter().enumerate().any(|(at, label)| labels[..at].contains(label));
    if names.is_empty() || names.len() > OWN.1 || !names.iter().all(is_name) || twice {
        return Err(format!(
            "line 1: wants the names of 1 to {} paths, such as wifi,lte, and before them none or \
             some of condition,transport,seed; a row for each second with the rates in Mb/s follows",
            OWN.1
        ));
    }
    let mut runs: Vec<OwnRun> = Vec::new();
    for (index, line) in lines {
        let rate = |cell: &str| {
            let rate = cell.trim().parse().ok().filter(|rate: &f64| (0.0..=1e6).contains(rate));
            rate.ok_or_else(|| {
                format!("line {}: '{cell}' is no rate; give Mb/s, from 0 to 1000000", index + 1)
            })
        };
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let (said, rates) = cells.split_at(count.min(cells.len()));
        let rates = rates.iter().copied().map(rate).collect::<Result<Vec<f64>, String>>()?;
        if rates.len() != names.len() {
            let (got, wanted) = (rates.len(), names.len());
            return Err(format!(
                "line {}: {got} rates for {wanted} paths; give each second one for each path",
                index + 1
            ));
        }
        let mut of = OwnRun { seed: 1, ..OwnRun::default() };
        for (label, cell) in labels.iter().zip(said) {
            let wrong = |wanted| format!("line {}: '{cell}' is no {label}; {wanted}", index + 1);
            match *label {
                "condition" if cell.is_empty() => return Err(wrong("give a name")),
                "condition" => of.condition = Some((*cell).to_owned()),
                "transport" => {
                    let known = SCHEMES.iter().find(|schemes| schemes.contains(cell));
                    let name = known.and_then(|schemes| schemes.first());
                    of.scheme =
                        Some((*name.ok_or_else(|| wrong("want linux or fbdt"))?).to_owned());
                }
                _ => of.seed = cell.parse().map_err(|_| wrong("want a whole number"))?,
            }
        }
        let same = |run: &&mut OwnRun| {
            (&run.condition, &run.scheme, run.seed) == (&of.condition, &of.scheme, of.seed)
        };
        match runs.iter_mut().find(same) {
            Some(run) => run.mbps.push(rates),
            None => runs.push(OwnRun { mbps: vec![rates], ..of }),
        }
        if runs.len() > MOST_RUNS {
            return Err(format!("line {}: more than {MOST_RUNS} runs in a file", index + 1));
        }
    }
    if runs.is_empty() || runs.iter().any(|run| mean_mbps(&run.mbps) <= 0.0) {
        return Err(
            "there is no second in which anything was carried; give a row of rates for each"
                .to_owned(),
        );
    }
    Ok(runs)
}

/// The series that is taken.
const GOODPUT: &str = "goodput_mbps";

/// What carries it in the simulator.
fn scheme_of(transport: Transport) -> Scheme {
    match transport {
        Transport::LinuxMptcp => Scheme::LinuxMptcp,
        Transport::Fbdt | Transport::FbdtWindows | Transport::FbdtStream => Scheme::FBDT,
    }
}

/// The names of the schemes whose rates are those of kernel MPTCP, and of FBDT.
const SCHEMES: [&[&str]; 2] = [&["linux-mptcp", "linux"], &["fbdt"]];

/// Schemes whose rates are a transport's.
fn names_of(transport: Transport) -> &'static [&'static str] {
    let [linux, fbdt] = SCHEMES;
    match transport {
        Transport::LinuxMptcp => linux,
        Transport::Fbdt | Transport::FbdtWindows | Transport::FbdtStream => fbdt,
    }
}

/// The rates of a run for each of the transports that it stands for.
fn measure(
    record: &RunRecord,
    samples: &[Sample<'_>],
    transports: &[Transport],
) -> Result<Vec<Measured>, Failure> {
    let RunRecord { scenario, scheme, seed, .. } = record;
    if let Some(error) = &record.error {
        return Err(Failure::failed(format!("{scenario} {scheme}, seed {seed}: {error}")));
    }
    let whole: Vec<f64> = per_second(samples, "");
    let parts: Vec<Vec<f64>> =
        record.paths.iter().map(|path| per_second(samples, &path.name)).collect();
    let mut runs = Vec::new();
    for &transport in transports.iter().filter(|&&t| names_of(t).contains(&scheme.as_str())) {
        let mbps = match transport {
            Transport::LinuxMptcp => whole.iter().map(|&rate| vec![rate]).collect(),
            Transport::Fbdt | Transport::FbdtWindows | Transport::FbdtStream => {
                shares(&whole, &parts)
            }
        };
        if mbps.is_empty() || mean_mbps(&mbps) <= 0.0 {
            return Err(Failure::failed(format!(
                "{scenario} {scheme}, seed {seed}: no second of goodput in its series"
            )));
        }
        let condition = scenario.clone();
        runs.push(Measured { condition, transport, seed: *seed, mbps });
    }
    Ok(runs)
}

/// What each path brought in each second. Links count headers and what came twice; so over the
/// whole run the paths together are made to bring what was received in order.
fn shares(whole: &[f64], parts: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let seconds = parts.iter().map(Vec::len).chain([whole.len()]).min().unwrap_or(0);
    let sum = |part: &[f64]| part.iter().take(seconds).sum::<f64>();
    let links: f64 = parts.iter().map(|part| sum(part)).sum();
    let payload = sum(whole) / links.max(1e-9);
    let second = |at: usize| parts.iter().map(|part| part[at] * payload).collect();
    (0..seconds).map(second).collect()
}

/// The mean of each whole second of a path's goodput, or of the whole connection's.
fn per_second(samples: &[Sample<'_>], path: &str) -> Vec<f64> {
    let mut seconds: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
    for sample in samples.iter().filter(|s| s.path == path && s.metric == GOODPUT) {
        // A sample stands for the interval that ends at its time.
        let second = seconds.entry((sample.time_s - 1e-6).max(0.0) as u64).or_default();
        *second = (second.0 + sample.value, second.1 + 1);
    }
    // A last second with fewer samples than the rest would be no second.
    let full = seconds.values().map(|(_, count)| *count).max().unwrap_or(0);
    let whole = seconds.into_values().take_while(|(_, count)| *count == full);
    whole.map(|(sum, count)| sum / f64::from(count)).collect()
}

fn mean_mbps(mbps: &[Vec<f64>]) -> f64 {
    mbps.iter().flatten().sum::<f64>() / mbps.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use weftline_scenario::PathRecord;

    use super::*;

    fn record(scheme: &str) -> RunRecord {
        let path = |name: &str| PathRecord { name: name.to_owned(), ..PathRecord::default() };
        RunRecord {
            scenario: "calm".to_owned(),
            scheme: scheme.to_owned(),
            seed: 3,
            paths: vec![path("wifi"), path("wigig")],
            ..RunRecord::default()
        }
    }

    /// Two seconds and a half of two samples a second: 10 and 30 Mb/s on the links, 36 in order.
    fn samples() -> Vec<Sample<'static>> {
        let mut samples = Vec::new();
        for step in 1..=5 {
            let time_s = f64::from(step) * 0.5;
            let add = if step > 2 { 2.0 } else { 0.0 };
            for (path, value) in [("", 36.0), ("wifi", 10.0 + add), ("wigig", 30.0 - add)] {
                samples.push(Sample { time_s, path, metric: GOODPUT, value });
            }
            samples.push(Sample { time_s, path: "wifi", metric: "srtt_ms", value: 9.0 });
        }
        samples
    }

    #[test]
    fn in_order_transports_get_their_rate_and_fbdt_its_paths() {
        let all = [Transport::LinuxMptcp, Transport::Fbdt, Transport::FbdtStream];
        let linux = measure(&record("linux-mptcp"), &samples(), &all).unwrap();
        assert_eq!(linux.len(), 1);
        assert_eq!(linux[0].mbps, [[36.0], [36.0]]);
        let fbdt = measure(&record("fbdt"), &samples(), &all).unwrap();
        let transports: Vec<Transport> = fbdt.iter().map(|run| run.transport).collect();
        assert_eq!(transports, [Transport::Fbdt, Transport::FbdtStream]);
        // 72 Mb arrived in order of 80 on the links.
        for (second, wanted) in fbdt[0].mbps.iter().zip([[9.0, 27.0], [10.8, 25.2]]) {
            assert!(second.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{second:?}");
        }
        assert_eq!((fbdt[0].mbps.len(), fbdt[0].seed), (2, 3));
        assert!(measure(&record("min-rtt"), &samples(), &all).unwrap().is_empty());
    }

    #[test]
    fn rates_of_ones_own_are_read_and_what_is_none_is_told_by_its_line() {
        let [run] = &own_runs("\u{feff}wifi, lte\n30,12\n\n 0,7.5 \n").unwrap()[..] else {
            panic!()
        };
        assert_eq!((&run.condition, &run.scheme, run.seed), (&None, &None, 1));
        assert_eq!(run.mbps, [[30.0, 12.0], [0.0, 7.5]]);
        let text = "condition,transport,seed,wifi,lte\nwalk,fbdt,2,30,12\nwalk,linux,2,9,0\n\
                    walk,fbdt,2,3,1\nsit,linux-mptcp,1,5,5\n";
        let runs = own_runs(text).unwrap();
        let said = |run: &OwnRun| {
            let (condition, scheme) = (run.condition.clone().unwrap(), run.scheme.clone().unwrap());
            (condition, scheme, run.seed, run.mbps.len())
        };
        let run = |condition: &str, scheme: &str, seed, rows| {
            (condition.to_owned(), scheme.to_owned(), seed, rows)
        };
        let wanted = [
            run("walk", "fbdt", 2, 2),
            run("walk", "linux-mptcp", 2, 1),
            run("sit", "linux-mptcp", 1, 1),
        ];
        assert_eq!(runs.iter().map(said).collect::<Vec<_>>(), wanted);
        for (text, wanted) in [
            ("", "line 1: wants the names"),
            ("30,12\n30,12\n", "line 1: wants the names"),
            ("wifi,lte\n30\n", "line 2: 1 rates for 2 paths"),
            ("wifi\n1\nfast\n", "line 3: 'fast' is no rate"),
            ("wifi\n-1\n", "line 2: '-1' is no rate"),
            ("wifi\ninf\n", "line 2: 'inf' is no rate"),
            ("wifi\n0\n", "no second in which"),
            ("wifi\n", "no second in which"),
            ("seed\n1\n", "line 1: wants the names"),
            ("wifi,seed\n3,1\n", "line 1: wants the names"),
            ("seed,seed,wifi\n1,1,3\n", "line 1: wants the names"),
            ("seed,wifi\nx,3\n", "line 2: 'x' is no seed"),
            ("seed,wifi\n3\n", "line 2: 0 rates for 1 paths"),
            ("transport,wifi\nquic,3\n", "line 2: 'quic' is no transport; want linux or fbdt"),
            ("condition,wifi\n,3\n", "line 2: '' is no condition"),
            ("seed,wifi\n1,3\n2,0\n", "no second in which"),
        ] {
            let why = own_runs(text).unwrap_err();
            assert!(why.contains(wanted), "{text:?}: {why}");
        }
    }

    #[test]
    fn runs_that_failed_or_carried_nothing_are_told() {
        let failed = RunRecord { error: Some("no connection".to_owned()), ..record("fbdt") };
        let why = measure(&failed, &samples(), &[Transport::Fbdt]).err().unwrap().to_string();
        assert_eq!(why, "calm fbdt, seed 3: no connection");
        let why = measure(&record("fbdt"), &[], &[Transport::Fbdt]).err().unwrap().to_string();
        assert!(why.contains("no second of goodput"), "{why}");
    }
}
