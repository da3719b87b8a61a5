//! What it means how dialling went on a path.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use weftline::{Error, LinkState, Reach, ServerAddr, refusal};
use weftline_core::session::{RESET_SERVICE, RESET_TARGET, SessionError};
use weftline_core::wire::WireError;

use super::finding::{Check, Finding};
use crate::connect::Shown;
use crate::ops::Daemon;

/// The least that every link of IPv6 carries in a packet (RFC 8200 §5), bytes: with less, TCP works
/// and pays more for headers, and tunnels and IPv6 do not.
const LEAST_PACKET: u32 = 1280;

/// A path, and what is known around it.
pub(super) struct Place {
    pub(super) path: String,
    pub(super) interface: Option<String>,
    pub(super) link: LinkState,
    /// Whether the path has an address of the family of the address that was tried.
    pub(super) has_family: bool,
    /// Whether the routing table leads to the server through the interface.
    pub(super) leads: bool,
    /// Whether the kernel drops what does not come in where it would go out.
    pub(super) is_strict: bool,
    pub(super) server: String,
    /// Whether the server is reached on any path.
    pub(super) others_reach: bool,
    /// Whose path it is.
    pub(super) daemon: Daemon,
    /// What the client shows.
    pub(super) token: Shown,
}

/// What plaintext means.
pub(super) fn plaintext() -> Finding {
    let found =
        "no encryption and no authentication: anybody on the way can read and change the data";
    let remedy = "for anything but measurements leave out --insecure-plaintext at both ends";
    Finding::warning(Check::Tls, "security", found, remedy)
}

/// The server lets the client in and not the connections of its programs.
pub(super) fn turned_away(server: &ServerAddr, error: &Error) -> Finding {
    let found = match error {
        // Its own words.
        Error::Reset { reason, .. } => reason.clone(),
        other => other.to_string(),
    };
    let remedy = match error {
        Error::Reset { code: RESET_TARGET, .. } => {
            "start the service behind the server, or correct --forward there"
        }
        Error::Reset { code: RESET_SERVICE, .. } => {
            "both ends must mean the same: serve --forward and connect --listen, serve --socks and \
             connect --socks, serve --internet and 'weftline up'"
        }
        _ => "see the server's log of this moment, and 'weftline doctor serve' there",
    };
    Finding::error(Check::Forward, format!("server {server}"), found, remedy)
}

impl Place {
    fn subject(&self) -> String {
        format!("path {}", self.path)
    }

    fn through(&self) -> &str {
        self.interface.as_deref().unwrap_or("this machine's default route")
    }

    /// The server has let the client in.
    pub(super) fn up(&self, reach: Option<&Reach>) -> Finding {
        let (server, through) = (&self.server, self.through());
        let mut found = format!("{server} accepts this client through {through}");
        if let Some(reach) = reach.filter(|reach| reach.full_size) {
            let (rtt, packet) = (in_ms(reach.rtt), reach.packet);
            found += &format!(", round trip {rtt}, packets of {packet} bytes");
        }
        Finding::ok(Check::Path, self.subject(), found)
    }

    /// What is wrong with the size of packets, if anything is.
    pub(super) fn mtu(&self, reach: &Reach) -> Option<Finding> {
        let (packet, through) = (reach.packet, self.through());
        if !reach.full_size {
            let found = format!(
                "packets of {packet} bytes do not arrive, and nobody on the way says so; small ones do"
            );
            let ip = reach.server.ip();
            let remedy = format!(
                "find the largest that passes with 'ping -M do -s 1252 {ip}' (28 bytes are headers) \
                 and set it: 'ip link set dev {through} mtu 1280'. Below 1280 an interface loses its \
                 IPv6: give the route less instead, 'ip route change … mtu 1228'"
            );
            return Some(Finding::error(Check::Mtu, self.subject(), found, remedy));
        }
        if packet >= LEAST_PACKET {
            return None;
        }
        let found = format!("packets have {packet} bytes at most; 1500 is usual");
        let remedy = format!(
            "look at the MTU of {through}, of the server's interface ('ip link'), and of tunnels on \
             the way"
        );
        Some(Finding::warning(Check::Mtu, self.subject(), found, remedy))
    }

