//! Random operations on every control: what must hold whatever the path and the endpoint do.

use std::time::Duration;

use proptest::prelude::*;
use weftline_core::Instant;

use super::driver::MSS;
use crate::{
    AckSample, Config, CongestionControl, Coupling, Entry, LossEvent, Member, Phase, REGISTRY,
    RateSample, SlowStart,
};

#[derive(Clone, Debug)]
enum Operation {
    /// So many segments are acknowledged so long after the last event; `lost` are marked.
    Ack {
        delivered: u8,
        lost: u8,
        after_us: u32,
        rtt_us: Option<u32>,
        limited: bool,
    },
    Congestion,
    Timeout,
    RecoveryEnd,
    Spurious,
    Restart {
        after_ms: u16,
    },
    Penalty,
    Unused {
        share: u8,
    },
    Established {
        rtt_us: u32,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        20 => (0..60_u8, 0..4_u8, 0..50_000_u32, proptest::option::of(0..2_000_000_u32), any::<bool>())
            .prop_map(|(delivered, lost, after_us, rtt_us, limited)| {
                Ack { delivered, lost, after_us, rtt_us, limited }
            }),
        2 => Just(Congestion),
        1 => Just(Timeout),
        2 => Just(RecoveryEnd),
        1 => Just(Spurious),
        1 => any::<u16>().prop_map(|after_ms| Restart { after_ms }),
        1 => Just(Penalty),
        1 => (0..100_u8).prop_map(|share| Unused { share }),
        1 => (0..3_000_000_u32).prop_map(|rtt_us| Established { rtt_us }),
    ]
}

/// An endpoint reduced to its counters, and two other subflows that stand still.
struct Endpoint {
    control: Box<dyn CongestionControl>,
    now: Instant,
    srtt: Duration,
    min_rtt: Duration,
    phase: Phase,
    delivered: u64,
    lost: u64,
    others: [Member; 2],
    /// Window and threshold before the last reduction, if nothing happened since.
    before: Option<(f64, f64)>,
}

impl Endpoint {
    fn new(entry: &Entry, slow_start: SlowStart, others: [Member; 2]) -> Self {
        Self {
            control: entry.make(&Config { slow_start, ..Config::default() }),
            now: Instant::ZERO,
            srtt: Duration::ZERO,
            min_rtt: Duration::MAX,
            phase: Phase::Open,
            delivered: 0,
            lost: 0,
            others,
            before: None,
        }
    }

