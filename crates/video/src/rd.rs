//! Rate-distortion tables: what each tile costs and loses at each rung of the QP ladder.
//!
//! A table is measured once, when a source is packaged, and is all that the tile optimiser
//! knows of the content. Distortions are parts of the *frame's* WS-MSE: a rung's
//! `ws_mse` is Σ w·(x − y)² over the tile's luma samples in all frames of the GoP, divided by the
//! whole weight of the frame times the number of frames. So the values of a GoP's tiles add up to
//! the WS-MSE of the frame (Sun, Lu, Yu, "Weighted-to-spherically-uniform quality evaluation for
//! omnidirectional video", 2017, with the sum split over tiles).
//!
//! The text form is CSV with one line of its own before it:
//!
//! ```text
//! # weftline-rd grid=6x4 gop_s=1
//! gop,tile,qp,bytes,ws_mse,mixed_mse
//! 0,0,22,31337,0.0625,0.0375
//! ```
//!
//! The last column may be left out of the whole table, as in those of before: what is left of the
//! error where viewports mix each pixel from four of the frame
//! ([`SphereWeights::mixed_error_sum`](crate::metric::SphereWeights::mixed_error_sum)).
//! Rows may come in any order; tiles count in raster order from the top left, GoPs from 0. A table
//! need not be monotone (a finer QP may cost less, or lose more): encoders do that, and the hull
//! of the optimiser takes care of it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use weftline_core::ByteCount;

/// The most tiles in a grid. The finest grid in the literature has a few hundred.
pub const MAX_TILES: usize = 4_096;
/// The most rungs per tile: one per QP of H.264 and HEVC (0–51), with room for finer ladders.
pub const MAX_RUNGS: usize = 64;
/// The most GoPs in a table: a day of one-second GoPs.
pub const MAX_GOPS: usize = 86_400;
/// The largest size of one encoded tile (1 TiB): sums over a GoP stay far from overflow.
pub const MAX_TILE_BYTES: ByteCount = ByteCount::mib(1 << 20);
/// The largest WS-MSE a rung may claim: that of 16-bit samples, all wrong by the full range.
pub const MAX_WS_MSE: f64 = 65_535.0 * 65_535.0;

/// The magic of the first line.
const MAGIC: &str = "# weftline-rd";
/// The columns, as the second line names them.
const COLUMNS: &str = "gop,tile,qp,bytes,ws_mse";
/// The same with what viewports of mixed pixels show.
const COLUMNS_MIXED: &str = "gop,tile,qp,bytes,ws_mse,mixed_mse";

/// The rate-distortion table of one packaged source.
#[derive(Clone, Debug, PartialEq)]
pub struct RdTable {
    columns: u16,
    rows: u16,
    gop_duration: Duration,
    gops: Vec<GopTable>,
}

/// The tiles of one GoP, in raster order. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct GopTable {
    tiles: Vec<TileTable>,
}

/// The rungs of one tile in one GoP, by ascending QP (finest first). Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct TileTable {
    rungs: Vec<Rung>,
}

/// One encoding of one tile over one GoP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rung {
    /// The quantisation parameter it was encoded with.
    pub qp: u8,
    /// What is sent for it, container included.
    pub bytes: ByteCount,
    /// Its part of the frame's WS-MSE, in squared luma steps.
    pub ws_mse: f64,
    /// The same where viewports mix each pixel from four of the frame, if that was measured.
    pub mixed_mse: Option<f64>,
}

/// Why a rate-distortion table was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdError {
    /// A line of the text cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it, and the remedy.
        reason: String,
    },
    /// The rows do not make a whole table.
    #[error("{0}")]
    Incomplete(String),
    /// A value of a table built in memory is outside what can be measured.
    #[error("{0}")]
    Invalid(String),
}

impl Rung {
    /// Checks the values of a rung.
    fn check(&self) -> Result<(), String> {
        if self.bytes == ByteCount::ZERO || self.bytes > MAX_TILE_BYTES {
            return Err(format!(
                "a tile of {} bytes at QP {} is no encoding; want 1 to {} bytes",
                self.bytes.as_u64(),
                self.qp,
                MAX_TILE_BYTES.as_u64()
            ));
        }
        // Written so that NaN fails too.
        let mut values = std::iter::once(self.ws_mse).chain(self.mixed_mse);
        match values.find(|value| !(0.0..=MAX_WS_MSE).contains(value)) {
            None => Ok(()),
            Some(value) => Err(format!(
                "a WS-MSE of {value} at QP {} is outside 0 to {MAX_WS_MSE}; measure it again",
                self.qp
            )),
        }
    }
}

