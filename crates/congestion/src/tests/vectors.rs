//! The 80 vectors of `congestion-vectors.csv`, which lies beside the project: each line is
//! recognised by name and checked, and an unknown line fails.

use std::path::Path;
use std::time::Duration;

use weftline_core::Instant;

use super::driver::{AckFlow, MSS};
use super::{Acks, Pipe, PipeConfig, make};
use crate::balia::Balia;
use crate::coupled::Rule;
use crate::lia::Lia;
use crate::olia::Olia;
use crate::{Coupling, Member, compound, cubic, olia};

#[test]
fn every_line_holds() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/congestion-vectors.csv");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not there", path.display());
        return;
    };
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(lines.len(), 80);
    for line in lines {
        let (name, rest) = line.split_once(';').expect("name;parameters;value");
        let (parameters, value) = rest.split_once(';').expect("name;parameters;value");
        check(name, parameters, value);
    }
}

/// What the file says, from the formulas, at parameters of our own: holds where the file is not.
#[test]
fn the_formulas_hold_without_the_file() {
    for p in [3e-4_f64, 5e-3] {
        reno_periodic(p, (1.5 / p).sqrt());
        reno_iid(p, 1.31 / p.sqrt());
    }
    for (rtt_s, p) in [(0.02_f64, 5e-4_f64), (0.05, 2e-5), (0.2, 5e-5)] {
        // RFC 9438 §5.1 with its constant and powers written out.
        let pure = 1.0537 * rtt_s.powf(0.75) / p.powf(0.75);
        let friendly = (1.5 / p).sqrt();
        cubic_mean(rtt_s, p, &[pure, friendly, pure.max(friendly)]);
    }
    for p in [5e-4_f64, 2e-5] {
        let high = (1.0 / p / 6.4 / (1.0 - 0.5_f64.powf(1.25))).powf(0.8);
        let rounds = 32.0 * high.powf(0.25) * (1.0 - 0.5_f64.powf(0.25));
        compound_periodic(p, &[high, rounds, 1.0 / p / rounds, (1.5 / p).sqrt()]);
    }
    let p = 2e-3_f64;
    equal_equilibrium(p, &[(0.5 / p).sqrt(), (2.0 / p).sqrt()]);
    lia_equilibrium(
        4.0 * p,
        p,
        &[(2.0 / p).sqrt(), (2.0 / p).sqrt() / 5.0, (2.0 / p).sqrt() * 0.8],
    );
    bbr_path(&[250_000.0, 172.65, 4.11, 2.0, 345.3, 2.2]);
    bbr_loss();
}

fn check(name: &str, parameters: &str, value: &str) {
    let line = format!("{name};{parameters};{value}");
    let given = numbers(parameters);
    let expected = numbers(value);
    match name {
        "reno_W_periodic_ack1" => reno_periodic(given[0], expected[0]),
        "reno_W_iid_ack1" => reno_iid(given[0], expected[0]),
        "pftk_rate_pps" => pftk(&given, &expected),
        "cubic_alpha" => close(&line, cubic::ALPHA, expected[0], 1e-6),
        "cubic_const" => close(&line, cubic_constant(), expected[0], 1e-4),
        "cubic_avg_W" => cubic_mean(given[0], given[1], &expected),
        "cubic_K_s" => close(&line, cubic::k_s(given[0], given[1]), expected[0], 1e-4),
        "cubic_W(t)" => close(&line, cubic::window_at(given[0], given[1]), expected[0], 1e-3),
        "cubic_fast_convergence" => {
            close(&line, cubic::next_w_max(given[0], given[1]), expected[0], 1e-9);
        }
        "ctcp_periodic" => compound_periodic(given[0], &expected),
        "ctcp_dwnd_inc_per_RTT" => close(&line, compound::increase(given[0]), expected[0], 1e-4),
        "ctcp_diff" => compound_diff(&given, expected[0], value),
        "ctcp_loss" => compound_loss(&given, &expected),
        "lia" => lia(&given, &expected),
        "olia" => olia(&given, &expected),
        "balia" => balia(&given, &expected),
        "equilibrium_equal_p" => equal_equilibrium(given[0], &expected),
        "lia_equilibrium" => lia_equilibrium(given[0], given[1], &expected),
        "bbr1" => bbr_path(&expected),
        "bbr1_random_loss" => bbr_loss(),
        _ => panic!("unknown vector: {line}"),
    }
}

