//! The server's side: accepts one connection and sends what its requests ask for.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Interval, MissedTickBehavior};
use weftline_core::time::nanos;
use weftline_core::{Bitrate, Instant};
use weftline_measure::{STEP, STEPS_MAX};

use super::connection::{Connection, ConnectionInfo, Listener, SocketInfo};
use super::protocol::{SenderReport, SocketReport};
use super::stream::{HEADER, fill_block};
use super::timer::Timer;
use super::{
    ENDLESS, EndpointArgs, Event, Orchestrator, REQUEST_LEN, Traffic, decode_request, tell,
};
use crate::clock;
use crate::observe::{SenderSample, SocketSample};

/// A block of a stream without a rate.
const BLOCK: usize = 64 << 10;

/// How often a source of constant rate produces a block: as a camera's encoder hands over slices.
const TICK: Duration = Duration::from_millis(1);

/// Sends until the traffic is over, then reports and waits to be dismissed.
pub(super) async fn run(args: EndpointArgs, mut orchestrator: Orchestrator) -> io::Result<()> {
    let mut listener = Listener::bind(&args.transport, &args.congestion)?;
    tell(&Event::Listening { fingerprint: listener.fingerprint() })?;
    let mut source = Source {
        connection: listener.accept().await?,
        seed: args.seed,
        position: 0,
        samples: Samples::default(),
        sample_timer: sample_timer(),
        epoch: None,
        watched: args.watched,
    };
    let outcome = match args.traffic {
        Traffic::Stream { rate_bps, duration, .. } => {
            source.stream(&mut orchestrator, rate_bps.map(Bitrate::bps), duration).await
        }
        Traffic::Transfer { limit, .. } => {
            tokio::select! {
                outcome = source.answer_requests() => outcome,
                over = time_limit(&mut orchestrator, limit) => over,
            }
        }
    };
    source.sample();
    let error = outcome.err().map(|error| format!("sender: {error}"));
    tell(&Event::Sent(source.samples.report(source.position, error)))?;
    // The connection stays until the receiver has reported: closing would cut its stream short.
    orchestrator.dismissed().await;
    Ok(())
}

/// Ends when a transfer has taken too long.
async fn time_limit(orchestrator: &mut Orchestrator, limit: Duration) -> io::Result<()> {
    let epoch = orchestrator.go().await?;
    Timer::at(epoch + limit)?.ring().await.map(|_| ())
}

fn sample_timer() -> Interval {
    let mut timer = tokio::time::interval(STEP);
    timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
    timer
}

/// A stream being sent over one connection.
#[derive(Debug)]
struct Source {
    connection: Connection,
    seed: u64,
    /// Bytes sent so far.
    position: u64,
    samples: Samples,
    sample_timer: Interval,
    /// When a stream began.
    epoch: Option<Instant>,
    /// Whether it is told how it goes.
    watched: bool,
}

