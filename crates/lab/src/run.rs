//! One run: a fresh world, a sender and a receiver in it, and what they and the emulator report.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use weftline_core::scheduler::{Entry, RulesOff, SchedulerConfig};
use weftline_core::time::nanos;
use weftline_measure::Window;
use weftline_scenario::{Congestion, Scenario, Scheme, VideoRecord, Workload};

use crate::LabError;
use crate::child::{Program, StopFlag};
use crate::clock;
use crate::emulator::{Cut, EmulatorReport, Start};
use crate::endpoint::{
    Command, ENDPOINT_COMMAND, EndpointArgs, Event, ReceiverReport, Role, SenderReport, Traffic,
    Transport,
};
use crate::mptcp;
use crate::observe::{Observer, SenderSample, Watched};
use crate::progress::Progress;
use crate::sys::process::Usage;
use crate::testbed::{PathLinks, Testbed};
use crate::topology::End;

/// Where the server listens.
pub(crate) const PORT: u16 = 4443;

/// How long a program may take to start, and a connection to be set up over lossy, slow links.
pub(crate) const SETUP_LIMIT: Duration = Duration::from_secs(30);

/// From the order to go to t = 0: enough for it to reach all processes.
const LEAD: Duration = Duration::from_millis(50);

/// How long a report may take beyond the end of the workload.
const GRACE: Duration = Duration::from_secs(10);

/// How often it is said how far a run is.
const TICK: Duration = Duration::from_millis(200);

/// Smallest transfer: one block's header.
const TRANSFER_MIN: u64 = 16;

/// What one run is.
#[derive(Clone, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) scheme: &'a Scheme,
    pub(crate) congestion: Congestion,
    /// The kernel's name of that.
    pub(crate) in_kernel: &'a str,
    pub(crate) seed: u64,
    /// Whether weftline's connections are encrypted.
    pub(crate) tls: bool,
    /// Cuts of paths; those of paths this scheme does not use are left out.
    pub(crate) cuts: &'a [Cut],
    /// The program's version, for the record.
    pub(crate) version: &'a str,
    /// The program to start as endpoint.
    pub(crate) program: &'a std::path::Path,
    /// Who is told how it goes.
    pub(crate) observer: Option<&'a dyn Observer>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) receiver: ReceiverReport,
    pub(crate) sender: SenderReport,
    pub(crate) emulator: EmulatorReport,
    /// Of every program of the run, the emulator left out.
    pub(crate) usage: Vec<Usage>,
    /// Why the run failed, if it did.
    pub(crate) error: Option<String>,
    /// Whether the connections were encrypted.
    pub(crate) tls: bool,
    /// What a player's viewer saw.
    pub(crate) video: Option<VideoRecord>,
}

impl Outcome {
    /// Processor time of the run's programs and of the emulator.
    pub(crate) fn cpu(&self) -> Duration {
        self.usage.iter().map(|usage| usage.cpu).sum::<Duration>() + self.emulator.cpu
    }
}

/// Checks that the lab can run a scenario.
///
/// # Errors
/// [`LabError::Usage`] if it says something that only the simulator understands.
pub fn check_scenario(scenario: &Scenario) -> Result<(), LabError> {
    let shares = scenario.paths.iter().find(|path| path.shares.is_some());
    let own = scenario.paths.iter().find(|path| path.congestion.is_some());
    let unplugged = scenario.paths.iter().find(|path| !path.unplugged.is_empty());
    let what = match (shares, own, unplugged) {
        (Some(path), ..) => format!("path '{}' shares another path's links", path.name),
        (_, Some(path), _) => format!("path '{}' has a congestion control of its own", path.name),
        (.., Some(path)) => format!("path '{}' is unplugged at times", path.name),
        _ => match not_of_the_lab(scenario) {
            Some(what) => what.to_owned(),
            None => return Ok(()),
        },
    };
    let name = &scenario.name;
    let message =
        format!("scenario '{name}': {what}, which the lab cannot; use 'weftline sim run {name}'");
    Err(LabError::Usage(message))
}

/// What of a scenario, its paths aside, only the simulator understands.
fn not_of_the_lab(scenario: &Scenario) -> Option<&'static str> {
    let usual =
        SchedulerConfig { without: scenario.scheduler.without, ..SchedulerConfig::default() };
    let has = [
        (!scenario.flows.is_empty(), "has [[flow]] entries"),
        (scenario.gateway_aps.is_some(), "has a gateway and access points"),
        (scenario.backend.is_some(), "has a [backend]"),
        (scenario.parallel > 1, "has parallel connections"),
        (scenario.packet_bytes != 1500, "sets packet_size"),
        (scenario.sender_pacing, "sets sender_pacing"),
        (scenario.scheduler != usual, "sets copies, latency or window of [scheduler]"),
    ];
    has.into_iter().find_map(|(has, what)| has.then_some(what))
}

