//! A source cut into GoPs and tiles, each encoded on its own at each QP of a ladder.
//!
//! ```text
//! DIR/package.json             what it is, and whether it is whole
//! DIR/manifest.mpd             DASH with the tiles' places (SRD)
//! DIR/rd.csv                   the rate-distortion table
//! DIR/miss.csv                 what concealments of late tiles lose
//! DIR/tiles/t007q32/init.mp4   what a decoder of tile 7 at QP 32 is set up from
//! DIR/tiles/t007q32/000003.m4s GoP 3 of it
//! DIR/gops/000003.json         the record of GoP 3: it is finished
//! DIR/sound/000003.m4s         its sound, if there is any: see [`SoundTrack`]
//! DIR/whole/q32/000003.m4s     the whole sphere in one picture, if it is wanted
//! ```
//!
//! Nothing half-written counts: a GoP is finished when its record is in place, and the record
//! comes last, after all that it names was synced. So work that was ended in any way goes on where
//! it stopped; files that were cut or changed since are found by their lengths and digests and made again.

mod concealment;
mod encode;
mod gops;
mod ladder;
mod layer;
mod luma;
mod mpd;
mod parts;
mod pictures;
mod plan;
mod queue;
mod record;
mod sound;
mod tiles;
mod track;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use weftline_core::ByteCount;
use weftline_video::evaluate::{ConcealmentTable, Parts};
use weftline_video::live::wire::TileDigests;
use weftline_video::live::{Digest, Sound};
use weftline_video::metric::SphereWeights;
use weftline_video::rd::RdTable;

use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Stop};
use crate::mp4;
use crate::source::Source;
use gops::{finish_gop, missing};
use plan::{TableDigests, write_whole};
use sound::SoundRecord;

pub use concealment::CONCEALMENTS;
pub(crate) use concealment::{Following, GREY};
pub(crate) use encode::{EncodedRung, OpenGop, Workshop};
pub(crate) use gops::put_rungs;
pub(crate) use layer::Layer;
pub(crate) use luma::luma;
pub(crate) use pictures::scale;
pub(crate) use plan::{AMBIX_TO_STEREO, is_ambisonic};
pub use plan::{Description, MAX_QP, PRESETS, PackageOptions};
pub(crate) use record::Record;
#[cfg(test)]
pub(crate) use record::RungRecord;
pub(crate) use sound::{
    FRAME_SAMPLES, Frames, encoder_args, gop_of, init as sound_init, segment as sound_segment,
};
pub(crate) use tiles::{TileReader, TileSource};
pub use track::SoundTrack;

/// The rate-distortion table's file.
pub const TABLE: &str = "rd.csv";
/// The DASH manifest's file.
pub const MANIFEST: &str = "manifest.mpd";

/// All that a package may have of its pictures.
const LAYERS: [Layer; 2] = [Layer::Tiles, Layer::Whole];

/// How far the packaging is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packaged {
    /// GoPs that are finished.
    pub done: u32,
    /// How many of them were finished before.
    pub before: u32,
    /// GoPs in all.
    pub total: u32,
}