impl TileTable {
    /// A tile with these rungs, put in order of QP.
    ///
    /// # Errors
    /// If there is no rung or more than [`MAX_RUNGS`], if a QP comes twice, or if a rung has no
    /// bytes or a WS-MSE that is negative, infinite or not a number.
    pub fn new(mut rungs: Vec<Rung>) -> Result<Self, RdError> {
        if rungs.is_empty() || rungs.len() > MAX_RUNGS {
            let n = rungs.len();
            return Err(RdError::Invalid(format!("a tile has 1 to {MAX_RUNGS} rungs, not {n}")));
        }
        for rung in &rungs {
            rung.check().map_err(RdError::Invalid)?;
        }
        rungs.sort_by_key(|rung| rung.qp);
        if let Some(pair) = rungs.windows(2).find(|pair| pair[0].qp == pair[1].qp) {
            return Err(RdError::Invalid(format!("QP {} comes twice in one tile", pair[0].qp)));
        }
        Ok(Self { rungs })
    }

    /// The rungs by ascending QP: finest first, at least one.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// The rung encoded at `qp`, if there is one.
    pub fn at_qp(&self, qp: u8) -> Option<&Rung> {
        self.rungs.iter().find(|rung| rung.qp == qp)
    }
}

impl GopTable {
    /// A GoP with these tiles in raster order.
    ///
    /// # Errors
    /// If there is no tile or more than [`MAX_TILES`].
    pub fn new(tiles: Vec<TileTable>) -> Result<Self, RdError> {
        if tiles.is_empty() || tiles.len() > MAX_TILES {
            let n = tiles.len();
            return Err(RdError::Invalid(format!("a GoP has 1 to {MAX_TILES} tiles, not {n}")));
        }
        Ok(Self { tiles })
    }

    /// The tiles in raster order, at least one.
    pub fn tiles(&self) -> &[TileTable] {
        &self.tiles
    }

    /// The GoP with what viewports of mixed pixels show in place of the WS-MSE; `None` if that was not
    /// measured of all rungs.
    pub fn mixed(&self) -> Option<Self> {
        let mut mixed = self.clone();
        for rung in mixed.tiles.iter_mut().flat_map(|tile| &mut tile.rungs) {
            rung.ws_mse = rung.mixed_mse?;
        }
        Some(mixed)
    }

    /// Writes the rows of this GoP as number `gop`, one line per rung.
    fn write_rows(&self, gop: usize, mixed: bool, out: &mut dyn fmt::Write) -> fmt::Result {
        for (tile, table) in self.tiles.iter().enumerate() {
            for Rung { qp, bytes, ws_mse, mixed_mse } in table.rungs() {
                write!(out, "{gop},{tile},{qp},{},{ws_mse}", bytes.as_u64())?;
                match mixed_mse.filter(|_| mixed) {
                    Some(mixed_mse) => writeln!(out, ",{mixed_mse}")?,
                    None => writeln!(out)?,
                }
            }
        }
        Ok(())
    }
}

impl RdTable {
    /// A table for a grid of `columns` × `rows` tiles and GoPs of `gop_duration`.
    ///
    /// # Errors
    /// If the grid or the duration is zero or too large, if there is no GoP or more than
    /// [`MAX_GOPS`], or if a GoP does not have one tile per cell of the grid.
    pub fn new(
        columns: u16,
        rows: u16,
        gop_duration: Duration,
        gops: Vec<GopTable>,
    ) -> Result<Self, RdError> {
        let head = Head { columns, rows, gop_duration };
        head.check().map_err(RdError::Invalid)?;
        if gops.is_empty() || gops.len() > MAX_GOPS {
            let n = gops.len();
            return Err(RdError::Invalid(format!("a table has 1 to {MAX_GOPS} GoPs, not {n}")));
        }
        if let Some(gop) = gops.iter().position(|gop| gop.tiles.len() != head.tiles()) {
            return Err(RdError::Invalid(format!(
                "GoP {gop} has {} tiles, but a grid of {columns}x{rows} has {}",
                gops[gop].tiles.len(),
                head.tiles()
            )));
        }
        Ok(Self { columns, rows, gop_duration, gops })
    }

