//! What a live stream's player has shown, drawn: the viewport as it was, beside what is counted of it.

use std::collections::BTreeMap;

use weftline_video::evaluate::Shown;
use weftline_video::geometry::{FieldOfView, Grid, Viewport};
use weftline_video::live::Pose;
use weftline_video::rd::RdTable;

use super::Scene;
use super::compose::compose;
use super::reference::{Look, per_pixel, rendered};
use crate::decode::DecodedGop;
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::package::Package;
use crate::source::Source;

/// A GoP as a player has shown it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayedGop {
    /// Its number in the stream, which plays its package over and over.
    pub gop: u32,
    /// What was shown of each tile; older GoPs by their numbers in the stream.
    pub shown: Vec<Shown>,
    /// Where it was looked at.
    pub poses: Vec<Pose>,
}

/// The viewport's MSE at each pose of a GoP, for each [`Drawn`](super::Drawn).
#[derive(Clone, Debug, PartialEq)]
pub struct Viewed {
    /// As `vr evaluate` counts it, from the package's tables.
    pub counted: [Vec<f64>; 2],
    /// Of viewports that are drawn from the decoded tiles, and from the source.
    pub drawn: [Vec<f64>; 2],
    /// As a player counts it, which mixes pixels: each tile loses the same all over it.
    pub even: Vec<f64>,
}

