//! The tables of docs/validation.md: what both worlds have in every case.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use weftline_scenario::RunRecord;

use super::{Case, FIGURES, Measured, mean};

/// The headings of the first table, and of what follows the last one.
const BEGIN: &str = "### One connection, no loss\n";
const END: &str = "### Ordinary bonds\n";

/// A table: its heading, which cases are in it, and which figures.
type Section = (&'static str, fn(&Case) -> bool, &'static [&'static str]);

const SECTIONS: [Section; 6] = [
    (
        "One connection, no loss",
        |case| is_one(case) && is_bulk(case) && !is_lossy(case),
        &["goodput_mbps", "resent_share", "needless_share", "rtt_ms", "gap_ms"],
    ),
    (
        "One connection, i.i.d. loss",
        |case| is_one(case) && is_bulk(case) && is_lossy(case),
        &["goodput_mbps", "resent_share", "needless_share", "rtt_ms"],
    ),
    (
        "One connection, constant rate",
        |case| is_one(case) && is_constant(case),
        &["p50_ms", "p99_ms", "gap_ms", "resent_share", "needless_share"],
    ),
    (
        "Transfers",
        |case| !is_bulk(case) && !is_constant(case),
        &["completion_ms", "resent_share", "needless_share"],
    ),
    (
        "Two paths, bulk",
        |case| !is_one(case) && is_bulk(case),
        &["goodput_mbps", "split", "resent_share", "needless_share", "duplicate_share", "gap_ms"],
    ),
    (
        "Two paths, constant rate",
        |case| !is_one(case) && is_constant(case),
        &["goodput_mbps", "split", "p50_ms", "p99_ms", "gap_ms", "needless_share"],
    ),
];

fn is_one(case: &Case) -> bool {
    case.scheme.starts_with("single:")
}

fn is_bulk(case: &Case) -> bool {
    case.workload == "bulk"
}

fn is_constant(case: &Case) -> bool {
    case.workload.starts_with("cbr:")
}

fn is_lossy(case: &Case) -> bool {
    case.scenario.starts_with("loss-")
}

/// What a column is called, and its figure's unit and digits.
fn heading(figure: &str) -> (&'static str, f64, usize) {
    match figure {
        "goodput_mbps" => ("goodput, Mb/s", 1.0, 1),
        "completion_ms" => ("completion, ms", 1.0, 0),
        "split" => ("first path's share", 1.0, 2),
        "resent_share" => ("sent again, %", 100.0, 2),
        "needless_share" => ("sent again less lost, %", 100.0, 2),
        "duplicate_share" => ("duplicates, %", 100.0, 1),
        "rtt_ms" => ("mean RTT, ms", 1.0, 1),
        "p50_ms" => ("p50 of the delay, ms", 1.0, 1),
        "p99_ms" => ("p99, ms", 1.0, 0),
        "gap_ms" => ("longest gap, ms", 1.0, 0),
        other => panic!("no heading for {other}"),
    }
}

/// The row of a case: each figure of both worlds, by name.
pub(super) type Row = BTreeMap<&'static str, String>;

/// What the simulator has, beside what the kernel had: the mean, and half the range of its runs.
pub(super) fn row(case: &Case, sim: &[&RunRecord], kernel: &Measured) -> Row {
    let cell = |figure: super::Figure| {
        let values = kernel.figures.get(figure.0)?;
        let (_, scale, digits) = heading(figure.0);
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(least, most), &value| {
            (least.min(value), most.max(value))
        });
        let (ours, theirs) = (mean(case, figure, sim) * scale, kernel.mean(figure.0) * scale);
        let half = (most - least) / 2.0 * scale;
        let known = case.known.iter().any(|known| known.figure == figure.0);
        let mark = if known { " †" } else { "" };
        let number = |value: f64| {
            let text = format!("{value:.digits$}");
            // No minus before a zero.
            let is_zero = text.chars().all(|character| "-0.".contains(character));
            if is_zero { text.replace('-', "") } else { text }
        };
        let spread = if values.len() > 1 { format!(" ± {}", number(half)) } else { String::new() };
        Some((figure.0, format!("{} / {}{spread}{mark}", number(ours), number(theirs))))
    };
    FIGURES.into_iter().filter_map(cell).collect()
}

fn tables(cases: &[Case], rows: &BTreeMap<String, Row>) -> String {
    let mut text = String::new();
    for (title, is_in, figures) in SECTIONS {
        let _ = write!(text, "### {title}\n\n| case |");
        for figure in figures {
            let _ = write!(text, " {} |", heading(figure).0);
        }
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(figures.len()));
        for case in cases.iter().filter(|case| is_in(case)) {
            let scheme = if is_one(case) { String::new() } else { format!(" `{}`", case.scheme) };
            let workload =
                if is_bulk(case) { String::new() } else { format!(" {}", case.workload) };
            let _ = write!(text, "| `{}`{scheme} {}{workload} |", case.scenario, case.congestion);
            for figure in figures {
                let cell = rows.get(&case.name()).and_then(|row| row.get(figure));
                let _ = write!(text, " {} |", cell.map_or("–", String::as_str));
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

/// Holds the page against what both worlds have.
pub(super) fn check(cases: &[Case], rows: &BTreeMap<String, Row>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/validation.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let begin = page.find(BEGIN).expect("the first table has its heading");
    let end = page.find(END).expect("what follows the tables has its heading");
    let whole = format!("{}{}{}", &page[..begin], tables(cases, rows), &page[end..]);
    if std::env::var_os("WEFTLINE_BLESS").is_some() {
        return std::fs::write(&file, whole).unwrap();
    }
    let differ = page.lines().zip(whole.lines()).find(|(old, new)| old != new);
    assert!(
        page == whole,
        "docs/validation.md is out of date: WEFTLINE_BLESS=1 makes it anew; {differ:?}"
    );
}
