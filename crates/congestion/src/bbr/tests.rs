//! BBR's states and their timing, through a rate-limited pipe.

use super::*;
use crate::tests::{Pipe, PipeConfig};
use crate::{Member, RateSample};

const RTT: Duration = Duration::from_millis(20);
const BDP: f64 = 100e6 / 8.0 / 1500.0 * 0.02;

fn pipe(config: PipeConfig) -> Pipe<Bbr> {
    Pipe::new(Box::new(Bbr::new(&Config::default())), config)
}

/// Drives an acknowledgement without a pipe.
fn ack(bbr: &mut Bbr, sample: AckSample) {
    let members = [Member { cwnd: bbr.cwnd, srtt_s: 0.02, epoch_bytes: 0.0 }];
    bbr.on_ack(&sample, &Coupling { members: &members, me: 0 });
}

fn lose(bbr: &mut Bbr, phase: Phase, in_flight: u64) {
    let loss = LossEvent { in_flight, ..LossEvent::default() };
    let coupling = Coupling { members: &[], me: 0 };
    match phase {
        Phase::Loss => bbr.on_timeout(&loss, true, &coupling),
        Phase::Open | Phase::Recovery => bbr.on_congestion(&loss, &coupling),
    }
}

/// The stretches of equal `state`, as (state, start, end), the last one left out.
fn stretches<S: PartialEq + Copy>(
    pipe: &mut Pipe<Bbr>,
    end: Instant,
    state: impl Fn(&Bbr) -> S,
) -> Vec<(S, Instant, Instant)> {
    let mut found = Vec::new();
    let mut current = (state(&pipe.control), pipe.now);
    pipe.run_until(end, |pipe| {
        let now = state(&pipe.control);
        if now != current.0 {
            found.push((current.0, current.1, pipe.now));
            current = (now, pipe.now);
        }
    });
    found
}

/// The pipe is full after log2(167/10) rounds, and STARTUP notices in three more; DRAIN empties
/// the queue that it has made within two.
#[test]
fn startup_and_drain() {
    let mut pipe = pipe(PipeConfig { queue: 1_000, ..PipeConfig::default() });
    let (mut full, mut left) = (None, None);
    let capacity = pipe.capacity();
    pipe.run_until(Instant::from_millis(1_000), |pipe| {
        let bbr = &pipe.control;
        if bbr.bw.max() > 0.95 * capacity && full.is_none() {
            full = Some(bbr.rounds);
        }
        if bbr.mode != Mode::Startup && left.is_none() {
            left = Some((bbr.rounds, pipe.now));
        }
    });
    let (full, (left, drain)) = (full.expect("it fills the pipe"), left.expect("it leaves"));
    assert!((5..=7).contains(&full), "full in round {full}");
    assert!((3..=4).contains(&(left - full)), "full in round {full}, left in {left}");
    // The window in STARTUP is 2/ln 2 products and three bulks of 24 segments.
    let peak = pipe.peak as f64 / BDP;
    assert!((3.2..=3.4).contains(&peak), "{peak} products in flight");
    assert_eq!(pipe.lost, 0);

    let mut again = self::pipe(PipeConfig { queue: 1_000, ..PipeConfig::default() });
    let modes = stretches(&mut again, Instant::from_millis(1_000), |bbr| bbr.mode);
    let names: Vec<_> = modes.iter().map(|(mode, ..)| *mode).collect();
    assert_eq!(names, [Mode::Startup, Mode::Drain]);
    assert_eq!(modes[1].1, drain);
    // (2.885 − 1) products leave at (1 − 0.34) of the rate: 2.9 propagation delays.
    let lasted = modes[1].2.since(drain).as_secs_f64() / RTT.as_secs_f64();
    assert!((1.5..=4.5).contains(&lasted), "DRAIN lasts {lasted} delays");
}

