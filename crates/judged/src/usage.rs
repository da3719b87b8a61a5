//! Processor time, as the kernel counts it.

use std::time::Duration;

/// Processor time since the machine started, of all cores together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// That programs spent outside the kernel.
    pub(crate) programs: Duration,
    /// Of this, what this process and those of its children spent that have ended.
    pub(crate) own: Duration,
    /// That the host of a virtual machine took.
    pub(crate) stolen: Duration,
}

impl Usage {
    /// What it is now; `None` where the system does not say.
    pub(crate) fn now() -> Option<Self> {
        let read = |path| std::fs::read_to_string(path).ok();
        Self::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// Reads the first line of `/proc/stat` (user, nice, system, idle, iowait, irq, softirq, steal)
    /// and `/proc/self/stat` (utime and cutime are its fields 14 and 16), in ticks of which a second
    /// has 100 on every architecture that Linux runs on today.
    fn parse(machine: &str, process: &str) -> Option<Self> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let ticks = numbers(line, 8)?;
        // The second field is the program's name in brackets, which may hold blanks.
        let (_, fields) = process.rsplit_once(") ")?;
        let (_, fields) = fields.split_once(' ')?;
        let own = numbers(fields, 13)?;
        let time = |ticks: u64| Duration::from_millis(ticks * 10);
        Some(Self {
            programs: time(ticks[0] + ticks[1]),
            own: time(own[10] + own[12]),
            stolen: time(ticks[7]),
        })
    }
}

/// The first `count` numbers of a text; a negative one is 0.
fn numbers(text: &str, count: usize) -> Option<Vec<u64>> {
    let words = text.split_whitespace().take(count);
    let numbers: Vec<u64> = words
        .map(|word| Some(word.parse::<i64>().ok()?.max(0).unsigned_abs()))
        .collect::<Option<_>>()?;
    (numbers.len() == count).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let machine = "cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        let process = "42 (a ) name) S 1 2 3 0 -1 4194304 10 11 12 13 70 71 30 31 20 0 1 0 99";
        let ms = Duration::from_millis;
        let expected = Usage { programs: ms(1200), own: ms(1000), stolen: ms(80) };
        assert_eq!(Usage::parse(machine, process), Some(expected));
        for bad in ["", "cpu 1 2", "cpu  a b c d e f g h", "intr 5"] {
            assert_eq!(Usage::parse(bad, process), None, "{bad}");
        }
        assert!(Usage::now().is_some(), "this machine has /proc");
    }
}
