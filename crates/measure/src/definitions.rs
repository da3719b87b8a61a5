//! What each key of a record means, in words.

use std::fmt::Write as _;

/// One key of a record. Keys of what is inside another stand behind its name and a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The key.
    pub key: &'static str,
    /// Its unit; empty where there is none.
    pub unit: &'static str,
    /// What it means.
    pub text: &'static str,
}

const fn of(key: &'static str, unit: &'static str, text: &'static str) -> Definition {
    Definition { key, unit, text }
}

/// Every key of a run's record, in its order.
///
/// *Measured time* is from the end of the warm-up to the end of the workload. Workloads with an end
/// of their own (transfer, burst, clip) have no warm-up: they are measured from their beginning to
/// that end, or to the run's if it does not come. Parallel connections share one measured time: from
/// the first that begins to the last that ends.
pub const DEFINITIONS: &[Definition] = &[
    of("schema", "", "version of these keys"),
    of("world", "", "`lab` or `sim`"),
    of("scenario", "", "what was run: its name"),
    of("scheme", "", "its scheme"),
    of("congestion", "", "its congestion control"),
    of("workload", "", "its workload"),
    of("seed", "", "of the links' random streams"),
    of("duration_s", "s", "how long the workload ran, or was to run"),
    of("warmup_s", "s", "how much of the beginning does not count"),
    of("tls", "", "whether the connections were encrypted (lab)"),
    of(
        "completed",
        "",
        "whether the workload ended as it should; of a clip, whether a picture was shown",
    ),
    of(
        "error",
        "",
        "why not; where a scheduler broke its contract there are no figures, which would be those of `min-rtt` in its place",
    ),
    of(
        "goodput_mbps",
        "Mb/s",
        "bytes released to the application, in order, in the measured time, ÷ that time; none where there was no such time",
    ),
    of("goodput_total_mbps", "Mb/s", "the same with the warm-up"),
    of(
        "bytes_delivered",
        "B",
        "bytes released in order, with the warm-up; of real players the TCP payload that the links delivered",
    ),
    of(
        "completion_s",
        "s",
        "from the beginning (of a transfer: its connect) to the last byte of a transfer or burst, or to the end of a clip's last picture",
    ),
    of(
        "in_order_delay_ms",
        "ms",
        "from the application's write of a byte (of a constant rate: its making) to its release in order, by bytes released in the measured time: `p50`, `p95`, `p99`, `max`; under `bulk` it measures the send buffer",
    ),
    of(
        "messages",
        "",
        "of messages made in the measured time and due before its end: `made`, `made_bytes`, `on_time_share`, `on_time_bytes_share` (there whole by the deadline), `delay_ms` from making to there; of tiles also `on_time_weight_share`, and `bound_weight_share`: the most that the links' rates, delays and losses allow (simulator)",
    ),
    of(
        "packet_delay_ms",
        "ms",
        "from the server's interface to the client's TCP, by packets with data that arrived in the measured time, where there is a gateway (simulator)",
    ),
    of(
        "short_term_mbps",
        "Mb/s",
        "goodput of each 100 ms that lies in the measured time: `p5`, `p50`, `p95`",
    ),
    of(
        "longest_gap_ms",
        "ms",
        "longest time without a released byte that ended in the measured time, or not at all; before the first byte it counts from the beginning, after the last of a sized workload it does not; of parallel connections that of the one that waited longest",
    ),
    of(
        "duplicate_bytes",
        "B",
        "bytes that came again above the TCP connections, with the warm-up; of the kernel's MPTCP, bytes sent again there",
    ),
    of(
        "copied_bytes",
        "B",
        "bytes sent again though another path was still delivering them (redundant copies), with the warm-up; what a silent path held does not count",
    ),
    of("cpu_seconds", "s", "processor time of both endpoint programs (lab)"),
    of("peak_memory_bytes", "B", "the larger of their peaks of resident memory (lab)"),
    of("paths.name", "", "of each path: its name"),
    of(
        "paths.goodput_mbps",
        "Mb/s",
        "TCP payload that arrived at the client in the measured time, repetitions too, ÷ that time; where a gateway spreads packets over the paths, the packets' bytes with headers, redundant packets too",
    ),
    of(
        "paths.bytes_sent",
        "B",
        "TCP payload sent towards the client, repetitions and the warm-up too; behind a gateway that spreads packets, their bytes with headers",
    ),
    of(
        "paths.packets",
        "",
        "packets with TCP payload sent towards the client, repetitions and the warm-up too; behind a gateway that spreads packets, all packets",
    ),
    of("paths.retransmitted_packets", "", "of these, sent again by TCP"),
    of("paths.lost", "", "packets that the link's loss model took, of all towards the client"),
    of(
        "paths.queue_drops",
        "",
        "packets for which the link's queue had no room, of all towards the client",
    ),
    of(
        "paths.starved_s",
        "s",
        "how long the window had room and nothing unsent, and the scheduler gave nothing though data waited (simulator)",
    ),
    of(
        "paths.rtt_ms",
        "ms",
        "the server's smoothed round-trip time, looked at every 100 ms, in the warm-up too (of a shorter run, at its end): `mean`, `p95`",
    ),
    of("cotag.received", "packets", "`packets_received` of the gateway"),
    of(
        "cotag.refused",
        "packets",
        "`packets_full` of the gateway; packets that are too long count, what its queue drops does not",
    ),
    of("cotag.given_gateway", "packets", "`packets_given` of the gateway"),
    of("cotag.given_access_points", "packets", "`packets_given` of each access point"),
    of("cotag.redundant", "packets", "`packets_redundant` of the device"),
    of("cotag.delivered", "packets", "`packets_delivered` of the device, to the flows"),
    of("cotag.recovered", "packets", "`packets_recovered` of the device"),
    of("cotag.lost", "packets", "`packets_lost` of the device"),
    of("cotag.timeouts", "cohorts", "`timeouts` of the device"),
    of(
        "cotag.dropped_queue",
        "packets",
        "`packets_delayed` and `packets_overflowed` of the gateway",
    ),
    of("cotag.taken_gateway", "packets", "`packets_low` of the gateway"),
    of("cotag.dropped_full", "packets", "`packets_full` of access points and device"),
    of(
        "video",
        "",
        "`picture_discards` (too late to be shown), `buffer_underflows` (stops for want of data), `underflow_s` in all, `startup_s` from the request to the first picture, `pictures_played`, `pictures_missed` (not come to by the end of a run as long as the clip; simulator); of real players `decoder_drops` (left out by the decoder, beyond `picture_discards`), `control_discards`, `control_underflows`, `control_decoder_drops`. Reports, claims and figures add what was missed to what was discarded, and take what is left of a real player's discards and decoder drops when those of the control run are subtracted, and nothing where one of them is not known or there are fewer than three seeds",
    ),
    of(
        "flows",
        "",
        "of each `[[flow]]`: `name`, `scheme`, `congestion`, `workload` and the keys above that apply; the measured time ends with its own stop, and begins with it if that is after the warm-up",
    ),
    of(
        "case",
        "",
        "what a sweep set: keys and values, as texts; `draw` is the number of a random draw",
    ),
    of("events", "", "how many events the run took (simulator)"),
    of(
        "emulator",
        "",
        "`late_over_1ms_share` of the packets, and whether that is small enough: `valid` (lab)",
    ),
    of(
        "guest_kernel",
        "",
        "release of the kernel that the scheme ran in, with the key of its build (lab, schemes in a guest)",
    ),
    of("digest", "", "of the run's events (simulator)"),
    of("version", "", "of the program, with the commit"),
];

