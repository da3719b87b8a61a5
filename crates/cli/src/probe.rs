//! `weftline probe`: what a path carries, measured by trains of packets.

mod client;
mod way;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand, ValueEnum};
use ring::rand::{SecureRandom as _, SystemRandom};
use weftline::Token;
use weftline_core::Bitrate;
use weftline_tunnel::probe::wire::Reason;
use weftline_tunnel::probe::{self, Direction, ProbeSocket, Server, ServerConfig, ServerEvent};

use crate::daemon::parse_duration;
use crate::failure::Failure;
use crate::ops::log;
use crate::{output, secrets};

/// The UDP port of `probe serve`, unless another is given.
const PORT: u16 = 4434;
/// What a token's key is for.
const PURPOSE: &str = "probe";

/// What the probe can do.
#[derive(Debug, Subcommand)]
pub(crate) enum ProbeCommand {
    /// Let clients measure the path to here
    Serve(ServeArgs),
    /// Measure the path from a server, to it, or both
    Run(Box<RunArgs>),
}

/// Options of `probe serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The UDP address to listen on (port 0: one of the system's choice) [default: [::]:4434]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// A file with the secrets of the clients that may measure, one a line, as `weftline serve` has
    /// it [default: anybody may]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Most clients at once; one address may have half of them
    #[arg(long, value_name = "N", default_value = "8")]
    max_clients: NonZeroUsize,
    /// The most that the trains of a client may take, each way
    #[arg(long, value_name = "RATE", default_value = "100Mbps")]
    max_rate: String,
    /// The longest measurement
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    max_duration: String,
    /// What is logged: off, error, warn, info, debug, trace [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

/// Options of `probe run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Where `weftline probe serve` runs: HOST or HOST:PORT (4434)
    server: String,
    /// Which way: down is from the server to here
    #[arg(long, value_name = "WAY", default_value = "down")]
    direction: Way,
    /// Packets of a train; fewer where the path is slow
    #[arg(long, value_name = "N", default_value_t = probe::Ask::default().train)]
    train: u8,
    /// The size of a packet with its IP header, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = probe::Ask::default().size)]
    size: u16,
    /// From one train to the next; longer where the path is slow
    #[arg(long, value_name = "DURATION", default_value = "10ms")]
    every: String,
    /// How long
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    duration: String,
    /// Where to write the rate over time, as a scenario's trace (CSV); with --direction both, two
    /// files, NAME-down and NAME-up
    #[arg(short, long, value_name = "FILE", alias = "output")]
    out: Option<PathBuf>,
    /// One JSON object per train on standard output and nothing else
    #[arg(long)]
    json: bool,
    /// The network interface or local address to measure from
    #[arg(long, value_name = "NAME|ADDR")]
    interface: Option<String>,
    /// A file with the secret that the server wants
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Which way is measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    /// From the server to here
    Down,
    /// From here to the server
    Up,
    /// Both at once
    Both,
}

impl From<Way> for Direction {
    fn from(way: Way) -> Self {
        match way {
            Way::Down => Self::Down,
            Way::Up => Self::Up,
            Way::Both => Self::Both,
        }
    }
}

/// Does what was asked of the probe.
pub(crate) fn run(command: ProbeCommand) -> Result<(), Failure> {
    match command {
        ProbeCommand::Serve(args) => serve(&args),
        ProbeCommand::Run(args) => client::run(&args),
    }
}

fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let max_rate: Bitrate = args
        .max_rate
        .parse()
        .map_err(|error| Failure::wrong_use(format!("--max-rate: {error}")))?;
    let keys = |tokens: Vec<Token>| tokens.iter().map(|t| t.derive_key(PURPOSE)).collect();
    let secrets = args.token_file.as_deref().map(secrets::tokens).transpose()?;
    let config = ServerConfig {
        clients: args.max_clients.get(),
        clients_per_source: args.max_clients.get().div_ceil(2),
        max_rate,
        max_duration: parse_duration("--max-duration", &args.max_duration)?,
        secrets: secrets.map(keys).unwrap_or_default(),
    };
    log::start(None, args.log_level.as_deref())?;
    let mut socket = listen(args.listen)?;
    if config.secrets.is_empty() {
        tracing::info!("whoever reaches this server may measure; give --token-file to choose");
    }
    let stop = stop_flag()?;
    output::print(&format!("listening on {}\n", socket.local_addr()?))?;
    let mut server = Server::new(config, &random()?);
    let told = probe::serve(&mut socket, &mut server, &stop, |_, event| tell(event));
    told.map_err(|error| Failure::failed(format!("receiving failed: {error}")))?;
    let stats = server.stats();
    tracing::info!(
        opened = stats.opened,
        refused = stats.refused,
        malformed = stats.malformed,
        stray = stats.stray,
        forged = stats.forged,
        "ended"
    );
    Ok(())
}

fn listen(address: Option<SocketAddr>) -> Result<ProbeSocket, Failure> {
    let wrong = |address: SocketAddr| {
        move |error| Failure::failed(format!("cannot listen on {address} (UDP): {error}"))
    };
    let Some(address) = address else {
        // Both families, where there are both.
        let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
        let old = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        return match ProbeSocket::listen(both) {
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                ProbeSocket::listen(old).map_err(wrong(old))
            }
            socket => socket.map_err(wrong(both)),
        };
    };
    ProbeSocket::listen(address).map_err(wrong(address))
}

fn tell(event: ServerEvent) {
    match event {
        ServerEvent::Opened(client, ask) => tracing::info!(
            %client,
            direction = ?ask.direction,
            train = ask.train,
            size = ask.size,
            every = ?ask.every,
            duration = ?ask.duration,
            "measures"
        ),
        ServerEvent::Closed(client, reason, trains) => {
            tracing::info!(%client, trains, reason = say(reason), "ended");
        }
        ServerEvent::Refused(client, reason) => {
            tracing::warn!(%client, reason = say(reason), "refused");
        }
    }
}

/// A reason as a server's log has it.
fn say(reason: Reason) -> &'static str {
    match reason {
        Reason::Busy => "too many clients",
        Reason::Done => "done",
        Reason::Duration(_) => "too long a measurement",
        Reason::Rate(_) => "too much",
        Reason::Silent => "silent",
        Reason::Size(_) => "packets larger than the interface takes",
        Reason::Stopped => "the server stops",
        Reason::Token => "no token or a wrong one",
    }
}

/// Set by the first SIGINT or SIGTERM; a second one ends the program as it does others.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let status = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Failure::failed("the system gives no random numbers"))?;
    Ok(bytes)
}

/// `file` with `-way` before its extension.
fn beside(file: &Path, way: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = match file.extension() {
        Some(extension) => format!("{stem}-{way}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{way}"),
    };
    file.with_file_name(name)
}
