//! The options of the three nodes, and what is made of them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;
use weftline_tunnel::{
    AccessPoint, AccessPointConfig, Device, DeviceConfig, Gateway, GatewayConfig, Prefix,
    PublicKey, QueueConfig, Redundancy, Scheme, SecretKey, Sending, TunConfig, TunnelError, Uplink,
    Via,
};

use super::peers::{DeviceAp, DeviceEntry, GatewayAp, devices, parse_pace, resolve};
use super::run::{Shown, run};
use crate::daemon::{parse_duration, warn_plaintext};
use crate::failure::Failure;
use crate::ops::DashboardPlace;
use crate::ops::control::Control;
use crate::ops::log::{self, Format};
use crate::{config, secrets};

/// The name of the TUN device if none is given.
const TUN: &str = "cotag0";

/// Options of `cotag gateway`, and the keys of its configuration file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct GatewayArgs {
    /// This node's secret key, as `weftline cotag key FILE` makes it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Where access points reach it (UDP), such as 0.0.0.0:7100
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// An access point: NAME=KEY[,rate=RATE] with its public key and what the link to it carries,
    /// such as mmwave=public:…,rate=1Gbps (auto: it is measured); repeat for each. In a file:
    /// [[ap]] tables
    #[arg(long, value_name = "NAME=KEY")]
    #[serde(skip)]
    ap: Vec<String>,
    #[arg(skip)]
    #[serde(rename = "ap")]
    aps: Vec<GatewayAp>,
    /// The only device's public key: only it can read what is sent, not the access points
    #[arg(long, value_name = "public:HEX")]
    device_key: Option<String>,
    /// One of several devices: NAME=KEY,address=PREFIX with its public key and its address in the
    /// tunnel, such as tablet=public:…,address=10.9.0.3; more addresses, and networks behind it, as
    /// further address=. Repeat for each. In a file: [[device]] tables
    #[arg(long, value_name = "NAME=KEY")]
    #[serde(skip)]
    device: Vec<String>,
    #[arg(skip)]
    #[serde(rename = "device")]
    devices: Vec<DeviceEntry>,
    /// The name of the TUN device [default: cotag0]
    #[arg(long, value_name = "NAME")]
    tun: Option<String>,
    /// An address of the TUN device with its prefix, such as 10.9.0.1/24; repeat for each
    #[arg(long, value_name = "PREFIX")]
    address: Vec<String>,
    /// Send packets as they are, each once over whichever link has room, without coding
    #[arg(
        long,
        conflicts_with_all = ["dense", "queue_target", "queue_interval", "queue_packets"],
        hide_short_help = true
    )]
    plain: bool,
    /// Send combinations only, not packets as they are first
    #[arg(long, hide_short_help = true)]
    dense: bool,
    /// Hold packets back until their interval is over, as COTAG does; without, they go on as they
    /// come, and only what is redundant waits
    #[arg(long, conflicts_with = "plain", hide_short_help = true)]
    store_and_forward: bool,
    /// T: packets that come within it are coded together [default: 10ms]
    #[arg(long, value_name = "DURATION")]
    interval: Option<String>,
    /// The most packets of a generation, G; each costs a byte in every packet [default: 32]
    #[arg(long, value_name = "PACKETS", conflicts_with = "plain", hide_short_help = true)]
    generation: Option<u8>,
    /// The redundant packets: learned (as many as the device's losses call for, and no more than the
    /// others), or the most of them in percent of the others, sent where there is room
    /// [default: learned]
    #[arg(long, value_name = "PERCENT", conflicts_with = "plain", hide_short_help = true)]
    redundancy: Option<RedundancyArg>,
    /// How long packets may wait in the gateway's queue for long: CoDel's target [default: 10ms]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    queue_target: Option<String>,
    /// The time within which they must have come below it: CoDel's interval [default: 300ms]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    queue_interval: Option<String>,
    /// The most packets of 1500 bytes that wait in it; of others as many bytes [default: 10240]
    #[arg(long, value_name = "PACKETS", hide_short_help = true)]
    queue_packets: Option<usize>,
    /// No queue, as COTAG has it: what links cannot carry within an interval is given away
    #[arg(
        long,
        conflicts_with_all = ["plain", "queue_target", "queue_interval", "queue_packets"],
        hide_short_help = true
    )]
    no_queue: bool,
    /// The most packets that each node holds [default: 4096]
    #[arg(long, value_name = "PACKETS", hide_short_help = true)]
    buffer: Option<u32>,
    /// The least MTU of all links between nodes [default: 1500]
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    link_mtu: Option<u16>,
    /// No encryption, and no authentication but of handshakes: for measurements on networks of
    /// your own; at all nodes or none
    #[arg(long, hide_short_help = true)]
    insecure_plaintext: bool,
    /// Print a line of statistics a second
    #[arg(long)]
    stats: bool,
    /// Where `weftline status` can ask how the node is, or none [default: a socket in
    /// $RUNTIME_DIRECTORY, or in /run/weftline for root, else in $XDG_RUNTIME_DIR/weftline]
    #[arg(long, value_name = "PATH|none", hide_short_help = true)]
    control: Option<Control>,
    /// Where Prometheus can fetch metrics over HTTP, such as 127.0.0.1:9472: no authentication
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// A dashboard for browsers at this address, such as 127.0.0.1:9480
    ///
    /// The node prints the address to open, which has a token. Beyond this machine it is refused
    /// without --behind-proxy.
    #[arg(long, value_name = "ADDR")]
    dashboard: Option<SocketAddr>,
    /// The name under which a proxy with TLS offers the dashboard, such as weft.example
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    #[serde(deserialize_with = "config::one_or_many")]
    behind_proxy: Vec<String>,
    /// What a line of the log looks like [default: text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, hide_short_help = true)]
    log_format: Option<Format>,
    /// What is logged: off, error, warn, info, debug, trace, or directives like those of RUST_LOG
    /// [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
    /// A TOML file with any of these options by their long names
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
}

