//! One moment of each video: how likely each tile is seen, what was sent and shown of it, and the
//! viewport that a viewer saw.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weftline_scenario::{VrMoment, VrPlan, VrTile};

use crate::format::{escape, number, put};
use crate::heat::{Cell, Map, Room, Scale};

/// The most moments, and tiles of a moment that are drawn.
const MAX_MOMENTS: usize = 12;
const MAX_TILES: usize = 400;
/// The highest QP there is: what is not shown at all is coloured like it.
const MAX_QP: f64 = 51.0;

/// A section of all moments.
pub(super) fn section(moments: &[VrMoment], pictures: &BTreeMap<String, Vec<u8>>) -> String {
    if moments.is_empty() {
        return String::new();
    }
    let mut html = "<section>\n<h2>Tiles over the frame</h2>\n<p>For each video the GoP at which \
                    ows over fbdt gains most over fix over linux for one viewer, under the last \
                    condition with the first seed: the best that it does, not the usual. Each tile \
                    has the QP at which it is shown and, below, its place in the order of sending; \
                    <em>late</em> is what was sent and did not arrive.</p>\n"
        .to_owned();
    let chance = Scale::over([0.0, 1.0], false);
    let qps = moments.iter().flat_map(|m| &m.plans).flat_map(|plan| &plan.tiles);
    let qp = Scale::over(qps.filter_map(|tile| tile.shown_qp).map(f64::from).chain([MAX_QP]), true);
    for moment in moments.iter().take(MAX_MOMENTS) {
        html.push_str(&one(moment, pictures, &chance, &qp));
    }
    if moments.len() > MAX_MOMENTS {
        let more = moments.len() - MAX_MOMENTS;
        put(&mut html, format_args!("<p class=\"facts\">{more} more are left out.</p>\n"));
    }
    html.push_str("</section>\n");
    html
}

fn one(
    moment: &VrMoment,
    pictures: &BTreeMap<String, Vec<u8>>,
    chance: &Scale,
    qp: &Scale,
) -> String {
    let VrMoment { video, condition, concealment, gop, viewer, seed, columns, rows, .. } = moment;
    let title =
        format!("{video}, GoP {gop}: {condition}, seed {seed}, {concealment}, viewer {viewer}");
    let mut html = format!("<h3>{}</h3>\n", escape(&title));
    let tiles = columns.saturating_mul(*rows);
    let fits = (1..=MAX_TILES).contains(&tiles) && moment.seen.len() == tiles;
    if fits {
        html.push_str("<div class=\"panels\">\n");
        let seen = moment.seen.iter().map(|&seen| Cell {
            value: Some(seen),
            text: number(seen * 100.0, 0),
            below: String::new(),
            failed: false,
            title: format!("seen with probability {seen:.3}"),
        });
        html.push_str(&map("P(t): seen by viewers of before, %", *columns, seen, chance));
        for plan in moment.plans.iter().filter(|plan| plan.tiles.len() == tiles) {
            html.push_str(&map(&caption(plan), *columns, plan.tiles.iter().map(cell), qp));
        }
        html.push_str("</div>\n");
    }
    html.push_str(&side_by_side(moment, pictures));
    html
}

fn caption(plan: &VrPlan) -> String {
    format!("{} over {}: {} dB", plan.scheme, plan.transport, number(plan.psnr_db, 1))
}

fn cell(tile: &VrTile) -> Cell {
    let VrTile { sent_qp, place, shown_qp, stale } = *tile;
    let late = sent_qp.is_some() && (shown_qp.is_none() || stale);
    let text = match shown_qp {
        Some(qp) if stale => format!("({qp})"),
        Some(qp) => qp.to_string(),
        None => "grey".to_owned(),
    };
    let below = match place {
        Some(_) if late => "late".to_owned(),
        Some(place) => (place + 1).to_string(),
        None => "–".to_owned(),
    };
    let sent = sent_qp.map_or("not sent".to_owned(), |qp| format!("sent at QP {qp}"));
    let old = if stale { ", an old picture" } else { "" };
    let title = format!("{sent}; shown: {text}{old}");
    let value = Some(shown_qp.map_or(MAX_QP, f64::from));
    Cell { value, text, below, failed: late, title }
}

fn map(title: &str, columns: usize, cells: impl Iterator<Item = Cell>, scale: &Scale) -> String {
    let cells: Vec<Option<Cell>> = cells.map(Some).collect();
    let rows: Vec<Vec<Option<Cell>>> = cells.chunks(columns).map(<[_]>::to_vec).collect();
    let names = vec![String::new(); columns];
    let sides = vec![String::new(); rows.len()];
    let map = Map {
        description: title,
        columns: &names,
        rows: &sides,
        room: Room::new((46.0, 34.0)).with(&sides, &names),
        cells: rows,
    };
    format!("<figure><h4>{}</h4>{}</figure>\n", escape(title), map.render(scale))
}

/// The viewports that were drawn.
fn side_by_side(moment: &VrMoment, pictures: &BTreeMap<String, Vec<u8>>) -> String {
    let original = moment.original.iter().map(|file| ("the original".to_owned(), file));
    let plans =
        moment.plans.iter().filter_map(|plan| Some((caption(plan), plan.picture.as_ref()?)));
    let mut html = String::new();
    for (name, file) in original.chain(plans) {
        let Some(bytes) = pictures.get(file) else { continue };
        let (name, data) = (escape(&name), STANDARD.encode(bytes));
        put(
            &mut html,
            format_args!(
                "<figure class=\"view\"><img alt=\"viewport: {name}\" \
                 src=\"data:image/png;base64,{data}\"/><figcaption>{name}</figcaption></figure>\n"
            ),
        );
    }
    if html.is_empty() {
        return html;
    }
    format!("<div class=\"views\">\n{html}</div>\n")
}
