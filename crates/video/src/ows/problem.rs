//! One GoP to plan for, and the plan.

use weftline_core::ByteCount;

use super::delivery::{DeadlineModel, Delivery, Received};
use super::operating_points::OperatingPoints;
use super::throughput::Throughput;
use crate::rd::{GopTable, MAX_WS_MSE, Rung};

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// What each tile costs and loses at each rung.
    pub gop: &'a GopTable,
    /// P(t): how likely each tile is seen, weighted by how much of it. One value per tile, from 0
    /// up; only their proportions matter. All zero means that nothing is known: all tiles alike.
    pub visibility: &'a [f64],
    /// D_concealed(t): what each tile loses if it is not whole at the deadline, as a part of the frame's
    /// WS-MSE like [`Rung::ws_mse`]. It is the concealment's.
    pub concealment: &'a [f64],
    /// What the paths may carry until the deadline.
    pub throughput: &'a Throughput,
    /// The transport.
    pub delivery: &'a dyn Delivery,
    /// The most that may be sent; [`Throughput::mean`] (the paper's C_agg) if `None`. Where what is
    /// late can be called back, as with messages, more than the mean may pay.
    pub budget: Option<ByteCount>,
    /// What the paths will carry. Only the scheme `oracle` looks at it.
    pub truth: Option<&'a Throughput>,
}

/// Why there is no problem to solve.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProblemError {
    /// There is not one value per tile.
    #[error("{what} has {given} values for {tiles} tiles; give one per tile, in raster order")]
    Count {
        /// Which input.
        what: &'static str,
        /// Its values.
        given: usize,
        /// The tiles of the GoP.
        tiles: usize,
    },
    /// A value is not a number that can be weighed.
    #[error("{what} of tile {tile} is {value}; want a number from 0 to {MAX_WS_MSE}")]
    Value {
        /// Which input.
        what: &'static str,
        /// The tile.
        tile: usize,
        /// Its value.
        value: f64,
    },
}

/// Why a scheme made no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It must know what the paths will carry.
    #[error("the scheme '{scheme}' needs the true throughput; give it, or choose another scheme")]
    NoTruth {
        /// Its name.
        scheme: &'static str,
    },
}

/// One GoP to plan for: [`Inputs`] that were checked.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    inputs: Inputs<'a>,
    visibility: Vec<f64>,
    budget: u64,
    /// The operating points of each tile, with that of not sending it.
    operating_points: Vec<OperatingPoints>,
}

/// A tile of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// The tile, in raster order.
    pub tile: usize,
    /// The rung it is sent at.
    pub rung: Rung,
    /// ε: how likely it is not whole at the deadline.
    pub late_chance: f64,
}

/// What is sent of a GoP, and in what order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The tiles in the order of sending.
    pub sent: Vec<Piece>,
    /// The tiles that are not sent, ascending: they were not worth it, or the budget is below the
    /// lowest rungs.
    pub dropped: Vec<usize>,
    /// What is sent, together.
    pub bytes: ByteCount,
    /// F: the expected loss, Σ P·WS-MSE.
    pub expected_loss: f64,
}

/// A plan in the making: the sent tiles in order, and the rung of each tile, as an index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    pub(super) order: Vec<usize>,
    pub(super) rungs: Vec<Option<usize>>,
}

impl<'a> Problem<'a> {
    /// Checks the inputs.
    ///
    /// # Errors
    /// If there is not one visibility and one concealment per tile, or if a value is negative, infinite
    /// or not a number.
    pub fn new(inputs: Inputs<'a>) -> Result<Self, ProblemError> {
        let tiles = inputs.gop.tiles().len();
        for (what, values) in
            [("visibility", inputs.visibility), ("concealment", inputs.concealment)]
        {
            if values.len() != tiles {
                return Err(ProblemError::Count { what, given: values.len(), tiles });
            }
            let wrong = |value: &f64| !(0.0..=MAX_WS_MSE).contains(value);
            if let Some(tile) = values.iter().position(wrong) {
                return Err(ProblemError::Value { what, tile, value: values[tile] });
            }
        }
        let unknown = inputs.visibility.iter().all(|&p| p == 0.0);
        let visibility = if unknown { vec![1.0; tiles] } else { inputs.visibility.to_vec() };
        let tiles = inputs.gop.tiles().iter().zip(inputs.concealment);
        let operating_points = tiles
            .map(|(tile, &concealment)| OperatingPoints::new(tile, Some(concealment)))
            .collect();
        let budget = inputs.budget.unwrap_or_else(|| inputs.throughput.mean()).as_u64();
        Ok(Self { visibility, budget, operating_points, inputs })
    }

