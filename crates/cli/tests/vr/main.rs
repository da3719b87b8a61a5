//! `weftline vr` as it is used: scenes, packages, and what goes wrong with them. Without ffmpeg
//! most of it is skipped; in CI it must be there.
#![allow(clippy::unwrap_used, reason = "test code")]

mod again;
#[path = "../common/mod.rs"]
mod common;
mod ladder;
mod scenes;
mod sound;
mod sources;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::until;
use common::vr::{Finished, demuxes_dash, fails, ffmpeg, finish};
use weftline_video::rd::RdTable;

const WEFTLINE: &str = env!("CARGO_BIN_EXE_weftline");

/// Runs `weftline vr` with arguments separated by spaces, in `dir`.
fn vr(dir: &Path, args: &str) -> Finished {
    finish(Command::new(WEFTLINE).arg("vr").args(args.split(' ')).current_dir(dir))
}

fn ff(dir: &Path, args: &str) {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]).args(args.split(' ')).current_dir(dir);
    finish(&mut command).unwrap();
}

/// A directory with a scene of 8 pictures a second in it.
fn with_scene(seconds: f64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let size = "--size 192x96 --fps 8";
    vr(dir.path(), &format!("synth plaza -o plaza.y4m {size} --seconds {seconds}")).unwrap();
    dir
}

const QUICK: &str = "--preset ultrafast --qp 22,37";

/// All files of a package but what a lock or a crash may leave, with their content.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => files
                    .push((path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap())),
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_scene_becomes_a_package_with_table_and_manifest() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.3);
    let said = vr(dir.path(), &format!("package plaza.y4m -o pkg {QUICK}")).unwrap();
    assert!(said.starts_with("pkg: 2 GoPs of 192x96 in 6x4 tiles"), "{said}");
    let package = dir.path().join("pkg");
    let table = RdTable::parse(&fs::read_to_string(package.join("rd.csv")).unwrap()).unwrap();
    assert_eq!((table.columns(), table.rows(), table.gops().len()), (6, 4, 2));
    for (gop, tiles) in table.gops().iter().enumerate() {
        let mut sums = [(0, 0.0); 2];
        for (tile, rungs) in tiles.tiles().iter().enumerate() {
            for (rung, sum) in rungs.rungs().iter().zip(&mut sums) {
                let file = format!("tiles/t{tile:03}q{}/{gop:06}.m4s", rung.qp);
                let length = fs::metadata(package.join(&file)).unwrap().len();
                assert_eq!(length, rung.bytes.as_u64(), "{file}");
                *sum = (sum.0 + length, sum.1 + rung.ws_mse);
            }
        }
        let [fine, coarse] = sums;
        assert!(fine.0 > coarse.0 && fine.1 < coarse.1, "{sums:?}");
        // QP 22 has a step of 8, QP 37 one of 44: at most about step²/12, and not nothing.
        assert!((0.5..12.0).contains(&fine.1) && (5.0..200.0).contains(&coarse.1), "{sums:?}");
    }
    let manifest = fs::read_to_string(package.join("manifest.mpd")).unwrap();
    assert_eq!(manifest.matches("urn:mpeg:dash:srd:2014").count(), 24);
    assert!(manifest.contains("value=\"0,160,72,32,24,192,96\""), "{manifest}");
    assert_eq!(manifest.matches("<Representation ").count(), 48);
    assert_eq!(manifest.matches("codecs=\"avc1.").count(), 48);
    assert_eq!(content(&package).len(), 48 * 3 + 6, "nothing is left over");
}

/// What names the encoder in a segment, such as `x264 - core 164 r3095 baee400`.
fn encoder(segment: &[u8]) -> String {
    let at = segment.windows(7).position(|window| window == b"x264 - ").unwrap();
    let name: Vec<u8> = segment[at..].iter().copied().take(60).collect();
    let name = String::from_utf8_lossy(&name);
    name.split(" - H.264").next().unwrap().to_owned()
}

