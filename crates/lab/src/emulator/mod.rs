//! The link emulator: one thread that carries packets between TUN devices as the link model says.
//!
//! Both worlds share one model ([`weftline_link::Link`]): the simulator drives it in virtual time,
//! this emulator with the monotonic clock. Super-packets are cut into segments when they enter,
//! each with its own loss draw, queue check and serialisation time; segments that are due together
//! leave in one write. So the model stays exact per packet while the cost is per super-packet.
//!
//! What becomes of a packet, and when, is decided without descriptors and clock (`network.rs`,
//! `direction.rs`), so that tests check it in virtual time. The thread (`worker.rs`, `device.rs`)
//! reads, writes and waits.

mod cut;
mod device;
mod direction;
#[cfg(test)]
mod made;
mod network;
mod store;
mod worker;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::event::EventfdFlags;
use weftline_core::Instant;
use weftline_link::LinkConfig;

use self::cut::Switch;
pub use self::cut::{Cut, ParseCutError};
use crate::LabError;
use crate::tun::{Meter, Tun};

/// Step of the series of delivered bytes.
pub const SERIES_STEP: Duration = weftline_measure::STEP;

/// A packet later than this is late: a tenth of the shortest delay experiments are about.
const LATE: Duration = Duration::from_millis(1);

/// A run with a larger share of late packets is invalid.
const LATE_SHARE_MAX: f64 = 0.01;

/// A run in which a larger share of packets was lost by the emulator itself is invalid: one in a
/// hundred thousand is below the smallest loss rate of any scenario.
const MISHANDLED_SHARE_MAX: f64 = 1e-5;

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Server to client: the data of a download.
    Down,
    /// Client to server: its acknowledgements.
    Up,
}

/// What starts the traces and loss schedules, and the clock of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// [`Emulator::start`].
    Explicit,
    /// The first packet or super-packet of a server with at least so many bytes of payload: the
    /// data of a program we cannot ask.
    FirstData(usize),
}

/// One path of the emulator.
#[derive(Debug)]
pub struct EmulatedPath {
    /// The path's name, which names its random streams.
    pub name: String,
    /// Server to client.
    pub down: LinkConfig,
    /// Client to server.
    pub up: LinkConfig,
    /// The client's device.
    pub client: Tun,
    /// The server's device.
    pub server: Tun,
}

/// Packets and their bytes on the wire (IP header included).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.add_many(1, bytes);
    }

    fn add_many(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// What became of one direction's packets. `offered` is the sum of the others and of what is still
/// on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads from the near end's device: a super-packet counts once.
    pub reads: u64,
    /// Writes to the far end's device: segments joined again count once.
    pub writes: u64,
    /// Sent by the near end.
    pub offered: Tally,
    /// Those of `offered` that have UDP or TCP payload.
    pub offered_data: u64,
    /// UDP and TCP payload of `offered`, in bytes.
    pub offered_payload: u64,
    /// Given to the far end.
    pub delivered: Tally,
    /// UDP and TCP payload of `delivered`, in bytes.
    pub delivered_payload: u64,
    /// Lost by the loss model.
    pub lost: Tally,
    /// Dropped at the tail of the queue.
    pub queue_full: Tally,
    /// Dropped because the trace has no capacity left, ever.
    pub unserved: Tally,
    /// Dropped because the direction was cut.
    pub cut: Tally,
    /// Dropped because the emulator's memory was full; makes a run invalid.
    pub overflow: Tally,
    /// Refused by the far end's kernel (its device is down, for example).
    pub write_failed: Tally,
    /// Packets the near end's kernel dropped because the emulator did not read them in time (a
    /// super-packet counts once); not part of `offered`; makes a run invalid.
    pub unread: u64,
}

/// One direction of one path.
#[derive(Clone, Debug, Default)]
pub struct DirectionReport {
    /// What became of its packets.
    pub counters: Counters,
    /// Payload bytes delivered in each [`SERIES_STEP`] since the start.
    pub series: Vec<u64>,
}

/// One path.
#[derive(Clone, Debug)]
pub struct PathReport {
    /// Its name.
    pub name: String,
    /// Server to client.
    pub down: DirectionReport,
    /// Client to server.
    pub up: DirectionReport,
}

/// What the emulator did so far.
#[derive(Clone, Debug)]
pub struct EmulatorReport {
    /// The paths, in the order they were given.
    pub paths: Vec<PathReport>,
    /// How late packets left, in nanoseconds after their time.
    pub lateness: Histogram<u64>,
    /// When traces and schedules started, if they did.
    pub epoch: Option<Instant>,
    /// Processor time the emulator used.
    pub cpu: Duration,
    /// Memory for packets, used or spare, in bytes.
    pub memory: usize,
    /// Whether the emulator's thread has real-time priority.
    pub real_time: bool,
}

impl Counters {
    /// Packets that left the link, one way or another; the rest of `offered` is on its way.
    pub fn settled(&self) -> u64 {
        let Self { delivered, lost, queue_full, unserved, cut, overflow, write_failed, .. } = self;
        let all = [delivered, lost, queue_full, unserved, cut, overflow, write_failed];
        all.iter().map(|tally| tally.packets).sum()
    }
}

