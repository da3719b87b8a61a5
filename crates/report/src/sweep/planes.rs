//! Two swept keys: a small heat map for each scheme and congestion control.

use std::collections::BTreeMap;

use super::{Group, MAX_FIGURE, Measure, Place, Stat, Sweeps, TOO_LARGE, grid::cell, table};
use crate::figure::figure;
use crate::format::{escape, put};
use crate::heat::{Cell, Map, Room, Scale};
use crate::quantity::shorten;
use crate::scheme::is_single;

/// The size of a cell with a mean.
const CELL: (f64, f64) = (50.0, 25.0);

/// Every figure of a group that varied two keys, with its table, in about `room` bytes.
pub(super) fn all(sweeps: &Sweeps<'_>, group: &Group<'_>, room: usize) -> String {
    let cells = group.cells(sweeps.records);
    let mut html = String::new();
    let measures = sweeps.outcomes(group);
    for measure in measures.iter().filter(|measure| **measure != Measure::Standstill) {
        if html.len() > room {
            html.push_str(TOO_LARGE);
            return html;
        }
        let stats = sweeps.stats(&cells, measure);
        html.push_str(&maps_of(group, measure, &stats));
    }
    if html.len() < room {
        html.push_str("<details><summary>The same numbers as a table</summary>\n");
        html.push_str(&table::of(sweeps, group, &cells, &measures));
        html.push_str("</details>\n");
    }
    html
}

fn maps_of(group: &Group<'_>, measure: &Measure, stats: &BTreeMap<Place, Stat>) -> String {
    let [across, down] = &group.axes[..] else { return String::new() };
    let wanted = |scheme: usize| {
        // The ratio of a single path to the sum says nothing of a scheme.
        *measure != Measure::ToSum || !is_single(group.schemes[scheme])
    };
    let shown = stats.iter().filter(|((scheme, ..), _)| wanted(*scheme));
    let values = shown.filter_map(|(_, stat)| Some(stat.value?.mean));
    let scale = Scale::over(values, measure.is_bad());
    let ticks = |axis: &crate::quantity::Axis| -> Vec<String> {
        (0..axis.texts.len()).map(|place| axis.tick(place)).collect()
    };
    let (columns, mut rows) = (ticks(across), ticks(down));
    // As in a plot, the largest is at the top.
    rows.reverse();
    let mut content = scale.legend(measure.unit());
    put(
        &mut content,
        format_args!(
            "<p class=\"facts\">Across: {}. Upwards: {}.</p>\n<div class=\"panels small\">\n",
            escape(&shorten(&across.label(), 80)),
            escape(&shorten(&down.label(), 80))
        ),
    );
    for scheme in (0..group.schemes.len()).filter(|&scheme| wanted(scheme)) {
        for congestion in 0..group.congestions.len() {
            if content.len() > MAX_FIGURE {
                continue;
            }
            let title = format!(
                "{}, {}",
                shorten(group.schemes[scheme], 40),
                shorten(group.congestions[congestion], 40)
            );
            let one = |x: usize, y: usize| -> Option<Cell> {
                let stat = stats.get(&(scheme, congestion, [x, y]))?;
                let who = format!(
                    "{title}, {} = {}, {} = {}",
                    across.key, across.texts[x], down.key, down.texts[y]
                );
                Some(cell(stat, &who, measure.unit(), false))
            };
            let row = |y: usize| (0..columns.len()).map(|x| one(x, y)).collect();
            let cells: Vec<Vec<Option<Cell>>> = (0..rows.len()).rev().map(row).collect();
            if cells.iter().flatten().all(Option::is_none) {
                continue;
            }
            let map = Map {
                description: &format!("{}, {title}; numbers in the table below", measure.name()),
                columns: &columns,
                rows: &rows,
                room: Room::new(CELL).with(&rows, &columns),
                cells,
            };
            put(
                &mut content,
                format_args!("<div><h4>{}</h4>\n{}</div>\n", escape(&title), map.render(&scale)),
            );
        }
    }
    if content.len() > MAX_FIGURE {
        content.push_str(TOO_LARGE);
    }
    content.push_str("</div>\n");
    figure(&measure.label(), &[], &content)
}
