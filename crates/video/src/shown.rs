//! What of a tile is on time, what a player holds of it, and what is shown where it is late: one
//! definition for the server, the player and the evaluation.
//!
//! - A tile **arrived** if the encoding that the plan sends is whole before its GoP is shown, **is
//!   late** if it is not, and was **dropped** if the plan sends none. The encoding of a base layer
//!   counts apart from it; where the plan wants just that one, it is sent once, and is the tile's.
//! - What is late is given up. It is never shown, and so it is not **held** either: held is the best
//!   encoding of a tile of the last GoP of which any was on time.
//! - A tile is **concealed** if no encoding of it is on time: by what is held, with the last picture
//!   of that GoP, where the stream's [`Concealment`] is that and the change since then is known; else
//!   by grey.

use std::f64::consts::PI;

use crate::geometry::Grid;
use crate::metric::{mse_of_psnr_db, psnr_db};

/// No PSNR is taken above this, so that a mean of decibels stays one where a viewport is exact.
pub const PSNR_CEILING_DB: f64 = 100.0;

/// What a player shows where a tile is missing. The result depends on it most, so results say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concealment {
    /// Mid-grey: the paper's setting, where a late tile is lost.
    Grey,
    /// The last picture of the tile that did arrive, as long as the table of concealments reaches
    /// back; grey before anything has.
    LastReceived,
    /// The coarsest rung of every tile, sent before everything else, those most likely seen first,
    /// as far as the paths carry it; grey where even that is late or left out.
    BaseLayer,
}

impl Concealment {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 3] = [
        ("grey", Self::Grey),
        ("last-received", Self::LastReceived),
        ("base-layer", Self::BaseLayer),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, concealment)| *concealment == self);
        found.map_or("", |(name, _)| name)
    }

    /// The concealment called `name`, if there is one.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, concealment)| *concealment)
    }
}

/// An encoding of a tile in one GoP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoding {
    /// Its QP.
    pub qp: u8,
    /// What it loses: its part of the frame's WS-MSE.
    pub loss: f64,
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

/// What concealments of a tile lose in one GoP, as parts of the frame's WS-MSE.
#[derive(Clone, Copy, Debug)]
pub struct Concealments<'a> {
    /// Mid-grey.
    pub grey: f64,
    /// What the original has changed since one GoP before, two before, and so on.
    pub changes: &'a [f64],
}

/// What became of a tile by the time at which its GoP is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// What the plan sends of it is whole.
    Arrived,
    /// It is not.
    Late,
    /// The plan sends nothing of it.
    Dropped,
}

/// What is sent of a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wanted {
    /// By the plan.
    pub planned: Option<Encoding>,
    /// Before, as a base layer.
    pub base: Option<Encoding>,
}

impl Wanted {
    /// What became of the tile, and the best that can be shown of it, when `is_there` says which
    /// QPs of it are whole in time.
    pub fn outcome(&self, is_there: impl Fn(u8) -> bool) -> (Fate, Option<Encoding>) {
        let there = |encoding: &&Encoding| is_there(encoding.qp);
        let fate = match &self.planned {
            None => Fate::Dropped,
            Some(planned) if is_there(planned.qp) => Fate::Arrived,
            Some(_) => Fate::Late,
        };
        let all = self.planned.iter().chain(&self.base).filter(there);
        (fate, all.min_by(|one, other| one.loss.total_cmp(&other.loss)).copied())
    }
}

/// What a player holds of each tile.
#[derive(Clone, Debug)]
pub struct Held(Vec<Option<(usize, Encoding)>>);

impl Held {
    /// Nothing yet, of so many tiles.
    pub fn new(tiles: usize) -> Self {
        Self(vec![None; tiles])
    }

    /// How many tiles there are.
    pub fn tiles(&self) -> usize {
        self.0.len()
    }

    /// An encoding of a tile was whole before GoP `gop` was shown. Tiles that there are not are
    /// ignored.
    pub fn note(&mut self, tile: usize, gop: usize, encoding: Encoding) {
        let Some(held) = self.0.get_mut(tile) else { return };
        let newer = |(of, before): (usize, Encoding)| (gop, -encoding.loss) > (of, -before.loss);
        if held.is_none_or(newer) {
            *held = Some((gop, encoding));
        }
    }

