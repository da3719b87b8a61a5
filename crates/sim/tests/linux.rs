//! What a receiver and kernel MPTCP do as Linux does.
#![allow(clippy::unwrap_used, reason = "test code")]

use weftline_scenario::{Congestion, RunRecord, Scenario};

fn run(text: &str, scheme: &str) -> RunRecord {
    let scenario = Scenario::parse("test.toml", text, &|_| unreachable!("no traces")).unwrap();
    let scheme = scheme.parse().unwrap();
    weftline_sim::simulate(&scenario, &scheme, Congestion::CUBIC, 1, false).unwrap().record
}

/// The last segment of a burst is acknowledged with those before it, not with the session's next
/// message a millisecond later: to HyStart that looked like a longer train.
#[test]
fn slow_start_goes_on_under_a_session_as_under_plain_tcp() {
    for (rate, delay) in [("1Gbps", "2500us"), ("1600Mbps", "1500us"), ("2Gbps", "1500us")] {
        let text = format!(
            "name = \"fast\"\nduration = \"3s\"\n[[path]]\nname = \"link\"\nrate = \"{rate}\"\n\
             delay = \"{delay}\"\nqueue = \"3bdp\"\n[workload]\nkind = \"transfer:20MiB\"\n"
        );
        let took = |scheme| run(&text, scheme).completion_s.unwrap();
        let (tcp, session) = (took("single:link"), took("weft-single:link"));
        assert!(session <= 1.01 * tcp, "{rate}, {delay}: {session} s for {tcp} s");
    }
}

/// Half of the buffer is window, for a socket and for what the subflows of kernel MPTCP share; our own
/// session has memory of its own above its sockets' buffers.
#[test]
fn the_receive_buffer_bounds_what_is_under_way() {
    let text = "name = \"long\"\nreceive_buffer = \"1MiB\"\nduration = \"6s\"\nwarmup = \"2s\"\n\
                [[path]]\nname = \"one\"\nrate = \"200Mbps\"\ndelay = \"50ms\"\n\
                [[path]]\nname = \"two\"\nrate = \"200Mbps\"\ndelay = \"50ms\"\n";
    let goodput = |scheme| run(text, scheme).goodput_mbps.unwrap();
    let of_window = 8.0 * f64::from(512 << 10) / 0.1 / 1e6;
    for (scheme, windows) in [("single:one", 1.0), ("min-rtt", 1.0), ("linux", 1.0), ("fbdt", 2.0)]
    {
        let share = goodput(scheme) / (windows * of_window);
        assert!((0.9..=1.01).contains(&share), "{scheme}: {share} of what the window carries");
    }
}

/// What a dark path holds goes again after its retransmission timeout with MPTCP v0.95: 200 ms and a
/// round trip after the last segment that its window let go. Our own schedulers do not wait for that.
#[test]
fn v0_95_reinjects_after_a_retransmission_timeout() {
    let text = "name = \"dark\"\nduration = \"4s\"\n[[path]]\nname = \"near\"\n\
                trace = { generator = \"outage\", rate = \"20Mbps\", up = [\"2s\", \"2s\"], \
                down = [\"1s\", \"1s\"] }\ndelay = \"10ms\"\n\
                [[path]]\nname = \"far\"\nrate = \"20Mbps\"\ndelay = \"20ms\"\n\
                [workload]\nkind = \"cbr:10Mbps\"\n";
    let gap_ms = |scheme| run(text, scheme).longest_gap_ms.unwrap();
    for scheme in ["min-rtt", "blest", "round-robin"] {
        let gap = gap_ms(scheme);
        assert!((200.0..=900.0).contains(&gap), "{scheme}: {gap} ms");
    }
    let gap = gap_ms("earliest");
    assert!(gap < 200.0, "earliest: {gap} ms");
}
