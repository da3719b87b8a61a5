//! Two machines for the documents, a client and a server. They share a directory. The nodes of a coded
//! tunnel and several servers are on them, too: the device with the client, all others with the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::pair::{Pair, SERVER};
use crate::common::{self, Daemon};
use crate::shell;

/// Addresses of several servers behind one name, which are all on the one machine.
const SERVERS: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
/// The names that the documents use.
const NAMES: [(&str, &str); 4] = [
    (SERVER, "server.example"),
    (SERVER, "gateway.example"),
    (SERVERS[0], "relay.example"),
    (SERVERS[1], "relay.example"),
];
/// What goes on until it is ended.
const DAEMONS: [&str; 7] =
    ["serve", "connect", "cotag ap", "cotag device", "cotag gateway", "probe serve", "vr serve"];

pub(crate) struct Machines {
    directory: PathBuf,
    pair: Pair,
    /// Daemons and other servers; killed with us.
    running: Vec<Daemon>,
    /// Commands in the background that are to end well.
    ending: Vec<(String, Daemon)>,
    /// What the documents show shortened (`sha256:5ef1…`), and what was printed there.
    learnt: Vec<(String, String)>,
}

impl Machines {
    /// Sets both up; their programs run in `directory`.
    pub(crate) fn set_up(directory: &Path) -> Self {
        let machines = Self {
            directory: directory.to_owned(),
            pair: Pair::set_up(),
            running: Vec::new(),
            ending: Vec::new(),
            learnt: Vec::new(),
        };
        let names = NAMES.map(|(address, name)| format!("{address} {name}\n")).concat();
        fs::write(directory.join("hosts"), format!("127.0.0.1 localhost\n{names}")).unwrap();
        for address in SERVERS {
            machines.pair.ip("server", &format!("addr add {address}/32 dev lo"));
        }
        machines
    }

    /// Runs a command there. A daemon goes on, and so does what is in the background and shows
    /// output; each is waited for until it has printed a line for each one shown, which begins with
    /// the same word. What watches is ended after its first line. Everything else must end well,
    /// at once or, in the background, when the document is over.
    pub(crate) fn run(&mut self, command: &shell::Command) {
        let text = self.with_learnt(&command.text);
        let (text, behind) = match text.trim_end().strip_suffix('&') {
            Some(text) => (text, true),
            None => (&*text, false),
        };
        let calls = shell::simple_commands(text);
        let is_daemon = calls.iter().any(|words| {
            let begins = |name: &&str| words[1..].join(" ").starts_with(*name);
            words[0] == "weftline" && DAEMONS.iter().any(begins)
        });
        let mut start = self.command(&command.machine, text);
        if is_daemon || behind && !command.output.is_empty() {
            let mut daemon = Daemon::spawn(&mut start);
            for shown in &command.output {
                let word = shown.split(' ').next().unwrap();
                self.learn(shown, &format!("{word} {}", daemon.says(word)));
            }
            self.running.push(daemon);
        } else if behind {
            self.ending.push((text.to_owned(), Daemon::spawn(&mut start)));
        } else if text.contains("--watch") {
            Daemon::spawn(&mut start).says("weftline");
        } else {
            let output = common::run_alone(&mut start);
            let (out, err) = (&output.stdout, &output.stderr);
            let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
            assert!(output.status.success(), "{text}: {}\n{out}{err}", output.status);
            for (shown, printed) in command.output.iter().zip(out.lines()) {
                self.learn(shown, printed);
            }
        }
    }

    /// Writes a file that a document shows.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.join(name), self.with_learnt(text)).unwrap();
    }

    /// Waits for the commands in the background that are to end well.
    pub(crate) fn finish(&mut self) {
        for (text, daemon) in std::mem::take(&mut self.ending) {
            assert_eq!(daemon.end().0, Some(0), "{text}");
        }
    }

    /// What stands for a shortened word of a line shown.
    fn learn(&mut self, shown: &str, printed: &str) {
        for (shown, printed) in shown.split_whitespace().zip(printed.split_whitespace()) {
            if shown.ends_with('…') && shown != "…" {
                self.learnt.retain(|(known, _)| known != shown);
                self.learnt.push((shown.to_owned(), printed.to_owned()));
            }
        }
    }

    /// A document shows another server's fingerprint, and other keys.
    fn with_learnt(&self, text: &str) -> String {
        let replace = |text: String, (shown, printed): &(String, String)| {
            text.replace(shown.as_str(), printed)
        };
        self.learnt.iter().fold(text.to_owned(), replace)
    }

    /// The command in a shell of the machine, which has an `/etc/hosts` of its own.
    fn command(&self, machine: &str, text: &str) -> Command {
        let own_hosts = "mount --bind hosts /etc/hosts && exec bash -euc \"$1\"";
        let on = match machine {
            "device" => "client",
            "server a" | "server b" | "gateway" | "ap1" | "ap2" => "server",
            other => other,
        };
        let mut command = self.pair.namespace(on).command("unshare");
        command.args(["--mount", "bash", "-euc", own_hosts, "bash", text]);
        command.current_dir(&self.directory).stdin(Stdio::null());
        crate::environment(&mut command, &self.directory.join(machine));
        command
    }
}
