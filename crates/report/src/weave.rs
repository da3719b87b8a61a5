//! The weave of a connection: which path carried which part of the stream, and when, as one picture.
//!
//! The *cloth* has a row for each window of the scheduler, or for each MiB where it has none, the newest
//! on top; a stretch is where it is in the row, in its path's colour. Two paths that fill a window from
//! its ends meet at a seam, which wanders with their rates. The *strands* are the same stretches over
//! time: what is filled upwards rises, and what is filled downwards falls.

use std::ops::Range;

use weftline_core::Instant;
use weftline_core::session::Stretch;
use weftline_core::subflow::Kind;

use crate::format::{escape, put};

/// Bytes of a row where the scheduler has no windows.
const ROW_BYTES: u64 = 1 << 20;
/// Measures of the picture.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 16.0;
const ROW: f64 = 12.0;
const CLOTH: f64 = 62.0;
const STRANDS: f64 = 220.0;
const GAP: f64 = 58.0;
/// A stretch is drawn at least so wide: none is invisible.
const LEAST: f64 = 0.6;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct WeavePicture<'a> {
    /// What ran, for the heading.
    pub title: &'a str,
    /// The paths' names, by their numbers.
    pub paths: &'a [String],
    /// What each was given in one go.
    pub stretches: &'a [Stretch],
    /// The scheduler's windows, if it has such.
    pub windows: &'a [Range<u64>],
    /// From when on rows are shown.
    pub from: Instant,
    /// The most rows.
    pub rows: usize,
}

/// A row of the cloth, and what is in it.
struct Row<'a> {
    bytes: Range<u64>,
    stretches: Vec<&'a Stretch>,
}

impl Row<'_> {
    fn began(&self) -> Instant {
        self.stretches.iter().map(|stretch| stretch.first).min().unwrap_or(Instant::ZERO)
    }

    fn ended(&self) -> Instant {
        self.stretches.iter().map(|stretch| stretch.last).max().unwrap_or(Instant::ZERO)
    }
}

