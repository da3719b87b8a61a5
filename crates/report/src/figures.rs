//! The figures of a comparison: goodput, delay and gap by scheme, and the goodput's distribution.

use weftline_scenario::{Comparison, ComparisonRow};

use crate::data::{Data, per_second};
use crate::figure::{figure, is_paced, of_means, steps};
use crate::plot::{Bar, Line, Plot, XAxis, bars};
use crate::spans::{Span, spans};
use crate::{scheme, time};

/// The colour of each scheme of a comparison.
pub(crate) fn colours(comparison: &Comparison) -> Vec<String> {
    comparison.rows.iter().map(|row| scheme::colour(&row.scheme)).collect()
}

/// All figures of a comparison.
pub(crate) fn all(data: &Data, comparison: &Comparison, colours: &[String]) -> String {
    let mut html = "<div class=\"figures\">\n".to_owned();
    html.push_str(&goodput(comparison, colours));
    html.push_str(&delay(comparison, colours));
    html.push_str(&gap(comparison, colours));
    html.push_str(&distribution(data, comparison, colours));
    html.push_str("</div>\n");
    html.push_str(&time::all(data, comparison, colours));
    html
}

/// Bars of the goodput, or of the completion time where runs end by themselves.
fn goodput(comparison: &Comparison, colours: &[String]) -> String {
    let rows = || comparison.rows.iter().zip(colours);
    let timed = comparison.rows.iter().any(|row| row.completion_s.is_some());
    let bar = |(row, class): (&'_ ComparisonRow, &String)| {
        let value = if timed { row.completion_s } else { row.goodput_mbps }?;
        // The label's life is the comparison's, not the closure's.
        Some((row.scheme.clone(), class.clone(), value))
    };
    let values: Vec<_> = rows().filter_map(bar).collect();
    if values.is_empty() {
        return String::new();
    }
    let list: Vec<Bar<'_>> = values
        .iter()
        .map(|(label, class, value)| Bar {
            label,
            class: class.clone(),
            value: value.mean,
            half_width: value.half_width,
        })
        .collect();
    let means = of_means(values.iter().map(|(.., value)| value));
    let (caption, unit) = if timed {
        (format!("Completion time, {means}"), "s (less is better)")
    } else {
        (format!("In-order goodput, {means}"), "Mb/s")
    };
    let sum = if timed { None } else { sum_of_singles(comparison) };
    let reference = sum.map(|sum| (sum, "sum of single paths"));
    figure(&caption, &[], &bars(&caption, &list, unit, reference))
}

/// The in-order delay of each scheme. Where a source sends all that goes it is left out: it measures
/// the send buffer.
fn delay(comparison: &Comparison, colours: &[String]) -> String {
    if !is_paced(&comparison.workload) {
        return String::new();
    }
    let span = |(row, class): (&'_ ComparisonRow, &String)| {
        let marks = [row.delay_p50_ms?, row.delay_p95_ms?, row.delay_p99_ms?];
        Some((row.scheme.clone(), class.clone(), marks.map(|value| value.mean)))
    };
    let values: Vec<_> = comparison.rows.iter().zip(colours).filter_map(span).collect();
    if values.is_empty() {
        return String::new();
    }
    let list: Vec<Span<'_>> = values
        .iter()
        .map(|(label, class, marks)| Span { label, class: class.clone(), marks: *marks })
        .collect();
    let caption = "In-order delay: median (filled), 95th percentile (stroke), 99th (ring)";
    figure(caption, &[], &spans(caption, &list, "ms (less is better)"))
}

/// The longest gap of each scheme.
fn gap(comparison: &Comparison, colours: &[String]) -> String {
    let rows: Vec<_> = comparison
        .rows
        .iter()
        .zip(colours)
        .filter_map(|(row, class)| Some((&row.scheme, class, row.longest_gap_ms?)))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let list: Vec<Bar<'_>> = rows
        .iter()
        .map(|(label, class, value)| Bar {
            label,
            class: (*class).clone(),
            value: value.mean,
            half_width: value.half_width,
        })
        .collect();
    let means = of_means(rows.iter().map(|(.., value)| value));
    let caption = format!("Longest time without a byte, {means}");
    figure(&caption, &[], &bars(&caption, &list, "ms (less is better)", None))
}

/// The sum of the mean goodputs of the single paths, when a ratio to it is known.
fn sum_of_singles(comparison: &Comparison) -> Option<f64> {
    comparison.rows.iter().find(|row| row.ratio_to_sum.is_some())?;
    let singles = comparison.rows.iter().filter(|row| row.scheme.starts_with("single:"));
    singles.map(|row| row.goodput_mbps.map(|goodput| goodput.mean)).sum()
}

/// The share of seconds with at most so much goodput, over all valid runs.
fn distribution(data: &Data, comparison: &Comparison, colours: &[String]) -> String {
    let (mut lines, mut legend, mut x_max) = (Vec::new(), Vec::new(), 0.0_f64);
    for (row, class) in comparison.rows.iter().zip(colours) {
        let mut seconds: Vec<f64> = Vec::new();
        for &run in row.runs.iter().filter(|&&run| data.records[run].is_valid()) {
            let from = data.records[run].warmup_s;
            seconds.extend(per_second(data.series(run, "goodput_mbps", ""), from));
        }
        if seconds.len() < 2 {
            continue;
        }
        seconds.sort_by(f64::total_cmp);
        x_max = x_max.max(seconds[seconds.len() - 1]);
        legend.push((class.clone(), row.scheme.clone()));
        lines.push(Line { class: class.clone(), points: steps(&seconds), filled: false });
    }
    if lines.is_empty() || x_max <= 0.0 {
        return String::new();
    }
    let caption = "Distribution of the goodput of each second after the warm-up";
    let plot = Plot {
        description: caption,
        width: 520.0,
        height: 270.0,
        x_label: "goodput of a second (Mb/s)",
        y_label: "share of seconds (%)",
        x_axis: XAxis::to(x_max * 1.02),
        y_min: 0.0,
        y_max: 1.0,
        percent: true,
        bands: Vec::new(),
        lines,
    };
    figure(caption, &legend, &plot.render())
}
