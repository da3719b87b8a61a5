//! A node's life: its thread, the signals that end it, and what is told to systemd and to whoever
//! looks.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use weftline_tunnel::{DeviceStatus, LinkStatus, Publish, Status, Stop, TunnelError};

use super::metrics::NodeMetrics;
use crate::failure::Failure;
use crate::ops::control::{self, Control};
use crate::ops::node::Node;
use crate::ops::snapshot::{About, NodeLink, NodeLinks, Snapshot};
use crate::ops::{DashboardPlace, dashboard, metrics, systemd};
use crate::{output, signals};

/// How often statistics are printed, and systemd hears that the node lives, at least.
const SECOND: Duration = Duration::from_secs(1);

/// What is shown of a node.
pub(super) struct Shown {
    /// Which node it is, as the command line has it.
    pub(super) kind: &'static str,
    /// What is printed once it is open.
    pub(super) greeting: String,
    /// Whether a line a second is printed.
    pub(super) stats: bool,
    /// Where Prometheus can fetch metrics.
    pub(super) metrics: Option<SocketAddr>,
    /// Where a dashboard is to be.
    pub(super) dashboard: Option<DashboardPlace>,
    /// Where it can be asked how it is.
    pub(super) control: Option<Control>,
    /// Where neighbours reach it, if that is set.
    pub(super) listening: Option<SocketAddr>,
}

/// A node that can be asked how it is.
struct Asked {
    kind: &'static str,
    /// The same in the name of a socket.
    name: String,
    listening: Vec<String>,
    began: Instant,
    publish: Publish,
    dashboard: OnceLock<String>,
}

impl Asked {
    fn about(&self) -> About {
        About {
            daemon: self.kind,
            state: "running",
            began: self.began,
            listening: self.listening.clone(),
            lanes: Vec::new(),
            node: self.publish.status().as_ref().map(Node::from),
        }
    }

    /// Opens the dashboard at `place`, and says where.
    async fn open_dashboard(
        self: &Arc<Self>,
        place: &DashboardPlace,
        is_told: bool,
    ) -> Result<dashboard::Opened, Failure> {
        let (asked, publish) = (Arc::clone(self), self.publish.clone());
        let links = move || publish.status().map(node_links).unwrap_or_default();
        let opened = dashboard::open_node(move || asked.about(), links, place, is_told);
        let (opened, url) = opened.await?;
        output::print(&format!("dashboard {url}\n"))?;
        // It is opened once.
        let _ = self.dashboard.set(url);
        Ok(opened)
    }
}

impl control::Asked for Asked {
    fn snapshot(&self, connections: usize) -> Snapshot {
        Snapshot::take(self.about(), connections)
    }

    fn dashboard(&self) -> Option<String> {
        self.dashboard.get().cloned()
    }
}

fn node_links(status: Status) -> NodeLinks {
    let (at, age) = (status.at, status.age());
    NodeLinks { links: status.links.into_iter().map(node_link).collect(), at, age }
}

fn node_link(link: LinkStatus) -> NodeLink {
    NodeLink {
        name: link.name,
        up: link.up,
        sent_bytes: link.counters.sent_bytes,
        received_bytes: link.counters.received_bytes,
        rtt: link.rtt,
    }
}

/// Runs a node on a thread of its own until a signal comes or it fails.
pub(super) fn run(
    shown: Shown,
    node: impl FnOnce(&Stop, &Publish) -> Result<(), TunnelError> + Send + 'static,
) -> Result<(), Failure> {
    let (stop, publish) = (Stop::new()?, Publish::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let signals = signals::Stop::on_signals()?;
        output::print(&shown.greeting)?;
        if let Some(address) = shown.metrics {
            let opened = metrics::open_with(Box::new(NodeMetrics(publish.clone())), address);
            output::print(&opened.await?)?;
        }
        let asked = Arc::new(Asked {
            kind: shown.kind,
            name: shown.kind.replace(' ', "-"),
            listening: shown.listening.iter().map(SocketAddr::to_string).collect(),
            began: Instant::now(),
            publish: publish.clone(),
            dashboard: OnceLock::new(),
        });
        let control = control::bind(&asked.name, shown.control.as_ref())?;
        let _dashboard = match &shown.dashboard {
            Some(place) => Some(asked.open_dashboard(place, control.is_some()).await?),
            None => None,
        };
        let _control = control.map(|bound| bound.answer(&asked));
        let (ended, end) = oneshot::channel();
        let thread = {
            let (stop, publish) = (stop.clone(), publish.clone());
            std::thread::Builder::new().name("node".to_owned()).spawn(move || {
                // Whoever waits for the end may have gone with the program.
                let _ = ended.send(node(&stop, &publish));
            })?
        };
        systemd::ready("running");
        let mut watched = Watched::default();
        let mut end = std::pin::pin!(end);
        let result = loop {
            tokio::select! {
                result = &mut end => break result,
                () = signals.nth(1), if !watched.stopping => {
                    watched.stopping = true;
                    systemd::stopping("stopping");
                    stop.stop();
                }
                () = tokio::time::sleep(watched.pause()) => watched.look(&shown, &publish)?,
            }
        };
        // The thread has said its result, or panicked, which the result below tells.
        let _ = thread.join();
        tracing::info!("stopped");
        result.map_err(|_| Failure::failed("the node's thread panicked"))?.map_err(Failure::from)
    })
}

/// What was seen of the node.
#[derive(Default)]
struct Watched {
    stopping: bool,
    last: Option<Status>,
    said: u64,
}

impl Watched {
    fn pause(&self) -> Duration {
        systemd::watchdog().map_or(SECOND, |time| (time / 2).min(SECOND))
    }

