//! `weftline status`: what a running daemon does.

mod node;
mod text;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::Failure;
use crate::ops::PortalRequest;
use crate::ops::control;
use crate::ops::snapshot::{Bond, Connection, Snapshot, Taken};
use crate::output;
use text::{age, bytes, lines, ms, new_table, rate};

/// The time between two looks, of which the rates are made.
const MOMENT: Duration = Duration::from_millis(500);
/// How often `--watch` looks.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How long a daemon may take to answer, and the longest answer.
const PATIENCE: Duration = Duration::from_secs(10);
const MAX_ANSWER: u64 = 64 << 20;

/// Options of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The daemon's control socket [default: the running daemon's, in $RUNTIME_DIRECTORY, /run/weftline
    /// or $XDG_RUNTIME_DIR/weftline]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// One JSON object on standard output and nothing else; with --watch, one a line
    #[arg(long)]
    json: bool,
    /// Look again every second, until it is interrupted or the daemon ends
    #[arg(long)]
    watch: bool,
    /// Print the address of the daemon's dashboard, with its token, and nothing else
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    url: bool,
    /// The most connections to list; the others are counted
    #[arg(long, value_name = "N", default_value_t = control::LISTED)]
    connections: usize,
}

/// Shows what the daemon does.
pub(crate) fn run(args: &StatusArgs) -> Result<(), Failure> {
    let mut daemon = match &args.control {
        Some(path) => Daemon::open(path, args.connections)?,
        None => find(args.connections)?,
    };
    if args.url {
        return output::print(&format!("{}\n", daemon.dashboard()?));
    }
    let mut before = daemon.ask()?.ok_or_else(|| daemon.wrong("it has ended"))?;
    loop {
        std::thread::sleep(if args.watch { WATCH_INTERVAL } else { MOMENT });
        let Some(mut now) = daemon.ask()? else {
            return match args.watch {
                true => {
                    output::remark("the daemon has ended");
                    Ok(())
                }
                false => Err(daemon.wrong("it has ended")),
            };
        };
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        now.snapshot.rates_since(&before.snapshot, seconds);
        if !show(&now.snapshot, args)? || !args.watch {
            return Ok(());
        }
        before = now;
    }
}

