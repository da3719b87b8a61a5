//! `weftline vr serve --source` as it is used: pictures piped in, played by `vr play` over loopback. Without
//! ffmpeg it is skipped; in CI it must be there.
//!
//! The sources here write as fast as they are read, and last until the test has seen what it waits for: the
//! server sets the pace. How much is encoded in time depends on the machine, so that is not what is judged:
//! every GoP and every tile is counted once, and what is missing is said.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::io::{PipeWriter, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use common::vr::ffmpeg;
use common::{Daemon, failure, run, run_with, weftline};
use serde_json::Value;

const TILES: u64 = 2;
/// GoPs of a second, small enough to be encoded on a busy machine, and a delay that is longer than that takes.
const LIGHT: [&str; 6] = ["--grid", "2x1", "--qp", "28,40", "--delay", "12"];

/// A film of ten pictures of 320x160 at five a second, as Y4M: its header and the rest.
fn film() -> &'static (Vec<u8>, Vec<u8>) {
    static FILM: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    FILM.get_or_init(|| {
        let args = "-v error -f lavfi -i testsrc2=size=320x160:rate=5 -frames:v 10 \
                    -pix_fmt yuv420p -f yuv4mpegpipe -";
        let output = Command::new("ffmpeg").args(args.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let end = output.stdout.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let (header, pictures) = output.stdout.split_at(end);
        (header.to_vec(), pictures.to_vec())
    })
}

/// The length of a picture in [`film`], with its head.
fn picture() -> usize {
    film().1.len() / 10
}

/// A film that begins again and again until it is told to stop.
struct Endless {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<PipeWriter>,
}

