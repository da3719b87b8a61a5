//! Lines over one swept quantity, a line for each scheme, a panel for each congestion control.

use std::collections::{BTreeMap, BTreeSet};

use super::{Group, MAX_FIGURE, Measure, Place, Stat, Sweeps, TOO_LARGE, table};
use crate::figure::{figure, of_means};
use crate::format::{escape, put};
use crate::plot::{Band, Line, Plot, XAxis};
use crate::quantity::{Axis, plain, shorten};
use crate::scheme::{colour, is_single};

/// The most labels below an axis.
const MAX_TICKS: usize = 8;

/// Values that spread over more than this go on a logarithmic axis.
const LOG_FROM: f64 = 10.0;

/// Every figure of a group that varied one quantity, with its table.
pub(super) fn all(sweeps: &Sweeps<'_>, group: &Group<'_>) -> String {
    let (Some(axis), mut measures) = (group.axes.first(), sweeps.outcomes(group)) else {
        return String::new();
    };
    if sweeps.has(group, &Measure::Retransmitted(None)) {
        measures.push(Measure::Retransmitted(None));
    }
    let cells = group.cells(sweeps.records);
    let x = XScale::of(axis);
    let mut html = String::new();
    for measure in &measures {
        let stats = sweeps.stats(&cells, measure);
        html.push_str(&lines_of(group, measure, &stats, &x));
    }
    html.push_str("<details><summary>The same numbers as a table</summary>\n");
    html.push_str(&table::of(sweeps, group, &cells, &measures));
    html.push_str("</details>\n");
    html
}

/// Where the values of a key lie on the x axis.
struct XScale {
    /// By place in the key's values.
    at: Vec<f64>,
    ticks: Vec<(f64, String)>,
    label: String,
}

impl XScale {
    fn of(axis: &Axis) -> Self {
        let numbers = axis.numbers.clone().unwrap_or_default();
        let (first, last) = (numbers.first().copied(), numbers.last().copied());
        let (low, high) = (first.unwrap_or(0.0), last.unwrap_or(0.0));
        let positive = numbers.iter().copied().find(|&value| value > 0.0).unwrap_or(high);
        let wide = high > LOG_FROM * positive;
        let label = axis.label();
        if low > 0.0 && wide {
            let at: Vec<f64> = numbers.iter().map(|value| value.log10()).collect();
            return Self { ticks: own_ticks(axis, &at), at, label: format!("{label}, log scale") };
        }
        if wide {
            // Zero has no place on a logarithmic axis, and would crowd the rest on a linear one.
            let at: Vec<f64> = (0..numbers.len()).map(|place| place as f64).collect();
            return Self {
                ticks: own_ticks(axis, &at),
                at,
                label: format!("{label}, not to scale"),
            };
        }
        Self { ticks: own_ticks(axis, &numbers), at: numbers, label }
    }

    fn axis(&self) -> XAxis {
        let min = self.at.first().copied().unwrap_or(0.0);
        let max = self.at.last().copied().unwrap_or(0.0);
        // A single place is in the middle.
        let margin = if max > min { 0.0 } else { 0.5 };
        XAxis { min: min - margin, max: max + margin, ticks: self.ticks.clone() }
    }
}

/// The values themselves as ticks, as far as there is room.
fn own_ticks(axis: &Axis, at: &[f64]) -> Vec<(f64, String)> {
    let (Some(first), Some(last)) = (at.first(), at.last()) else { return Vec::new() };
    let apart = (last - first) / MAX_TICKS as f64;
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for (place, &x) in at.iter().enumerate() {
        if ticks.last().is_none_or(|(before, _)| x - before >= apart * 0.999) {
            let label =
                axis.numbers.as_ref().map_or(String::new(), |numbers| plain(numbers[place]));
            ticks.push((x, label));
        }
    }
    ticks
}

/// The names of a figure's lines and of its panels.
struct Layout<'g> {
    lines: &'g [&'g str],
    panels: &'g [&'g str],
    by_scheme: bool,
}

impl<'g> Layout<'g> {
    /// With one scheme the lines are the congestion controls.
    fn of(group: &'g Group<'_>) -> Self {
        let by_scheme = group.schemes.len() > 1 || group.congestions.len() == 1;
        let (schemes, congestions) = (&group.schemes[..], &group.congestions[..]);
        let (lines, panels) =
            if by_scheme { (schemes, congestions) } else { (congestions, schemes) };
        Self { lines, panels, by_scheme }
    }

