//! The figures of a comparison: goodput by scheme, over time, by path, and its distribution.

use weftline_scenario::{Comparison, ComparisonRow};

use crate::data::{Data, Points, per_second, thin};
use crate::format::escape;
use crate::plot::{Bar, Line, Plot, XAxis, bars};
use crate::tables::put;

/// The most points of a line: more than the page has dots across.
const MAX_POINTS: usize = 600;

/// The number of colours in the page's style.
const COLOURS: usize = 8;

/// The colour of each scheme of a comparison; what runs over one path is dashed.
pub(crate) fn colours(comparison: &Comparison) -> Vec<String> {
    let class = |(index, row): (usize, &ComparisonRow)| {
        let dash = if row.scheme.contains(':') { " dashed" } else { "" };
        format!("s{}{dash}", index % COLOURS)
    };
    comparison.rows.iter().enumerate().map(class).collect()
}

/// All figures of a comparison.
pub(crate) fn all(data: &Data, comparison: &Comparison, colours: &[String]) -> String {
    let mut html = "<div class=\"figures\">\n".to_owned();
    html.push_str(&goodput(comparison, colours));
    html.push_str(&distribution(data, comparison, colours));
    html.push_str("</div>\n");
    if let Some(seed) = shown_seed(data, comparison) {
        html.push_str(&over_time(data, comparison, colours, seed));
        html.push_str(&by_path(data, comparison, seed));
    }
    html
}

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
    let (caption, unit) = if timed {
        ("Completion time, mean with 95 % confidence interval", "s (less is better)")
    } else {
        ("In-order goodput, mean with 95 % confidence interval", "Mb/s")
    };
    let sum = if timed { None } else { sum_of_singles(comparison) };
    let reference = sum.map(|sum| (sum, "sum of single paths"));
    figure(caption, &[], &bars(caption, &list, unit, reference))
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

/// The empirical distribution function of sorted values, thinned where it has more steps than can
/// be seen.
pub(crate) fn steps(sorted: &[f64]) -> Points {
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
    let (mut lines, mut legend) = (Vec::new(), Vec::new());
    let runs = comparison.rows.iter().zip(colours);
    let runs: Vec<_> = runs
        .filter_map(|(row, class)| Some((row, class, run_with_seed(data, row, seed)?)))
        .collect();
    // Each run draws the same links, so that any run tells the capacity.
    let widest = runs.iter().map(|(_, _, run)| capacity(data, *run)).max_by_key(Vec::len);
    if let Some(points) = widest.filter(|points| !points.is_empty()) {
        let class = "capacity fill".to_owned();
        legend.push((class.clone(), "capacity of all paths".to_owned()));
        lines.push(Line { class, points: thin(&points, MAX_POINTS), filled: true });
    }
    for (row, class, run) in runs {
        let points = thin(data.series(run, "goodput_mbps", ""), MAX_POINTS);
        legend.push((class.clone(), row.scheme.clone()));
        lines.push(Line { class: class.clone(), points, filled: false });
    }
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
            let class = format!("p{}", index % COLOURS);
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
        format!("p{}", index % COLOURS)
    };
    let line = |metric: &str, path: &str, filled: bool| Line {
        class: if filled { format!("{} fill", class(path)) } else { class(path) },
        points: thin(data.series(run, metric, path), MAX_POINTS / 2),
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
