//! What is packaged of a source: its own pictures, all of them, or nothing.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::ffmpeg;
use weftline_video::geometry::{FrameSize, Grid};
use weftline_vr::live::{LiveInput, LiveOptions, LiveSource};
use weftline_vr::package::{Package, PackageOptions, package};
use weftline_vr::{DecodedGop, Ffmpeg, Stop};

/// Runs ffmpeg with arguments separated by spaces, in `dir`.
fn ff(dir: &Path, args: &str) {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]).args(args.split(' ')).current_dir(dir);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two tiles at two QPs, without sound.
fn quick() -> PackageOptions {
    PackageOptions {
        grid: Grid::new(2, 1).unwrap(),
        qps: vec![22, 37],
        preset: "ultrafast".to_owned(),
        no_sound: true,
        ..PackageOptions::default()
    }
}

/// The package of a file in `dir`, or why there is none.
fn try_with(dir: &Path, name: &str, options: &PackageOptions) -> Result<Package, String> {
    let (source, out) = (dir.join(name), dir.join(format!("{name}.pkg")));
    package(&source, &out, options, 2, &Stop::default(), &mut |_| {}).map_err(|why| why.to_string())
}

/// Why a file in `dir` is refused; says all of `words`, and nothing is begun.
#[track_caller]
fn refused(dir: &Path, name: &str, words: &[&str]) {
    let why = try_with(dir, name, &quick()).expect_err("it should be refused");
    for word in words.iter().chain(&[name]) {
        assert!(why.contains(word), "no '{word}' in: {why}");
    }
}

/// The segments of a package, with their names.
fn segments(package: &Package) -> Vec<(PathBuf, Vec<u8>)> {
    let plan = package.description();
    let mut found = Vec::new();
    for (tile, gop) in
        (0..plan.grid().tiles()).flat_map(|tile| (0..plan.gops()).map(move |gop| (tile, gop)))
    {
        for &qp in plan.qps() {
            let file = package.segment(tile, qp, gop);
            let name = file.strip_prefix(package.dir()).unwrap().to_owned();
            found.push((name, fs::read(file).unwrap()));
        }
    }
    found
}

/// Whether ffmpeg has an encoder.
fn encodes(name: &str) -> bool {
    let encoders = Command::new("ffmpeg").args(["-v", "error", "-encoders"]).output().unwrap();
    let there = String::from_utf8_lossy(&encoders.stdout).contains(name);
    assert!(there || std::env::var_os("CI").is_none(), "in CI ffmpeg has {name}");
    if !there {
        println!("skipped: this ffmpeg has no {name}");
    }
    there
}

/// A search for a time in a transport stream may end behind the key frame that is wanted, and
/// decoding then begins at the next one: the number of pictures is right, and they are of another
/// GoP.
#[test]
fn each_gop_of_a_transport_stream_has_its_own_pictures() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let film = "-f lavfi -i testsrc=size=192x96:rate=8 -f lavfi -i sine -t 6 -c:a mp2";
    let coding = "-preset ultrafast -bf 2 -g 16 -keyint_min 16 -sc_threshold 0";
    ff(at, &format!("{film} -c:v libx264 {coding} key.mkv"));
    ff(at, "-i key.mkv -c copy key.ts");
    let [searched, indexed] =
        ["key.ts", "key.mkv"].map(|name| try_with(at, name, &quick()).unwrap());
    assert_eq!(searched.description().gops(), 6);
    assert!(segments(&searched) == segments(&indexed));
    // As recorders begin: the first pictures do not decode.
    let bytes = fs::read(at.join("key.ts")).unwrap();
    fs::write(at.join("late.ts"), &bytes[bytes.len() / 188 / 12 * 188..]).unwrap();
    refused(at, "late.ts", &["no key frame", "-c:v libx264"]);
    assert!(!at.join("late.ts.pkg").exists(), "nothing was begun");
    // The remedy is one.
    ff(at, "-i late.ts -c:v libx264 -crf 12 late.mp4");
    assert!(try_with(at, "late.mp4", &quick()).unwrap().description().gops() >= 4);
}

