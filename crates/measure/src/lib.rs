//! What a run's figures mean, once for every world.
//!
//! The simulator and the lab say what happens and when; a [`FlowMeasurement`] and a
//! [`PathMeasurement`] make of it what stands in a record. Neither has a clock: the times that the
//! worlds pass count from wherever theirs begin. [`DEFINITIONS`] says in words what each key of a
//! record means, and `docs/scenarios.md` shows that table.

mod definitions;
mod delay;
mod flow;
mod path;
mod window;

pub use definitions::{DEFINITIONS, Definition, table};
pub use delay::Delays;
pub use flow::{FlowFigures, FlowMeasurement};
pub use path::{PathFigures, PathMeasurement};
pub use window::{STEP, STEPS_MAX, Window, mbps};