    /// The server was not reached, or has not let the client in.
    pub(super) fn failed(&self, error: Error) -> Finding {
        let (check, remedy) = match &error {
            Error::Unreachable { source, server, .. } => self.unreachable(source, *server),
            other => self.cause(other),
        };
        // What the server says it says on every path alike.
        let of_server = matches!(
            check,
            Check::Certificate
                | Check::Clock
                | Check::Limits
                | Check::Name
                | Check::Port
                | Check::Tls
                | Check::Token
                | Check::Version
        );
        let subject = match of_server {
            true => format!("server {}", self.server),
            false => self.subject(),
        };
        let found = match &error {
            // The path is not the cause.
            Error::Unreachable { source, server, .. } if of_server => {
                // A name has several addresses.
                let address = Some(server.to_string()).filter(|one| *one != self.server);
                let address = address.map(|one| format!("{one} ")).unwrap_or_default();
                format!("{address}refuses connections: {source}")
            }
            _ => error.to_string(),
        };
        if self.is_loosened_later(&check) {
            let remedy = "'weftline up' lets such answers in by itself (rp_filter)";
            return Finding::warning(check, subject, found, remedy);
        }
        Finding::error(check, subject, found, remedy)
    }

    /// Whether this kernel may drop the answers now and not when `up` runs.
    fn is_loosened_later(&self, check: &Check) -> bool {
        self.daemon == Daemon::Up && self.is_strict && self.others_reach && *check == Check::Blocked
    }

    fn unreachable(&self, source: &io::Error, address: SocketAddr) -> (Check, String) {
        let through = self.through();
        let server = &self.server;
        match (self.link, self.leads, source.kind()) {
            (LinkState::Down, ..) => (
                Check::Link,
                format!("{through} is down or has no carrier: connect it, or 'ip link set {through} up'"),
            ),
            (LinkState::NoAddress, ..) => (
                Check::Link,
                format!("{through} has no address: wait for DHCP, or 'ip address add … dev {through}'"),
            ),
            _ if !self.has_family => (
                Check::Route,
                format!(
                    "{through} has no {} address: give --server a name that has addresses of both \
                     families, or an address for each path",
                    if address.is_ipv4() { "IPv4" } else { "IPv6" }
                ),
            ),
            // Others reach it, and an address of the other family refuses.
            (_, _, io::ErrorKind::ConnectionRefused) if self.others_reach && address.is_ipv6() => (
                Check::Port,
                format!(
                    "the server takes IPv4 only, and {through} leads there by IPv6: start it with \
                     --listen '[::]:{}', which takes both",
                    address.port()
                ),
            ),
            (_, _, io::ErrorKind::ConnectionRefused) => (Check::Port, nobody_listens(server)),
            (_, false, _) | (_, _, io::ErrorKind::NetworkUnreachable) => (
                Check::Route,
                format!(
                    "no route leads there through {through}: 'ip route add default via GATEWAY dev \
                     {through} metric 700', or let DHCP set one"
                ),
            ),
            (_, _, io::ErrorKind::PermissionDenied) => (
                Check::Blocked,
                "this machine refuses to send it: look at 'nft list ruleset' (chain output) and for \
                 routes that prohibit ('ip route', 'ip rule')"
                    .to_owned(),
            ),
            _ => (Check::Blocked, self.nothing_comes()),
        }
    }

    fn nothing_comes(&self) -> String {
        let through = self.through();
        if self.others_reach && self.is_strict {
            return format!(
                "the server answers on another path. This kernel may drop the answers: 'sysctl -w \
                 {}=2'; else a firewall blocks this link",
                filter_key(through)
            );
        }
        if self.others_reach {
            return format!(
                "the server answers on another path: something blocks this one. Try 'ping -I \
                 {through}' to the server; look for a firewall, a captive portal, or an operator that \
                 blocks the port"
            );
        }
        "no path reaches the server: is its address right, does it run, and do its firewall and its \
         router let the TCP port in? 'weftline doctor serve' there says more"
            .to_owned()
    }

