//! A path of a scenario, and the links that both backends make of it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};

use crate::document::{Table, Value};
use crate::rate::{Load, RateSpec};
use crate::{Congestion, ScenarioError, Unplugged};

/// The least a queue sized by the bandwidth-delay product holds: two full packets.
const MIN_BDP_QUEUE: ByteCount = ByteCount::new(2 * 1500);

/// The least rate of a return direction that the scenario says nothing about.
const MIN_UP_RATE: Bitrate = Bitrate::mbps(1000);

/// A path between server and client. The data direction, server to client, is "down".
#[derive(Clone, Debug, PartialEq)]
pub struct PathSpec {
    /// Its name, unique in the scenario.
    pub name: String,
    /// The rate of the data direction.
    pub rate: RateSpec,
    /// One-way delay of the data direction.
    pub delay: Duration,
    /// Standard deviation of that delay.
    pub jitter: Duration,
    /// The queue of the data direction.
    pub queue: QueueSpec,
    /// Loss in the data direction.
    pub loss: LossModel,
    /// The return direction.
    pub up: UpSpec,
    /// The congestion control of every connection over it, in place of the run's. It is one that
    /// looks at no other subflow.
    pub congestion: Option<Congestion>,
    /// When its interface is not there, in order and apart; simulator only.
    pub unplugged: Vec<Unplugged>,
    /// The path whose links this one's packets go through as well, so that both share a
    /// bottleneck; all other fields but the name and the control are then that path's. Such a path comes earlier
    /// and shares nothing itself.
    pub shares: Option<String>,
}

/// The return direction of a path, client to server.
#[derive(Clone, Debug, PartialEq)]
pub struct UpSpec {
    /// Its rate; by default 1 Gb/s or the path's mean rate, whichever is larger.
    pub rate: Option<RateSpec>,
    /// One-way delay; by default the path's.
    pub delay: Duration,
    /// Standard deviation of the delay; by default none.
    pub jitter: Duration,
    /// The queue; by default one bandwidth-delay product.
    pub queue: QueueSpec,
    /// Loss; by default none.
    pub loss: LossModel,
}

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSpec {
    /// So many times the mean rate × the base round-trip time, at least two packets: `"1bdp"`.
    Bdp(f64),
    /// Bytes: `"512KiB"`.
    Bytes(ByteCount),
    /// Packets: `"200packets"`.
    Packets(u64),
}

impl PathSpec {
    /// The round-trip time of an idle path, without serialisation.
    pub fn base_rtt(&self) -> Duration {
        self.delay + self.up.delay
    }

    /// The rate of the data direction over time.
    pub fn down_trace(&self, seed: u64, duration: Duration) -> RateTrace {
        self.rate.trace(seed, &format!("{}/down/trace", self.name), duration)
    }

    /// The link of the data direction. A generated trace is `duration` long; give the link itself
    /// the name `"{path}/down"`.
    pub fn down_link(&self, seed: u64, duration: Duration) -> LinkConfig {
        self.down_link_behind(Duration::ZERO, seed, duration)
    }

    /// The same where packets travel for `before` more, there and back, over other links.
    pub(crate) fn down_link_behind(
        &self,
        before: Duration,
        seed: u64,
        duration: Duration,
    ) -> LinkConfig {
        let rate = self.down_trace(seed, duration);
        LinkConfig {
            queue: self.queue.resolve(rate.mean(), self.base_rtt() + before),
            rate,
            delay: self.delay,
            jitter: self.jitter,
            loss: self.loss.clone(),
        }
    }

    /// The link of the return direction; its name is `"{path}/up"`.
    pub fn up_link(&self, seed: u64, duration: Duration) -> LinkConfig {
        self.up_link_behind(Duration::ZERO, seed, duration)
    }

    /// The same where packets travel for `before` more, there and back, over other links.
    pub(crate) fn up_link_behind(
        &self,
        before: Duration,
        seed: u64,
        duration: Duration,
    ) -> LinkConfig {
        let rate = match &self.up.rate {
            Some(rate) => rate.trace(seed, &format!("{}/up/trace", self.name), duration),
            None => {
                let mean = self.down_trace(seed, duration).mean();
                RateTrace::constant(mean.max(MIN_UP_RATE))
            }
        };
        LinkConfig {
            queue: self.up.queue.resolve(rate.mean(), self.base_rtt() + before),
            rate,
            delay: self.up.delay,
            jitter: self.up.jitter,
            loss: self.up.loss.clone(),
        }
    }

    /// The name of the link objects in the data direction, and with `up` in the return direction:
    /// paths that share a bottleneck have one and the same.
    pub fn link_name(&self) -> &str {
        self.shares.as_deref().unwrap_or(&self.name)
    }