    fn look(&mut self, shown: &Shown, publish: &Publish) -> Result<(), Failure> {
        let Some(status) = publish.status() else { return Ok(()) };
        // A node that hangs says nothing, and its watchdog starts it anew.
        let alive = publish.updates() != self.said;
        self.said = publish.updates();
        if alive {
            let up = status.links.iter().filter(|link| link.up).count();
            let text = format!("{up} of {} links up", status.links.len());
            systemd::alive(systemd::watchdog().is_some(), Some(&text));
        }
        if shown.stats {
            output::print(&line(&status, self.last.as_ref()))?;
        }
        self.last = Some(status);
        Ok(())
    }
}

/// A line of statistics: links with their rates, then what was counted since the last line.
fn line(status: &Status, last: Option<&Status>) -> String {
    let since = last.map_or(SECOND, |last| status.at.since(last.at)).as_secs_f64();
    let mbps =
        |now: u64, before: u64| now.saturating_sub(before) as f64 * 8.0 / since.max(1e-3) / 1e6;
    let mut line = status.role.to_owned();
    for (index, link) in status.links.iter().enumerate() {
        let before = last.and_then(|last| last.links.get(index)).map(|link| link.counters);
        let before = before.unwrap_or_default();
        let _ = write!(
            line,
            "  {} {} {:.1}/{:.1} Mb/s",
            link.name,
            if link.up { "up" } else { "down" },
            mbps(link.counters.sent_bytes, before.sent_bytes),
            mbps(link.counters.received_bytes, before.received_bytes),
        );
        if let Some(rate) = link.rate {
            let _ = write!(line, " of {:.1}", rate.as_mbps_f64());
        }
        if let Some(rtt) = link.rtt {
            let _ = write!(line, " {:.1} ms", rtt.as_secs_f64() * 1e3);
        }
        let unsent = link.counters.unsent.by_reason().into_iter().zip(before.unsent.by_reason());
        for ((reason, now), (_, before)) in unsent.filter(|((_, now), (_, old))| now > old) {
            let _ = write!(line, " {reason} {}", now - before);
        }
        let swallowed = link.counters.swallowed.saturating_sub(before.swallowed);
        if swallowed > 0 {
            let _ = write!(line, " swallowed {swallowed}");
        }
    }
    for (index, device) in status.devices.iter().enumerate() {
        let before = last.and_then(|last| last.devices.get(index));
        device_part(device, before, mbps, &mut line);
    }
    // What is of each device stands there.
    let sums = status.counters.iter().filter(|counter| !counter.name.starts_with("bytes_"));
    for counter in sums {
        let before = last.and_then(|last| last.counters.iter().find(|c| c.name == counter.name));
        let new = counter.value.saturating_sub(before.map_or(0, |before| before.value));
        if new > 0 {
            let _ = write!(line, "  {} {new}", counter.name);
        }
    }
    for (name, value) in status.dropped.by_reason().into_iter().filter(|(_, value)| *value > 0) {
        let _ = write!(line, "  {name} {value}");
    }
    line + "\n"
}

/// What a line says of a device, where it has no link of its own: at the gateway.
fn device_part(
    device: &DeviceStatus,
    before: Option<&DeviceStatus>,
    mbps: impl Fn(u64, u64) -> f64,
    line: &mut String,
) {
    let bytes = |of: &DeviceStatus, name| {
        of.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    };
    let new = |name| {
        let before = before.and_then(|before| bytes(before, name)).unwrap_or(0);
        Some(mbps(bytes(device, name)?, before))
    };
    let (Some(down), Some(up)) = (new("bytes_down"), new("bytes_up")) else { return };
    let state = if device.up { "up" } else { "down" };
    let _ = write!(line, "  {} {state} {down:.1}/{up:.1} Mb/s", device.name);
    if !device.through.is_empty() {
        let _ = write!(line, " through {}", device.through.join("+"));
    }
}

#[cfg(test)]
mod tests {
    use weftline_core::Instant;
    use weftline_tunnel::{Dropped, LinkCounters, Unsent};

    use super::*;

    fn status(counters: LinkCounters) -> Status {
        let link = LinkStatus {
            name: "wifi".to_owned(),
            up: true,
            address: None,
            rtt: None,
            rate: None,
            lag: None,
            wrong: 0,
            counters,
        };
        Status {
            at: Instant::ZERO,
            role: "ap",
            links: vec![link],
            dropped: Dropped::default(),
            counters: Vec::new(),
            waiting: 0,
            devices: Vec::new(),
        }
    }

    #[test]
    fn what_was_not_sent_or_not_heard_of_is_in_the_line_while_it_is_new() {
        let before = status(LinkCounters { swallowed: 4, ..LinkCounters::default() });
        let unsent = Unsent { no_room: 2, ..Unsent::default() };
        let now = status(LinkCounters { swallowed: 7, unsent, ..LinkCounters::default() });
        let text = "ap  wifi up 0.0/0.0 Mb/s";
        assert_eq!(line(&now, Some(&before)), format!("{text} no_room 2 swallowed 3\n"));
        assert_eq!(line(&now, Some(&now)), format!("{text}\n"));
    }

    #[test]
    fn rates_are_over_the_time_between_what_the_node_said() {
        let counters = |sent_bytes| LinkCounters { sent_bytes, ..LinkCounters::default() };
        let before = Status { at: Instant::from_millis(5000), ..status(counters(1_000_000)) };
        // A second has passed, and the node said it 200 ms earlier.
        let now = Status { at: Instant::from_millis(5800), ..status(counters(2_000_000)) };
        assert_eq!(line(&now, Some(&before)), "ap  wifi up 10.0/0.0 Mb/s\n");
    }
}