/// The first key frame is whole, but pictures that are shown before it need others: they are not
/// decoded, and no later ones are taken for them.
#[test]
fn a_stream_whose_first_pictures_do_not_decode_is_refused() {
    if !ffmpeg() || !encodes("libx265") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let rows = "log-level=none:keyint=16:min-keyint=16:open-gop=1:bframes=4";
    let coding = format!("-c:v libx265 -x265-params {rows}");
    ff(at, &format!("-f lavfi -i testsrc2=size=192x96:rate=8 -t 6 {coding} open.mkv"));
    let mut probe = Command::new("ffprobe");
    probe.args(["-v", "error", "-show_entries", "packet=flags", "-of", "csv=p=0", "open.mkv"]);
    let flags = probe.current_dir(at).output().unwrap().stdout;
    let flags = String::from_utf8(flags).unwrap();
    let second = flags.lines().skip(1).position(|flags| flags.starts_with('K')).unwrap() + 1;
    ff(at, &format!("-i open.mkv -c copy -bsf:v noise=drop=lt(n\\,{second}) late.ts"));
    refused(at, "late.ts", &["GoP 0 decodes to", "instead of 8", "-c:v libx264"]);
}

/// What ffprobe says of the colours of a tile: range, matrix.
fn tile_colours(package: &Package) -> String {
    let tile = [package.init(0, 22), package.segment(0, 22, 0)].map(|file| fs::read(file).unwrap());
    let file = package.dir().join("tile.mp4");
    fs::write(&file, tile.concat()).unwrap();
    let mut probe = Command::new("ffprobe");
    let entries = ["-show_entries", "stream=color_range,color_space", "-of", "csv=p=0"];
    let said = probe.args(["-v", "error"]).args(entries).arg(&file).output().unwrap().stdout;
    fs::remove_file(file).unwrap();
    String::from_utf8(said).unwrap().trim().to_owned()
}

/// Pixels are turned into what the tiles say that they are.
#[test]
fn colours_are_what_the_tiles_say() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let red = "-f lavfi -i color=red:size=64x32:rate=8,format=gbrp -t 1";
    ff(at, &format!("{red} -c:v ffv1 red.mkv"));
    let white = "-f lavfi -i color=white:size=64x32:rate=8,format=gbrp -t 1 -vf scale=out_range=pc";
    for format in ["yuv420p", "yuv444p"] {
        ff(at, &format!("{white},format={format} -color_range pc -c:v ffv1 {format}.mkv"));
    }
    let found = Ffmpeg::find(&Stop::default()).unwrap();
    let small = |name: &str, size: Option<FrameSize>| {
        let package = try_with(at, name, &PackageOptions { size, ..quick() }).unwrap();
        let decoded = DecodedGop::decode(&found, &package, 0, &[22; 2]).unwrap();
        let luma = decoded.picture(3).row(8)[16];
        fs::remove_dir_all(package.dir()).unwrap_or_default();
        luma
    };
    let half = Some(FrameSize::new(32, 16).unwrap());
    for size in [None, half] {
        // 16 + 219 x 0.2126; by BT.601 it is 81.
        let luma = small("red.mkv", size);
        assert!(luma.abs_diff(63) <= 2, "{luma}");
        for format in ["yuv420p", "yuv444p"] {
            let luma = small(&format!("{format}.mkv"), size);
            assert!(luma >= 253, "{format} {size:?}: {luma}");
        }
    }
    for (name, said) in [("red.mkv", "tv,bt709"), ("yuv444p.mkv", "pc,unknown")] {
        assert_eq!(tile_colours(&try_with(at, name, &quick()).unwrap()), said);
    }
}

/// A track of subtitles that goes on after the pictures does not make a file one that was cut.
#[test]
fn other_tracks_may_last_longer() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("text.srt"), "1\n00:00:00,500 --> 00:00:05,000\nHere.\n").unwrap();
    let film = "-f lavfi -i testsrc=size=64x32:rate=8 -i text.srt -map 0:v -map 1:s";
    ff(at, &format!("{film} -t 1 -c:v ffv1 -c:s srt film.mkv"));
    // ffmpeg ends what it copies; so the tracks are joined afterwards.
    ff(at, "-i film.mkv -i text.srt -map 0:v -map 1:s -c copy both.mkv");
    ff(at, "-i both.mkv -c:v libx264 -c:s mov_text both.mp4");
    for name in ["both.mkv", "both.mp4"] {
        let package = try_with(at, name, &quick()).unwrap();
        assert_eq!(package.description().gops(), 1, "{name}");
    }
}

/// The samples of a file's sound, as 16 bits for each of its channels.
fn samples(dir: &Path, name: &str) -> Vec<[i16; 2]> {
    ff(dir, &format!("-i {name} -map 0:a -f s16le -c:a pcm_s16le samples"));
    let bytes = fs::read(dir.join("samples")).unwrap();
    let sample = |at: &[u8]| i16::from_le_bytes([at[0], at[1]]);
    bytes.chunks_exact(4).map(|both| [sample(both), sample(&both[2..])]).collect()
}

