//! An evaluation of tiled 360° video: gains and their parts, quality against rate, GoPs as strips,
//! tiles over the frame, and viewports side by side.

mod data;
mod tiles;

use std::collections::BTreeMap;

use weftline_scenario::{VR_STEPS, VrRecord, mean_ci95_crossed, vr_gains};

use crate::figure::figure;
use crate::format::{escape, mean_ci, number, put};
use crate::heat::{Cell, Map, Room, Scale};
use crate::plot::{Band, Line, Plot, XAxis};
use crate::sweep::count;

pub(crate) use data::VrData;
use data::{Pair, Strip};

/// The colours in the page's style.
const COLOURS: usize = 8;
/// Strips that are shown, and labels below the axis of rates.
const MAX_STRIPS: usize = 12;
const MAX_TICKS: usize = 8;

impl VrData {
    /// One line on what it is.
    pub(crate) fn lead(&self) -> String {
        let distinct = |value: fn(&VrRecord) -> &str| {
            let mut values: Vec<&str> = self.records.iter().map(value).collect();
            values.sort_unstable();
            values.dedup();
            values.len()
        };
        format!(
            "{} of {}; {}; weftline {}",
            count(self.records.len(), "session"),
            count(distinct(|record| &record.video), "360° video"),
            count(distinct(|record| &record.condition), "condition"),
            self.records.first().map_or("", |record| record.version.as_str())
        )
    }

    /// All sections.
    pub(crate) fn render(&self) -> String {
        let mut html = "<section id=\"vr\">\n<h2>360° video: what viewers see</h2>\n".to_owned();
        put(&mut html, format_args!("<p class=\"facts\">{}</p>\n", escape(&self.facts())));
        html.push_str(&gains(&self.records));
        html.push_str(&self.qualities());
        html.push_str(&self.curves());
        html.push_str(&strips(&self.strips));
        html.push_str("</section>\n");
        html.push_str(&tiles::section(&self.moments, &self.pictures));
        html.push_str(METHOD);
        html
    }

    /// By what the rates were scaled.
    fn facts(&self) -> String {
        let mut scales: Vec<String> = self
            .records
            .iter()
            .filter(|record| !record.constant)
            .map(|record| format!("{:.5}", record.rate_scale))
            .collect();
        scales.dedup();
        match &scales[..] {
            [] => "Rates that never change.".to_owned(),
            [one] => format!("Rates of the radios times {one}, to fit this content."),
            _ => "Rates of the radios, scaled differently in different sessions.".to_owned(),
        }
    }

    /// The mean PSNR and the late tiles of each pair, by condition: a table for each concealment.
    fn qualities(&self) -> String {
        let mut html = String::new();
        let records = || self.records.iter().filter(|record| !record.constant);
        let conditions = distinct(records().map(|record| record.condition.as_str()));
        for concealment in distinct(records().map(|record| record.concealment.as_str())) {
            let of = || records().filter(|record| record.concealment == concealment);
            let name = escape(concealment);
            put(
                &mut html,
                format_args!(
                    "<h3>Concealment: {name}</h3>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Tiles, transport</th>"
                ),
            );
            for condition in &conditions {
                let name = escape(condition);
                put(
                    &mut html,
                    format_args!(
                        "<th scope=\"col\">{name} <span class=\"unit\">dB of mean MSE</span></th><th scope=\"col\">mean <span class=\"unit\">dB of GoPs</span></th><th scope=\"col\">late <span class=\"unit\">tiles/GoP</span></th>"
                    ),
                );
            }
            html.push_str("</tr></thead>\n<tbody>\n");
            for pair in distinct(of().map(Pair::of)) {
                put(&mut html, format_args!("<tr><th scope=\"row\">{}</th>", escape(&pair.name())));
                for condition in &conditions {
                    let chosen: Vec<&VrRecord> = of()
                        .filter(|record| record.condition == *condition && Pair::of(record) == pair)
                        .collect();
                    html.push_str(&quality_cells(&chosen));
                }
                html.push_str("</tr>\n");
            }
            html.push_str("</tbody></table></div>\n");
        }
        html
    }

