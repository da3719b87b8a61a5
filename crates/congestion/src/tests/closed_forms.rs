//! The controls under independent losses and alone: what theory says of them, recomputed here so
//! that it holds without the vectors' file.

use std::time::Duration;

use weftline_core::rng::{Rng, probability};

use super::driver::AckFlow;
use super::{Acks, make};
use crate::balia::Balia;
use crate::coupled::Rule;
use crate::lia::Lia;
use crate::olia::Olia;
use crate::{Coupling, Member, compound, cubic};

const RTT: Duration = Duration::from_micros(20_700);

fn mean_constant(name: &str, p: f64) -> f64 {
    Acks::one(name, RTT).mean_windows(&[p], 2_000_000, 1)[0] * p.sqrt()
}

/// W = 1.31/√p for Reno (Ott, Kemperman and Mathis); Linux's CUBIC was measured at 0.91 to 1.0 of
/// its Reno between 0.1 and 1 %; Compound is Reno at small windows and more at large ones.
#[test]
fn means_under_independent_losses() {
    for (name, p, constant, tolerance) in [
        ("reno", 1e-4, 1.31, 0.03),
        ("reno", 1e-3, 1.31, 0.04),
        ("reno", 1e-2, 1.31, 0.08),
        ("cubic", 1e-3, 1.31 * 0.95, 0.06),
        ("cubic", 1e-2, 1.31 * 0.91, 0.11),
        ("compound", 1e-2, 1.31, 0.08),
    ] {
        let got = mean_constant(name, p);
        assert!((got / constant - 1.0).abs() <= tolerance, "{name}, p = {p}: {got}");
    }
    assert!(mean_constant("compound", 1e-4) > 2.0 * mean_constant("reno", 1e-4));
}

/// A coupled control whose connection has one subflow is Reno, to the bit.
#[test]
fn alone_every_coupled_control_is_reno() {
    for name in ["lia", "olia", "balia"] {
        let mut reno = Acks::one("reno", RTT);
        let mut coupled = Acks::one(name, RTT);
        let mut rng = Rng::stream(7, "losses");
        for step in 0..200_000 {
            let lost = rng.happens(probability(0.001));
            reno.step(|_| lost);
            coupled.step(|_| lost);
            let (a, b) = (reno.flows[0].control.cwnd(), coupled.flows[0].control.cwnd());
            assert_eq!(a.to_bits(), b.to_bits(), "{name} at step {step}: {b}, Reno {a}");
        }
    }
}

/// The coupled controls on paths of different delay: never more than Reno would have on the
/// better one, as all three promise for the same losses.
#[test]
fn coupled_controls_are_no_more_than_one_reno() {
    for name in ["lia", "olia", "balia"] {
        let rtts = [Duration::from_millis(20), Duration::from_millis(80)];
        let flows = rtts.map(|rtt| AckFlow::new(make(name), rtt)).into_iter().collect();
        let windows = Acks::new(flows).mean_windows(&[1e-3, 1e-3], 2_000_000, 3);
        let rate: f64 = windows.iter().zip(rtts).map(|(w, rtt)| w / rtt.as_secs_f64()).sum();
        let reno = mean_constant("reno", 1e-3) / 1e-3_f64.sqrt() / rtts[0].as_secs_f64();
        assert!((0.8..=1.15).contains(&(rate / reno)), "{name}: {rate} of {reno}");
    }
}

/// OLIA leaves a path that loses ten times as much almost unused.
#[test]
fn olia_uses_the_best_path() {
    let flows = [0, 1].map(|_| AckFlow::new(make("olia"), RTT)).into_iter().collect();
    let windows = Acks::new(flows).mean_windows(&[1e-2, 1e-3], 2_000_000, 3);
    assert!(windows[0] < 0.1 * windows[1], "{windows:?}");
}