/// Writes it; whether somebody still reads.
fn show(snapshot: &Snapshot, args: &StatusArgs) -> Result<bool, Failure> {
    let text = if args.json {
        serde_json::to_string(snapshot).map_err(Failure::failed)? + "\n"
    } else {
        table(snapshot)
    };
    let mut stdout = io::stdout().lock();
    // Home, and clear to the end: what was shown before is written over.
    let lead = match args.watch && !args.json && stdout.is_terminal() {
        true => "\x1b[H\x1b[J",
        false => "",
    };
    let written = stdout.write_all(format!("{lead}{text}").as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Has the daemon at a control socket open a link to a browser, or close it.
///
/// # Errors
/// When it cannot be asked, or does not do it.
pub(crate) fn ask_portal(path: &Path, request: &PortalRequest) -> Result<(), Failure> {
    Daemon::open(path, 0)?.portal(request)
}

/// A daemon's control socket.
struct Daemon {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    connections: usize,
}

impl Daemon {
    fn open(path: &Path, connections: usize) -> Result<Self, Failure> {
        let open = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(BufReader::new(stream))
        };
        let stream = open().map_err(|error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => "; only its owner and root may ask",
                io::ErrorKind::ConnectionRefused if is_socket(path) => "; that daemon is no more",
                io::ErrorKind::ConnectionRefused => {
                    "; that is no socket: give a daemon's --control"
                }
                _ => "",
            };
            Failure::failed(format!("cannot ask the daemon at {}: {error}{hint}", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), stream, connections })
    }

    fn wrong(&self, reason: impl std::fmt::Display) -> Failure {
        Failure::failed(format!("the daemon at {}: {reason}", self.path.display()))
    }

    /// How it is now; `None` when it has ended.
    fn ask(&mut self) -> Result<Option<Taken>, Failure> {
        let request = serde_json::json!({ "command": "status", "connections": self.connections });
        let Some((at, line)) = self.answer(&request)? else { return Ok(None) };
        let snapshot = serde_json::from_str(&line);
        let snapshot = snapshot.map_err(|error| self.wrong(format!("{error}: {line}")))?;
        Ok(Some(Taken { at, snapshot }))
    }

    /// Where its dashboard is, with the token.
    fn dashboard(&mut self) -> Result<String, Failure> {
        let answer = self.answer(&serde_json::json!({ "command": "dashboard" }))?;
        let (_, line) = answer.ok_or_else(|| self.wrong("it has ended"))?;
        let answer: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| self.wrong(format!("{error}: {line}")))?;
        let said = |name: &str| answer[name].as_str().map(str::to_owned);
        match (said("url"), said("error")) {
            (Some(url), _) => Ok(url),
            (None, Some(error)) => Err(self.wrong(error)),
            (None, None) => Err(self.wrong(line)),
        }
    }

    /// Has it open a link to a browser, or close it.
    fn portal(&mut self, request: &PortalRequest) -> Result<(), Failure> {
        let answer = self.answer(&serde_json::json!({ "command": "portal", "portal": request }))?;
        let (_, line) = answer.ok_or_else(|| self.wrong("it has ended"))?;
        let answer: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| self.wrong(format!("{error}: {line}")))?;
        match answer["error"].as_str() {
            Some(error) => Err(Failure::failed(error)),
            None => Ok(()),
        }
    }

    /// The line that it answers, and when that came; `None` when it has ended.
    fn answer(
        &mut self,
        request: &serde_json::Value,
    ) -> Result<Option<(Instant, String)>, Failure> {
        let mut line = String::new();
        let asked = self.stream.get_mut().write_all(format!("{request}\n").as_bytes());
        let answered =
            asked.and_then(|()| (&mut self.stream).take(MAX_ANSWER).read_line(&mut line));
        let at = Instant::now();
        match answered {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some((at, line))),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(self.wrong(format!("no answer within {PATIENCE:?}; it is stopped or hangs")))
            }
            Err(error) => Err(self.wrong(error)),
        }
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// The one daemon there is.
fn find(connections: usize) -> Result<Daemon, Failure> {
    let mut refused = None;
    let mut open = Vec::new();
    for path in control::find_all() {
        match Daemon::open(&path, connections) {
            Ok(daemon) => open.push(daemon),
            Err(error) => refused = Some(error),
        }
    }
    if open.len() > 1 {
        let paths: Vec<_> = open.iter().map(|one| one.path.display().to_string()).collect();
        let paths = paths.join(", ");
        return Err(Failure::wrong_use(format!("several daemons run; give --control: {paths}")));
    }
    match (open.pop(), refused) {
        (Some(daemon), _) => Ok(daemon),
        (None, Some(error)) => Err(error),
        (None, None) => {
            let dirs: Vec<_> =
                control::default_dirs().iter().map(|dir| dir.display().to_string()).collect();
            let dirs = dirs.join(", ");
            Err(Failure::failed(format!(
                "no daemon found (looked in {dirs}); if it has --control PATH, give that"
            )))
        }
    }
}

fn table(snapshot: &Snapshot) -> String {
    let Snapshot { daemon, version, pid, state, memory, .. } = snapshot;
    let uptime = age(snapshot.uptime_s);
    let mut text = format!("weftline {daemon} {version}, process {pid}, ");
    text += &match state.as_str() {
        "running" => {
            let listening = snapshot.listening.join(", ");
            let listening = Some(listening).filter(|all| !all.is_empty());
            let listening = listening.map(|all| format!("listening on {all}\n"));
            format!("running for {uptime}\n{}", listening.unwrap_or_default())
        }
        state => format!("{state}, started {uptime} ago\n"),
    };
    if let Some(node) = &snapshot.node {
        text += &format!("memory: {} resident\n\n", bytes(memory.resident_bytes));
        return text + &node::show(node);
    }
    text += &format!(
        "memory: {} resident, {} of {} reserved for connections\n",
        bytes(memory.resident_bytes),
        bytes(memory.reserved_bytes),
        bytes(memory.total_bytes)
    );
    text += &format!(
        "connections: {} open, {} of them kept ready; {} since the start, {} failed, {} handshakes \
         refused\n",
        snapshot.connections_open,
        snapshot.connections_ready,
        snapshot.connections_opened,
        snapshot.connections_failed,
        snapshot.handshakes_refused
    );
    for bond in &snapshot.bonds {
        text += &lanes(bond);
    }
    for connection in &snapshot.connections {
        text += &format!("\n{}\n{}\n", headline(connection), paths(connection));
    }
    if snapshot.connections_unlisted > 0 {
        text += &format!("\nand {} more connections\n", snapshot.connections_unlisted);
    }
    text
}

