//! `weftline vr evaluate` and `check` as they are used, on a package of two small GoPs. Without
//! ffmpeg they are skipped; in CI it must be there.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::vr::{Finished, fails, ffmpeg, finish};
use weftline_scenario::{
    PathRecord, ResultsWriter, RunRecord, SCHEMA_VERSION, Sample, VrRecord, read_vr_moments,
    read_vr_sessions, vr_gains,
};

const WEFTLINE: &str = env!("CARGO_BIN_EXE_weftline");

/// Runs weftline with arguments separated by spaces, in `dir`.
fn weftline(dir: &Path, args: &str) -> Finished {
    finish(Command::new(WEFTLINE).args(args.split(' ')).current_dir(dir))
}

/// A directory with the package `plaza` of two GoPs and its source, if there is ffmpeg to make it.
fn packaged() -> Option<tempfile::TempDir> {
    packaged_of("192x96")
}

/// The same of so many pixels.
fn packaged_of(size: &str) -> Option<tempfile::TempDir> {
    if !ffmpeg() {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let synth = format!("vr synth plaza -o plaza.y4m --size {size} --fps 8 --seconds 2");
    weftline(at, &synth).unwrap();
    weftline(at, "vr package plaza.y4m -o plaza --preset ultrafast --qp 22,32,42").unwrap();
    Some(dir)
}

/// What the finest rungs take in the GoP where they take most, in Mb/s.
fn finest_mbps(dir: &Path) -> f64 {
    let [first, second] = finest_of(dir, "plaza");
    first.max(second)
}

/// What the finest rungs take in each of a package's two GoPs, in Mb/s.
fn finest_of(dir: &Path, package: &str) -> [f64; 2] {
    let rows = fs::read_to_string(dir.join(package).join("rd.csv")).unwrap();
    let mut gops = [0.0; 2];
    for row in rows.lines().skip(2) {
        let cells: Vec<&str> = row.split(',').collect();
        if cells[2] == "22" {
            gops[cells[0].parse::<usize>().unwrap()] += cells[3].parse::<f64>().unwrap();
        }
    }
    gops.map(|bytes| bytes * 8e-6)
}

/// Results as the simulator or the lab would have written them: `linux` in order, and both paths
/// of `fbdt`, of so much for each second, in Mb/s.
fn write_rates(dir: &Path, linux: &[f64], fbdt: &[[f64; 2]]) {
    let mut writer = ResultsWriter::open(dir).unwrap();
    let path = |name: &str| PathRecord { name: name.to_owned(), ..PathRecord::default() };
    let record = |scheme: &str| RunRecord {
        schema: SCHEMA_VERSION,
        backend: "lab".to_owned(),
        scenario: "office".to_owned(),
        scheme: scheme.to_owned(),
        congestion: "cubic".to_owned(),
        workload: "bulk".to_owned(),
        seed: 1,
        completed: true,
        paths: vec![path("wifi"), path("wigig")],
        ..RunRecord::default()
    };
    let sample = |(half, path, value): (usize, &'static str, f64)| Sample {
        time_s: (half + 1) as f64 / 2.0,
        path,
        metric: "goodput_mbps",
        value,
    };
    let halves =
        linux.iter().enumerate().flat_map(|(s, rate)| [(2 * s, *rate), (2 * s + 1, *rate)]);
    let samples: Vec<Sample<'_>> = halves.map(|(half, rate)| sample((half, "", rate))).collect();
    writer.write_run(&record("linux-mptcp"), &samples).unwrap();
    let mut samples = Vec::new();
    for (second, [wifi, wigig]) in fbdt.iter().enumerate() {
        for half in [2 * second, 2 * second + 1] {
            let all = [("", wifi + wigig), ("wifi", *wifi), ("wigig", *wigig)];
            samples.extend(all.map(|(path, rate)| sample((half, path, rate))));
        }
    }
    writer.write_run(&record("fbdt"), &samples).unwrap();
}

#[test]
fn rates_of_a_results_directory_are_played_and_reported() {
    let Some(dir) = packaged() else { return };
    let at = dir.path();
    // Beside its segment each tile takes heads and what its decoder is set up from, which is much of
    // tiles as small as these.
    let rate = finest_mbps(at) * 2.0;
    // Kernel MPTCP stands still in the second of GoP 1; FBDT has enough for all, always.
    let linux = [rate, rate, rate, 0.0];
    write_rates(&at.join("lab"), &linux, &[[rate / 4.0, rate * 0.75]; 4]);
    let said = weftline(
        at,
        "vr evaluate plaza --rates lab --rate-scale 1 --warm-up 2 --viewers 3 --fit-viewers 4 \
         --scheme fix,ows-order,ows --concealment grey --out out --pictures",
    )
    .unwrap();
    assert!(said.contains("1 videos (192x96) of 2 GoPs, 3 viewers each"), "{said}");
    assert!(said.contains("rates are scaled by 1.0"), "{said}");
    let records = read_vr_sessions(&at.join("out")).unwrap();
    // Two transports, three schemes, three viewers.
    assert_eq!(records.len(), 18);
    let gops = fs::read_to_string(at.join("out/vr.csv")).unwrap();
    assert_eq!(gops.lines().count(), 1 + 2 * 18);
    assert!(
        gops.lines().nth(1).unwrap().starts_with("plaza,office,linux,fix,grey,synthetic-4,1,0,")
    );
    for record in &records {
        let late = if record.transport == "linux" { 12.0 } else { 0.0 };
        assert!((record.late_tiles - late).abs() < 1e-9, "{record:?}");
        assert_eq!(record.concealed_tiles, Some(record.late_tiles + record.dropped_tiles));
        assert_eq!((record.initial_loading_delay_s, record.stalling_events), (Some(1.0), 0));
        assert_eq!((record.condition.as_str(), record.gops), ("office", 2));
    }
    // Where FBDT brings everything at its finest, order and rates have nothing left to gain.
    let gains = vr_gains(&records);
    assert_eq!(gains.len(), 1);
    for gain in &gains {
        let means = gain.steps.map(|step| step.map(|[of_mean, _]| of_mean.mean));
        let [Some(pairing), None, Some(whole), Some(transport), Some(order), Some(rates)] = means
        else {
            panic!("{gains:?}")
        };
        assert!((pairing - transport).abs() < 1e-9);
        assert!((whole - transport).abs() < 1e-9 && order.abs() < 1e-9 && rates.abs() < 1e-9);
        assert!(whole > 3.0, "a lost GoP is lost: {gains:?}");
    }
    let moments = read_vr_moments(&at.join("out")).unwrap();
    assert_eq!((moments.len(), moments[0].gop, moments[0].plans.len()), (1, 1, 4));
    let lost = moments[0].plans.iter().find(|plan| plan.transport == "linux").unwrap();
    assert!(lost.tiles.iter().all(|tile| tile.sent_qp == Some(22) && tile.shown_qp.is_none()));
    let picture = fs::read(at.join("out").join(lost.picture.as_ref().unwrap())).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    let page = weftline(at, "report out").unwrap();
    let page = fs::read_to_string(at.join(page.trim())).unwrap();
    for wanted in ["fix over linux", "plaza, office, grey", "data:image/png;base64,"] {
        assert!(page.contains(wanted), "no '{wanted}'");
    }
    // The same again, as JSON, and from the lab's results with too little of them.
    let again = "vr evaluate plaza --rates lab --rate-scale 1 --warm-up 2 --viewers 3 \
                 --fit-viewers 4 --scheme fix,ows-order,ows --concealment grey --json";
    let json = weftline(at, again).unwrap();
    assert_eq!(json, fs::read_to_string(at.join("out/vr.jsonl")).unwrap());
    let short = weftline(at, "vr evaluate plaza --rates lab --warm-up 3");
    fails(short, 2, &["4 s of rates of", "too short", "2 s after 3 s", "--warmup"]);
    let none = weftline(at, "vr evaluate plaza --rates lab --congestion bbr");
    fails(none, 1, &["lab", "no run of", "bbr", "sim run"]);
    fails(weftline(at, "vr evaluate plaza --rates none"), 1, &["none/runs.jsonl"]);
}

#[test]
fn rates_are_simulated_or_constant() {
    let Some(dir) = packaged() else { return };
    let at = dir.path();
    let common = "--viewers 2 --fit-viewers 3 --json";
    let said = weftline(
        at,
        &format!("vr evaluate plaza --scenario demo --seeds 2 --warm-up 1 --scheme ows {common}"),
    )
    .unwrap();
    // Two seeds, two transports, three concealments, two viewers.
    assert_eq!(said.lines().count(), 24, "{said}");
    assert!(said.lines().all(|line| line.contains("\"condition\":\"demo\"")), "{said}");
    let finest = finest_mbps(at);
    let rates = [0.1, 0.3, 0.9].map(|share| (finest * share).to_string()).join(",");
    let said = weftline(
        at,
        &format!("vr evaluate plaza --rates-mbps {rates} --scheme ows --concealment grey --out curve {common}"),
    )
    .unwrap();
    let records = read_vr_sessions(&at.join("curve")).unwrap();
    assert_eq!((said.lines().count(), records.len()), (6, 6));
    for viewer in 0..2 {
        let of_viewer: Vec<f64> =
            records.iter().skip(viewer).step_by(2).map(|record| record.psnr_db).collect();
        assert!(of_viewer.windows(2).all(|pair| pair[0] < pair[1]), "{of_viewer:?}");
    }
    assert!(records.iter().all(|record| record.constant && record.transport == "fbdt"));
    assert!(vr_gains(&records).is_empty());
    let page = weftline(at, "report curve").unwrap();
    let page = fs::read_to_string(at.join(page.trim())).unwrap();
    assert!(page.contains("Viewport quality against the rate"), "no curve");
}

#[test]
fn rates_of_a_file_and_heads_that_gzip_packed_are_played() {
    let Some(dir) = packaged() else { return };
    let at = dir.path();
    let rate = finest_mbps(at) * 2.0;
    let rows: String = (0..4).map(|_| format!("{rate},{rate}\n")).collect();
    fs::write(at.join("ride.csv"), format!("wifi,lte\n{rows}")).unwrap();
    let row = |t: f64, viewer: &str| format!("{t},0,0,{viewer}\n");
    let rows: String =
        ["ann", "bob"].iter().flat_map(|v| (0..5).map(|n| row(f64::from(n) * 0.5, v))).collect();
    fs::write(at.join("heads.csv"), format!("t_s,yaw_deg,pitch_up_deg,viewer\n{rows}")).unwrap();
    assert!(Command::new("gzip").arg("heads.csv").current_dir(at).status().unwrap().success());
    weftline(
        at,
        "vr evaluate plaza --rates ride.csv --warm-up 2 --heads heads.csv.gz --viewers 1 \
         --scheme ows,fix --concealment grey --out out",
    )
    .unwrap();
    let records = read_vr_sessions(&at.join("out")).unwrap();
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!((record.condition.as_str(), record.transport.as_str()), ("ride", "fbdt"));
        assert_eq!((record.late_tiles, record.dropped_tiles), (0.0, 0.0));
    }
    // One transport has no gain to show, and a moment all the same.
    let moments = read_vr_moments(&at.join("out")).unwrap();
    assert_eq!((moments.len(), moments[0].plans.len()), (1, 2));
    // Several runs in one file, of which each transport takes its own.
    let mut rows = "condition,transport,seed,wifi,lte\n".to_owned();
    for (seed, transport, lte) in [(1, "linux", 0.0), (2, "linux", rate), (1, "fbdt", rate)] {
        rows += &format!("walk,{transport},{seed},{rate},{lte}\n").repeat(4);
    }
    fs::write(at.join("runs.csv"), rows).unwrap();
    let runs = "vr evaluate plaza --rates runs.csv --rate-scale fit --warm-up 2 --viewers 1 \
                --scheme fix,fix-margin --concealment grey --json";
    let said = weftline(at, &format!("{runs} --transport linux,fbdt")).unwrap();
    let played: Vec<VrRecord> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |r: &VrRecord| format!("{} {} {} {}", r.condition, r.transport, r.seed, r.scheme);
    let wanted = [
        "walk linux 1 fix",
        "walk linux 1 fix-margin",
        "walk linux 2 fix",
        "walk linux 2 fix-margin",
        "walk fbdt 1 fix",
        "walk fbdt 1 fix-margin",
    ];
    assert_eq!(played.iter().map(of).collect::<Vec<_>>(), wanted);
    for pair in played.chunks(2) {
        let [all, part] = [pair[0].sent_bytes, pair[1].sent_bytes];
        assert!(part < all && pair[0].rate_scale == pair[1].rate_scale, "{pair:?}");
    }
    let only = at.join("only.csv");
    fs::write(only, format!("transport,wifi\nlinux,{rate}\n")).unwrap();
    let none = weftline(at, "vr evaluate plaza --rates only.csv");
    fails(none, 1, &["only.csv", "no row of the transport 'fbdt'"]);
    fs::write(at.join("ride.csv"), "wifi,lte\n30\n").unwrap();
    fails(weftline(at, "vr evaluate plaza --rates ride.csv"), 1, &["ride.csv", "line 2"]);
}

