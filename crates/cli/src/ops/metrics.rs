//! The Prometheus endpoint: `GET /metrics` over HTTP/1.1 (docs/service.md).
//!
//! Label values are few and bounded: what paths, clients and peers can name is counted by the
//! library under at most 64 names each.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode, http};
use hyper_util::rt::TokioIo;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use weftline::status::{ClientTotals, PathTotals, totals};
use weftline::{process_stats, refusals};
use weftline_tunnel::bond::{BondStatus, NamedLane};

use super::snapshot::Memory;
use super::{Life, answer_each};
use crate::failure::Failure;

/// Scrapers that are answered at once; further ones wait.
const MAX_SCRAPERS: usize = 8;
/// How long a scraper may take to ask and to take its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of a request in bytes; hyper wants no less.
const MAX_HEAD: usize = 8 << 10;
/// OpenMetrics 1.0, which Prometheus and others take.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers scrapers at `address` from now on. Returns what to say of it.
///
/// # Errors
/// When the address cannot be had.
pub(crate) async fn open(life: &Arc<Life>, address: SocketAddr) -> Result<String, Failure> {
    open_with(Box::new(Daemon(Arc::clone(life))), address).await
}

/// Answers scrapers at `address` with what `collector` finds, from now on. Returns what to say of it.
///
/// # Errors
/// When the address cannot be had.
pub(crate) async fn open_with(
    collector: Box<dyn Collector>,
    address: SocketAddr,
) -> Result<String, Failure> {
    let wrong = |error: std::io::Error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => "stop the program that has it, or choose another port",
            _ => "choose an address of this machine, such as 127.0.0.1:9470",
        };
        Failure::failed(format!("--metrics {address}: {error}; {remedy}"))
    };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    if !address.ip().is_loopback() {
        tracing::warn!("whoever reaches {address} can read the metrics; 127.0.0.1 keeps them here");
    }
    let mut registry = Registry::with_prefix("weftline");
    registry.register_collector(collector);
    let registry = Arc::new(registry);
    let answer = move |(stream, peer)| {
        let registry = Arc::clone(&registry);
        async move {
            match tokio::time::timeout(PATIENCE, serve(stream, registry)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!("metrics for {peer}: {error}"),
                Err(_) => tracing::debug!("metrics for {peer}: too slow"),
            }
        }
    };
    tokio::spawn(answer_each(MAX_SCRAPERS, move |cx| listener.poll_accept(cx), answer));
    Ok(format!("metrics on {address}\n"))
}

async fn serve(stream: TcpStream, registry: Arc<Registry>) -> hyper::Result<()> {
    let service = hyper::service::service_fn(move |request| {
        let answer = answer(&request, &registry);
        async move { Ok::<_, Infallible>(answer) }
    });
    hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(request: &Request<Incoming>, registry: &Registry) -> Response<Full<Bytes>> {
    let built = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut text = String::new();
            match encode(&mut text, registry) {
                Ok(()) => Response::builder().header(CONTENT_TYPE, FORMAT).body(text.into()),
                Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            }
        }
        (_, "/metrics") => Response::builder()
            .status(StatusCode::METHOD_NOT_ALLOWED)
            .header(ALLOW, "GET, HEAD")
            .body(Full::default()),
        _ => plain(StatusCode::NOT_FOUND, "there is /metrics only"),
    };
    built.expect("a status and constant headers are valid")
}

fn plain(status: StatusCode, text: &str) -> http::Result<Response<Full<Bytes>>> {
    let text = format!("{text}\n");
    Response::builder().status(status).header(CONTENT_TYPE, "text/plain").body(text.into())
}

/// What is measured, looked at when it is asked for.
struct Daemon(Arc<Life>);

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.daemon.name())
    }
}

impl Collector for Daemon {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        page.process(&self.0)?;
        let totals = totals();
        page.counter("sent_bytes", "Stream bytes acknowledged in order", totals.sent)?;
        page.counter("received_bytes", "Stream bytes received in order", totals.received)?;
        let about = "Stream bytes received more than once";
        page.counter("duplicate_bytes", about, totals.duplicates)?;
        let paths: Vec<_> = totals.paths.iter().map(|(name, path)| (&**name, *path)).collect();
        page.paths(&paths)?;
        let clients: Vec<_> = totals.clients.iter().map(|(name, one)| (&**name, *one)).collect();
        page.clients(&clients)?;
        page.lanes(&self.0.about().lanes)
    }
}

/// Bonds whose lanes are shown one by one.
const MOST_BONDS: usize = 64;

/// A metric's name, what it is, and where to find it.
type Row<T> = (&'static str, &'static str, fn(&T) -> u64);

