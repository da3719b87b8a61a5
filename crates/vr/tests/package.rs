//! Packages read back: what decodes from them against the source, and the table's distortions
//! against ffmpeg's own measuring.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::ffmpeg;
use weftline_video::geometry::{FrameSize, Grid};
use weftline_video::metric::{Plane, SphereWeights};
use weftline_vr::package::{Package, PackageOptions, package};
use weftline_vr::synth::{Picture, Synth, write};
use weftline_vr::{DecodedGop, Ffmpeg, FrameRate, Stop};

const WIDTH: u32 = 192;
const FPS: u32 = 6;

fn scene() -> Synth {
    let size = FrameSize::new(WIDTH, WIDTH / 2).unwrap();
    Synth::new("forest", 5, size, FrameRate::new(FPS, 1).unwrap()).unwrap()
}

/// The scene as H.264 with reordered pictures and GoPs of another length: seeking has to be exact.
fn make(dir: &Path, preset: &str) -> Package {
    let stop = Stop::default();
    let raw = dir.join("scene.y4m");
    write(&scene(), 2 * FPS, Some(&raw), &stop, &mut |_| {}).unwrap();
    let args = "-v error -nostdin -y -i scene.y4m -c:v libx264 -qp 0 -bf 2 -g 9 scene.mp4";
    let status = Command::new("ffmpeg").args(args.split(' ')).current_dir(dir).status().unwrap();
    assert!(status.success());
    let options = PackageOptions {
        grid: Grid::new(4, 2).unwrap(),
        qps: vec![24, 34],
        preset: preset.to_owned(),
        ..PackageOptions::default()
    };
    package(&dir.join("scene.mp4"), &dir.join("pkg"), &options, 2, &stop, &mut |_| {}).unwrap()
}

/// What is decoded from the package, compared with the pictures as they were drawn, gives the
/// table's distortions: seeking, cutting, encoding, taking apart and decoding lose nothing else.
#[test]
fn the_table_says_what_decoding_gives() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for preset in ["ultrafast", "medium"] {
        let dir = dir.path().join(preset);
        fs::create_dir(&dir).unwrap();
        let package = make(&dir, preset);
        let (frame, grid) = (package.description().frame(), package.description().grid());
        let weights = SphereWeights::new(frame);
        // Every second tile is coarse.
        let qps: Vec<u8> = (0..grid.tiles()).map(|tile| [24, 34][tile % 2]).collect();
        let found = Ffmpeg::find(&Stop::default()).unwrap();
        for gop in 0..2 {
            let decoded = DecodedGop::decode(&found, &package, gop, &qps).unwrap();
            assert_eq!(decoded.len(), FPS as usize);
            let mut sums = vec![0.0; grid.tiles()];
            for index in 0..FPS {
                let mut picture = Picture::new(frame);
                scene().draw(gop * FPS + index, &mut picture);
                let [luma, _, _] = picture.planes();
                let original = Plane::new(luma, WIDTH, WIDTH / 2, WIDTH as usize).unwrap();
                let decoded = decoded.picture(index as usize);
                for (tile, sum) in sums.iter_mut().enumerate() {
                    let rect = grid.rect(tile, frame);
                    let (x, y) = (original.crop(rect).unwrap(), decoded.crop(rect).unwrap());
                    *sum += weights.error_sum(rect.top, x, y).unwrap();
                }
            }
            for (tile, sum) in sums.iter().enumerate() {
                let ws_mse = sum / (weights.total() * f64::from(FPS));
                let table = &package.table().gops()[gop as usize].tiles()[tile];
                let told = table.at_qp(qps[tile]).unwrap().ws_mse;
                assert!((ws_mse - told).abs() < 1e-9 * told, "tile {tile}: {ws_mse}, told {told}");
            }
        }
    }
}