/// Of four channels nobody says whether they are loudspeakers or AmbiX, which a mix of loudspeakers
/// spoils.
#[test]
fn sound_of_four_channels_is_refused_with_a_remedy_for_each_kind() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    // A source at the left: W and Y.
    let sound = "-f lavfi -i sine=duration=1 -af pan=4.0|c0=c0|c1=c0|c2=0*c0|c3=0*c0";
    let film = "-f lavfi -i testsrc=size=64x32:rate=8 -t 1 -c:v ffv1";
    ff(at, &format!("{sound} ambix.wav"));
    ff(at, &format!("{film} film.mkv"));
    ff(at, "-i film.mkv -i ambix.wav -map 0:v -map 1:a -c:v copy -c:a flac four.mkv");
    let options = PackageOptions { no_sound: false, ..quick() };
    let why = try_with(at, "four.mkv", &options).unwrap_err();
    // Live, it is mixed, and that is said.
    let live = LiveOptions {
        grid: Grid::new(2, 1).unwrap(),
        qps: vec![22, 37],
        preset: "ultrafast".to_owned(),
        gop_s: 1.0,
        size: None,
        rate: None,
        no_sound: false,
        delay: None,
        encode_within: None,
        jobs: 1,
    };
    let input = LiveInput::File(at.join("four.mkv"));
    let live = LiveSource::open(&input, live, &Stop::default()).unwrap();
    assert!(live.remarks().iter().any(|one| one.contains("AmbiX")), "{:?}", live.remarks());
    let (_, filter) = why.split_once("-af '").unwrap();
    let (filter, _) = filter.split_once('\'').unwrap();
    assert!(why.contains("4 channels (flac)") && why.contains("-ac 2 NEW.mkv"), "{why}");
    ff(at, &format!("-i four.mkv -c:v copy -af {filter} -c:a flac new.mkv"));
    let sound = samples(at, "new.mkv");
    let loudest = |side: usize| sound.iter().map(|both| both[side].unsigned_abs()).max().unwrap();
    assert!(loudest(0) > 2_000 && loudest(1) < 10, "{} {}", loudest(0), loudest(1));
    assert!(try_with(at, "new.mkv", &options).unwrap().description().sound().is_some());
}

/// A decoder shows something in place of what is damaged; that is not the original.
#[test]
fn a_damaged_picture_is_refused_and_the_gop_is_named() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let film = "-f lavfi -i testsrc2=size=192x96:rate=8 -t 4";
    for name in ["film.mkv", "film.ts"] {
        ff(at, &format!("{film} -c:v libx264 -preset ultrafast -g 8 -keyint_min 8 {name}"));
        try_with(at, name, &quick()).unwrap();
        // Within GoP 2, in a picture that others follow; in its middle, which no container looks
        // at.
        let mut probe = Command::new("ffprobe");
        let entries = ["-v", "error", "-show_entries", "packet=pos,size", "-of", "csv=p=0"];
        let packets = probe.args(entries).arg(name).current_dir(at).output().unwrap().stdout;
        let packets = String::from_utf8(packets).unwrap();
        let packet = packets.lines().filter(|line| !line.is_empty()).nth(18).unwrap();
        let mut numbers = packet.split(',').filter_map(|number| number.parse::<usize>().ok());
        let (size, pos) = (numbers.next().unwrap(), numbers.next().unwrap());
        let mut bytes = fs::read(at.join(name)).unwrap();
        bytes[pos + size / 2..pos + size / 2 + 40].fill(0);
        let bad = format!("bad-{name}");
        fs::write(at.join(&bad), bytes).unwrap();
        refused(at, &bad, &["damaged in GoP", "h264: ", "-c:v libx264"]);
    }
    ff(at, "-i bad-film.mkv -c:v libx264 -crf 12 new.mp4");
    try_with(at, "new.mp4", &quick()).unwrap();
}

