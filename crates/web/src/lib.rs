//! The dashboard of a daemon: a small HTTP server and the page that it serves, which shows how the
//! daemon's paths and connections do, now and over the last ten minutes.
//!
//! A program gives a [`Source`], which is looked at twice a second, and opens a [`Dashboard`]:
//!
//! ```
//! use std::sync::Arc;
//! use weftline_web::{Dashboard, Look, PathLook, PathState, Program, Settings, Source};
//!
//! struct Example;
//!
//! impl Source for Example {
//!     fn status(&self, _connections: usize) -> String {
//!         r#"{"daemon":"example","connections":[]}"#.to_owned()
//!     }
//!
//!     fn look(&self) -> Look {
//!         let wifi = PathLook {
//!             name: "wifi".into(),
//!             state: PathState::Up,
//!             sent_bytes: 1_000_000,
//!             received_bytes: 0,
//!             retransmitted_segments: Some(0),
//!             srtt_ms: Some(6.2),
//!             queueing_ms: Some(5.1),
//!             cwnd_bytes: Some(371_000),
//!         };
//!         Look { state: "running".to_owned(), paths: vec![wifi], ..Look::default() }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address = "127.0.0.1:0".parse()?;
//! let settings = Settings { address, names: Vec::new(), program: Program::Server, tls: None };
//! let dashboard = Dashboard::open(&settings, Arc::new(Example)).await?;
//! // To be opened in a browser: http://127.0.0.1:…/#k=…
//! assert!(dashboard.url().starts_with("http://127.0.0.1:"));
//! # Ok(())
//! # }
//! ```
//!
//! A player of live 360° video gives what comes to a [`Stage`] and opens a [`PlayerPage`]. A
//! [`FileServer`] offers the files of a directory to any player of DASH.
//!
//! | file | holds |
//! |---|---|
//! | `source.rs` | what a program shows of itself: counters and events |
//! | `rates.rs` | what two looks at counters make: rates, one sample |
//! | `history.rs` | ten minutes of samples, in columns |
//! | `sse.rs` | the board: history, events, and the pages that watch |
//! | `weave.rs` | a connection's weave: which rows of it a page is sent, and the page of a simulated one |
//! | `player/` | the 360° player: a live stream is passed on to pages, and where they look comes back |
//! | `guard.rs` | who may see it: names, origins, token and session |
//! | `assets.rs` | the page itself, built from `ui/` into `dist/` |
//! | `serve.rs` | HTTP: connections, routes, limits |
//! | `clock.rs` | the machine's clocks |
//! | `tls.rs` | TLS for those who come from other machines |
//! | `listen.rs` | where a server listens, and how many it answers at once |
//! | `files/` | the files of a directory, over HTTP |
//!
//! Nothing here grows without a bound, whatever clients do: connections, heads, bodies, the time a
//! request takes, pages that watch, what waits for each of them, paths, rows and events have limits.

mod assets;
mod clock;
mod files;
mod guard;
mod history;
mod listen;
mod player;
mod rates;
mod serve;
mod source;
mod sse;
#[cfg(test)]
mod stopped;
mod tls;
mod weave;

pub use files::{FileServer, FileSettings, FilesError};
pub use guard::{Program, WrongName};
pub use listen::OpenError;
#[doc(hidden)]
pub use player::fuzz;
pub use player::{Shown, Stage};
pub use serve::{Dashboard, PlayerPage, Settings};
pub use source::{
    ConnectionLook, Event, EventLevel, Look, PathLook, PathState, Source, WeaveLook, WeaveSource,
};
pub use tls::{Tls, TlsError};
pub use weave::weave_page;
