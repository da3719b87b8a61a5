//! Where and when results were made: kept beside them, shown in reports, and never compared.

use std::fs;

use serde::{Deserialize, Serialize};

/// The most of one directory: the first stays, then the newest.
const MAX: usize = 20;

/// The longest command that is kept, in characters.
const MAX_COMMAND: usize = 2000;

#[expect(
    clippy::disallowed_types,
    reason = "results say when they were made; nothing is timed by it"
)]
fn today() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// One process that wrote runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// When it began, in UTC: `2026-11-24T20:15:00Z`.
    pub date: String,
    /// Its command line.
    pub command: String,
    /// The program's version with its commit.
    pub version: String,
    /// The operating system and its release: `Linux 6.18.44`.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// How many cores the process might use, and the machine's memory: `2 cores, 7.8 GiB, x86_64`.
    pub machine: String,
}

impl Provenance {
    /// That of this process, whose program has this version. What the system does not say is empty.
    pub fn here(version: &str) -> Self {
        let arguments = std::env::args_os().map(|word| quoted(&word.to_string_lossy()));
        let command: Vec<String> = arguments.collect();
        let date = humantime::format_rfc3339_seconds(today()).to_string();
        Self {
            date,
            command: command.join(" ").chars().take(MAX_COMMAND).collect(),
            version: version.to_owned(),
            kernel: kernel(),
            cpu: field("/proc/cpuinfo", "model name"),
            machine: machine(),
        }
    }

    /// This one after those that are there.
    pub(super) fn after(self, mut there: Vec<Self>) -> Vec<Self> {
        there.push(self);
        let over = there.len().saturating_sub(MAX);
        there.drain(1..=over);
        there
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:,=+%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn kernel() -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    let [name, release] = ["ostype", "osrelease"].map(|name| read(name).unwrap_or_default());
    format!("{} {}", name.trim(), release.trim()).trim().to_owned()
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kib = field("/proc/meminfo", "MemTotal");
    let kib = kib.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok());
    let memory = kib.map_or(String::new(), |kib| format!(", {:.1} GiB", kib / f64::from(1 << 20)));
    let cores = format!("{cores} core{}", if cores == 1 { "" } else { "s" });
    format!("{cores}{memory}, {}", std::env::consts::ARCH)
}

/// What stands behind a name and a colon; empty if the file or the name is not there.
fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let value = lines.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name);
    value.map_or(String::new(), |(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_newest_are_kept() {
        let one = |n: usize| Provenance { date: n.to_string(), ..Provenance::default() };
        let all = (0..30).fold(Vec::new(), |there, n| one(n).after(there));
        assert_eq!(
            (all.len(), &*all[0].date, &*all[1].date, &*all[19].date),
            (20, "0", "11", "29")
        );
    }

    #[test]
    fn words_are_as_a_shell_takes_them() {
        assert_eq!(["a=b", "it's", "", "x y"].map(quoted), ["a=b", "'it'\\''s'", "''", "'x y'"]);
        let here = Provenance::here("0.1.0+abc");
        assert!(here.date.ends_with('Z') && !here.command.is_empty(), "{here:?}");
        assert!(here.machine.contains("core"), "{here:?}");
    }
}
