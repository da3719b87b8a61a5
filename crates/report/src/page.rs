//! The page: head, overview, and a section for each comparison.

use std::collections::BTreeSet;

use weftline_scenario::{Comparison, RunRecord, Scenario};

use crate::beside;
use crate::data::Data;
use crate::figures;
use crate::format::{escape, number, put};
use crate::sweep::count;
use crate::tables::{self, variant};
use crate::{provenance, verdict};

/// The page's style: colours for light and dark, tables, figures.
const STYLE: &str = include_str!("style.css");

pub(crate) fn render(data: &Data) -> String {
    let title = format!("Weftline report: {}", data.name);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(&title)
    );
    put(&mut html, format_args!("<header>\n<h1>{}</h1>\n", escape(&title)));
    if let Some(sentence) = verdict::sentence(&data.records) {
        put(&mut html, format_args!("<p class=\"verdict\">{}</p>\n", escape(&sentence)));
    }
    put(&mut html, format_args!("<p class=\"lead\">{}</p>\n</header>\n", escape(&lead(data))));
    if data.comparisons.len() > 1 {
        html.push_str("<section>\n<h2>Overview</h2>\n");
        html.push_str(
            "<p>Goodput over the sum of the paths' own TCP goodput (1 = all there is to have), and \
             the goodput; the goodput alone where less was offered than goes, a time where the \
             workload is a transfer.</p>\n",
        );
        html.push_str(&tables::overview(data));
        html.push_str("</section>\n");
    }
    if let Some(vr) = &data.vr {
        html.push_str(&vr.render());
    }
    let sweeps = data.sweeps();
    html.push_str(&beside::section(&data.records));
    html.push_str(&sweeps.render(html.len()));
    for (index, comparison) in data.comparisons.iter().enumerate() {
        html.push_str(&section(data, index, comparison));
    }
    if !data.records.is_empty() {
        put(&mut html, format_args!("<footer>\n{METHOD}{}</footer>\n", provenance::section(data)));
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

/// How the figures were got, for whoever did not run them.
const METHOD: &str = "<h2>How to read this</h2>\n<p>Goodput is what the receiving \
    application got in order, from the end of the warm-up to the end of the run. An interval (±, a \
    whisker, a band) is the 95 % confidence interval of a mean by Student's t over the runs; a single \
    run has none. Ratios compare runs of the same seed, which meet the same links, and their interval \
    is that of the ratios. A run whose link emulator delivered more than 1 % of the packets over 1 ms \
    late counts for nothing; one that failed counts with what it measured, and is marked. A scheme \
    has the same colour in every report; what runs over one path is dashed. The numbers behind every \
    table and figure are in <code>runs.jsonl</code> and <code>series.csv</code> of the results.</p>\n";

/// One line on what the directory holds.
fn lead(data: &Data) -> String {
    if let (Some(vr), true) = (&data.vr, data.records.is_empty()) {
        return vr.lead();
    }
    let runs = count(data.records.len(), "run");
    let distinct = |value: fn(&RunRecord) -> &str| {
        data.records.iter().map(value).collect::<BTreeSet<_>>().len()
    };
    let seeds: BTreeSet<u64> = data.records.iter().map(|run| run.seed).collect();
    let what = match data.comparisons.len() {
        // Only sweeps.
        0 => format!(
            "{}, {}, {}, {}",
            count(distinct(|run| &run.scenario), "scenario"),
            count(distinct(|run| &run.scheme), "scheme"),
            count(distinct(|run| &run.congestion), "congestion control"),
            count(seeds.len(), "seed")
        ),
        n => count(n, "experiment"),
    };
    format!("{runs} in {what}; {}", provenance::line(data))
}

fn section(data: &Data, index: usize, comparison: &Comparison) -> String {
    let colours = figures::colours(comparison);
    let mut html = format!(
        "<section id=\"c{index}\">\n<h2>{} <span class=\"unit\">{}, {}</span></h2>\n",
        escape(&comparison.scenario),
        escape(&variant(comparison)),
        escape(&comparison.congestion)
    );
    if let Some(scenario) = data.scenarios.get(&comparison.scenario) {
        put(&mut html, format_args!("<p>{}</p>\n", escape(&about(scenario))));
    }
    put(&mut html, format_args!("<p class=\"facts\">{}</p>\n", escape(&facts(data, comparison))));
    html.push_str(&tables::comparison(comparison, &colours));
    html.push_str(&notes(data, comparison));
    html.push_str(&figures::all(data, comparison, &colours));
    html.push_str("</section>\n");
    html
}

fn about(scenario: &Scenario) -> String {
    if scenario.source.is_empty() {
        return scenario.about.clone();
    }
    format!("{} ({})", scenario.about, scenario.source)
}

/// Duration, warm-up and seeds of the runs.
fn facts(data: &Data, comparison: &Comparison) -> String {
    let runs = || comparison.rows.iter().flat_map(|row| &row.runs).map(|&run| &data.records[run]);
    let range = |value: fn(&RunRecord) -> f64| {
        let (low, high) = runs()
            .map(value)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let text = |value: f64| number(value, usize::from(value.fract() != 0.0));
        if low == high { text(low) } else { format!("{} to {}", text(low), text(high)) }
    };
    let mut seeds: Vec<u64> = runs().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let seeds = match seeds[..] {
        [seed] => format!("seed {seed}"),
        [first, .., last] if last - first + 1 == seeds.len() as u64 => {
            format!("seeds {first} to {last}")
        }
        _ => format!("{} seeds", seeds.len()),
    };
    let [duration, warmup] = [range(|run| run.duration_s), range(|run| run.warmup_s)];
    format!("{duration} s a run, the first {warmup} s not counted; {seeds}")
}

/// The runs that failed or do not count, each with its reason.
fn notes(data: &Data, comparison: &Comparison) -> String {
    let mut items = String::new();
    for row in &comparison.rows {
        for &run in &row.runs {
            let record = &data.records[run];
            let who = format!("{}, seed {} (run {run})", row.scheme, record.seed);
            if let Some(emulator) = record.emulator.filter(|emulator| !emulator.valid) {
                let share = number(emulator.late_over_1ms_share * 100.0, 2);
                let text = format!(
                    "{who} does not count: the emulator was over 1 ms late for {share} % of the packets"
                );
                put(&mut items, format_args!("<li>{}</li>\n", escape(&text)));
            }
            if record.has_failed() {
                let reason = record.error.as_deref().unwrap_or("it did not complete");
                let text = format!("{who} failed: {reason}");
                put(&mut items, format_args!("<li>{}</li>\n", escape(&text)));
            }
        }
    }
    if items.is_empty() {
        return items;
    }
    format!("<aside><h3>Notes</h3>\n<ul>\n{items}</ul></aside>\n")
}