    /// The columns of the grid of tiles.
    pub fn columns(&self) -> u16 {
        self.columns
    }

    /// The rows of the grid of tiles.
    pub fn rows(&self) -> u16 {
        self.rows
    }

    /// The play time of one GoP.
    pub fn gop_duration(&self) -> Duration {
        self.gop_duration
    }

    /// The GoPs in play order, at least one.
    pub fn gops(&self) -> &[GopTable] {
        &self.gops
    }

    /// The table with what viewports of mixed pixels show in place of the WS-MSE; `None` if that
    /// was not measured of all rungs.
    pub fn mixed(&self) -> Option<Self> {
        let gops = self.gops.iter().map(GopTable::mixed).collect::<Option<_>>()?;
        Some(Self { gops, ..*self })
    }

    /// Reads a table from its text form (see the module's documentation).
    ///
    /// # Errors
    /// [`RdError::Line`] with the number of the first line that cannot be read, or
    /// [`RdError::Incomplete`] naming the first GoP or tile without rows.
    pub fn parse(text: &str) -> Result<Self, RdError> {
        let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
        let head = Head::parse(lines.next().map_or("", |(_, line)| line))
            .map_err(|reason| RdError::Line { line: 1, reason })?;
        let columns = lines.next().map_or("", |(_, line)| line.trim());
        let Some(columns) = [COLUMNS, COLUMNS_MIXED].into_iter().find(|known| *known == columns)
        else {
            let reason = format!("want the names of the columns: {COLUMNS_MIXED}");
            return Err(RdError::Line { line: 2, reason });
        };
        let mut rows = Rows::new();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            read_row(line, columns, &head, &mut rows)
                .map_err(|reason| RdError::Line { line: index + 1, reason })?;
        }
        assemble(&head, rows)
    }

    /// The text form, as [`Self::parse`] reads it back without loss.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let tiles = self.gops.iter().flat_map(|gop| &gop.tiles);
        let mixed = tiles.flat_map(|tile| &tile.rungs).all(|rung| rung.mixed_mse.is_some());
        let written = self.write_head(mixed, &mut text).and_then(|()| {
            let mut gops = self.gops.iter().enumerate();
            gops.try_for_each(|(number, gop)| gop.write_rows(number, mixed, &mut text))
        });
        written.expect("writing to a String cannot fail");
        text
    }

    /// Writes the two lines that come before the rows.
    fn write_head(&self, mixed: bool, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { columns, rows, gop_duration, .. } = self;
        let seconds = gop_duration.as_secs();
        write!(out, "{MAGIC} grid={columns}x{rows} gop_s={seconds}")?;
        if gop_duration.subsec_nanos() > 0 {
            let mut fraction = String::new();
            write!(fraction, "{:09}", gop_duration.subsec_nanos())?;
            write!(out, ".{}", fraction.trim_end_matches('0'))?;
        }
        writeln!(out, "\n{}", if mixed { COLUMNS_MIXED } else { COLUMNS })
    }
}

/// What the first line says.
struct Head {
    columns: u16,
    rows: u16,
    gop_duration: Duration,
}

impl Head {
    fn parse(line: &str) -> Result<Self, String> {
        let wrong =
            || format!("want '{MAGIC} grid=COLUMNSxROWS gop_s=SECONDS', not '{}'", cut(line));
        let fields = line.trim().strip_prefix(MAGIC).ok_or_else(wrong)?;
        let (mut grid, mut gop_duration) = (None, None);
        for field in fields.split_whitespace() {
            match field.split_once('=') {
                Some(("grid", value)) => grid = value.split_once('x'),
                Some(("gop_s", value)) => gop_duration = parse_seconds(value),
                _ => return Err(wrong()),
            }
        }
        let (columns, rows) = grid.ok_or_else(wrong)?;
        let head = Self {
            columns: columns.parse().map_err(|_| wrong())?,
            rows: rows.parse().map_err(|_| wrong())?,
            gop_duration: gop_duration.ok_or_else(wrong)?,
        };
        head.check()?;
        Ok(head)
    }

