//! The rates: which rung each tile gets, so that the weighted distortion is least within a number
//! of bytes (line 5 of FBDT's Algorithm 1; in the literature the multiple-choice knapsack
//! problem).
//!
//! Three passes. A greedy climbs the tiles' convex hulls by weight × distortion saved per byte,
//! which reaches the bound of the linear relaxation to within one step. A second pass spends what
//! that step left over. A third looks for what both missed: it prices a byte at the slope of the
//! step that did not fit, which gives a lower bound of any solution (Lagrangian relaxation), and
//! enumerates by dynamic programming the few deviations from the cheapest operating points at that
//! price that could still beat what is known. It ends with a proof, or at [`MAX_STATES`] without one.

use super::operating_points::{OperatingPoints, slope};

/// Partial solutions kept per tile in the third pass. More do not make it better in practice: on
/// 24 tiles it needs tens to hundreds.
pub const MAX_STATES: usize = 2_048;
/// How much of the loss the third pass may leave on the table: enumerating closer than this costs
/// time and shows in no picture.
pub const TOLERANCE: f64 = 1e-3;

/// One operating point for each tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// For each tile, an index into its operating points.
    pub chosen: Vec<usize>,
    /// What they cost together, bytes.
    pub bytes: u64,
    /// Σ weight × WS-MSE.
    pub loss: f64,
    /// No allocation within the budget loses less than this.
    pub bound: f64,
}

/// The operating points of least Σ weight × WS-MSE that cost at most `budget` bytes; `None` if even
/// the cheapest ones cost more. `weights` has one value per tile, finite and not negative.
///
/// Tiles of weight zero get their cheapest operating point. The same input gives the same output.
pub fn allocate(
    point_sets: &[OperatingPoints],
    weights: &[f64],
    budget: u64,
) -> Option<Allocation> {
    let mut climb = Climb::new(point_sets, weights, budget)?;
    let price = climb.greedy();
    climb.fill();
    let Some(price) = price else {
        // Every step fitted: nothing loses less.
        return Some(climb.finish(f64::INFINITY));
    };
    let bound = Enumeration::new(&climb, price).run(&mut climb);
    Some(climb.finish(bound))
}

/// The first two passes, and the best allocation known.
struct Climb<'a> {
    point_sets: &'a [OperatingPoints],
    weights: &'a [f64],
    budget: u64,
    chosen: Vec<usize>,
    bytes: u64,
}

/// A step from one point of a tile's hull to the next.
struct Step {
    /// Weighted distortion saved per byte.
    gain: f64,
    tile: usize,
    /// Index into the tile's operating points.
    to: usize,
    bytes: u64,
}

impl<'a> Climb<'a> {
    fn new(point_sets: &'a [OperatingPoints], weights: &'a [f64], budget: u64) -> Option<Self> {
        let bytes = point_sets.iter().map(|points| points.all()[0].bytes).sum();
        let chosen = vec![0; point_sets.len()];
        (bytes <= budget).then_some(Self { point_sets, weights, budget, chosen, bytes })
    }

    /// Climbs the hulls, steepest step first; a tile whose step does not fit climbs no further.
    /// Returns the gain per byte of the first step that did not fit.
    fn greedy(&mut self) -> Option<f64> {
        let mut steps: Vec<Step> = Vec::new();
        for (tile, (points, &weight)) in self.point_sets.iter().zip(self.weights).enumerate() {
            let (all, hull) = (points.all(), points.hull());
            steps.extend(hull.windows(2).map(|pair| Step {
                gain: weight * slope(&all[pair[0]], &all[pair[1]]),
                tile,
                to: pair[1],
                bytes: all[pair[1]].bytes - all[pair[0]].bytes,
            }));
        }
        steps.retain(|step| step.gain > 0.0);
        steps.sort_unstable_by(|a, b| {
            b.gain.total_cmp(&a.gain).then(a.tile.cmp(&b.tile)).then(a.to.cmp(&b.to))
        });
        let mut stopped = vec![false; self.point_sets.len()];
        let mut price = None;
        for step in steps {
            if stopped[step.tile] {
                continue;
            }
            if self.bytes + step.bytes <= self.budget {
                self.chosen[step.tile] = step.to;
                self.bytes += step.bytes;
            } else {
                stopped[step.tile] = true;
                price = price.or(Some(step.gain));
            }
        }
        price
    }