    /// What conceals a tile of GoP `gop` of which nothing is in time, and what that loses.
    pub fn conceal(
        &self,
        concealment: Concealment,
        gop: usize,
        tile: usize,
        concealments: Concealments<'_>,
    ) -> (Shown, f64) {
        let old = self.0.get(tile).copied().flatten();
        let old = old.filter(|_| concealment == Concealment::LastReceived);
        let old = old.and_then(|(of, Encoding { qp, loss })| {
            let change = concealments.changes.get(gop.checked_sub(of)?.checked_sub(1)?)?;
            Some((Shown::Stale { gop: of, qp }, change + loss))
        });
        old.unwrap_or((Shown::Grey, concealments.grey))
    }
}

/// The viewport's mean MSE over its poses and the mean of its PSNR, when each tile loses its part of
/// `losses` of the frame's WS-MSE: at each pose each tile takes its share of the viewport's pixels. A
/// tile's error per pixel is its loss by its share of the sphere.
pub fn viewport_error<S: AsRef<[f64]>>(
    grid: Grid,
    poses: impl IntoIterator<Item = S>,
    losses: &[f64],
) -> (f64, f64) {
    let tiles = losses.iter().enumerate();
    let per_pixel: Vec<f64> =
        tiles.map(|(tile, loss)| loss * 4.0 * PI / grid.solid_angle(tile)).collect();
    let (mut mse, mut psnr, mut count) = (0.0, 0.0, 0_u32);
    for share in poses {
        let error: f64 = share.as_ref().iter().zip(&per_pixel).map(|(s, e)| s * e).sum();
        mse += error;
        psnr += capped_psnr_db(error);
        count += 1;
    }
    let count = f64::from(count.max(1));
    (mse / count, psnr / count)
}

/// The PSNR in dB, at most [`PSNR_CEILING_DB`].
pub fn capped_psnr_db(mse: f64) -> f64 {
    psnr_db(mse.max(mse_of_psnr_db(PSNR_CEILING_DB)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Encoding = Encoding { qp: 22, loss: 1.0 };
    const COARSE: Encoding = Encoding { qp: 42, loss: 9.0 };
    const CONCEALMENTS: Concealments<'_> = Concealments { grey: 90.0, changes: &[20.0, 30.0] };

    #[test]
    fn what_the_plan_sends_decides_and_the_best_is_shown() {
        let both = Wanted { planned: Some(FINE), base: Some(COARSE) };
        assert_eq!(both.outcome(|_| true), (Fate::Arrived, Some(FINE)));
        assert_eq!(both.outcome(|qp| qp == 42), (Fate::Late, Some(COARSE)));
        assert_eq!(both.outcome(|_| false), (Fate::Late, None));
        let base = Wanted { planned: None, base: Some(COARSE) };
        assert_eq!(base.outcome(|_| true), (Fate::Dropped, Some(COARSE)));
        // One encoding for both is late as what the plan sends.
        let same = Wanted { planned: Some(COARSE), base: Some(COARSE) };
        assert_eq!(same.outcome(|_| false), (Fate::Late, None));
        assert_eq!(Wanted::default().outcome(|_| true), (Fate::Dropped, None));
    }

    #[test]
    fn the_newest_is_held_and_of_that_the_best() {
        let mut held = Held::new(2);
        held.note(0, 3, COARSE);
        held.note(0, 3, FINE);
        held.note(0, 3, COARSE);
        held.note(0, 2, COARSE);
        held.note(7, 3, FINE);
        let conceal = |gop, tile| held.conceal(Concealment::LastReceived, gop, tile, CONCEALMENTS);
        assert_eq!(conceal(4, 0), (Shown::Stale { gop: 3, qp: 22 }, 21.0));
        assert_eq!(conceal(5, 0), (Shown::Stale { gop: 3, qp: 22 }, 31.0));
        // Too old, not older than the GoP itself, and of another tile.
        for (gop, tile) in [(6, 0), (3, 0), (2, 0), (4, 1), (4, 7)] {
            assert_eq!(conceal(gop, tile), (Shown::Grey, 90.0));
        }
        for other in [Concealment::Grey, Concealment::BaseLayer] {
            assert_eq!(held.conceal(other, 4, 0, CONCEALMENTS), (Shown::Grey, 90.0));
        }
    }

    #[test]
    fn a_viewport_without_poses_has_no_error() {
        let grid = Grid::new(4, 2).unwrap();
        assert_eq!(viewport_error(grid, Vec::<Vec<f64>>::new(), &[1.0; 8]), (0.0, 0.0));
        assert_eq!(capped_psnr_db(0.0), PSNR_CEILING_DB);
    }
}
