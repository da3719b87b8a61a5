//! `weftline up`: all new TCP connections of this machine go to a server over all its links, and UDP,
//! ICMP and DNS as well.
//!
//! What is changed in the machine's network is undone when the program ends, whatever ends it: by
//! itself, by the kernel, by the janitor, or by the next start.

mod args;
mod down;
mod elsewhere;
mod invited;
mod lanes;
mod links;
mod listeners;
mod over_tcp;
mod pause;
mod portal;
mod presence;
mod refusals;
mod resolved;
mod saved;
mod share;
mod strict;

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weftline::{Client, ClientBuilder, Error, Forwarder, InternetOffer};
use weftline_net::{
    Capture, CaptureConfig, DEVICE, FIRST_CLIENT, Ipv6, Journal, KillSwitch, NetError, Route,
    Watch, remove_leftovers,
};
use weftline_tunnel::bond::LaneLink;

use crate::daemon::{await_answer, end, runtime};
use crate::failure::Failure;
use crate::instance::Instance;
use crate::lifeline;
use crate::ops::{AdminEndpoints, Daemon, Life, log, metrics, systemd};
use crate::{output, secrets};
use args::Wish;
use elsewhere::Elsewhere;
use invited::{basis, explain};
use lanes::{Lanes, Manner, Packets};
use links::Links;
use listeners::{listeners, port};
use portal::Portals;
use presence::Watcher;
use refusals::Refusals;
use strict::Strict;

pub(crate) use args::{UpArgs, UpParts};
pub(crate) use down::run as down;
pub(crate) use portal::{PortalArgs, run as portal};

/// Connections kept ready: a program that opens several at once need not wait.
const READY: usize = 4;
/// The least time between two looks at the links, for machines whose routes change all the time.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a predecessor that has been killed may take to be cleared away.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// That there is no link, and what to do.
pub(crate) const NO_LINK: (&str, &str) = (
    "no interface has a default route",
    "connect a link, or name it with --path wifi=wlan0 (ip route shows the routes)",
);

/// The files of a running `up`.
struct Files {
    lock: PathBuf,
    /// What sysctls were before.
    journal: PathBuf,
}

impl Files {
    /// Those of this network, which has one `up` at a time: always in the same place, whether a unit
    /// or a shell starts it. Containers have networks of their own, so each has a number in its name.
    fn find() -> Result<Self, Failure> {
        const DIR: &str = "/run/weftline";
        const NETWORK: &str = "/proc/self/ns/net";
        let found = std::fs::metadata(NETWORK);
        let number = found.map_err(|error| Failure::failed(format!("{NETWORK}: {error}")))?.ino();
        let file = |kind: &str| Path::new(DIR).join(format!("up-{number}.{kind}"));
        Ok(Self { lock: file("lock"), journal: file("journal") })
    }
}

/// Captures until a signal comes.
pub(crate) fn run(args: &UpArgs) -> Result<(), Failure> {
    check_rights("weftline up")?;
    let logged = log::start(args.log_format, args.log_level.as_deref());
    let files = Files::find()?;
    if args.close_only {
        let is_closed = Strict::close_first(args)?.is_some();
        let how =
            if is_closed { "is closed" } else { "is open: up.toml does not say strict = true" };
        return output::print(&format!("up: the kill switch {how}\n"));
    }
    let instance = claim(&files.lock)?;
    let closed = Strict::close_first(args)?;
    let result = logged.and_then(|()| go(args, closed, &files, &instance));
    if KillSwitch::is_wanted().unwrap_or(false) {
        tracing::warn!(
            "the kill switch stays closed: nothing leaves until 'weftline down' or 'weftline up'"
        );
    }
    result
}

