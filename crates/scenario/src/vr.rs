//! The results of an evaluation of tiled 360° video: `vr.jsonl` has a [`VrRecord`] for each session,
//! `vr-moments.jsonl` a [`VrMoment`] for each scene; and what follows from them, [`VrGain`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::mean::student_t95;
use crate::results::read_lines;
use crate::{MeanCi, ResultsError};

/// The sessions' file.
pub const VR_SESSIONS: &str = "vr.jsonl";
/// The GoPs' file.
pub const VR_GOPS: &str = "vr.csv";
/// The moments' file.
pub const VR_MOMENTS: &str = "vr-moments.jsonl";
/// The first line of [`VR_GOPS`].
pub const VR_GOPS_HEADER: &str = "video,condition,transport,scheme,concealment,viewer,seed,gop,\
                                  psnr_db,mean_psnr_db,late,dropped,sent_bytes,carried_bytes";

/// One session: one viewer of one video, with one of everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VrRecord {
    /// [`SCHEMA_VERSION`](crate::SCHEMA_VERSION).
    pub schema: u32,
    /// The video: its package's name.
    pub video: String,
    /// The conditions: a scenario's name, or a rate.
    pub condition: String,
    /// The transport.
    pub transport: String,
    /// The tile scheme.
    pub scheme: String,
    /// What is shown in place of late tiles.
    pub concealment: String,
    /// The viewer.
    pub viewer: String,
    /// The seed of the rates.
    pub seed: u64,
    /// By what the rates were multiplied.
    pub rate_scale: f64,
    /// What the paths carried on average, scaled.
    pub rate_mbps: f64,
    /// Whether the rate is one that never changes.
    #[serde(default)]
    pub constant: bool,
    /// Whether viewports mix each of their pixels from four of the frame's; else they are nearest
    /// ones.
    #[serde(default)]
    pub mixed: bool,
    /// How many GoPs were played.
    pub gops: usize,
    /// The viewport's PSNR of the mean MSE over all GoPs.
    pub psnr_db: f64,
    /// The mean over the GoPs of the viewport's PSNR, each of its mean MSE.
    pub mean_psnr_db: f64,
    /// Tiles a GoP that were sent and late.
    pub late_tiles: f64,
    /// Tiles a GoP that were not sent.
    pub dropped_tiles: f64,
    /// Tiles a GoP of which nothing was on time, so that they were concealed; not in results of before.
    #[serde(default)]
    pub concealed_tiles: Option<f64>,
    /// The initial loading delay in seconds, as ITU-T P.1203 calls it: from the beginning of the stream to
    /// its first picture. Not in results of before.
    #[serde(default)]
    pub initial_loading_delay_s: Option<f64>,
    /// Stalling events after that.
    #[serde(default)]
    pub stalling_events: u64,
    /// How long they were together, in seconds.
    #[serde(default)]
    pub stalling_total_s: f64,
    /// How long they were in the mean, in seconds, if there were any.
    #[serde(default)]
    pub stalling_mean_s: Option<f64>,
    /// Where they were in the media, in seconds of its time.
    #[serde(default)]
    pub stalling_positions_s: Vec<f64>,
    /// What was to be sent.
    pub sent_bytes: u64,
    /// What the paths carried.
    pub carried_bytes: u64,
    /// The program's version.
    pub version: String,
}

/// One GoP of one video as different schemes send it, and what a viewer sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VrMoment {
    /// The video.
    pub video: String,
    /// The conditions.
    pub condition: String,
    /// The concealment.
    pub concealment: String,
    /// The seed of the rates.
    pub seed: u64,
    /// The GoP, from 0.
    pub gop: usize,
    /// The viewer.
    pub viewer: String,
    /// Columns of tiles.
    pub columns: usize,
    /// Rows of tiles.
    pub rows: usize,
    /// Per tile, the probability that it is seen.
    pub seen: Vec<f64>,
    /// What different schemes do.
    pub plans: Vec<VrPlan>,
    /// The viewport as it would have been, if it was drawn: a file beside this one.
    #[serde(default)]
    pub original: Option<String>,
}

/// What one scheme does with a GoP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VrPlan {
    /// The tile scheme.
    pub scheme: String,
    /// The transport.
    pub transport: String,
    /// The viewport's PSNR of the GoP's mean MSE.
    pub psnr_db: f64,
    /// Each tile.
    pub tiles: Vec<VrTile>,
    /// The viewport, if it was drawn: a file beside this one.
    #[serde(default)]
    pub picture: Option<String>,
}

