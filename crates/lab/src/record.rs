//! From what a run's parts report to the record and the series that both backends write.

use std::time::Duration;

use weftline_core::Instant;
use weftline_measure::{PathFigures, PathMeasurement, STEP, mbps};
use weftline_scenario::{EmulatorRecord, PathRecord, RunRecord, SCHEMA_VERSION, Sample, Workload};

use crate::emulator::PathReport;
use crate::endpoint::SocketReport;
use crate::run::{Outcome, Plan, steps};
use crate::topology::{self, End};

/// The record of a run; of one that could not even begin, without an outcome.
pub(crate) fn record(plan: &Plan<'_>, outcome: Result<&Outcome, String>) -> RunRecord {
    match outcome {
        Ok(outcome) => filled(plan, outcome),
        Err(error) => named(plan, RunRecord { error: Some(error), ..RunRecord::default() }),
    }
}

/// `record` with what was run.
pub(crate) fn named(plan: &Plan<'_>, record: RunRecord) -> RunRecord {
    let scenario = plan.scenario;
    RunRecord {
        schema: SCHEMA_VERSION,
        backend: "lab".to_owned(),
        scenario: scenario.name.clone(),
        scheme: plan.scheme.to_string(),
        congestion: plan.congestion.to_string(),
        workload: scenario.workload.to_string(),
        seed: plan.seed,
        duration_s: scenario.duration.as_secs_f64(),
        warmup_s: scenario.warmup.as_secs_f64(),
        version: plan.version.to_owned(),
        ..record
    }
}

fn filled(plan: &Plan<'_>, outcome: &Outcome) -> RunRecord {
    let Outcome { receiver, sender, emulator, usage, error, tls, video } = outcome;
    let record = RunRecord {
        completed: error.is_none(),
        error: error.clone(),
        tls: *tls,
        duplicate_bytes: receiver.duplicate_bytes.or(sender.duplicate_bytes),
        copied_bytes: sender.copied_bytes,
        cpu_seconds: Some(usage.iter().map(|usage| usage.cpu.as_secs_f64()).sum()),
        peak_memory_bytes: usage.iter().map(|usage| usage.peak_memory).max(),
        paths: emulator
            .paths
            .iter()
            .enumerate()
            .map(|(index, path)| path_record(plan, index, path, outcome))
            .collect(),
        emulator: Some(EmulatorRecord {
            late_over_1ms_share: emulator.late_share(),
            valid: emulator.valid(),
        }),
        video: *video,
        ..receiver.figures.of_run()
    };
    named(plan, record)
}

fn path_record(plan: &Plan<'_>, index: usize, path: &PathReport, outcome: &Outcome) -> PathRecord {
    let socket = socket_on(index, outcome);
    let counters = &path.down.counters;
    let figures = path_figures(plan, path, socket, outcome);
    PathRecord {
        name: path.name.clone(),
        goodput_mbps: figures.goodput_mbps,
        bytes_sent: Some(counters.offered_payload),
        packets: Some(counters.offered_data),
        // A path on which no connection stood has nothing to send again; of a program's own
        // sockets nothing is known.
        retransmitted_packets: match plan.scenario.workload {
            Workload::Iperf3 | Workload::Player(..) => None,
            _ => Some(socket.map_or(0, |socket| socket.retransmitted)),
        },
        lost: Some(counters.lost.packets),
        queue_drops: Some(counters.queue_full.packets),
        starved_s: None,
        rtt_ms: figures.rtt_ms,
    }
}

/// What the sender knows of its sockets on a path.
fn socket_on(index: usize, outcome: &Outcome) -> Option<&SocketReport> {
    let local = topology::address(index, End::Server);
    let own = |ip: &std::net::IpAddr| *ip == local.v4 || *ip == local.v6;
    outcome.sender.sockets.iter().find(|socket| own(&socket.local))
}

/// What the path's link delivered and how long its connection's round trips took.
fn path_figures(
    plan: &Plan<'_>,
    path: &PathReport,
    socket: Option<&SocketReport>,
    outcome: &Outcome,
) -> PathFigures {
    let window = plan.window(outcome.emulator.epoch.unwrap_or(Instant::ZERO));
    let completion = outcome.receiver.figures.completion_s.map(Duration::from_secs_f64);
    let end = completion.map_or(window.until, |time| window.begin + time);
    let mut measurement = PathMeasurement::new(window);
    for &(at_ns, rtt_ns) in socket.into_iter().flat_map(|socket| &socket.rtts) {
        measurement.rtt(Instant::from_nanos(at_ns), Duration::from_nanos(rtt_ns));
    }
    // The emulator counts in steps.
    let steps = (0..).map(|step| window.epoch + STEP * step).zip(&path.down.series);
    for (at, &bytes) in steps.take_while(|(at, _)| *at < end) {
        measurement.arrived(at, bytes);
    }
    measurement.figures(end)
}

/// The run's series: goodput of the whole (path ""), what each link delivered and what it could.
pub(crate) fn samples<'a>(plan: &'a Plan<'a>, outcome: &'a Outcome) -> Vec<Sample<'a>> {
    let length = steps(plan.scenario.duration, STEP);
    let paths = outcome.emulator.paths.iter().map(|p| (p.name.as_str(), &p.down.series));
    let measured = std::iter::once(("", &outcome.receiver.figures.series)).chain(paths);
    let goodput = measured.flat_map(|(path, series)| {
        let row = move |(step, &bytes): (usize, &u64)| sample(step, path, "goodput_mbps", bytes);
        series.iter().take(length).enumerate().map(row)
    });
    let capacity = plan.paths().flat_map(|path| {
        let trace = path.down_trace(plan.seed, plan.scenario.duration);
        (0..length).map(move |step| {
            let from = STEP * step as u32;
            let bytes = trace.bytes_between(from, from + STEP).as_u64();
            sample(step, &path.name, "capacity_mbps", bytes)
        })
    });
    let windows = outcome.emulator.paths.iter().enumerate().flat_map(|(index, path)| {
        let socket = socket_on(index, outcome);
        let windows = socket.into_iter().flat_map(|socket| &socket.cwnd);
        windows.filter(move |(step, _)| *step < length).map(|&(step, cwnd)| Sample {
            time_s: (STEP * (step as u32 + 1)).as_secs_f64(),
            path: &path.name,
            metric: "cwnd_segments",
            value: cwnd.into(),
        })
    });
    goodput.chain(capacity).chain(windows).collect()
}

/// Bytes in a step as a rate.
fn sample<'a>(step: usize, path: &'a str, metric: &'a str, bytes: u64) -> Sample<'a> {
    let time_s = (STEP * (step as u32 + 1)).as_secs_f64();
    Sample { time_s, path, metric, value: mbps(bytes, STEP) }
}
