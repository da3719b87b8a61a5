//! Reports of sweeps from synthetic records: what is shown, golden numbers, and odd data.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use weftline_scenario::{PathRecord, ResultsWriter, RunRecord, VideoRecord};

use crate::tests::balanced;
use crate::write_report;

const SCHEMES: [&str; 6] = ["min-rtt", "lpc", "let", "gr-sty", "tp-sty", "tr-sty"];
const CONTROLS: [&str; 6] = ["bbr", "cubic", "compound", "lia", "olia", "balia"];

/// A number from 0 to 1 that only depends on `text`.
fn noise(text: &str) -> f64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24)
}

fn run(scenario: &str, scheme: &str, congestion: &str, seed: u64) -> RunRecord {
    RunRecord {
        schema: 1,
        backend: "sim".to_owned(),
        scenario: scenario.to_owned(),
        scheme: scheme.to_owned(),
        congestion: congestion.to_owned(),
        workload: "bulk".to_owned(),
        seed,
        duration_s: 30.0,
        warmup_s: 5.0,
        completed: true,
        version: "0.1.0".to_owned(),
        ..RunRecord::default()
    }
}

fn bulk(scheme: &str, congestion: &str, seed: u64, mbps: f64, case: &[(&str, &str)]) -> RunRecord {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    RunRecord {
        goodput_mbps: Some(mbps),
        case: case.iter().map(own).collect(),
        ..run("two-path", scheme, congestion, seed)
    }
}

fn path(name: &str, packets: f64, again: f64) -> PathRecord {
    PathRecord {
        name: name.to_owned(),
        packets: Some(packets as u64),
        retransmitted_packets: Some(again as u64),
        ..PathRecord::default()
    }
}

/// A run of the slides' study, with numbers of a likely size.
fn video(scenario: &str, scheme: &str, congestion: &str, seed: u64) -> RunRecord {
    let noise = |what: &str| noise(&format!("{scenario}{scheme}{congestion}{seed}{what}"));
    let weak = match congestion {
        "lia" => 8.0,
        "olia" | "balia" => 4.0,
        "compound" => 2.5,
        _ => 0.3,
    };
    let sticky = if scheme.ends_with("-sty") && scenario != "mptcp-a1" { 4.0 } else { 1.0 };
    let underflows = (weak * sticky * noise("underflows") * 1.4 - 0.3).max(0.0).floor();
    let again = if congestion == "bbr" { 3900.0 } else { 700.0 } * (0.8 + 0.4 * noise("again"));
    let wifi = 30_000.0 + 20_000.0 * noise("wifi");
    RunRecord {
        workload: "video".to_owned(),
        duration_s: 240.0,
        goodput_mbps: Some(5.1),
        paths: vec![path("wifi", wifi, again), path("lte", 84_000.0 - wifi, again / 30.0)],
        video: Some(VideoRecord {
            picture_discards: (underflows * (20.0 + 25.0 * noise("discards"))) as u64,
            buffer_underflows: underflows as u64,
            underflow_s: underflows * 1.7,
            startup_s: Some(1.4),
            pictures_played: Some(5390),
            ..VideoRecord::default()
        }),
        ..run(scenario, scheme, congestion, seed)
    }
}

#[test]
fn what_players_threw_away_is_told_without_what_the_machine_costs_and_not_of_two_seeds() {
    let played = |scheme: &str, seed: u64| {
        let record = video("mptcp-a1", scheme, "cubic", seed);
        let counts = VideoRecord {
            picture_discards: 30 + seed,
            decoder_drops: Some(500),
            control_discards: Some(2),
            control_decoder_drops: Some(450),
            ..record.video.unwrap()
        };
        RunRecord { workload: "vlc".to_owned(), video: Some(counts), ..record }
    };
    let mut records: Vec<RunRecord> = (1..=3).map(|seed| played("fbdt", seed)).collect();
    records.extend((1..=2).map(|seed| played("min-rtt", seed)));
    // Three seeds, of which one was not played to its end: what its decoder left out is not known.
    records.extend((1..=3).map(|seed| played("ecf", seed)));
    records.last_mut().and_then(|record| record.video.as_mut()).unwrap().decoder_drops = None;
    // The same seed again, and with TLS, are no more seeds.
    records.extend((1..=2).map(|seed| played("min-rtt", seed)));
    records.extend((1..=2).map(|seed| RunRecord { tls: true, ..played("min-rtt", seed) }));
    let html = report(&records);
    // 32 and 500 less 452.
    assert!(
        html.contains("<td>32.0</td><td>500.0</td><td>452.0</td><td>80.0<span class"),
        "{html}"
    );
    assert_eq!(html.matches("fewer than three seeds</td>").count(), 3);
    let model: Vec<RunRecord> =
        (1..=3).map(|seed| video("mptcp-a1", "fbdt", "cubic", seed)).collect();
    assert!(!report(&model).contains("id=\"players\""), "the model of a player has no control");
}

