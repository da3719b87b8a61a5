//! The server's side of whole machines: who is invited, and `weftline invite`.
//!
//! In the state directory are the tokens of those invited, where the server can be reached, and a
//! lock by which a running server is found.

mod command;
mod lanes;
mod tokens;

use std::fs;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use serde::{Deserialize, Serialize};
use weftline::Identity;
use weftline_net::{Address, Routes};

use crate::failure::Failure;
use crate::instance::{Instance, write_whole};
use crate::invite::{Invite, MAX_ADDRESSES};
use crate::output;
pub(crate) use command::{InviteArgs, run};
pub(crate) use lanes::{LET_THROUGH, Lanes, forbidding};
use tokens::{Entry, entries, read_tokens, secret};

/// The port of a server that is told none.
pub(crate) const PORT: u16 = 4433;
/// What the first client is called.
const FIRST: &str = "first";
/// Where the server can be reached, as its last start has found.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct About {
    addresses: Vec<SocketAddr>,
    token_file: PathBuf,
}

/// The token file of a server that is told none.
pub(crate) fn token_file(state_dir: &Path) -> PathBuf {
    state_dir.join("internet.tokens")
}

fn about_file(state_dir: &Path) -> PathBuf {
    state_dir.join("internet.toml")
}

fn lock_file(state_dir: &Path) -> PathBuf {
    state_dir.join("internet.lock")
}

fn loaded_file(state_dir: &Path) -> PathBuf {
    state_dir.join("internet.loaded")
}

/// What a running server lets in: by that `weftline invite` knows what holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Loaded {
    /// The server's process.
    process: u32,
    /// The digest of the token file when it was read last.
    tokens: String,
    /// Why the server goes on with what it had read before, if it does.
    error: Option<String>,
}

/// The claim of a server of whole machines on its state directory.
#[derive(Debug)]
pub(crate) struct Invites {
    _claim: Instance,
    dir: PathBuf,
    tokens: PathBuf,
    /// Whether no server has run with this directory before.
    fresh: bool,
}

impl Invites {
    /// Claims the state directory `dir`, and makes the token file if there is none.
    ///
    /// # Errors
    /// When another server has it, or it cannot be written.
    pub(crate) fn prepare(dir: PathBuf, tokens: PathBuf) -> Result<Self, Failure> {
        weftline::make_state_dir(&dir).map_err(|error| at(&dir, &error))?;
        let lock = lock_file(&dir);
        let claimed = Instance::claim(&lock).map_err(|error| at(&lock, &error))?;
        let Some(claim) = claimed else {
            return Err(Failure::wrong_use(format!(
                "another server with --internet has the state directory {}; end it, or give another \
                 --state-dir",
                dir.display()
            )));
        };
        if !tokens.exists() {
            let line = format!("{FIRST}: {}\n", secret()?);
            write_whole(&tokens, &line).map_err(|error| at(&tokens, &error))?;
        }
        // Also after a start that has made the tokens and failed.
        let fresh = !about_file(&dir).exists();
        let tokens = std::path::absolute(&tokens).map_err(|error| at(&tokens, &error))?;
        let this = Self { _claim: claim, dir, tokens, fresh };
        this.reading().note(None);
        Ok(this)
    }

    /// Notes where the server can be reached. Returns what it has to say: at the first start on a
    /// terminal the first invite, which elsewhere would be kept with other output.
    ///
    /// # Errors
    /// When it cannot be noted, or there is no address to invite to.
    pub(crate) fn announce(
        &self,
        listening: &[SocketAddr],
        public: &[SocketAddr],
    ) -> Result<String, Failure> {
        let addresses = if public.is_empty() { reachable(listening)? } else { public.to_vec() };
        if !public.is_empty() && addresses.len() > MAX_ADDRESSES {
            let message = format!("--public: at most {MAX_ADDRESSES} addresses; leave some out");
            return Err(Failure::wrong_use(message));
        }
        for (family, is_ipv6) in [("IPv4", false), ("IPv6", true)] {
            let mut of = addresses.iter().filter(|address| address.is_ipv6() == is_ipv6).peekable();
            if of.peek().is_some() && of.all(|address| is_private(address.ip())) {
                output::warn(format!(
                    "the invite names private addresses of {family} only; if clients come from outside, \
                     name the address they see with --public ADDR"
                ));
            }
        }
        let about = About { addresses, token_file: self.tokens.clone() };
        let file = about_file(&self.dir);
        let text = toml::to_string(&about).map_err(Failure::failed)?;
        write_whole(&file, &text).map_err(|error| at(&file, &error))?;
        let first =
            entries(&read_tokens(&self.tokens)?).into_iter().find(|entry| entry.name == FIRST);
        match first {
            Some(first) if self.fresh && io::stdout().is_terminal() => {
                shown(&invite(&self.dir, about, first)?)
            }
            Some(_) if self.fresh => {
                let dir = self.dir.display();
                tracing::info!(
                    "one machine is invited: run 'weftline invite {FIRST} --state-dir {dir}' for its \
                     invite, which is a secret"
                );
                Ok(String::new())
            }
            _ => Ok(String::new()),
        }
    }

    /// What the server is about to read.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading {
            dir: &self.dir,
            tokens: read_tokens(&self.tokens).map_or_else(|_| String::new(), |text| digest(&text)),
        }
    }
}

/// The tokens that a server reads.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    dir: &'a Path,
    tokens: String,
}

