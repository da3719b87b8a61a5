//! The weave of a connection: which path carried which part of the stream, and when, as one picture.
//!
//! The *cloth* has a row for each window of the scheduler, or for each MiB where it has none, the newest
//! on top; a part is where it is in the row, in its path's colour. Two paths that fill a window from
//! its ends meet at a seam, which wanders with their rates. The *strands* are the same parts over time:
//! what is filled upwards rises, and what is filled downwards falls. The rows are those of the dashboard.

use std::ops::Range;
use std::time::Duration;

use weftline_core::Instant;
use weftline_core::session::WeaveRecord;
use weftline_core::session::cloth::{Cut, Part, Row, choose, rows};
use weftline_core::subflow::Kind;

use crate::format::{escape, put};

/// Measures of the picture.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 16.0;
const ROW: f64 = 12.0;
const CLOTH: f64 = 82.0;
const STRANDS: f64 = 220.0;
const GAP: f64 = 58.0;
/// A part is drawn at least so wide: none is invisible.
const LEAST: f64 = 0.6;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct WeavePicture<'a> {
    /// What ran, for the heading.
    pub title: &'a str,
    /// The paths' names, by their numbers.
    pub paths: &'a [String],
    /// What was recorded of one direction.
    pub record: &'a WeaveRecord,
    /// From when on rows are shown.
    pub from: Instant,
    /// The time that is shown: of the rows begun in each part of it the one that shows the most.
    /// Without it the first rows are shown, none left out.
    pub span: Option<Duration>,
    /// The most rows.
    pub rows: usize,
}

/// A row, its place from the bottom, and how many places high it is.
struct Placed {
    place: u64,
    height: u64,
    row: Row,
}