    /// Spends what is left over on the operating points that save most, on the hulls or not.
    fn fill(&mut self) {
        loop {
            let left = self.budget - self.bytes;
            let mut best: Option<(f64, usize, usize)> = None;
            for (tile, points) in self.point_sets.iter().enumerate() {
                let now = &points.all()[self.chosen[tile]];
                for (index, point) in points.all().iter().enumerate().skip(self.chosen[tile] + 1) {
                    if point.bytes - now.bytes > left {
                        break;
                    }
                    let saved = self.weights[tile] * (now.ws_mse - point.ws_mse);
                    if saved > best.map_or(0.0, |(most, ..)| most) {
                        best = Some((saved, tile, index));
                    }
                }
            }
            let Some((_, tile, index)) = best else { return };
            let all = self.point_sets[tile].all();
            self.bytes += all[index].bytes - all[self.chosen[tile]].bytes;
            self.chosen[tile] = index;
        }
    }

    fn loss(&self) -> f64 {
        let points = self.point_sets.iter().zip(&self.chosen).map(|(points, &i)| points.all()[i]);
        points.zip(self.weights).map(|(point, weight)| weight * point.ws_mse).sum()
    }

    fn finish(self, bound: f64) -> Allocation {
        let loss = self.loss();
        Allocation { bytes: self.bytes, loss, bound: bound.min(loss), chosen: self.chosen }
    }
}

/// A partial solution of the third pass: operating points for the tiles looked at, the cheapest ones
/// at the price for all others.
#[derive(Clone, Copy)]
struct State {
    /// Bytes beyond those of the cheapest operating points.
    extra: i64,
    /// How much more it costs than they do, loss and priced bytes together; not negative.
    over: f64,
    /// The state of the tile before that it continues, and the operating point chosen.
    parent: u32,
    point: u32,
}

/// A tile with more than one operating point left.
struct Open {
    tile: usize,
    /// The cheapest operating point at the price.
    base: usize,
    /// The second cheapest's distance from it.
    second: f64,
}

/// The third pass.
struct Enumeration {
    price: f64,
    /// The cheapest operating points at the price: their bytes and their loss.
    base_bytes: i64,
    base_loss: f64,
    base: Vec<usize>,
    open: Vec<Open>,
    /// Loss of the best allocation known.
    best: f64,
    /// The Lagrangian bound.
    bound: f64,
    budget: i64,
}

impl Enumeration {
    fn new(climb: &Climb<'_>, price: f64) -> Self {
        let mut all = Self {
            price,
            base_bytes: 0,
            base_loss: 0.0,
            base: Vec::with_capacity(climb.point_sets.len()),
            open: Vec::new(),
            best: climb.loss(),
            bound: 0.0,
            budget: i64::try_from(climb.budget).unwrap_or(i64::MAX),
        };
        for (tile, (points, &weight)) in climb.point_sets.iter().zip(climb.weights).enumerate() {
            let cost =
                |i: usize| weight * points.all()[i].ws_mse + price * points.all()[i].bytes as f64;
            let count = points.all().len();
            let base = (0..count).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(0);
            let others = (0..count).filter(|&i| i != base).map(|i| cost(i) - cost(base));
            if let Some(second) = others.min_by(f64::total_cmp) {
                all.open.push(Open { tile, base, second });
            }
            all.base.push(base);
            all.base_bytes += points.all()[base].bytes as i64;
            all.base_loss += weight * points.all()[base].ws_mse;
        }
        all.bound = all.base_loss + price * (all.base_bytes - all.budget) as f64;
        // Undecided tiles first: what they settle leaves the others no choice.
        all.open.sort_by(|a, b| a.second.total_cmp(&b.second).then(a.tile.cmp(&b.tile)));
        all
    }

    /// What a state may cost over the base and still lead to something better.
    fn room(&self) -> f64 {
        self.best * (1.0 - TOLERANCE) - self.bound
    }