/// What became of one tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VrTile {
    /// The finest QP at which it was sent.
    pub sent_qp: Option<u8>,
    /// Its place in the order of sending, from 0.
    pub place: Option<usize>,
    /// The QP at which it is shown; none is grey.
    pub shown_qp: Option<u8>,
    /// Whether what is shown is an old picture.
    #[serde(default)]
    pub stale: bool,
}

/// Reads the sessions of a results directory.
///
/// # Errors
/// If the file cannot be read, or a line of it is no session.
pub fn read_vr_sessions(dir: &Path) -> Result<Vec<VrRecord>, ResultsError> {
    read_lines(&dir.join(VR_SESSIONS), "session")
}

/// Reads the moments of a results directory.
///
/// # Errors
/// If the file cannot be read, or a line of it is no moment.
pub fn read_vr_moments(dir: &Path) -> Result<Vec<VrMoment>, ResultsError> {
    read_lines(&dir.join(VR_MOMENTS), "moment")
}

/// A step from one pair of scheme and transport to another: what it gains is a part of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VrStep {
    /// What the step changes.
    pub name: &'static str,
    /// Scheme and transport before it.
    pub from: (&'static str, &'static str),
    /// Scheme and transport after it.
    pub to: (&'static str, &'static str),
}

/// From FBDT's FIX over MPTCP to OWS over FBDT (§6.3, Fig. 6f), read in three ways, and the parts.
///
/// In the paper FIX "performs the same transmission rate selection but does not reorder the tiles":
/// its pairing is that with `ows-order`. `ows-paper` is Algorithm 1 as printed, and `ows`, whose rates
/// are its own too, is [`VR_OURS`]. Session by session the paper's pairing is transport and order
/// together, and ours these and the rates.
pub const VR_STEPS: [VrStep; 6] = [
    VrStep { name: "paper's pairing", from: ("fix", "linux"), to: ("ows-order", "fbdt") },
    VrStep { name: "as printed", from: ("fix", "linux"), to: ("ows-paper", "fbdt") },
    VR_OURS,
    VrStep { name: "transport", from: ("fix", "linux"), to: ("fix", "fbdt") },
    VrStep { name: "order", from: ("fix", "fbdt"), to: ("ows-order", "fbdt") },
    VrStep { name: "rates", from: ("ows-order", "fbdt"), to: ("ows", "fbdt") },
];

/// From FIX over MPTCP to our `ows` over FBDT.
pub const VR_OURS: VrStep = VrStep { name: "ours", from: ("fix", "linux"), to: ("ows", "fbdt") };

/// What steps gain under one condition with one concealment, in dB.
#[derive(Clone, Debug, PartialEq)]
pub struct VrGain {
    /// The conditions.
    pub condition: String,
    /// The concealment.
    pub concealment: String,
    /// For each of [`VR_STEPS`] what it gains in the PSNR of the session's mean MSE, and in the mean
    /// over its GoPs of their PSNR; `None` if one of its ends was not played.
    pub steps: [Option<[MeanCi; 2]>; 6],
    /// Sessions that are in no gain, because not every pair of scheme and transport was played for
    /// their video, seed and viewer.
    pub unpaired: usize,
}

/// What `ows` over FBDT gains over another scheme, and FBDT under a scheme, in dB: for the PSNR of the
/// session's mean MSE, and for the mean over its GoPs of their PSNR.
#[derive(Clone, Debug, PartialEq)]
pub struct VrBeside {
    /// The conditions.
    pub condition: String,
    /// The concealment.
    pub concealment: String,
    /// The scheme.
    pub scheme: String,
    /// From the scheme over kernel MPTCP to the same over FBDT.
    pub transport: Option<[MeanCi; 2]>,
    /// From the scheme over kernel MPTCP to `ows` over kernel MPTCP.
    pub ours_on_linux: Option<[MeanCi; 2]>,
    /// From the scheme over FBDT to `ows` over FBDT.
    pub ours_on_fbdt: Option<[MeanCi; 2]>,
}

