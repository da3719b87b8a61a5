//! Line plots and bar charts as inline SVG. Colours are classes that the page's style defines.

use crate::format::{decimals, escape, number, put};

/// Room around the plotting area, in the figure's units.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// The room below where the axis has no name.
const BOTTOM_UNLABELLED: f64 = 22.0;

/// A line of a plot.
pub(crate) struct Line {
    /// Classes of its colour and dash.
    pub(crate) class: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether the area below is filled too.
    pub(crate) filled: bool,
}

/// An area around a line, such as its confidence interval.
pub(crate) struct Band {
    /// Classes of its colour.
    pub(crate) class: String,
    /// x, low and high y.
    pub(crate) points: Vec<(f64, f64, f64)>,
}

/// Where x begins and ends, and where it has ticks.
pub(crate) struct XAxis {
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Places and labels; empty for round numbers.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl XAxis {
    /// From zero to `max`, with round numbers.
    pub(crate) const fn to(max: f64) -> Self {
        Self { min: 0.0, max, ticks: Vec::new() }
    }

    fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        if !self.ticks.is_empty() {
            return self.ticks.clone();
        }
        let step = tick_step(self.max, count);
        ticks(self.max, step).map(|tick| (tick, number(tick, step_decimals(step)))).collect()
    }
}

/// A line plot.
pub(crate) struct Plot<'a> {
    /// What it shows, for those who cannot see it.
    pub(crate) description: &'a str,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) x_axis: XAxis,
    /// Where y begins, about; a round number below it.
    pub(crate) y_min: f64,
    /// The largest y.
    pub(crate) y_max: f64,
    /// Whether y is a share from 0 to 1, shown in percent.
    pub(crate) percent: bool,
    pub(crate) bands: Vec<Band>,
    pub(crate) lines: Vec<Line>,
}

impl Plot<'_> {
    pub(crate) fn render(&self) -> String {
        let (width, height) = (self.width, self.height);
        let below = if self.x_label.is_empty() { BOTTOM_UNLABELLED } else { BOTTOM };
        let (bottom, right) = (height - below, width - RIGHT);
        // A low plot has room for few.
        let y_ticks = ((bottom - TOP) / 40.0).clamp(2.0, 5.0) as usize;
        let y_step = if self.percent { 0.25 } else { tick_step(self.y_max - self.y_min, y_ticks) };
        let y_low = (self.y_min / y_step).floor() * y_step;
        let y_top = y_low + ((self.y_max - y_low) / y_step - 1e-9).ceil().max(1.0) * y_step;
        let span = self.x_axis.max - self.x_axis.min;
        let x = |value: f64| LEFT + (right - LEFT) * (value - self.x_axis.min) / span;
        let y = |value: f64| bottom - (bottom - TOP) * (value.min(y_top) - y_low) / (y_top - y_low);
        let mut svg = open(width, height, self.description);
        let scale = if self.percent { 100.0 } else { 1.0 };
        for tick in ticks(y_top - y_low, y_step).map(|tick| y_low + tick) {
            let label = number(tick * scale, step_decimals(y_step * scale));
            line(&mut svg, "grid", (LEFT, y(tick)), (right, y(tick)));
            text(&mut svg, "tick", "end", (LEFT - 7.0, y(tick) + 4.0), &label);
        }
        for (tick, label) in self.x_axis.ticks((width / 110.0) as usize) {
            line(&mut svg, "axis", (x(tick), bottom), (x(tick), bottom + 5.0));
            text(&mut svg, "tick", "middle", (x(tick), bottom + 18.0), &label);
        }
        for band in &self.bands {
            draw_band(&mut svg, band, &x, &y);
        }
        for line in &self.lines {
            draw_line(&mut svg, line, &x, &y, bottom);
        }
        line(&mut svg, "axis", (LEFT, bottom), (right, bottom));
        if !self.x_label.is_empty() {
            text(&mut svg, "label", "middle", ((LEFT + right) / 2.0, height - 8.0), self.x_label);
        }
        let (center, label) = ((TOP + bottom) / 2.0, escape(self.y_label));
        put(
            &mut svg,
            format_args!(
                "<text class=\"label\" text-anchor=\"middle\" \
                 transform=\"translate(13 {center:.1}) rotate(-90)\">{label}</text>\n"
            ),
        );
        svg.push_str("</svg>\n");
        svg
    }
}

fn draw_band(
    svg: &mut String,
    Band { class, points }: &Band,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    if points.len() < 2 {
        return;
    }
    let mut path = String::new();
    let there = points.iter().map(|(at, low, _)| (at, low));
    let back = points.iter().rev().map(|(at, _, high)| (at, high));
    for (index, (at, value)) in there.chain(back).enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        put(&mut path, format_args!("{command}{:.1} {:.1}", x(*at), y(value.max(0.0))));
    }
    put(svg, format_args!("<path class=\"band {class}\" d=\"{path}Z\"/>"));
}

fn draw_line(
    svg: &mut String,
    line: &Line,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
    bottom: f64,
) {
    let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else { return };
    let mut path = String::new();
    for (index, (time, value)) in line.points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        put(&mut path, format_args!("{command}{:.1} {:.1}", x(*time), y(*value)));
    }
    let class = &line.class;
    if line.filled {
        let (from, to) = (x(first.0), x(last.0));
        put(
            svg,
            format_args!(
                "<path class=\"area {class}\" d=\"{path}L{to:.1} {bottom}L{from:.1} {bottom}Z\"/>"
            ),
        );
    }
    put(svg, format_args!("<path class=\"line {class}\" d=\"{path}\"/>"));
}

