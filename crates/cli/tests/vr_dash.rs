//! Packages with the whole sphere in one picture, as players of DASH get them from `weftline vr http`: ffmpeg,
//! mpv and VLC as they are installed. Browsers are in `dashboard/dash.rs`.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use common::vr::{Finished, demuxes_dash, fails, ffmpeg, finish};
use common::{Daemon, weftline};

/// A scene of two GoPs with sound.
const PACKAGE: &str = "package loud.mkv --preset ultrafast --grid 4x2 --qp 37 -o";
const WHOLE: &str = "--whole 40,30";

fn vr(dir: &Path, args: &str) -> Finished {
    finish(weftline(&["vr"]).args(args.split(' ')).current_dir(dir))
}

/// What all tests look at: a source, `pkg` of it in tiles, and `both`, to which the whole sphere was added.
static MADE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    vr(at, "synth plaza -o plaza.y4m --size 192x96 --fps 8 --seconds 2").unwrap();
    let args =
        "-v error -nostdin -i plaza.y4m -f lavfi -i sine=duration=2 -c:v ffv1 -c:a aac loud.mkv";
    finish(Command::new("ffmpeg").args(args.split(' ')).current_dir(at)).unwrap();
    vr(at, &format!("{PACKAGE} pkg")).unwrap();
    vr(at, &format!("{PACKAGE} both")).unwrap();
    let said = vr(at, &format!("{PACKAGE} both {WHOLE}")).unwrap();
    let lines: Vec<&str> =
        said.lines().filter(|line| line.contains(" in one picture, WS-PSNR")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    dir
});

/// The directory of a package.
fn made(name: &str) -> PathBuf {
    MADE.path().join(name)
}

