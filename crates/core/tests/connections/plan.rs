//! What one seed stands for: links, what both ends send, and what goes wrong when.

use std::time::Duration;

use weftline_core::Instant;
use weftline_core::rng::Rng;
use weftline_core::scheduler::{Entry, REGISTRY};

/// Faults begin within this time, and the last one ends within `LATEST` after it.
const FAULTY: u64 = 20_000;

/// Within this time a connection opens over any link on which nothing happens: three round trips, and what
/// they carry, of the slowest.
const OPENING: Duration = Duration::from_secs(3);

/// A slow reader reads once in this time.
pub const READ_STEP: Duration = Duration::from_millis(20);

/// One link, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub struct LinkPlan {
    pub bytes_per_s: u64,
    pub delay: Duration,
    /// What the socket at either end holds.
    pub socket: u64,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every connection on the link is reset, and both ends are told.
    Cut(usize),
    /// The client's end of what is on the link is gone, and the server is not told.
    HalfOpen(usize),
    /// The other way round.
    HalfOpenAtServer(usize),
    /// Nothing comes through for a while.
    Dark(usize, Duration),
    /// The same several times, with as much light between.
    Flap(usize, Duration, u32),
    /// It takes so long one way from now on: another route, or a queue.
    Delay(usize, Duration),
    /// The same of every link.
    DelayAll(Duration),
    /// What is on the link is corrupted: who receives it closes the connection.
    Corrupt(usize),
    /// A bit of what is on the link comes changed, and nothing notices: there is no TLS.
    Garble(usize),
    /// A relay on the link swallows everything from now on, and goes on acknowledging.
    Swallow(usize),
    /// The client's address on the link changes.
    NewAddress(usize),
    /// The link is taken out of the client's settings, and comes back after a while.
    Unplug(usize, Duration),
    /// Records come twice on the link: no honest peer does that.
    Repeat(usize),
    /// Records overtake each other on the link, which they do without a fault only over several.
    Swap(usize),
    /// An application (0: the client's) does not read for a while.
    StopReading(usize, Duration),
    /// It reads slowly for a while: so many bytes in [`READ_STEP`].
    ReadSlowly(usize, Duration, u64),
    /// An end has no more than the least memory for a while.
    ShortOfMemory(usize, Duration),
    /// The server's process ends, and another takes its place that knows nothing.
    ServerRestart,
    /// The client's process ends: its links say so, or do not.
    ClientEnds { told: bool },
    /// The application of an end drops the connection.
    Drop(usize),
}

impl Fault {
    /// Whether it happens on that link, or to all that is there.
    fn is_of(self, link: usize) -> bool {
        match self {
            Self::Cut(of)
            | Self::HalfOpen(of)
            | Self::HalfOpenAtServer(of)
            | Self::Dark(of, _)
            | Self::Flap(of, ..)
            | Self::Delay(of, _)
            | Self::Corrupt(of)
            | Self::Garble(of)
            | Self::Swallow(of)
            | Self::NewAddress(of)
            | Self::Unplug(of, _)
            | Self::Repeat(of)
            | Self::Swap(of) => of == link,
            Self::DelayAll(_) | Self::ServerRestart | Self::ClientEnds { .. } | Self::Drop(_) => {
                true
            }
            Self::StopReading(..) | Self::ReadSlowly(..) | Self::ShortOfMemory(..) => false,
        }
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub scheduler: &'static Entry,
    pub links: Vec<LinkPlan>,
    /// What the client sends, and the server.
    pub bytes: [u64; 2],
    pub memory: [u64; 2],
    pub grace: Duration,
    pub peer_timeout: Duration,
    pub faults: Vec<(Instant, Fault)>,
    /// The end at whose ending every link is cut, if any: the worst moment.
    pub cut_at_ending: Option<usize>,
}

impl Plan {
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::stream(seed, "plan");
        let links = 1 + rng.below(3) as usize;
        let bytes = || [0, 1, 3_000, 40_000, 40_000, 300_000, 300_000, 1_000_000];
        let schedulers: Vec<_> = REGISTRY.iter().collect();
        // Ours more often than those of kernels.
        let ours = ["earliest", "fbdt", "min-rtt"];
        let scheduler = match rng.below(2) {
            0 => Entry::find(ours[rng.below(3) as usize]).expect("registered"),
            _ => schedulers[rng.below(schedulers.len() as u64) as usize],
        };
        let mut pick = |from: &[u64]| from[rng.below(from.len() as u64) as usize];
        let sizes = [pick(&bytes()), pick(&bytes())];
        let memory = || [32 << 10, 256 << 10, 1 << 20, 64 << 20];
        let memory = [pick(&memory()), pick(&memory())];
        let grace = Duration::from_secs(pick(&[5, 30]));
        let peer_timeout = Duration::from_secs(pick(&[6, 30]));
        let links = (0..links).map(|_| draw_link(&mut rng)).collect::<Vec<_>>();
        let faults = (0..rng.below(6)).map(|_| draw_fault(&mut rng, links.len())).collect();
        let cut_at_ending = Some(rng.below(8) as usize).filter(|&end| end < 2);
        let bytes = sizes;
        Self { seed, scheduler, links, bytes, memory, grace, peer_timeout, faults, cut_at_ending }
    }

