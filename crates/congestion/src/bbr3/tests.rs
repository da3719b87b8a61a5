//! BBR v3 through a rate-limited pipe, after the draft's list of test cases.

use super::*;
use crate::tests::{Pipe, PipeConfig};

fn pipe(config: PipeConfig) -> Pipe<Bbr3> {
    Pipe::new(Box::new(Bbr3::new(&Config::default())), config)
}

/// The modes until `end` and how long each lasted, the last one left out.
fn modes(pipe: &mut Pipe<Bbr3>, end: Instant) -> Vec<(Mode, Duration)> {
    let mut found = Vec::new();
    let mut current = (pipe.control.mode, pipe.now);
    pipe.run_until(end, |pipe| {
        if pipe.control.mode != current.0 {
            found.push((current.0, pipe.now.since(current.1)));
            current = (pipe.control.mode, pipe.now);
        }
    });
    found
}

/// Goodput between two times as a share of the capacity, and the share of segments lost.
fn between(pipe: &mut Pipe<Bbr3>, from: u64, to: u64) -> (f64, f64) {
    pipe.run_until(Instant::from_millis(from), |_| {});
    let (now, delivered, lost) = (pipe.now, pipe.delivered, pipe.lost);
    pipe.run_until(Instant::from_millis(to), |_| {});
    let goodput = pipe.rate_since(now, delivered) / pipe.capacity();
    (goodput, (pipe.lost - lost) as f64 / (pipe.delivered - delivered) as f64)
}

/// Startup ends on a plateau with the rate within 2 % of the link's; the queue is drained within
/// three rounds.
#[test]
fn startup_ends_on_a_plateau() {
    let mut pipe = pipe(PipeConfig { queue: 1_000, ..PipeConfig::default() });
    let modes = modes(&mut pipe, Instant::from_millis(1_000));
    assert_eq!([modes[0].0, modes[1].0], [Mode::Startup, Mode::Drain]);
    assert!(modes[0].1 < Duration::from_millis(400), "Startup lasts {:?}", modes[0].1);
    assert!(modes[1].1 < Duration::from_millis(180), "Drain lasts {:?}", modes[1].1);
    let found = pipe.control.bw.max() / pipe.capacity();
    assert!((0.98..=1.02).contains(&found), "{found} of the rate");
    assert_eq!(pipe.lost, 0);
}

/// A buffer of 0.06 products: Startup ends by loss, with an idea of what fits.
#[test]
fn startup_ends_on_loss() {
    let mut pipe = pipe(PipeConfig { queue: 10, ..PipeConfig::default() });
    pipe.run_until(Instant::from_millis(500), |_| {});
    assert!(pipe.control.filled && pipe.control.limits.inflight_long.is_finite());
    let (goodput, lost) = between(&mut pipe, 1_000, 20_000);
    assert!(goodput > 0.85 && lost < 0.002, "goodput {goodput}, {lost} lost");
}

/// Down, Cruise, Refill, Up; Refill takes a round; the next probe comes after as many rounds as
/// Reno would need at most, here 63.
#[test]
fn probe_bw_goes_round_in_four_modes() {
    let mut pipe = pipe(PipeConfig::default());
    pipe.run_until(Instant::from_millis(1_000), |_| {});
    let modes = modes(&mut pipe, Instant::from_millis(5_000));
    let start = modes.iter().position(|(mode, _)| *mode == Mode::Refill).expect("it probes");
    for cycle in modes[start..].chunks_exact(4).take(2) {
        let order = cycle.iter().map(|(mode, _)| *mode).collect::<Vec<_>>();
        assert_eq!(order, [Mode::Refill, Mode::Up, Mode::Down, Mode::Cruise]);
        assert!((20..=25).contains(&cycle[0].1.as_millis()), "{cycle:?}");
        let waited = (cycle[2].1 + cycle[3].1).as_millis();
        assert!((61 * 20..=66 * 22).contains(&waited), "{waited} ms between probes");
    }
}

