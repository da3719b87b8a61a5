//! Encoder, recoder and decoder together.

use proptest::prelude::*;
use weftline_core::rng::Rng;

use crate::echelon::Echelon;
use crate::generation::RowStore;
use crate::{Coding, Decoder, Encoder, GenerationError, Kernel, Limits, Recoder, Verdict};
use crate::{coefficients, kernels};

/// Generations and packets are smaller under an interpreter, which is thousands of times slower.
const INTERPRETED: bool = cfg!(miri);
const LARGEST: u8 = if INTERPRETED { 6 } else { 40 };
const LIMITS: Limits = Limits { packets: 40, packet_bytes: if INTERPRETED { 20 } else { 300 } };

/// Packets of different lengths with random bytes, the empty one among them now and then.
fn packets(rng: &mut Rng, count: u8) -> Vec<Vec<u8>> {
    let packet = |rng: &mut Rng| {
        let len = rng.below(u64::from(LIMITS.packet_bytes) + 1);
        (0..len).map(|_| rng.next_u64() as u8).collect()
    };
    (0..count).map(|_| packet(rng)).collect()
}

fn encoder(packets: &[Vec<u8>]) -> Encoder {
    let mut encoder = Encoder::new(LIMITS, Kernel::best());
    for packet in packets {
        encoder.push(packet).expect("within the limits");
    }
    encoder
}

/// A packet in flight.
#[derive(Clone, Debug)]
enum Sent {
    Systematic(u8, Vec<u8>),
    Seed(u32, Vec<u8>),
    Vector(Vec<u8>, Vec<u8>),
}

impl Sent {
    fn systematic(encoder: &Encoder, index: u8) -> Self {
        Self::Systematic(index, encoder.packet(index).expect("in the generation").to_vec())
    }

    fn seeded(encoder: &Encoder, rng: &mut Rng) -> Self {
        let seed = coefficients::draw_seed(rng, encoder.size());
        let mut payload = Vec::new();
        encoder.append_seeded(seed, &mut payload);
        Self::Seed(seed, payload)
    }

    fn combined(encoder: &Encoder, vector: &[u8]) -> Self {
        let mut payload = Vec::new();
        encoder.append_combined(vector, &mut payload);
        Self::Vector(vector.to_vec(), payload)
    }

    fn recoded(recoder: &mut Recoder, rng: &mut Rng) -> Option<Self> {
        let recoded = recoder.recode(rng)?;
        let mut payload = Vec::new();
        recoded.append_payload(&mut payload);
        Some(Self::Vector(recoded.vector().to_vec(), payload))
    }

    fn parts(&self) -> (Coding<'_>, &[u8]) {
        match self {
            Self::Systematic(index, payload) => (Coding::Systematic(*index), payload),
            Self::Seed(seed, payload) => (Coding::Seed(*seed), payload),
            Self::Vector(vector, payload) => (Coding::Vector(vector), payload),
        }
    }
}

fn give(decoder: &mut Decoder, size: u8, sent: &Sent) -> Verdict {
    let (coding, payload) = sent.parts();
    decoder.receive(size, coding, payload).expect("an honest packet")
}

/// What a decoder hands out is right, whatever it has; how many packets that is.
fn right(decoder: &Decoder, packets: &[Vec<u8>]) -> usize {
    let mut count = 0;
    for (i, packet) in packets.iter().enumerate() {
        if let Some(out) = decoder.packet(i as u8) {
            assert_eq!(out, packet, "packet {i}");
            count += 1;
        }
    }
    assert_eq!(decoder.packet(packets.len() as u8), None);
    assert_eq!(decoder.corrupt_packets(), 0);
    count
}

#[test]
fn what_was_not_lost_needs_no_arithmetic() {
    let mut rng = Rng::stream(1, "systematic");
    let packets = packets(&mut rng, 32);
    let encoder = encoder(&packets);
    let mut decoder = Decoder::new(LIMITS, Kernel::best());
    for i in (0..32).rev() {
        let sent = Sent::systematic(&encoder, i);
        assert_eq!(give(&mut decoder, 32, &sent), Verdict::Innovative);
        assert_eq!(decoder.packet(i), Some(&packets[usize::from(i)][..]), "at once");
        assert_eq!(give(&mut decoder, 32, &sent), Verdict::Redundant);
    }
    assert!(decoder.is_complete());
    assert_eq!(decoder.recover(), 0);
    assert_eq!(right(&decoder, &packets), 32);
}

