//! The numbers of a sweep's figures as a table.

use super::{Cells, Group, Measure, Stat, Sweeps, exact};
use crate::format::{escape, paragraph, put};
use crate::quantity::shorten;

/// The most rows; what is beyond is only counted.
const MAX_ROWS: usize = 1000;

/// A row for each scheme, congestion control and value of the swept keys.
pub(super) fn of(
    sweeps: &Sweeps<'_>,
    group: &Group<'_>,
    cells: &Cells,
    measures: &[Measure],
) -> String {
    let measures: Vec<&Measure> =
        measures.iter().filter(|measure| sweeps.has(group, measure)).collect();
    let axes = || group.axes.iter().take(2);
    let mut html = "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Scheme</th>\
                    <th scope=\"col\">Congestion</th>"
        .to_owned();
    for axis in axes() {
        put(&mut html, format_args!("<th scope=\"col\">{}</th>", escape(&shorten(&axis.key, 40))));
    }
    html.push_str("<th scope=\"col\">Runs</th>");
    for measure in &measures {
        let path = measure.path().map_or(String::new(), |path| format!(", {path}"));
        put(
            &mut html,
            format_args!(
                "<th scope=\"col\">{}{} <span class=\"unit\">{}</span></th>",
                measure.name(),
                escape(&path),
                measure.unit()
            ),
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for ((scheme, congestion, places), runs) in cells.iter().take(MAX_ROWS) {
        put(
            &mut html,
            format_args!(
                "<tr><th scope=\"row\">{}</th><td>{}</td>",
                escape(&shorten(group.schemes[*scheme], 60)),
                escape(&shorten(group.congestions[*congestion], 60))
            ),
        );
        for (axis, place) in axes().zip(places) {
            put(&mut html, format_args!("<td>{}</td>", escape(&shorten(&axis.texts[*place], 60))));
        }
        let failed = runs.iter().filter(|&&run| sweeps.records[run].has_failed()).count();
        put(&mut html, format_args!("<td>{}", runs.len()));
        if failed > 0 {
            put(&mut html, format_args!(" <span class=\"bad\">({failed} failed)</span>"));
        }
        html.push_str("</td>");
        for measure in &measures {
            let cell = table_cell(&Stat::new(sweeps, runs, measure));
            put(&mut html, format_args!("<td>{cell}</td>"));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if cells.len() > MAX_ROWS {
        put(
            &mut html,
            format_args!(
                "<p class=\"facts\">{} more rows are left out; every run is in \
                 <code>runs.jsonl</code>.</p>\n",
                cells.len() - MAX_ROWS
            ),
        );
    }
    let shown = cells.values().flatten().map(|&run| &sweeps.records[run]);
    html + &paragraph(weftline_scenario::guest_note(shown))
}

/// A statistic as the cell of a table.
fn table_cell(stat: &Stat) -> String {
    let Some(value) = stat.value else { return "–".to_owned() };
    match stat.half_width() {
        Some(width) => {
            format!("{}<span class=\"ci\"> ± {}</span>", exact(value.mean), exact(width))
        }
        None => exact(value.mean),
    }
}