/// The numbers of a text, in order, those within words (`w1`, `b=1`, `ms`) told apart: a number
/// begins where no letter, digit or underscore stands before it.
fn numbers(text: &str) -> Vec<f64> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let starts = first.is_ascii_digit() || (first == '-' || first == '.');
        let end = rest
            .char_indices()
            .position(|(at, c)| {
                let exponent = at > 0 && c == '-' && rest[..at].ends_with('e');
                let inside = c.is_ascii_digit() || c == '.' || c == 'e' || exponent;
                !(inside || at == 0 && c == '-')
            })
            .unwrap_or(rest.len());
        if starts
            && !(before.is_alphanumeric() || before == '_')
            && let Ok(number) = rest[..end].trim_end_matches('e').parse()
        {
            found.push(number);
            before = '0';
            rest = &rest[end.max(1)..];
        } else {
            before = first;
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

#[track_caller]
fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
    assert!((got - expected).abs() <= tolerance, "{what}: got {got}, expected {expected}");
}

/// `got` is `expected` within the share `tolerance`.
#[track_caller]
fn near(what: &str, got: f64, expected: f64, tolerance: f64) {
    close(what, got, expected, tolerance * expected.abs());
}

/// What counting in whole segments costs against the fluid formulas, in segments: half a segment
/// between two increases and a quarter when odd windows are halved.
const WHOLE_SEGMENTS: f64 = 0.8;

/// Mathis et al.: √(3/2p), and what the control itself does.
fn reno_periodic(p: f64, expected: f64) {
    near("√(1.5/p)", (1.5 / p).sqrt(), expected, 1e-3);
    let driven = Acks::one("reno", Duration::from_millis(20)).mean_periodic(p, 50);
    close(&format!("reno, every 1/{p}"), driven, expected, 0.02 * expected + WHOLE_SEGMENTS);
}

/// Ott, Kemperman and Mathis: 1.31/√p under independent losses.
fn reno_iid(p: f64, expected: f64) {
    near("1.31/√p", 1.31 / p.sqrt(), expected, 1e-3);
    let segments = (20_000.0 / p) as u64;
    let driven = Acks::one("reno", Duration::from_millis(20)).mean_windows(
        &[p],
        segments.min(20_000_000),
        1,
    );
    close(&format!("reno, p = {p}"), driven[0], expected, 0.03 * expected + WHOLE_SEGMENTS);
}

/// Padhye et al., equation 33 without a receive window.
fn pftk(given: &[f64], expected: &[f64]) {
    let &[p, b, rtt, t0] = given else { panic!("p, b, rtt, t0") };
    let timeouts = (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0);
    let rate = 1.0 / (rtt * (2.0 * b * p / 3.0).sqrt() + t0 * timeouts * p * (1.0 + 32.0 * p * p));
    close("PFTK", rate, expected[0], 0.05);
    close("PFTK in Mbit/s", rate * MSS as f64 * 8.0 / 1e6, expected[1], 1e-3);
}

/// (C (3 + β) / 4 (1 − β))^¼ of RFC 9438 §5.1 with β = 0.7.
fn cubic_constant() -> f64 {
    (cubic::C * 3.7 / (4.0 * 0.3)).sqrt().sqrt()
}

/// RFC 9438 §5.1 and Reno's window. Driven with equally many segments between losses,
/// the control is within 15 % of the larger: above it where both regions contribute, below where
/// fast convergence sees a loss a little before the last one's window, and in windows of ten
/// segments, which are counted in whole ones.
fn cubic_mean(rtt_s: f64, p: f64, expected: &[f64]) {
    let &[pure, friendly, larger] = expected else { panic!("pure, friendly, larger") };
    let root = (rtt_s / p).sqrt();
    let by_formula = cubic_constant() * root * root.sqrt();
    close("pure CUBIC", by_formula, pure, 6e-3 + 2e-4 * pure);
    close("Reno", (1.5 / p).sqrt(), friendly, 6e-3);
    close("larger", by_formula.max(friendly), larger, 6e-3 + 2e-4 * larger);
    let mut acks = Acks::one("cubic", Duration::from_secs_f64(rtt_s));
    let driven = acks.mean_periodic(p, if p < 5e-6 { 4 } else { 20 });
    near(&format!("cubic, rtt {rtt_s}, every 1/{p}"), driven, larger, 0.15);
}

