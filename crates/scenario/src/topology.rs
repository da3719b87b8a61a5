//! What lies before the paths: a link that all of them share, and a gateway with access points.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};

use crate::document::{Table, Value};
use crate::{PathSpec, ScenarioError, UnknownName};

/// An IP packet of full size, in bytes, unless the scenario says otherwise.
pub(crate) const PACKET_BYTES: u64 = 1500;

/// The room before a link that is not meant to bind, in bytes.
const WIDE_QUEUE: ByteCount = ByteCount::mib(32);

/// The rate of such a link unless the scenario says otherwise.
const WIDE_RATE: Bitrate = Bitrate::mbps(10_000);

/// From the gateway to an access point, and back.
const ACCESS_POINT_DELAY: Duration = Duration::from_micros(100);

/// How long a cohort may last, as at the real nodes.
const INTERVALS: RangeInclusive<Duration> = Duration::from_micros(200)..=Duration::from_millis(200);

/// What a node of COTAG holds unless the scenario says otherwise: four cohorts of 10 ms at 1.2 Gb/s, in
/// packets of any size. As many packets of 128 bytes as of 1500 would be a third of one cohort.
const BUFFER_BYTES: u64 = 4096 * PACKET_BYTES;

/// A link that carries everything in both directions: `[backend]` before all paths, and the one
/// between gateway and access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideLink {
    /// Its rate, the same in both directions.
    pub rate: Bitrate,
    /// One-way delay, the same in both directions.
    pub delay: Duration,
}

/// `topology = "gateway-aps"`: each path is gateway – access point – device, and the scenario's
/// rate, delay, queue and loss are those of the radio (COTAG Fig. 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayAps {
    /// Between the gateway and each access point.
    pub link: WideLink,
    /// Settings of the schemes `cotag` and `cotag-dense`.
    pub cotag: CotagSpec,
}

/// How the nodes of COTAG are set: `[cotag]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CotagSpec {
    /// T.
    pub interval: Duration,
    /// The most packets of a generation, G.
    pub generation: u8,
    /// The most redundant packets of a cohort at the gateway, in percent of its packets; `None` if
    /// the share is learned from losses.
    pub redundancy_percent: Option<u32>,
    /// The most packets that a node holds.
    pub buffer_packets: usize,
    /// Whether packets go on as they come instead of an interval later (systematic mode only).
    pub cut_through: bool,
    /// The path of the return direction; the first one unless named.
    pub uplink: Option<String>,
    /// Whether headers, coefficients and the tunnel's own bytes count on the links.
    pub overhead: bool,
    /// Whether access points combine anew what they received.
    pub recoding: bool,
    /// Whether access points drop what they could not send in its cohort's time; usual without
    /// `pacing`, as in the paper. What is paced goes late instead.
    pub giving: bool,
    /// Whether the gateway holds each link to what its access point tells that the radio carries.
    pub pacing: bool,
    /// Whether packets wait in a queue at the gateway until the links have room for them.
    pub queue: bool,
    /// The target of that queue's CoDel.
    pub queue_target: Duration,
    /// CoDel's interval there.
    pub queue_interval: Duration,
    /// The most packets of 1500 bytes in that queue; of others as many bytes.
    pub queue_packets: usize,
    /// Whether packets may wait there longer than the target by as much as a link lags behind others.
    pub lag_allowance: bool,
    /// Whether they may for some seconds while a link is gone that carried much.
    pub gone_allowance: bool,
    /// Whether what was lost with a link that is gone calls for no redundancy.
    pub forget_losses: bool,
}

impl WideLink {
    /// The link of one direction.
    pub fn config(&self) -> LinkConfig {
        LinkConfig {
            rate: RateTrace::constant(self.rate),
            delay: self.delay,
            jitter: Duration::ZERO,
            queue: QueueLimit::Bytes(WIDE_QUEUE),
            loss: LossModel::None,
        }
    }