/// The lanes of a bond, and what was dropped there, with the reasons.
fn lanes(bond: &Bond) -> String {
    if bond.lanes.is_empty() && bond.counters.is_empty() {
        return String::new();
    }
    let mut table = new_table(&[
        "lane", "role", "state", "peer", "srtt", "loss", "mtu", "sent", "received", "copied",
        "resent", "lost", "dropped",
    ]);
    for lane in &bond.lanes {
        table.add_row([
            lane.name.clone(),
            lane.role.clone(),
            lane.state.clone(),
            lane.peer.clone().unwrap_or_else(|| "-".to_owned()),
            ms(lane.srtt_ms),
            format!("{:.1}%", lane.loss * 100.0),
            lane.mtu.to_string(),
            bytes(lane.sent_bytes),
            bytes(lane.received_bytes),
            lane.copied_packets.to_string(),
            lane.resent_packets.to_string(),
            lane.lost_packets.to_string(),
            lane.dropped_packets.to_string(),
        ]);
    }
    let client = bond.client.as_ref().map(|client| format!(" of {client}")).unwrap_or_default();
    let mut text = format!("\nUDP, ICMP and all else{client}\n");
    if !bond.lanes.is_empty() {
        text += &format!("{}\n", lines(table, 4).join("\n"));
    }
    for lane in &bond.lanes {
        if let Some(held) = lane.held_mbps {
            text += &format!(
                "{}: held back to {held:.1} Mb/s for calls, which wait {:.0} ms there\n",
                lane.name, lane.queue_ms
            );
        }
    }
    let counted = bond.counters.iter().map(|(name, value)| format!("{name} {value}"));
    let counted: Vec<_> = counted.collect();
    if !counted.is_empty() {
        text += &format!("packets: {}\n", counted.join(", "));
    }
    text
}

fn headline(one: &Connection) -> String {
    let client = one.client.as_ref().map(|client| format!(" ({client})")).unwrap_or_default();
    let mut text = format!(
        "#{} {}{client}, {}, {}, {}: sent {} ({}), received {} ({}), duplicates {}, memory {}",
        one.number,
        one.peer,
        one.label.as_deref().unwrap_or("kept ready"),
        one.scheduler,
        age(one.age_s),
        bytes(one.sent_bytes),
        rate(one.send_mbps),
        bytes(one.received_bytes),
        rate(one.receive_mbps),
        bytes(one.duplicate_bytes),
        bytes(one.memory_bytes),
    );
    if let Some(window) = one.window_bytes {
        text += &format!(", window {}", bytes(window));
    }
    if let Some(forward) = &one.forward {
        text += &format!(", forward {forward}");
    }
    text
}

fn paths(one: &Connection) -> String {
    let mut table = new_table(&[
        "path",
        "role",
        "state",
        "peer",
        "srtt",
        "control",
        "cwnd",
        "sending",
        "receiving",
        "sent",
        "received",
        "rescued",
        "retrans",
        "lost",
    ]);
    for path in &one.paths {
        let count = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        table.add_row([
            path.name.clone(),
            path.role.clone(),
            path.state.clone(),
            path.peer.clone().unwrap_or_else(|| "-".to_owned()),
            ms(path.srtt_ms),
            path.congestion.clone().unwrap_or_else(|| "-".to_owned()),
            path.cwnd_bytes.map_or("-".to_owned(), bytes),
            rate(path.send_mbps),
            rate(path.receive_mbps),
            bytes(path.delivered_bytes),
            bytes(path.received_bytes),
            bytes(path.rescued_bytes),
            count(path.retransmitted_segments),
            path.lost_subflows.to_string(),
        ]);
    }
    let mut lines = lines(table, 4);
    lines.extend(fallbacks(one));
    lines.join("\n")
}

/// Why paths do not run the congestion control that they should, a line for each reason.
fn fallbacks(one: &Connection) -> Vec<String> {
    let mut reasons: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for path in &one.paths {
        if let (Some(control), Some(why)) = (&path.congestion, &path.congestion_fallback) {
            reasons.entry((control, why)).or_default().push(&path.name);
        }
    }
    let line = |((control, why), paths): ((&str, &str), Vec<&str>)| {
        format!(" {}: {control} instead of bbr: {why}", paths.join(", "))
    };
    reasons.into_iter().map(line).collect()
}
