//! `weftline vr serve`: a package, or a live source, as a live stream, to any number of players.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weftline::{Connection, Limits, Server, ServerSecurity, refusal};
use weftline_core::Bitrate;
use weftline_video::evaluate::{Concealment, ConcealmentTable};
use weftline_video::live::wire::MAX_TO_SERVER;
use weftline_video::live::{Content, ServerSettings};
use weftline_video::ows::{Entry, Recency, SearchBudget};
use weftline_vr::package::Package;

use super::admission::{Admission, WAITING};
use super::heads;
use super::link::{Link, Transport, listen_kernel};
use super::origin::Origin;
use super::session::{Served, Tally, serve};
use super::source::SourceArgs;
use crate::congestion;
use crate::daemon::{end, runtime, warn_plaintext};
use crate::failure::Failure;
use crate::ops::log::{self, Format};
use crate::ops::snapshot::About;
use crate::ops::{DashboardPlace, dashboard};
use crate::signals::Stop;
use crate::trust::server_tls;
use crate::{output, secrets};

/// What concealments lose, measured when a package is made.
const CONCEALMENTS: &str = "miss.csv";

/// Options of `vr serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// A package of `weftline vr package`
    #[arg(required_unless_present = "source", conflicts_with = "source")]
    package: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// An address to listen on, such as 0.0.0.0:7000 (port 0: one of the system's choice); more with
    /// commas between them, or by giving the option again
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true)]
    listen: Vec<SocketAddr>,
    /// How tiles, rungs and their order are chosen: ows, ows-order, fix, fix-margin, fix-margin-80,
    /// fix-margin-90, uniform, viewport-only, ows-paper, ows-paper-desc
    #[arg(long, value_name = "NAME", default_value = "ows")]
    scheme: String,
    /// What players show in place of late tiles: grey, last-received, base-layer
    #[arg(long, value_name = "NAME", default_value = "last-received")]
    concealment: String,
    #[command(flatten)]
    known: heads::KnownArgs,
    /// How many GoPs a stream has; after the package's last comes its first again [default: the
    /// package's]
    #[arg(long, value_name = "N", conflicts_with = "source")]
    gops: Option<u32>,
    /// What all paths together are taken to carry before anything is known
    #[arg(long, value_name = "RATE", default_value = "10Mbps", hide_short_help = true)]
    start_rate: Bitrate,
    /// What carries the streams: weftline, or for comparison mptcp or tcp, which are plaintext and
    /// want --insecure-plaintext
    #[arg(
        long,
        value_name = "NAME",
        default_value = "weftline",
        hide_possible_values = true,
        hide_short_help = true
    )]
    transport: Transport,
    /// End after so many players have been served
    #[arg(long, value_name = "N", hide_short_help = true)]
    players: Option<NonZero<u32>>,
    /// Most players at once
    #[arg(long, value_name = "N", default_value = "64", hide_short_help = true)]
    max_players: NonZero<usize>,
    /// A dashboard for browsers at this address, such as 127.0.0.1:9480
    ///
    /// The program prints the address to open, which has a token. Beyond this machine it is refused
    /// without --behind-proxy.
    #[arg(long, value_name = "ADDR")]
    dashboard: Option<SocketAddr>,
    /// The name under which a proxy with TLS offers the dashboard, such as weft.example
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    behind_proxy: Vec<String>,
    #[command(flatten)]
    security: SecurityArgs,
    /// What a line of the log looks like [default: text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, hide_short_help = true)]
    log_format: Option<Format>,
    /// What is logged [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
}

