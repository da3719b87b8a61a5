//! `vr play --web` in a browser: crates/web/ui/test/player.mjs, which says what is to be done to the stream.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::vr::ffmpeg;
use crate::common::{Daemon, PATIENCE, weftline};
use crate::page::{can_run, drive};
use crate::relay::Relay;

/// A package of two seconds of four by two tiles; with sound, a tone of a tenth of a second at the beginning
/// of each GoP.
fn package(dir: &Path, has_sound: bool) -> PathBuf {
    let (scene, heard) = (dir.join("scene.y4m"), dir.join("heard.mkv"));
    let package = dir.join("package");
    let run = |args: &str, file: &Path, out: &Path| {
        let mut command = weftline(&["vr"]);
        command.args(args.split(' ')).arg(file).arg("-o").arg(out);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("synth --size 384x192 --fps 12 --seconds 2", Path::new("rink"), &scene);
    if has_sound {
        let tone = "aevalsrc=if(lt(mod(t\\,0.5)\\,0.1)\\,0.8*sin(880*2*PI*t)):s=48000:d=2";
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-i"]).arg(&scene).args(["-f", "lavfi", "-i", tone]);
        command.args(["-c:v", "ffv1", "-c:a", "flac"]).arg(&heard);
        assert!(command.status().unwrap().success());
    }
    let source = if has_sound { &heard } else { &scene };
    run("package --gop 0.5 --grid 4x2 --qp 22,30,42 --preset veryfast", source, &package);
    package
}

/// Does what the test in the browser asks for, until it ends, which must be good; then looks at what the
/// page has told.
fn play(script: &str, web: &[&str], timing: &[&str]) {
    if !ffmpeg() || !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let is_brief = script.contains("--brief");
    let package = package(dir.path(), is_brief);
    let package = package.to_str().unwrap();
    let screens = dir.path().join("screens");
    fs::create_dir(&screens).unwrap();
    let script = format!("{script} --screens={}", screens.display());
    let args = ["vr", "serve", package, "--listen", "127.0.0.1:0", "--insecure-plaintext"];
    // It lasts longer than any browser takes.
    let mut server = Daemon::start(&[&args[..], &["--gops", "4000"]].concat());
    let address = server.listening();
    let path = Relay::to(address);
    let shown = dir.path().join("shown.jsonl");
    let (address, through) = (address.to_string(), path.address().to_string());
    let args = ["vr", "play", "--server", &address, &through, "--insecure-plaintext"];
    // Not all tiles can be fine; with sound there is room for all of them.
    let cap = if is_brief { "200kbps" } else { "100kbps" };
    let paths = ["127.0.0.1", "127.0.0.2"].map(|ip| format!("{ip},cap={cap}"));
    let paths = ["--path", &format!("one={}", paths[0]), &format!("two={}", paths[1])];
    let log = ["--shown", shown.to_str().unwrap()];
    let mut player = Daemon::start(&[&args[..], &paths, &["--web"], web, &log, timing].concat());
    let url = player.says("player");
    if web.contains(&"--web-tls") {
        assert!(url.starts_with("https://"), "{url}");
        let fingerprint = player.says("certificate");
        assert!(fingerprint.starts_with("sha256:"), "{fingerprint}");
    }
    let mut server = Some(server);
    let said = drive(&script, &url, |what| match what {
        "cut path" => path.cut(),
        "restore path" => path.restore(),
        "wait for what was shown" => until_told(&shown),
        "stop server" => server.as_ref().unwrap().signal("-TERM"),
        other => panic!("{other}"),
    });
    eprintln!("{said}");
    drop(server.take());
    let (status, _) = player.end();
    assert_eq!(status, Some(1), "the stream broke off");
    check_shown(&shown);
    if is_brief {
        check_screens(&screens, package);
    }
}

/// What the browser's GPU, or what stands for it, has drawn is what we draw of the same tiles.
fn check_screens(screens: &Path, package: &str) {
    let screens = screens.to_str().unwrap();
    let check = |dir: &str| {
        let output =
            weftline(&["vr", "check", package, "--screens", dir, "--json"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8(output.stdout).unwrap(), said)
    };
    let (is_good, lines, said) = check(screens);
    assert!(is_good, "{said}{lines}");
    assert_eq!(lines.lines().count(), 30);
    for line in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        // Those that are the same have no number.
        let apart = &line["apart_psnr_db"];
        assert!(apart.is_null() || apart.as_f64().unwrap() > 50.0, "{line}");
    }
    // One that was drawn from elsewhere is found.
    let file = Path::new(screens).join("0-0.json");
    let said = fs::read_to_string(&file).unwrap();
    fs::write(&file, said.replace("\"yaw\":0", "\"yaw\":3")).unwrap();
    let (is_good, _, said) = check(screens);
    assert!(!is_good && said.contains("picture 0-0 is"), "{said}");
}

#[test]
fn the_player_shows_what_arrives() {
    play("test/player.mjs", &["127.0.0.1:0"], &["--buffer", "600ms"]);
}

/// Six GoPs wait before they are shown, and the picture stands still where they are late. The page comes by an
/// address that other machines reach, over TLS: nothing else is a secure context there. The stream has sound.
#[test]
fn a_long_buffer_and_stalls_lose_nothing_over_tls() {
    let own = own_address();
    let (web, state) = (format!("{own}:0"), tempfile::tempdir().unwrap());
    let state = state.path().to_str().unwrap();
    let timing = ["--buffer", "3s", "--rebuffer", "1s", "--fov", "90"];
    play("test/player.mjs --brief", &[&web, "--web-tls", "--state-dir", state], &timing);
}

/// An address of this machine that others reach, or if it has none, its own.
fn own_address() -> IpAddr {
    // Nothing is sent there.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    match socket.connect("192.0.2.1:9") {
        Ok(()) => socket.local_addr().unwrap().ip(),
        Err(_) => {
            eprintln!("no other machine can be reached: it is tried by loopback");
            IpAddr::from([127, 0, 0, 1])
        }
    }
}

