//! What is sent over the paths.

use std::fmt;
use std::str::FromStr;

use weftline_core::{Bitrate, ByteCount};

use crate::{UnknownName, VideoSpec};

/// What is sent, from the server to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workload {
    /// As much as goes, for the scenario's duration.
    Bulk,
    /// So many bytes over a connection that is already warm, timed from the first write to the
    /// last byte.
    Burst(ByteCount),
    /// A constant bit rate, for the scenario's duration.
    Cbr(Bitrate),
    /// `iperf3` in reverse mode, for the scenario's duration (lab only).
    Iperf3,
    /// So many bytes on a new connection, timed from the application's connect to its last byte.
    Transfer(ByteCount),
    /// A video, downloaded progressively and played; the run ends with it, and at the scenario's
    /// duration at the latest.
    Video(VideoSpec),
}

/// A workload as lists show it.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInfo {
    /// How it is written; what stands in `<…>` is for the user to fill in.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
}

/// All workloads.
pub const WORKLOADS: &[WorkloadInfo] = &[
    WorkloadInfo { name: "bulk", about: "as much as goes, for the scenario's duration" },
    WorkloadInfo { name: "cbr:<rate>", about: "a constant bit rate, like cbr:20Mbps" },
    WorkloadInfo {
        name: "transfer:<size>",
        about: "so many bytes on a new connection, timed from the connect",
    },
    WorkloadInfo { name: "burst:<size>", about: "so many bytes on a warm connection" },
    WorkloadInfo { name: "video", about: "a video over HTTP and its player" },
    WorkloadInfo { name: "iperf3", about: "the iperf3 program, server to client (lab only)" },
];

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bulk => write!(f, "bulk"),
            Self::Burst(size) => write!(f, "burst:{size}"),
            Self::Cbr(rate) => write!(f, "cbr:{rate}"),
            Self::Iperf3 => write!(f, "iperf3"),
            Self::Transfer(size) => write!(f, "transfer:{size}"),
            Self::Video(_) => write!(f, "video"),
        }
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(n, a)| (n, Some(a)));
        let size = |argument: &str| -> Result<ByteCount, WorkloadError> {
            let size = argument.parse().map_err(|error| WorkloadError::argument(text, error))?;
            if size == ByteCount::ZERO {
                return Err(WorkloadError::argument(text, "the size must not be zero"));
            }
            Ok(size)
        };
        match (name, argument) {
            ("bulk", None) => Ok(Self::Bulk),
            ("burst", Some(argument)) => size(argument).map(Self::Burst),
            ("cbr", Some(argument)) => match argument.parse() {
                Ok(Bitrate::ZERO) => {
                    Err(WorkloadError::argument(text, "the rate must not be zero"))
                }
                Ok(rate) => Ok(Self::Cbr(rate)),
                Err(error) => Err(WorkloadError::argument(text, error)),
            },
            ("iperf3", None) => Ok(Self::Iperf3),
            ("transfer", Some(argument)) => size(argument).map(Self::Transfer),
            ("video", None) => Ok(Self::Video(VideoSpec::default())),
            _ => {
                let known = WORKLOADS.iter().map(|info| info.name).collect::<Vec<_>>().join(", ");
                Err(UnknownName { kind: "workload", text: text.to_owned(), known }.into())
            }
        }
    }
}

/// Why a text is no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The part after the colon is wrong.
    #[error("workload '{text}': {message}")]
    Argument {
        /// The whole workload.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// There is no such workload.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
}

impl WorkloadError {
    fn argument(text: &str, message: impl fmt::Display) -> Self {
        Self::Argument { text: text.to_owned(), message: message.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_read_and_print() {
        for text in ["bulk", "burst:125MB", "cbr:20Mbps", "iperf3", "transfer:100kB", "video"] {
            let workload: Workload = text.parse().unwrap();
            assert_eq!(workload.to_string().parse(), Ok(workload), "{text}");
        }
        assert_eq!("cbr:20Mbps".parse(), Ok(Workload::Cbr(Bitrate::mbps(20))));
    }

    #[test]
    fn bad_workloads_say_the_remedy() {
        let error = |text: &str| text.parse::<Workload>().unwrap_err().to_string();
        insta::assert_snapshot!(
            ["vlc", "video:4", "bulk:3", "cbr", "cbr:20", "cbr:0Mbps", "transfer:0B"]
                .map(error)
                .join("\n")
        );
    }
}
