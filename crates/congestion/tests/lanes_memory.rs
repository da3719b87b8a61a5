//! What a bond takes of memory, whatever is sent over it and whatever the other end says.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::atomic::Ordering;

use counting::LIVE;
use weftline_congestion::lane;
use weftline_core::datagram::*;
use weftline_core::limiter::PathLimiter;
use weftline_core::policy::Role;
use weftline_core::{Instant, rng::Rng};

#[allow(unsafe_code, reason = "an allocator is unsafe; this one passes on what it is asked")]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicI64, Ordering};

    /// Bytes that are allocated.
    pub(crate) static LIVE: AtomicI64 = AtomicI64::new(0);

    struct Counting;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    // SAFETY: the system's allocator does the work.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe { System.dealloc(at, layout) }
        }
    }
}

fn packet(flow: u32, length: usize) -> Vec<u8> {
    let mut packet = vec![0; length];
    (packet[0], packet[9]) = (0x45, 17);
    packet[16..20].copy_from_slice(&flow.to_be_bytes());
    packet
}

/// A bulk packet with its place in its flow: of these nothing comes out while packet 0 is missing.
fn bulk(number: u64, flow: u16, place: u16, packet: &[u8]) -> Vec<u8> {
    let (flow, place) = (flow.to_be_bytes(), place.to_be_bytes());
    let placed = [packet, &flow, &place, &[0xff]].concat();
    let mut frame = Vec::new();
    Frame::Data { number, class: Class::Bulk, packet: &placed }.encode(&mut frame);
    frame
}

/// Its peer has all the lanes there can be, lets them come up, tells of what it likes and goes away, while
/// the internet sends it few flows with long packets, many with short ones, and all there are. What the
/// peer sends is never the packet that is due.
#[test]
fn a_bond_takes_no_more_memory_than_is_promised_for_it() {
    let before = LIVE.load(Ordering::Relaxed);
    let config = BondConfig {
        is_initiator: false,
        mtu: 1400,
        mark: |_| false,
        congestion: lane::bbr,
        calls: CallRules::default(),
    };
    let mut bond = Bond::new(config, Instant::ZERO);
    let lanes = (0..MAX_LANES as u8).map(LaneId);
    lanes
        .clone()
        .for_each(|id| assert!(bond.add_lane(id, (Role::Active, Carrier::Udp), Instant::ZERO)));
    lanes.clone().for_each(|id| bond.set_limiter(id, Some(PathLimiter::default())));
    let mut rng = Rng::stream(7, "packets");
    let (mut most, mut out, mut sent) = (0, Vec::new(), [0_u64; MAX_LANES]);
    let (mut number, mut places, mut came, mut refused) = (0, [0_u16; 64], [0_u64; 2], 0);
    for ms in 0..20_000_u64 {
        let now = Instant::from_millis(ms);
        let (flows, length) = match ms / 1000 % 4 {
            0 => (4, 1400),
            1 => (1 << 30, 60),
            2 => (1000, 1400),
            _ => (1 << 16, 300),
        };
        for _ in 0..40 {
            bond.handle_packet(&packet(rng.below(flows) as u32, length), now);
        }
        bond.handle_timeout(now);
        while let Some(transmit) = bond.poll_transmit(now, &mut out) {
            let place = usize::from(transmit.lane.0);
            sent[place] = transmit.sequence + 1;
            if let Ok(Frame::Ping { id, .. }) = Frame::decode(&out) {
                let mut pong = Vec::new();
                Frame::Pong { id }.encode(&mut pong);
                bond.handle_frame(transmit.lane, 2 * ms, &pong, now).unwrap();
            }
            out.clear();
        }
        // Each second packet is told of, on one lane after the other, half of the time.
        let place = (ms % MAX_LANES as u64) as usize;
        if ms / 700 % 2 == 0 && sent[place] > 40 {
            let end = sent[place];
            let ranges = (0..20).map(|n| end - 2 * n - 1..end - 2 * n).collect();
            let feedback = Feedback { delay: Default::default(), arrived_us: 1000 * ms, ranges };
            let mut frame = Vec::new();
            Frame::Feedback(feedback).encode(&mut frame);
            bond.handle_frame(LaneId(place as u8), 2 * ms + 1, &frame, now).unwrap();
        }
        // More than can wait for 200 ms: a few flows, then as many as there can be; long packets, short ones,
        // and ones that are longer than any may be.
        for n in 0..if ms < 8_000 { 120_u64 } else { 0 } {
            let (flows, length) = match ms / 500 % 4 {
                0 => (4, 1400),
                1 => (64, 1400),
                2 => (64, 28),
                _ => (64, if n % 16 == 0 { 60_000 } else { 1400 }),
            };
            let flow = rng.below(flows) as u16;
            let place = &mut places[usize::from(flow)];
            *place = place.wrapping_add(2);
            let frame = bulk(number, flow + 1, *place, &packet(9, length));
            let lane = LaneId((number % MAX_LANES as u64) as u8);
            number += 1;
            came[0] += 1;
            match bond.handle_frame(lane, 1_000_000 + number, &frame, now) {
                Ok(packet) => came[1] += u64::from(packet.is_some()),
                Err(_) => refused += u64::from(length > 1400),
            }
            while bond.poll_packet().is_some() {
                came[1] += 1;
            }
            most = most.max(LIVE.load(Ordering::Relaxed) - before);
        }
        if ms % 3000 == 2999 {
            bond.remove_lane(LaneId(place as u8), now);
            bond.add_lane(LaneId(place as u8), (Role::Active, Carrier::Udp), now);
        }
        most = most.max(LIVE.load(Ordering::Relaxed) - before);
    }
    assert!(most < MAX_MEMORY as i64, "{most} bytes");
    assert!(most > 7 << 20, "it was full: {most} bytes");
    assert!(refused > 100 && came[1] > came[0] / 2, "{refused} were refused, {came:?}");
    let lanes = bond.lanes();
    assert!(lanes.iter().any(|lane| lane.overflowed > 0), "{lanes:?}");
}
