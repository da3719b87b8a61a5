//! Packages streamed live over constant links, by scheduler and congestion control, beside their
//! evaluation and the oracle over what bulk data reached there.
//!
//! `cargo run --release -p weftline-sim --example live_links -- SEEDS HEADS PACKAGE…` takes packages as
//! `vr package` makes them, with 6 × 4 tiles, and heads of AVTrack360 as plain CSV, of which a package
//! gets those of the video of its name. A seed is another viewer, and another draw of the links; P(t) is
//! the others'. With `still` in place of SEEDS' first digit (`still3`) the head keeps the pose of its
//! tenth second, and the server knows it: then nothing but the transport tells a stream from its
//! evaluation. `scripts/live-links` makes packages and prints the table.
#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../tests/common/live.rs"]
mod live;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use live::{Case, Packaged, Queue, START, TILES, check};
use weftline_core::ByteCount;
use weftline_video::evaluate::{ConcealmentTable, SessionOutcome};
use weftline_video::geometry::{FieldOfView, Grid, Viewport};
use weftline_video::head::{Format, Label, Pose, TileProbabilities, Trace, read};
use weftline_video::rd::RdTable;

const LINKS: [[u64; 2]; 4] = [[1_200, 800], [2_500, 2_000], [8_000, 4_000], [30_000, 20_000]];
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// Ours, and those that they must not be below; `linux` is the kernel's MPTCP.
const SCHEDULERS: [&str; 4] = ["fbdt", "earliest", "min-rtt", "linux"];
const OURS: usize = 2;
/// What a package is not longer than, and what is left of it after the start.
const GOPS: u32 = 28;

/// One stream: its share of late tiles in per cent, the mean of its GoPs' PSNR, and for ours those of
/// its evaluation and of the oracle.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    late: f64,
    db: f64,
    told: f64,
    oracle: f64,
}

/// Everything of one draw: a package and a seed, over one pair of links with one control.
struct Draw {
    kbps: [u64; 2],
    control: &'static str,
    packaged: Arc<Packaged>,
    seed: u64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [seeds, heads, dirs @ ..] = &args[..] else { panic!("want SEEDS HEADS PACKAGE…") };
    let still = seeds.starts_with("still");
    let seeds: u64 = seeds.trim_start_matches("still").parse().expect("a number of seeds");
    let label = Label { viewer: "", video: "" };
    let text = fs::read_to_string(heads).expect("the file of heads");
    let traces = read(Format::Avtrack360, label, &text).expect("heads of AVTrack360");
    let mut draws = Vec::new();
    for dir in dirs {
        for seed in 1..=seeds {
            let packaged = Arc::new(packaged(Path::new(dir), &traces, seed, still));
            for kbps in LINKS {
                let draw = |control| Draw { kbps, control, packaged: Arc::clone(&packaged), seed };
                draws.extend(CONTROLS.map(draw));
            }
        }
    }
    let rows = run_all(&draws);
    println!(
        "| Mb/s | control | {} | evaluated `fbdt`, `earliest` | oracle `fbdt`, `earliest` | \
         ours − best other, worst draw |\n|---|---|{}---|---|---|",
        SCHEDULERS.map(|name| format!("`{name}`: late %, dB")).join(" | "),
        "---|".repeat(SCHEDULERS.len())
    );
    for kbps in LINKS {
        for control in CONTROLS {
            let chosen = draws.iter().zip(&rows);
            let chosen = chosen.filter(|(draw, _)| draw.kbps == kbps && draw.control == control);
            let chosen: Vec<&[Row; 4]> = chosen.map(|(_, rows)| rows).collect();
            println!("{}", line(kbps, control, &chosen));
        }
    }
}

/// A line of the table: means over the draws.
fn line(kbps: [u64; 2], control: &str, draws: &[&[Row; 4]]) -> String {
    let mean = |value: &dyn Fn(&[Row; 4]) -> f64| {
        draws.iter().map(|rows| value(rows)).sum::<f64>() / draws.len() as f64
    };
    let of = |at: usize| {
        let worst = draws.iter().map(|rows| rows[at].late).fold(0.0, f64::max);
        let (late, db) = (mean(&|rows| rows[at].late), mean(&|rows| rows[at].db));
        format!("{late:.2} (≤ {worst:.1}), {db:.2}")
    };
    let cells: Vec<String> = (0..SCHEDULERS.len()).map(of).collect();
    let told: Vec<String> = (0..OURS).map(|at| format!("{:.2}", mean(&|r| r[at].told))).collect();
    let oracle: Vec<String> =
        (0..OURS).map(|at| format!("{:.2}", mean(&|r| r[at].oracle))).collect();
    let ahead = |at: usize| {
        let gain = |rows: &[Row; 4]| {
            rows[at].db - rows[OURS..].iter().map(|row| row.db).fold(f64::MIN, f64::max)
        };
        let worst = draws.iter().map(|rows| gain(rows)).fold(f64::MAX, f64::min);
        format!("{:+.2} (≥ {worst:+.2})", mean(&gain))
    };
    let ahead: Vec<String> = (0..OURS).map(ahead).collect();
    let [one, two] = kbps.map(|kbps| kbps as f64 / 1e3);
    format!(
        "| {one} + {two} | {control} | {} | {} | {} | {} |",
        cells.join(" | "),
        told.join(", "),
        oracle.join(", "),
        ahead.join(", ")
    )
}

