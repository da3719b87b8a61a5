//! Sweeps: many runs of one kind, summed up. What is drawn depends on what the sweep varied:
//!
//! - nothing but schemes, congestion controls and seeds, or one key of few texts: heat maps;
//! - one quantity: lines over it;
//! - two keys: small heat maps, one per scheme;
//! - more, or random draws: distributions over the cases.

mod curves;
mod grid;
mod measure;
mod planes;
mod players;
mod spread;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use weftline_scenario::{Congestion, RunRecord, Scheme, ratios};

use crate::format::{escape, number, put};
use crate::quantity::{Axis, shorten};
use crate::scheme::is_single;
pub(crate) use measure::{Measure, Stat, exact};

/// Figures are left out, with a word on it, when the page has grown to this many bytes.
const MAX_PAGE: usize = 5_000_000;

/// No figure with its panels grows much beyond this.
const MAX_FIGURE: usize = 2_000_000;

/// The most values that a key may have to be the side of a heat map.
const MAX_SIDE: usize = 24;

/// The most failed runs that are listed.
const MAX_NOTES: usize = 20;

/// All sweeps of a directory.
pub(crate) struct Sweeps<'a> {
    pub(crate) records: &'a [RunRecord],
    /// Goodput ÷ sum and ÷ best single path, by run.
    ratios: BTreeMap<usize, (f64, f64)>,
    pub(crate) groups: Vec<Group<'a>>,
}

/// How a group is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Grid,
    Curves,
    Planes,
    Spread,
}

/// The runs of one scenario on one backend under one workload.
pub(crate) struct Group<'a> {
    /// Any of its runs.
    first: &'a RunRecord,
    runs: Vec<usize>,
    schemes: Vec<&'a str>,
    congestions: Vec<&'a str>,
    /// The keys that vary.
    axes: Vec<Axis>,
    shape: Shape,
}

/// What runs must have in common to be of one group.
fn family(record: &RunRecord) -> (&str, &str, &str, bool, bool, bool) {
    let RunRecord { scenario, backend, workload, tls, case, .. } = record;
    (scenario, backend, workload, *tls, case.is_empty(), case.contains_key("draw"))
}

impl<'a> Sweeps<'a> {
    /// The sweeps among `records`, and the runs that are to be compared as single experiments: those
    /// that no sweep's figures show, and those with time series.
    pub(crate) fn split(
        records: &'a [RunRecord],
        has_series: &dyn Fn(usize) -> bool,
    ) -> (Self, Vec<usize>) {
        let mut families: Vec<Vec<usize>> = Vec::new();
        let mut known = BTreeMap::new();
        for (run, record) in records.iter().enumerate() {
            let place = *known.entry(family(record)).or_insert(families.len());
            if place == families.len() {
                families.push(Vec::new());
            }
            families[place].push(run);
        }
        let (mut groups, mut single) = (Vec::new(), Vec::new());
        for runs in families {
            let group = Group::new(records, runs);
            let swept = !group.first.case.is_empty();
            let video = group.runs.iter().any(|&run| records[run].video.is_some());
            let (schemes, congestions) = (group.schemes.len(), group.congestions.len());
            let mapped = schemes > 1 && congestions > 1 || video && schemes * congestions > 1;
            let shown_whole = swept || (mapped && congestions > 1);
            if !shown_whole || (!swept && group.runs.iter().any(|&run| has_series(run))) {
                single.extend(&group.runs);
            }
            if swept || mapped {
                groups.push(group);
            }
        }
        single.sort_unstable();
        let ratios = ratios(records).into_iter();
        // A single path's is its share, which says nothing of a scheme.
        let ratios = ratios.filter(|ratio| !is_single(&ratio.record.scheme));
        let ratios = ratios.map(|ratio| (ratio.run, (ratio.to_sum, ratio.to_best))).collect();
        (Self { records, ratios, groups }, single)
    }