/// All files of a package with their content.
fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut dirs) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(next) = dirs.pop() {
        for path in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                dirs.push(path);
            } else {
                files.insert(path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// A copy that may be changed.
fn copied(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in content(&made(name)) {
        let path = dir.path().join("both").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    fs::copy(made("loud.mkv"), dir.path().join("loud.mkv")).unwrap();
    dir
}

/// Adding the whole sphere changes nothing of what was there, and gives what both at once give.
#[test]
fn the_whole_sphere_is_added_to_tiles() {
    if !ffmpeg() {
        return;
    }
    let (tiles, both) = (content(&made("pkg")), content(&made("both")));
    let is_told = |path: &Path| {
        path.starts_with("gops")
            || path == Path::new("package.json")
            || path == Path::new("manifest.mpd")
    };
    for (path, bytes) in &tiles {
        assert!(is_told(path) || both[path] == *bytes, "{}", path.display());
    }
    let more = both.keys().filter(|path| !tiles.contains_key(*path));
    let more: Vec<String> = more.map(|path| path.display().to_string()).collect();
    let files = ["000000.m4s", "000001.m4s", "init.mp4"];
    let wanted: Vec<String> = ["q30", "q40"]
        .iter()
        .flat_map(|qp| files.map(|file| format!("whole/{qp}/{file}")))
        .collect();
    assert_eq!(more, wanted);
    let dir = tempfile::tempdir().unwrap();
    fs::copy(made("loud.mkv"), dir.path().join("loud.mkv")).unwrap();
    vr(dir.path(), &format!("{PACKAGE} once {WHOLE}")).unwrap();
    assert!(content(&dir.path().join("once")) == both, "the same at once");
    // Other QPs are another package, and tiles alone too.
    let at = MADE.path();
    fails(
        vr(at, &format!("{PACKAGE} both --whole 30")),
        2,
        &["QPs of the whole sphere (30,40, not 30)"],
    );
    fails(vr(at, &format!("{PACKAGE} both")), 2, &["QPs of the whole sphere (30,40, not none)"]);

    let manifest = fs::read_to_string(made("both/manifest.mpd")).unwrap();
    let place = |kind: &str| format!("<{kind}Property schemeIdUri=\"urn:mpeg:dash:srd:2014\"");
    assert_eq!(manifest.matches(&place("Essential")).count(), 8, "{manifest}");
    assert_eq!(manifest.matches(&place("Supplemental")).count(), 1);
    assert!(manifest.contains("value=\"0,0,0,192,96,192,96\""), "{manifest}");
    let manifest = fs::read_to_string(made("pkg/manifest.mpd")).unwrap();
    assert_eq!(manifest.matches(&place("Supplemental")).count(), 8, "{manifest}");
    assert!(!manifest.contains("whole/") && !manifest.contains("Role"), "{manifest}");
}

/// Players guess colours that are not said; so what is encoded says them.
#[test]
fn the_whole_sphere_says_its_colours() {
    if !ffmpeg() {
        return;
    }
    let dir = copied("both");
    for qp in ["q30", "q40"] {
        let file =
            |name: &str| fs::read(dir.path().join("both/whole").join(qp).join(name)).unwrap();
        let all = [file("init.mp4"), file("000000.m4s"), file("000001.m4s")].concat();
        fs::write(dir.path().join("all.mp4"), all).unwrap();
        let entries = "stream=width,height,nb_read_frames,color_range,color_primaries,color_transfer,color_space";
        let mut probe = Command::new("ffprobe");
        probe.args([
            "-v",
            "error",
            "-count_frames",
            "-show_entries",
            entries,
            "-of",
            "default=nw=1",
            "all.mp4",
        ]);
        let said = finish(probe.current_dir(dir.path())).unwrap();
        for wanted in [
            "width=192",
            "height=96",
            "color_range=tv",
            "color_space=bt709",
            "color_transfer=bt709",
            "color_primaries=bt709",
            "nb_read_frames=16",
        ] {
            assert!(said.lines().any(|line| line == wanted), "{qp}, {wanted}: {said}");
        }
    }
}

/// What was cut, lost or changed of the whole sphere is found and made again to the byte, without the tiles.
#[test]
fn damage_is_found_and_made_again() {
    if !ffmpeg() {
        return;
    }
    let dir = copied("both");
    let at = dir.path();
    let package = at.join("both");
    let whole = content(&package);
    let tile = package.join("tiles/t000q37/000001.m4s");
    let written = fs::metadata(&tile).unwrap().modified().unwrap();
    for (file, words) in [
        ("whole/q30/000001.m4s", "whole/q30/000001.m4s is missing"),
        ("whole/q40/init.mp4", "whole/q40/init.mp4 is missing"),
    ] {
        fs::remove_file(package.join(file)).unwrap();
        fails(vr(at, "evaluate both --rates-mbps 1 --scheme fix"), 1, &[words, "vr package again"]);
        fails(vr(at, "http both"), 1, &[words, "vr package again"]);
        vr(at, &format!("{PACKAGE} both {WHOLE}")).unwrap();
        assert!(content(&package) == whole, "{file}");
    }
    for file in ["whole/q40/000000.m4s", "whole/q30/init.mp4"] {
        let mut bytes = whole[Path::new(file)].clone();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(package.join(file), bytes).unwrap();
        fails(
            vr(at, "check both --source loud.mkv --gops 1 --viewers 1"),
            1,
            &[file, "other bytes"],
        );
        vr(at, &format!("{PACKAGE} both {WHOLE}")).unwrap();
        assert!(content(&package) == whole, "{file}");
    }
    assert_eq!(fs::metadata(&tile).unwrap().modified().unwrap(), written, "tiles are kept");
}

/// The server of a package, and its manifest's address.
fn serve(name: &str, more: &[&str]) -> (Daemon, String) {
    let package = made(name);
    let mut server = Daemon::start(&[&["vr", "http", package.to_str().unwrap()], more].concat());
    let url = server.says("manifest");
    (server, url)
}

#[test]
fn a_package_is_served_until_it_is_told_to_stop() {
    if !ffmpeg() {
        return;
    }
    let (server, url) = serve("both", &[]);
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/manifest.mpd"), "{url}");
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/manifest.mpd").unwrap();
    let said = vr(Path::new("."), &format!("http {} --listen {address}", made("pkg").display()));
    fails(said, 1, &["--listen", address, "choose another port"]);
    server.signal("-TERM");
    assert_eq!(server.end(), (Some(0), String::new()));

    let (server, _) = serve("pkg", &["--allow-origin", "*"]);
    server.logs("--whole");
    let at = MADE.path();
    fails(vr(at, "http none"), 1, &["no package", "weftline vr package"]);
    let origin = vr(at, "http both --allow-origin player.example");
    fails(origin, 2, &["--allow-origin", "https://player.example"]);
}

/// Whether a program is there; in CI it must be.
fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    let there =
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    assert!(there || std::env::var_os("CI").is_none(), "in CI {program} must be installed");
    if !there {
        println!("skipped: {program} is not installed (scripts/tools installs it)");
    }
    there
}

/// ffmpeg chooses the largest pictures, and decodes those of the whole sphere.
#[test]
fn ffmpeg_decodes_the_whole_sphere() {
    if !ffmpeg() || !demuxes_dash() {
        return;
    }
    let (_server, url) = serve("both", &[]);
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-i", &url, "-an", "-f", "framemd5", "-"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (said, wrong) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("#dimensions 0: 192x96"), "{said}{wrong}");
    assert_eq!(said.lines().filter(|line| !line.starts_with('#')).count(), 16, "{said}{wrong}");
}

#[test]
fn mpv_plays_the_whole_sphere() {
    // It reads by the same libraries.
    if !ffmpeg() || !is_installed("mpv") || !demuxes_dash() {
        return;
    }
    let (_server, url) = serve("both", &[]);
    let mut command = Command::new("mpv");
    let args = [
        "--no-config",
        "--no-input-terminal",
        "--vo=null",
        "--ao=null",
        "--untimed",
        "--load-scripts=no",
    ];
    let said = finish(command.args(args).arg(&url)).unwrap();
    assert!(said.contains("VO: [null] 192x96"), "{said}");
}

/// VLC takes the first set of video, and asks for nothing of the others.
#[test]
fn vlc_plays_the_whole_sphere() {
    if !ffmpeg() || !is_installed("cvlc") {
        return;
    }
    let (_server, url) = serve("both", &[]);
    let home = tempfile::tempdir().unwrap();
    // It does not run as root.
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            std::os::unix::fs::chown(home.path(), Some(65_534), Some(65_534)).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cvlc"]);
            command
        }
        false => Command::new("cvlc"),
    };
    command.args(["--ignore-config", "-vv", "--no-audio", "--vout", "dummy", "--play-and-exit"]);
    let output = command.arg(&url).env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let asked =
        |what: &str| said.lines().any(|line| line.contains("Retrieving") && line.contains(what));
    assert!(output.status.success() && asked("/whole/q"), "{said}");
    assert!(!asked("/tiles/"), "{said}");
    // Both GoPs.
    assert!(asked("/000000.m4s") && asked("/000001.m4s"), "{said}");
}
