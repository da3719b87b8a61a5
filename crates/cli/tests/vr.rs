//! `weftline vr` as it is used: scenes, packages, and what goes wrong with them. Without ffmpeg
//! most of it is skipped; in CI it must be there.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::vr::{Finished, fails, ffmpeg, finish};
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
        println!("not compared: the golden package was made by {}", wanted.lines().next().unwrap());
        return;
    }
    assert!(found == wanted, "{found}");
}

/// A player's demuxer reads the manifest and finds each tile's pictures where they belong.
#[test]
fn the_manifest_plays() {
    if !ffmpeg() {
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
    if wrong.contains("Invalid data") && said.is_empty() {
        println!("skipped: this ffmpeg has no DASH demuxer");
        return;
    }
    let streams: Vec<&str> = said.lines().filter(|line| line.starts_with("96,")).collect();
    assert!(streams.len() >= 2, "{said}{wrong}");
    assert!(streams.iter().all(|line| line.ends_with(",16")), "{said}");
}

#[test]
fn what_was_cut_or_lost_is_made_again_to_the_byte() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let command = format!("package plaza.y4m -o pkg {QUICK} --grid 3x2 --whole 30 --jobs 2");
    vr(dir.path(), &command).unwrap();
    let package = dir.path().join("pkg");
    let whole = content(&package);
    // As a crash leaves it: no record, a stale work directory, nothing concluded.
    fs::remove_file(package.join("gops/000001.json")).unwrap();
    fs::create_dir(package.join(".work-1")).unwrap();
    fs::write(package.join(".work-1/source.yuv"), b"half").unwrap();
    // As a failing disk leaves it.
    fs::write(package.join("tiles/t004q37/000002.m4s"), b"cut").unwrap();
    fs::remove_file(package.join("tiles/t000q22/init.mp4")).unwrap();
    fs::remove_file(package.join("whole/q30/000000.m4s")).unwrap();
    vr(dir.path(), &command).unwrap();
    assert!(content(&package) == whole, "the same package again");
}

