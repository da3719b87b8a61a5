//! `weftline connect`: local TCP connections in, multipath connections out.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use weftline::{
    Bind, Client, ClientBuilder, ClientSecurity, ClientTls, Forwarder, Identity, LocalService,
    PathConfig, ServerAddr, Trust,
};

use crate::config;
use crate::failure::Failure;
use crate::output;
use crate::serve::{parse_duration, parse_size, read_token, runtime, start_log, warn_plaintext};
use crate::signals::Stop;

/// Connections kept ready unless told otherwise.
const READY: usize = 2;
/// The most connections kept ready.
const MAX_READY: usize = 64;

/// Options of `connect`, and the keys of its configuration file.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ConnectArgs {
    /// The server, such as 192.0.2.1:7000; once for all paths, or once for each in their order
    #[arg(long, value_name = "ADDR", num_args = 1..)]
    server: Vec<String>,
    /// A path: a name of your choice and the interface or local address it leaves through
    #[arg(long, value_name = "NAME=IFACE|ADDR", num_args = 1..)]
    path: Vec<String>,
    /// Where to take TCP connections, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where to offer a SOCKS 5 proxy, such as 127.0.0.1:1080; the server has --socks
    #[arg(long, value_name = "ADDR", conflicts_with = "listen")]
    socks: Option<SocketAddr>,
    /// How bytes are spread over the paths, see `weftline list schedulers` [default: fbdt]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// The kernel's congestion control on every path, both directions [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// A fixed transmission window, such as 1MiB [default: follows the measured rates]
    #[arg(long, value_name = "SIZE")]
    window: Option<String>,
    /// The path that sends forward [default: the most reliable]
    #[arg(long, value_name = "NAME")]
    forward_path: Option<String>,
    /// Accept the server with this fingerprint (it prints it at start)
    #[arg(long, value_name = "sha256:HEX", conflicts_with = "ca")]
    fingerprint: Option<String>,
    /// Accept servers with a certificate from these authorities (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The name the certificate must be issued to [default: the host of --server]
    #[arg(long, value_name = "NAME", requires = "ca")]
    server_name: Option<String>,
    /// This client's certificate (PEM), for servers with --client-ca; needs --key
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// A file with the secret that the server wants
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// No encryption and no authentication: for measurements on networks of your own
    #[arg(long, conflicts_with_all = ["fingerprint", "ca", "cert", "key"])]
    insecure_plaintext: bool,
    /// Connections kept ready ahead of use [default: 2]
    #[arg(long, value_name = "N")]
    ready: Option<usize>,
    /// Most memory of a connection for received bytes, and again for bytes to send
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<String>,
    /// How long a connection lives without any path [default: 30s]
    #[arg(long, value_name = "DURATION")]
    grace: Option<String>,
    /// A TOML file with any of these options by their long names
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
}

impl ConnectArgs {
    /// The options, completed from the configuration file.
    fn complete(self) -> Result<Self, Failure> {
        let Some(file) = &self.config else { return Ok(self) };
        let from: Self = config::read(file)?;
        // How the server is known is one choice: not half from here and half from there.
        let trusts = self.fingerprint.is_some() || self.ca.is_some() || self.insecure_plaintext;
        let (fingerprint, ca, insecure_plaintext) = if trusts {
            (self.fingerprint, self.ca, self.insecure_plaintext)
        } else {
            (from.fingerprint, from.ca, from.insecure_plaintext)
        };
        let (listen, socks) = match (self.listen, self.socks) {
            (None, None) => (from.listen, from.socks),
            given => given,
        };
        Ok(Self {
            server: if self.server.is_empty() { from.server } else { self.server },
            path: if self.path.is_empty() { from.path } else { self.path },
            listen,
            socks,
            scheduler: self.scheduler.or(from.scheduler),
            congestion: self.congestion.or(from.congestion),
            window: self.window.or(from.window),
            forward_path: self.forward_path.or(from.forward_path),
            fingerprint,
            ca,
            server_name: self.server_name.or(from.server_name),
            cert: self.cert.or(from.cert),
            key: self.key.or(from.key),
            token_file: self.token_file.or(from.token_file),
            insecure_plaintext,
            ready: self.ready.or(from.ready),
            max_memory: self.max_memory.or(from.max_memory),
            grace: self.grace.or(from.grace),
            config: None,
        })
    }