#[test]
fn each_package_has_a_rate_scale_of_its_own() {
    let Some(dir) = packaged() else { return };
    let at = dir.path();
    // A black sky takes less than a crowd does.
    weftline(at, "vr synth orbit -o orbit.y4m --size 192x96 --fps 8 --seconds 2").unwrap();
    weftline(at, "vr package orbit.y4m -o orbit --preset ultrafast --qp 22,32,42").unwrap();
    let mut rows = "transport,seed,wifi,wigig\n".to_owned();
    rows += &"linux,1,30,20\n".repeat(4);
    rows += &"fbdt,1,40,60\n".repeat(4);
    // A window that only one of them has.
    rows += &"fbdt,2,40,60\n".repeat(4);
    fs::write(at.join("runs.csv"), rows).unwrap();
    let all = "vr evaluate plaza orbit --rates runs.csv --rate-scale fit --transport linux,fbdt --warm-up 2 \
               --viewers 1 --scheme fix,ows-order --concealment grey";
    let said = weftline(at, &format!("{all} --json")).unwrap();
    let played: Vec<VrRecord> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(played.len(), 2 * 2 * 3);
    let paper = 1_920.0 / 4_370.0;
    let finest = ["plaza", "orbit"].map(|name| finest_of(at, name).iter().sum::<f64>() / 2.0);
    assert!(finest[1] < 0.9 * finest[0], "{finest:?}");
    for record in &played {
        let finest = finest[usize::from(record.video == "orbit")];
        // The fastest mean of all runs is 100 Mb/s.
        let share = if record.transport == "linux" { 0.5 } else { 1.0 };
        assert!((record.rate_scale / (paper * finest / 100.0) - 1.0).abs() < 1e-9, "{record:?}");
        assert!((record.rate_mbps / (paper * finest * share) - 1.0).abs() < 1e-3, "{record:?}");
    }
    // Who gives rates means them.
    let said = weftline(at, &format!("{} --json", all.replace("--rate-scale fit ", ""))).unwrap();
    let record: VrRecord = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert!((record.rate_scale - 1.0).abs() < 1e-9, "{record:?}");
    let table = weftline(at, all).unwrap();
    assert!(table.contains("for each video by its own factor"), "{table}");
    assert!(table.contains("4 sessions are in no gain"), "{table}");
}