    fn key(&self, line: usize, panel: usize, place: usize) -> Place {
        let (scheme, congestion) = if self.by_scheme { (line, panel) } else { (panel, line) };
        (scheme, congestion, [place, 0])
    }
}

/// A panel and its lines, and which they are.
struct Panel {
    title: String,
    used: Vec<usize>,
    bands: Vec<Band>,
    lines: Vec<Line>,
    y_max: f64,
}

impl Panel {
    fn new(
        index: usize,
        layout: &Layout<'_>,
        measure: &Measure,
        stats: &BTreeMap<Place, Stat>,
        x: &XScale,
    ) -> Self {
        let title = shorten(layout.panels[index], 60);
        let mut panel =
            Self { title, used: Vec::new(), bands: Vec::new(), lines: Vec::new(), y_max: 0.0 };
        for (number, name) in layout.lines.iter().enumerate() {
            // The ratio of a single path to the sum says nothing of a scheme.
            if *measure == Measure::ToSum && is_single(name) {
                continue;
            }
            let (mut points, mut band) = (Vec::new(), Vec::new());
            for (place, &at) in x.at.iter().enumerate() {
                let stat = stats.get(&layout.key(number, index, place));
                let Some((stat, value)) = stat.and_then(|stat| Some((stat, stat.value?))) else {
                    continue;
                };
                let half = stat.half_width().unwrap_or(0.0);
                points.push((at, value.mean));
                band.push((at, value.mean - half, value.mean + half));
                // An interval of few seeds can be far larger than what it is of.
                panel.y_max = panel.y_max.max((value.mean + half).min(1.5 * value.mean));
            }
            if !points.is_empty() {
                let class = colour(name);
                panel.used.push(number);
                panel.bands.push(Band { class: class.clone(), points: band });
                panel.lines.push(Line { class, points, filled: false });
            }
        }
        panel
    }
}

fn lines_of(
    group: &Group<'_>,
    measure: &Measure,
    stats: &BTreeMap<Place, Stat>,
    x: &XScale,
) -> String {
    let layout = Layout::of(group);
    let panels =
        (0..layout.panels.len()).map(|index| Panel::new(index, &layout, measure, stats, x));
    let panels: Vec<Panel> = panels.filter(|panel| !panel.lines.is_empty()).collect();
    let y_max = panels.iter().map(|panel| panel.y_max).fold(1e-3, f64::max);
    let used: BTreeSet<usize> = panels.iter().flat_map(|panel| &panel.used).copied().collect();
    let entry = |&line: &usize| (colour(layout.lines[line]), shorten(layout.lines[line], 60));
    let legend: Vec<_> = used.iter().map(entry).collect();
    if panels.is_empty() {
        return String::new();
    }
    let values = stats.values().filter_map(|stat| stat.value.as_ref());
    let caption = format!("{}, {}", measure.label(), of_means(values));
    let mut content = "<div class=\"panels\">\n".to_owned();
    for Panel { title, bands, lines, .. } in panels {
        if content.len() > MAX_FIGURE {
            content.push_str(TOO_LARGE);
            break;
        }
        let plot = Plot {
            description: &format!("{caption}, {title}"),
            width: 520.0,
            height: 290.0,
            x_label: &x.label,
            y_label: &measure.label(),
            x_axis: x.axis(),
            y_min: 0.0,
            y_max,
            percent: false,
            bands,
            lines,
        };
        put(
            &mut content,
            format_args!("<div><h4>{}</h4>\n{}</div>\n", escape(&title), plot.render()),
        );
    }
    content.push_str("</div>\n");
    figure(&caption, &legend, &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_follows_the_spread_of_the_values() {
        let of =
            |texts: &[&str]| XScale::of(&Axis::new("k", texts.iter().map(|t| (*t).to_owned())));
        let log = of(&["1Mbps", "10Mbps", "100Mbps"]);
        assert_eq!(log.at, [0.0, 1.0, 2.0]);
        assert_eq!(log.ticks[2].1, "100");
        assert_eq!(log.label, "k (Mb/s), log scale");
        let zero = of(&["0.0", "0.001", "0.05"]);
        assert_eq!((zero.at, zero.ticks[1].1.as_str()), (vec![0.0, 1.0, 2.0], "0.001"));
        assert_eq!(of(&["5ms", "10ms", "20ms"]).at, [5.0, 10.0, 20.0]);
    }
}