/// The definitions as a table in Markdown.
pub fn table() -> String {
    let mut text = String::from("| key | unit | definition |\n|---|---|---|\n");
    for Definition { key, unit, text: words } in DEFINITIONS {
        writeln!(text, "| `{key}` | {unit} | {words} |").expect("a String takes what it gets");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;
    use weftline_scenario::{
        CotagRecord, DelayMs, EmulatorRecord, FlowRecord, MessagesRecord, PathRecord, RttMs,
        RunRecord, ShortTermMbps, VideoRecord,
    };

    use super::*;

    /// A record in which nothing is absent.
    fn full() -> RunRecord {
        RunRecord {
            goodput_mbps: Some(1.0),
            goodput_total_mbps: Some(1.0),
            bytes_delivered: Some(1),
            in_order_delay_ms: Some(DelayMs::default()),
            messages: Some(MessagesRecord::default()),
            packet_delay_ms: Some(DelayMs::default()),
            short_term_mbps: Some(ShortTermMbps::default()),
            longest_gap_ms: Some(1.0),
            duplicate_bytes: Some(1),
            copied_bytes: Some(1),
            cpu_seconds: Some(1.0),
            peak_memory_bytes: Some(1),
            paths: vec![PathRecord {
                name: "link".to_owned(),
                goodput_mbps: Some(1.0),
                bytes_sent: Some(1),
                packets: Some(1),
                retransmitted_packets: Some(1),
                lost: Some(1),
                queue_drops: Some(1),
                starved_s: Some(1.0),
                rtt_ms: Some(RttMs::default()),
            }],
            cotag: Some(CotagRecord::default()),
            video: Some(VideoRecord::default()),
            flows: vec![FlowRecord::default()],
            case: [(String::new(), String::new())].into(),
            events: Some(1),
            emulator: Some(EmulatorRecord::default()),
            guest_kernel: Some(String::new()),
            digest: Some(String::new()),
            ..RunRecord::default()
        }
    }

    #[test]
    fn every_key_of_a_record_is_defined() {
        let keys = |value: &Value| -> Vec<String> {
            value.as_object().expect("a record is an object").keys().cloned().collect()
        };
        let record = serde_json::to_value(full()).unwrap();
        let mut there: Vec<String> = keys(&record);
        there.retain(|key| key != "paths" && key != "cotag");
        there.extend(keys(&record["paths"][0]).iter().map(|key| format!("paths.{key}")));
        there.extend(keys(&record["cotag"]).iter().map(|key| format!("cotag.{key}")));
        let mut defined: Vec<&str> = DEFINITIONS.iter().map(|definition| definition.key).collect();
        there.sort_unstable();
        defined.sort_unstable();
        assert_eq!(there, defined);
    }

    #[test]
    fn the_documentation_shows_the_definitions() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
        let text = std::fs::read_to_string(file).unwrap();
        let table = table();
        assert!(text.contains(&table), "docs/scenarios.md is to have this table:\n{table}");
    }
}
