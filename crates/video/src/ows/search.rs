//! `ows`: rates and order searched together, with the best plan so far kept.
//!
//! From several starts (the paper's rates; ours at the budget and at lower quantiles of what the
//! paths may carry), rates and order take turns: the rates are those of least distortion at the
//! weights P·(1 − ε) that the last order gave, the order is searched against the delivery model,
//! and single tiles then change their rung where that lowers the expected loss itself. `fix` is
//! the first plan measured, so the result is never worse.

use super::delivery::DeadlineModel;
use super::operating_points::rungs;
use super::order::{SAME, Slot, arrange, expected_gain, insertion_search};
use super::problem::{Draft, Problem, raster};
use super::rates::allocate;
use super::search_budget::SearchBudget;

/// Rates and order take turns at most so often from one start; two or three times change anything.
const TURNS: usize = 4;
/// Starts below the budget: what the paths carry at least with the probability 1 − q.
const QUANTILES: [f64; 4] = [0.5, 0.25, 0.1, 0.75];
/// Units of search budget per tile that the exchange of rungs between two tiles may take.
const EXCHANGE_UNITS: u64 = 4_000;

/// The plan of least expected loss that is found within the search budget, beginning with `fix`.
pub(super) fn run(
    problem: &Problem<'_>,
    fix: Draft,
    search_budget: &mut SearchBudget<'_>,
) -> Draft {
    let mut search = Search::new(problem);
    let mut paper = search.state(&fix);
    search.keep(&paper);
    if !search_budget.lasts() {
        return fix;
    }
    search.reorder(&mut paper, search_budget);
    // Also where nothing is at stake by what is known: what comes as a surprise should find the
    // tiles in an order of their worth.
    if search.best.as_ref().is_none_or(|best| paper.value >= best.value - search.least_gain) {
        search.best = Some(paper.clone());
    }
    let budget = problem.budget().as_u64();
    let mut starts = vec![budget];
    for share in QUANTILES {
        let start = problem.inputs().throughput.quantile(share).as_u64().min(budget);
        if !starts.contains(&start) {
            starts.push(start);
        }
    }
    let mut states = vec![paper];
    states.extend(starts.into_iter().filter_map(|start| search.alternate(start, search_budget)));
    // The most promising first: the search budget may run out.
    states.sort_by(|a, b| b.value.total_cmp(&a.value));
    states.dedup_by(|a, b| a.rungs == b.rungs && a.slots == b.slots);
    for mut state in states {
        search.settle(&mut state, search_budget);
        search.keep(&state);
    }
    let most = search_budget.spent() + EXCHANGE_UNITS * problem.tiles() as u64;
    while search_budget.lasts()
        && search_budget.spent() < most
        && search.exchange(most, search_budget)
    {}
    search.finish(search_budget)
}

/// The rungs of `fix` in the order of least expected loss that the budget allows to find: never worse than
/// `fix`.
pub(super) fn order(
    problem: &Problem<'_>,
    fix: Draft,
    search_budget: &mut SearchBudget<'_>,
) -> Draft {
    let mut search = Search::new(problem);
    let mut state = search.state(&fix);
    search.reorder(&mut state, search_budget);
    Draft { order: state.slots.iter().map(|slot| slot.tile).collect(), rungs: state.rungs }
}

/// A draft with its worth.
#[derive(Clone, Debug)]
struct State {
    slots: Vec<Slot>,
    rungs: Vec<Option<usize>>,
    bytes: u64,
    value: f64,
}

/// A tile with another rung than now.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// It was not sent, and is now, before the slot of that index.
    Insert(usize, Slot),
    /// It is not sent any more.
    Remove(usize),
    /// It is sent at another rung, in the same place.
    Replace(usize, Slot),
}

struct Search<'a, 'b> {
    problem: &'a Problem<'b>,
    deadlines: DeadlineModel,
    best: Option<State>,
    /// Gains below this are rounding.
    least_gain: f64,
}

impl<'a, 'b> Search<'a, 'b> {
    fn new(problem: &'a Problem<'b>) -> Self {
        let inputs = problem.inputs();
        let scale: f64 =
            problem.visibility().iter().zip(inputs.concealment).map(|(p, m)| p * m).sum();
        let deadlines = DeadlineModel::new(inputs.delivery, inputs.throughput);
        Self { problem, deadlines, best: None, least_gain: SAME * scale }
    }

    fn slot(&self, tile: usize, rung: Option<usize>) -> Slot {
        let (size, gain) = (self.problem.bytes(tile, rung), self.problem.gain(tile, rung));
        Slot { tile, size: size as f64, gain }
    }

    fn state(&mut self, draft: &Draft) -> State {
        let slots: Vec<Slot> =
            draft.order.iter().map(|&tile| self.slot(tile, draft.rungs[tile])).collect();
        let bytes = self.problem.total(draft);
        self.deadlines.set_total(bytes);
        let value = expected_gain(slots.iter().copied(), &self.deadlines);
        State { slots, rungs: draft.rungs.clone(), bytes, value }
    }

