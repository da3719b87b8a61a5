//! Three machines: a client with two links, its server, and the internet behind that, each a network
//! namespace of its own.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weftline_lab::LabError;
use weftline_lab::netns::Netns;

use crate::common::{Daemon, PATIENCE, run_alone, until, weftline};
use crate::site::Site;

/// The server's address, which both links lead to, and that of its side of the internet.
pub(crate) const SERVER: &str = "203.0.113.5";

/// A machine of the internet.
pub(crate) const FAR_V4: &str = "198.51.100.9";

/// The server's router, which is a neighbour, and what lies behind it.
pub(crate) const FAR_V6: &str = "2001:db8:9::9";

pub(crate) const SITE_V6: &str = "2001:db8:10::9";

/// A machine of the server's own network.
pub(crate) const PRIVATE: &str = "172.20.0.9";

/// Each link: interface, the client's address, the server's, the metric of its route.
pub(crate) const LINKS: [(&str, &str, &str, &str); 2] = [
    ("wlan0", "192.168.1.20/24", "192.168.1.1/24", "600"),
    ("wwan0", "10.64.3.9/30", "10.64.3.10/30", "700"),
];

/// Three machines, and the directories of two of them.
pub(crate) struct Network {
    pub(crate) client: Netns,
    pub(crate) server: Netns,
    pub(crate) internet: Netns,
    pub(crate) state: tempfile::TempDir,
    pub(crate) run: tempfile::TempDir,
}

pub(crate) fn ip(ns: &Netns, args: &str) {
    let output = ns.command("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {output:?}");
    if let Some(added) = args.strip_prefix("addr add ").filter(|_| args.ends_with("nodad")) {
        is_local(ns, added.split('/').next().unwrap());
    }
}

