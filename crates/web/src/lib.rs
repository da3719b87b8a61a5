//! The dashboard of a daemon: a small HTTP server and the page that it serves, which shows how the
//! daemon's paths and connections do, now and over the last ten minutes.
//!
//! A program gives a [`Source`], which is looked at twice a second, and opens a [`Dashboard`]:
//!
//! | file | holds |
//! |---|---|
//! | `source.rs` | what a program shows of itself: counters and events |
//! | `rates.rs` | what two looks at counters make: rates, one sample |
//! | `history.rs` | ten minutes of samples, in columns |
//! | `sse.rs` | the board: history, events, and the pages that watch |
//! | `guard.rs` | who may see it: names, origins, token and session |
//! | `assets.rs` | the page itself, built from `ui/` into `dist/` |
//! | `serve.rs` | HTTP: connections, routes, limits |
//!
//! Nothing here grows without a bound, whatever clients do: connections, heads, bodies, the time a
//! request takes, pages that watch, what waits for each of them, paths, rows and events have limits.

mod assets;
mod guard;
mod history;
mod rates;
mod serve;
mod source;
mod sse;

pub use guard::WrongName;
pub use serve::{Dashboard, OpenError, Settings};
pub use source::{ConnectionLook, Event, EventLevel, Look, PathLook, PathState, Source};