/// A search path with an ffmpeg that does not come to an end with the fourth GoP while its parent lives.
fn stuck_at_the_last(dir: &Path) -> String {
    let path = std::env::var("PATH").unwrap();
    let real = path.split(':').map(|dir| Path::new(dir).join("ffmpeg")).find(|file| file.is_file());
    let script = format!(
        "#!/bin/sh\ncase \"$PWD\" in\n*/000003) while kill -0 $PPID; do sleep 0.1; done; exit 1 ;;\nesac\n\
         exec {} \"$@\"\n",
        real.unwrap().display()
    );
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("ffmpeg"), script).unwrap();
    fs::set_permissions(bin.join("ffmpeg"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", bin.display())
}

#[test]
fn a_package_that_was_killed_is_gone_on_with() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(4.0);
    let args = format!("vr package plaza.y4m {QUICK} --grid 3x2 --whole 30 --jobs 1 -o");
    let args: Vec<&str> = args.split(' ').collect();
    let mut child = Command::new(WEFTLINE)
        .args(&args)
        .arg("pkg")
        .current_dir(dir.path())
        .env("PATH", stuck_at_the_last(dir.path()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let package = dir.path().join("pkg");
    while !package.join("gops/000000.json").is_file() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its first GoP");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let first = fs::metadata(package.join("tiles/t000q22/000000.m4s")).unwrap();
    assert!(!package.join("gops/000003.json").exists(), "it was killed too late to test anything");
    for out in ["pkg", "fresh"] {
        finish(Command::new(WEFTLINE).args(&args).arg(out).current_dir(dir.path())).unwrap();
    }
    let again = fs::metadata(package.join("tiles/t000q22/000000.m4s")).unwrap();
    assert_eq!(first.modified().unwrap(), again.modified().unwrap(), "what was done is kept");
    assert!(content(&package) == content(&dir.path().join("fresh")));
}

#[test]
fn sources_that_cannot_be_packaged_are_refused() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    let at = dir.path();
    let package =
        |source: &str, more: &str| vr(at, format!("package {source} -o pkg {more}").trim());
    fails(package("none.mp4", ""), 1, &["none.mp4", "No such file"]);
    fs::write(at.join("text.mp4"), "no video").unwrap();
    fails(package("text.mp4", ""), 1, &["text.mp4", "ffmpeg cannot read it"]);
    ff(at, "-i plaza.y4m -vf crop=160:90 -c:v ffv1 wide.mkv");
    fails(package("wide.mkv", ""), 1, &["wide.mkv", "twice as wide", "--size"]);
    ff(at, "-i plaza.y4m -vf scale=191:95 -pix_fmt yuv444p -c:v ffv1 odd.mkv");
    fails(package("odd.mkv", ""), 1, &["odd.mkv", "even"]);
    // Pictures 3 and 4 are left out.
    ff(at, "-i plaza.y4m -vf select='not(between(n,3,4))' -fps_mode vfr -c:v ffv1 vfr.mkv");
    fails(package("vfr.mkv", ""), 1, &["vfr.mkv", "constant rate", "fps=30"]);
    // Sound and bits are not lost without a word.
    ff(at, "-i plaza.y4m -f lavfi -i sine=duration=1 -c:v ffv1 -c:a aac -shortest loud.mkv");
    ff(at, "-i loud.mkv -map 0 -map 0:a -c copy two.mkv");
    fails(package("two.mkv", ""), 1, &["two.mkv", "2 tracks of sound (aac, aac)", "--no-sound"]);
    ff(at, "-i loud.mkv -c:v copy -ac 6 -c:a flac around.mkv");
    fails(package("around.mkv", ""), 1, &["around.mkv", "6 channels (flac)", "-ac 2"]);
    ff(at, "-i plaza.y4m -pix_fmt yuv420p10le -c:v ffv1 deep.mkv");
    fails(package("deep.mkv", ""), 1, &["deep.mkv", "8 bits (yuv420p10le)", "--to-8-bits"]);
    // Matroska says in its head how long it is, and is read as far as it goes.
    let whole = fs::read(at.join("loud.mkv")).unwrap();
    fs::write(at.join("cut.mkv"), &whole[..whole.len() * 6 / 10]).unwrap();
    fails(package("cut.mkv", "--no-sound"), 1, &["cut.mkv", "it was cut", "-c copy"]);
    fails(package("plaza.y4m", "--gop 2"), 1, &["8 pictures", "less than one GoP of 16"]);
    fails(package("plaza.y4m", "--grid 7x4"), 2, &["7x4 equal tiles", "scale it to"]);
    fails(package("plaza.y4m", "--grid 7"), 2, &["--grid", "like 6x4"]);
    fails(package("plaza.y4m", "--grid 12x8"), 2, &["tiles of 16x12 pixels", "coarser"]);
    fails(package("plaza.y4m", "--qp 22,52"), 2, &["from 1 to 51"]);
    fails(package("plaza.y4m", "--whole 0"), 2, &["--whole", "from 1 to 51"]);
    fails(package("plaza.y4m", "--ladder-mbps 0"), 2, &["--ladder-mbps", "above 0"]);
    fails(package("plaza.y4m", "--ladder-mbps 1 --qp 22"), 2, &["--ladder-mbps", "--qp"]);
    fails(package("plaza.y4m", "--preset best"), 2, &["'best'", "ultrafast"]);
    fails(package("plaza.y4m", "--size 192x90"), 2, &["twice as wide"]);
    assert!(!at.join("pkg/package.json").exists(), "nothing was begun");
}

/// Where MP4 keeps the matrix by which pictures are turned, after the type of the track's header.
const MATRIX: usize = 4 + 40;

/// What cameras and players say of a picture beside its pixels is not left out without a word.
#[test]
fn pictures_that_are_turned_or_of_another_projection_are_refused() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    let at = dir.path();
    let package = |source: &str| vr(at, &format!("package {source} -o pkg {QUICK}"));
    ff(at, "-i plaza.y4m -c:v libx264 plain.mp4");
    let plain = fs::read(at.join("plain.mp4")).unwrap();
    let place = |kind: &[u8; 4]| plain.windows(4).position(|found| found == kind).unwrap();
    let mut turned = plain.clone();
    let matrix = place(b"tkhd") + MATRIX;
    for at in [matrix, matrix + 16] {
        turned[at..at + 4].copy_from_slice(&(-65_536_i32).to_be_bytes());
    }
    fs::write(at.join("turned.mp4"), turned).unwrap();
    fails(package("turned.mp4"), 1, &["turned.mp4", "turned or mirrored", "-c:v libx264"]);
    // The remedy is one.
    ff(at, "-i turned.mp4 -c:v libx264 -crf 12 upright.mp4");
    package("upright.mp4").unwrap();
    // In place of the pixels' shape and the rate: a mesh.
    let mut mesh = plain.clone();
    let start = place(b"pasp") - 4;
    assert_eq!(place(b"btrt") - 4, start + 16);
    let boxes = b"\0\0\0\x18sv3d\0\0\0\x10proj\0\0\0\x08mshp\0\0\0\x0cfree\0\0\0\0";
    mesh[start..start + 36].copy_from_slice(boxes);
    fs::write(at.join("mesh.mp4"), mesh).unwrap();
    fails(package("mesh.mp4"), 1, &["mesh.mp4", "a mesh of its own (mshp)", "equirectangular"]);
}

