//! `weftline vr check --played`: what a player has shown, drawn from the package and its source, against what
//! the player said of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use serde_json::json;
use weftline_video::evaluate::{PSNR_CEILING_DB, Shown};
use weftline_video::geometry::{FieldOfView, Orientation};
use weftline_video::live::Pose;
use weftline_video::metric::{mse_of_psnr_db, psnr_db};
use weftline_video::rd::MAX_TILES;
use weftline_vr::Ffmpeg;
use weftline_vr::evaluate::{PlayedGop, Viewed, check_played, sample};
use weftline_vr::package::Package;

use super::progress::Progress;
use crate::failure::Failure;
use crate::output;

/// The longest line: the most tiles a frame may have, all of older GoPs, and the poses of the longest GoP.
const MAX_LINE: u64 = 1 << 20;
/// The most GoPs of a log: a day of 1 s each.
const MAX_GOPS: usize = 86_400;
/// The most poses of a GoP: ten a second in the longest, and some.
const MAX_POSES: usize = 1_000;
/// How far what a player says may be off what it would count of this package: it judges at more poses.
const OTHER_DB: f64 = 1.0;

/// What was played.
pub(super) struct Played<'a> {
    /// The package.
    pub(super) dir: &'a Path,
    /// Its source, if it is not beside it.
    pub(super) source: Option<&'a Path>,
    /// The width of a viewport's pixel in pixels of the frame.
    pub(super) pixel: f64,
}

/// A line of the log, as far as it is of use here.
#[derive(Debug, Deserialize)]
struct Line {
    gop: u32,
    psnr_db: Option<f64>,
    mean_psnr_db: Option<f64>,
    fov_deg: [f64; 2],
    shown: Vec<Option<Tile>>,
    poses: Vec<Turned>,
}

/// What was shown of a tile: its QP, or of which older GoP it was.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum Tile {
    Here(u8),
    Old { gop: usize, qp: u8 },
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Turned {
    at_s: f64,
    yaw: f64,
    pitch: f64,
    roll: f64,
}

/// What the player says of a GoP, and what it has shown.
#[derive(Debug)]
struct Told {
    /// The PSNR of the poses' mean MSE, and the mean of their PSNRs, dB.
    said_db: [f64; 2],
    played: PlayedGop,
}

/// A log.
#[derive(Debug, Default)]
struct Log {
    fov: FieldOfView,
    gops: Vec<Told>,
    /// GoPs of which the player knows nothing, as the server's word on them never came.
    unknown: Vec<u32>,
}

/// Draws what `log` says was shown, of all GoPs or of `count` of them. What is counted of it may be off by
/// `limit_db` on average.
///
/// # Errors
/// If the log is none, or not of this package; if the package cannot be decoded; or if more is promised than
/// was shown.
pub(super) fn run(
    log: &Path,
    package: &Played<'_>,
    count: Option<usize>,
    ffmpeg: &Ffmpeg,
    json: bool,
    limit_db: f64,
) -> Result<(), Failure> {
    let mut log = read(log)?;
    if let Some(count) = count {
        let keep = sample(log.gops.len(), count, 1);
        let mut place = 0..;
        log.gops.retain(|_| place.next().is_some_and(|place| keep.contains(&place)));
    }
    let unknown = std::mem::take(&mut log.unknown);
    let Played { dir, source, pixel } = *package;
    let package = Package::open(dir)?;
    // The player compared what came with the package's digests: what it has shown is what decodes here.
    package.verify()?;
    let source = package.source(ffmpeg, source)?;
    let (told, played): (Vec<[f64; 2]>, Vec<PlayedGop>) =
        log.gops.into_iter().map(|told| (told.said_db, told.played)).unzip();
    let mut progress = Progress::new("GoPs", played.len() as u64, 0);
    let view = (log.fov, pixel);
    let viewed =
        check_played(ffmpeg, &package, &source, view, &played, &mut |done| progress.set(done))?;
    drop(progress);
    let gops: Vec<Gop> = played
        .iter()
        .zip(&told)
        .zip(&viewed)
        .map(|((played, said_db), viewed)| Gop::new(played.gop, *said_db, viewed))
        .collect();
    output::print(&if json { lines(&gops, &unknown)? } else { table(&gops, unknown.len()) })?;
    judge(&gops, limit_db)
}