/// A bar of a bar chart.
pub(crate) struct Bar<'a> {
    pub(crate) label: &'a str,
    pub(crate) class: String,
    pub(crate) value: f64,
    /// Half the width of the value's confidence interval.
    pub(crate) half_width: Option<f64>,
}

/// Horizontal bars with their confidence intervals; `reference` draws a line across all of them.
pub(crate) fn bars(
    description: &str,
    bars: &[Bar<'_>],
    unit: &str,
    reference: Option<(f64, &str)>,
) -> String {
    const WIDTH: f64 = 520.0;
    const ROW: f64 = 30.0;
    let labels = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let left = (labels as f64 * 7.4 + 14.0).min(240.0);
    let (top, right) = (if reference.is_some() { 24.0 } else { 8.0 }, WIDTH - 56.0);
    let bottom = top + ROW * bars.len() as f64;
    let ends = bars.iter().map(|bar| bar.value + bar.half_width.unwrap_or(0.0));
    let most = ends.chain(reference.map(|(value, _)| value)).fold(0.0, f64::max);
    let step = tick_step(most.max(1e-9), 5);
    let top_value = (most / step - 1e-9).ceil().max(1.0) * step;
    let x = |value: f64| left + (right - left) * value.clamp(0.0, top_value) / top_value;
    let mut svg = open(WIDTH, bottom + BOTTOM, description);
    for tick in ticks(top_value, step) {
        line(&mut svg, "grid", (x(tick), top), (x(tick), bottom));
        let label = number(tick, step_decimals(step));
        text(&mut svg, "tick", "middle", (x(tick), bottom + 17.0), &label);
    }
    if let Some((value, name)) = reference {
        let anchor = if x(value) > (left + right) / 2.0 { "end" } else { "start" };
        line(&mut svg, "reference", (x(value), top - 6.0), (x(value), bottom));
        let label = format!("{name} {}", number(value, decimals(value)));
        text(&mut svg, "tick", anchor, (x(value), top - 10.0), &label);
    }
    for (index, bar) in bars.iter().enumerate() {
        draw_bar(&mut svg, bar, &x, top + ROW * (index as f64 + 0.5), left);
    }
    line(&mut svg, "axis", (left, top), (left, bottom));
    text(&mut svg, "label", "middle", ((left + right) / 2.0, bottom + BOTTOM - 8.0), unit);
    svg.push_str("</svg>\n");
    svg
}

fn draw_bar(svg: &mut String, bar: &Bar<'_>, x: &impl Fn(f64) -> f64, middle: f64, left: f64) {
    let Bar { label, class, value, half_width } = bar;
    text(svg, "name", "end", (left - 8.0, middle + 4.0), label);
    let (top, length) = (middle - 9.0, (x(*value) - left).max(0.0));
    put(
        svg,
        format_args!(
            "<rect class=\"bar {class}\" x=\"{left:.1}\" y=\"{top:.1}\" \
             width=\"{length:.1}\" height=\"18\" rx=\"2\"/>\n"
        ),
    );
    let mut end = x(*value);
    if let Some(half) = half_width {
        let (from, to, cap) = (x(value - half), x(value + half), middle - 4.0);
        end = end.max(to);
        put(
            svg,
            format_args!(
                "<path class=\"whisker\" \
                 d=\"M{from:.1} {middle}H{to:.1}M{from:.1} {cap:.1}v8M{to:.1} {cap:.1}v8\"/>\n"
            ),
        );
    }
    text(svg, "value", "start", (end + 7.0, middle + 4.0), &number(*value, decimals(*value)));
}

pub(crate) fn open(width: f64, height: f64, description: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(description)
    )
}

pub(crate) fn line(svg: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    put(
        svg,
        format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n"
        ),
    );
}

/// Text at a place; `anchor` says which end of it is there.
pub(crate) fn text(svg: &mut String, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
    let text = escape(text);
    put(
        svg,
        format_args!(
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>\n"
        ),
    );
}

/// A step of 1, 2 or 5 times a power of ten that makes at most `count` + 1 ticks up to `most`.
pub(crate) fn tick_step(most: f64, count: usize) -> f64 {
    let raw = most / count.max(1) as f64;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|&step| step >= raw);
    step.unwrap_or(10.0 * power)
}

pub(crate) fn ticks(most: f64, step: f64) -> impl Iterator<Item = f64> {
    (0..=(most / step + 1e-9) as usize).map(move |index| index as f64 * step)
}

/// Decimals that show multiples of `step`.
fn step_decimals(step: f64) -> usize {
    if step >= 1.0 { 0 } else { (-step.log10()).ceil() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (most, count, step) in
            [(1973.0, 5, 500.0), (60.0, 6, 10.0), (0.7, 5, 0.2), (1.0, 5, 0.2)]
        {
            assert!((tick_step(most, count) / step - 1.0).abs() < 1e-9, "{most}");
        }
        assert_eq!(ticks(1.0, 0.2).count(), 6);
        assert_eq!(step_decimals(0.2), 1);
        assert_eq!(step_decimals(0.05), 2);
    }

    #[test]
    fn a_plot_stays_in_its_frame() {
        let line =
            Line { class: "s0".to_owned(), points: vec![(0.0, 0.0), (9.0, 80.0)], filled: true };
        let plot = Plot {
            description: "a <line>",
            width: 600.0,
            height: 300.0,
            x_label: "time (s)",
            y_label: "Mb/s",
            x_axis: XAxis::to(9.0),
            y_min: 0.0,
            y_max: 80.0,
            percent: false,
            bands: Vec::new(),
            lines: vec![line],
        };
        let svg = plot.render();
        assert!(svg.contains("aria-label=\"a &lt;line&gt;\""));
        assert!(svg.contains("M58.0 256.0L586.0 12.0"), "{svg}");
    }
}
