//! Reading scenarios: the built-in ones, everything a file can say, and everything it gets wrong.

use std::io;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use weftline_core::{Bitrate, ByteCount, Instant};
use weftline_link::{Link, LinkConfig, LossModel, QueueLimit, RateTrace, Verdict};

use crate::{
    BUILTIN, Bundle, Congestion, QueueSpec, RateSpec, ResultsWriter, Scenario, ScenarioError,
    Scheme, TraceFormat, VideoSpec, Workload,
};

const MS: Duration = Duration::from_millis(1);

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("some.toml", text, &|file| match file.to_str() {
        Some("good.csv") => Ok("time_s,rate_mbps\n0,10\n1,20\n".to_owned()),
        Some("bad.csv") => Ok("time_s,rate_mbps\n0,10\n1,x\n".to_owned()),
        Some("zero.csv") => Ok("time_s,rate_mbps\n0,0\n".to_owned()),
        _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
    })
}

/// Says everything a scenario can say.
const FULL: &str = r#"
name = "full"
about = "with \"quotes\""
source = "nowhere §1"
duration = "1m 30s"
warmup = "500ms"

[[path]]
name = "a"
rate = "1.5Mbps"
delay = "20ms"
jitter = "5ms"
queue = "200packets"
loss = [{ at = "0s", rate = 0 }, { at = "31s", rate = 0.01 }]
unplugged = [{ at = "10s", for = "3s" }, { at = "13s", for = "0s" }]
up = { rate = "3Mbps", delay = "1ms", jitter = "2ms", queue = "512KiB", loss = 0.25 }

[[path]]
name = "b"
trace = { file = "good.csv", format = "csv" }
queue = "2.5bdp"
loss = { good_to_bad = 0.01, bad_to_good = 0.25, loss_good = 0, loss_bad = 0.5 }
up = { trace = { generator = "outage", rate = "9Mbps", up = ["1s", "2s"], down = ["0s", "1s"] } }

[[path]]
name = "c"
trace = { generator = "blockage", los = "1Gbps", nlos = "600Mbps", blocked = "0bps", los_dwell = "9s", nlos_spread = 0.5 }
loss = { nth = [3, 99] }

[workload]
kind = "cbr:20Mbps"
"#;

/// Says everything about what lies before the paths.
const GATEWAY: &str = r#"
name = "gateway"
duration = "5s"
topology = "gateway-aps"
packet_size = 128
sender_pacing = true
receive_buffer = "512KiB"
[[path]]
name = "sub6"
rate = "300Mbps"
[[path]]
name = "mmwave"
trace = { generator = "headset", peak = "1200Mbps" }
delay = "1ms"
[backend]
rate = "2Gbps"
delay = "10ms"
[gateway]
delay = "200us"
[cotag]
interval = "5ms"
generation = 64
redundancy = 50
buffer = 1000
cut_through = true
overhead = false
uplink = "mmwave"
[workload]
kind = "burst:125MB"
parallel = 3
"#;

/// Says everything about flows, shared links and videos.
const SHARED: &str = r#"
name = "shared"
duration = "60s"
[[path]]
name = "a"
rate = "9Mbps"
delay = "5ms"
[[path]]
name = "b"
shares = "a"
[[path]]
name = "c"
rate = "5Mbps"
[[flow]]
name = "all"
[[flow]]
name = "some"
paths = ["b", "c"]
congestion = "reno"
start = "1s"
stop = "2m"
[[flow]]
name = "one"
scheme = "single:c"
paths = ["c"]
[[flow]]
name = "other"
scheme = "single:a"
workload = "cbr:1Mbps"
stop = "20s"
[workload]
kind = "video"
rate = "2Mbps"
duration = "30s"
fps = 25
gop = "1s"
seed = 4
caching = "2s"
jitter_max = "1s"
late_tolerance = "40ms"
read_ahead = "1MiB"
"#;