fn read(path: &Path) -> Result<Log, Failure> {
    let wrong = |why: String| Failure::wrong_use(format!("--played {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut file = BufReader::new(file);
    let (mut log, mut text, mut fov_deg) = (Log::default(), String::new(), None);
    for number in 1.. {
        let at = |why: String| wrong(format!("line {number}: {why}"));
        text.clear();
        let read = file.by_ref().take(MAX_LINE).read_line(&mut text);
        if read.map_err(|error| at(error.to_string()))? == 0 {
            break;
        }
        let line: Line = serde_json::from_str(&text).map_err(|error| {
            at(format!(
                "{error}; it is what weftline vr play --log NAME.jsonl writes that is drawn"
            ))
        })?;
        if fov_deg.is_some_and(|fov_deg| fov_deg != line.fov_deg) {
            return Err(at("its viewport spans something else than those before".to_owned()));
        }
        if log.gops.len() + log.unknown.len() == MAX_GOPS {
            return Err(at(format!("there are more than {MAX_GOPS} GoPs; give a part of them")));
        }
        fov_deg = Some(line.fov_deg);
        let gop = line.gop;
        match line.told().map_err(at)? {
            Some(told) => log.gops.push(told),
            None => log.unknown.push(gop),
        }
    }
    let Some([horizontal, vertical]) = fov_deg else {
        return Err(wrong("it has no line: nothing was played".to_owned()));
    };
    log.fov = FieldOfView::new(horizontal, vertical).map_err(|error| wrong(error.to_string()))?;
    if log.gops.is_empty() {
        return Err(wrong("the player knows of no GoP what it was to be".to_owned()));
    }
    Ok(log)
}

impl Line {
    /// What was shown, and what was said of it, if the player knows what the GoP was to be.
    fn told(self) -> Result<Option<Told>, String> {
        let Self { gop, psnr_db, mean_psnr_db, shown, poses, .. } = self;
        let Some((of_mean, mean)) = psnr_db.zip(mean_psnr_db) else { return Ok(None) };
        let as_shown = |tile: Option<Tile>| match tile {
            None => Shown::Grey,
            Some(Tile::Here(qp)) => Shown::Rung(qp),
            Some(Tile::Old { gop, qp }) => Shown::Stale { gop, qp },
        };
        let shown: Vec<Shown> = shown.into_iter().map(as_shown).collect();
        let poses = poses.into_iter().map(Turned::pose).collect::<Result<Vec<Pose>, String>>()?;
        if poses.is_empty() {
            return Err("it has no poses".to_owned());
        }
        if shown.len() > MAX_TILES || poses.len() > MAX_POSES {
            let (tiles, poses) = (shown.len(), poses.len());
            return Err(format!(
                "it has {tiles} tiles and {poses} poses, and a GoP has at most {MAX_TILES} and {MAX_POSES}"
            ));
        }
        let played = PlayedGop { gop, shown, poses };
        Ok(Some(Told { said_db: [of_mean, mean], played }))
    }
}

impl Turned {
    fn pose(self) -> Result<Pose, String> {
        let Self { at_s, yaw, pitch, roll } = self;
        let at = Duration::try_from_secs_f64(at_s).map_err(|error| format!("at_s: {error}"))?;
        if ![yaw, pitch, roll].iter().all(|degrees| degrees.abs() <= 360.0) {
            return Err(format!("a head is not turned by {yaw}, {pitch}, {roll} degrees"));
        }
        Ok(Pose { at, orientation: Orientation::from_degrees(yaw, pitch, roll) })
    }
}

/// A GoP: the MSE of the viewport, and the mean of its PSNR, by the player, and by nearest and by mixed pixels
/// what is counted and what was drawn.
struct Gop {
    gop: u32,
    mse: [f64; 5],
    mean_db: [f64; 5],
    /// The PSNR that a player counts of this package at the poses of the log.
    even_db: f64,
}

/// What each of the five is.
const ROWS: [&str; 5] = [
    "the player says",
    "counted, nearest pixels",
    "drawn, nearest pixels",
    "counted, mixed pixels",
    "drawn, mixed pixels",
];
/// The keys of each with --json, which end in `psnr_db` and `mean_psnr_db`.
const KEYS: [&str; 5] = ["player_", "fast_", "nearest_", "fast_mixed_", "mixed_"];
/// What is compared with what was drawn: a row, and its truth. The player mixes pixels.
const PAIRS: [[usize; 2]; 3] = [[0, 4], [1, 2], [3, 4]];

fn capped_db(mse: f64) -> f64 {
    psnr_db(mse.max(mse_of_psnr_db(PSNR_CEILING_DB)))
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

impl Gop {
    fn new(gop: u32, said_db: [f64; 2], viewed: &Viewed) -> Self {
        let Viewed { counted: [nearest, mixed], drawn: [drawn_nearest, drawn_mixed], even } =
            viewed;
        let (mut mses, mut mean_db) = ([0.0; 5], [0.0; 5]);
        (mses[0], mean_db[0]) = (mse_of_psnr_db(said_db[0]), said_db[1]);
        let ways = [nearest, drawn_nearest, mixed, drawn_mixed];
        for (place, poses) in (1..).zip(ways) {
            mses[place] = mean(poses.iter().copied());
            mean_db[place] = mean(poses.iter().map(|mse| capped_db(*mse)));
        }
        Self { gop, mse: mses, mean_db, even_db: capped_db(mean(even.iter().copied())) }
    }

    fn psnr_db(&self, row: usize) -> f64 {
        capped_db(self.mse[row])
    }
}

/// How far a row is off its truth, GoP by GoP, in the PSNR of the mean MSE or in the mean of the PSNRs, whichever
/// is more: the mean without sign, and the worst.
fn off(gops: &[Gop], [row, truth]: [usize; 2]) -> [f64; 2] {
    let of_mean = |gop: &Gop| (gop.psnr_db(row) - gop.psnr_db(truth)).abs();
    let of_each = |gop: &Gop| (gop.mean_db[row] - gop.mean_db[truth]).abs();
    let worst = |off: &dyn Fn(&Gop) -> f64| gops.iter().map(off).fold(0.0, f64::max);
    [
        mean(gops.iter().map(of_mean)).max(mean(gops.iter().map(of_each))),
        worst(&of_mean).max(worst(&of_each)),
    ]
}

fn judge(gops: &[Gop], limit_db: f64) -> Result<(), Failure> {
    let other = mean(gops.iter().map(|gop| (gop.psnr_db(0) - gop.even_db).abs()));
    if other > OTHER_DB {
        return Err(Failure::failed(format!(
            "what the player says is {other:.2} dB off what it would count of this package: is it the one \
             that was played?"
        )));
    }
    // The player takes what a tile loses as even all over it, and that is known to be further off.
    let counted = PAIRS[1..].iter().map(|pair| (ROWS[pair[0]], off(gops, *pair)[0]));
    let wrong: Vec<String> = counted
        .filter(|(_, mean)| *mean > limit_db)
        .map(|(row, mean)| format!("{row}: {mean:.2} dB off what was drawn"))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let wrong = wrong.join("; ");
    Err(Failure::failed(format!("more than {limit_db} dB off on average: {wrong}")))
}

fn table(gops: &[Gop], unknown: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "viewport",
        "PSNR of mean MSE dB",
        "mean of the GoPs dB",
        "mean of the poses dB",
        "off drawn: mean |dB|",
        "worst |dB|",
    ]);
    for (place, row) in ROWS.into_iter().enumerate() {
        let of_mean = capped_db(mean(gops.iter().map(|gop| gop.mse[place])));
        let each = mean(gops.iter().map(|gop| gop.psnr_db(place)));
        let poses = mean(gops.iter().map(|gop| gop.mean_db[place]));
        let mut cells = vec![row.to_owned()];
        cells.extend([of_mean, each, poses].map(|db| format!("{db:.2}")));
        let pair = PAIRS.into_iter().find(|pair| pair[0] == place);
        let off = pair.map(|pair| off(gops, pair).map(|db| format!("{db:.3}")));
        cells.extend(off.unwrap_or_else(|| ["–", "–"].map(String::from)));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let without = match unknown {
        0 => String::new(),
        unknown => format!(", and {unknown} of which the player knows nothing"),
    };
    format!("{} GoPs{without}\n{table}\n", gops.len())
}

fn lines(gops: &[Gop], unknown: &[u32]) -> Result<String, Failure> {
    let mut text = String::new();
    for gop in gops {
        let mut line = json!({ "gop": gop.gop });
        for (place, key) in KEYS.into_iter().enumerate() {
            line[format!("{key}psnr_db")] = json!(gop.psnr_db(place));
            line[format!("{key}mean_psnr_db")] = json!(gop.mean_db[place]);
        }
        text += &serde_json::to_string(&line).map_err(Failure::failed)?;
        text.push('\n');
    }
    // Of these nothing is known.
    unknown.iter().for_each(|gop| text += &format!("{}\n", json!({ "gop": gop })));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Result<Log, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        std::fs::write(&path, text).unwrap();
        read(&path).map_err(|failure| failure.to_string())
    }

    fn line(change: &[(&str, serde_json::Value)]) -> String {
        let mut line = json!({
            "gop": 4, "arrived": 1, "psnr_db": 40.0, "mean_psnr_db": 41.0, "fov_deg": [100.0, 90.0],
            "shown": [22, null, { "gop": 3, "qp": 37 }],
            "poses": [{ "at_s": 0.1, "yaw": 10.0, "pitch": -5.0, "roll": 0.0 }],
        });
        for (key, value) in change {
            line[key] = value.clone();
        }
        format!("{line}\n")
    }

    #[test]
    fn a_log_is_what_was_shown() {
        let unknown = line(&[("psnr_db", json!(null)), ("shown", json!([]))]);
        let log = log(&(line(&[]) + &unknown)).unwrap();
        assert_eq!((log.gops.len(), log.unknown), (1, vec![4]));
        assert_eq!(log.fov.degrees(), (100.0, 90.0));
        let Told { said_db, played } = &log.gops[0];
        assert_eq!((said_db, played.gop), (&[40.0, 41.0], 4));
        let old = Shown::Stale { gop: 3, qp: 37 };
        assert_eq!(played.shown, [Shown::Rung(22), Shown::Grey, old]);
        assert_eq!(played.poses[0].at, Duration::from_millis(100));
    }

    #[test]
    fn what_is_counted_may_be_a_little_off_what_was_drawn() {
        // By the player, counted and drawn.
        let gop = |said: f64, counted: f64, drawn: f64| {
            let viewed = Viewed {
                counted: [(); 2].map(|()| vec![mse_of_psnr_db(counted)]),
                drawn: [(); 2].map(|()| vec![mse_of_psnr_db(drawn)]),
                even: vec![mse_of_psnr_db(40.0)],
            };
            Gop::new(3, [said; 2], &viewed)
        };
        let judged = |gops: &[Gop]| judge(gops, 0.3).map_err(|failure| failure.to_string());
        assert_eq!(judged(&[gop(40.0, 40.2, 40.0), gop(40.5, 39.7, 40.0)]), Ok(()));
        let error = judged(&[gop(40.0, 40.2, 40.0), gop(40.0, 39.3, 40.0)]).unwrap_err();
        assert!(error.contains("counted, mixed pixels: 0.45 dB off"), "{error}");
        // The poses' mean counts, too.
        let mut one = gop(40.0, 40.0, 40.0);
        one.mean_db[3] += 0.4;
        assert!(judged(&[one]).unwrap_err().contains("counted, mixed pixels: 0.40 dB"));
        // Of another package.
        let error = judged(&[gop(42.0, 40.0, 40.0)]).unwrap_err();
        assert!(error.contains("2.00 dB off what it would count of this package"), "{error}");
        let text = table(&[gop(40.0, 40.2, 40.0)], 2);
        assert!(text.starts_with("1 GoPs, and 2 of which the player knows nothing"), "{text}");
        let lines = lines(&[gop(40.0, 40.2, 40.0)], &[7]).unwrap();
        assert!(lines.ends_with("{\"gop\":7}\n") && lines.lines().count() == 2, "{lines}");
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let other = [("fov_deg", json!([90.0, 90.0]))];
        let turned = |yaw: f64| json!([{ "at_s": 0.0, "yaw": yaw, "pitch": 0.0, "roll": 0.0 }]);
        for (text, why) in [
            (String::new(), "nothing was played"),
            ("gop,time_s\n".to_owned(), "line 1: expected"),
            (line(&[]) + "{}\n", "line 2: missing field `gop`"),
            (line(&[]) + &line(&other), "line 2: its viewport spans something else"),
            (line(&[("poses", json!([]))]), "line 1: it has no poses"),
            (line(&[("poses", turned(1e9))]), "a head is not turned by 1000000000"),
            (line(&[("fov_deg", json!([500.0, 90.0]))]), "500"),
            (line(&[("psnr_db", json!(null))]), "knows of no GoP"),
            (line(&[("shown", json!(vec![22; MAX_TILES + 1]))]), "a GoP has at most"),
        ] {
            let error = log(&text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