/// A share of redundant packets: `learned`, or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub(crate) enum RedundancyArg {
    Learned,
    Percent(u32),
}

impl std::str::FromStr for RedundancyArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "learned" => Ok(Self::Learned),
            percent => percent.parse().map(Self::Percent).map_err(|_| {
                format!("'{text}' is no share of redundant packets; give learned, or a percentage")
            }),
        }
    }
}

/// As in a file: a number, or a text.
impl TryFrom<toml::Value> for RedundancyArg {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        match value {
            toml::Value::String(text) => text.parse(),
            other => other.to_string().parse(),
        }
    }
}

/// Options of `cotag ap`, and the keys of its configuration file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ApArgs {
    /// This node's secret key, as `weftline cotag key FILE` makes it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Where the gateway is, such as gateway.example:7100
    #[arg(long, value_name = "ADDR")]
    gateway: Option<String>,
    /// The gateway's public key
    #[arg(long, value_name = "public:HEX")]
    gateway_key: Option<String>,
    /// The interface or local address to reach the gateway through [default: the system's choice]
    #[arg(long, value_name = "VIA")]
    gateway_via: Option<String>,
    /// Where devices reach it (UDP), such as 0.0.0.0:7200
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// The only device's public key
    #[arg(long, value_name = "public:HEX")]
    device_key: Option<String>,
    /// One of several devices: NAME=KEY with its public key; it may be elsewhere. Repeat for each. In
    /// a file: [[device]] tables
    #[arg(long, value_name = "NAME=KEY")]
    #[serde(skip)]
    device: Vec<String>,
    #[arg(skip)]
    #[serde(rename = "device")]
    devices: Vec<DeviceEntry>,
    /// What the link to the devices carries, such as 300Mbps, which they share, or auto: it is measured
    /// all the time, for each [default: as much as its interface takes]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// No encryption, and no authentication but of handshakes: for measurements on networks of
    /// your own; at all nodes or none
    #[arg(long, hide_short_help = true)]
    insecure_plaintext: bool,
    /// Print a line of statistics a second
    #[arg(long)]
    stats: bool,
    /// Where `weftline status` can ask how the node is, or none [default: a socket in
    /// $RUNTIME_DIRECTORY, or in /run/weftline for root, else in $XDG_RUNTIME_DIR/weftline]
    #[arg(long, value_name = "PATH|none", hide_short_help = true)]
    control: Option<Control>,
    /// Where Prometheus can fetch metrics over HTTP, such as 127.0.0.1:9472: no authentication
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// A dashboard for browsers at this address, such as 127.0.0.1:9480
    ///
    /// The node prints the address to open, which has a token. Beyond this machine it is refused
    /// without --behind-proxy.
    #[arg(long, value_name = "ADDR")]
    dashboard: Option<SocketAddr>,
    /// The name under which a proxy with TLS offers the dashboard, such as weft.example
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    #[serde(deserialize_with = "config::one_or_many")]
    behind_proxy: Vec<String>,
    /// What a line of the log looks like [default: text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, hide_short_help = true)]
    log_format: Option<Format>,
    /// What is logged: off, error, warn, info, debug, trace, or directives like those of RUST_LOG
    /// [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
    /// A TOML file with any of these options by their long names
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
}