fn report(records: &[RunRecord]) -> String {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), records)
}

fn write(dir: &Path, records: &[RunRecord]) -> String {
    let mut writer = ResultsWriter::open(dir).unwrap();
    for record in records {
        writer.write_run(record, &[]).unwrap();
    }
    let html = fs::read_to_string(write_report(dir, &[]).unwrap()).unwrap();
    balanced(&html);
    assert!(!html.contains("NaN") && !html.contains(">inf"), "a number that is none");
    for outside in ["http:", "https:", "url(", "@import", "src=", "<script"] {
        assert!(!html.contains(outside), "{outside}: the page must stand alone");
    }
    html
}

/// For a look at the page: WEFTLINE_REPORT=/some/dir cargo test -p weftline-report
fn keep(name: &str, html: &str) {
    if let Some(keep) = std::env::var_os("WEFTLINE_REPORT") {
        fs::write(Path::new(&keep).join(name), html).unwrap();
    }
}

fn study() -> Vec<RunRecord> {
    let mut records = Vec::new();
    for scenario in ["mptcp-a1", "mptcp-a2", "mptcp-b1", "mptcp-b2"] {
        for seed in 1..=5 {
            for congestion in CONTROLS {
                for scheme in SCHEMES {
                    records.push(video(scenario, scheme, congestion, seed));
                }
            }
        }
    }
    records
}

/// The elements between two texts.
fn between<'a>(html: &'a str, from: &str, to: &str) -> &'a str {
    let start = html.find(from).unwrap_or_else(|| panic!("no {from}"));
    let end = html[start..].find(to).unwrap_or_else(|| panic!("no {to}"));
    &html[start..start + end]
}

#[test]
fn the_slides_study_is_heat_maps_of_each_measure() {
    let mut records = study();
    records[7].completed = false;
    records[7].error = Some("the player gave up".to_owned());
    for record in records.iter_mut().filter(|r| r.scenario == "mptcp-b2" && r.congestion == "lia") {
        if record.scheme == "let" {
            // An error is a failure, whatever else the record says.
            *record = RunRecord {
                completed: true,
                video: None,
                paths: Vec::new(),
                error: Some("out of order".to_owned()),
                ..record.clone()
            };
        }
    }
    let html = report(&records);
    keep("grid.html", &html);
    assert!(html.contains("720 runs in 4 scenarios, 6 schemes, 6 congestion controls, 5 seeds;"));
    // Discards and underflows for each scenario; packets and retransmissions for each path too.
    assert_eq!(html.matches("<svg class=\"heat").count(), 4 + 4 + 4 + 8 + 8);
    let figures: Vec<&str> = html.split("<figcaption>").skip(1).collect();
    let captions: Vec<&str> = figures.iter().map(|f| f.split('<').next().unwrap()).collect();
    assert_eq!(
        captions,
        ["Picture discards", "Buffer underflows", "Packets", "Retransmitted packets"]
    );
    assert!(html.contains("6 of 720 runs failed"));
    assert!(html.contains("mptcp-a1/lpc/cubic/1 (run 7): the player gave up"));
    assert!(html.contains("let, lia: no value; 5 runs; 5 of 5 failed"));
    assert!(!html.contains("<h2>Overview</h2>"), "the grid is no list of experiments");
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}

