//! Looks at a client: dials the server on each path as `weftline connect` does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::JoinSet;
use weftline::{ClientBuilder, Error, LinkState, LocalService, PathConfig, Reach, ServerAddr};

use super::finding::{Check, Finding, Findings, Level};
use super::verdict::{self, Place};
use super::{admin_endpoints, machine, ports};
use crate::connect::{ClientParts, Shown};
use crate::failure::Failure;
use crate::ops::{Daemon, sockets};
use crate::paths::{self, PathError};
use crate::routes;

/// How long packets of full size may take to arrive: lost ones are sent again after 0.2 s, 0.4 s, …
/// (RFC 6298), so that loss alone is not taken for a path that drops them all.
const PATIENCE: Duration = Duration::from_secs(5);

/// All that can be found.
pub(super) async fn examine(parts: ClientParts) -> Findings {
    let mut findings = Findings::default();
    findings.extend(machine::clock());
    let files = machine::files(&parts.files);
    let is_unreadable = files.iter().any(|finding| finding.level == Level::Error);
    findings.extend(files);
    findings.extend(machine::congestion());
    for place in &parts.places {
        if let sockets::Place::Address(address) = place {
            findings.add(ports::look(parts.daemon, *address));
        }
    }
    findings.extend(admin_endpoints::look(parts.daemon, &parts.admin_endpoints));
    if let Some(cert) = &parts.certificate {
        findings.extend(machine::certificate(cert, "servers with --client-ca refuse it"));
    }
    let services = parts.listeners.unwrap_or_else(|failure| {
        findings.add(configuration(&failure));
        BTreeSet::new()
    });
    if parts.plaintext {
        findings.add(verdict::plaintext());
    }
    // As `connect` does, before what is wrong is left out.
    let servers = match_servers(&parts.servers, parts.paths.len(), &mut findings);
    let paths = good_paths(parts.daemon, parts.paths, &mut findings).into_iter();
    let routes = paths.filter_map(|(place, path)| Some((path, servers.get(place)?.clone())));
    let routes: Vec<_> = routes.collect();
    let settings = match parts.settings {
        Ok(settings) => settings,
        // What cannot be read was told of with the files.
        Err(_) if is_unreadable => return findings,
        Err(failure) => {
            findings.add(configuration(&failure));
            return findings;
        }
    };
    if !routes.is_empty()
        && let Err(failure) = fits_together(&settings, &routes)
    {
        findings.add(configuration(&failure));
        return findings;
    }
    // As the daemon's own sockets, which a kill switch knows by that.
    let mark = (parts.daemon == Daemon::Up).then_some(weftline_net::MARK);
    let seen = dial_all(settings.clone(), mark, routes).await;
    let works = seen.iter().find(|seen| seen.dialled.is_ok());
    let tried = match works {
        Some(works) => try_out(&services, settings, works).await,
        None => Vec::new(),
    };
    let any = works.is_some();
    if any && services.is_empty() {
        let found = "not looked at: neither --listen nor --socks is given";
        findings.add(Finding::ok(Check::Forward, "service", found));
    }
    for seen in seen {
        seen.judge(any, parts.daemon, &parts.token)
            .into_iter()
            .for_each(|finding| findings.add_of_path(finding));
    }
    findings.extend(tried);
    findings
}

/// Whether `connect` would take these paths together.
fn fits_together(
    settings: &ClientBuilder,
    routes: &[(PathConfig, ServerAddr)],
) -> Result<(), Failure> {
    let all = routes.iter().fold(settings.clone(), |builder, (path, server)| {
        builder.server(server.clone()).path(path.clone())
    });
    all.build().map(drop).map_err(Failure::from)
}

/// What the server says to connections for these services, on a path that works.
async fn try_out(
    services: &BTreeSet<LocalService>,
    settings: ClientBuilder,
    works: &Seen,
) -> Vec<Finding> {
    let client = settings.server(works.server.clone()).path(works.path.clone()).build();
    let Ok(client) = client else { return Vec::new() };
    let mut findings = Vec::new();
    for service in services {
        if let Err(error) = service.try_out(&client).await {
            findings.push(verdict::turned_away(&works.server, &error));
        }
    }
    findings
}

/// Those paths that are there, with their places among all; what is wrong with the others.
fn good_paths(
    daemon: Daemon,
    paths: Vec<Result<PathConfig, PathError>>,
    findings: &mut Findings,
) -> Vec<(usize, PathConfig)> {
    if let [Ok(_)] = &paths[..] {
        let found = "there is one path only, nothing to add it to";
        let remedy = match daemon {
            Daemon::Up => "connect another link: every interface with a default route is used",
            _ => "give a --path for each interface, or --path auto",
        };
        findings.add(Finding::warning(Check::Path, "paths", found, remedy));
    }
    if paths.is_empty() {
        let remedy = "give them like --path wifi=wlan0 lte=wwan0, or --path auto";
        findings.add(Finding::error(Check::Configuration, "paths", "no path is given", remedy));
    }
    let (mut good, mut absent) = (Vec::new(), Vec::new());
    for (place, path) in paths.into_iter().enumerate() {
        let path = match path {
            Ok(path) => path,
            Err(error) => {
                findings.add(none(error));
                continue;
            }
        };
        if let Err(error) = path.bind.check() {
            absent.push(error);
            continue;
        }
        match controlled(path) {
            Ok(path) => good.push((place, path)),
            Err(finding) => findings.add(finding),
        }
    }
    for error in absent {
        findings.add(not_there(error, !good.is_empty()));
    }
    let mut links = BTreeMap::new();
    for (_, path) in &good {
        let Some(interface) = path.bind.interface().filter(|name| name != "lo") else { continue };
        if let Some(other) = links.insert(interface.clone(), &path.name) {
            let found = format!("{other} and {} both leave through {interface}", path.name);
            let remedy = "give each path a link of its own: two paths over one carry no more";
            findings.add(Finding::warning(Check::Path, "paths", found, remedy));
        }
    }
    good
}

