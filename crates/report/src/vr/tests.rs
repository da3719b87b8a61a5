//! The report of an evaluation: what is there is shown, and what is wrong is told.

use std::fs;
use std::path::Path;

use weftline_scenario::{
    VR_GOPS, VR_GOPS_HEADER, VR_MOMENTS, VR_SESSIONS, VrMoment, VrPlan, VrRecord, VrTile,
};

use crate::tests::balanced;
use crate::write_report;

const PAIRS: [(&str, &str, f64); 4] = [
    ("fix", "linux", 20.0),
    ("fix", "fbdt", 23.0),
    ("ows-order", "fbdt", 30.0),
    ("ows", "fbdt", 31.5),
];

fn record(video: &str, condition: &str, seed: u64, pair: (&str, &str, f64)) -> VrRecord {
    VrRecord {
        schema: 1,
        video: video.to_owned(),
        condition: condition.to_owned(),
        scheme: pair.0.to_owned(),
        transport: pair.1.to_owned(),
        concealment: "grey".to_owned(),
        viewer: "synthetic-1".to_owned(),
        seed,
        rate_scale: 0.02,
        rate_mbps: 20.0,
        gops: 3,
        psnr_db: pair.2,
        mean_psnr_db: pair.2 + 1.0,
        late_tiles: 1.25,
        version: "0.1.0".to_owned(),
        ..VrRecord::default()
    }
}

fn write(dir: &Path) {
    let mut sessions = Vec::new();
    let mut gops = format!("{VR_GOPS_HEADER}\n");
    for video in ["reef", "plaza <b>"] {
        for (seed, pair) in [1, 2].into_iter().flat_map(|seed| PAIRS.map(|pair| (seed, pair))) {
            sessions.push(record(video, "mobility", seed, pair));
            for gop in 0..3 {
                let (scheme, transport, psnr_db) = pair;
                gops += &format!(
                    "{video},mobility,{transport},{scheme},grey,ann,{seed},{gop},{psnr_db},30,1,0,9,9\n"
                );
            }
        }
        for (condition, mbps, db) in [("10Mbps", 10.0, 33.0), ("40Mbps", 40.0, 39.0)] {
            let one = record(video, condition, 1, ("ows", "fbdt", db));
            sessions.push(VrRecord { constant: true, rate_mbps: mbps, ..one });
        }
    }
    let text: String = sessions.iter().map(|r| serde_json::to_string(r).unwrap() + "\n").collect();
    fs::write(dir.join(VR_SESSIONS), text).unwrap();
    fs::write(dir.join(VR_GOPS), gops).unwrap();
    let tile = |sent, place, shown, stale| VrTile { sent_qp: sent, place, shown_qp: shown, stale };
    let moment = VrMoment {
        video: "reef".to_owned(),
        columns: 2,
        rows: 2,
        seen: vec![0.9, 0.5, 0.25, 0.0],
        plans: vec![VrPlan {
            scheme: "ows".to_owned(),
            transport: "fbdt".to_owned(),
            psnr_db: 31.46,
            tiles: vec![
                tile(Some(22), Some(0), Some(22), false),
                tile(Some(32), Some(1), None, false),
                tile(Some(37), Some(2), Some(42), true),
                tile(None, None, None, false),
            ],
            picture: Some("vr-reef-1.png".to_owned()),
        }],
        original: Some("../outside.png".to_owned()),
        ..VrMoment::default()
    };
    fs::write(dir.join(VR_MOMENTS), serde_json::to_string(&moment).unwrap() + "\n").unwrap();
    fs::write(dir.join("vr-reef-1.png"), b"PNG").unwrap();
}

#[test]
fn an_evaluation_is_drawn_without_any_runs() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    let html = fs::read_to_string(write_report(dir.path(), &[]).unwrap()).unwrap();
    balanced(&html);
    for wanted in [
        "20 sessions of 2 360° videos",
        "times 0.02000",
        // The gains: 11.5 dB in all, of which 3, 7 and 1.5; equal for all, so ± 0.
        "<td>11.50<span class=\"ci\"> ± 0.00</span></td>",
        "<td>7.00<span class=\"ci\"> ± 0.00</span></td>",
        "ows over fbdt",
        "rate (Mb/s, log scale)",
        "reef, mobility, grey",
        "plaza &lt;b&gt;",
        "seen with probability 0.250",
        "sent at QP 32; shown: grey",
        "(42)",
        "data:image/png;base64,UE5H",
    ] {
        assert!(html.contains(wanted), "no '{wanted}'");
    }
    assert!(!html.contains("outside"), "names lead nowhere else");
    assert!(!html.contains("In-order goodput"), "there are no runs");
}

#[test]
fn rows_that_are_none_are_told() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    fs::write(dir.path().join(VR_GOPS), format!("{VR_GOPS_HEADER}\nreef,x\n")).unwrap();
    let why = write_report(dir.path(), &[]).unwrap_err().to_string();
    assert!(why.contains("vr.csv:2: is no row of"), "{why}");
    fs::write(dir.path().join(VR_SESSIONS), "{}\n").unwrap();
    let why = write_report(dir.path(), &[]).unwrap_err().to_string();
    assert!(why.contains("vr.jsonl:1: is no session"), "{why}");
}