/// Rates of before and after a video say nothing of what it was sent with.
#[test]
fn the_rates_in_the_table_are_those_of_the_time_that_is_played() {
    let Some(dir) = packaged() else { return };
    let at = dir.path();
    let rates = ["wifi", "900", "900", "3", "5", "900", "900", "900"].join("\n") + "\n";
    fs::write(at.join("ride.csv"), rates).unwrap();
    let all = "vr evaluate plaza --rates ride.csv --warm-up 2 --viewers 1 --scheme fix \
               --concealment grey";
    let said = weftline(at, &format!("{all} --json")).unwrap();
    let record: VrRecord = serde_json::from_str(said.trim()).unwrap();
    assert!((record.rate_mbps - 4.0).abs() < 1e-9, "{record:?}");
    // Two GoPs of a second.
    let sent = format!("{:.1}", record.sent_bytes as f64 * 8e-6 / 2.0);
    let table = weftline(at, all).unwrap();
    let row = table.lines().find(|line| line.contains("fix") && line.contains("fbdt")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().rev().take(2).collect();
    assert_eq!(cells, ["4.0", &sent], "{table}");
}

#[test]
fn a_package_without_concealments_gets_them_and_is_not_encoded_again() {
    let Some(dir) = packaged() else { return };
    let at = dir.path();
    let table = at.join("plaza/miss.csv");
    let whole = fs::read_to_string(&table).unwrap();
    assert!(whole.starts_with("gop,tile,grey,stale1,stale2,stale3\n0,0,"), "{whole}");
    assert_eq!(whole.lines().count(), 1 + 2 * 24);
    let evaluate = || weftline(at, "vr evaluate plaza --rates-mbps 1 --scheme fix");
    fs::remove_file(&table).unwrap();
    fails(evaluate(), 1, &["miss.csv", "no table of concealments", "same weftline vr package"]);
    let segment = at.join("plaza/tiles/t000q22/000000.m4s");
    let before = fs::metadata(&segment).unwrap().modified().unwrap();
    weftline(at, "vr package plaza.y4m -o plaza --preset ultrafast --qp 22,32,42").unwrap();
    assert_eq!(fs::read_to_string(&table).unwrap(), whole, "decoded again, the same");
    assert_eq!(fs::metadata(&segment).unwrap().modified().unwrap(), before);
    // One of another grid, and one that was cut.
    fs::write(&table, "gop,tile,grey\n0,0,1\n").unwrap();
    fails(evaluate(), 1, &["miss.csv", "1 GoPs, not for 2 of 24 tiles"]);
    fs::write(&table, &whole[..whole.len() - 20]).unwrap();
    fails(evaluate(), 1, &["miss.csv", "line", "vr package again"]);
    // One that is a table and says something else: so does what is seen.
    let package = || {
        weftline(at, "vr package plaza.y4m -o plaza --preset ultrafast --qp 22,32,42").unwrap();
    };
    fs::write(&table, format!("{}1\n", whole.trim_end())).unwrap();
    fails(evaluate(), 1, &["miss.csv", "other bytes", "vr package again"]);
    package();
    assert_eq!(fs::read_to_string(&table).unwrap(), whole);
    let manifest = at.join("plaza/manifest.mpd");
    let as_packaged = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, as_packaged.replace("type=\"static\"", "type=\"dynamic\"")).unwrap();
    fails(evaluate(), 1, &["manifest.mpd", "other bytes", "vr package again"]);
    package();
    assert_eq!(fs::read_to_string(&manifest).unwrap(), as_packaged);
    evaluate().unwrap();
}