    /// Quality against constant rates, a line for each pair, a figure for each concealment.
    fn curves(&self) -> String {
        let mut html = String::new();
        let records = || self.records.iter().filter(|r| r.constant && r.rate_mbps > 0.0);
        for concealment in distinct(records().map(|record| record.concealment.as_str())) {
            let of: Vec<&VrRecord> =
                records().filter(|record| record.concealment == concealment).collect();
            html.push_str(&curve(&of, concealment));
        }
        html
    }
}

/// How the numbers come about.
const METHOD: &str = "<footer>\n<p>A GoP is sent while the one before it is shown; what is late \
    then is concealed. <em>dB of mean MSE</em> is the PSNR of the mean error over all GoPs of a \
    session, which single bad GoPs pull down; <em>dB of GoPs</em> is the mean of each GoP's PSNR. \
    Both are of the viewport's luma, added up from the errors of its tiles (<code>weftline vr \
    check</code> compares that with drawn viewports). Intervals are 95 % intervals of a mean over \
    videos and seeds of the rates, which are both random and crossed; viewers of one video and seed \
    share content and rates and count as one value.</p>\n</footer>\n";

/// The different values, in the order in which they first come.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

fn mean(records: &[&VrRecord], value: fn(&VrRecord) -> f64) -> f64 {
    records.iter().map(|record| value(record)).sum::<f64>() / records.len().max(1) as f64
}

fn quality_cells(chosen: &[&VrRecord]) -> String {
    if chosen.is_empty() {
        return "<td>–</td>".repeat(3);
    }
    let [of_mean, of_gops, late] = [
        mean(chosen, |record| record.psnr_db),
        mean(chosen, |record| record.mean_psnr_db),
        mean(chosen, |record| record.late_tiles),
    ];
    format!(
        "<td><b>{}</b></td><td>{}</td><td>{}</td>",
        number(of_mean, 2),
        number(of_gops, 2),
        number(late, 2)
    )
}

