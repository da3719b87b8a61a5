//! What `weftline up` is asked for: its options, with what is kept of the last time.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use rustix::process::geteuid;
use weftline::{Client, LocalService};
use weftline_net::{Exception, LinkName};
use weftline_tunnel::bond::LaneLink;

use super::Files;
use super::invited::basis;
use super::links::{self, Links};
use super::saved::{self, Saved, Switch};
use super::share;
use crate::connect::{ClientParts, Shown};
use crate::failure::Failure;
use crate::invite::Invite;
use crate::ops::control::Control;
use crate::ops::log::Format;
use crate::ops::{Daemon, DashboardPlace, Wanted};

/// Options of `up`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UpArgs {
    /// The server's invite, or - to read it from standard input [default: that of the last time]
    pub(super) invite: Option<String>,
    /// A link to use, as for `connect`; may be given several times [default: what `path` in up.toml
    /// says, else auto, every interface that has a default route and is no tunnel]
    #[arg(long, value_name = "NAME=VIA")]
    pub(super) path: Vec<String>,
    /// Connections that go directly: to a network or an address, port:N, or those of a user, uid:N;
    /// may be given several times, besides `except` in up.toml
    #[arg(long, value_name = "WHAT")]
    pub(super) except: Vec<String>,
    /// An interface, such as eth1 or docker0, behind which other machines or containers use the bond, too; may be
    /// given several times, besides `share` in up.toml
    #[arg(long, value_name = "LINK", hide_short_help = true)]
    pub(super) share: Vec<String>,
    /// Whether downloads and uploads make way for calls over UDP: on or off [default: what `calls` in
    /// up.toml says, else off]
    #[arg(long, value_name = "on|off", hide_possible_values = true, hide_short_help = true)]
    pub(super) calls: Option<Switch>,
    /// Whether UDP, DNS and ICMP go to the server over TCP where a network lets no UDP through: on or off
    /// [default: what `udp_over_tcp` in up.toml says, else on]
    #[arg(long, value_name = "on|off", hide_possible_values = true, hide_short_help = true)]
    pub(super) udp_over_tcp: Option<Switch>,
    /// Close the kill switch: nothing else leaves by the links until `weftline down`, also when this
    /// is killed; always, with `strict = true` in up.toml
    #[arg(long)]
    pub(super) strict: bool,
    /// With --strict, reach the private networks of the links all the same, such as a printer
    #[arg(long, hide_short_help = true)]
    pub(super) lan: bool,
    /// Close the kill switch if up.toml says `strict = true`, and end: for weftline-strict.service,
    /// before there is a network
    #[arg(long, hide_short_help = true, conflicts_with_all = ["invite", "strict"])]
    pub(super) close_only: bool,
    /// Where the invite is kept [default: /etc/weftline]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(super) state_dir: Option<PathBuf>,
    /// Where `weftline status` can ask how the daemon is, or none [default: a socket in
    /// $RUNTIME_DIRECTORY, or in /run/weftline]
    #[arg(long, value_name = "PATH|none", hide_short_help = true)]
    pub(super) control: Option<Control>,
    /// Where Prometheus can fetch metrics over HTTP, such as 127.0.0.1:9470: no authentication
    /// [default: what `metrics` in up.toml says, else nowhere]
    #[arg(long, value_name = "ADDR")]
    pub(super) metrics: Option<SocketAddr>,
    /// A dashboard for browsers at this address, such as 127.0.0.1:9480
    ///
    /// The daemon prints the address to open, which has a token; `weftline status --url` shows it
    /// again. Beyond this machine it is refused without --behind-proxy.
    #[arg(long, value_name = "ADDR")]
    pub(super) dashboard: Option<SocketAddr>,
    /// The name under which a proxy with TLS offers the dashboard, such as weft.example
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(super) behind_proxy: Vec<String>,
    /// What a line of the log looks like [default: text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, hide_short_help = true)]
    pub(super) log_format: Option<Format>,
    /// What is logged: off, error, warn, info, debug, trace, or directives like those of RUST_LOG
    /// [default: what RUST_LOG says, else info]
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    pub(super) log_level: Option<String>,
}

/// What `weftline doctor` looks at, part by part.
pub(crate) struct UpParts {
    /// The client that it is, if there is an invite and all can be read.
    pub(crate) client: Result<ClientParts, Failure>,
    /// Claimed by the `up` that runs.
    pub(crate) lock: PathBuf,
    /// The same client, and its links as those of lanes, if there is an invite.
    pub(crate) lanes: Option<(Client, Vec<LaneLink>)>,
    /// Whether UDP goes over TCP where no link lets it through.
    pub(crate) udp_over_tcp: bool,
}

/// What is asked for, with what is kept of the last time.
pub(super) struct Wish {
    pub(super) invite: Invite,
    /// Whether the invite was given, and has to be kept.
    pub(super) is_new: bool,
    /// Where invites are kept.
    pub(super) kept: PathBuf,
    pub(super) exceptions: Vec<Exception>,
    /// The links to use, as `--path` has them.
    pub(super) paths: Vec<String>,
    /// Links of whose machines the same is captured.
    pub(super) shared: Vec<LinkName>,
    /// Whether questions to DNS go to the server, too.
    pub(super) dns: bool,
    /// Whether downloads and uploads make way for calls.
    pub(super) calls: bool,
    /// Whether UDP goes over TCP where no link lets it through.
    pub(super) udp_over_tcp: bool,
    /// Whether the kill switch is closed, and whether private networks of links are reached then.
    pub(super) strict: bool,
    pub(super) lan: bool,
    /// Where metrics are fetched.
    pub(super) metrics: Option<SocketAddr>,
}