#[test]
fn what_cannot_be_evaluated_is_told_in_one_line() {
    let Some(dir) = packaged() else { return };
    let at = dir.path();
    let evaluate = |more: &str| weftline(at, &format!("vr evaluate plaza --rates-mbps 1 {more}"));
    fails(evaluate("--scheme best"), 2, &["'best'", "ows-order"]);
    fails(evaluate("--concealment freeze"), 2, &["'freeze'", "last-received"]);
    fails(evaluate("--transport quic"), 2, &["'quic'", "linux, fbdt"]);
    fails(evaluate("plaza"), 2, &["two packages", "'plaza'"]);
    fails(evaluate("--viewers 0"), 2, &["--viewers"]);
    fails(evaluate("--warm-up 0"), 2, &["--warmup"]);
    fails(evaluate("--rate-scale 2"), 2, &["--rate-scale"]);
    fails(weftline(at, "vr evaluate plaza --rates-mbps 0"), 2, &["--rates-mbps 0"]);
    fails(weftline(at, "vr evaluate plaza --scenario moon"), 2, &["moon"]);
    fails(weftline(at, "vr evaluate none --rates-mbps 1"), 1, &["none", "no package"]);
    fails(evaluate("--out plaza.y4m"), 1, &["cannot write plaza.y4m"]);
    // Head motion: radians, too few viewers, another video, too short.
    fs::write(at.join("heads.csv"), "t_s,yaw_deg,pitch_deg\n0,0,0\n0.5,1,0\n1.0,2,0\n").unwrap();
    fails(evaluate("--heads heads.csv"), 2, &["of 1 viewers 8", "--viewers"]);
    fails(evaluate("--heads heads.csv --heads-format tobii"), 2, &["'tobii'", "csv"]);
    fails(evaluate("--heads none.csv"), 1, &["none.csv", "No such file"]);
    fails(evaluate("--heads heads.csv --heads-video reef"), 2, &["'reef'", "--heads-video"]);
    let row = |viewer: &str| format!("0,0,0,{viewer}\n0.9,9,0,{viewer}\n");
    let two = format!("t_s,yaw_deg,pitch_deg,viewer\n{}{}", row("ann"), row("bob"));
    fs::write(at.join("two.csv"), two).unwrap();
    fails(evaluate("--heads two.csv --viewers 1"), 2, &["ends in GoP 1 of plaza", "longer traces"]);
    // Options that would do nothing.
    fails(evaluate("--seeds 2"), 2, &["--seeds"]);
    fails(evaluate("--congestion bbr"), 2, &["--congestion"]);
    fails(evaluate("--heads two.csv --fit-viewers 3"), 2, &["--fit-viewers"]);
    fs::write(at.join("ride.csv"), "wifi\n3\n3\n3\n3\n").unwrap();
    let given = weftline(at, "vr evaluate plaza --rates ride.csv --warm-up 2 --congestion bbr");
    fails(given, 2, &["--congestion", "a file of rates"]);
}

