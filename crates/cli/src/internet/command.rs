//! `weftline invite`: makes an invite, dates it, or takes it back.

use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use weftline::Token;

use super::tokens::{
    Entry, NOBODY, entries, entry_of, read_tokens, save, secret, time_of_day, with, without,
};
use super::{About, Loaded, about_file, at, digest, invite, loaded_file, lock_file, shown};
use crate::config;
use crate::daemon::parse_duration;
use crate::failure::Failure;
use crate::instance::Instance;
use crate::output;
use crate::remedy::lacks_rights;
use crate::rights::Rights;

/// How long a running server may take to read its tokens again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long another process may change the tokens: it waits for the server, too.
const OTHERS: Duration = Duration::from_secs(30);

/// Options of `invite`.
#[derive(Debug, Args)]
pub(crate) struct InviteArgs {
    /// The client's name at this server, of letters, digits and -_.@
    name: String,
    /// Revoke the client's access, and end its connections
    #[arg(long)]
    revoke: bool,
    /// Let the client open connections for so long from now on, such as 7d
    #[arg(long, value_name = "DURATION", conflicts_with = "revoke")]
    expires: Option<String>,
    /// The server's state directory [default: /var/lib/weftline for root, else weftline in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// The server's token file, if root is to change one that is not the server's own [default: the
    /// one that the server has noted, with the rights of the state directory's owner]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    token_file: Option<PathBuf>,
}

/// The state directory of a server, and the rights with which its files are used.
struct Place {
    dir: PathBuf,
    about: About,
    rights: Rights,
    /// Whether the token file was named on the command line: then it is no trap.
    is_named: bool,
}

impl Place {
    /// Goes there, with the rights of the directory's owner if this is root.
    fn open(args: &InviteArgs) -> Result<Self, Failure> {
        let given = match &args.state_dir {
            Some(dir) => dir.clone(),
            None => weftline::default_state_dir()?,
        };
        let no_server = || {
            Failure::wrong_use(format!(
                "no server with --internet has run with the state directory {}; start it once, or \
                 give its --state-dir",
                given.display()
            ))
        };
        let named = args.token_file.as_ref().map(std::path::absolute).transpose()?;
        let real = fs::canonicalize(&given).unwrap_or_else(|_| given.clone());
        let (rights, dir) = Rights::of_owner(&given).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => no_server(),
            _ => at(&given, &error),
        })?;
        let file = about_file(&dir);
        if !file.exists() {
            return Err(no_server());
        }
        let mut about: About = config::read(&file)?;
        let is_named = named.is_some();
        let noted = std::mem::take(&mut about.token_file);
        // As the server knows it, which may have another way there.
        let inside = [&given, &real].into_iter().find_map(|dir| noted.strip_prefix(dir).ok());
        about.token_file = match (named, inside) {
            (Some(named), _) => named,
            (None, Some(inside)) => dir.join(inside),
            (None, None) => noted,
        };
        Ok(Self { dir, about, rights, is_named })
    }

    /// Reads or changes the token file.
    fn with_tokens<T>(&self, work: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
        let file = &self.about.token_file;
        if self.is_named {
            return self.rights.raised(|| work(file))?;
        }
        work(file).map_err(|error| {
            if !self.rights.are_lowered() || !lacks_rights(&error.to_string()) {
                return error;
            }
            let file = file.display();
            Failure::not_possible(format!(
                "{error}; of a server of another user only that user's own files are changed: if {file} \
                 is a token file of root's, name it with --token-file {file}"
            ))
        })
    }
}

/// Makes an invite, shows the one there is, or takes one back.
pub(crate) fn run(args: &InviteArgs) -> Result<(), Failure> {
    // It checks the name.
    Token::named(&args.name, "0123456789abcdef")?;
    if args.name == NOBODY {
        return Err(Failure::wrong_use(format!("nobody can be called '{NOBODY}'; choose another")));
    }
    let until = args.expires.as_deref().map(date_after).transpose()?;
    let place = Place::open(args)?;
    // Whoever else changes it waits.
    let _editing = editing(&place.dir)?;
    let text = place.with_tokens(read_tokens)?;
    if args.revoke { revoke(&place, &text, &args.name) } else { give(place, &text, args, until) }
}

