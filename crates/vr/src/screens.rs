//! Pictures of a viewport that a browser has drawn, against the same drawn here: from the same tiles, and
//! from the source.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use weftline_video::geometry::{FieldOfView, Orientation};
use weftline_video::metric::{Camera, Plane, ViewportMap, psnr_db};

use crate::decode::DecodedGop;
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Stdin, as_file};
use crate::package::Package;
use crate::source::Source;

/// A picture that was drawn in a browser, of luma alone.
#[derive(Clone, Debug)]
pub struct Screen {
    /// The file: a PNG, or whatever else ffmpeg reads, whose red is the luma.
    pub file: PathBuf,
    /// The GoP of the stream, which plays its package over and over, and the picture in it.
    pub gop: u32,
    /// Which of the GoP's pictures it shows.
    pub picture: u32,
    /// The QP of each tile.
    pub qps: Vec<u8>,
    /// How the head was turned.
    pub orientation: Orientation,
    /// The angle of the picture's longer side, degrees.
    pub fov_deg: f64,
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

/// What comes of a comparison, dB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The PSNR of the browser's picture against the viewport of the source.
    pub shown_db: f64,
    /// The same of the viewport drawn here of the decoded tiles: what the model stands for.
    pub drawn_db: f64,
    /// The PSNR of the browser's picture against that one.
    pub apart_db: f64,
}

impl Screen {
    fn camera(&self) -> Result<Camera, VrError> {
        let wrong = |error: &dyn std::fmt::Display| {
            VrError::Invalid(format!("{}: {error}", self.file.display()))
        };
        let half = (self.fov_deg.to_radians() / 2.0).tan();
        let (wide, high) = (f64::from(self.width), f64::from(self.height));
        let longer = wide.max(high);
        let angle = |side: f64| 2.0 * (half * side / longer).atan().to_degrees();
        let fov = FieldOfView::new(angle(wide), angle(high)).map_err(|error| wrong(&error))?;
        Camera::new(fov, self.width, self.height).map_err(|error| wrong(&error))
    }

    /// Its luma, row by row.
    fn read(&self, ffmpeg: &Ffmpeg) -> Result<Vec<u8>, VrError> {
        // Red, green and blue are alike, and no matrix changes them on the way.
        let mut args = vec![
            OsString::from("-i"),
            as_file(&std::path::absolute(&self.file).map_err(VrError::io("find", &self.file))?),
        ];
        args.extend(
            [
                "-frames:v",
                "1",
                "-vf",
                "format=gbrp,extractplanes=r",
                "-c:v",
                "pgm",
                "-f",
                "image2pipe",
                "pipe:1",
            ]
            .map(OsString::from),
        );
        let mut running = ffmpeg.start(&args, Path::new("."), Stdin::Null, true)?;
        let mut stdout = running.stdout().ok_or(VrError::NoProgram("ffmpeg"))?;
        // A larger picture is another one, whatever its size.
        let head = format!("P5\n{} {}\n255\n", self.width, self.height).into_bytes();
        let pixels = u64::from(self.width) * u64::from(self.height);
        let mut read = Vec::new();
        std::io::Read::take(&mut stdout, head.len() as u64 + pixels + 1)
            .read_to_end(&mut read)
            .map_err(VrError::io("read from", Path::new("ffmpeg")))?;
        drop(stdout);
        let luma = read.strip_prefix(&head[..]).filter(|luma| luma.len() as u64 == pixels);
        let Some(luma) = luma else {
            // What ffmpeg says of it is better, if it says anything.
            running.finish(&self.file, "to read a picture").ok();
            return Err(self.of_another_size());
        };
        let luma = luma.to_vec();
        running.finish(&self.file, "to read a picture")?;
        Ok(luma)
    }

    fn of_another_size(&self) -> VrError {
        let (file, width, height) = (self.file.display(), self.width, self.height);
        VrError::Invalid(format!("{file} has not {width} x {height} pixels"))
    }
}

/// Compares screens with `package` and its `source`; each in its place.
///
/// # Errors
/// [`VrError::Invalid`] if one is of no such picture, or not as large as it says; else what keeps ffmpeg from
/// decoding.
pub fn compare(
    ffmpeg: &Ffmpeg,
    package: &Package,
    source: &Source,
    screens: &[Screen],
) -> Result<Vec<Compared>, VrError> {
    let plan = package.description();
    // Of the last one only: a GoP may have a quarter of a gigabyte.
    let (mut original, mut decoded): (Option<(u32, DecodedGop)>, Option<(_, DecodedGop)>) =
        (None, None);
    let mut all = Vec::with_capacity(screens.len());
    for screen in screens {
        let Screen { file, picture, qps, .. } = screen;
        if *picture >= plan.gop_frames() {
            let frames = plan.gop_frames();
            let text =
                format!("{}: a GoP has {frames} pictures, and none is {picture}", file.display());
            return Err(VrError::Invalid(text));
        }
        // A package is played from its beginning again.
        let gop = screen.gop % plan.gops();
        let original = match original.take() {
            Some((of, there)) if of == gop => original.insert((of, there)),
            _ => original.insert((gop, DecodedGop::original(ffmpeg, package, source, gop)?)),
        };
        let key = (gop, qps);
        let decoded = match decoded.take() {
            Some((of, there)) if of == key => decoded.insert((of, there)),
            _ => decoded.insert((key, DecodedGop::decode(ffmpeg, package, gop, qps)?)),
        };
        let shown = screen.read(ffmpeg)?;
        let camera = screen.camera()?;
        let map = ViewportMap::new(camera, screen.orientation, plan.frame());
        let draw = |picture: Plane<'_>| {
            let mut out = vec![0; shown.len()];
            map.draw_rows(0..camera.height(), picture, &mut out).map(|()| out)
        };
        let drawn = |of: &DecodedGop| {
            draw(of.picture(*picture as usize)).map_err(|error| VrError::Invalid(error.to_string()))
        };
        let (original, tiles) = (drawn(&original.1)?, drawn(&decoded.1)?);
        all.push(Compared {
            shown_db: psnr(&original, &shown),
            drawn_db: psnr(&original, &tiles),
            apart_db: psnr(&tiles, &shown),
        });
    }
    Ok(all)
}

fn psnr(one: &[u8], other: &[u8]) -> f64 {
    let squares = one.iter().zip(other).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2));
    psnr_db(squares.sum::<u64>() as f64 / one.len() as f64)
}