/// The delay window's increase α W^¾ per round trip, without the −1 that Reno's part adds again,
/// integrated from half the window to the window: `(W^¼ − (W/2)^¼) / (α/4)` rounds, in which
/// `(W^5/4 − (W/2)^5/4) / (5α/4)` segments go, one of them lost.
fn compound_periodic(p: f64, expected: &[f64]) {
    let &[high, rounds, mean, reno] = expected else { panic!("W, rounds, mean, Reno's") };
    let fourth_root = |x: f64| x.sqrt().sqrt();
    let (top, bottom) = (fourth_root(high), fourth_root(high / 2.0));
    near("rounds", (top - bottom) * 32.0, rounds, 1e-3);
    let segments = (high * top - high / 2.0 * bottom) * 6.4;
    near("segments", segments, 1.0 / p, 2e-3);
    near("mean", segments / rounds, mean, 2e-3);
    near("Reno", (1.5 / p).sqrt(), reno, 2e-3);
    let mut acks = Acks::one("compound", Duration::from_millis(20));
    let driven = acks.mean_periodic(p, if p < 5e-6 { 6 } else { 30 });
    near(&format!("compound, every 1/{p}"), driven, mean, 0.03);
}

fn compound_diff(given: &[f64], expected: f64, value: &str) {
    let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
    let backlog = compound::backlog(given[0], ms(given[1]), ms(given[2]));
    close("diff", backlog, expected, 1e-4);
    let next = compound::next_delay_window(given[0], 60.0, backlog, compound::GAMMA_MAX);
    if value.contains("grow") {
        close("grows", next, 60.0 + compound::increase(given[0]), 1e-12);
    } else {
        close("shrinks", next, 60.0 - expected, 1e-4);
    }
}

fn compound_loss(given: &[f64], expected: &[f64]) {
    let dwnd = compound::delay_window_after_loss(given[0], given[1]);
    close("dwnd", dwnd, expected[0], 1e-9);
    close("cwnd", given[0] / 2.0, expected[1], 1e-9);
    close("win", given[0] / 2.0 + dwnd, expected[2], 1e-9);
}

/// The two subflows of `w, rtt, w, rtt` and the bytes that OLIA compares.
fn members(given: &[f64], bytes: [f64; 2]) -> [Member; 2] {
    [0, 1].map(|index| Member {
        cwnd: given[2 * index],
        srtt_s: given[2 * index + 1],
        epoch_bytes: bytes[index],
    })
}

/// Segments of window per segment acknowledged.
fn increases<R: Rule>(members: &[Member]) -> [f64; 2] {
    [0, 1].map(|me| R::increase(&Coupling { members, me }) / members[me].cwnd)
}

fn lia(given: &[f64], expected: &[f64]) {
    let members = members(given, [0.0; 2]);
    let got = increases::<Lia>(&members);
    let total: f64 = members.iter().map(|member| member.cwnd).sum();
    close("alpha", got[0] * total, expected[0], 1e-6);
    close("lia 0", got[0], expected[1], 1e-6);
    close("lia 1", got[1], expected[2], 1e-6);
}

fn olia(given: &[f64], expected: &[f64]) {
    let members = members(given, [given[4], given[5]]);
    let shift = [0, 1].map(|me| olia::shift(&Coupling { members: &members, me }));
    let got = increases::<Olia>(&members);
    close("alpha 0", shift[0], expected[0], 1e-9);
    close("alpha 1", shift[1], expected[1], 1e-9);
    close("olia 0", got[0], expected[2], 1e-6);
    close("olia 1", got[1], expected[3], 1e-6);
}

fn balia(given: &[f64], expected: &[f64]) {
    let members = members(given, [0.0; 2]);
    let got = increases::<Balia>(&members);
    for me in [0, 1] {
        let coupling = Coupling { members: &members, me };
        let alpha = crate::coupled::Relative::to_own(&coupling).best_rate;
        close("A", alpha, expected[me], 1e-4);
        close("increase", got[me], expected[2 + me], 1e-6);
        let decrease = Balia::decrease(&coupling) * members[me].cwnd;
        close("decrease", decrease, expected[4 + me], 1e-6);
    }
}

