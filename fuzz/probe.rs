//! What the fuzz target of the probe does with its input. `cargo test` replays the corpus through
//! the same function (crates/tunnel/tests/fuzz_replay.rs).

use std::time::Duration;

use weftline_core::Instant;
use weftline_tunnel::probe::wire::{Packet, TRAIN_BYTES};
use weftline_tunnel::probe::{
    Ask, Client, ClientConfig, Collector, Pacer, Recorder, Route, Server, ServerConfig, Stamp,
};

/// Any bytes are packets or errors, and a packet is written as it was read; a server and a client
/// survive all of them and answer with less than they got; and what only a peer with the key could
/// say is survived by what takes it, without growing. A datagram begins with its length and the
/// time since the one before.
pub fn probe(bytes: &[u8]) {
    let secrets = vec![[7; 32]];
    let mut server = Server::new(ServerConfig { secrets, ..ServerConfig::default() }, &[9; 32]);
    let address = "192.0.2.1:4434".parse().expect("an address");
    let config = ClientConfig { ask: Ask::default(), server: address, secret: None, session: 0 };
    let mut client = Client::new(config, Instant::ZERO);
    let mut collector = Collector::default();
    let mut pacer = Pacer::new(&Ask::default(), Instant::ZERO);
    let mut recorder = Recorder::default();
    let (mut rest, mut now) = (bytes, Instant::ZERO);
    while let [high, low, pause, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([high & 7, *low]));
        let (datagram, after) = after.split_at(after.len().min(length));
        rest = after;
        now += Duration::from_millis(u64::from(*pause)) * 4;
        let stamp =
            Stamp { at: now, steps: (pause % 16 != 0).then_some(u32::from(pause % 16 == 1)) };
        let route = Route { client: address, local: None };
        if let Some(answer) = server.handle(route, datagram, stamp, now) {
            assert!(answer.len() < datagram.len(), "no amplifier");
        }
        server.handle_timeout(now);
        client.handle(datagram, stamp, now);
        client.handle_timeout(now);
        let mut out = Vec::new();
        assert!(server.poll_transmit(now, &mut out).is_none(), "nobody has the key");
        let _ = client.poll_transmit(now, &mut out);
        let Ok(decoded) = Packet::decode(datagram) else { continue };
        check(datagram, decoded.session, &decoded.packet);
        match &decoded.packet {
            Packet::Train(header) => collector.on_packet(header, 1500, stamp, now),
            Packet::Report(report) => {
                pacer.on_report(report, now);
                for sample in &report.results {
                    let recorded = recorder.on_sample(sample);
                    assert!(recorded.rows.len() <= 2 && recorded.rows.is_sorted_by_key(|r| r.time));
                }
            }
            _ => {}
        }
        collector.handle_timeout(now);
        if let Some(burst) = pacer.poll(now) {
            assert!(burst.packets <= 30);
        }
        if let Some(report) = collector.poll_report(now) {
            assert!(report.results.iter().all(|sample| sample.received <= sample.packets));
        }
        while let Some(sample) = collector.poll_sample() {
            assert!(sample.first <= sample.last);
        }
    }
}

/// What was read is written as it was, but for the tag and the padding.
fn check(datagram: &[u8], session: u64, packet: &Packet) {
    let key = weftline_tunnel::probe::wire::Key::new(
        None,
        session,
        &weftline_tunnel::probe::wire::Cookie { slot: 0, mac: [0; 16] },
    );
    let mut again = Vec::new();
    packet.encode(session, Some(&key), &mut again);
    let same = match packet {
        Packet::Hello => 12,
        Packet::Challenge(_) | Packet::Refusal(_) => again.len(),
        Packet::Train(_) => TRAIN_BYTES - 16,
        _ => again.len() - 16,
    };
    assert_eq!(again[..same], datagram[..same]);
}
