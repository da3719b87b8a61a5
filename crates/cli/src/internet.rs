//! The server's side of whole machines: who is invited, and `weftline invite`.
//!
//! In the state directory are the tokens of those invited, where the server can be reached, and a
//! lock by which a running server is found.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use ring::rand::SecureRandom as _;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use weftline::{Identity, Token, TokenLine};
use weftline_net::Routes;

use crate::config;
use crate::daemon::parse_duration;
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
/// Where systemd keeps the credentials of units.
const CREDENTIALS: &str = "/run/credentials";
/// How long a running server may take to read its tokens again.
const PATIENCE: Duration = Duration::from_secs(10);
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
    /// Let the client open connections for so long from now on, such as 7d
    #[arg(long, value_name = "DURATION", conflicts_with = "revoke")]
    expires: Option<String>,
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
        if addresses.iter().all(|address| is_private(address.ip())) {
            output::warn(
                "this machine has private addresses only; if clients come from outside, name the \
                 address they see with --public ADDR",
            );
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
    let until = args.expires.as_deref().map(date_after).transpose()?;
    // Whoever else changes it waits.
    let _editing = editing(&dir)?;
    let text = read_tokens(&about.token_file)?;
    let known = entries(&text);
    let found = known.iter().find(|entry| entry.name == args.name);
    if args.revoke {
        if found.is_none() {
            let names: Vec<_> = known.iter().map(|entry| &*entry.name).collect();
            let names = names.join(", ");
            let message = format!("no invite for '{}'; there are: {names}", args.name);
            return Err(Failure::wrong_use(message));
        }
        let rest = without(&text, &args.name)?;
        save(&about.token_file, &rest)?;
        let said = match tell_server(&dir, &rest).map_err(|why| not_revoked(args, &about, &why))? {
            true => "the running server lets it in no more and has reset its connections",
            false => "the server does not run now",
        };
        return output::print(&format!("{} is revoked; {said}\n", args.name));
    }
    let (wanted, is_new) = match found {
        Some(found) => (found.until_at_least(until)?, until.is_some()),
        None => (Entry { name: args.name.clone(), until, secret: secret()? }, true),
    };
    let mut told = Ok(true);
    if is_new {
        let text = with(&text, &wanted);
        save(&about.token_file, &text)?;
        told = tell_server(&dir, &text);
    }
    let tokens = about.token_file.display().to_string();
    output::print(&shown(&invite(&dir, about, wanted)?)?)?;
    told.map(drop).map_err(|why| {
        let name = &args.name;
        Failure::failed(format!(
            "'{name}' is in {tokens}, but {why}, and lets it in only when it has read that; restart \
             it, or send it SIGHUP"
        ))
    })
}

/// The time of day, as the time since 1970.
#[expect(clippy::disallowed_types, reason = "invites end at a date; nothing is timed by it")]
fn time_of_day() -> Duration {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The moment so long after now, as the time since 1970.
fn date_after(text: &str) -> Result<Duration, Failure> {
    // The end of the last year of four digits.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let wait = parse_duration("--expires", text)?;
    let date = time_of_day().checked_add(wait).filter(|date| *date < LAST);
    date.filter(|_| wait >= Duration::from_secs(1)).ok_or_else(|| {
        Failure::wrong_use(format!(
            "--expires: '{text}' is too short or too long; give something like 12h or 7d"
        ))
    })
}

/// What holds when an invite is out of the file and a server runs that may not know it.
fn not_revoked(args: &InviteArgs, about: &About, why: &str) -> Failure {
    let (name, tokens) = (&args.name, about.token_file.display());
    Failure::failed(format!(
        "'{name}' is out of {tokens}, but {why}, and may let it in until it has read that; restart \
         it, or send it SIGHUP"
    ))
}

/// Keeps others from changing the tokens of `dir` for as long as it is open.
fn editing(dir: &Path) -> Result<fs::File, Failure> {
    let path = dir.join("internet.edit");
    let mut options = fs::File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
    let locked = file.and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| at(&path, &error))
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

fn read_tokens(file: &Path) -> Result<String, Failure> {
    config::read_text(file, MAX_FILE).map_err(|error| at(file, &error))
}

/// One who is invited.
#[derive(Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    /// When the invite lets in no more, as the time since 1970.
    until: Option<Duration>,
    secret: String,
}

impl Entry {
    /// The same with another date, if there is one; it must let in now.
    fn until_at_least(&self, date: Option<Duration>) -> Result<Self, Failure> {
        let until = date.or(self.until);
        if until.is_some_and(|until| until <= time_of_day()) {
            let name = &self.name;
            return Err(Failure::wrong_use(format!(
                "the invite for '{name}' has expired; --expires 7d lets it in again, --revoke takes \
                 it back for good"
            )));
        }
        Ok(Self { until, ..self.clone() })
    }