    fn keep(&mut self, state: &State) {
        if self.best.as_ref().is_none_or(|best| state.value > best.value + self.least_gain) {
            self.best = Some(state.clone());
        }
    }

    /// Rates and order in turns from the rates that fit `budget`: the best of the turns.
    fn alternate(&mut self, budget: u64, search_budget: &mut SearchBudget<'_>) -> Option<State> {
        let mut weights = self.problem.visibility().to_vec();
        let mut best: Option<State> = None;
        for _ in 0..TURNS {
            if !search_budget.lasts() {
                break;
            }
            let allocation = allocate(self.problem.operating_points(), &weights, budget)?;
            let mut state =
                self.state(&raster(rungs(self.problem.operating_points(), &allocation.chosen)));
            self.reorder(&mut state, search_budget);
            if best.as_ref().is_some_and(|best| state.value <= best.value + self.least_gain) {
                break;
            }
            self.weigh(&state, &mut weights);
            best = Some(state);
        }
        best
    }

    /// Puts the tiles in a good order.
    fn reorder(&mut self, state: &mut State, search_budget: &mut SearchBudget<'_>) {
        self.deadlines.set_total(state.bytes);
        let mut arranged = state.slots.clone();
        arrange(&mut arranged, &self.deadlines);
        // As good is better: sums in another order differ in their last bits.
        let gain = expected_gain(arranged.iter().copied(), &self.deadlines);
        if gain >= state.value - self.least_gain {
            state.slots = arranged;
        }
        insertion_search(&mut state.slots, &self.deadlines, search_budget);
        state.value = expected_gain(state.slots.iter().copied(), &self.deadlines);
    }

    /// Lets single tiles change their rung, and orders them again, until neither gains.
    fn settle(&mut self, state: &mut State, search_budget: &mut SearchBudget<'_>) {
        while search_budget.lasts() && self.change_rungs(state, search_budget) {
            insertion_search(&mut state.slots, &self.deadlines, search_budget);
            state.value = expected_gain(state.slots.iter().copied(), &self.deadlines);
        }
    }

    /// Gives each tile the rung at which the whole is worth most. Whether anything changed. Leaves
    /// the deadline model at the state's total.
    fn change_rungs(&mut self, state: &mut State, search_budget: &mut SearchBudget<'_>) -> bool {
        let mut changed = false;
        for tile in 0..self.problem.tiles() {
            let now = state.rungs[tile];
            let mut best: Option<(f64, Change, Option<usize>)> = None;
            for point in self.problem.operating_points()[tile].all() {
                let least = best.as_ref().map_or(state.value + self.least_gain, |best| best.0);
                if point.rung != now
                    && let Some((value, change)) =
                        self.weigh_rung(state, tile, point.rung, search_budget)
                    && value > least
                {
                    best = Some((value, change, point.rung));
                }
            }
            if let Some((value, change, rung)) = best {
                self.apply(state, tile, rung, value, change);
                changed = true;
            }
            if !search_budget.lasts() {
                break;
            }
        }
        self.deadlines.set_total(state.bytes);
        changed
    }

    /// Gives one tile less so that another can have more than the budget had room for, where the
    /// whole is worth most; then settles. Whether that beat the best state.
    fn exchange(&mut self, most: u64, search_budget: &mut SearchBudget<'_>) -> bool {
        let Some(state) = self.best.clone() else { return false };
        let budget = self.problem.budget().as_u64();
        let mut best: Option<State> = None;
        for (giver, points) in self.problem.operating_points().iter().enumerate() {
            let Some(now) = points.all().iter().position(|c| c.rung == state.rungs[giver]) else {
                continue;
            };
            let fewer = [now.checked_sub(1), now.checked_sub(2), Some(0)];
            for fewer in fewer.into_iter().flatten().filter(|&fewer| fewer < now) {
                let rung = points.all()[fewer].rung;
                let mut poorer = state.clone();
                let Some((value, change)) = self.weigh_rung(&state, giver, rung, search_budget)
                else {
                    continue;
                };
                self.apply(&mut poorer, giver, rung, value, change);
                for (taker, points) in self.problem.operating_points().iter().enumerate() {
                    for point in points.all().iter().rev() {
                        let with = self.bytes_with(&poorer, taker, point.rung);
                        let had_room = with + state.bytes - poorer.bytes <= budget;
                        if taker == giver || had_room {
                            break;
                        }
                        let least = best.as_ref().map_or(state.value, |best| best.value);
                        if let Some((value, change)) =
                            self.weigh_rung(&poorer, taker, point.rung, search_budget)
                            && value > least + self.least_gain
                        {
                            let mut richer = poorer.clone();
                            self.apply(&mut richer, taker, point.rung, value, change);
                            best = Some(richer);
                        }
                    }
                }
            }
            if search_budget.spent() >= most || !search_budget.lasts() {
                break;
            }
        }
        let Some(mut best) = best else { return false };
        self.deadlines.set_total(best.bytes);
        self.reorder(&mut best, search_budget);
        self.settle(&mut best, search_budget);
        self.keep(&best);
        true
    }

