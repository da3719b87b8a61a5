//! The figures of a comparison over time: goodput, and what each path delivered.

use weftline_scenario::{Comparison, ComparisonRow};

use crate::data::{Data, Points, thin};
use crate::figure::{MAX_POINTS, figure};
use crate::format::{escape, put};
use crate::plot::{Band, Line, Plot, XAxis};

/// The number of path colours in the page's style.
const PATHS: usize = 8;

/// Series from this length on are drawn a strip for each scheme, in means of some samples.
const LONG_S: f64 = 20.0;

/// The points of such a strip, and of a panel as wide as half of it.
const STRIP_POINTS: usize = 150;

/// All of them, for one seed; empty without series.
pub(crate) fn all(data: &Data, comparison: &Comparison, colours: &[String]) -> String {
    let Some(seed) = shown_seed(data, comparison) else { return String::new() };
    over_time(data, comparison, colours, seed) + &by_path(data, comparison, seed)
}

/// The valid run of a row with that seed and a goodput series.
fn run_with_seed(data: &Data, row: &ComparisonRow, seed: u64) -> Option<usize> {
    row.runs.iter().copied().find(|&run| {
        let record = &data.records[run];
        let drawn = !data.series(run, "goodput_mbps", "").is_empty();
        record.seed == seed && record.is_valid() && drawn
    })
}