    fn line(&self) -> String {
        let name = Some(&*self.name);
        format!("{}\n", TokenLine { name, until: self.until, secret: &self.secret })
    }
}

/// A line of a token file that has a name.
fn entry(line: &str) -> Option<Entry> {
    let line = TokenLine::read(line).ok()??;
    let (name, secret) = (line.name?.to_owned(), line.secret.to_owned());
    Some(Entry { name, until: line.until, secret })
}

/// Those who are invited.
fn entries(text: &str) -> Vec<Entry> {
    text.lines().filter_map(entry).filter(|entry| entry.name != NOBODY).collect()
}

/// The tokens with this one, in its place if its secret is there. All other lines stay as they are.
fn with(text: &str, new: &Entry) -> String {
    let mut is_there = false;
    let mut all = String::new();
    for line in text.lines() {
        if entry(line).is_some_and(|old| (&old.name, &old.secret) == (&new.name, &new.secret)) {
            is_there = true;
            all += &new.line();
        } else {
            all += &format!("{line}\n");
        }
    }
    if !is_there {
        all += &new.line();
    }
    all
}

/// The tokens but for those of `name`. All other lines stay as they are.
fn without(text: &str, name: &str) -> Result<String, Failure> {
    let others = text.lines().filter(|line| entry(line).is_none_or(|other| other.name != name));
    let mut rest: String = others.map(|line| format!("{line}\n")).collect();
    if Token::read_all(&rest).is_err() {
        rest += &format!("{NOBODY}: {}\n", secret()?);
    }
    Ok(rest)
}

fn save(file: &Path, text: &str) -> Result<(), Failure> {
    if file.starts_with(CREDENTIALS) {
        return Err(Failure::wrong_use(format!(
            "the tokens are a credential of a systemd unit, {}, which cannot be changed here; change \
             what it is made of and restart the unit, or have its server keep its own tokens by \
             leaving out --token-file",
            file.display()
        )));
    }
    Token::read_all(text)?;
    write_whole(file, text).map_err(|error| at(file, &error))
}

/// A secret of 128 bits.
fn secret() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::failed("the system gives no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Has the running server read its tokens again, which are `tokens` now; whether one runs. When it has
/// not read them, the reason, as the end of a sentence.
fn tell_server(dir: &Path, tokens: &str) -> Result<bool, String> {
    let lock = lock_file(dir);
    let holder = || Instance::holder(&lock);
    let number = holder().map_err(|error| format!("of the server, {}: {error}", lock.display()))?;
    let Some(number) = number else { return Ok(false) };
    let server = format!("the running server (process {number})");
    let pid = Pid::from_raw(number.cast_signed()).ok_or_else(|| format!("{server} is none"))?;
    let told = kill_process(pid, Signal::HUP).map_err(io::Error::from);
    told.map_err(|error| format!("{server} could not be told ({error})"))?;
    let (wanted, began) = (digest(tokens), Instant::now());
    loop {
        let loaded = config::read::<Loaded>(&loaded_file(dir)).ok();
        let loaded = loaded.filter(|one| one.process == number && one.tokens == wanted);
        match loaded.map(|loaded| loaded.error) {
            Some(None) => return Ok(true),
            Some(Some(error)) => {
                return Err(format!("{server} goes on with what it had ({error})"));
            }
            // It has ended in this moment.
            None if !matches!(holder(), Ok(Some(now)) if now == number) => return Ok(false),
            None if began.elapsed() > PATIENCE => {
                return Err(format!("{server} has not said that it has read that"));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
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
    fn a_date_is_changed_in_its_line() {
        let text = "# ours\na: the first secret of all\nb: the second secret of all";
        let mut entry = entries(text).remove(0);
        entry.until = Some(Duration::ZERO);
        assert!(entry.until_at_least(None).is_err());
        let later = entry.until_at_least(Some(time_of_day() + PATIENCE)).unwrap();
        assert!(later.until_at_least(None).unwrap() == later);
        assert_eq!(
            with(text, &entry),
            "# ours\na until 1970-01-01T00:00:00Z: the first secret of all\n\
             b: the second secret of all\n"
        );
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let text = "# ours\na secret without a name\na: the first secret of all\nb:the second secret of all\n";
        let rest = "# ours\na secret without a name\nb:the second secret of all\n";
        assert_eq!(without(text, "a").unwrap(), rest);
        assert_eq!(entries(text).len(), 2);
        let dir = tempfile::tempdir().unwrap();
        let file = token_file(dir.path());
        save(&file, rest).unwrap();
        assert_eq!(read_tokens(&file).unwrap(), rest);
        let credential = Path::new("/run/credentials/weftline-serve@home.service/tokens");
        let refused = save(credential, rest).unwrap_err().to_string();
        assert!(refused.contains("a credential of a systemd unit"), "{refused}");
    }
}
