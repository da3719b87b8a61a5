//! From what a run's parts report to the record and the series that both worlds write.

use weftline_scenario::{
    DelayMs, EmulatorRecord, PathRecord, RttMs, RunRecord, SCHEMA_VERSION, Sample, Workload,
};

use crate::emulator::{PathReport, SERIES_STEP};
use crate::endpoint::{Quantiles, SocketReport};
use crate::run::{Outcome, Plan, steps};
use crate::topology::{self, End};

/// The record of a run; of one that could not even begin, without an outcome.
pub(crate) fn record(plan: &Plan<'_>, outcome: Result<&Outcome, String>) -> RunRecord {
    let scenario = plan.scenario;
    let base = RunRecord {
        schema: SCHEMA_VERSION,
        world: "lab".to_owned(),
        scenario: scenario.name.clone(),
        scheme: plan.scheme.to_string(),
        congestion: plan.congestion.to_string(),
        workload: scenario.workload.to_string(),
        seed: plan.seed,
        duration_s: scenario.duration.as_secs_f64(),
        warmup_s: scenario.warmup.as_secs_f64(),
        version: plan.version.to_owned(),
        ..RunRecord::default()
    };
    match outcome {
        Ok(outcome) => filled(plan, base, outcome),
        Err(error) => RunRecord { error: Some(error), ..base },
    }
}

fn filled(plan: &Plan<'_>, base: RunRecord, outcome: &Outcome) -> RunRecord {
    let Outcome { receiver, sender, emulator, usage, error, tls, video } = outcome;
    let (goodput, total) = goodputs(plan, outcome);
    RunRecord {
        completed: error.is_none(),
        error: error.clone(),
        tls: *tls,
        goodput_mbps: goodput,
        goodput_total_mbps: total,
        bytes_delivered: Some(receiver.bytes),
        completion_s: receiver.completion_s,
        in_order_delay_ms: receiver.delay_ms.map(delay_ms),
        longest_gap_ms: receiver.longest_gap_ms,
        duplicate_bytes: receiver.duplicate_bytes.or(sender.duplicate_bytes),
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
        ..base
    }
}

/// Goodput after the warm-up and in all, in Mb/s. A transfer's is its size over its
/// time, a played clip's too.
fn goodputs(plan: &Plan<'_>, outcome: &Outcome) -> (Option<f64>, Option<f64>) {
    let receiver = &outcome.receiver;
    let mbps = |bytes: u64, time_s: f64| bytes as f64 * 8e-6 / time_s;
    let workload = plan.scenario.workload;
    if let Workload::Transfer(_) | Workload::Burst(_) | Workload::Player(..) = workload {
        let goodput = receiver.completion_s.map(|time| mbps(receiver.bytes, time));
        return (goodput, goodput);
    }
    let (duration, warmup) = (plan.scenario.duration, plan.scenario.warmup);
    let measured = mbps(receiver.bytes_measured, (duration - warmup).as_secs_f64());
    (Some(measured), Some(mbps(receiver.bytes, duration.as_secs_f64())))
}

fn delay_ms(quantiles: Quantiles) -> DelayMs {
    let Quantiles { p50, p95, p99, max } = quantiles;
    DelayMs { p50, p95, p99, max }
}

fn path_record(plan: &Plan<'_>, index: usize, path: &PathReport, outcome: &Outcome) -> PathRecord {
    let socket = socket_on(index, outcome);
    let counters = &path.down.counters;
    PathRecord {
        name: path.name.clone(),
        goodput_mbps: Some(delivered_mbps(plan, path, outcome)),
        bytes_sent: Some(counters.offered_payload),
        packets: Some(counters.offered.packets),
        // A path on which no connection stood has nothing to send again; of a program's own
        // sockets nothing is known.
        retransmitted_packets: match plan.scenario.workload {
            Workload::Iperf3 | Workload::Player(..) => None,
            _ => Some(socket.map_or(0, |socket| socket.retransmitted)),
        },
        lost: Some(counters.lost.packets),
        queue_drops: Some(counters.queue_full.packets),
        starved_s: None,
        rtt_ms: socket.map(|socket| RttMs { mean: socket.rtt_mean_ms, p95: socket.rtt_p95_ms }),
    }
}

/// What the sender knows of its sockets on a path.
fn socket_on(index: usize, outcome: &Outcome) -> Option<&SocketReport> {
    let local = topology::address(index, End::Server);
    let own = |ip: &std::net::IpAddr| *ip == local.v4 || *ip == local.v6;
    outcome.sender.sockets.iter().find(|socket| own(&socket.local))
}

/// What the path's link delivered after the warm-up, over the time the workload took.
fn delivered_mbps(plan: &Plan<'_>, path: &PathReport, outcome: &Outcome) -> f64 {
    let from = steps(plan.scenario.warmup, SERIES_STEP);
    let time = outcome.receiver.completion_s.unwrap_or(plan.scenario.duration.as_secs_f64());
    let until = (time / SERIES_STEP.as_secs_f64()).ceil() as usize;
    let series = &path.down.series[..until.min(path.down.series.len())];
    let bytes: u64 = series.iter().skip(from).sum();
    let time = time - from as f64 * SERIES_STEP.as_secs_f64();
    bytes as f64 * 8e-6 / time.max(SERIES_STEP.as_secs_f64() / 100.0)
}

/// The run's series: goodput of the whole (path ""), what each link delivered and what it could.
pub(crate) fn samples<'a>(plan: &'a Plan<'a>, outcome: &'a Outcome) -> Vec<Sample<'a>> {
    let length = steps(plan.scenario.duration, SERIES_STEP);
    let paths = outcome.emulator.paths.iter().map(|p| (p.name.as_str(), &p.down.series));
    let measured = std::iter::once(("", &outcome.receiver.series)).chain(paths);
    let goodput = measured.flat_map(|(path, series)| {
        let row = move |(step, &bytes): (usize, &u64)| sample(step, path, "goodput_mbps", bytes);
        series.iter().take(length).enumerate().map(row)
    });
    let capacity = plan.paths().flat_map(|path| {
        let trace = path.down_trace(plan.seed, plan.scenario.duration);
        (0..length).map(move |step| {
            let from = SERIES_STEP * step as u32;
            let bytes = trace.bytes_between(from, from + SERIES_STEP).as_u64();
            sample(step, &path.name, "capacity_mbps", bytes)
        })
    });
    let windows = outcome.emulator.paths.iter().enumerate().flat_map(|(index, path)| {
        let socket = socket_on(index, outcome);
        let windows = socket.into_iter().flat_map(|socket| &socket.cwnd);
        windows.filter(move |(step, _)| *step < length).map(|&(step, cwnd)| Sample {
            time_s: (SERIES_STEP * (step as u32 + 1)).as_secs_f64(),
            path: &path.name,
            metric: "cwnd_segments",
            value: cwnd.into(),
        })
    });
    goodput.chain(capacity).chain(windows).collect()
}

/// Bytes in a step as a rate.
fn sample<'a>(step: usize, path: &'a str, metric: &'a str, bytes: u64) -> Sample<'a> {
    let time_s = (SERIES_STEP * (step as u32 + 1)).as_secs_f64();
    Sample { time_s, path, metric, value: bytes as f64 * 8e-6 / SERIES_STEP.as_secs_f64() }
}