/// Scaled to twice as wide as high, pictures for two eyes would be packaged as one sphere.
#[test]
fn pictures_for_two_eyes_are_refused_whatever_the_size() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let size = Some(FrameSize::new(64, 32).unwrap());
    let scaled = PackageOptions { size, ..quick() };
    for (shape, words) in [
        ("96x96", ["two eyes, one above the other", "-vf crop=iw:ih/2:0:0"]),
        ("384x96", ["two eyes, side by side", "-vf crop=iw/2:ih:0:0"]),
    ] {
        let name = format!("{shape}.mkv");
        ff(at, &format!("-f lavfi -i testsrc=size={shape}:rate=8 -t 1 -c:v ffv1 {name}"));
        let why = try_with(at, &name, &scaled).unwrap_err();
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
        // The remedy is one.
        ff(at, &format!("-i {name} {} -c:v ffv1 new-{name}", words[1]));
        try_with(at, &format!("new-{name}"), &scaled).unwrap();
    }
    // One that was squeezed.
    ff(at, "-f lavfi -i testsrc=size=128x72:rate=8 -t 1 -c:v ffv1 squeezed.mkv");
    let why = try_with(at, "squeezed.mkv", &quick()).unwrap_err();
    assert!(why.contains("twice as wide as high") && why.contains("--size 144x72"), "{why}");
    assert!(why.contains("above and below") && why.contains("-vf crop=iw:iw/2 "), "{why}");
    try_with(at, "squeezed.mkv", &scaled).unwrap();
    // Sides that were rounded.
    ff(at, "-f lavfi -i testsrc=size=130x64:rate=8 -t 1 -c:v ffv1 near.mkv");
    try_with(at, "near.mkv", &scaled).unwrap();
}

/// Program streams give times to some pictures only; the command that is named gives them to all.
#[test]
fn pictures_without_times_get_them_by_the_remedy() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    ff(at, "-f lavfi -i testsrc=size=192x96:rate=25 -t 2 -c:v mpeg2video -g 50 -bf 2 old.mpg");
    refused(at, "old.mpg", &["no times", "ffmpeg -fflags +genpts -i SOURCE -c copy NEW.mkv"]);
    ff(at, "-fflags +genpts -i old.mpg -c copy new.mkv");
    assert_eq!(try_with(at, "new.mkv", &quick()).unwrap().description().gops(), 2);
}

/// Y4M and AVI count in pictures: there are no halves.
#[test]
fn sources_that_count_in_pictures_have_all_of_them() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    for rate in ["8", "12", "15", "24", "25", "30", "60", "30000/1001"] {
        for kind in ["y4m -pix_fmt yuv420p", "avi -c:v mjpeg -pix_fmt yuvj420p -q:v 3"] {
            let (kind, rest) = kind.split_once(' ').unwrap();
            let name = format!("{}.{kind}", rate.replace('/', "-"));
            let drawn = format!("testsrc=size=192x96:rate={rate}");
            ff(at, &format!("-y -f lavfi -i {drawn} -t 2.1 {rest} {name}"));
            let package = try_with(at, &name, &quick());
            let package = package.unwrap_or_else(|why| panic!("{name} at {rate}: {why}"));
            assert_eq!(package.description().gops(), 2, "{name} at {rate}");
        }
    }
}

/// All threads would begin with a GoP of their own, and at 8K its pictures are 2 GB.
#[test]
fn no_more_gops_are_open_at_once_than_give_work_to_all_threads() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    ff(at, "-f lavfi -i testsrc=size=64x32:rate=4 -t 10 -c:v ffv1 many.mkv");
    // A GoP is two pieces of work: its tiles, and the whole sphere.
    let options = PackageOptions { whole: vec![30], ..quick() };
    let (source, out) = (at.join("many.mkv"), at.join("pkg"));
    let open = || {
        let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
        let work =
            entries(&out).find(|one| one.file_name().to_string_lossy().starts_with(".work-"));
        work.map_or(0, |work| entries(&work.path()).filter(|one| one.path().is_dir()).count())
    };
    let (stop, is_done) = (Stop::default(), AtomicBool::new(false));
    let most = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !is_done.load(Ordering::Relaxed) {
                most = open().max(most);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            most
        });
        let made = package(&source, &out, &options, 6, &stop, &mut |_| {});
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(made.unwrap().description().gops(), 10);
        watcher.join().unwrap()
    });
    assert!((1..=4).contains(&most), "{most} were open");
}

/// The threads that wait for the work of one that panicked do not wait for ever.
#[test]
fn a_panic_ends_the_work_of_all_threads() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    ff(at, "-f lavfi -i testsrc=size=64x32:rate=4 -t 10 -c:v ffv1 many.mkv");
    let (source, out) = (at.join("many.mkv"), at.join("pkg"));
    let (told, stop) = (AtomicBool::new(false), Stop::default());
    // It is told once before the work, and then by the thread that has done a GoP.
    let mut panics = |_| assert!(!told.swap(true, Ordering::Relaxed), "on purpose");
    // Fewer GoPs are open at once than there are threads.
    let options = PackageOptions { whole: vec![30], ..quick() };
    let work = || package(&source, &out, &options, 6, &stop, &mut panics);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
}