    /// Reads a table with `rate` and `delay`, both of which may be left out.
    pub(crate) fn read(value: Option<Value<'_>>, delay: Duration) -> Result<Self, ScenarioError> {
        let Some(value) = value else { return Ok(Self { rate: WIDE_RATE, delay }) };
        let mut table = value.table()?;
        let rate = match table.take("rate") {
            None => WIDE_RATE,
            Some(rate) => match rate.quantity()? {
                Bitrate::ZERO => {
                    return Err(
                        rate.error("a rate of zero carries nothing; leave it out for 10 Gb/s")
                    );
                }
                other => other,
            },
        };
        let link = Self { rate, delay: table.duration_or("delay", delay)? };
        table.finish()?;
        Ok(link)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let delay = humantime::format_duration(self.delay);
        writeln!(f, "\n[{name}]\nrate = \"{}\"\ndelay = \"{delay}\"", self.rate)
    }
}

impl GatewayAps {
    /// Reads `topology`, `[gateway]` and `[cotag]`; `None` if each path is one link.
    pub(crate) fn read(
        table: &mut Table<'_>,
        paths: &[PathSpec],
        packet_bytes: u64,
    ) -> Result<Option<Self>, ScenarioError> {
        let topology = table.take("topology");
        let (gateway, cotag) = (table.take("gateway"), table.take("cotag"));
        match topology {
            Some(topology) if topology.text()? == "gateway-aps" => {
                let link = WideLink::read(gateway, ACCESS_POINT_DELAY)?;
                if let Some(path) = paths.iter().find(|path| path.shares.is_some()) {
                    let message =
                        format!("path '{}' shares links, as no access point does", path.name);
                    return Err(topology.error(message));
                }
                Ok(Some(Self { link, cotag: CotagSpec::read(cotag, paths, packet_bytes)? }))
            }
            Some(topology) => {
                let text = topology.text()?;
                Err(topology.error(format!("there is no '{text}'; known: gateway-aps")))
            }
            None => match gateway.or(cotag) {
                Some(value) => Err(value.error("wants topology = \"gateway-aps\" as well")),
                None => Ok(None),
            },
        }
    }
}

impl Default for CotagSpec {
    /// T of 10 ms, generations of 32, learned redundancy, room for 4096 packets of 1500 bytes; a queue with a target of 10 ms,
    /// and cut-through.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(10),
            generation: 32,
            redundancy_percent: None,
            buffer_packets: (BUFFER_BYTES / PACKET_BYTES) as usize,
            cut_through: true,
            uplink: None,
            overhead: true,
            recoding: true,
            giving: false,
            pacing: true,
            queue: true,
            queue_target: Duration::from_millis(10),
            queue_interval: Duration::from_millis(300),
            queue_packets: 10_240,
            lag_allowance: true,
            gone_allowance: true,
            forget_losses: true,
        }
    }
}