fn revoke(place: &Place, text: &str, name: &str) -> Result<(), Failure> {
    let known = entries(text);
    if !known.iter().any(|entry| entry.name == name) {
        let names: Vec<_> = known.iter().map(|entry| &*entry.name).collect();
        let names = names.join(", ");
        return Err(Failure::wrong_use(format!("no invite for '{name}'; there are: {names}")));
    }
    let rest = without(text, name)?;
    place.with_tokens(|file| save(file, &rest))?;
    let said = match tell_server(place, &rest) {
        Ok(true) => "the running server lets it in no more and has reset its connections",
        Ok(false) => "the server does not run now",
        Err(why) => {
            let tokens = place.about.token_file.display();
            return Err(Failure::failed(format!(
                "'{name}' is out of {tokens}, but {why}, and may let it in until it has read that; \
                 restart it, or send it SIGHUP"
            )));
        }
    };
    output::print(&format!("{name} is revoked; {said}\n"))
}

fn give(
    place: Place,
    text: &str,
    args: &InviteArgs,
    until: Option<Duration>,
) -> Result<(), Failure> {
    let (wanted, is_new) = match entry_of(&entries(text), &args.name) {
        Some(found) => (found.until_at_least(until)?, until.is_some()),
        None => (Entry { name: args.name.clone(), until, secret: secret()? }, true),
    };
    let mut told = Ok(true);
    if is_new {
        let text = with(text, &wanted);
        place.with_tokens(|file| save(file, &text))?;
        told = tell_server(&place, &text);
    }
    let tokens = place.about.token_file.display().to_string();
    output::print(&shown(&invite(&place.dir, place.about, wanted)?)?)?;
    told.map(drop).map_err(|why| {
        let name = &args.name;
        Failure::failed(format!(
            "'{name}' is in {tokens}, but {why}, and lets it in only when it has read that; restart \
             it, or send it SIGHUP"
        ))
    })
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

/// Keeps others from changing the tokens of `dir` for as long as it is open.
fn editing(dir: &Path) -> Result<fs::File, Failure> {
    let path = dir.join("internet.edit");
    let mut options = fs::File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(|error| at(&path, &error))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(at(&path, &error)),
            // It may be the server's user, whom root need not wait for.
            Err(TryLockError::WouldBlock) if began.elapsed() > OTHERS => {
                return Err(Failure::failed(format!(
                    "{}: another process changes the tokens and does not end; fuser says which",
                    path.display()
                )));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Has the running server read its tokens again, which are `tokens` now; whether one runs. When it has
/// not read them, the reason, as the end of a sentence.
fn tell_server(place: &Place, tokens: &str) -> Result<bool, String> {
    let dir = &place.dir;
    let lock = lock_file(dir);
    let holder = || Instance::holder(&lock);
    let number = holder().map_err(|error| format!("of the server, {}: {error}", lock.display()))?;
    let Some(number) = number else { return Ok(false) };
    let server = format!("the running server (process {number})");
    let told = place.rights.raised(|| hang_up(number)).and_then(|told| told);
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

/// Sends SIGHUP to a server. The number is from a file: it may be any process's, which would end.
fn hang_up(number: u32) -> io::Result<()> {
    let raw = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidData)?;
    let pid = Pid::from_raw(raw).ok_or(io::ErrorKind::InvalidData)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let arguments = fs::read(format!("/proc/{number}/cmdline"))?;
    let mut arguments = arguments.split(|byte| *byte == 0);
    let program = arguments.next().and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    let is_ours = program.is_some_and(|name| name.starts_with(b"weftline"));
    if !is_ours || !arguments.any(|argument| argument == b"serve") {
        return Err(io::Error::other("it is no 'weftline serve'"));
    }
    Ok(pidfd_send_signal(process, Signal::HUP)?)
}
