//! Figures as a table shows them.

use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A table without lines, with this header.
pub(super) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    table
}

/// Its lines; columns from `from` on are figures.
pub(super) fn lines(mut table: Table, from: usize) -> Vec<String> {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

pub(super) fn rate(mbps: Option<f64>) -> String {
    mbps.map_or("-".to_owned(), |mbps| format!("{mbps:.1}Mbps"))
}

pub(super) fn ms(ms: Option<f64>) -> String {
    ms.map_or("-".to_owned(), |ms| format!("{ms:.1}ms"))
}

pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes}B"),
        10_000..10_000_000 => format!("{:.1}kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1}MB", bytes as f64 / 1e6),
        _ => format!("{:.1}GB", bytes as f64 / 1e9),
    }
}

pub(super) fn age(seconds: f64) -> String {
    humantime::format_duration(Duration::from_secs(seconds as u64)).to_string()
}
