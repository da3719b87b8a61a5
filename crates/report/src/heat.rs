//! Heat maps as inline SVG: rows and columns of cells coloured by value, and the scale they share.

use crate::format::{escape, put};
use crate::quantity::plain;

/// How many colours a scale has; the page's style defines `q0` to `q8`.
pub(crate) const LEVELS: usize = 9;

/// Room for a row's name: units of each character, and between the name and its row.
const CHARACTER: f64 = 6.9;
const GAP: f64 = 10.0;

/// Which colour stands for which values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Level `k` is above the `k`-th bound, up to the next.
    bounds: [f64; LEVELS + 1],
    /// Whether more is worse: another hue.
    bad: bool,
}

impl Scale {
    /// A scale that holds all of `values`: in even steps, or in even ratios where a good part of
    /// them is far below the largest.
    pub(crate) fn over(values: impl IntoIterator<Item = f64>, bad: bool) -> Self {
        // Beyond this nothing is measured, and steps would leave the range of numbers.
        let sane = |value: &f64| value.abs() <= 1e15;
        let mut values: Vec<f64> = values.into_iter().filter(sane).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = match values[..] {
            [low, .., high] => (low, high),
            [one] => (one, one),
            [] => (0.0, 1.0),
        };
        let positive = values.partition_point(|&value| value <= 0.0);
        let quarter = values.get(positive + (values.len() - positive) / 4);
        let bounds = match quarter {
            Some(&quarter) if low >= 0.0 && high > 40.0 * quarter => ratios(&values[positive..]),
            _ => steps(low, high),
        };
        Self { bounds, bad }
    }

    fn level(&self, value: f64) -> usize {
        self.bounds[1..LEVELS].partition_point(|&bound| bound < value)
    }

    /// The colours with their bounds.
    pub(crate) fn legend(&self, unit: &str) -> String {
        const WIDTH: f64 = 50.0;
        let width = WIDTH * LEVELS as f64;
        let mut svg = format!(
            "<svg class=\"heat key{}\" viewBox=\"-20 0 {} 34\" style=\"max-width:{}px\" role=\"img\" \
             aria-label=\"colours from {} to {} {}\">\n",
            self.hue(),
            width + 40.0,
            width + 40.0,
            plain(self.bounds[0]),
            plain(self.bounds[LEVELS]),
            escape(unit),
        );
        for level in 0..LEVELS {
            let x = level as f64 * WIDTH;
            put(
                &mut svg,
                format_args!(
                    "<g class=\"q{level}\"><rect x=\"{x}\" y=\"0\" width=\"{WIDTH}\" height=\"14\"/></g>\n"
                ),
            );
        }
        for (index, bound) in self.bounds.iter().enumerate() {
            let x = index as f64 * WIDTH;
            put(
                &mut svg,
                format_args!(
                    "<text text-anchor=\"middle\" x=\"{x}\" y=\"29\">{}</text>\n",
                    plain(*bound)
                ),
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn hue(&self) -> &'static str {
        if self.bad { " worse" } else { "" }
    }
}

/// Even round steps from zero, or from below the lowest where all are far above zero.
fn steps(low: f64, high: f64) -> [f64; LEVELS + 1] {
    let base = if low < 0.0 || (low > 0.6 * high && low < high) { low } else { 0.0 };
    let raw = (high - base) / LEVELS as f64;
    let step = if raw > 0.0 && raw.is_normal() { round_up(raw) } else { 1.0 };
    let base = (base / step).floor() * step;
    // Rounding the base down may leave the highest value out.
    let reaches = base + step * LEVELS as f64 >= high;
    let step = if reaches { step } else { round_up(step * 1.01) };
    let base = (base / step).floor() * step;
    std::array::from_fn(|index| base + step * index as f64)
}

/// Even ratios up to the largest of sorted positive values; all below the first are one colour.
fn ratios(positive: &[f64]) -> [f64; LEVELS + 1] {
    let high = positive[positive.len() - 1];
    let first = positive[positive.len() / 20].max(high / 3000.0);
    let ratio = (high / first).powf(1.0 / (LEVELS - 1) as f64);
    std::array::from_fn(|index| match index {
        0 => 0.0,
        _ => round_up(first * ratio.powi(index as i32 - 1)),
    })
}

/// The next number with two digits that end in 0, or small ones in between.
fn round_up(value: f64) -> f64 {
    const ROUND: [f64; 14] =
        [1.0, 1.2, 1.5, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0];
    let power = 10_f64.powf(value.log10().floor());
    let fits =
        ROUND.into_iter().map(|digit| digit * power).find(|&round| round >= value * 0.999_999);
    fits.unwrap_or(value)
}

/// A cell of a heat map.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// `None` where no run has a value.
    pub(crate) value: Option<f64>,
    /// What stands in it, and smaller below.
    pub(crate) text: String,
    pub(crate) below: String,
    /// Whether a run failed.
    pub(crate) failed: bool,
    /// All that there is to say, for a pointer that rests on it.
    pub(crate) title: String,
}

/// The room that a map's names and cells take. Maps of one figure share it, so that they are aligned
/// and of one scale.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Room {
    /// For the rows' names.
    left: f64,
    /// Of a cell.
    width: f64,
    height: f64,
}

impl Room {
    /// With cells of at least that size.
    pub(crate) const fn new((width, height): (f64, f64)) -> Self {
        Self { left: GAP, width, height }
    }