/// 1.25, 0.75 and six of 1, each a least round-trip time long; 0.75 ends when the queue is gone.
#[test]
fn probe_bw_goes_round_in_eight_phases() {
    let mut pipe = pipe(PipeConfig::default());
    pipe.run_until(Instant::from_millis(1_000), |_| {});
    let min_rtt = pipe.control.min_rtt.expect("measured");
    let phases = stretches(&mut pipe, Instant::from_millis(3_000), |bbr| bbr.cycle);
    assert!(phases.len() > 80, "{} phases", phases.len());
    for pair in phases.windows(2).skip(1) {
        let (phase, start, end) = pair[0];
        assert_eq!(pair[1].0, (phase + 1) % 8);
        let lasted = end.since(start);
        match phase {
            // Until a quarter more is in flight.
            0 => assert!(lasted >= min_rtt && lasted < 2 * min_rtt, "1.25 for {lasted:?}"),
            1 => assert!(lasted < min_rtt + min_rtt / 10, "0.75 for {lasted:?}"),
            _ => {
                let over = lasted.as_secs_f64() / min_rtt.as_secs_f64();
                assert!((1.0..1.05).contains(&over), "phase {phase} lasts {lasted:?}");
            }
        }
    }
}

/// Every ten seconds, four segments for 200 ms, and the window is back at once.
#[test]
fn probe_rtt() {
    let mut pipe = pipe(PipeConfig::default());
    let probing = |bbr: &Bbr| bbr.mode == Mode::ProbeRtt;
    let mut before = 0.0;
    let mut after = Vec::new();
    let mut was = false;
    let mut least = u64::MAX;
    let stretches = stretches(&mut pipe, Instant::from_millis(45_000), probing);
    let probes: Vec<_> = stretches.iter().filter(|(probing, ..)| *probing).collect();
    assert_eq!(probes.len(), 4, "{stretches:?}");
    for (_, start, end) in &probes {
        // What is in flight goes first, then 200 ms and at least a round.
        let lasted = end.since(*start).as_millis();
        assert!((200..=250).contains(&lasted), "{lasted} ms");
    }
    for pair in probes.windows(2) {
        let apart = pair[1].1.since(pair[0].2).as_millis();
        assert!((10_000..=10_050).contains(&apart), "{apart} ms apart");
    }
    pipe.run_until(Instant::from_millis(60_000), |pipe| {
        let probing = pipe.control.mode == Mode::ProbeRtt;
        if probing {
            least = least.min(pipe.control.cwnd as u64);
        } else if was {
            after.push((before, pipe.control.cwnd));
        } else {
            before = pipe.control.cwnd;
        }
        was = probing;
    });
    assert_eq!(least, 4);
    assert!(!after.is_empty());
    for (before, after) in after {
        assert!(after >= before, "{before} before, {after} after");
    }
}

/// The rate filter does not take what PROBE_RTT's four segments bring for the path's rate.
#[test]
fn probe_rtt_leaves_the_rate_alone() {
    let mut pipe = pipe(PipeConfig { rtt: Duration::from_millis(5), ..PipeConfig::default() });
    pipe.run_until(Instant::from_millis(9_000), |_| {});
    let rate = pipe.control.bw.max();
    pipe.run_until(Instant::from_millis(40_000), |pipe| {
        assert!(pipe.control.bw.max() > 0.97 * rate, "at {}", pipe.now);
    });
}

#[test]
fn the_first_phase_is_drawn_and_never_drains() {
    let mut drawn = [0; 8];
    for seed in 0..700 {
        let mut bbr = Bbr::new(&Config { seed, ..Config::default() });
        bbr.begin_probe_bw(Instant::ZERO);
        drawn[bbr.cycle] += 1;
    }
    assert_eq!(drawn[1], 0);
    assert!(drawn.iter().enumerate().all(|(phase, n)| phase == 1 || *n > 60), "{drawn:?}");
}

/// The initial window over 1 ms, then over the round-trip time, by 2/ln 2 and less a percent.
#[test]
fn the_first_pacing_rate() {
    let mut bbr = Bbr::new(&Config::default());
    let over = |s: f64| 10.0 * 1448.0 * 8.0 / s * 739.0 / 256.0 * 0.99;
    let mbps = |bbr: &Bbr| bbr.pacing_rate().expect("it paces").as_bps() as f64;
    assert!((mbps(&bbr) - over(0.001)).abs() < 1.0);
    bbr.on_established(RTT);
    assert!((mbps(&bbr) - over(0.02)).abs() < 1.0);
}

