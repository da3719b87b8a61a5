//! What coding costs, by kernel: one combination, and a whole generation of 64 packets of 1500
//! bytes, in payload bytes of the generation. The decoder stands beside one that works on payload
//! as packets come. benches/peers compares with other crates.

use divan::Bencher;
use divan::counter::BytesCount;
use weftline_coding::{Coding, Decoder, Encoder, Kernel, Limits, coefficients, gf256};
use weftline_core::rng::Rng;

const PACKETS: usize = 64;
const PACKET_BYTES: usize = 1500;
const LIMITS: Limits = Limits { packets: PACKETS as u8, packet_bytes: PACKET_BYTES as u16 };
/// A row in whole vectors.
const ROW: usize = 1536;

fn main() {
    divan::main();
}

fn kernels() -> Vec<Kernel> {
    Kernel::available().collect()
}

fn generation(kernel: Kernel, packets: usize) -> Encoder {
    let mut rng = Rng::stream(1, "payload");
    let mut encoder = Encoder::new(LIMITS, kernel);
    for _ in 0..packets {
        let packet: Vec<u8> = (0..PACKET_BYTES).map(|_| rng.next_u64() as u8).collect();
        encoder.push(&packet).expect("within the limits");
    }
    encoder
}

/// As many seeds and payloads as a decoder needs.
fn coded(encoder: &Encoder) -> Vec<(u32, Vec<u8>)> {
    let mut rng = Rng::stream(2, "coefficients");
    let mut decoder = Decoder::new(LIMITS, Kernel::best());
    let mut coded = Vec::new();
    while !decoder.is_complete() {
        let (seed, mut payload) = (coefficients::draw_seed(&mut rng, LIMITS.packets), Vec::new());
        encoder.append_seeded(seed, &mut payload);
        decoder.receive(LIMITS.packets, Coding::Seed(seed), &payload).expect("an honest packet");
        coded.push((seed, payload));
    }
    coded
}

/// One row added to another that stays in the first level of cache.
#[divan::bench(args = kernels())]
fn add_scaled(bencher: Bencher<'_, '_>, kernel: &Kernel) {
    let (mut y, x) = (vec![1; ROW], vec![2; ROW]);
    bencher.counter(BytesCount::new(ROW)).bench_local(|| {
        kernel.add_scaled(divan::black_box(&mut y), 0xa7, divan::black_box(&x));
    });
}

#[divan::bench(args = kernels())]
fn encode_64(bencher: Bencher<'_, '_>, kernel: &Kernel) {
    let encoder = generation(*kernel, PACKETS);
    let mut out = Vec::new();
    bencher.counter(BytesCount::new(PACKETS * PACKET_BYTES)).bench_local(|| {
        for seed in 0..PACKETS as u32 {
            out.clear();
            encoder.append_seeded(seed, &mut out);
            divan::black_box(&out);
        }
    });
}

/// A generation of the default size, in packets as a gateway sends them one by one.
#[divan::bench(args = kernels())]
fn encode_32(bencher: Bencher<'_, '_>, kernel: &Kernel) {
    let encoder = generation(*kernel, 32);
    let mut out = Vec::new();
    bencher.counter(BytesCount::new(32 * PACKET_BYTES)).bench_local(|| {
        for seed in 0..32 {
            out.clear();
            encoder.append_seeded(seed, &mut out);
            divan::black_box(&out);
        }
    });
}

/// The same computed four at a time, and copied when they are sent.
#[divan::bench(args = kernels())]
fn encode_32_by_4(bencher: Bencher<'_, '_>, kernel: &Kernel) {
    let encoder = generation(*kernel, 32);
    let (mut ahead, mut out) = (Vec::new(), Vec::new());
    bencher.counter(BytesCount::new(32 * PACKET_BYTES)).bench_local(|| {
        for seed in (0..32).step_by(4) {
            ahead.clear();
            let seeds = [seed, seed + 1, seed + 2, seed + 3];
            let stride = encoder.append_seeded_all(&seeds, &mut ahead);
            for payload in ahead.chunks(stride) {
                out.clear();
                out.extend_from_slice(&payload[..encoder.combined_bytes()]);
                divan::black_box(&out);
            }
        }
    });
}

#[divan::bench(args = kernels())]
fn decode_64(bencher: Bencher<'_, '_>, kernel: &Kernel) {
    let coded = coded(&generation(*kernel, PACKETS));
    let mut decoder = Decoder::new(LIMITS, *kernel);
    bencher.counter(BytesCount::new(PACKETS * PACKET_BYTES)).bench_local(|| {
        decoder.clear();
        for (seed, payload) in &coded {
            let taken = decoder.receive(LIMITS.packets, Coding::Seed(*seed), payload);
            taken.expect("an honest packet");
        }
        assert_eq!(decoder.recover(), PACKETS);
    });
}

/// Coefficients alone: what the decoder does before it touches payload.
#[divan::bench(args = kernels())]
fn solve_64(bencher: Bencher<'_, '_>, kernel: &Kernel) {
    let coded = coded(&generation(*kernel, PACKETS));
    let mut decoder = Decoder::new(LIMITS, *kernel);
    bencher.counter(BytesCount::new(PACKETS * PACKET_BYTES)).bench_local(|| {
        decoder.clear();
        for (seed, _) in &coded {
            let taken = decoder.receive(LIMITS.packets, Coding::Seed(*seed), &[0; 2]);
            taken.expect("an honest packet");
        }
        assert!(decoder.is_complete());
    });
}

/// The textbook's decoder, for comparison: coefficients and payload are one row, and every packet
/// takes its pivot out of all rows before it.
#[divan::bench(args = kernels())]
fn decode_64_as_they_come(bencher: Bencher<'_, '_>, kernel: &Kernel) {
    let coded = coded(&generation(*kernel, PACKETS));
    let stride = PACKETS + ROW;
    let mut rows = vec![0; PACKETS * stride];
    let mut pivots = Vec::new();
    bencher.counter(BytesCount::new(PACKETS * PACKET_BYTES)).bench_local(|| {
        rows.fill(0);
        pivots.clear();
        for (i, (seed, payload)) in coded.iter().enumerate() {
            let (held, rest) = rows.split_at_mut(i * stride);
            let new = &mut rest[..stride];
            coefficients::from_seed(*seed, &mut new[..PACKETS]);
            new[PACKETS..][..payload.len()].copy_from_slice(payload);
            let factors: Vec<u8> = pivots.iter().map(|&pivot: &usize| new[pivot]).collect();
            kernel.combine(new, &factors, held, stride);
            let pivot = new[..PACKETS].iter().position(|&c| c != 0).expect("independent");
            kernel.scale(new, gf256::inverse(new[pivot]).expect("not zero"));
            for row in held.chunks_exact_mut(stride) {
                kernel.add_scaled(row, row[pivot], new);
            }
            pivots.push(pivot);
        }
        divan::black_box(&rows);
    });
}