/// Two subflows with the same losses share what one Reno has: √(2/p) in the fluid, and in the
/// segment-wise drive whatever Reno has there.
fn equal_equilibrium(p: f64, expected: &[f64]) {
    close("each", (0.5 / p).sqrt(), expected[0], 5e-3);
    close("total", (2.0 / p).sqrt(), expected[1], 5e-3);
    let reno = Acks::one("reno", RTT).mean_windows(&[p], 2_000_000, 1)[0];
    for name in ["lia", "olia", "balia"] {
        let windows = pair(name, [p, p], 4_000_000);
        near(&format!("{name}'s total"), windows[0] + windows[1], reno, 0.15);
        near(&format!("{name}'s shares"), windows[0], windows[1], 0.15);
    }
}

/// LIA's windows go as 1/p and their total is one Reno on the better path.
fn lia_equilibrium(p1: f64, p2: f64, expected: &[f64]) {
    let total = (2.0 / p2).sqrt();
    close("total", total, expected[0], 5e-3);
    close("w1", total * p2 / (p1 + p2), expected[1], 1e-2);
    close("w2", total * p1 / (p1 + p2), expected[2], 1e-2);
    let reno = Acks::one("reno", RTT).mean_windows(&[p2], 2_000_000, 1)[0];
    let windows = pair("lia", [p1, p2], 4_000_000);
    near("LIA's total", windows[0] + windows[1], reno, 0.15);
    near("LIA's worse path", windows[0], reno * p2 / (p1 + p2), 0.15);
}

const RTT: Duration = Duration::from_millis(20);

/// The mean windows of two subflows that lose `p` of their segments.
fn pair(name: &str, p: [f64; 2], segments: u64) -> Vec<f64> {
    let flows = [0, 1].map(|_| AckFlow::new(make(name), RTT)).into_iter().collect();
    Acks::new(flows).mean_windows(&p, segments, 2)
}

/// 100 Mbit/s and 20 ms: the product, how long STARTUP takes to fill it, the cap on what is in
/// flight, what PROBE_RTT costs.
fn bbr_path(expected: &[f64]) {
    let bdp = 100e6 * 0.02 / 8.0 / MSS as f64;
    close("BDP", 100e6 * 0.02 / 8.0, expected[0], 0.5);
    close("BDP in segments", bdp, expected[1], 0.1);
    let doublings = (0..).find(|&n| 10.0 * f64::from(1 << n) >= bdp).expect("it gets there");
    assert_eq!(f64::from(doublings), expected[2].ceil());
    close("cap", 2.0 * bdp, expected[4], 0.5);
    close("PROBE_RTT", 100.0 * (0.2 + 0.02) / 10.0, expected[5], 1e-9);

    // Through the control: what it pays in PROBE_RTT, and the cap, which headers make smaller and
    // the allowances for bulk larger.
    let mut pipe = Pipe::new(make("bbr"), PipeConfig::default());
    pipe.run_until(Instant::from_millis(5_000), |_| {});
    let mut cap = 0.0_f64;
    let delivered = pipe.delivered;
    pipe.run_until(Instant::from_millis(9_000), |pipe| cap = cap.max(pipe.control.cwnd()));
    let steady = pipe.rate_since(Instant::from_millis(5_000), delivered);
    assert!((330.0..=expected[4] * 1.1).contains(&cap), "cwnd is capped at {cap}");
    let (from, delivered) = (pipe.now, pipe.delivered);
    pipe.run_until(Instant::from_millis(59_000), |_| {});
    let cost = 100.0 * (1.0 - pipe.rate_since(from, delivered) / steady);
    close("PROBE_RTT's cost", cost, expected[5], 0.5);
}

/// The pipe stays full while 1.25 (1 − p) ≥ 1: (1 − p) C, of which PROBE_RTT takes its share.
fn bbr_loss() {
    for loss in [0.0, 0.001, 0.01, 0.05] {
        let mut pipe = Pipe::new(make("bbr"), PipeConfig { loss, ..PipeConfig::default() });
        pipe.run_until(Instant::from_millis(1_000), |_| {});
        let (from, delivered) = (pipe.now, pipe.delivered);
        pipe.run_until(Instant::from_millis(31_000), |_| {});
        let share = pipe.rate_since(from, delivered) / pipe.capacity();
        near(&format!("goodput with p = {loss}"), share, 1.0 - loss, 0.04);
    }
    let mut pipe = Pipe::new(make("bbr"), PipeConfig { loss: 0.25, ..PipeConfig::default() });
    pipe.run_until(Instant::from_millis(30_000), |_| {});
    let share = pipe.rate_since(Instant::ZERO, 0) / pipe.capacity();
    assert!(share < 0.1, "beyond a fifth it collapses, {share} is left");
}