/// Every scheme beside ours, and over both transports, in the order in which conditions, concealments
/// and schemes first appear; constant rates have none.
pub fn vr_beside(records: &[VrRecord]) -> Vec<VrBeside> {
    let mut beside = Vec::new();
    for (condition, concealment, of_group) in groups(records) {
        let of_group = paired(of_group);
        let mut schemes: Vec<&str> = Vec::new();
        for record in &of_group {
            if !schemes.contains(&record.scheme.as_str()) {
                schemes.push(&record.scheme);
            }
        }
        for scheme in schemes {
            let gain = |from, to| gain(&of_group, from, to);
            let ours =
                |on| gain((scheme, on), (VR_OURS.to.0, on)).filter(|_| scheme != VR_OURS.to.0);
            beside.push(VrBeside {
                condition: condition.to_owned(),
                concealment: concealment.to_owned(),
                scheme: scheme.to_owned(),
                transport: gain((scheme, "linux"), (scheme, "fbdt")),
                ours_on_linux: ours("linux"),
                ours_on_fbdt: ours("fbdt"),
            });
        }
    }
    beside
}

/// The sessions of each condition and concealment, in the order in which they first appear, constant
/// rates left out.
fn groups(records: &[VrRecord]) -> Vec<(&str, &str, Vec<&VrRecord>)> {
    let mut groups: Vec<(&str, &str, Vec<&VrRecord>)> = Vec::new();
    for record in records.iter().filter(|record| !record.constant) {
        let (condition, concealment) = (record.condition.as_str(), record.concealment.as_str());
        match groups.iter_mut().find(|group| (group.0, group.1) == (condition, concealment)) {
            Some(group) => group.2.push(record),
            None => groups.push((condition, concealment, vec![record])),
        }
    }
    groups
}

/// Video, seed of the rates and viewer: what sessions have in common that are compared.
type Draw<'a> = (&'a str, u64, &'a str);

fn draw(record: &VrRecord) -> Draw<'_> {
    (&record.video, record.seed, &record.viewer)
}

/// Those sessions of a group whose draw was played with every pair of scheme and transport of the group.
/// With others among them the parts of a gain would be means over different draws, and not add up.
fn paired(of_group: Vec<&VrRecord>) -> Vec<&VrRecord> {
    let mut draws: BTreeMap<(&str, &str), BTreeSet<Draw<'_>>> = BTreeMap::new();
    for record in &of_group {
        draws.entry((&record.scheme, &record.transport)).or_default().insert(draw(record));
    }
    let in_all = |record: &&VrRecord| draws.values().all(|draws| draws.contains(&draw(record)));
    of_group.into_iter().filter(in_all).collect()
}

/// The gains of all conditions and concealments of which any step was played, in the order in which
/// they first appear; constant rates have none. All steps are of the same draws: a session whose
/// window of the rates has no counterpart over the other transport is left out and counted.
///
/// The interval is that of a mean over videos and seeds of the rates, which are both drawn at
/// random and crossed: see [`mean_ci95_crossed`]. Viewers of one video and seed share content and
/// rates, so that they are no independent draws: their mean is one value.
pub fn vr_gains(records: &[VrRecord]) -> Vec<VrGain> {
    let gains = groups(records).into_iter().map(|(condition, concealment, of_group)| {
        let all = of_group.len();
        let of_group = paired(of_group);
        VrGain {
            condition: condition.to_owned(),
            concealment: concealment.to_owned(),
            steps: VR_STEPS.map(|step| gain(&of_group, step.from, step.to)),
            unpaired: all - of_group.len(),
        }
    });
    gains.filter(|gain| gain.steps.iter().any(Option::is_some)).collect()
}

/// What is gained from one scheme and transport to another, in both measures; `None` if no session was
/// played with both.
fn gain(records: &[&VrRecord], from: (&str, &str), to: (&str, &str)) -> Option<[MeanCi; 2]> {
    let of = |(scheme, transport): (&str, &str)| -> BTreeMap<Draw<'_>, [f64; 2]> {
        let chosen = records.iter().filter(|r| r.scheme == scheme && r.transport == transport);
        chosen.map(|r| (draw(r), [r.psnr_db, r.mean_psnr_db])).collect()
    };
    let (from, to) = (of(from), of(to));
    let mut cells: BTreeMap<(&str, u64), Vec<[f64; 2]>> = BTreeMap::new();
    for (key, after) in &to {
        let Some(before) = from.get(key) else { continue };
        cells.entry((key.0, key.1)).or_default().push([after[0] - before[0], after[1] - before[1]]);
    }
    let interval = |measure: usize| {
        let mean = |gains: &Vec<[f64; 2]>| {
            gains.iter().map(|gain| gain[measure]).sum::<f64>() / gains.len() as f64
        };
        let cells: Vec<(&str, u64, f64)> =
            cells.iter().map(|((video, seed), gains)| (*video, *seed, mean(gains))).collect();
        mean_ci95_crossed(&cells)
    };
    Some([interval(0)?, interval(1)?])
}

