//! `weftline vr play`: a player without a screen, whose head follows a trace.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use weftline::{Client, ClientSecurity, Fingerprint, Identity, ServerAddr};
use weftline_core::ByteCount;
use weftline_video::geometry::FieldOfView;
use weftline_video::head::Format as HeadFormat;
use weftline_video::live::wire::{BUFFERS, MAX_TO_PLAYER};
use weftline_video::live::{Client as Player, ClientSettings};

use super::link::{Link, Transport, connect_kernel};
use super::log::{GopLog, Summary};
use super::player::{Playing, play};
use super::save::Store;
use super::web::{self, Secured, Web};
use super::{Clock, heads};
use crate::congestion;
use crate::daemon::{end, parse_duration, runtime, warn_plaintext};
use crate::failure::Failure;
use crate::ops::DashboardPlace;
use crate::ops::log::{self, Format};
use crate::signals::Stop;
use crate::trust::{client_tls, identity_dir};
use crate::{output, paths, secrets};

/// Options of `vr play`.
#[derive(Debug, Args)]
pub(crate) struct PlayArgs {
    /// The server, such as 192.0.2.1:7000; once for all paths, or once for each in their order
    #[arg(long, value_name = "ADDR", num_args = 1.., required = true)]
    server: Vec<String>,
    /// A path: a name of your choice and the interface or local address it leaves through, with
    /// options as for `weftline connect`
    #[arg(long, value_name = "NAME=IFACE|ADDR", num_args = 1..)]
    path: Vec<String>,
    /// Head motion to follow
    #[arg(long, value_name = "FILE", conflicts_with = "viewer")]
    head: Option<PathBuf>,
    /// Its format: csv, avtrack360, corbillon2017, nasrabadi2019
    #[arg(long, value_name = "NAME", default_value = "csv", hide_short_help = true)]
    heads_format: HeadFormat,
    /// Which viewer of the file, if there are several
    #[arg(long, value_name = "NAME", requires = "head", hide_short_help = true)]
    head_viewer: Option<String>,
    /// Which video of the file, if there are several
    #[arg(long, value_name = "NAME", requires = "head", hide_short_help = true)]
    head_video: Option<String>,
    /// The synthetic viewer of this number instead
    #[arg(long, value_name = "N", default_value_t = 1)]
    viewer: u32,
    /// The angle that the viewport spans, both ways, in degrees
    #[arg(long, value_name = "DEGREES", default_value_t = 100.0, hide_short_help = true)]
    fov: f64,
    /// How long after the server has announced it a GoP is shown, 100ms to 60s: more bridges longer
    /// gaps, and shows them later [default: as long as a GoP is]
    #[arg(long, value_name = "DURATION")]
    buffer: Option<String>,
    /// Stop the picture for at most so long where what is looked at is late, instead of concealing it
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    rebuffer: Option<String>,
    /// Write a line for each GoP to this file: CSV, or JSON if its name ends in .jsonl; - for
    /// standard output
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Keep the tiles that arrive, as files like those of a package
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    save: Option<PathBuf>,
    /// Show the stream to browsers at this address, such as 127.0.0.1:9481, where a viewer looks around
    ///
    /// The program prints the address to open, which has a token. The head is that of the first page that
    /// watches, and --head or --viewer's where there is none. Beyond this machine it is refused without
    /// --web-tls or --behind-proxy.
    #[arg(long, value_name = "ADDR")]
    web: Option<SocketAddr>,
    /// Speak TLS with browsers: of other machines, as a headset, only so
    ///
    /// The address is then one of this machine's on their network, such as 192.168.1.5:9481. The
    /// certificate is this machine's own, kept in the state directory: browsers warn of it once, and the
    /// program prints its fingerprint.
    #[arg(long, requires = "web")]
    web_tls: bool,
    /// The certificate for that (PEM) instead, one that browsers trust; needs --web-key
    #[arg(long, value_name = "FILE", requires_all = ["web_tls", "web_key"], hide_short_help = true)]
    web_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "web_cert", hide_short_help = true)]
    web_key: Option<PathBuf>,
    /// Where this machine's own certificate is kept, in the directory `web` [default: as `weftline serve`]
    #[arg(long, value_name = "DIR", requires = "web_tls", hide_short_help = true)]
    state_dir: Option<PathBuf>,
    /// The name under which a proxy with TLS offers the page, such as weft.example; with --web-tls the one
    /// that the certificate is for
    #[arg(long, value_name = "NAME", requires = "web", hide_short_help = true)]
    behind_proxy: Vec<String>,
    /// Write what pages have shown, a JSON object for each GoP and page, for `weftline vr check --shown`
    #[arg(long, value_name = "FILE", requires = "web", hide_short_help = true)]
    shown: Option<PathBuf>,
    /// One JSON object on standard output and nothing else
    #[arg(long)]
    json: bool,
    /// How messages are spread over the paths, see `weftline list schedulers`
    #[arg(long, value_name = "NAME", default_value = "fbdt")]
    scheduler: String,
    /// The kernel's congestion control, both directions, of mptcp and tcp the player's only [default:
    /// auto over weftline's paths, else the system's]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    congestion: Option<String>,
    /// What carries the stream: weftline, or for comparison mptcp or tcp as the server has it
    #[arg(
        long,
        value_name = "NAME",
        default_value = "weftline",
        hide_possible_values = true,
        hide_short_help = true
    )]
    transport: Transport,
    /// How long the stream may be without a path, or silent, before it is given up; silent for two
    /// GoPs at least
    #[arg(long, value_name = "DURATION", default_value = "10s", hide_short_help = true)]
    grace: String,
    #[command(flatten)]
    trust: TrustArgs,
    /// What a line of the log on standard error looks like [default: text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, hide_short_help = true)]
    log_format: Option<Format>,
    /// What is logged there [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
}

