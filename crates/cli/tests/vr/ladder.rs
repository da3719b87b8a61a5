//! Ladders that are given by rates.

use super::*;

#[test]
fn a_ladder_may_be_given_by_rates() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.0);
    let at = dir.path();
    let package =
        |rates: &str| format!("package plaza.y4m -o pkg --preset ultrafast --grid 2x1 {rates}");
    // What two QPs take is asked for by rates, and these come out again.
    vr(at, &package("--qp 24,34").replace("-o pkg", "-o given")).unwrap();
    let table = fs::read_to_string(at.join("given/rd.csv")).unwrap();
    let mbps = |qp: &str| {
        let rows = table.lines().skip(2).map(|row| row.split(',').collect::<Vec<_>>());
        let bytes = rows.filter(|row| row[2] == qp).map(|row| row[3].parse::<f64>().unwrap());
        bytes.sum::<f64>() * 8e-6 / 2.0
    };
    let ladder = format!("--ladder-mbps {:.4},{:.4}", mbps("24"), mbps("34"));
    vr(at, &package(&ladder)).unwrap();
    let description = fs::read_to_string(at.join("pkg/package.json")).unwrap();
    let said: serde_json::Value = serde_json::from_str(&description).unwrap();
    let qps: Vec<i64> =
        said["qps"].as_array().unwrap().iter().map(|qp| qp.as_i64().unwrap()).collect();
    // Between the QPs that are tried the rate is taken for exponential.
    assert!((qps[0] - 24).abs() <= 1 && (qps[1] - 34).abs() <= 1, "{qps:?}");
    assert_eq!(said["mbps"].as_array().unwrap().len(), 2);
    // Gone on with, it has the same QPs, whatever it is that is missing.
    fs::remove_file(at.join("pkg/gops/000001.json")).unwrap();
    vr(at, &package(&ladder)).unwrap();
    assert_eq!(fs::read_to_string(at.join("pkg/package.json")).unwrap(), description);
    fails(vr(at, &package("--ladder-mbps 1")), 2, &["other rates", "not 1)"]);
    let out = |rates: &str| vr(at, &package(rates).replace("-o pkg", "-o other"));
    fails(out("--ladder-mbps 900"), 2, &["--ladder-mbps 900", "Mb/s at QP 51"]);
    fails(out(&format!("--ladder-mbps {0:.4},{0:.5}", mbps("24"))), 2, &["further apart"]);
}

/// With grain, the rate falls steeply where it is swallowed. For each rate the QP is the nearest: its
/// neighbours are not nearer, or it is within 6 %.
#[test]
fn a_ladder_by_rates_is_right_where_rates_are_steep() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let at = dir.path();
    ff(at, "-i plaza.y4m -vf noise=alls=9:allf=t -c:v ffv1 grain.mkv");
    let package = |out: &str, ladder: &str| {
        vr(at, &format!("package grain.mkv -o {out} --preset ultrafast --grid 2x1 {ladder}"))
            .unwrap()
    };
    let all = (14..=40).map(|qp: u8| qp.to_string()).collect::<Vec<_>>().join(",");
    package("all", &format!("--qp {all}"));
    let text = fs::read_to_string(at.join("all/rd.csv")).unwrap();
    let mut mbps = std::collections::BTreeMap::<u8, f64>::new();
    for row in text.lines().skip(2).map(|row| row.split(',').collect::<Vec<_>>()) {
        *mbps.entry(row[2].parse().unwrap()).or_default() +=
            row[3].parse::<f64>().unwrap() * 8e-6 / 3.0;
    }
    let steepest = mbps.values().zip(mbps.values().skip(1)).map(|(a, b)| a / b).fold(0.0, f64::max);
    assert!(steepest > 1.3, "nothing is steep: {mbps:?}");
    // Four rates between the finest and the coarsest.
    let [most, least] = [mbps[&15], mbps[&39]];
    let rates: Vec<f64> =
        (1..5).map(|step| most * (least / most).powf(f64::from(step) / 5.0)).collect();
    let ladder = rates.iter().map(|rate| format!("{rate:.4}")).collect::<Vec<_>>().join(",");
    let said = package("pkg", &format!("--ladder-mbps {ladder}"));
    let description = fs::read_to_string(at.join("pkg/package.json")).unwrap();
    let description: serde_json::Value = serde_json::from_str(&description).unwrap();
    let qps = description["qps"].as_array().unwrap().iter().map(|qp| qp.as_u64().unwrap() as u8);
    let qps: Vec<u8> = qps.collect();
    for (&qp, asked) in qps.iter().zip(&rates) {
        let off = |qp: u8| (mbps[&qp] / asked).ln().abs();
        let nearest = off(qp) <= off(qp - 1).min(off(qp + 1)) || off(qp) <= 1.06_f64.ln();
        assert!(nearest, "{asked} Mb/s: QP {qp} of {mbps:?}");
    }
    for (&qp, asked) in qps.iter().zip(&rates) {
        let line = said.lines().find(|line| line.starts_with(&format!("QP {qp}"))).unwrap();
        let words =
            format!("{:8.2} Mb/s ({}", mbps[&qp], format!("{asked:.4}").trim_end_matches('0'));
        assert!(line.contains(&words), "{line} {words}");
    }
}