/// Waits until `status` says something.
#[track_caller]
pub(crate) fn shows(status: impl Fn() -> Command, what: &str) {
    let began = Instant::now();
    loop {
        let said = text(&run_alone(&mut status()).stdout);
        if said.contains(what) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {said}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the kernel has an IPv6 address in its table of local ones. It enters it by a queue of
/// work, so after `ip` has ended: what looked at the tables before would take it for a change.
fn is_local(ns: &Netns, address: &str) {
    let began = Instant::now();
    loop {
        let table = ns.command("ip").args(["-6", "route", "show", "table", "local"]).output();
        let table = text(&table.unwrap().stdout);
        if table.lines().any(|line| line.split(' ').nth(1) == Some(address)) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{address}: {table}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Joins two namespaces by a pair of interfaces.
pub(crate) fn join(one: (&Netns, &str), other: (&Netns, &str)) {
    // A process in the other namespace, by which `ip` finds it.
    let mut there = other.0.command("cat").stdin(Stdio::piped()).spawn().unwrap();
    let (near, far, id) = (one.1, other.1, there.id());
    ip(one.0, &format!("link add {near} type veth peer name {far} netns {id}"));
    for (ns, link) in [(one.0, near), (other.0, far)] {
        // No address that the kernel makes and tries out for a second: it would look like a change.
        ip(ns, &format!("link set {link} addrgenmode none up"));
    }
    there.kill().unwrap();
    there.wait().unwrap();
}

impl Network {
    /// Sets it up, or says why that cannot be.
    pub(crate) fn set_up() -> Option<Self> {
        let made = || Ok::<_, LabError>([Netns::create()?, Netns::create()?, Netns::create()?]);
        let [client, server, internet] = match made() {
            Ok(made) => made,
            Err(LabError::NotPossible { what, remedy }) => {
                assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
                eprintln!(
                    "skipped: {what}; run 'sudo -E cargo test -p weftline-cli --test whole_machine'"
                );
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        for ns in [&client, &server, &internet] {
            ip(ns, "link set lo up");
        }
        for (link, near, far, metric) in LINKS {
            join((&client, link), (&server, link));
            ip(&client, &format!("addr add {near} dev {link}"));
            ip(&server, &format!("addr add {far} dev {link}"));
            let gateway = far.split('/').next().unwrap();
            let route = format!("route add default via {gateway} dev {link} metric {metric}");
            ip(&client, &route);
        }
        Some(Self::with_internet([client, server, internet]))
    }

    /// Joins a server to the internet.
    pub(crate) fn with_internet([client, server, internet]: [Netns; 3]) -> Self {
        ip(&server, &format!("addr add {SERVER}/32 dev lo"));
        join((&server, "eth0"), (&internet, "eth0"));
        for address in ["198.51.100.1/24", "172.20.0.1/24"] {
            ip(&server, &format!("addr add {address} dev eth0"));
        }
        ip(&server, "addr add 2001:db8:9::1/64 dev eth0 nodad");
        ip(&server, &format!("route add default via {FAR_V6} dev eth0"));
        for address in [FAR_V4, PRIVATE] {
            ip(&internet, &format!("addr add {address}/24 dev eth0"));
        }
        ip(&internet, &format!("addr add {FAR_V6}/64 dev eth0 nodad"));
        ip(&internet, &format!("addr add {SITE_V6}/128 dev lo nodad"));
        // Without these the kernel cannot ask whether a neighbour is still there.
        ip(&server, "addr add fe80::1/64 dev eth0 nodad");
        ip(&internet, "addr add fe80::2/64 dev eth0 nodad");
        let [state, run] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        Self { client, server, internet, state, run }
    }

    /// The program in a namespace.
    pub(crate) fn command(&self, ns: &Netns, args: &[&str]) -> Command {
        let built = weftline(args);
        let mut command = ns.command(built.get_program());
        command.args(args).env("RUNTIME_DIRECTORY", self.run.path()).env_remove("RUST_LOG");
        command
    }

    /// What `up` keeps of the client's network: its lock and what sysctls were.
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        let number = self.client.run(|| Ok(fs::metadata("/proc/thread-self/ns/net")?.ino()));
        let number = number.unwrap();
        ["lock", "journal"].map(|kind| format!("/run/weftline/up-{number}.{kind}").into())
    }

    /// Waits until the janitor of a server that was killed is through, for which the next one does not wait
    /// for long.
    pub(crate) fn server_is_cleared_away(&self) {
        let number = self.server.run(|| Ok(fs::metadata("/proc/thread-self/ns/net")?.ino()));
        let lock = format!("/run/weftline/exit-{}.lock", number.unwrap());
        let lock = fs::File::open(lock).unwrap();
        until("the janitor is through", || lock.try_lock().is_ok());
    }

    pub(crate) fn state(&self) -> &str {
        self.state.path().to_str().unwrap()
    }

    /// Starts the server; the first invite.
    pub(crate) fn serve(&self, more: &[&str]) -> (Daemon, String) {
        self.serve_with_control("none", more)
    }

    /// The same, with a control socket there.
    pub(crate) fn serve_with_control(&self, control: &str, more: &[&str]) -> (Daemon, String) {
        let more = [&["--control", control], more].concat();
        self.serve_by(self.server.command(weftline(&[]).get_program()), &more)
    }

    /// Starts a server that has no right to change its machine's network: it carries TCP alone.
    pub(crate) fn serve_tcp_alone(&self, more: &[&str]) -> (Daemon, String) {
        let mut command = self.server.command("setpriv");
        command.arg("--bounding-set=-net_admin").arg(weftline(&[]).get_program());
        self.serve_by(command, &[&["--control", "none"], more].concat())
    }

    /// Starts the server by a command that ends with the program; the first invite.
    pub(crate) fn serve_by(&self, mut command: Command, more: &[&str]) -> (Daemon, String) {
        command.args(["serve", "--internet", "--state-dir", self.state()]).args(more);
        command.env("RUNTIME_DIRECTORY", self.run.path()).env_remove("RUST_LOG");
        let mut server = Daemon::spawn(&mut command);
        server.says("fingerprint");
        server.says("listening on");
        let invite = self.invite(&["first"]);
        assert!(invite.status.success(), "{invite:?}");
        (server, text(&invite.stdout).trim().to_owned())
    }

    /// `weftline invite` at the server.
    pub(crate) fn invite(&self, args: &[&str]) -> Output {
        let args = [&["invite", "--state-dir", self.state()], args].concat();
        self.run(&self.server, &args)
    }

    /// Another machine of the server's network, with a link of its own there.
    pub(crate) fn another_client(&self) -> Netns {
        let ns = Netns::create().unwrap();
        ip(&ns, "link set lo up");
        join((&ns, "eth0"), (&self.server, "eth7"));
        ip(&ns, "addr add 192.168.7.20/24 dev eth0");
        ip(&self.server, "addr add 192.168.7.1/24 dev eth7");
        ip(&ns, "route add default via 192.168.7.1 dev eth0");
        ns
    }

    /// The arguments of `up`.
    pub(crate) fn up_args<'a>(&'a self, invite: &'a str) -> [&'a str; 4] {
        ["up", invite, "--state-dir", self.state()]
    }

    pub(crate) fn up(&self, invite: &str) -> Daemon {
        let mut up = Daemon::spawn(&mut self.command(&self.client, &self.up_args(invite)));
        up.says("up:");
        up
    }

    /// Goes up after another `up` has been killed, for whose janitor this does not wait for long.
    #[track_caller]
    pub(crate) fn up_again(&self, args: &[&str]) -> Daemon {
        let began = Instant::now();
        loop {
            let mut up = Daemon::spawn(&mut self.command(&self.client, args));
            if up.says_or_ends("up:").is_some() {
                return up;
            }
            let said = up.all_it_logged().join("\n");
            assert!(said.contains("is up already") && began.elapsed() < PATIENCE, "{said}");
        }
    }

    #[track_caller]
    pub(crate) fn run(&self, ns: &Netns, args: &[&str]) -> Output {
        run_alone(&mut self.command(ns, args))
    }

    /// What `curl` says to a URL.
    pub(crate) fn curl(&self, url: &str) -> Output {
        self.curl_with(&[], url)
    }

    /// What `curl` says to a URL with further arguments.
    pub(crate) fn curl_with(&self, more: &[&str], url: &str) -> Output {
        let args = ["--silent", "--show-error", "--max-time", "400", "--noproxy", "*"];
        self.client.command("curl").args(args).args(more).arg(url).output().unwrap()
    }

    /// Asks a site again and again until it is asked by `peer`.
    #[track_caller]
    pub(crate) fn comes_to_see(&self, site: &Site, peer: &str) {
        let began = Instant::now();
        loop {
            let got =
                self.curl_with(&["--connect-timeout", "1", "--max-time", "60"], &site.url(""));
            if text(&got.stdout) == peer {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{peer}: {got:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the client's status says something.
    #[track_caller]
    pub(crate) fn comes_to_show(&self, what: &str) {
        shows(|| self.command(&self.client, &["status"]), what);
    }

    /// Whatever `up` may change in the client's network.
    pub(crate) fn snapshot(&self) -> String {
        Self::snapshot_of(&self.client)
    }

    /// Whatever may be changed in a machine's network.
    pub(crate) fn snapshot_of(ns: &Netns) -> String {
        let mut text = String::new();
        for args in ["rule", "-6 rule", "route show table all", "-6 route show table all", "link"] {
            let output = ns.command("ip").args(args.split(' ')).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            // Which of two default routes is in use for a while is no setting.
            text += &format!("ip {args}\n{}", String::from_utf8_lossy(&output.stdout));
        }
        let seen = ns.run(|| {
            let mut tables = weftline_net::tables()?;
            tables.sort();
            let mut text = format!("tables {tables:?}\n");
            for family in ["ipv4", "ipv6"] {
                add_sysctls(&mut text, Path::new(&format!("/proc/sys/net/{family}/conf")));
            }
            Ok(text)
        });
        text + &seen.unwrap()
    }

    /// Waits until the client's network is as it was.
    #[track_caller]
    pub(crate) fn restored(&self, before: &str) {
        Self::restored_of(&self.client, before);
    }

    /// Waits until a machine's network is as it was.
    #[track_caller]
    pub(crate) fn restored_of(ns: &Netns, before: &str) {
        let began = Instant::now();
        loop {
            let now = Self::snapshot_of(ns);
            if now == before {
                return;
            }
            if began.elapsed() > PATIENCE {
                let less = |all: &str, part: &str| -> Vec<String> {
                    let lines = all.lines().filter(|line| !part.lines().any(|one| one == *line));
                    lines.map(str::to_owned).collect()
                };
                panic!("new {:#?}, gone {:#?}", less(&now, before), less(before, &now));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for file in self.files() {
            let _ = fs::remove_file(file);
        }
    }
}

pub(crate) fn add_sysctls(text: &mut String, dir: &Path) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|one| one.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            add_sysctls(text, &path);
        } else if let Ok(value) = fs::read_to_string(&path) {
            *text += &format!("{} {}\n", path.display(), value.trim());
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The process that waits for the end of `up`.
pub(crate) fn janitor_of(up: &Daemon) -> u32 {
    let parent = up.id().to_string();
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may hold anything, stand the state and the parent.
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&parent)
    };
    let all = fs::read_dir("/proc").unwrap();
    let mut all = all.filter_map(|one| one.unwrap().file_name().to_str()?.parse().ok());
    all.find(is_child).unwrap()
}