    /// When everything is as it should be for good.
    pub fn healed_at(&self) -> Instant {
        let end = |&(at, fault): &(Instant, Fault)| {
            at + match fault {
                Fault::Dark(_, time)
                | Fault::Unplug(_, time)
                | Fault::StopReading(_, time)
                | Fault::ReadSlowly(_, time, _)
                | Fault::ShortOfMemory(_, time) => time,
                Fault::Flap(_, time, times) => 2 * time * times,
                _ => Duration::ZERO,
            }
        };
        self.faults.iter().map(end).max().unwrap_or(Instant::ZERO)
    }

    /// Whether what arrives may be something else than what was sent, so that no byte is promised.
    pub fn is_garbled(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault, Fault::Garble(_)))
    }

    /// Whether it must open: it need not survive anything, and has a link on which nothing happens until it
    /// has opened there.
    pub fn must_open(&self) -> bool {
        let begins = |&(at, fault): &(Instant, Fault), link: usize| {
            at < Instant::ZERO + OPENING && fault.is_of(link)
        };
        let is_quiet = |link| !self.faults.iter().any(|fault| begins(fault, link));
        self.is_survivable() && (0..self.links.len()).any(is_quiet)
    }

    /// Whether nothing happens that a connection need not survive: then it closes at both ends, once
    /// it is open.
    pub fn is_survivable(&self) -> bool {
        let mut lost = Duration::ZERO;
        let mut longest = self.links.iter().map(|link| link.delay).max().unwrap_or_default();
        for (_, fault) in &self.faults {
            match fault {
                Fault::Dark(_, time) => lost += *time,
                Fault::Flap(_, time, times) => lost += 2 * *time * *times,
                Fault::Delay(_, delay) | Fault::DelayAll(delay) => longest = longest.max(*delay),
                Fault::ServerRestart
                | Fault::ClientEnds { .. }
                | Fault::Drop(_)
                | Fault::Garble(_)
                | Fault::Repeat(_)
                | Fault::Swap(_) => return false,
                _ => {}
            }
        }
        // After each, a new subflow takes three round trips: dial, TLS, join.
        lost += 6 * longest * (2 + self.faults.len() as u32);
        lost < self.grace.min(self.peer_timeout) / 2
    }
}

fn draw_link(rng: &mut Rng) -> LinkPlan {
    let mbps = [1, 8, 50, 400][rng.below(4) as usize];
    LinkPlan {
        bytes_per_s: mbps * 125_000,
        delay: Duration::from_millis([1, 10, 40, 300][rng.below(4) as usize]),
        socket: [16 << 10, 128 << 10, 1 << 20][rng.below(3) as usize],
    }
}

fn draw_fault(rng: &mut Rng, links: usize) -> (Instant, Fault) {
    // Most at the beginning, where most happens.
    let within = [50, 300, 1_000, FAULTY][rng.below(4) as usize];
    let at = Instant::from_millis(rng.below(within));
    let link = rng.below(links as u64) as usize;
    let end = rng.below(2) as usize;
    let time = Duration::from_millis([20, 300, 2_000, 12_000][rng.below(4) as usize]);
    let fault = match rng.below(30) {
        0..3 => Fault::Cut(link),
        3 => Fault::HalfOpen(link),
        4 => Fault::HalfOpenAtServer(link),
        5..8 => Fault::Dark(link, time),
        8 => Fault::Flap(link, time / 4, 1 + rng.below(6) as u32),
        9 => Fault::Corrupt(link),
        10 | 11 => Fault::NewAddress(link),
        12 | 13 => Fault::Repeat(link),
        14 | 15 => Fault::StopReading(end, time),
        16 => Fault::ShortOfMemory(end, time),
        17 => Fault::ServerRestart,
        18 => Fault::Delay(link, time.min(Duration::from_millis(800))),
        19..22 => Fault::DelayAll(time.min(Duration::from_millis(800))),
        22 => Fault::ClientEnds { told: end == 0 },
        23 => Fault::Drop(end),
        24 => Fault::Garble(link),
        25 => Fault::Swallow(link),
        26 | 27 => Fault::Unplug(link, time),
        28 => Fault::Swap(link),
        _ => Fault::ReadSlowly(end, time, [1_000, 20_000][rng.below(2) as usize]),
    };
    (at, fault)
}