    fn with_coupling<R>(
        &mut self,
        action: impl FnOnce(&mut dyn CongestionControl, &Coupling<'_>) -> R,
    ) -> R {
        let members = [self.others[0], self.control.member(self.srtt), self.others[1]];
        action(&mut *self.control, &Coupling { members: &members, me: 1 })
    }

    fn apply(&mut self, operation: &Operation) {
        let cwnd = self.control.cwnd();
        let ssthresh = self.control.ssthresh();
        let before = self.before.take();
        match *operation {
            Operation::Ack { delivered, lost, after_us, rtt_us, limited } => {
                self.ack(u64::from(delivered), u64::from(lost), after_us, rtt_us, limited);
            }
            Operation::Congestion => {
                self.phase = Phase::Recovery;
                self.lose(|control, loss, coupling| control.on_congestion(loss, coupling));
                assert!(self.control.cwnd() <= cwnd, "{cwnd} grows to {}", self.control.cwnd());
                self.before = Some((cwnd, ssthresh));
            }
            Operation::Timeout => {
                let first = self.phase != Phase::Loss;
                self.phase = Phase::Loss;
                self.lose(|control, loss, coupling| control.on_timeout(loss, first, coupling));
                assert!(self.control.cwnd() <= cwnd.min(1.0), "{} left", self.control.cwnd());
                self.before = first.then_some((cwnd, ssthresh)).or(before);
            }
            Operation::RecoveryEnd => {
                self.phase = Phase::Open;
                self.control.on_recovery_end(self.now);
            }
            Operation::Spurious => {
                self.control.on_spurious();
                self.phase = Phase::Open;
                if let Some((cwnd, ssthresh)) = before {
                    assert!(self.control.cwnd() >= cwnd * (1.0 - 1e-9), "{cwnd} not restored");
                    assert!(self.control.ssthresh() >= ssthresh, "{ssthresh} not restored");
                }
            }
            Operation::Restart { after_ms } => {
                self.now += Duration::from_millis(after_ms.into());
                self.control.on_restart(self.now);
            }
            Operation::Penalty => {
                self.control.on_penalty();
                assert!(self.control.cwnd() <= cwnd);
            }
            Operation::Unused { share } => {
                self.control.on_unused_window((cwnd * f64::from(share) / 100.0).max(1.0));
                assert!(self.control.cwnd() <= cwnd);
            }
            Operation::Established { rtt_us } => {
                self.control.on_established(Duration::from_micros(rtt_us.into()));
            }
        }
        self.check();
    }

    fn lose(&mut self, event: impl FnOnce(&mut dyn CongestionControl, &LossEvent, &Coupling<'_>)) {
        let nxt = self.delivered * MSS;
        let loss = LossEvent { now: self.now, in_flight: 0, srtt: self.srtt, nxt };
        self.with_coupling(|control, coupling| event(control, &loss, coupling));
    }

    fn ack(
        &mut self,
        delivered: u64,
        lost: u64,
        after_us: u32,
        rtt_us: Option<u32>,
        limited: bool,
    ) {
        self.now += Duration::from_micros(after_us.into());
        let rtt = rtt_us.map(|us| Duration::from_micros(us.into()));
        if let Some(rtt) = rtt {
            self.srtt = if self.srtt.is_zero() { rtt } else { (self.srtt * 7 + rtt) / 8 };
            self.min_rtt = self.min_rtt.min(rtt);
        }
        let cwnd = self.control.cwnd();
        let prior_delivered = self.delivered.saturating_sub(cwnd as u64);
        self.delivered += delivered;
        self.lost += lost;
        let sample = AckSample {
            now: self.now,
            delivered,
            rtt,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            prior_in_flight: cwnd as u64,
            in_flight: (cwnd as u64).saturating_sub(delivered + lost),
            cwnd_limited: limited,
            phase: self.phase,
            newly_lost: lost,
            total_delivered: self.delivered,
            total_lost: self.lost,
            una: self.delivered * MSS,
            nxt: (self.delivered + cwnd as u64) * MSS,
            rate: RateSample {
                delivered: self.delivered - prior_delivered,
                interval: rtt.unwrap_or_default(),
                prior_delivered,
                app_limited: !limited,
                lost,
            },
        };
        self.with_coupling(|control, coupling| control.on_ack(&sample, coupling));
        if !self.control.owns_recovery() && (self.phase == Phase::Recovery || !limited) {
            let grown = self.control.cwnd();
            // Compound's delay part may shrink; nothing may grow.
            assert!(grown <= cwnd * (1.0 + 1e-12), "{cwnd} grows to {grown} in {:?}", self.phase);
        }
    }

    fn check(&self) {
        let control = &self.control;
        let (cwnd, ssthresh) = (control.cwnd(), control.ssthresh());
        assert!(cwnd.is_finite() && cwnd >= 1.0, "cwnd {cwnd}");
        assert!(ssthresh >= 2.0, "ssthresh {ssthresh}");
        if let Some(rate) = control.pacing_rate() {
            assert!(rate.as_bps() > 0);
        }
        let member = control.member(self.srtt);
        assert_eq!(member.cwnd, cwnd);
        assert!(member.epoch_bytes >= 0.0 && member.epoch_bytes <= (self.delivered * MSS) as f64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_control_keeps_its_promises(
        operations in proptest::collection::vec(operation(), 1..300),
        others in proptest::array::uniform2((1.0..5_000.0_f64, 0.0..2.0_f64, 0.0..1e9_f64)),
        slow_start in proptest::sample::select(
            &[SlowStart::Hystart, SlowStart::HystartPlusPlus, SlowStart::Plain][..],
        ),
    ) {
        let others = others
            .map(|(cwnd, srtt_s, epoch_bytes)| Member { cwnd, srtt_s, epoch_bytes });
        for entry in REGISTRY {
            let mut endpoint = Endpoint::new(entry, slow_start, others);
            for operation in &operations {
                endpoint.apply(operation);
            }
        }
    }

    /// The same operations give the same bits.
    #[test]
    fn every_control_is_deterministic(
        operations in proptest::collection::vec(operation(), 1..100),
    ) {
        let alone = Member { cwnd: 1.0, srtt_s: 0.0, epoch_bytes: 0.0 };
        for entry in REGISTRY {
            let run = || {
                let mut endpoint = Endpoint::new(entry, SlowStart::Hystart, [alone; 2]);
                operations.iter().map(|operation| {
                    endpoint.apply(operation);
                    (endpoint.control.cwnd().to_bits(), endpoint.control.pacing_rate())
                }).collect::<Vec<_>>()
            };
            prop_assert_eq!(run(), run());
        }
    }
}