/// RFC 6356, the OLIA and BALIA drafts, by hand for windows of 10 and 20 segments over 100 and
/// 50 ms: rates of 100 and 400 segments/s, Σ = 500.
#[test]
fn increases_by_hand() {
    let member = |cwnd, srtt_s, epoch_bytes| Member { cwnd, srtt_s, epoch_bytes };
    let members = [member(10.0, 0.1, 1000.0), member(20.0, 0.05, 100.0)];
    let of = |rule: fn(&Coupling<'_>) -> f64, me| rule(&Coupling { members: &members, me });
    let close = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-12, "{got}");
    // max w/r² = 8000; 8000/500² = 0.032 per segment acknowledged.
    close(of(Lia::increase, 0), 0.032 * 10.0);
    close(of(Lia::increase, 1), 0.032 * 20.0);
    // 1000/500² and 8000/500²; bytes/r² are 100,000 and 40,000: the first path is best, the
    // second has the largest window.
    close(of(Olia::increase, 0), 0.004 * 10.0 + 0.5);
    close(of(Olia::increase, 1), 0.032 * 20.0 - 0.5);
    // A is 4 and 1.
    close(of(Balia::increase, 0), 0.004 * 10.0 * 2.5 * 1.6);
    close(of(Balia::increase, 1), 0.032 * 20.0);
    close(of(Balia::decrease, 0), 0.75);
    close(of(Balia::decrease, 1), 0.5);
    // A small window of little delay beside a large one: 20,000/240² × 40 would be more than Reno's.
    let beside = [member(40.0, 1.0, 0.0), member(2.0, 0.01, 0.0)];
    assert_eq!(Lia::increase(&Coupling { members: &beside, me: 0 }), 1.0);
    // A member without a round-trip time does not count yet.
    let members = [members[0], member(10.0, 0.0, 0.0)];
    assert_eq!(Lia::increase(&Coupling { members: &members, me: 0 }), 1.0);
    assert_eq!(Lia::increase(&Coupling { members: &members, me: 1 }), 1.0);
}

/// RFC 9438, figures 1 and 2, for a loss at 100 segments.
#[test]
fn the_cubic_curve() {
    let k = cubic::k_s(100.0, 70.0);
    assert!((k * k * k - 75.0).abs() < 1e-9, "{k}");
    for (t, window) in [(0.0, 70.0), (k / 2.0, 96.25), (k, 100.0), (k + 1.0, 100.4)] {
        assert!((cubic::window_at(100.0, t) - window).abs() < 0.01, "at {t}");
    }
    assert_eq!(cubic::next_w_max(80.0, 100.0), 68.0);
    assert_eq!(cubic::next_w_max(100.0, 80.0), 100.0);
}

#[test]
fn cube_roots() {
    assert_eq!(cubic::cube_root(0.0), 0.0);
    assert_eq!(cubic::cube_root(-8.0), 0.0);
    let mut x = 1e-12;
    while x < 1e15 {
        let root = cubic::cube_root(x);
        assert!((root * root * root / x - 1.0).abs() < 1e-14, "the cube root of {x}: {root}");
        x *= 1.7;
    }
}

/// The draft's α = ⅛, k = ¾: ⅛ × 16^¾ is 1, ⅛ × 10,000^¾ is 125.
#[test]
fn compound_by_hand() {
    assert_eq!(compound::increase(16.0), 0.0);
    assert_eq!(compound::increase(10_000.0), 124.0);
    let ms = Duration::from_millis;
    assert!((compound::backlog(100.0, ms(50), ms(60)) - 100.0 / 6.0).abs() < 1e-12);
    assert_eq!(compound::backlog(100.0, ms(60), ms(50)), 0.0);
    assert_eq!(compound::next_delay_window(300.0, 20.0, 50.0, 30.0), 0.0);
    assert_eq!(compound::next_delay_window(300.0, 80.0, 50.0, 30.0), 30.0);
    assert_eq!(compound::delay_window_after_loss(60.0, 40.0), 20.0);
}
