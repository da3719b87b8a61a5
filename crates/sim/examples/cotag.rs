//! Tables of COTAG's evaluation, as the paper has its figures: a row for each case of a sweep, a
//! column for each scheme, means with 90 % confidence intervals over the seeds (COTAG Fig. 5 and 6).
//!
//! `cargo run --release -p weftline-sim --example cotag -- SWEEP… [scheme=A,B] [seeds=N]` runs sweeps,
//! by name or file. Its tables are Markdown: time for a burst in seconds or goodput in Mb/s, the
//! ratio to `musher` where that is among the schemes, the 99th percentile of packets' one-way
//! delay, and what the nodes of COTAG lost and sent beyond what was needed.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use weftline_scenario::{RunRecord, Sweep};
use weftline_sim::{Job, run_all};

/// 95 % quantiles of Student's t for 1 to 30 degrees of freedom, for two-sided intervals of 90 %.
const STUDENT_T: [f64; 30] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
    1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706,
    1.703, 1.701, 1.699, 1.697,
];

/// A mean and the half-width of its 90 % confidence interval.
fn mean_ci90(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let freedom = values.len().checked_sub(1)?;
    let Some(&t) = freedom.checked_sub(1).and_then(|at| STUDENT_T.get(at)) else {
        return Some((mean, f64::NAN));
    };
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, t * (squares / freedom as f64 / n).sqrt()))
}

/// What is asked for on the command line.
#[derive(Default)]
struct Wanted {
    sweeps: Vec<String>,
    schemes: Option<Vec<String>>,
    seeds: u64,
}

fn wanted() -> Result<Wanted, Box<dyn Error>> {
    let mut wanted = Wanted { seeds: u64::MAX, ..Wanted::default() };
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("scheme", list)) => {
                wanted.schemes = Some(list.split(',').map(str::to_owned).collect());
            }
            Some(("seeds", seeds)) => wanted.seeds = seeds.parse()?,
            _ => wanted.sweeps.push(argument),
        }
    }
    if wanted.sweeps.is_empty() {
        return Err("cotag SWEEP… [scheme=A,B] [seeds=N]".into());
    }
    Ok(wanted)
}

/// Runs of a row, by scheme.
type Row = BTreeMap<String, Vec<RunRecord>>;

/// Rows with their labels, and the schemes.
type Table = (Vec<(String, Row)>, Vec<String>);

/// Runs a sweep: its rows in the order of the file, and its schemes.
fn run(name: &str, wanted: &Wanted) -> Result<Table, Box<dyn Error>> {
    let path = Path::new(name);
    let sweep = if path.exists() { Sweep::load(path)? } else { Sweep::find(name)? };
    let cases = sweep.cases().collect::<Result<Vec<_>, _>>()?;
    let listed = |scheme: &str| {
        wanted.schemes.as_ref().is_none_or(|schemes| schemes.iter().any(|s| s == scheme))
    };
    let mut schemes = Vec::new();
    let mut jobs = Vec::new();
    for case in cases {
        let scheme = case.scheme.to_string();
        if !listed(&scheme) || case.seed > wanted.seeds {
            continue;
        }
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
        jobs.push(Job {
            scenario: case.scenario,
            scheme: case.scheme,
            congestion: case.congestion,
            seed: case.seed,
            case: case.case,
            series: false,
        });
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rows: Vec<(String, Row)> = Vec::new();
    run_all(jobs.into_iter(), threads, |outcome| {
        let record = outcome.record;
        if let Some(error) = &record.error {
            eprintln!("{}: {error}", record.case_id());
        }
        let label = label(&record);
        let at = rows.iter().position(|(name, _)| *name == label).unwrap_or_else(|| {
            rows.push((label, Row::new()));
            rows.len() - 1
        });
        rows[at].1.entry(record.scheme.clone()).or_default().push(record);
        true
    });
    Ok((rows, schemes))
}

/// What tells a row from the others.
fn label(record: &RunRecord) -> String {
    let case = record.case.iter().map(|(key, value)| format!(" {key}={value}"));
    format!("{} {}{}", record.scenario, record.congestion, case.collect::<String>())
}

fn values(runs: &[RunRecord], of: impl Fn(&RunRecord) -> Option<f64>) -> Option<(f64, f64)> {
    let values: Vec<f64> = runs.iter().filter_map(of).collect();
    mean_ci90(&values).filter(|_| values.len() == runs.len())
}

fn measure(record: &RunRecord) -> Option<f64> {
    match record.workload.starts_with("burst") {
        true => record.completion_s,
        false => record.goodput_mbps,
    }
}

fn cell(mean: Option<(f64, f64)>) -> String {
    mean.map_or("–".to_owned(), |(mean, half)| match mean.abs() {
        100.0.. => format!("{mean:.0} ± {half:.0}"),
        10.0.. => format!("{mean:.1} ± {half:.1}"),
        _ => format!("{mean:.2} ± {half:.2}"),
    })
}

/// Packets of the nodes in percent of those that came to the gateway: lost, and sent beyond the
/// first pass on the radios.
fn cotag_percent(record: &RunRecord) -> Option<(f64, f64)> {
    let cotag = record.cotag.as_ref()?;
    let sent: u64 = record.paths.iter().filter_map(|path| path.packets).sum();
    let received = cotag.received.max(1) as f64;
    let beyond = sent as f64 - cotag.delivered as f64;
    Some((100.0 * cotag.lost as f64 / received, 100.0 * beyond / received))
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted = wanted()?;
    for name in &wanted.sweeps {
        let (rows, schemes) = run(name, &wanted)?;
        println!("\n`{name}`\n\n| case | {} | p99 ms | lost, beyond % |", schemes.join(" | "));
        println!("|---|{}", "---|".repeat(schemes.len() + 2));
        for (label, row) in &rows {
            let means = schemes.iter().map(|s| row.get(s).and_then(|runs| values(runs, measure)));
            let cells: Vec<_> = means.map(cell).collect();
            let delay = |run: &RunRecord| Some(run.packet_delay_ms?.p99);
            let delays = schemes.iter().map(|s| row.get(s).and_then(|runs| values(runs, delay)));
            let delays: Vec<_> = delays
                .map(|mean| mean.map_or("–".into(), |(mean, _)| format!("{mean:.1}")))
                .collect();
            let coded = row.values().filter(|runs| runs.iter().all(|run| run.cotag.is_some()));
            let coded: Vec<_> = coded
                .map(|runs| {
                    let lost = values(runs, |run| Some(cotag_percent(run)?.0));
                    let beyond = values(runs, |run| Some(cotag_percent(run)?.1));
                    let mean = |value: Option<(f64, f64)>| value.map_or(f64::NAN, |(mean, _)| mean);
                    format!("{:.3} {:.1}", mean(lost), mean(beyond))
                })
                .collect();
            println!(
                "| {label} | {} | {} | {} |",
                cells.join(" | "),
                delays.join(" / "),
                coded.join("; ")
            );
        }
    }
    Ok(())
}
