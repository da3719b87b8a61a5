//! `weftline connect`: local TCP connections in, multipath connections out.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Deserialize;
use weftline::{Client, ClientBuilder, ClientSecurity, LocalService, PathConfig, ServerAddr};
use weftline_core::scheduler::{Entry, RulesOff, Setting};

use crate::config;
use crate::congestion;
use crate::daemon::{
    await_answer, end, limit_memory, log_reload, need, parse_duration, parse_size, runtime,
    warn_of_restart, warn_plaintext,
};
use crate::failure::Failure;
use crate::listeners::{Listener, Listeners};
use crate::ops::control::Control;
use crate::ops::log::{self, Format};
use crate::ops::sockets::{self, Passed, Place};
use crate::ops::{AdminEndpoints, Daemon, DashboardPlace, Life, Wanted, systemd};
use crate::output;
use crate::paths::{self, PathError, PathTable};
use crate::secrets;
use crate::signals::{Reload, log_nothing_to_reload};
use crate::trust::client_tls;

/// Connections kept ready unless told otherwise.
const READY: usize = 2;
/// The most connections kept ready.
const MAX_READY: usize = 64;

/// Options of `connect`, and the keys of its configuration file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ConnectArgs {
    /// The server, such as 192.0.2.1:7000; once for all paths, or once for each in their order
    #[arg(long, value_name = "ADDR", num_args = 1..)]
    #[serde(deserialize_with = "config::one_or_many")]
    server: Vec<String>,
    /// A path: a name of your choice and the interface or local address it leaves through
    ///
    /// Options of a path follow after commas: role=active|backup|metered, cap=20Mbps,
    /// congestion=bbr. `auto` stands for every other interface that has a default route, each under
    /// its own name.
    #[arg(long, value_name = "NAME=VIA", num_args = 1..)]
    #[serde(deserialize_with = "config::one_or_many")]
    path: Vec<String>,
    /// Where to take TCP connections, such as 127.0.0.1:8080
    ///
    /// fd:NAME is a socket that systemd passes. A configuration file may have several addresses,
    /// each with a scheduler of its own, as [[forwards]].
    #[arg(long, value_name = "ADDR")]
    listen: Option<Place>,
    /// Where to offer a SOCKS 5 proxy, such as 127.0.0.1:1080; the server needs --socks
    #[arg(long, value_name = "ADDR", conflicts_with = "listen")]
    socks: Option<Place>,
    /// A file of user:password lines: only these may use the SOCKS proxies [default: whoever
    /// reaches them]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    socks_users: Option<PathBuf>,
    /// How bytes are spread over the paths, see `weftline list schedulers` [default: earliest]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// The kernel's congestion control on every path, in both directions [default: auto]
    ///
    /// With auto each end uses bbr where it may, else its system's.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// The transmission window of fbdt [default: 1MiB]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    window: Option<String>,
    /// Give new data only to paths that deliver within this time, such as 50ms; the others only
    /// send again what is late [default: every path contributes]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    latency: Option<String>,
    /// Rules to switch off, for ablations: of earliest and fbdt reinject, copy-late, copy-slow,
    /// spare-far, copy-last, deadlines; of fbdt-strict wait-acks, wait-round-trip, send-again
    #[arg(long, value_name = "RULE,…", hide_short_help = true)]
    without: Option<String>,
    /// The path that sends forward [default: the nearest]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    forward_path: Option<String>,
    /// Accept the server with this fingerprint (it prints it at start)
    #[arg(long, value_name = "sha256:HEX", conflicts_with = "ca")]
    fingerprint: Option<String>,
    /// Accept servers with a certificate from these authorities (PEM)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    ca: Option<PathBuf>,
    /// The name the certificate must be issued to [default: the host of --server]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    server_name: Option<String>,
    /// This client's certificate (PEM), for servers with --client-ca; needs --key
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    key: Option<PathBuf>,
    /// A file with the secret that the server wants
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// No encryption and no authentication: for measurements on networks of your own
    #[arg(long, conflicts_with_all = ["fingerprint", "ca", "cert", "key"], hide_short_help = true)]
    insecure_plaintext: bool,
    /// Connections kept ready ahead of use [default: 2]
    #[arg(long, value_name = "N", hide_short_help = true)]
    ready: Option<usize>,
    /// Most memory of a connection for received bytes, and again for bytes to send
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_memory: Option<String>,
    /// Most memory of all connections together [default: half of the machine's]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_total_memory: Option<String>,
    /// How long a connection lives without any path [default: 30s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    grace: Option<String>,
    /// How long a connection lives when the other end does not answer any more [default: 45s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    idle_timeout: Option<String>,
    /// How long connections under way may go on after the first SIGTERM or SIGINT; a second one
    /// ends them at once [default: 30s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    drain: Option<String>,
    /// Where `weftline status` can ask how the daemon is, or none [default: a socket in
    /// $RUNTIME_DIRECTORY, or in /run/weftline for root, else in $XDG_RUNTIME_DIR/weftline]
    #[arg(long, value_name = "PATH|none", hide_short_help = true)]
    control: Option<Control>,
    /// Where Prometheus can fetch metrics over HTTP, such as 127.0.0.1:9470: no authentication
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// A dashboard for browsers at this address, such as 127.0.0.1:9480
    ///
    /// The daemon prints the address to open, which has a token; `weftline status --url` shows it
    /// again. Beyond this machine it is refused without --behind-proxy.
    #[arg(long, value_name = "ADDR")]
    dashboard: Option<SocketAddr>,
    /// The name under which a proxy with TLS offers the dashboard, such as weft.example
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    #[serde(deserialize_with = "config::one_or_many")]
    behind_proxy: Vec<String>,
    /// A directory to which each connection writes its events and measurements
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    qlog: Option<PathBuf>,
    /// What a line of the log looks like [default: text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, hide_short_help = true)]
    log_format: Option<Format>,
    /// What is logged: off, error, warn, info, debug, trace, or directives like those of RUST_LOG
    /// [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
    /// A TOML file with any of these options by their long names
    ///
    /// It may have [[paths]] and [[forwards]], too, and is read again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    #[arg(skip)]
    paths: Vec<PathTable>,
    #[arg(skip)]
    forwards: Vec<ForwardTable>,
}

