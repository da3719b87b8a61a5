//! How much processor time a run lost to others: an emulator in time is not yet a machine that was
//! quiet. Measured on a virtual machine, a host that took 0.13 of two cores cost kernel MPTCP at
//! 2.3 Gb/s an eighth of its goodput, with less than 1 % of packets late.

use std::fmt;
use std::time::{Duration, Instant};

/// Cores. Less than this lost to others changes no figure that can be seen.
const NOTABLE: f64 = 0.05;

/// Measures the machine's processor time from its making on.
#[derive(Debug)]
pub(crate) struct LoadMeter {
    since: Instant,
    before: Option<Busy>,
}

/// Processor time since the machine started, of all cores together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Busy {
    /// Spent here.
    here: Duration,
    /// Taken by the host of a virtual machine.
    stolen: Duration,
}

/// What a run did not get, in cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    programs: f64,
    host: f64,
}

impl LoadMeter {
    /// Starts measuring.
    pub(crate) fn start() -> Self {
        Self { since: Instant::now(), before: busy() }
    }

    /// What went elsewhere than to the run, which used `own`; `None` if that is little, or the
    /// system does not say.
    pub(crate) fn lost(&self, own: Duration) -> Option<Lost> {
        let (before, after) = (self.before?, busy()?);
        let elapsed = self.since.elapsed().as_secs_f64();
        let spent = after.here.saturating_sub(before.here).saturating_sub(own);
        let stolen = after.stolen.saturating_sub(before.stolen);
        let lost =
            Lost { programs: spent.as_secs_f64() / elapsed, host: stolen.as_secs_f64() / elapsed };
        (lost.programs.max(lost.host) >= NOTABLE).then_some(lost)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, host } = self;
        write!(f, "not a quiet machine: other programs took {programs:.2} cores, ")?;
        write!(f, "the host {host:.2}")
    }
}

fn busy() -> Option<Busy> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, in
/// ticks of which a second has 100 on every architecture that Linux runs on today.
fn parse(stat: &str) -> Option<Busy> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let words = line.split_whitespace().take(8);
    let ticks: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks[..] else { return None };
    let time = |ticks: u64| Duration::from_millis(ticks * 10);
    Some(Busy { here: time(user + nice + system + irq + softirq), stolen: time(steal) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_does_not_count() {
        let stat = "cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        let here = Duration::from_millis(1630);
        assert_eq!(parse(stat), Some(Busy { here, stolen: Duration::from_millis(80) }));
        for bad in ["", "cpu 1 2", "cpu  a b c d e f g h", "intr 5"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