#[test]
fn one_packet_can_be_determined_before_all_are() {
    let mut rng = Rng::stream(2, "partial");
    let packets = packets(&mut rng, 4);
    let encoder = encoder(&packets);
    let mut decoder = Decoder::new(LIMITS, Kernel::best());
    give(&mut decoder, 4, &Sent::systematic(&encoder, 0));
    give(&mut decoder, 4, &Sent::combined(&encoder, &[3, 5, 0, 0]));
    give(&mut decoder, 4, &Sent::combined(&encoder, &[0, 0, 1, 1]));
    assert_eq!((decoder.rank(), decoder.recover()), (3, 1));
    assert_eq!((right(&decoder, &packets), decoder.packet(2)), (2, None));
    assert_eq!(decoder.recover(), 0, "nothing new");
    give(&mut decoder, 4, &Sent::combined(&encoder, &[9, 9, 9, 8]));
    assert_eq!((decoder.recover(), right(&decoder, &packets)), (2, 4));
}

#[test]
fn a_size_that_becomes_known_later() {
    let mut rng = Rng::stream(3, "open");
    let packets = packets(&mut rng, 5);
    let encoder = encoder(&packets);
    let mut decoder = Decoder::new(LIMITS, Kernel::best());
    let mut recoder = Recoder::new(LIMITS, Kernel::best());
    for i in [4, 0, 2] {
        let sent = Sent::systematic(&encoder, i);
        give(&mut decoder, 0, &sent);
        let (coding, payload) = sent.parts();
        assert_eq!(recoder.receive(0, coding, payload), Ok(Verdict::Innovative));
    }
    assert_eq!((decoder.size(), decoder.rank(), right(&decoder, &packets)), (0, 3, 3));
    assert!(recoder.recode(&mut rng).is_none(), "of how many?");
    // Packet 4 is there: a size of 4 is wrong, and changes nothing.
    let wrong = Err(GenerationError::Index { index: 4, size: 4 });
    assert_eq!(decoder.receive(4, Coding::Seed(1), &[0; 9]), wrong);
    assert_eq!(recoder.receive(4, Coding::Seed(1), &[0; 9]), wrong);
    for _ in 0..2 {
        let sent = Sent::seeded(&encoder, &mut rng);
        let (coding, payload) = sent.parts();
        assert_eq!(recoder.receive(5, coding, payload), Ok(Verdict::Innovative));
    }
    while !decoder.is_complete() {
        let sent = Sent::recoded(&mut recoder, &mut rng).expect("the size is known");
        give(&mut decoder, 5, &sent);
    }
    assert_eq!((decoder.recover(), right(&decoder, &packets)), (2, 5));
}

#[test]
fn hostile_packets_are_refused_and_change_nothing() {
    let limits = Limits { packets: 8, packet_bytes: 20 };
    let mut decoder = Decoder::new(limits, Kernel::best());
    let mut recoder = Recoder::new(limits, Kernel::best());
    let mut refused = |size, coding, bytes: usize, error| {
        let payload = vec![1; bytes];
        assert_eq!(decoder.receive(size, coding, &payload), Err(error));
        assert_eq!(recoder.receive(size, coding, &payload), Err(error));
        assert_eq!((decoder.rank(), recoder.rank()), (0, 0));
        assert_eq!((decoder.size(), recoder.size()), (0, 0));
    };
    refused(9, Coding::Seed(1), 9, GenerationError::Size { size: 9, allowed: 8 });
    refused(255, Coding::Systematic(0), 9, GenerationError::Size { size: 255, allowed: 8 });
    refused(0, Coding::Seed(1), 9, GenerationError::Combination);
    refused(0, Coding::Vector(&[]), 9, GenerationError::Combination);
    refused(0, Coding::Systematic(8), 9, GenerationError::Index { index: 8, size: 8 });
    refused(3, Coding::Systematic(3), 9, GenerationError::Index { index: 3, size: 3 });
    refused(3, Coding::Vector(&[1, 2]), 9, GenerationError::Vector { coefficients: 2, size: 3 });
    refused(3, Coding::Seed(1), 1, GenerationError::Short(1));
    refused(3, Coding::Seed(1), 23, GenerationError::Long { bytes: 23, max: 22 });
    refused(3, Coding::Systematic(1), 21, GenerationError::Long { bytes: 21, max: 20 });
    let zero = Coding::Vector(&[0, 0, 0]);
    assert_eq!(decoder.receive(3, zero, &[1; 22]), Ok(Verdict::Redundant));
    assert_eq!(
        decoder.receive(2, Coding::Seed(1), &[1; 22]),
        Err(GenerationError::Size { size: 2, allowed: 3 })
    );
    assert_eq!((decoder.size(), decoder.rank()), (3, 0));
}

