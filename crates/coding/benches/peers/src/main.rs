//! Encoding, recoding and decoding beside two other crates, on one core in one process.
//!
//! ```text
//! cargo run --release --manifest-path crates/coding/benches/peers/Cargo.toml [ROUNDS]
//! ```
//!
//! One round is every operation of every crate once, so that whatever else the machine does meets
//! all of them alike. A figure is the payload of one generation, 64 packets of 1500 bytes, divided
//! by the time to make 64 coded packets of it (encode), 64 new combinations of 64 received ones
//! (recode), or the 64 packets from 64 coded ones (decode), in Gb/s: by the median of the rounds,
//! and by the fastest. Memory is taken and given back as each crate's interface wants it.
//!
//! The crates are apart from the workspace because `rlnc` fixes its dependencies' versions.

use std::hint::black_box;
use std::time::Instant;

use rand::RngCore;
use weftline_coding::{Coding, Decoder, Encoder, Kernel, Limits, Recoder};
use weftline_core::rng::Rng;

const PACKETS: usize = 64;
const PACKET_BYTES: usize = 1500;
const OPERATIONS: [&str; 3] = ["encode", "recode", "decode"];
const CRATES: [&str; 3] = ["weftline-coding", "rlnc", "rlnc-simdx"];

/// Seconds of each round.
type Times = Vec<f64>;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(300);
    let data: Vec<u8> = {
        let mut rng = Rng::stream(1, "payload");
        (0..PACKETS * PACKET_BYTES).map(|_| rng.next_u64() as u8).collect()
    };
    let mut contestants: [Box<dyn Contestant>; 3] =
        [Box::new(Ours::new(&data)), Box::new(Rlnc::new(&data)), Box::new(Simdx::new(&data))];
    let mut times = vec![[Times::new(), Times::new(), Times::new()]; CRATES.len()];
    for round in 0..rounds + 20 {
        for (contestant, times) in contestants.iter_mut().zip(&mut times) {
            let run = [contestant.encode(), contestant.recode(), contestant.decode(&data)];
            // The first rounds are for caches and clocks.
            if round >= 20 {
                times.iter_mut().zip(run).for_each(|(times, time)| times.push(time));
            }
        }
    }
    println!(
        "k = {PACKETS}, {PACKET_BYTES} bytes, {rounds} rounds; ours: {}, rlnc-simdx: {}",
        Kernel::best().name(),
        rlnc_simdx::active_kernel()
    );
    for (i, operation) in OPERATIONS.iter().enumerate() {
        let figures: Vec<[f64; 2]> = times.iter_mut().map(|times| gbps(&mut times[i])).collect();
        for (name, [median, fastest]) in CRATES.iter().zip(&figures) {
            let [ratio, best] = [figures[0][0] / median, figures[0][1] / fastest];
            println!(
                "{operation}  {name:15}  {median:6.2} Gb/s median (ours × {ratio:5.2})  \
                 {fastest:6.2} Gb/s fastest (ours × {best:5.2})"
            );
        }
    }
}

/// Gb/s of the median and of the fastest round.
fn gbps(times: &mut Times) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[times.len() / 2], times[0]].map(|s| (PACKETS * PACKET_BYTES * 8) as f64 / s / 1e9)
}