/// Draws what was shown, and counts it; each in its place. `pixel` is the width of a viewport's pixel in
/// those of the frame; `progress` is told how many are done.
///
/// # Errors
/// [`VrError::Invalid`] if a GoP is none of the package's, or shows what that does not have, or the package's
/// table does not say what viewports of mixed pixels show; else what keeps ffmpeg from decoding.
pub fn check_played(
    ffmpeg: &Ffmpeg,
    package: &Package,
    source: &Source,
    (fov, pixel): (FieldOfView, f64),
    played: &[PlayedGop],
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Viewed>, VrError> {
    let counter = Counter::new(package, fov)?;
    for gop in played {
        counter.check(gop)?;
    }
    // A package that was played several times is decoded once for each of its GoPs.
    let gops = package.description().gops();
    let mut by_gop: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (place, gop) in played.iter().enumerate() {
        by_gop.entry(gop.gop % gops).or_default().push(place);
    }
    let mut viewed: Vec<Option<Viewed>> = vec![None; played.len()];
    let mut done = 0;
    for (gop, places) in by_gop {
        let original = DecodedGop::original(ffmpeg, package, source, gop)?;
        for place in places {
            let PlayedGop { poses, .. } = &played[place];
            let shown = counter.packaged(&played[place]);
            let decoded = compose(ffmpeg, package, gop as usize, &shown)?;
            let look = Look { fov, pixel };
            let drawn = rendered(package, poses.iter().copied(), look, &original, &decoded)?;
            let (counted, even) = counter.count(&played[place])?;
            viewed[place] = Some(Viewed { counted, drawn, even });
            done += 1;
            progress(done);
        }
    }
    Ok(viewed.into_iter().flatten().collect())
}

/// What is counted of what was shown.
struct Counter {
    scene: Scene,
    /// The same where viewports mix their pixels.
    mixed: Scene,
    viewport: Viewport,
    gops: u32,
}

impl Counter {
    fn new(package: &Package, fov: FieldOfView) -> Result<Self, VrError> {
        let scene = Scene::of(package)?;
        let (mixed, gops) = (scene.mixed()?, package.description().gops());
        Ok(Self { scene, mixed, viewport: Viewport::new(fov), gops })
    }

    /// Whether the package can have been played so.
    fn check(&self, played: &PlayedGop) -> Result<(), VrError> {
        let PlayedGop { gop, shown, poses } = played;
        let tiles = self.scene.table.gops()[self.of(*gop as usize)].tiles();
        let wrong = |why: String| {
            let name = &self.scene.name;
            Err(VrError::Invalid(format!("GoP {gop}: {why}; is it of the package '{name}'?")))
        };
        if shown.len() != tiles.len() {
            return wrong(format!("it shows {} tiles, and there are {}", shown.len(), tiles.len()));
        }
        let length = self.scene.table.gop_duration();
        if let Some(pose) = poses.iter().find(|pose| pose.at > length) {
            let (at_s, length_s) = (pose.at.as_secs_f64(), length.as_secs_f64());
            return wrong(format!("it was looked at after {at_s} s, and lasts {length_s}"));
        }
        for (tile, shown) in shown.iter().enumerate() {
            if self.loss(&self.scene.table, *gop, tile, *shown).is_none() {
                return wrong(format!("of tile {tile} it shows {shown:?}, which there is not"));
            }
        }
        Ok(())
    }

    /// The GoP of the package that is played as this one.
    fn of(&self, gop: usize) -> usize {
        gop % self.gops as usize
    }

    /// What was shown, with the package's numbers of older GoPs.
    fn packaged(&self, played: &PlayedGop) -> Vec<Shown> {
        let packaged = |shown: &Shown| match *shown {
            Shown::Stale { gop, qp } => Shown::Stale { gop: self.of(gop), qp },
            here => here,
        };
        played.shown.iter().map(packaged).collect()
    }

    /// What a tile loses as it is shown; nothing if there is no such picture.
    fn loss(&self, table: &RdTable, gop: u32, tile: usize, shown: Shown) -> Option<f64> {
        let (gop, packaged) = (gop as usize, self.of(gop as usize));
        let rung = |of: usize, qp: u8| {
            Some(table.gops()[self.of(of)].tiles().get(tile)?.at_qp(qp)?.ws_mse)
        };
        match shown {
            Shown::Rung(qp) => rung(gop, qp),
            Shown::Grey => self.scene.concealments.grey(packaged, tile),
            Shown::Stale { gop: old, qp } => {
                // What came before the first GoP of a round was not measured, and is never shown.
                let age = gop.checked_sub(old).filter(|age| *age <= packaged)?;
                Some(self.scene.concealments.change(packaged, tile, age)? + rung(old, qp)?)
            }
        }
    }

    /// The viewport's MSE at each pose, as evaluations count it in both ways, and as a player does.
    fn count(&self, played: &PlayedGop) -> Result<([Vec<f64>; 2], Vec<f64>), VrError> {
        let PlayedGop { gop, shown, poses } = played;
        let seen = |grid: Grid, losses: &[f64]| -> Vec<f64> {
            let errors = per_pixel(grid, losses);
            let error = |pose: &Pose| {
                let share = self.viewport.visibility(grid, pose.orientation).share;
                share.iter().zip(&errors).map(|(share, error)| share * error).sum()
            };
            poses.iter().map(error).collect()
        };
        let losses = |scene: &Scene| -> Vec<f64> {
            let loss = |(tile, shown): (usize, &Shown)| self.loss(&scene.table, *gop, tile, *shown);
            shown.iter().enumerate().filter_map(loss).collect()
        };
        let mut counted = [Vec::new(), Vec::new()];
        for (scene, counted) in [&self.scene, &self.mixed].into_iter().zip(&mut counted) {
            let losses = match &scene.parts {
                Some(parts) => parts.spread(self.of(*gop as usize), shown, &losses(scene)),
                None => losses(scene),
            };
            *counted = seen(scene.cells()?, &losses);
        }
        Ok((counted, seen(self.mixed.grid()?, &losses(&self.mixed))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weftline_video::evaluate::ConcealmentTable;
    use weftline_video::geometry::Orientation;
    use weftline_video::metric::psnr_db;

    use super::*;

    /// Three GoPs of two tiles, at QP 22 and 37; of a tile the mixed loss is half of the other.
    fn counter() -> Counter {
        let mut text =
            "# weftline-rd grid=2x1 gop_s=1\ngop,tile,qp,bytes,ws_mse,mixed_mse\n".to_owned();
        for gop in 0..3 {
            for tile in 0..2 {
                for (qp, bytes, mse) in [(22, 900, 2.0), (37, 100, 8.0)] {
                    let mse = mse + f64::from(gop);
                    text += &format!("{gop},{tile},{qp},{bytes},{mse},{}\n", mse / 2.0);
                }
            }
        }
        let table = RdTable::parse(&text).unwrap();
        let mut miss = "gop,tile,grey,stale1,stale2\n".to_owned();
        for gop in 0..3 {
            for tile in 0..2 {
                miss += &format!("{gop},{tile},{},{},{}\n", 100 + gop, 10 + gop, 20 + gop);
            }
        }
        let concealments = ConcealmentTable::parse(&miss).unwrap();
        let scene = Scene {
            name: "drawn".to_owned(),
            table,
            concealments,
            parts: None,
            mixed_parts: None,
            init: weftline_core::ByteCount::ZERO,
        };
        let mixed = scene.mixed().unwrap();
        Counter { scene, mixed, viewport: Viewport::new(FieldOfView::default()), gops: 3 }
    }

    fn played(gop: u32, shown: [Shown; 2]) -> PlayedGop {
        // Right at the middle of the first tile, which is half of the sphere.
        let orientation = Orientation::looking_at(Grid::new(2, 1).unwrap().center(0));
        PlayedGop {
            gop,
            shown: shown.into(),
            poses: vec![Pose { at: Duration::ZERO, orientation }],
        }
    }

    #[test]
    fn what_is_shown_loses_what_the_tables_say_in_every_round() {
        let counter = counter();
        let loss = |gop, shown| counter.loss(&counter.scene.table, gop, 0, shown);
        for round in [0, 3, 6] {
            assert_eq!(loss(round + 1, Shown::Rung(22)), Some(3.0));
            assert_eq!(loss(round + 1, Shown::Grey), Some(101.0));
            // What has changed since, and what the older one lost itself.
            let old = |back: u32| Shown::Stale { gop: (round + 2 - back) as usize, qp: 37 };
            assert_eq!(loss(round + 2, old(1)), Some(12.0 + 9.0));
            assert_eq!(loss(round + 2, old(2)), Some(22.0 + 8.0));
        }
        // Of the round before nothing was measured; and what there is not.
        for (gop, shown) in [
            (3, Shown::Stale { gop: 2, qp: 37 }),
            (4, Shown::Stale { gop: 2, qp: 37 }),
            (1, Shown::Stale { gop: 1, qp: 37 }),
            (1, Shown::Stale { gop: 2, qp: 37 }),
            (1, Shown::Rung(30)),
        ] {
            assert_eq!(loss(gop, shown), None, "{gop} {shown:?}");
            assert!(counter.check(&played(gop, [Shown::Rung(22), shown])).is_err());
        }
        assert!(counter.check(&played(4, [Shown::Grey, Shown::Stale { gop: 3, qp: 22 }])).is_ok());
        let mut late = played(4, [Shown::Grey; 2]);
        late.poses[0].at = Duration::from_secs(2);
        let error = counter.check(&late).unwrap_err().to_string();
        assert!(error.contains("looked at after 2 s, and lasts 1"), "{error}");
    }

    #[test]
    fn a_viewport_within_a_tile_has_that_tiles_error() {
        let counter = counter();
        let ([nearest, mixed], even) =
            counter.count(&played(0, [Shown::Rung(22), Shown::Grey])).unwrap();
        // Half of the sphere loses two of the frame's WS-MSE: four on each of its pixels.
        let close = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-9, "{got} {wanted}");
        close(nearest[0], 4.0);
        close(mixed[0], 2.0);
        close(even[0], 2.0);
        assert!(psnr_db(even[0]) > psnr_db(nearest[0]));
    }
}