/// The same, with the kill switch `closed` if it is to be by what is known yet.
fn go(
    args: &UpArgs,
    closed: Option<Strict>,
    files: &Files,
    instance: &Instance,
) -> Result<(), Failure> {
    let admin_endpoints = args.admin_endpoints()?;
    let wish = args.wish()?;
    secrets::raise_file_limit();
    let mut strict = Strict::wished(&wish, args.lan, closed)?;
    // Before anything is opened that must go with this process.
    let _janitor = lifeline::start(instance, &files.journal, lifeline::Left::RulesAndSysctls)?;
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let life = Life::start(Daemon::Up, Some("0s"))?;
        let open = AdminEndpoints::open(&life, admin_endpoints).await?;
        output::print(&open.greeting)?;
        if let Some(address) = wish.metrics.filter(|_| args.metrics.is_none()) {
            show_kept_metrics(&life, address).await?;
        }
        // The server may be out of reach until a network has its login.
        let portals = Portals::new();
        portals.answer(&life);
        let is_strict = strict.is_some();
        let starting = async {
            systemd::unhurried(Up::start(&wish, is_strict, portals.clone(), files).await).await
        };
        let started = tokio::select! {
            started = starting => started.map(Some),
            never = strict::keep_closed(&mut strict) => match never {},
            () = life.stopping() => Ok(None),
        };
        let started = match started {
            Ok(Some(started)) => started,
            ended => {
                // What a user has opened meanwhile: a start that has failed is begun again.
                let close = if ended.is_err() { Portals::leave } else { Portals::end };
                tokio::task::block_in_place(|| close(&portals));
                return ended.map(|_| ());
            }
        };
        if wish.is_new {
            // It is up, and the next start wants the invite again.
            if let Err(failure) = saved::keep(&wish.kept, &wish.invite.to_string()) {
                tracing::warn!(
                    "{failure}; the next 'weftline up' wants the invite again, or --state-dir DIR where it \
                     can be kept"
                );
            }
        }
        started.show_scope(&life);
        life.set_lanes(started.lanes.as_ref().map(Lanes::watcher));
        output::print(&format!("up: {}\n", started.summary()))?;
        life.ready();
        let ended = started.run(strict, &life).await;
        life.over();
        ended
    });
    end(runtime);
    result
}

/// Opens metrics where up.toml has them. Without that address, as before there is a network, a
/// machine needs its network more.
///
/// # Errors
/// When it cannot be said where they are.
async fn show_kept_metrics(life: &Arc<Life>, address: SocketAddr) -> Result<(), Failure> {
    match metrics::open(life, address).await {
        Ok(greeting) => output::print(&greeting),
        Err(failure) => {
            tracing::warn!("no metrics until the next start: {failure}");
            Ok(())
        }
    }
}

/// Refuses to begin what would fail half way.
fn check_rights(command: &str) -> Result<(), Failure> {
    if geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::not_possible(format!(
        "'{command}' changes the routes of this machine, which needs root; run it with sudo"
    )))
}