/// Payload that is no combination of packets decodes to rows whose length or zeros are wrong; they
/// are not handed out as packets.
#[test]
fn forged_payload_is_no_packet() {
    let mut decoder = Decoder::new(LIMITS, Kernel::best());
    decoder.receive(2, Coding::Systematic(0), b"honest").expect("taken");
    decoder.receive(2, Coding::Vector(&[1, 1]), &[0xff; 20]).expect("taken");
    assert_eq!((decoder.recover(), decoder.corrupt_packets()), (0, 1));
    assert_eq!((decoder.packet(0), decoder.packet(1)), (Some(&b"honest"[..]), None));
    decoder.clear();
    assert_eq!((decoder.corrupt_packets(), decoder.rank(), decoder.packet(0)), (0, 0, None));
}

/// An access point sends what adds to what it has sent (COTAG Algorithm 2, line 21).
#[test]
fn an_access_point_knows_what_it_has_sent() {
    let mut rng = Rng::stream(4, "sent");
    let packets = packets(&mut rng, 3);
    let encoder = encoder(&packets);
    let mut recoder = Recoder::new(LIMITS, Kernel::best());
    let all = [
        Sent::systematic(&encoder, 0),
        Sent::seeded(&encoder, &mut rng),
        Sent::combined(&encoder, &[7, 7, 0]),
    ];
    for sent in &all {
        let (coding, payload) = sent.parts();
        assert_eq!(recoder.receive(3, coding, payload), Ok(Verdict::Innovative));
    }
    for (number, sent) in all.iter().enumerate() {
        assert_eq!(recoder.packet(number), Some(sent.parts()), "as it came");
        assert!(recoder.adds_to_sent(number));
    }
    assert_eq!(recoder.packet(3), None);
    assert!(recoder.mark_sent(2) && !recoder.adds_to_sent(2) && !recoder.mark_sent(2));
    assert!(recoder.recode(&mut rng).expect("three are kept").raises_sent());
    assert_eq!(recoder.sent_rank(), 2);
    // The span is whole with any further one that is not in it.
    let last = (0..3).find(|&number| recoder.adds_to_sent(number)).expect("rank 3 of 2 sent");
    assert!(recoder.mark_sent(last));
    assert!(!recoder.recode(&mut rng).expect("three are kept").raises_sent());
    assert!((0..3).all(|number| !recoder.adds_to_sent(number)));
    recoder.clear();
    assert_eq!((recoder.rank(), recoder.sent_rank(), recoder.size()), (0, 0, 0));
}

/// A full access point gives a packet away: what it then makes has nothing of it, and the packet is
/// new again when it comes once more.
#[test]
fn an_access_point_gives_packets_away() {
    let mut rng = Rng::stream(9, "give");
    let packets = packets(&mut rng, 4);
    let encoder = encoder(&packets);
    let mut recoder = Recoder::new(LIMITS, Kernel::best());
    let all: Vec<_> = (0..4).map(|i| Sent::systematic(&encoder, i)).collect();
    for sent in &all {
        let (coding, payload) = sent.parts();
        assert_eq!(recoder.receive(4, coding, payload), Ok(Verdict::Innovative));
    }
    recoder.remove(1);
    assert_eq!(recoder.rank(), 3);
    for (number, sent) in [&all[0], &all[2], &all[3]].into_iter().enumerate() {
        assert_eq!(recoder.packet(number), Some(sent.parts()));
    }
    assert_eq!(recoder.recode(&mut rng).expect("three are kept").vector()[1], 0);
    let (coding, payload) = all[1].parts();
    assert_eq!(recoder.receive(4, coding, payload), Ok(Verdict::Innovative));
    let mut decoder = Decoder::new(LIMITS, Kernel::best());
    while !decoder.is_complete() {
        let sent = Sent::recoded(&mut recoder, &mut rng).expect("four are kept");
        give(&mut decoder, 4, &sent);
    }
    assert_eq!((decoder.recover(), right(&decoder, &packets)), (4, 4));
    (0..4).for_each(|_| recoder.remove(0));
    assert!(recoder.recode(&mut rng).is_none());
}