/// The table of gains: the whole and its parts.
fn gains(records: &[VrRecord]) -> String {
    let gains = vr_gains(records);
    if gains.is_empty() {
        return String::new();
    }
    let mut html = "<h3>What is gained over fix over linux, in dB: in the paper's pairing, by \
                    Algorithm 1 as printed, by ours; and what part of it is the transport's, the \
                    order's and the rates'</h3>\n\
                    <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Condition</th>\
                    <th scope=\"col\">Concealment</th><th scope=\"col\">PSNR</th>"
        .to_owned();
    for step in VR_STEPS {
        let [from, to] = [step.from, step.to].map(|(scheme, on)| format!("{scheme} over {on}"));
        let (name, hint) = (escape(step.name), escape(&format!("{from} → {to}")));
        put(&mut html, format_args!("<th scope=\"col\" title=\"{hint}\">{name}</th>"));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for gain in &gains {
        for (measure, name) in ["of mean MSE", "mean of GoPs"].into_iter().enumerate() {
            let (condition, concealment) = (escape(&gain.condition), escape(&gain.concealment));
            put(
                &mut html,
                format_args!(
                    "<tr><th scope=\"row\">{condition}</th><td>{concealment}</td><td>{name}</td>"
                ),
            );
            for step in &gain.steps {
                let text =
                    step.as_ref().map_or("–".to_owned(), |gain| mean_ci(&gain[measure], 2));
                put(&mut html, format_args!("<td>{text}</td>"));
            }
            html.push_str("</tr>\n");
        }
    }
    html.push_str("</tbody></table></div>\n");
    let unpaired: usize = gains.iter().map(|gain| gain.unpaired).sum();
    if unpaired > 0 {
        put(
            &mut html,
            format_args!(
                "<p class=\"facts\">{unpaired} sessions are in no gain: their rates have no \
                 counterpart over the other transport.</p>\n"
            ),
        );
    }
    html
}

/// The mean of GoPs' PSNR against the rate, with a band over the videos.
fn curve(records: &[&VrRecord], concealment: &str) -> String {
    let (mut lines, mut bands, mut legend) = (Vec::new(), Vec::new(), Vec::new());
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for (index, pair) in distinct(records.iter().map(|record| Pair::of(record))).iter().enumerate()
    {
        let class = format!("s{}", index % COLOURS);
        let mut rates: BTreeMap<u64, Vec<&VrRecord>> = BTreeMap::new();
        for record in records.iter().filter(|record| Pair::of(record) == *pair) {
            // Whole bits a second are an order that numbers with a point have not.
            rates.entry((record.rate_mbps * 1e6) as u64).or_default().push(record);
        }
        let (mut points, mut band) = (Vec::new(), Vec::new());
        for (bps, of_rate) in &rates {
            let mut cells: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for record in of_rate {
                cells.entry(&record.video).or_default().push(record.mean_psnr_db);
            }
            let cells: Vec<(&str, u8, f64)> = cells
                .into_iter()
                .map(|(video, values)| (video, 0, values.iter().sum::<f64>() / values.len() as f64))
                .collect();
            let Some(value) = mean_ci95_crossed(&cells) else { continue };
            let (x, half) = ((*bps as f64 / 1e6).log10(), value.half_width.unwrap_or(0.0));
            points.push((x, value.mean));
            band.push((x, value.mean - half, value.mean + half));
            low = low.min(value.mean);
            high = high.max(value.mean);
        }
        legend.push((class.clone(), pair.name()));
        bands.push(Band { class: class.clone(), points: band });
        lines.push(Line { class, points, filled: false });
    }
    let places = distinct(lines.iter().flat_map(|line| &line.points).map(|point| point.0));
    let (first, last) = places
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
    if first >= last || !low.is_finite() {
        return String::new();
    }
    let every = places.len().div_ceil(MAX_TICKS).max(1);
    let tick = |x: &f64| (*x, number(10_f64.powf(*x), usize::from(*x < 1.0)));
    let plot = Plot {
        description: "the viewport's quality against the rate",
        width: 720.0,
        height: 340.0,
        x_label: "rate (Mb/s, log scale)",
        y_label: "viewport PSNR (dB)",
        x_axis: XAxis {
            min: first,
            max: last,
            ticks: places.iter().step_by(every).map(tick).collect(),
        },
        y_min: low - 1.0,
        y_max: high + 1.0,
        percent: false,
        bands,
        lines,
    };
    let caption = format!("Viewport quality against the rate (concealment: {concealment})");
    figure(&caption, &legend, &plot.render())
}

/// Each GoP's PSNR, a row for each pair.
fn strips(strips: &[Strip]) -> String {
    let mut html = String::new();
    if strips.is_empty() {
        return html;
    }
    let values = strips.iter().flat_map(|strip| strip.rows.iter().flat_map(|row| &row.1));
    let scale = Scale::over(values.copied().filter(|value| value.is_finite()), false);
    html.push_str("<h3>GoP by GoP</h3>\n<p>The viewport's PSNR in dB, the mean over viewers, ");
    html.push_str("of the first seed and the first concealment.</p>\n");
    html.push_str(&scale.legend("dB"));
    html.push_str("<div class=\"panels\">\n");
    for strip in strips.iter().take(MAX_STRIPS) {
        let gops = strip.rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
        let columns: Vec<String> = (0..gops).map(|gop| gop.to_string()).collect();
        let rows: Vec<String> = strip.rows.iter().map(|row| row.0.name()).collect();
        let cell = |value: &f64| {
            value.is_finite().then(|| Cell {
                value: Some(*value),
                text: number(*value, 0),
                below: String::new(),
                failed: false,
                title: format!("{value:.2} dB"),
            })
        };
        let cells = strip.rows.iter().map(|row| row.1.iter().map(cell).collect()).collect();
        let title = format!("{}, {}, {}", strip.video, strip.condition, strip.concealment);
        let map = Map {
            description: &title,
            columns: &columns,
            rows: &rows,
            room: Room::new((26.0, 22.0)).with(&rows, &columns),
            cells,
        };
        put(
            &mut html,
            format_args!("<figure><h4>{}</h4>{}</figure>\n", escape(&title), map.render(&scale)),
        );
    }
    html.push_str("</div>\n");
    if strips.len() > MAX_STRIPS {
        let more = strips.len() - MAX_STRIPS;
        put(&mut html, format_args!("<p class=\"facts\">{more} more are left out.</p>\n"));
    }
    html
}

#[cfg(test)]
mod tests;