impl Reading<'_> {
    /// Notes that the server goes by them from now on, or why it does not.
    pub(crate) fn note(self, error: Option<&Failure>) {
        let error = error.map(ToString::to_string);
        let loaded = Loaded { process: std::process::id(), tokens: self.tokens, error };
        let file = loaded_file(self.dir);
        let text = toml::to_string(&loaded).map_err(io::Error::other);
        if let Err(error) = text.and_then(|text| write_whole(&file, &text)) {
            tracing::warn!("{}: {error}; 'weftline invite' cannot see what holds", file.display());
        }
    }
}

/// Tells texts of a token file apart.
fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    URL_SAFE_NO_PAD.encode(digest)
}

fn invite(dir: &Path, about: About, entry: Entry) -> Result<Invite, Failure> {
    let Entry { name, secret, .. } = entry;
    let identity = Identity::kept_in(dir)?.ok_or_else(|| {
        let dir = dir.display();
        Failure::wrong_use(format!("there is no certificate in {dir}; start the server once"))
    })?;
    let fingerprint = identity.fingerprint();
    if secret.len() > usize::from(u8::MAX) || !(1..=MAX_ADDRESSES).contains(&about.addresses.len())
    {
        return Err(Failure::wrong_use(format!(
            "no invite for '{name}': its secret may have 255 bytes, and the server 1 to \
             {MAX_ADDRESSES} addresses; shorten what is longer"
        )));
    }
    Ok(Invite { addresses: about.addresses, fingerprint, name, secret })
}

/// The invite on a line; on a terminal as a picture, too.
fn shown(invite: &Invite) -> Result<String, Failure> {
    let text = invite.to_string();
    let mut shown = format!("{text}\n");
    if io::stdout().is_terminal() {
        let code = QrCode::with_error_correction_level(&text, EcLevel::L);
        // Most terminals are dark: what is drawn there is what is to be light.
        let (light, dark) = (Dense1x2::Dark, Dense1x2::Light);
        let picture = code.map_err(Failure::failed)?;
        shown += &picture.render::<Dense1x2>().light_color(light).dark_color(dark).build();
        shown.push('\n');
    }
    Ok(shown)
}

/// The addresses by which clients may reach what listens here.
fn reachable(listening: &[SocketAddr]) -> Result<Vec<SocketAddr>, Failure> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for listener in listening {
        if !listener.ip().is_unspecified() {
            found.push(*listener);
            continue;
        }
        let own = Routes::open().and_then(|routes| routes.addresses())?;
        let both = listener.is_ipv6();
        let own = lasting(&own).into_iter().filter(|ip| both || ip.is_ipv4());
        found.extend(own.map(|ip| SocketAddr::new(ip, listener.port())));
    }
    let found = public_first(found);
    match found.is_empty() {
        true => Err(Failure::wrong_use(
            "this machine has no address that clients could reach; name one with --public ADDR",
        )),
        false => Ok(found),
    }
}

/// The addresses that lead here from elsewhere. Of IPv6 those that are used for some hours alone are left out, as
/// they lead nowhere afterwards, if there is another.
fn lasting(own: &[Address]) -> Vec<IpAddr> {
    let own = own.iter().filter(|one| !is_local(one.address));
    let has_lasting = own.clone().any(|one| one.lasts && one.address.is_ipv6());
    own.filter(|one| one.lasts || !has_lasting).map(|one| one.address).collect()
}

/// Of each family the addresses of the internet, or if there are none, private ones: many a machine has an
/// address of IPv6 and a router that hands IPv4 on to it.
fn public_first(mut found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    for is_ipv6 in [false, true] {
        let is_public =
            |address: &SocketAddr| address.is_ipv6() == is_ipv6 && !is_private(address.ip());
        if found.iter().any(is_public) {
            found.retain(|address| address.is_ipv6() != is_ipv6 || is_public(address));
        }
    }
    // IPv4 first: more links have it.
    found.sort_by_key(|address| (address.is_ipv6(), *address));
    found.dedup();
    found.truncate(MAX_ADDRESSES);
    found
}

/// Whether an address means nothing to other machines.
fn is_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        // Those that providers share among customers, too (RFC 6598).
        IpAddr::V4(ip) => {
            ip.is_private()
                || ip.is_loopback()
                || ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback(),
    }
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

/// Whether the default address to listen on can be of both families.
pub(crate) fn default_listen() -> SocketAddr {
    let has_ipv6 = fs::exists("/proc/net/if_inet6").unwrap_or(false);
    let any: IpAddr = match has_ipv6 {
        true => std::net::Ipv6Addr::UNSPECIFIED.into(),
        false => std::net::Ipv4Addr::UNSPECIFIED.into(),
    };
    (any, PORT).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn the_internet_s_addresses_come_first_and_private_ones_only_alone() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let both = reachable(&[parse("10.0.0.1:1"), parse("203.0.113.5:1")]).unwrap();
        assert_eq!(both, [parse("203.0.113.5:1")]);
        assert_eq!(reachable(&[parse("10.0.0.1:1")]).unwrap(), [parse("10.0.0.1:1")]);
        // Behind a router that hands IPv4 on, each family speaks for itself.
        let (near, far) = (parse("10.0.0.1:1"), parse("[2001:db8::5]:1"));
        let found = reachable(&[near, far, parse("[fd00::5]:1")]).unwrap();
        assert_eq!(found, [near, far]);
    }
}
