//! `weftline vr serve` and `vr play` as they are used: a tiny package, streamed over loopback and,
//! as root, over the lab's links while one of them dies. Without ffmpeg it is skipped; in CI it
//! must be there.
//!
//! How much arrives in time depends on the machine, so that is not what is judged: each tile is
//! counted once, what arrived is what was packaged, and what goes wrong is said.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;
mod rules;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use common::vr::ffmpeg;
use common::{Daemon, PATIENCE, dial, failure, run, run_alone, weftline};
use serde_json::Value;
use weftline_core::{Bitrate, ByteCount};
use weftline_lab::LabError;
use weftline_lab::emulator::Start;
use weftline_lab::testbed::{PathLinks, Testbed};
use weftline_lab::topology::End;
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_video::evaluate::Concealment;
use weftline_video::geometry::{FrameSize, Grid};
use weftline_video::live::wire::{GopNotice, Hello, Manifest, Message, Report, TileNotice};

const GOPS: usize = 4;
const TILES: u64 = 8;
/// A player's buffer with which nothing is late on a busy machine; so long it waits for the beginning.
const LONG: [&str; 4] = ["--buffer", "20s", "--rebuffer", "20s"];

/// A package of four GoPs of half a second: made once, and read by all tests.
fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vr_live");
        // What another run has left.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let (scene, package) = (dir.join("scene.y4m"), dir.join("package"));
        let run = |args: &str, file: &Path, out: &Path| {
            let mut command = weftline(&["vr"]);
            command.args(args.split(' ')).arg(file).arg("-o").arg(out);
            let output = run_alone(&mut command);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run("synth --size 192x96 --fps 8 --seconds 2", Path::new("rink"), &scene);
        let loud = dir.join("loud.mkv");
        let mut sound = Command::new("ffmpeg");
        sound.args(["-v", "error", "-nostdin", "-y", "-i"]).arg(&scene);
        sound.args("-f lavfi -i sine=duration=2 -c:v ffv1 -c:a flac".split(' ')).arg(&loud);
        assert!(sound.status().unwrap().success());
        let scene = loud;
        let coding = "package --gop 0.5 --grid 4x2 --qp 22,37 --preset ultrafast";
        run(coding, &scene, &package);
        package
    })
}

/// A server of a package in plaintext, and its address.
fn serve(package: &Path, options: &[&str]) -> (Daemon, SocketAddr) {
    let package = package.to_str().unwrap();
    let base = ["vr", "serve", package, "--listen", "127.0.0.1:0", "--insecure-plaintext"];
    let mut server = Daemon::start(&[&base[..], options].concat());
    let address = server.listening();
    (server, address)
}

/// The arguments of a player with two paths to a server.
fn play<'a>(server: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    let paths = ["--path", "one=127.0.0.1", "two=127.0.0.2", "--insecure-plaintext"];
    [&["vr", "play", "--server", server][..], &paths, options].concat()
}

/// Checks a log of JSON lines: every GoP in order, each tile counted once.
#[track_caller]
fn check_log(text: &str, gops: usize) -> Vec<Value> {
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), gops, "{text}");
    for (gop, line) in lines.iter().enumerate() {
        let count = |key: &str| line[key].as_u64().unwrap();
        assert_eq!(count("gop"), gop as u64);
        assert_eq!(count("arrived") + count("late") + count("dropped"), TILES, "{line}");
        // Without a base layer what is not there is concealed.
        assert_eq!(count("concealed"), count("late") + count("dropped"), "{line}");
        assert!(line["psnr_db"].as_f64().unwrap() > 0.0, "{line}");
    }
    lines
}

/// Checks that all that was kept is, byte for byte, the package's; how many segments.
fn check_saved(saved: &Path, package: &Path) -> usize {
    let mut segments = 0;
    let rungs = fs::read_dir(saved.join("tiles")).unwrap().map(|rung| rung.unwrap().path());
    let sound = Some(saved.join("sound")).filter(|dir| dir.exists());
    for rung in rungs.chain(sound) {
        for file in fs::read_dir(&rung).unwrap() {
            let file = file.unwrap().path();
            let kept = fs::read(&file).unwrap();
            let packaged = package.join(file.strip_prefix(saved).unwrap());
            assert!(kept == fs::read(&packaged).unwrap(), "{} differs", file.display());
            segments += usize::from(file.extension().is_some_and(|end| end == "m4s"));
        }
    }
    segments
}

