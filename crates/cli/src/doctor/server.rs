//! Looks at a server: what it reads, where it listens, and where it forwards to.

use std::io;
use std::path::Path;
use std::time::Duration;

use weftline::{Identity, ServerTls, Target, Token};

use super::finding::{Check, Finding, Findings};
use super::{admin_endpoints, directory, firewall, machine, ports, verdict};
use crate::ops::Daemon;
use crate::secrets::{self, NAMELESS};
use crate::serve::{Kept, ServerParts};
use crate::trust::IDENTITY_FILE;

/// How long the service behind the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// All that can be found.
pub(super) async fn examine(parts: ServerParts) -> Findings {
    let mut findings = Findings::default();
    findings.extend(machine::clock());
    findings.extend(machine::files(&parts.files));
    findings.extend(machine::congestion());
    for named in parts.congestion {
        if let Err(failure) = named {
            let remedy = "load it ('modprobe'), or leave it out";
            findings.add(Finding::error(Check::Congestion, "congestion control", failure, remedy));
        }
    }
    if parts.listen.is_empty() {
        let (found, remedy) =
            ("no address is given", "give --listen 0.0.0.0:4433, or a socket unit");
        findings.add(Finding::warning(Check::Configuration, "listen", found, remedy));
    }
    // Of whole machines it carries UDP, by the same port.
    let carries_packets = matches!(parts.target, Ok(Target::Internet(_)));
    for address in &parts.listen {
        findings.add(ports::look(Daemon::Serve, *address));
        if !address.ip().is_loopback() {
            findings.extend(firewall::look(address.port(), firewall::Protocol::Tcp));
            if carries_packets {
                findings.extend(firewall::look(address.port(), firewall::Protocol::Udp));
            }
        }
    }
    if carries_packets {
        findings.extend(firewall::forwarding());
    }
    findings.extend(admin_endpoints::look(Daemon::Serve, &parts.admin_endpoints));
    findings.extend(parts.token_file.as_deref().and_then(tokens));
    findings.add(identity(&parts.identity));
    if let Kept::Files(cert, _) = &parts.identity {
        let refusing = "clients with --ca refuse it, those with --fingerprint do not mind";
        findings.extend(machine::certificate(cert, refusing));
    }
    findings.extend(parts.client_ca.as_deref().and_then(machine::authorities));
    match &parts.target {
        Ok(Target::Fixed(target)) => findings.add(forward(&target.to_string()).await),
        Ok(_) => {}
        Err(failure) => {
            let remedy = "correct that option, or its line in the file";
            findings.add(Finding::error(Check::Configuration, "options", failure, remedy));
        }
    }
    findings
}

/// The secrets of the clients; what cannot be opened was told of with the other files.
fn tokens(file: &Path) -> Option<Finding> {
    std::fs::File::open(file).ok()?;
    Some(match secrets::tokens(file) {
        Ok(tokens) => {
            let clients = if tokens.len() == 1 { "client" } else { "clients" };
            let mut names: Vec<_> = tokens.iter().map(Token::name).collect();
            names.dedup();
            let (number, names) = (tokens.len(), names.join(", "));
            if let Some(line) = secrets::nameless_in(file) {
                let found = format!("line {line}: {NAMELESS}");
                let remedy = "give that client another name";
                return Some(Finding::warning(Check::Token, "token file", found, remedy));
            }
            let found = format!("{} has secrets of {number} {clients}: {names}", file.display());
            Finding::ok(Check::Token, "token file", found)
        }
        Err(failure) => {
            let remedy = "a secret has 16 characters or more, one a line: 'openssl rand -hex 16'";
            Finding::error(Check::Token, "token file", failure, remedy)
        }
    })
}

/// What the server shows its clients.
fn identity(kept: &Kept) -> Finding {
    let subject = "certificate";
    if let Kept::In(dir) = kept
        && dir.exists()
        && !dir.is_dir()
        && let Some(finding) = directory::look("state directory", dir)
    {
        return finding;
    }
    if let Kept::In(dir) = kept {
        let file = dir.join(IDENTITY_FILE);
        if file.exists() {
            let looked = machine::files(&[("key", file)]);
            if let Some(wrong) = looked.into_iter().next() {
                return wrong;
            }
        }
    }
    let loaded = match kept {
        Kept::Nothing => return verdict::plaintext(),
        Kept::Files(cert, key) => Identity::from_files(cert, key).map(Some),
        Kept::In(dir) => Identity::kept_in(dir),
    };
    let tls = |identity: Identity| ServerTls::new(&identity, None);
    match (loaded.and_then(|identity| identity.map(tls).transpose()), kept) {
        (Ok(Some(tls)), _) => {
            let found = format!("clients pin --fingerprint {}", tls.fingerprint());
            Finding::ok(Check::Certificate, subject, found)
        }
        (Ok(None), Kept::In(dir)) => {
            let found = format!("it will be made at first start, in {}", dir.display());
            let made = Finding::ok(Check::Certificate, subject, found);
            directory::look("state directory", dir).unwrap_or(made)
        }
        (Ok(None), _) => unreachable!("files are read or they are an error"),
        (Err(error), kept) => {
            let remedy = match kept {
                Kept::In(dir) => format!(
                    "move identity.pem in {} away: the next start makes another, with another \
                     fingerprint for the clients",
                    dir.display()
                ),
                _ => "give --cert the chain and --key its key, both PEM; or leave both out"
                    .to_owned(),
            };
            Finding::error(Check::Certificate, subject, error, remedy)
        }
    }
}

/// Whether the service behind the server answers.
async fn forward(target: &str) -> Finding {
    let subject = format!("forward {target}");
    if let Err(error) = tokio::net::lookup_host(target).await {
        let remedy = "correct --forward, or the name server in /etc/resolv.conf";
        return Finding::error(Check::Name, subject, error, remedy);
    }
    let connecting = tokio::net::TcpStream::connect(target);
    let connected = tokio::time::timeout(PATIENCE, connecting).await;
    match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(_) => Finding::ok(Check::Forward, subject, "the service answers"),
        Err(error) => {
            let remedy =
                "start the service, or correct --forward; clients are turned away until then";
            Finding::error(Check::Forward, subject, error, remedy)
        }
    }
}
