//! From a world that has run to the record that both worlds write.

use weftline_scenario::{DelayMs, PathRecord, RttMs, RunRecord, SCHEMA_VERSION, VideoRecord};

use crate::SimError;
use crate::flow::{Flow, Sink};
use crate::world::{Plan, World};

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The record, without the names that the plan does not have.
    pub record: RunRecord,
    /// Events that happened.
    pub events: u64,
    /// Data packets offered to the paths.
    pub packets: u64,
}

/// Runs a plan.
///
/// # Errors
/// If its connections cannot be made.
pub fn run(plan: Plan) -> Result<Outcome, SimError> {
    let mut world = World::new(plan.clone());
    world.run()?;
    Ok(outcome(&plan, &world))
}

fn outcome(plan: &Plan, world: &World) -> Outcome {
    let flow = &world.flows[0];
    let now = world.net.now_ns();
    let began = world.epoch_ns.unwrap_or(0);
    let sink = &flow.sink;
    let sized = matches!(flow.plan.traffic, crate::Traffic::Burst(_) | crate::Traffic::Transfer(_));
    let completion_s = sink.done_ns().filter(|_| sized).map(|at| (at - began) as f64 / 1e9);
    let duration_s = plan.duration.as_secs_f64();
    let (goodput, total) = match completion_s {
        Some(time) => (mbps(sink.read(), time), mbps(sink.read(), time)),
        None => {
            let measured = (plan.duration - plan.warmup).as_secs_f64();
            (mbps(sink.measured(), measured), mbps(sink.read(), duration_s))
        }
    };
    let completed = !sized || completion_s.is_some();
    let record = RunRecord {
        schema: SCHEMA_VERSION,
        world: "sim".to_owned(),
        seed: plan.seed,
        duration_s,
        warmup_s: plan.warmup.as_secs_f64(),
        completed,
        error: (!completed).then(|| "the transfer was not finished in time".to_owned()),
        goodput_mbps: Some(goodput),
        goodput_total_mbps: Some(total),
        bytes_delivered: Some(sink.read()),
        completion_s,
        in_order_delay_ms: delays(sink),
        longest_gap_ms: Some(sink.longest_gap_ns(now) as f64 / 1e6),
        duplicate_bytes: flow.sessions().map(|[client, _]| client.duplicates),
        paths: paths(plan, world, flow),
        video: sink.player(now).map(|stats| VideoRecord {
            picture_discards: stats.picture_discards,
            buffer_underflows: stats.buffer_underflows,
            underflow_s: stats.underflow.as_secs_f64(),
            startup_s: stats.startup.map(|startup| startup.as_secs_f64()),
            pictures_played: Some(stats.played),
        }),
        digest: Some(format!("{:016x}", world.net.queue.digest())),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..RunRecord::default()
    };
    let packets = record.paths.iter().filter_map(|path| path.packets).sum();
    Outcome { record, events: world.net.queue.popped(), packets }
}

fn mbps(bytes: u64, time_s: f64) -> f64 {
    bytes as f64 * 8e-6 / time_s
}

fn delays(sink: &Sink) -> Option<DelayMs> {
    let delays = sink.delays();
    let at = |quantile| delays.value_at_quantile(quantile) as f64 / 1e3;
    (!delays.is_empty()).then(|| DelayMs {
        p50: at(0.50),
        p95: at(0.95),
        p99: at(0.99),
        max: delays.max() as f64 / 1e3,
    })
}

fn paths(plan: &Plan, world: &World, flow: &Flow) -> Vec<PathRecord> {
    let duration_s = plan.duration.as_secs_f64();
    let mut records = Vec::new();
    for (&path, [_, server]) in flow.plan.paths.iter().zip(flow.ends()) {
        let [down, _] = world.link_stats(path);
        let stats = world.net.endpoint(server).stats();
        let rtt = stats.rtt_sum_ns as f64 / 1e6 / stats.rtt_samples.max(1) as f64;
        records.push(PathRecord {
            name: plan.paths[path].name.clone(),
            goodput_mbps: Some(mbps(down.scheduled.bytes.as_u64(), duration_s)),
            bytes_sent: Some(stats.bytes),
            packets: Some(stats.segments),
            retransmitted_packets: Some(stats.resent),
            lost: Some(down.lost.packets),
            queue_drops: Some(down.queue_full.packets),
            rtt_ms: Some(RttMs { mean: rtt, p95: rtt }),
        });
    }
    records
}