/// The plain mean squared error of a tile is that of ffmpeg's psnr filter.
#[test]
fn on_equal_weights_we_measure_what_ffmpeg_measures() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let package = make(dir.path(), "ultrafast");
    let (tile, qp, gop) = (5, 34, 1_u32);
    let segment = [package.init(tile, qp), package.segment(tile, qp, gop)];
    let bytes: Vec<u8> = segment.iter().flat_map(|file| fs::read(file).unwrap()).collect();
    fs::write(dir.path().join("tile.mp4"), bytes).unwrap();
    let rect = package.description().grid().rect(tile, package.description().frame());
    let (w, h, x, y) = (rect.width, rect.height, rect.left, rect.top);
    let graph = format!(
        "[0:v]settb=1/{FPS},setpts=N[a];\
         [1:v]trim=start_frame={},crop={w}:{h}:{x}:{y},settb=1/{FPS},setpts=N[b];\
         [a][b]psnr=stats_file=psnr.log:shortest=1:repeatlast=0",
        gop * FPS
    );
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-i", "tile.mp4", "-i", "scene.y4m", "-lavfi", &graph])
        .args(["-f", "null", "-"])
        .current_dir(dir.path())
        .status()
        .unwrap();
    assert!(status.success());
    let log = fs::read_to_string(dir.path().join("psnr.log")).unwrap();
    let theirs: Vec<f64> = log
        .split_whitespace()
        .filter_map(|field| field.strip_prefix("mse_y:"))
        .map(|mse| mse.parse().unwrap())
        .collect();
    let found = Ffmpeg::find(&Stop::default()).unwrap();
    let decoded = DecodedGop::decode(&found, &package, gop, &[qp; 8]).unwrap();
    let mut ours = Vec::new();
    for index in 0..FPS {
        let mut picture = Picture::new(package.description().frame());
        scene().draw(gop * FPS + index, &mut picture);
        let original = Plane::new(picture.planes()[0], WIDTH, WIDTH / 2, WIDTH as usize).unwrap();
        let (a, b) =
            (original.crop(rect).unwrap(), decoded.picture(index as usize).crop(rect).unwrap());
        let rows = (0..h).flat_map(|row| a.row(row).iter().zip(b.row(row)));
        let sum: f64 = rows.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
        ours.push(sum / f64::from(w * h));
    }
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        // It writes two decimals.
        assert!((ours - theirs).abs() <= 0.0051, "{ours:?} {theirs:?}");
    }
}

#[test]
fn a_package_that_was_cut_is_refused() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let package = make(dir.path(), "ultrafast");
    let place = package.dir().to_owned();
    let refused = |words: &str| {
        let error = Package::open(&place).expect_err("it is not whole").to_string();
        assert!(error.contains(words) && error.contains("same weftline vr package"), "{error}");
    };
    let segment = package.segment(3, 24, 1);
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 1]).unwrap();
    refused("tiles/t003q24/000001.m4s has");
    fs::remove_file(&segment).unwrap();
    refused("tiles/t003q24/000001.m4s is missing");
    fs::write(&segment, &bytes).unwrap();
    Package::open(&place).unwrap();
    // No more is believed than is there.
    let about = place.join("package.json");
    let text = fs::read_to_string(&about).unwrap();
    let (before, after) = text.split_once("\"gops\": ").unwrap();
    let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    fs::write(&about, format!("{before}\"gops\": 4000000000{after}")).unwrap();
    refused("rd.csv and the record of GoP 0 differ");
    fs::write(&about, &text).unwrap();
    fs::remove_file(place.join("gops/000000.json")).unwrap();
    refused("the record of GoP 0 is missing");
    // Whole in length, but not what was encoded.
    fs::write(&segment, vec![0; bytes.len()]).unwrap();
    let found = Ffmpeg::find(&Stop::default()).unwrap();
    let error = DecodedGop::decode(&found, &package, 1, &[24; 8]).err().unwrap();
    assert!(error.to_string().contains("to decode GoP 1"), "{error}");
    assert!(Package::open(dir.path()).unwrap_err().to_string().contains("no package.json"));
}