/// Whom the player trusts, and who it is.
#[derive(Debug, Args)]
struct TrustArgs {
    /// Accept the server with this fingerprint (it prints it at start)
    #[arg(long, value_name = "sha256:HEX", conflicts_with = "ca")]
    fingerprint: Option<String>,
    /// Accept servers with a certificate from these authorities (PEM)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    ca: Option<PathBuf>,
    /// The name the certificate must be issued to [default: the host of --server]
    #[arg(long, value_name = "NAME", requires = "ca", hide_short_help = true)]
    server_name: Option<String>,
    /// This player's certificate (PEM), for servers with --client-ca; needs --key
    #[arg(long, value_name = "FILE", requires = "key", hide_short_help = true)]
    cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert", hide_short_help = true)]
    key: Option<PathBuf>,
    /// A file with the secret that the server wants
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// No encryption and no authentication: for measurements on networks of your own
    #[arg(long, conflicts_with_all = ["fingerprint", "ca", "cert", "key"], hide_short_help = true)]
    insecure_plaintext: bool,
}

/// The file of this machine's own certificate for these names and its key, which is made when it is first
/// wanted.
fn own_certificate(dir: &Path, names: &[String]) -> Result<PathBuf, Failure> {
    // One that somebody trusts is for the names of its page, and no others, however they are written.
    let names: BTreeSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
    let names: Vec<_> = names.into_iter().collect();
    let digest = Fingerprint::of(names.join(" ").as_bytes()).to_string();
    let digest = digest.trim_start_matches("sha256:");
    let identity = Identity::kept_for(&dir.join(&digest[..16]), &names)
        .map_err(|error| Failure::failed(format!("--web-tls: {error}")))?;
    Ok(identity.source().to_owned())
}

