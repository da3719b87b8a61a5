//! Event files: what happened in each connection, one file for each (docs/qlog.md).
//!
//! The envelope is that of qlog (draft-ietf-quic-qlog-main-schema) in JSON text sequences
//! (RFC 7464); the events are weftline's own. Connections never wait for the disk: one thread
//! writes, and what it cannot keep up with is left out and counted.

mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use weftline::status::{ConnectionStatus, opened};
use weftline::{Control, PathEvent, PathEventKind};

use super::Daemon;
use super::snapshot::Connection;
use crate::failure::Failure;
use writer::{Sink, Writer, time_of_day};

/// Connections whose events are written at once; those of others are not.
const MAX_FOLLOWED: usize = 256;
/// How often a connection is measured; where nothing moved, nothing is written.
const INTERVAL: Duration = Duration::from_millis(100);
/// The events' own names: what docs/qlog.md describes.
pub(crate) const EVENT_SCHEMA: &str = "urn:weftline:qlog:multipath-1";

/// What every event's name begins with.
pub(crate) const PREFIX: &str = "weftline:";

/// Writes files as long as it lives.
pub(crate) struct Qlog {
    _writer: Writer,
}

impl Qlog {
    /// Writes files into `dir` for connections from now on.
    ///
    /// # Errors
    /// When the directory is not there and cannot be made.
    pub(crate) fn start(daemon: Daemon, dir: &Path) -> Result<Self, Failure> {
        let wrong =
            |error: std::io::Error| Failure::failed(format!("--qlog {}: {error}", dir.display()));
        let writer = Writer::start(dir, daemon.name()).map_err(wrong)?;
        let sink = writer.sink();
        let followed = Arc::new(AtomicUsize::new(0));
        let mut opened = opened();
        tokio::spawn(async move {
            loop {
                let number = match opened.recv().await {
                    Ok(number) => number,
                    Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return,
                };
                let Some(control) = weftline::status::connection(number) else { continue };
                if followed.fetch_add(1, Ordering::Relaxed) >= MAX_FOLLOWED {
                    followed.fetch_sub(1, Ordering::Relaxed);
                    tracing::debug!("connection {number} has no event file: too many at once");
                    continue;
                }
                let (file, followed) = (sink.file(number), Arc::clone(&followed));
                tokio::spawn(async move {
                    Log::new(file, daemon).follow(control).await;
                    followed.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Ok(Self { _writer: writer })
    }
}

/// One connection's file.
struct Log {
    file: Sink,
    daemon: Daemon,
    began: Instant,
    /// What was written last, where only changes are.
    last: Option<Connection>,
    window: Option<u64>,
    /// Path and subflow of what was up when the file began: their events may be still to come.
    up_before: BTreeSet<(u64, u64)>,
}

impl Log {
    fn new(file: Sink, daemon: Daemon) -> Self {
        let (began, up_before) = (Instant::now(), BTreeSet::new());
        Self { file, daemon, began, last: None, window: None, up_before }
    }

    /// Writes what happens to the connection until it is over.
    async fn follow(mut self, control: Control) {
        let mut events = control.events();
        let status = control.status();
        self.begin(&status);
        let end = {
            let closed = control.closed();
            tokio::pin!(closed);
            loop {
                self.measure(&control.status());
                let next = tokio::time::Instant::now() + INTERVAL;
                let end = loop {
                    tokio::select! {
                        event = events.recv() => match event {
                            Ok(event) => self.event(&event),
                            Err(RecvError::Lagged(count)) => {
                                self.write("events_lost", json!({ "count": count }));
                            }
                            Err(RecvError::Closed) => break None,
                        },
                        end = &mut closed => break Some(end),
                        () = tokio::time::sleep_until(next) => break None,
                    }
                };
                if let Some(end) = end {
                    break end;
                }
            }
        };
        while let Ok(event) = events.try_recv() {
            self.event(&event);
        }
        let status = control.status();
        self.measure(&status);
        self.write(
            "connection_closed",
            json!({
                "error": end.err().map(|error| error.to_string()),
                "sent_bytes": status.stats.acknowledged,
                "received_bytes": status.stats.delivered,
                "duplicate_bytes": status.stats.duplicates,
                "rescued_bytes": status.stats.paths.values().map(|path| path.reinjected).sum::<u64>(),
            }),
        );
    }

    /// The head of the file, and the connection as it begins.
    fn begin(&mut self, status: &ConnectionStatus) {
        let vantage_point = match self.daemon {
            Daemon::Serve => "server",
            Daemon::Connect | Daemon::Up => "client",
        };
        let wall_clock = humantime::format_rfc3339_millis(time_of_day()).to_string();
        self.file.put(&json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": format!("weftline {} connection {}", self.daemon.name(), status.number),
            "trace": {
                "vantage_point": { "type": vantage_point },
                "event_schemas": [EVENT_SCHEMA],
                "common_fields": {
                    "group_id": status.number.to_string(),
                    "time_format": "relative_to_epoch",
                    "reference_time": {
                        "clock_type": "monotonic",
                        "epoch": "unknown",
                        "wall_clock_time": wall_clock,
                    },
                },
            },
        }));
        let paths: BTreeMap<u64, _> =
            status.names.iter().map(|(id, name)| (id.0, &**name)).collect();
        self.write(
            "connection_started",
            json!({
                "number": status.number,
                "peer": status.peer,
                "client": status.client.as_deref(),
                "scheduler": status.scheduler,
                "paths": paths,
                "version": env!("CARGO_PKG_VERSION"),
            }),
        );
        for (path, stats) in &status.stats.paths {
            let Some(subflow) = &stats.subflow else { continue };
            let (path, subflow) = (path.0, subflow.id.0);
            self.up_before.insert((path, subflow));
            let name = paths.get(&path);
            self.write("path_up", json!({ "path": path, "name": name, "subflow": subflow }));
        }
    }

    fn event(&mut self, event: &PathEvent) {
        let (path, name) = (event.path, &*event.name);
        if let PathEventKind::Up { subflow, .. } = event.kind
            && self.up_before.remove(&(path, subflow))
        {
            return;
        }
        let (kind, data) = match &event.kind {
            PathEventKind::AttemptFailed { reason } => {
                ("path_attempt_failed", json!({ "path": path, "name": name, "reason": reason }))
            }
            PathEventKind::Down { subflow, reason } => (
                "path_down",
                json!({ "path": path, "name": name, "subflow": subflow, "reason": reason }),
            ),
            PathEventKind::Up { subflow, local, peer } => (
                "path_up",
                json!({
                    "path": path, "name": name, "subflow": subflow, "local": local, "peer": peer,
                }),
            ),
            PathEventKind::Reinjected { subflow, offset, bytes, redundant } => (
                "path_reinjected",
                json!({
                    "path": path, "name": name, "subflow": subflow, "offset": offset,
                    "bytes": bytes, "redundant": redundant,
                }),
            ),
            PathEventKind::Stalled { subflow } => ("path_silent", of(path, name, *subflow)),
            PathEventKind::PotentiallyFailed { subflow } => {
                ("path_stalled", of(path, name, *subflow))
            }
            PathEventKind::Recovered { subflow } => ("path_recovered", of(path, name, *subflow)),
            other => {
                ("path_event", json!({ "path": path, "name": name, "text": format!("{other:?}") }))
            }
        };
        self.write(kind, data);
    }

    /// Writes what has changed since the last time.
    fn measure(&mut self, status: &ConnectionStatus) {
        let now = Connection::from(status);
        let last = self.last.take();
        if let Some(label) = &now.label
            && last.as_ref().is_none_or(|last| last.label.is_none())
        {
            self.write("connection_used", json!({ "label": label }));
        }
        // Without data there is none; the next may be as large as the last.
        if now.window_bytes.is_some() && now.window_bytes != self.window {
            self.window = now.window_bytes;
            self.write("window_updated", json!({ "window_bytes": now.window_bytes }));
        }
        if now.forward != last.as_ref().and_then(|last| last.forward.clone()) {
            self.write("direction_changed", json!({ "forward": now.forward }));
        }
        let moved = |one: &Connection| -> Vec<_> {
            let path =
                |p: &super::snapshot::Path| (p.sent_bytes, p.delivered_bytes, p.received_bytes);
            one.paths.iter().map(path).collect()
        };
        if last.as_ref().is_none_or(|last| moved(last) != moved(&now)) {
            self.write_metrics(&now);
        }
        self.last = Some(now);
    }

    fn write_metrics(&mut self, now: &Connection) {
        self.write(
            "connection_metrics",
            json!({
                "sent_bytes": now.sent_bytes,
                "received_bytes": now.received_bytes,
                "duplicate_bytes": now.duplicate_bytes,
                "memory_bytes": now.memory_bytes,
                "receive_held_bytes": now.receive_held_bytes,
                "send_held_bytes": now.send_held_bytes,
            }),
        );
        for path in &now.paths {
            self.write(
                "path_metrics",
                json!({
                    "name": path.name,
                    "state": path.state,
                    "srtt_ms": path.srtt_ms,
                    "min_rtt_ms": path.min_rtt_ms,
                    "cwnd_bytes": path.cwnd_bytes,
                    "outstanding_bytes": path.outstanding_bytes,
                    "rate_mbps": path.rate_mbps,
                    "retransmitted_segments": path.retransmitted_segments,
                    "sent_bytes": path.sent_bytes,
                    "delivered_bytes": path.delivered_bytes,
                    "received_bytes": path.received_bytes,
                    "rescued_bytes": path.rescued_bytes,
                }),
            );
        }
    }

    fn write(&mut self, name: &str, data: Value) {
        let time = self.began.elapsed().as_secs_f64() * 1e3;
        let lost = self.file.lost();
        if lost > 0 {
            let data = json!({ "count": lost });
            self.file.put(&json!({ "time": time, "name": "weftline:records_lost", "data": data }));
        }
        let name = format!("{PREFIX}{name}");
        self.file.put(&json!({ "time": time, "name": name, "data": data }));
    }
}

fn of(path: u64, name: &str, subflow: u64) -> Value {
    json!({ "path": path, "name": name, "subflow": subflow })
}
