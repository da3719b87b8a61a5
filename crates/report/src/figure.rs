//! What all figures share: the frame with caption and legend, and what may be drawn in it.

use weftline_scenario::MeanCi;

use crate::format::{escape, put};

/// The most points of a line: more than the page has dots across.
pub(crate) const MAX_POINTS: usize = 600;

/// A figure with its caption and legend; `entries` are classes and names.
pub(crate) fn figure(caption: &str, entries: &[(String, String)], content: &str) -> String {
    let mut html = format!("<figure><figcaption>{}</figcaption>\n", escape(caption));
    if !entries.is_empty() {
        html.push_str("<ul class=\"legend\">");
        for (class, name) in entries {
            let swatch = if class.contains("fill") {
                format!("<rect class=\"area {class}\" width=\"26\" height=\"10\"/>")
            } else {
                format!("<path class=\"line {class}\" d=\"M0 5H26\"/>")
            };
            put(
                &mut html,
                format_args!(
                    "<li><svg width=\"26\" height=\"10\" aria-hidden=\"true\">{swatch}</svg>{}</li>",
                    escape(name)
                ),
            );
        }
        html.push_str("</ul>\n");
    }
    html.push_str(content);
    html.push_str("</figure>\n");
    html
}

/// What a caption says of its values: an interval only where there is one.
pub(crate) fn of_means<'a>(values: impl IntoIterator<Item = &'a MeanCi>) -> &'static str {
    let mut values = values.into_iter().peekable();
    match values.peek().is_some() && values.all(|value| value.count == 1) {
        true => "one run each",
        false => "mean with 95 % confidence interval",
    }
}

/// Whether the source has times of its own, so that a delay is the network's.
pub(crate) fn is_paced(workload: &str) -> bool {
    workload.starts_with("cbr") || workload.starts_with("messages")
}

/// The empirical distribution function of sorted values, thinned where it has more steps than can
/// be seen.
pub(crate) fn steps(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let stride = n.div_ceil(MAX_POINTS);
    let mut points = vec![(sorted[0], 0.0)];
    let mut share = 0.0;
    for index in (0..n).filter(|index| (index + 1) % stride == 0 || index + 1 == n) {
        points.push((sorted[index], share));
        share = (index + 1) as f64 / n as f64;
        points.push((sorted[index], share));
    }
    points
}
