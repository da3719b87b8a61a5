//! The least round trip of late.

use std::time::Duration;

use crate::Instant;

/// Each of three spans: a round trip is remembered for ten seconds at least, as BBR does.
const SPAN: Duration = Duration::from_secs(5);

/// The least of the last ten to fifteen seconds in which anything was measured. A longer way than
/// before, as after a change of the network, is known for what it is after that.
#[derive(Debug)]
pub(super) struct LeastRtt {
    spans: [Duration; 3],
    since: Instant,
}

impl Default for LeastRtt {
    fn default() -> Self {
        Self { spans: [Duration::MAX; 3], since: Instant::ZERO }
    }
}

impl LeastRtt {
    pub(super) fn note(&mut self, rtt: Duration, now: Instant) {
        if now.since(self.since) >= SPAN {
            self.spans.rotate_right(1);
            (self.spans[0], self.since) = (rtt, now);
        }
        self.spans[0] = self.spans[0].min(rtt);
    }

    /// The least; `Duration::MAX` if none was measured.
    pub(super) fn get(&self) -> Duration {
        self.spans.into_iter().min().expect("there are three")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_forgotten_after_ten_seconds() {
        let mut least = LeastRtt::default();
        assert_eq!(least.get(), Duration::MAX);
        let ms = Duration::from_millis;
        let mut forgotten = None;
        for n in 0..300 {
            let now = Instant::from_millis(3_000 + 100 * n);
            least.note(ms(if n < 10 { 20 } else { 80 + n % 7 }), now);
            if least.get() > ms(20) {
                forgotten.get_or_insert(n);
            }
        }
        assert!((110..170).contains(&forgotten.unwrap()), "{forgotten:?}");
        assert_eq!(least.get(), ms(80));
    }
}
