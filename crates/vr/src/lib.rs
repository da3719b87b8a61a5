//! 360° video as files: scenes to try things on, packages of encoded tiles, and their decoding.
//!
//! This crate has all that touches files, processes and ffmpeg: [`synth`] draws scenes, [`package`]
//! encodes tiles, [`evaluate`] plays packages to viewers. Geometry, metrics, tables and the optimiser are
//! in [`weftline_video`], which touches nothing.
//!
//! ```
//! use weftline_video::geometry::FrameSize;
//! use weftline_vr::FrameRate;
//! use weftline_vr::synth::{Picture, Synth};
//!
//! // The same picture on every machine.
//! let size = FrameSize::new(128, 64)?;
//! let scene = Synth::new("plaza", 7, size, FrameRate::new(30, 1)?)?;
//! let mut picture = Picture::new(size);
//! scene.draw(0, &mut picture);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod colour;
mod container;
mod decode;
mod error;
pub mod evaluate;
mod ffmpeg;
mod fingerprint;
pub mod live;
pub mod mp4;
mod original;
pub mod package;
mod rate;
pub mod screens;
mod source;
pub mod synth;

pub use colour::Colour;
pub use decode::DecodedGop;
pub use error::VrError;
pub use ffmpeg::{Ffmpeg, Stop};
pub use rate::FrameRate;
pub use source::Source;