impl Source {
    /// Sends from the epoch on for `duration`, at `rate` if there is one.
    async fn stream(
        &mut self,
        orchestrator: &mut Orchestrator,
        rate: Option<Bitrate>,
        duration: Duration,
    ) -> io::Result<()> {
        if self.request().await? != Some(ENDLESS) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a stream was to be asked for"));
        }
        tell(&Event::Ready)?;
        let epoch = orchestrator.go().await?;
        self.epoch = Some(epoch);
        let mut end = Timer::at(epoch + duration)?;
        Timer::at(epoch)?.ring().await?;
        let sending = async {
            match rate {
                None => self.flood().await,
                Some(rate) => self.pace(rate, epoch).await,
            }
        };
        tokio::select! {
            biased;
            ring = end.ring() => ring.map(|_| ()),
            outcome = sending => outcome,
        }
    }

    /// Sends blocks as fast as the connection takes them.
    async fn flood(&mut self) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        loop {
            self.send(&mut block, clock::now()).await?;
        }
    }

    /// Sends what a source of constant rate produces. A block is stamped with the time at which it
    /// was produced, even when the connection takes it later: a camera does not wait.
    async fn pace(&mut self, rate: Bitrate, epoch: Instant) -> io::Result<()> {
        let mut ticks = Timer::every(epoch + TICK, TICK)?;
        let mut block = Vec::new();
        let (mut produced, mut tick) = (0, 0);
        loop {
            for _ in 0..ticks.ring().await? {
                tick += 1;
                let age = TICK * tick;
                let due = rate.bytes_in(age).as_u64() - produced;
                // At rates below 0.13 Mb/s a tick has no room for a block.
                if due >= HEADER as u64 {
                    produced += due;
                    block.resize(due as usize, 0);
                    self.send(&mut block, epoch + age).await?;
                }
            }
        }
    }

    /// Answers requests for a number of bytes until the client closes.
    async fn answer_requests(&mut self) -> io::Result<()> {
        while let Some(size) = self.request().await? {
            let mut block = Vec::new();
            let mut left = size;
            while left > 0 {
                // The last block takes what would be too short for one of its own.
                let len = if left < (BLOCK + HEADER) as u64 { left as usize } else { BLOCK };
                if len < HEADER {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "too few bytes"));
                }
                block.resize(len, 0);
                self.send(&mut block, clock::now()).await?;
                left -= len as u64;
            }
            self.connection.flush().await?;
        }
        Ok(())
    }

    /// The next request; `None` when the client has closed.
    async fn request(&mut self) -> io::Result<Option<u64>> {
        let mut bytes = [0; REQUEST_LEN];
        match self.connection.read_exact(&mut bytes).await {
            Ok(_) => decode_request(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Fills `block` and sends all of it, asking the kernel about the connection now and then.
    async fn send(&mut self, block: &mut [u8], stamp: Instant) -> io::Result<()> {
        fill_block(block, self.seed, self.position, stamp);
        let mut sent = 0;
        while sent < block.len() {
            tokio::select! {
                biased;
                _ = self.sample_timer.tick() => self.sample(),
                written = self.connection.write(&block[sent..]) => match written? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => sent += count,
                },
            }
        }
        self.position += block.len() as u64;
        Ok(())
    }

    fn sample(&mut self) {
        // A connection that just broke has nothing to say.
        if let Ok(info) = self.connection.info() {
            let now = clock::now();
            let step = self
                .epoch
                .filter(|epoch| now >= *epoch)
                .map(|epoch| (nanos(now.since(epoch)) / nanos(STEP)) as usize);
            if self.watched {
                // Who does not listen any more has seen enough.
                let _ = tell(&Event::Sample(seen(&info, now, self.position)));
            }
            self.samples.add(info, now, step);
        }
    }
}

/// A connection, as it is told to whoever watches.
fn seen(info: &ConnectionInfo, now: Instant, written: u64) -> SenderSample {
    let socket = |socket: &SocketInfo| SocketSample {
        local: socket.local,
        id: socket.id,
        delivered: socket.delivered,
        retransmitted: socket.retransmitted,
        socket: socket.seen,
    };
    SenderSample {
        at_ns: now.as_nanos(),
        written,
        acknowledged: info.acknowledged,
        sockets: info.sockets.iter().map(socket).collect(),
    }
}

/// What was learnt of the connection over time.
#[derive(Debug, Default)]
struct Samples {
    /// By the server's address on the path.
    paths: BTreeMap<IpAddr, PathSamples>,
    duplicate_bytes: Option<u64>,
    copied_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct PathSamples {
    /// Of each socket there was, by its number: one that is gone keeps its last count.
    retransmitted: BTreeMap<u64, u64>,
    /// When, and what it was, in nanoseconds.
    rtts: Vec<(u64, u64)>,
    /// By the step of the series.
    cwnd: BTreeMap<usize, u32>,
}

impl Samples {
    /// Takes what is known at `now`, in a `step` of the series if those have begun.
    fn add(&mut self, info: ConnectionInfo, now: Instant, step: Option<usize>) {
        self.copied_bytes = info.copied.or(self.copied_bytes);
        self.duplicate_bytes = info.duplicates_sent.or(self.duplicate_bytes);
        for socket in info.sockets {
            let path = self.paths.entry(socket.local).or_default();
            path.retransmitted.insert(socket.id, socket.retransmitted);
            if !socket.rtt.is_zero() && path.rtts.len() < STEPS_MAX {
                path.rtts.push((now.as_nanos(), nanos(socket.rtt)));
            }
            if let (Some(step), Some(cwnd)) = (step.filter(|&step| step < STEPS_MAX), socket.cwnd) {
                path.cwnd.insert(step, cwnd);
            }
        }
    }

    fn report(self, bytes: u64, error: Option<String>) -> SenderReport {
        let path = |(local, samples): (IpAddr, PathSamples)| {
            let retransmitted = samples.retransmitted.values().sum();
            let cwnd = samples.cwnd.into_iter().collect();
            SocketReport { local, retransmitted, rtts: samples.rtts, cwnd }
        };
        SenderReport {
            bytes,
            sockets: self.paths.into_iter().map(path).collect(),
            duplicate_bytes: self.duplicate_bytes,
            copied_bytes: self.copied_bytes,
            error,
        }
    }
}
