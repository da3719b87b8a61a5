//! Decodes tiles of a package back into luma: tile by tile in one process, or put together into
//! the pictures of a GoP.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;

use weftline_video::geometry::Rect;
use weftline_video::metric::Plane;

use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Running, Stdin};
use crate::package::{Description, GREY, Package};

/// What is decoded for a tile: a file of its own, or an initialisation and a media segment.
pub(crate) enum TileSource {
    Whole(PathBuf),
    Segments(PathBuf, PathBuf),
}

/// The luma of tiles, all pictures of the first one, then all of the next.
pub(crate) struct TileReader {
    running: Running,
    stdout: ChildStdout,
    /// One picture of one tile.
    tile: Vec<u8>,
    width: u32,
    height: u32,
    left: usize,
    total: usize,
    place: PathBuf,
    what: String,
}

impl TileReader {
    /// Starts to decode `tiles`, whose paths are relative to `dir`; `list` is a file that may be
    /// written there. `what` names it all in messages.
    pub(crate) fn start(
        ffmpeg: &Ffmpeg,
        plan: &Description,
        dir: &Path,
        list: &str,
        tiles: &[TileSource],
        what: &str,
    ) -> Result<Self, VrError> {
        // One decoder takes one tile after the other: half the cost of one decoder for each.
        let mut text = "ffconcat version 1.0\n".to_owned();
        for tile in tiles {
            // Names of ours: nothing in them needs quoting.
            let written = match tile {
                TileSource::Whole(file) => writeln!(text, "file '{}'", file.display()),
                TileSource::Segments(init, media) => {
                    writeln!(text, "file 'concat:{}|{}'", init.display(), media.display())
                }
            };
            written.expect("writing to a String cannot fail");
        }
        let path = dir.join(list);
        fs::write(&path, text).map_err(VrError::io("write", &path))?;
        let mut args: Vec<OsString> =
            ["-threads", "1", "-f", "concat", "-safe", "0"].map(OsString::from).to_vec();
        args.extend(["-protocol_whitelist", "file,pipe,concat", "-i", list].map(OsString::from));
        args.extend(["-map", "0:v:0", "-vf", "extractplanes=y"].map(OsString::from));
        args.extend(ffmpeg.passthrough().map(OsString::from));
        args.extend(["-f", "rawvideo", "pipe:1"].map(OsString::from));
        let mut running = ffmpeg.start(&args, dir, Stdin::Null, true)?;
        let stdout = running.stdout().ok_or(VrError::NoProgram("ffmpeg"))?;
        // Fewer turns of the two processes; where it cannot be, it is only slower.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, 1 << 20);
        let rect = plan.grid().rect(0, plan.frame());
        let total = tiles.len() * plan.gop_frames() as usize;
        Ok(Self {
            running,
            stdout,
            tile: vec![0; rect.width as usize * rect.height as usize],
            width: rect.width,
            height: rect.height,
            left: total,
            total,
            place: dir.to_owned(),
            what: what.to_owned(),
        })
    }

    /// The next picture of a tile.
    pub(crate) fn next(&mut self) -> Result<Plane<'_>, VrError> {
        match self.stdout.read_exact(&mut self.tile) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(self.short()),
            Err(error) => return Err(VrError::io("read from", Path::new("ffmpeg"))(error)),
        }
        self.left = self.left.saturating_sub(1);
        Plane::new(&self.tile, self.width, self.height, self.width as usize).map_err(|why| {
            VrError::Ffmpeg { doing: format!("to decode {}", self.what), reason: why.to_string() }
        })
    }

    /// Makes sure that nothing more comes, and that all went well.
    pub(crate) fn finish(mut self) -> Result<(), VrError> {
        let more = self.stdout.read(&mut [0]).map_err(VrError::io("read from", &self.place))?;
        if self.left > 0 || more > 0 {
            return Err(self.short());
        }
        self.running.finish(&self.place, &format!("to decode {}", self.what))
    }

    fn short(&self) -> VrError {
        if self.running.is_stopped() {
            return VrError::Stopped;
        }
        let (got, total) = (self.total - self.left, self.total);
        let (width, height) = (self.width, self.height);
        VrError::Ffmpeg {
            doing: format!("to decode {}", self.what),
            reason: format!(
                "{got} whole pictures of tiles of {width}x{height} came where {total} should; are \
                 the tiles damaged, or did ffmpeg end early?"
            ),
        }
    }
}

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
                    (Description::init(tile, qp), Description::segment(tile, qp, gop));
                TileSource::Segments(init, media)
            })
            .collect();
        scratch.link(&dir)?;
        let what = format!("GoP {gop} of {}", package.dir().display());
        let mut reader = TileReader::start(ffmpeg, plan, &scratch.0, "tiles.txt", &files, &what)?;
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
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, VrError> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("weftline-vr-{}-{}", id.0, id.1));
        fs::create_dir(&path).map_err(VrError::io("make", &path))?;
        Ok(Self(path))
    }

    fn link(&self, package: &Path) -> Result<(), VrError> {
        let link = self.0.join("tiles");
        std::os::unix::fs::symlink(package.join("tiles"), &link).map_err(VrError::io("make", &link))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Temporary directories are cleared by the system, too.
        let _ = fs::remove_dir_all(&self.0);
    }
}
