//! A scenario as Python holds it: read, checked, and ready to run.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use weftline_scenario as weft;

use crate::scenario_error;

/// A scenario that has been read.
#[pyclass(frozen)]
pub(crate) struct Scenario {
    pub(crate) inner: weft::Scenario,
    text: String,
}

impl Scenario {
    /// One that is there already.
    pub(crate) fn new_of(inner: weft::Scenario) -> Self {
        let text = inner.to_string();
        Self { inner, text }
    }
}

#[pymethods]
impl Scenario {
    /// Reads TOML. `file` names it in errors, `traces` are the texts of trace files by name.
    #[new]
    fn new(file: &str, text: String, traces: BTreeMap<PathBuf, String>) -> PyResult<Self> {
        let load = |path: &Path| {
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            traces.get(path).cloned().ok_or_else(missing)
        };
        let inner = weft::Scenario::parse(file, &text, &load);
        Ok(Self { inner: inner.map_err(|error| scenario_error(&error))?, text })
    }

    /// A built-in scenario, or that of a file.
    #[staticmethod]
    fn find(name_or_path: &str) -> PyResult<Self> {
        let inner = weft::Scenario::find(name_or_path).map_err(|error| scenario_error(&error))?;
        let builtin = weft::BUILTIN.iter().find(|builtin| builtin.name == name_or_path);
        let text = match builtin {
            Some(builtin) => builtin.text.to_owned(),
            None => std::fs::read_to_string(name_or_path)?,
        };
        Ok(Self { inner, text })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn about(&self) -> &str {
        &self.inner.about
    }

    /// The TOML that it was read from.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.inner.duration.as_secs_f64()
    }

    /// The names of its paths.
    #[getter]
    fn paths(&self) -> Vec<&str> {
        self.inner.paths.iter().map(|path| path.name.as_str()).collect()
    }

    /// The trace files that it names, with their texts.
    fn traces(&self) -> Vec<(String, String)> {
        let mut scenario = self.inner.clone();
        scenario
            .trace_files_mut()
            .map(|trace| (trace.file.clone(), trace.text.to_string()))
            .collect()
    }
}
