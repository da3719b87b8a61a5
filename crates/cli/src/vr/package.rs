//! `weftline vr package`: a source as tiles at a ladder of qualities.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use clap::Args;
use weftline_video::geometry::Grid;
use weftline_vr::package::{MANIFEST, Package, PackageOptions, TABLE, package};

use super::progress::Progress;
use super::stop_on_signals;
use super::synth::parse_size;
use crate::failure::Failure;
use crate::output;

/// Options of `vr package`.
#[derive(Debug, Args)]
pub(crate) struct PackageArgs {
    /// An equirectangular video that ffmpeg reads, twice as wide as high, at a constant rate
    source: PathBuf,
    /// Where to put the package; one that was begun there is gone on with
    #[arg(short, long, value_name = "DIR", alias = "output")]
    out: PathBuf,
    /// Columns and rows of tiles
    #[arg(long, value_name = "CxR", default_value = "6x4")]
    grid: Grid,
    /// The QPs of the ladder, with commas between them
    #[arg(long, value_name = "QP,…", value_delimiter = ',', default_value = "22,27,32,37,42")]
    qp: Vec<u8>,
    /// Rates of the whole frame in Mb/s instead: for each the QP that comes nearest on average
    #[arg(long, value_name = "R,…", value_delimiter = ',', conflicts_with = "qp")]
    ladder_mbps: Vec<f64>,
    /// The QPs at which the whole sphere is encoded in one picture, too, for players that know nothing of
    /// tiles
    #[arg(long, value_name = "QP,…", value_delimiter = ',')]
    whole: Vec<u8>,
    /// How thorough x264 is, from ultrafast to veryslow
    #[arg(long, value_name = "NAME", default_value = "medium")]
    preset: String,
    /// How long a GoP is
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    gop: f64,
    /// Scale the source to this size first
    #[arg(long, value_name = "WxH")]
    size: Option<String>,
    /// Leave out the source's sound
    #[arg(long)]
    no_sound: bool,
    /// Round pixels of more than 8 bits
    #[arg(long)]
    to_8_bits: bool,
    /// How many ffmpegs at once [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

/// Packages a source.
pub(super) fn run(args: &PackageArgs) -> Result<(), Failure> {
    let options = PackageOptions {
        grid: args.grid,
        qps: args.qp.clone(),
        preset: args.preset.clone(),
        gop_s: args.gop,
        size: args.size.as_deref().map(parse_size).transpose()?,
        mbps: args.ladder_mbps.clone(),
        no_sound: args.no_sound,
        to_8_bits: args.to_8_bits,
        whole: args.whole.clone(),
    };
    let jobs = args.jobs.or(available_parallelism().ok()).map_or(1, NonZero::get);
    let stop = stop_on_signals()?;
    let mut progress: Option<Progress> = None;
    let began = Instant::now();
    let package = package(&args.source, &args.out, &options, jobs, &stop, &mut |packaged| {
        let (done, before) = (u64::from(packaged.done), u64::from(packaged.before));
        let bar = progress.get_or_insert_with(|| {
            if before > 0 {
                let (dir, total) = (args.out.display(), packaged.total);
                output::remark(format_args!("{dir}: {before} of {total} GoPs are there already"));
            }
            Progress::new("GoPs", u64::from(packaged.total), before)
        });
        bar.set(done);
    })?;
    drop(progress);
    let took = began.elapsed().as_secs_f64();
    output::print(&summary(&args.out, &package, took))
}

/// What the package holds.
fn summary(dir: &Path, package: &Package, took_s: f64) -> String {
    let description = package.description();
    let tiles = description.grid().tiles();
    let (frame, grid) = (description.frame(), description.grid());
    let mut text = format!(
        "{}: {} GoPs of {frame} in {grid} tiles, {took_s:.1} s\n",
        dir.display(),
        description.gops()
    );
    // The finest first, as QPs ascend.
    let mut asked = description.mbps().to_vec();
    asked.sort_by(|one, other| other.total_cmp(one));
    let mut asked = asked.into_iter();
    for &qp in description.qps() {
        let gops = package.table().gops().iter();
        let rungs = gops.flat_map(|gop| gop.tiles().iter().filter_map(|tile| tile.at_qp(qp)));
        let (bytes, ws_mse) = rungs.fold((0, 0.0), |(bytes, ws_mse), rung| {
            (bytes + rung.bytes.as_u64(), ws_mse + rung.ws_mse)
        });
        let mbps = (bytes * 8) as f64 / package.duration().as_secs_f64() / 1e6;
        let asked = asked.next().map_or_else(String::new, |mbps| format!(" ({mbps} asked for)"));
        let quality = quality(ws_mse / f64::from(description.gops()));
        text += &format!("QP {qp:2}: {mbps:8.2} Mb/s{asked} in {tiles} tiles, {quality}\n");
    }
    for (qp, bytes, ws_mse) in package.whole() {
        let mbps = (bytes.as_u64() * 8) as f64 / package.duration().as_secs_f64() / 1e6;
        text += &format!("QP {qp:2}: {mbps:8.2} Mb/s in one picture, {}\n", quality(ws_mse));
    }
    if let Some(sound) = description.sound() {
        let channels = if sound.channels == 1 { "one channel" } else { "two channels" };
        text += &format!("sound: AAC, {channels} at {} Hz\n", sound.rate_hz);
    }
    let at = |file: &str| dir.join(file).display().to_string();
    text + &format!("{}\n{}\n", at(TABLE), at(MANIFEST))
}

/// What a WS-MSE is called.
fn quality(ws_mse: f64) -> String {
    let psnr_db = weftline_video::metric::psnr_db(ws_mse);
    // Plain pictures may be encoded without any error, which has no decibels.
    match psnr_db.is_finite() {
        true => format!("WS-PSNR {psnr_db:.2} dB"),
        false => "without any error".to_owned(),
    }
}
