//! Real players over emulated links: nginx, VLC and mpv as they are installed.
//!
//! `make test` lets each play a short clip over links with room to spare. `make test-lab` compares
//! what a viewer saw of ten seconds over links with room and without:
//! `sudo -E scripts/test-lab path` shows it.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::sync::{Mutex, PoisonError};

use common::{failure, run, weftline};
use weftline_judged::verdict;
use weftline_scenario::{RunRecord, VideoRecord};

/// A clip of 5.24 Mb/s; one path alone is too slow for it, the two together have room.
const SCENARIO: &str = r#"
name = "player"
duration = "60s"

[[path]]
name = "slow"
rate = "4Mbps"
delay = "10ms"
queue = "100packets"

[[path]]
name = "fast"
rate = "8Mbps"
delay = "5ms"
queue = "100packets"

[workload]
kind = "video"
rate = "5.24Mbps"
duration = "10s"
"#;

/// A clip so small that any machine plays it, over links that are much faster.
const SHORT: [(&str, &str); 4] = [
    ("duration = \"60s\"", "duration = \"300s\""),
    ("rate = \"4Mbps\"", "rate = \"40Mbps\""),
    ("rate = \"5.24Mbps\"", "rate = \"500kbps\""),
    ("duration = \"10s\"", "duration = \"3s\""),
];

/// One at a time: they play in real time on shared cores.
static ALONE: Mutex<()> = Mutex::new(());

/// Plays the clip over `schemes`; nothing, after saying how to run the test, where the lab or a
/// program is missing. In CI all must be there.
fn play(text: &str, workload: &str, schemes: &str) -> Option<Vec<RunRecord>> {
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("player.toml");
    std::fs::write(&scenario, text).unwrap();
    // The clip is kept from one test run to the next.
    let mut command = weftline(&["lab", "run", scenario.to_str().unwrap(), "--json"]);
    command.args(["--workload", workload, "--scheme", schemes]);
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    let output = {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        command.output().unwrap()
    };
    let said = String::from_utf8(output.stderr).unwrap();
    if output.status.code() == Some(3) {
        assert!(std::env::var_os("CI").is_none(), "{said}");
        eprintln!("skipped: {said}run 'sudo -E cargo test -p weftline-cli --test players'");
        return None;
    }
    // 4: the emulator was late, which the records say too.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let records: Vec<RunRecord> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in &records {
        println!("{workload} {}: {:?}", record.scheme, record.video);
        assert_eq!((record.completed, &record.error), (true, &None), "{record:?}");
    }
    Some(records)
}

/// What must hold of a clip that was played to its end.
fn seen(record: &RunRecord) -> VideoRecord {
    let video = record.video.unwrap();
    let clip_bytes = 5_240_000 / 8 * 10;
    // The file, and what a player asked for twice.
    assert!(record.bytes_delivered.unwrap() > clip_bytes * 95 / 100, "{record:?}");
    assert!(record.completion_s.unwrap() > 9.0, "ten seconds were played: {record:?}");
    assert!(video.startup_s.unwrap() > 0.0);
    // Of 300 pictures, however many the machine was too busy for.
    assert!(video.net_discards().is_some(), "{record:?}");
    let all = video.pictures_played.unwrap() + video.picture_discards;
    assert!((250..=360).contains(&all), "{record:?}");
    assert!(video.control_discards.is_some() && video.control_underflows.is_some());
    video
}

#[test]
fn every_player_plays_a_clip_to_its_end_and_is_recorded() {
    let text = SHORT.iter().fold(SCENARIO.to_owned(), |text, (from, to)| text.replace(from, to));
    let clip_bytes = 500_000 / 8 * 3;
    for (workload, scheme) in [("vlc", "fbdt"), ("mpv", "linux-mptcp"), ("mpv-hls", "single:slow")]
    {
        let Some(records) = play(&text, workload, scheme) else { return };
        let [record] = &records[..] else { panic!("{records:?}") };
        assert!(record.bytes_delivered.unwrap() > clip_bytes * 95 / 100, "{record:?}");
        let video = record.video.unwrap();
        assert!(video.startup_s.unwrap() > 0.0, "{record:?}");
        assert!(video.pictures_played.unwrap() > 0, "{record:?}");
        assert!(video.control_discards.is_some() && video.control_underflows.is_some());
    }
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn vlc_runs_dry_on_a_slow_path_and_not_over_both() {
    verdict("VLC runs dry on a slow path and not over both", |_| {
        let records = play(SCENARIO, "vlc", "single:slow,fbdt")?;
        let [slow, both] = &records[..] else { panic!("{records:?}") };
        let (slow, both) = (seen(slow), seen(both));
        // 1.3 s of media are missing for each 4 s that come.
        assert!(slow.buffer_underflows > 0 && slow.underflow_s > 0.3, "{slow:?}");
        assert!(both.underflow_s < slow.underflow_s, "{both:?} {slow:?}");
        Some(())
    });
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn mpv_plays_files_over_kernel_mptcp_and_segments_over_tcp() {
    verdict("mpv plays files over kernel MPTCP and segments over TCP", |_| {
        let together = seen(&play(SCENARIO, "mpv", "linux-mptcp")?[0]);
        let slow = seen(&play(SCENARIO, "mpv-hls", "single:slow")?[0]);
        assert!(slow.buffer_underflows > 0 && slow.underflow_s > 0.3, "{slow:?}");
        assert!(together.underflow_s < slow.underflow_s, "{together:?} {slow:?}");
        Some(())
    });
}

#[test]
fn the_model_of_a_player_is_the_simulators() {
    let line = failure(2, &["lab", "run", "mptcp-a1", "--scheme", "single:wifi"]);
    assert!(line.contains("--workload vlc, mpv or mpv-hls"), "{line}");
    let mpv = ["sim", "run", "mptcp-a1", "--workload", "mpv", "--scheme", "fbdt"];
    let line = failure(2, &mpv);
    assert!(line.contains("no workload 'mpv'"), "{line}");
    // Its rules are VLC's: the same under that player's name.
    let [model, vlc] = ["video", "vlc"].map(|workload| {
        let args = ["sim", "run", "mptcp-a1", "--scheme", "lpc", "--json", "--workload", workload];
        let output = run(&args);
        assert!(output.status.success(), "{output:?}");
        let line = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str::<RunRecord>(line.trim()).unwrap()
    });
    assert!(model.video.is_some());
    assert_eq!((model.video, model.paths), (vlc.video, vlc.paths));
    assert_eq!((model.workload.as_str(), vlc.workload.as_str()), ("video", "vlc"));
}
