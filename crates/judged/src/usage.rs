//! Processor time, as the kernel counts it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Processor time since the machine started, of all cores together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// That programs spent outside the kernel.
    pub(crate) programs: Duration,
    /// Of this, what this process and its descendants spent.
    pub(crate) own: Duration,
    /// That the host of a virtual machine took.
    pub(crate) stolen: Duration,
}

impl Usage {
    /// What it is now; `None` where the system does not say.
    pub(crate) fn now() -> Option<Self> {
        let (programs, stolen) = machine(&fs::read_to_string("/proc/stat").ok()?)?;
        let entries = fs::read_dir("/proc").ok()?.flatten();
        let stats = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, process(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        });
        let own = tree(std::process::id(), &stats.collect());
        Some(Self { programs: time(programs), own: time(own), stolen: time(stolen) })
    }
}

/// Ticks, of which a second has 100 on every architecture that Linux runs on today.
fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 10)
}

/// The first line of `/proc/stat` (user, nice, system, idle, iowait, irq, softirq, steal): ticks of
/// programs, and those that were stolen.
fn machine(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let words = line.split_whitespace().take(8);
    let ticks: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, _, _, _, _, _, stolen] = ticks[..] else { return None };
    Some((user + nice, stolen))
}

/// A process: its parent, and the ticks outside the kernel of itself and of its children that have
/// ended (utime and cutime).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    ticks: u64,
}

/// Reads `/proc/<pid>/stat`, whose second field is the program's name in brackets and may hold
/// blanks. After it come the state, the parent, and as the 12th and 14th utime and cutime.
fn process(stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let parent = u32::try_from(number(1)?).ok()?;
    Some(Process { parent, ticks: number(11)? + number(13)? })
}

/// The ticks of `root` and all its descendants.
fn tree(root: u32, processes: &BTreeMap<u32, Process>) -> u64 {
    let is_below = |mut pid: u32| {
        // No tree of processes is deeper than there are processes.
        for _ in 0..processes.len() {
            if pid == root {
                return true;
            }
            let Some(process) = processes.get(&pid) else { return false };
            pid = process.parent;
        }
        false
    };
    processes.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, process)| process.ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let stat = "cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(machine(stat), Some((120, 8)));
        for bad in ["", "cpu 1 2", "cpu  a b c d e f g h", "intr 5"] {
            assert_eq!(machine(bad), None, "{bad}");
        }
        let stat = "42 (a ) name) S 1 2 3 0 -1 4194304 10 11 12 13 70 71 30 31 20 0 1 0 99";
        assert_eq!(process(stat), Some(Process { parent: 1, ticks: 100 }));
        assert_eq!(process("42 (a) S 1"), None);
        assert!(Usage::now().is_some(), "this machine has /proc");
    }

    #[test]
    fn descendants_count_and_others_do_not() {
        let process = |parent, ticks| Process { parent, ticks };
        let all = [(1, process(0, 1)), (5, process(1, 10)), (6, process(5, 100))];
        let all = all.into_iter().chain([(7, process(6, 1000)), (8, process(1, 10_000))]);
        assert_eq!(tree(5, &all.collect()), 1110);
    }
}