/// Plays a stream.
pub(crate) fn run(args: &PlayArgs) -> Result<(), Failure> {
    log::start(args.log_format, args.log_level.as_deref())?;
    let grace = parse_duration("--grace", &args.grace)?;
    let fov = FieldOfView::new(args.fov, args.fov)
        .map_err(|error| Failure::wrong_use(format!("--fov: {error}")))?;
    if args.json && args.log.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Failure::wrong_use("--json and --log - both want standard output; leave one"));
    }
    let settings = ClientSettings { fov, ..args.timing()? };
    let place = args.place();
    if let Some(place) = &place {
        web::check(place, args.web_tls)?;
    }
    let secured = args.secured()?;
    let mut playing = args.playing(grace, fov)?;
    let carrier = args.carrier(grace)?;
    let transport = match args.transport {
        Transport::Weftline => args.scheduler.clone(),
        kernel => kernel.name().to_owned(),
    };
    let mut summary = Summary::over(transport);
    let runtime = runtime()?;
    let played = runtime.block_on(async {
        let stop = Stop::on_signals()?;
        if let Some(place) = &place {
            playing.web = Some(args.show(place, secured.as_ref(), fov).await?);
        }
        // The start-up begins where a viewer's does.
        let clock = Clock::start();
        let link = tokio::select! {
            link = carrier.connect() => link?,
            () = stop.nth(1) => return Err(Failure::failed("it was told to stop")),
        };
        let player = Player::new(settings);
        let control = link.control.clone();
        let played = play(player, clock, link, playing, stop.nth(1), &mut summary).await;
        if let Some(control) = control {
            // The server is told that everything has been shown, or that this player has gone.
            let _ = tokio::time::timeout(Duration::from_secs(2), control.closed()).await;
        }
        played.map_err(Failure::failed)
    });
    end(runtime);
    summary.error = played.as_ref().err().map(ToString::to_string);
    if args.json {
        output::print(&summary.json())?;
    } else if played.is_ok() {
        output::print(&summary.text())?;
    }
    played
}

impl PlayArgs {
    /// Where browsers are to be shown the stream.
    fn place(&self) -> Option<DashboardPlace> {
        let names = self.behind_proxy.clone();
        self.web.map(|address| DashboardPlace { address, names })
    }

    /// What the page shows over TLS, and its fingerprint, if it is wanted.
    ///
    /// # Errors
    /// When there is no certificate, or it cannot be used.
    fn secured(&self) -> Result<Option<Secured>, Failure> {
        if !self.web_tls {
            return Ok(None);
        }
        let secured = match self.web_cert.as_deref().zip(self.web_key.as_deref()) {
            Some((cert, key)) => web::secured(cert, key)?,
            None => {
                let ip = self.web.map(|address| address.ip().to_string());
                let names = [ip.as_slice(), &self.behind_proxy].concat();
                let dir = identity_dir(self.state_dir.as_deref())?;
                let file = own_certificate(&dir.join("web"), &names)?;
                web::secured(&file, &file)?
            }
        };
        Ok(Some(secured))
    }

    /// Opens the page, and says where it is: on standard output, if that is free.
    async fn show(
        &self,
        place: &DashboardPlace,
        secured: Option<&Secured>,
        fov: FieldOfView,
    ) -> Result<Web, Failure> {
        let web = Web::open(place, secured, self.shown.as_deref(), fov).await?;
        let certificate = secured.map(|it| format!("\ncertificate {}", it.fingerprint));
        let certificate = certificate.unwrap_or_default();
        let url = format!("{}{certificate}", web.url());
        let is_taken = self.json || self.log.as_ref().is_some_and(|path| path.as_os_str() == "-");
        match is_taken {
            // The log may be kept elsewhere, and be read by others: the address has the token.
            true => output::tell(format_args!("player {url}")),
            false => output::print(&format!("player {url}\n"))?,
        }
        Ok(web)
    }

    /// When GoPs are shown.
    fn timing(&self) -> Result<ClientSettings, Failure> {
        let [least, most] = BUFFERS;
        let read = |option: &str, text: &Option<String>, least: Duration| {
            let Some(text) = text else { return Ok(None) };
            let time = parse_duration(option, text)?;
            if (least..=most).contains(&time) {
                return Ok(Some(time));
            }
            let why = format!("{option}: '{text}' is not within {least:?} to {most:?}");
            Err(Failure::wrong_use(why))
        };
        let buffer = read("--buffer", &self.buffer, least)?;
        let rebuffer = read("--rebuffer", &self.rebuffer, Duration::ZERO)?.unwrap_or_default();
        Ok(ClientSettings { buffer, rebuffer, ..ClientSettings::default() })
    }

