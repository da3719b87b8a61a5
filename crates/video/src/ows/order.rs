//! The order: which tile is sent when, for tiles whose rungs are settled.
//!
//! A tile is worth its gain per byte (Smith's rule, 1956, which is optimal when each byte's chance
//! falls linearly). That order is the start; an insertion search against the delivery model then
//! moves one tile at a time to where the expected gain is largest, until no move helps.

use super::delivery::DeadlineModel;
use super::search_budget::SearchBudget;

/// Gains closer than this share of their sum are the same: the search must not chase rounding.
pub(super) const SAME: f64 = 1e-12;

/// A tile to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    pub(super) tile: usize,
    /// Bytes: a whole number.
    pub(super) size: f64,
    /// What its arrival gains against its concealment, weighted. Negative if the concealment is
    /// better.
    pub(super) gain: f64,
}

impl Slot {
    /// Gain per byte.
    pub(super) fn density(&self) -> f64 {
        self.gain / self.size
    }
}

/// The expected gain of sending `slots` in this order.
pub(super) fn expected_gain(
    slots: impl IntoIterator<Item = Slot>,
    deadlines: &DeadlineModel,
) -> f64 {
    let mut start = 0.0;
    let gains = slots.into_iter().map(|slot| {
        let from = start;
        start += slot.size;
        slot.gain * deadlines.on_time(from, start)
    });
    gains.sum()
}

/// Orders `slots` by gain per byte: each, the best first, at that end of the GoP where it is the
/// likelier to be there in time. Transports without islands have all at the front.
pub(super) fn arrange(slots: &mut [Slot], deadlines: &DeadlineModel) {
    slots.sort_by(|a, b| b.density().total_cmp(&a.density()).then(a.tile.cmp(&b.tile)));
    let total: f64 = slots.iter().map(|slot| slot.size).sum();
    let (mut front, mut back) = (0.0, total);
    let mut at_back: Vec<Slot> = Vec::new();
    let mut at_front: Vec<Slot> = Vec::with_capacity(slots.len());
    for slot in slots.iter() {
        let forward = deadlines.on_time(front, front + slot.size);
        if deadlines.on_time(back - slot.size, back) > forward {
            back -= slot.size;
            at_back.push(*slot);
        } else {
            front += slot.size;
            at_front.push(*slot);
        }
    }
    let all = at_front.into_iter().chain(at_back.into_iter().rev());
    for (place, slot) in slots.iter_mut().zip(all) {
        *place = slot;
    }
}

/// Moves one tile at a time to its best place until no move gains, or the budget is spent. Never
/// makes the order worse.
pub(super) fn insertion_search(
    slots: &mut [Slot],
    deadlines: &DeadlineModel,
    search_budget: &mut SearchBudget<'_>,
) {
    let mut line = Line::new(slots, deadlines);
    loop {
        let mut moved = false;
        let tiles: Vec<usize> = line.slots.iter().map(|slot| slot.tile).collect();
        for tile in tiles {
            let at = line.slots.iter().position(|slot| slot.tile == tile);
            let at = at.expect("a move keeps all tiles");
            let (gained, to) = line.best_move(at);
            if gained > line.least_gain {
                line.shift(at, to);
                moved = true;
            }
            if !search_budget.spend(2 * line.slots.len()) {
                return;
            }
        }
        if !moved {
            return;
        }
    }
}

/// Slots in order, with where each begins and what it is expected to gain there.
struct Line<'a> {
    slots: &'a mut [Slot],
    deadlines: &'a DeadlineModel,
    starts: Vec<f64>,
    values: Vec<f64>,
    least_gain: f64,
}

impl<'a> Line<'a> {
    fn new(slots: &'a mut [Slot], deadlines: &'a DeadlineModel) -> Self {
        let count = slots.len();
        let least_gain = SAME * slots.iter().map(|slot| slot.gain.abs()).sum::<f64>();
        let (starts, values) = (vec![0.0; count], vec![0.0; count]);
        let mut line = Self { slots, deadlines, starts, values, least_gain };
        line.refresh(0, count);
        line
    }

    fn value(&self, slot: &Slot, start: f64) -> f64 {
        slot.gain * self.deadlines.on_time(start, start + slot.size)
    }

    /// Starts and values of the slots from `from` to before `to`.
    fn refresh(&mut self, from: usize, to: usize) {
        let mut start = match from.checked_sub(1) {
            Some(before) => self.starts[before] + self.slots[before].size,
            None => 0.0,
        };
        for index in from..to {
            self.starts[index] = start;
            self.values[index] = self.value(&self.slots[index], start);
            start += self.slots[index].size;
        }
    }

    /// The place where the slot at `at` adds most, and how much more than now.
    fn best_move(&self, at: usize) -> (f64, usize) {
        let me = self.slots[at];
        let mut best = (0.0, at);
        // The others move by my size as I pass them.
        let mut others = -self.values[at];
        for other in at + 1..self.slots.len() {
            let slot = &self.slots[other];
            others += self.value(slot, self.starts[other] - me.size) - self.values[other];
            let gained = others + self.value(&me, self.starts[other] + slot.size - me.size);
            if gained > best.0 {
                best = (gained, other);
            }
        }
        others = -self.values[at];
        for other in (0..at).rev() {
            let slot = &self.slots[other];
            others += self.value(slot, self.starts[other] + me.size) - self.values[other];
            let gained = others + self.value(&me, self.starts[other]);
            if gained > best.0 {
                best = (gained, other);
            }
        }
        best
    }

    fn shift(&mut self, at: usize, to: usize) {
        if at < to {
            self.slots[at..=to].rotate_left(1);
        } else {
            self.slots[to..=at].rotate_right(1);
        }
        self.refresh(at.min(to), at.max(to) + 1);
    }
}
