//! What is streamed: a package's tables, shared by all players of a server.

use std::f64::consts::PI;

use weftline_core::ByteCount;

use super::LiveError;
use super::wire::{GOP_LENGTHS, MAX_INIT, MAX_SAMPLE_RATE, MAX_TO_PLAYER, SoundFormat};
use crate::evaluate::MissTable;
use crate::geometry::{FrameSize, Grid};
use crate::head::TileProbabilities;
use crate::rd::{MAX_GOPS, RdTable};

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
    gop_frames: u32,
    table: RdTable,
    misses: MissTable,
    misses_measured: bool,
    prior: Option<TileProbabilities>,
    gops: u32,
    init: ByteCount,
    sound: Option<Sound>,
}

impl Content {
    /// The content of a package: the size of its frame, how many pictures a GoP has, its tables.
    /// Without `misses`, what concealments usually lose is taken. `prior` is how other viewers
    /// looked at it. A stream of more GoPs than the package has begins again after the last;
    /// `gops` is how many it has, by default once all.
    ///
    /// # Errors
    /// [`LiveError::Content`] if the tables do not belong together or cannot be streamed.
    pub fn new(
        frame: FrameSize,
        gop_frames: u32,
        table: RdTable,
        misses: Option<MissTable>,
        prior: Option<TileProbabilities>,
        gops: Option<u32>,
    ) -> Result<Self, LiveError> {
        let wrong = |reason: String| Err(LiveError::Content(reason));
        let grid = Grid::new(table.columns().into(), table.rows().into())
            .map_err(|error| LiveError::Content(error.to_string()))?;
        let gop = table.gop_duration();
        if !(GOP_LENGTHS[0]..=GOP_LENGTHS[1]).contains(&gop) {
            let gop_s = gop.as_secs_f64();
            return wrong(format!(
                "a GoP of {gop_s} s cannot be streamed; package with 0.1 to 60 s"
            ));
        }
        let largest = table.gops().iter().flat_map(|gop| gop.tiles()).flat_map(|t| t.rungs());
        let largest = largest.map(|rung| rung.bytes.as_u64()).max().unwrap_or(0);
        if largest + HEAD > MAX_TO_PLAYER as u64 {
            return wrong(format!(
                "a tile of {largest} bytes is more than a message of {MAX_TO_PLAYER} holds; \
                 package with a finer grid, shorter GoPs or a higher least QP"
            ));
        }
        if let Some(prior) = &prior
            && (prior.grid(), prior.gop()) != (grid, gop)
        {
            return wrong(format!("head motion measured for {} tiles; measure anew", prior.grid()));
        }
        let misses_measured = misses.is_some();
        let misses = misses.map_or_else(|| usual_misses(grid, &table), Ok)?;
        let count = table.gops().len();
        let fits = |gop| misses.tiles(gop) == grid.tiles();
        if misses.gops() != count || !(0..count).all(fits) {
            return wrong("the table of concealments is not of this package".to_owned());
        }
        let gops = gops.unwrap_or(count as u32);
        if !(1..=MAX_GOPS as u32).contains(&gops) {
            return wrong(format!("a stream has 1 to {MAX_GOPS} GoPs, not {gops}"));
        }
        let (init, sound) = (ByteCount::ZERO, None);
        Ok(Self {
            frame,
            grid,
            gop_frames,
            table,
            misses,
            misses_measured,
            prior,
            gops,
            init,
            sound,
        })
    }

    /// The same with sound.
    ///
    /// # Errors
    /// [`LiveError::Content`] if it has not one segment for each GoP of the package, none of them empty
    /// or longer than a message, or if its format is none of AAC's.
    pub fn with_sound(self, sound: Sound) -> Result<Self, LiveError> {
        let wrong = |reason: String| Err(LiveError::Content(reason));
        let (got, wanted) = (sound.segments.len(), self.table.gops().len());
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
        Ok(Self { sound: Some(sound), ..self })
    }

    /// Its sound, if it has any.
    pub const fn sound(&self) -> Option<&Sound> {
        self.sound.as_ref()
    }

    /// The same, whose decoders are set up from so many bytes each: what a tile takes besides its
    /// segment until the player has them.
    #[must_use]
    pub fn with_init(self, init: ByteCount) -> Self {
        Self { init: init.min(ByteCount::new(MAX_INIT as u64)), ..self }
    }

    /// What a decoder is set up from, bytes.
    pub(super) const fn init(&self) -> ByteCount {
        self.init
    }

    /// The size of its frame.
    pub const fn frame(&self) -> FrameSize {
        self.frame
    }

    /// Its tiles.
    pub const fn grid(&self) -> Grid {
        self.grid
    }

    /// Pictures in a GoP.
    pub const fn gop_frames(&self) -> u32 {
        self.gop_frames
    }

    /// Its rate-distortion table.
    pub const fn table(&self) -> &RdTable {
        &self.table
    }

    /// Whether what concealments lose was measured, or is only what is usual.
    pub const fn misses_measured(&self) -> bool {
        self.misses_measured
    }

    /// How many GoPs are streamed.
    pub const fn gops(&self) -> u32 {
        self.gops
    }

    /// Which GoP of the package is streamed as number `gop`.
    pub fn packaged(&self, gop: u32) -> u32 {
        gop % self.table.gops().len() as u32
    }

    pub(super) const fn misses(&self) -> &MissTable {
        &self.misses
    }

    pub(super) const fn prior(&self) -> Option<&TileProbabilities> {
        self.prior.as_ref()
    }
}

/// What concealments usually lose, by the tiles' shares of the sphere.
fn usual_misses(grid: Grid, table: &RdTable) -> Result<MissTable, LiveError> {
    let count = table.gops().len();
    let part = |tile: usize, mse: f64| mse * grid.solid_angle(tile) / (4.0 * PI);
    let grey: Vec<f64> = (0..grid.tiles()).map(|tile| part(tile, USUAL_GREY)).collect();
    let changes = |tile| USUAL_CHANGES.map(|mse| part(tile, mse)).to_vec();
    let changes: Vec<Vec<f64>> = (0..grid.tiles()).map(changes).collect();
    MissTable::new(vec![grey; count], vec![changes; count])
        .map_err(|error| LiveError::Content(error.to_string()))
}
