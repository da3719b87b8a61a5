//! The oracle: who may ask for the next bytes, decided with what only the simulator knows.
//!
//! A reference for schedulers, not one of them, and no bound. It sees the links: their rates, now and
//! while a segment is served, their queues, delays and present shares of loss, and which segments were
//! lost and are not repaired yet, at once and not a round trip later. The paths are filled like vessels:
//! one gets a segment if that would be there before the faster ones have carried all that waits. It does
//! not see which segments will be lost, has the rules `reinject`, `copy-late` and `copy-last` of
//! `earliest` with their budget, and lives with the same TCP and congestion control as everybody.

use std::time::Duration;

use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount};

use crate::net::Net;

/// What a segment counts on the wire beyond its payload: IP and TCP headers with timestamps.
const HEADERS: u64 = 52;
/// Bytes over which a link's rate is looked at.
const STRETCH: u64 = 64 << 10;
const NS_PER_S: u128 = 1_000_000_000;

/// What a path can do for the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Forecast {
    /// When a segment given to it now would be handed out, in nanoseconds.
    arrives_ns: u64,
    /// The rate at which more would follow, in bytes a second.
    rate: u64,
}

/// Which of the paths may ask while `backlog` bytes wait.
pub(super) fn may_ask(forecasts: &[Option<Forecast>], backlog: u64) -> Vec<bool> {
    let mut order: Vec<_> = (0..forecasts.len()).filter(|&at| forecasts[at].is_some()).collect();
    order.sort_unstable_by_key(|&at| forecasts[at]);
    let mut may = vec![false; forecasts.len()];
    // The faster ones' rates, and the bytes that they would have carried by time 0 at these.
    let (mut rate, mut carried) = (0_u128, 0_u128);
    for at in order {
        let Some(next) = forecasts[at] else { continue };
        let enough = u128::from(backlog) * NS_PER_S + carried;
        if rate > 0 && u128::from(next.arrives_ns) * rate >= enough {
            break;
        }
        may[at] = true;
        rate += u128::from(next.rate);
        carried += u128::from(next.rate) * u128::from(next.arrives_ns);
    }
    may
}

/// What becomes of a segment of `mss` bytes that is written to the server's endpoint `from` now, for
/// the client's endpoint `to`.
pub(super) fn forecast(from: u32, to: u32, mss: u64, net: &mut Net) -> Option<Forecast> {
    let now = net.now_ns();
    let info = net.endpoint(from).info(mss);
    let rtt = nanos(info.srtt).max(nanos(info.min_rtt));
    let place = net.place(from);
    // It leaves when the window has room and what waits before it has been paced out.
    let waiting = info.unsent.as_u64() + mss;
    let short = (info.in_flight.as_u64() + waiting).saturating_sub(info.cwnd.as_u64());
    let for_room = share_of(rtt, short, info.cwnd.as_u64());
    let paced = info.pacing_rate.time_for(ByteCount::new(waiting)).map_or(0, nanos);
    let leaves = now + for_room.max(paced);
    // What is in the socket goes onto the link before it.
    let bytes = waiting + waiting.div_ceil(mss) * HEADERS;
    let wire = &net.wires[place.wire as usize];
    let arrives = wire.arrival_ns(leaves, bytes)?;
    let more = wire.arrival_ns(leaves, bytes + STRETCH)?;
    let loss = wire.loss_share(now);
    let of_link = (u128::from(STRETCH) * NS_PER_S / u128::from((more - arrives).max(1))) as u64;
    let of_window = Bitrate::from_transfer(info.cwnd, Duration::from_nanos(rtt)).as_bps() / 8;
    // Nothing is handed out before what was lost has been repaired: sent again a round trip after
    // it was lost, and later each time that fails.
    let in_order = net.endpoint(to).in_order();
    let hole = net.first_lost(from, in_order).map_or(0, |lost_at| {
        let again = (lost_at + rtt).max(now + (now - lost_at) / 2);
        again + (arrives - leaves)
    });
    let window = (info.in_flight.as_u64() + waiting) as f64 / mss as f64;
    let behind = (loss * window).min(1.0) * rtt as f64;
    let arrives_ns = arrives.max(hole) + behind as u64;
    Some(Forecast { arrives_ns, rate: of_link.min(of_window).max(1) })
}

/// `whole` × `part` ÷ `of`.
fn share_of(whole: u64, part: u64, of: u64) -> u64 {
    if of == 0 { whole } else { (u128::from(whole) * u128::from(part) / u128::from(of)) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_paths_get_what_near_ones_would_carry_later() {
        let path = |ms: u64, rate| Some(Forecast { arrives_ns: ms * 1_000_000, rate });
        let paths = [path(50, 1_000_000), path(10, 1_000_000), None];
        // 40 ms at 1 MB/s are 40 kB.
        assert_eq!(may_ask(&paths, 40_000), [false, true, false]);
        assert_eq!(may_ask(&paths, 40_001), [true, true, false]);
    }
}