#[test]
fn files_that_end_early_say_so_and_where() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.0);
    let at = dir.path();
    ff(at, "-i plaza.y4m -c:v libx264 -preset ultrafast late.mp4");
    ff(at, "-i late.mp4 -c copy -movflags faststart early.mp4");
    ff(at, "-i late.mp4 -c copy -movflags frag_keyframe+empty_moov parts.mp4");
    ff(at, "-i late.mp4 -c copy -f mpegts stream.ts");
    for (name, within) in [
        ("late.mp4", "within its box mdat"),
        ("early.mp4", "within its box mdat"),
        ("parts.mp4", "within its box mdat"),
        ("stream.ts", "within a packet of 188 bytes"),
        ("plaza.y4m", "within picture 12"),
    ] {
        let bytes = fs::read(at.join(name)).unwrap();
        let length = bytes.len() * 7 / 10 + 1;
        let cut = format!("cut-{name}");
        fs::write(at.join(&cut), &bytes[..length]).unwrap();
        let where_it_ends = format!("at byte {length}");
        let said = vr(at, &format!("package {cut} -o pkg {QUICK}"));
        fails(said, 1, &[&cut, "ends early", &where_it_ends, within, "get the whole file"]);
    }
    assert!(!at.join("pkg").exists(), "nothing was begun");
}

/// A transport stream has no index, and is searched for a key frame near the time: with only the first
/// one, there is none.
#[test]
fn a_transport_stream_with_one_key_frame_is_packaged() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let at = dir.path();
    ff(at, "-i plaza.y4m -c:v libx264 -preset ultrafast -bf 2 -g 999 one.mkv");
    ff(at, "-i one.mkv -c copy -f mpegts one.ts");
    for name in ["one.mkv", "one.ts"] {
        let args = format!("package {name} -o {name}.pkg {QUICK} --grid 2x1");
        let said = vr(at, &args).unwrap();
        assert!(said.contains(": 3 GoPs"), "{said}");
    }
    let [indexed, searched] = ["one.mkv.pkg", "one.ts.pkg"].map(|name| at.join(name));
    for name in ["rd.csv", "miss.csv"] {
        let read = |dir: &Path| fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(read(&indexed), read(&searched));
    }
    // Made on its own, the table of concealments is the same.
    fs::remove_file(searched.join("miss.csv")).unwrap();
    vr(at, &format!("package one.ts -o one.ts.pkg {QUICK} --grid 2x1")).unwrap();
    assert!(content(&searched.join("tiles")) == content(&indexed.join("tiles")));
    let misses = |dir: &Path| fs::read_to_string(dir.join("miss.csv")).unwrap();
    assert_eq!(misses(&indexed), misses(&searched));
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

/// Bytes that have changed, with lengths as they were, are found by their digests.
#[test]
fn files_with_other_bytes_are_found_and_made_again() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let at = dir.path();
    ff(at, "-i plaza.y4m -f lavfi -i sine=duration=3 -c:v ffv1 -c:a flac loud.mkv");
    let args = format!("package loud.mkv -o pkg {QUICK} --grid 4x2");
    vr(at, &args).unwrap();
    let package = at.join("pkg");
    let whole = content(&package);
    for name in ["tiles/t003q37/000001.m4s", "tiles/t002q22/init.mp4", "sound/000002.m4s"] {
        let file = package.join(name);
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&file, bytes).unwrap();
        let said = vr(at, "check pkg --source loud.mkv --gops 1 --viewers 1 --fit-viewers 2");
        fails(said, 1, &[name, "other bytes than were packaged", "vr package again"]);
        vr(at, &args).unwrap();
        assert!(content(&package) == whole, "{name}");
    }
}

