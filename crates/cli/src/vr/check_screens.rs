//! `weftline vr check --screens`: pictures that a browser has drawn against the same drawn here.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use serde_json::json;
use weftline_video::geometry::Orientation;
use weftline_vr::Ffmpeg;
use weftline_vr::package::Package;
use weftline_vr::screens::{Compared, Screen, compare};

use crate::failure::Failure;
use crate::output;

/// The most that one picture, and all on average, may be off, dB.
const ONE_DB: f64 = 0.3;
const MEAN_DB: f64 = 0.15;
/// The longest description of a picture: that of the most tiles a frame may have.
const MAX_BYTES: u64 = 256 << 10;

/// What a page says of a picture that it drew, in the file beside the picture.
#[derive(Debug, Deserialize)]
struct Said {
    gop: u32,
    picture: u32,
    qps: Vec<u8>,
    yaw: f64,
    pitch: f64,
    roll: f64,
    fov: f64,
    width: u32,
    height: u32,
}

/// Compares the pictures in `dir`.
///
/// # Errors
/// When there is none, one cannot be read, or they are off.
pub(super) fn run(
    dir: &Path,
    package: &Path,
    source: Option<&Path>,
    ffmpeg: &Ffmpeg,
    json: bool,
) -> Result<(), Failure> {
    let screens = load(dir)?;
    let package = Package::open(package)?;
    // What other bytes decode to says nothing of the package.
    package.verify()?;
    let source = package.source(ffmpeg, source)?;
    let compared = compare(ffmpeg, &package, &source, &screens)?;
    output::print(&if json { lines(&screens, &compared)? } else { table(&screens, &compared) })?;
    judge(&screens, &compared)
}

/// The pictures that are described in `dir`, in the order of their names.
fn load(dir: &Path) -> Result<Vec<Screen>, Failure> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::failed(format!("--screens: {}: {error}", path.display()))
    };
    let entries = std::fs::read_dir(dir).map_err(|error| wrong(dir, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| wrong(dir, &error))?.path();
        if path.extension().is_some_and(|end| end == "json") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(wrong(
            dir,
            &"no picture is described in it; give a directory of NAME.png and NAME.json",
        ));
    }
    files.into_iter().map(|file| screen(&file).map_err(|error| wrong(&file, &error))).collect()
}

fn screen(file: &Path) -> Result<Screen, String> {
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    opened.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("it is longer than {MAX_BYTES} bytes"));
    }
    let said: Said = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let orientation = Orientation::from_degrees(said.yaw, said.pitch, said.roll);
    let file: PathBuf = file.with_extension("png");
    let Said { gop, picture, qps, fov: fov_deg, width, height, .. } = said;
    Ok(Screen { file, gop, picture, qps, orientation, fov_deg, width, height })
}

fn name(screen: &Screen) -> String {
    screen.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// By how much it is off; both may be the source to the bit, and then infinite.
fn off(compared: &Compared) -> f64 {
    let Compared { shown_db, drawn_db, .. } = compared;
    if shown_db == drawn_db { 0.0 } else { shown_db - drawn_db }
}

fn mean(compared: &[Compared]) -> f64 {
    compared.iter().map(|one| off(one).abs()).sum::<f64>() / compared.len() as f64
}

fn judge(screens: &[Screen], compared: &[Compared]) -> Result<(), Failure> {
    let pairs = || screens.iter().zip(compared);
    let worst = pairs().max_by(|a, b| off(a.1).abs().total_cmp(&off(b.1).abs()));
    if let Some((screen, one)) = worst
        && off(one).abs() > ONE_DB
    {
        let (name, off) = (name(screen), off(one));
        return Err(Failure::failed(format!(
            "picture {name} is {off:.2} dB off, more than {ONE_DB}"
        )));
    }
    match mean(compared) {
        mean if mean <= MEAN_DB => Ok(()),
        mean => Err(Failure::failed(format!(
            "the pictures are {mean:.2} dB off on average, more than {MEAN_DB}"
        ))),
    }
}

fn table(screens: &[Screen], compared: &[Compared]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["picture", "GoP", "shown dB", "drawn here dB", "off dB", "apart dB"]);
    for (screen, one) in screens.iter().zip(compared) {
        let values = [one.shown_db, one.drawn_db, off(one), one.apart_db];
        let mut row = vec![name(screen), screen.gop.to_string()];
        row.extend(values.map(|value| format!("{value:.2}")));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let (count, mean) = (compared.len(), mean(compared));
    format!("PSNR of the viewport, {count} pictures, {mean:.3} dB off on average\n{table}\n")
}

fn lines(screens: &[Screen], compared: &[Compared]) -> Result<String, Failure> {
    let mut text = String::new();
    for (screen, one) in screens.iter().zip(compared) {
        let value = json!({
            "picture": name(screen),
            "gop": screen.gop,
            "shown_psnr_db": one.shown_db,
            "drawn_psnr_db": one.drawn_db,
            "apart_psnr_db": one.apart_db,
        });
        text += &serde_json::to_string(&value).map_err(Failure::failed)?;
        text.push('\n');
    }
    Ok(text)
}