/// Checks that a kept tile decodes: what the player was sent is all that a decoder needs.
fn check_decodes(saved: &Path, dir: &Path) {
    let rung = fs::read_dir(saved.join("tiles")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(rung.join("init.mp4")).unwrap();
    let segment = fs::read_dir(&rung).unwrap().map(|file| file.unwrap().path());
    let segment = segment.into_iter().find(|file| file.extension().unwrap() == "m4s").unwrap();
    bytes.extend(fs::read(segment).unwrap());
    fs::write(dir.join("tile.mp4"), bytes).unwrap();
    let decode = "-v error -nostdin -i tile.mp4 -f rawvideo -pix_fmt gray -";
    let output = Command::new("ffmpeg").args(decode.split(' ')).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Four pictures of a tile of 48x48.
    assert_eq!(output.stdout.len(), 4 * 48 * 48);
}

/// Checks that what a log says was shown is drawn from the package, and is near to what the player said.
fn check_drawn(log: &Path, package: &Path, lines: &[Value]) {
    let source = package.with_file_name("loud.mkv");
    let options = ["--source", source.to_str().unwrap(), "--played", log.to_str().unwrap()];
    let args = [&["vr", "check", package.to_str().unwrap()][..], &options, &["--json"]].concat();
    // Whether it is near enough to pass is for larger pictures: these have 48 pixels a tile.
    let output = run(&args);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let drawn: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(drawn.len(), lines.len(), "{text}");
    for (drawn, line) in drawn.iter().zip(lines) {
        assert_eq!(drawn["gop"], line["gop"]);
        let db = |key: &str| drawn[key].as_f64().unwrap();
        assert!((db("player_psnr_db") - line["psnr_db"].as_f64().unwrap()).abs() < 1e-6);
        for (said, truth) in
            [("fast_psnr_db", "nearest_psnr_db"), ("player_psnr_db", "mixed_psnr_db")]
        {
            let off = db(said) - db(truth);
            assert!(off.abs() < 3.0, "{said} is {off} dB off in {drawn}");
        }
    }
    // Of another package it cannot be.
    let mut other = lines[0].clone();
    other["shown"] = Value::from(vec![23; TILES as usize]);
    let other_log = log.with_extension("other.jsonl");
    fs::write(&other_log, other.to_string()).unwrap();
    let options = ["--source", source.to_str().unwrap(), "--played", other_log.to_str().unwrap()];
    let error = failure(2, &[&["vr", "check", package.to_str().unwrap()][..], &options].concat());
    assert!(error.contains("of tile 0 it shows Rung(23), which there is not"), "{error}");
}

#[test]
fn a_server_of_tiles_has_a_dashboard() {
    if !ffmpeg() {
        return;
    }
    let (mut server, _) = serve(package(), &["--dashboard", "127.0.0.1:0"]);
    let url = server.says("dashboard");
    let (address, token) = url.strip_prefix("http://").unwrap().split_once("/#k=").unwrap();
    let mut stream = dial(address);
    let head = format!("Host: {address}\r\nAuthorization: Bearer {token}");
    write!(stream, "GET /api/1/status HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((&status["daemon"], &status["state"]), (&"vr serve".into(), &"running".into()));
    assert_eq!(status["listening"].as_array().unwrap().len(), 1);
}

#[test]
fn a_package_is_streamed_over_two_paths() {
    if !ffmpeg() {
        return;
    }
    let (dir, package) = (tempfile::tempdir().unwrap(), package());
    let (saved, log) = (dir.path().join("saved"), dir.path().join("log.jsonl"));
    let mut server = Daemon::start(&[
        "vr",
        "serve",
        package.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        dir.path().to_str().unwrap(),
        "--viewers",
        "4",
        "--players",
        "1",
    ]);
    let fingerprint = server.says("fingerprint");
    let address = server.listening().to_string();
    let keep = ["--save", saved.to_str().unwrap(), "--log", log.to_str().unwrap(), "--json"];
    let paths = ["--path", "one=127.0.0.1", "two=127.0.0.2", "--fingerprint", &fingerprint];
    let args = [&["vr", "play", "--server", &address][..], &paths, &keep, &LONG].concat();
    let output = run(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["completed"], true);
    assert_eq!(
        (&summary["scheme"], &summary["concealment"]),
        (&"ows".into(), &"last-received".into())
    );
    let lines = check_log(&fs::read_to_string(&log).unwrap(), GOPS);
    let arrived: u64 = lines.iter().map(|line| line["arrived"].as_u64().unwrap()).sum();
    assert_eq!(summary["arrived"], arrived);
    // Its sound is sent before its tiles, in the terms of P.1203 as everywhere.
    assert_eq!(summary["sound_gops"], GOPS);
    let heard = lines.iter().filter(|line| line["sound"] == true).count();
    assert_eq!(summary["sound_in_time"], heard);
    assert!(heard == 0 || saved.join("sound/init.mp4").exists());
    let inputs = &summary["p1203"];
    let counts = ["I11", "I13"].map(|name| inputs[name]["segments"].as_array().unwrap().len());
    assert_eq!(counts, [GOPS; 2]);
    assert_eq!(inputs["I23"]["stalling"][0][1], summary["startup_s"]);
    let segments = check_saved(&saved, package);
    assert!(segments > 0 && segments as u64 >= arrived, "{segments} kept, {arrived} in time");
    check_decodes(&saved, dir.path());
    check_drawn(&log, package, &lines);
    // It had one player to serve.
    assert!(server.logs("has got its 4 GoPs").contains("tiles"));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_buffer_is_as_long_as_it_is_said_to_be() {
    if !ffmpeg() {
        return;
    }
    let (server, address) = serve(package(), &["--players", "1"]);
    let address = address.to_string();
    let options = ["--buffer", "1500ms", "--rebuffer", "100s", "--json"];
    let error = failure(2, &play(&address, &options));
    assert!(error.contains("--rebuffer: '100s' is not within 0ns to 60s"), "{error}");
    let options = ["--buffer", "1500ms", "--rebuffer", "2s", "--json"];
    let output = run(&play(&address, &options));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["completed"], &summary["gops_shown"]), (&true.into(), &GOPS.into()));
    assert!(summary["startup_s"].as_f64().unwrap() >= 1.5, "{summary}");
    let stalled = (summary["stalls"].as_u64().unwrap(), summary["stalled_s"].as_f64().unwrap());
    assert_eq!(stalled.0 == 0, stalled.1 == 0.0, "{summary}");
    // In the terms of P.1203 it is the same.
    assert_eq!(summary["initial_loading_delay_s"], summary["startup_s"]);
    assert_eq!(summary["stalling_events"], summary["stalls"]);
    assert_eq!(summary["stalling_total_s"], summary["stalled_s"]);
    let positions = summary["stalling_positions_s"].as_array().unwrap();
    assert_eq!(positions.len() as u64, stalled.0);
    assert_eq!(summary["stalling_mean_s"].is_null(), stalled.0 == 0);
    drop(server);
}

#[test]
fn the_kernels_tcp_carries_the_same_messages() {
    if !ffmpeg() {
        return;
    }
    let (dir, package) = (tempfile::tempdir().unwrap(), package());
    let saved = dir.path().join("saved");
    let options = ["--transport", "tcp", "--scheme", "fix", "--concealment", "base-layer"];
    let (server, address) = serve(package, &[&options[..], &["--players", "1"]].concat());
    let address = address.to_string();
    let base = ["vr", "play", "--transport", "tcp", "--server", &address, "--insecure-plaintext"];
    let keep = ["--save", saved.to_str().unwrap(), "--log", "-"];
    let output = run(&[&base[..], &keep].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0].last(), Some(&"tcp_bytes"), "{text}");
    for (gop, row) in rows[1..=GOPS].iter().enumerate() {
        let field = |name| row[rows[0].iter().position(|found| *found == name).unwrap()];
        assert_eq!(field("gop"), gop.to_string());
        let count = |name| field(name).parse::<u64>().unwrap();
        assert_eq!(count("arrived") + count("late") + count("dropped"), TILES, "{text}");
    }
    assert!(text.contains("4 of 4 GoPs over tcp, fix, base-layer: viewport"), "{text}");
    assert!(check_saved(&saved, package) > 0);
    assert_eq!(server.end().0, Some(0));
}