#[test]
fn a_source_that_ends_early_has_fewer_gops() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.0);
    let bytes = fs::read(dir.path().join("plaza.y4m")).unwrap();
    // Twelve of sixteen pictures; in the middle of one the file would say that it was cut.
    let head = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let pictures = head + (bytes.len() - head) * 3 / 4;
    fs::write(dir.path().join("cut.y4m"), &bytes[..pictures]).unwrap();
    let said = vr(dir.path(), &format!("package cut.y4m -o pkg {QUICK} --grid 2x1")).unwrap();
    assert!(said.starts_with("pkg: 1 GoPs"), "the second GoP is not whole: {said}");
}

#[test]
fn sound_and_bits_are_left_out_where_that_was_said() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    ff(
        dir.path(),
        "-i plaza.y4m -f lavfi -i sine=duration=3 -pix_fmt yuv420p10le -c:v ffv1 -c:a aac both.mkv",
    );
    let args = format!("package both.mkv -o pkg {QUICK} --grid 2x1 --no-sound --to-8-bits");
    let said = vr(dir.path(), &args).unwrap();
    assert!(said.starts_with("pkg: 1 GoPs"), "{said}");
}

/// What a decoder makes of files put together, as 16-bit samples of one channel at 48 kHz.
fn samples(dir: &Path, files: &[&str]) -> Vec<i16> {
    let bytes: Vec<u8> = files.iter().flat_map(|file| fs::read(dir.join(file)).unwrap()).collect();
    fs::write(dir.join("heard.mp4"), bytes).unwrap();
    ff(dir, "-i heard.mp4 -ac 1 -ar 48000 -f s16le heard.raw");
    let raw = fs::read(dir.join("heard.raw")).unwrap();
    raw.chunks_exact(2).map(|pair| i16::from_le_bytes(pair.try_into().unwrap())).collect()
}

/// A tone that begins at a known picture is in the segments at its time, to a few milliseconds; each
/// segment begins with its GoP or less than a frame of AAC later; the manifest, a second run and damage.
#[test]
fn sound_is_packaged_by_gops_and_in_time() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let at = dir.path();
    // Silent for 1.25 s, and it ends half a second before the pictures do.
    let tone = "sine=frequency=1000:duration=1.25,adelay=1250:all=1";
    ff(at, &format!("-i plaza.y4m -f lavfi -i {tone} -c:v ffv1 -c:a flac -ar 44100 tone.mkv"));
    let command = format!("package tone.mkv -o pkg {QUICK} --grid 2x1");
    let said = vr(at, &command).unwrap();
    assert!(said.contains("sound: AAC, one channel at 48000 Hz"), "{said}");
    let package = at.join("pkg");
    let manifest = fs::read_to_string(package.join("manifest.mpd")).unwrap();
    assert!(manifest.contains("codecs=\"mp4a.40.2\""), "{manifest}");
    assert!(manifest.contains("audioSamplingRate=\"48000\""), "{manifest}");
    let all = ["sound/init.mp4", "sound/000000.m4s", "sound/000001.m4s", "sound/000002.m4s"];
    let heard = samples(&package, &all);
    // Whole frames, and all of three seconds.
    assert!(heard.len().abs_diff(144_000) <= 1_024, "{}", heard.len());
    let begins = heard.iter().position(|sample| sample.abs() > 500).unwrap();
    let ends = heard.iter().rposition(|sample| sample.abs() > 500).unwrap();
    for (found, wanted_s) in [(begins, 1.25), (ends, 2.5)] {
        let off_s = found as f64 / 48_000.0 - wanted_s;
        assert!(off_s.abs() < 0.005, "off by {off_s} s");
    }
    for (gop, file) in all[1..].iter().enumerate() {
        let bytes = fs::read(package.join(file)).unwrap();
        let tfdt = bytes.windows(4).position(|kind| kind == b"tfdt").unwrap() + 8;
        let time = u64::from_be_bytes(bytes[tfdt..tfdt + 8].try_into().unwrap());
        let late = time as f64 / 48_000.0 - gop as f64;
        assert!((0.0..1_024.0 / 48_000.0).contains(&late), "GoP {gop}: {late} s");
    }
    // It is made again where it was cut, and only it; other sound is another package.
    let whole = content(&package);
    fs::write(package.join("sound/000001.m4s"), b"cut").unwrap();
    let damaged = vr(at, "evaluate pkg --rates-mbps 1 --scheme fix");
    fails(damaged, 1, &["sound is missing or was cut", "vr package again"]);
    vr(at, &command).unwrap();
    assert!(content(&package) == whole, "the same package again");
    fails(vr(at, &format!("{command} --no-sound")), 2, &["other sound (one channel", "not none"]);
}

