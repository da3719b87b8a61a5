//! Weftline's core: everything that decides, nothing that touches the world.
//!
//! The crate is *sans-IO*: no sockets, clocks, threads or global randomness. Two worlds drive the
//! same state machines: the daemons over kernel TCP, and the simulator in virtual time. Time comes
//! in as [`Instant`], randomness as a named [`rng::Rng`] stream.
//!
//! Everything on the wire is a range of one byte stream; a [`scheduler`] decides which range goes
//! next on which path; the receiver is the same for all of them. [`session::Session`] is where it
//! comes together.

pub mod life;
pub mod path;
pub mod path_manager;
pub mod policy;
pub mod pool;
pub mod ranges;
pub mod reassembly;
pub mod registry;
pub mod rng;
pub mod scheduler;
pub mod send_buffer;
pub mod session;
pub mod subflow;
pub mod time;
pub mod units;
pub mod wire;

pub use path::{PathId, PathInfo, SubflowId};
pub use policy::{PathPolicy, RateCap, Role};
pub use session::{Session, SessionConfig};
pub use time::Instant;
pub use units::{Bitrate, ByteCount};