/// Which access point packets go up over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UplinkArg {
    /// The one with the least round-trip time to the gateway
    Lowest,
    /// All; the gateway takes the first copy
    Both,
}

/// Options of `cotag device`, and the keys of its configuration file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DeviceArgs {
    /// This node's secret key, as `weftline cotag key FILE` makes it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// An access point: NAME=ADDR,key=KEY[,via=INTERFACE] with its public key and the interface or
    /// local address to reach it through; repeat for each. In a file: [[ap]] tables
    #[arg(long, value_name = "NAME=ADDR,key=KEY")]
    #[serde(skip)]
    ap: Vec<String>,
    #[arg(skip)]
    #[serde(rename = "ap")]
    aps: Vec<DeviceAp>,
    /// The gateway's public key: only it can read what is sent, not the access points
    #[arg(long, value_name = "public:HEX")]
    gateway_key: Option<String>,
    /// The name of the TUN device [default: cotag0]
    #[arg(long, value_name = "NAME")]
    tun: Option<String>,
    /// An address of the TUN device with its prefix, such as 10.9.0.2/24; repeat for each
    #[arg(long, value_name = "PREFIX")]
    address: Vec<String>,
    /// Which access point packets go up over: lowest (the one with the least round-trip time to
    /// the gateway) or both (all; the gateway takes the first copy) [default: lowest]
    #[arg(long, value_name = "WAY", hide_possible_values = true)]
    uplink: Option<UplinkArg>,
    /// No encryption, and no authentication but of handshakes: for measurements on networks of
    /// your own; at all nodes or none
    #[arg(long, hide_short_help = true)]
    insecure_plaintext: bool,
    /// Print a line of statistics a second
    #[arg(long)]
    stats: bool,
    /// Where `weftline status` can ask how the node is, or none [default: a socket in
    /// $RUNTIME_DIRECTORY, or in /run/weftline for root, else in $XDG_RUNTIME_DIR/weftline]
    #[arg(long, value_name = "PATH|none", hide_short_help = true)]
    control: Option<Control>,
    /// Where Prometheus can fetch metrics over HTTP, such as 127.0.0.1:9472: no authentication
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// A dashboard for browsers at this address, such as 127.0.0.1:9480
    ///
    /// The node prints the address to open, which has a token. Beyond this machine it is refused
    /// without --behind-proxy.
    #[arg(long, value_name = "ADDR")]
    dashboard: Option<SocketAddr>,
    /// The name under which a proxy with TLS offers the dashboard, such as weft.example
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    #[serde(deserialize_with = "config::one_or_many")]
    behind_proxy: Vec<String>,
    /// What a line of the log looks like [default: text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, hide_short_help = true)]
    log_format: Option<Format>,
    /// What is logged: off, error, warn, info, debug, trace, or directives like those of RUST_LOG
    /// [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
    /// A TOML file with any of these options by their long names
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
}

/// Fills what the command line leaves open with what the file says.
macro_rules! complete {
    ($args:ident from $from:ident; options $($option:ident)*; flags $($flag:ident)*;
     lists $($list:ident)*) => {
        $($args.$option = $args.$option.or($from.$option);)*
        $($args.$flag |= $from.$flag;)*
        $(if $args.$list.is_empty() {
            $args.$list = $from.$list;
        })*
    };
}

