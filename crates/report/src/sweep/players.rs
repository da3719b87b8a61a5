//! What real players threw away, less what the machine costs.

use std::collections::BTreeMap;

use weftline_scenario::{LEAST_PLAYER_SEEDS, RunRecord, VideoRecord, mean_ci95};

use crate::format::{escape, mean_ci, number, put};
use crate::quantity::shorten;

/// The most rows.
const MAX_ROWS: usize = 1000;

/// A row for each scheme, congestion control and case of a scenario in which a real player played, with
/// the counts of its control run; nothing if there are none.
pub(super) fn section(records: &[RunRecord]) -> String {
    let mut cells: BTreeMap<[String; 6], Vec<(u64, VideoRecord)>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.error.is_none() && record.is_valid()) {
        let Some(video) = record.video.filter(|video| video.control_discards.is_some()) else {
            continue;
        };
        let RunRecord { scenario, workload, scheme, congestion, tls, .. } = record;
        let case: Vec<String> = record.case.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let key = [scenario, workload, scheme, congestion].map(String::clone);
        let [scenario, workload, scheme, congestion] = key;
        let tls = if *tls { "yes" } else { "no" }.to_owned();
        let key = [scenario, workload, scheme, congestion, tls, case.join(", ")];
        cells.entry(key).or_default().push((record.seed, video));
    }
    if cells.is_empty() {
        return String::new();
    }
    let mut html = "<section id=\"players\">\n<h2>Pictures that players threw away</h2>\n<p \
                    class=\"facts\">The player's own counter, what its decoder left out beside it, \
                    and both without links, as many at once; what is left when those are \
                    subtracted, with its 95 % interval over the seeds. Fewer than three seeds say \
                    nothing.</p>\n<div class=\"scroll\"><table>\n<thead><tr>"
        .to_owned();
    for name in [
        "Scenario",
        "Player",
        "Scheme",
        "Congestion",
        "TLS",
        "Case",
        "Seeds",
        "Discarded",
        "By the decoder",
        "Both without links",
        "Because of the links",
    ] {
        put(&mut html, format_args!("<th scope=\"col\">{name}</th>"));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (key, runs) in cells.iter().take(MAX_ROWS) {
        html.push_str("<tr>");
        for text in key {
            put(&mut html, format_args!("<td>{}</td>", escape(&shorten(text, 60))));
        }
        // What cannot be compared with its control run is in no column: they are of the same runs.
        let mut seeds: BTreeMap<u64, VideoRecord> = BTreeMap::new();
        for (seed, video) in runs.iter().filter(|(_, video)| video.net_discards().is_some()) {
            // A seed that was run again has its last run.
            seeds.insert(*seed, *video);
        }
        let seeds: Vec<VideoRecord> = seeds.into_values().collect();
        put(&mut html, format_args!("<td>{}</td>", seeds.len()));
        html.push_str(&figures(&seeds));
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n</section>\n");
    html
}

/// The last four cells of a row.
fn figures(seeds: &[VideoRecord]) -> String {
    if seeds.len() < LEAST_PLAYER_SEEDS {
        return "<td colspan=\"4\">fewer than three seeds</td>".to_owned();
    }
    let values = |value: &dyn Fn(&VideoRecord) -> Option<f64>| -> Vec<f64> {
        seeds.iter().filter_map(value).collect()
    };
    let mean = |value: &dyn Fn(&VideoRecord) -> Option<f64>| {
        let values = values(value);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        if values.is_empty() { "–".to_owned() } else { number(mean, 1) }
    };
    let net = mean_ci95(&values(&|video| video.net_discards().map(|net| net as f64)));
    let control = |video: &VideoRecord| {
        Some((video.control_discards? + video.control_decoder_drops.unwrap_or(0)) as f64)
    };
    format!(
        "<td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
        mean(&|video| Some(video.picture_discards as f64)),
        mean(&|video| video.decoder_drops.map(|drops| drops as f64)),
        mean(&control),
        net.map_or("–".to_owned(), |net| mean_ci(&net, 1))
    )
}
