//! Means with confidence intervals.

/// A mean with the half-width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanCi {
    /// The mean.
    pub mean: f64,
    /// The interval is `mean ± half_width`; `None` for a single value, which has none.
    pub half_width: Option<f64>,
    /// How many values.
    pub count: usize,
}

/// 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom (any table of the distribution).
const STUDENT_T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The mean of `values` and its 95 % confidence interval by Student's t; `None` without values.
pub fn mean_ci95(values: &[f64]) -> Option<MeanCi> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let n = count as f64;
    let mean = values.iter().sum::<f64>() / n;
    if count == 1 {
        return Some(MeanCi { mean, half_width: None, count });
    }
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let freedom = count - 1;
    let half_width = Some(student_t95(freedom) * (squares / freedom as f64 / n).sqrt());
    Some(MeanCi { mean, half_width, count })
}

/// The 97.5 % quantile of Student's t with `freedom` degrees of freedom, at least one.
pub(crate) fn student_t95(freedom: usize) -> f64 {
    // Beyond the table 1.96 + 2.4 / df is within 0.003 of the quantile.
    let beyond = 1.96 + 2.4 / freedom.max(1) as f64;
    STUDENT_T.get(freedom.saturating_sub(1)).copied().unwrap_or(beyond)
}