/// The refusal of a scheme that only the simulator has.
fn no_scheme(scheme: &Scheme) -> LabError {
    LabError::Usage(format!("the lab has no scheme '{scheme}'; use 'weftline sim run'"))
}

/// The refusal of a workload that only the simulator has.
pub(crate) fn no_workload(workload: Workload) -> LabError {
    LabError::Usage(format!("the lab has no workload '{workload}'"))
}

impl Plan<'_> {
    /// The names of the paths this scheme uses, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &weftline_scenario::PathSpec> {
        let only = self.scheme.path();
        self.scenario.paths.iter().filter(move |path| only.is_none_or(|only| only == path.name))
    }

    /// Tells who watches that it begins.
    pub(crate) fn begins(&self) {
        let Some(observer) = self.observer else { return };
        let (scheme, name) = (self.scheme.to_string(), &self.scenario.name);
        let what = format!("{scheme} over {name}, {}, seed {}", self.congestion, self.seed);
        observer.begins(&scheme, &what);
    }

    /// Tells that it has come so far.
    pub(crate) fn has_come_to(&self, elapsed: Duration, progress: &Progress) {
        progress.at(elapsed);
        if let Some(observer) = self.observer {
            observer.passes(elapsed);
        }
    }

    /// Builds the world of this run.
    pub(crate) fn testbed(&self, start: Start) -> Result<Testbed, LabError> {
        let duration = self.scenario.duration;
        let links = self.paths().map(|path| PathLinks {
            name: path.name.clone(),
            down: path.down_link(self.seed, duration),
            up: path.up_link(self.seed, duration),
        });
        let testbed = Testbed::build(links.collect(), self.in_kernel, self.seed, start)?;
        testbed.set_receive_buffer(self.scenario.receive_buffer)?;
        if matches!(self.scheme, Scheme::LinuxMptcp | Scheme::LinuxGuest(_)) {
            mptcp::configure(&testbed)?;
        }
        if let Some(scheduler) = self.scheme.guest_scheduler() {
            mptcp::set_scheduler(&testbed, scheduler)?;
        }
        let ours = |cut: &&Cut| testbed.names().contains(&cut.path);
        let cuts: Vec<Cut> = self.cuts.iter().filter(ours).cloned().collect();
        testbed.emulator.schedule(&cuts)?;
        Ok(testbed)
    }

    /// What of the run counts, if its workload begins at `epoch`.
    pub(crate) fn window(&self, epoch: weftline_core::Instant) -> Window {
        let until = epoch + self.scenario.duration;
        match self.scenario.workload {
            Workload::Transfer(_) | Workload::Burst(_) | Workload::Player(..) => {
                Window::whole(epoch, epoch, until)
            }
            _ => Window::new(epoch, epoch, until, self.scenario.warmup),
        }
    }

    /// How long after t = 0 the receiver is waited for at most, with the time of a last look.
    pub(crate) fn longest(&self) -> Duration {
        LEAD + self.scenario.duration + GRACE + TICK
    }

    fn traffic(&self) -> Result<Traffic, LabError> {
        let Scenario { duration, warmup, .. } = *self.scenario;
        let transfer = |size: weftline_core::ByteCount, warm| {
            if size.as_u64() < TRANSFER_MIN {
                let message = format!("a transfer has at least {TRANSFER_MIN} bytes, not {size}");
                return Err(LabError::Usage(message));
            }
            Ok(Traffic::Transfer { size: size.as_u64(), warm, limit: duration })
        };
        match self.scenario.offered(self.scenario.workload, self.seed) {
            Workload::Bulk => Ok(Traffic::Stream { rate_bps: None, duration, warmup }),
            Workload::Cbr(rate) => {
                Ok(Traffic::Stream { rate_bps: Some(rate.as_bps()), duration, warmup })
            }
            Workload::Transfer(size) => transfer(size, false),
            Workload::Burst(size) => transfer(size, true),
            other => Err(no_workload(other)),
        }
    }

    fn transport(&self, testbed: &Testbed) -> Result<Transport, LabError> {
        let server = testbed.address(0, End::Server, PORT);
        let weft = |scheduler: &str| {
            let names = testbed.names().iter().enumerate();
            let path =
                |(k, name): (usize, &String)| (name.clone(), testbed.address(k, End::Server, PORT));
            Ok(Transport::Weft {
                paths: names.map(path).collect(),
                scheduler: scheduler.to_owned(),
                without: rules_of(scheduler, self.scenario.scheduler.without),
                tls: self.tls,
                fingerprint: None,
            })
        };
        match self.scheme {
            Scheme::Single(_) => Ok(Transport::Tcp { server }),
            Scheme::LinuxMptcp | Scheme::LinuxGuest(_) => Ok(Transport::Mptcp { server }),
            Scheme::Weft(scheduler) => weft(scheduler),
            Scheme::WeftSingle(_) => weft("single"),
            Scheme::Cotag { .. } | Scheme::Oracle | Scheme::PacketRoundRobin => {
                Err(no_scheme(self.scheme))
            }
        }
    }

    /// Runs it with the lab's own sender and receiver.
    pub(crate) fn run_endpoints(
        &self,
        stop: &StopFlag,
        progress: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LabError> {
        let testbed = self.testbed(Start::Explicit)?;
        let mut args = EndpointArgs {
            role: Role::Sender,
            transport: self.transport(&testbed)?,
            congestion: self.in_kernel.to_owned(),
            traffic: self.traffic()?,
            seed: self.seed,
            watched: self.observer.is_some(),
        };
        let mut sender = self.endpoint(&testbed, &args, stop)?;
        let deadline = Instant::now() + SETUP_LIMIT;
        let listening = sender.next(deadline, "to listen")?;
        let Event::Listening { fingerprint: theirs } = listening else {
            return Err(sender.unexpected(&listening));
        };
        if let Transport::Weft { fingerprint, .. } = &mut args.transport {
            *fingerprint = theirs;
        }
        args.role = Role::Receiver;
        let mut receiver = self.endpoint(&testbed, &args, stop)?;
        receiver.ready(deadline)?;
        if matches!(args.traffic, Traffic::Stream { .. }) {
            sender.ready(deadline)?;
        }
        let mut outcome = self.measure(&testbed, sender, receiver, progress)?;
        outcome.tls = matches!(args.transport, Transport::Weft { tls: true, .. });
        Ok(outcome)
    }

    /// Starts the clock and collects the reports.
    fn measure(
        &self,
        testbed: &Testbed,
        mut sender: Endpoint,
        mut receiver: Endpoint,
        progress: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LabError> {
        let epoch = clock::now() + LEAD;
        testbed.emulator.start(epoch)?;
        let go = Command::Go { epoch_ns: epoch.as_nanos() };
        sender.command(go)?;
        receiver.command(go)?;
        let end = Instant::now() + LEAD + self.scenario.duration + GRACE;
        let mut watched = Watched::new(self.addresses(testbed));
        let mut seen = |sample: &SenderSample| {
            if let (Some(observer), Some(seen)) =
                (self.observer, watched.take(sample, epoch.as_nanos()))
            {
                observer.goes(seen);
            }
        };
        let (received, receiver_error) = receiver.report(end, &mut || {
            progress(clock::now().since(epoch));
            sender.samples(&mut seen)
        })?;
        let emulator = testbed.emulator.report()?;
        sender.samples(&mut seen)?;
        let (sent, sender_error) = sender.report(Instant::now() + GRACE, &mut || Ok(()))?;
        let mut outcome = Outcome {
            receiver: ReceiverReport::default(),
            sender: SenderReport::default(),
            emulator,
            usage: vec![sender.program.stop()?, receiver.program.stop()?],
            error: None,
            tls: false,
            video: None,
        };
        let mut errors = [receiver_error, sender_error].into_iter().flatten().collect::<Vec<_>>();
        if let Some(Event::Received(report)) = received {
            errors.extend(report.error.clone());
            outcome.receiver = report;
        }
        if let Some(Event::Sent(report)) = sent {
            errors.extend(report.error.clone());
            outcome.sender = report;
        }
        if errors.is_empty() && outcome.receiver.figures.bytes_delivered.unwrap_or(0) == 0 {
            errors.push("stalled: not a byte was delivered".to_owned());
        }
        outcome.error = (!errors.is_empty()).then(|| errors.join("; "));
        Ok(outcome)
    }

    /// The server's address on each path.
    fn addresses(&self, testbed: &Testbed) -> Vec<(String, IpAddr)> {
        let address = |k| testbed.address(k, End::Server, PORT).ip();
        testbed.names().iter().enumerate().map(|(k, name)| (name.clone(), address(k))).collect()
    }

    fn endpoint(
        &self,
        testbed: &Testbed,
        args: &EndpointArgs,
        stop: &StopFlag,
    ) -> Result<Endpoint, LabError> {
        let (ns, name) = match args.role {
            Role::Sender => (&testbed.server, "the sender"),
            Role::Receiver => (&testbed.client, "the receiver"),
        };
        let text = serde_json::to_string(args)
            .map_err(|error| LabError::Failed(format!("writing endpoint arguments: {error}")))?;
        let mut command = ns.command(self.program);
        command.arg(ENDPOINT_COMMAND).arg(text);
        Ok(Endpoint { name, program: Program::start(name, command, stop)?, said: None })
    }
}

/// An endpoint process.
#[derive(Debug)]
struct Endpoint {
    name: &'static str,
    program: Program,
    /// What it has said that was not asked for yet, or that it cannot go on.
    said: Option<Result<Event, LabError>>,
}

impl Endpoint {
    fn command(&mut self, command: Command) -> Result<(), LabError> {
        let nothing_to_fail = "a command is plain data";
        self.program.send(&serde_json::to_string(&command).expect(nothing_to_fail))
    }

    /// The next event by `deadline`, samples left out.
    fn event(&mut self, deadline: Instant) -> Result<Option<Event>, LabError> {
        loop {
            match self.said.take().map_or_else(|| self.hear(deadline), |said| said.map(Some))? {
                Some(Event::Sample(_)) => {}
                event => return Ok(event),
            }
        }
    }

    /// Takes the samples that are there.
    fn samples(&mut self, take: &mut dyn FnMut(&SenderSample)) -> Result<(), LabError> {
        while self.said.is_none() {
            match self.hear(Instant::now()) {
                Ok(Some(Event::Sample(sample))) => take(&sample),
                Ok(Some(event)) => self.said = Some(Ok(event)),
                Ok(None) => break,
                // Whoever asks for its report is told.
                Err(error @ LabError::Failed(_)) => self.said = Some(Err(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next event by `deadline`.
    fn hear(&mut self, deadline: Instant) -> Result<Option<Event>, LabError> {
        let Some(line) = self.program.line(deadline)? else { return Ok(None) };
        let event = serde_json::from_str(&line).map_err(|_| {
            let start: String = line.chars().take(80).collect();
            self.program.failure(&format!("said something else than an event: '{start}'"))
        })?;
        match event {
            Event::Failed { message } => Err(LabError::Failed(format!("{}: {message}", self.name))),
            event => Ok(Some(event)),
        }
    }

    /// Waits for the next event.
    fn next(&mut self, deadline: Instant, what: &str) -> Result<Event, LabError> {
        let event = self.event(deadline)?;
        event.ok_or_else(|| self.program.failure(&format!("took too long {what}")))
    }

    /// Waits until its connection stands.
    fn ready(&mut self, deadline: Instant) -> Result<(), LabError> {
        match self.next(deadline, "to connect")? {
            Event::Ready => Ok(()),
            event => Err(self.unexpected(&event)),
        }
    }

    fn unexpected(&self, event: &Event) -> LabError {
        LabError::Failed(format!("{}: unexpected {event:?}", self.name))
    }

    /// Its report; or, as text, why there is none.
    fn report(
        &mut self,
        deadline: Instant,
        tick: &mut dyn FnMut() -> Result<(), LabError>,
    ) -> Result<(Option<Event>, Option<String>), LabError> {
        loop {
            let now = Instant::now();
            match self.event(deadline.min(now + TICK)) {
                Ok(Some(event)) => return Ok((Some(event), None)),
                Ok(None) if now >= deadline => {
                    let failure = self.program.failure("gave no report in time");
                    return Ok((None, Some(failure.to_string())));
                }
                Ok(None) => tick()?,
                Err(LabError::Failed(message)) => return Ok((None, Some(message))),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Nanoseconds of `duration`, for arithmetic with steps.
pub(crate) fn steps(duration: Duration, step: Duration) -> usize {
    (nanos(duration) / nanos(step)) as usize
}

/// Of the rules that a scenario switches off those that the scheduler has: it says so for all schemes.
pub(crate) fn rules_of(scheduler: &str, off: RulesOff) -> String {
    Entry::find(scheduler).map_or(off, |entry| entry.rules_of(off)).to_string()
}