/// How the server is known, and who is let in.
#[derive(Debug, Args)]
struct SecurityArgs {
    /// A certificate chain (PEM) instead of the self-made one; needs --key
    #[arg(long, value_name = "FILE", requires = "key", hide_short_help = true)]
    cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert", hide_short_help = true)]
    key: Option<PathBuf>,
    /// Where the self-made certificate is kept [default: that of `weftline serve`]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    state_dir: Option<PathBuf>,
    /// A file with the secrets of accepted players
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Authorities (PEM) of which players must have a certificate
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    client_ca: Option<PathBuf>,
    /// No encryption and no authentication: for measurements on networks of your own
    #[arg(long, conflicts_with_all = ["cert", "key", "client_ca", "state_dir"], hide_short_help = true)]
    insecure_plaintext: bool,
}

/// Serves until a signal comes, or as many players as were asked for have been.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    log::start(args.log_format, args.log_level.as_deref())?;
    secrets::raise_file_limit();
    args.check_transport()?;
    let place = args.dashboard()?;
    let settings = args.settings()?;
    let (served, source) = match (&args.package, args.source.open()?) {
        (_, Some(source)) => (source.served(settings)?, Some(source)),
        (Some(package), None) => (args.served(package, settings)?, None),
        (None, None) => return Err(Failure::wrong_use("give a package, or --source")),
    };
    let served = Arc::new(served);
    congestion::couple();
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let stop = Arc::new(Stop::on_signals_and_hangup()?);
        let (mut acceptor, greeting) = Acceptor::open(args)?;
        let mut said = greeting;
        let live = match source {
            Some(source) => {
                said += &source.greeting();
                Some(source.start()?)
            }
            None => None,
        };
        let mut _dashboard = None;
        if let Some(place) = &place {
            let (began, listening) = (Instant::now(), listening(&said));
            let about = move || {
                let (daemon, state, listening) = ("vr serve", "running", listening.clone());
                About { daemon, state, began, listening, lanes: Vec::new(), node: None }
            };
            let (opened, url) = dashboard::open(about, place, false).await?;
            _dashboard = Some(opened);
            said += &format!("dashboard {url}\n");
        }
        output::print(&said)?;
        let (most, all) = (args.max_players.get(), args.players.map(NonZero::get));
        let admission = Admission::new(most, all);
        match live {
            None => {
                serve_all(&mut acceptor, &served, &stop, &admission, std::future::pending()).await;
            }
            Some(live) => {
                serve_all(&mut acceptor, &served, &stop, &admission, live.ended()).await;
                // The signal that ends this program may have ended ffmpeg, too.
                live.finish().or_else(|error| if stop.has_come() { Ok(()) } else { Err(error) })?;
            }
        }
        tracing::info!("stopped");
        Ok(())
    });
    end(runtime);
    result
}

/// The addresses that a greeting names.
fn listening(greeting: &str) -> Vec<String> {
    let addresses = greeting.lines().filter_map(|line| line.strip_prefix("listening on "));
    addresses.map(str::to_owned).collect()
}

impl ServeArgs {
    /// Where a dashboard is to be.
    ///
    /// # Errors
    /// When none can be there, or there would be nothing to see.
    fn dashboard(&self) -> Result<Option<DashboardPlace>, Failure> {
        let place = DashboardPlace::of(self.dashboard, &self.behind_proxy)?;
        if place.is_some() && self.transport.kernel().is_some() {
            return Err(Failure::wrong_use(format!(
                "--dashboard shows weftline's connections, and --transport {} has none; leave out \
                 one of them",
                self.transport.name()
            )));
        }
        Ok(place)
    }

    /// The kernel's transports are for measurements only, and that has to be said.
    fn check_transport(&self) -> Result<(), Failure> {
        let security = &self.security;
        let open = security.insecure_plaintext && security.token_file.is_none();
        if self.transport.kernel().is_none() || open {
            return Ok(());
        }
        Err(Failure::wrong_use(format!(
            "--transport {} has neither encryption nor tokens: give --insecure-plaintext and no \
             --token-file, on a network of your own",
            self.transport.name()
        )))
    }