/// The mean of values that are crossed, one for each row and column, and its 95 % confidence
/// interval where both rows and columns are random draws: `None` without values.
///
/// The variance of the mean is that of the rows' means, plus that of the columns', less that of
/// the single values, which both contain (Cameron, Gelbach and Miller, "Robust inference with
/// multiway clustering", 2011); at least the larger of the two. Student's t has the smaller of the
/// two numbers less one as its degrees of freedom. With one column only the rows count, and the
/// other way round; a single value has no interval.
pub fn mean_ci95_crossed<R: Ord, C: Ord>(cells: &[(R, C, f64)]) -> Option<MeanCi> {
    let count = cells.len();
    if count == 0 {
        return None;
    }
    let mean = cells.iter().map(|cell| cell.2).sum::<f64>() / count as f64;
    let rows: BTreeSet<&R> = cells.iter().map(|cell| &cell.0).collect();
    let columns: BTreeSet<&C> = cells.iter().map(|cell| &cell.1).collect();
    let row_means: Vec<f64> =
        rows.iter().map(|row| mean_of(cells, |cell| cell.0 == **row)).collect();
    let column_means: Vec<f64> =
        columns.iter().map(|column| mean_of(cells, |cell| cell.1 == **column)).collect();
    let values: Vec<f64> = cells.iter().map(|cell| cell.2).collect();
    let [by_row, by_column, by_cell] =
        [&row_means, &column_means, &values].map(|values| variance_of_mean(values, mean));
    let (variance, freedom) = match (rows.len(), columns.len()) {
        (1, 1) => return Some(MeanCi { mean, half_width: None, count }),
        (rows, 1) => (by_row, rows - 1),
        (1, columns) => (by_column, columns - 1),
        (rows, columns) => {
            let crossed = by_row + by_column - by_cell;
            (crossed.max(by_row).max(by_column), rows.min(columns) - 1)
        }
    };
    Some(MeanCi { mean, half_width: Some(student_t95(freedom) * variance.sqrt()), count })
}

fn mean_of<R, C>(cells: &[(R, C, f64)], chosen: impl Fn(&(R, C, f64)) -> bool) -> f64 {
    let (sum, count) = cells
        .iter()
        .filter(|cell| chosen(cell))
        .fold((0.0, 0_u32), |(sum, count), cell| (sum + cell.2, count + 1));
    sum / f64::from(count.max(1))
}