    /// Also enough for a map with these names.
    #[must_use]
    pub(crate) fn with(self, rows: &[String], columns: &[String]) -> Self {
        let longest = |names: &[String]| names.iter().map(|name| name.chars().count()).max();
        let left = longest(rows).unwrap_or(0) as f64 * CHARACTER + GAP;
        let width = longest(columns).unwrap_or(0) as f64 * CHARACTER + 4.0;
        Self { left: self.left.max(left), width: self.width.max(width), height: self.height }
    }
}

/// A heat map.
pub(crate) struct Map<'a> {
    pub(crate) description: &'a str,
    pub(crate) columns: &'a [String],
    pub(crate) rows: &'a [String],
    /// The room for names and cells.
    pub(crate) room: Room,
    /// Row by row; `None` where nothing ran.
    pub(crate) cells: Vec<Vec<Option<Cell>>>,
}

impl Map<'_> {
    pub(crate) fn render(&self, scale: &Scale) -> String {
        let Room { left, width, height } = self.room;
        let top = 20.0;
        let right = left + width * self.columns.len() as f64;
        let bottom = top + height * self.rows.len() as f64;
        let mut svg = format!(
            "<svg class=\"heat{}\" viewBox=\"0 0 {right:.0} {:.0}\" style=\"max-width:{right:.0}px\" \
             role=\"img\" aria-label=\"{}\">\n",
            scale.hue(),
            bottom + 2.0,
            escape(self.description),
        );
        for (index, column) in self.columns.iter().enumerate() {
            label(&mut svg, "middle", (left + width * (index as f64 + 0.5), top - 6.0), column);
        }
        for (index, (name, cells)) in self.rows.iter().zip(&self.cells).enumerate() {
            let y = top + height * index as f64;
            label(&mut svg, "end", (left - 7.0, y + height / 2.0 + 4.0), name);
            for (column, cell) in cells.iter().enumerate() {
                let Some(cell) = cell else { continue };
                self.draw(&mut svg, cell, (left + width * column as f64, y), scale);
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw(&self, svg: &mut String, cell: &Cell, (x, y): (f64, f64), scale: &Scale) {
        let Cell { value, text, below, failed, title } = cell;
        match value {
            Some(value) => put(svg, format_args!("<g class=\"q{}\">", scale.level(*value))),
            None => svg.push_str("<g class=\"none\">"),
        }
        let Room { width, height, .. } = self.room;
        let (middle, center) = (x + width / 2.0, y + height / 2.0);
        put(
            svg,
            format_args!(
                "<title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                 height=\"{height:.1}\"/>",
                escape(title)
            ),
        );
        let base = if below.is_empty() { center + 4.0 } else { center - 1.0 };
        put(svg, format_args!("<text x=\"{middle:.1}\" y=\"{base:.1}\">{}</text>", escape(text)));
        if !below.is_empty() {
            let low = center + 12.0;
            put(
                svg,
                format_args!(
                    "<text class=\"small\" x=\"{middle:.1}\" y=\"{low:.1}\">{}</text>",
                    escape(below)
                ),
            );
        }
        if *failed {
            let corner = x + width;
            put(svg, format_args!("<path class=\"flag\" d=\"M{corner:.1} {y:.1}h-11l11 11z\"/>"));
        }
        svg.push_str("</g>\n");
    }
}

fn label(svg: &mut String, anchor: &str, (x, y): (f64, f64), text: &str) {
    let text = escape(text);
    put(
        svg,
        format_args!("<text text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>\n"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_holds_its_values_in_round_steps() {
        let even = Scale::over([0.0, 40.0, 88.0], false);
        assert_eq!((even.bounds[0], even.bounds[1], even.bounds[9]), (0.0, 10.0, 90.0));
        let levels = [0.0, 10.0, 10.1, 88.0].map(|value| even.level(value));
        assert_eq!(levels, [0, 0, 1, 8]);
        let high = Scale::over([90.0, 93.0, 96.4], false);
        assert!(high.bounds[0] >= 88.0 && high.bounds[9] >= 96.4, "{:?}", high.bounds);
        let skewed = Scale::over((0..99).map(|_| 3.0).chain([0.0, 4000.0]), true);
        assert_eq!((skewed.bounds[0], skewed.bounds[1]), (0.0, 3.0));
        assert_eq!([0.0, 3.0, 4000.0].map(|value| skewed.level(value)), [0, 0, 8]);
    }

    #[test]
    fn maps_of_one_figure_begin_at_the_same_place() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (short, long): (Vec<String>, Vec<String>) = (names(&["let"]), names(&["tp-sty-soft"]));
        let columns: Vec<String> = names(&["cubic", "bbr"]);
        let room = Room::new((66.0, 37.0)).with(&short, &columns).with(&long, &columns);
        let begins = |rows: &[String]| {
            let map = Map { description: "", columns: &columns, rows, room, cells: Vec::new() };
            let svg = map.render(&Scale::over([1.0], false));
            svg.split("text-anchor=\"middle\" x=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .map(str::to_owned)
        };
        assert_eq!(begins(&short), begins(&long));
    }

    #[test]
    fn scales_of_odd_values_rise() {
        for odd in [
            vec![],
            vec![0.0],
            vec![f64::NAN, f64::INFINITY],
            vec![-5.0, 5.0],
            vec![7.0, 7.0],
            vec![1e-300, 1e300],
            vec![f64::MAX, 0.0],
            vec![5e-324, 0.0],
        ] {
            let scale = Scale::over(odd.clone(), false);
            let rises = scale.bounds.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(rises && scale.bounds[0].is_finite(), "{odd:?}: {:?}", scale.bounds);
        }
    }
}
