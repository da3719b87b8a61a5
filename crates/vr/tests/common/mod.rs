//! What the tests that run ffmpeg share.
#![allow(unreachable_pub, reason = "test code; each test binary uses its own part")]

use std::process::{Command, Stdio};

/// Whether there is an ffmpeg to test with.
pub fn ffmpeg() -> bool {
    let there = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).status().is_ok();
    assert!(there || std::env::var_os("CI").is_none(), "in CI ffmpeg must be installed");
    if !there {
        println!("skipped: ffmpeg is not installed (scripts/tools installs it)");
    }
    there
}