    /// Reads a `[[path]]` table, which comes after those of `earlier` paths. Without a `loss` of its
    /// own the path has `usual_loss`.
    pub(crate) fn read(
        mut table: Table<'_>,
        earlier: &[Self],
        usual_loss: &LossModel,
        load: Load,
    ) -> Result<Self, ScenarioError> {
        let name = table.need("name", "name = \"wifi\"")?;
        check_name(&name)?;
        if let Some(shares) = table.take("shares") {
            let mut path = Self::sharing(&name, &shares, earlier)?;
            path.congestion = read_congestion(&mut table)?;
            table.finish()?;
            return Ok(path);
        }
        let rate = RateSpec::read(&mut table, load)?;
        let rate = rate.ok_or_else(|| {
            let instead = table.mistyped("rate") + &table.mistyped("trace");
            let needs = format!("a path needs a rate or a trace{instead}");
            table.error(format!("{needs}; write for example rate = \"476Mbps\""))
        })?;
        let delay = table.duration_or("delay", Duration::ZERO)?;
        let path = Self {
            name: name.text()?.to_owned(),
            rate,
            delay,
            jitter: table.duration_or("jitter", Duration::ZERO)?,
            queue: read_queue(&mut table)?,
            loss: read_loss(&mut table)?.unwrap_or_else(|| usual_loss.clone()),
            congestion: read_congestion(&mut table)?,
            unplugged: Unplugged::read(&mut table)?,
            up: match table.take("up") {
                Some(up) => UpSpec::read(up.table()?, delay, load)?,
                None => UpSpec::like(delay),
            },
            shares: None,
        };
        table.finish()?;
        Ok(path)
    }

    /// A path over the links of an earlier one.
    fn sharing(
        name: &Value<'_>,
        shares: &Value<'_>,
        earlier: &[Self],
    ) -> Result<Self, ScenarioError> {
        let other = shares.text()?;
        let own = earlier.iter().filter(|path| path.shares.is_none());
        match own.clone().find(|path| path.name == other) {
            Some(path) => Ok(Self {
                name: name.text()?.to_owned(),
                shares: Some(other.to_owned()),
                ..path.clone()
            }),
            None => {
                let known: Vec<_> = own.map(|path| path.name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(shares.error(format!(
                    "'{other}' is not an earlier path with links of its own; there are: {known}"
                )))
            }
        }
    }
}

impl UpSpec {
    /// The default for a path of that delay.
    fn like(delay: Duration) -> Self {
        Self {
            rate: None,
            delay,
            jitter: Duration::ZERO,
            queue: QueueSpec::Bdp(1.0),
            loss: LossModel::None,
        }
    }

    fn read(mut table: Table<'_>, delay: Duration, load: Load) -> Result<Self, ScenarioError> {
        let up = Self {
            rate: RateSpec::read(&mut table, load)?,
            delay: table.duration_or("delay", delay)?,
            jitter: table.duration_or("jitter", Duration::ZERO)?,
            queue: read_queue(&mut table)?,
            loss: read_loss(&mut table)?.unwrap_or(LossModel::None),
        };
        table.finish()?;
        Ok(up)
    }
}

/// A name that goes into file names, table cells and scheme names as it is.
pub(crate) fn check_name(value: &Value<'_>) -> Result<(), ScenarioError> {
    let name = value.text()?;
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
        let message = "wants 1 to 64 of a–z, 0–9, '-' and '_', like \"wifi\"";
        return Err(value.error(message));
    }
    Ok(())
}

fn read_congestion(table: &mut Table<'_>) -> Result<Option<Congestion>, ScenarioError> {
    let Some(value) = table.take("congestion") else { return Ok(None) };
    let congestion: Congestion = value.parse()?;
    if congestion.is_coupled() {
        let message = "looks at a connection's other paths, so it is all of theirs or none's; set \
                       it with --congestion, or take another";
        return Err(value.error(message));
    }
    Ok(Some(congestion))
}

fn read_queue(table: &mut Table<'_>) -> Result<QueueSpec, ScenarioError> {
    table.take("queue").map_or(Ok(QueueSpec::Bdp(1.0)), |value| value.quantity())
}

/// Reads `loss`: a probability, a schedule of them, or a table: a list of packet numbers or the four
/// numbers of a Gilbert–Elliott chain. `None` if the table does not say.
pub(crate) fn read_loss(table: &mut Table<'_>) -> Result<Option<LossModel>, ScenarioError> {
    let Some(value) = table.take("loss") else { return Ok(None) };
    if value.is_table() {
        return read_loss_table(value.table()?).map(Some);
    }
    if value.is_array() {
        return read_schedule(value).map(Some);
    }
    Ok(Some(match value.number(0.0, 1.0)? {
        0.0 => LossModel::None,
        probability => LossModel::Bernoulli(probability),
    }))
}

