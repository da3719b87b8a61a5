//! What the orchestrator and its endpoints tell each other: arguments as one JSON text, then lines
//! of JSON over standard input and output.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weftline_measure::FlowFigures;

use crate::observe::SenderSample;

/// Everything an endpoint has to know, as one JSON argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointArgs {
    /// Which side it is.
    pub role: Role,
    /// What carries the bytes.
    pub transport: Transport,
    /// The congestion control, by the kernel's name.
    pub congestion: String,
    /// What is sent.
    pub traffic: Traffic,
    /// What the content of the stream is made from.
    pub seed: u64,
    /// Whether the sender tells how it goes meanwhile.
    #[serde(default)]
    pub watched: bool,
}

/// The sides of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The server: accepts, sends.
    Sender,
    /// The client: connects, receives, measures.
    Receiver,
}

/// What carries the bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Transport {
    /// The kernel's TCP to this address.
    Tcp {
        /// Where the server listens.
        server: SocketAddr,
    },
    /// The kernel's MPTCP, first to this address.
    Mptcp {
        /// Where the server listens.
        server: SocketAddr,
    },
    /// Weftline's transport.
    Weft {
        /// The interface of each path and where the server listens on it.
        paths: Vec<(String, SocketAddr)>,
        /// The scheduler's name.
        scheduler: String,
        /// Its rules that are switched off, by name.
        without: String,
        /// Whether subflows are encrypted.
        tls: bool,
        /// The server's fingerprint, for a client with TLS.
        fingerprint: Option<String>,
    },
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Traffic {
    /// From the epoch on, for a time.
    Stream {
        /// Bits per second; as much as goes if absent.
        rate_bps: Option<u64>,
        /// How long.
        duration: Duration,
        /// How much of it goes before the measurement starts.
        warmup: Duration,
    },
    /// So many bytes.
    Transfer {
        /// How many.
        size: u64,
        /// Over a connection that has carried data before, not a new one.
        warm: bool,
        /// When to give up.
        limit: Duration,
    },
}

/// What the orchestrator says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "command")]
pub(crate) enum Command {
    /// The workload begins at this point of the monotonic clock.
    Go {
        /// Nanoseconds of the monotonic clock.
        epoch_ns: u64,
    },
}

/// What an endpoint says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(crate) enum Event {
    /// The sender accepts connections.
    Listening {
        /// What a client with TLS pins.
        fingerprint: Option<String>,
    },
    /// The connection stands (or, for a new one, may be opened): waiting for `go`.
    Ready,
    /// How the sender goes, if it is watched.
    Sample(SenderSample),
    /// The receiver has measured.
    Received(ReceiverReport),
    /// The sender has sent.
    Sent(SenderReport),
    /// It cannot go on.
    Failed {
        /// Why.
        message: String,
    },
}

/// What the receiving application saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReceiverReport {
    /// What was measured.
    pub(crate) figures: FlowFigures,
    /// Bytes that arrived although they had arrived before, where the receiver can tell.
    pub(crate) duplicate_bytes: Option<u64>,
    /// What went wrong.
    pub(crate) error: Option<String>,
}

/// What the sending side's kernel counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SenderReport {
    /// Bytes the application wrote.
    pub(crate) bytes: u64,
    /// Each local address data went from.
    pub(crate) sockets: Vec<SocketReport>,
    /// Bytes sent a second time above the subflows, where the kernel does that.
    pub(crate) duplicate_bytes: Option<u64>,
    /// Bytes that the session sent again though another path was still delivering them.
    pub(crate) copied_bytes: Option<u64>,
    /// What went wrong.
    pub(crate) error: Option<String>,
}

/// The TCP connections (subflows) from one local address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SocketReport {
    /// The address.
    pub(crate) local: IpAddr,
    /// Segments sent again.
    pub(crate) retransmitted: u64,
    /// Smoothed round-trip times in nanoseconds, and at which nanosecond of the clock.
    pub(crate) rtts: Vec<(u64, u64)>,
    /// Its newest congestion window in each 100 ms since the epoch, in segments: step and window.
    #[serde(default)]
    pub(crate) cwnd: Vec<(usize, u32)>,
}
