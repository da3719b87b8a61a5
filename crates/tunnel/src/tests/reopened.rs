//! A link whose interface goes, and comes back under its name as another one.

use std::net::SocketAddr;
use std::process::{Child, Stdio};

use weftline_lab::LabError;
use weftline_lab::netns::Netns;

use super::*;
use crate::clock;
use crate::endpoint::{About, Endpoint};
use crate::peer::{Neighbour, Pace};
use crate::poll::{Poller, Source, Stop};
use crate::secure::{Link, Role};
use crate::udp::{Inbox, Socket, Via};

const THERE: &str = "10.1.0.1:7000";

/// Two namespaces, of which the second has a process that names it.
struct Net {
    here: Netns,
    there: Netns,
    holder: Child,
}

impl Net {
    /// `None`, after saying how to run the test, where there can be none.
    fn new() -> Option<Self> {
        let make = || Ok((Netns::create()?, Netns::create()?));
        match make() {
            Ok((here, there)) => {
                let mut sleep = there.command("sleep");
                let holder = sleep.arg("1000").stdout(Stdio::null()).spawn().unwrap();
                Some(Self { here, there, holder })
            }
            Err(LabError::NotPossible { what, remedy }) => {
                assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
                eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-tunnel'");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes an interface `w0` and its other end.
    fn join(&self) {
        let other = self.holder.id();
        let words = format!("link add w0 type veth peer name w1 netns {other}");
        ip(&self.here, &[&words, "address add 10.1.0.2/24 dev w0", "link set w0 up"]);
        ip(&self.there, &["address add 10.1.0.1/24 dev w1", "link set w1 up"]);
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Runs `ip` with the words of each line.
fn ip(ns: &Netns, lines: &[&str]) {
    for line in lines {
        let done = ns.command("ip").args(line.split(' ')).status().unwrap();
        assert!(done.success(), "ip {line}");
    }
}

/// Both ends of the link, of which one waits as a node does.
struct Ends {
    initiator: Endpoint,
    responder: Endpoint,
    poller: Poller,
    source: Source,
    inbox: Inbox,
    now: Instant,
    reopened: u32,
}

impl Ends {
    /// To be made in the first namespace.
    fn new(there: &Netns) -> Self {
        let neighbour = |number, address| {
            let key = secret(number).public();
            Neighbour { name: format!("n{number}"), key, address, pace: Pace::Interface }
        };
        let to: SocketAddr = THERE.parse().unwrap();
        let (socket, peer) = (there.run(|| Ok(Socket::listen(to))), neighbour(2, None));
        let socket = socket.unwrap().unwrap();
        let responder =
            Endpoint::new(socket, local(1), Link::Access, Role::Responder, &[peer]).unwrap();
        let (via, peer) = (Some(Via::Interface("w0".to_owned())), neighbour(1, Some(to)));
        let initiator = Endpoint::towards(to, via, local(2), Link::Access, peer).unwrap();
        let mut poller = Poller::new(&Stop::new().unwrap()).unwrap();
        let source = poller.add(initiator.fd()).unwrap();
        let now = Instant::from_millis(1_000_000);
        Self { initiator, responder, poller, source, inbox: Inbox::new(), now, reopened: 0 }
    }

    /// Lets time pass until both hear each other, or neither does; whether that is so within a minute.
    fn wait_until(&mut self, up: bool) -> bool {
        let end = self.now + Duration::from_secs(60);
        while self.now < end {
            self.now += Duration::from_millis(10);
            let Self { initiator, responder, poller, source, inbox, now, reopened } = self;
            if poller.is_ready(*source) {
                initiator.receive(inbox, *now, |_, _, _| Use::Taken);
            }
            responder.receive(inbox, *now, |_, _, _| Use::Taken);
            for endpoint in [&mut *initiator, &mut *responder] {
                endpoint.tend(*now, &About::default());
                endpoint.flush(*now);
            }
            if initiator.reopen(*now) {
                poller.replace(*source, initiator.fd()).unwrap();
                *reopened += 1;
            }
            if [initiator.is_up(0, *now), responder.is_up(0, *now)] == [up; 2] {
                return true;
            }
            poller.wait(clock::now() + Duration::from_millis(1), false);
        }
        false
    }
}

/// The kernel binds a socket to the interface, not to its name.
#[test]
fn a_link_whose_interface_is_made_anew_is_up_again() {
    let Some(net) = Net::new() else { return };
    let run = || {
        net.join();
        let mut ends = Ends::new(&net.there);
        assert!(ends.wait_until(true), "it is up");
        ip(&net.here, &["link delete w0"]);
        assert!(ends.wait_until(false), "it is down");
        net.join();
        assert!(ends.wait_until(true), "it is up again");
        assert_eq!(ends.reopened, 1);
        Ok(())
    };
    net.here.run(run).unwrap();
}
