//! Weftline's protocol without input and output: sessions, schedulers, path management.
//!
//! The crate is *sans-IO*: it has no sockets, clocks, threads or global randomness. A driver passes
//! time in as [`Instant`] and randomness as a named [`rng::Rng`] stream. There are two drivers, which
//! run the same state machines: the daemons over kernel TCP, and the simulator in virtual time.
//!
//! Everything on the wire is a range of one byte stream. A [`scheduler`] decides which range goes next
//! on which path. The receiver is the same for all schedulers. A [`Session`] is one end of a
//! connection.
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | one end of a connection: what goes out, what has come in |
//! | [`scheduler`] | the schedulers, and how to register your own |
//! | [`path_manager`] | when a client dials which path |
//! | [`addresses`] | which of the server's addresses is dialled, and when |
//! | [`life`] | when a connection ends |
//! | [`wire`] | the format of records |
//! | [`datagram`] | IP packets over several lanes: UDP and all that is no TCP |
//! | [`fq_codel`], [`replay`] | a queue fair between flows; what has come before |
//! | [`reassembly`], [`send_buffer`], [`ranges`] | the bytes of a stream and their ranges |
//!
//! # The run loop
//!
//! A driver repeats four steps for each subflow: it says how much its socket takes
//! ([`Session::handle_room`]), writes what [`Session::poll_transmit`] gives, passes what the socket has
//! received to [`Session::handle_input`], and calls [`Session::handle_timeout`] at the time that
//! [`Session::poll_timeout`] names. [`Session::poll_event`] says what has happened. Here two sessions
//! are joined in memory, by one subflow and without delay:
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use bytes::BytesMut;
//! use weftline_core::{Instant, PathId, Session, SessionConfig, SubflowId};
//!
//! let now = Instant::ZERO;
//! let config = SessionConfig::default();
//! let [mut client, mut server] = [(); 2].map(|()| Session::new(&config, now));
//! let subflow = SubflowId(0);
//! for end in [&mut client, &mut server] {
//!     end.subflow_up(subflow, PathId(0), now)?;
//! }
//! client.write(b"over any path", now)?;
//! client.finish(now);
//!
//! let mut received = Vec::new();
//! while !server.is_read_to_end() {
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         let mut ends = [&mut client, &mut server];
//!         // The socket takes 64 KiB, and TCP delivers them in order.
//!         ends[from].handle_room(subflow, 64 << 10);
//!         let mut sent = VecDeque::new();
//!         ends[from].poll_transmit(subflow, &mut sent, now);
//!         let mut input: BytesMut = sent.iter().flat_map(|part| part.iter().copied()).collect();
//!         ends[to].handle_input(subflow, &mut input, now)?;
//!     }
//!     let chunk = server.read_chunk().to_vec();
//!     server.consume(chunk.len(), now)?;
//!     received.extend(chunk);
//! }
//! assert_eq!(received, b"over any path");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod addresses;
pub mod datagram;
pub mod fq_codel;
pub mod life;
pub mod limiter;
pub mod path;
pub mod path_manager;
pub mod policy;
pub mod pool;
pub mod ranges;
pub mod reassembly;
pub mod registry;
pub mod replay;
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
