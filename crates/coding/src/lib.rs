//! Network coding for COTAG: random linear combinations of packets over GF(2^8), made at a gateway,
//! made anew from what has come at access points, and undone at the device (COTAG §III).
//!
//! The crate is *sans-IO*: no sockets, clocks, threads or global randomness; packets and a seeded
//! [`Rng`](weftline_core::rng::Rng) come in, packets go out. A *generation* is up to 255 packets of
//! one flow that are coded together ([`generation`]). Its packets go out as they are
//! (*systematic*), or combined, with the coefficients as a seed or as a vector ([`Coding`]).
//!
//! - [`Encoder`] holds the packets of a generation and combines them.
//! - [`Recoder`] holds what an access point has received, combines that, and knows which packet
//!   still adds to what went out.
//! - [`Decoder`] solves for the packets. It looks at coefficients first and touches payload only
//!   when packets are determined; what has come as it is can be had at once.
//! - [`wire`] is the header of a packet between nodes.
//! - [`node`] has the nodes as state machines: gateway, access point and device.
//! - [`Kernel`] is the arithmetic in the processor's best instructions; all give the same bytes.
//!
//! ```
//! use weftline_coding::{Coding, Decoder, Encoder, Kernel, Limits};
//!
//! let limits = Limits::default();
//! let mut encoder = Encoder::new(limits, Kernel::best());
//! for packet in [&b"one"[..], b"packet", b"is lost"] {
//!     encoder.push(packet)?;
//! }
//! let mut decoder = Decoder::new(limits, Kernel::best());
//! for i in [0, 2] {
//!     let packet = encoder.packet(i).expect("pushed above");
//!     decoder.receive(encoder.size(), Coding::Systematic(i), packet)?;
//! }
//! assert_eq!(decoder.packet(1), None);
//!
//! // Any combination of the three makes up for any one of them.
//! let mut payload = Vec::new();
//! encoder.append_seeded(7, &mut payload);
//! decoder.receive(encoder.size(), Coding::Seed(7), &payload)?;
//! assert_eq!(decoder.recover(), 1);
//! assert_eq!(decoder.packet(1), Some(&b"packet"[..]));
//! # Ok::<(), weftline_coding::GenerationError>(())
//! ```

pub mod coefficients;
mod decoder;
mod echelon;
mod encoder;
mod error;
pub mod generation;
pub mod gf256;
pub mod kernels;
pub mod node;
mod recoder;
pub mod serial;
pub mod wire;

#[cfg(test)]
mod tests;

pub use coefficients::Coding;
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use generation::{GenerationError, Limits, Verdict};
pub use kernels::Kernel;
pub use recoder::{Recoded, Recoder};
pub use serial::{Arrival, Label};
