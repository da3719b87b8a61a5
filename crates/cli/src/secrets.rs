//! Files with secrets: tokens, and the users of a SOCKS proxy. What is wrong with one is told by
//! line, never by what is in it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use weftline::{SocksUsers, Token, TokenLine};

use crate::failure::Failure;
use crate::output;

/// The longest file of secrets that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The tokens that a server lets in.
pub(crate) fn tokens(file: &Path) -> Result<Vec<Token>, Failure> {
    read("token file", file, |text| {
        if let Some(line) = nameless(text) {
            output::warn(format_args!("token file {}: line {line}: {NAMELESS}", file.display()));
        }
        Token::read_all(text)
    })
}

/// What is wrong with a [`nameless`] line.
pub(crate) const NAMELESS: &str = "what stands before the colon is no client's name, and so part of \
                                   the secret; a name has 1 to 64 letters, digits or -_.@";

/// The first line of a token file that seems to have a name, and has none.
fn nameless(text: &str) -> Option<usize> {
    let seems = |line: &str| {
        let read = TokenLine::read(line).ok().flatten();
        read.is_some_and(|line| line.name.is_none() && line.secret.contains(": "))
    };
    text.lines().position(seems).map(|line| line + 1)
}

/// The one token that a client has.
pub(crate) fn token(file: &Path) -> Result<Token, Failure> {
    read("token file", file, |text| {
        let mut tokens = Token::read_all(text)?;
        let count = tokens.len();
        tokens.pop().filter(|_| count == 1).ok_or_else(|| {
            let message = format!("a client has one token and there are {count}; leave one line");
            weftline::Error::Invalid(message)
        })
    })
}

/// Who may use a SOCKS proxy.
pub(crate) fn users(file: &Path) -> Result<SocksUsers, Failure> {
    read("users file", file, SocksUsers::read_all)
}

/// Reads a secret, and warns if others can, too.
fn read<T>(
    what: &str,
    file: &Path,
    parse: impl FnOnce(&str) -> Result<T, weftline::Error>,
) -> Result<T, Failure> {
    let wrong = |reason: &dyn std::fmt::Display| {
        Failure::wrong_use(format!("{what} {}: {reason}", file.display()))
    };
    let text = read_text(file).map_err(|error| wrong(&error))?;
    let read = parse(&text).map_err(|error| wrong(&error))?;
    warn_if_others_can_read(file);
    Ok(read)
}

fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        let message = format!("longer than the {MAX_FILE} bytes allowed");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// Says on standard error that a secret is none.
pub(crate) fn warn_if_others_can_read(file: &Path) {
    if others_can_read(file) {
        let file = file.display();
        output::warn(format_args!("others can read the secret in {file}; chmod 600 {file}"));
    }
}

/// Whether a secret in `file` is none.
pub(crate) fn others_can_read(file: &Path) -> bool {
    // systemd lets one user read its credentials by an access list, which looks like a group here.
    if std::env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|dir| file.starts_with(dir)) {
        return false;
    }
    std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.mode() & 0o044 != 0)
}

/// The first line of the token file that seems to have a name, and has none.
pub(crate) fn nameless_in(file: &Path) -> Option<usize> {
    nameless(&read_text(file).ok()?)
}

/// Lets the process have as many sockets as the system permits: the usual 1,024 are soon used up,
/// and the limits of a server count on more.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it fails, what there is has to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
