//! Interfaces that go and come back.

use std::fmt;
use std::time::Duration;

use crate::ScenarioError;
use crate::document::Table;

/// A time in which a path's interface is not there: out of its socket, out of range, roaming. When it
/// comes back it has another address, so that whatever was connected over it is not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplugged {
    /// When it goes, from the start of the workload.
    pub at: Duration,
    /// How long it is away; zero if only the address changes.
    pub time: Duration,
}

impl Unplugged {
    /// When it comes back, from the start of the workload.
    pub fn until(&self) -> Duration {
        self.at + self.time
    }

    /// Reads `unplugged = [{ at = "10s", for = "3s" }, …]`.
    pub(crate) fn read(table: &mut Table<'_>) -> Result<Vec<Self>, ScenarioError> {
        let Some(list) = table.take("unplugged") else { return Ok(Vec::new()) };
        let mut all: Vec<Self> = Vec::new();
        for item in list.array()? {
            let mut table = item.table()?;
            let at = table.need("at", "at = \"10s\"")?;
            let time = table.need("for", "for = \"3s\"")?.duration()?;
            let one = Self { at: at.duration()?, time };
            table.finish()?;
            if all.last().is_some_and(|before| one.at <= before.at || one.at < before.until()) {
                let message = "comes before the interface is back from the time before; times of \
                               one path rise and do not overlap";
                return Err(at.error(message));
            }
            all.push(one);
        }
        Ok(all)
    }
}

/// As an entry of that list.
impl fmt::Display for Unplugged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = humantime::format_duration;
        write!(f, "{{ at = \"{}\", for = \"{}\" }}", duration(self.at), duration(self.time))
    }
}
