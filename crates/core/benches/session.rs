//! What a session costs per byte, without any network: two sessions move a stream over two
//! subflows in memory, beside the copies that no transport avoids (into the send buffer, into the
//! socket, into the reassembly buffer).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use divan::counter::BytesCount;
use weftline_core::path::{PathId, PathInfo, SubflowId};
use weftline_core::scheduler::Entry;
use weftline_core::{Bitrate, Instant, Session, SessionConfig};

const TOTAL: usize = 64 << 20;
const ROOM: u64 = 256 << 10;

fn main() {
    divan::main();
}

#[divan::bench(args = ["fbdt", "min-rtt", "single"], sample_count = 10)]
fn move_64_mib(bencher: divan::Bencher<'_, '_>, scheduler: &str) {
    let config = SessionConfig {
        scheduler: Entry::find(scheduler).expect("registered"),
        ..SessionConfig::default()
    };
    let block = vec![7; 256 << 10];
    bencher.counter(BytesCount::new(TOTAL)).bench(|| transfer(&config, &block));
}

#[divan::bench(sample_count = 10)]
fn three_copies_of_64_mib(bencher: divan::Bencher<'_, '_>) {
    let from = vec![7_u8; 256 << 10];
    let mut to = vec![0_u8; 256 << 10];
    bencher.counter(BytesCount::new(TOTAL)).bench_local(|| {
        for _ in 0..3 * TOTAL / from.len() {
            divan::black_box(&mut to).copy_from_slice(divan::black_box(&from));
        }
    });
}

fn transfer(config: &SessionConfig, block: &[u8]) {
    let mut now = Instant::ZERO;
    let mut ends = [Session::new(config, now), Session::new(config, now)];
    let mut inputs = [BytesMut::new(), BytesMut::new()];
    for end in &mut ends {
        for id in 0..2 {
            end.subflow_up(SubflowId(id), PathId(id), now).expect("a number of its own");
        }
    }
    let (mut written, mut read) = (0, 0);
    while read < TOTAL {
        now += Duration::from_micros(100);
        while written < TOTAL {
            let n = ends[0]
                .write(&block[..block.len().min(TOTAL - written)], now)
                .expect("not finished yet");
            written += n;
            if n == 0 {
                break;
            }
        }
        for from in 0..2 {
            for id in 0..2 {
                let subflow = SubflowId(id);
                let info = PathInfo {
                    srtt: Duration::from_millis(4),
                    delivery_rate: Bitrate::mbps(10_000),
                    ..PathInfo::default()
                };
                ends[from].handle_path_info(subflow, info);
                let mut out = VecDeque::new();
                ends[from].handle_room(subflow, ROOM);
                let _ = ends[from].poll_transmit(subflow, &mut out, now);
                let input = &mut inputs[1 - from];
                out.iter().for_each(|frame| input.extend_from_slice(frame));
                ends[1 - from].handle_input(subflow, input, now).expect("an honest peer");
            }
            ends[from].handle_timeout(now);
            while ends[from].poll_event().is_some() || ends[from].poll_wake().is_some() {}
        }
        while !ends[1].read_chunk().is_empty() {
            let n = ends[1].read_chunk().len();
            ends[1].consume(n, now).expect("that much was there");
            read += n;
        }
    }
}
