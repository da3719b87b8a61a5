//! Many cases: how a measure is distributed over them, scheme by scheme, and the worst of them.

use std::collections::BTreeMap;

use super::{Group, MAX_FIGURE, Measure, Sweeps, TOO_LARGE, count, exact};
use crate::figure::{figure, steps};
use crate::format::{escape, put};
use crate::plot::{Line, Plot, XAxis};
use crate::quantity::shorten;
use crate::scheme::{colour, is_single};

/// The quantiles of the tables.
const QUANTILES: [(f64, &str); 6] =
    [(0.01, "p1"), (0.05, "p5"), (0.25, "p25"), (0.5, "median"), (0.75, "p75"), (0.95, "p95")];

/// How many of the worst cases of a scheme are listed.
const WORST: usize = 10;

/// Values of one scheme, sorted, each with its run.
type Sorted = Vec<(f64, usize)>;

/// The distributions of a group, for each congestion control.
pub(super) fn all(sweeps: &Sweeps<'_>, group: &Group<'_>) -> String {
    let ratios = [Measure::ToSum, Measure::ToBest];
    let outcomes = sweeps.outcomes(group);
    let measures: Vec<Measure> = match sweeps.has(group, &Measure::ToSum) {
        // In place of the goodput, which is each case's own.
        true => {
            let others = outcomes.into_iter().filter(|measure| measure.is_bad());
            ratios.into_iter().chain(others).collect()
        }
        false => outcomes,
    };
    let Some(main) = measures.first() else { return String::new() };
    let mut html = String::new();
    if *main == Measure::ToSum {
        html.push_str(
            "<p>Each case is a run beside the runs of the single paths over the same links with the \
             same seed. A ratio of 1 to the sum is all there is to have; below 1 to the best path, \
             that path alone would have been better.</p>\n",
        );
    }
    for congestion in &group.congestions {
        if html.len() > MAX_FIGURE {
            html.push_str(TOO_LARGE);
            break;
        }
        if group.congestions.len() > 1 {
            put(&mut html, format_args!("<h3>{}</h3>\n", escape(&shorten(congestion, 60))));
        }
        let values: Vec<Vec<(usize, Sorted)>> =
            measures.iter().map(|measure| sorted(sweeps, group, congestion, measure)).collect();
        html.push_str("<div class=\"figures\">\n");
        for (measure, values) in measures.iter().zip(&values) {
            html.push_str(&distribution(group, measure, values));
        }
        html.push_str("</div>\n");
        for (measure, values) in measures.iter().zip(&values) {
            html.push_str(&quantiles(sweeps, group, congestion, measure, values));
        }
        html.push_str(&worst(sweeps, group, main, &values[0]));
    }
    html
}

/// The values of each scheme that has some, from low to high.
fn sorted(
    sweeps: &Sweeps<'_>,
    group: &Group<'_>,
    congestion: &str,
    measure: &Measure,
) -> Vec<(usize, Sorted)> {
    let place: BTreeMap<&str, usize> =
        group.schemes.iter().enumerate().map(|(place, scheme)| (*scheme, place)).collect();
    let mut values: BTreeMap<usize, Sorted> = BTreeMap::new();
    for &run in &group.runs {
        let record = &sweeps.records[run];
        if record.congestion != congestion {
            continue;
        }
        if let (Some(value), Some(place)) =
            (measure.of(sweeps, run), place.get(record.scheme.as_str()))
        {
            values.entry(*place).or_default().push((value, run));
        }
    }
    for values in values.values_mut() {
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    values.into_iter().collect()
}

fn distribution(group: &Group<'_>, measure: &Measure, values: &[(usize, Sorted)]) -> String {
    let (mut lines, mut legend, mut most) = (Vec::new(), Vec::new(), 0.0_f64);
    for (scheme, values) in values {
        let numbers: Vec<f64> = values.iter().map(|(value, _)| value.max(0.0)).collect();
        if numbers.len() < 2 {
            continue;
        }
        // A few cases far above the rest would leave no room for them.
        most = most.max(quantile(values, 0.99));
        let class = colour(group.schemes[*scheme]);
        legend.push((class.clone(), shorten(group.schemes[*scheme], 60)));
        lines.push(Line { class, points: steps(&numbers), filled: false });
    }
    if lines.is_empty() || most <= 0.0 {
        return String::new();
    }
    let x_max = most * 1.02;
    for line in &mut lines {
        for point in &mut line.points {
            point.0 = point.0.min(x_max);
        }
    }
    let plot = Plot {
        description: &format!("Distribution over cases: {}", measure.name()),
        width: 520.0,
        height: 300.0,
        x_label: &measure.label(),
        y_label: "share of cases (%)",
        x_axis: XAxis::to(x_max),
        y_min: 0.0,
        y_max: 1.0,
        percent: true,
        bands: Vec::new(),
        lines,
    };
    figure(&format!("{}, distribution over cases", measure.name()), &legend, &plot.render())
}

/// The smallest value that at least `share` of the values do not exceed.
fn quantile(sorted: &Sorted, share: f64) -> f64 {
    let rank = (share * sorted.len() as f64 - 1e-9).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).map_or(0.0, |(value, _)| *value)
}