#[test]
fn what_lies_before_the_paths_reads() {
    let scenario = parse(GATEWAY).unwrap();
    insta::assert_debug_snapshot!((
        &scenario.backend,
        &scenario.gateway_aps,
        scenario.packet_bytes,
        scenario.sender_pacing,
        scenario.receive_buffer,
    ));
    // A queue of one bandwidth-delay product counts the whole round trip: 1 + 0 ms of radio both
    // ways, twice 10.2 ms before it.
    let [down, _] = scenario.links(&scenario.paths[1], 1);
    let alone = scenario.paths[1].down_link(1, scenario.duration);
    let (QueueLimit::Bytes(queue), QueueLimit::Bytes(short)) = (down.queue, alone.queue) else {
        panic!("in bytes")
    };
    let ratio = queue.as_u64() as f64 / short.as_u64() as f64;
    assert!((ratio - 22.4 / 2.0).abs() < 0.01, "{ratio}");

    let flows = scenario.connections(&"cotag".parse().unwrap(), Congestion::CUBIC).unwrap();
    let parts: Vec<_> = flows.iter().map(|flow| (&*flow.name, flow.workload.to_string())).collect();
    let [first, other] =
        ["41666668B", "41666666B"].map(|text| Workload::Burst(text.parse().unwrap()).to_string());
    assert_eq!(parts, [("1", first), ("2", other.clone()), ("3", other)]);
}

#[test]
fn wrong_gateways_name_file_line_key_and_remedy() {
    let texts = [
        ("topology = \"gateway-aps\"", "topology = \"star\""),
        ("topology = \"gateway-aps\"\n", ""),
        ("packet_size = 128", "packet_size = 100"),
        ("sender_pacing = true", "sender_pacing = \"yes\""),
        ("receive_buffer = \"512KiB\"", "receive_buffer = \"2KiB\""),
        ("receive_buffer = \"512KiB\"", "receive_buffer = \"2GiB\""),
        ("rate = \"2Gbps\"", "rate = \"0bps\""),
        ("delay = \"200us\"", "speed = \"200us\""),
        ("interval = \"5ms\"", "interval = \"0ms\""),
        ("generation = 64", "generation = 256"),
        ("uplink = \"mmwave\"", "uplink = \"lte\""),
        ("rate = \"300Mbps\"", "rate = \"300Mbps\"\n[[path]]\nname = \"b\"\nshares = \"sub6\""),
        ("parallel = 3", "parallel = 65"),
        ("kind = \"burst:125MB\"", "kind = \"video\""),
    ];
    let texts = texts.map(|(good, bad)| {
        assert!(GATEWAY.contains(good), "{good}");
        GATEWAY.replacen(good, bad, 1)
    });
    insta::assert_snapshot!(errors(&texts));
}

#[test]
fn flows_and_shared_links_read() {
    let scenario = parse(SHARED).unwrap();
    insta::assert_snapshot!(scenario);
    let [a, b, _] = &scenario.paths[..] else { panic!("three paths") };
    assert_eq!((b.link_name(), b.base_rtt()), ("a", 10 * MS));
    assert_eq!(a.down_link(1, scenario.duration), b.down_link(1, scenario.duration));
    let flows = scenario.connections(&Scheme::FBDT, Congestion::CUBIC).unwrap();
    insta::assert_debug_snapshot!(flows);
    let flows = scenario.connections(&Scheme::Single("b".to_owned()), Congestion::CUBIC).unwrap();
    assert_eq!(flows[0].paths, [1]);
    // The second flow is of the scheme under test and has no path 'a'.
    let alone = Scheme::Single("a".to_owned());
    let error = scenario.connections(&alone, Congestion::CUBIC).unwrap_err();
    assert_eq!(error.to_string(), "there is no path 'a'; known: b, c");
    // Without [[flow]], one of the scheme under test over all paths.
    let flows = parse(FULL).unwrap().connections(&Scheme::FBDT, Congestion::CUBIC).unwrap();
    assert_eq!((flows.len(), flows[0].name.as_str(), &flows[0].paths[..]), (1, "", &[0, 1, 2][..]));
    assert_eq!(flows[0].workload, Workload::Cbr(Bitrate::mbps(20)));
}