impl Endless {
    /// Goes on in a pipe that has the header.
    fn play(mut pipe: PipeWriter) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) && pipe.write_all(&film().1).is_ok() {}
            pipe
        });
        Self { stop, thread }
    }

    /// Ends after a whole picture; the pipe, to go on or to be closed.
    fn stop(self) -> PipeWriter {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// A server of what comes in a pipe, which has the header of a film.
fn serve(options: &[&str], environment: Option<(&str, &str)>) -> (Daemon, SocketAddr, PipeWriter) {
    let (reads, mut writes) = std::io::pipe().unwrap();
    let base = ["vr", "serve", "--source", "-", "--listen", "127.0.0.1:0", "--insecure-plaintext"];
    let server = weftline(&[&base[..], &LIGHT, options].concat());
    // Under `nohup` the tests ignore SIGHUP, and so would what they start.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.envs(environment).stdin(reads);
    writes.write_all(&film().0).unwrap();
    let mut early = writes.try_clone().unwrap();
    // As much as it takes to be known for a film.
    let known = 3 * picture();
    let first = std::thread::spawn(move || early.write_all(&film().1[..known]));
    let mut server = Daemon::spawn(&mut command);
    let address = server.listening();
    let said = server.says("source standard input:");
    assert!(said.contains("320x160 at 5/1 pictures a second, 2x1 tiles at QP 28, 40"), "{said}");
    assert!(server.says("delay").starts_with("12 s"));
    first.join().unwrap().unwrap();
    // The film goes on.
    writes.write_all(&film().1[known..]).unwrap();
    (server, address, writes)
}

/// The arguments of a player with two paths to a server, which says what became of each GoP.
fn player(server: SocketAddr) -> Daemon {
    let server = server.to_string();
    let paths = ["--path", "one=127.0.0.1", "two=127.0.0.2", "--insecure-plaintext"];
    let log = ["--log", "-"];
    Daemon::start(&[&["vr", "play", "--server", &server][..], &paths, &log].concat())
}

/// What a player's log says of its GoPs from the first on: arrived, late and dropped tiles.
struct Played {
    gops: Vec<[u64; 3]>,
    summary: String,
}

/// Waits for the end of a player that has said its header and as many lines as `said`.
#[track_caller]
fn played(player: Daemon, said: &[String]) -> Played {
    let (status, rest) = player.end();
    assert_eq!(status, Some(0), "{rest}");
    let lines = said.iter().map(String::as_str).chain(rest.lines());
    let rows = lines.take_while(|line| line.split(',').count() > 10);
    let mut gops = Vec::new();
    for (gop, row) in rows.enumerate() {
        let fields: Vec<&str> = row.split(',').collect();
        let count = |at: usize| fields[at].parse::<u64>().unwrap();
        assert_eq!(count(0), gop as u64, "{row}");
        let counts = [count(2), count(3), count(6)];
        assert_eq!(counts.iter().sum::<u64>(), TILES, "{row}");
        gops.push(counts);
    }
    let is_summary = |line: &&str| line.contains("GoPs over fbdt");
    let summary = rest.lines().find(is_summary).expect("it ends with a summary").to_owned();
    Played { gops, summary }
}

/// The number that follows `words` in a line.
#[track_caller]
fn number(line: &str, words: &str) -> u32 {
    let rest = line.split(words).nth(1).unwrap_or_else(|| panic!("no '{words}' in {line}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_piped_source_is_served_to_two_players_and_ends_with_its_last_gop() {
    if !ffmpeg() {
        return;
    }
    let (server, address, pipe) = serve(&[], None);
    let source = Endless::play(pipe);
    let mut early = player(address);
    early.says("gop,time_s,");
    let first = format!("0,{}", early.says("0,"));
    let began = server.logs("begins with GoP");
    let mut late = player(address);
    late.says("gop,time_s,");
    let first_of_late = format!("0,{}", late.says("0,"));
    let joined = server.logs("begins with GoP");
    let [began, joined] = [began, joined].map(|line| number(&line, "begins with GoP "));
    assert!(joined > began);
    drop(source.stop());
    let (early, late) = (played(early, &[first]), played(late, &[first_of_late]));
    let ended = server.logs("it has ended after");
    let all = number(&ended, "after ");
    // Each has all GoPs from its first to the last: the end is in order.
    assert_eq!(early.gops.len() as u32, all - began, "{ended}");
    assert_eq!(late.gops.len() as u32, all - joined, "{ended}");
    for played in [&early, &late] {
        // The first one is whole, and this network carries it.
        assert!(played.gops[0][2] < TILES, "{:?}", played.gops);
        assert!(played.gops.iter().any(|[arrived, ..]| *arrived == TILES), "{:?}", played.gops);
        let count = played.gops.len();
        assert!(
            played.summary.starts_with(&format!("{count} of {count} GoPs")),
            "{}",
            played.summary
        );
    }
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_source_that_stalls_leaves_gaps_and_goes_on() {
    if !ffmpeg() {
        return;
    }
    let (server, address, pipe) = serve(&[], None);
    // It stalls when the player has begun: what came before is not looked at.
    let source = Endless::play(pipe);
    let mut player = player(address);
    let began = server.logs("begins with GoP");
    let mut pipe = source.stop();
    // Within a picture.
    let half = picture() * 2 + picture() / 2;
    pipe.write_all(&film().1[..half]).unwrap();
    let missing = server.logs("it brings nothing in time");
    let [began, missing] = [(began, "begins with GoP "), (missing, "players conceal GoP ")]
        .map(|(line, words)| number(&line, words));
    assert!(missing > began, "{missing} {began}");
    pipe.write_all(&film().1[half..]).unwrap();
    let source = Endless::play(pipe);
    let goes_on = server.logs("it goes on with GoP");
    drop(source.stop());
    player.says("gop,time_s,");
    let played = played(player, &[]);
    let ended = server.logs("it has ended after");
    let gaps = number(&goes_on, "; ") as usize;
    let dropped = played.gops.iter().filter(|[.., dropped]| *dropped == TILES).count();
    assert!(gaps > 0 && dropped >= gaps, "{goes_on} {:?}", played.gops);
    assert!(ended.contains("of which it brought nothing for"), "{ended}");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_source_that_ends_within_a_picture_is_served_as_far_as_it_is_whole() {
    if !ffmpeg() {
        return;
    }
    let (server, _, mut pipe) = serve(&[], None);
    pipe.write_all(&film().1[..picture() * 3 / 2]).unwrap();
    drop(pipe);
    let ended = server.logs("it has ended after");
    assert!(ended.contains("GoPs, 0 of which it brought nothing for"), "{ended}");
    // What came while it was found out what it is may be left out.
    let (gops, left_out) = (number(&ended, "after "), number(&ended, "not encoded; "));
    assert_eq!(gops + left_out, 2, "{ended}");
    assert!(ended.contains("and 1 pictures at its end"), "{ended}");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn an_encoder_that_has_no_time_leaves_out_whole_gops_and_says_so() {
    if !ffmpeg() {
        return;
    }
    let (server, address, pipe) = serve(&["--encode-within", "0.001"], None);
    let source = Endless::play(pipe);
    let waits = player(address);
    for count in 1..=2 {
        let lost = server.logs("is left out, as the encoder is");
        assert!(lost.contains(&format!("s behind ({count} GoPs so far)")), "{lost}");
        assert!(lost.contains("give it less (--size, --fps, fewer --qp)"), "{lost}");
    }
    drop(source.stop());
    let ended = server.logs("it has ended after");
    assert_eq!(number(&ended, "after "), number(&ended, "for and "), "{ended}");
    // One that waits for a GoP is told why none comes.
    waits.logs("the source has ended before the stream began");
    assert_eq!((waits.end().0, server.end().0), (Some(1), Some(0)));
}

#[test]
fn a_server_that_was_killed_or_hung_up_leaves_no_files() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let place = Some(("TMPDIR", dir.path().to_str().unwrap()));
    let left = || {
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("weftline-live-"))
            .collect::<Vec<_>>()
    };
    let (killed, _, _pipe) = serve(&[], place);
    killed.signal("-KILL");
    assert_eq!(killed.end().0, None);
    let of_killed = left();
    assert_eq!(of_killed.len(), 1);
    // The next one finds it.
    let (server, _, _pipe) = serve(&[], place);
    assert!(left().len() == 1 && left() != of_killed, "{:?}", left());
    server.signal("-HUP");
    assert_eq!((server.end().0, left().len()), (Some(0), 0));
}

/// An ffmpeg that never comes to an end with the tenth GoP.
fn stuck(dir: &Path) -> String {
    let path = std::env::var("PATH").unwrap();
    let real = path.split(':').map(|dir| Path::new(dir).join("ffmpeg")).find(|file| file.is_file());
    let script = format!(
        "#!/bin/sh\ncase \"$PWD $*\" in */work-9\\ *libx264*) exec sleep 1000 ;; esac\nexec {} \"$@\"\n",
        real.unwrap().display()
    );
    let file = dir.join("ffmpeg");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", dir.display())
}

#[test]
fn a_gop_that_is_not_encoded_in_time_is_a_gap_and_the_others_are_served() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = stuck(dir.path());
    let options = ["--encode-within", "8", "--jobs", "2"];
    let (server, address, pipe) = serve(&options, Some(("PATH", &path)));
    let source = Endless::play(pipe);
    let mut player = player(address);
    server.logs("is left out, as the encoder is");
    player.says("gop,time_s,");
    // It goes on for a while.
    let said: Vec<String> =
        (0..3).map(|gop| format!("{gop},{}", player.says(&format!("{gop},")))).collect();
    drop(source.stop());
    let played = played(player, &said);
    assert!(played.gops.iter().any(|[arrived, ..]| *arrived > 0), "{:?}", played.gops);
    assert!(server.logs("it has ended after").contains("brought nothing for"));
    assert_eq!(server.end().0, Some(0));
}

/// A clip with sound, made once.
fn clip() -> &'static Path {
    static CLIP: OnceLock<PathBuf> = OnceLock::new();
    CLIP.get_or_init(|| {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vr_source.mkv");
        let args = "-v error -nostdin -y -f lavfi -i testsrc2=size=320x160:rate=5 -f lavfi -i sine \
                    -t 4 -c:v libx264 -preset ultrafast -g 10 -c:a aac";
        let made =
            Command::new("ffmpeg").args(args.split_whitespace()).arg(&file).status().unwrap();
        assert!(made.success());
        file
    })
}

/// A film is served live as it would be packaged, to the byte: its tiles, and its sound, which in this container
/// begins before its pictures.
#[test]
fn a_file_is_served_at_its_pace_as_it_would_be_packaged() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (saved, package) = (dir.path().join("saved"), dir.path().join("package"));
    let file = clip().to_str().unwrap();
    let coding = ["--grid", "2x1", "--qp", "28,40", "--preset", "ultrafast"];
    let args = [&["vr", "package", file, "-o", package.to_str().unwrap()][..], &coding].concat();
    let packaged = run(&args);
    assert!(packaged.status.success(), "{}", String::from_utf8_lossy(&packaged.stderr));
    let base = ["vr", "serve", "--source", file, "--listen", "127.0.0.1:0", "--insecure-plaintext"];
    let mut server = Daemon::start(&[&base[..], &LIGHT].concat());
    let address = server.listening().to_string();
    assert!(server.says("source").ends_with("GoPs of 1 s, with sound"));
    let paths = ["--path", "one=127.0.0.1", "--insecure-plaintext", "--json"];
    let keep = ["--save", saved.to_str().unwrap()];
    let args = [&["vr", "play", "--server", &address][..], &paths, &keep].concat();
    let output = run(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |key: &str| summary[key].as_u64().unwrap();
    assert_eq!((count("gops"), count("sound_gops")), (count("gops_shown"), count("gops_shown")));
    let began = number(&server.logs("begins with GoP"), "begins with GoP ");
    let mut kept = [0, 0];
    let tiles = fs::read_dir(saved.join("tiles")).unwrap().map(|rung| rung.unwrap().path());
    for folder in tiles.chain([saved.join("sound")]) {
        let is_sound = usize::from(folder.ends_with("sound"));
        for file in fs::read_dir(&folder).unwrap() {
            let file = file.unwrap().path();
            let stem = file.file_stem().unwrap().to_str().unwrap();
            let name = match stem.parse::<u32>() {
                Ok(gop) => format!("{:06}.m4s", gop + began),
                Err(_) => "init.mp4".to_owned(),
            };
            let wanted = package.join(folder.strip_prefix(&saved).unwrap()).join(name);
            let is_same = fs::read(&file).unwrap() == fs::read(&wanted).unwrap();
            assert!(is_same, "{} is not {}", file.display(), wanted.display());
            kept[is_sound] += 1;
        }
    }
    assert!(kept[0] > 1 && kept[1] > 1, "{kept:?} {summary}");
    assert_eq!(number(&server.logs("it has ended after"), "after "), 4);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    if !ffmpeg() {
        return;
    }
    let base = ["vr", "serve", "--listen", "127.0.0.1:0", "--insecure-plaintext"];
    let fails = |status: i32, options: &[&str], words: &[&str]| {
        let error = failure(status, &[&base[..], options].concat());
        for word in words {
            assert!(error.contains(word), "no '{word}' in {error}");
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let garbage: Vec<u8> =
        (0..200_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fails(1, &["--source", &file("garbage", &garbage)], &["garbage: ffmpeg cannot read it"]);
    fails(1, &["--source", &file("empty", b"")], &["empty: ffmpeg cannot read it"]);
    fails(1, &["--source", "/nowhere/film.mp4"], &["/nowhere/film.mp4", "No such file"]);
    fails(1, &["--source", "/dev/null"], &["is no file and no pipe", "--source -"]);
    let clip = clip().to_str().unwrap();
    fails(
        2,
        &["--source", clip, "--delay", "0.5"],
        &["--delay: 0.5 s is no more than a GoP of 1 s"],
    );
    fails(2, &["--source", clip, "--delay", "61"], &["--delay: 61 s is more than 60 GoPs of 1 s"]);
    fails(
        2,
        &["--source", clip, "--encode-within", "1e9"],
        &["--encode-within: 1000000000 s is more than the delay of 3 s"],
    );
    fails(2, &["--source", clip, "--grid", "7x3"], &["7x3"]);
    fails(2, &["--source", clip, "--qp", "77"], &["QPs must be from 1 to 51"]);
    // The same through a pipe, which ends.
    let mut command = weftline(&[&base[..], &["--source", "-"]].concat());
    let (reads, mut writes) = std::io::pipe().unwrap();
    // The other end may have seen enough.
    std::thread::spawn(move || writes.write_all(&garbage));
    let output = run_with(&mut command, reads);
    let said = String::from_utf8_lossy(&output.stderr);
    // On a slow machine it says first that it waits.
    let error = said.lines().last().unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(error.starts_with("weftline: standard input: ffmpeg cannot read it"), "{said}");
}