#[test]
#[cfg_attr(miri, ignore = "too slow under an interpreter")]
fn the_largest_generation() {
    let limits = Limits { packets: 255, packet_bytes: 8 };
    let mut rng = Rng::stream(5, "largest");
    let mut encoder = Encoder::new(limits, Kernel::best());
    for i in 0..255 {
        assert_eq!(encoder.push(&[i; 8][..usize::from(i % 9)]), Ok(i));
    }
    let mut decoder = Decoder::new(limits, Kernel::best());
    let mut payload = Vec::new();
    while !decoder.is_complete() {
        let seed = coefficients::draw_seed(&mut rng, 255);
        payload.clear();
        encoder.append_seeded(seed, &mut payload);
        decoder.receive(255, Coding::Seed(seed), &payload).expect("taken");
    }
    assert_eq!(decoder.recover(), 255);
    assert!((0..255).all(|i| decoder.packet(i) == encoder.packet(i)));
}

/// The number of `trials` in which n random vectors of n coefficients are independent, and the
/// number expected with its standard deviation.
fn full_ranks(n: usize, trials: u32, mut draw: impl FnMut(&mut [u8])) -> (f64, f64, f64) {
    let mut span = Echelon::new(n, 0, Kernel::best());
    let mut vector = vec![0; n];
    let mut full = 0;
    for _ in 0..trials {
        span.reset(n, 0);
        let independent = (0..n).all(|_| {
            draw(&mut vector);
            span.insert([&vector, &[]])
        });
        full += u32::from(independent);
    }
    // Π (1 − 256^−i), i = 1 to n, over the chance that no vector is zero, which none is.
    let q = 256_f64;
    let p: f64 = (1..=n).map(|i| 1.0 - q.powi(-(i as i32))).product();
    let p = p / (1.0 - q.powi(-(n as i32))).powi(n as i32);
    let trials = f64::from(trials);
    (f64::from(full), trials * p, (trials * p * (1.0 - p)).sqrt())
}

/// A random square matrix over GF(2^8) has full rank with probability 0.996; drawn vectors and
/// those of seeds alike. Five standard deviations are exceeded in one of a million seeds.
#[test]
#[cfg_attr(miri, ignore = "too slow under an interpreter")]
fn random_vectors_are_independent_as_often_as_they_should_be() {
    let mut rng = Rng::stream(6, "rank");
    for (n, trials) in [(1, 2_000), (2, 20_000), (4, 100_000), (16, 5_000), (32, 1_000)] {
        let drawn = full_ranks(n, trials, |vector| coefficients::draw(&mut rng, vector));
        let seeded = full_ranks(n, trials, |vector| {
            let seed = coefficients::draw_seed(&mut rng, vector.len() as u8);
            coefficients::from_seed(seed, vector);
        });
        for (full, expected, deviation) in [drawn, seeded] {
            let off = (full - expected).abs();
            assert!(off <= 5.0 * deviation + 1e-6, "n {n}: {full} of {expected} ± {deviation}");
        }
    }
}

/// The same through an access point: n recoded packets of n received ones. The weights are a random
/// square matrix, and what they are combined from has full rank.
#[test]
#[cfg_attr(miri, ignore = "too slow under an interpreter")]
fn recoded_packets_are_independent_as_often_as_they_should_be() {
    let mut rng = Rng::stream(7, "recoded rank");
    let (n, trials) = (4, 100_000);
    let limits = Limits { packets: 4, packet_bytes: 2 };
    let mut recoder = Recoder::new(limits, Kernel::best());
    while recoder.rank() < n {
        let seed = coefficients::draw_seed(&mut rng, 4);
        recoder.receive(4, Coding::Seed(seed), &[0; 4]).expect("taken");
    }
    let (full, expected, deviation) = full_ranks(n, trials, |vector| {
        let recoded = recoder.recode(&mut rng).expect("four are kept");
        vector.copy_from_slice(recoded.vector());
    });
    assert!((full - expected).abs() <= 5.0 * deviation, "{full} of {expected} ± {deviation}");
}

/// Generations are decoded in the same bytes by every kernel.
#[test]
fn every_kernel_decodes_alike() {
    let mut rng = Rng::stream(8, "kernels");
    let packets = packets(&mut rng, 9);
    let encoder = encoder(&packets);
    let sent: Vec<_> = (0..12).map(|_| Sent::seeded(&encoder, &mut rng)).collect();
    for kernel in Kernel::available() {
        let mut again = Encoder::new(LIMITS, kernel);
        packets.iter().for_each(|packet| assert!(again.push(packet).is_ok()));
        let mut decoder = Decoder::new(LIMITS, kernel);
        for sent in &sent {
            if let Sent::Seed(seed, payload) = sent {
                let mut own = Vec::new();
                again.append_seeded(*seed, &mut own);
                assert_eq!(&own, payload, "{kernel:?}");
            }
            give(&mut decoder, 9, sent);
        }
        assert_eq!((decoder.recover(), right(&decoder, &packets)), (9, 9), "{kernel:?}");
    }
    assert_eq!(RowStore::new(1).stride(), kernels::ROW_ALIGN);
}

