//! What the fuzz target of coded packets does with its input. `cargo test` replays the corpus
//! through the same function (crates/coding/tests/fuzz_replay.rs).

use weftline_coding::wire::{Header, Packet};
use weftline_coding::{Decoder, Kernel, Limits, Recoder};
use weftline_core::rng::Rng;

const LIMITS: Limits = Limits { packets: 12, packet_bytes: 60 };

/// Any datagrams, each after a byte with its length, decode to packets or errors; a packet encodes
/// to the bytes it came from. A device and an access point survive all of them, keep to their
/// limits, and count what they keep.
pub fn coding(bytes: &[u8]) {
    let mut rng = Rng::stream(1, "fuzz");
    let mut decoder = Decoder::new(LIMITS, Kernel::best());
    let mut recoder = Recoder::new(LIMITS, Kernel::best());
    let mut rest = bytes;
    while let Some((&len, after)) = rest.split_first() {
        let (datagram, after) = after.split_at(after.len().min(usize::from(len)));
        rest = after;
        let Ok(packet) = Packet::decode(datagram) else { continue };
        let mut again = Vec::new();
        packet.encode(&mut again);
        assert_eq!(again, datagram);
        if let Packet::Coded { header, payload } = packet {
            take(&mut decoder, &mut recoder, &header, payload, &mut rng);
        }
    }
}

fn take(
    decoder: &mut Decoder,
    recoder: &mut Recoder,
    header: &Header<'_>,
    payload: &[u8],
    rng: &mut Rng,
) {
    let before = (decoder.rank(), decoder.size());
    let taken = decoder.receive(header.size, header.coding, payload);
    assert_eq!(recoder.receive(header.size, header.coding, payload), taken, "one span");
    assert_eq!((recoder.rank(), recoder.size()), (decoder.rank(), decoder.size()));
    assert!(decoder.rank() <= usize::from(LIMITS.packets));
    if taken.is_err() {
        assert_eq!((decoder.rank(), decoder.size()), before, "a refused packet changes nothing");
    }
    decoder.recover();
    let have = (0..=255).filter_map(|i| decoder.packet(i));
    let count = have.inspect(|packet| assert!(packet.len() <= 60)).count();
    assert!(count + decoder.corrupt_packets() <= decoder.rank());
    // What an access point makes of it adds nothing to what it is made of.
    if let Some(recoded) = recoder.recode(rng) {
        let mut payload = Vec::new();
        recoded.append_payload(&mut payload);
        let coding = weftline_coding::Coding::Vector(recoded.vector());
        let rank = decoder.rank();
        assert!(decoder.receive(decoder.size(), coding, &payload).is_ok());
        assert_eq!(decoder.rank(), rank);
    }
}
