//! The 360° player in browsers: a live stream is passed on to pages as it comes, and where they look comes
//! back.

#[doc(hidden)]
pub mod fuzz;
mod message;
pub(crate) mod socket;
mod stage;

pub use message::Shown;
pub use stage::Stage;

#[cfg(test)]
mod tests;
