//! One scene, one viewer, one transport, one tile scheme.

use std::collections::BTreeSet;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};

use super::parts::Parts;
use super::paths::Paths;
use super::{ConcealmentTable, EvaluateError, Views};
use crate::forecast::Forecast;
use crate::geometry::{Grid, Viewport};
use crate::head::{TileProbabilities, Trace};
use crate::ows::{Delivery, Entry, Plan, Recency, Throughput};
use crate::rd::RdTable;
use crate::sending::{BESIDE, Chances, Planner, Sending, on_the_way, wanted};
use crate::shown::{
    Concealment, Concealments, Encoding, Fate, Held, Shown, capped_psnr_db, viewport_error,
};

/// What one session is made of.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// The scene.
    pub table: &'a RdTable,
    /// What concealments of the scene lose.
    pub concealments: &'a ConcealmentTable,
    /// Where in the tiles that is, if it is known: viewers' views are of its cells then.
    pub parts: Option<&'a Parts>,
    /// What the decoder of an encoding of a tile is set up from: what the first of it to arrive
    /// takes besides.
    pub init: ByteCount,
    /// How other viewers looked at the scene.
    pub probabilities: &'a TileProbabilities,
    /// The viewport of the viewer.
    pub viewport: &'a Viewport,
    /// How the viewer moves, who is none of those of the probabilities.
    pub trace: &'a Trace,
    /// What each path carries in each second, without the heads of packets. For a transport that
    /// fills in order one path stands for all: its goodput.
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
    /// The work a scheme may do for a GoP: [`SearchBudget::units`](crate::ows::SearchBudget::units).
    pub search_units: u64,
}

/// What became of one GoP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GopOutcome {
    /// Its number, from 0.
    pub gop: usize,
    /// What the scheme wanted sent, a base layer included.
    pub sent: ByteCount,
    /// What the paths could carry in its time, beyond what was on its way before it.
    pub carried: ByteCount,
    /// Tiles sent that were not whole at the deadline. A base layer's are not among them.
    pub late: usize,
    /// Tiles that were not sent.
    pub dropped: usize,
    /// Tiles of which no encoding was whole at the deadline, so that they were concealed.
    pub concealed: usize,
    /// The viewport's MSE that the plan expected.
    pub expected_mse: f64,
    /// The viewport's MSE, the mean over the poses.
    pub mse: f64,
    /// The mean over the poses of the viewport's PSNR in dB.
    pub mean_psnr_db: f64,
}

impl GopOutcome {
    /// The PSNR in dB of the GoP's mean MSE, at most [`PSNR_CEILING_DB`](crate::evaluate::PSNR_CEILING_DB).
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

    /// The mean number of tiles a GoP that were concealed.
    pub fn mean_concealed(&self) -> f64 {
        self.mean(|gop| gop.concealed as f64)
    }

    fn mean(&self, value: impl Fn(&GopOutcome) -> f64) -> f64 {
        self.gops.iter().map(value).sum::<f64>() / self.gops.len() as f64
    }
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

/// What a session has come to.
struct Progress<'a> {
    paths: Paths<'a>,
    /// What the player holds of each tile.
    held: Held,
    /// The encodings whose decoders it has set up: tile and QP.
    known: BTreeSet<(usize, u8)>,
}

/// The rate at which a server plans for so much of segments in a GoP of so many tiles, all of which are
/// sent and whose decoders are set up from nothing.
pub fn rate_for(segments: ByteCount, tiles: usize, gop: Duration) -> Bitrate {
    let beside = ByteCount::new(BESIDE.as_u64().saturating_mul(tiles as u64));
    Forecast::measured_for(Bitrate::from_transfer(segments + beside, gop))
}

