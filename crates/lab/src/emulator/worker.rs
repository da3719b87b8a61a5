//! The emulator's thread: reads, writes, waits.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::event::epoll;
use weftline_core::Instant;
use weftline_link::Link;

use super::cut::Switch;
use super::direction::{Direction, Ingress};
use super::{DirectionReport, EmulatedPath, EmulatorReport, PathReport, Request, Start, Way};
use crate::clock::{self, timespec};
use crate::sys::process;
use crate::topology::PATHS_MAX;
use crate::tun::Tun;

/// Most packets read from one device before the others have their turn.
const READS_PER_DEVICE: usize = 8;

/// Most rounds over the devices before due packets are written again.
const ROUNDS: usize = 8;

/// The event data of the handle's wake-up; the devices have their own index.
const WAKE: u64 = u64::MAX;

/// Priority among real-time threads: below the kernel's own (50 and up).
const PRIORITY: i32 = 10;

/// One path and its two directions.
#[derive(Debug)]
struct Lane {
    name: String,
    client: Tun,
    server: Tun,
    down: Direction,
    up: Direction,
}

/// The thread's whole state.
pub(super) struct Worker {
    lanes: Vec<Lane>,
    start: Start,
    quantum: Duration,
    inbox: Receiver<Request>,
    wake: Arc<OwnedFd>,
    /// All devices and the wake-up.
    readable: OwnedFd,
    lateness: Histogram<u64>,
    epoch: Option<Instant>,
    /// Cuts to come, counted from the epoch, the next one first.
    switches: VecDeque<Switch>,
    real_time: bool,
}

