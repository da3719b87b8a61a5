//! The statistics of the report, for Python.

use pyo3::prelude::*;
use weftline_scenario as weft;

use crate::wrong;

/// The mean of `values`, the half-width of its 95 % interval by Student's t (`None` for one value),
/// and how many there are; `None` for no values.
#[pyfunction]
pub(crate) fn mean_ci95(values: Vec<f64>) -> Option<(f64, Option<f64>, usize)> {
    weft::mean_ci95(&values).map(|ci| (ci.mean, ci.half_width, ci.count))
}

/// For each record that can be compared its place in the list, its goodput ÷ the sum of the paths
/// alone, and ÷ the best of these.
#[pyfunction]
pub(crate) fn ratios(records: Vec<String>) -> PyResult<Vec<(usize, f64, f64)>> {
    let read = |json: &String| serde_json::from_str::<weft::RunRecord>(json).map_err(wrong);
    let records = records.iter().map(read).collect::<PyResult<Vec<_>>>()?;
    Ok(weft::ratios(&records)
        .iter()
        .map(|ratio| (ratio.run, ratio.to_sum, ratio.to_best))
        .collect())
}