/// Packages `source` into `dir`, or goes on doing so. `jobs` pieces of work are done at once.
/// `progress` is told at the beginning and after each GoP.
///
/// # Errors
/// If the source cannot be packaged, `dir` has another package or cannot be written, ffmpeg fails,
/// or `stop` is asked for. What is finished stays.
pub fn package(
    source: &Path,
    dir: &Path,
    options: &PackageOptions,
    jobs: usize,
    stop: &Stop,
    progress: &mut (dyn FnMut(Packaged) + Send),
) -> Result<Package, VrError> {
    let ffmpeg = Ffmpeg::find(stop)?;
    ffmpeg.need_encoder("libx264")?;
    let source = Source::probe(&ffmpeg, source)?;
    let mut plan = Description::new(&source, options, ffmpeg.version())?;
    fs::create_dir_all(dir.join("gops")).map_err(VrError::io("make", dir))?;
    let dir = std::path::absolute(dir).map_err(VrError::io("find", dir))?;
    let _lock = lock(&dir)?;
    remove_leftovers(&dir)?;
    let weights = SphereWeights::new(plan.frame());
    let workdir = OpenGop::workdir(&dir);
    if !plan.mbps.is_empty() {
        plan.qps = {
            let shop = Workshop::new(Layer::Tiles, &ffmpeg, &source, &plan, &weights);
            ladder::choose(&shop, &dir, &workdir)?
        };
    }
    begin(&dir, &mut plan)?;
    let whole = plan.whole_plan();
    let plans = [(Layer::Tiles, Some(&plan)), (Layer::Whole, whole.as_ref())];
    let shop = |(layer, plan): (Layer, Option<_>)| {
        Some(Workshop::new(layer, &ffmpeg, &source, plan?, &weights))
    };
    let shops: Vec<Workshop<'_>> = plans.into_iter().filter_map(shop).collect();
    let layers: Vec<Layer> = shops.iter().map(|shop| shop.layer).collect();
    let missing = missing(&dir, &plan, &layers)?;
    let before = plan.gops - missing.len() as u32;
    let mut packaged = Packaged { done: before, before, total: plan.gops };
    progress(packaged);
    let sampled = concealment::read(&dir, &plan).is_err();
    let encoded =
        queue::encode_all(&shops, missing, jobs.max(1), &workdir, &mut |open, encoded| {
            if sampled {
                concealment::keep(&dir, &plan, open.gop, open.luma())?;
            }
            finish_gop(&dir, &plan, open, encoded)?;
            packaged.done += 1;
            progress(packaged);
            Ok(())
        });
    let encoded = encoded.and_then(|()| sound::encode(&ffmpeg, &source, &plan, &dir, &workdir));
    // Empty by now; what cannot be removed is by the next run.
    let _ = fs::remove_dir_all(&workdir);
    encoded?;
    concealment::conclude(&dir, &plan, &mut |gop| luma(&ffmpeg, &plan, &source, gop))?;
    conclude(&dir, plan)?;
    Package::open(&dir)
}

/// Keeps others out of the directory while the file is open.
fn lock(dir: &Path) -> Result<File, VrError> {
    let file = File::open(dir).map_err(VrError::io("open", dir))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(VrError::Busy(dir.to_owned())),
        Err(error) => Err(VrError::io("lock", dir)(error.into())),
    }
}