    fn cause(&self, error: &Error) -> (Check, String) {
        let (check, remedy) = match error {
            Error::Resolve { name, .. } => {
                return (Check::Name, format!("check the spelling, and 'getent hosts {name}'"));
            }
            Error::UnknownInterface { .. } | Error::UnknownAddress { .. } => {
                (Check::Link, "name one that is there, see 'ip address'")
            }
            Error::NoInterfaceAddress { .. } => (
                Check::Permission,
                "give the interface an address of that family, or the program CAP_NET_RAW ('setcap \
                 cap_net_raw+ep', AmbientCapabilities= in a unit)",
            ),
            Error::CongestionNotPermitted { .. } => (
                Check::Permission,
                "run as root, or allow it with 'sysctl net.ipv4.tcp_allowed_congestion_control'",
            ),
            Error::UnknownCongestion { name, .. } => {
                return (Check::Congestion, format!("'modprobe tcp_{name}', or choose another"));
            }
            Error::PeerNotTls { .. } => {
                let remedy = format!(
                    "either the server was started with --insecure-plaintext: start it without; or {}",
                    nobody_listens(&self.server)
                );
                return (Check::Port, remedy);
            }
            Error::OtherProtocol { .. } => return (Check::Port, nobody_listens(&self.server)),
            Error::WantsTls { .. } => {
                (Check::Tls, "leave out --insecure-plaintext here, or give it to the server, too")
            }
            Error::WrongFingerprint { .. } => (
                Check::Certificate,
                "if the server was set up anew, give --fingerprint what 'weftline doctor serve' shows \
                 there; if it was not, somebody else answers: do not connect",
            ),
            Error::CertificateDates { is_early, .. } => return (Check::Clock, clock(*is_early)),
            Error::Tls { .. } => (
                Check::Certificate,
                "give --ca the authority that has issued the server's certificate, --server-name the \
                 name in it, and --cert and --key if the server asks for one",
            ),
            Error::HandshakeTimeout { .. } | Error::ClosedInHandshake { .. } => (
                Check::Blocked,
                "TCP is let through and then nothing more: a filter on the way that knows no such \
                 traffic, or a server that is too busy; try another port, such as 443",
            ),
            Error::Refused { code, .. } => return refused(*code, &self.token),
            Error::Protocol { source, .. } => return protocol(source, &self.server),
            _ => (Check::Configuration, "correct what the message names"),
        };
        (check, remedy.to_owned())
    }
}

fn nobody_listens(server: &str) -> String {
    format!(
        "no weftline server listens at {server}: compare the address and the port with what 'weftline \
         serve' prints at start, and look whether it runs"
    )
}

fn clock(is_early: bool) -> String {
    let by_clock = match is_early {
        true => "this clock is behind, or the certificate is dated ahead",
        false => "the certificate has to be renewed at the server, or this clock is ahead",
    };
    format!("{by_clock}: compare 'date' here with the right time, and 'timedatectl set-ntp true'")
}

fn refused(code: u64, token: &Shown) -> (Check, String) {
    let (check, remedy) = match code {
        refusal::TOKEN => return (Check::Token, no_token(token)),
        refusal::EXPIRED => (
            Check::Token,
            "its time is over: ask for a new invite ('weftline invite NAME --expires 7d' there)",
        ),
        refusal::BUSY => (
            Check::Limits,
            "if it says so of wrong tokens, find who shows them here; then wait a minute, or see \
             'weftline status' at the server",
        ),
        refusal::CONGESTION => (
            Check::Congestion,
            "load it at the server ('modprobe tcp_NAME', --allow-congestion), or choose another",
        ),
        refusal::SCHEDULER | refusal::PROTOCOL | refusal::MESSAGES => {
            (Check::Version, "install the same version at both ends ('weftline --version')")
        }
        refusal::TLS_WANTED => (Check::Tls, "leave out --insecure-plaintext"),
        _ => (Check::Configuration, "see the server's log"),
    };
    (check, remedy.to_owned())
}

fn no_token(shown: &Shown) -> String {
    match shown {
        Shown::Nothing => {
            "give --token-file FILE with a secret that is in the server's token file: \
                           none is given here"
                .to_owned()
        }
        Shown::TokenFile => {
            "put the same secret into the token files of both ends, then reload the server"
                .to_owned()
        }
        Shown::Invite(name) => format!(
            "the invite has been revoked or replaced: make a new one at the server, with 'weftline \
             invite {name}'"
        ),
    }
}

fn protocol(source: &SessionError, server: &str) -> (Check, String) {
    match source {
        SessionError::Wire(WireError::NotWeftline(_)) => (Check::Port, nobody_listens(server)),
        _ => {
            let remedy = "install the same version at both ends ('weftline --version')";
            (Check::Version, remedy.to_owned())
        }
    }
}

