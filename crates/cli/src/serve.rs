//! `weftline serve`: multipath connections in, TCP connections out.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use weftline::{
    Egress, LONGEST_DATAGRAM, LaneHost, Limits, Network, Server, ServerAddr, ServerBuilder,
    ServerControl, ServerSecurity, Target,
};

use crate::config;
use crate::congestion;
use crate::daemon::{
    changed, end, limit_memory, log_reload, need, parse_duration, parse_size, runtime,
    warn_of_restart, warn_plaintext,
};
use crate::failure::Failure;
use crate::internet::{self, Invites, Lanes};
use crate::ops::control::Control;
use crate::ops::log::{self, Format};
use crate::ops::sockets::{self, Passed};
use crate::ops::{AdminEndpoints, Daemon, DashboardPlace, LaneWatcher, Life, Wanted};
use crate::output;
use crate::secrets;
use crate::signals::{Reload, log_nothing_to_reload};
use crate::trust::{identity_dir, server_tls};

/// Options of `serve`, and the keys of its configuration file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ServeArgs {
    /// Addresses to listen on, such as 0.0.0.0:4433, besides the sockets that systemd passes
    ///
    /// With port 0 the system chooses one.
    #[arg(long, value_name = "ADDR", num_args = 1..)]
    #[serde(deserialize_with = "config::one_or_many")]
    listen: Vec<SocketAddr>,
    /// Where clients join further paths to the connections of this server, for several servers
    /// behind one name or balancer: an address of this one alone, as clients see it, which is not
    /// checked; up to 4; read again on SIGHUP [default: clients join where they connected]
    #[arg(long, value_name = "ADDR", num_args = 1.., hide_short_help = true)]
    #[serde(deserialize_with = "config::one_or_many")]
    join_address: Vec<SocketAddr>,
    /// Where each connection is forwarded to, such as 127.0.0.1:80
    #[arg(long, value_name = "ADDR")]
    forward: Option<String>,
    /// Forward each connection to where the client says (connect --socks)
    ///
    /// It needs --token-file or --client-ca, because a client may go anywhere from here.
    #[arg(long, conflicts_with = "forward")]
    socks: bool,
    /// Carry whole machines (weftline up): forward each connection to where it was going
    ///
    /// The first start makes a token file in the state directory and prints an invite; `weftline
    /// invite` makes more. Private and other special addresses, those of this machine and port 25
    /// are refused. UDP, ICMP and DNS are carried, too, if it may change this machine's network
    /// (root, or CAP_NET_ADMIN).
    #[arg(long, conflicts_with_all = ["forward", "socks", "insecure_plaintext"])]
    internet: bool,
    /// A network that clients may reach besides the internet, such as 192.168.7.0/24
    #[arg(long, value_name = "CIDR")]
    #[serde(deserialize_with = "config::one_or_many")]
    allow: Vec<String>,
    /// The address that clients reach this server by, if it is none of its own; for invites
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    #[serde(deserialize_with = "config::one_or_many")]
    public: Vec<SocketAddr>,
    /// A certificate chain (PEM) instead of the self-made one; needs --key
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    key: Option<PathBuf>,
    /// Where the self-made certificate is kept [default: /var/lib/weftline for root, else
    /// weftline in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    state_dir: Option<PathBuf>,
    /// A file with the secrets of accepted clients, one a line
    ///
    /// A secret has 16 characters or more; a name and a colon may stand before it. The file is read
    /// again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Authorities (PEM) of which clients must have a certificate
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    client_ca: Option<PathBuf>,
    /// No encryption and no authentication: for measurements on networks of your own
    #[arg(long, conflicts_with_all = ["cert", "key", "client_ca", "state_dir"], hide_short_help = true)]
    insecure_plaintext: bool,
    /// Congestion controls to load into the kernel for clients that ask for them, besides those it
    /// has: compound, lia, olia, balia (needs root)
    #[arg(long, value_name = "NAME", value_delimiter = ',', hide_short_help = true)]
    #[serde(deserialize_with = "config::one_or_many")]
    congestion: Vec<String>,
    /// The only congestion controls that clients may choose, such as bbr,cubic; read again on SIGHUP
    /// [default: all that this machine has]
    #[arg(long, value_name = "NAME", value_delimiter = ',', hide_short_help = true)]
    allow_congestion: Option<Vec<String>>,
    /// Most memory of a connection for received bytes, and again for bytes to send
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_memory: Option<String>,
    /// Most memory of all connections together [default: half of the machine's]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    max_total_memory: Option<String>,
    /// Most connections at once; one client, and one address, may have a quarter of them
    /// [default: 4096; 24576 with --internet, and half of them]
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_connections: Option<NonZeroUsize>,
    /// How long a connection lives without any path
    /// [default: 30s; 15m with --internet, for laptops that sleep]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    grace: Option<String>,
    /// How long a connection lives when the other end does not answer any more
    /// [default: 45s; 15m with --internet]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    idle_timeout: Option<String>,
    /// How long connections under way may go on after the first SIGTERM or SIGINT; a second one
    /// ends them at once [default: 30s; 2s with --internet, as nobody else can go on with them]
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
    /// A TOML file with any of these options by their long names; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
}

