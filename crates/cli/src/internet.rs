//! The server's side of whole machines: who is invited, and `weftline invite`.
//!
//! In the state directory are the tokens of those invited, where the server can be reached, and a
//! lock by which a running server is found.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use ring::rand::SecureRandom as _;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use weftline::{Identity, Token};
use weftline_net::Routes;

use crate::config;
use crate::failure::Failure;
use crate::instance::{Instance, write_whole};
use crate::invite::{Invite, MAX_ADDRESSES};
use crate::output;

/// The port of a server that is told none.
pub(crate) const PORT: u16 = 4433;
/// What the first client is called.
const FIRST: &str = "first";
/// The name of a token that nobody has: a file of tokens is never empty, which would let everybody
/// in or nobody reload it.
const NOBODY: &str = "nobody";
/// The longest file of tokens that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Options of `invite`.
#[derive(Debug, Args)]
pub(crate) struct InviteArgs {
    /// The client's name at this server, of letters, digits and -_.@
    name: String,
    /// Let the client in no more, and end its connections
    #[arg(long)]
    revoke: bool,
    /// The server's state directory [default: /var/lib/weftline for root, else weftline in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

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

/// Claims the state directory for this server, and makes the token file if there is none. Whether it
/// has made one.
///
/// # Errors
/// When another server has it, or it cannot be written.
pub(crate) fn prepare(state_dir: &Path, tokens: &Path) -> Result<(Instance, bool), Failure> {
    let lock = lock_file(state_dir);
    let claimed = Instance::claim(&lock).map_err(|error| at(&lock, &error))?;
    let Some(instance) = claimed else {
        return Err(Failure::wrong_use(format!(
            "another server with --internet has the state directory {}; end it, or give another \
             --state-dir",
            state_dir.display()
        )));
    };
    let fresh = !tokens.exists();
    if fresh {
        let line = format!("{FIRST}: {}\n", secret()?);
        write_whole(tokens, &line).map_err(|error| at(tokens, &error))?;
    }
    Ok((instance, fresh))
}

/// Notes where the server can be reached. Returns what it has to say: with `fresh` the first invite.
///
/// # Errors
/// When it cannot be noted, or there is no address to invite to.
pub(crate) fn announce(
    state_dir: &Path,
    tokens: &Path,
    listening: &[SocketAddr],
    public: &[SocketAddr],
    fresh: bool,
) -> Result<String, Failure> {
    let addresses = if public.is_empty() { reachable(listening)? } else { public.to_vec() };
    if !public.is_empty() && addresses.len() > MAX_ADDRESSES {
        let message = format!("--public: at most {MAX_ADDRESSES} addresses; leave some out");
        return Err(Failure::wrong_use(message));
    }
    if addresses.iter().all(|address| is_private(address.ip())) {
        output::warn(
            "this machine has private addresses only; if clients come from outside, name the address \
             they see with --public ADDR",
        );
    }
    let tokens = std::path::absolute(tokens).map_err(|error| at(tokens, &error))?;
    let about = About { addresses, token_file: tokens };
    let file = about_file(state_dir);
    let text = toml::to_string(&about).map_err(Failure::failed)?;
    write_whole(&file, &text).map_err(|error| at(&file, &error))?;
    if !fresh {
        return Ok(String::new());
    }
    let secret =
        entries(&read_tokens(&about.token_file)?).into_iter().find(|(name, _)| name == FIRST);
    let (name, secret) = secret.ok_or_else(|| Failure::failed("the first token is gone"))?;
    shown(&invite(state_dir, about, name, secret)?)
}

/// Makes an invite, shows the one there is, or takes one back.
pub(crate) fn run(args: &InviteArgs) -> Result<(), Failure> {
    let dir = match &args.state_dir {
        Some(dir) => dir.clone(),
        None => weftline::default_state_dir()?,
    };
    let file = about_file(&dir);
    if !file.exists() {
        return Err(Failure::wrong_use(format!(
            "no server with --internet has run with the state directory {}; start it once, or give \
             its --state-dir",
            dir.display()
        )));
    }
    let about: About = config::read(&file)?;
    // It checks the name.
    Token::named(&args.name, "0123456789abcdef")?;
    if args.name == NOBODY {
        return Err(Failure::wrong_use(format!("nobody can be called '{NOBODY}'; choose another")));
    }
    // Whoever else changes it waits.
    let _editing = editing(&dir)?;
    let text = read_tokens(&about.token_file)?;
    let known = entries(&text);
    let found = known.iter().find(|(name, _)| *name == args.name).cloned();
    if args.revoke {
        if found.is_none() {
            let names: Vec<_> = known.iter().map(|(name, _)| name.as_str()).collect();
            let names = names.join(", ");
            let message = format!("no invite for '{}'; there are: {names}", args.name);
            return Err(Failure::wrong_use(message));
        }
        save(&about.token_file, without(&text, &args.name)?)?;
        let when = match tell_server(&dir)? {
            true => "the server reads its tokens again, and its log says so",
            false => "the server does not run now",
        };
        return output::print(&format!("{} is revoked; {when}\n", args.name));
    }
    let (name, secret) = match found {
        Some(found) => found,
        None => {
            let secret = secret()?;
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            save(&about.token_file, format!("{text}{end}{}: {secret}\n", args.name))?;
            tell_server(&dir)?;
            (args.name.clone(), secret)
        }
    };
    output::print(&shown(&invite(&dir, about, name, secret)?)?)
}

/// Keeps others from changing the tokens of `dir` for as long as it is open.
fn editing(dir: &Path) -> Result<fs::File, Failure> {
    let path = dir.join("internet.edit");
    let mut options = fs::File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
    let locked = file.and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| at(&path, &error))
}

