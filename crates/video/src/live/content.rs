//! What is streamed: a package's tables, or GoPs of a live source as they come.

use std::f64::consts::PI;
use std::time::Duration;

use weftline_core::ByteCount;

use super::LiveError;
use super::wire::{GOP_LENGTHS, MAX_INIT, MAX_SAMPLE_RATE, MAX_TO_PLAYER, SoundFormat};
use crate::evaluate::ConcealmentTable;
use crate::geometry::{FrameSize, Grid};
use crate::head::TileProbabilities;
use crate::rd::{GopTable, MAX_GOPS, RdTable};

/// Mean squared error of mid-grey in place of a tile, and of pictures that are so many GoPs old,
/// where nothing was measured: what is usual of moving scenes. Only proportions matter to a plan.
const USUAL_GREY: f64 = 3_000.0;
const USUAL_CHANGES: [f64; 4] = [200.0, 300.0, 400.0, 500.0];

/// Room in a message for what is not the segment.
const HEAD: u64 = 1 << 17;

/// The sound of a package: a segment for each of its GoPs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    /// What it is.
    pub format: SoundFormat,
    /// What its decoder is set up from, bytes.
    pub init: ByteCount,
    /// The length of each GoP's segment.
    pub segments: Vec<ByteCount>,
}

/// What a server knows of what it streams.
#[derive(Clone, Debug)]
pub struct Content {
    frame: FrameSize,
    grid: Grid,
    gop: Duration,
    gop_frames: u32,
    qps: Vec<u8>,
    sound: Option<SoundFormat>,
    gops: Gops,
}

/// Where the GoPs come from.
#[derive(Clone, Debug)]
enum Gops {
    /// All are known from the beginning.
    Package(Box<Packaged>),
    /// They are handed to each server as they come.
    Live,
}

/// The GoPs of a package.
#[derive(Clone, Debug)]
struct Packaged {
    table: RdTable,
    concealments: ConcealmentTable,
    concealments_measured: bool,
    prior: Option<TileProbabilities>,
    gops: u32,
    init: ByteCount,
    sound: Option<Sound>,
}

/// What a live source is, before any GoP of it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveFormat {
    /// The size of its frame.
    pub frame: FrameSize,
    /// Its tiles.
    pub grid: Grid,
    /// How long a GoP plays.
    pub gop: Duration,
    /// Pictures in a GoP.
    pub gop_frames: u32,
    /// The QPs of its ladder, ascending.
    pub qps: Vec<u8>,
    /// Its sound, if it has any.
    pub sound: Option<SoundFormat>,
}

/// A GoP of a live source.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveGop {
    /// Its number in the source, from 0. They come in order, and none is left out.
    pub number: u32,
    /// What each encoding of each tile takes and loses; `None` if there is nothing of this GoP: a gap.
    pub tiles: Option<GopTable>,
    /// What concealments lose, by tile: mid-grey, and pictures that are one, two, … GoPs old; parts of the
    /// frame's WS-MSE.
    pub concealments: Vec<(f64, Vec<f64>)>,
    /// What a decoder of a tile is set up from, bytes.
    pub init: ByteCount,
    /// What the decoder of its sound is set up from, and the segment of its sound, bytes; `None` if none is
    /// there.
    pub sound: Option<[ByteCount; 2]>,
}

/// A GoP, wherever it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct GopView<'a> {
    /// Its number in what it comes from.
    pub(super) packaged: u32,
    /// Its encodings; nothing if it is a gap.
    pub(super) tiles: Option<&'a GopTable>,
    concealments: Concealments<'a>,
    /// What a decoder is set up from.
    pub(super) init: ByteCount,
    /// What the decoder of its sound is set up from, and its sound.
    pub(super) sound: Option<[ByteCount; 2]>,
}

#[derive(Clone, Copy, Debug)]
enum Concealments<'a> {
    Table(&'a ConcealmentTable),
    Tiles(&'a [(f64, Vec<f64>)]),
}

impl<'a> GopView<'a> {
    /// What a tile loses in grey, and as a picture one, two, … GoPs old, as far as that is known.
    pub(super) fn concealments(&self, tile: usize) -> (f64, &'a [f64]) {
        match self.concealments {
            Concealments::Table(table) => {
                let (grey, changes) = table.of(self.packaged as usize, tile);
                // What came before the package's first GoP is its end, where a stream begins it anew:
                // what has changed since then was not measured.
                (grey, &changes[..changes.len().min(self.packaged as usize)])
            }
            Concealments::Tiles(tiles) => {
                tiles.get(tile).map_or((0.0, &[][..]), |(grey, changes)| (*grey, changes))
            }
        }
    }
}

impl<'a> From<&'a LiveGop> for GopView<'a> {
    fn from(gop: &'a LiveGop) -> Self {
        let LiveGop { number, tiles, concealments, init, sound } = gop;
        let (tiles, concealments) = (tiles.as_ref(), Concealments::Tiles(concealments));
        Self { packaged: *number, tiles, concealments, init: *init, sound: *sound }
    }
}

