//! What a run's figures mean, defined once for the simulator and the lab.
//!
//! Both say what happened and when. A [`FlowMeasurement`] and a [`PathMeasurement`] turn that into the
//! figures of a record. Neither has a clock: times count from wherever the caller's begin.
//! [`DEFINITIONS`] says in words what each key of a record means; `docs/scenarios.md` shows that table.
//!
//! ```
//! use std::time::Duration;
//!
//! use weftline_core::Instant;
//! use weftline_measure::{FlowMeasurement, Window};
//!
//! // A run of 3 s, of which the first one is the warm-up.
//! let (begin, end) = (Instant::ZERO, Instant::from_millis(3000));
//! let mut flow = FlowMeasurement::new(Window::new(begin, begin, end, Duration::from_secs(1)));
//! for ms in (0..3000).step_by(10) {
//!     flow.released(Instant::from_millis(ms), 12_500);
//! }
//! let figures = flow.figures(end);
//! // 12,500 bytes every 10 ms are 10 Mb/s.
//! assert_eq!(figures.goodput_mbps, Some(10.0));
//! assert_eq!(figures.longest_gap_ms, Some(10.0));
//! ```

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