fn quantiles(
    sweeps: &Sweeps<'_>,
    group: &Group<'_>,
    congestion: &str,
    measure: &Measure,
    values: &[(usize, Sorted)],
) -> String {
    if values.is_empty() {
        return String::new();
    }
    let mut html = format!(
        "<h4 class=\"table\">{}</h4>\n<div class=\"scroll\"><table>\n<thead><tr>\
         <th scope=\"col\">Scheme</th><th scope=\"col\">Cases</th>",
        measure.label()
    );
    for (_, name) in QUANTILES {
        put(&mut html, format_args!("<th scope=\"col\">{name}</th>"));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (scheme, sorted) in values {
        let name = group.schemes[*scheme];
        let failed = group.runs.iter().map(|&run| &sweeps.records[run]).filter(|record| {
            record.scheme == name && record.congestion == congestion && record.has_failed()
        });
        put(
            &mut html,
            format_args!(
                "<tr><th scope=\"row\"><span class=\"dot {}\"></span>{}</th><td>{}",
                colour(name),
                escape(&shorten(name, 60)),
                sorted.len()
            ),
        );
        let failed = failed.count();
        if failed > 0 {
            put(&mut html, format_args!(" <span class=\"bad\">({failed} failed)</span>"));
        }
        html.push_str("</td>");
        for (share, _) in QUANTILES {
            put(&mut html, format_args!("<td>{}</td>", exact(quantile(sorted, share))));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// The worst cases of each scheme, with what it takes to run them again.
fn worst(
    sweeps: &Sweeps<'_>,
    group: &Group<'_>,
    measure: &Measure,
    values: &[(usize, Sorted)],
) -> String {
    let mut html = format!(
        "<details><summary>The worst {} of each scheme by {}</summary>\n",
        count(WORST, "case"),
        measure.name()
    );
    for (scheme, sorted) in values.iter().filter(|(scheme, _)| !is_single(group.schemes[*scheme])) {
        let last = |sorted: &Sorted| -> Vec<(f64, usize)> {
            let mut worst: Vec<_> = sorted.iter().rev().take(WORST).copied().collect();
            worst.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            worst
        };
        let worst = if measure.is_bad() {
            last(sorted)
        } else {
            sorted.iter().take(WORST).copied().collect()
        };
        let name = escape(&shorten(group.schemes[*scheme], 60));
        put(
            &mut html,
            format_args!(
                "<h4 class=\"table\">{name}</h4>\n<div class=\"scroll\"><table class=\"texts\">\n\
                 <thead><tr><th scope=\"col\">{}</th><th scope=\"col\">Goodput \
                 <span class=\"unit\">Mb/s</span></th><th scope=\"col\">Seed</th>\
                 <th scope=\"col\">Run</th><th scope=\"col\">Case</th></tr></thead>\n<tbody>\n",
                measure.label()
            ),
        );
        for (value, run) in worst {
            let record = &sweeps.records[run];
            let goodput = record.goodput_mbps.filter(|goodput| goodput.is_finite());
            let case: Vec<String> =
                record.case.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            put(
                &mut html,
                format_args!(
                    "<tr><td>{}</td><td>{}</td><td>{}</td><td>{run}</td><td>{}</td></tr>\n",
                    exact(value),
                    goodput.map_or("–".to_owned(), exact),
                    record.seed,
                    escape(&shorten(&case.join("; "), 600)),
                ),
            );
        }
        html.push_str("</tbody></table></div>\n");
    }
    html.push_str("</details>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let sorted: Sorted = (1..=100).map(|k| (f64::from(k), k as usize)).collect();
        let got = QUANTILES.map(|(share, _)| quantile(&sorted, share));
        assert_eq!(got, [1.0, 5.0, 25.0, 50.0, 75.0, 95.0]);
        assert_eq!(quantile(&vec![(7.0, 0)], 0.95), 7.0);
        assert_eq!(quantile(&Vec::new(), 0.5), 0.0);
    }
}