/// What a server is made of, each part with what is wrong with it.
pub(crate) struct ServerParts {
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) target: Result<Target, Failure>,
    /// Its admin endpoints.
    pub(crate) admin_endpoints: Wanted,
    /// The files it reads, and what they are.
    pub(crate) files: Vec<(&'static str, PathBuf)>,
    pub(crate) identity: Kept,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    /// What came of the congestion controls named.
    pub(crate) congestion: Vec<Result<(), Failure>>,
}

/// Where a server's certificate and key are.
pub(crate) enum Kept {
    /// It speaks plaintext.
    Nothing,
    Files(PathBuf, PathBuf),
    /// In a directory, where it makes them at first start.
    In(PathBuf),
}

impl ServeArgs {
    /// The options, completed from the configuration file, and checked.
    fn complete(self) -> Result<Self, Failure> {
        let all = match self.config.clone() {
            Some(file) => self.completed(config::read(&file)?),
            None => self,
        };
        all.check()?;
        all.with_defaults()
    }

    /// Refuses what does not go together, wherever it was said. A state directory does no harm
    /// beside plaintext: units always name one.
    fn check(&self) -> Result<(), Failure> {
        let others = [
            ("client-ca", self.client_ca.is_some()),
            ("cert", self.cert.is_some()),
            ("key", self.key.is_some()),
        ];
        config::exclude(("insecure-plaintext", self.insecure_plaintext), &others)?;
        let others = [
            ("forward", self.forward.is_some()),
            ("socks", self.socks),
            ("insecure-plaintext", self.insecure_plaintext),
            // An invite names the self-made certificate.
            ("cert", self.cert.is_some()),
            ("key", self.key.is_some()),
            ("client-ca", self.client_ca.is_some()),
        ];
        config::exclude(("internet", self.internet), &others)?;
        // Also when it is read again: what a running server asks of its clients may change.
        if self.socks && self.forward.is_none() && !self.authenticates() {
            return Err(Failure::wrong_use(
                "--socks lets clients go anywhere from here; give --token-file or --client-ca",
            ));
        }
        for (place, address) in self.listen.iter().enumerate() {
            if address.port() != 0 && self.listen[..place].contains(address) {
                let message = format!("--listen: {address} is listed twice; leave one out");
                return Err(Failure::wrong_use(message));
            }
        }
        for all in self.listen.iter().filter(|one| one.ip().is_unspecified() && one.port() != 0) {
            let is_within = |one: &&SocketAddr| {
                *one != all && one.port() == all.port() && one.is_ipv4() == all.is_ipv4()
            };
            if let Some(within) = self.listen.iter().find(is_within) {
                let message = format!("--listen: {all} has {within} in it; leave out one of them");
                return Err(Failure::wrong_use(message));
            }
        }
        for (name, given) in
            [("allow", &self.allow[..].is_empty()), ("public", &self.public.is_empty())]
        {
            if !given && !self.internet {
                let message = format!("--{name} is for --internet, which is not given; add it");
                return Err(Failure::wrong_use(message));
            }
        }
        Ok(())
    }

    /// What a server of whole machines has unless told otherwise.
    fn with_defaults(mut self) -> Result<Self, Failure> {
        if self.internet && self.token_file.is_none() {
            self.token_file = Some(internet::token_file(&identity_dir(self.state_dir.as_deref())?));
        }
        Ok(self)
    }

