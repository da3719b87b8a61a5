//! Two machines for the documents, a client and a server. They share a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::Daemon;
use crate::common::pair::{Pair, SERVER};
use crate::shell;

pub(crate) struct Machines {
    directory: PathBuf,
    pair: Pair,
    /// Daemons and other servers; killed with us.
    running: Vec<Daemon>,
    /// Commands in the background that are to end well.
    ending: Vec<(String, Daemon)>,
    /// What the last server printed.
    fingerprint: Option<String>,
}

impl Machines {
    /// Sets both up; their programs run in `directory`.
    pub(crate) fn set_up(directory: &Path) -> Self {
        let machines = Self {
            directory: directory.to_owned(),
            pair: Pair::set_up(),
            running: Vec::new(),
            ending: Vec::new(),
            fingerprint: None,
        };
        fs::write(
            directory.join("hosts"),
            format!("127.0.0.1 localhost\n{SERVER} server.example\n"),
        )
        .unwrap();
        machines
    }

    /// Runs a command there. A daemon goes on, and so does what is in the background and shows
    /// output; each is waited for until it has printed a line for each one shown, which begins with
    /// the same word. What watches is ended after its first line. Everything else must end well,
    /// at once or, in the background, when the document is over.
    pub(crate) fn run(&mut self, command: &shell::Command) {
        let text = self.with_fingerprint(&command.text);
        let (text, behind) = match text.trim_end().strip_suffix('&') {
            Some(text) => (text, true),
            None => (&*text, false),
        };
        let calls = shell::simple_commands(text);
        let is_daemon = calls.iter().any(|words| {
            words[0] == "weftline" && ["serve", "connect"].contains(&words[1].as_str())
        });
        let mut start = self.command(&command.machine, text);
        if is_daemon || behind && !command.output.is_empty() {
            let mut daemon = Daemon::spawn(&mut start);
            for shown in &command.output {
                let word = shown.split(' ').next().unwrap();
                let said = daemon.says(word);
                if word == "fingerprint" {
                    self.fingerprint = Some(said);
                }
            }
            self.running.push(daemon);
        } else if behind {
            self.ending.push((text.to_owned(), Daemon::spawn(&mut start)));
        } else if text.contains("--watch") {
            Daemon::spawn(&mut start).says("weftline");
        } else {
            let output = start.output().unwrap();
            let (out, err) = (&output.stdout, &output.stderr);
            let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
            assert!(output.status.success(), "{text}: {}\n{out}{err}", output.status);
        }
    }

    /// Writes a file that a document shows.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.join(name), self.with_fingerprint(text)).unwrap();
    }

    /// Waits for the commands in the background that are to end well.
    pub(crate) fn finish(&mut self) {
        for (text, daemon) in std::mem::take(&mut self.ending) {
            assert_eq!(daemon.end().0, Some(0), "{text}");
        }
    }

    /// A document shows the fingerprint of another server, or none.
    fn with_fingerprint(&self, text: &str) -> String {
        let (Some(fingerprint), Some(at)) = (&self.fingerprint, text.find("sha256:")) else {
            return text.to_owned();
        };
        let rest = text[at..].trim_start_matches(|c: char| !(c.is_whitespace() || c == '"'));
        format!("{}{fingerprint}{rest}", &text[..at])
    }

    /// The command in a shell of the machine, which has an `/etc/hosts` of its own.
    fn command(&self, machine: &str, text: &str) -> Command {
        let own_hosts = "mount --bind hosts /etc/hosts && exec bash -euc \"$1\"";
        let mut command = self.pair.namespace(machine).command("unshare");
        command.args(["--mount", "bash", "-euc", own_hosts, "bash", text]);
        command.current_dir(&self.directory).stdin(Stdio::null());
        crate::environment(&mut command, &self.directory.join(machine));
        command
    }
}