/// One of several places to take connections at, as a table of a configuration file. What it does
/// not say is as for the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ForwardTable {
    listen: Option<Place>,
    socks: Option<Place>,
    scheduler: Option<String>,
    window: Option<String>,
    latency: Option<String>,
    forward_path: Option<String>,
    ready: Option<usize>,
}

/// By what a client shows the server who it is.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    Nothing,
    TokenFile,
    /// The invite for this name.
    Invite(String),
}

/// What a client is made of, each part with what is wrong with it.
pub(crate) struct ClientParts {
    pub(crate) daemon: Daemon,
    pub(crate) servers: Vec<ServerAddr>,
    pub(crate) paths: Vec<Result<PathConfig, PathError>>,
    /// The files it reads, and what they are.
    pub(crate) files: Vec<(&'static str, PathBuf)>,
    /// Where it takes connections.
    pub(crate) places: Vec<Place>,
    /// What is there, if what is said of these places goes together.
    pub(crate) listeners: Result<BTreeSet<LocalService>, Failure>,
    /// Its admin endpoints.
    pub(crate) admin_endpoints: Wanted,
    pub(crate) plaintext: bool,
    /// What it shows the server.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) token: Shown,
    /// All but servers and paths.
    pub(crate) settings: Result<ClientBuilder, Failure>,
}

impl ConnectArgs {
    /// The options, completed from the configuration file, and checked.
    fn complete(self) -> Result<Self, Failure> {
        let all = match self.config.clone() {
            Some(file) => self.completed(config::read(&file)?),
            None => self,
        };
        all.check()?;
        Ok(all)
    }

    /// Refuses what does not go together, wherever it was said.
    fn check(&self) -> Result<(), Failure> {
        let given = |name, option: Option<&str>| (name, option.is_some());
        let path = |option: &Option<PathBuf>| option.as_ref().map(|_| "");
        let ca = given("ca", path(&self.ca));
        let fingerprint = given("fingerprint", self.fingerprint.as_deref());
        let own = [given("cert", path(&self.cert)), given("key", path(&self.key))];
        let plaintext = ("insecure-plaintext", self.insecure_plaintext);
        config::exclude(plaintext, &[fingerprint, ca, own[0], own[1]])?;
        config::exclude(fingerprint, &[ca])?;
        if self.server_name.is_some() && self.ca.is_none() {
            return Err(Failure::wrong_use(
                "--server-name is for --ca, which is not given; add --ca FILE, or leave it out",
            ));
        }
        Ok(())
    }