/// Runs a gateway until a signal comes.
pub(super) fn gateway(mut args: GatewayArgs) -> Result<(), Failure> {
    if let Some(file) = &args.config {
        let mut from: GatewayArgs = config::read(file)?;
        if args.dense || args.plain {
            (from.dense, from.plain) = (false, false);
        }
        complete!(args from from;
            options key listen device_key tun interval generation redundancy queue_target
                queue_interval queue_packets buffer link_mtu metrics dashboard control log_format log_level;
            flags plain dense store_and_forward no_queue insecure_plaintext stats;
            lists address aps devices behind_proxy);
    }
    log::start(args.log_format, args.log_level.as_deref())?;
    let dashboard = DashboardPlace::of(args.dashboard, &args.behind_proxy)?;
    let mut peers: Vec<_> =
        args.ap.iter().map(|text| GatewayAp::parse(text)).collect::<Result<_, _>>()?;
    if peers.is_empty() {
        peers.append(&mut args.aps);
    }
    let devices = devices(&args.device, std::mem::take(&mut args.devices), args.device_key.take())?;
    let config = GatewayConfig {
        secret: secret(args.key.as_deref(), args.insecure_plaintext)?,
        insecure_plaintext: args.insecure_plaintext,
        listen: needed("--listen ADDR", args.listen)?,
        tun: tun(args.tun.as_deref(), &args.address)?,
        access_points: peers.iter().map(GatewayAp::peer).collect::<Result<_, _>>()?,
        devices: devices.iter().map(DeviceEntry::at_gateway).collect::<Result<_, _>>()?,
        sending: args.sending()?,
    };
    let node = Gateway::open(config).map_err(|error| error.as_written(|key| args.written(key)))?;
    let listening = Some(node.local_address()?);
    let (name, mtu) = node.device();
    let greeting = format!(
        "listening on {}\ndevice {name} with packets of up to {mtu} bytes\n",
        node.local_address()?
    );
    let (stats, metrics, control) = (args.stats, args.metrics, args.control);
    let shown =
        Shown { kind: "cotag gateway", greeting, stats, metrics, dashboard, control, listening };
    run(shown, |stop, publish| node.run(stop, publish))
}

/// Runs an access point until a signal comes.
pub(super) fn ap(mut args: ApArgs) -> Result<(), Failure> {
    if let Some(file) = &args.config {
        let from: ApArgs = config::read(file)?;
        complete!(args from from;
            options key gateway gateway_key gateway_via listen device_key rate metrics dashboard control
                log_format log_level;
            flags insecure_plaintext stats;
            lists devices behind_proxy);
    }
    log::start(args.log_format, args.log_level.as_deref())?;
    let dashboard = DashboardPlace::of(args.dashboard, &args.behind_proxy)?;
    let gateway = needed("--gateway ADDR", args.gateway)?;
    let Ok(via) = args.gateway_via.map(|via| via.parse::<Via>()).transpose();
    let devices = devices(&args.device, std::mem::take(&mut args.devices), args.device_key.take())?;
    let config = AccessPointConfig {
        secret: secret(args.key.as_deref(), args.insecure_plaintext)?,
        insecure_plaintext: args.insecure_plaintext,
        gateway: resolve("--gateway", &gateway)?,
        gateway_key: public("--gateway-key", args.gateway_key)?,
        gateway_via: via,
        listen: needed("--listen ADDR", args.listen)?,
        devices: devices.iter().map(DeviceEntry::at_access_point).collect::<Result<_, _>>()?,
        pace: parse_pace("--rate", args.rate.as_deref())?,
    };
    let rate = args.rate.clone();
    let node = AccessPoint::open(config)
        .map_err(|error| error.as_written(|key| rate.clone().filter(|_| key == "--rate")))?;
    let listening = Some(node.local_address()?);
    let greeting = format!("listening on {}\n", node.local_address()?);
    let (stats, metrics, control) = (args.stats, args.metrics, args.control);
    let shown = Shown { kind: "cotag ap", greeting, stats, metrics, dashboard, control, listening };
    run(shown, |stop, publish| node.run(stop, publish))
}

