//! Heat maps of schemes by congestion controls, a panel for each scenario and path.

use super::{
    Cells, Group, MAX_FIGURE, Measure, Stat, Sweeps, TOO_LARGE,
    measure::{compact, compact_width},
    table,
};
use crate::figure::figure;
use crate::format::{escape, put};
use crate::heat::{Cell, Map, Room, Scale};
use crate::quantity::shorten;

/// The size of a cell with a mean and its interval.
const CELL: (f64, f64) = (66.0, 37.0);

/// One section with the maps of all groups, measure by measure.
pub(super) fn section(sweeps: &Sweeps<'_>, groups: &[&Group<'_>]) -> String {
    let mut html = "<section id=\"grid\">\n<h2>Schemes by congestion controls</h2>\n\
                    <p>Each cell is the mean over the seeds, with the half-width of its 95 % \
                    confidence interval where there are several. All maps of a measure share one scale. A corner marks a \
                    cell with failed runs.</p>\n"
        .to_owned();
    let cells: Vec<Cells> = groups.iter().map(|group| group.cells(sweeps.records)).collect();
    for maps in measures(sweeps, groups) {
        if html.len() > MAX_FIGURE {
            html.push_str(TOO_LARGE);
            break;
        }
        html.push_str(&maps_of(sweeps, groups, &cells, &maps));
    }
    html.push_str("<details><summary>The same numbers as tables</summary>\n");
    for (group, cells) in groups.iter().zip(&cells) {
        if html.len() > MAX_FIGURE {
            html.push_str(TOO_LARGE);
            break;
        }
        put(&mut html, format_args!("<h3>{}</h3>\n", group.heading()));
        let measures: Vec<Measure> = measures(sweeps, &[group]).into_iter().flatten().collect();
        html.push_str(&table::of(sweeps, group, cells, &measures));
    }
    html.push_str("</details>\n");
    html.push_str(&sweeps.failures(groups));
    html.push_str("</section>\n");
    html
}

/// The measures to draw; those in one list share a scale.
fn measures(sweeps: &Sweeps<'_>, groups: &[&Group<'_>]) -> Vec<Vec<Measure>> {
    let mut paths: Vec<String> = Vec::new();
    for path in groups.iter().flat_map(|group| group.paths(sweeps.records)) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let per_path = |make: fn(String) -> Measure| paths.iter().cloned().map(make).collect();
    let all = [
        vec![Measure::Discards],
        vec![Measure::Underflows],
        vec![Measure::Completion],
        vec![Measure::Goodput],
        vec![Measure::ToSum],
        vec![Measure::DelayP99],
        vec![Measure::Gap],
        per_path(Measure::Packets),
        per_path(|path| Measure::Retransmitted(Some(path))),
    ];
    let shown = |measures: &Vec<Measure>| {
        groups.iter().any(|group| measures.iter().any(|measure| wanted(sweeps, group, measure)))
    };
    all.into_iter().filter(shown).collect()
}

/// Whether a group has the measure and it says something of its workload.
fn wanted(sweeps: &Sweeps<'_>, group: &Group<'_>, measure: &Measure) -> bool {
    let instead = match measure {
        Measure::Goodput | Measure::ToSum | Measure::DelayP99 | Measure::Gap => {
            sweeps.has(group, &Measure::Underflows) || sweeps.has(group, &Measure::Completion)
        }
        _ => false,
    };
    !instead && sweeps.has(group, measure)
}

fn maps_of(
    sweeps: &Sweeps<'_>,
    groups: &[&Group<'_>],
    cells: &[Cells],
    measures: &[Measure],
) -> String {
    let mut panels = Vec::new();
    for (group, cells) in groups.iter().zip(cells) {
        for measure in measures.iter().filter(|measure| wanted(sweeps, group, measure)) {
            let stats = sweeps.stats(cells, measure);
            let variants = group.axes.first().map_or(1, |axis| axis.texts.len());
            for variant in 0..variants {
                let stat = |scheme, congestion| stats.get(&(scheme, congestion, [variant, 0]));
                panels.push((panel_title(group, measure, variant), group, grid(group, stat)));
            }
        }
    }
    let Some(first) = measures.first() else { return String::new() };
    let values = panels.iter().flat_map(|(_, _, stats)| stats).flatten().flatten();
    let scale = Scale::over(values.filter_map(|stat| Some(stat.value?.mean)), first.is_bad());
    let mut content = scale.legend(first.unit());
    content.push_str("<div class=\"panels\">\n");
    let names = |group: &Group<'_>| -> (Vec<String>, Vec<String>) {
        let short = |names: &[&str]| names.iter().map(|name| shorten(name, 24)).collect();
        (short(&group.schemes), short(&group.congestions))
    };
    let room = panels.iter().fold(Room::new(CELL), |room, (_, group, _)| {
        let (rows, columns) = names(group);
        room.with(&rows, &columns)
    });
    for (title, group, stats) in &panels {
        if content.len() > MAX_FIGURE {
            content.push_str(TOO_LARGE);
            break;
        }
        let (rows, columns) = names(group);
        let map = Map {
            description: &format!("{}, {title}; numbers in the table below", first.name()),
            columns: &columns,
            rows: &rows,
            room,
            cells: drawn(stats, group, first.unit()),
        };
        put(
            &mut content,
            format_args!("<div><h4>{}</h4>\n{}</div>\n", escape(title), map.render(&scale)),
        );
    }
    content.push_str("</div>\n");
    figure(&first.label(), &[], &content)
}

/// Scenario, path and what was set.
fn panel_title(group: &Group<'_>, measure: &Measure, variant: usize) -> String {
    let mut title = shorten(&group.first.scenario, 60);
    if group.first.backend != "sim" {
        title = format!("{title} ({})", group.first.backend);
    }
    if let Some(path) = measure.path() {
        title = format!("{title}: {path}");
    }
    if let Some(axis) = group.axes.first() {
        title = format!("{title}; {} = {}", axis.key, axis.tick(variant));
    }
    title
}

/// The statistics row by row.
fn grid<'s>(
    group: &Group<'_>,
    stat: impl Fn(usize, usize) -> Option<&'s Stat>,
) -> Vec<Vec<Option<Stat>>> {
    let row = |scheme| (0..group.congestions.len()).map(|c| stat(scheme, c).cloned()).collect();
    (0..group.schemes.len()).map(row).collect()
}

fn drawn(stats: &[Vec<Option<Stat>>], group: &Group<'_>, unit: &str) -> Vec<Vec<Option<Cell>>> {
    let row = |(scheme, row): (usize, &Vec<Option<Stat>>)| {
        let cell = |(congestion, stat): (usize, &Option<Stat>)| {
            let who = format!("{}, {}", group.schemes[scheme], group.congestions[congestion]);
            Some(cell(stat.as_ref()?, &who, unit, true))
        };
        row.iter().enumerate().map(cell).collect()
    };
    stats.iter().enumerate().map(row).collect()
}

/// A statistic as a cell; `wide` ones have room for the interval.
pub(super) fn cell(stat: &Stat, who: &str, unit: &str, wide: bool) -> Cell {
    let value = stat.value.map(|value| value.mean);
    let missing = if stat.failed > 0 { "failed" } else { "–" };
    let width = stat.half_width().filter(|_| wide).zip(value);
    Cell {
        value,
        text: value.map_or(missing.to_owned(), compact),
        below: width
            .map_or(String::new(), |(width, mean)| format!("± {}", compact_width(width, mean))),
        failed: stat.failed > 0,
        title: format!("{}: {}", shorten(who, 200), stat.describe(unit)),
    }
}
