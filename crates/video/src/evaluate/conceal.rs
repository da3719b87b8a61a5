//! What concealments of late tiles lose.

use std::fmt::Write as _;

use super::EvaluateError;
use crate::rd::{MAX_GOPS, MAX_TILES};

/// The most ages of a table: older pictures are grey.
const MAX_AGES: usize = 16;

/// What concealments lose, measured on the original when it is packaged. All values are parts of
/// the frame's WS-MSE, like those of an R-D table.
#[derive(Clone, Debug, PartialEq)]
pub struct ConcealmentTable {
    /// Per GoP and tile: mid-grey in its place.
    grey: Vec<Vec<f64>>,
    /// Per GoP, tile and age less one: the last picture of the GoP that is so many GoPs older.
    stale: Vec<Vec<Vec<f64>>>,
}

impl ConcealmentTable {
    /// A table of what grey loses, per GoP and tile, and of what the last picture of older GoPs
    /// does, per GoP, tile and age (one GoP first). Ages beyond those given are shown as grey.
    ///
    /// # Errors
    /// [`EvaluateError::Concealment`] if a value is negative or not finite, [`EvaluateError::Mismatch`]
    /// if the two have not the same GoPs and tiles.
    pub fn new(grey: Vec<Vec<f64>>, stale: Vec<Vec<Vec<f64>>>) -> Result<Self, EvaluateError> {
        let shape = |tiles: Vec<usize>| format!("{} GoPs of {tiles:?} tiles", tiles.len());
        let (wanted, got) =
            (grey.iter().map(Vec::len).collect(), stale.iter().map(Vec::len).collect());
        if wanted != got {
            let what = "the concealment by older pictures";
            return Err(EvaluateError::Mismatch { what, got: shape(got), wanted: shape(wanted) });
        }
        for (gop, tiles) in grey.iter().enumerate() {
            for (tile, &value) in tiles.iter().enumerate() {
                let all = stale[gop][tile].iter().copied().chain([value]);
                if let Some(value) = all.into_iter().find(|value| !(0.0..1e12).contains(value)) {
                    return Err(EvaluateError::Concealment { gop, tile, value });
                }
            }
        }
        Ok(Self { grey, stale })
    }

    /// Reads a table's CSV: a header `gop,tile,grey,stale1,stale2,…`, one column for each age, and
    /// one row for each tile of each GoP, in their order.
    ///
    /// # Errors
    /// [`EvaluateError::Line`] says what is wrong with which line.
    pub fn parse(text: &str) -> Result<Self, EvaluateError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let header = lines.next().map_or("", |(_, line)| line);
        let ages = header.strip_prefix("gop,tile,grey").map(|rest| rest.matches(',').count());
        let ages = ages.filter(|&ages| ages <= MAX_AGES && header == header_of(ages));
        let ages = ages.ok_or_else(|| {
            let reason = format!("wants '{}' with at most {MAX_AGES} ages", header_of(2));
            EvaluateError::Line { line: 1, reason }
        })?;
        let (mut grey, mut stale): (Vec<Vec<f64>>, Vec<Vec<Vec<f64>>>) = (Vec::new(), Vec::new());
        for (line, row) in lines.filter(|(_, row)| !row.is_empty()) {
            let wrong = |reason: String| EvaluateError::Line { line, reason };
            let (gop, tile, values) = parse_row(row, ages).map_err(wrong)?;
            if tile == 0 && gop == grey.len() {
                grey.push(Vec::new());
                stale.push(Vec::new());
            }
            let tiles = grey.last().map_or(0, Vec::len);
            if gop + 1 != grey.len() || tile != tiles || gop >= MAX_GOPS || tile >= MAX_TILES {
                return Err(wrong(format!(
                    "tile {tile} of GoP {gop} is not the next; rows go by GoP and tile from 0"
                )));
            }
            grey[gop].push(values[0]);
            stale[gop].push(values[1..].to_vec());
        }
        Self::new(grey, stale)
    }

    /// The table as CSV, as [`Self::parse`] reads it; ages that some tile does not have end there.
    pub fn to_csv(&self) -> String {
        let ages = self.stale.iter().flatten().map(Vec::len).min().unwrap_or(0).min(MAX_AGES);
        let mut text = header_of(ages);
        text.push('\n');
        for (gop, (grey, stale)) in self.grey.iter().zip(&self.stale).enumerate() {
            for (tile, (grey, stale)) in grey.iter().zip(stale).enumerate() {
                let _ = write!(text, "{gop},{tile},{grey}");
                for value in &stale[..ages] {
                    let _ = write!(text, ",{value}");
                }
                text.push('\n');
            }
        }
        text
    }

    /// How many GoPs it has.
    pub fn gops(&self) -> usize {
        self.grey.len()
    }

    /// How many tiles GoP `gop` has; none after the last.
    pub fn tiles(&self, gop: usize) -> usize {
        self.grey.get(gop).map_or(0, Vec::len)
    }

    /// What a tile of GoP `gop` loses in grey, if there is such a tile.
    pub fn grey(&self, gop: usize, tile: usize) -> Option<f64> {
        self.grey.get(gop)?.get(tile).copied()
    }

    /// What the original of a tile has changed in GoP `gop` since the last picture `age` GoPs before (1: of
    /// the one before); nothing beyond the table.
    pub fn change(&self, gop: usize, tile: usize, age: usize) -> Option<f64> {
        self.stale.get(gop)?.get(tile)?.get(age.checked_sub(1)?).copied()
    }

    /// What a tile loses in grey, and what its original has changed since one GoP before, since two
    /// before, and so on.
    pub(crate) fn of(&self, gop: usize, tile: usize) -> (f64, &[f64]) {
        (self.grey[gop][tile], &self.stale[gop][tile])
    }
}

/// The header of a table with so many ages.
fn header_of(ages: usize) -> String {
    let names = (1..=ages).map(|age| format!(",stale{age}")).collect::<String>();
    format!("gop,tile,grey{names}")
}

/// The GoP, the tile and the values of a row, grey first.
fn parse_row(row: &str, ages: usize) -> Result<(usize, usize, Vec<f64>), String> {
    let cells: Vec<&str> = row.split(',').map(str::trim).collect();
    if cells.len() != ages + 3 {
        return Err(format!("{} cells where the header has {}", cells.len(), ages + 3));
    }
    let count = |cell: &str| cell.parse::<usize>().map_err(|_| format!("'{cell}' is no number"));
    let value = |cell: &&str| {
        let value = cell.parse::<f64>().ok().filter(|value| value.is_finite());
        value.ok_or_else(|| format!("'{cell}' is no number"))
    };
    let values = cells[2..].iter().map(value).collect::<Result<_, _>>()?;
    Ok((count(cells[0])?, count(cells[1])?, values))
}