#[test]
fn where_a_page_cannot_be_is_said() {
    let base = ["vr", "play", "--server", "127.0.0.1:1", "--path", "a=127.0.0.1"];
    let base = [&base[..], &["--insecure-plaintext"]].concat();
    let said = |options: &[&str]| {
        let output = weftline(&[&base[..], options].concat()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, text) = said(&["--web", "0.0.0.0:0"]);
    assert!(status == Some(2) && text.contains("--behind-proxy NAME"), "{status:?} {text}");
    assert!(text.contains("add --web-tls"), "{text}");
    let state = tempfile::tempdir().unwrap();
    let own = ["--web-tls", "--state-dir", state.path().to_str().unwrap()];
    let (status, text) = said(&[&["--web", "0.0.0.0:0"][..], &own].concat());
    assert!(status == Some(2) && text.contains("give the one by which browsers"), "{text}");
    assert!(!state.path().join("web").exists(), "no key is made for what is refused");
    let key = ["--web-cert", "none.pem", "--web-key", "none.pem"];
    let (status, text) = said(&[&["--web", "127.0.0.1:0", "--web-tls"][..], &key].concat());
    assert!(status == Some(1) && text.contains("none.pem"), "{status:?} {text}");
    let (status, text) = said(&["--web", "127.0.0.1:0", "--web-tls", "--web-cert", "none.pem"]);
    assert!(status == Some(2) && text.contains("--web-key"), "{status:?} {text}");
    let (status, text) = said(&["--web", "127.0.0.1:0", "--behind-proxy", "http://weft.example"]);
    assert!(status == Some(2) && text.contains("no host's name"), "{status:?} {text}");
    let (status, text) = said(&["--shown", "log.jsonl"]);
    assert!(status == Some(2) && text.contains("--web"), "{status:?} {text}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (status, text) = said(&["--web", &taken.local_addr().unwrap().to_string()]);
    assert!(status == Some(1) && text.contains("choose another port"), "{status:?} {text}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("none/shown.jsonl");
    let (status, text) = said(&["--web", "127.0.0.1:0", "--shown", file.to_str().unwrap()]);
    assert!(status == Some(1) && text.contains("--shown: cannot write"), "{status:?} {text}");
}

/// Waits until two pages have told, ten times in all of a GoP of which they were sent all, and one has shown a
/// tile as it arrived: the lines of the log by which [`check_shown`] judges come when they come.
fn until_told(shown: &Path) {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(shown).unwrap();
        // The last may not be whole.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let (mut pages, mut sent, mut as_said) = (BTreeSet::new(), 0, false);
        for line in whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            pages.insert(line["page"].as_u64().unwrap());
            sent += u32::from(line["unsent"] == 0);
            let [model, seen, missed] = ["model", "shown", "missed"].map(|key| &line[key]);
            as_said |= (0..8)
                .any(|tile| model[tile].is_u64() && model[tile] == seen[tile] && missed[tile] == 0);
        }
        if pages.len() >= 2 && sent >= 10 && as_said {
            return;
        }
        assert!(Instant::now() < end, "{pages:?} have told, of {sent} GoPs all:\n{text}");
        sleep(Duration::from_millis(50));
    }
}

/// Each page has shown what arrived in time: but for what its decoders had no time for.
fn check_shown(shown: &Path) {
    let text = fs::read_to_string(shown).unwrap();
    let (mut pages, mut exact) = (BTreeSet::new(), 0);
    for line in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        // What was there when a GoP began depends on no machine.
        if line["unsent"] == 0 {
            assert_eq!(line["had"], line["model"], "{line}");
        }
        pages.insert(line["page"].as_u64().unwrap());
        assert_eq!(line["shown"].as_array().unwrap().len(), 8, "{line}");
        exact += u32::from(line["had"] == line["model"]);
    }
    assert!(pages.len() >= 2, "two pages have watched: {pages:?}");
    assert!(exact >= 10, "{exact} GoPs were there as they arrived:\n{text}");
    let checked = weftline(&["vr", "check", "--json", "--shown"]).arg(shown).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}{}", String::from_utf8_lossy(&checked.stderr));
    let mut as_said = 0;
    for line in said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!(line["other"], 0, "{line}");
        assert_eq!(line["lost"], 0, "{line}");
        as_said += line["as_said"].as_u64().unwrap();
    }
    assert!(as_said > 0, "no tile was shown as it arrived: {said}");
    eprintln!("{said}");
}
