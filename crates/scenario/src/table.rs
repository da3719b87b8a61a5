//! The comparison at the end of a series of runs, as a table for people.

use crate::{Comparison, ComparisonRow, MeanCi};
use comfy_table::{Cell, CellAlignment, Table, presets};

/// One table per experiment.
pub fn render_table(comparisons: &[Comparison]) -> String {
    comparisons.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

fn one(comparison: &Comparison) -> String {
    let Comparison { scenario, workload, congestion, tls, .. } = comparison;
    let tls = if *tls { ", TLS" } else { "" };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "scheme",
        "goodput Mb/s",
        "÷ sum",
        "time s",
        "delay p50 ms",
        "p99 ms",
        "gap ms",
        "dup %",
        "retrans",
        "CPU s/GB",
        "runs",
    ]);
    for row in &comparison.rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let note = comparison.guest_note().map_or_else(String::new, |note| format!("\n{note}"));
    format!("{scenario}, {workload}, {congestion}{tls}\n{table}{note}")
}

fn cells(row: &ComparisonRow) -> Vec<Cell> {
    let mean = |value: Option<MeanCi>, digits: usize, scale: f64| {
        let text = value.map_or_else(String::new, |value| {
            let mean = value.mean * scale;
            match value.half_width {
                Some(half) => format!("{mean:.digits$} ± {:.digits$}", half * scale),
                None => format!("{mean:.digits$}"),
            }
        });
        Cell::new(text)
    };
    // A guest's seconds are not the host's.
    let mark = if row.guest_kernels.is_empty() { "" } else { "*" };
    let cpu = mean(row.cpu_seconds_per_gb, 2, 1.0).content();
    let cpu = if cpu.is_empty() { cpu } else { cpu + mark };
    let mut runs = row.runs.len().to_string();
    if row.failed > 0 {
        runs += &format!(", {} failed", row.failed);
    }
    if row.invalid > 0 {
        runs += &format!(", {} invalid", row.invalid);
    }
    vec![
        Cell::new(&row.scheme),
        mean(row.goodput_mbps, 1, 1.0),
        mean(row.ratio_to_sum, 3, 1.0),
        mean(row.completion_s, 4, 1.0),
        mean(row.delay_p50_ms, 1, 1.0),
        mean(row.delay_p99_ms, 1, 1.0),
        mean(row.longest_gap_ms, 0, 1.0),
        mean(row.duplicate_share, 2, 100.0),
        mean(row.retransmitted_packets, 0, 1.0),
        Cell::new(cpu),
        Cell::new(runs),
    ]
}