    /// The options, with `from` for those that are not given.
    fn completed(self, from: Self) -> Self {
        // How the server is known is one choice: not half from here and half from there.
        let trusts = self.fingerprint.is_some() || self.ca.is_some() || self.insecure_plaintext;
        let (fingerprint, ca, server_name, insecure_plaintext) = if trusts {
            // A name goes with authorities, also if only these are given anew.
            let from_name = from.server_name.filter(|_| self.ca.is_some());
            let server_name = self.server_name.or(from_name);
            (self.fingerprint, self.ca, server_name, self.insecure_plaintext)
        } else {
            let server_name = self.server_name.or(from.server_name);
            (from.fingerprint, from.ca, server_name, from.insecure_plaintext)
        };
        // Settings for the file's scheduler are not for another.
        let another = self.scheduler.as_deref().and_then(|name| Entry::find(name).ok());
        let reads = |setting| another.is_none_or(|entry| entry.settings().contains(&setting));
        let has = |text: &String| match (another, text.parse::<RulesOff>()) {
            (Some(entry), Ok(off)) => entry.rules_of(off) == off,
            _ => true,
        };
        let (listen, socks) = match (self.listen, self.socks) {
            (None, None) => (from.listen, from.socks),
            given => given,
        };
        Self {
            server: if self.server.is_empty() { from.server } else { self.server },
            paths: if self.path.is_empty() { from.paths } else { Vec::new() },
            path: if self.path.is_empty() { from.path } else { self.path },
            forwards: from.forwards,
            listen,
            socks,
            socks_users: self.socks_users.or(from.socks_users),
            scheduler: self.scheduler.or(from.scheduler),
            congestion: self.congestion.or(from.congestion),
            window: self.window.or(from.window.filter(|_| reads(Setting::Window))),
            latency: self.latency.or(from.latency.filter(|_| reads(Setting::Latency))),
            without: self.without.or(from.without.filter(has)),
            forward_path: self
                .forward_path
                .or(from.forward_path.filter(|_| reads(Setting::Forward))),
            fingerprint,
            ca,
            server_name,
            cert: self.cert.or(from.cert),
            key: self.key.or(from.key),
            token_file: self.token_file.or(from.token_file),
            insecure_plaintext,
            ready: self.ready.or(from.ready),
            max_memory: self.max_memory.or(from.max_memory),
            max_total_memory: self.max_total_memory.or(from.max_total_memory),
            grace: self.grace.or(from.grace),
            idle_timeout: self.idle_timeout.or(from.idle_timeout),
            drain: self.drain.or(from.drain),
            control: self.control.or(from.control),
            metrics: self.metrics.or(from.metrics),
            dashboard: self.dashboard.or(from.dashboard),
            behind_proxy: match self.behind_proxy.is_empty() {
                true => from.behind_proxy,
                false => self.behind_proxy,
            },
            qlog: self.qlog.or(from.qlog),
            log_format: self.log_format.or(from.log_format),
            log_level: self.log_level.or(from.log_level),
            config: None,
        }
    }

    fn security(&self) -> Result<ClientSecurity, Failure> {
        if self.insecure_plaintext {
            warn_plaintext();
            return Ok(ClientSecurity::InsecurePlaintext);
        }
        let files = (self.cert.as_deref(), self.key.as_deref());
        client_tls(self.fingerprint.as_deref(), self.ca.as_deref(), files)
    }

    fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = self.settings()?;
        for server in self.servers()? {
            builder = builder.server(server);
        }
        let written = self.paths().into_iter().collect::<Result<_, _>>()?;
        Ok(paths::provided(written, false)?.into_iter().fold(builder, ClientBuilder::path))
    }

    fn servers(&self) -> Result<Vec<ServerAddr>, Failure> {
        self.server.iter().map(|server| server.parse().map_err(Failure::wrong_use)).collect()
    }