    /// Every section of the sweeps, for a page that has `before` bytes already.
    pub(crate) fn render(&self, before: usize) -> String {
        let mut html = players::section(self.records);
        let of = |shape: Shape| -> Vec<&Group<'a>> {
            self.groups.iter().filter(|group| group.shape == shape).collect()
        };
        let grids = of(Shape::Grid);
        if !grids.is_empty() {
            html.push_str(&grid::section(self, &grids));
        }
        let others = self.groups.iter().enumerate().filter(|(_, group)| group.shape != Shape::Grid);
        for (index, group) in others {
            if before + html.len() > MAX_PAGE {
                html.push_str(TOO_LARGE);
                break;
            }
            put(
                &mut html,
                format_args!("<section id=\"g{index}\">\n<h2>{}</h2>\n", group.heading()),
            );
            put(&mut html, format_args!("<p class=\"facts\">{}</p>\n", escape(&self.facts(group))));
            html.push_str(&match group.shape {
                Shape::Curves => curves::all(self, group),
                Shape::Planes => {
                    planes::all(self, group, MAX_PAGE.saturating_sub(before + html.len()))
                }
                Shape::Grid | Shape::Spread => spread::all(self, group),
            });
            html.push_str(&self.failures(&[group]));
            html.push_str("</section>\n");
        }
        html
    }

    /// One line on what a group ran.
    fn facts(&self, group: &Group<'_>) -> String {
        let seeds: BTreeSet<u64> = group.runs.iter().map(|&run| self.records[run].seed).collect();
        let mut text = format!(
            "{}; {}, {}, {}",
            count(group.runs.len(), "run"),
            count(group.schemes.len(), "scheme"),
            count(group.congestions.len(), "congestion control"),
            count(seeds.len(), "seed"),
        );
        for axis in &group.axes {
            text.push_str(&format!("; {}: {}", axis.key, count(axis.texts.len(), "value")));
        }
        text
    }

    /// The runs that failed, the first of them with their reasons.
    fn failures(&self, groups: &[&Group<'_>]) -> String {
        let runs = || groups.iter().flat_map(|group| &group.runs).copied();
        let failed: Vec<usize> = runs().filter(|&run| self.records[run].has_failed()).collect();
        if failed.is_empty() {
            return String::new();
        }
        let total = runs().count();
        let mut html =
            format!("<aside><h3>{} of {} failed</h3>\n<ul>\n", failed.len(), count(total, "run"));
        for &run in failed.iter().take(MAX_NOTES) {
            let record = &self.records[run];
            let reason = shorten(record.error.as_deref().unwrap_or("it did not complete"), 300);
            let text = format!("{} (run {run}): {reason}", shorten(&record.case_id(), 300));
            put(&mut html, format_args!("<li>{}</li>\n", escape(&text)));
        }
        if failed.len() > MAX_NOTES {
            put(&mut html, format_args!("<li>and {} more</li>\n", failed.len() - MAX_NOTES));
        }
        html.push_str("</ul></aside>\n");
        html
    }

    /// The values of a measure in each cell of runs.
    fn stats(&self, cells: &Cells, measure: &Measure) -> BTreeMap<Place, Stat> {
        let stat = |(place, runs): (&Place, &Vec<usize>)| (*place, Stat::new(self, runs, measure));
        cells.iter().map(stat).collect()
    }

    /// Whether any run of the group has the measure.
    fn has(&self, group: &Group<'_>, measure: &Measure) -> bool {
        group.runs.iter().any(|&run| measure.of(self, run).is_some())
    }

    /// What matters of a group, without the paths' counters.
    fn outcomes(&self, group: &Group<'_>) -> Vec<Measure> {
        let video = [Measure::Discards, Measure::Underflows, Measure::Standstill];
        let timed = [Measure::Completion];
        let bulk = [Measure::Goodput, Measure::ToSum, Measure::DelayP99, Measure::Gap];
        for measures in [&video[..], &timed, &bulk] {
            if measures.iter().any(|measure| self.has(group, measure)) {
                let kept = measures.iter().filter(|measure| self.has(group, measure));
                return kept.cloned().collect();
            }
        }
        Vec::new()
    }
}

