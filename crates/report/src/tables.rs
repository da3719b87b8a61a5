//! The tables of a report.

use weftline_scenario::{Comparison, ComparisonRow, MeanCi, guest_note};

use crate::data::Data;
use crate::format::{decimals, escape, mean_ci, number, paragraph, put};

/// A column of a comparison: its head, what it means, and its value with its scale and decimals.
struct Column {
    head: &'static str,
    unit: &'static str,
    hint: &'static str,
    value: fn(&ComparisonRow) -> Option<MeanCi>,
    scale: f64,
    /// `None`: as many as the values need.
    decimals: Option<usize>,
    /// Whether the interval is shown too.
    interval: bool,
}

const COLUMNS: &[Column] = &[
    Column {
        head: "Goodput",
        unit: "Mb/s",
        hint: "bytes released in order after the warm-up",
        value: |row| row.goodput_mbps,
        scale: 1.0,
        decimals: None,
        interval: true,
    },
    Column {
        head: "÷ sum",
        unit: "of single paths",
        hint: "goodput over the sum of the paths' own TCP with the same seed",
        value: |row| row.ratio_to_sum,
        scale: 1.0,
        decimals: Some(3),
        interval: true,
    },
    Column {
        head: "÷ baseline",
        unit: "",
        hint: "mean of the ratios of pairs of runs with the same seed: completion time, or else goodput",
        value: |row| row.ratio_to_baseline,
        scale: 1.0,
        decimals: Some(3),
        interval: true,
    },
    Column {
        head: "Completion",
        unit: "s",
        hint: "time of the transfer",
        value: |row| row.completion_s,
        scale: 1.0,
        decimals: None,
        interval: true,
    },
    Column {
        head: "Delay p50",
        unit: "ms",
        hint: "median time from write to in-order release",
        value: |row| row.delay_p50_ms,
        scale: 1.0,
        decimals: None,
        interval: false,
    },
    Column {
        head: "Delay p99",
        unit: "ms",
        hint: "99 % of the bytes are released within this time of their write",
        value: |row| row.delay_p99_ms,
        scale: 1.0,
        decimals: None,
        interval: true,
    },
    Column {
        head: "Longest gap",
        unit: "ms",
        hint: "longest time without delivery",
        value: |row| row.longest_gap_ms,
        scale: 1.0,
        decimals: None,
        interval: false,
    },
    Column {
        head: "Duplicates",
        unit: "%",
        hint: "bytes that arrived twice, of those sent",
        value: |row| row.duplicate_share,
        scale: 100.0,
        decimals: Some(2),
        interval: false,
    },
    Column {
        head: "Retransmitted",
        unit: "packets",
        hint: "packets that TCP sent again, over all paths",
        value: |row| row.retransmitted_packets,
        scale: 1.0,
        decimals: Some(0),
        interval: false,
    },
    Column {
        head: "CPU",
        unit: "s/GB",
        hint: "processor time of both ends per 10⁹ bytes delivered",
        value: |row| row.cpu_seconds_per_gb,
        scale: 1.0,
        decimals: Some(2),
        interval: false,
    },
];

/// The schemes of a comparison, a row each; a column that no scheme has a value for is left out.
pub(crate) fn comparison(comparison: &Comparison, colours: &[String]) -> String {
    let has = |column: &&Column| comparison.rows.iter().any(|row| (column.value)(row).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(has).collect();
    let mut html = "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Scheme</th>\
                    <th scope=\"col\">Runs</th>"
        .to_owned();
    for Column { head, unit, hint, .. } in &columns {
        let named = comparison.baseline.as_ref().filter(|_| *head == "÷ baseline");
        let head = named.map_or_else(|| (*head).to_owned(), |name| format!("÷ {}", escape(name)));
        put(
            &mut html,
            format_args!(
                "<th scope=\"col\" title=\"{hint}\">{head} <span class=\"unit\">{unit}</span></th>"
            ),
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (row, colour) in comparison.rows.iter().zip(colours) {
        put(
            &mut html,
            format_args!(
                "<tr><th scope=\"row\"><span class=\"dot {colour}\"></span>{}</th><td>{}</td>",
                escape(&row.scheme),
                run_count(row)
            ),
        );
        for column in &columns {
            let cell = (column.value)(row).map_or("–".to_owned(), |value| {
                let scaled = MeanCi {
                    mean: value.mean * column.scale,
                    half_width: value
                        .half_width
                        .filter(|_| column.interval)
                        .map(|width| width * column.scale),
                    count: value.count,
                };
                let text = mean_ci(&scaled, column.decimals.unwrap_or(decimals(scaled.mean)));
                // A guest's seconds are not the host's.
                let is_other = column.head == "CPU" && !row.guest_kernels.is_empty();
                if is_other { text + "*" } else { text }
            });
            put(&mut html, format_args!("<td>{cell}</td>"));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html + &paragraph(comparison.guest_note())
}

/// The number of runs that count, with those that do not.
fn run_count(row: &ComparisonRow) -> String {
    let mut text = (row.runs.len() - row.invalid).to_string();
    if row.failed > 0 {
        put(&mut text, format_args!(" <span class=\"bad\">({} failed)</span>", row.failed));
    }
    text
}

/// All comparisons at a glance: the ratio to the sum of single paths, or the goodput where there
/// is no ratio.
pub(crate) fn overview(data: &Data) -> String {
    let mut schemes: Vec<&str> = Vec::new();
    for row in data.comparisons.iter().flat_map(|comparison| &comparison.rows) {
        let single = row.scheme.starts_with("single:") && row.ratio_to_sum.is_some();
        if !single && !schemes.contains(&row.scheme.as_str()) {
            schemes.push(&row.scheme);
        }
    }
    let mut html = "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Experiment</th>\
                    <th scope=\"col\">Congestion</th>"
        .to_owned();
    for scheme in &schemes {
        put(&mut html, format_args!("<th scope=\"col\">{}</th>", escape(scheme)));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (index, comparison) in data.comparisons.iter().enumerate() {
        put(
            &mut html,
            format_args!(
                "<tr><th scope=\"row\"><a href=\"#c{index}\">{}</a> <span class=\"unit\">{}</span>\
                 </th><td>{}</td>",
                escape(&comparison.scenario),
                escape(&variant(comparison)),
                escape(&comparison.congestion),
            ),
        );
        for scheme in &schemes {
            let row = comparison.rows.iter().find(|row| row.scheme == *scheme);
            put(&mut html, format_args!("<td>{}</td>", overview_cell(row)));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html + &paragraph(guest_note(&data.records))
}

fn overview_cell(row: Option<&ComparisonRow>) -> String {
    let Some(row) = row else { return "–".to_owned() };
    match (&row.ratio_to_sum, &row.goodput_mbps, &row.completion_s) {
        (Some(ratio), Some(goodput), _) => format!(
            "<b>{}</b> <span class=\"unit\">{} Mb/s</span>",
            number(ratio.mean, 3),
            number(goodput.mean, decimals(goodput.mean))
        ),
        (_, _, Some(time)) => format!("{} s", number(time.mean, decimals(time.mean))),
        (_, Some(goodput), _) => {
            format!("{} Mb/s", number(goodput.mean, decimals(goodput.mean)))
        }
        _ => "–".to_owned(),
    }
}

/// Backend, workload and encryption, as far as they are not the usual.
pub(crate) fn variant(comparison: &Comparison) -> String {
    let tls = if comparison.tls { ", TLS" } else { "" };
    format!("{}, {}{tls}", comparison.backend, comparison.workload)
}