impl Session<'_> {
    /// Plays all GoPs for which there are a table, motion and rates.
    ///
    /// # Errors
    /// [`EvaluateError`] if the tables are not for the same tiles, if there is no GoP to play, or
    /// if no plan can be made (the scheme's or the history's reason is said).
    pub fn run(&self) -> Result<SessionOutcome, EvaluateError> {
        let grid = self.check()?;
        let (gop, most) = (self.table.gop_duration(), self.table.gops().len());
        let views = Views::new(self.trace, self.cells(grid), self.viewport, gop, most);
        let outcomes = self.run_for(&[&views], &mut |_| {})?;
        Ok(outcomes.into_iter().next().unwrap_or(SessionOutcome { gops: Vec::new() }))
    }

    /// Plays to several viewers in place of the session's own, each alone: what is planned, sent
    /// and late does not depend on who of them watches, so it is worked out once. `watch` is told
    /// of every GoP.
    ///
    /// # Errors
    /// As [`Self::run`]; also if the views are of another grid (that of the cells of [`Self::parts`], or
    /// else of the tiles) or of other GoPs.
    pub fn run_for(
        &self,
        viewers: &[&Views],
        watch: &mut dyn FnMut(&GopDetail<'_>),
    ) -> Result<Vec<SessionOutcome>, EvaluateError> {
        let grid = self.check()?;
        let cells = self.cells(grid);
        let gop_duration = self.table.gop_duration();
        if let Some(views) = viewers.iter().find(|v| v.grid() != cells || v.gop() != gop_duration) {
            let shape = |grid: Grid, gop: Duration| format!("{grid} in {} s", gop.as_secs_f64());
            let (got, wanted) = (shape(views.grid(), views.gop()), shape(cells, gop_duration));
            return Err(EvaluateError::Mismatch { what: "a viewer's motion", got, wanted });
        }
        let gops = self.length(viewers.iter().map(|views| views.gops()).min().unwrap_or(0))?;
        let mut progress = Progress {
            paths: Paths::new(self.seconds),
            held: Held::new(grid.tiles()),
            known: BTreeSet::new(),
        };
        progress.paths.fill(self.start_of(0));
        let mut outcomes = vec![SessionOutcome { gops: Vec::with_capacity(gops) }; viewers.len()];
        for gop in 0..gops {
            let (common, losses) = self.gop(grid, gop, &mut progress, watch)?;
            for (outcome, views) in outcomes.iter_mut().zip(viewers) {
                let (mse, mean_psnr_db) = viewport_error(cells, views.poses(gop), &losses);
                outcome.gops.push(GopOutcome { mse, mean_psnr_db, ..common });
            }
        }
        Ok(outcomes)
    }

    /// The grid of what losses are known of.
    fn cells(&self, grid: Grid) -> Grid {
        self.parts.map_or(grid, Parts::cells)
    }

    /// When GoP `gop` begins to be sent.
    fn start_of(&self, gop: usize) -> Duration {
        let warm_up = Duration::from_secs(self.warm_up as u64);
        // A table has at most `rd::MAX_GOPS`.
        warm_up + self.table.gop_duration() * gop as u32
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
        let tiles = (0..gops).map(|gop| self.concealments.tiles(gop));
        if let Some(found) = tiles.into_iter().find(|tiles| *tiles != grid.tiles()) {
            let got = format!("{found} tiles in {} GoPs", self.concealments.gops());
            let wanted = format!("{} tiles in {gops} GoPs", grid.tiles());
            return differs("the table of concealments", got, wanted);
        }
        Ok(grid)
    }

    /// Plans and sends one GoP: what is the same for all viewers (their errors are not filled in),
    /// and what each cell loses, or each tile, as it is shown.
    fn gop(
        &self,
        grid: Grid,
        gop: usize,
        progress: &mut Progress<'_>,
        watch: &mut dyn FnMut(&GopDetail<'_>),
    ) -> Result<(GopOutcome, Vec<f64>), EvaluateError> {
        let wrong = |error: String| EvaluateError::Plan { gop, reason: error };
        let tiles = &self.table.gops()[gop];
        let Progress { paths, held, known } = &mut *progress;
        let init = |tile, qp| match known.contains(&(tile, qp)) {
            true => ByteCount::ZERO,
            false => self.init,
        };
        let costs = on_the_way(tiles, init);
        let deadline = self.start_of(gop + 1);
        let horizon = self.table.gop_duration();
        let expected = paths.forecast().expected(horizon, &self.recency);
        let expected = expected.map_err(|error| wrong(error.to_string()))?;
        let carried = paths.forecast().carried(horizon, &self.recency);
        let room = paths.room(deadline);
        let truth = Throughput::certain(&room).map_err(|error| wrong(error.to_string()))?;
        let visibility = self.probabilities.weights(gop);
        let concealed: Vec<f64> =
            (0..grid.tiles()).map(|tile| self.conceal(held, gop, tile).1).collect();
        let chances = Chances {
            visibility: &visibility,
            concealed: &concealed,
            expected: &expected,
            carried: carried.map_err(|error| wrong(error.to_string()))?,
            delivery: self.delivery,
            truth: Some(&truth),
        };
        let Self { scheme, concealment, search_units, .. } = *self;
        let planner = Planner { scheme, concealment, search_units };
        let sending = planner.plan(&costs, &chances).map_err(wrong)?;
        let arrived = sending.plan.arrivals(self.delivery, &room);
        paths.send(sending.plan.bytes, deadline);
        let sending = sending.with_package_sizes(tiles);
        let there = sending.plan.sent.iter().zip(arrived).filter(|(_, arrived)| *arrived);
        let there = there.map(|(piece, _)| (piece.tile, piece.rung.qp)).collect();
        let (shown, losses, late) = self.show(gop, &sending, &there, held);
        known.extend(there);
        let plan = &sending.plan;
        watch(&GopDetail { gop, visibility: &visibility, plan, shown: &shown, losses: &losses });
        let outcome = GopOutcome {
            gop,
            sent: plan.bytes,
            carried: room.iter().copied().sum(),
            late,
            dropped: plan.dropped.len(),
            concealed: shown.iter().filter(|shown| !matches!(shown, Shown::Rung(_))).count(),
            expected_mse: plan.expected_loss,
            mse: 0.0,
            mean_psnr_db: 0.0,
        };
        let losses = match self.parts {
            Some(parts) => parts.spread(gop, &shown, &losses),
            None => losses,
        };
        Ok((outcome, losses))
    }

    /// What is shown of a tile of which nothing is there, and what that loses.
    fn conceal(&self, held: &Held, gop: usize, tile: usize) -> (Shown, f64) {
        let (grey, changes) = self.concealments.of(gop, tile);
        held.conceal(self.concealment, gop, tile, Concealments { grey, changes })
    }

    /// What is shown of each tile and what that loses, when `there` is whole in time, and how many
    /// tiles were late; notes what the player now holds.
    fn show(
        &self,
        gop: usize,
        sending: &Sending,
        there: &BTreeSet<(usize, u8)>,
        held: &mut Held,
    ) -> (Vec<Shown>, Vec<f64>, usize) {
        let (mut shown, mut losses, mut late) = (Vec::new(), Vec::new(), 0);
        for (tile, rungs) in sending.rungs(held.tiles()).into_iter().enumerate() {
            let (fate, best) = wanted(rungs).outcome(|qp| there.contains(&(tile, qp)));
            late += usize::from(fate == Fate::Late);
            let (what, loss) = match best {
                Some(Encoding { qp, loss }) => (Shown::Rung(qp), loss),
                None => self.conceal(held, gop, tile),
            };
            shown.push(what);
            losses.push(loss);
            if let Some(best) = best {
                held.note(tile, gop, best);
            }
        }
        (shown, losses, late)
    }
}