    fn security(&self) -> Result<ClientSecurity, Failure> {
        if self.insecure_plaintext {
            warn_plaintext();
            return Ok(ClientSecurity::InsecurePlaintext);
        }
        let trust = match (&self.fingerprint, &self.ca) {
            (Some(text), _) => Trust::Pinned(text.parse().map_err(Failure::wrong_use)?),
            (None, Some(file)) => Trust::Authority(file.clone()),
            (None, None) => return Err(weftline::Error::NoTrust.into()),
        };
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(Identity::from_files(cert, key)?),
            (None, None) => None,
            _ => return Err(Failure::wrong_use("--cert and --key belong together; give both")),
        };
        Ok(ClientSecurity::Tls(ClientTls::new(&trust, identity.as_ref())?))
    }

    fn builder(&self) -> Result<ClientBuilder, Failure> {
        if self.server.is_empty() {
            return Err(Failure::wrong_use("no server given; give --server ADDR"));
        }
        if self.path.is_empty() {
            let example = "--path wifi=wlan0 --path lte=wwan0";
            return Err(Failure::wrong_use(format!("no path given; give them like {example}")));
        }
        let mut builder = Client::builder();
        for server in &self.server {
            let server: ServerAddr = server.parse().map_err(Failure::wrong_use)?;
            builder = builder.server(server);
        }
        for path in &self.path {
            builder = builder.path(parse_path(path)?);
        }
        if let Some(name) = &self.scheduler {
            builder = builder.scheduler(name);
        }
        if let Some(name) = &self.congestion {
            builder = builder.congestion(name);
        }
        if let Some(size) = &self.window {
            builder = builder.window(parse_size("--window", size)?);
        }
        if let Some(name) = &self.forward_path {
            builder = builder.forward(name);
        }
        if let Some(name) = &self.server_name {
            builder = builder.server_name(name);
        }
        if let Some(file) = &self.token_file {
            builder = builder.token(read_token(file)?);
        }
        if let Some(size) = &self.max_memory {
            builder = builder.max_memory(parse_size("--max-memory", size)?);
        }
        if let Some(grace) = &self.grace {
            builder = builder.grace(parse_duration("--grace", grace)?);
        }
        Ok(builder.security(self.security()?))
    }
}

/// A path as it stands on the command line, checked to be there.
fn parse_path(text: &str) -> Result<PathConfig, Failure> {
    let Some((name, bind)) = text.split_once('=').filter(|(_, bind)| !bind.is_empty()) else {
        return Err(Failure::wrong_use(format!(
            "'{text}' is no path; write NAME=INTERFACE or NAME=ADDRESS, such as wifi=wlan0"
        )));
    };
    let Ok(bind) = bind.parse::<Bind>();
    bind.check()?;
    Ok(PathConfig::new(name, bind))
}

/// Forwards until a signal comes.
pub(crate) fn run(args: ConnectArgs) -> Result<(), Failure> {
    let args = args.complete()?;
    start_log();
    let (address, service) = match (args.listen, args.socks) {
        (Some(address), None) => (address, LocalService::Forward),
        (None, Some(address)) => (address, LocalService::Socks),
        (Some(_), Some(_)) => {
            return Err(Failure::wrong_use("--listen and --socks exclude each other"));
        }
        (None, None) => {
            let message = "nowhere to take connections; give --listen ADDR or --socks ADDR";
            return Err(Failure::wrong_use(message));
        }
    };
    let ready = args.ready.unwrap_or(READY);
    if ready > MAX_READY {
        return Err(Failure::wrong_use(format!("--ready: at most {MAX_READY}")));
    }
    let client = args.builder()?.build()?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let stop = Stop::on_signals()?;
        let forwarder = tokio::select! {
            bound = Forwarder::bind(client, address, service, ready) => bound?,
            () = stop.nth(1) => return Ok(()),
        };
        output::print(&format!("listening on {}\n", forwarder.local_addr()))?;
        forwarder.run(stop.nth(1), stop.nth(2)).await;
        Ok(())
    })
}