/// Removes the work of processes that were ended; we have the lock, so there are no others.
fn remove_leftovers(dir: &Path) -> Result<(), VrError> {
    let entries = fs::read_dir(dir).map_err(VrError::io("read", dir))?;
    for entry in entries {
        let entry = entry.map_err(VrError::io("read", dir))?;
        if entry.file_name().to_string_lossy().starts_with(".work-") {
            fs::remove_dir_all(entry.path()).map_err(VrError::io("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// Makes sure that the directory is this package's. What its tiles say of their colours stays as it
/// was begun: packages of before say nothing. A finished package is described as it is until all that is added
/// to it is there: until then, and if that never comes, it is what it was.
fn begin(dir: &Path, plan: &mut Description) -> Result<(), VrError> {
    match Description::read(dir)? {
        Some(found) => match found.differs(plan) {
            Some(differs) => Err(VrError::OtherPackage { path: dir.to_owned(), differs }),
            None => {
                plan.colour = found.colour;
                // Nobody knows whether what is there is of a source with these.
                plan.source_blocks = found.source_blocks.clone();
                plan.tables = found.tables;
                if found.complete || found.whole == plan.whole { Ok(()) } else { plan.write(dir) }
            }
        },
        None => plan.write(dir),
    }
}

/// Writes the table and the manifest, and says that the package is whole.
fn conclude(dir: &Path, mut plan: Description) -> Result<(), VrError> {
    let mut gops = Vec::with_capacity(plan.gops as usize);
    let mut longest = vec![0; plan.whole_qps().len()];
    for gop in 0..plan.gops {
        let mut record = Record::read(dir, gop, &plan)?
            .ok_or_else(|| VrError::damaged(dir, format!("the record of GoP {gop} has gone")))?;
        if record.complete(dir)? {
            record.write(dir)?;
        }
        for (longest, rung) in longest.iter_mut().zip(&record.whole) {
            *longest = rung.bytes.max(*longest);
        }
        gops.push(record.table().map_err(|source| VrError::Rd { path: dir.to_owned(), source })?);
    }
    let grid = plan.grid();
    let (columns, rows) = (grid.columns() as u16, grid.rows() as u16);
    let table = RdTable::new(columns, rows, plan.gop_duration(), gops)
        .map_err(|source| VrError::Rd { path: dir.to_owned(), source })?;
    write_whole(&dir.join(TABLE), table.to_csv().as_bytes())?;
    let contents = mpd::Contents {
        plan: &plan,
        table: &table,
        codecs: codecs(dir, Layer::Tiles, &plan.qps)?,
        whole: plan.whole_plan(),
        whole_codecs: codecs(dir, Layer::Whole, plan.whole_qps())?,
        whole_longest: longest,
        sound: plan.sound.zip(SoundRecord::read(dir, &plan)?),
    };
    let manifest = mpd::manifest(&contents);
    write_whole(&dir.join(MANIFEST), manifest.as_bytes())?;
    let concealments = dir.join(CONCEALMENTS);
    let concealments = fs::read(&concealments).map_err(VrError::io("read", &concealments))?;
    plan.tables = Some(TableDigests {
        concealments: Digest::of(&concealments),
        manifest: Digest::of(manifest.as_bytes()),
    });
    plan.complete = true;
    plan.write(dir)
}

/// What the codecs of a layer's rungs are called.
fn codecs(dir: &Path, layer: Layer, qps: &[u8]) -> Result<Vec<String>, VrError> {
    let codec = |&qp: &u8| {
        let path = dir.join(layer.init(0, qp));
        let init = fs::read(&path).map_err(VrError::io("read", &path))?;
        mp4::codec(&init).map_err(|why| VrError::damaged(&path, why))
    };
    qps.iter().map(codec).collect()
}

/// A package that is whole.
#[derive(Clone, Debug)]
pub struct Package {
    dir: PathBuf,
    description: Description,
    table: RdTable,
    records: Arc<[Record]>,
    sound: Option<Arc<SoundRecord>>,
}

impl Package {
    /// Opens the package in `dir`, and makes sure that every file it names is there and has its
    /// length.
    ///
    /// # Errors
    /// [`VrError::Damaged`] if it is no package, unfinished, or cut short.
    pub fn open(dir: &Path) -> Result<Self, VrError> {
        let description = Description::read(dir)?.ok_or_else(|| {
            VrError::damaged(
                dir,
                "is no package (no package.json); make one with weftline vr package",
            )
        })?;
        let again = "run the same weftline vr package again to complete it";
        if !description.complete {
            return Err(VrError::damaged(dir, format!("this package is not finished; {again}")));
        }
        if let Some(tables) = description.tables {
            let path = dir.join(MANIFEST);
            let manifest = fs::read(&path).map_err(VrError::io("read", &path))?;
            if Digest::of(&manifest) != tables.manifest {
                let why = "has other bytes than were packaged; run the same weftline vr package \
                           again, which makes it anew";
                return Err(VrError::damaged(&path, why));
            }
        }
        let path = dir.join(TABLE);
        let text = fs::read_to_string(&path).map_err(VrError::io("read", &path))?;
        let table = RdTable::parse(&text).map_err(|source| VrError::Rd { path, source })?;
        let (grid, gop) = (description.grid(), description.gop_duration());
        let is_of_grid =
            [table.columns(), table.rows()].map(u32::from) == [grid.columns(), grid.rows()];
        if !is_of_grid || table.gop_duration() != gop {
            let flaw = format!(
                "{TABLE} is of {}x{} tiles and GoPs of {} s, and the description of {grid} and {} s",
                table.columns(),
                table.rows(),
                table.gop_duration().as_secs_f64(),
                gop.as_secs_f64()
            );
            return Err(VrError::damaged(dir, format!("{flaw}: one of them was changed; {again}")));
        }
        // The number of GoPs is believed when all of them are there.
        let mut records = Vec::new();
        for gop in 0..description.gops {
            let mut record = Record::read(dir, gop, &description)?.ok_or_else(|| {
                VrError::damaged(dir, format!("the record of GoP {gop} is missing; {again}"))
            })?;
            let flaws = LAYERS.iter().find_map(|layer| record.flaw(*layer, dir, &description));
            if let Some(flaw) = flaws {
                return Err(VrError::damaged(dir, format!("{flaw}; {again}")));
            }
            let same = record.table().ok().as_ref() == table.gops().get(gop as usize);
            if !same || table.gops().len() != description.gops as usize {
                let flaw = format!("{TABLE} and the record of GoP {gop} differ");
                return Err(VrError::damaged(dir, format!("{flaw}; {again}")));
            }
            record.forget_parts();
            records.push(record);
        }
        let sound = match description.sound {
            None => None,
            Some(_) => Some(SoundRecord::read(dir, &description)?.ok_or_else(|| {
                VrError::damaged(dir, format!("its sound is missing or was cut; {again}"))
            })?),
        };
        let (records, sound) = (records.into(), sound.map(Arc::new));
        Ok(Self { dir: dir.to_owned(), description, table, records, sound })
    }

    /// Makes sure that every file has the bytes that were packaged, by their digests: reads all of them.
    ///
    /// # Errors
    /// [`VrError::Damaged`] with the first that has not, and how it is made anew.
    pub fn verify(&self) -> Result<(), VrError> {
        let spoiled = |file: &Path| {
            let why = "has other bytes than were packaged; run the same weftline vr package again, \
                       which finds this and makes it anew";
            Err(VrError::damaged(&self.dir.join(file), why))
        };
        let mut seen = BTreeSet::new();
        for record in self.records.iter() {
            for layer in LAYERS {
                if let Some(init) = record.spoiled_inits(layer, &self.dir, &mut seen)?.first() {
                    return spoiled(init);
                }
                if let Some(segment) = record.spoiled(layer, &self.dir)? {
                    return spoiled(&segment);
                }
            }
        }
        match self.sound.as_ref().map(|sound| sound.spoiled(&self.dir)).transpose()?.flatten() {
            Some(file) => spoiled(&file),
            None => Ok(()),
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it is made of.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Its rate-distortion table.
    pub fn table(&self) -> &RdTable {
        &self.table
    }

    /// Where in the tiles their losses are, as they are, and where viewports mix their pixels; `None` in
    /// packages of which a GoP was made before that was measured. They are read when they are asked for:
    /// those of an hour take some hundred megabytes, and whoever serves it does not need them.
    ///
    /// # Errors
    /// [`VrError::Io`] if a record cannot be read.
    pub fn parts(&self) -> Result<[Option<Parts>; 2], VrError> {
        let grid = self.description.grid();
        let side = self.records.first().and_then(|record| record.side);
        let mut gops = [Some(Vec::new()), Some(Vec::new())];
        for gop in 0..self.description.gops {
            let record = Record::read(&self.dir, gop, &self.description)?;
            let record = record.filter(|record| record.side == side);
            for (way, gops) in gops.iter_mut().enumerate() {
                let parts = record.as_ref().and_then(|record| record.parts(way));
                *gops = gops.take().zip(parts).map(|(mut gops, parts)| {
                    gops.push(parts);
                    gops
                });
            }
        }
        Ok(gops.map(|gops| Parts::new(side?, grid, gops?).ok()))
    }

    /// What concealments of late tiles lose.
    ///
    /// # Errors
    /// [`VrError::Damaged`] if the package has no such table, or one that does not fit.
    pub fn concealments(&self) -> Result<ConcealmentTable, VrError> {
        concealment::read(&self.dir, &self.description)
    }

    /// Of the whole sphere at each of its QPs: the QP, bytes of all its segments, and the mean of its WS-MSE.
    pub fn whole(&self) -> Vec<(u8, ByteCount, f64)> {
        let rung = |(at, &qp): (usize, &u8)| {
            let rungs = self.records.iter().filter_map(|record| record.whole.get(at));
            let (bytes, ws_mse) =
                rungs.fold((0, 0.0), |(bytes, sum), rung| (bytes + rung.bytes, sum + rung.ws_mse));
            (qp, ByteCount::new(bytes), ws_mse / self.records.len() as f64)
        };
        self.description.whole_qps().iter().enumerate().map(rung).collect()
    }

    /// The file of GoP `gop` of tile `tile` at `qp`.
    pub fn segment(&self, tile: usize, qp: u8, gop: u32) -> PathBuf {
        self.dir.join(Layer::Tiles.segment(tile, qp, gop))
    }

    /// The file that the decoder of a tile at `qp` is set up from.
    pub fn init(&self, tile: usize, qp: u8) -> PathBuf {
        self.dir.join(Layer::Tiles.init(tile, qp))
    }

    /// The digests of what was packaged as GoP `gop` of tile `tile` at `qp`.
    ///
    /// # Errors
    /// [`VrError::Damaged`] if the package was made before there were any, or has no such encoding.
    pub fn digests(&self, tile: usize, qp: u8, gop: u32) -> Result<TileDigests, VrError> {
        let record = self.records.get(gop as usize);
        record.and_then(|record| record.digests(tile, qp)).ok_or_else(|| {
            VrError::damaged(
                &self.dir,
                format!(
                    "has no digest of tile {tile} at QP {qp} in GoP {gop}; run the same weftline vr \
                     package again, which adds those that are missing and encodes nothing anew"
                ),
            )
        })
    }

    /// The file of the sound of GoP `gop`.
    pub fn sound_segment(&self, gop: u32) -> PathBuf {
        self.dir.join(sound::segment(gop))
    }

    /// The file that the decoder of the sound is set up from.
    pub fn sound_init(&self) -> PathBuf {
        self.dir.join(sound::init())
    }

    /// The digests of what was packaged as the sound of GoP `gop`.
    ///
    /// # Errors
    /// [`VrError::Damaged`] if the package has none.
    pub fn sound_digests(&self, gop: u32) -> Result<TileDigests, VrError> {
        let digests = self.sound.as_ref().and_then(|sound| sound.digests(gop));
        digests.ok_or_else(|| VrError::damaged(&self.dir, format!("has no sound of GoP {gop}")))
    }

    /// Its sound as a live server wants it, if it has any.
    pub fn live_sound(&self) -> Option<Sound> {
        Some(self.sound.as_ref()?.live(self.description.sound?))
    }

    /// What a decoder is set up from takes at most so much, by its first tile: they differ by little.
    pub fn init_bytes(&self) -> ByteCount {
        let rungs = self.table.gops()[0].tiles()[0].rungs().iter();
        let length = |path| fs::metadata(path).map_or(0, |file| file.len());
        let longest = rungs.map(|rung| length(self.init(0, rung.qp))).max();
        ByteCount::new(longest.unwrap_or(0))
    }

    /// How long it plays.
    pub fn duration(&self) -> Duration {
        self.description.gop_duration() * self.description.gops
    }
}

#[cfg(test)]
mod tests;
