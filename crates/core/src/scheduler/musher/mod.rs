//! `musher` (Saha et al., MobiCom 2019): two paths get shares of the segments in a ratio that a
//! search adapts to the rates, for WiGig beside WiFi.
//!
//! The stream is cut into rounds of 100 segments, r of them for the first path and 100 − r for the
//! second. A path that has used its part waits until the other has used its own, room or not; then
//! the next round begins. Constants and the order of steps are those of the published kernel
//! module; where it steps on after a first gain as long as the rate does not fall, here every step
//! must gain, as the paper says.
//!
//! A connection begins with the ratio that the last one of its [`RatioMemory`] had, as the module
//! keeps its ratio in a sysctl, and searches as soon as its windows have grown: the module waits for
//! a change, which links of steady rates never show.
//!
//! A connection needs exactly two paths to begin with. With one path stalled or gone, the other
//! carries everything.

mod memory;
mod search;
#[cfg(test)]
mod tests;

pub use self::memory::RatioMemory;
use super::Entry;
use super::choice::{Choice, SEGMENT};
use super::entry::CHUNK;
use super::picking::{Picking, Rule};
use crate::path::{PathId, SubflowId};

pub(super) const ENTRY: Entry = Entry {
    name: "musher",
    about: "segments in a ratio between exactly two paths, searched for at run time (MuSher)",
    make: |config| Box::new(Picking::new(Musher::new(config.ratio.clone()))),
    chunk: CHUNK,
    paths: Some(2),
    by_segment: true,
    simulator_only: false,
    settings: &[],
    rules: &[],
};

/// Segments in a round: `num_segments` of the module.
const ROUND: u64 = 100;

#[derive(Debug)]
struct Musher {
    /// The host's ratio, and the search for it.
    memory: RatioMemory,
    /// The paths of the first and the second part, lowest number first.
    paths: Option<[PathId; 2]>,
    /// Bytes of the round left to each. A chunk may overdraw its part; the next rounds pay.
    left: [i64; 2],
    /// The subflows of the two paths at the last pick.
    subflows: Option<[SubflowId; 2]>,
    /// What their sockets held then, and what was given to them since, in bytes.
    held: u64,
    given: u64,
}

impl Musher {
    fn new(memory: RatioMemory) -> Self {
        Self { memory, paths: None, left: [0; 2], subflows: None, held: 0, given: 0 }
    }

    /// The two flows: the usable subflows of the two lowest paths, the latest of each. A path that
    /// has used up its cap stays: the search finds its share.
    fn flows(choice: Choice<'_>) -> Option<[usize; 2]> {
        let path = |index: usize| choice.subflow(index).path();
        let lowest = choice.usable().map(path).min()?;
        let second = choice.usable().map(path).filter(|&path| path != lowest).min()?;
        let on = |wanted: PathId| {
            let of_path = choice.usable().filter(|&index| path(index) == wanted);
            of_path.max_by_key(|&index| choice.subflow(index).id())
        };
        Some([on(lowest)?, on(second)?])
    }

    /// Tells the search what the flows have delivered; the ratio.
    fn look(&mut self, choice: Choice<'_>, flows: [usize; 2]) -> u64 {
        let held = flows.iter().map(|&index| choice.subflow(index).queued()).sum();
        let subflows = Some(flows.map(|index| choice.subflow(index).id()));
        let mut delivered = (self.held + self.given).saturating_sub(held);
        if self.subflows != subflows {
            // What others had in their sockets is not known to be delivered.
            (self.subflows, delivered) = (subflows, 0);
        }
        let mut search = self.memory.search();
        search.look(delivered, (held, self.held), choice.view.now);
        (self.held, self.given) = (held, 0);
        search.ratio()
    }

    /// Begins a round once both parts are used.
    fn refill(&mut self, ratio: u64) {
        while self.left.iter().all(|&left| left <= 0) {
            self.left[0] += (ratio * SEGMENT).cast_signed();
            self.left[1] += ((ROUND - ratio) * SEGMENT).cast_signed();
        }
    }
}

impl Drop for Musher {
    fn drop(&mut self) {
        self.memory.search().end(self.held);
    }
}

impl Rule for Musher {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        let Some(flows) = Self::flows(choice) else {
            self.memory.search().restart();
            return choice.lowest_rtt();
        };
        let paths = flows.map(|index| choice.subflow(index).path());
        if self.paths != Some(paths) {
            self.paths = Some(paths);
            self.left = [0; 2];
            self.memory.search().begin();
        }
        let ratio = self.look(choice, flows);
        self.refill(ratio);
        let [first, second] = flows;
        Some(match (self.left[0] > 0, self.left[1] > 0) {
            (true, true) if !choice.has_room(first) => second,
            (true, _) => first,
            _ => second,
        })
    }

    fn sent(&mut self, id: SubflowId, bytes: u64) {
        let part = self.subflows.and_then(|ids| ids.iter().position(|&flow| flow == id));
        if let Some(part) = part {
            self.given += bytes;
            self.left[part] -= bytes.cast_signed();
        }
    }
}