impl WeavePicture<'_> {
    /// The picture as an SVG document that needs nothing else; `None` if nothing was sent in that time.
    pub fn draw(&self) -> Option<String> {
        let rows = self.rows();
        let (first, last) = (rows.first()?, rows.last()?);
        let cloth = rows.len() as f64 * ROW;
        let height = CLOTH + cloth + GAP + STRANDS + 40.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-labelledby=\"t d\">\n<title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n{STYLE}",
            escape(self.title),
            escape(&self.description(&rows)),
        );
        put(
            &mut svg,
            format_args!("<text class=\"h\" x=\"{LEFT}\" y=\"18\">{}</text>\n", escape(self.title)),
        );
        self.legend(&rows, &mut svg);
        for (index, row) in rows.iter().rev().enumerate() {
            self.row(row, CLOTH + index as f64 * ROW, &mut svg);
        }
        let top = CLOTH + cloth + GAP;
        self.strands(&rows, top, &mut svg);
        put(
            &mut svg,
            format_args!(
                "<text class=\"n\" x=\"{LEFT}\" y=\"{:.1}\">place in {}; the newest on top, {} to {} s</text>\n",
                CLOTH + cloth + 16.0,
                if self.windows.is_empty() { "the MiB" } else { "the window" },
                seconds(first.began()),
                seconds(last.ended()),
            ),
        );
        svg.push_str("</svg>\n");
        Some(svg)
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let in_time: Vec<_> = self.stretches.iter().filter(|s| s.first >= self.from).collect();
        let Some(from) =
            in_time.iter().filter(|s| s.kind == Kind::New).map(|s| s.range.start).min()
        else {
            return Vec::new();
        };
        let end = in_time.iter().map(|s| s.range.end).max().unwrap_or(from);
        let bounds: Vec<_> = match self.windows {
            [] => (0..self.rows as u64)
                .map(|row| from + row * ROW_BYTES..from + (row + 1) * ROW_BYTES)
                .collect(),
            windows => {
                windows.iter().filter(|w| w.start >= from).take(self.rows).cloned().collect()
            }
        };
        let rows = bounds.into_iter().filter(|bytes| bytes.start < end).map(|bytes| {
            let touches = |s: &&&Stretch| s.range.start < bytes.end && bytes.start < s.range.end;
            Row { stretches: in_time.iter().filter(touches).copied().collect(), bytes }
        });
        rows.filter(|row| !row.stretches.is_empty()).collect()
    }

    fn description(&self, rows: &[Row<'_>]) -> String {
        let shares: Vec<_> = self
            .shares(rows)
            .into_iter()
            .map(|(path, percent)| format!("{} {percent:.0} %", self.name(path)))
            .collect();
        format!(
            "{} {} of the stream; of their bytes: {}",
            rows.len(),
            if self.windows.is_empty() { "MiB" } else { "windows" },
            shares.join(", ")
        )
    }

    /// The share of what was new that each path carried, in percent.
    fn shares(&self, rows: &[Row<'_>]) -> Vec<(usize, f64)> {
        let mut bytes = vec![0_u64; self.paths.len()];
        for row in rows {
            for stretch in row.stretches.iter().filter(|stretch| stretch.kind == Kind::New) {
                let part = within(&stretch.range, &row.bytes);
                if let Some(sum) = bytes.get_mut(stretch.path.0 as usize) {
                    *sum += part.end - part.start;
                }
            }
        }
        let sum: u64 = bytes.iter().sum();
        let shares = bytes.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0);
        shares.map(|(path, bytes)| (path, 100.0 * bytes as f64 / sum as f64)).collect()
    }

    fn name(&self, path: usize) -> &str {
        self.paths.get(path).map_or("?", String::as_str)
    }

    fn legend(&self, rows: &[Row<'_>], svg: &mut String) {
        let mut x = LEFT;
        for (path, percent) in self.shares(rows) {
            let text = format!("{} {percent:.0} %", self.name(path));
            put(
                svg,
                format_args!(
                    "<rect class=\"p{}\" x=\"{x:.1}\" y=\"30\" width=\"18\" height=\"10\"/><text class=\"n\" x=\"{:.1}\" y=\"39\">{}</text>\n",
                    path % HUES,
                    x + 23.0,
                    escape(&text),
                ),
            );
            x += 40.0 + 7.0 * text.chars().count() as f64;
        }
        for (class, text) in [("copy", "copy"), ("again", "sent again")] {
            put(
                svg,
                format_args!(
                    "<rect class=\"p0\" x=\"{x:.1}\" y=\"30\" width=\"18\" height=\"10\"/><rect class=\"{class}\" x=\"{x:.1}\" y=\"30\" width=\"18\" height=\"10\"/><text class=\"n\" x=\"{:.1}\" y=\"39\">{text}</text>\n",
                    x + 23.0,
                ),
            );
            x += 40.0 + 7.0 * text.len() as f64;
        }
    }

    fn row(&self, row: &Row<'_>, top: f64, svg: &mut String) {
        let scale = (WIDTH - LEFT - RIGHT) / (row.bytes.end - row.bytes.start) as f64;
        put(
            svg,
            format_args!(
                "<text class=\"n e\" x=\"{:.1}\" y=\"{:.1}\">{} s</text>\n",
                LEFT - 6.0,
                top + ROW - 2.5,
                seconds(row.began()),
            ),
        );
        // What is new first, and over it what was sent again.
        let mut stretches = row.stretches.clone();
        stretches.sort_by_key(|stretch| stretch.kind != Kind::New);
        for stretch in stretches {
            let part = within(&stretch.range, &row.bytes);
            let x = LEFT + (part.start - row.bytes.start) as f64 * scale;
            let width = ((part.end - part.start) as f64 * scale).max(LEAST);
            let box_ = format!(
                "x=\"{x:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{:.1}\"",
                ROW - 2.0
            );
            put(svg, format_args!("<rect class=\"p{}\" {box_}/>", stretch.path.0 as usize % HUES));
            if let Some(class) = class(stretch.kind) {
                put(svg, format_args!("<rect class=\"{class}\" {box_}/>"));
            }
        }
        svg.push('\n');
    }

    /// The stretches of the middle rows over time.
    fn strands(&self, rows: &[Row<'_>], top: f64, svg: &mut String) {
        let middle = rows.len().saturating_sub(SHOWN) / 2;
        let shown = &rows[middle..rows.len().min(middle + SHOWN)];
        let bytes = shown[0].bytes.start..shown[shown.len() - 1].bytes.end;
        let from = shown.iter().map(Row::began).min().unwrap_or(Instant::ZERO);
        let to = shown.iter().map(Row::ended).max().unwrap_or(from);
        let span = to.since(from).as_secs_f64().max(1e-6);
        let x = |at: Instant| LEFT + at.since(from).as_secs_f64() / span * (WIDTH - LEFT - RIGHT);
        let y = |offset: u64| {
            let part = (offset - bytes.start) as f64 / (bytes.end - bytes.start) as f64;
            top + STRANDS * (1.0 - part)
        };
        for row in shown {
            put(
                svg,
                format_args!(
                    "<path class=\"g\" d=\"M{LEFT} {0:.1}H{1:.1}\"/>\n",
                    y(row.bytes.end),
                    WIDTH - RIGHT
                ),
            );
        }
        let mut drawn: Vec<&Stretch> =
            shown.iter().flat_map(|row| row.stretches.iter().copied()).collect();
        drawn.dedup();
        for stretch in drawn {
            let part = within(&stretch.range, &bytes);
            let (begin, end) = match stretch.is_backward {
                true => (part.end, part.start),
                false => (part.start, part.end),
            };
            let dashed = if stretch.kind == Kind::New { "" } else { " d" };
            put(
                svg,
                format_args!(
                    "<path class=\"l{}{dashed}\" d=\"M{:.2} {:.2}L{:.2} {:.2}\"/>\n",
                    stretch.path.0 as usize % HUES,
                    x(stretch.first),
                    y(begin),
                    x(stretch.last).max(x(stretch.first) + LEAST),
                    y(end),
                ),
            );
        }
        put(
            svg,
            format_args!(
                "<text class=\"n e\" x=\"{:.1}\" y=\"{:.1}\">stream</text><text class=\"n\" x=\"{LEFT}\" y=\"{:.1}\">{} s</text><text class=\"n e\" x=\"{:.1}\" y=\"{:.1}\">{} s</text>\n",
                LEFT - 6.0,
                top + STRANDS / 2.0,
                top + STRANDS + 16.0,
                seconds(from),
                WIDTH - RIGHT,
                top + STRANDS + 16.0,
                seconds(to),
            ),
        );
    }
}

/// Rows whose strands are drawn.
const SHOWN: usize = 6;
/// Colours of paths.
const HUES: usize = 6;

/// Okabe and Ito's colours, which those who see few colours can tell apart too.
const STYLE: &str = "<style>text{font:12px system-ui,sans-serif;fill:#222}.h{font-weight:600;font-size:14px}\
.n{fill:#555;font-size:11px}.e{text-anchor:end}.g{stroke:#ccc;fill:none}\
.p0{fill:#0072b2}.p1{fill:#e69f00}.p2{fill:#009e73}.p3{fill:#cc79a7}.p4{fill:#56b4e9}.p5{fill:#d55e00}\
.l0,.l1,.l2,.l3,.l4,.l5{fill:none;stroke-width:2;stroke-linecap:round}\
.l0{stroke:#0072b2}.l1{stroke:#e69f00}.l2{stroke:#009e73}.l3{stroke:#cc79a7}.l4{stroke:#56b4e9}.l5{stroke:#d55e00}\
.d{stroke-dasharray:3 3}.copy{fill:url(#c)}.again{fill:url(#a)}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.n{fill:#aaa}.g{stroke:#444}}</style>\n\
<defs><pattern id=\"c\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<path d=\"M0 0V4\" stroke=\"#fff\" stroke-width=\"2\"/></pattern>\
<pattern id=\"a\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">\
<path d=\"M0 0V4\" stroke=\"#000\" stroke-width=\"2\"/></pattern></defs>\n";

fn class(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::New => None,
        Kind::Copy => Some("copy"),
        Kind::Reinjection => Some("again"),
    }
}

fn within(part: &Range<u64>, whole: &Range<u64>) -> Range<u64> {
    let start = part.start.clamp(whole.start, whole.end);
    start..part.end.clamp(start, whole.end)
}

fn seconds(at: Instant) -> String {
    format!("{:.3}", at.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use weftline_core::PathId;

    use super::*;

    fn stretch(range: Range<u64>, ms: Range<u64>, path: u64, kind: Kind) -> Stretch {
        let is_backward = path == 1;
        let (first, last) = (Instant::from_millis(ms.start), Instant::from_millis(ms.end));
        Stretch { range, first, last, path: PathId(path), kind, is_backward, ranges: 2 }
    }

    #[test]
    fn a_window_is_filled_from_both_ends_and_what_was_before_is_not_shown() {
        let stretches = [
            stretch(0..1000, 0..9, 0, Kind::New),
            stretch(1000..1300, 10..18, 0, Kind::New),
            stretch(1300..2000, 10..18, 1, Kind::New),
            stretch(1200..1300, 19..20, 1, Kind::Copy),
            stretch(2000..2600, 20..28, 0, Kind::New),
            stretch(2600..3000, 20..28, 1, Kind::Reinjection),
        ];
        let picture = WeavePicture {
            title: "a <b>",
            paths: &["wifi".to_owned(), "lte".to_owned()],
            stretches: &stretches,
            windows: &[0..1000, 1000..2000, 2000..3000],
            from: Instant::from_millis(10),
            rows: 10,
        };
        let svg = picture.draw().unwrap();
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("2 windows of the stream"), "{svg}");
        // 300 and 600 of 1600 new bytes.
        assert!(svg.contains("wifi 56 %, lte 44 %"), "{svg}");
        insta::assert_snapshot!(svg);
        let later = WeavePicture { from: Instant::from_millis(60), ..picture };
        assert_eq!(later.draw(), None);
    }

    #[test]
    fn without_windows_a_row_is_a_mebibyte() {
        let stretches = [stretch(5..5 + 3 * ROW_BYTES, 0..100, 0, Kind::New)];
        let picture = WeavePicture {
            title: "t",
            paths: &["wifi".to_owned()],
            stretches: &stretches,
            windows: &[],
            from: Instant::ZERO,
            rows: 2,
        };
        assert!(
            picture.draw().unwrap().contains("2 MiB of the stream; of their bytes: wifi 100 %")
        );
    }
}
