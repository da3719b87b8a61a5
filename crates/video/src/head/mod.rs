//! Head motion: traces and their loaders, synthetic viewers, how probable it is that a tile is
//! seen, and prediction for live use.
//!
//! A [`Trace`] is one viewer's poses over one video. [`Format`] names the file formats that
//! [`read`] takes; [`SyntheticViewers`] makes traces from a seed; [`TileProbabilities`] are the
//! P(t) of the optimiser (FBDT §4.1), measured over some viewers and to be judged on others
//! ([`split_viewers`]); a [`Predictor`] says where one viewer will look a little later.

mod load;
mod predict;
mod probability;
mod synthetic;
mod trace;

#[cfg(test)]
mod tests;

pub use load::{Format, Label, read};
pub use predict::{Predictor, PredictorSettings};
pub use probability::{TileProbabilities, split_viewers, times_of};
pub use synthetic::SyntheticViewers;
pub use trace::{MAX_GAP, Pose, Trace};

/// Why head motion cannot be used; the text says where, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// A line of a file cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The text is no JSON of the format.
    #[error("no AVTrack360 JSON: {0}")]
    Json(String),
    /// One trace cannot be used.
    #[error("viewer '{viewer}' of video '{video}': {reason}")]
    Trace {
        /// The viewer's name.
        viewer: String,
        /// The video's name.
        video: String,
        /// What is wrong with the trace.
        reason: String,
    },
    /// The traces as a whole cannot be used.
    #[error("{0}")]
    Traces(String),
}
