//! The schemes that can be compared, and the congestion controls under them, by name.

use std::fmt;
use std::str::FromStr;

use crate::{Scenario, UnknownName};

/// A way to carry the workload over the scenario's paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scheme {
    /// FBDT: each window of the stream from both ends at once (FBDT §3).
    Fbdt,
    /// FBDT as the paper words it, without our additions.
    FbdtStrict,
    /// Linux's own MPTCP with its default scheduler (lab: the running kernel's).
    LinuxMptcp,
    /// Our transport with the scheduler that takes the free path of the lowest round-trip time.
    MinRtt,
    /// Plain TCP over the path of that name (lab: the kernel's, without our transport).
    Single(String),
    /// Our transport over the one path of that name.
    WeftSingle(String),
}

/// A scheme as lists show it.
#[derive(Clone, Debug)]
pub struct SchemeInfo {
    /// How it is written; `<path>` is for the user to fill in.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Makes the scheme; gets the path's name where the scheme has one.
    make: Make,
}

#[derive(Clone, Debug)]
enum Make {
    Plain(Scheme),
    OnPath(fn(String) -> Scheme),
}

/// All schemes.
pub const SCHEMES: &[SchemeInfo] = &[
    SchemeInfo {
        name: "single:<path>",
        about: "plain TCP over one path, without weftline",
        make: Make::OnPath(Scheme::Single),
    },
    SchemeInfo {
        name: "weft-single:<path>",
        about: "weftline's transport over one path",
        make: Make::OnPath(Scheme::WeftSingle),
    },
    SchemeInfo {
        name: "linux-mptcp",
        about: "the kernel's MPTCP with its default scheduler",
        make: Make::Plain(Scheme::LinuxMptcp),
    },
    SchemeInfo {
        name: "fbdt",
        about: "weftline: each window of the stream from both ends at once",
        make: Make::Plain(Scheme::Fbdt),
    },
    SchemeInfo {
        name: "fbdt-strict",
        about: "weftline: FBDT as the paper words it",
        make: Make::Plain(Scheme::FbdtStrict),
    },
    SchemeInfo {
        name: "min-rtt",
        about: "weftline: the free path of the lowest round-trip time first",
        make: Make::Plain(Scheme::MinRtt),
    },
];

impl Scheme {
    /// The one path the scheme uses, if it uses only one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Single(path) | Self::WeftSingle(path) => Some(path),
            Self::Fbdt | Self::FbdtStrict | Self::LinuxMptcp | Self::MinRtt => None,
        }
    }

    /// Checks that the scheme's path is one of the scenario's.
    ///
    /// # Errors
    ///
    /// If it is not; the error lists those there are.
    pub fn check(&self, scenario: &Scenario) -> Result<(), UnknownName> {
        let Some(path) = self.path() else { return Ok(()) };
        let names: Vec<_> = scenario.paths.iter().map(|path| path.name.as_str()).collect();
        if names.contains(&path) {
            return Ok(());
        }
        Err(UnknownName { kind: "path", text: path.to_owned(), known: names.join(", ") })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fbdt => write!(f, "fbdt"),
            Self::FbdtStrict => write!(f, "fbdt-strict"),
            Self::LinuxMptcp => write!(f, "linux-mptcp"),
            Self::MinRtt => write!(f, "min-rtt"),
            Self::Single(path) => write!(f, "single:{path}"),
            Self::WeftSingle(path) => write!(f, "weft-single:{path}"),
        }
    }
}

impl FromStr for Scheme {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        for info in SCHEMES {
            match &info.make {
                Make::Plain(scheme) if info.name == text => return Ok(scheme.clone()),
                Make::Plain(_) => {}
                Make::OnPath(make) => {
                    let prefix = info.name.trim_end_matches("<path>");
                    let path = text.strip_prefix(prefix).filter(|path| !path.is_empty());
                    if let Some(path) = path {
                        return Ok(make(path.to_owned()));
                    }
                }
            }
        }
        let known = SCHEMES.iter().map(|info| info.name).collect::<Vec<_>>().join(", ");
        Err(UnknownName { kind: "scheme", text: text.to_owned(), known })
    }
}

/// The congestion control of each path, by the kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Congestion {
    /// BBR, version 1.
    Bbr,
    /// CUBIC (RFC 9438).
    Cubic,
    /// NewReno (RFC 6582).
    Reno,
}

/// All congestion controls.
pub const CONGESTIONS: &[Congestion] = &[Congestion::Reno, Congestion::Cubic, Congestion::Bbr];

impl Congestion {
    /// Its name, the one the kernel knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
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
        CONGESTIONS.iter().copied().find(|congestion| congestion.name() == text).ok_or_else(|| {
            let known = CONGESTIONS.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ");
            UnknownName { kind: "congestion control", text: text.to_owned(), known }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_reads_and_prints() {
        for info in SCHEMES {
            let text = info.name.replace("<path>", "wifi");
            let scheme: Scheme = text.parse().unwrap();
            assert_eq!(scheme.to_string(), text);
        }
        assert_eq!("single:wigig".parse(), Ok(Scheme::Single("wigig".to_owned())));
    }

    #[test]
    fn unknown_names_list_the_known() {
        for bad in ["", "single:", "FBDT", "fbdt:wifi"] {
            let error = bad.parse::<Scheme>().unwrap_err().to_string();
            assert!(error.contains("weft-single:<path>, linux-mptcp"), "{error}");
        }
        let error = "vegas".parse::<Congestion>().unwrap_err().to_string();
        assert_eq!(error, "there is no congestion control 'vegas'; known: reno, cubic, bbr");
    }
}
