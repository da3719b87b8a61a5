//! What is run, and what a run has to say: scenarios, schemes, workloads and the results schema.
//!
//! A [`Scenario`] is read from a TOML file and means the same in the lab and in the simulator:
//! [`PathSpec::down_link`] turns a path into the link model that both drive. A [`Sweep`] varies
//! scenarios. A run of a [`Scheme`] over a scenario ends as a [`RunRecord`] and, with an output
//! directory, as lines of `runs.jsonl` and `series.csv` ([`ResultsWriter`]); the directory also keeps
//! what made them ([`Bundle`]). [`Comparison`] puts the records of several schemes side by side.
//!
//! ```
//! use std::time::Duration;
//!
//! use weftline_scenario::Scenario;
//!
//! let text = r#"
//!     name = "two-links"
//!     duration = "30s"
//!
//!     [[path]]
//!     name = "wifi"
//!     rate = "50Mbps"
//!     delay = "5ms"
//!
//!     [[path]]
//!     name = "lte"
//!     rate = "30Mbps"
//!     delay = "25ms"
//! "#;
//! // It names no trace files; those would be read by the last argument.
//! let scenario = Scenario::parse("two-links.toml", text, &|_| unreachable!())?;
//! assert_eq!(scenario.paths[1].base_rtt(), Duration::from_millis(50));
//!
//! // What is wrong is said with its line and the remedy.
//! let error = Scenario::parse("mine.toml", "name = \"x\"", &|_| unreachable!()).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "mine.toml:1: key 'duration' is missing; write for example duration = \"20s\"",
//! );
//! # Ok::<(), weftline_scenario::ScenarioError>(())
//! ```

mod builtin;
mod document;
mod edit;
mod error;
mod flow;
mod generator;
mod headset;
mod mean;
mod path;
mod rate;
mod ratio;
mod record;
mod results;
mod scenario;
mod scheme;
mod summary;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod topology;
mod trace_file;
mod unplugged;
mod video;
mod vr;
mod workload;

pub use builtin::{BUILTIN, Builtin, SWEEPS};
pub use error::ScenarioError;
pub use flow::{Flow, FlowSpec};
pub use generator::{Blockage, BlockageState, Outage};
pub use headset::Headset;
pub use mean::{MeanCi, mean_ci95};
pub use path::{PathSpec, QueueSpec, UpSpec};
pub use rate::{RateSpec, TraceFile};
pub use ratio::{Ratio, paired_ratio, ratios};
pub use record::{
    CotagRecord, DelayMs, EmulatorRecord, FlowRecord, LEAST_PLAYER_SEEDS, MessagesRecord,
    PathRecord, RttMs, RunRecord, SCHEMA_VERSION, ShortTermMbps, VideoRecord, discards_say,
};
pub use results::{
    BadPart, Bundle, Merged, Part, Provenance, ResultsError, ResultsWriter, SERIES_HEADER, Sample,
    SeriesReader, SeriesRow, merge, read_provenance, read_runs,
};
pub use scenario::{BadTimes, Scenario};
pub use scheme::{Congestion, Scheme, SchemeInfo};
pub use summary::{Comparison, ComparisonRow, guest_note, latest};
pub use sweep::{Case, Sweep};
pub use table::render_table;
pub use topology::{CotagSpec, GatewayAps, WideLink};
pub use trace_file::TraceFormat;
pub use unplugged::Unplugged;
pub use video::VideoSpec;
pub use vr::{
    VR_GOPS, VR_GOPS_HEADER, VR_MOMENTS, VR_OURS, VR_SESSIONS, VR_STEPS, VrBeside, VrGain,
    VrMoment, VrPlan, VrRecord, VrStep, VrTile, mean_ci95_crossed, read_vr_moments,
    read_vr_sessions, vr_beside, vr_gains,
};
pub use weftline_video::{ClipConfig, PlayerRules};
pub use workload::{
    GOP, MESSAGE_BYTES, MESSAGE_DEADLINE_MS, PlayerProgram, TILES, WORKLOADS, Workload,
    WorkloadInfo,
};

/// A text that names nothing known, with what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} '{text}'; known: {known}")]
pub struct UnknownName {
    /// What was looked for: "scheme", "workload", …
    pub kind: &'static str,
    /// The text given.
    pub text: String,
    /// The names there are.
    pub known: String,
}