    /// The tiles' probabilities; all 1 if the inputs' were all zero.
    pub fn visibility(&self) -> &[f64] {
        &self.visibility
    }

    /// The operating points of each tile, not sending it among them.
    pub fn operating_points(&self) -> &[OperatingPoints] {
        &self.operating_points
    }

    /// The most that may be sent.
    pub fn budget(&self) -> ByteCount {
        ByteCount::new(self.budget)
    }

    /// The number of tiles.
    pub fn tiles(&self) -> usize {
        self.operating_points.len()
    }

    pub(super) fn inputs(&self) -> &Inputs<'a> {
        &self.inputs
    }

    /// The same GoP when `throughput` is what is to be expected, and may be used up.
    pub(super) fn expecting(&self, throughput: &'a Throughput) -> Self {
        let inputs = Inputs { throughput, ..self.inputs };
        Self { inputs, budget: throughput.mean().as_u64(), ..self.clone() }
    }

    /// The same GoP with no more than `budget` bytes to send.
    pub(super) fn within(&self, budget: u64) -> Self {
        Self { budget: self.budget.min(budget), ..self.clone() }
    }

    pub(super) fn rung(&self, tile: usize, rung: usize) -> Rung {
        self.inputs.gop.tiles()[tile].rungs()[rung]
    }

    /// What a tile costs at a rung, bytes.
    pub(super) fn bytes(&self, tile: usize, rung: Option<usize>) -> u64 {
        rung.map_or(0, |rung| self.rung(tile, rung).bytes.as_u64())
    }

    /// What is gained when a tile arrives at a rung, against its concealment.
    pub(super) fn gain(&self, tile: usize, rung: Option<usize>) -> f64 {
        let saved = |rung| self.inputs.concealment[tile] - self.rung(tile, rung).ws_mse;
        rung.map_or(0.0, |rung| self.visibility[tile] * saved(rung))
    }

    /// What a draft sends, bytes.
    pub(super) fn total(&self, draft: &Draft) -> u64 {
        draft.order.iter().map(|&tile| self.bytes(tile, draft.rungs[tile])).sum()
    }

    /// The plan of a draft.
    pub(super) fn plan(&self, draft: &Draft) -> Plan {
        let total = self.total(draft);
        let mut deadlines = DeadlineModel::new(self.inputs.delivery, self.inputs.throughput);
        deadlines.set_total(total);
        let mut chances = vec![1.0; self.tiles()];
        let mut start = 0;
        let mut sent = Vec::with_capacity(draft.order.len());
        for &tile in &draft.order {
            let Some(rung) = draft.rungs[tile] else { continue };
            let rung = self.rung(tile, rung);
            let end = start + rung.bytes.as_u64();
            chances[tile] = 1.0 - deadlines.on_time(start as f64, end as f64);
            sent.push(Piece { tile, rung, late_chance: chances[tile] });
            start = end;
        }
        let loss = (0..self.tiles()).map(|tile| {
            let arrived = draft.rungs[tile].map_or(0.0, |rung| self.rung(tile, rung).ws_mse);
            let late = chances[tile];
            self.visibility[tile] * ((1.0 - late) * arrived + late * self.inputs.concealment[tile])
        });
        Plan {
            expected_loss: loss.sum(),
            dropped: (0..self.tiles()).filter(|&tile| draft.rungs[tile].is_none()).collect(),
            bytes: ByteCount::new(total),
            sent,
        }
    }
}

impl Plan {
    /// Which of the sent tiles are whole at the deadline if the paths carry `paths` bytes until
    /// then: one value per piece of [`Self::sent`].
    pub fn arrivals(&self, delivery: &dyn Delivery, paths: &[ByteCount]) -> Vec<bool> {
        let Received { prefix, island } = delivery.progress(paths).received(self.bytes.as_u64());
        let mut start = 0;
        let whole = self.sent.iter().map(|piece| {
            let end = start + piece.rung.bytes.as_u64();
            let there = end <= prefix || (island.start <= start && end <= island.end);
            start = end;
            there
        });
        whole.collect()
    }
}

/// These rungs in raster order.
pub(super) fn raster(rungs: Vec<Option<usize>>) -> Draft {
    let order = (0..rungs.len()).filter(|&tile| rungs[tile].is_some()).collect();
    Draft { order, rungs }
}