impl CotagSpec {
    fn read(
        value: Option<Value<'_>>,
        paths: &[PathSpec],
        packet_bytes: u64,
    ) -> Result<Self, ScenarioError> {
        let buffer_packets = (BUFFER_BYTES / packet_bytes) as usize;
        let usual = Self { buffer_packets, ..Self::default() };
        let Some(value) = value else { return Ok(usual) };
        let mut table = value.table()?;
        let whole = |value: Option<Value<'_>>, low, high, usual: u64| {
            value.map_or(Ok(usual), |value| value.whole(low, high))
        };
        let interval = match table.take("interval") {
            None => usual.interval,
            Some(value) => match value.duration()? {
                interval if INTERVALS.contains(&interval) => interval,
                _ => {
                    return Err(
                        value.error("a cohort lasts 200us to 200ms; write for example \"2ms\"")
                    );
                }
            },
        };
        let generation = whole(table.take("generation"), 1, 255, usual.generation.into())?;
        let redundancy = match table.take("redundancy") {
            Some(value) if !value.text().is_ok_and(|text| text == "learned") => {
                Some(value.whole(0, 10_000)? as u32)
            }
            _ => None,
        };
        let buffer = whole(table.take("buffer"), 1, 1 << 20, usual.buffer_packets as u64)?;
        let boolean =
            |value: Option<Value<'_>>, usual| value.map_or(Ok(usual), |value| value.boolean());
        let cut_through = boolean(table.take("cut_through"), usual.cut_through)?;
        let overhead = boolean(table.take("overhead"), usual.overhead)?;
        let recoding = boolean(table.take("recoding"), usual.recoding)?;
        let queue = boolean(table.take("queue"), usual.queue)?;
        // The paper's gateway has neither.
        let pacing = boolean(table.take("pacing"), queue)?;
        let giving = boolean(table.take("giving"), !pacing)?;
        let queue_target = table.duration_or("queue_target", usual.queue_target)?;
        let queue_interval = table.duration_or("queue_interval", usual.queue_interval)?;
        let queue_packets =
            whole(table.take("queue_packets"), 1, 1 << 20, usual.queue_packets as u64)?;
        let lag_allowance = boolean(table.take("lag_allowance"), usual.lag_allowance)?;
        let gone_allowance = boolean(table.take("gone_allowance"), usual.gone_allowance)?;
        let forget_losses = boolean(table.take("forget_losses"), usual.forget_losses)?;
        let uplink = table.take("uplink").map(|value| read_uplink(&value, paths)).transpose()?;
        table.finish()?;
        Ok(Self {
            interval,
            generation: generation as u8,
            redundancy_percent: redundancy,
            buffer_packets: buffer as usize,
            cut_through,
            uplink,
            overhead,
            recoding,
            giving,
            pacing,
            queue,
            queue_target,
            queue_interval,
            queue_packets: queue_packets as usize,
            lag_allowance,
            gone_allowance,
            forget_losses,
        })
    }
}

fn read_uplink(value: &Value<'_>, paths: &[PathSpec]) -> Result<String, ScenarioError> {
    let text = value.text()?;
    if paths.iter().any(|path| path.name == text) {
        return Ok(text.to_owned());
    }
    let known: Vec<_> = paths.iter().map(|path| path.name.as_str()).collect();
    Err(value.error(UnknownName { kind: "path", text: text.to_owned(), known: known.join(", ") }))
}

/// As the tables of a scenario file.
impl fmt::Display for GatewayAps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.link.write(f, "gateway")?;
        let CotagSpec { interval, generation, redundancy_percent, buffer_packets, .. } =
            &self.cotag;
        let CotagSpec { cut_through, uplink, overhead, .. } = &self.cotag;
        writeln!(f, "\n[cotag]\ninterval = \"{}\"", humantime::format_duration(*interval))?;
        writeln!(f, "generation = {generation}")?;
        match redundancy_percent {
            Some(percent) => writeln!(f, "redundancy = {percent}")?,
            None => writeln!(f, "redundancy = \"learned\"")?,
        }
        writeln!(f, "buffer = {buffer_packets}\ncut_through = {cut_through}")?;
        writeln!(f, "overhead = {overhead}")?;
        let CotagSpec { recoding, giving, pacing, .. } = &self.cotag;
        writeln!(f, "recoding = {recoding}\ngiving = {giving}\npacing = {pacing}")?;
        let CotagSpec { queue, queue_target, queue_interval, queue_packets, .. } = &self.cotag;
        let queue_target = humantime::format_duration(*queue_target);
        writeln!(f, "queue = {queue}\nqueue_target = \"{queue_target}\"")?;
        let queue_interval = humantime::format_duration(*queue_interval);
        writeln!(f, "queue_interval = \"{queue_interval}\"\nqueue_packets = {queue_packets}")?;
        writeln!(f, "lag_allowance = {}", self.cotag.lag_allowance)?;
        writeln!(f, "gone_allowance = {}", self.cotag.gone_allowance)?;
        writeln!(f, "forget_losses = {}", self.cotag.forget_losses)?;
        uplink.as_ref().map_or(Ok(()), |uplink| writeln!(f, "uplink = \"{uplink}\""))
    }
}

/// As `[backend]` of a scenario file.
impl fmt::Display for WideLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "backend")
    }
}
