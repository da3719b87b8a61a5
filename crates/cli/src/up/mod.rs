//! `weftline up`: all new TCP connections of this machine go to a server over all its links, and UDP,
//! ICMP and DNS as well.
//!
//! What is changed in the machine's network is undone when the program ends, whatever ends it: by
//! itself, by the kernel, by the janitor, or by the next start.

mod down;
mod invited;
mod lanes;
mod links;
mod listeners;
mod portal;
mod presence;
mod refusals;
mod resolved;
mod saved;
mod strict;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::geteuid;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weftline::{Client, ClientBuilder, Forwarder, InternetOffer, LocalService};
use weftline_net::{
    Capture, CaptureConfig, DEVICE, Exception, FIRST_CLIENT, Ipv6, Journal, KillSwitch, NetError,
    Route, Watch, remove_leftovers,
};
use weftline_tunnel::bond::LaneLink;

use crate::connect::{ClientParts, Shown};
use crate::daemon::{await_answer, end, runtime};
use crate::failure::Failure;
use crate::instance::Instance;
use crate::invite::Invite;
use crate::lifeline;
use crate::ops::control::Control;
use crate::ops::log::{self, Format};
use crate::ops::{Daemon, DashboardPlace, Doors, Life, Wanted};
use crate::{output, secrets};
use invited::{basis, explain};
use lanes::{Lanes, Manner};
use links::Links;
use listeners::{listeners, port};
use portal::Portals;
use presence::Watcher;
use refusals::Refusals;
use saved::{Calls, Saved};
use strict::Strict;

pub(crate) use down::run as down;
pub(crate) use portal::{PortalArgs, run as portal};

/// Connections kept ready: a program that opens several at once need not wait.
const READY: usize = 4;
/// The least time between two looks at the links, for machines whose routes change all the time.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a predecessor that has been killed may take to be cleared away.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// Options of `up`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UpArgs {
    /// The server's invite, or - to read it from standard input [default: that of the last time]
    invite: Option<String>,
    /// A link to use, as for `connect`; may be given several times [default: auto, every interface
    /// that has a default route and is no tunnel]
    #[arg(long, value_name = "NAME=VIA")]
    path: Vec<String>,
    /// Connections that go directly: to a network or an address, port:N, or those of a user, uid:N;
    /// may be given several times, besides `except` in up.toml
    #[arg(long, value_name = "WHAT")]
    except: Vec<String>,
    /// Whether downloads and uploads make way for calls over UDP: on or off [default: what `calls` in
    /// up.toml says, else off]
    #[arg(long, value_name = "on|off", hide_possible_values = true, hide_short_help = true)]
    calls: Option<Calls>,
    /// Close the kill switch: nothing else leaves by the links until `weftline down`, also when this
    /// is killed; always, with `strict = true` in up.toml
    #[arg(long)]
    strict: bool,
    /// With --strict, reach the private networks of the links all the same, such as a printer
    #[arg(long, hide_short_help = true)]
    lan: bool,
    /// Close the kill switch if up.toml says `strict = true`, and end: for weftline-strict.service,
    /// before there is a network
    #[arg(long, hide_short_help = true, conflicts_with_all = ["invite", "strict"])]
    close_only: bool,
    /// Where the invite is kept [default: /etc/weftline]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    state_dir: Option<PathBuf>,
    /// Where `weftline status` can ask how the daemon is, or none [default: a socket in
    /// $RUNTIME_DIRECTORY, or in /run/weftline]
    #[arg(long, value_name = "PATH|none", hide_short_help = true)]
    control: Option<Control>,
    /// A dashboard for browsers at this address, such as 127.0.0.1:9480
    ///
    /// The daemon prints the address to open, which has a token; `weftline status --url` shows it
    /// again. Beyond this machine it is refused without --behind-proxy.
    #[arg(long, value_name = "ADDR")]
    dashboard: Option<SocketAddr>,
    /// The name under which a proxy with TLS offers the dashboard, such as weft.example
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    behind_proxy: Vec<String>,
    /// What a line of the log looks like [default: text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, hide_short_help = true)]
    log_format: Option<Format>,
    /// What is logged: off, error, warn, info, debug, trace, or directives like those of RUST_LOG
    /// [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
}

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

/// What `weftline doctor` looks at, part by part.
pub(crate) struct UpParts {
    /// The client that it is, if there is an invite and all can be read.
    pub(crate) client: Result<ClientParts, Failure>,
    /// Claimed by the `up` that runs.
    pub(crate) lock: PathBuf,
    /// The same client, and its links as those of lanes, if there is an invite.
    pub(crate) lanes: Option<(Client, Vec<LaneLink>)>,
}