/// A tiny package, to the byte: its tables, its manifest, and a digest of all segments. Another
/// x264 makes others, which is said; `WEFTLINE_BLESS=1` writes what is found as what is right.
#[test]
fn a_tiny_package_is_the_golden_one() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    vr(dir.path(), &format!("package plaza.y4m -o pkg --gop 0.5 --grid 4x2 {QUICK}")).unwrap();
    let package = dir.path().join("pkg");
    let read = |name: &str| fs::read_to_string(package.join(name)).unwrap();
    let first = fs::read(package.join("tiles/t000q22/000000.m4s")).unwrap();
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for (path, bytes) in content(&package) {
        if path.extension().is_some_and(|end| end == "m4s" || end == "mp4") {
            // FNV-1a: the standard library promises no digest that stays the same.
            digest = bytes.iter().fold(digest, |digest, byte| {
                (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        }
    }
    let (table, manifest) = (read("rd.csv"), read("manifest.mpd"));
    let found = format!("{}\nsegments {digest:016x}\n\n{table}\n{manifest}", encoder(&first));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/package.txt");
    if std::env::var_os("WEFTLINE_BLESS").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    let wanted = fs::read_to_string(&golden).unwrap();
    if found.lines().next() != wanted.lines().next() {
        assert!(std::env::var_os("CI").is_none(), "in CI x264 is the one of the golden package");
        println!("not compared: the golden package was made by {}", wanted.lines().next().unwrap());
        return;
    }
    assert!(found == wanted, "{found}");
}

/// A player's demuxer reads the manifest and finds each tile's pictures where they belong.
#[test]
fn the_manifest_plays() {
    if !ffmpeg() || !demuxes_dash() {
        return;
    }
    let dir = with_scene(2.0);
    // This preset reorders pictures.
    let options = "--grid 2x1 --qp 30 --preset medium";
    vr(dir.path(), &format!("package plaza.y4m -o pkg {options}")).unwrap();
    let mut probe = Command::new("ffprobe");
    probe.args("-v error -count_frames -show_entries stream=width,nb_read_frames".split(' '));
    probe.args(["-of", "csv=p=0"]).arg(dir.path().join("pkg/manifest.mpd"));
    // It asks for one segment more than there are, and complains; what it counted stands.
    let output = probe.stdin(Stdio::null()).output().unwrap();
    let (said, wrong) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    let streams: Vec<&str> = said.lines().filter(|line| line.starts_with("96,")).collect();
    assert!(streams.len() >= 2, "{said}{wrong}");
    assert!(streams.iter().all(|line| line.ends_with(",16")), "{said}");
}

/// One command line and one process have no room for all of their encoders.
#[test]
fn eight_hundred_tiles_are_packaged() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    vr(at, "synth rink -o rink.y4m --size 640x320 --fps 4 --seconds 0.5").unwrap();
    let said = vr(at, &format!("package rink.y4m -o pkg --gop 0.5 --grid 40x20 {QUICK}")).unwrap();
    assert!(said.starts_with("pkg: 1 GoPs of 640x320 in 40x20 tiles"), "{said}");
    assert_eq!(fs::read_dir(at.join("pkg/tiles")).unwrap().count(), 800 * 2);
}

#[test]
fn without_ffmpeg_or_its_encoder_it_says_what_to_install() {
    let dir = with_scene(1.0);
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let package = || {
        let mut command = Command::new(WEFTLINE);
        command.args("vr package plaza.y4m -o pkg".split(' ')).current_dir(dir.path());
        finish(command.env("PATH", &bin))
    };
    fails(package(), 3, &["ffmpeg is not installed", "apt-get install ffmpeg"]);
    let script = "#!/bin/sh\necho 'ffmpeg version 7.0-small' >&2\necho ' V....D mpeg4  MPEG-4'\n";
    fs::write(bin.join("ffmpeg"), script).unwrap();
    fs::set_permissions(bin.join("ffmpeg"), fs::Permissions::from_mode(0o755)).unwrap();
    fails(package(), 3, &["7.0-small", "no libx264 encoder"]);
    assert!(!dir.path().join("pkg").exists());
}
