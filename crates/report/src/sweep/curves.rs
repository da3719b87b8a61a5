//! Lines over one swept quantity, a line for each scheme, a panel for each congestion control.

use super::{Group, MAX_FIGURE, Measure, Place, Stat, Sweeps, TOO_LARGE, colour, table};
use std::collections::BTreeMap;

use crate::figures::figure;
use crate::format::escape;
use crate::plot::{Band, Line, Plot, XAxis};
use crate::quantity::{Axis, plain, shorten};
use crate::ratio::is_single;
use crate::tables::put;

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

/// A panel and its lines.
struct Panel {
    title: String,
    bands: Vec<Band>,
    lines: Vec<Line>,
}

fn lines_of(
    group: &Group<'_>,
    measure: &Measure,
    stats: &BTreeMap<Place, Stat>,
    x: &XScale,
) -> String {
    // With one scheme the lines are the congestion controls.
    let by_scheme = group.schemes.len() > 1 || group.congestions.len() == 1;
    let (names, titles) = if by_scheme {
        (&group.schemes, &group.congestions)
    } else {
        (&group.congestions, &group.schemes)
    };
    let of = |name: usize, title: usize, place: usize| {
        let key = if by_scheme { (name, title) } else { (title, name) };
        stats.get(&(key.0, key.1, [place, 0]))
    };
    let (mut panels, mut used, mut y_max) = (Vec::new(), vec![false; names.len()], 0.0_f64);
    for (title, text) in titles.iter().enumerate() {
        let mut panel = Panel { title: shorten(text, 60), bands: Vec::new(), lines: Vec::new() };
        for (name, text) in names.iter().enumerate() {
            // The ratio of a single path to the sum says nothing of a scheme.
            if *measure == Measure::ToSum && is_single(text) {
                continue;
            }
            let (mut points, mut band) = (Vec::new(), Vec::new());
            for (place, &at) in x.at.iter().enumerate() {
                let Some(stat) = of(name, title, place) else { continue };
                let Some(value) = stat.value else { continue };
                points.push((at, value.mean));
                let half = stat.half_width().unwrap_or(0.0);
                band.push((at, value.mean - half, value.mean + half));
                // An interval of few seeds can be far larger than what it is of.
                y_max = y_max.max((value.mean + half).min(1.5 * value.mean));
            }
            if points.is_empty() {
                continue;
            }
            used[name] = true;
            let class = colour(name, text);
            panel.bands.push(Band { class: class.clone(), points: band });
            panel.lines.push(Line { class, points, filled: false });
        }
        if !panel.lines.is_empty() {
            panels.push(panel);
        }
    }
    if panels.is_empty() {
        return String::new();
    }
    let legend = names.iter().enumerate().filter(|(index, _)| used[*index]);
    let legend: Vec<_> =
        legend.map(|(index, name)| (colour(index, name), shorten(name, 60))).collect();
    let caption = format!("{}, mean with 95 % confidence interval", measure.label());
    let mut content = "<div class=\"panels\">\n".to_owned();
    for Panel { title, bands, lines } in panels {
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
            y_max: y_max.max(1e-3),
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
