//! The schemes that can be compared, and the congestion controls under them, by name.
//!
//! A scheme over weftline's transport is a scheduler of the core's registry, and a congestion
//! control one of `weftline-congestion`'s: neither is listed again here.

use std::fmt;
use std::str::FromStr;

use weftline_core::scheduler;

use crate::UnknownName;

/// A way to carry the workload over the scenario's paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain TCP whose packets are coded at a gateway and access points (COTAG §III); the
    /// scenario has such a topology.
    Cotag {
        /// Whether all packets are combinations, as in the paper, and not only redundant ones.
        dense: bool,
    },
    /// The MPTCP of a patched kernel in a guest, with the scheduler of that name in that kernel (lab
    /// only): one of [`guest_schemes`](Self::guest_schemes).
    LinuxGuest(&'static str),
    /// Linux's own MPTCP with its default scheduler (lab: the running kernel's).
    LinuxMptcp,
    /// Our transport, where the simulator lets each segment go where it would be there first: a
    /// bound for what a scheduler can do that only sees its sockets.
    Oracle,
    /// Plain TCP whose packets a gateway spreads over the access points in turns.
    PacketRoundRobin,
    /// Plain TCP over the path of that name (lab: the kernel's, without our transport).
    Single(String),
    /// Our transport with the scheduler of that name, one of [`scheduler::all`].
    Weft(&'static str),
    /// Our transport over the one path of that name.
    WeftSingle(String),
}

/// A scheme as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeInfo {
    /// How it is written; `<path>` is for the user to fill in.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
}

const SINGLE: &str = "single:";
const WEFT_SINGLE: &str = "weft-single:";
const LINUX_MPTCP: &str = "linux-mptcp";
const LINUX: &str = "linux-";
const COTAG: &str = "cotag";
const COTAG_DENSE: &str = "cotag-dense";
const ORACLE: &str = "oracle";
const PACKET_ROUND_ROBIN: &str = "packet-round-robin";

/// The schedulers of the patched kernel, which `kernel/` builds, and what each is.
const LINUX_GUEST: [(&str, SchemeInfo); 3] = [
    (
        "default",
        SchemeInfo {
            name: "linux-default",
            about: "MPTCP of the patched kernel in a guest with its default scheduler (lab only)",
        },
    ),
    (
        "forward",
        SchemeInfo {
            name: "linux-forward",
            about: "the same with admission by congestion window and early reinjection (lab only)",
        },
    ),
    (
        "fbdt",
        SchemeInfo {
            name: "linux-fbdt",
            about: "the same, each window of data sent from both of its ends (lab only)",
        },
    ),
];

/// The scheduler under [`Scheme::WeftSingle`], which is no scheme without its path.
const ONE_PATH: &str = "single";

impl Scheme {
    /// FBDT: each window of the stream from both ends at once (FBDT §3).
    pub const FBDT: Self = Self::Weft("fbdt");

    /// Our transport with the scheduler that daemons and library have by default.
    pub fn default_scheduler() -> Self {
        Self::Weft(scheduler::DEFAULT.name)
    }

    /// All schemes.
    pub fn all() -> impl Iterator<Item = SchemeInfo> {
        let others = [
            ("single:<path>", "plain TCP over one path, without weftline"),
            ("weft-single:<path>", "weftline's transport over one path"),
            (LINUX_MPTCP, "the kernel's MPTCP with its default scheduler"),
            (COTAG, "plain TCP over access points with redundancy coded in the network"),
            (COTAG_DENSE, "the same, every packet a combination (COTAG as published)"),
            (PACKET_ROUND_ROBIN, "plain TCP, its packets over the access points in turns"),
            (
                ORACLE,
                "a reference for schedulers that knows the state of the links (simulator only)",
            ),
        ];
        let others = others.into_iter().map(|(name, about)| SchemeInfo { name, about });
        let ours = scheduler::all().filter(|entry| entry.name != ONE_PATH);
        let ours = ours.map(|entry| SchemeInfo { name: entry.name, about: entry.about });
        others.chain(Self::guest_schemes()).chain(ours)
    }

    /// Those that run in a guest with a patched kernel, and so in the lab alone.
    pub fn guest_schemes() -> impl Iterator<Item = SchemeInfo> {
        LINUX_GUEST.into_iter().map(|(_, info)| info)
    }

    /// The kernel's scheduler under it, if it runs in a guest with a patched kernel.
    pub fn guest_scheduler(&self) -> Option<&'static str> {
        match self {
            Self::LinuxGuest(scheduler) => Some(scheduler),
            _ => None,
        }
    }

    /// The one path the scheme uses, if it uses only one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Single(path) | Self::WeftSingle(path) => Some(path),
            _ => None,
        }
    }

    /// Whether it wants a gateway and access points between server and client.
    pub fn needs_gateway(&self) -> bool {
        matches!(self, Self::Cotag { .. } | Self::PacketRoundRobin)
    }

    /// The scheduler of our transport under it; none if the kernel carries it.
    pub fn scheduler(&self) -> Option<&'static str> {
        match self {
            Self::Cotag { .. }
            | Self::LinuxGuest(_)
            | Self::LinuxMptcp
            | Self::Oracle
            | Self::PacketRoundRobin
            | Self::Single(_) => None,
            Self::Weft(name) => Some(name),
            Self::WeftSingle(_) => Some(ONE_PATH),
        }
    }

    /// Checks that the scheme's path is one of those.
    pub(crate) fn check_paths(&self, names: &[&str]) -> Result<(), UnknownName> {
        match self.path() {
            Some(path) if !names.contains(&path) => {
                let known = names.join(", ");
                Err(UnknownName { kind: "path", text: path.to_owned(), known })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cotag { dense: false } => f.write_str(COTAG),
            Self::Cotag { dense: true } => f.write_str(COTAG_DENSE),
            Self::LinuxGuest(scheduler) => write!(f, "{LINUX}{scheduler}"),
            Self::LinuxMptcp => f.write_str(LINUX_MPTCP),
            Self::Oracle => f.write_str(ORACLE),
            Self::PacketRoundRobin => f.write_str(PACKET_ROUND_ROBIN),
            Self::Single(path) => write!(f, "{SINGLE}{path}"),
            Self::Weft(name) => f.write_str(name),
            Self::WeftSingle(path) => write!(f, "{WEFT_SINGLE}{path}"),
        }
    }
}

