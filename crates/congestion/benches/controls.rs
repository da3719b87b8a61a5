//! What an acknowledgement costs each control: alone, and among eight subflows.

use std::time::Duration;

use weftline_congestion::{
    AckSample, Config, CongestionControl, Coupling, Entry, LossEvent, Member, REGISTRY, RateSample,
};
use weftline_core::Instant;

const MSS: u64 = 1448;
const RTT: Duration = Duration::from_millis(20);
/// Acknowledgements per iteration, with a loss at the end.
const ACKS: u64 = 10_000;

fn main() {
    divan::main();
}

fn names() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().map(|entry| entry.name)
}

#[divan::bench(args = names())]
fn alone(bencher: divan::Bencher<'_, '_>, name: &str) {
    bench(bencher, name, 1);
}

#[divan::bench(args = names())]
fn among_eight(bencher: divan::Bencher<'_, '_>, name: &str) {
    bench(bencher, name, 8);
}

fn bench(bencher: divan::Bencher<'_, '_>, name: &str, subflows: usize) {
    let entry = Entry::find(name).expect("registered");
    bencher
        .counter(divan::counter::ItemsCount::new(ACKS))
        .with_inputs(|| entry.make(&Config::default()))
        .bench_local_refs(|control| acknowledge(&mut **control, subflows));
}

fn acknowledge(control: &mut dyn CongestionControl, subflows: usize) {
    let mut members = vec![Member { cwnd: 50.0, srtt_s: 0.03, epoch_bytes: 1e6 }; subflows];
    let mut now = Instant::ZERO + RTT;
    for delivered in 1..=ACKS {
        let window = control.cwnd() as u64;
        members[0] = control.member(RTT);
        now += RTT / u32::try_from(window).unwrap_or(u32::MAX);
        let sample = AckSample {
            now,
            delivered: 1,
            rtt: Some(RTT),
            srtt: RTT,
            min_rtt: RTT,
            prior_in_flight: window,
            in_flight: window - 1,
            cwnd_limited: true,
            total_delivered: delivered,
            una: delivered * MSS,
            nxt: (delivered + window) * MSS,
            rate: RateSample {
                delivered: window.min(delivered),
                interval: RTT,
                prior_delivered: delivered.saturating_sub(window),
                ..RateSample::default()
            },
            ..AckSample::default()
        };
        let coupling = Coupling { members: &members, me: 0 };
        control.on_ack(&sample, &coupling);
        if delivered % 1_000 == 0 {
            let loss = LossEvent { now, in_flight: window, srtt: RTT, nxt: sample.nxt };
            control.on_congestion(&loss, &coupling);
        }
    }
    divan::black_box(control.cwnd());
}