impl EmulatorReport {
    /// Share of the packets delivered that were more than 1 ms late.
    pub fn late_share(&self) -> f64 {
        let late = self.lateness.count_between(LATE.as_nanos() as u64, u64::MAX);
        late as f64 / (self.lateness.len().max(1)) as f64
    }

    /// Share of the packets lost in ways the link model knows nothing of.
    pub fn mishandled_share(&self) -> f64 {
        let all = || self.paths.iter().flat_map(|p| [&p.down.counters, &p.up.counters]);
        let bad: u64 = all().map(|c| c.overflow.packets + c.unread).sum();
        let offered: u64 = all().map(|c| c.offered.packets).sum();
        bad as f64 / offered.max(1) as f64
    }

    /// Whether a measurement over these links means what the link model says.
    pub fn valid(&self) -> bool {
        self.late_share() <= LATE_SHARE_MAX && self.mishandled_share() <= MISHANDLED_SHARE_MAX
    }
}

/// What the handle asks of the thread.
#[derive(Debug)]
enum Request {
    Start(Instant),
    Switch(Switch),
    Schedule(Vec<Switch>),
    Report(mpsc::Sender<EmulatorReport>),
    Stop,
}

/// A running emulator. Dropping it stops the thread and removes its devices.
#[derive(Debug)]
pub struct Emulator {
    requests: mpsc::Sender<Request>,
    wake: Arc<OwnedFd>,
    names: Vec<String>,
    /// Of each path the client's device, then the server's.
    meters: Vec<[Meter; 2]>,
    thread: Option<JoinHandle<()>>,
}

impl Emulator {
    /// Starts carrying packets over `paths`; every random draw comes from `seed`.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub fn spawn(paths: Vec<EmulatedPath>, seed: u64, start: Start) -> Result<Self, LabError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags).map_err(LabError::os("making an eventfd"))?;
        let wake = Arc::new(wake);
        let (requests, inbox) = mpsc::channel();
        let names = paths.iter().map(|path| path.name.clone()).collect();
        let meters = paths.iter().map(|path| [path.client.meter(), path.server.meter()]).collect();
        let worker = worker::Worker::new(paths, seed, start, inbox, Arc::clone(&wake))
            .map_err(LabError::os("watching the TUN devices"))?;
        let thread = std::thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || worker.run())
            .map_err(LabError::os("starting the emulator's thread"))?;
        Ok(Self { requests, wake, names, meters, thread: Some(thread) })
    }

    /// Starts traces and loss schedules with t = 0 at `epoch` (see [`crate::clock`]), which
    /// may lie in the future; until then the state of t = 0 holds.
    ///
    /// # Errors
    /// [`LabError::Failed`] if the emulator's thread is gone.
    pub fn start(&self, epoch: Instant) -> Result<(), LabError> {
        self.ask(Request::Start(epoch))
    }

    /// Cuts a path, or one direction of it, now (it carries nothing more and loses what is on its
    /// way), or restores it.
    ///
    /// # Errors
    /// [`LabError::Usage`] for an unknown path.
    pub fn cut(&self, path: &str, way: Option<Way>, cut: bool) -> Result<(), LabError> {
        let path = self.index(path)?;
        self.ask(Request::Switch(Switch { at: Duration::ZERO, path, way, cut }))
    }

    /// Cuts paths at times counted from the start, which must not have been yet.
    ///
    /// # Errors
    /// [`LabError::Usage`] for an unknown path.
    pub fn schedule(&self, cuts: &[Cut]) -> Result<(), LabError> {
        let mut switches = Vec::new();
        for cut in cuts {
            switches.extend(cut.switches(self.index(&cut.path)?));
        }
        switches.sort_by_key(|switch| switch.at);
        self.ask(Request::Schedule(switches))
    }

    fn index(&self, path: &str) -> Result<usize, LabError> {
        self.names.iter().position(|name| name == path).ok_or_else(|| {
            LabError::Usage(format!(
                "there is no path '{path}'; there are {}",
                self.names.join(", ")
            ))
        })
    }

    /// What the emulator did so far.
    ///
    /// # Errors
    /// [`LabError::Failed`] if the emulator's thread is gone.
    pub fn report(&self) -> Result<EmulatorReport, LabError> {
        let (answer, inbox) = mpsc::channel();
        self.ask(Request::Report(answer))?;
        let mut report = inbox.recv().map_err(|_| gone())?;
        for (path, [client, server]) in report.paths.iter_mut().zip(&self.meters) {
            let unread = |meter: &Meter| {
                meter.unread_drops().map_err(LabError::os("reading the devices' counters"))
            };
            path.up.counters.unread = unread(client)?;
            path.down.counters.unread = unread(server)?;
        }
        Ok(report)
    }

    fn ask(&self, request: Request) -> Result<(), LabError> {
        self.requests.send(request).map_err(|_| gone())?;
        rustix::io::write(&*self.wake, &1u64.to_ne_bytes())
            .map_err(LabError::os("waking the emulator"))?;
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Either may fail only because the thread is gone already.
        let _ = self.ask(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> LabError {
    LabError::Failed("the emulator's thread ended unexpectedly".to_owned())
}