#[test]
fn maps_follow_the_registry_and_show_mean_interval_and_count() {
    let mut records = Vec::new();
    for (scheme, congestion) in
        [("zeta", "cubic"), ("lpc", "vegas"), ("min-rtt", "bbr"), ("fbdt", "cubic")]
    {
        for (seed, mbps) in [(1, 10.0), (2, 12.0), (3, 14.0)] {
            let goodput_mbps = Some(mbps);
            records.push(RunRecord { goodput_mbps, ..run("demo", scheme, congestion, seed) });
        }
    }
    let html = report(&records);
    let map = between(&html, "aria-label=\"In-order goodput, demo;", "</svg>");
    let names: Vec<&str> = ["cubic", "bbr", "vegas", "fbdt", "min-rtt", "lpc", "zeta"].to_vec();
    let places: Vec<usize> =
        names.iter().map(|n| map.find(&format!(">{n}</text>")).unwrap()).collect();
    assert!(places.is_sorted(), "{names:?} at {places:?}");
    // Student's t for two degrees of freedom: 4.303 × 2 ÷ √3.
    assert!(map.contains("<title>fbdt, cubic: 12 ± 4.97 Mb/s; n = 3, 10 to 14</title>"), "{map}");
    assert!(map.contains(">12.0</text>") && map.contains(">± 5.0</text>"));
    assert_eq!(map.matches("<rect").count(), 4);
    assert!(html.contains("<td>12<span class=\"ci\"> ± 4.97</span></td>"));
}

#[test]
fn one_swept_quantity_makes_lines_with_bands() {
    let mut records = Vec::new();
    for (loss, factor) in [("0.0", 1.0), ("0.001", 0.8), ("0.01", 0.5), ("0.05", 0.2)] {
        for seed in 1..=3 {
            for (congestion, most) in [("cubic", 0.6), ("bbr", 1.0)] {
                let wobble = 1.0 + 0.02 * seed as f64;
                let case = [("path.one.loss", loss)];
                let mbps = 100.0 * factor * most * wobble;
                for (scheme, share) in
                    [("fbdt", 0.95), ("min-rtt", 0.7), ("single:one", 0.5), ("single:two", 0.5)]
                {
                    records.push(bulk(scheme, congestion, seed, mbps * share, &case));
                }
            }
        }
    }
    let html = report(&records);
    keep("curves.html", &html);
    assert!(html.contains("path.one.loss, not to scale"));
    assert_eq!(html.matches("class=\"band s0\"").count(), 4, "two controls, two measures");
    let ratios = between(&html, "<figcaption>Goodput ÷ sum", "</figure>");
    assert!(!ratios.contains("single:one"));
    assert!(html.contains("<td>0.950<span class=\"ci\"> ± 0.000</span></td>"));
    assert!(html.contains("path.one.loss: 4 values"));
}

#[test]
fn two_swept_keys_make_a_small_map_for_each_scheme() {
    let mut records = Vec::new();
    for (rate, mbps) in [("5Mbps", 5.0), ("20Mbps", 20.0), ("100Mbps", 100.0)] {
        for delay in ["10ms", "80ms"] {
            for (scheme, share) in [("fbdt", 0.9), ("single:one", 0.5), ("single:two", 0.5)] {
                let case = [("path.one.rate", rate), ("path.two.delay", delay)];
                records.push(bulk(scheme, "cubic", 1, mbps * share, &case));
            }
        }
    }
    let html = report(&records);
    keep("planes.html", &html);
    // Three schemes' goodput and one scheme's ratio, each with a legend for the measure.
    assert_eq!(html.matches("<svg class=\"heat\"").count(), 4);
    assert_eq!(html.matches("<svg class=\"heat key\"").count(), 2);
    assert!(
        html.contains("fbdt, cubic, path.one.rate = 5Mbps, path.two.delay = 80ms: 0.900; n = 1")
    );
    let map = between(&html, "aria-label=\"In-order goodput, fbdt, cubic", "</svg>");
    let places = [">80</text>", ">10</text>"].map(|tick| map.find(tick).unwrap());
    assert!(places[0] < places[1], "the largest at the top");
}

