//! The invite of the last time, so that `weftline up` needs none.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::config;
use crate::failure::Failure;
use crate::instance::write_whole;
use crate::secrets;

/// Where it is kept unless told otherwise.
const DIR: &str = "/etc/weftline";

/// The longest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What is kept.
#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invite: Option<String>,
    /// Who answers questions to DNS: the server unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dns: Option<Dns>,
    /// Whether downloads and uploads make way for calls, as `--calls` has it: no unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) calls: Option<Switch>,
    /// Whether UDP goes to the server over TCP where no link lets it through, as `--udp-over-tcp` has it: yes unless
    /// told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) udp_over_tcp: Option<Switch>,
    /// Exceptions, as `--except` has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) except: Vec<String>,
    /// The links to use where the command line names none, as `--path` has them.
    #[serde(
        default,
        deserialize_with = "config::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(super) path: Vec<String>,
    /// Links of whose machines the same is captured, as `--share` has them.
    #[serde(
        default,
        deserialize_with = "config::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(super) share: Vec<String>,
    /// Where metrics are fetched, as `--metrics` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metrics: Option<SocketAddr>,
    /// Whether the kill switch is closed, as `--strict` has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) strict: bool,
    /// Whether private networks of links are reached then, as `--lan` has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) lan: bool,
}

/// Who answers questions to DNS.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Dns {
    /// The server's resolver, whomever they are for.
    Server,
    /// Whom this machine asks, without the server.
    System,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// The file in `dir` that keeps it.
pub(super) fn file(dir: Option<&Path>) -> PathBuf {
    dir.unwrap_or(Path::new(DIR)).join("up.toml")
}

/// What is kept, if anything is.
///
/// # Errors
/// When the file cannot be read, or has something else in it.
pub(super) fn read(file: &Path) -> Result<Saved, Failure> {
    let is_there = file.try_exists();
    if !is_there.map_err(|error| Failure::failed(format!("{}: {error}", file.display())))? {
        return Ok(Saved::default());
    }
    secrets::warn_if_others_can_read(file);
    config::read(file)
}

/// The links to use: those that the command line names, else those of the file.
pub(super) fn paths(given: &[String], kept: Vec<String>) -> Vec<String> {
    if given.is_empty() { kept } else { given.to_vec() }
}

/// Whether the file says that the kill switch is to be closed, and whether private networks of links are reached
/// then. It is asked before anything else, and whatever else is wrong in the file: of one that cannot be read as a
/// whole each line is looked at by itself, and what is not `false` counts as `true`.
pub(super) fn strict(file: &Path) -> (bool, bool) {
    let text = config::read_text(file, MAX_FILE).unwrap_or_default();
    let table: Option<toml::Table> = toml::from_str(&text).ok();
    let says = |key: &str| match &table {
        Some(table) => table.get(key).is_some_and(|value| value.as_bool() != Some(false)),
        None => text.lines().any(|line| {
            let line = line.split('#').next().unwrap_or_default();
            let pair = line.split_once('=').filter(|(name, _)| name.trim() == key);
            pair.is_some_and(|(_, value)| value.trim() != "false")
        }),
    };
    (says("strict"), says("lan"))
}

impl Saved {
    /// The text of the invite.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn invite(&self, file: &Path) -> Result<&str, Failure> {
        self.invite.as_deref().ok_or_else(|| {
            Failure::wrong_use(format!(
                "no invite given, and none kept in {}; give the one that 'weftline serve --internet' \
                 or 'weftline invite NAME' has printed",
                file.display()
            ))
        })
    }
}

/// Keeps an invite in `file`, with all else that stands there by now: somebody may have changed it since
/// it was read.
///
/// # Errors
/// When the file cannot be read any more, or not be written.
pub(super) fn keep(file: &Path, invite: &str) -> Result<(), Failure> {
    let text = if file.exists() { config::read_text(file, MAX_FILE)? } else { String::new() };
    let now: Saved = config::parse(&text)
        .map_err(|reason| Failure::wrong_use(format!("{}: {reason}", file.display())))?;
    let wanted = Saved { invite: Some(invite.to_owned()), ..now };
    let text = with_invite(&text, &wanted)?;
    write_whole(file, &text).map_err(|error| {
        Failure::failed(format!("cannot keep the invite in {}: {error}", file.display()))
    })
}

/// The text with the invite, comments and all; without those only where it is written in a way that is
/// not understood here.
fn with_invite(text: &str, wanted: &Saved) -> Result<String, Failure> {
    let line = wanted.invite.iter().map(|invite| format!("invite = \"{invite}\""));
    let is_invite =
        |line: &&str| line.split_once('=').is_some_and(|(key, _)| key.trim() == "invite");
    let others = text.lines().filter(|line| !is_invite(line)).map(str::to_owned);
    let edited: String = line.chain(others).map(|line| line + "\n").collect();
    if config::parse::<Saved>(&edited).is_ok_and(|edited| edited == *wanted) {
        return Ok(edited);
    }
    toml::to_string(wanted).map_err(Failure::failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn what_was_changed_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(Some(dir.path()));
        keep(&file, "weftline:one").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, "invite = \"weftline:one\"\n");
        let changed = format!("# mine\n{text}except = [\n  \"port:22\", # ssh\n]\n");
        std::fs::write(&file, changed).unwrap();
        keep(&file, "weftline:two").unwrap();
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "invite = \"weftline:two\"\n# mine\nexcept = [\n  \"port:22\", # ssh\n]\n"
        );
        assert_eq!(strict(&file), (false, false));
        let with = |text: &str| {
            std::fs::write(&file, text).unwrap();
            strict(&file)
        };
        assert_eq!(with("strict = false\nlan = true\n"), (false, true));
        assert_eq!(with("strict = true # always\nexcept = 7\n"), (true, false));
        assert_eq!(with("strict = true\nexcept = [\nlan = false # no"), (true, false));
        assert_eq!(with("# strict = true\nexcept = [\nstricter = true"), (false, false));
        assert_eq!(with("strict = ture\n"), (true, false), "it is not opened by an error");
        let links =
            "invite = \"weftline:one\"\npath = [\"wifi=wlan0\", \"lte=wwan0,role=metered\"]\n";
        std::fs::write(&file, links).unwrap();
        keep(&file, "weftline:two").unwrap();
        let kept = read(&file).unwrap().path;
        assert_eq!(kept, ["wifi=wlan0", "lte=wwan0,role=metered"]);
        assert_eq!(paths(&["auto".to_owned()], kept.clone()), ["auto"]);
        assert_eq!(paths(&[], kept).len(), 2);
        std::fs::write(&file, "path = \"auto\"\n").unwrap();
        assert_eq!(read(&file).unwrap().path, ["auto"]);
        // An invite of several lines.
        std::fs::write(&file, "except = [\"uid:7\"]\ninvite = \"\"\"\\\n  x\"\"\"\n").unwrap();
        keep(&file, "weftline:three").unwrap();
        let kept = read(&file).unwrap();
        assert_eq!(
            (kept.invite.unwrap(), kept.except),
            ("weftline:three".into(), vec!["uid:7".into()])
        );
        std::fs::write(&file, "except = 7\n").unwrap();
        assert!(keep(&file, "weftline:four").unwrap_err().to_string().contains("line 1"));
    }
}
