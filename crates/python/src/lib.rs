//! The Python module `weftline._weftline`: the glue between the package in `python/` and the
//! simulator. What users call is in Python; here is what runs, reads and writes.
//!
//! Every text goes through the parsers of `weftline-scenario`, so that Python refuses what a file
//! refuses, in the same words. Runs happen without the interpreter's lock, and signals are looked for
//! every 50 ms meanwhile.

mod acts;
mod control;
mod drive;
mod fields;
mod halt;
mod own;
mod picker;
mod results;
mod scenario;
mod statistics;
mod steer;
mod sweep;
mod table;

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use weftline_scenario::{BUILTIN, Congestion, ResultsError, SWEEPS, Scheme, SchemeInfo};

/// The version with the commit, as the records of the program have it.
const VERSION: &str = env!("WEFTLINE_VERSION");

create_exception!(
    weftline._weftline,
    ScenarioError,
    PyValueError,
    "A scenario or sweep that is wrong."
);

/// What a scenario or sweep gets wrong, with `file`, `line` and `reason` where these are known.
fn scenario_error(error: &weftline_scenario::ScenarioError) -> PyErr {
    let raised = ScenarioError::new_err(error.to_string());
    let (file, line, reason) = match error {
        weftline_scenario::ScenarioError::Invalid { file, line, message } => {
            (Some(file.as_str()), Some(*line), message.clone())
        }
        weftline_scenario::ScenarioError::Read { file, source } => {
            (Some(file.as_str()), None, source.to_string())
        }
        other => (None, None, other.to_string()),
    };
    let set = Python::attach(|py| {
        let value = raised.value(py);
        value.setattr("file", file)?;
        value.setattr("line", line)?;
        value.setattr("reason", reason)
    });
    set.err().unwrap_or(raised)
}

/// A value that makes no sense.
fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What is wrong with a directory of results.
fn results_error(error: &ResultsError) -> PyErr {
    // What the program has options for are arguments here.
    let words = error
        .to_string()
        .replace("another --out", "another directory")
        .replace(" --series ", " series ");
    match error.is_wrong_use() {
        true => PyValueError::new_err(words),
        false => PyOSError::new_err(words),
    }
}

/// Name and description of each built-in scenario.
#[pyfunction]
fn scenarios() -> PyResult<Vec<(String, String)>> {
    let about = |builtin: &weftline_scenario::Builtin| {
        let scenario = builtin.scenario().map_err(|error| scenario_error(&error))?;
        Ok((builtin.name.to_owned(), scenario.about))
    };
    BUILTIN.iter().map(about).collect()
}

/// Name and description of each built-in sweep.
#[pyfunction]
fn sweeps() -> PyResult<Vec<(String, String)>> {
    let about = |builtin: &weftline_scenario::Builtin| {
        let sweep = weftline_scenario::Sweep::find(builtin.name);
        let sweep = sweep.map_err(|error| scenario_error(&error))?;
        Ok((builtin.name.to_owned(), sweep.about().to_owned()))
    };
    SWEEPS.iter().map(about).collect()
}

/// Name and description of each scheme that the simulator has.
#[pyfunction]
fn schemes() -> Vec<(String, String)> {
    let is_own = |scheme: &SchemeInfo| scheme.name.starts_with(own::PREFIX);
    let in_guest = |scheme: &SchemeInfo| Scheme::guest_schemes().any(|guest| guest == *scheme);
    let all = Scheme::all().filter(|scheme| !is_own(scheme) && !in_guest(scheme));
    all.map(|scheme| (scheme.name.to_owned(), scheme.about.to_owned())).collect()
}

/// The names of the congestion controls.
#[pyfunction]
fn congestion_controls() -> Vec<&'static str> {
    Congestion::all().map(Congestion::name).filter(|name| !name.starts_with(own::PREFIX)).collect()
}

#[pymodule]
mod _weftline {
    #[pymodule_export]
    use super::control::{Ack, Loss};
    #[pymodule_export]
    use super::drive::{Run, run, run_all};
    #[pymodule_export]
    use super::fields::record_keys;
    #[pymodule_export]
    use super::own::Part;
    #[pymodule_export]
    use super::picker::{PathView, View};
    #[pymodule_export]
    use super::results::{Writer, merge, read_runs, read_series, report, series_of};
    #[pymodule_export]
    use super::scenario::Scenario;
    #[pymodule_export]
    use super::statistics::{link_discards, mean_ci95, ratios, vr_gains};
    #[pymodule_export]
    use super::steer::{Simulation, advance_all};
    #[pymodule_export]
    use super::sweep::Sweep;
    #[pymodule_export]
    use super::table::{Table, table};
    #[pymodule_export]
    use super::{ScenarioError, congestion_controls, scenarios, schemes, sweeps};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = super::VERSION;
}
