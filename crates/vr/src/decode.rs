//! Decodes tiles of a package back into luma: tile by tile in one process, or put together into
//! the pictures of a GoP.

use std::path::Path;

use weftline_video::geometry::Rect;
use weftline_video::metric::Plane;

use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::package::{GREY, Layer, Package, TileReader, TileSource};

/// The luma of a GoP's pictures, put together from tiles.
#[derive(Clone, Debug)]
pub struct DecodedGop {
    width: u32,
    height: u32,
    luma: Vec<u8>,
}

impl DecodedGop {
    /// Pictures of that size, one after the other.
    pub(crate) fn new(width: u32, height: u32, luma: Vec<u8>) -> Self {
        Self { width, height, luma }
    }

    /// Puts `rect` of a picture of `from`, or plain grey, into the same place of all pictures.
    pub(crate) fn freeze(&mut self, rect: Rect, from: Option<Plane<'_>>) {
        let (stride, left) = (self.width as usize, rect.left as usize);
        let pixels = stride * self.height as usize;
        for picture in self.luma.chunks_exact_mut(pixels) {
            for row in rect.top..rect.top + rect.height {
                let into = &mut picture[row as usize * stride + left..][..rect.width as usize];
                match from {
                    Some(plane) => into.copy_from_slice(&plane.row(row)[left..][..into.len()]),
                    None => into.fill(GREY),
                }
            }
        }
    }

    /// Decodes GoP `gop` with tile t at QP `qps[t]`.
    ///
    /// # Errors
    /// [`VrError::Invalid`] if there is no such GoP or QP, or not one QP for each tile; else what
    /// keeps ffmpeg from decoding.
    pub fn decode(
        ffmpeg: &Ffmpeg,
        package: &Package,
        gop: u32,
        qps: &[u8],
    ) -> Result<Self, VrError> {
        let plan = package.description();
        let grid = plan.grid();
        if gop >= plan.gops() || qps.len() != grid.tiles() {
            let (gops, tiles) = (plan.gops(), grid.tiles());
            return Err(VrError::Invalid(format!(
                "GoP {gop} with {} QPs was asked for; there are {gops} GoPs of {tiles} tiles",
                qps.len()
            )));
        }
        if let Some(qp) = qps.iter().find(|qp| !plan.qps().contains(qp)) {
            return Err(VrError::Invalid(format!("the package has no QP {qp}")));
        }
        let dir = std::path::absolute(package.dir()).map_err(VrError::io("find", package.dir()))?;
        let scratch = Scratch::new()?;
        let files: Vec<TileSource> = qps
            .iter()
            .enumerate()
            .map(|(tile, &qp)| {
                let (init, media) =
                    (Layer::Tiles.init(tile, qp), Layer::Tiles.segment(tile, qp, gop));
                TileSource::Segments(init, media)
            })
            .collect();
        scratch.link(&dir)?;
        let what = format!("GoP {gop} of {}", package.dir().display());
        let mut reader =
            TileReader::start(ffmpeg, plan, scratch.0.path(), "tiles.txt", &files, &what)?;
        let (width, height) = (plan.frame().width(), plan.frame().height());
        let pixels = width as usize * height as usize;
        let mut luma = vec![0; pixels * plan.gop_frames() as usize];
        for tile in 0..grid.tiles() {
            let rect = grid.rect(tile, plan.frame());
            for picture in luma.chunks_exact_mut(pixels) {
                let decoded = reader.next()?;
                let rows = picture.chunks_exact_mut(width as usize).skip(rect.top as usize);
                for (y, row) in (0..rect.height).zip(rows) {
                    let left = rect.left as usize;
                    row[left..left + rect.width as usize].copy_from_slice(decoded.row(y));
                }
            }
        }
        reader.finish()?;
        Ok(Self::new(width, height, luma))
    }

    /// How many pictures there are.
    pub fn len(&self) -> usize {
        self.luma.len() / (self.width as usize * self.height as usize)
    }

    /// Whether there is none; there always is one.
    pub fn is_empty(&self) -> bool {
        self.luma.is_empty()
    }

    /// The luma of picture `index`.
    ///
    /// # Panics
    /// If there is no such picture.
    pub fn picture(&self, index: usize) -> Plane<'_> {
        let pixels = self.width as usize * self.height as usize;
        let data = &self.luma[index * pixels..(index + 1) * pixels];
        Plane::new(data, self.width, self.height, self.width as usize)
            .expect("the slice has the size of a picture")
    }
}

/// A directory of our own beside others' temporary files, gone at the end. The package is linked
/// into it: so it need not be writable, and may have any name.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Result<Self, VrError> {
        let made = tempfile::Builder::new().prefix("weftline-vr-").tempdir();
        made.map(Self).map_err(VrError::io("make a directory in", &std::env::temp_dir()))
    }

    fn link(&self, package: &Path) -> Result<(), VrError> {
        let link = self.0.path().join("tiles");
        std::os::unix::fs::symlink(package.join("tiles"), &link).map_err(VrError::io("make", &link))
    }
}