fn config() -> ProptestConfig {
    let cases = if INTERPRETED { 2 } else { 64 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Any n independent packets, of whatever kinds and in whatever order, give the n packets; at
    /// every moment before, what is handed out is right.
    #[test]
    fn any_independent_packets_decode(seed: u64, size in 1..=LARGEST, systematic in 0_u64..=4) {
        let mut rng = Rng::stream(seed, "any");
        let packets = packets(&mut rng, size);
        let encoder = encoder(&packets);
        let mut decoder = Decoder::new(LIMITS, Kernel::best());
        let mut determined = 0;
        while !decoder.is_complete() {
            let sent = if rng.below(4) < systematic {
                Sent::systematic(&encoder, rng.below(u64::from(size)) as u8)
            } else if rng.below(3) == 0 {
                // Few coefficients, so that some are dependent and some determine one packet.
                let mut vector = vec![0; usize::from(size)];
                for _ in 0..2 {
                    vector[rng.below(u64::from(size)) as usize] = rng.below(3) as u8;
                }
                Sent::combined(&encoder, &vector)
            } else {
                Sent::seeded(&encoder, &mut rng)
            };
            let before = decoder.rank();
            let verdict = give(&mut decoder, size, &sent);
            prop_assert_eq!(decoder.rank() - before, usize::from(verdict == Verdict::Innovative));
            prop_assert_eq!(give(&mut decoder, size, &sent), Verdict::Redundant);
            if rng.below(2) == 0 {
                decoder.recover();
            }
            let now = right(&decoder, &packets);
            prop_assert!(now >= determined && now <= decoder.rank());
            determined = now;
        }
        decoder.recover();
        prop_assert_eq!(right(&decoder, &packets), usize::from(size));
    }

    /// Combinations of less than all packets: the rest never comes out, and nothing wrong does.
    #[test]
    fn dependent_packets_deliver_nothing_wrong(
        seed: u64,
        size in 2..=LARGEST,
        known in 1..LARGEST,
        extra in 0_usize..10,
    ) {
        let known = usize::from(known.min(size - 1));
        let mut rng = Rng::stream(seed, "dependent");
        let packets = packets(&mut rng, size);
        let encoder = encoder(&packets);
        // A basis of `known` vectors, and combinations of it.
        let mut recoder = Recoder::new(LIMITS, Kernel::best());
        while recoder.rank() < known {
            let sent = Sent::seeded(&encoder, &mut rng);
            let (coding, payload) = sent.parts();
            recoder.receive(size, coding, payload).expect("taken");
        }
        let mut decoder = Decoder::new(LIMITS, Kernel::best());
        for _ in 0..known + extra {
            let sent = Sent::recoded(&mut recoder, &mut rng).expect("something is kept");
            give(&mut decoder, size, &sent);
        }
        decoder.recover();
        prop_assert!(decoder.rank() <= known && !decoder.is_complete());
        // A packet comes out only where its unit vector is in the span, which is rare.
        right(&decoder, &packets);
    }

    /// Two access points, each with its losses, and a second recoding behind one of them.
    #[test]
    fn recodings_of_recodings_decode(seed: u64, size in 1..=LARGEST) {
        let mut rng = Rng::stream(seed, "recoding");
        let packets = packets(&mut rng, size);
        let encoder = encoder(&packets);
        let mut nodes = [(); 3].map(|()| Recoder::new(LIMITS, Kernel::best()));
        let mut decoder = Decoder::new(LIMITS, Kernel::best());
        let mut steps = 0;
        while !decoder.is_complete() {
            steps += 1;
            prop_assert!(steps < 4000, "rank {} of {size}", decoder.rank());
            let sent = match rng.below(3) {
                0 => Sent::systematic(&encoder, rng.below(u64::from(size)) as u8),
                _ => Sent::seeded(&encoder, &mut rng),
            };
            let (coding, payload) = sent.parts();
            nodes[rng.below(2) as usize].receive(size, coding, payload).expect("taken");
            // From the first node to the third, from the second and third to the device.
            if let Some(sent) = Sent::recoded(&mut nodes[0], &mut rng) {
                let (coding, payload) = sent.parts();
                nodes[2].receive(size, coding, payload).expect("taken");
            }
            let from = 1 + rng.below(2) as usize;
            if let Some(sent) = Sent::recoded(&mut nodes[from], &mut rng) {
                give(&mut decoder, size, &sent);
            }
        }
        decoder.recover();
        prop_assert_eq!(right(&decoder, &packets), usize::from(size));
    }
}
