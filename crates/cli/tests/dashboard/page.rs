//! The page in a browser: crates/web/ui/test/page.mjs, which says what is to be done to the daemons.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::relay::Relay;
use crate::{Place, World};

/// Where the page's sources are.
fn ui() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/ui").canonicalize().unwrap()
}

/// Whether there is what the test needs: chromium, node, and what npm installs.
pub(crate) fn can_run() -> bool {
    let runs = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        let status = command.args(args).stdout(Stdio::null()).stderr(Stdio::inherit()).status();
        status.is_ok_and(|status| status.success())
    };
    let missing = if !runs("chromium", &["--version"]) {
        "chromium (package chromium)"
    } else if !runs("npm", &["--version"]) {
        "npm (packages nodejs, npm)"
    } else if !runs(ui().join("../../../scripts/web").to_str().unwrap(), &["--install"]) {
        "what crates/web/ui/package-lock.json lists, which scripts/web --install gets"
    } else {
        return true;
    };
    assert!(std::env::var_os("CI").is_none(), "in CI the page is tested; {missing} is missing");
    eprintln!("skipped: {missing} is missing");
    false
}

/// One that says nothing for so long hangs, and is ended, so that what it has said is seen. Each of its own waits
/// is shorter, and has a name.
const SILENCE: Duration = Duration::from_secs(500);

/// What a program says, line by line.
fn lines(from: ChildStdout) -> Receiver<String> {
    let (tell, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Runs a test in the browser and does what it asks for, until it ends, which must be good. Returns what it
/// says.
pub(crate) fn drive(script: &str, url: &str, mut act: impl FnMut(&str)) -> String {
    let mut command = Command::new("node");
    command.args(script.split(' ')).arg(url).current_dir(ui());
    let mut browser = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = browser.stdin.take().unwrap();
    let mut said = String::new();
    let lines = lines(browser.stdout.take().unwrap());
    loop {
        let line = match lines.recv_timeout(SILENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                browser.kill().unwrap();
                said += "it says nothing any more\n";
                break;
            }
        };
        match line.strip_prefix("do: ") {
            Some(what) => {
                act(what);
                writeln!(answers, "done").unwrap();
            }
            None => {
                said += &line;
                said.push('\n');
            }
        }
    }
    let status = browser.wait().unwrap();
    assert!(status.success(), "{status}\n{said}");
    assert!(said.contains("all seen"), "{said}");
    said
}

#[test]
fn the_page_shows_what_happens() {
    if !can_run() {
        return;
    }
    let mut world = World::new();
    let place = Place::of(&world.client_url);
    // Between the browser and the dashboard, too, a link can break.
    let link = Relay::to(place.address);
    let url = format!("http://{}/#k={}", link.address(), place.token);
    let said = drive("test/page.mjs", &url, |what| match what {
        "cut path" => world.path.cut(),
        "block path" => world.path.block(),
        "restore path" => world.path.restore(),
        "cut link" => link.cut(),
        "restore link" => link.restore(),
        "restart" => world.restart(),
        other => panic!("{other}"),
    });
    eprintln!("{said}");
}