/// What a source says of its colours is said by tiles and manifest, whatever codec it had; what has more
/// than 8 bits is rounded only where that was said.
#[test]
fn sources_of_other_codecs_keep_their_colours() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    let at = dir.path();
    let colours = "-color_primaries bt2020 -color_trc arib-std-b67 -colorspace bt2020nc";
    let encoders = Command::new("ffmpeg").args(["-v", "error", "-encoders"]).output().unwrap();
    let encoders = String::from_utf8_lossy(&encoders.stdout).into_owned();
    for (name, codec) in [
        ("hevc", "libx265 -x265-params log-level=none:colorprim=9:transfer=18:colormatrix=9"),
        ("av1", "libaom-av1 -cpu-used 8"),
    ] {
        if !encoders.contains(codec.split(' ').next().unwrap()) {
            println!("skipped: this ffmpeg has no encoder for {name}");
            continue;
        }
        ff(at, &format!("-i plaza.y4m -pix_fmt yuv420p10le -c:v {codec} {colours} {name}.mp4"));
        let package = format!("package {name}.mp4 -o {name} {QUICK} --grid 2x1");
        fails(vr(at, &package), 1, &["more than 8 bits (yuv420p10le)", "--to-8-bits"]);
        vr(at, &format!("{package} --to-8-bits")).unwrap();
        let manifest = fs::read_to_string(at.join(name).join("manifest.mpd")).unwrap();
        for (property, code) in
            [("ColourPrimaries", 9), ("TransferCharacteristics", 18), ("MatrixCoefficients", 9)]
        {
            let wanted = format!("urn:mpeg:mpegB:cicp:{property}\" value=\"{code}\"");
            assert_eq!(manifest.matches(&wanted).count(), 2, "{name}: {manifest}");
        }
        assert!(manifest.contains("omaf:projection_type=\"0\""), "{manifest}");
        let tile = at.join(name).join("tiles/t000q22");
        let bytes =
            [fs::read(tile.join("init.mp4")).unwrap(), fs::read(tile.join("000000.m4s")).unwrap()];
        fs::write(at.join("tile.mp4"), bytes.concat()).unwrap();
        let entries = "stream=color_primaries,color_transfer,color_space";
        let mut probe = Command::new("ffprobe");
        probe.args(["-v", "error", "-show_entries", entries, "-of", "csv=p=0", "tile.mp4"]);
        let said = finish(probe.current_dir(at)).unwrap();
        assert_eq!(said.trim(), "bt2020nc,arib-std-b67,bt2020", "{name}");
    }
}

