//! Two machines: a client with two links, `wlan0` and `wwan0`, and a server that both lead to, each a
//! network namespace of its own.

use std::process::Stdio;

use weftline_lab::netns::Netns;

/// The server's address, which both links lead to, as the documents have it.
pub const SERVER: &str = "203.0.113.5";
/// Each link's interface, the client's address on it, the server's, and the metric of its route.
const LINKS: [(&str, &str, &str, &str); 2] = [
    ("wlan0", "192.168.1.20/24", "192.168.1.1/24", "600"),
    ("wwan0", "10.64.3.9/30", "10.64.3.10/30", "700"),
];

pub struct Pair {
    pub client: Netns,
    pub server: Netns,
}

impl Pair {
    pub fn set_up() -> Self {
        let pair = Self { client: Netns::create().unwrap(), server: Netns::create().unwrap() };
        // A process in the server's namespace, by which `ip` finds it.
        let mut there = pair.server.command("cat").stdin(Stdio::piped()).spawn().unwrap();
        for (link, near, far, metric) in LINKS {
            let gateway = far.split('/').next().unwrap();
            let id = there.id();
            pair.ip("client", &format!("link add {link} type veth peer name {link} netns {id}"));
            pair.ip("client", &format!("addr add {near} dev {link}"));
            pair.ip("client", &format!("link set {link} up"));
            pair.ip("server", &format!("addr add {far} dev {link}"));
            pair.ip("server", &format!("link set {link} up"));
            let route = format!("route add default via {gateway} dev {link} metric {metric}");
            pair.ip("client", &route);
        }
        for machine in ["client", "server"] {
            pair.ip(machine, "link set lo up");
        }
        pair.ip("server", &format!("addr add {SERVER}/32 dev lo"));
        there.kill().unwrap();
        there.wait().unwrap();
        pair
    }

    pub fn ip(&self, machine: &str, args: &str) {
        self.run(machine, "ip", args);
    }

    /// What leaves the machine on this link is held to `mbps`.
    pub fn limit(&self, machine: &str, link: &str, mbps: u32) {
        let rate = format!("rate {mbps}mbit burst 64kb latency 50ms");
        self.run(machine, "tc", &format!("qdisc add dev {link} root tbf {rate}"));
    }

    fn run(&self, machine: &str, program: &str, args: &str) {
        let mut command = self.namespace(machine).command(program);
        let output = command.args(args.split(' ')).output().unwrap();
        assert!(output.status.success(), "{program} {args}: {output:?}");
    }

    pub fn namespace(&self, machine: &str) -> &Netns {
        match machine {
            "client" => &self.client,
            "server" => &self.server,
            _ => panic!("'{machine}' is no machine; there are client and server"),
        }
    }
}