impl WeavePicture<'_> {
    /// The picture as an SVG document that needs nothing else; `None` if nothing was sent in that time.
    pub fn draw(&self) -> Option<String> {
        let (cut, rows) = self.rows();
        let (first, last) = (rows.first()?, rows.last()?);
        let places = self.span.map_or(last.place + 1, |_| self.rows as u64);
        let cloth = places as f64 * ROW;
        let height = CLOTH + cloth + GAP + STRANDS + 40.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-labelledby=\"t d\">\n<title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n{STYLE}",
            escape(self.title),
            escape(&self.description(cut, &rows)),
        );
        put(
            &mut svg,
            format_args!("<text class=\"h\" x=\"{LEFT}\" y=\"18\">{}</text>\n", escape(self.title)),
        );
        self.legend(&rows, &mut svg);
        for Placed { place, height, row } in rows.iter().rev() {
            let top = CLOTH + (places - place - height) as f64 * ROW;
            Self::row(row, top, *height as f64 * ROW - 2.0, &mut svg);
        }
        let top = CLOTH + cloth + GAP;
        self.strands(&rows, top, &mut svg);
        put(
            &mut svg,
            format_args!(
                "<text class=\"n\" x=\"{LEFT}\" y=\"{:.1}\">place in {}; the newest on top, {} to {} s</text>\n",
                CLOTH + cloth + 16.0,
                if cut == Cut::Fixed { "the MiB" } else { "the window" },
                seconds(first.row.began()),
                seconds(last.row.began()),
            ),
        );
        svg.push_str("</svg>\n");
        Some(svg)
    }

    fn rows(&self) -> (Cut, Vec<Placed>) {
        let (cut, rows) = rows(self.record, self.from);
        let Some(span) = self.span else {
            let placed = |(place, row)| Placed { place, height: 1, row };
            return (cut, (0..).zip(rows.into_iter().take(self.rows)).map(placed).collect());
        };
        let slot = (span / self.rows.max(1) as u32).max(Duration::from_nanos(1));
        let mut placed: Vec<Placed> = Vec::new();
        for (place, row) in choose(rows, self.from, slot) {
            if place >= self.rows as u64 {
                break;
            }
            // It is as high as it took, up to the next.
            if let Some(below) = placed.last_mut() {
                below.height = below.height.min(place - below.place);
            }
            let took = row.filled().since(row.began()).as_nanos() / slot.as_nanos();
            let height = (took as u64 + 1).min(self.rows as u64 - place);
            placed.push(Placed { place, height, row });
        }
        (cut, placed)
    }

    fn description(&self, cut: Cut, rows: &[Placed]) -> String {
        let shares: Vec<_> = self
            .shares(rows)
            .into_iter()
            .map(|(path, percent)| format!("{} {percent:.0} %", self.name(path)))
            .collect();
        format!(
            "{} {} of the stream; of their bytes: {}",
            rows.len(),
            if cut == Cut::Fixed { "MiB" } else { "windows" },
            shares.join(", ")
        )
    }

    /// The share of what was new that each path carried, in percent.
    fn shares(&self, rows: &[Placed]) -> Vec<(usize, f64)> {
        let mut bytes = vec![0_u64; self.paths.len()];
        for part in rows.iter().flat_map(|placed| &placed.row.parts) {
            if part.kind == Kind::New
                && let Some(sum) = bytes.get_mut(part.path.0 as usize)
            {
                *sum += part.range.end - part.range.start;
            }
        }
        let sum: u64 = bytes.iter().sum();
        let shares = bytes.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0);
        shares.map(|(path, bytes)| (path, 100.0 * bytes as f64 / sum as f64)).collect()
    }

    fn name(&self, path: usize) -> &str {
        self.paths.get(path).map_or("?", String::as_str)
    }

    fn legend(&self, rows: &[Placed], svg: &mut String) {
        let (mut x, mut y) = (LEFT, 30.0);
        let mut entry = |classes: &[String], text: &str| {
            let width = 40.0 + 6.2 * text.chars().count() as f64;
            if x + width > WIDTH - RIGHT {
                (x, y) = (LEFT, y + 18.0);
            }
            for class in classes {
                let place = format!("x=\"{x:.1}\" y=\"{y}\" width=\"18\" height=\"10\"");
                put(svg, format_args!("<rect class=\"{class}\" {place}/>"));
            }
            let (left, base) = (x + 23.0, y + 9.0);
            let text = escape(text);
            put(
                svg,
                format_args!("<text class=\"n\" x=\"{left:.1}\" y=\"{base}\">{text}</text>\n"),
            );
            x += width;
        };
        for (path, percent) in self.shares(rows) {
            let text = format!("{} {percent:.0} %", self.name(path));
            entry(&[format!("p{}", path % HUES)], &text);
        }
        let over = |class: &str| ["p0".to_owned(), class.to_owned()];
        entry(&over("copy"), "copy");
        entry(&over("again"), "sent again");
        if rows.iter().any(|placed| !placed.row.missing.is_empty()) {
            entry(&over("pale"), "not acknowledged");
        }
        if rows.iter().any(|placed| placed.row.wait.is_some()) {
            entry(&["wait".to_owned()], "the reader waited for it, 50 ms or more");
        }
    }

    fn row(row: &Row, top: f64, height: f64, svg: &mut String) {
        let scale = (WIDTH - LEFT - RIGHT) / (row.bytes.end - row.bytes.start) as f64;
        put(
            svg,
            format_args!(
                "<text class=\"n e\" x=\"{:.1}\" y=\"{:.1}\">{} s</text>\n",
                LEFT - 6.0,
                top + height - 0.5,
                seconds(row.began()),
            ),
        );
        let place = |range: &Range<u64>| {
            let part = within(range, &row.bytes);
            let x = LEFT + (part.start - row.bytes.start) as f64 * scale;
            let width = ((part.end - part.start) as f64 * scale).max(LEAST);
            format!("x=\"{x:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{height:.1}\"")
        };
        // What is new comes first, and over it what was sent again.
        for part in &row.parts {
            let (hue, place) = (part.path.0 as usize % HUES, place(&part.range));
            put(svg, format_args!("<rect class=\"p{hue}\" {place}/>"));
            if let Some(class) = class(part.kind) {
                put(svg, format_args!("<rect class=\"{class}\" {place}/>"));
            }
        }
        for missing in &row.missing {
            put(svg, format_args!("<rect class=\"pale\" {}/>", place(missing)));
        }
        if let Some(wait) = &row.wait {
            put(svg, format_args!("<rect class=\"wait\" {}/>", place(&wait.missing)));
        }
        svg.push('\n');
    }

    /// The parts of rows over time: of those in the middle, or where most is to be seen.
    fn strands(&self, rows: &[Placed], top: f64, svg: &mut String) {
        let shows = |row: &Row| (row.repeated(), row.waited());
        let stood = rows.iter().enumerate().max_by_key(|(_, placed)| shows(&placed.row));
        let stood = stood.filter(|(_, placed)| placed.row.is_notable());
        let middle = match stood {
            Some((at, _)) => at.saturating_sub(SHOWN / 2).min(rows.len().saturating_sub(SHOWN)),
            None => rows.len().saturating_sub(SHOWN) / 2,
        };
        let shown: Vec<&Row> =
            rows[middle..].iter().take(SHOWN).map(|placed| &placed.row).collect();
        let bytes = shown[0].bytes.start..shown[shown.len() - 1].bytes.end;
        let from = shown.iter().map(|row| row.began()).min().unwrap_or(Instant::ZERO);
        let to = shown.iter().map(|row| row.ended()).max().unwrap_or(from);
        let span = to.since(from).as_secs_f64().max(1e-6);
        let x = |at: Instant| LEFT + at.since(from).as_secs_f64() / span * (WIDTH - LEFT - RIGHT);
        let y = |offset: u64| {
            let part = (offset - bytes.start) as f64 / (bytes.end - bytes.start) as f64;
            top + STRANDS * (1.0 - part)
        };
        for row in &shown {
            put(
                svg,
                format_args!(
                    "<path class=\"g\" d=\"M{LEFT} {0:.1}H{1:.1}\"/>\n",
                    y(row.bytes.end),
                    WIDTH - RIGHT
                ),
            );
        }
        for part in shown.iter().flat_map(|row| &row.parts) {
            let Part { range, first, last, path, kind, is_backward } = part;
            let (begin, end) = match is_backward {
                true => (range.end, range.start),
                false => (range.start, range.end),
            };
            let dashed = if *kind == Kind::New { "" } else { " d" };
            put(
                svg,
                format_args!(
                    "<path class=\"l{}{dashed}\" d=\"M{:.2} {:.2}L{:.2} {:.2}\"/>\n",
                    path.0 as usize % HUES,
                    x(*first),
                    y(begin),
                    x(*last).max(x(*first) + LEAST),
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
const STYLE: &str = "<style>rect{shape-rendering:crispEdges}text{font:12px system-ui,sans-serif;fill:#222}.h{font-weight:600;font-size:14px}\
.n{fill:#555;font-size:11px}.e{text-anchor:end}.g{stroke:#ccc;fill:none}\
.p0{fill:#0072b2}.p1{fill:#e69f00}.p2{fill:#009e73}.p3{fill:#cc79a7}.p4{fill:#56b4e9}.p5{fill:#d55e00}\
.l0,.l1,.l2,.l3,.l4,.l5{fill:none;stroke-width:2;stroke-linecap:round}\
.l0{stroke:#0072b2}.l1{stroke:#e69f00}.l2{stroke:#009e73}.l3{stroke:#cc79a7}.l4{stroke:#56b4e9}.l5{stroke:#d55e00}\
.d{stroke-dasharray:3 3}.pale{fill:#fff;fill-opacity:.6}.wait{fill:none;stroke:#b3261e;stroke-width:1.5}.copy{fill:url(#c)}.again{fill:url(#a)}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.n{fill:#aaa}.g{stroke:#444}}</style>\n\
<defs><pattern id=\"c\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<path d=\"M0 0V4\" stroke=\"#fff\" stroke-width=\"2\"/></pattern>\
<pattern id=\"a\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\">\
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
    #![allow(clippy::single_range_in_vec_init, reason = "a record may have one range")]

    use weftline_core::PathId;
    use weftline_core::session::cloth::ROW_BYTES;
    use weftline_core::session::{Stretch, Wait};

    use super::*;

    fn stretch(range: Range<u64>, ms: Range<u64>, path: u64, kind: Kind) -> Stretch {
        let is_backward = path == 1;
        let (first, last) = (Instant::from_millis(ms.start), Instant::from_millis(ms.end));
        Stretch { range, first, last, path: PathId(path), kind, is_backward, ranges: 2 }
    }

    fn picture<'a>(record: &'a WeaveRecord, paths: &'a [String], from_ms: u64) -> WeavePicture<'a> {
        let from = Instant::from_millis(from_ms);
        WeavePicture { title: "a <b>", paths, record, from, span: None, rows: 10 }
    }

    #[test]
    fn a_window_is_filled_from_both_ends_and_what_was_before_is_not_shown() {
        let record = WeaveRecord {
            stretches: vec![
                stretch(0..1000, 0..9, 0, Kind::New),
                stretch(1000..1300, 10..18, 0, Kind::New),
                stretch(1300..2000, 10..18, 1, Kind::New),
                stretch(1200..1300, 19..20, 1, Kind::Copy),
                stretch(2000..2600, 20..28, 0, Kind::New),
                stretch(2600..3000, 20..28, 1, Kind::Reinjection),
            ],
            windows: vec![0..1000, 1000..2000, 2000..3000],
            in_order: 3000,
            ..WeaveRecord::default()
        };
        let paths = ["wifi".to_owned(), "lte".to_owned()];
        let svg = picture(&record, &paths, 10).draw().unwrap();
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("2 windows of the stream"), "{svg}");
        // 300 and 600 of 1600 new bytes.
        assert!(svg.contains("wifi 56 %, lte 44 %"), "{svg}");
        assert!(!svg.contains("the reader waited") && !svg.contains("not acknowledged"), "{svg}");
        insta::assert_snapshot!(svg);
        assert_eq!(picture(&record, &paths, 60).draw(), None);

        // What the reader waited for, and what has not come, is seen.
        let (since, until) = (Instant::from_millis(20), Instant::from_millis(90));
        let waits = vec![Wait { missing: 2000..2600, since, until }];
        let record = WeaveRecord { waits, in_order: 2000, above: vec![2600..2900], ..record };
        let svg = picture(&record, &paths, 10).draw().unwrap();
        assert!(svg.contains("the reader waited") && svg.contains("not acknowledged"), "{svg}");
        let count = |class: &str| svg.matches(&format!("<rect class=\"{class}\"")).count();
        assert_eq!((count("pale"), count("wait")), (3, 2));
        // Over a time, a row has the place of its time.
        let span = Some(Duration::from_millis(100));
        let svg = WeavePicture { span, ..picture(&record, &paths, 10) }.draw().unwrap();
        assert!(svg.contains("viewBox=\"0 0 760 520\""), "{svg}");
    }

    #[test]
    fn without_windows_a_row_is_a_mebibyte() {
        let stretches = vec![stretch(5..5 + 3 * ROW_BYTES, 0..100, 0, Kind::New)];
        let record = WeaveRecord { stretches, in_order: u64::MAX, ..WeaveRecord::default() };
        let paths = ["wifi".to_owned()];
        let picture = WeavePicture { rows: 2, ..picture(&record, &paths, 0) };
        assert!(
            picture.draw().unwrap().contains("2 MiB of the stream; of their bytes: wifi 100 %")
        );
    }
}