#[test]
fn random_draws_make_distributions_quantiles_and_the_worst() {
    let mut records = Vec::new();
    let schemes = [
        "fbdt", "min-rtt", "lpc", "let", "gr-sty", "tp-sty", "tr-sty", "blest", "ecf", "linux",
        "musher",
    ];
    for draw in 0..1000_u64 {
        let noise = |what: &str| noise(&format!("{draw}{what}"));
        let rates = [5.0 + 400.0 * noise("one"), 5.0 + 400.0 * noise("two")];
        let text = |mbps: f64| format!("{mbps:.1}Mbps");
        let (number, one, two) = (draw.to_string(), text(rates[0]), text(rates[1]));
        let case = [("draw", &*number), ("path.one.rate", &*one), ("path.two.rate", &*two)];
        let seed = draw + 1;
        for (scheme, rate) in [("single:one", rates[0]), ("single:two", rates[1])] {
            records.push(bulk(scheme, "cubic", seed, rate, &case));
        }
        for (place, scheme) in schemes.into_iter().enumerate() {
            let share = 1.0 - 0.05 * place as f64 * noise(scheme);
            // Exactly one to a thousand thousandths.
            let share = if place == 0 { (draw + 1) as f64 / 1000.0 } else { share };
            records.push(bulk(scheme, "cubic", seed, share * (rates[0] + rates[1]), &case));
        }
    }
    assert_eq!(records.len(), 13_000);
    let dir = tempfile::tempdir().unwrap();
    let html = write(dir.path(), &records);
    keep("random.html", &html);
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    let table = between(&html, "<h4 class=\"table\">Goodput ÷ sum", "</table>");
    let fbdt = between(table, "fbdt</th>", "</tr>");
    let cells: Vec<&str> =
        fbdt.split("<td>").skip(1).map(|c| c.split('<').next().unwrap()).collect();
    assert_eq!(cells, ["1000", "0.010", "0.050", "0.250", "0.500", "0.750", "0.950"]);
    let worst = between(&html, "<summary>The worst 10 cases of each scheme", "</details>");
    assert_eq!(worst.matches("<tr><td>").count(), 10 * schemes.len());
    let first = between(worst, "<tr><td>", "</tr>");
    assert!(
        first.contains("<td>1</td>") && first.contains("draw = 0; path.one.rate = "),
        "{first}"
    );
    assert_eq!(html.matches("distribution over cases</figcaption>").count(), 2);
}

#[test]
fn the_lab_stands_beside_the_simulator() {
    let mut records = Vec::new();
    for (backend, mbps) in [("lab", 90.0), ("sim", 94.5)] {
        for seed in 1..=2 {
            let mut record = bulk("fbdt", "cubic", seed, mbps, &[]);
            record.backend = backend.to_owned();
            records.push(record);
        }
    }
    records.push(bulk("min-rtt", "cubic", 1, 50.0, &[]));
    let html = report(&records);
    keep("beside.html", &html);
    let table = between(&html, "<section id=\"beside\">", "</table>");
    assert_eq!(table.matches("<th scope=\"row\">").count(), 1, "min-rtt ran in one world only");
    assert!(table.contains("<b>1.050</b>") && table.contains("<td>2, 2</td>"), "{table}");
    assert!(html.contains("<h2>Overview</h2>"), "single experiments as before");
    assert!(!report(&records[..2]).contains("id=\"beside\""));
    // The same from two directories.
    let dirs = [&records[..2], &records[2..]].map(|records| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), records);
        dir
    });
    let others = [dirs[1].path().to_owned()];
    let html = fs::read_to_string(write_report(dirs[0].path(), &others).unwrap()).unwrap();
    assert_eq!(between(&html, "<section id=\"beside\">", "</table>"), table);
    fs::remove_file(dirs[1].path().join("runs.jsonl")).unwrap();
    let error = write_report(dirs[0].path(), &others).unwrap_err().to_string();
    assert!(error.contains("runs.jsonl"), "{error}");
}

#[test]
fn odd_records_never_break_the_page() {
    let mut records = Vec::new();
    let odd = ["", "<b>&\"'", "ünï→", "0", "-1", "1e308", "[{ at = \"0s\" }]", "99999999999Mbps"];
    for (number, text) in odd.iter().enumerate() {
        for (backend, keys) in [("sim", 1), ("sim", 2), ("sim", 3), ("", 0)] {
            let key =
                |index: usize| (format!("{text}{index}"), odd[(number + index) % 8].to_owned());
            let case: BTreeMap<String, String> = (0..keys).map(key).collect();
            let mut record = video(text, text, odd[(number + keys) % 8], number as u64);
            record.backend = backend.to_owned();
            record.scenario = format!("{keys}{}", if number % 2 == 0 { text } else { "" });
            record.completed = number % 3 != 0;
            record.goodput_mbps = Some([0.0, -1.0, 1e308, 1e-308][number % 4]);
            if number % 4 == 0 {
                record.video = None;
                record.paths.clear();
            }
            record.case = case;
            records.push(record.clone());
            record.case.insert("draw".to_owned(), number.to_string());
            record.completion_s = Some(1e300);
            records.push(record);
        }
    }
    for paths in [0, 300] {
        let mut record = run("demo", &"x".repeat(5000), "cubic", u64::MAX);
        record.paths = (0..paths).map(|n| path(&format!("p{n}"), 1e18, 0.0)).collect();
        records.push(record.clone());
        record.congestion = "bbr".to_owned();
        record.scheme = "single:".to_owned();
        records.push(record);
    }
    keep("odd.html", &report(&records));
    for record in &records {
        report(std::slice::from_ref(record));
    }
}