/// The tables of the slides ("Experimental Scenarios #3" and "#4"): seconds and per cent.
#[test]
fn the_slides_loss_schedules() {
    let a = [(0, 0), (31, 1), (51, 5), (56, 6), (86, 5), (106, 1), (111, 0), (141, 1), (166, 6)];
    let b = [(0, 6), (31, 5), (56, 0), (61, 0), (86, 5), (91, 6), (121, 5), (151, 0), (176, 5)];
    let schedules =
        [("mptcp-a1", 40, a), ("mptcp-a2", 60, a), ("mptcp-b1", 40, b), ("mptcp-b2", 60, b)];
    for (name, rtt, schedule) in schedules {
        let scenario = Scenario::find(name).unwrap();
        let [wifi, lte] = &scenario.paths[..] else { panic!("two paths") };
        assert_eq!((wifi.base_rtt(), lte.base_rtt()), (rtt * MS, 80 * MS));
        assert_eq!(lte.loss, LossModel::None);
        let LossModel::Schedule(changes) = &wifi.loss else { panic!("{:?}", wifi.loss) };
        let at = |second: u64| {
            let changes = changes.iter().take_while(|(at, _)| *at <= Duration::from_secs(second));
            changes.last().unwrap().1
        };
        for (second, percent) in schedule {
            assert_eq!(at(second), f64::from(percent) / 100.0, "{name} at {second} s");
        }
        // One per cent every 5 s, and 0 to 6.
        let steps = changes.windows(2).map(|pair| ((pair[1].1 - pair[0].1) * 100.0).abs());
        assert!(steps.into_iter().all(|step| step < 1.001), "{name}");
        let times = changes.iter().skip(1).map(|(at, _)| at.as_secs());
        assert!(times.into_iter().all(|second| second % 5 == 1), "{name}");
        let Workload::Video(video) = scenario.workload else { panic!("no video") };
        assert_eq!(video, VideoSpec::default());
    }
}

#[test]
fn a_full_scenario_reads() {
    let scenario = parse(FULL).unwrap();
    assert_eq!(scenario.duration, Duration::from_secs(90));
    assert_eq!(scenario.warmup, 500 * MS);
    assert_eq!(scenario.workload, Workload::Cbr(Bitrate::mbps(20)));
    let [a, b, c] = &scenario.paths[..] else { panic!("three paths") };
    assert_eq!(a.rate, RateSpec::Constant(Bitrate::kbps(1500)));
    assert_eq!(a.queue, QueueSpec::Packets(200));
    let schedule = vec![(Duration::ZERO, 0.0), (Duration::from_secs(31), 0.01)];
    assert_eq!(a.loss, LossModel::Schedule(schedule));
    assert_eq!(a.base_rtt(), 21 * MS);
    assert_eq!(a.up.loss, LossModel::Bernoulli(0.25));
    let RateSpec::File(file) = &b.rate else { panic!("{:?}", b.rate) };
    assert_eq!((file.file.as_str(), file.format), ("good.csv", TraceFormat::Csv));
    assert_eq!(file.trace.mean(), Bitrate::mbps(15));
    assert_eq!(c.loss, LossModel::Nth(vec![3, 99]));
    insta::assert_snapshot!(scenario);
}