/// A policer at a fifth of the link's rate: its rate is found and paced at without loss.
#[test]
fn a_policer_is_recognised() {
    let policer = Some((Bitrate::mbps(20), 50.0));
    let mut pipe = pipe(PipeConfig { policer, ..PipeConfig::default() });
    let rate = 20e6 / 8.0 / 1500.0;
    let mut found = None;
    pipe.run_until(Instant::from_millis(5_000), |pipe| {
        if let Some(policed) = pipe.control.policer.rate() {
            found.get_or_insert((policed, pipe.lost, pipe.now));
        }
    });
    let (policed, ..) = found.expect("found");
    assert!((policed / rate - 1.0).abs() < 0.125, "{policed} of {rate}");
}

fn steady() -> Bbr {
    let mut pipe = pipe(PipeConfig::default());
    pipe.run_until(Instant::from_millis(2_000), |_| {});
    *pipe.control
}

fn sample(phase: Phase) -> AckSample {
    AckSample {
        now: Instant::from_millis(2_001),
        delivered: 1,
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        prior_in_flight: 181,
        in_flight: 170,
        cwnd_limited: true,
        phase,
        total_delivered: 20_000,
        rate: RateSample { delivered: 160, interval: RTT, ..RateSample::default() },
        ..AckSample::default()
    }
}

/// In the first round of recovery what is delivered goes out again; at its end the window is
/// what it was.
#[test]
fn recovery_conserves_and_restores() {
    let mut bbr = steady();
    let before = bbr.cwnd;
    lose(&mut bbr, Phase::Recovery, 170);
    ack(&mut bbr, AckSample { newly_lost: 10, ..sample(Phase::Recovery) });
    assert_eq!(bbr.cwnd, 171.0);
    ack(&mut bbr, AckSample { delivered: 2, ..sample(Phase::Recovery) });
    assert_eq!(bbr.cwnd, 172.0);
    ack(&mut bbr, sample(Phase::Open));
    assert!(bbr.cwnd >= before, "{before} before, {} after", bbr.cwnd);
    assert!(bbr.owns_recovery());
}

#[test]
fn a_timeout_keeps_what_is_in_flight_and_is_restored() {
    let mut bbr = steady();
    let before = bbr.cwnd;
    lose(&mut bbr, Phase::Loss, 0);
    assert_eq!(bbr.cwnd, 1.0);
    ack(&mut bbr, AckSample { in_flight: 0, ..sample(Phase::Loss) });
    assert_eq!(bbr.cwnd, 4.0);
    ack(&mut bbr, sample(Phase::Open));
    // The phase of 1.25, which is allowed two segments more, may have ended meanwhile.
    assert!(bbr.cwnd >= before - 2.0, "{before} before, {} after", bbr.cwnd);

    lose(&mut bbr, Phase::Loss, 3);
    assert_eq!(bbr.cwnd, 4.0);
    bbr.on_spurious();
    assert!(bbr.cwnd >= before - 2.0);
}

/// After idling for longer than the round-trip time's window the pipe is not emptied once more
/// to measure it; what was idle has been doing that.
#[test]
fn restart_from_idle_paces_at_the_rate() {
    let mut bbr = steady();
    bbr.on_restart(Instant::from_millis(20_000));
    let rate = bbr.bw.max() * 1448.0 * 8.0 * 0.99;
    let paced = bbr.pacing_rate().expect("it paces").as_bps() as f64;
    assert!((paced / rate - 1.0).abs() < 1e-6, "{paced} of {rate}");
    ack(&mut bbr, AckSample { now: Instant::from_millis(20_020), ..sample(Phase::Open) });
    assert_eq!(bbr.mode, Mode::ProbeBw);
}

/// The goodput with random loss, on the path of ACM Queue's figure 8: (1 − p) of the rate up to
/// 5 %, most of that at 15 %, nothing beyond 20 %, where probing cannot make up for the loss.
#[test]
fn random_loss() {
    let rtt = Duration::from_millis(100);
    for (loss, least, most) in
        [(0.01, 0.94, 0.99), (0.05, 0.88, 0.95), (0.15, 0.6, 0.85), (0.25, 0.0, 0.1)]
    {
        let mut pipe = pipe(PipeConfig { loss, rtt, queue: 833, ..PipeConfig::default() });
        pipe.run_until(Instant::from_millis(5_000), |_| {});
        let (from, delivered) = (pipe.now, pipe.delivered);
        pipe.run_until(Instant::from_millis(60_000), |_| {});
        let share = pipe.rate_since(from, delivered) / pipe.capacity();
        assert!((least..=most).contains(&share), "{share} with p = {loss}");
    }
}