/// The seed that most schemes have a run to draw of; the lowest of equals.
fn shown_seed(data: &Data, comparison: &Comparison) -> Option<u64> {
    let runs = comparison.rows.iter().flat_map(|row| &row.runs);
    let mut seeds: Vec<u64> = runs.map(|&run| data.records[run].seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let drawn = |seed: u64| {
        comparison.rows.iter().filter(|row| run_with_seed(data, row, seed).is_some()).count()
    };
    // The last of equal maxima is the lowest seed.
    seeds.into_iter().rev().filter(|&seed| drawn(seed) > 0).max_by_key(|&seed| drawn(seed))
}

/// The capacity of all paths together over time, as far as a run tells.
fn capacity(data: &Data, run: usize) -> Points {
    let paths = data.paths(run, "capacity_mbps");
    let all: Vec<&[(f64, f64)]> =
        paths.iter().map(|path| data.series(run, "capacity_mbps", path)).collect();
    let length = all.iter().map(|points| points.len()).min().unwrap_or(0);
    (0..length)
        .map(|index| (all[0][index].0, all.iter().map(|points| points[index].1).sum()))
        .collect()
}

/// The goodput of every scheme over time, for one seed.
fn over_time(data: &Data, comparison: &Comparison, colours: &[String], seed: u64) -> String {
    let runs = comparison.rows.iter().zip(colours);
    let runs: Vec<_> = runs
        .filter_map(|(row, class)| Some((row, class, run_with_seed(data, row, seed)?)))
        .collect();
    // Each run draws the same links, so that any run tells the capacity.
    let widest = runs.iter().map(|(_, _, run)| capacity(data, *run)).max_by_key(Vec::len);
    let goodput = |run: usize| data.series(run, "goodput_mbps", "");
    let last = runs.iter().filter_map(|(_, _, run)| goodput(*run).last());
    let is_long = last.map(|(time, _)| *time).fold(0.0, f64::max) >= LONG_S;
    let points = if is_long { STRIP_POINTS } else { MAX_POINTS };
    let capacity = widest.filter(|points| !points.is_empty()).map(|all| Line {
        class: "capacity fill".to_owned(),
        points: thin(&all, points),
        filled: true,
    });
    let lines: Vec<(&str, Line, Band)> = runs
        .iter()
        .map(|(row, class, run)| {
            let (class, all) = ((*class).clone(), goodput(*run));
            let band = Band { class: class.clone(), points: envelope(all, points) };
            (&*row.scheme, Line { class, points: thin(all, points), filled: false }, band)
        })
        .collect();
    match is_long {
        true => strips(capacity, lines, seed),
        false => overlaid(capacity, lines, seed),
    }
}

/// All schemes in one plot.
fn overlaid(capacity: Option<Line>, schemes: Vec<(&str, Line, Band)>, seed: u64) -> String {
    let named = schemes.iter().map(|(name, line, _)| (line.class.clone(), (*name).to_owned()));
    let legend: Vec<_> = capacity.iter().map(legend_of_capacity).chain(named).collect();
    let lines: Vec<Line> =
        capacity.into_iter().chain(schemes.into_iter().map(|(_, line, _)| line)).collect();
    let caption = format!("In-order goodput over time (seed {seed})");
    let plot = Plot {
        description: &caption,
        width: 1060.0,
        height: 340.0,
        x_label: "time (s)",
        y_label: "goodput (Mb/s)",
        x_axis: XAxis::to(x_max(&lines)),
        y_min: 0.0,
        y_max: y_max(&lines),
        percent: false,
        bands: Vec::new(),
        lines,
    };
    figure(&caption, &legend, &format!("<div class=\"wide\">{}</div>\n", plot.render()))
}

fn legend_of_capacity(line: &Line) -> (String, String) {
    (line.class.clone(), "capacity of all paths".to_owned())
}

/// A strip for each scheme, one below the other on the same axes: lines of many seconds would hide
/// each other. The band is what the samples of a mean lie between.
fn strips(capacity: Option<Line>, schemes: Vec<(&str, Line, Band)>, seed: u64) -> String {
    let legend: Vec<_> = capacity.iter().map(legend_of_capacity).collect();
    let all = || capacity.iter().chain(schemes.iter().map(|(_, line, _)| line));
    let (x_max, y_max) = (x_max(all()), y_max(all()));
    let count = schemes.len();
    let mut content = "<div class=\"wide strips\">\n".to_owned();
    for (index, (name, line, band)) in schemes.into_iter().enumerate() {
        let behind = capacity.as_ref().map(|line| Line {
            class: line.class.clone(),
            points: line.points.clone(),
            filled: true,
        });
        let is_last = index + 1 == count;
        let plot = Plot {
            description: &format!("{name}: in-order goodput over time (seed {seed})"),
            width: 1060.0,
            height: if is_last { 152.0 } else { 130.0 },
            x_label: if is_last { "time (s)" } else { "" },
            y_label: "Mb/s",
            x_axis: XAxis::to(x_max),
            y_min: 0.0,
            y_max,
            percent: false,
            bands: vec![band],
            lines: behind.into_iter().chain([line]).collect(),
        };
        put(&mut content, format_args!("<h4>{}</h4>\n{}", escape(name), plot.render()));
    }
    content.push_str("</div>\n");
    let caption = format!("In-order goodput over time, means and range (seed {seed})");
    figure(&caption, &legend, &content)
}

/// The least and greatest of the samples that [`thin`] makes one point of.
fn envelope(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64, f64)> {
    let group = points.len().div_ceil(most).max(1);
    let ends = |chunk: &[(f64, f64)]| {
        let low = chunk.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let high = chunk.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
        let middle = chunk.iter().map(|point| point.0).sum::<f64>() / chunk.len() as f64;
        (middle, low, high)
    };
    points.chunks(group).map(ends).collect()
}

/// What each path delivered over time, a panel for each scheme that used more than one.
fn by_path(data: &Data, comparison: &Comparison, seed: u64) -> String {
    let mut panels: Vec<(&str, Vec<Line>)> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for row in &comparison.rows {
        let Some(run) = run_with_seed(data, row, seed) else { continue };
        let paths = data.paths(run, "goodput_mbps");
        if paths.len() < 2 {
            continue;
        }
        for path in &paths {
            if !names.contains(path) {
                names.push(path);
            }
        }
        panels.push((&row.scheme, path_lines(data, run, &paths, &names)));
    }
    if panels.is_empty() {
        return String::new();
    }
    let legend: Vec<(String, String)> = names
        .iter()
        .enumerate()
        .flat_map(|(index, path)| {
            let class = format!("p{}", index % PATHS);
            let delivered = (class.clone(), format!("{path}: delivered"));
            [delivered, (format!("{class} fill"), format!("{path}: capacity"))]
        })
        .collect();
    let all = || panels.iter().flat_map(|(_, lines)| lines);
    let (x_max, y_max) = (x_max(all()), y_max(all()));
    let mut content = "<div class=\"panels\">\n".to_owned();
    for (scheme, lines) in panels {
        let description = format!("{scheme}: what each path delivered over time (seed {seed})");
        let plot = Plot {
            description: &description,
            width: 520.0,
            height: 240.0,
            x_label: "time (s)",
            y_label: "delivered (Mb/s)",
            x_axis: XAxis::to(x_max),
            y_min: 0.0,
            y_max,
            percent: false,
            bands: Vec::new(),
            lines,
        };
        put(
            &mut content,
            format_args!("<div><h4>{}</h4>\n{}</div>\n", escape(scheme), plot.render()),
        );
    }
    content.push_str("</div>\n");
    figure(&format!("What each path delivered over time (seed {seed})"), &legend, &content)
}

/// For each path the capacity as an area and what was delivered as a line, in the colour of the
/// path's place in `names`.
fn path_lines(data: &Data, run: usize, paths: &[&str], names: &[&str]) -> Vec<Line> {
    let class = |path: &str| {
        let index = names.iter().position(|name| *name == path).unwrap_or(0);
        format!("p{}", index % PATHS)
    };
    let line = |metric: &str, path: &str, filled: bool| Line {
        class: if filled { format!("{} fill", class(path)) } else { class(path) },
        points: thin(data.series(run, metric, path), STRIP_POINTS),
        filled,
    };
    let capacities = paths.iter().map(|path| line("capacity_mbps", path, true));
    capacities.chain(paths.iter().map(|path| line("goodput_mbps", path, false))).collect()
}

fn x_max<'a>(lines: impl IntoIterator<Item = &'a Line>) -> f64 {
    let points = lines.into_iter().flat_map(|line| &line.points);
    points.map(|point| point.0).fold(1e-3, f64::max)
}

fn y_max<'a>(lines: impl IntoIterator<Item = &'a Line>) -> f64 {
    let points = lines.into_iter().flat_map(|line| &line.points);
    points.map(|point| point.1).fold(1e-3, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_holds_what_a_mean_hides() {
        let points: Vec<(f64, f64)> = (0..300).map(|k| (f64::from(k), f64::from(k % 2))).collect();
        let (mean, range) = (thin(&points, 150), envelope(&points, 150));
        assert_eq!((mean.len(), range.len()), (150, 150));
        assert_eq!((mean[7], range[7]), ((14.5, 0.5), (14.5, 0.0, 1.0)));
        assert_eq!(envelope(&[], 150), []);
    }
}