/// Public sets have viewers who left before the end. Whoever they are, the others are scored.
#[test]
fn viewers_who_leave_early_are_not_scored() {
    let Some(dir) = packaged() else { return };
    let at = dir.path();
    let row = |viewer: &str, end: f64| {
        let rows =
            (0..=(end * 2.0) as u32).map(|half| format!("{},0,0,{viewer}\n", half as f64 / 2.0));
        rows.collect::<String>()
    };
    let rows = [("ann", 2.0), ("bob", 1.0), ("cat", 2.0), ("dan", 0.5), ("eve", 2.0)];
    let rows: String = rows.iter().map(|(viewer, end)| row(viewer, *end)).collect();
    fs::write(at.join("heads.csv"), format!("t_s,yaw_deg,pitch_up_deg,viewer\n{rows}")).unwrap();
    let mut scored = std::collections::BTreeSet::new();
    // Also if all who stay are scored, by how the others looked.
    for (viewers, seed) in (1..=4).map(|seed| (2, seed)).chain((1..=4).map(|seed| (3, seed))) {
        let all = format!(
            "vr evaluate plaza --rates-mbps 1 --heads heads.csv --viewers {viewers} --heads-seed {seed} \
             --scheme fix --concealment grey --json"
        );
        let said = weftline(at, &all).unwrap();
        let records = said.lines().map(|line| serde_json::from_str::<VrRecord>(line).unwrap());
        scored.extend(records.map(|record| record.viewer));
    }
    assert_eq!(scored.into_iter().collect::<Vec<_>>(), ["ann", "cat", "eve"]);
}

