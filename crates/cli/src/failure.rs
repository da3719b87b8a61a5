//! How the program ends when it cannot do what it was asked: one line and an exit status.

use std::fmt;
use std::io;

use weftline::Error;
use weftline::refusal::{EXPIRED, TOKEN};
use weftline_bpf::BpfError;
use weftline_lab::LabError;
use weftline_net::NetError;
use weftline_report::ReportError;
use weftline_scenario::{ResultsError, ScenarioError, UnknownName};

use crate::remedy;

/// Why the program fails.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
    /// Whether a server does not let this client in.
    is_refusal: bool,
}

/// What was asked for was tried and failed.
const FAILED: u8 = 1;
/// What was asked for makes no sense.
const WRONG_USE: u8 = 2;
/// This machine or user cannot do it.
const NOT_POSSIBLE: u8 = 3;
/// It was done, and some of what was measured does not count.
const INVALID: u8 = 4;

impl Failure {
    /// Something was tried and failed.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(message, FAILED)
    }

    /// The arguments make no sense.
    pub(crate) fn wrong_use(message: impl fmt::Display) -> Self {
        Self::new(message, WRONG_USE)
    }

    /// Some of what was measured does not count.
    pub(crate) fn invalid(message: impl fmt::Display) -> Self {
        Self::new(message, INVALID)
    }

    /// This machine cannot do it.
    pub(crate) fn not_possible(message: impl fmt::Display) -> Self {
        Self::new(message, NOT_POSSIBLE)
    }

    /// Another part of the program has said what status its error has.
    pub(crate) fn with_status(message: impl fmt::Display, status: u8) -> Self {
        Self::new(message, status)
    }

    fn new(message: impl fmt::Display, status: u8) -> Self {
        // One line, whatever the parts of the message contain.
        let message = message.to_string();
        let lines: Vec<&str> = message.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let message = lines.join(" ");
        let status = match status {
            FAILED if remedy::lacks_rights(&message) => NOT_POSSIBLE,
            status => status,
        };
        let message = match remedy::of(&message) {
            Some(remedy) => format!("{message}; {remedy}"),
            None => message,
        };
        Self { message, status, is_refusal: false }
    }

    /// The same, as a server does not let this client in.
    pub(crate) fn refusal(self) -> Self {
        Self { is_refusal: true, ..self }
    }

    /// Whether a server does not let this client in.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    /// The program's exit status.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Certificate { .. }
            | Error::Invalid(_)
            | Error::NoInternet { .. }
            | Error::NoTrust
            | Error::UnknownAddress { .. }
            | Error::UnknownCongestion { .. }
            | Error::UnknownInterface { .. }
            | Error::UnknownScheduler { .. } => WRONG_USE,
            Error::CongestionNotPermitted { .. } | Error::NoInterfaceAddress { .. } => NOT_POSSIBLE,
            _ => FAILED,
        };
        let is_refusal = matches!(error, Error::Refused { code: TOKEN | EXPIRED, .. });
        let failure = match options_of(&error) {
            Some(options) => Self::new(format_args!("{error} ({options})"), status),
            None => Self::new(error, status),
        };
        Self { is_refusal, ..failure }
    }
}

/// The options that set right what is wrong, which the library does not know of.
fn options_of(error: &Error) -> Option<&'static str> {
    match error {
        Error::MemoryUsedUp { .. } => Some("--max-total-memory"),
        Error::NoInternet { .. } => Some("start it with serve --internet"),
        Error::NoJoinAddress { .. } => Some("serve --join-address"),
        Error::NoTrust => Some("--fingerprint sha256:… or --ca FILE"),
        Error::PeerNotTls { .. } => Some("--insecure-plaintext"),
        Error::StateDir { .. } => Some("--state-dir DIR"),
        Error::WantsTls { .. } => Some("leave out --insecure-plaintext"),
        _ => None,
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let status = error.exit_code();
        Self::new(error, status)
    }
}

impl From<NetError> for Failure {
    fn from(error: NetError) -> Self {
        match error {
            NetError::NotPossible { .. } => Self::not_possible(error),
            NetError::AddressTaken { .. } | NetError::DeviceTaken { .. } => Self::wrong_use(error),
            _ => Self::failed(error),
        }
    }
}

impl From<BpfError> for Failure {
    fn from(error: BpfError) -> Self {
        let status = error.exit_code();
        Self::new(error, status)
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        Self::failed(error)
    }
}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Self {
        match error.is_wrong_use() {
            true => Self::wrong_use(error),
            false => Self::failed(error),
        }
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Self::wrong_use(error)
    }
}

impl From<UnknownName> for Failure {
    fn from(error: UnknownName) -> Self {
        Self::wrong_use(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::failed(error)
    }
}