    /// How streams are planned.
    fn settings(&self) -> Result<ServerSettings, Failure> {
        let scheme = Entry::find(&self.scheme).map_err(Failure::wrong_use)?;
        if scheme.name == "oracle" {
            let message = "--scheme: oracle knows the future, which a live stream does not have";
            return Err(Failure::wrong_use(message));
        }
        let concealment = Concealment::find(&self.concealment).ok_or_else(|| {
            let names = Concealment::ALL.map(|(name, _)| name).join(", ");
            Failure::wrong_use(format!(
                "--concealment: unknown '{}'; there are {names}",
                self.concealment
            ))
        })?;
        Ok(ServerSettings {
            scheme,
            concealment,
            start: self.start_rate,
            recency: Recency::default(),
            search_units: SearchBudget::DEFAULT_UNITS,
        })
    }

    /// What is served of a package, checked to be whole.
    fn served(&self, package: &Path, settings: ServerSettings) -> Result<Served, Failure> {
        let package = Package::open(package)?;
        let rung = package.table().gops()[0].tiles()[0].rungs()[0];
        // What a player gets must be what was packaged, and only digests say so.
        package.digests(0, rung.qp, 0)?;
        let description = package.description();
        let gops = self.gops.unwrap_or(description.gops());
        let (grid, gop) = (description.grid(), description.gop_duration());
        // After the package's last GoP comes its first again, and with it what was seen of it.
        let length = gop * gops.min(description.gops());
        let name = package.dir().file_name().unwrap_or_default().to_string_lossy();
        let prior = self.known.probabilities(&name, grid, gop, length)?;
        let content = Content::new(
            description.frame(),
            description.gop_frames(),
            // Players mix each pixel of a viewport from four. Packages of before say nothing of that.
            package.table().mixed().unwrap_or_else(|| package.table().clone()),
            concealments(package.dir())?,
            prior,
            Some(gops),
        );
        let wrong = |error| Failure::wrong_use(format!("{}: {error}", package.dir().display()));
        let mut content = content.map_err(wrong)?.with_init(package.init_bytes());
        if let Some(sound) = package.live_sound() {
            content = content.with_sound(sound).map_err(wrong)?;
        }
        if !content.concealments_measured() {
            tracing::warn!(
                "{} has no {CONCEALMENTS}: what concealments lose is taken as usual; package it anew",
                package.dir().display()
            );
        }
        let (content, origin) = (Arc::new(content), Origin::Package(Box::new(package)));
        Ok(Served { content, origin, settings })
    }
}

/// The table of concealments of a package, if it has one.
fn concealments(dir: &Path) -> Result<Option<ConcealmentTable>, Failure> {
    let path = dir.join(CONCEALMENTS);
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("{}: {error}; package it anew", path.display()))
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => ConcealmentTable::parse(&text).map(Some).map_err(|error| wrong(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(&error)),
    }
}

/// Accepts players.
enum Acceptor {
    Weftline(Server),
    Kernel(mpsc::Receiver<(tokio::net::TcpStream, SocketAddr)>),
}

impl Acceptor {
    /// Listens, and says where and as whom.
    fn open(args: &ServeArgs) -> Result<(Self, String), Failure> {
        let security = &args.security;
        let mut greeting = String::new();
        let listening = |address: SocketAddr| format!("listening on {address}\n");
        if let Some(protocol) = args.transport.kernel() {
            warn_plaintext();
            let (to, from) = mpsc::channel(1);
            for &address in &args.listen {
                let listener = listen_kernel(address, protocol)
                    .map_err(|error| Failure::failed(format!("listening on {address}: {error}")))?;
                greeting += &listening(listener.local_addr()?);
                tokio::spawn(accept(listener, to.clone()));
            }
            return Ok((Self::Kernel(from), greeting));
        }
        let tls = if security.insecure_plaintext {
            warn_plaintext();
            ServerSecurity::InsecurePlaintext
        } else {
            let files = (security.cert.as_deref(), security.key.as_deref());
            server_tls(files, security.state_dir.as_deref(), security.client_ca.as_deref())?
        };
        if let ServerSecurity::Tls(tls) = &tls {
            greeting = format!("fingerprint {}\n", tls.fingerprint());
        }
        let most = args.max_players.get();
        // Those that have not greeted take no player's place.
        let sessions = most.saturating_add(WAITING);
        let limits = Limits { sessions, sessions_per_source: sessions, ..Limits::default() };
        let limits = Limits { sessions_per_client: most, ..limits };
        let mut builder = Server::builder().security(tls).limits(limits).messages();
        if let Some(file) = &security.token_file {
            builder = secrets::tokens(file)?.into_iter().fold(builder, |b, token| b.token(token));
        }
        let server = builder.bind(&args.listen)?;
        for address in server.local_addrs() {
            greeting += &listening(*address);
        }
        Ok((Self::Weftline(server), greeting))
    }

