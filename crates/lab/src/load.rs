//! How much processor other programs take while a run is measured: an emulator in time is not yet
//! a machine that was quiet.

use std::time::{Duration, Instant};

/// A share of a core below which nobody needs to be told.
const NOTABLE: f64 = 0.2;

/// Measures the machine's processor time from its making on.
#[derive(Debug)]
pub(crate) struct LoadMeter {
    since: Instant,
    busy: Option<Duration>,
}

impl LoadMeter {
    /// Starts measuring.
    pub(crate) fn start() -> Self {
        Self { since: Instant::now(), busy: busy() }
    }

    /// How many cores' worth of processor time went elsewhere than to the run, which used `own`;
    /// `None` if that is little, or the system does not say.
    pub(crate) fn others(&self, own: Duration) -> Option<f64> {
        let busy = busy()?.checked_sub(self.busy?)?;
        let others = busy.saturating_sub(own).as_secs_f64() / self.since.elapsed().as_secs_f64();
        (others >= NOTABLE).then_some(others)
    }
}

/// Time all cores were busy since the machine started.
fn busy() -> Option<Duration> {
    busy_in(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, in
/// ticks of which a second has 100 on every architecture that Linux runs on today.
fn busy_in(stat: &str) -> Option<Duration> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Option<Vec<u64>> =
        line.split_whitespace().take(8).map(|word| word.parse().ok()).collect();
    let ticks = ticks.filter(|ticks| ticks.len() == 8)?;
    let busy: u64 = ticks.iter().sum::<u64>() - ticks[3] - ticks[4];
    Some(Duration::from_millis(busy * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_does_not_count() {
        let stat = "cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(busy_in(stat), Some(Duration::from_millis(1710)));
        for bad in ["", "cpu 1 2", "cpu  a b c d e f g h", "intr 5"] {
            assert_eq!(busy_in(bad), None, "{bad}");
        }
    }
}