impl Wish {
    /// The links to use.
    ///
    /// # Errors
    /// When one is written wrong.
    pub(super) fn links(&self) -> Result<Links, Failure> {
        let links = Links::new(&self.paths, self.invite.addresses.clone())?;
        Ok(links.without(&self.shared))
    }
}

impl UpArgs {
    /// # Errors
    /// When there is no invite, or something cannot be read.
    pub(super) fn wish(&self) -> Result<Wish, Failure> {
        let kept = saved::file(self.state_dir.as_deref());
        let saved = saved::read(&kept)?;
        let given = match self.invite.as_deref() {
            Some("-") => Some(io::read_to_string(io::stdin().lock())?),
            given => given.map(str::to_owned),
        };
        let is_new = given.is_some();
        let exceptions = saved.except.iter().chain(&self.except).map(|text| text.parse());
        let exceptions = exceptions.collect::<Result<_, _>>().map_err(Failure::wrong_use)?;
        let shared = share::names(saved.share.iter().chain(&self.share))?;
        let saved = Saved { invite: given.or(saved.invite), ..saved };
        let invite = saved.invite(&kept)?.parse().map_err(Failure::wrong_use)?;
        let dns = saved.dns != Some(saved::Dns::System);
        let calls = self.calls.or(saved.calls) == Some(Switch::On);
        let udp_over_tcp = self.udp_over_tcp.or(saved.udp_over_tcp) != Some(Switch::Off);
        let (strict, lan) = (saved.strict || self.strict, saved.lan || self.lan);
        let paths = saved::paths(&self.path, saved.path);
        let metrics = self.metrics.or(saved.metrics);
        Ok(Wish {
            invite,
            is_new,
            kept,
            exceptions,
            paths,
            shared,
            dns,
            calls,
            udp_over_tcp,
            strict,
            lan,
            metrics,
        })
    }

    /// # Errors
    /// When the kernel does not say in which network this is.
    pub(crate) fn parts(self) -> Result<UpParts, Failure> {
        // What only root can read is as it is without.
        let udp_over_tcp = self.wish().map_or(true, |wish| wish.udp_over_tcp);
        let (lanes, lock) = (self.lanes(), Files::find()?.lock);
        Ok(UpParts { lanes, client: self.client(), lock, udp_over_tcp })
    }

    /// What lanes would go over, of links that are there; what is wrong is told of with the client.
    fn lanes(&self) -> Option<(Client, Vec<LaneLink>)> {
        let (invite, paths, _) = self.to_look().ok()?;
        let mut found = Links::new(&paths, invite.addresses.clone()).ok()?.look().ok()?;
        found.retain(|(path, _)| path.bind.check().is_ok());
        let links = links::lanes(&found);
        let client = links::with(&basis(&invite).ok()?, found).build().ok()?;
        Some((client, links))
    }

    /// Where the daemon shows how it is, by the command line alone.
    ///
    /// # Errors
    /// When no dashboard can be where one is wanted.
    pub(super) fn admin_endpoints(&self) -> Result<Wanted, Failure> {
        let dashboard = DashboardPlace::of(self.dashboard, &self.behind_proxy)?;
        let (control, metrics) = (self.control.clone(), self.metrics);
        Ok(Wanted { control, metrics, qlog: None, dashboard })
    }

    /// The invite, the links to use, and where metrics are.
    fn to_look(&self) -> Result<(Invite, Vec<String>, Option<SocketAddr>), Failure> {
        match (self.wish(), self.invite.as_deref()) {
            (Ok(wish), _) => Ok((wish.invite, wish.paths, wish.metrics)),
            // What only root can read is not needed to look.
            (Err(_), Some(text)) if text != "-" && !geteuid().is_root() => {
                let invite = text.parse().map_err(Failure::wrong_use)?;
                Ok((invite, self.path.clone(), self.metrics))
            }
            (Err(failure), _) => Err(failure),
        }
    }

    fn client(&self) -> Result<ClientParts, Failure> {
        let (invite, paths, metrics) = self.to_look()?;
        let mut links = Links::new(&paths, invite.addresses.clone())?;
        let found = links.look()?.into_iter();
        let (paths, servers) = found.map(|(path, server)| (Ok(path), server.into())).unzip();
        Ok(ClientParts {
            daemon: Daemon::Up,
            servers,
            paths,
            files: Vec::new(),
            places: Vec::new(),
            listeners: Ok(BTreeSet::from([LocalService::Captured])),
            admin_endpoints: Wanted { metrics, ..self.admin_endpoints()? },
            plaintext: false,
            certificate: None,
            token: Shown::Invite(invite.name.clone()),
            settings: basis(&invite),
        })
    }
}
