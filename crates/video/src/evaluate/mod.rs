//! What a viewer sees of a stream of tiles, from tables and traces: the evaluation of FBDT §6.3
//! without decoding a picture.
//!
//! A [`Session`] plays one scene to one viewer over one transport with one tile scheme. GoP by GoP
//! it plans as a live server does, by the same code and with what that knows (its [`Forecast`] of
//! the paths, how other viewers moved), lets the true rates carry the plan, conceals what is late
//! ([`crate::shown`]), and weighs each tile's error by the pixels it takes of this viewer's viewport. Errors are WS-MSEs of tiles from the R-D table; that their sums stand
//! for the error of the rendered viewport is checked on decoded pictures where these are at hand.
//!
//! What this takes for granted: a GoP's tiles are sent in the GoP's length before it is shown, and
//! what is late then is given up; the error of a concealment by an old picture is that of the
//! original's change plus that of the old picture's encoding; that paths carry what they are given
//! like fluids, and that 16 KiB and a tenth of a second of it cannot be called back.
//!
//! [`Forecast`]: crate::forecast::Forecast

mod conceal;
mod parts;
mod paths;
mod session;
mod views;

#[cfg(test)]
mod tests;

pub use crate::shown::{Concealment, PSNR_CEILING_DB, Shown};
pub use conceal::ConcealmentTable;
pub use parts::{Parts, TileParts};
pub use session::{GopDetail, GopOutcome, Session, SessionOutcome, rate_for};
pub use views::Views;

/// Why a session cannot be evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvaluateError {
    /// Tables of different grids, or of different GoPs.
    #[error("{what} is for {got}, but the R-D table for {wanted}; make both from one package")]
    Mismatch {
        /// Which table.
        what: &'static str,
        /// What it is for.
        got: String,
        /// What it should be for.
        wanted: String,
    },
    /// The grid of the R-D table cannot be one of a frame.
    #[error(transparent)]
    Grid(#[from] crate::geometry::GeometryError),
    /// A line of a [`ConcealmentTable`]'s text.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A value of a [`ConcealmentTable`].
    #[error("the concealment of tile {tile} of GoP {gop} loses {value}; want a number from 0 up")]
    Concealment {
        /// The GoP.
        gop: usize,
        /// The tile.
        tile: usize,
        /// Its value.
        value: f64,
    },
    /// Nothing to evaluate.
    #[error(
        "there is no GoP to evaluate: {gops} GoPs in the table, {trace_s} s of head motion, \
             {seconds} seconds of rates with the first {warm_up} for the history"
    )]
    Short {
        /// GoPs in the R-D table.
        gops: usize,
        /// Length of the head trace.
        trace_s: f64,
        /// Seconds of rates.
        seconds: usize,
        /// How many of them come before the first GoP.
        warm_up: usize,
    },
    /// The plan could not be asked for.
    #[error("GoP {gop}: {reason}")]
    Plan {
        /// The GoP.
        gop: usize,
        /// What was wrong.
        reason: String,
    },
}
