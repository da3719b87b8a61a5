//! What the fuzz target of live streams does with its input. `cargo test` replays the corpus through
//! the same function (crates/video/tests/fuzz_replay.rs).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount, Instant};
use weftline_video::evaluate::Concealment;
use weftline_video::geometry::{FrameSize, Orientation};
use weftline_video::live::wire::{Message, Tile, TileDigests};
use weftline_video::live::{
    Client, ClientSettings, Content, Counters, LiveError, Outgoing, PathReading, Server,
    ServerSettings, Traffic,
};
use weftline_video::ows::{Entry, Recency};
use weftline_video::rd::RdTable;

const TILES: usize = 2;
const TABLE: &str = "# weftline-rd grid=2x1 gop_s=0.5\ngop,tile,qp,bytes,ws_mse\n\
    0,0,22,40,1\n0,0,32,10,5\n0,1,22,50,1\n0,1,32,9,6\n\
    1,0,22,40,1\n1,0,32,10,5\n1,1,22,50,1\n1,1,32,9,6\n";

/// Any bytes are a message, which reads back from what it writes, or an error of one line. As a
/// script, they let a server and a player exchange what they say, lose it, and hear anything else
/// in between: neither panics, and each tile of each GoP is counted once.
pub fn live(bytes: &[u8]) {
    match Message::decode(bytes) {
        Ok(message) => assert_eq!(Message::decode(&message.to_bytes()), Ok(message)),
        Err(error) => one_line(&error.to_string()),
    }
    let mut script = bytes;
    let mut world = World::new();
    for _ in 0..256 {
        let Some((&step, rest)) = script.split_first() else { return };
        let len = usize::from(rest.first().copied().unwrap_or(0)).min(rest.len());
        let (words, after) = rest.split_at(len);
        script = after;
        if world.step(step, words).is_err() {
            return;
        }
    }
}

fn one_line(error: &str) {
    assert!(!error.contains('\n') && error.len() < 400, "one line: {error:?}");
}

struct World {
    server: Server,
    client: Client,
    to_client: VecDeque<Vec<u8>>,
    now: Instant,
    next_gop: u32,
}

impl World {
    fn new() -> Self {
        let table = RdTable::parse(TABLE).expect("a table");
        let frame = FrameSize::new(64, 32).expect("a frame");
        let content = Content::new(frame, 15, table, None, None, Some(9)).expect("a package");
        let settings = ServerSettings {
            scheme: Entry::find("ows").expect("registered"),
            concealment: Concealment::LastReceived,
            start: Bitrate::kbps(2),
            recency: Recency::default(),
            search_units: 1_000,
        };
        // Longer than a GoP, and a picture that waits.
        let buffer = Some(Duration::from_millis(1_300));
        let rebuffer = Duration::from_millis(300);
        let player = ClientSettings { buffer, rebuffer, ..ClientSettings::default() };
        Self {
            server: Server::new(Arc::new(content), settings),
            client: Client::new(player),
            to_client: VecDeque::new(),
            now: Instant::from_millis(1),
            next_gop: 0,
        }
    }

    fn step(&mut self, step: u8, words: &[u8]) -> Result<(), LiveError> {
        let done = self.act(step, words);
        if let Err(error) = &done {
            one_line(&error.to_string());
        }
        while let Some(outgoing) = self.server.poll_transmit() {
            self.to_client.push_back(match outgoing {
                Outgoing::Message(bytes) => bytes,
                Outgoing::Tile(order) => {
                    let segment = vec![0; order.bytes.as_u64() as usize];
                    let digests = TileDigests::of(b"", &segment);
                    let tile = Tile { id: order.id, init: b"", segment: &segment, digests };
                    Message::Tile(tile).to_bytes()
                }
            });
        }
        while let Some(planned) = self.server.poll_event() {
            assert_eq!(planned.sent + planned.dropped, TILES);
        }
        while let Some(report) = self.client.poll_event() {
            assert_eq!(report.gop, self.next_gop, "in their order, each once");
            self.next_gop += 1;
            assert_eq!(report.arrived + report.late + report.dropped, TILES);
            assert!(report.psnr_db().is_none_or(f64::is_finite));
            assert!(report.bytes + report.late_bytes <= ByteCount::mib(1));
        }
        done
    }

    fn act(&mut self, step: u8, words: &[u8]) -> Result<(), LiveError> {
        let number = words.iter().skip(1).fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
        match step % 8 {
            0 => self.client.handle_message(words.get(1..).unwrap_or(&[]), self.now).map(drop),
            1 => self.server.handle_message(words.get(1..).unwrap_or(&[]), self.now),
            2 => {
                self.now += Duration::from_millis(number % 2_000);
                self.client.handle_pose(Orientation::default(), self.now);
                self.client.handle_timeout(self.now);
                self.server.handle_timeout(self.now)
            }
            3 => {
                self.client.handle_dropped(number);
                Ok(())
            }
            // What the server says, heard or lost, or turned around.
            4 => self
                .to_client
                .pop_front()
                .map_or(Ok(()), |bytes| self.client.handle_message(&bytes, self.now).map(drop)),
            5 => {
                self.to_client.pop_front();
                Ok(())
            }
            6 => self
                .client
                .poll_transmit()
                .map_or(Ok(()), |bytes| self.server.handle_message(&bytes, self.now)),
            _ => {
                let path = |delivered| PathReading {
                    delivered,
                    outstanding: number % 100_000,
                    min_rtt: Duration::from_millis(number % 500),
                    is_up: step & 32 == 0,
                };
                let paths = [path(number), path(number / 3)];
                let counters = match step < 128 {
                    true => Counters::Paths(&paths),
                    false => Counters::Taken { bytes: ByteCount::new(number), at: self.now },
                };
                let waiting = ByteCount::new(u64::from(step & 64) << (step % 40));
                let traffic = Traffic { counters, waiting };
                self.server.handle_traffic(traffic, self.now);
                Ok(())
            }
        }
    }
}