    fn playing(&self, patience: Duration, fov: FieldOfView) -> Result<Playing, Failure> {
        let names = match self.transport {
            Transport::Weftline => {
                paths::parse_all(&self.path)?.iter().map(|path| path.name.to_string()).collect()
            }
            kernel => vec![kernel.name().to_owned()],
        };
        let log = self.log.as_deref().map(|path| GopLog::new(path, &names, fov)).transpose();
        let store = self.save.as_deref().map(Store::new).transpose();
        let (viewer, video) = (self.head_viewer.as_deref(), self.head_video.as_deref());
        let one = |file: &Path| heads::one(file, self.heads_format, viewer, video);
        let (trace, number) = (self.head.as_deref().map(one).transpose()?, self.viewer);
        Ok(Playing {
            head: Box::new(move |length| match &trace {
                Some(trace) => Ok(trace.clone()),
                None => heads::synthetic(number, length).map_err(|error| error.to_string()),
            }),
            log: log.map_err(Failure::failed)?,
            store: store.map_err(Failure::failed)?,
            names,
            patience,
            web: None,
        })
    }

    /// What the stream comes over, checked.
    fn carrier(&self, grace: Duration) -> Result<Carrier, Failure> {
        let trust = &self.trust;
        if let Some(protocol) = self.transport.kernel() {
            if !trust.insecure_plaintext || trust.token_file.is_some() || !self.path.is_empty() {
                return Err(Failure::wrong_use(format!(
                    "--transport {} has neither encryption nor tokens nor paths of its own: give \
                     --insecure-plaintext, no --token-file and no --path",
                    self.transport.name()
                )));
            }
            warn_plaintext();
            let server = resolve(&self.server)?;
            let named = self.congestion.as_deref().filter(|name| *name != congestion::AUTO);
            let congestion = named.map(congestion::provide).transpose()?;
            return Ok(Carrier::Kernel { server, protocol, congestion, grace });
        }
        if self.path.is_empty() {
            let example = "--path wifi=wlan0 --path lte=wwan0";
            return Err(Failure::wrong_use(format!("no path given; give them like {example}")));
        }
        let security = if trust.insecure_plaintext {
            warn_plaintext();
            ClientSecurity::InsecurePlaintext
        } else {
            let files = (trust.cert.as_deref(), trust.key.as_deref());
            client_tls(trust.fingerprint.as_deref(), trust.ca.as_deref(), files)?
        };
        let mut builder = Client::builder().security(security).scheduler(&self.scheduler);
        builder = builder.grace(grace).longest_message(ByteCount::new(MAX_TO_PLAYER as u64));
        for server in &self.server {
            let server: ServerAddr = server.parse().map_err(Failure::wrong_use)?;
            builder = builder.server(server);
        }
        for path in paths::provided(paths::parse_all(&self.path)?, false)? {
            builder = builder.path(path);
        }
        if let Some(name) = &self.congestion {
            builder = builder.congestion(congestion::provide(name)?);
        }
        if let Some(name) = &trust.server_name {
            builder = builder.server_name(name);
        }
        if let Some(file) = &trust.token_file {
            builder = builder.token(secrets::token(file)?);
        }
        Ok(Carrier::Weftline(builder.build()?))
    }
}

/// What a stream comes over.
enum Carrier {
    Weftline(Client),
    Kernel {
        server: SocketAddr,
        protocol: socket2::Protocol,
        congestion: Option<String>,
        grace: Duration,
    },
}

impl Carrier {
    async fn connect(&self) -> Result<Link, Failure> {
        match self {
            Self::Weftline(client) => {
                let connection = client.connect().await?;
                let messages = connection.into_messages();
                let messages = messages.map_err(|_| Failure::failed("a byte stream was opened"));
                Ok(Link::messages(messages?))
            }
            Self::Kernel { server, protocol, congestion, grace } => {
                let connecting = connect_kernel(*server, *protocol, congestion.as_deref());
                let wrong = |why: String| Failure::failed(format!("no way to {server}: {why}"));
                match tokio::time::timeout(*grace, connecting).await {
                    Ok(Ok(stream)) => Ok(Link::stream(stream, MAX_TO_PLAYER)),
                    Ok(Err(error)) => Err(wrong(error.to_string())),
                    Err(_) => Err(wrong(format!("no answer within {grace:?}"))),
                }
            }
        }
    }
}

/// The one address of a server of the kernel's transports.
fn resolve(servers: &[String]) -> Result<SocketAddr, Failure> {
    let [server] = servers else {
        return Err(Failure::wrong_use("the kernel's transports have one --server"));
    };
    let wrong = |why: &str| Failure::wrong_use(format!("--server {server}: {why}"));
    let mut found = server.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    found.next().ok_or_else(|| wrong("it has no address"))
}