/// All draws on all cores, in their order.
fn run_all(draws: &[Draw]) -> Vec<[Row; 4]> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![[Row::default(); 4]; draws.len()]));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(draw) = draws.get(at) else { return };
                    let rows = std::array::from_fn(|scheduler| draw.run(scheduler));
                    done.lock().expect("no thread has panicked")[at] = rows;
                }
            });
        }
    });
    done.into_inner().expect("no thread has panicked")
}

impl Draw {
    fn run(&self, scheduler: usize) -> Row {
        let case = Case {
            kbps: self.kbps.to_vec(),
            queue: Queue::Bdps(2.0),
            scheduler: SCHEDULERS[scheduler].to_owned(),
            congestion: self.control.to_owned(),
            gops: GOPS.min(self.packaged.table.gops().len() as u32),
            packaged: Some(Arc::clone(&self.packaged)),
            seed: self.seed,
            ..Case::default()
        };
        let outcome = case.run();
        check(&outcome, case.gops);
        let shown = || outcome.gops.iter().skip(START);
        let (mut late, mut sent) = (0, 0);
        for gop in shown() {
            (late, sent) = (late + gop.late, sent + TILES - gop.dropped);
        }
        let db: f64 = shown().map(|gop| gop.psnr_db().expect("heads were reported")).sum();
        let told = |scheme| match scheduler < OURS {
            true => mean_db(&case.evaluate_as(scheme)),
            false => 0.0,
        };
        Row {
            late: 100.0 * late as f64 / sent.max(1) as f64,
            db: db / shown().count() as f64,
            told: told("ows"),
            oracle: told("oracle"),
        }
    }
}

fn mean_db(outcome: &SessionOutcome) -> f64 {
    let gops: Vec<f64> = outcome.gops.iter().skip(START).map(|gop| gop.psnr_db()).collect();
    gops.iter().sum::<f64>() / gops.len() as f64
}

/// A package, as viewports of mixed pixels show it, with one viewer of its video and P(t) of the others.
fn packaged(dir: &Path, traces: &[Trace], seed: u64, still: bool) -> Packaged {
    let read = |name: &str| {
        let file = dir.join(name);
        fs::read_to_string(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()))
    };
    let table = RdTable::parse(&read("rd.csv")).expect("a table of the packager");
    let concealments = ConcealmentTable::parse(&read("miss.csv")).expect("a table of the packager");
    let video = dir.file_name().unwrap_or_default().to_string_lossy();
    let of_video: Vec<&Trace> = traces.iter().filter(|trace| trace.video() == video).collect();
    assert!(of_video.len() > 1, "no heads of the video {video}");
    // Seeds are neighbours no more than viewers are.
    let watches = seed as usize * 7 % of_video.len();
    let others = of_video.iter().enumerate().filter(|(index, _)| *index != watches);
    let others: Vec<&Trace> = others.map(|(_, trace)| *trace).collect();
    let head = match still {
        true => keeps_still(of_video[watches]),
        false => of_video[watches].clone(),
    };
    let fov = FieldOfView::default();
    let measure = |traces: &[&Trace]| {
        let grid = Grid::new(6, 4).expect("a grid");
        TileProbabilities::measure(traces.iter().copied(), grid, &Viewport::new(fov), SECOND)
            .expect("as long as a GoP")
    };
    let prior = match still {
        true => measure(&[&head]),
        false => measure(&others).smoothed(fov, 1.0, others.len()),
    };
    Packaged {
        table: table.mixed().expect("measured"),
        concealments,
        init: init_of(dir),
        prior,
        head,
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// A head that has the other's pose at its tenth second, always.
fn keeps_still(trace: &Trace) -> Trace {
    let orientation = trace.at(SECOND * 10);
    let pose = |half| Pose { at: SECOND / 2 * half, orientation };
    let poses = (0..=2 * GOPS + 2).map(pose).collect();
    Trace::new(trace.viewer(), trace.video(), poses).expect("poses in their order")
}

/// The longest of what the first tile's decoders are set up from.
fn init_of(dir: &Path) -> ByteCount {
    let tiles = fs::read_dir(dir.join("tiles")).expect("the package's tiles");
    let length = |dir: PathBuf| fs::metadata(dir.join("init.mp4")).map_or(0, |file| file.len());
    let lengths = tiles.filter_map(Result::ok).map(|entry| length(entry.path()));
    ByteCount::new(lengths.max().expect("a tile"))
}