/// On a long path the next probe comes after 2 to 3 seconds instead.
#[test]
fn probes_wait_for_two_to_three_seconds() {
    let rtt = Duration::from_millis(100);
    let mut pipe = pipe(PipeConfig { rtt, queue: 833, ..PipeConfig::default() });
    pipe.run_until(Instant::from_millis(3_000), |_| {});
    let modes = modes(&mut pipe, Instant::from_millis(60_000));
    let mut waits =
        modes.windows(2).filter(|pair| pair[0].0 == Mode::Down && pair[1].0 == Mode::Cruise);
    let mut probed = 0;
    for pair in waits.by_ref() {
        let waited = pair[0].1 + pair[1].1;
        assert!(waited <= Duration::from_millis(3_150), "{waited:?}");
        probed += 1;
    }
    assert!(probed >= 10, "{probed} probes");
}

/// Every five seconds at half the product for 200 ms.
#[test]
fn probe_rtt() {
    let mut pipe = pipe(PipeConfig::default());
    let modes = modes(&mut pipe, Instant::from_millis(21_500));
    let probes = modes.iter().filter(|(mode, _)| *mode == Mode::ProbeRtt);
    let lasted: Vec<_> = probes.map(|(_, lasted)| lasted.as_millis()).collect();
    assert_eq!(lasted.len(), 4, "{lasted:?}");
    assert!(lasted.iter().all(|ms| (200..=245).contains(ms)), "{lasted:?}");
    let (goodput, _) = between(&mut pipe, 21_500, 42_000);
    assert!(goodput > 0.95, "{goodput}");
}

/// Ten times the rate is found within ten rounds of the next probe, a tenth of it within two
/// cycles of probing.
#[test]
fn the_rate_changes_tenfold() {
    let mut pipe = pipe(PipeConfig { rate: Bitrate::mbps(10), queue: 50, ..PipeConfig::default() });
    pipe.run_until(Instant::from_millis(6_000), |_| {});
    pipe.config.rate = Bitrate::mbps(100);
    pipe.run_until(Instant::from_millis(7_500), |_| {});
    let found = pipe.control.bw() / pipe.capacity();
    assert!((0.97..=1.03).contains(&found), "{found} of the higher rate");

    pipe.run_until(Instant::from_millis(12_000), |_| {});
    pipe.config.rate = Bitrate::mbps(10);
    pipe.run_until(Instant::from_millis(18_500), |_| {});
    let found = pipe.control.bw() / pipe.capacity();
    assert!((0.97..=1.05).contains(&found), "{found} of the lower rate");
}

/// Buffers from a quarter of the product up stay full, and probing costs little.
#[test]
fn buffers() {
    for queue in [40, 167, 1_000] {
        let mut pipe = pipe(PipeConfig { queue, ..PipeConfig::default() });
        let (goodput, lost) = between(&mut pipe, 1_000, 30_000);
        assert!(goodput > 0.94 && lost < 0.002, "queue {queue}: {goodput}, {lost} lost");
    }
}

/// Independent losses well under the threshold of 2 % cost some, those above it most.
#[test]
fn random_loss() {
    let goodput = |loss| {
        let mut pipe = pipe(PipeConfig { loss, ..PipeConfig::default() });
        between(&mut pipe, 1_000, 21_000).0
    };
    let (little, more, most) = (goodput(0.001), goodput(0.005), goodput(0.05));
    assert!(little > 0.85, "{little} with 0.1 %");
    assert!(more > 0.7, "{more} with 0.5 %");
    assert!(most < 0.3, "{most} with 5 %");
}

/// 100 delivered since the sampled segment was sent, and of the losses those known later.
#[test]
fn the_flight_of_a_segment() {
    let ack = |delivered, newly_lost, total_lost, prior_delivered| AckSample {
        newly_lost,
        total_delivered: delivered,
        total_lost,
        rate: crate::RateSample {
            delivered: delivered - prior_delivered,
            prior_delivered,
            interval: Duration::from_millis(20),
            ..crate::RateSample::default()
        },
        ..AckSample::default()
    };
    let mut history = LossHistory::default();
    for sample in [ack(50, 3, 3, 0), ack(120, 2, 5, 20)] {
        history.record(&sample);
    }
    let last = ack(160, 0, 5, 60);
    history.record(&last);
    let flight = history.sample(&last);
    assert_eq!(flight.in_flight, 102.0);
    assert!(!flight.is_too_high());
    let last = ack(170, 1, 6, 70);
    history.record(&last);
    assert!(history.sample(&last).is_too_high());
}