#[test]
fn a_ladder_may_be_given_by_rates() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.0);
    let at = dir.path();
    let package =
        |rates: &str| format!("package plaza.y4m -o pkg --preset ultrafast --grid 2x1 {rates}");
    // What two QPs take is asked for by rates, and these come out again.
    vr(at, &package("--qp 24,34").replace("-o pkg", "-o given")).unwrap();
    let table = fs::read_to_string(at.join("given/rd.csv")).unwrap();
    let mbps = |qp: &str| {
        let rows = table.lines().skip(2).map(|row| row.split(',').collect::<Vec<_>>());
        let bytes = rows.filter(|row| row[2] == qp).map(|row| row[3].parse::<f64>().unwrap());
        bytes.sum::<f64>() * 8e-6 / 2.0
    };
    let ladder = format!("--ladder-mbps {:.4},{:.4}", mbps("24"), mbps("34"));
    vr(at, &package(&ladder)).unwrap();
    let description = fs::read_to_string(at.join("pkg/package.json")).unwrap();
    let said: serde_json::Value = serde_json::from_str(&description).unwrap();
    let qps: Vec<i64> =
        said["qps"].as_array().unwrap().iter().map(|qp| qp.as_i64().unwrap()).collect();
    // Between the QPs that are tried the rate is taken for exponential.
    assert!((qps[0] - 24).abs() <= 1 && (qps[1] - 34).abs() <= 1, "{qps:?}");
    assert_eq!(said["mbps"].as_array().unwrap().len(), 2);
    // Gone on with, it has the same QPs, whatever it is that is missing.
    fs::remove_file(at.join("pkg/gops/000001.json")).unwrap();
    vr(at, &package(&ladder)).unwrap();
    assert_eq!(fs::read_to_string(at.join("pkg/package.json")).unwrap(), description);
    fails(vr(at, &package("--ladder-mbps 1")), 2, &["other rates", "not 1)"]);
    let out = |rates: &str| vr(at, &package(rates).replace("-o pkg", "-o other"));
    fails(out("--ladder-mbps 900"), 2, &["--ladder-mbps 900", "Mb/s at QP 51"]);
    fails(out(&format!("--ladder-mbps {0:.4},{0:.5}", mbps("24"))), 2, &["further apart"]);
}

/// With grain, the rate falls steeply where it is swallowed. For each rate the QP is the nearest: its
/// neighbours are not nearer, or it is within 6 %.
#[test]
fn a_ladder_by_rates_is_right_where_rates_are_steep() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let at = dir.path();
    ff(at, "-i plaza.y4m -vf noise=alls=9:allf=t -c:v ffv1 grain.mkv");
    let package = |out: &str, ladder: &str| {
        vr(at, &format!("package grain.mkv -o {out} --preset ultrafast --grid 2x1 {ladder}"))
            .unwrap()
    };
    let all = (14..=40).map(|qp: u8| qp.to_string()).collect::<Vec<_>>().join(",");
    package("all", &format!("--qp {all}"));
    let text = fs::read_to_string(at.join("all/rd.csv")).unwrap();
    let mut mbps = std::collections::BTreeMap::<u8, f64>::new();
    for row in text.lines().skip(2).map(|row| row.split(',').collect::<Vec<_>>()) {
        *mbps.entry(row[2].parse().unwrap()).or_default() +=
            row[3].parse::<f64>().unwrap() * 8e-6 / 3.0;
    }
    let steepest = mbps.values().zip(mbps.values().skip(1)).map(|(a, b)| a / b).fold(0.0, f64::max);
    assert!(steepest > 1.3, "nothing is steep: {mbps:?}");
    // Four rates between the finest and the coarsest.
    let [most, least] = [mbps[&15], mbps[&39]];
    let rates: Vec<f64> =
        (1..5).map(|step| most * (least / most).powf(f64::from(step) / 5.0)).collect();
    let ladder = rates.iter().map(|rate| format!("{rate:.4}")).collect::<Vec<_>>().join(",");
    let said = package("pkg", &format!("--ladder-mbps {ladder}"));
    let description = fs::read_to_string(at.join("pkg/package.json")).unwrap();
    let description: serde_json::Value = serde_json::from_str(&description).unwrap();
    let qps = description["qps"].as_array().unwrap().iter().map(|qp| qp.as_u64().unwrap() as u8);
    let qps: Vec<u8> = qps.collect();
    for (&qp, asked) in qps.iter().zip(&rates) {
        let off = |qp: u8| (mbps[&qp] / asked).ln().abs();
        let nearest = off(qp) <= off(qp - 1).min(off(qp + 1)) || off(qp) <= 1.06_f64.ln();
        assert!(nearest, "{asked} Mb/s: QP {qp} of {mbps:?}");
    }
    for (&qp, asked) in qps.iter().zip(&rates) {
        let line = said.lines().find(|line| line.starts_with(&format!("QP {qp}"))).unwrap();
        let words =
            format!("{:8.2} Mb/s ({}", mbps[&qp], format!("{asked:.4}").trim_end_matches('0'));
        assert!(line.contains(&words), "{line} {words}");
    }
}