    /// The options, with `from` for those that are not given.
    fn completed(self, from: Self) -> Self {
        Self {
            listen: if self.listen.is_empty() { from.listen } else { self.listen },
            join_address: match self.join_address.is_empty() {
                true => from.join_address,
                false => self.join_address,
            },
            socks: self.socks || (from.socks && self.forward.is_none() && !self.internet),
            internet: self.internet || (from.internet && self.forward.is_none() && !self.socks),
            forward: match self.socks || self.internet {
                true => None,
                false => self.forward.or(from.forward),
            },
            allow: if self.allow.is_empty() { from.allow } else { self.allow },
            public: if self.public.is_empty() { from.public } else { self.public },
            congestion: match self.congestion.is_empty() {
                true => from.congestion,
                false => self.congestion,
            },
            allow_congestion: self.allow_congestion.or(from.allow_congestion),
            cert: self.cert.or(from.cert),
            key: self.key.or(from.key),
            state_dir: self.state_dir.or(from.state_dir),
            token_file: self.token_file.or(from.token_file),
            client_ca: self.client_ca.or(from.client_ca),
            insecure_plaintext: self.insecure_plaintext || from.insecure_plaintext,
            max_memory: self.max_memory.or(from.max_memory),
            max_total_memory: self.max_total_memory.or(from.max_total_memory),
            max_connections: self.max_connections.or(from.max_connections),
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

    /// Whether clients have to show who they are.
    fn authenticates(&self) -> bool {
        // Without TLS nobody shows a certificate, whatever authorities are named.
        self.token_file.is_some() || (self.client_ca.is_some() && !self.insecure_plaintext)
    }

    fn target(&self) -> Result<Target, Failure> {
        if self.internet {
            let network = |text: &String| text.parse::<Network>();
            let allowed = self.allow.iter().map(network).collect::<Result<_, _>>();
            let allowed = allowed.map_err(|error| Failure::wrong_use(format!("--allow: {error}")));
            let outer = self.public.iter().map(SocketAddr::ip).collect();
            return Ok(Target::Internet(Egress::new(allowed?).reached_by(outer)));
        }
        let Some(target) = &self.forward else {
            if self.socks {
                return Ok(Target::Named);
            }
            let (_, what, give) = NO_TARGET;
            return Err(Failure::wrong_use(format!("{what}; give {give}")));
        };
        if self.socks {
            return Err(Failure::wrong_use(
                "--forward and --socks exclude each other; give one of them",
            ));
        }
        let parsed: Result<ServerAddr, _> = target.parse();
        let parsed = parsed.map_err(|error| Failure::wrong_use(format!("--forward: {error}")))?;
        if let Ok(address) = target.parse()
            && self.listen.iter().any(|own| is_at(*own, address))
        {
            return Err(Failure::wrong_use(format!(
                "--forward {target} is this server itself; give the address of the service"
            )));
        }
        Ok(Target::Fixed(parsed))
    }

    fn security(&self) -> Result<ServerSecurity, Failure> {
        if self.insecure_plaintext {
            warn_plaintext();
            return Ok(ServerSecurity::InsecurePlaintext);
        }
        let files = (self.cert.as_deref(), self.key.as_deref());
        server_tls(files, self.state_dir.as_deref(), self.client_ca.as_deref())
    }

    /// What `weftline doctor` looks at, part by part.
    ///
    /// # Errors
    /// When the options do not fit together.
    pub(crate) fn parts(self) -> Result<ServerParts, Failure> {
        let mut all = self.complete()?;
        if all.internet && all.listen.is_empty() {
            all.listen.push(internet::default_listen());
        }
        // The first start makes it.
        let tokens = all.token_file.clone().filter(|file| !all.internet || file.exists());
        let named = [
            ("token file", &tokens),
            ("authority file", &all.client_ca),
            ("certificate", &all.cert),
            ("key", &all.key),
        ];
        let file = |(what, file): (&'static str, &Option<PathBuf>)| Some((what, file.clone()?));
        let allowed = all.allow_congestion.as_deref().map(allowed_congestion).transpose();
        let wanted = all.congestion.iter().map(|name| congestion::provide(name));
        Ok(ServerParts {
            target: all.target(),
            admin_endpoints: all.admin_endpoints()?,
            files: named.into_iter().filter_map(file).collect(),
            listen: all.listen,
            identity: match (all.insecure_plaintext, all.cert, all.key) {
                (true, ..) => Kept::Nothing,
                (false, Some(cert), Some(key)) => Kept::Files(cert, key),
                (false, ..) => Kept::In(identity_dir(all.state_dir.as_deref())?),
            },
            client_ca: all.client_ca,
            token_file: all.token_file,
            congestion: wanted.map(|name| name.map(drop)).chain([allowed.map(drop)]).collect(),
        })
    }

    /// All but the addresses, and what to say of the certificate.
    fn builder(&self) -> Result<(ServerBuilder, String), Failure> {
        let security = self.security()?;
        let mut greeting = String::new();
        if let ServerSecurity::Tls(tls) = &security {
            greeting = format!("fingerprint {}\n", tls.fingerprint());
        }
        let mut builder = Server::builder().security(security);
        if let Some(file) = &self.token_file {
            builder = secrets::tokens(file)?.into_iter().fold(builder, |b, token| b.token(token));
        }
        builder = self.join_address.iter().copied().fold(builder, ServerBuilder::join_address);
        if let Some(names) = &self.allow_congestion {
            builder = builder.allow_congestion(allowed_congestion(names)?);
        }
        if let Some(size) = &self.max_memory {
            builder = builder.max_memory(parse_size("--max-memory", size)?);
        }
        builder = builder.limits(self.limits());
        if self.internet {
            builder = builder.grace(SLEEP).idle_timeout(SLEEP).longest_message(LONGEST_DATAGRAM);
        }
        if let Some(grace) = &self.grace {
            builder = builder.grace(parse_duration("--grace", grace)?);
        }
        if let Some(timeout) = &self.idle_timeout {
            builder = builder.idle_timeout(parse_duration("--idle-timeout", timeout)?);
        }
        Ok((builder, greeting))
    }

    /// What peers may do: those of a server for whole machines open more.
    fn limits(&self) -> Limits {
        let (limits, share) = match self.internet {
            true => (whole_machines(), 2),
            false => (Limits::default(), 4),
        };
        let Some(most) = self.max_connections else { return limits };
        let (sessions, share) = (most.get(), most.get().div_ceil(share));
        Limits { sessions, sessions_per_source: share, sessions_per_client: share, ..limits }
    }

    /// What carries UDP and all else of whole machines, if this one can: TCP needs none of it.
    fn lanes(&self, target: &Target, listening: &[SocketAddr]) -> Option<Arc<Lanes>> {
        let Target::Internet(egress) = target else { return None };
        let dir = identity_dir(self.state_dir.as_deref());
        match dir.and_then(|dir| Lanes::start(&dir, egress, listening)) {
            Ok(lanes) => Some(Arc::new(lanes)),
            Err(error) => {
                tracing::warn!("clients' TCP is carried, their UDP, DNS and ICMP are not: {error}");
                None
            }
        }
    }

    /// Claims the state directory of a server of whole machines.
    fn prepare_invites(&self) -> Result<Option<Invites>, Failure> {
        let Some(tokens) = self.token_file.as_ref().filter(|_| self.internet) else {
            return Ok(None);
        };
        Invites::prepare(identity_dir(self.state_dir.as_deref())?, tokens.clone()).map(Some)
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

    /// Takes over what may change while the server runs.
    fn reload(&self, first: &Self, control: &ServerControl) -> Result<(), Failure> {
        let fixed = changed(&[
            ("allow", self.allow != first.allow),
            ("congestion", self.congestion != first.congestion),
            ("forward", self.forward != first.forward),
            ("internet", self.internet != first.internet),
            ("listen", self.listen != first.listen),
            ("max-connections", self.max_connections != first.max_connections),
            ("public", self.public != first.public),
            ("socks", self.socks != first.socks),
        ]);
        if let Some(fixed) = fixed {
            let message = format!("{fixed}: holds from start to end; restart to change it");
            return Err(Failure::wrong_use(message));
        }
        let (builder, _) = self.builder()?;
        match control.reload(builder)? {
            0 => {}
            n => tracing::info!("{n} connections of clients whose token is gone were reset"),
        }
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
            ("state-dir", self.state_dir != first.state_dir),
        ]);
        Ok(())
    }
}

/// What says how lanes are, for as long as there are some.
fn watcher(lanes: &Arc<Lanes>) -> LaneWatcher {
    let lanes = Arc::downgrade(lanes);
    Box::new(move || lanes.upgrade().map(|lanes| lanes.status()).unwrap_or_default())
}

/// How long a machine may sleep, or be away, without losing its connections: as long as they would
/// wait for it without a server between them and it (tcp_retries2 of Linux, 924 s). Those of a
/// machine that does not come back make room where others need it.
const SLEEP: Duration = Duration::from_secs(15 * 60);

/// Limits for clients each of which is a machine with all its programs: a page in a browser alone
/// opens a hundred connections at once.
fn whole_machines() -> Limits {
    Limits {
        handshakes: 1024,
        handshakes_per_source: 256,
        sessions: 24_576,
        sessions_per_source: 12_288,
        sessions_per_client: 12_288,
        ..Limits::default()
    }
}

/// Whether one that listens at `own` is reached at `address`, as far as that is plain.
fn is_at(own: SocketAddr, address: SocketAddr) -> bool {
    let is_everywhere = own.ip().is_unspecified() && address.ip().is_loopback();
    own.port() == address.port() && (own.ip() == address.ip() || is_everywhere)
}

/// The kernel's names of the congestion controls that clients may choose.
fn allowed_congestion(names: &[String]) -> Result<Vec<String>, Failure> {
    let provide = |name: &String| match name.as_str() {
        congestion::AUTO => Err(Failure::wrong_use(
            "--allow-congestion: auto is always allowed and keeps to the names given; leave it out",
        )),
        name => congestion::provide(name),
    };
    names.iter().map(provide).collect()
}

/// How long connections of whole machines may go on when the server ends: what is begun meanwhile waits for the
/// next one.
const INTERNET_DRAIN: &str = "2s";
/// That there is nothing to forward to, as [`need`] has it.
const NO_TARGET: (bool, &str, &str) =
    (false, "nothing to forward to", "--forward ADDR, --socks or --internet");

/// Where to listen besides the sockets that were `passed`, and what for.
fn purpose(first: &ServeArgs, passed: &[Passed]) -> Result<(Vec<SocketAddr>, Target), Failure> {
    let mut listen = first.listen.clone();
    if first.internet && listen.is_empty() && passed.is_empty() {
        listen.push(internet::default_listen());
    }
    let has_target = first.internet || first.socks || first.forward.is_some();
    need(&[
        (!(listen.is_empty() && passed.is_empty()), "nothing to listen on", "--listen ADDR"),
        (has_target, NO_TARGET.1, NO_TARGET.2),
    ])?;
    Ok((listen, first.target()?))
}

/// Serves until a signal comes.
pub(crate) fn run(args: ServeArgs) -> Result<(), Failure> {
    let passed = sockets::take()?;
    let first = args.clone().complete()?;
    // A secret or a certificate can be replaced without any configuration file.
    let named = [&args.config, &first.token_file, &first.cert, &first.client_ca];
    let file = named.into_iter().flatten().next().cloned();
    log::start(first.log_format, first.log_level.as_deref())?;
    secrets::raise_file_limit();
    limit_memory(first.max_total_memory.as_deref())?;
    let admin_endpoints = first.admin_endpoints()?;
    let (listen, target) = purpose(&first, &passed)?;
    let runtime = runtime()?;
    // Before `weftline invite` can find this process and send it a signal.
    let mut wanted = {
        let _inside = runtime.enter();
        Reload::on_signal()?
    };
    let invited = first.prepare_invites()?;
    let (mut builder, mut greeting) = first.builder()?;
    congestion::couple();
    for name in &first.congestion {
        weftline::check_congestion(&congestion::provide(name)?)?;
    }
    for one in &passed {
        builder = builder.listener(one.listener()?);
    }
    // One configuration does for both ways to be started.
    let is_passed = |address: &SocketAddr| passed.iter().any(|one| one.address == *address);
    let fresh: Vec<_> = listen.iter().copied().filter(|a| !is_passed(a)).collect();
    let result = runtime.block_on(async {
        let drain = first.drain.as_deref().or(first.internet.then_some(INTERNET_DRAIN));
        let life = Life::start(Daemon::Serve, drain)?;
        let server = builder.bind(&fresh)?;
        let addresses: Vec<_> = server.local_addrs().iter().map(ToString::to_string).collect();
        let announce = |one: &Invites| one.announce(server.local_addrs(), &first.public);
        let invite = invited.as_ref().map(announce).transpose()?.unwrap_or_default();
        for address in &addresses {
            greeting += &format!("listening on {address}\n");
        }
        life.set_listening(addresses);
        let lanes = first.lanes(&target, server.local_addrs());
        life.set_lanes(lanes.as_ref().map(watcher));
        if let Some(lanes) = &lanes {
            tokio::spawn(Lanes::follow(Arc::downgrade(lanes)));
        }
        // Whoever waits for the greeting takes it for a server that runs, lanes and all.
        let opened = AdminEndpoints::open(&life, admin_endpoints).await?;
        output::print(&(greeting + &invite + &opened.greeting))?;
        life.ready();
        let control = server.control();
        let host = lanes.map(|lanes| lanes as Arc<dyn LaneHost>);
        let reloading = async {
            loop {
                wanted.wanted().await;
                life.reloading();
                match &file {
                    Some(file) => {
                        let read = invited.as_ref().map(Invites::reading);
                        let again = args.clone().complete();
                        let result = again.and_then(|args| args.reload(&first, &control));
                        read.into_iter().for_each(|read| read.note(result.as_ref().err()));
                        log_reload(file, result);
                    }
                    None => log_nothing_to_reload(),
                }
                life.ready();
            }
        };
        tokio::select! {
            () = weftline::serve_with_lanes(
                server, target, host, life.stopping(), life.ending(),
            ) => {}
            () = reloading => {}
        }
        life.over();
        Ok(())
    });
    end(runtime);
    congestion::release();
    result
}