impl LiveGop {
    /// Whether it can be streamed as a part of `content`.
    pub(super) fn check(&self, content: &Content) -> Result<(), LiveError> {
        let wanted = content.grid.tiles();
        let tiles = self.tiles.as_ref();
        let fits = |tile: &crate::rd::TileTable| {
            tile.rungs().iter().map(|rung| rung.qp).eq(content.qps.iter().copied())
        };
        if self.concealments.len() != wanted
            || (self.sound.is_some() && content.sound.is_none())
            || tiles.is_some_and(|gop| gop.tiles().len() != wanted || !gop.tiles().iter().all(fits))
        {
            return Err(LiveError::Content(format!(
                "GoP {} does not have the {wanted} tiles, the ladder and the sound of what was announced",
                self.number
            )));
        }
        tiles.map_or(Ok(()), |tiles| check_lengths(std::slice::from_ref(tiles)))
    }
}

impl Content {
    /// The content of a package: the size of its frame, how many pictures a GoP has, its tables.
    /// Without `concealments`, what concealments usually lose is taken. `prior` is how other viewers
    /// looked at it. A stream of more GoPs than the package has begins again after the last;
    /// `gops` is how many it has, by default once all.
    ///
    /// # Errors
    /// [`LiveError::Content`] if the tables do not belong together or cannot be streamed.
    pub fn new(
        frame: FrameSize,
        gop_frames: u32,
        table: RdTable,
        concealments: Option<ConcealmentTable>,
        prior: Option<TileProbabilities>,
        gops: Option<u32>,
    ) -> Result<Self, LiveError> {
        let wrong = |reason: String| Err(LiveError::Content(reason));
        let grid = Grid::new(table.columns().into(), table.rows().into())
            .map_err(|error| LiveError::Content(error.to_string()))?;
        let gop = table.gop_duration();
        check_gop(gop)?;
        check_lengths(table.gops())?;
        if let Some(prior) = &prior
            && (prior.grid(), prior.gop()) != (grid, gop)
        {
            return wrong(format!("head motion measured for {} tiles; measure anew", prior.grid()));
        }
        let concealments_measured = concealments.is_some();
        let concealments = concealments.map_or_else(|| usual_concealments(grid, &table), Ok)?;
        let count = table.gops().len();
        let fits = |gop| concealments.tiles(gop) == grid.tiles();
        if concealments.gops() != count || !(0..count).all(fits) {
            return wrong("the table of concealments is not of this package".to_owned());
        }
        let gops = gops.unwrap_or(count as u32);
        if !(1..=MAX_GOPS as u32).contains(&gops) {
            return wrong(format!("a stream has 1 to {MAX_GOPS} GoPs, not {gops}"));
        }
        let rungs = table.gops()[0].tiles()[0].rungs();
        let qps = rungs.iter().map(|rung| rung.qp).collect();
        let (init, sound) = (ByteCount::ZERO, None);
        let packaged =
            Packaged { table, concealments, concealments_measured, prior, gops, init, sound };
        let gops = Gops::Package(Box::new(packaged));
        Ok(Self { frame, grid, gop, gop_frames, qps, sound: None, gops })
    }

    /// The content of a live source, whose GoPs are handed to each server as they come
    /// ([`Server::handle_gop`](super::Server::handle_gop)).
    ///
    /// # Errors
    /// [`LiveError::Content`] if GoPs of that length cannot be streamed.
    pub fn live(format: LiveFormat) -> Result<Self, LiveError> {
        let LiveFormat { frame, grid, gop, gop_frames, qps, sound } = format;
        check_gop(gop)?;
        Ok(Self { frame, grid, gop, gop_frames, qps, sound, gops: Gops::Live })
    }

    /// The same with sound.
    ///
    /// # Errors
    /// [`LiveError::Content`] if it has not one segment for each GoP of the package, none of them empty
    /// or longer than a message, or if its format is none of AAC's; or if this is no package.
    pub fn with_sound(mut self, sound: Sound) -> Result<Self, LiveError> {
        let wrong = |reason: String| Err(LiveError::Content(reason));
        let Gops::Package(packaged) = &mut self.gops else {
            return wrong("the sound of a live source comes with its GoPs".to_owned());
        };
        let (got, wanted) = (sound.segments.len(), packaged.table.gops().len());
        if got != wanted {
            return wrong(format!("the sound has {got} segments for {wanted} GoPs; package anew"));
        }
        let most = MAX_TO_PLAYER as u64 - HEAD;
        let is_odd = |bytes: &&ByteCount| !(1..=most).contains(&bytes.as_u64());
        if let Some(bytes) = sound.segments.iter().find(is_odd) {
            return wrong(format!(
                "a segment of sound has {bytes}, and 1 to {most} bytes fit a message; package with \
                 shorter GoPs"
            ));
        }
        let SoundFormat { rate_hz, channels } = sound.format;
        let init = sound.init.as_u64();
        if channels == 0 || !(1..=MAX_SAMPLE_RATE).contains(&rate_hz) || init > MAX_INIT as u64 {
            return wrong(format!(
                "sound of {channels} channels at {rate_hz} Hz, set up from {init} bytes, cannot be \
                 streamed; package anew"
            ));
        }
        self.sound = Some(sound.format);
        packaged.sound = Some(sound);
        Ok(self)
    }