fn in_ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// The sysctl of an interface's reverse path filter. Slashes where the name has dots of its own, as
/// those of VLANs have.
fn filter_key(interface: &str) -> String {
    match interface.contains('.') {
        true => format!("net/ipv4/conf/{interface}/rp_filter"),
        false => format!("net.ipv4.conf.{interface}.rp_filter"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn place() -> Place {
        Place {
            path: "lte".to_owned(),
            interface: Some("wwan0".to_owned()),
            link: LinkState::Up,
            has_family: true,
            leads: true,
            is_strict: false,
            server: "192.0.2.1:7000".to_owned(),
            others_reach: true,
            daemon: Daemon::Connect,
            token: Shown::Nothing,
        }
    }

    fn unreachable(kind: io::ErrorKind) -> Error {
        let via = weftline::Bind::Interface("wwan0".to_owned());
        let server = "192.0.2.1:7000".parse().unwrap();
        Error::Unreachable { server, via, source: kind.into() }
    }

    #[test]
    fn a_vlans_sysctl_is_written_with_slashes() {
        assert_eq!(filter_key("eth0.7"), "net/ipv4/conf/eth0.7/rp_filter");
        assert_eq!(filter_key("wlan0"), "net.ipv4.conf.wlan0.rp_filter");
    }

    #[test]
    fn why_a_path_does_not_reach_the_server() {
        let timeout = || unreachable(io::ErrorKind::TimedOut);
        let judged = |place: Place, error| {
            let finding = place.failed(error);
            assert_eq!(finding.level, Level::Error);
            (finding.check, finding.remedy.unwrap())
        };
        let (check, remedy) = judged(place(), timeout());
        assert_eq!(check, Check::Blocked);
        assert!(remedy.contains("ping -I wwan0"), "{remedy}");
        let (check, remedy) = judged(Place { is_strict: true, ..place() }, timeout());
        assert_eq!(check, Check::Blocked);
        assert!(remedy.contains("net.ipv4.conf.wwan0.rp_filter=2"), "{remedy}");
        let (check, remedy) = judged(Place { others_reach: false, ..place() }, timeout());
        assert_eq!(check, Check::Blocked);
        assert!(remedy.contains("no path reaches"), "{remedy}");
        assert_eq!(judged(Place { leads: false, ..place() }, timeout()).0, Check::Route);
        for link in [LinkState::Down, LinkState::NoAddress] {
            assert_eq!(judged(Place { link, ..place() }, timeout()).0, Check::Link);
        }
        let refused = || unreachable(io::ErrorKind::ConnectionRefused);
        let finding = place().failed(refused());
        assert_eq!((finding.check, &*finding.subject), (Check::Port, "server 192.0.2.1:7000"));
        let by_ipv6 = Error::Unreachable {
            server: "[2001:db8::5]:7000".parse().unwrap(),
            via: weftline::Bind::Any,
            source: io::ErrorKind::ConnectionRefused.into(),
        };
        let finding = place().failed(by_ipv6);
        assert!(finding.found.starts_with("[2001:db8::5]:7000 refuses"), "{finding:?}");
        let remedy = finding.remedy.unwrap();
        assert!(remedy.contains("--listen '[::]:7000', which takes both"), "{remedy}");
        let none = unreachable(io::ErrorKind::NetworkUnreachable);
        assert_eq!(judged(place(), none).0, Check::Route);
    }

    #[test]
    fn what_a_refused_client_can_do_depends_on_what_it_shows() {
        let remedy = |token| {
            let refused = Error::Refused {
                peer: "192.0.2.1:7000".parse().unwrap(),
                code: refusal::TOKEN,
                reason: String::new(),
            };
            Place { token, ..place() }.failed(refused).remedy.unwrap()
        };
        assert!(remedy(Shown::Nothing).contains("none is given here"));
        assert!(remedy(Shown::TokenFile).contains("of both ends"));
        assert!(remedy(Shown::Invite("phone".to_owned())).contains("'weftline invite phone'"));
    }

    #[test]
    fn what_up_sets_by_itself_is_no_error_before() {
        let place = Place { is_strict: true, daemon: Daemon::Up, ..place() };
        let finding = place.failed(unreachable(io::ErrorKind::TimedOut));
        assert_eq!((finding.check, finding.level), (Check::Blocked, Level::Warning));
    }

    #[test]
    fn packets_that_are_small_are_a_warning_and_those_that_vanish_an_error() {
        let reach = |packet, full_size| Reach {
            server: "192.0.2.1:7000".parse().unwrap(),
            rtt: Duration::from_millis(20),
            packet,
            full_size,
        };
        let level = |reach| place().mtu(&reach).map(|finding| finding.level);
        assert_eq!(level(reach(1500, true)), None);
        assert_eq!(level(reach(1280, true)), None);
        assert_eq!(level(reach(750, true)), Some(Level::Warning));
        assert_eq!(level(reach(1500, false)), Some(Level::Error));
    }
}
