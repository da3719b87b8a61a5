//! What the tests of `weftline vr` share.

use std::process::{Command, Stdio};

/// What a program prints on standard output, or its exit status and what it prints on standard
/// error.
pub type Finished = Result<String, (i32, String)>;

/// Whether there is an ffmpeg to test with.
pub fn ffmpeg() -> bool {
    let there = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).status().is_ok();
    assert!(there || std::env::var_os("CI").is_none(), "in CI ffmpeg must be installed");
    if !there {
        println!("skipped: ffmpeg is not installed (scripts/tools installs it)");
    }
    there
}

/// Whether this ffmpeg reads the manifests of DASH.
pub fn demuxes_dash() -> bool {
    let mut ask = Command::new("ffmpeg");
    let demuxers = super::run_alone(ask.args(["-v", "error", "-demuxers"]));
    let there = String::from_utf8_lossy(&demuxers.stdout)
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some("dash"));
    assert!(there || std::env::var_os("CI").is_none(), "in CI ffmpeg has a DASH demuxer");
    if !there {
        println!("skipped: this ffmpeg has no DASH demuxer");
    }
    there
}

/// Runs a program to its end.
#[track_caller]
pub fn finish(command: &mut Command) -> Finished {
    let output = super::run_alone(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err((output.status.code().unwrap_or(-1), text(&output.stderr))),
    }
}

/// A failure: its exit status, and one line that has all of `words`.
#[track_caller]
pub fn fails(result: Finished, status: i32, words: &[&str]) {
    let (got, said) = result.expect_err("it should fail");
    let line = said.lines().last().unwrap_or_default();
    assert_eq!(got, status, "{said}");
    assert!(line.starts_with("weftline: "), "{said}");
    for word in words {
        assert!(line.contains(word), "no '{word}' in: {said}");
    }
}