fn read_loss_table(mut table: Table<'_>) -> Result<LossModel, ScenarioError> {
    if let Some(nth) = table.take("nth") {
        let numbers = nth.array()?.iter().map(Value::packet_number).collect::<Result<_, _>>()?;
        table.finish()?;
        return Ok(LossModel::Nth(numbers));
    }
    let mut probability = |key: &'static str, example: &str| {
        table.need(key, example).and_then(|value| value.number(0.0, 1.0))
    };
    let loss = LossModel::GilbertElliott {
        good_to_bad: probability("good_to_bad", "good_to_bad = 0.01")?,
        bad_to_good: probability("bad_to_good", "bad_to_good = 0.2")?,
        loss_good: probability("loss_good", "loss_good = 0.0")?,
        loss_bad: probability("loss_bad", "loss_bad = 0.5")?,
    };
    table.finish()?;
    Ok(loss)
}

fn read_schedule(value: Value<'_>) -> Result<LossModel, ScenarioError> {
    let mut changes: Vec<(Duration, f64)> = Vec::new();
    for item in value.array()? {
        let mut table = item.table()?;
        let at = table.need("at", "at = \"31s\"")?;
        let time = at.duration()?;
        if changes.last().is_some_and(|(before, _)| time <= *before) {
            return Err(at.error("times of a schedule must rise"));
        }
        changes.push((time, table.need("rate", "rate = 0.01")?.number(0.0, 1.0)?));
        table.finish()?;
    }
    Ok(LossModel::Schedule(changes))
}

impl QueueSpec {
    /// The limit for a link of that mean rate and base round-trip time.
    pub fn resolve(self, mean: Bitrate, base_rtt: Duration) -> QueueLimit {
        match self {
            Self::Bdp(factor) => {
                let bytes = mean.bytes_in(base_rtt).as_u64() as f64 * factor;
                QueueLimit::Bytes(ByteCount::new(bytes as u64).max(MIN_BDP_QUEUE))
            }
            Self::Bytes(bytes) => QueueLimit::Bytes(bytes),
            Self::Packets(packets) => QueueLimit::Packets(packets),
        }
    }
}

/// A text that is no queue size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no queue size; write \"1bdp\", \"200packets\" or \"512KiB\"")]
pub struct QueueError(String);

impl FromStr for QueueSpec {
    type Err = QueueError;

    fn from_str(text: &str) -> Result<Self, QueueError> {
        let queue = if let Some(factor) = text.strip_suffix("bdp") {
            let factor = factor.trim().parse().ok().filter(|f| (0.001..=1000.0).contains(f));
            factor.map(Self::Bdp)
        } else if let Some(count) = text.strip_suffix("packets") {
            count.trim().parse().ok().filter(|&count| count > 0).map(Self::Packets)
        } else {
            text.parse().ok().filter(|&bytes| bytes > ByteCount::ZERO).map(Self::Bytes)
        };
        queue.ok_or_else(|| QueueError(text.to_owned()))
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bdp(factor) => write!(f, "{factor}bdp"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Packets(packets) => write!(f, "{packets}packets"),
        }
    }
}

/// As the TOML table of a `[[path]]`.
impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = humantime::format_duration;
        writeln!(f, "[[path]]\nname = \"{}\"", self.name)?;
        if let Some(congestion) = self.congestion {
            writeln!(f, "congestion = \"{congestion}\"")?;
        }
        if let Some(shares) = &self.shares {
            return writeln!(f, "shares = \"{shares}\"");
        }
        writeln!(f, "{}", self.rate)?;
        writeln!(f, "delay = \"{}\"", duration(self.delay))?;
        writeln!(f, "jitter = \"{}\"", duration(self.jitter))?;
        writeln!(f, "queue = \"{}\"", self.queue)?;
        writeln!(f, "loss = {}", LossToml(&self.loss))?;
        if !self.unplugged.is_empty() {
            let times: Vec<String> = self.unplugged.iter().map(ToString::to_string).collect();
            writeln!(f, "unplugged = [{}]", times.join(", "))?;
        }
        let up = &self.up;
        write!(f, "up = {{ ")?;
        if let Some(rate) = &up.rate {
            write!(f, "{rate}, ")?;
        }
        write!(f, "delay = \"{}\", jitter = \"{}\"", duration(up.delay), duration(up.jitter))?;
        writeln!(f, ", queue = \"{}\", loss = {} }}", up.queue, LossToml(&up.loss))
    }
}

/// A loss model as the TOML value that [`read_loss`] reads.
struct LossToml<'a>(&'a LossModel);

impl fmt::Display for LossToml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LossModel::None => write!(f, "0.0"),
            LossModel::Bernoulli(probability) => write!(f, "{probability:?}"),
            LossModel::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => write!(
                f,
                "{{ good_to_bad = {good_to_bad:?}, bad_to_good = {bad_to_good:?}, \
                 loss_good = {loss_good:?}, loss_bad = {loss_bad:?} }}"
            ),
            LossModel::Schedule(changes) => {
                let change = |(at, rate): &(Duration, f64)| {
                    format!("{{ at = \"{}\", rate = {rate:?} }}", humantime::format_duration(*at))
                };
                write!(f, "[{}]", changes.iter().map(change).collect::<Vec<_>>().join(", "))
            }
            LossModel::Nth(numbers) => write!(f, "{{ nth = {numbers:?} }}"),
        }
    }
}
