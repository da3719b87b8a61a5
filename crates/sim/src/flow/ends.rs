//! The two ends of a connection, and what one sends where only the number of bytes counts.

/// The index of the end that asks.
pub(super) const CLIENT: usize = 0;
/// The index of the end that sends the data.
pub(super) const SERVER: usize = 1;

/// What the application writes; its content does not matter here.
pub(super) static ZEROS: [u8; 256 << 10] = [0; 256 << 10];