fn timed(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

/// A crate: seconds of one generation for each operation.
trait Contestant {
    fn encode(&mut self) -> f64;
    fn recode(&mut self) -> f64;
    fn decode(&mut self, data: &[u8]) -> f64;
}

/// The same cheap source of coefficients for whoever asks for one.
struct Xorshift(u64);

impl RngCore for Xorshift {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

struct Ours {
    encoder: Encoder,
    recoder: Recoder,
    decoder: Decoder,
    coded: Vec<(u32, Vec<u8>)>,
    rng: Rng,
    out: Vec<u8>,
}

impl Ours {
    fn new(data: &[u8]) -> Self {
        let limits = Limits { packets: PACKETS as u8, packet_bytes: PACKET_BYTES as u16 };
        let kernel = Kernel::best();
        let mut encoder = Encoder::new(limits, kernel);
        for packet in data.chunks(PACKET_BYTES) {
            encoder.push(packet).expect("within the limits");
        }
        let mut rng = Rng::stream(1, "coefficients");
        let mut recoder = Recoder::new(limits, kernel);
        let mut coded = Vec::new();
        while recoder.rank() < PACKETS {
            let seed = rng.next_u64() as u32;
            let mut payload = Vec::new();
            encoder.append_seeded(seed, &mut payload);
            recoder.receive(PACKETS as u8, Coding::Seed(seed), &payload).expect("taken");
            coded.push((seed, payload));
        }
        let decoder = Decoder::new(limits, kernel);
        Self { encoder, recoder, decoder, coded, rng, out: Vec::new() }
    }
}

impl Contestant for Ours {
    fn encode(&mut self) -> f64 {
        timed(|| {
            for _ in 0..PACKETS {
                self.out.clear();
                self.encoder.append_seeded(self.rng.next_u64() as u32, &mut self.out);
                black_box(&self.out);
            }
        })
    }

    fn recode(&mut self) -> f64 {
        timed(|| {
            for _ in 0..PACKETS {
                self.out.clear();
                let recoded = self.recoder.recode(&mut self.rng).expect("all are kept");
                recoded.append_payload(&mut self.out);
                black_box((recoded.vector(), &self.out));
            }
        })
    }

    fn decode(&mut self, data: &[u8]) -> f64 {
        let time = timed(|| {
            self.decoder.clear();
            for (seed, payload) in &self.coded {
                let taken = self.decoder.receive(PACKETS as u8, Coding::Seed(*seed), payload);
                taken.expect("an honest packet");
            }
            assert_eq!(self.decoder.recover(), PACKETS);
        });
        let mut packets = (0..PACKETS as u8).map(|i| self.decoder.packet(i).expect("decoded"));
        assert!(data.chunks(PACKET_BYTES).all(|packet| packets.next() == Some(packet)));
        time
    }
}

struct Rlnc {
    /// One byte is the crate's own.
    encoder: rlnc::full::Encoder,
    recoder: rlnc::full::Recoder,
    coded: Vec<Vec<u8>>,
    rng: Xorshift,
    out: Vec<u8>,
}

impl Rlnc {
    fn new(data: &[u8]) -> Self {
        let mut rng = Xorshift(1);
        let encoder =
            rlnc::full::Encoder::new(data[..data.len() - 1].to_vec(), PACKETS).expect("ok");
        let bytes = encoder.get_full_coded_piece_byte_len();
        // A few more than needed, for the rare dependent one.
        let coded: Vec<_> = (0..PACKETS + 4).map(|_| encoder.code(&mut rng)).collect();
        let recoder = rlnc::full::Recoder::new(coded[..PACKETS].concat(), bytes, PACKETS);
        Self { encoder, recoder: recoder.expect("ok"), coded, rng, out: vec![0; bytes] }
    }
}

impl Contestant for Rlnc {
    fn encode(&mut self) -> f64 {
        timed(|| {
            for _ in 0..PACKETS {
                self.encoder.code_with_buf(&mut self.rng, &mut self.out).expect("ok");
                black_box(&self.out);
            }
        })
    }

    fn recode(&mut self) -> f64 {
        timed(|| {
            for _ in 0..PACKETS {
                self.recoder.recode_with_buf(&mut self.rng, &mut self.out).expect("ok");
                black_box(&self.out);
            }
        })
    }

    fn decode(&mut self, data: &[u8]) -> f64 {
        let mut decoded = Vec::new();
        let time = timed(|| {
            let mut decoder = rlnc::full::Decoder::new(PACKET_BYTES, PACKETS).expect("ok");
            for piece in &self.coded {
                if decoder.is_already_decoded() {
                    break;
                }
                let _ = decoder.decode(piece);
            }
            decoded = decoder.get_decoded_data().expect("all pieces");
        });
        assert_eq!(decoded, data[..data.len() - 1]);
        time
    }
}

struct Simdx {
    encoder: rlnc_simdx::Encoder,
    packets: Vec<Vec<u8>>,
    coded: Vec<rlnc_simdx::CodedPacket>,
    rng: rlnc_simdx::SimpleRng,
}

impl Simdx {
    fn new(data: &[u8]) -> Self {
        let packets: Vec<Vec<u8>> = data.chunks(PACKET_BYTES).map(<[u8]>::to_vec).collect();
        let encoder = rlnc_simdx::Encoder::new(PACKETS, PACKET_BYTES).expect("ok");
        let mut rng = rlnc_simdx::SimpleRng::new(1);
        // Its generator spans 64 dimensions, just enough; keep what is independent.
        let mut decoder = rlnc_simdx::Decoder::new(PACKETS, PACKET_BYTES).expect("ok");
        let mut coded = Vec::new();
        let sources: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        while !decoder.is_complete() {
            let packet = encoder.encode_random(&sources, &mut rng).expect("ok");
            if decoder.receive(packet.clone()).expect("ok") {
                coded.push(packet);
            }
        }
        Self { encoder, packets, coded, rng }
    }
}

impl Contestant for Simdx {
    fn encode(&mut self) -> f64 {
        let sources: Vec<&[u8]> = self.packets.iter().map(Vec::as_slice).collect();
        timed(|| {
            for _ in 0..PACKETS {
                black_box(self.encoder.encode_random(&sources, &mut self.rng).expect("ok"));
            }
        })
    }

    fn recode(&mut self) -> f64 {
        timed(|| {
            for _ in 0..PACKETS {
                black_box(rlnc_simdx::Recoder::recode(&self.coded, &mut self.rng).expect("ok"));
            }
        })
    }

    fn decode(&mut self, data: &[u8]) -> f64 {
        // It takes packets by value; the copies are made before.
        let coded = self.coded.clone();
        let mut decoded = Vec::new();
        let time = timed(|| {
            let mut decoder = rlnc_simdx::Decoder::new(PACKETS, PACKET_BYTES).expect("ok");
            for packet in coded {
                decoder.receive(packet).expect("ok");
            }
            decoded = decoder.decode().expect("ok").expect("full rank");
        });
        assert!(data.chunks(PACKET_BYTES).eq(decoded.iter().map(Vec::as_slice)));
        time
    }
}