/// The fast path against decoded tiles and drawn viewports. It takes each pixel of a tile for as likely
/// to be seen as the next, which is off by 1 dB where a tile has 32×24 of them, by 0.4 dB at 64×48, and
/// by less than 0.2 dB at the 128×96 here.
#[test]
fn the_fast_path_is_near_the_truth() {
    // As `vr check` has it.
    const LIMIT_DB: f64 = 0.3;
    // Mixing four pixels smooths independent errors away, by a factor of 9/4 on average.
    let mixing_db = 10.0 * 2.25_f64.log10();
    let Some(dir) = packaged_of("768x384") else { return };
    let at = dir.path();
    let args = "check plaza --viewers 2 --fit-viewers 3 --gops 2 --scheme fix --share 0.3 --json";
    let mut command = Command::new(WEFTLINE);
    let output = command.arg("vr").args(args.split(' ')).current_dir(at).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 4, "{said}{}", String::from_utf8_lossy(&output.stderr));
    for row in rows {
        let value = |name: &str| row[name].as_f64().unwrap();
        let (fast, nearest) = (value("fast_psnr_db"), value("nearest_psnr_db"));
        assert!((15.0..60.0).contains(&nearest), "{row}");
        assert!((fast - nearest).abs() < LIMIT_DB, "{row}");
        let mean = value("fast_mean_psnr_db") - value("nearest_mean_psnr_db");
        assert!(mean.abs() < LIMIT_DB, "{row}");
        // The table knows what mixing does.
        let mixed = value("mixed_psnr_db");
        assert!((1.0..mixing_db).contains(&(mixed - nearest)), "{row}");
        assert!((value("fast_mixed_psnr_db") - mixed).abs() < LIMIT_DB, "{row}");
        assert!((1.0..mixing_db).contains(&(value("fast_mixed_psnr_db") - fast)), "{row}");
    }
    // What is evaluated may be seen so, too.
    let quality = |viewport: &str| {
        let sees = format!(
            "vr evaluate plaza --rates-mbps 1 --viewers 2 --fit-viewers 3 --scheme fix \
             --concealment base-layer --viewport {viewport} --json"
        );
        let said = weftline(at, &sees).unwrap();
        let first: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        assert_eq!(first["mixed"], viewport == "mixed");
        first["psnr_db"].as_f64().unwrap()
    };
    let gain = quality("mixed") - quality("nearest");
    assert!((1.0..mixing_db).contains(&gain), "{gain}");
    // In packages of before that was not measured.
    let table = fs::read_to_string(at.join("plaza/rd.csv")).unwrap();
    let old = table.lines().map(|line| match line.matches(',').count() {
        5 => line.rsplit_once(',').unwrap().0,
        _ => line,
    });
    fs::write(at.join("plaza/rd.csv"), old.collect::<Vec<_>>().join("\n")).unwrap();
    let records = [0, 1].map(|gop| at.join(format!("plaza/gops/{gop:06}.json")));
    let kept = records.each_ref().map(|path| fs::read_to_string(path).unwrap());
    for (path, text) in records.iter().zip(&kept) {
        let mut record: serde_json::Value = serde_json::from_str(text).unwrap();
        let tiles = record["tiles"].as_array_mut().unwrap().iter_mut();
        for rung in tiles.flat_map(|tile| tile.as_array_mut().unwrap()) {
            rung.as_object_mut().unwrap().remove("mixed_mse");
        }
        fs::write(path, record.to_string()).unwrap();
    }
    fails(weftline(at, "vr check plaza"), 2, &["'plaza'", "mixed_mse", "vr package"]);
    let mixed = "vr evaluate plaza --rates-mbps 1 --viewport mixed";
    fails(weftline(at, mixed), 2, &["'plaza'", "mixed_mse", "vr package"]);
    fs::write(at.join("plaza/rd.csv"), table).unwrap();
    records.iter().zip(kept).for_each(|(path, text)| fs::write(path, text).unwrap());
    // Of another source nothing can be checked.
    weftline(at, "vr synth reef -o plaza.y4m --size 768x384 --fps 8 --seconds 2").unwrap();
    fails(weftline(at, "vr check plaza"), 1, &["plaza.y4m", "not what", "was made from"]);
    fs::remove_file(at.join("plaza.y4m")).unwrap();
    fails(weftline(at, "vr check plaza"), 1, &["plaza.y4m", "--source FILE"]);
    fails(weftline(at, "vr check plaza --share 0"), 2, &["--share 0"]);
}