/// A copy of a package in `dir`, to be changed.
fn copied(package: &Path, dir: &Path) -> PathBuf {
    let copy = dir.join("package");
    let status = Command::new("cp").arg("-r").arg(package).arg(&copy).status().unwrap();
    assert!(status.success());
    copy
}

/// The finding that began this: segments of other bytes were reported as 53 dB.
#[test]
fn other_bytes_than_were_packaged_are_counted_and_never_kept() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spoiled = copied(package(), dir.path());
    // All of tile 3, at both QPs, and of the right length.
    for file in ["22", "37"].iter().flat_map(|qp| {
        let rung = spoiled.join(format!("tiles/t003q{qp}"));
        fs::read_dir(rung).unwrap().map(|file| file.unwrap().path())
    }) {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, bytes.iter().map(|byte| byte ^ 0x55).collect::<Vec<u8>>()).unwrap();
    }
    let (saved, log) = (dir.path().join("saved"), dir.path().join("log.jsonl"));
    // So that all of it is sent, however slow the paths and the machine are.
    let (_server, address) = serve(&spoiled, &["--players", "1", "--scheme", "fix"]);
    let address = address.to_string();
    let keep = ["--save", saved.to_str().unwrap(), "--log", log.to_str().unwrap(), "--json"];
    let output = run(&play(&address, &[&keep[..], &LONG].concat()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = check_log(&fs::read_to_string(&log).unwrap(), GOPS);
    let damaged: u64 = lines.iter().map(|line| line["damaged"].as_u64().unwrap()).sum();
    assert!(damaged > 0, "{lines:?}");
    assert!(!saved.join("tiles/t003q22").exists() && !saved.join("tiles/t003q37").exists());
    assert!(check_saved(&saved, package()) > 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tile 3 of GoP") && said.contains("is not shown"), "{said}");
    // One that was packaged before there were digests says how they are had.
    let record = spoiled.join("gops/000000.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace("\"segment\"", "\"of_before\"")).unwrap();
    let args = ["vr", "serve", spoiled.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let error = failure(1, &[&args[..], &["--insecure-plaintext"]].concat());
    assert!(error.contains("no digest") && error.contains("package again"), "{error}");
}

/// Sixty-four connections that said nothing took all places, and one that came to look ended a server
/// of one player.
#[test]
fn connections_that_do_not_greet_take_no_places() {
    if !ffmpeg() {
        return;
    }
    let tcp = ["--transport", "tcp", "--players", "1", "--max-players", "1"];
    let (_server, address) = serve(package(), &tcp);
    let idle: Vec<_> = (0..70).map(|_| TcpStream::connect(address).unwrap()).collect();
    let address = address.to_string();
    let args = ["vr", "play", "--server", &address, "--transport", "tcp", "--insecure-plaintext"];
    let output = run(&[&args[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["completed"], &summary["gops_shown"]), (&true.into(), &GOPS.into()));
    drop(idle);
}

#[test]
fn a_server_that_dies_is_named() {
    if !ffmpeg() {
        return;
    }
    let package = package();
    for transport in ["weftline", "tcp"] {
        // A stream that lasts for minutes, so that it cannot be over.
        let (server, address) = serve(package, &["--gops", "500", "--transport", transport]);
        let address = address.to_string();
        let kernel =
            ["vr", "play", "--server", &address, "--insecure-plaintext", "--transport", "tcp"];
        let args = match transport {
            "tcp" => [&kernel[..], &["--log", "-"]].concat(),
            _ => play(&address, &["--log", "-", "--grace", "5s"]),
        };
        let mut player = Daemon::start(&args);
        player.says("gop,time_s,");
        player.says("0,");
        server.signal("-KILL");
        let said = player.logs("broke off");
        assert!(said.contains("of 500 GoPs: "), "{said}");
        assert_eq!(player.end().0, Some(1));
    }
}

/// A player that was killed kept its place for half a minute, and was said to have all that was sent to it.
#[test]
fn a_player_that_was_killed_makes_room_and_is_not_said_to_have_all() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    fs::write(&token, "a secret of these two").unwrap();
    let token = token.to_str().unwrap();
    let options = ["--gops", "500", "--max-players", "1", "--token-file", token];
    let (server, address) = serve(package(), &options);
    let address = address.to_string();
    let args = play(&address, &["--log", "-", "--token-file", token]);
    for _ in 0..2 {
        // The second one finds the place free.
        let mut player = Daemon::start(&args);
        player.says("gop,time_s,");
        player.says("0,");
        player.signal("-KILL");
        let said = server.logs("all its connections were closed");
        assert!(said.contains("it reported") && said.contains("tiles of"), "{said}");
    }
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_server_that_stops_says_so() {
    if !ffmpeg() {
        return;
    }
    let package = package();
    let (server, address) = serve(package, &["--gops", "500"]);
    let address = address.to_string();
    let mut player = Daemon::start(&play(&address, &["--log", "-"]));
    player.says("gop,time_s,");
    player.says("0,");
    server.signal("-TERM");
    let said = player.logs("broke off");
    assert!(said.contains("the peer says: the server is stopping"), "{said}");
    assert_eq!(player.end().0, Some(1));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn what_cannot_be_streamed_is_refused() {
    if !ffmpeg() {
        return;
    }
    let (dir, package) = (tempfile::tempdir().unwrap(), package());
    let name = package.to_str().unwrap();
    let serve = |options: &[&'static str]| {
        let base = ["vr", "serve", name, "--listen", "127.0.0.1:0", "--insecure-plaintext"];
        [&base[..], options].concat()
    };
    let error = failure(2, &serve(&["--scheme", "best"]));
    assert!(error.contains("unknown tile scheme 'best'; known are ows, ows-order, fix"), "{error}");
    let error = failure(2, &serve(&["--scheme", "oracle"]));
    assert!(error.contains("knows the future"), "{error}");
    let error = failure(2, &serve(&["--concealment", "pink"]));
    assert!(error.contains("grey, last-received, base-layer"), "{error}");
    let error = failure(2, &serve(&["--heads", "/nonexistent"]));
    assert!(error.contains("/nonexistent: No such file"), "{error}");
    let tls = ["vr", "serve", name, "--listen", "127.0.0.1:0", "--transport", "mptcp"];
    let error = failure(2, &tls);
    assert!(error.contains("give --insecure-plaintext"), "{error}");
    let error = failure(2, &["vr", "play", "--server", "127.0.0.1:1", "--insecure-plaintext"]);
    assert!(error.contains("no path given"), "{error}");
    let error = failure(2, &play("127.0.0.1:1", &["--buffer", "50ms"]));
    assert!(error.contains("--buffer: '50ms' is not within 100ms to 60s"), "{error}");
    // A package that was cut short, and none.
    let cut = copied(package, dir.path());
    let segment = cut.join("tiles/t003q37/000001.m4s");
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 1]).unwrap();
    let error = failure(1, &["vr", "serve", cut.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert!(error.contains("t003q37/000001.m4s has"), "{error}");
    let nothing = dir.path().to_str().unwrap();
    let error = failure(1, &["vr", "serve", nothing, "--listen", "127.0.0.1:0"]);
    assert!(error.contains("is no package"), "{error}");
}

/// Two links of 20 Mb/s in namespaces; `None` where this cannot be, and need not.
fn world() -> Option<Testbed> {
    let rate = Bitrate::mbps(20);
    let link = || LinkConfig {
        rate: RateTrace::constant(rate),
        delay: Duration::from_millis(5),
        jitter: Duration::ZERO,
        queue: QueueLimit::Bytes(rate.bytes_in(Duration::from_millis(40))),
        loss: LossModel::None,
    };
    let path = |name: &str| PathLinks { name: name.to_owned(), down: link(), up: link() };
    match Testbed::build(vec![path("wifi"), path("wigig")], "cubic", 1, Start::Explicit) {
        Ok(world) => Some(world),
        Err(LabError::NotPossible { what, remedy }) => {
            assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
            eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-cli --test vr_live'");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_path_dies_in_mid_stream_and_the_other_goes_on() {
    if !ffmpeg() {
        return;
    }
    let Some(world) = world() else { return };
    let (dir, package) = (tempfile::tempdir().unwrap(), package());
    let saved = dir.path().join("saved");
    let program = assert_cmd::cargo::cargo_bin!("weftline");
    let servers = [0, 1].map(|path| world.address(path, End::Server, 4433).to_string());
    let mut command = world.server.command(program);
    command.args(["vr", "serve", package.to_str().unwrap(), "--insecure-plaintext"]);
    command.args(["--gops", "500", "--listen", &servers[0], "--listen", &servers[1]]);
    let mut server = Daemon::spawn(&mut command);
    server.listening();
    server.listening();
    let mut command = world.client.command(program);
    command.args(["vr", "play", "--insecure-plaintext", "--server", &servers[0], &servers[1]]);
    command.args(["--path", "wifi=wifi", "wigig=wigig", "--log", "-", "--save"]).arg(&saved);
    let mut player = Daemon::spawn(&mut command);
    let header = format!("gop,{}", player.says("gop,"));
    let names: Vec<&str> = header.split(',').collect();
    let place = |name| names.iter().position(|found| *found == name).unwrap();
    let (mut gop, mut arrived_alone) = (0, 0);
    // Until the log has said that the path is down, and what came over the other one since.
    while arrived_alone == 0 {
        let line = format!("{gop},{}", player.says(&format!("{gop},")));
        let fields: Vec<&str> = line.split(',').collect();
        let count = |name| fields[place(name)].parse::<u64>().unwrap();
        assert_eq!(count("arrived") + count("late") + count("dropped"), TILES, "{line}");
        if fields[place("down")] == "wigig" && gop > 3 {
            arrived_alone += count("arrived");
        }
        if gop == 3 {
            world.emulator.cut("wigig", None, true).unwrap();
        }
        gop += 1;
    }
    player.logs("path wigig: subflow");
    server.logs("path wigig: subflow");
    player.signal("-TERM");
    let said = player.logs("broke off");
    assert!(said.contains("of 500 GoPs: it was told to stop"), "{said}");
    assert_eq!(player.end().0, Some(1));
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    // After the package's last GoP comes its first again, with its time in the stream.
    let mut compared = 0;
    for rung in fs::read_dir(saved.join("tiles")).unwrap() {
        let rung = rung.unwrap().path();
        for file in fs::read_dir(&rung).unwrap() {
            let file = file.unwrap().path();
            let Ok(gop) = file.file_stem().unwrap().to_str().unwrap().parse::<usize>() else {
                continue;
            };
            let name = format!("{:06}.m4s", gop % GOPS);
            let packaged = package.join(rung.strip_prefix(&saved).unwrap()).join(name);
            let packaged = again(fs::read(packaged).unwrap(), gop);
            assert!(fs::read(&file).unwrap() == packaged, "{gop} differs");
            compared += 1;
        }
    }
    assert!(compared > 0, "nothing was kept");
}

/// A packaged segment as it is kept when it is played as GoP `gop`: its number and its time, and nothing
/// else, are those of the stream. GoPs of four pictures at 8 a second, in 10,000 units a second.
fn again(mut segment: Vec<u8>, gop: usize) -> Vec<u8> {
    let after = |kind: &[u8; 4]| segment.windows(4).position(|found| found == kind).unwrap() + 8;
    let (number, time) = (after(b"mfhd"), after(b"tfdt"));
    segment[number..number + 4].copy_from_slice(&(gop as u32 + 1).to_be_bytes());
    segment[time..time + 8].copy_from_slice(&(gop as u64 * 4 * 1_250).to_be_bytes());
    segment
}

/// What is kept of two rounds of the same GoPs decodes as one stream: tiles, and sound.
#[test]
fn what_is_kept_of_two_rounds_is_one_stream() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("saved");
    let gops = 2 * GOPS;
    let options = ["--gops", &gops.to_string(), "--players", "1", "--scheme", "fix"];
    let (_server, address) = serve(package(), &options);
    let address = address.to_string();
    // So that nothing is late, however busy the machine is.
    let keep = ["--save", saved.to_str().unwrap(), "--buffer", "60s", "--rebuffer", "60s"];
    let player = Daemon::start(&play(&address, &keep));
    let rungs = || fs::read_dir(saved.join("tiles")).into_iter().flatten();
    let full = || {
        let all = |dir: PathBuf| (0..gops).all(|gop| dir.join(format!("{gop:06}.m4s")).exists());
        let rung = rungs().map(|rung| rung.unwrap().path()).find(|dir| all(dir.clone()));
        rung.filter(|_| all(saved.join("sound")))
    };
    let until = std::time::Instant::now() + PATIENCE;
    let rung = loop {
        match full() {
            Some(rung) => break rung,
            None => assert!(std::time::Instant::now() < until, "{:?}", rungs().count()),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    player.signal("-TERM");
    player.end();
    let sound = saved.join("sound");
    for (dir_of, args, wanted) in [
        (rung, "-v warning -nostdin -i all.mp4 -f framecrc -", 4 * gops),
        (sound, "-v warning -nostdin -i all.mp4 -f framecrc -", 0),
    ] {
        let mut bytes = fs::read(dir_of.join("init.mp4")).unwrap();
        for gop in 0..gops {
            bytes.extend(fs::read(dir_of.join(format!("{gop:06}.m4s"))).unwrap());
        }
        fs::write(dir.path().join("all.mp4"), bytes).unwrap();
        let mut command = Command::new("ffmpeg");
        let output = command.args(args.split(' ')).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}");
        let frames = String::from_utf8(output.stdout).unwrap();
        let times = frames.lines().filter(|line| !line.starts_with('#'));
        let times: Vec<i64> =
            times.map(|line| line.split(',').nth(2).unwrap().trim().parse().unwrap()).collect();
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        assert!(wanted == 0 || times.len() == wanted, "{times:?}");
    }
}

/// Both links go dark, and nothing is closed.
#[test]
fn a_player_that_is_cut_off_makes_room() {
    if !ffmpeg() {
        return;
    }
    let Some(world) = world() else { return };
    let program = assert_cmd::cargo::cargo_bin!("weftline");
    let servers = [0, 1].map(|path| world.address(path, End::Server, 4433).to_string());
    let mut command = world.server.command(program);
    command.args(["vr", "serve", package().to_str().unwrap(), "--insecure-plaintext"]);
    command.args(["--gops", "500", "--listen", &servers[0], "--listen", &servers[1]]);
    let mut server = Daemon::spawn(&mut command);
    server.listening();
    server.listening();
    let mut command = world.client.command(program);
    command.args(["vr", "play", "--insecure-plaintext", "--server", &servers[0], &servers[1]]);
    command.args(["--path", "wifi=wifi", "wigig=wigig", "--log", "-"]);
    let mut player = Daemon::spawn(&mut command);
    player.says("gop,");
    player.says("0,");
    for path in ["wifi", "wigig"] {
        world.emulator.cut(path, None, true).unwrap();
    }
    // Ten seconds and two GoPs.
    let said = server.logs("nothing came from it for 11s");
    assert!(said.contains("it reported"), "{said}");
    player.signal("-KILL");
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
}
