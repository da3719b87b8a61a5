//! How large a socket's receive buffer is: Linux's dynamic right-sizing (`tcp_rcv_space_adjust`;
//! Fisk and Feng, 2001).

use weftline_core::ByteCount;

/// The buffer of a new socket (Linux, the middle number of `tcp_rmem`).
const FIRST_BYTES: u64 = 128 << 10;
/// The part of a buffer that is window; the rest is what its packets cost beside their payload
/// (Linux, `TCP_DEFAULT_SCALING_RATIO`; `tcp_adv_win_scale` of 1).
const PARTS: u64 = 2;
/// What the application is taken to have read in the round trip before the first, in segments
/// (Linux, `TCP_INIT_CWND`).
const FIRST_SEGMENTS: u64 = 10;
/// Segments that a window has room for beside twice what was read (Linux, `tcp_rcv_space_adjust`).
const CUSHION: u64 = 16;

/// A receive buffer that grows with what the application reads in a round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveBuffer {
    mss: u64,
    bytes: u64,
    most: u64,
    /// What the application read in the last round trip in which that was more than before.
    read_a_round: u64,
    /// Where it was when the present round trip began, and when that was.
    round: (u64, u64),
}

impl ReceiveBuffer {
    /// A buffer of a new socket that may grow to `most` bytes; segments carry `mss`.
    pub(crate) fn new(most: u64, mss: u64) -> Self {
        Self {
            mss,
            bytes: FIRST_BYTES.min(most),
            most,
            read_a_round: FIRST_SEGMENTS * mss,
            round: (0, 0),
        }
    }

    /// Received bytes that one which may grow to `most` bytes has room for then.
    pub(crate) const fn most_window(most: u64) -> ByteCount {
        ByteCount::new(most / PARTS)
    }

    /// One that has room for `window` bytes and keeps its size.
    #[cfg(test)]
    pub(crate) fn of_window(window: u64, mss: u64) -> Self {
        let bytes = window * PARTS;
        Self { bytes, most: bytes, ..Self::new(bytes, mss) }
    }

    /// Received bytes that it has room for.
    pub(crate) const fn window(&self) -> u64 {
        self.bytes / PARTS
    }

    /// The application has read up to `read`; the round trip is `rtt_ns` long. The window has room
    /// for twice what was read in one, and for more as that grows: a sender in slow start doubles.
    pub(crate) fn adjust(&mut self, read: u64, rtt_ns: u64, now_ns: u64) {
        let (from, since_ns) = self.round;
        if rtt_ns == 0 || now_ns - since_ns < rtt_ns {
            return;
        }
        self.round = (read, now_ns);
        let copied = read - from;
        if copied <= self.read_a_round {
            return;
        }
        let window = u128::from(2 * copied + CUSHION * self.mss);
        let grown = window * u128::from(copied - self.read_a_round) / u128::from(self.read_a_round);
        let wanted = (window + 2 * grown) * u128::from(PARTS);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        self.bytes = self.bytes.max(wanted.min(self.most));
        self.read_a_round = copied;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::MS;

    #[test]
    fn it_follows_slow_start_and_stops_at_its_most() {
        let mss = 1448;
        let mut buffer = ReceiveBuffer::new(6 << 20, mss);
        assert_eq!(buffer.window(), 64 << 10);
        let (mut read, mut flight) = (0, 10 * mss);
        for round in 1..=20 {
            assert!(flight <= buffer.window(), "round {round} is not held up");
            read += flight;
            buffer.adjust(read, 20 * MS, round * 20 * MS);
            flight = (2 * flight).min(1 << 20);
        }
        assert!((2 << 20..=3 << 20).contains(&buffer.window()), "{}", buffer.window());
        // It does not shrink, and is not asked about parts of a round trip.
        let before = buffer.window();
        buffer.adjust(read + 1, 20 * MS, 500 * MS);
        assert_eq!(buffer.window(), before);
        buffer.adjust(read + (1 << 30), 20 * MS, 519 * MS);
        assert_eq!(buffer.window(), before);
        buffer.adjust(read + (1 << 30), 20 * MS, 520 * MS);
        assert_eq!(buffer.window(), 3 << 20);
    }
}
