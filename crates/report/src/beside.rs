//! The lab beside the simulator: experiments that ran in both backends.

use std::collections::BTreeMap;

use weftline_scenario::{MeanCi, RunRecord, discards_say, mean_ci95, paired_ratio};

use crate::format::{escape, number, put};
use crate::quantity::shorten;
use crate::sweep::exact;

/// The most rows.
const MAX_ROWS: usize = 500;

/// What is compared: its name, its unit and its value.
type Column = (&'static str, &'static str, fn(&RunRecord) -> Option<f64>);

/// The column that says nothing of few runs of a real player.
const DISCARDS: &str = "Picture discards";

const COLUMNS: [Column; 6] = [
    ("Goodput", "Mb/s", |run| run.goodput_mbps),
    ("Completion", "s", |run| run.completion_s),
    ("Delay p50", "ms", |run| Some(run.in_order_delay_ms?.p50)),
    (DISCARDS, "", RunRecord::link_discards),
    ("Buffer underflows", "", |run| Some(run.video?.buffer_underflows as f64)),
    ("Retransmitted", "packets", |run| Some(run.retransmitted_packets()? as f64)),
];

/// What both backends must have in common.
type Experiment<'a> = ([&'a str; 4], bool, &'a BTreeMap<String, String>);

/// Runs in the lab and in the simulator.
type Backends<'a> = [Vec<&'a RunRecord>; 2];

/// A section with a table; empty if no experiment ran in both backends.
pub(crate) fn section(records: &[RunRecord]) -> String {
    let both = both(records);
    if both.is_empty() {
        return String::new();
    }
    let shown: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| {
            both.iter().any(|(_, backends)| {
                backends.iter().all(|runs| mean(said(runs, column), column.2).is_some())
            })
        })
        .collect();
    let mut html = "<section id=\"beside\">\n<h2>The lab beside the simulator</h2>\n\
                    <p>The same scenario, scheme and congestion control in both worlds: the mean in \
                    each, and the simulator's ÷ the lab's, seed by seed where both have the same; with \
                    95 % confidence intervals where there are several runs. An asterisk marks a ratio \
                    outside 0.9 to 1.1.</p>\n\
                    <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Scenario</th>\
                    <th scope=\"col\">Scheme</th><th scope=\"col\">Congestion</th>\
                    <th scope=\"col\">Runs <span class=\"unit\">lab, sim</span></th>"
        .to_owned();
    for (name, unit, _) in &shown {
        let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
        put(
            &mut html,
            format_args!(
                "<th scope=\"col\">{name} <span class=\"unit\">lab{unit}</span></th>\
                 <th scope=\"col\">{name} <span class=\"unit\">sim{unit}</span></th>\
                 <th scope=\"col\">ratio <span class=\"unit\">sim ÷ lab</span></th>"
            ),
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (experiment, backends) in both.iter().take(MAX_ROWS) {
        html.push_str(&row(experiment, backends, &shown));
    }
    html.push_str("</tbody></table></div>\n");
    if both.len() > MAX_ROWS {
        let more = both.len() - MAX_ROWS;
        put(&mut html, format_args!("<p class=\"facts\">{more} more rows are left out.</p>\n"));
    }
    html.push_str("</section>\n");
    html
}

fn row(experiment: &Experiment<'_>, [lab, sim]: &Backends<'_>, columns: &[&Column]) -> String {
    let ([scenario, workload, scheme, congestion], tls, case) = experiment;
    let tls = if *tls { ", TLS" } else { "" };
    let set: String = case.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
    let mut html = format!(
        "<tr><th scope=\"row\">{} <span class=\"unit\">{}{tls}{}</span></th><td>{}</td>\
         <td>{}</td><td>{}, {}</td>",
        escape(&shorten(scenario, 60)),
        escape(&shorten(workload, 40)),
        escape(&shorten(&set, 200)),
        escape(&shorten(scheme, 60)),
        escape(&shorten(congestion, 60)),
        lab.len(),
        sim.len()
    );
    for column in columns {
        let ([lab, sim], value) = ([lab, sim].map(|runs| said(runs, column)), column.2);
        let pairs = paired_ratio(sim.iter().copied(), lab.iter().copied(), |run| run.seed, value);
        let (lab, sim) = (mean(lab, value), mean(sim, value));
        let text = |value: &Option<MeanCi>| value.as_ref().map_or("–".to_owned(), interval);
        put(
            &mut html,
            format_args!(
                "<td>{}</td><td>{}</td><td>{}</td>",
                text(&lab),
                text(&sim),
                ratio(pairs, lab, sim)
            ),
        );
    }
    html.push_str("</tr>\n");
    html
}

/// The runs, if they are enough to say anything in this column.
fn said<'r, 'a>(runs: &'r [&'a RunRecord], column: &Column) -> &'r [&'a RunRecord] {
    let is_enough = column.0 != DISCARDS || discards_say(runs.iter().copied());
    if is_enough { runs } else { &[] }
}

/// The mean over the runs that count.
fn mean(runs: &[&RunRecord], value: fn(&RunRecord) -> Option<f64>) -> Option<MeanCi> {
    let valid = runs.iter().filter(|run| run.is_valid()).filter_map(|run| value(run));
    mean_ci95(&valid.filter(|value| value.is_finite()).collect::<Vec<_>>())
}

/// The experiments that ran in both backends, in their order.
fn both(records: &[RunRecord]) -> Vec<(Experiment<'_>, Backends<'_>)> {
    let mut all: BTreeMap<Experiment<'_>, Backends<'_>> = BTreeMap::new();
    for record in records {
        let RunRecord { scenario, workload, scheme, congestion, tls, case, .. } = record;
        let backend = match record.backend.as_str() {
            "lab" => 0,
            "sim" => 1,
            _ => continue,
        };
        let experiment = ([scenario.as_str(), workload, scheme, congestion], *tls, case);
        all.entry(experiment).or_default()[backend].push(record);
    }
    all.into_iter().filter(|(_, backends)| backends.iter().all(|runs| !runs.is_empty())).collect()
}

fn interval(value: &MeanCi) -> String {
    let mean = exact(value.mean);
    match value.half_width.filter(|width| width.is_finite()) {
        Some(width) => format!("{mean}<span class=\"ci\"> ± {}</span>", exact(width)),
        None => mean,
    }
}

/// The mean ratio of the pairs; without a seed in common, that of the means.
fn ratio(pairs: Option<MeanCi>, lab: Option<MeanCi>, sim: Option<MeanCi>) -> String {
    let of_means = || Some(sim?.mean / lab?.mean);
    let Some(ratio) = pairs.map(|ratio| ratio.mean).or_else(of_means) else {
        return "–".to_owned();
    };
    if !ratio.is_finite() {
        return "–".to_owned();
    }
    let far = if (0.9..=1.1).contains(&ratio) { "" } else { "*" };
    let width = pairs.and_then(|ratio| ratio.half_width).filter(|width| width.is_finite());
    let width = width.map_or(String::new(), |width| {
        format!("<span class=\"ci\"> ± {}</span>", number(width, 3))
    });
    format!("<b>{}</b>{far}{width}", number(ratio, 3))
}
