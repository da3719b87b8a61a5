//! One scene, one viewer, one transport, one tile scheme.

use std::f64::consts::PI;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};

use super::{Concealment, EvaluateError, MissTable, Views};
use crate::geometry::{Grid, Viewport};
use crate::head::{TileProbabilities, Trace};
use crate::metric::{mse_of_psnr_db, psnr_db};
use crate::ows::{
    Delivery, Effort, Entry, History, Inputs, Piece, Plan, Problem, Recency, Throughput,
};
use crate::rd::{GopTable, RdTable, Rung};

/// No PSNR is taken above this, so that a mean of decibels stays one where a viewport is exact.
pub const PSNR_CEILING_DB: f64 = 100.0;

/// What the probabilities given to a scheme weigh a tile by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weighting {
    /// The pixels of the viewport that it takes: what the viewport's PSNR counts.
    #[default]
    Pixels,
    /// Its visible area on the sphere. A viewport draws what is at its corners larger, and this
    /// does not see it.
    Area,
}

/// What one session is made of.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// The scene.
    pub table: &'a RdTable,
    /// What concealments of the scene lose.
    pub misses: &'a MissTable,
    /// How other viewers looked at the scene.
    pub probabilities: &'a TileProbabilities,
    /// What the probabilities count.
    pub weighting: Weighting,
    /// The viewport of the viewer.
    pub viewport: &'a Viewport,
    /// How the viewer moves, who is none of those of the probabilities.
    pub trace: &'a Trace,
    /// What each path carries in each second. For a transport that fills in order one path stands
    /// for all: its goodput.
    pub seconds: &'a [Vec<Bitrate>],
    /// So many seconds come before the first GoP is sent: the first history. At least one.
    pub warm_up: usize,
    /// The transport.
    pub delivery: &'a dyn Delivery,
    /// How the rates to be expected follow from the history.
    pub recency: Recency,
    /// The tile scheme.
    pub scheme: &'a Entry,
    /// What is shown in place of late tiles.
    pub concealment: Concealment,
    /// The work a scheme may do for a GoP: [`Effort::units`].
    pub effort_units: u64,
}

/// What became of one GoP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GopOutcome {
    /// Its number, from 0.
    pub gop: usize,
    /// What the scheme wanted sent, a base layer included.
    pub sent: ByteCount,
    /// What the paths carried in its time.
    pub carried: ByteCount,
    /// Tiles sent that were not whole at the deadline. A base layer's are not among them.
    pub late: usize,
    /// Tiles that were not sent.
    pub dropped: usize,
    /// The viewport's MSE that the plan expected.
    pub expected_mse: f64,
    /// The viewport's MSE, the mean over the poses.
    pub mse: f64,
    /// The mean over the poses of the viewport's PSNR in dB.
    pub mean_psnr_db: f64,
}

impl GopOutcome {
    /// The PSNR in dB of the GoP's mean MSE, at most [`PSNR_CEILING_DB`].
    pub fn psnr_db(&self) -> f64 {
        capped_psnr_db(self.mse)
    }
}

/// What became of a session's GoPs, in their order; at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionOutcome {
    /// The GoPs.
    pub gops: Vec<GopOutcome>,
}

impl SessionOutcome {
    /// The PSNR in dB of the mean MSE over all GoPs: what single bad GoPs pull down.
    pub fn psnr_of_mean_db(&self) -> f64 {
        capped_psnr_db(self.mean(|gop| gop.mse))
    }

    /// The mean over the GoPs of their PSNR in dB.
    pub fn mean_psnr_db(&self) -> f64 {
        self.mean(GopOutcome::psnr_db)
    }

    /// The mean number of tiles a GoP that were sent and late.
    pub fn mean_late(&self) -> f64 {
        self.mean(|gop| gop.late as f64)
    }

    fn mean(&self, value: impl Fn(&GopOutcome) -> f64) -> f64 {
        self.gops.iter().map(value).sum::<f64>() / self.gops.len() as f64
    }
}

