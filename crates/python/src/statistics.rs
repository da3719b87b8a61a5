//! The statistics of the report, for Python.

use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use weftline_scenario as weft;

use crate::wrong;

/// The mean of `values`, the half-width of its 95 % interval by Student's t (`None` for one value),
/// and how many there are; `None` for no values.
#[pyfunction]
pub(crate) fn mean_ci95(values: Vec<f64>) -> Option<(f64, Option<f64>, usize)> {
    weft::mean_ci95(&values).map(|ci| (ci.mean, ci.half_width, ci.count))
}

/// Pictures that a run's viewer did not see because of the links; `None` where that is not known.
#[pyfunction]
pub(crate) fn link_discards(record: &str) -> PyResult<Option<f64>> {
    serde_json::from_str::<weft::RunRecord>(record).map(|run| run.link_discards()).map_err(wrong)
}

/// For each record that can be compared its place in the list, its goodput ÷ the sum of the paths
/// alone, and ÷ the best of these.
#[pyfunction]
pub(crate) fn ratios(py: Python<'_>, records: Vec<String>) -> PyResult<Vec<(usize, f64, f64)>> {
    py.detach(|| {
        let records: Vec<weft::RunRecord> = read(&records)?;
        Ok(weft::ratios(&records)
            .iter()
            .map(|ratio| (ratio.run, ratio.to_sum, ratio.to_best))
            .collect())
    })
}

/// A mean, the half-width of its 95 % interval, and of how many values it is.
type Interval = (f64, Option<f64>, usize);

/// Condition, concealment and step, and what is gained in both measures.
type Gain = (String, String, String, Interval, Interval);

/// For each condition, concealment and step of an evaluation of 360° video its name, and what it gains in
/// dB: in the PSNR of the sessions' mean MSE, and in the mean of their GoPs' PSNR. Videos and seeds are the
/// independent draws, viewers of one video and seed count as one.
#[pyfunction]
pub(crate) fn vr_gains(sessions: Vec<String>) -> PyResult<Vec<Gain>> {
    let records: Vec<weft::VrRecord> = read(&sessions)?;
    let mut rows = Vec::new();
    for gain in weft::vr_gains(&records) {
        for (step, found) in weft::VR_STEPS.iter().zip(&gain.steps) {
            let Some(both) = found else { continue };
            let [of_mean, of_gops] = both.map(|ci| (ci.mean, ci.half_width, ci.count));
            let names = (gain.condition.clone(), gain.concealment.clone(), step.name.to_owned());
            rows.push((names.0, names.1, names.2, of_mean, of_gops));
        }
    }
    Ok(rows)
}

/// Records from their lines.
fn read<T: DeserializeOwned>(lines: &[String]) -> PyResult<Vec<T>> {
    lines.iter().map(|line| serde_json::from_str(line).map_err(wrong)).collect()
}
