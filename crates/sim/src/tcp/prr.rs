//! Proportional rate reduction (RFC 9937): how much may be sent during a recovery.

/// The state of one recovery. All numbers are segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// In flight when recovery began (RecoverFS).
    flight: u64,
    ssthresh: u64,
    delivered: u64,
    out: u64,
    window: u64,
}

impl Prr {
    /// A recovery begins with `flight` segments outstanding.
    pub(super) fn new(flight: u64, ssthresh: u64) -> Self {
        // Of what is in flight by the count that knows of no loss; at least one, it divides.
        Self { flight: flight.max(1), ssthresh, delivered: 0, out: 0, window: flight }
    }

    /// Takes an acknowledgement of `delivered` segments that left `pipe` in flight; `safe` if it
    /// moved SND.UNA and marked nothing lost.
    pub(super) fn on_ack(&mut self, delivered: u64, pipe: u64, safe: bool) {
        self.delivered += delivered;
        let send = if pipe > self.ssthresh {
            (self.delivered * self.ssthresh).div_ceil(self.flight).saturating_sub(self.out)
        } else {
            let most = self.delivered.saturating_sub(self.out).max(delivered);
            (most + u64::from(safe)).min(self.ssthresh - pipe)
        };
        // The first retransmission goes out whatever the count says.
        let send = if self.out == 0 { send.max(1) } else { send };
        self.window = pipe + send;
    }

    /// Notes a segment sent.
    pub(super) fn on_sent(&mut self) {
        self.out += 1;
    }

    /// The window during the recovery.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends through a recovery of 100 segments with one loss and gives what was sent per
    /// acknowledgement.
    fn recover(ssthresh: u64) -> (Vec<u64>, u64) {
        let mut prr = Prr::new(100, ssthresh);
        let (mut pipe, mut sent) = (99, Vec::new());
        for _ in 0..99 {
            pipe -= 1;
            prr.on_ack(1, pipe, false);
            let mut n = 0;
            while pipe < prr.window() {
                pipe += 1;
                n += 1;
                prr.on_sent();
            }
            sent.push(n);
        }
        (sent, pipe)
    }

    #[test]
    fn reno_sends_one_for_two() {
        let (sent, pipe) = recover(50);
        // Down to the threshold; there each acknowledgement lets one go.
        assert!(sent[1..95].windows(2).all(|pair| pair.iter().sum::<u64>() == 1), "{sent:?}");
        assert!(pipe.abs_diff(50) <= 1, "{pipe}");
    }

    #[test]
    fn cubic_sends_seven_for_ten() {
        let (sent, pipe) = recover(70);
        for ten in sent[10..90].chunks(10) {
            assert_eq!(ten.iter().sum::<u64>(), 7, "{sent:?}");
        }
        assert!(pipe.abs_diff(70) <= 1, "{pipe}");
    }
}