    /// What its sound is, if it has any.
    pub const fn sound(&self) -> Option<SoundFormat> {
        self.sound
    }

    /// The same, whose decoders are set up from so many bytes each: what a tile takes besides its
    /// segment until the player has them. GoPs of a live source say it themselves.
    #[must_use]
    pub fn with_init(mut self, init: ByteCount) -> Self {
        if let Gops::Package(packaged) = &mut self.gops {
            packaged.init = init.min(ByteCount::new(MAX_INIT as u64));
        }
        self
    }

    /// The size of its frame.
    pub const fn frame(&self) -> FrameSize {
        self.frame
    }

    /// Its tiles.
    pub const fn grid(&self) -> Grid {
        self.grid
    }

    /// How long a GoP plays.
    pub const fn gop_duration(&self) -> Duration {
        self.gop
    }

    /// Pictures in a GoP.
    pub const fn gop_frames(&self) -> u32 {
        self.gop_frames
    }

    /// The QPs of its ladder, ascending.
    pub fn qps(&self) -> &[u8] {
        &self.qps
    }

    /// Whether what concealments lose was measured, or is only what is usual.
    pub const fn concealments_measured(&self) -> bool {
        match &self.gops {
            Gops::Package(packaged) => packaged.concealments_measured,
            Gops::Live => true,
        }
    }

    /// How many GoPs are streamed; `None` if nobody knows, as of a live source.
    pub const fn gops(&self) -> Option<u32> {
        match &self.gops {
            Gops::Package(packaged) => Some(packaged.gops),
            Gops::Live => None,
        }
    }

    /// A GoP of the stream, if it is of a package.
    pub(super) fn gop(&self, gop: u32) -> Option<GopView<'_>> {
        let Gops::Package(content) = &self.gops else { return None };
        let packaged = gop % content.table.gops().len() as u32;
        let index = packaged as usize;
        let sound = content.sound.as_ref().map(|sound| [sound.init, sound.segments[index]]);
        let (tiles, concealments) =
            (&content.table.gops()[index], Concealments::Table(&content.concealments));
        Some(GopView { packaged, tiles: Some(tiles), concealments, init: content.init, sound })
    }

    /// What each tile of a GoP weighs in a viewport, as far as others have watched before.
    pub(super) fn weights(&self, gop: u32) -> Option<Vec<f64>> {
        let Gops::Package(content) = &self.gops else { return None };
        let packaged = gop as usize % content.table.gops().len();
        Some(content.prior.as_ref()?.weights(packaged))
    }
}

/// Whether GoPs of that length can be streamed.
fn check_gop(gop: Duration) -> Result<(), LiveError> {
    if (GOP_LENGTHS[0]..=GOP_LENGTHS[1]).contains(&gop) {
        return Ok(());
    }
    let gop_s = gop.as_secs_f64();
    Err(LiveError::Content(format!(
        "a GoP of {gop_s} s cannot be streamed; package with 0.1 to 60 s"
    )))
}

/// Whether every encoding fits a message.
///
/// # Errors
/// [`LiveError::Content`] with the longest, if it does not.
pub fn check_lengths(gops: &[GopTable]) -> Result<(), LiveError> {
    let rungs = gops.iter().flat_map(|gop| gop.tiles()).flat_map(|tile| tile.rungs());
    let largest = rungs.map(|rung| rung.bytes.as_u64()).max().unwrap_or(0);
    if largest + HEAD <= MAX_TO_PLAYER as u64 {
        return Ok(());
    }
    Err(LiveError::Content(format!(
        "a tile of {largest} bytes is more than a message of {MAX_TO_PLAYER} holds; package with a \
         finer grid, shorter GoPs or a higher least QP"
    )))
}

/// What concealments usually lose, by the tiles' shares of the sphere.
fn usual_concealments(grid: Grid, table: &RdTable) -> Result<ConcealmentTable, LiveError> {
    let count = table.gops().len();
    let part = |tile: usize, mse: f64| mse * grid.solid_angle(tile) / (4.0 * PI);
    let grey: Vec<f64> = (0..grid.tiles()).map(|tile| part(tile, USUAL_GREY)).collect();
    let changes = |tile| USUAL_CHANGES.map(|mse| part(tile, mse)).to_vec();
    let changes: Vec<Vec<f64>> = (0..grid.tiles()).map(changes).collect();
    ConcealmentTable::new(vec![grey; count], vec![changes; count])
        .map_err(|error| LiveError::Content(error.to_string()))
}