    /// What the whole is worth with another rung for `tile`, at its place or, if it was not sent,
    /// at the best of three; `None` if that is above the budget.
    fn weigh_rung(
        &mut self,
        state: &State,
        tile: usize,
        rung: Option<usize>,
        search_budget: &mut SearchBudget<'_>,
    ) -> Option<(f64, Change)> {
        let bytes = self.bytes_with(state, tile, rung);
        if bytes > self.problem.budget().as_u64() {
            return None;
        }
        self.deadlines.set_total(bytes);
        let (slots, slot) = (&state.slots, self.slot(tile, rung));
        let place = slots.iter().position(|slot| slot.tile == tile);
        let changes = match (place, rung) {
            (Some(place), Some(_)) => [Some(Change::Replace(place, slot)), None, None],
            (Some(place), None) => [Some(Change::Remove(place)), None, None],
            (None, _) => {
                let less = |other: &Slot| other.density() < slot.density();
                let near = slots.iter().position(less).unwrap_or(slots.len());
                [slots.len(), near, 0].map(|at| Some(Change::Insert(at, slot)))
            }
        };
        let mut best: Option<(f64, Change)> = None;
        for change in changes.into_iter().flatten() {
            search_budget.spend(slots.len() + 1 + self.deadlines.samples() / 8);
            let value = worth(slots, change, &self.deadlines);
            if best.as_ref().is_none_or(|best| value > best.0) {
                best = Some((value, change));
            }
        }
        best
    }

    fn bytes_with(&self, state: &State, tile: usize, rung: Option<usize>) -> u64 {
        state.bytes - self.problem.bytes(tile, state.rungs[tile]) + self.problem.bytes(tile, rung)
    }

    fn apply(
        &self,
        state: &mut State,
        tile: usize,
        rung: Option<usize>,
        value: f64,
        change: Change,
    ) {
        match change {
            Change::Insert(at, slot) => state.slots.insert(at, slot),
            Change::Remove(at) => drop(state.slots.remove(at)),
            Change::Replace(at, slot) => state.slots[at] = slot,
        }
        state.bytes = self.bytes_with(state, tile, rung);
        state.rungs[tile] = rung;
        state.value = value;
    }

    /// Effective weights: P·(1 − ε) at the state's order. A tile that is not sent would come last.
    fn weigh(&mut self, state: &State, weights: &mut [f64]) {
        self.deadlines.set_total(state.bytes);
        weights.copy_from_slice(self.problem.visibility());
        let (mut start, mut last) = (0.0, 1.0);
        for slot in &state.slots {
            let end = start + slot.size;
            last = self.deadlines.on_time(start, end);
            weights[slot.tile] *= last;
            start = end;
        }
        for (weight, _) in weights.iter_mut().zip(&state.rungs).filter(|(_, rung)| rung.is_none()) {
            *weight *= last;
        }
    }

    /// The best state, with what is left of the budget spent on tiles that were not sent and do no
    /// harm: a viewer who looks where nobody did sees something.
    fn finish(mut self, search_budget: &mut SearchBudget<'_>) -> Draft {
        let mut state = self.best.take().expect("the first plan was measured");
        for tile in 0..self.problem.tiles() {
            if state.rungs[tile].is_none()
                && let Some(point) = self.problem.operating_points()[tile].all().get(1)
                && let Some((value, change)) =
                    self.weigh_rung(&state, tile, point.rung, search_budget)
                && value >= state.value
            {
                self.apply(&mut state, tile, point.rung, value, change);
            }
        }
        let order = state.slots.iter().map(|slot| slot.tile).collect();
        Draft { order, rungs: state.rungs }
    }
}

/// What `slots` are worth with a change.
fn worth(slots: &[Slot], change: Change, deadlines: &DeadlineModel) -> f64 {
    let all = slots.iter().copied();
    match change {
        Change::Insert(at, slot) => {
            let (before, after) = slots.split_at(at);
            let with = before.iter().copied().chain([slot]).chain(after.iter().copied());
            expected_gain(with, deadlines)
        }
        Change::Remove(at) => {
            let without = all.enumerate().filter(|(index, _)| *index != at);
            expected_gain(without.map(|(_, slot)| slot), deadlines)
        }
        Change::Replace(at, new) => {
            let with = all.enumerate();
            expected_gain(with.map(|(index, slot)| if index == at { new } else { slot }), deadlines)
        }
    }
}