#[test]
fn a_directory_holds_one_package() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    let at = dir.path();
    vr(at, &format!("package plaza.y4m -o pkg {QUICK} --grid 2x1")).unwrap();
    let other = vr(at, &format!("package plaza.y4m -o pkg {QUICK} --grid 2x2"));
    fails(other, 2, &["pkg", "another grid (2x1, not 2x2)", "another directory"]);
    vr(at, "synth coast -o coast.y4m --size 192x96 --fps 8 --seconds 1").unwrap();
    let other = vr(at, &format!("package coast.y4m -o pkg {QUICK} --grid 2x1"));
    fails(other, 2, &["another source"]);
    fs::write(at.join("pkg/package.json"), "{}").unwrap();
    let other = vr(at, &format!("package plaza.y4m -o pkg {QUICK} --grid 2x1"));
    fails(other, 1, &["package.json", "no description of a package"]);
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

#[test]
fn a_full_disk_is_told_and_what_is_finished_stays() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.0);
    let small = dir.path().join("small");
    fs::create_dir(&small).unwrap();
    let mount =
        |args: &[&str]| Command::new("mount").args(args).arg(&small).stderr(Stdio::null()).status();
    let mounted = mount(&["-t", "tmpfs", "-o", "size=640k", "tmpfs"]);
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: mounting a tmpfs needs root (sudo -E cargo test -p weftline-cli)");
        return;
    }
    let command = format!("package plaza.y4m -o small/pkg {QUICK} --grid 2x1 --whole 30 --jobs 1");
    // A filler leaves room for less than the raw pictures of a GoP.
    let filler = small.join("filler");
    fs::write(&filler, vec![0; 500 << 10]).unwrap();
    let full = vr(dir.path(), &command);
    fs::remove_file(&filler).unwrap();
    let done = vr(dir.path(), &command);
    let unmounted = Command::new("umount").arg(&small).status().unwrap();
    assert!(unmounted.success());
    fails(full, 1, &["small/pkg", "no space left", "same command again"]);
    assert!(done.unwrap().starts_with("small/pkg: 2 GoPs"));
}

#[test]
fn a_scene_is_the_same_each_time_and_there_only_when_it_is_whole() {
    let dir = with_scene(0.5);
    let at = dir.path();
    vr(at, "synth plaza -o again.y4m --size 192x96 --fps 8 --seconds 0.5").unwrap();
    let scene = fs::read(at.join("plaza.y4m")).unwrap();
    assert!(scene == fs::read(at.join("again.y4m")).unwrap());
    let piped = Command::new(WEFTLINE)
        .args("vr synth plaza -o - --size 192x96 --fps 8 --seconds 0.5".split(' '))
        .output()
        .unwrap();
    assert!(scene == piped.stdout);
    fails(vr(at, "synth moon -o x.y4m"), 2, &["'moon'", "coast, drive"]);
    fails(vr(at, "synth plaza -o x.avi"), 2, &["x.avi", ".y4m"]);
    fails(vr(at, "synth plaza -o x.y4m --size 100x60"), 2, &["twice as wide"]);
    fails(vr(at, "synth plaza -o x.y4m --fps 0"), 2, &["pictures per second"]);
    fails(vr(at, "synth plaza -o x.y4m --seconds=-1"), 2, &["--duration"]);
    fails(vr(at, "synth plaza -o none/x.y4m --size 64x32"), 1, &["none/x.y4m", "No such file"]);
    let names: Vec<_> = fs::read_dir(at).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(vr(at, "synth --list").unwrap().lines().count() >= 6);
}

#[test]
fn ffv1_holds_the_same_pictures() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(0.5);
    let at = dir.path();
    vr(at, "synth plaza -o plaza.mkv --size 192x96 --fps 8 --seconds 0.5").unwrap();
    ff(at, "-i plaza.mkv -f rawvideo a.yuv");
    ff(at, "-i plaza.y4m -f rawvideo b.yuv");
    assert!(fs::read(at.join("a.yuv")).unwrap() == fs::read(at.join("b.yuv")).unwrap());
}
