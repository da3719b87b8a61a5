//! The tables at the end of an evaluation, for people.

use comfy_table::{CellAlignment, Table, presets};
use weftline_scenario::{MeanCi, VR_STEPS, VrRecord, vr_beside, vr_gains};

/// The pairs of scheme and transport, and the conditions with concealments, each in the order in
/// which they first appear; and what they have to say.
pub(super) fn render(records: &[VrRecord], heading: &str) -> String {
    let mut text = format!("{heading}\n");
    text += &qualities(records);
    let gains = vr_gains(records);
    if gains.is_empty() {
        return text;
    }
    let mut table = new_table();
    let mut header = vec!["condition".to_owned(), "concealment".to_owned(), "PSNR".to_owned()];
    header.extend(VR_STEPS.iter().map(|step| format!("{} dB", step.name)));
    table.set_header(header);
    for gain in &gains {
        for (measure, name) in MEASURES.into_iter().enumerate() {
            let mut row = vec![gain.condition.clone(), gain.concealment.clone(), name.to_owned()];
            row.extend(gain.steps.iter().map(|step| cell(step.as_ref(), measure)));
            table.add_row(row);
        }
    }
    align(&mut table, 3);
    text += &format!(
        "\nGain over fix over linux, and its parts, ± 95 % (videos and seeds are the independent \
         draws). The paper's pairing is ows-order over fbdt, the rates of fix in another order; \
         ours, ows over fbdt, is that and its own rates\n{table}\n"
    );
    text += &unpaired(gains.iter().map(|gain| gain.unpaired).sum());
    text + &beside(records)
}

/// What is in no gain, in a line.
fn unpaired(sessions: usize) -> String {
    if sessions == 0 {
        return String::new();
    }
    format!(
        "{sessions} sessions are in no gain: their rates have no counterpart over the other \
         transport (the same condition and seed)\n"
    )
}

/// What the transport gains under each scheme, and ours over each scheme.
fn beside(records: &[VrRecord]) -> String {
    let mut table = new_table();
    table.set_header([
        "condition",
        "concealment",
        "scheme",
        "PSNR",
        "transport dB",
        "ours on linux dB",
        "ours on fbdt dB",
    ]);
    let mut any = false;
    for one in vr_beside(records) {
        let gains = [one.transport, one.ours_on_linux, one.ours_on_fbdt];
        if gains.iter().all(Option::is_none) {
            continue;
        }
        any = true;
        for (measure, name) in MEASURES.into_iter().enumerate() {
            let names = [&one.condition, &one.concealment, &one.scheme].map(String::clone);
            let mut row = names.to_vec();
            row.push(name.to_owned());
            row.extend(gains.iter().map(|gain| cell(gain.as_ref(), measure)));
            table.add_row(row);
        }
    }
    if !any {
        return String::new();
    }
    align(&mut table, 4);
    format!(
        "\nGain of fbdt over linux under each scheme, and of ows over each other scheme\n{table}\n"
    )
}

/// The two measures of quality.
const MEASURES: [&str; 2] = ["of mean MSE", "mean of GoPs"];

fn cell(gain: Option<&[MeanCi; 2]>, measure: usize) -> String {
    gain.map_or("–".to_owned(), |gain| interval(&gain[measure]))
}

/// Mean PSNR, late tiles and bytes of each pair.
fn qualities(records: &[VrRecord]) -> String {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let mut cases: Vec<(&str, &str)> = Vec::new();
    for record in records {
        let pair = (record.scheme.as_str(), record.transport.as_str());
        let case = (record.condition.as_str(), record.concealment.as_str());
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let mut table = new_table();
    table.set_header([
        "condition",
        "concealment",
        "scheme",
        "transport",
        "PSNR of mean MSE",
        "mean of GoPs dB",
        "late tiles/GoP",
        "not sent/GoP",
        "sent Mb/s",
        "carried Mb/s",
    ]);
    for (condition, concealment) in cases {
        for &(scheme, transport) in &pairs {
            let chosen: Vec<&VrRecord> = records
                .iter()
                .filter(|r| r.condition == condition && r.concealment == concealment)
                .filter(|r| r.scheme == scheme && r.transport == transport)
                .collect();
            if chosen.is_empty() {
                continue;
            }
            let mean = |value: &dyn Fn(&VrRecord) -> f64| {
                chosen.iter().map(|record| value(record)).sum::<f64>() / chosen.len() as f64
            };
            let sent = |r: &VrRecord| r.sent_bytes as f64 * 8e-6 / played_s(r);
            table.add_row(vec![
                condition.to_owned(),
                concealment.to_owned(),
                scheme.to_owned(),
                transport.to_owned(),
                format!("{:.2}", mean(&|r| r.psnr_db)),
                format!("{:.2}", mean(&|r| r.mean_psnr_db)),
                format!("{:.2}", mean(&|r| r.late_tiles)),
                format!("{:.2}", mean(&|r| r.dropped_tiles)),
                format!("{:.1}", mean(&sent)),
                format!("{:.1}", mean(&|r| r.rate_mbps)),
            ]);
        }
    }
    align(&mut table, 4);
    format!("{table}\n")
}

/// How long a session is: in an evaluation the picture begins when the first GoP's time to be sent
/// is over.
fn played_s(record: &VrRecord) -> f64 {
    record.gops.max(1) as f64 * record.initial_loading_delay_s.unwrap_or(1.0)
}

fn interval(value: &MeanCi) -> String {
    match value.half_width {
        Some(half) => format!("{:.2} ± {half:.2}", value.mean),
        None => format!("{:.2}", value.mean),
    }
}

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// Numbers to the right, from column `first` on.
fn align(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