impl Worker {
    pub(super) fn new(
        paths: Vec<EmulatedPath>,
        seed: u64,
        start: Start,
        quantum: Duration,
        inbox: Receiver<Request>,
        wake: Arc<OwnedFd>,
    ) -> io::Result<Self> {
        let readable = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd: BorrowedFd<'_>, data| {
            epoll::add(&readable, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN)
        };
        let devices = paths.iter().flat_map(|path| [&path.client, &path.server]);
        for (index, device) in devices.enumerate() {
            watch(device.as_fd(), index as u64)?;
        }
        watch(wake.as_fd(), WAKE)?;
        let lane = |path: EmulatedPath| Lane {
            down: Direction::new(Link::new(path.down, seed, &format!("{}/down", path.name))),
            up: Direction::new(Link::new(path.up, seed, &format!("{}/up", path.name))),
            name: path.name,
            client: path.client,
            server: path.server,
        };
        Ok(Self {
            lanes: paths.into_iter().map(lane).collect(),
            start,
            quantum,
            inbox,
            wake,
            readable,
            // 1 ns to 100 s in steps of at most 1 %.
            lateness: Histogram::new_with_bounds(1, 100_000_000_000, 2)
                .expect("the bounds are in order and the precision is at most 5"),
            epoch: None,
            switches: VecDeque::new(),
            real_time: false,
        })
    }

    /// Carries packets until told to stop or the handle is gone.
    pub(super) fn run(mut self) {
        // Without real-time priority the emulator still works, and the lateness tells how well.
        self.real_time = process::set_fifo(PRIORITY).is_ok();
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            tracing::debug!(%error, "timer slack left as it is");
        }
        while self.serve_requests() {
            let now = clock::now();
            while self.next_switch().is_some_and(|at| at <= now) {
                let switch = self.switches.pop_front();
                switch.into_iter().for_each(|switch| self.switch(switch));
            }
            for lane in &mut self.lanes {
                lane.down.egress(lane.client.as_fd(), now, &mut self.lateness);
                lane.up.egress(lane.server.as_fd(), now, &mut self.lateness);
            }
            self.read_all();
            self.wait(now);
        }
    }

    /// Reads the devices in turn until all are empty, or it is time to write again.
    fn read_all(&mut self) {
        for _ in 0..ROUNDS {
            let mut any = false;
            for k in 0..self.lanes.len() {
                let lane = &mut self.lanes[k];
                any |= drain(&lane.client, &mut lane.up).is_some();
                let data = drain(&lane.server, &mut lane.down);
                any |= data.is_some();
                if let (Start::FirstData(least), None) = (self.start, self.epoch)
                    && data.is_some_and(|payload| payload >= least)
                {
                    self.begin(clock::now());
                }
            }
            if !any {
                break;
            }
        }
    }

    fn begin(&mut self, epoch: Instant) {
        self.epoch = Some(epoch);
        for lane in &mut self.lanes {
            lane.down.start(epoch);
            lane.up.start(epoch);
        }
    }

    /// When the next scheduled cut or restoration is due.
    fn next_switch(&self) -> Option<Instant> {
        Some(self.epoch? + self.switches.front()?.at)
    }

    fn switch(&mut self, Switch { path, way, cut, .. }: Switch) {
        let lane = &mut self.lanes[path];
        if way != Some(Way::Up) {
            lane.down.cut = cut;
        }
        if way != Some(Way::Down) {
            lane.up.cut = cut;
        }
    }

    /// Waits for the next due packet, the next quantum, a readable device or a request.
    fn wait(&mut self, turn_start: Instant) {
        let directions = self.lanes.iter().flat_map(|lane| [&lane.down, &lane.up]);
        let due = directions.filter_map(Direction::next_due).min();
        let now = clock::now();
        if due.is_some() && !self.quantum.is_zero() {
            return sleep(self.quantum.saturating_sub(now.since(turn_start)));
        }
        match due.into_iter().chain(self.next_switch()).min() {
            None => self.poll(None),
            Some(at) if at > now => self.poll(Some(at.since(now))),
            Some(_) => {}
        }
    }

    /// Waits for a readable device or a request, for at most `timeout`.
    fn poll(&mut self, timeout: Option<Duration>) {
        let timeout = timeout.map(timespec);
        let mut room = [const { MaybeUninit::uninit() }; 2 * PATHS_MAX + 1];
        let Ok((events, _)) = epoll::wait(&self.readable, &mut room, timeout.as_ref()) else {
            return; // a signal: it only wakes us early
        };
        if events.iter().any(|event| event.data.u64() == WAKE) {
            let mut count = [0; 8];
            // How often we were woken does not matter.
            let _ = rustix::io::read(&*self.wake, &mut count);
        }
    }

    /// Answers what the handle asked; false when it is time to end.
    fn serve_requests(&mut self) -> bool {
        use std::sync::mpsc::TryRecvError;
        loop {
            match self.inbox.try_recv() {
                Ok(Request::Start(epoch)) => self.begin(epoch),
                Ok(Request::Switch(switch)) => self.switch(switch),
                Ok(Request::Schedule(switches)) => self.switches = switches.into(),
                Ok(Request::Report(answer)) => {
                    // The asker may have gone; that is its business.
                    let _ = answer.send(self.report());
                }
                Err(TryRecvError::Empty) => break,
                Ok(Request::Stop) | Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn report(&self) -> EmulatorReport {
        let memory = |lane: &Lane| lane.down.memory() + lane.up.memory();
        EmulatorReport {
            paths: self.lanes.iter().map(Lane::report).collect(),
            lateness: self.lateness.clone(),
            epoch: self.epoch,
            cpu: process::thread_cpu(),
            memory: self.lanes.iter().map(memory).sum(),
            real_time: self.real_time,
        }
    }
}

impl Lane {
    fn report(&self) -> PathReport {
        let report = |direction: &Direction| DirectionReport {
            counters: direction.counters,
            series: direction.series.clone(),
        };
        PathReport { name: self.name.clone(), down: report(&self.down), up: report(&self.up) }
    }
}

/// Reads up to [`READS_PER_DEVICE`] packets; the largest payload of a packet, `None` if none came.
fn drain(device: &Tun, direction: &mut Direction) -> Option<usize> {
    let mut largest = None;
    for _ in 0..READS_PER_DEVICE {
        match direction.ingress(device.as_fd()) {
            Ok(Ingress::Packet { payload }) => largest = largest.max(Some(payload)),
            Ok(Ingress::Empty) => break,
            Err(error) => {
                tracing::debug!(device = device.name(), %error, "reading failed");
                break;
            }
        }
    }
    largest
}

/// Sleeps without looking at the devices: one system call a quantum.
fn sleep(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    // A signal only wakes us early.
    let _ = rustix::thread::nanosleep(&timespec(duration));
}
