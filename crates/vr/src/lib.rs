//! 360° video as files: scenes to try things on, packages of encoded tiles, and their decoding.
//!
//! What touches files, processes and ffmpeg is here; geometry, metrics, tables and the optimiser
//! are in [`weftline_video`], which touches nothing.

#![forbid(unsafe_code)]

mod decode;
mod error;
pub mod evaluate;
mod ffmpeg;
mod original;
pub mod package;
mod rate;
mod source;
pub mod synth;

pub use decode::DecodedGop;
pub use error::VrError;
pub use ffmpeg::{Ffmpeg, Stop};
pub use rate::FrameRate;
pub use source::Source;