fn variance_of_mean(values: &[f64], mean: f64) -> f64 {
    let n = values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    if values.len() < 2 { 0.0 } else { squares / (n - 1.0) / n }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(video: &str, seed: u64, viewer: &str, pair: (&str, &str), db: f64) -> VrRecord {
        VrRecord {
            video: video.to_owned(),
            condition: "mobility".to_owned(),
            scheme: pair.0.to_owned(),
            transport: pair.1.to_owned(),
            concealment: "grey".to_owned(),
            viewer: viewer.to_owned(),
            seed,
            psnr_db: db,
            mean_psnr_db: db + 1.0,
            ..VrRecord::default()
        }
    }

    #[test]
    fn rows_and_columns_both_count() {
        // Rows' means 1 and 3, columns' 2 and 2, mean 2: only rows vary.
        let cells = [("a", 1, 1.0), ("a", 2, 1.0), ("b", 1, 3.0), ("b", 2, 3.0)];
        let crossed = mean_ci95_crossed(&cells).unwrap();
        // Variance of the rows' mean: 2 / 2 = 1; t(1) = 12.706.
        assert_eq!((crossed.mean, crossed.count), (2.0, 4));
        assert!((crossed.half_width.unwrap() - 12.706).abs() < 1e-9);
        // Both vary: rows 1 and 3, columns 1.5 and 2.5, cells 0.5, 1.5, 2.5, 3.5. 1 + 0.25 − 5/12.
        let cells = [("a", 1, 0.5), ("a", 2, 1.5), ("b", 1, 2.5), ("b", 2, 3.5)];
        let crossed = mean_ci95_crossed(&cells).unwrap();
        let wanted = 12.706 * f64::sqrt((1.0 + 0.25 - 5.0 / 12.0_f64).max(1.0));
        assert!((crossed.half_width.unwrap() - wanted).abs() < 1e-9);
        // One seed: the videos alone, t(2) = 4.303, deviation 1.
        let cells = [("a", 1, 1.0), ("b", 1, 2.0), ("c", 1, 3.0)];
        let one = mean_ci95_crossed(&cells).unwrap();
        assert!((one.half_width.unwrap() - 4.303 / f64::sqrt(3.0)).abs() < 1e-9);
        assert_eq!(mean_ci95_crossed(&cells[..1]).unwrap().half_width, None);
        assert_eq!(mean_ci95_crossed::<u8, u8>(&[]), None);
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let mut records = Vec::new();
        for (video, plus) in [("plaza", 0.0), ("reef", 2.0)] {
            for viewer in ["ann", "bob"] {
                for seed in [1, 2] {
                    let base = if viewer == "ann" { 20.0 } else { 30.0 };
                    let pairs = [
                        (("fix", "linux"), 0.0),
                        (("fix", "fbdt"), 3.0 + plus),
                        (("ows-order", "fbdt"), 8.0 + plus),
                        (("ows", "fbdt"), 9.0 + plus + seed as f64),
                    ];
                    let more = pairs.map(|(pair, db)| record(video, seed, viewer, pair, base + db));
                    records.extend(more);
                }
            }
        }
        // A condition without the baseline, and a constant rate, have no gains.
        records.push(VrRecord {
            condition: "los".to_owned(),
            ..record("plaza", 1, "ann", ("ows", "fbdt"), 1.0)
        });
        records.extend(records.clone().into_iter().map(|record| VrRecord {
            condition: "20Mbps".to_owned(),
            constant: true,
            ..record
        }));
        let gains = vr_gains(&records);
        assert_eq!(gains.len(), 1);
        let mean = |gain: Option<[MeanCi; 2]>| gain.map(|[of_mean, _]| of_mean.mean);
        let means = gains[0].steps.map(mean);
        // The printed algorithm was not played.
        let wanted = [Some(9.0), None, Some(11.5), Some(4.0), Some(5.0), Some(2.5)];
        for (mean, wanted) in means.into_iter().zip(wanted) {
            let is_near = |(mean, wanted): (f64, f64)| (mean - wanted).abs() < 1e-9;
            assert!(mean.zip(wanted).is_none_or(is_near) && mean.is_some() == wanted.is_some());
        }
        // Two videos by two seeds: viewers are no draws of their own.
        assert!(gains[0].steps.iter().flatten().flatten().all(|gain| gain.count == 4));
        assert!((gains[0].steps[4].unwrap()[1].mean - 5.0).abs() < 1e-9);

        let beside = vr_beside(&records);
        let schemes: Vec<&str> = beside.iter().map(|one| one.scheme.as_str()).collect();
        assert_eq!(schemes, ["fix", "ows-order", "ows", "ows"]);
        assert!((mean(beside[0].transport).unwrap() - 4.0).abs() < 1e-9);
        assert!((mean(beside[0].ours_on_fbdt).unwrap() - 7.5).abs() < 1e-9);
        assert!(beside[0].ours_on_linux.is_none() && beside[1].transport.is_none());
        assert!(beside[2].ours_on_fbdt.is_none(), "ours is not beside itself");
    }

    #[test]
    fn a_window_that_one_transport_lacks_is_in_no_part() {
        let mut records = Vec::new();
        for seed in 1..=3 {
            let rest = seed as f64;
            for (pair, db) in [
                (("fix", "linux"), 10.0),
                (("fix", "fbdt"), 12.0 + rest),
                (("ows-order", "fbdt"), 13.0 + 3.0 * rest),
                (("ows", "fbdt"), 20.0 + 9.0 * rest),
            ] {
                // The first transport's log is shorter by a window.
                if pair.1 != "linux" || seed < 3 {
                    records.push(record("plaza", seed, "ann", pair, db));
                }
            }
        }
        let [gain] = &vr_gains(&records)[..] else { panic!("one condition") };
        let steps = gain.steps.map(|step| step.map(|[of_mean, _]| (of_mean.mean, of_mean.count)));
        let [pairing, None, ours, transport, order, rates] = steps else { panic!("{steps:?}") };
        let [pairing, ours, transport, order, rates] =
            [pairing, ours, transport, order, rates].map(Option::unwrap);
        assert!([pairing, ours, transport, order, rates].iter().all(|(_, count)| *count == 2));
        assert!((transport.0 + order.0 - pairing.0).abs() < 1e-9, "{steps:?}");
        assert!((pairing.0 + rates.0 - ours.0).abs() < 1e-9, "{steps:?}");
        assert_eq!(gain.unpaired, 3, "three schemes played the window");
        let beside = vr_beside(&records);
        let ours = beside.iter().find(|one| one.scheme == "fix").unwrap().ours_on_fbdt.unwrap();
        assert_eq!(ours[0].count, 2);
    }
}