#[test]
fn links_follow_the_scenario() {
    let scenario = parse(FULL).unwrap();
    let link = |index: usize| scenario.paths[index].down_link(1, scenario.duration);
    let up = |index: usize| scenario.paths[index].up_link(1, scenario.duration);
    assert_eq!(link(0).queue, QueueLimit::Packets(200));
    assert_eq!((link(0).delay, link(0).jitter), (20 * MS, 5 * MS));
    assert_eq!(up(0).queue, QueueLimit::Bytes(ByteCount::kib(512)));
    assert_eq!(up(0).rate, RateTrace::constant(Bitrate::mbps(3)));
    // No delay at all: a queue of two packets is the least.
    assert_eq!(link(1).queue, QueueLimit::Bytes(ByteCount::new(3000)));
    assert_eq!(up(2).rate, RateTrace::constant(Bitrate::mbps(1000)));
}

#[test]
fn the_return_direction_has_its_defaults() {
    let text = |rate: &str| {
        format!(
            "name = 'x'\nduration = '9s'\n[[path]]\nname = 'a'\nrate = '{rate}'\ndelay = '10ms'\n\
             jitter = '1ms'\nloss = 0.5\nqueue = '9packets'"
        )
    };
    let scenario = parse(&text("1800Mbps")).unwrap();
    assert_eq!((scenario.workload, scenario.warmup), (Workload::Bulk, Duration::ZERO));
    let up = scenario.paths[0].up_link(1, scenario.duration);
    assert_eq!(up.rate, RateTrace::constant(Bitrate::mbps(1800)));
    // 1800 Mb/s × 20 ms.
    assert_eq!(up.queue, QueueLimit::Bytes(ByteCount::new(4_500_000)));
    assert_eq!((up.delay, up.jitter, up.loss), (10 * MS, Duration::ZERO, LossModel::None));
    let up = parse(&text("5Mbps")).unwrap().paths[0].up_link(1, scenario.duration);
    assert_eq!(up.rate, RateTrace::constant(Bitrate::mbps(1000)));
}

/// The errors of these texts, one a line, without the names of a registry, which grows.
fn errors(texts: &[String]) -> String {
    let congestions = Congestion::all().map(Congestion::name).collect::<Vec<_>>().join(", ");
    let error = |text: &String| match parse(text) {
        Ok(_) => panic!("no error in:\n{text}"),
        Err(error) => error.to_string().replace(&congestions, "…"),
    };
    let errors: Vec<_> = texts.iter().map(error).collect();
    assert!(errors.iter().all(|error| !error.contains('\n')), "one line each");
    errors.join("\n")
}