impl FromStr for Scheme {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            COTAG => return Ok(Self::Cotag { dense: false }),
            COTAG_DENSE => return Ok(Self::Cotag { dense: true }),
            LINUX_MPTCP => return Ok(Self::LinuxMptcp),
            ORACLE => return Ok(Self::Oracle),
            PACKET_ROUND_ROBIN => return Ok(Self::PacketRoundRobin),
            _ => {}
        }
        if let Some((scheduler, _)) = LINUX_GUEST.iter().find(|(_, info)| info.name == text) {
            return Ok(Self::LinuxGuest(scheduler));
        }
        let path = |prefix| text.strip_prefix(prefix).filter(|path| !path.is_empty());
        if let Some(path) = path(SINGLE) {
            return Ok(Self::Single(path.to_owned()));
        }
        if let Some(path) = path(WEFT_SINGLE) {
            return Ok(Self::WeftSingle(path.to_owned()));
        }
        if let Ok(entry) = scheduler::Entry::find(text)
            && entry.name != ONE_PATH
        {
            return Ok(Self::Weft(entry.name));
        }
        let known = Self::all().map(|info| info.name).collect::<Vec<_>>().join(", ");
        Err(unknown("scheme", text, known))
    }
}

/// A name that nothing has, where a class of a Python program may have had one.
fn unknown(kind: &'static str, text: &str, mut known: String) -> UnknownName {
    if text.starts_with("py:") {
        known.push_str("; it is a class of a Python program, and only that goes on with it");
    }
    UnknownName { kind, text: text.to_owned(), known }
}

/// The congestion control of each path, one of [`weftline_congestion::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Congestion(&'static str);

impl Congestion {
    /// CUBIC (RFC 9438), what runs use unless told otherwise.
    pub const CUBIC: Self = Self("cubic");

    /// All congestion controls.
    pub fn all() -> impl Iterator<Item = Self> {
        weftline_congestion::all().map(|entry| Self(entry.name))
    }

    /// Its name; the kernel knows the same control by the same name.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Whether it looks at the connection's other subflows.
    pub fn is_coupled(self) -> bool {
        weftline_congestion::Entry::find(self.0).is_some_and(|entry| entry.coupled)
    }

    /// Whether Linux as published has it, built in or as a module. The others exist in patched
    /// kernels, and here in the simulator.
    pub fn is_in_linux(self) -> bool {
        matches!(self.0, "bbr" | "cubic" | "reno")
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Congestion {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::all().find(|congestion| congestion.name() == text).ok_or_else(|| {
            let known = Self::all().map(Self::name).collect::<Vec<_>>().join(", ");
            unknown("congestion control", text, known)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_reads_and_prints() {
        for info in Scheme::all() {
            let text = info.name.replace("<path>", "wifi");
            let scheme: Scheme = text.parse().unwrap();
            assert_eq!(scheme.to_string(), text);
            // A scheduler from outside that had the name of another scheme would never be used.
            let is_free = scheme.scheduler().is_none() && scheme.path().is_none();
            assert_eq!(scheduler::RESERVED.contains(&&*text), is_free, "{text}");
        }
        assert_eq!("single:wigig".parse(), Ok(Scheme::Single("wigig".to_owned())));
        assert_eq!("fbdt".parse(), Ok(Scheme::FBDT));
        let guest = "linux-fbdt".parse::<Scheme>().unwrap();
        assert_eq!((guest.guest_scheduler(), guest.scheduler()), (Some("fbdt"), None));
        assert_eq!(Scheme::WeftSingle("wifi".to_owned()).scheduler(), Some("single"));
    }

    #[test]
    fn every_congestion_control_reads_and_prints() {
        for congestion in Congestion::all() {
            assert_eq!(congestion.to_string().parse(), Ok(congestion));
        }
        assert_eq!("cubic".parse(), Ok(Congestion::CUBIC));
        assert!(Congestion::all().any(Congestion::is_in_linux));
    }

    #[test]
    fn unknown_names_list_the_known() {
        for bad in ["", "single", "single:", "FBDT", "fbdt:wifi", "linux-", "linux-earliest"] {
            let error = bad.parse::<Scheme>().unwrap_err().to_string();
            assert!(
                error.contains(
                    "weft-single:<path>, linux-mptcp, cotag, cotag-dense, packet-round-robin, oracle, \
                     linux-default, linux-forward, linux-fbdt, fbdt"
                ),
                "{error}"
            );
        }
        let error = "vegas".parse::<Congestion>().unwrap_err().to_string();
        assert!(error.starts_with("there is no congestion control 'vegas'; known: "), "{error}");
    }
}