/// Metrics as they are written.
pub(crate) struct Page<'a>(pub(crate) DescriptorEncoder<'a>);

impl Page<'_> {
    fn process(&mut self, life: &Life) -> fmt::Result {
        let daemon = life.daemon.name();
        let info = [(("daemon", daemon, "version", env!("CARGO_PKG_VERSION")), 1)];
        let info =
            info.map(|((a, b, c, d), value)| ([(a, b), (c, d)], ConstGauge::<u64>::new(value)));
        self.family("build", "What runs here", info)?;
        self.gauge("uptime_seconds", "Since the daemon began", life.began.elapsed().as_secs_f64())?;
        let draining = u64::from(life.state() == super::State::Draining);
        self.gauge("draining", "1 while connections under way may finish", draining)?;
        let stats = process_stats();
        let open = stats.connections_opened.saturating_sub(stats.connections_ended);
        self.gauge("connections", "Connections that are not over", open)?;
        self.gauge(
            "connections_used",
            "Of these, those not only kept ready",
            super::used() as u64,
        )?;
        let about = "Connections opened or accepted";
        self.counter("connections_opened", about, stats.connections_opened)?;
        self.counter(
            "connections_failed",
            "Of these, those that failed",
            stats.connections_failed,
        )?;
        self.counter("subflows_up", "Subflows that came up", stats.subflows_up)?;
        self.counter("subflows_down", "Of these, those that are gone", stats.subflows_down)?;
        let refused = refusals().into_iter();
        let refused = refused.map(|(reason, n)| ([("reason", reason)], ConstCounter::new(n)));
        self.family("handshakes_refused", "Handshakes refused or broken off", refused)?;
        let memory = Memory::now();
        let about = "Memory of the process that is in the machine's";
        self.gauge("resident_memory_bytes", about, memory.resident_bytes)?;
        let about = "Memory reserved for connections";
        self.gauge("reserved_memory_bytes", about, memory.reserved_bytes)?;
        self.gauge("memory_limit_bytes", "The most that is reserved", memory.total_bytes)
    }

    fn paths(&mut self, paths: &[(&str, PathTotals)]) -> fmt::Result {
        let counters: [Row<PathTotals>; 5] = [
            ("path_sent_bytes", "Payload bytes given to the path", |p| p.sent),
            ("path_rescued_bytes", "Of these, bytes on another path already", |p| p.reinjected),
            ("path_delivered_bytes", "Payload bytes known to have arrived", |p| p.delivered),
            ("path_received_bytes", "Payload bytes received on the path", |p| p.received),
            ("path_subflows_lost", "Subflows of the path that are gone", |p| p.lost_subflows),
        ];
        for (name, about, value) in counters {
            let rows = paths.iter();
            let rows = rows.map(|(path, p)| ([("path", *path)], ConstCounter::new(value(p))));
            self.family(name, about, rows)?;
        }
        let gauges: [Row<PathTotals>; 5] = [
            ("path_subflows", "Live subflows of the path", |p| p.subflows),
            ("path_silent_subflows", "Of these, those without progress", |p| p.stalled),
            ("path_cwnd_bytes", "Sum of their congestion windows", |p| p.cwnd),
            ("path_outstanding_bytes", "Payload bytes on their way", |p| p.outstanding),
            ("path_retransmitted_segments", "Segments that the kernel has sent again", |p| {
                p.retransmitted
            }),
        ];
        for (name, about, value) in gauges {
            let rows = paths.iter();
            let rows = rows.map(|(path, p)| ([("path", *path)], ConstGauge::new(value(p))));
            self.family(name, about, rows)?;
        }
        let rows = paths.iter().filter_map(|(path, p)| {
            Some(([("path", *path)], ConstGauge::new(p.srtt?.as_secs_f64())))
        });
        self.family("path_srtt_seconds", "Mean smoothed round-trip time of live subflows", rows)
    }

    fn clients(&mut self, clients: &[(&str, ClientTotals)]) -> fmt::Result {
        let rows = clients.iter();
        let rows = rows.map(|(name, c)| ([("client", *name)], ConstGauge::new(c.connections)));
        self.family("client_connections", "Connections of the client", rows)?;
        let counters: [Row<ClientTotals>; 2] = [
            ("client_sent_bytes", "Stream bytes it has acknowledged in order", |c| c.sent),
            ("client_received_bytes", "Stream bytes received from it in order", |c| c.received),
        ];
        for (name, about, value) in counters {
            let rows = clients.iter();
            let rows = rows.map(|(client, c)| ([("client", *client)], ConstCounter::new(value(c))));
            self.family(name, about, rows)?;
        }
        Ok(())
    }

    /// Lanes, by the client at a server and the link's name, and what bonds have dropped.
    fn lanes(&mut self, bonds: &[BondStatus]) -> fmt::Result {
        let mut reasons = BTreeMap::<&str, u64>::new();
        for counter in bonds.iter().flat_map(|bond| &bond.counters) {
            *reasons.entry(counter.name).or_default() += counter.value;
        }
        let rows = reasons.into_iter();
        let rows = rows.map(|(reason, n)| ([("reason", reason)], ConstCounter::new(n)));
        let about = "Packets and datagrams of lanes by what became of them (weftline status)";
        self.family("lane_events", about, rows)?;
        let lanes: Vec<_> = (bonds.iter().take(MOST_BONDS))
            .flat_map(|bond| bond.lanes.iter().map(move |lane| (bond.client.as_deref(), lane)))
            .map(|(client, lane)| ([("client", client.unwrap_or("")), ("lane", &*lane.name)], lane))
            .collect();
        let counters: [Row<NamedLane>; 9] = [
            ("lane_sent_bytes", "Bytes of packets sent over the lane", |l| {
                l.status.counters.sent_bytes
            }),
            ("lane_received_bytes", "Bytes of packets that came over it", |l| {
                l.status.counters.received_bytes
            }),
            ("lane_sent_packets", "Packets sent over it", |l| l.status.counters.sent_packets),
            ("lane_lost_packets", "Of these, those that are lost", |l| {
                l.status.counters.lost_packets
            }),
            ("lane_copied_packets", "Of these, copies of what another lane carries", |l| {
                l.status.counters.copies
            }),
            ("lane_dropped_packets", "Packets that its queue has dropped", |l| {
                l.status.dropped + l.status.overflowed
            }),
            ("lane_silences", "How often it fell silent", |l| l.status.counters.silences),
            ("lane_held_cuts", "How often its link was held back more for calls", |l| {
                l.status.hold.cuts
            }),
            ("lane_held_in_vain", "How often that was given up, as it did not help", |l| {
                l.status.hold.in_vain
            }),
        ];
        for (name, about, value) in counters {
            let rows = lanes.iter().map(|(names, l)| (*names, ConstCounter::new(value(l))));
            self.family(name, about, rows)?;
        }
        let gauges: [Row<NamedLane>; 6] = [
            ("lane_up", "1 while it carries something", |l| u64::from(l.is_up())),
            ("lane_in_flight_bytes", "Bytes on their way", |l| l.status.in_flight),
            ("lane_window_bytes", "Bytes that may be", |l| l.status.window),
            ("lane_pacing_bps", "Bits a second at which bulk goes", |l| l.status.pacing.as_bps()),
            ("lane_waiting_packets", "Packets that wait for room", |l| l.status.waiting),
            ("lane_held_bps", "What its link is held back to for calls; 0 if it is not", |l| {
                l.status.hold.limit.map_or(0, |limit| limit.as_bps())
            }),
        ];
        for (name, about, value) in gauges {
            let rows = lanes.iter().map(|(names, l)| (*names, ConstGauge::new(value(l))));
            self.family(name, about, rows)?;
        }
        let rows = lanes
            .iter()
            .filter_map(|(names, l)| Some((*names, ConstGauge::new(l.status.srtt?.as_secs_f64()))));
        self.family("lane_srtt_seconds", "Smoothed round-trip time", rows)?;
        let queue = |l: &NamedLane| ConstGauge::new(l.status.hold.queue.as_secs_f64());
        let rows = lanes.iter().map(|(names, l)| (*names, queue(l)));
        self.family("lane_queue_seconds", "What packets take beyond the least of late", rows)
    }

    pub(crate) fn counter(&mut self, name: &str, about: &str, value: u64) -> fmt::Result {
        self.single(name, about, &ConstCounter::new(value))
    }

    pub(crate) fn gauge<N>(&mut self, name: &str, about: &str, value: N) -> fmt::Result
    where
        ConstGauge<N>: EncodeMetric,
    {
        self.single(name, about, &ConstGauge::new(value))
    }

    fn single(&mut self, name: &str, about: &str, metric: &impl EncodeMetric) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, about, None, metric.metric_type())?;
        metric.encode(encoder)
    }

    /// One metric for each of several sets of labels.
    pub(crate) fn family<'l, M: EncodeMetric + TypedMetric, const N: usize>(
        &mut self,
        name: &str,
        about: &str,
        rows: impl IntoIterator<Item = ([(&'l str, &'l str); N], M)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, about, None, M::TYPE)?;
        for (labels, metric) in rows {
            metric.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
