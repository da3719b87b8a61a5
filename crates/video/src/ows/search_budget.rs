//! The search budget: how much work a scheme may do ("controllable computation time" without a clock).

use std::fmt;

/// Work between two questions to the driver, so that asking costs nothing.
const ASK_EVERY: u64 = 4_096;

/// A search budget. One unit of work is one tile looked up in the delivery model: a few nanoseconds for a
/// transport that fills in order, some tens for one with islands.
///
/// The result depends on the units alone, so it is the same on every machine; a deadline closure
/// gives that up for a promise about time.
pub struct SearchBudget<'a> {
    left: u64,
    spent: u64,
    asked: u64,
    stop: Option<&'a mut dyn FnMut() -> bool>,
}

impl SearchBudget<'_> {
    /// Several times what the search of 24 tiles takes. That of 96 tiles would gain some tenths of
    /// a percent by more.
    pub const DEFAULT_UNITS: u64 = 600_000;

    /// At most so many units. With zero, the first plan that is found is the result.
    pub fn units(units: u64) -> Self {
        Self { left: units, spent: 0, asked: 0, stop: None }
    }

    /// What was done so far.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Notes work that was done; whether there may be more.
    pub(super) fn spend(&mut self, units: usize) -> bool {
        let units = units as u64;
        self.spent += units;
        self.left = self.left.saturating_sub(units);
        if let Some(stop) = self.stop.as_mut()
            && self.spent - self.asked >= ASK_EVERY
        {
            self.asked = self.spent;
            if stop() {
                self.left = 0;
            }
        }
        self.left > 0
    }

    /// Whether there may be more work.
    pub(super) fn lasts(&self) -> bool {
        self.left > 0
    }
}

impl<'a> SearchBudget<'a> {
    /// At most the default number of units, and no more once `stop` says so. The closure is asked
    /// now and then; a driver compares its clock with a deadline there.
    pub fn until(stop: &'a mut dyn FnMut() -> bool) -> Self {
        Self { stop: Some(stop), ..SearchBudget::units(Self::DEFAULT_UNITS) }
    }
}

impl Default for SearchBudget<'_> {
    fn default() -> Self {
        Self::units(Self::DEFAULT_UNITS)
    }
}

impl fmt::Debug for SearchBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchBudget")
            .field("left", &self.left)
            .field("spent", &self.spent)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_run_out() {
        let mut search_budget = SearchBudget::units(10);
        assert!(search_budget.spend(9));
        assert!(!search_budget.spend(1));
        assert_eq!(search_budget.spent(), 10);
    }

    #[test]
    fn the_driver_is_asked_now_and_then_and_its_word_is_final() {
        let mut asked = 0;
        let mut stop = || {
            asked += 1;
            asked == 2
        };
        let mut search_budget = SearchBudget::until(&mut stop);
        let rounds = (0..100_000).take_while(|_| search_budget.spend(1)).count();
        assert_eq!(rounds, 2 * ASK_EVERY as usize - 1);
        assert!(!search_budget.lasts());
        assert_eq!(asked, 2);
    }
}