    /// The paths in their order; whether they are there is another question.
    fn paths(&self) -> Vec<Result<PathConfig, PathError>> {
        let parsed = |texts: &[String]| match paths::parse_all(texts) {
            Ok(paths) => paths.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        let mut named = parsed(&self.path);
        if named.iter().any(Result::is_err) {
            // Each for itself: others may be right.
            named = self.path.iter().flat_map(|text| parsed(std::slice::from_ref(text))).collect();
        }
        let tables = self.paths.iter().map(|table| table.path().map_err(PathError::Written));
        named.into_iter().chain(tables).collect()
    }

    /// What `weftline doctor` looks at, part by part.
    ///
    /// # Errors
    /// When the options do not fit together.
    pub(crate) fn parts(self) -> Result<ClientParts, Failure> {
        let all = self.complete()?;
        let named = [
            ("token file", &all.token_file),
            ("authority file", &all.ca),
            ("certificate", &all.cert),
            ("key", &all.key),
            ("users file", &all.socks_users),
        ];
        let file = |(what, file): (&'static str, &Option<PathBuf>)| Some((what, file.clone()?));
        let of_tables = all.forwards.iter().flat_map(|table| [&table.listen, &table.socks]);
        let places = [&all.listen, &all.socks].into_iter().chain(of_tables);
        Ok(ClientParts {
            daemon: Daemon::Connect,
            servers: all.servers()?,
            paths: all.paths(),
            files: named.into_iter().filter_map(file).collect(),
            places: places.flatten().cloned().collect(),
            // Sockets that systemd passes are not here to be seen.
            listeners: match all.has_place() {
                true => all.listeners_of(&Client::builder()).map(services),
                false => Ok(BTreeSet::new()),
            },
            admin_endpoints: all.admin_endpoints()?,
            plaintext: all.insecure_plaintext,
            certificate: all.cert.clone(),
            token: match all.token_file {
                Some(_) => Shown::TokenFile,
                None => Shown::Nothing,
            },
            settings: all.settings(),
        })
    }

    /// All of the client but its servers and paths.
    fn settings(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder();
        if let Some(name) = &self.scheduler {
            builder = builder.scheduler(name);
        }
        if let Some(name) = &self.congestion {
            builder = builder.congestion(congestion::provide(name)?);
        }
        if let Some(size) = &self.window {
            builder = builder.window(parse_size("--window", size)?);
        }
        if let Some(latency) = &self.latency {
            builder = builder.latency(parse_duration("--latency", latency)?);
        }
        if let Some(rules) = &self.without {
            builder = builder.without(rules.parse().map_err(Failure::wrong_use)?);
        }
        if let Some(name) = &self.forward_path {
            builder = builder.forward(name);
        }
        if let Some(name) = &self.server_name {
            builder = builder.server_name(name);
        }
        if let Some(file) = &self.token_file {
            builder = builder.token(secrets::token(file)?);
        }
        if let Some(size) = &self.max_memory {
            builder = builder.max_memory(parse_size("--max-memory", size)?);
        }
        if let Some(grace) = &self.grace {
            builder = builder.grace(parse_duration("--grace", grace)?);
        }
        if let Some(timeout) = &self.idle_timeout {
            builder = builder.idle_timeout(parse_duration("--idle-timeout", timeout)?);
        }
        Ok(builder.security(self.security()?))
    }

    /// Where the daemon shows how it is.
    ///
    /// # Errors
    /// When no dashboard can be where one is wanted.
    fn admin_endpoints(&self) -> Result<Wanted, Failure> {
        Ok(Wanted {
            control: self.control.clone(),
            metrics: self.metrics,
            qlog: self.qlog.clone(),
            dashboard: DashboardPlace::of(self.dashboard, &self.behind_proxy)?,
        })
    }

    /// Says which of the keys that are read at the start only are others than those of `first`.
    fn warn_of_restart(&self, first: &Self) {
        warn_of_restart(&[
            ("behind-proxy", self.behind_proxy != first.behind_proxy),
            ("control", self.control != first.control),
            ("dashboard", self.dashboard != first.dashboard),
            ("drain", self.drain != first.drain),
            ("log-format", self.log_format != first.log_format),
            ("log-level", self.log_level != first.log_level),
            ("max-total-memory", self.max_total_memory != first.max_total_memory),
            ("metrics", self.metrics != first.metrics),
            ("qlog", self.qlog != first.qlog),
        ]);
    }

    /// Whether it says where connections are taken.
    fn has_place(&self) -> bool {
        self.listen.is_some() || self.socks.is_some() || !self.forwards.is_empty()
    }

    /// Where connections are taken, and how they are carried from there. A single `passed` socket
    /// needs no name.
    fn listeners(mut self, passed: &[Passed]) -> Result<Vec<Listener>, Failure> {
        if !self.has_place() {
            self.listen = (passed.len() == 1).then(|| Place::Passed(String::new()));
        }
        let has_path = !(self.path.is_empty() && self.paths.is_empty());
        need(&[
            (self.has_place(), "nowhere to take connections", "--listen ADDR or --socks ADDR"),
            (!self.server.is_empty(), "no server given", "--server ADDR"),
            (has_path, "no path given", "--path NAME=VIA, such as wifi=wlan0, or --path auto"),
        ])?;
        let client = self.builder()?;
        self.listeners_of(&client)
    }

    /// Where connections are taken, each with this client and what its place changes of it.
    fn listeners_of(&self, client: &ClientBuilder) -> Result<Vec<Listener>, Failure> {
        let users = self.socks_users.as_deref().map(secrets::users).transpose()?;
        let mut listeners = Vec::new();
        if self.listen.is_some() || self.socks.is_some() {
            let both = "--listen and --socks";
            let (address, service) = place(self.listen.as_ref(), self.socks.as_ref(), both)?;
            let ready = ready(self.ready)?;
            let (client, users) = (client.clone(), users.clone());
            listeners.push(Listener { address, service, users, client, ready });
        }
        for table in &self.forwards {
            let (address, service) = place(
                table.listen.as_ref(),
                table.socks.as_ref(),
                "[[forwards]]: listen and socks",
            )?;
            let mut client = client.clone();
            if let Some(name) = &table.scheduler {
                client = client.another_scheduler(name);
            }
            if let Some(size) = &table.window {
                client = client.window(parse_size("[[forwards]]: window", size)?);
            }
            if let Some(latency) = &table.latency {
                client = client.latency(parse_duration("[[forwards]]: latency", latency)?);
            }
            if let Some(name) = &table.forward_path {
                client = client.forward(name);
            }
            let ready = ready(table.ready.or(self.ready))?;
            let users = users.clone();
            listeners.push(Listener { address, service, users, client, ready });
        }
        if users.is_some() && listeners.iter().all(|one| one.service == LocalService::Forward) {
            return Err(Failure::wrong_use(
                "--socks-users is for --socks, which is not given; add --socks ADDR, or leave it out",
            ));
        }
        for (index, one) in listeners.iter().enumerate() {
            if listeners[..index].iter().any(|other| other.address == one.address) {
                let message = format!("{} is listed twice; leave one out", one.address);
                return Err(Failure::wrong_use(message));
            }
        }
        Ok(listeners)
    }
}

/// What local programs find at any of them.
fn services(listeners: Vec<Listener>) -> BTreeSet<LocalService> {
    listeners.iter().map(|one| one.service).collect()
}

fn ready(given: Option<usize>) -> Result<usize, Failure> {
    match given.unwrap_or(READY) {
        ready if ready > MAX_READY => {
            Err(Failure::wrong_use(format!("--ready: at most {MAX_READY}")))
        }
        ready => Ok(ready),
    }
}

/// The address, and what is there; `both` names the two ways to say it.
fn place(
    listen: Option<&Place>,
    socks: Option<&Place>,
    both: &str,
) -> Result<(Place, LocalService), Failure> {
    match (listen, socks) {
        (Some(place), None) => Ok((place.clone(), LocalService::Forward)),
        (None, Some(place)) => Ok((place.clone(), LocalService::Socks)),
        (Some(_), Some(_)) => {
            Err(Failure::wrong_use(format!("{both} exclude each other; give one of them")))
        }
        (None, None) => {
            Err(Failure::wrong_use(format!("{both}: neither is given; give one of them")))
        }
    }
}

/// Forwards until a signal comes.
pub(crate) fn run(args: ConnectArgs) -> Result<(), Failure> {
    let passed = sockets::take()?;
    let first = args.clone().complete()?;
    // A secret or a certificate can be replaced without any configuration file.
    let named = [&args.config, &first.token_file, &first.cert, &first.ca, &first.socks_users];
    let file = named.into_iter().flatten().next().cloned();
    log::start(first.log_format, first.log_level.as_deref())?;
    secrets::raise_file_limit();
    limit_memory(first.max_total_memory.as_deref())?;
    let admin_endpoints = first.admin_endpoints()?;
    let wanted = first.clone().listeners(&passed)?;
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let life = Life::start(Daemon::Connect, first.drain.as_deref())?;
        let mut reload = Reload::on_signal()?;
        let opened = AdminEndpoints::open(&life, admin_endpoints).await?;
        output::print(&opened.greeting)?;
        let mut listeners = Listeners::new(Arc::clone(&life), passed);
        let servers = first.server.join(", ");
        let begun =
            async { systemd::unhurried(await_answer(&servers, listeners.set(wanted)).await).await };
        tokio::select! {
            set = begun => set?,
            () = life.stopping() => return Ok(()),
        }
        listeners.warn_of_unused();
        loop {
            life.ready();
            tokio::select! {
                () = reload.wanted() => life.reloading(),
                () = life.stopping() => break,
            }
            let Some(file) = &file else {
                log_nothing_to_reload();
                continue;
            };
            let again = async {
                let args = args.clone().complete()?;
                let wanted = args.clone().listeners(listeners.passed())?;
                listeners.set(wanted).await?;
                args.warn_of_restart(&first);
                Ok(())
            };
            tokio::select! {
                set = again => log_reload(file, set),
                () = life.stopping() => break,
            }
        }
        listeners.ended().await;
        life.over();
        Ok(())
    });
    end(runtime);
    congestion::release();
    result
}