/// What a reader finds on a page, in its order.
fn outline(html: &str) -> String {
    let mut lines = Vec::new();
    for piece in html.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        let name = tag.split(' ').next().unwrap();
        let said = match name {
            "h1" | "h2" | "h3" | "h4" | "figcaption" | "summary" | "th" | "aside" => text,
            "svg" => {
                tag.split("aria-label=\"").nth(1).map_or("", |label| label.trim_end_matches('"'))
            }
            _ => continue,
        };
        // The directory's name is another in each run.
        let said = if name == "h1" { "Weftline report" } else { said.trim() };
        lines.push(format!("{name} {said}"));
    }
    lines.join("\n")
}

#[test]
fn a_page_of_all_kinds_keeps_its_structure() {
    let mut records = Vec::new();
    for scheme in ["min-rtt", "lpc"] {
        for congestion in ["cubic", "bbr"] {
            records.push(video("mptcp-a1", scheme, congestion, 1));
        }
        for (one, two) in [("5Mbps", "10ms"), ("50Mbps", "10ms"), ("5Mbps", "20ms")] {
            let mut line = bulk(scheme, "cubic", 1, 5.0, &[("path.one.rate", one)]);
            line.scenario = "line".to_owned();
            let case = [("path.one.rate", one), ("path.two.delay", two)];
            let mut plane = bulk(scheme, "cubic", 1, 5.0, &case);
            plane.scenario = "plane".to_owned();
            let mut draw = bulk(scheme, "cubic", 1, 5.0, &[("draw", two), ("path.one.rate", one)]);
            draw.scenario = "draw".to_owned();
            records.extend([line, plane, draw]);
        }
        for backend in ["lab", "sim"] {
            let backend = backend.to_owned();
            records.push(RunRecord { backend, ..bulk(scheme, "cubic", 1, 5.0, &[]) });
        }
    }
    insta::assert_snapshot!(outline(&report(&records)));
}

#[test]
fn very_many_of_anything_still_make_a_page() {
    let mut records = Vec::new();
    for number in 0..1500 {
        let name = format!("n{number}");
        for congestion in ["cubic", "bbr"] {
            for scheme in ["fbdt", "lpc"] {
                records.push(video(&name, scheme, congestion, 1));
                let rate = format!("{number}Mbps");
                let mut swept = bulk(scheme, &name, 1, 5.0, &[("path.one.rate", &rate)]);
                records.push(swept.clone());
                swept.case.insert("draw".to_owned(), number.to_string());
                records.push(swept);
            }
        }
    }
    let html = report(&records);
    assert!(html.len() < 12_000_000, "{} bytes", html.len());
    assert!(html.contains("Not drawn: the page is large enough."));
}

#[test]
fn text_on_every_colour_can_be_read() {
    let style = include_str!("../style.css");
    let (light, dark) = style.split_once("prefers-color-scheme: dark").unwrap();
    for mode in [light, dark] {
        let luminance = |name: &str| {
            let value = mode.split(&format!("--{name}: #")).nth(1).unwrap();
            let channel = |at: usize| {
                let part = u8::from_str_radix(&value[at..at + 2], 16).unwrap();
                let share = f64::from(part) / 255.0;
                if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
        };
        for level in 0..crate::heat::LEVELS {
            let text = luminance(if level < 5 { "ink" } else { "on" });
            for ramp in ["b", "w"] {
                let ground = luminance(&format!("{ramp}{level}"));
                // WCAG 2.2 §1.4.3: at least 4.5.
                let contrast = (text.max(ground) + 0.05) / (text.min(ground) + 0.05);
                assert!(contrast >= 4.5, "--{ramp}{level}: {contrast:.2}");
            }
        }
    }
}