/// What is asked for, with what is kept of the last time.
struct Wish {
    invite: Invite,
    /// Whether the invite was given, and has to be kept.
    is_new: bool,
    /// Where invites are kept.
    kept: PathBuf,
    exceptions: Vec<Exception>,
    /// Whether questions to DNS go to the server, too.
    dns: bool,
    /// Whether downloads and uploads make way for calls.
    calls: bool,
    /// Whether the kill switch is closed, and whether private networks of links are reached then.
    strict: bool,
    lan: bool,
}

impl Wish {
    /// Closes the kill switch, if it is to be and is not `closed` by now: whoever has closed it has said until
    /// when.
    ///
    /// # Errors
    /// When it cannot be closed, or something is to go directly all the same.
    fn close(&self, args: &UpArgs, closed: Option<Strict>) -> Result<Option<Strict>, Failure> {
        if !self.strict && closed.is_none() {
            return match self.lan {
                true => Err(Failure::wrong_use("--lan is for --strict, which is not given")),
                false => Ok(None),
            };
        }
        if !self.dns {
            return Err(Failure::wrong_use(
                "with --strict questions to DNS reach the server alone: remove dns = \"system\" in \
                 up.toml, or strict",
            ));
        }
        if !self.exceptions.is_empty() {
            return Err(Failure::wrong_use(
                "nothing goes directly with --strict: remove the exceptions (--except, and except in \
                 up.toml), or strict",
            ));
        }
        let links = Links::new(&args.path, self.invite.addresses.clone())?;
        closed.map_or_else(|| Strict::close(self.lan, links.interfaces()), Ok).map(Some)
    }
}

impl UpArgs {
    /// # Errors
    /// When there is no invite, or something cannot be read.
    fn wish(&self) -> Result<Wish, Failure> {
        let kept = saved::file(self.state_dir.as_deref());
        let saved = saved::read(&kept)?;
        let given = match self.invite.as_deref() {
            Some("-") => Some(io::read_to_string(io::stdin().lock())?),
            given => given.map(str::to_owned),
        };
        let is_new = given.is_some();
        let exceptions = saved.except.iter().chain(&self.except).map(|text| text.parse());
        let exceptions = exceptions.collect::<Result<_, _>>().map_err(Failure::wrong_use)?;
        let saved = Saved { invite: given.or(saved.invite), ..saved };
        let invite = saved.invite(&kept)?.parse().map_err(Failure::wrong_use)?;
        let dns = saved.dns != Some(saved::Dns::System);
        let calls = self.calls.or(saved.calls) == Some(Calls::On);
        let (strict, lan) = (saved.strict || self.strict, saved.lan || self.lan);
        Ok(Wish { invite, is_new, kept, exceptions, dns, calls, strict, lan })
    }

    /// # Errors
    /// When the kernel does not say in which network this is.
    pub(crate) fn parts(self) -> Result<UpParts, Failure> {
        Ok(UpParts { lanes: self.lanes(), client: self.client(), lock: Files::find()?.lock })
    }

    /// What lanes would go over; what is wrong is told of with the client.
    fn lanes(&self) -> Option<(Client, Vec<LaneLink>)> {
        let invite = self.invite_to_look().ok()?;
        let found = Links::new(&self.path, invite.addresses.clone()).ok()?.look().ok()?;
        let links = links::lanes(&found);
        let client = links::with(&basis(&invite).ok()?, found).build().ok()?;
        Some((client, links))
    }

    /// Where the daemon shows how it is.
    ///
    /// # Errors
    /// When no dashboard can be where one is wanted.
    fn doors(&self) -> Result<Wanted, Failure> {
        let dashboard = DashboardPlace::of(self.dashboard, &self.behind_proxy)?;
        Ok(Wanted { control: self.control.clone(), metrics: None, qlog: None, dashboard })
    }

