//! The file of tokens, changed line by line.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SecureRandom as _;
use weftline::{Token, TokenLine};

use super::at;
use crate::config;
use crate::failure::Failure;
use crate::instance::write_whole;

/// The name of a token that nobody has: a file of tokens is never empty, which would let everybody
/// in or nobody reload it.
pub(super) const NOBODY: &str = "nobody";
/// How long a token that has expired stays in the file: so long its client is told so.
const KEPT_EXPIRED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Where systemd keeps the credentials of units.
const CREDENTIALS: &str = "/run/credentials";
/// The longest file of tokens that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The time of day, as the time since 1970.
#[expect(clippy::disallowed_types, reason = "invites end at a date; nothing is timed by it")]
pub(super) fn time_of_day() -> Duration {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(super) fn read_tokens(file: &Path) -> Result<String, Failure> {
    config::read_text(file, MAX_FILE).map_err(|error| at(file, &error))
}

/// One who is invited.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// When the invite lets in no more, as the time since 1970.
    pub(super) until: Option<Duration>,
    pub(super) secret: String,
}

impl Entry {
    /// The same with another date, if there is one; it must let in now.
    pub(super) fn until_at_least(&self, date: Option<Duration>) -> Result<Self, Failure> {
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

    /// Whether it has let nobody in for so long that nobody will ask why.
    fn is_long_over(&self) -> bool {
        self.until.is_some_and(|until| until + KEPT_EXPIRED < time_of_day())
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
pub(super) fn entries(text: &str) -> Vec<Entry> {
    text.lines().filter_map(entry).filter(|entry| entry.name != NOBODY).collect()
}

/// Of those of `name` the first that lets in now, else the first.
pub(super) fn entry_of(known: &[Entry], name: &str) -> Option<Entry> {
    let now = time_of_day();
    let of_name = || known.iter().filter(|entry| entry.name == name);
    let lets_in = |entry: &&Entry| entry.until.is_none_or(|until| until > now);
    of_name().find(lets_in).or_else(|| of_name().next()).cloned()
}

/// The tokens with this one, and with its date on all of its name: each of those lets the same client in.
/// All other lines stay as they are, but for those that are long over.
pub(super) fn with(text: &str, new: &Entry) -> String {
    let mut is_there = false;
    let mut all = String::new();
    for line in text.lines() {
        match entry(line) {
            Some(old) if old.name == new.name => {
                is_there |= old.secret == new.secret;
                all += &Entry { until: new.until, ..old }.line();
            }
            Some(old) if old.is_long_over() => {}
            _ => all += &format!("{line}\n"),
        }
    }
    if !is_there {
        all += &new.line();
    }
    all
}

/// The tokens but for those of `name`. All other lines stay as they are, but for those that are long over.
pub(super) fn without(text: &str, name: &str) -> Result<String, Failure> {
    let is_other =
        |line: &&str| entry(line).is_none_or(|one| one.name != name && !one.is_long_over());
    let mut rest: String = text.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
    if Token::read_all(&rest).is_err() {
        rest += &format!("{NOBODY}: {}\n", secret()?);
    }
    Ok(rest)
}

pub(super) fn save(file: &Path, text: &str) -> Result<(), Failure> {
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
pub(super) fn secret() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::failed("the system gives no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::internet::token_file;

    #[test]
    fn the_last_token_leaves_one_that_nobody_has() {
        let rest = without("a: a secret of its own\n", "a").unwrap();
        assert!(entries(&rest).is_empty());
        assert_eq!(Token::read_all(&rest).unwrap().len(), 1);
    }

    #[test]
    fn a_date_is_that_of_all_lines_of_a_name_and_what_is_long_over_goes() {
        let day = Duration::from_secs(24 * 60 * 60);
        let now = time_of_day();
        let line = |name: &str, until: Option<Duration>, secret: &str| {
            let (name, secret) = (name.to_owned(), secret.to_owned());
            Entry { name, until, secret }.line()
        };
        let (old, young) = (Some(now - 31 * day), Some(now - 29 * day));
        let text = line("a", old, "the first secret of all")
            + &line("b", old, "the second secret of all")
            + &line("c", young, "the third secret of all")
            + &line("a", None, "the fourth secret of all");
        // The one that lets in is shown.
        let mut a = entry_of(&entries(&text), "a").unwrap();
        assert_eq!(a.secret, "the fourth secret of all");
        a.until = Some(now + day);
        let dated = line("a", a.until, "the first secret of all")
            + &line("c", young, "the third secret of all")
            + &line("a", a.until, "the fourth secret of all");
        assert_eq!(with(&text, &a), dated);
        assert_eq!(without(&text, "a").unwrap(), line("c", young, "the third secret of all"));
        assert!(entry_of(&entries(&text), "d").is_none());
    }

    #[test]
    fn a_date_is_changed_in_its_line() {
        let text = "# ours\na: the first secret of all\nb: the second secret of all";
        let mut entry = entries(text).remove(0);
        entry.until = Some(Duration::ZERO);
        assert!(entry.until_at_least(None).is_err());
        let later = entry.until_at_least(Some(time_of_day() + Duration::from_secs(10))).unwrap();
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