fn capped_psnr_db(mse: f64) -> f64 {
    psnr_db(mse.max(mse_of_psnr_db(PSNR_CEILING_DB)))
}

/// What is shown of a tile in one GoP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing of it is there: mid-grey.
    Grey,
    /// Its encoding at this QP.
    Rung(u8),
    /// The last picture of an older GoP.
    Stale {
        /// Which.
        gop: usize,
        /// The QP at which that was received.
        qp: u8,
    },
}

/// One GoP as it was planned and sent, for whoever wants to draw it. It is the same for every
/// viewer.
#[derive(Clone, Copy, Debug)]
pub struct GopDetail<'a> {
    /// Its number, from 0.
    pub gop: usize,
    /// P(t) as the scheme was given it.
    pub visibility: &'a [f64],
    /// What was sent, a base layer included.
    pub plan: &'a Plan,
    /// What is shown of each tile.
    pub shown: &'a [Shown],
    /// What each tile loses as it is shown: its part of the frame's WS-MSE.
    pub losses: &'a [f64],
}

/// The last of a tile that arrived: in which GoP, and its encoding.
type Held = Option<(usize, Rung)>;

impl Session<'_> {
    /// Plays all GoPs for which there are a table, motion and rates.
    ///
    /// # Errors
    /// [`EvaluateError`] if the tables are not for the same tiles, if there is no GoP to play, or
    /// if no plan can be made (the scheme's or the history's reason is said).
    pub fn run(&self) -> Result<SessionOutcome, EvaluateError> {
        let grid = self.check()?;
        let (gop, most) = (self.table.gop_duration(), self.table.gops().len());
        let views = Views::new(self.trace, grid, self.viewport, gop, most);
        let outcomes = self.run_for(&[&views], &mut |_| {})?;
        Ok(outcomes.into_iter().next().unwrap_or(SessionOutcome { gops: Vec::new() }))
    }

    /// Plays to several viewers in place of the session's own, each alone: what is planned, sent
    /// and late does not depend on who of them watches, so it is worked out once. `watch` is told
    /// of every GoP.
    ///
    /// # Errors
    /// As [`Self::run`]; also if the views are of another grid or of other GoPs.
    pub fn run_for(
        &self,
        viewers: &[&Views],
        watch: &mut dyn FnMut(&GopDetail<'_>),
    ) -> Result<Vec<SessionOutcome>, EvaluateError> {
        let grid = self.check()?;
        let gop_duration = self.table.gop_duration();
        if let Some(views) = viewers.iter().find(|v| v.grid() != grid || v.gop() != gop_duration) {
            let shape = |grid: Grid, gop: Duration| format!("{grid} in {} s", gop.as_secs_f64());
            let (got, wanted) = (shape(views.grid(), views.gop()), shape(grid, gop_duration));
            return Err(EvaluateError::Mismatch { what: "a viewer's motion", got, wanted });
        }
        let gop_s = gop_duration.as_secs_f64();
        let gops = self.length(viewers.iter().map(|views| views.gops()).min().unwrap_or(0))?;
        let mut history = History::new();
        let mut pushed = 0;
        let mut held: Vec<Held> = vec![None; grid.tiles()];
        let mut outcomes = vec![SessionOutcome { gops: Vec::with_capacity(gops) }; viewers.len()];
        for gop in 0..gops {
            let start_s = self.warm_up as f64 + gop as f64 * gop_s;
            while ((pushed + 1) as f64) <= start_s + 1e-9 {
                let wrong = |error: crate::ows::ThroughputError| plan_error(gop, error);
                history.push(&self.seconds[pushed]).map_err(wrong)?;
                pushed += 1;
            }
            let carried = self.carried(start_s, gop_s);
            let (common, losses) = self.gop(grid, gop, &history, &carried, &mut held, watch)?;
            for (outcome, views) in outcomes.iter_mut().zip(viewers) {
                let (mse, mean_psnr_db) = viewport_error(grid, views.poses(gop), &losses);
                outcome.gops.push(GopOutcome { mse, mean_psnr_db, ..common });
            }
        }
        Ok(outcomes)
    }

    /// How many GoPs are played to viewers who watch `watched` of them.
    fn length(&self, watched: usize) -> Result<usize, EvaluateError> {
        let gop_s = self.table.gop_duration().as_secs_f64();
        let rated = self.seconds.len().saturating_sub(self.warm_up) as f64 / gop_s;
        let gops = self.table.gops().len().min(watched).min((rated + 1e-9) as usize);
        if gops == 0 || self.warm_up == 0 {
            return Err(EvaluateError::Short {
                gops: self.table.gops().len(),
                trace_s: watched as f64 * gop_s,
                seconds: self.seconds.len(),
                warm_up: self.warm_up,
            });
        }
        Ok(gops)
    }

    /// Whether all tables are for the same tiles; the grid.
    fn check(&self) -> Result<Grid, EvaluateError> {
        let (columns, rows) = (self.table.columns().into(), self.table.rows().into());
        let grid = Grid::new(columns, rows)?;
        let gop = self.table.gop_duration();
        let differs =
            |what, got: String, wanted: String| Err(EvaluateError::Mismatch { what, got, wanted });
        if self.probabilities.grid() != grid {
            let got = self.probabilities.grid().to_string();
            return differs("the head motion's grid", got, grid.to_string());
        }
        if self.probabilities.gop() != gop {
            let got = format!("GoPs of {} s", self.probabilities.gop().as_secs_f64());
            let wanted = format!("GoPs of {} s", gop.as_secs_f64());
            return differs("the head motion", got, wanted);
        }
        let gops = self.table.gops().len();
        let tiles = (0..gops).map(|gop| self.misses.tiles(gop));
        if let Some(found) = tiles.into_iter().find(|tiles| *tiles != grid.tiles()) {
            let got = format!("{found} tiles in {} GoPs", self.misses.gops());
            let wanted = format!("{} tiles in {gops} GoPs", grid.tiles());
            return differs("the table of concealments", got, wanted);
        }
        Ok(grid)
    }

    /// What each path carries in the `length_s` seconds from `start_s` on.
    fn carried(&self, start_s: f64, length_s: f64) -> Vec<ByteCount> {
        let paths = self.seconds.first().map_or(0, Vec::len);
        let end_s = start_s + length_s;
        let bytes_of = |path: usize| {
            let parts = (start_s as usize..self.seconds.len())
                .take_while(|&second| (second as f64) < end_s)
                .map(|second| {
                    let from = start_s.max(second as f64);
                    let share = (end_s.min(second as f64 + 1.0) - from).max(0.0);
                    let rate = self.seconds[second].get(path).copied().unwrap_or(Bitrate::ZERO);
                    rate.bytes_in(Duration::from_secs_f64(share))
                });
            parts.sum::<ByteCount>()
        };
        (0..paths).map(bytes_of).collect()
    }

    /// Plans and sends one GoP: what is the same for all viewers (their errors are not filled in),
    /// and what each tile loses as it is shown.
    fn gop(
        &self,
        grid: Grid,
        gop: usize,
        history: &History,
        carried: &[ByteCount],
        held: &mut [Held],
        watch: &mut dyn FnMut(&GopDetail<'_>),
    ) -> Result<(GopOutcome, Vec<f64>), EvaluateError> {
        let tiles = &self.table.gops()[gop];
        let base = match self.concealment {
            Concealment::BaseLayer => base_layer(tiles),
            Concealment::Grey | Concealment::LastReceived => Vec::new(),
        };
        let base_bytes: ByteCount = base.iter().map(|piece| piece.rung.bytes).sum();
        let miss = self.misses_of(gop, &base, held);
        let visibility = self.visibility(grid, gop);
        let horizon = self.table.gop_duration();
        let expected = Throughput::forecast(history, horizon, &self.recency)
            .and_then(|throughput| without(&throughput, base_bytes))
            .map_err(|error| plan_error(gop, error))?;
        let truth = Throughput::certain(carried)
            .and_then(|throughput| without(&throughput, base_bytes))
            .map_err(|error| plan_error(gop, error))?;
        let problem = Problem::new(Inputs {
            gop: tiles,
            visibility: &visibility,
            miss: &miss,
            throughput: &expected,
            delivery: self.delivery,
            budget: None,
            truth: Some(&truth),
        })
        .map_err(|error| plan_error(gop, error))?;
        let mut effort = Effort::units(self.effort_units);
        let plan =
            self.scheme.plan(&problem, &mut effort).map_err(|error| plan_error(gop, error))?;
        let scale = match self.weighting {
            Weighting::Pixels => 1.0,
            Weighting::Area => 4.0 * PI / self.viewport.fov().solid_angle(),
        };
        let expected_mse = plan.expected_loss * scale;
        let dropped = plan.dropped.len();
        let all = with_base(plan, base, base_bytes);
        let (shown, late) = self.show(gop, &all, carried, base_bytes, held);
        let losses: Vec<f64> =
            shown.iter().enumerate().map(|(tile, shown)| self.loss(gop, tile, *shown)).collect();
        watch(&GopDetail {
            gop,
            visibility: &visibility,
            plan: &all,
            shown: &shown,
            losses: &losses,
        });
        let carried = carried.iter().copied().sum();
        let (sent, mse, mean_psnr_db) = (all.bytes, 0.0, 0.0);
        let outcome =
            GopOutcome { gop, sent, carried, late, dropped, expected_mse, mse, mean_psnr_db };
        Ok((outcome, losses))
    }

    /// What each tile loses if it is late, as the server expects it.
    fn misses_of(&self, gop: usize, base: &[Piece], held: &[Held]) -> Vec<f64> {
        let tiles = held.iter().enumerate();
        let miss = tiles.map(|(tile, held)| match self.concealment {
            Concealment::Grey => self.misses.grey(gop, tile),
            Concealment::LastReceived => self.loss(gop, tile, self.stale(gop, tile, *held)),
            Concealment::BaseLayer => base[tile].rung.ws_mse,
        });
        miss.collect()
    }

    /// What is shown of a tile of which only an older GoP is there.
    fn stale(&self, gop: usize, tile: usize, held: Held) -> Shown {
        match held {
            Some((of, rung)) if self.misses.reaches(gop, tile, gop - of) => {
                Shown::Stale { gop: of, qp: rung.qp }
            }
            _ => Shown::Grey,
        }
    }

    /// What a tile loses as it is shown.
    fn loss(&self, gop: usize, tile: usize, shown: Shown) -> f64 {
        let coding = |gop: usize, qp| {
            let rung = self.table.gops()[gop].tiles()[tile].at_qp(qp);
            rung.expect("only rungs of the table are sent").ws_mse
        };
        match shown {
            Shown::Grey => self.misses.grey(gop, tile),
            Shown::Rung(qp) => coding(gop, qp),
            Shown::Stale { gop: of, qp } => self.misses.stale(gop, tile, gop - of, coding(of, qp)),
        }
    }

    /// P(t) of the GoP, as the scheme is given it.
    fn visibility(&self, grid: Grid, gop: usize) -> Vec<f64> {
        match self.weighting {
            Weighting::Area => self.probabilities.seen(gop).to_vec(),
            Weighting::Pixels => {
                let share = self.probabilities.share(gop).iter().enumerate();
                share.map(|(tile, share)| share * 4.0 * PI / grid.solid_angle(tile)).collect()
            }
        }
    }

    /// What is shown of each tile with what arrived, and how many of those sent were late; notes
    /// what the player now holds.
    fn show(
        &self,
        gop: usize,
        plan: &Plan,
        carried: &[ByteCount],
        base_bytes: ByteCount,
        held: &mut [Held],
    ) -> (Vec<Shown>, usize) {
        let arrived = plan.arrivals(self.delivery, carried);
        let mut best: Vec<Option<Rung>> = vec![None; held.len()];
        let (mut late, mut offset) = (0, ByteCount::ZERO);
        for (piece, arrived) in plan.sent.iter().zip(arrived) {
            let is_base = offset < base_bytes;
            offset += piece.rung.bytes;
            if arrived {
                let before = best[piece.tile];
                if before.is_none_or(|before| piece.rung.ws_mse < before.ws_mse) {
                    best[piece.tile] = Some(piece.rung);
                }
            } else if !is_base {
                late += 1;
            }
        }
        let shown = best.iter().enumerate().map(|(tile, best)| match (best, self.concealment) {
            (Some(rung), _) => Shown::Rung(rung.qp),
            (None, Concealment::LastReceived) => self.stale(gop, tile, held[tile]),
            (None, Concealment::Grey | Concealment::BaseLayer) => Shown::Grey,
        });
        let shown = shown.collect();
        for (held, rung) in held.iter_mut().zip(best) {
            *held = rung.map_or(*held, |rung| Some((gop, rung)));
        }
        (shown, late)
    }
}

/// The viewport's mean MSE over poses and the mean of its PSNR, when each tile loses its part of
/// `losses` of the frame's WS-MSE. A tile's error per pixel is its loss by its share of the sphere.
fn viewport_error(grid: Grid, poses: &[Vec<f64>], losses: &[f64]) -> (f64, f64) {
    let per_pixel: Vec<f64> = losses
        .iter()
        .enumerate()
        .map(|(tile, loss)| loss * 4.0 * PI / grid.solid_angle(tile))
        .collect();
    let (mut mse, mut psnr) = (0.0, 0.0);
    for share in poses {
        let error: f64 = share.iter().zip(&per_pixel).map(|(s, e)| s * e).sum();
        mse += error;
        psnr += capped_psnr_db(error);
    }
    let count = poses.len().max(1) as f64;
    (mse / count, psnr / count)
}

fn plan_error(gop: usize, error: impl std::fmt::Display) -> EvaluateError {
    EvaluateError::Plan { gop, reason: error.to_string() }
}

/// The coarsest rung of every tile, in raster order.
pub(crate) fn base_layer(gop: &GopTable) -> Vec<Piece> {
    let coarsest = |tile: &crate::rd::TileTable| -> Rung {
        *tile.rungs().last().expect("a tile has a rung at least")
    };
    let tiles = gop.tiles().iter().enumerate();
    tiles.map(|(tile, table)| Piece { tile, rung: coarsest(table), miss_chance: 0.0 }).collect()
}

/// What is left of a throughput after `base` bytes, taken from all paths alike.
pub(crate) fn without(
    throughput: &Throughput,
    base: ByteCount,
) -> Result<Throughput, crate::ows::ThroughputError> {
    let rest = |paths: &[ByteCount]| {
        let all: ByteCount = paths.iter().copied().sum();
        let left = all.saturating_sub(base).as_u64();
        let part = |bytes: &ByteCount| {
            let share = u128::from(bytes.as_u64()) * u128::from(left);
            // At most `bytes`, because `left` is at most the sum.
            ByteCount::new((share / u128::from(all.as_u64().max(1))) as u64)
        };
        paths.iter().map(part).collect()
    };
    let samples = throughput.samples().iter();
    Throughput::from_samples(samples.map(|(weight, paths)| (*weight, rest(paths))).collect())
}

/// The plan behind its base layer, less the pieces that are the base layer's own.
pub(crate) fn with_base(plan: Plan, base: Vec<Piece>, base_bytes: ByteCount) -> Plan {
    if base.is_empty() {
        return plan;
    }
    let adds = |piece: &Piece| piece.rung.qp != base[piece.tile].rung.qp;
    let finer: Vec<Piece> = plan.sent.iter().filter(|piece| adds(piece)).copied().collect();
    let bytes = finer.iter().map(|piece| piece.rung.bytes).sum::<ByteCount>() + base_bytes;
    let sent = base.into_iter().chain(finer).collect();
    Plan { sent, bytes, ..plan }
}