    fn invite_to_look(&self) -> Result<Invite, Failure> {
        match (self.wish(), self.invite.as_deref()) {
            (Ok(wish), _) => Ok(wish.invite),
            // What only root can read is not needed to look.
            (Err(_), Some(text)) if text != "-" && !geteuid().is_root() => {
                text.parse().map_err(Failure::wrong_use)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    fn client(&self) -> Result<ClientParts, Failure> {
        let invite = self.invite_to_look()?;
        let mut links = Links::new(&self.path, invite.addresses.clone())?;
        let found = links.look()?.into_iter();
        let (paths, servers) = found.map(|(path, server)| (Ok(path), server.into())).unzip();
        Ok(ClientParts {
            daemon: Daemon::Up,
            servers,
            paths,
            files: Vec::new(),
            places: Vec::new(),
            listeners: Ok(BTreeSet::from([LocalService::Captured])),
            doors: self.doors()?,
            plaintext: false,
            certificate: None,
            token: Shown::Invite(invite.name.clone()),
            settings: basis(&invite),
        })
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
    let doors = args.doors()?;
    let wish = args.wish()?;
    secrets::raise_file_limit();
    let strict = wish.close(args, closed)?;
    // Before anything is opened that must go with this process.
    let _janitor = lifeline::start(instance, &files.journal, lifeline::Left::RulesAndSysctls)?;
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let life = Life::start(Daemon::Up, Some("0s"))?;
        let open = Doors::open(&life, doors).await?;
        output::print(&open.greeting)?;
        let started = tokio::select! {
            started = Up::start(args, &wish, strict, files) => started?,
            () = life.stopping() => return Ok(()),
        };
        if wish.is_new {
            saved::keep(&wish.kept, &wish.invite.to_string())?;
        }
        started.show_scope(&life);
        life.set_lanes(started.lanes.as_ref().map(Lanes::watcher));
        output::print(&format!("up: {}\n", started.summary()))?;
        life.ready();
        let ended = started.run(&life).await;
        life.over();
        ended
    });
    end(runtime);
    result
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

/// What goes to the server, whether lanes carry something or not.
fn carries(is_wide: bool) -> &'static str {
    if is_wide { "all TCP, UDP and ICMP" } else { "all TCP" }
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
    async fn server(args: &UpArgs, invite: &Invite, files: &Files) -> Result<Self, Failure> {
        let mut links = Links::new(&args.path, invite.addresses.clone())?.provided()?;
        let basis = basis(invite)?;
        let found = links.look()?;
        if found.is_empty() {
            return Err(Failure::wrong_use(format!("{}; {}", NO_LINK.0, NO_LINK.1)));
        }
        links::loosen(&found, &files.journal);
        let mut names: Vec<_> = found.iter().map(|(_, server)| server.to_string()).collect();
        names.dedup();
        let lane_links = links::lanes(&found);
        let client = links::with(&basis, found).build()?;
        let asked = await_answer(&names.join(", "), InternetOffer::ask(&client)).await;
        let offer = asked.map_err(|error| explain(error, invite))?;
        Ok(Self { client, basis, links, lane_links, offer })
    }
}

/// Captures TCP and takes it to the server, for the client of this number; whether IPv6, too.
async fn capture(
    client: &Client,
    offer: InternetOffer,
    (wish, number): (&Wish, u16),
    files: &Files,
) -> Result<(Forwarder, Arc<Capture>, bool), Failure> {
    let (v4, v6) = listeners(offer.ipv6)?;
    let config = CaptureConfig {
        port_v4: port(&v4)?,
        ipv6: v6.as_ref().map_or(Ok(Ipv6::Refused), |one| port(one).map(Ipv6::Redirect))?,
        exceptions: wish.exceptions.clone(),
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
    /// What is left of all else, if the kill switch is closed.
    strict: Option<Strict>,
    /// Whether nothing is captured, as the server is away; and what finds out.
    suspended: watch::Receiver<bool>,
    presence: Option<JoinHandle<()>>,
    /// The default routes of links, which it asks for.
    ways: watch::Sender<Vec<Route>>,
    portals: Portals,
    watch: Watch,
    server: String,
    /// Whether the server carries IPv6, too.
    ipv6: bool,
}

impl Up {
    async fn start(
        args: &UpArgs,
        wish: &Wish,
        strict: Option<Strict>,
        files: &Files,
    ) -> Result<Self, Failure> {
        let watch = Watch::start()?;
        clear(&files.journal)?;
        let reached = Reached::server(args, &wish.invite, files).await?;
        let Reached { client, basis, links, lane_links, offer } = reached;
        let granted = lanes::ask(&client, offer).await;
        let number = granted.as_ref().map_or(FIRST_CLIENT, |(_, grant)| grant.client);
        let (forwarder, capture, ipv6) = capture(&client, offer, (wish, number), files).await?;
        let (tell, suspended) = watch::channel(false);
        let lanes = match granted {
            Some(granted) => {
                let suspended = suspended.clone();
                let (dns, calls, is_strict) = (wish.dns, wish.calls, strict.is_some());
                let how = Manner { dns, calls, is_strict, suspended };
                Lanes::start(&client, granted, &capture, lane_links, how).await
            }
            None => None,
        };
        if lanes.is_none() && strict.is_some() {
            tracing::warn!("UDP, DNS and ICMP go nowhere, as the kill switch is closed");
        }
        let (ways, seen_ways) = watch::channel(presence::ways());
        let watcher = Watcher {
            client: client.clone(),
            capture: Arc::downgrade(&capture),
            lanes_up: lanes.as_ref().map(Lanes::up),
            ways: seen_ways,
            suspended: tell,
        };
        // With the kill switch closed nothing is to go directly, whatever the server does.
        let presence = strict.is_none().then(|| tokio::spawn(watcher.watch()));
        let journal = files.journal.clone();
        let server = wish.invite.addresses.first().map(ToString::to_string).unwrap_or_default();
        let scope = lanes.as_ref().filter(|_| wish.dns).map(Lanes::scope);
        let portals = Portals::new(scope.unwrap_or_else(|| watch::channel(false).1));
        Ok(Self {
            client,
            basis,
            links,
            journal,
            forwarder,
            capture,
            lanes,
            strict,
            suspended,
            presence,
            ways,
            portals,
            watch,
            server,
            ipv6,
        })
    }

    /// Has shown what goes to the server, now and when that changes.
    fn show_scope(&self, life: &Arc<Life>) {
        let is_strict = self.strict.is_some();
        let show = move |life: &Life, is_wide: bool, is_suspended: bool| {
            let what = if is_suspended {
                "nothing, as the server does not answer: all goes directly".to_owned()
            } else {
                format!("{} of this machine", carries(is_wide))
            };
            let strict = is_strict.then(|| "kill switch: closed".to_owned());
            life.set_listening([format!("{DEVICE}: {what}")].into_iter().chain(strict).collect());
        };
        // Without lanes it never changes.
        let (never, narrow) = watch::channel(false);
        let mut scope = self.lanes.as_ref().map_or(narrow, Lanes::scope);
        let (mut suspended, life) = (self.suspended.clone(), Arc::clone(life));
        show(&life, *scope.borrow(), *suspended.borrow());
        tokio::spawn(async move {
            let _never = never;
            loop {
                let changed = tokio::select! {
                    changed = scope.changed() => changed,
                    changed = changed_or_never(&mut suspended) => changed,
                };
                if changed.is_err() {
                    return;
                }
                let (is_wide, is_suspended) = (*scope.borrow(), *suspended.borrow());
                show(&life, is_wide, is_suspended);
            }
        });
    }

    /// What goes to the server.
    fn carries(&self) -> &'static str {
        carries(self.lanes.as_ref().is_some_and(Lanes::is_up))
    }

    /// What it does, in a line.
    fn summary(&self) -> String {
        let family = if self.ipv6 { "" } else { ", IPv4 only" };
        format!(
            "{} of this machine goes to {} over {}{family}; 'weftline down' ends that",
            self.carries(),
            self.server,
            self.links.names().join(", ")
        )
    }

    /// Goes on until the first signal. Then new connections go their usual ways, and those that are
    /// captured are reset.
    ///
    /// # Errors
    /// When it cannot go on as the machine's network is now.
    async fn run(self, life: &Life) -> Result<(), Failure> {
        let Self { client, basis, mut links, journal, forwarder, capture, lanes, watch, .. } = self;
        let (mut strict, presence, portals) = (self.strict, self.presence, self.portals);
        let ways = self.ways;
        let opener = portals.clone();
        // It may wait for systemd-resolved, which nothing else is to.
        let open = move |request: &_| tokio::task::block_in_place(|| opener.follow(request));
        life.set_portals(Box::new(open));
        let (stop, mut stopped) = watch::channel(false);
        let stopping = async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let running = tokio::spawn(forwarder.run(stopping, async {}));
        let following = async {
            let mut is_watched = true;
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
                }
                strict.iter_mut().for_each(Strict::keep);
                ways.send_if_modified(|ways| changes(ways, &presence::ways()));
                if let Err(error) = keep(&capture) {
                    return error;
                }
                follow(&client, &basis, &mut links, &journal, lanes.as_ref());
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
        drop(capture);
        if let Err(error) = Journal::undo(&journal) {
            tracing::error!("{}: {error}", journal.display());
        }
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
async fn changed_or_never(what: &mut watch::Receiver<bool>) -> Result<(), watch::error::RecvError> {
    match what.changed().await {
        Ok(()) => Ok(()),
        Err(_) => std::future::pending().await,
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

/// Takes links that have come.
fn follow(
    client: &Client,
    basis: &ClientBuilder,
    links: &mut Links,
    journal: &Path,
    lanes: Option<&Lanes>,
) {
    let before = links.names();
    let found = match links.look() {
        Ok(found) => found,
        Err(error) => return tracing::warn!("cannot look at the links: {error}"),
    };
    // An interface of the same name may be a new one, with a filter of its own.
    links::loosen(&found, journal);
    if let Some(lanes) = lanes {
        lanes.follow(links::lanes(&found));
    }
    if links.names() == before || found.is_empty() {
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
