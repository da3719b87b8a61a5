//! `weftline invite`: makes an invite, dates it, or takes it back.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use weftline::Token;

use super::tokens::{
    Entry, NOBODY, entries, read_tokens, save, secret, time_of_day, with, without,
};
use super::{About, Loaded, about_file, at, digest, invite, loaded_file, lock_file, shown};
use crate::config;
use crate::daemon::parse_duration;
use crate::failure::Failure;
use crate::instance::Instance;
use crate::output;

/// How long a running server may take to read its tokens again.
const PATIENCE: Duration = Duration::from_secs(10);

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