/// In place of what a page of a few megabytes cannot hold.
const TOO_LARGE: &str = "<p class=\"facts\">Not drawn: the page is large enough. Report fewer \
    scenarios at a time; every run is in <code>runs.jsonl</code>.</p>\n";

/// Scheme, congestion control and the places on the first two axes.
type Place = (usize, usize, [usize; 2]);

/// The runs of each place.
type Cells = BTreeMap<Place, Vec<usize>>;

impl<'a> Group<'a> {
    /// A group of runs, of which there is at least one.
    fn new(records: &'a [RunRecord], runs: Vec<usize>) -> Self {
        let of = || runs.iter().map(|&run| &records[run]);
        let first = &records[runs[0]];
        let schemes = ordered(of().map(|record| record.scheme.as_str()), scheme_rank);
        let congestions = ordered(of().map(|record| record.congestion.as_str()), congestion_rank);
        let keys: BTreeSet<&str> =
            of().flat_map(|record| record.case.keys()).map(|k| &**k).collect();
        let axis = |key: &str| {
            let text = |record: &RunRecord| record.case.get(key).cloned().unwrap_or_default();
            Axis::new(key, of().map(text))
        };
        let axes = keys.into_iter().filter(|key| *key != "draw").map(axis);
        let axes: Vec<Axis> = axes.filter(|axis| axis.texts.len() > 1).collect();
        let small = axes.iter().all(|axis| axis.texts.len() <= MAX_SIDE);
        let shape = match &axes[..] {
            _ if first.case.contains_key("draw") => Shape::Spread,
            [] => Shape::Grid,
            [axis] if axis.numbers.is_some() => Shape::Curves,
            [_] if small => Shape::Grid,
            [_, _] if small => Shape::Planes,
            _ => Shape::Spread,
        };
        Self { first, runs, schemes, congestions, axes, shape }
    }

    fn cells(&self, records: &[RunRecord]) -> Cells {
        let index = |names: &[&str], name: &str| names.iter().position(|other| *other == name);
        let mut cells = Cells::new();
        for &run in &self.runs {
            let record = &records[run];
            let mut places = [0; 2];
            for (place, axis) in places.iter_mut().zip(&self.axes) {
                let text = record.case.get(&axis.key).map_or("", String::as_str);
                *place = axis.place(text).unwrap_or(0);
            }
            let scheme = index(&self.schemes, &record.scheme).unwrap_or(0);
            let congestion = index(&self.congestions, &record.congestion).unwrap_or(0);
            cells.entry((scheme, congestion, places)).or_default().push(run);
        }
        cells
    }

    /// The scenario, with what else tells the group from others.
    fn heading(&self) -> String {
        let tls = if self.first.tls { ", TLS" } else { "" };
        format!(
            "{} <span class=\"unit\">{}, {}{tls}</span>",
            escape(&shorten(&self.first.scenario, 80)),
            escape(&self.first.backend),
            escape(&shorten(&self.first.workload, 40)),
        )
    }

    /// The paths of its runs, in the order in which they appear.
    fn paths(&self, records: &[RunRecord]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for path in self.runs.iter().flat_map(|&run| &records[run].paths) {
            if !names.contains(&path.name) && names.len() < 8 {
                names.push(path.name.clone());
            }
        }
        names
    }
}

/// Each name once, by rank, and by name where the rank is the same.
fn ordered<'a>(names: impl Iterator<Item = &'a str>, rank: fn(&str) -> usize) -> Vec<&'a str> {
    let distinct: BTreeSet<&str> = names.collect();
    let mut names: Vec<&str> = distinct.into_iter().collect();
    names.sort_by_key(|name| rank(name));
    names
}

/// The place in the registry; what is not in it comes after.
fn scheme_rank(name: &str) -> usize {
    Scheme::all().position(|info| info.name == name).unwrap_or(usize::MAX)
}

fn congestion_rank(name: &str) -> usize {
    Congestion::all().position(|congestion| congestion.name() == name).unwrap_or(usize::MAX)
}

pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{} {what}{}", number(n as f64, 0), if n == 1 { "" } else { "s" })
}