/// Claims this machine. A predecessor that has been killed is waited for: its janitor is at work.
fn claim(lock: &Path) -> Result<Instance, Failure> {
    let wrong = |error: io::Error| Failure::failed(format!("{}: {error}", lock.display()));
    let began = Instant::now();
    loop {
        if let Some(instance) = Instance::claim(lock).map_err(wrong)? {
            return Ok(instance);
        }
        let holder = Instance::holder(lock).ok().flatten();
        let lives = holder.is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists());
        if lives || began.elapsed() > PREDECESSOR {
            let pid = holder.map_or(String::new(), |pid| format!(" (process {pid})"));
            return Err(Failure::wrong_use(format!(
                "this machine is up already{pid}; 'weftline down' ends that"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What goes to the server, and what nowhere.
const fn carries(packets: Packets) -> (&'static str, Option<&'static str>) {
    match packets {
        Packets::Past => ("all TCP", None),
        Packets::Carried => ("all TCP, UDP and ICMP", None),
        Packets::Refused => (
            "all TCP",
            Some("UDP and ICMP: refused, as no link carries them to the server; DNS: by TCP"),
        ),
    }
}

/// A server that answers, and what leads there.
struct Reached {
    client: Client,
    basis: ClientBuilder,
    links: Links,
    lane_links: Vec<LaneLink>,
    offer: InternetOffer,
}

impl Reached {
    /// Asks the server over all links what it offers.
    async fn server(wish: &Wish, files: &Files) -> Result<Self, Failure> {
        let invite = &wish.invite;
        let mut links = wish.links()?.provided()?;
        share::check(&wish.shared, &links.interfaces())?;
        if let Some(capped) = links.capped() {
            tracing::warn!(
                "{capped}: a cap holds for TCP; UDP and ICMP take what the link carries"
            );
        }
        let basis = basis(invite)?;
        let (mut tried, mut telling) = (Vec::new(), None);
        loop {
            let found = links.look()?;
            if found.is_empty() {
                return Err(Failure::wrong_use(format!("{}; {}", NO_LINK.0, NO_LINK.1)));
            }
            links::loosen(&found, &files.journal);
            let mut names: Vec<_> = found.iter().map(|(_, server)| server.to_string()).collect();
            names.dedup();
            let names = names.join(", ");
            let lane_links = links::lanes(&found);
            let client = links::with(&basis, found).build()?;
            match await_answer(&names, InternetOffer::ask(&client)).await {
                Ok(offer) => return Ok(Self { client, basis, links, lane_links, offer }),
                Err(error) => {
                    tried.push(links.pairs().iter().map(|(_, server)| *server).collect());
                    if presence::is_elsewhere(&error) && links.turn(&tried)? {
                        tracing::info!("{error}; the invite's next address is tried");
                        telling = tells_more(telling, error);
                        continue;
                    }
                    let told = tells_more(telling, error);
                    return Err(told.map_or_else(
                        || Failure::failed("the server does not answer"),
                        |error| explain(error, invite),
                    ));
                }
            }
        }
    }
}

/// Which of two says more of why there is no server: what the server says itself before that somebody else is
/// there, that before that nobody is, and then the first.
fn tells_more(before: Option<Error>, now: Error) -> Option<Error> {
    let says_little =
        |error: &Error| matches!(error, Error::Unreachable { .. } | Error::HandshakeTimeout { .. });
    match before {
        _ if !presence::is_elsewhere(&now) => Some(now),
        Some(before) if !says_little(&before) || says_little(&now) => Some(before),
        _ => Some(now),
    }
}

/// Captures TCP and takes it to the server, for the client of this number; whether IPv6, too.
async fn capture(
    client: &Client,
    offer: InternetOffer,
    (wish, number): (&Wish, u16),
    files: &Files,
) -> Result<(Forwarder, Arc<Capture>, bool), Failure> {
    let (v4, v6) = listeners(offer.ipv6, !wish.shared.is_empty())?;
    let config = CaptureConfig {
        port_v4: port(&v4)?,
        ipv6: v6.as_ref().map_or(Ok(Ipv6::Refused), |one| port(one).map(Ipv6::Redirect))?,
        exceptions: wish.exceptions.clone(),
        shared: wish.shared.clone(),
        client: number,
        journal: files.journal.clone(),
    };
    let ipv6 = v6.is_some();
    let listeners = [Some(v4), v6].into_iter().flatten().collect();
    let forwarder = Forwarder::captured(client.clone(), listeners, READY).await?;
    let capture = Arc::new(Capture::start(&config)?);
    let refusing = Arc::downgrade(&capture);
    let refusals = Refusals::start(move |target| {
        refusing.upgrade().map_or(Ok(()), |capture| capture.refuse(target))
    })?;
    let forwarder = forwarder.on_unreachable(move |target| refusals.ask(target));
    Ok((forwarder, capture, ipv6))
}

/// All that runs while the machine is up.
struct Up {
    client: Client,
    basis: ClientBuilder,
    links: Links,
    journal: PathBuf,
    forwarder: Forwarder,
    capture: Arc<Capture>,
    lanes: Option<Lanes>,
    /// Whether the kill switch is closed.
    is_strict: bool,
    /// Whether nothing is captured, as the server is away; and what finds out.
    suspended: watch::Receiver<bool>,
    presence: Option<JoinHandle<()>>,
    /// How often it has said that another address of the server is to be tried.
    turns: watch::Receiver<u64>,
    /// The default routes of links, which it asks for.
    ways: watch::Sender<Vec<Route>>,
    portals: Portals,
    watch: Watch,
    server: String,
    /// Whether the server carries IPv6, too.
    ipv6: bool,
    /// Whose packets it takes there.
    whose: String,
}

impl Up {
    async fn start(
        wish: &Wish,
        is_strict: bool,
        portals: Portals,
        files: &Files,
    ) -> Result<Self, Failure> {
        let watch = Watch::start()?;
        clear(&files.journal)?;
        let reached = Reached::server(wish, files).await?;
        let Reached { client, basis, links, lane_links, offer } = reached;
        let granted = lanes::ask(&client, offer).await;
        let number = granted.as_ref().map_or(FIRST_CLIENT, |(_, grant)| grant.client);
        let has_lanes = granted.is_ok();
        let (forwarder, capture, ipv6) = capture(&client, offer, (wish, number), files).await?;
        let (tell, suspended) = watch::channel(false);
        let (turn, turns) = watch::channel(0);
        let Wish { dns, calls, udp_over_tcp, .. } = *wish;
        let how = Manner { dns, calls, udp_over_tcp, is_strict, suspended: suspended.clone() };
        let lanes = Lanes::start(&client, granted, &capture, lane_links, how).await;
        if !(has_lanes && lanes.is_some()) && is_strict {
            tracing::warn!("UDP, DNS and ICMP go nowhere, as the kill switch is closed");
        }
        let (ways, seen_ways) = watch::channel(presence::ways());
        let watcher = Watcher {
            client: client.clone(),
            capture: Arc::downgrade(&capture),
            lanes_up: lanes.as_ref().map(Lanes::up),
            ways: seen_ways,
            // With the kill switch closed nothing is to go directly.
            suspended: (!is_strict).then_some(tell),
            turns: turn,
            is_elsewhere: false,
        };
        // Where nothing is to go directly, it is looked for at other addresses alone.
        let is_watched = !is_strict || wish.invite.addresses.len() > 1;
        let presence = is_watched.then(|| tokio::spawn(watcher.watch()));
        let journal = files.journal.clone();
        let server =
            links.pairs().first().map(|(_, server)| server.to_string()).unwrap_or_default();
        if let Some(lanes) = lanes.as_ref().filter(|_| wish.dns) {
            portals.set_packets(lanes.packets());
        }
        Ok(Self {
            client,
            basis,
            links,
            journal,
            forwarder,
            capture,
            lanes,
            is_strict,
            suspended,
            presence,
            turns,
            ways,
            portals,
            watch,
            server,
            ipv6,
            whose: share::whose(&wish.shared),
        })
    }

    /// Has shown what goes to the server, now and when that changes.
    fn show_scope(&self, life: &Arc<Life>) {
        let (is_strict, whose) = (self.is_strict, self.whose.clone());
        let show = move |life: &Life, packets: Packets, is_suspended: bool| {
            let (what, nowhere) = carries(packets);
            let what = if is_suspended {
                "nothing, as the server does not answer: all goes directly".to_owned()
            } else {
                format!("{what} of {whose}")
            };
            let strict = is_strict.then(|| "kill switch: closed".to_owned());
            let lines = [Some(format!("{DEVICE}: {what}")), nowhere.map(str::to_owned), strict];
            life.set_listening(lines.into_iter().flatten().collect());
        };
        // Without lanes it never changes.
        let (never, past) = watch::channel(Packets::Past);
        let mut packets = self.lanes.as_ref().map_or(past, Lanes::packets);
        let (mut suspended, life) = (self.suspended.clone(), Arc::clone(life));
        show(&life, *packets.borrow(), *suspended.borrow());
        tokio::spawn(async move {
            let _never = never;
            loop {
                let changed = tokio::select! {
                    changed = packets.changed() => changed,
                    () = changed_or_never(&mut suspended) => Ok(()),
                };
                if changed.is_err() {
                    return;
                }
                let (packets, is_suspended) = (*packets.borrow(), *suspended.borrow());
                show(&life, packets, is_suspended);
            }
        });
    }

    /// What it does, in a line.
    fn summary(&self) -> String {
        let family = if self.ipv6 { "" } else { ", IPv4 only" };
        let packets = self.lanes.as_ref().map(Lanes::packets);
        let packets = packets.map_or(Packets::Past, |packets| *packets.borrow());
        format!(
            "{} of {} goes to {} over {}{family}; 'weftline down' ends that",
            carries(packets).0,
            self.whose,
            self.server,
            self.links.names().join(", ")
        )
    }

    /// Goes on until the first signal. Then new connections go their usual ways, and those that are
    /// captured are reset.
    ///
    /// # Errors
    /// When it cannot go on as the machine's network is now.
    async fn run(self, mut strict: Option<Strict>, life: &Life) -> Result<(), Failure> {
        let Self { client, basis, mut links, journal, forwarder, capture, lanes, watch, .. } = self;
        let (presence, portals, mut turns) = (self.presence, self.portals, self.turns);
        let ways = self.ways;
        let (stop, mut stopped) = watch::channel(false);
        let stopping = async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let running = tokio::spawn(forwarder.run(stopping, async {}));
        let following = async {
            let (mut is_watched, mut plugged) = (true, presence::plugged().unwrap_or_default());
            let mut elsewhere = Elsewhere::default();
            loop {
                let look = strict.as_ref().map(|_| strict::LOOK);
                let look = async { tokio::time::sleep(look.unwrap_or(Duration::MAX)).await };
                tokio::select! {
                    changed = watch.changed(), if is_watched => if let Err(error) = changed {
                        tracing::warn!("links are not followed any more: {error}");
                        // The kill switch is looked after all the same.
                        is_watched = false;
                        continue;
                    },
                    () = look => {
                        strict.iter_mut().for_each(Strict::keep);
                        continue;
                    }
                    () = changed_or_never(&mut turns) => {
                        elsewhere.look(&client, &basis, &links);
                        continue;
                    }
                    found = elsewhere.found() => {
                        let Some(found) = found else { continue };
                        move_to(&client, &basis, &mut links, found);
                    }
                }
                strict.iter_mut().for_each(Strict::keep);
                let has_other_ways = ways.send_if_modified(|ways| changes(ways, &presence::ways()));
                let others = presence::plugged().filter(|now| changes(&mut plugged, now));
                if let Err(error) = keep(&capture) {
                    return error;
                }
                follow(&client, &basis, &mut links, &journal, lanes.as_ref());
                if has_other_ways || others.is_some() {
                    lanes.iter().for_each(Lanes::note_links_changed);
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let ended = tokio::select! {
            error = following => Err(error.into()),
            () = life.stopping() => Ok(()),
        };
        // Who keeps them would set rules again.
        presence.iter().for_each(JoinHandle::abort);
        lanes.iter().for_each(Lanes::stop_keeping);
        capture.release();
        tokio::task::block_in_place(|| portals.end());
        stop.send_replace(true);
        let _ = running.await;
        drop(lanes);
        // The table keeps from being forwarded what was not before: it goes last.
        if let Err(error) = Journal::undo(&journal) {
            tracing::error!("{}: {error}", journal.display());
        }
        drop(capture);
        ended
    }
}

/// Sets what is known to what is seen; whether that is another.
fn changes<T: Clone + PartialEq>(known: &mut T, seen: &T) -> bool {
    let is_another = known != seen;
    known.clone_from(seen);
    is_another
}

/// Waits for a change; of one that nobody makes any more, for ever.
async fn changed_or_never<T>(what: &mut watch::Receiver<T>) {
    if what.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Adds again what somebody has deleted, such as a network manager that restarts.
///
/// # Errors
/// When a link has the device's address and there is no other.
fn keep(capture: &Capture) -> Result<(), NetError> {
    match capture.keep() {
        Ok(0) => {}
        Ok(n) => {
            tracing::info!("added {n} addresses, routes or routing rules again that were deleted");
        }
        Err(error @ NetError::AddressTaken { .. }) => return Err(error),
        Err(error) => tracing::warn!(
            "new connections may go past the server: {DEVICE}, its routes or rules cannot be set \
             again ({error}); 'weftline down' and 'weftline up' do"
        ),
    }
    Ok(())
}

/// Leads links to addresses at which the server has answered.
fn move_to(client: &Client, basis: &ClientBuilder, links: &mut Links, servers: Vec<SocketAddr>) {
    if let Err(error) = links.lead_to(servers) {
        return tracing::warn!("cannot look at the links: {error}");
    }
    let mut names: Vec<_> = links.pairs().iter().map(|(_, server)| server.to_string()).collect();
    names.dedup();
    let names = names.join(", ");
    match client.reload(links::with(basis, links.pairs().to_vec())) {
        Ok(()) => tracing::info!("the server answers at {names}: new connections go there"),
        Err(error) => {
            tracing::warn!("the server answers at {names}, and is not used there: {error}");
        }
    }
}

/// Takes links that have come.
fn follow(
    client: &Client,
    basis: &ClientBuilder,
    links: &mut Links,
    journal: &Path,
    lanes: Option<&Lanes>,
) {
    let before = links.pairs().to_vec();
    let found = match links.look() {
        Ok(found) => found,
        Err(error) => return tracing::warn!("cannot look at the links: {error}"),
    };
    // An interface of the same name may be a new one, with a filter of its own.
    links::loosen(&found, journal);
    if let Some(lanes) = lanes {
        lanes.follow(links::lanes(&found));
    }
    // A link may have come to a network of another family, and so to another address of the server.
    if found == before || found.is_empty() {
        return;
    }
    match client.reload(links::with(basis, found)) {
        Ok(()) => {
            tracing::info!("links: {}", links.names().join(", "));
            lanes.into_iter().for_each(Lanes::note_paths);
        }
        Err(error) => tracing::warn!("cannot use the links that there are now: {error}"),
    }
}

/// Removes what a killed predecessor has left.
fn clear(journal: &Path) -> Result<(), Failure> {
    let left = remove_leftovers().map_err(|error| {
        Failure::failed(format!("cannot remove the routing rules of an earlier 'up': {error}"))
    })?;
    if left > 0 {
        tracing::info!("removed {left} routing rules that a killed 'up' had left");
    }
    Journal::undo(journal)
        .map_err(|error| Failure::failed(format!("{}: {error}", journal.display())))
}