#[test]
fn wrong_scenarios_name_file_line_key_and_remedy() {
    let head = "name = \"x\"\nduration = \"9s\"\n";
    let path = |lines: &str| format!("{head}[[path]]\nname = \"a\"\n{lines}\n");
    let rate = "rate = \"1Mbps\"\n";
    let good = path(rate);
    let trace = |table: &str| path(&format!("trace = {{ {table} }}"));
    let texts = [
        "name = ".to_owned(),
        "duration = \"9s\"".to_owned(),
        "name = \"Not good\"".to_owned(),
        "name = \"x\"\nduration = 9".to_owned(),
        "name = \"x\"\nduration = \"9 parsecs\"".to_owned(),
        "name = \"x\"\nduration = \"25h\"".to_owned(),
        "name = \"x\"\nduration = \"9s\"\nwarmup = \"9s\"".to_owned(),
        head.to_owned(),
        format!("{head}path = []"),
        format!("{head}flows = 1\n[[path]]\nname = \"a\"\n{rate}"),
        format!("{head}flow = 1\n[[path]]\nname = \"a\"\n{rate}"),
        format!("{head}flow = []\n[[path]]\nname = \"a\"\n{rate}"),
        format!("{good}[[path]]\nname = \"a\"\n{rate}"),
        path(""),
        path("rat = \"1Mbps\""),
        format!("name = \"x\"\nduraton = \"9s\"\n[[path]]\nname = \"a\"\n{rate}"),
        path("rate = \"0Mbps\""),
        path("rate = \"476\""),
        path(&format!("{rate}trace = {{ }}")),
        path(&format!("{rate}speed = 3")),
        path(&format!("{rate}up = {{ loss = 0, dealy = \"1ms\" }}")),
        path(&format!("{rate}queue = \"3\"")),
        path(&format!("{rate}queue = \"0packets\"")),
        path(&format!("{rate}queue = \"infbdp\"")),
        path(&format!("{rate}delay = \"-2ms\"")),
        path(&format!("{rate}loss = 5")),
        path(&format!("{rate}loss = nan")),
        path(&format!("{rate}loss = \"5%\"")),
        path(&format!("{rate}loss = [{{ at = \"1s\", rate = 0 }},\n{{ at = \"1s\", rate = 1 }}]")),
        path(&format!("{rate}loss = [{{ at = \"1s\" }}]")),
        path(&format!("{rate}loss = {{ good_to_bad = 1 }}")),
        path(&format!("{rate}loss = {{ nth = [0] }}")),
        path(&format!("{rate}unplugged = \"3s\"")),
        path(&format!("{rate}unplugged = [{{ at = \"3s\" }}]")),
        path(&format!("{rate}unplugged = [{{ at = \"3s\", to = \"4s\", for = \"1s\" }}]")),
        path(&format!(
            "{rate}unplugged = [{{ at = \"3s\", for = \"2s\" }},\n{{ at = \"4s\", for = \"1s\" }}]"
        )),
        trace(""),
        trace("generator = \"fade\""),
        trace("generator = \"blockage\", los = \"1Gbps\""),
        trace(
            "generator = \"blockage\", los = \"1Gbps\", nlos = \"1Gbps\", blocked = \"0bps\", los_dwell = \"0s\", nlos_dwell = \"0s\", blocked_dwell = \"0s\"",
        ),
        trace("generator = \"outage\", rate = \"1Gbps\", up = [\"2s\", \"1s\"], down = [\"1s\"]"),
        trace("generator = \"outage\", rate = \"1Gbps\", up = [\"2s\", \"3s\"], down = [\"1s\"]"),
        trace("file = \"none.csv\", format = \"csv\""),
        trace("file = \"good.csv\", format = \"pcap\""),
        trace("file = \"bad.csv\", format = \"csv\""),
        trace("file = \"zero.csv\", format = \"csv\""),
        format!("{good}[workload]\nkind = \"flash\""),
        format!("{good}[workload]\nkind = \"bulk\"\nrate = 3"),
        (0..9).fold(head.to_owned(), |text, k| format!("{text}[[path]]\nname = \"p{k}\"\n{rate}")),
    ];
    insta::assert_snapshot!(errors(&texts));
}

#[test]
fn a_path_may_have_a_congestion_control_of_its_own() {
    let text = "name = \"x\"\nduration = \"9s\"\n[[path]]\nname = \"a\"\nrate = \"1Mbps\"\n\
                congestion = \"bbr\"\n[[path]]\nname = \"b\"\nshares = \"a\"\n";
    let scenario = parse(text).unwrap();
    let names = |scenario: &Scenario| {
        scenario.paths.iter().map(|path| path.congestion.map(Congestion::name)).collect::<Vec<_>>()
    };
    assert_eq!(names(&scenario), [Some("bbr"), None]);
    assert_eq!(parse(&scenario.to_string()).unwrap(), scenario);
}