/// Runs a device until a signal comes.
pub(super) fn device(mut args: DeviceArgs) -> Result<(), Failure> {
    if let Some(file) = &args.config {
        let from: DeviceArgs = config::read(file)?;
        complete!(args from from;
            options key gateway_key tun uplink metrics dashboard control log_format log_level;
            flags insecure_plaintext stats;
            lists address aps behind_proxy);
    }
    log::start(args.log_format, args.log_level.as_deref())?;
    let dashboard = DashboardPlace::of(args.dashboard, &args.behind_proxy)?;
    let mut peers: Vec<_> =
        args.ap.iter().map(|text| DeviceAp::parse(text)).collect::<Result<_, _>>()?;
    if peers.is_empty() {
        peers.append(&mut args.aps);
    }
    let config = DeviceConfig {
        secret: secret(args.key.as_deref(), args.insecure_plaintext)?,
        insecure_plaintext: args.insecure_plaintext,
        gateway_key: public("--gateway-key", args.gateway_key)?,
        tun: tun(args.tun.as_deref(), &args.address)?,
        access_points: peers.iter().map(DeviceAp::peer).collect::<Result<_, _>>()?,
        uplink: match args.uplink {
            Some(UplinkArg::Both) => Uplink::Both,
            Some(UplinkArg::Lowest) | None => Uplink::Lowest,
        },
    };
    let node = Device::open(config)?;
    let greeting = format!("device {}\n", node.device());
    let (stats, metrics, control) = (args.stats, args.metrics, args.control);
    let listening = None;
    let shown =
        Shown { kind: "cotag device", greeting, stats, metrics, dashboard, control, listening };
    run(shown, |stop, publish| node.run(stop, publish))
}

impl GatewayArgs {
    /// A setting as it was written.
    fn written(&self, option: &str) -> Option<String> {
        match option {
            "--interval" => self.interval.clone(),
            "--queue-target" => self.queue_target.clone(),
            "--queue-interval" => self.queue_interval.clone(),
            _ => None,
        }
    }

    fn sending(&self) -> Result<Sending, Failure> {
        let default = Sending::default();
        let interval = self.interval.as_ref().map(|text| parse_duration("--interval", text));
        let scheme = match (self.plain, self.dense) {
            (true, true) => {
                return Err(Failure::wrong_use(
                    "plain and dense exclude each other; give one of them",
                ));
            }
            (true, false) => Scheme::Plain,
            (false, true) => Scheme::Dense,
            (false, false) => Scheme::Systematic,
        };
        let (redundancy, redundancy_percent) = match self.redundancy {
            Some(RedundancyArg::Percent(percent)) => (Redundancy::Limit, percent),
            Some(RedundancyArg::Learned) | None => (default.redundancy, default.redundancy_percent),
        };
        Ok(Sending {
            scheme,
            interval: interval.transpose()?.unwrap_or(default.interval),
            generation: self.generation.unwrap_or(default.generation),
            redundancy,
            redundancy_percent,
            buffer_packets: self.buffer.unwrap_or(default.buffer_packets),
            link_mtu: self.link_mtu.unwrap_or(default.link_mtu),
            cut_through: !self.store_and_forward,
            queue: self.queue()?,
        })
    }

    fn queue(&self) -> Result<Option<QueueConfig>, Failure> {
        let default = QueueConfig::default();
        let time = |option, text: &Option<String>, default| {
            text.as_ref().map_or(Ok(default), |text| parse_duration(option, text))
        };
        let queue = QueueConfig {
            target: time("--queue-target", &self.queue_target, default.target)?,
            interval: time("--queue-interval", &self.queue_interval, default.interval)?,
            limit_bytes: self.queue_packets.map_or(default.limit_bytes, QueueConfig::full_packets),
        };
        Ok(Some(queue).filter(|_| !self.no_queue))
    }
}

fn needed<T>(option: &str, value: Option<T>) -> Result<T, Failure> {
    value.ok_or_else(|| Failure::wrong_use(format!("give {option} (see --help)")))
}

fn secret(file: Option<&Path>, plaintext: bool) -> Result<SecretKey, Failure> {
    if plaintext {
        warn_plaintext();
    }
    let file = needed("--key FILE", file)?;
    let secret = SecretKey::read(file)?;
    secrets::warn_if_others_can_read(file);
    Ok(secret)
}

fn public(option: &str, text: Option<String>) -> Result<PublicKey, Failure> {
    let text = needed(&format!("{option} KEY"), text)?;
    text.parse().map_err(|error| Failure::wrong_use(format!("{option}: {error}")))
}

fn tun(name: Option<&str>, addresses: &[String]) -> Result<TunConfig, Failure> {
    let address = |text: &String| -> Result<Prefix, Failure> {
        text.parse().map_err(|error| Failure::wrong_use(format!("--address: {error}")))
    };
    let addresses = addresses.iter().map(address).collect::<Result<_, _>>()?;
    Ok(TunConfig { name: name.unwrap_or(TUN).to_owned(), addresses })
}

impl From<TunnelError> for Failure {
    fn from(error: TunnelError) -> Self {
        let status = error.exit_code();
        Self::with_status(error, status)
    }
}
