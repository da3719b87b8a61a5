//! The client's side: connects, asks, checks every byte and measures.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weftline_core::Instant;
use weftline_measure::{FlowFigures, FlowMeasurement, Window};

use super::connection::{Connection, connect};
use super::stream::Checker;
use super::timer::Timer;
use super::{
    ENDLESS, EndpointArgs, Event, Orchestrator, ReceiverReport, Traffic, WARMUP_BYTES,
    encode_request, tell,
};
use crate::clock;

/// Most bytes taken from the connection at once.
const READ_MAX: usize = 256 << 10;

pub(super) async fn run(args: EndpointArgs, mut orchestrator: Orchestrator) -> io::Result<()> {
    match args.traffic {
        Traffic::Stream { duration, warmup, .. } => {
            stream(&args, &mut orchestrator, duration, warmup).await
        }
        Traffic::Transfer { size, warm, limit } => {
            transfer(&args, &mut orchestrator, size, warm, limit).await
        }
    }
}

/// Receives a stream for `duration` from the epoch.
async fn stream(
    args: &EndpointArgs,
    orchestrator: &mut Orchestrator,
    duration: Duration,
    warmup: Duration,
) -> io::Result<()> {
    let connection = connect(&args.transport, &args.congestion).await?;
    let mut sink = Sink::new(connection, args.seed);
    sink.request(ENDLESS).await?;
    tell(&Event::Ready)?;
    let epoch = orchestrator.go().await?;
    let until = epoch + duration;
    let mut measurement = FlowMeasurement::new(Window::new(epoch, epoch, until, warmup));
    let mut end = Timer::at(until)?;
    let outcome = tokio::select! {
        outcome = sink.receive(u64::MAX, &mut measurement) => outcome,
        ring = end.ring() => ring.map(|_| ()),
    };
    // A stream that broke off has nothing for the rest of its time.
    let figures = measurement.figures(until.max(clock::now()));
    let duplicate_bytes = sink.duplicates();
    let error = outcome.err().map(|error| describe(&error, &figures, epoch));
    tell(&Event::Received(ReceiverReport { figures, duplicate_bytes, error }))?;
    // The connection stays until the sender has reported: a reset would spoil its counters.
    orchestrator.dismissed().await;
    Ok(())
}

/// Receives `size` bytes over a new or a warm connection, and times it.
async fn transfer(
    args: &EndpointArgs,
    orchestrator: &mut Orchestrator,
    size: u64,
    warm: bool,
    limit: Duration,
) -> io::Result<()> {
    let mut warmed = None;
    if warm {
        let connection = connect(&args.transport, &args.congestion).await?;
        let mut sink = Sink::new(connection, args.seed);
        let now = clock::now();
        sink.request(WARMUP_BYTES).await?;
        let nothing = Window::whole(now, now, now);
        sink.receive(WARMUP_BYTES, &mut FlowMeasurement::new(nothing)).await?;
        warmed = Some(sink);
    }
    tell(&Event::Ready)?;
    let epoch = orchestrator.go().await?;
    Timer::at(epoch)?.ring().await?;
    let start = clock::now();
    let mut end = Timer::at(start + limit)?;
    let mut measurement = FlowMeasurement::new(Window::whole(start, start, start + limit));
    let work = async {
        let mut sink = match warmed {
            Some(sink) => sink,
            None => Sink::new(connect(&args.transport, &args.congestion).await?, args.seed),
        };
        sink.request(size).await?;
        sink.receive(size, &mut measurement).await?;
        measurement.completed(clock::now());
        io::Result::Ok(sink)
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        _ = end.ring() => Err(too_late()),
    };
    let in_time = measurement.is_completed();
    let outcome = outcome.and_then(|sink| if in_time { Ok(sink) } else { Err(too_late()) });
    let end = if outcome.is_ok() { clock::now() } else { clock::now().max(start + limit) };
    let figures = measurement.figures(end);
    let mut report = ReceiverReport { figures, ..ReceiverReport::default() };
    let mut finished = None;
    match outcome {
        Ok(mut sink) => {
            report.duplicate_bytes = sink.duplicates();
            // The sender reports when it sees the end of our requests.
            sink.connection.shutdown().await?;
            finished = Some(sink);
        }
        Err(error) => report.error = Some(describe(&error, &report.figures, start)),
    }
    tell(&Event::Received(report))?;
    orchestrator.dismissed().await;
    drop(finished);
    Ok(())
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the time limit was reached")
}

fn describe(error: &io::Error, figures: &FlowFigures, since: Instant) -> String {
    let bytes = figures.bytes_delivered.unwrap_or(0);
    let after = clock::now().since(since).as_secs_f64();
    format!("receiver: {error} after {bytes} bytes in {after:.3} s")
}

/// A stream being received over one connection.
#[derive(Debug)]
struct Sink {
    connection: Connection,
    checker: Checker,
    buffer: Vec<u8>,
}

impl Sink {
    fn new(connection: Connection, seed: u64) -> Self {
        Self { connection, checker: Checker::new(seed), buffer: vec![0; READ_MAX] }
    }

    /// Bytes that arrived a second time, where the transport can tell.
    fn duplicates(&self) -> Option<u64> {
        self.connection.info().ok()?.duplicates_received
    }

    /// Asks for `size` bytes.
    async fn request(&mut self, size: u64) -> io::Result<()> {
        self.connection.write_all(&encode_request(size)).await?;
        self.connection.flush().await
    }

    /// Receives `size` bytes.
    async fn receive(&mut self, size: u64, measurement: &mut FlowMeasurement) -> io::Result<()> {
        let end = self.checker.position().saturating_add(size);
        while self.checker.position() < end {
            let want = (end - self.checker.position()).min(READ_MAX as u64) as usize;
            let count = self.connection.read(&mut self.buffer[..want]).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let now = clock::now();
            measurement.released(now, count as u64);
            self.checker
                .accept(&self.buffer[..count], |stamp, bytes| {
                    measurement.delayed(now, stamp, bytes);
                })
                .map_err(|damaged| io::Error::new(io::ErrorKind::InvalidData, damaged))?;
        }
        Ok(())
    }
}
