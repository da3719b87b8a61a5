//! The emulator's thread: reads, writes, waits. What becomes of the packets, and when, the
//! [`Network`] says.

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

use super::device::{Ingress, egress, ingress};
use super::direction::Direction;
use super::network::{Network, PathConfig, Wait};
use super::{EmulatedPath, EmulatorReport, Request, Start};
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

/// The ends of one path.
#[derive(Debug)]
struct Devices {
    client: Tun,
    server: Tun,
}

/// The thread's whole state.
pub(super) struct Worker {
    network: Network,
    /// Of each path of the network.
    devices: Vec<Devices>,
    inbox: Receiver<Request>,
    wake: Arc<OwnedFd>,
    /// All devices and the wake-up.
    readable: OwnedFd,
    lateness: Histogram<u64>,
    real_time: bool,
}

impl Worker {
    pub(super) fn new(
        paths: Vec<EmulatedPath>,
        seed: u64,
        start: Start,
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
        let part = |path: EmulatedPath| {
            let EmulatedPath { name, down, up, client, server } = path;
            (PathConfig { name, down, up }, Devices { client, server })
        };
        let (paths, devices) = paths.into_iter().map(part).unzip();
        Ok(Self {
            network: Network::new(paths, seed, start),
            devices,
            inbox,
            wake,
            readable,
            // 1 ns to 100 s in steps of at most 1 %.
            lateness: Histogram::new_with_bounds(1, 100_000_000_000, 2)
                .expect("the bounds are in order and the precision is at most 5"),
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
            self.network.handle_timeout(now);
            for (lane, ends) in self.network.lanes.iter_mut().zip(&self.devices) {
                egress(&mut lane.down, ends.client.as_fd(), now, &mut self.lateness);
                egress(&mut lane.up, ends.server.as_fd(), now, &mut self.lateness);
            }
            self.read_all();
            self.wait(now);
        }
    }

    /// Reads the devices in turn until all are empty, or it is time to write again.
    fn read_all(&mut self) {
        for _ in 0..ROUNDS {
            let mut any = false;
            for (k, ends) in self.devices.iter().enumerate() {
                let lane = &mut self.network.lanes[k];
                any |= drain(&ends.client, &mut lane.up).is_some();
                let data = drain(&ends.server, &mut lane.down);
                any |= data.is_some();
                if data.is_some_and(|payload| self.network.starts_with(payload)) {
                    self.network.start(clock::now());
                }
            }
            if !any {
                break;
            }
        }
    }

    /// Waits for the next due packet, the next quantum, a readable device or a request.
    fn wait(&mut self, turn_start: Instant) {
        match self.network.poll_wait(turn_start, clock::now()) {
            Wait::Sleep(duration) => sleep(duration),
            Wait::Poll(timeout) => self.poll(timeout),
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
                Ok(Request::Start(epoch)) => self.network.start(epoch),
                Ok(Request::Switch(switch)) => self.network.switch(switch),
                Ok(Request::Schedule(switches)) => self.network.schedule(switches),
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
        EmulatorReport {
            paths: self.network.report(),
            lateness: self.lateness.clone(),
            epoch: self.network.epoch(),
            cpu: process::thread_cpu(),
            memory: self.network.memory(),
            real_time: self.real_time,
        }
    }
}

/// Reads up to [`READS_PER_DEVICE`] packets; the largest payload of a packet, `None` if none came.
fn drain(device: &Tun, direction: &mut Direction) -> Option<usize> {
    let mut largest = None;
    for _ in 0..READS_PER_DEVICE {
        match ingress(direction, device.as_fd()) {
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
