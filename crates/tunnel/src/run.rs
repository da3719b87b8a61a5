//! The number of a node's run.

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::TunnelError;

/// A random number other than 0.
pub(crate) fn draw_run() -> Result<u32, TunnelError> {
    let mut bytes = [0; 4];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| TunnelError::not_possible("no random numbers", "see getrandom(2)"))?;
    Ok(u32::from_be_bytes(bytes).max(1))
}