fn none(error: PathError) -> Finding {
    let (check, remedy) = match error {
        PathError::Written(_) => {
            (Check::Configuration, "correct that path; --path takes NAME=INTERFACE or NAME=ADDRESS")
        }
        PathError::NoRoute => (Check::Link, "connect a link; 'ip route' shows the routes"),
    };
    Finding::error(check, "paths", Failure::from(error), remedy)
}

/// That a link is not there, with `others` that are: a daemon goes on with these.
fn not_there(error: Error, others: bool) -> Finding {
    let failure = Failure::from(error);
    if others {
        let remedy = "see 'ip address' for its name; a modem that comes later is used as soon as it \
                      is there";
        return Finding::warning(Check::Link, "paths", failure, remedy);
    }
    let remedy = "see 'ip address' for what is there; it may have to be set up or named in another \
                  way";
    Finding::error(Check::Link, "paths", failure, remedy)
}

/// The path, if this machine has its congestion control.
fn controlled(path: PathConfig) -> Result<PathConfig, Finding> {
    paths::with_control(path).map_err(|failure| {
        let remedy = "do what it says, or choose another congestion control";
        Finding::error(Check::Congestion, "paths", failure, remedy)
    })
}

/// A server for each path; none if they do not fit.
fn match_servers(servers: &[ServerAddr], paths: usize, findings: &mut Findings) -> Vec<ServerAddr> {
    match servers {
        [] => {
            let remedy = "give --server HOST:PORT";
            let finding =
                Finding::error(Check::Configuration, "server", "no server is given", remedy);
            findings.add(finding);
            Vec::new()
        }
        [one] => vec![one.clone(); paths],
        many if many.len() == paths => many.to_vec(),
        many => {
            let found = format!("{} server addresses for {paths} paths", many.len());
            let remedy = "give one for all or one for each";
            findings.add(Finding::error(Check::Configuration, "server", found, remedy));
            Vec::new()
        }
    }
}

fn configuration(failure: &Failure) -> Finding {
    let remedy = "correct that option, or its line in the file";
    Finding::error(Check::Configuration, "options", failure, remedy)
}

/// What was seen on a path.
struct Seen {
    path: PathConfig,
    server: ServerAddr,
    dialled: Result<(), Error>,
    reach: Option<Result<Reach, Error>>,
}

/// Dials on all paths at once; a path that cannot be reached takes some seconds.
async fn dial_all(
    settings: ClientBuilder,
    mark: Option<u32>,
    routes: Vec<(PathConfig, ServerAddr)>,
) -> Vec<Seen> {
    let mut dials = JoinSet::new();
    for (index, (path, server)) in routes.into_iter().enumerate() {
        let settings = settings.clone();
        dials.spawn(async move { (index, dial(settings, mark, path, server).await) });
    }
    let mut seen = dials.join_all().await;
    seen.sort_by_key(|(index, _)| *index);
    seen.into_iter().map(|(_, seen)| seen).collect()
}

async fn dial(
    settings: ClientBuilder,
    mark: Option<u32>,
    path: PathConfig,
    server: ServerAddr,
) -> Seen {
    let client = settings.server(server.clone()).path(path.clone()).build();
    let dialled = match client {
        Ok(client) => client.connect().await.map(drop),
        Err(error) => Err(error),
    };
    let reaches = matches!(&dialled, Ok(()) | Err(Error::HandshakeTimeout { .. }));
    let reach = match reaches {
        true => Some(weftline::reach(&path.bind, &server, mark, PATIENCE).await),
        false => None,
    };
    Seen { path, server, dialled, reach }
}

impl Seen {
    /// What it means for `daemon`, which shows `token`, if `others_reach` the server on their paths.
    fn judge(self, others_reach: bool, daemon: Daemon, token: &Shown) -> Vec<Finding> {
        let interface = self.path.bind.interface();
        let place = Place {
            path: self.path.name.clone(),
            link: self.path.bind.link(),
            has_family: match &self.dialled {
                Err(Error::Unreachable { server, .. }) => self.path.bind.has_family_of(server.ip()),
                _ => true,
            },
            leads: leads(&self.path, &self.dialled, interface.as_deref()),
            is_strict: interface.as_deref().is_some_and(machine::filters_strictly),
            interface,
            server: self.server.to_string(),
            others_reach,
            daemon,
            token: token.clone(),
        };
        let mtu = match &self.reach {
            Some(Ok(reach)) => place.mtu(reach),
            Some(Err(_)) | None => None,
        };
        match (self.dialled, mtu) {
            (Ok(()), mtu) => {
                let up = place.up(self.reach.and_then(Result::ok).as_ref());
                [up].into_iter().chain(mtu).collect()
            }
            (Err(_), Some(mtu)) => vec![mtu],
            (Err(error), None) => vec![place.failed(error)],
        }
    }
}

/// Whether the routing table leads to the server through the path's interface, if that could be why
/// it was not reached.
fn leads(path: &PathConfig, dialled: &Result<(), Error>, interface: Option<&str>) -> bool {
    match (dialled, &path.bind, interface) {
        (Err(Error::Unreachable { server, .. }), weftline::Bind::Interface(_), Some(interface))
            if path.bind.link() == LinkState::Up =>
        {
            routes::leads(interface, server.ip())
        }
        _ => true,
    }
}