#[test]
fn wrong_flows_and_videos_name_file_line_key_and_remedy() {
    let good = "name = \"x\"\nduration = \"9s\"\n[[path]]\nname = \"a\"\nrate = \"1Mbps\"\n";
    let path = |name: &str, lines: &str| format!("[[path]]\nname = \"{name}\"\n{lines}\n");
    let shares = path("b", "shares = \"a\"");
    let flow = |lines: &str| format!("{good}[[flow]]\nname = \"f\"\n{lines}");
    let video = |line: &str| format!("{good}[workload]\nkind = \"video\"\n{line}");
    let parallel =
        |before: &str| format!("{good}{before}[workload]\nkind = \"bulk\"\nparallel = 3\n");
    let texts = [
        format!("{good}{}", path("b", "shares = \"b\"")),
        format!("{good}{}", path("b", "shares = \"a\"\ndelay = \"1ms\"")),
        format!("{good}{}", path("b", "shares = \"a\"\ncongestion = \"lia\"")),
        format!("{good}{shares}{}", path("c", "shares = \"b\"")),
        flow("paths = []"),
        flow("paths = [\"b\"]"),
        flow("paths = [\"a\", \"a\"]"),
        flow("scheme = \"single:b\""),
        flow("scheme = 4"),
        flow("congestion = \"warp\""),
        flow("workload = \"cbr\""),
        flow("start = \"9s\""),
        flow("start = \"2s\"\nstop = \"1s\""),
        flow("speed = 3"),
        flow("[[flow]]\nname = \"f\""),
        flow("[[flow]]\nname = \"a\""),
        parallel(&path("2", "shares = \"a\"")),
        parallel("[[flow]]\nname = \"f\"\n[[flow]]\nname = \"f-3\"\n"),
        video("rate = \"1kbps\""),
        video("fps = 0.5"),
        video("gop = \"2h\""),
        video("caching = \"2h\""),
        video("read_ahead = \"0B\""),
        video("player = \"mpv\""),
    ];
    insta::assert_snapshot!(errors(&texts));
}

#[test]
fn every_builtin_scenario_reads_and_runs() {
    for builtin in BUILTIN.iter() {
        let scenario = builtin.scenario().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.name, builtin.name);
        assert!(!scenario.about.is_empty() && !scenario.source.is_empty(), "{}", builtin.name);
        for path in &scenario.paths {
            let config = path.down_link(1, scenario.duration);
            // Handshakes come before the start.
            let name = format!("{}/down", path.name);
            let mut link = Link::new(LinkConfig { loss: LossModel::None, ..config }, 1, &name);
            let verdict = link.offer(Instant::ZERO, ByteCount::new(1500));
            assert!(matches!(verdict, Verdict::Arrives(_)), "{}: {verdict:?}", builtin.name);
        }
    }
}

#[test]
fn every_scenario_file_is_built_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "toml"))
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let (mut points, mut names): (Vec<_>, Vec<_>) = BUILTIN
        .iter()
        .map(|builtin| builtin.name)
        .partition(|name| name.starts_with("cotag-fig5-") || name.starts_with("cotag-fig6-"));
    names.sort_unstable();
    assert_eq!(files, names);
    // The points of COTAG's figures have names, and no files.
    points.dedup();
    assert_eq!(points.len(), 20, "{points:?}");
}

