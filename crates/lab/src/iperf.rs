//! The workload `iperf3`: the real program, unmodified, server to client. Over kernel MPTCP it runs
//! under `mptcpize`, over weftline through the daemons `weftline serve` and `weftline connect`.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weftline_scenario::Scheme;

use crate::LabError;
use crate::child::{Program, StopFlag};
use crate::clock;
use crate::emulator::{SERIES_STEP, Start};
use crate::endpoint::{ReceiverReport, SenderReport};
use crate::run::{Outcome, PORT, Plan, SETUP_LIMIT, steps};
use crate::testbed::Testbed;
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
    let mut programs = Programs { plan, testbed: &testbed, stop, running: Vec::new() };
    let to = programs.start_servers()?;
    let mut client = programs.start_client(to)?;
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
    programs.running.push(client);
    let usage = programs.running.iter_mut().map(Program::stop).collect::<Result<_, _>>()?;
    let tls = programs.tls();
    Ok(Outcome { receiver, sender, emulator, usage, error, tls })
}

/// The programs of a run, in the order in which they were started.
struct Programs<'a> {
    plan: &'a Plan<'a>,
    testbed: &'a Testbed,
    stop: &'a StopFlag,
    running: Vec<Program>,
}

impl Programs<'_> {
    /// The scheduler of the daemons, if the scheme is weftline's.
    fn scheduler(&self) -> Option<String> {
        self.plan.scheme.scheduler().map(str::to_owned)
    }

    fn tls(&self) -> bool {
        self.plan.tls && self.scheduler().is_some()
    }

    /// A command line in a namespace; under `mptcpize` for kernel MPTCP.
    fn iperf(&self, end: End) -> Command {
        let ns = self.namespace(end);
        if matches!(self.plan.scheme, Scheme::LinuxMptcp) {
            let mut command = ns.command("mptcpize");
            command.args(["run", "iperf3"]);
            return command;
        }
        ns.command("iperf3")
    }

    fn namespace(&self, end: End) -> &crate::netns::Netns {
        match end {
            End::Client => &self.testbed.client,
            End::Server => &self.testbed.server,
        }
    }

    /// Starts iperf3's server, and the daemons if need be; where the client finds it.
    fn start_servers(&mut self) -> Result<SocketAddr, LabError> {
        let mut server = self.iperf(End::Server);
        server.args(["-s", "-1", "--forceflush", "-p"]).arg(IPERF_PORT.to_string());
        self.start("iperf3 -s", server, "Server listening")?;
        match self.scheduler() {
            None => Ok(self.testbed.address(0, End::Server, IPERF_PORT)),
            Some(scheduler) => self.start_daemons(&scheduler),
        }
    }

    fn start_daemons(&mut self, scheduler: &str) -> Result<SocketAddr, LabError> {
        let local = SocketAddr::from(([127, 0, 0, 1], IPERF_PORT));
        let names = self.testbed.names();
        let address = |k| self.testbed.address(k, End::Server, PORT).to_string();
        let servers: Vec<String> = (0..names.len()).map(address).collect();
        let state_dir = tempfile::tempdir().map_err(LabError::os("making a directory"))?;
        let mut serve = self.testbed.server.command(self.plan.program);
        serve.args(["serve", "--forward", &local.to_string(), "--listen"]).args(&servers);
        match self.plan.tls {
            true => serve.arg("--state-dir").arg(state_dir.path()),
            false => serve.arg("--insecure-plaintext"),
        };
        let greeting = self.start("weftline serve", serve, "listening on")?;
        let mut connect = self.testbed.client.command(self.plan.program);
        connect.args(["connect", "--listen", &local.to_string(), "--scheduler", scheduler]);
        connect.args(["--congestion", self.plan.congestion.name(), "--server"]).args(&servers);
        connect.arg("--path").args(names.iter().map(|name| format!("{name}={name}")));
        match greeting.iter().find_map(|line| line.strip_prefix("fingerprint ")) {
            Some(fingerprint) => connect.args(["--fingerprint", fingerprint]),
            None => connect.arg("--insecure-plaintext"),
        };
        self.start("weftline connect", connect, "listening on")?;
        Ok(local)
    }

    fn start_client(&self, to: SocketAddr) -> Result<Program, LabError> {
        let mut client = self.iperf(End::Client);
        let seconds = self.plan.scenario.duration.as_secs().to_string();
        client.args(["-c", &to.ip().to_string(), "-p", &to.port().to_string()]);
        client.args(["-R", "-J", "-i", "0.1", "-t", &seconds]);
        if self.scheduler().is_none() {
            client.args(["-C", self.plan.congestion.name()]);
        }
        Program::start("iperf3 -c", client, self.stop)
    }

    /// Starts a program and waits until it says `ready`; all it said until then.
    fn start(
        &mut self,
        name: &str,
        command: Command,
        ready: &str,
    ) -> Result<Vec<String>, LabError> {
        let mut program = Program::start(name, command, self.stop)?;
        let deadline = Instant::now() + SETUP_LIMIT;
        let mut said = Vec::new();
        loop {
            let Some(line) = program.line(deadline)? else {
                return Err(program.failure("took too long to start"));
            };
            let is_ready = line.contains(ready);
            said.push(line);
            if is_ready {
                self.running.push(program);
                return Ok(said);
            }
        }
    }
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
    let length = steps(plan.scenario.duration, SERIES_STEP);
    let warmup = steps(plan.scenario.warmup, SERIES_STEP);
    let mut series = vec![0; length];
    for Interval { sum } in &report.intervals {
        // Intervals begin a little late; the last one may be a sliver beyond the end.
        let step = (sum.start / SERIES_STEP.as_secs_f64()).round() as usize;
        if let Some(value) = series.get_mut(step) {
            *value += sum.bytes;
        }
    }
    let received = report.end.sum_received.map_or(0, |amount| amount.bytes);
    let mut error = report.error;
    if error.is_none() && received == 0 {
        error = Some("stalled: not a byte was delivered".to_owned());
    }
    let receiver = ReceiverReport {
        bytes: received,
        bytes_measured: series.iter().skip(warmup).sum(),
        series,
        ..ReceiverReport::default()
    };
    let bytes = report.end.sum_sent.map_or(0, |amount| amount.bytes);
    Ok((receiver, SenderReport { bytes, ..SenderReport::default() }, error))
}
