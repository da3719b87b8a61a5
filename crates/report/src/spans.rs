//! Delays as inline SVG: for each scheme a line from the median to the 99th percentile.

use crate::format::put;
use crate::plot;

const WIDTH: f64 = 520.0;
const ROW: f64 = 30.0;
const BOTTOM: f64 = 44.0;

/// Beyond this ratio of the largest to the smallest value the axis is logarithmic.
const LOG_FROM: f64 = 30.0;

/// A scheme's quantiles, in rising order.
pub(crate) struct Span<'a> {
    pub(crate) label: &'a str,
    pub(crate) class: String,
    /// Median, 95th and 99th percentile.
    pub(crate) marks: [f64; 3],
}

/// The lines, with a filled circle at the median, a stroke at the 95th percentile, and a ring and
/// the value at the 99th.
pub(crate) fn spans(description: &str, spans: &[Span<'_>], unit: &str) -> String {
    let labels = spans.iter().map(|span| span.label.chars().count()).max().unwrap_or(0);
    let left = (labels as f64 * 7.4 + 14.0).min(240.0);
    let (top, right) = (8.0, WIDTH - 56.0);
    let bottom = top + ROW * spans.len() as f64;
    let values = || spans.iter().flat_map(|span| span.marks).filter(|value| *value > 0.0);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let axis = Axis::over(low, high);
    let x = |value: f64| left + (right - left) * axis.at(value);
    let mut svg = plot::open(WIDTH, bottom + BOTTOM, description);
    for tick in &axis.ticks {
        plot::line(&mut svg, "grid", (x(*tick), top), (x(*tick), bottom));
        plot::text(&mut svg, "tick", "middle", (x(*tick), bottom + 17.0), &tick.to_string());
    }
    for (index, span) in spans.iter().enumerate() {
        let y = top + ROW * (index as f64 + 0.5);
        let ([p50, p95, p99], class) = (span.marks.map(x), &span.class);
        plot::text(&mut svg, "name", "end", (left - 8.0, y + 4.0), span.label);
        put(
            &mut svg,
            format_args!(
                "<path class=\"line {class}\" d=\"M{p50:.1} {y:.1}H{p99:.1}\"/>\
                 <path class=\"line {class} solid\" d=\"M{p95:.1} {:.1}v10\"/>\
                 <circle class=\"mark {class}\" cx=\"{p50:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>\
                 <circle class=\"ring {class}\" cx=\"{p99:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>\n",
                y - 5.0
            ),
        );
        let value = crate::format::number(span.marks[2], crate::format::decimals(span.marks[2]));
        plot::text(&mut svg, "value", "start", (p99 + 9.0, y + 4.0), &value);
    }
    plot::line(&mut svg, "axis", (left, top), (left, bottom));
    let unit = if axis.is_log { format!("{unit}, log scale") } else { unit.to_owned() };
    let place = ((left + right) / 2.0, bottom + BOTTOM - 8.0);
    plot::text(&mut svg, "label", "middle", place, &unit);
    svg.push_str("</svg>\n");
    svg
}

/// Where values lie, from 0 to 1.
struct Axis {
    is_log: bool,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn over(low: f64, high: f64) -> Self {
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
        if high > LOG_FROM * low {
            let [from, to] = [low.log10().floor(), high.log10().ceil()];
            let ticks = (from as i32..=to as i32).map(|power| 10_f64.powi(power)).collect();
            return Self { is_log: true, low: from, high: to, ticks };
        }
        let step = plot::tick_step(high, 5);
        let high = (high / step - 1e-9).ceil().max(1.0) * step;
        let ticks = plot::ticks(high, step).map(|tick| (tick / step).round() * step).collect();
        Self { is_log: false, low: 0.0, high, ticks }
    }

    fn at(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(1e-9).log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_its_values() {
        let even = Axis::over(4.0, 18.0);
        assert_eq!((even.is_log, &even.ticks[..]), (false, &[0.0, 5.0, 10.0, 15.0, 20.0][..]));
        assert_eq!([even.at(0.0), even.at(10.0), even.at(99.0)], [0.0, 0.5, 1.0]);
        let log = Axis::over(2.0, 900.0);
        assert_eq!((log.is_log, &log.ticks[..]), (true, &[1.0, 10.0, 100.0, 1000.0][..]));
        assert!((log.at(10.0) - 1.0 / 3.0).abs() < 1e-12 && log.at(0.0) == 0.0);
        let none = Axis::over(f64::MAX, 0.0);
        assert!(none.at(1.0).is_finite());
    }
}