    /// Enumerates, puts the best allocation into `climb`, and returns the proven bound.
    fn run(mut self, climb: &mut Climb<'_>) -> f64 {
        let root = State { extra: 0, over: 0.0, parent: 0, point: 0 };
        let mut levels: Vec<Vec<State>> = vec![vec![root]];
        let mut found: Option<(usize, State)> = None;
        let mut proven = true;
        for at in 0..self.open.len() {
            if self.open[at].second > self.room() || levels[at].is_empty() {
                break;
            }
            let (mut next, whole) = self.expand(climb, at, &levels[at]);
            proven &= whole;
            for state in &next {
                let loss = self.base_loss + state.over - self.price * state.extra as f64;
                if self.base_bytes + state.extra <= self.budget && loss < self.best {
                    self.best = loss;
                    found = Some((at, *state));
                }
            }
            // What deviates no more was counted already; the rest needs room for one more deviation.
            let least = self.open.get(at + 1).map_or(f64::INFINITY, |open| open.second);
            next.retain(|state| state.over + least <= self.room());
            levels.push(next);
        }
        if let Some((at, state)) = found {
            self.adopt(climb, &levels, at, state);
        }
        if proven { climb.loss() * (1.0 - TOLERANCE) } else { self.bound }
    }

    /// The states after one more tile: those that may still beat the best, without those that cost
    /// as many bytes as another and lose as much. Whether that is all of them.
    fn expand(&self, climb: &Climb<'_>, at: usize, from: &[State]) -> (Vec<State>, bool) {
        let Open { tile, base, .. } = self.open[at];
        let (weight, all) = (climb.weights[tile], climb.point_sets[tile].all());
        let room = self.room();
        let mut next: Vec<State> = Vec::new();
        for (index, point) in all.iter().enumerate() {
            let extra = point.bytes as i64 - all[base].bytes as i64;
            let saved = weight * (all[base].ws_mse - point.ws_mse);
            let over = if index == base { 0.0 } else { self.price * extra as f64 - saved };
            let over = over.max(0.0);
            if over > room {
                continue;
            }
            let children = from.iter().enumerate().filter(|(_, state)| state.over + over <= room);
            next = self.merge(
                &next,
                children.map(|(parent, state)| State {
                    extra: state.extra + extra,
                    over: state.over + over,
                    parent: parent as u32,
                    point: index as u32,
                }),
            );
        }
        let whole = next.len() <= MAX_STATES;
        if !whole {
            next.select_nth_unstable_by(MAX_STATES, |a, b| {
                a.over.total_cmp(&b.over).then(a.extra.cmp(&b.extra))
            });
            next.truncate(MAX_STATES);
            next.sort_unstable_by_key(|state| state.extra);
        }
        (next, whole)
    }

    /// Two lists by ascending bytes as one, in which each state loses less than those before it.
    fn merge(&self, list: &[State], other: impl Iterator<Item = State>) -> Vec<State> {
        let loss = |state: &State| state.over - self.price * state.extra as f64;
        let mut merged: Vec<State> = Vec::with_capacity(2 * list.len() + 1);
        let mut least = f64::INFINITY;
        let mut push = |state: State| {
            if loss(&state) < least {
                least = loss(&state);
                match merged.last_mut() {
                    Some(last) if last.extra == state.extra => *last = state,
                    _ => merged.push(state),
                }
            }
        };
        let mut list = list.iter().copied().peekable();
        for state in other {
            while let Some(before) = list.next_if(|before| before.extra <= state.extra) {
                push(before);
            }
            push(state);
        }
        list.for_each(push);
        merged
    }

    /// Puts the operating points of a state after tile `at`, and the cheapest for the tiles after it,
    /// into `climb`.
    fn adopt(&self, climb: &mut Climb<'_>, levels: &[Vec<State>], at: usize, state: State) {
        climb.chosen.clone_from(&self.base);
        let mut state = state;
        for at in (0..=at).rev() {
            climb.chosen[self.open[at].tile] = state.point as usize;
            state = levels[at][state.parent as usize];
        }
        let points = climb.point_sets.iter().zip(&climb.chosen);
        climb.bytes = points.map(|(points, &i)| points.all()[i].bytes).sum();
        climb.fill();
    }
}