fn invite(dir: &Path, about: About, name: String, secret: String) -> Result<Invite, Failure> {
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

fn read_tokens(file: &Path) -> Result<String, Failure> {
    config::read_text(file, MAX_FILE).map_err(|error| at(file, &error))
}

/// Name and secret of a line of a token file; it may be a comment, or a secret without a name.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (name, secret) = line.split_once(':').filter(|_| !line.trim().starts_with('#'))?;
    Some((name.trim(), secret.trim()))
}

/// Name and secret of each line that has both.
fn entries(text: &str) -> Vec<(String, String)> {
    let named = text.lines().filter_map(entry).filter(|(name, _)| *name != NOBODY);
    named.map(|(name, secret)| (name.to_owned(), secret.to_owned())).collect()
}

/// The tokens but for those of `name`. All other lines stay as they are.
fn without(text: &str, name: &str) -> Result<String, Failure> {
    let others = text.lines().filter(|line| entry(line).is_none_or(|(other, _)| other != name));
    let mut rest: String = others.map(|line| format!("{line}\n")).collect();
    if Token::read_all(&rest).is_err() {
        rest += &format!("{NOBODY}: {}\n", secret()?);
    }
    Ok(rest)
}

fn save(file: &Path, text: String) -> Result<(), Failure> {
    Token::read_all(&text)?;
    write_whole(file, &text).map_err(|error| at(file, &error))
}

/// A secret of 128 bits.
fn secret() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::failed("the system gives no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Has the running server read its tokens again; whether one runs.
fn tell_server(dir: &Path) -> Result<bool, Failure> {
    let lock = lock_file(dir);
    let holder = Instance::holder(&lock).map_err(|error| at(&lock, &error))?;
    let pid = holder.and_then(|number| Pid::from_raw(number.cast_signed()));
    match pid {
        Some(pid) => {
            let told = kill_process(pid, Signal::HUP).map_err(io::Error::from);
            told.map_err(|error| {
                Failure::failed(format!("the server (process {}): {error}", pid.as_raw_nonzero()))
            })?;
            Ok(true)
        }
        None => Ok(false),
    }
}

/// The addresses by which clients may reach what listens here: those of the internet, or if there are
/// none, private ones.
fn reachable(listening: &[SocketAddr]) -> Result<Vec<SocketAddr>, Failure> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for listener in listening {
        if !listener.ip().is_unspecified() {
            found.push(*listener);
            continue;
        }
        let own = Routes::open().and_then(|routes| routes.addresses())?;
        let both = listener.is_ipv6();
        let own = own.into_iter().map(|one| one.address).filter(|ip| both || ip.is_ipv4());
        let own = own.filter(|ip| !is_local(*ip));
        found.extend(own.map(|ip| SocketAddr::new(ip, listener.port())));
    }
    if found.iter().any(|address| !is_private(address.ip())) {
        found.retain(|address| !is_private(address.ip()));
    }
    // IPv4 first: more links have it.
    found.sort_by_key(|address| (address.is_ipv6(), *address));
    found.dedup();
    found.truncate(MAX_ADDRESSES);
    match found.is_empty() {
        true => Err(Failure::wrong_use(
            "this machine has no address that clients could reach; name one with --public ADDR",
        )),
        false => Ok(found),
    }
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
    }

    #[test]
    fn the_last_token_leaves_one_that_nobody_has() {
        let rest = without("a: a secret of its own\n", "a").unwrap();
        assert!(entries(&rest).is_empty());
        assert_eq!(Token::read_all(&rest).unwrap().len(), 1);
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let text = "# ours\na secret without a name\na: the first secret of all\nb:the second secret of all\n";
        let rest = "# ours\na secret without a name\nb:the second secret of all\n";
        assert_eq!(without(text, "a").unwrap(), rest);
        assert_eq!(entries(text).len(), 2);
        let dir = tempfile::tempdir().unwrap();
        let file = token_file(dir.path());
        save(&file, rest.to_owned()).unwrap();
        assert_eq!(read_tokens(&file).unwrap(), rest);
    }
}
