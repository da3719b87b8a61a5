//! The machine's clocks that tokio's is not.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// By which times of samples and events are told.
pub(crate) type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// The time since the machine began, with that in which it slept (`clock_gettime(2)`): a page takes what
/// passes on it for what passes in the day.
pub(crate) fn since_boot() -> Duration {
    read(ClockId::Boottime)
}

/// What this thread has had of a processor: what passes while others have it is not in it.
pub(crate) fn of_thread() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Linux sets none of these to before 0.
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/uptime` is by the clock that goes on in sleep (`proc_uptime(5)`), in hundredths of a second.
    #[test]
    fn the_time_since_boot_is_the_machines_uptime() {
        let before = since_boot();
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let after = since_boot();
        let uptime = Duration::from_secs_f64(uptime.split(' ').next().unwrap().parse().unwrap());
        assert!(uptime <= after, "{before:?} {uptime:?} {after:?}");
        assert!(uptime + Duration::from_millis(20) >= before, "{before:?} {uptime:?} {after:?}");
    }
}
