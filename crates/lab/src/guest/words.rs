//! What host and guest say to each other: one request in a file of the guest's, and lines of JSON over
//! a serial port.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weftline_scenario::{RunRecord, Scenario};

use crate::LabError;
use crate::emulator::Cut;
use crate::run::Plan;

/// The run that a guest is to do.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Request {
    /// The scenario as a TOML file, and the trace files that it names.
    scenario: String,
    traces: BTreeMap<String, String>,
    pub(super) scheme: String,
    pub(super) congestion: String,
    pub(super) seed: u64,
    cuts: Vec<String>,
    pub(super) version: String,
}

/// What a guest says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// The run goes on: milliseconds of the guest's clock since t = 0.
    At(u64),
    /// The record.
    Record(Box<RunRecord>),
    /// A value of a series: time in seconds, path, metric, value.
    Sample(f64, String, String, f64),
    /// There is no record, and why.
    Failed(String),
    /// All is said.
    End,
}

impl Request {
    /// The request for a plan.
    pub(super) fn of(plan: &Plan<'_>) -> Self {
        let mut scenario = plan.scenario.clone();
        let mut traces = BTreeMap::new();
        for (index, trace) in scenario.trace_files_mut().enumerate() {
            trace.file = format!("trace{index}");
            traces.insert(trace.file.clone(), trace.text.to_string());
        }
        Self {
            scenario: scenario.to_string(),
            traces,
            scheme: plan.scheme.to_string(),
            congestion: plan.congestion.to_string(),
            seed: plan.seed,
            cuts: plan.cuts.iter().map(Cut::to_string).collect(),
            version: plan.version.to_owned(),
        }
    }

    /// The scenario in it.
    ///
    /// # Errors
    /// [`LabError::Usage`] if it is none.
    pub(super) fn scenario(&self) -> Result<Scenario, LabError> {
        let load = |file: &Path| {
            let text = file.to_str().and_then(|name| self.traces.get(name));
            text.cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
        };
        let scenario = Scenario::parse("the scenario for the guest", &self.scenario, &load);
        scenario.map_err(|error| LabError::Usage(error.to_string()))
    }

    /// The cuts in it.
    ///
    /// # Errors
    /// [`LabError::Usage`] if one is none.
    pub(super) fn cuts(&self) -> Result<Vec<Cut>, LabError> {
        let cuts = self.cuts.iter().map(|cut| cut.parse());
        cuts.collect::<Result<_, _>>()
            .map_err(|error: crate::emulator::ParseCutError| LabError::Usage(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use weftline_scenario::{BUILTIN, Congestion, Scheme};

    use super::*;

    #[test]
    fn every_scenario_comes_through_as_it_is() {
        let scheme: Scheme = "linux-fbdt".parse().unwrap();
        for builtin in BUILTIN.iter() {
            let scenario = builtin.scenario().unwrap();
            let cuts = ["x@1s..2s".parse().unwrap(), "x/up@500ms..".parse().unwrap()];
            let plan = Plan {
                scenario: &scenario,
                scheme: &scheme,
                congestion: Congestion::CUBIC,
                in_kernel: "cubic",
                seed: 7,
                tls: false,
                cuts: &cuts,
                version: "1",
                program: Path::new(""),
                observer: None,
            };
            let request = Request::of(&plan);
            let text = serde_json::to_string(&request).unwrap();
            let read: Request = serde_json::from_str(&text).unwrap();
            assert_eq!(read, request);
            assert_eq!(read.cuts().unwrap(), cuts);
            let mut there = read.scenario().unwrap();
            for (own, theirs) in scenario.clone().trace_files_mut().zip(there.trace_files_mut()) {
                theirs.file.clone_from(&own.file);
            }
            assert_eq!(there, scenario, "{}", scenario.name);
        }
    }
}