#[test]
fn a_point_of_a_figure_is_the_figure_with_two_keys_set() {
    for (figure, part) in [("cotag-fig5", "5"), ("cotag-fig6", "6")] {
        let figure_text = BUILTIN.iter().find(|builtin| builtin.name == figure).unwrap().text;
        let mut expected = parse(figure_text).unwrap();
        for (delay_ms, suffix, letter, told) in [
            (0, "", "a", ""),
            (5, "-per", "b", ", 0.001 % packet errors"),
            (40, "-per", "b", ", 0.001 % packet errors"),
        ] {
            let name = format!("{figure}-d{delay_ms}{suffix}");
            let found = Scenario::find(&name).unwrap();
            expected.name = name;
            expected.source = format!("COTAG §IV-B, Fig. {part}{letter}");
            let (about, _) = expected.about.split_once(';').unwrap_or((&expected.about, ""));
            expected.about = format!("{about}; back end {delay_ms} ms away{told}");
            expected.backend.as_mut().unwrap().delay = Duration::from_millis(delay_ms);
            for path in &mut expected.paths {
                path.loss = match suffix {
                    "" => LossModel::None,
                    _ => LossModel::Bernoulli(0.00001),
                };
            }
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn a_loss_of_the_scenario_is_that_of_paths_without_one() {
    let text = "name = 'x'\nduration = '1s'\nloss = 0.25\n[[path]]\nname = 'a'\nrate = '1Mbps'\n\
                [[path]]\nname = 'b'\nrate = '1Mbps'\nloss = 0.0\n";
    let scenario = parse(text).unwrap();
    let losses = scenario.paths.iter().map(|path| (&path.loss, &path.up.loss));
    let expected =
        [(&LossModel::Bernoulli(0.25), &LossModel::None), (&LossModel::None, &LossModel::None)];
    assert_eq!(losses.collect::<Vec<_>>(), expected);
    assert_eq!(parse(&scenario.to_string()).unwrap(), scenario);
}

#[test]
fn scenarios_are_found_by_name_and_by_file() {
    assert_eq!(Scenario::find("demo").unwrap().name, "demo");
    let error = Scenario::find("dmeo").unwrap_err().to_string();
    assert!(
        error.contains("no scenario 'dmeo'; known: demo, bond, bond-satellite, fbdt-3b-normal"),
        "{error}"
    );
    let error = Scenario::find("no/such.toml").unwrap_err().to_string();
    assert!(error.starts_with("cannot read no/such.toml: "), "{error}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/trace-csv.toml");
    let found = Scenario::find(file.to_str().unwrap()).unwrap();
    assert_eq!(found, Scenario::find("trace-csv").unwrap());
}

/// The rule that scenarios/README.md gives for the Mahimahi trace.
#[test]
fn the_sawtooth_follows_its_rule() {
    let (mut owed, mut expected) = (0, String::new());
    for ms in 1..=1000_u32 {
        owed += 600 + 18 * ((ms - 1) / 10);
        while owed >= 1200 {
            owed -= 1200;
            expected += &format!("{ms}\n");
        }
    }
    let scenario = Scenario::find("trace-mahimahi").unwrap();
    let RateSpec::File(file) = &scenario.path("lte").unwrap().rate else { panic!("no file") };
    assert_eq!(&*file.text, expected);
}

#[test]
fn a_scenario_as_run_reads_back() {
    let texts = BUILTIN.iter().map(|builtin| builtin.scenario().unwrap());
    for scenario in texts.chain([FULL, GATEWAY, SHARED].map(|text| parse(text).unwrap())) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = ResultsWriter::open(dir.path()).unwrap();
        writer.begin(&Bundle::of_runs(&scenario, "0.1.0")).unwrap();
        let file = dir.path().join(format!("{}.toml", scenario.name));
        let again = Scenario::load(&file).unwrap_or_else(|error| panic!("{error}"));
        let link = |scenario: &Scenario, index: usize| {
            let path = &scenario.paths[index];
            (path.down_link(3, scenario.duration), path.up_link(3, scenario.duration))
        };
        for index in 0..scenario.paths.len() {
            assert_eq!(link(&scenario, index), link(&again, index), "{}", scenario.name);
        }
        assert_eq!((again.about, again.workload), (scenario.about, scenario.workload));
        assert_eq!(again.flows, scenario.flows);
        assert_eq!((again.duration, again.warmup), (scenario.duration, scenario.warmup));
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), ".{0,6}"), 0..4),
    ) {
        let mut text: Vec<char> = FULL.chars().collect();
        for (at, insert) in cuts {
            let at = at.index(text.len());
            let end = (at + insert.len()).min(text.len());
            text.splice(at..end, insert.chars().rev());
        }
        if let Ok(scenario) = parse(&text.into_iter().collect::<String>()) {
            // What reads also makes links.
            for path in &scenario.paths {
                path.down_link(1, Duration::from_secs(1));
                path.up_link(1, Duration::from_secs(1));
            }
        }
    }
}
