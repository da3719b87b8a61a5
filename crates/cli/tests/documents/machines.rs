//! Two machines for the documents: a client with two links, `wlan0` and `wwan0`, and a server that
//! both lead to, each a network namespace of its own. They share a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weftline_lab::netns::Netns;

use crate::common::Daemon;
use crate::shell;

/// The server's address, which both links lead to, as the documents have it.
const SERVER: &str = "203.0.113.5";
/// Each link's interface, the client's address on it, the server's, and the metric of its route.
const LINKS: [(&str, &str, &str, &str); 2] = [
    ("wlan0", "192.168.1.20/24", "192.168.1.1/24", "600"),
    ("wwan0", "10.64.3.9/30", "10.64.3.10/30", "700"),
];

pub(crate) struct Machines {
    directory: PathBuf,
    client: Netns,
    server: Netns,
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
        let (client, server) = (Netns::create().unwrap(), Netns::create().unwrap());
        let machines = Self {
            directory: directory.to_owned(),
            client,
            server,
            running: Vec::new(),
            ending: Vec::new(),
            fingerprint: None,
        };
        fs::write(
            directory.join("hosts"),
            format!("127.0.0.1 localhost\n{SERVER} server.example\n"),
        )
        .unwrap();
        // A process in the server's namespace, by which `ip` finds it.
        let mut there = machines.server.command("cat").stdin(Stdio::piped()).spawn().unwrap();
        for (link, near, far, metric) in LINKS {
            let gateway = far.split('/').next().unwrap();
            let id = there.id();
            machines
                .ip("client", &format!("link add {link} type veth peer name {link} netns {id}"));
            machines.ip("client", &format!("addr add {near} dev {link}"));
            machines.ip("client", &format!("link set {link} up"));
            machines.ip("server", &format!("addr add {far} dev {link}"));
            machines.ip("server", &format!("link set {link} up"));
            let route = format!("route add default via {gateway} dev {link} metric {metric}");
            machines.ip("client", &route);
        }
        for machine in ["client", "server"] {
            machines.ip(machine, "link set lo up");
        }
        machines.ip("server", &format!("addr add {SERVER}/32 dev lo"));
        there.kill().unwrap();
        there.wait().unwrap();
        machines
    }

    fn ip(&self, machine: &str, args: &str) {
        let output = self.namespace(machine).command("ip").args(args.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {args}: {output:?}");
    }

    fn namespace(&self, machine: &str) -> &Netns {
        match machine {
            "client" => &self.client,
            "server" => &self.server,
            _ => panic!("'{machine}' is no machine; there are client and server"),
        }
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
        let mut command = self.namespace(machine).command("unshare");
        command.args(["--mount", "bash", "-euc", own_hosts, "bash", text]);
        command.current_dir(&self.directory).stdin(Stdio::null());
        crate::environment(&mut command, &self.directory.join(machine));
        command
    }
}