    /// The next player.
    async fn next(&mut self) -> (Link, IpAddr, String) {
        loop {
            match self {
                Self::Kernel(accepted) => match accepted.recv().await {
                    Some((stream, peer)) => {
                        let link = Link::stream(stream, MAX_TO_SERVER);
                        return (link, peer.ip(), peer.to_string());
                    }
                    None => std::future::pending().await,
                },
                Self::Weftline(server) => {
                    if let Some(player) = messages(server.accept().await) {
                        return player;
                    }
                }
            }
        }
    }
}

/// A connection as one of messages; others are told what this is.
fn messages(connection: Connection) -> Option<(Link, IpAddr, String)> {
    let peer = connection.peer_addr();
    let who = connection.client().map_or(peer.to_string(), |name| format!("{name} ({peer})"));
    connection.set_label("360° video");
    match connection.into_messages() {
        Ok(messages) => Some((Link::messages(messages), peer.ip(), who)),
        Err(stream) => {
            tracing::warn!("{who}: refused, it is no player");
            stream.abort(refusal::MESSAGES, "here is weftline vr serve; connect with vr play");
            None
        }
    }
}

/// Hands on what a listener of the kernel accepts.
async fn accept(listener: TcpListener, to: mpsc::Sender<(tokio::net::TcpStream, SocketAddr)>) {
    loop {
        match listener.accept().await {
            Ok(accepted) => {
                if to.send(accepted).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                // Out of file descriptors, mostly: it passes.
                tracing::warn!("cannot accept: {error}");
                tokio::time::sleep(super::TICK).await;
            }
        }
    }
}

/// Serves whoever comes until all that were to come have been, there is nothing more to serve, or a signal
/// comes.
async fn serve_all(
    acceptor: &mut Acceptor,
    served: &Arc<Served>,
    stop: &Arc<Stop>,
    admission: &Arc<Admission>,
    over: impl Future<Output = ()>,
) {
    let mut over = std::pin::pin!(over);
    let mut players = JoinSet::new();
    loop {
        let (link, source, who) = tokio::select! {
            next = acceptor.next() => next,
            () = admission.all_taken() => break,
            () = &mut over => break,
            () = stop.nth(1) => break,
        };
        let ticket = admission.ticket(source);
        let has_greeted = ticket.has_greeted();
        let (served, stop) = (Arc::clone(served), Arc::clone(stop));
        let task = players.spawn(async move {
            match serve(served, link, &who, ticket, async move { stop.nth(1).await }).await {
                Ok(tally) => tell(&who, &tally),
                Err(error) => tracing::warn!("{who}: {error}"),
            }
        });
        admission.wait(source, task, has_greeted);
        while players.try_join_next().is_some() {}
    }
    // What is under way may end: the stop is known to it.
    tokio::select! {
        () = async { while players.join_next().await.is_some() {} } => {}
        () = stop.nth(2) => {}
    }
}

fn tell(who: &str, tally: &Tally) {
    tracing::info!("{who}: has got its {} GoPs: {tally}", tally.gops);
}
