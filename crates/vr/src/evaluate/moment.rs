//! One GoP as different schemes send it: what a report shows, with what a viewer sees of it.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use weftline_scenario::{VrMoment, VrPlan, VrTile};
use weftline_video::evaluate::{Concealment, GopDetail, Shown};
use weftline_video::geometry::{FieldOfView, Orientation};
use weftline_video::head::times_of;
use weftline_video::metric::{Camera, Plane, ViewportMap};
use weftline_video::ows::Entry;

use super::compose::compose;
use super::{Audience, One, Rates, Scene, Settings, make_dir};
use crate::decode::DecodedGop;
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::package::Package;
use crate::source::Source;

/// The side of a drawn viewport in pixels.
const SIDE: u32 = 256;

/// Where and when to look.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The scene.
    pub scene: &'a Scene,
    /// Its audience.
    pub audience: &'a Audience,
    /// The concealment.
    pub concealment: Concealment,
    /// The GoP.
    pub gop: usize,
    /// The viewer, as an index.
    pub viewer: usize,
}

/// A moment, and what each of its plans shows.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What is told of it.
    pub moment: VrMoment,
    shown: Vec<Vec<Shown>>,
}

impl Moment<'_> {
    /// What the pairs of rates and scheme do at this moment; the rates are of one seed.
    ///
    /// # Errors
    /// If they cannot be played.
    pub fn look(
        &self,
        pairs: &[(&Rates, &'static Entry)],
        settings: &Settings,
    ) -> Result<Seen, VrError> {
        let Self { scene, audience, concealment, gop, viewer } = *self;
        let (trace, _) = &audience.viewers[viewer];
        let mut seen = Seen {
            moment: VrMoment {
                video: scene.name.clone(),
                concealment: concealment.name().to_owned(),
                gop,
                viewer: trace.viewer().to_owned(),
                columns: scene.table.columns().into(),
                rows: scene.table.rows().into(),
                seen: audience.probabilities.seen(gop).to_vec(),
                ..VrMoment::default()
            },
            shown: Vec::new(),
        };
        for &(rates, scheme) in pairs {
            let one = One { scene, audience, rates, scheme, concealment };
            let mut found = None;
            let outcomes = one.play(settings, &mut |detail| {
                if detail.gop == gop {
                    found = Some((tiles(detail), detail.shown.to_vec()));
                }
            })?;
            let Some((tiles, shown)) = found else { continue };
            seen.moment.condition.clone_from(&rates.condition);
            seen.moment.seed = rates.seed;
            seen.moment.plans.push(VrPlan {
                scheme: scheme.name.to_owned(),
                transport: rates.transport.to_string(),
                psnr_db: outcomes[viewer].gops[gop].psnr_db(),
                tiles,
                picture: None,
            });
            seen.shown.push(shown);
        }
        Ok(seen)
    }

    /// Draws the viewport in the middle of the moment, from the source and as each plan shows it,
    /// as PNG files in `dir`, and notes their names.
    ///
    /// # Errors
    /// If ffmpeg fails or a file cannot be written.
    pub fn draw(
        &self,
        ffmpeg: &Ffmpeg,
        package: &Package,
        source: &Source,
        seen: &mut Seen,
        dir: &Path,
    ) -> Result<(), VrError> {
        make_dir(dir)?;
        let plan = package.description();
        let number = u32::try_from(self.gop).unwrap_or(u32::MAX);
        let poses: Vec<_> = times_of(plan.gop_duration(), number).collect();
        let at = poses[poses.len() / 2];
        let since = at.saturating_sub(plan.gop_duration() * number);
        let orientation = self.audience.viewers[self.viewer].0.at(at);
        let view = View { plan_frame: plan.frame(), orientation };
        let picture = |gop: &DecodedGop| plan.rate().frame_at(since).min(gop.len() - 1);
        let mut name = 0;
        let mut save = |gop: &DecodedGop| {
            let file = format!("{}-{name}.png", file_name(&self.scene.name));
            name += 1;
            view.save(gop.picture(picture(gop)), &dir.join(&file)).map(|()| Some(file))
        };
        seen.moment.original = save(&DecodedGop::original(ffmpeg, package, source, number)?)?;
        for (told, shown) in seen.moment.plans.iter_mut().zip(&seen.shown) {
            told.picture = save(&compose(ffmpeg, package, self.gop, shown)?)?;
        }
        Ok(())
    }
}

/// `name` without what a file's name may not have.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("vr-{}", name.chars().map(plain).collect::<String>())
}

/// What became of each tile.
fn tiles(detail: &GopDetail<'_>) -> Vec<VrTile> {
    let mut tiles: Vec<VrTile> = detail
        .shown
        .iter()
        .map(|shown| {
            let (shown_qp, stale) = match *shown {
                Shown::Grey => (None, false),
                Shown::Rung(qp) => (Some(qp), false),
                Shown::Stale { qp, .. } => (Some(qp), true),
            };
            VrTile { shown_qp, stale, ..VrTile::default() }
        })
        .collect();
    for (place, piece) in detail.plan.sent.iter().enumerate() {
        let tile = &mut tiles[piece.tile];
        if tile.sent_qp.is_none_or(|qp| piece.rung.qp < qp) {
            (tile.sent_qp, tile.place) = (Some(piece.rung.qp), Some(place));
        }
    }
    tiles
}

/// A viewport that is drawn.
struct View {
    plan_frame: weftline_video::geometry::FrameSize,
    orientation: Orientation,
}

impl View {
    fn save(&self, picture: Plane<'_>, path: &Path) -> Result<(), VrError> {
        let wrong = |why: weftline_video::metric::MetricError| VrError::Invalid(why.to_string());
        let camera = Camera::new(FieldOfView::default(), SIDE, SIDE).map_err(wrong)?;
        let map = ViewportMap::new(camera, self.orientation, self.plan_frame);
        let mut pixels = vec![0; (SIDE * SIDE) as usize];
        map.draw_rows(0..SIDE, picture, &mut pixels).map_err(wrong)?;
        let file = File::create(path).map_err(VrError::io("write", path))?;
        let mut encoder = png::Encoder::new(BufWriter::new(file), SIDE, SIDE);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(&pixels)?;
            writer.finish()
        });
        written.map_err(|error| VrError::io("write", path)(std::io::Error::other(error)))
    }
}
