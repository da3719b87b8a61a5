//! The controls against vectors, closed forms, random operations, snapshots and another
//! implementation.

mod closed_forms;
mod driver;
mod model;
mod quinn;
mod rounds;
mod vectors;

pub(crate) use driver::{Acks, Pipe, PipeConfig, make};