    fn tiles(&self) -> usize {
        usize::from(self.columns) * usize::from(self.rows)
    }

    fn check(&self) -> Result<(), String> {
        let (columns, rows) = (self.columns, self.rows);
        if self.tiles() == 0 || self.tiles() > MAX_TILES {
            return Err(format!("a grid of {columns}x{rows} must have 1 to {MAX_TILES} tiles"));
        }
        if self.gop_duration.is_zero() || self.gop_duration > Duration::from_secs(3_600) {
            return Err(format!(
                "a GoP of {} s must last more than 0 and at most 3600 s",
                self.gop_duration.as_secs_f64()
            ));
        }
        Ok(())
    }
}

/// Decimal seconds with at most nine digits after the point, exactly.
fn parse_seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos = fraction.parse::<u32>().ok()? * 10_u32.pow(9 - fraction.len() as u32);
    Some(Duration::new(whole.parse().ok()?, nanos))
}

/// The rungs read so far, by GoP and tile.
type Rows = BTreeMap<(usize, usize), Vec<Rung>>;

/// Reads one row of these `columns` into `rows`.
fn read_row(line: &str, columns: &str, head: &Head, rows: &mut Rows) -> Result<(), String> {
    let mut fields = line.split(',').map(str::trim);
    let mut field = |name: &str| fields.next().ok_or_else(|| format!("no {name}; want {columns}"));
    let gop: usize = number(field("gop")?, "gop")?;
    let tile: usize = number(field("tile")?, "tile")?;
    let qp: u8 = number(field("qp")?, "qp")?;
    let bytes = ByteCount::new(number(field("bytes")?, "bytes")?);
    let ws_mse: f64 = number(field("ws_mse")?, "ws_mse")?;
    let mixed_mse = match columns == COLUMNS_MIXED {
        true => Some(number(field("mixed_mse")?, "mixed_mse")?),
        false => None,
    };
    if fields.next().is_some() {
        return Err(format!("more than the fields {columns}"));
    }
    if gop >= MAX_GOPS {
        return Err(format!("gop {gop} is above the last one allowed, {}", MAX_GOPS - 1));
    }
    if tile >= head.tiles() {
        let (columns, tiles) = (head.columns, head.tiles());
        return Err(format!("tile {tile} is not in the grid {columns}x{} of {tiles}", head.rows));
    }
    let rung = Rung { qp, bytes, ws_mse, mixed_mse };
    rung.check()?;
    let rungs = rows.entry((gop, tile)).or_default();
    if rungs.iter().any(|other| other.qp == qp) {
        return Err(format!("gop {gop}, tile {tile}, QP {qp} comes a second time"));
    }
    if rungs.len() == MAX_RUNGS {
        return Err(format!("gop {gop}, tile {tile} has more than {MAX_RUNGS} rungs"));
    }
    rungs.push(rung);
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} '{}' is no number in range", cut(text)))
}

/// At most 60 characters of `text`: a message stays one line of sane length.
fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

/// Builds the table when every GoP up to the last has every tile.
fn assemble(head: &Head, rows: Rows) -> Result<RdTable, RdError> {
    let Some((&(last, _), _)) = rows.last_key_value() else {
        return Err(RdError::Incomplete("the table has no rows".to_owned()));
    };
    let tiles = head.tiles();
    let expected = (0..=last).flat_map(|gop| (0..tiles).map(move |tile| (gop, tile)));
    if let Some((gop, tile)) = expected
        .zip(rows.keys().map(Some).chain(std::iter::repeat(None)))
        .find_map(|(want, have)| (have != Some(&want)).then_some(want))
    {
        return Err(RdError::Incomplete(format!("gop {gop}, tile {tile} has no rows")));
    }
    let mut gops: Vec<GopTable> = Vec::with_capacity(last + 1);
    let mut whole = rows.into_values();
    for _ in 0..=last {
        let tiles: Result<Vec<_>, _> = whole.by_ref().take(tiles).map(TileTable::new).collect();
        gops.push(GopTable::new(tiles?)?);
    }
    RdTable::new(head.columns, head.rows, head.gop_duration, gops)
}

#[cfg(test)]
mod tests;
