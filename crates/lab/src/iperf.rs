//! The workload `iperf3`: the real program, unmodified, server to client. Over kernel MPTCP it runs
//! under `mptcpize`, over weftline through the daemons `weftline serve` and `weftline connect`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weftline_measure::{FlowFigures, FlowMeasurement, STEP};

use crate::LabError;
use crate::child::{Program, StopFlag};
use crate::clock;
use crate::emulator::Start;
use crate::endpoint::{ReceiverReport, SenderReport};
use crate::programs::Programs;
use crate::run::{Outcome, Plan};
use crate::topology::End;

/// iperf3's own port.
const IPERF_PORT: u16 = 5201;

/// What iperf3 sends that is larger is data: its control messages are smaller, and its blocks are
/// 128 KiB.
const DATA_FROM: usize = 1024;

/// How long iperf3 may take beyond its duration: connections, results, slow links' queues.
const GRACE: Duration = Duration::from_secs(30);

/// Runs iperf3 over the plan's scheme.
pub(crate) fn run(
    plan: &Plan<'_>,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Duration),
) -> Result<Outcome, LabError> {
    if plan.scenario.duration.subsec_nanos() != 0 {
        let message = "iperf3 runs for whole seconds: give a duration like 20s";
        return Err(LabError::Usage(message.to_owned()));
    }
    let testbed = plan.testbed(Start::FirstData(DATA_FROM))?;
    let mut programs = Programs::new(plan, &testbed, stop);
    let to = start_servers(&mut programs)?;
    let mut client = start_client(&programs, to)?;
    let begun = clock::now();
    let deadline = Instant::now() + plan.scenario.duration + GRACE;
    let mut tick = || progress(clock::now().since(begun));
    let finished = client.finish(deadline, &mut tick)?;
    let emulator = testbed.emulator.report()?;
    let (receiver, sender, error) = match &finished {
        None => {
            let failure = client.failure("iperf3 did not come to its end in time").to_string();
            (ReceiverReport::default(), SenderReport::default(), Some(failure))
        }
        Some(finished) => read_report(plan, &finished.output)?,
    };
    let tls = programs.tls();
    let mut usage = programs.stop()?;
    usage.push(client.stop()?);
    Ok(Outcome { receiver, sender, emulator, usage, error, tls, video: None })
}

/// Starts iperf3's server, and the daemons if need be; where the client finds it.
fn start_servers(programs: &mut Programs<'_>) -> Result<SocketAddr, LabError> {
    let mut server = programs.command(End::Server, "iperf3");
    server.args(["-s", "-1", "--forceflush", "-p"]).arg(IPERF_PORT.to_string());
    programs.start("iperf3 -s", server, "Server listening")?;
    programs.reach(IPERF_PORT)
}

fn start_client(programs: &Programs<'_>, to: SocketAddr) -> Result<Program, LabError> {
    let mut client = programs.command(End::Client, "iperf3");
    let seconds = programs.plan.scenario.duration.as_secs().to_string();
    client.args(["-c", &to.ip().to_string(), "-p", &to.port().to_string()]);
    client.args(["-R", "-J", "-i", "0.1", "-t", &seconds]);
    if programs.scheduler().is_none() {
        client.args(["-C", programs.plan.in_kernel]);
    }
    Program::start("iperf3 -c", client, programs.stop)
}

/// What we read of iperf3's JSON report.
#[derive(Debug, Deserialize)]
struct Report {
    error: Option<String>,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: Totals,
}

#[derive(Debug, Deserialize)]
struct Interval {
    sum: Amount,
}

#[derive(Debug, Default, Deserialize)]
struct Totals {
    sum_sent: Option<Amount>,
    sum_received: Option<Amount>,
}

#[derive(Debug, Deserialize)]
struct Amount {
    start: f64,
    bytes: u64,
}

/// The application's view, as iperf3 reports it.
fn read_report(
    plan: &Plan<'_>,
    text: &str,
) -> Result<(ReceiverReport, SenderReport, Option<String>), LabError> {
    let report: Report = serde_json::from_str(text).map_err(|error| {
        LabError::Failed(format!("iperf3's report cannot be read: {error} (iperf3 3.9 or later?)"))
    })?;
    let window = plan.window(weftline_core::Instant::ZERO);
    let mut measurement = FlowMeasurement::new(window);
    for Interval { sum } in &report.intervals {
        // Intervals begin a little late; the last one may be a sliver beyond the end.
        let step = (sum.start / STEP.as_secs_f64()).round() as u32;
        measurement.released(window.epoch + STEP * step, sum.bytes);
    }
    let received = report.end.sum_received.map_or(0, |amount| amount.bytes);
    let mut error = report.error;
    if error.is_none() && received == 0 {
        error = Some("stalled: not a byte was delivered".to_owned());
    }
    // Intervals say nothing of gaps shorter than they are.
    let figures = FlowFigures { longest_gap_ms: None, ..measurement.figures(window.until) };
    let receiver = ReceiverReport { figures, ..ReceiverReport::default() };
    let bytes = report.end.sum_sent.map_or(0, |amount| amount.bytes);
    Ok((receiver, SenderReport { bytes, ..SenderReport::default() }, error))
}
