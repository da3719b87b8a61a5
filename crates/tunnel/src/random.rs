//! Random numbers for epochs, measurements and seeds.

use crate::TunnelError;

/// A random number other than 0.
#[cfg(not(test))]
pub(crate) fn random_nonzero() -> Result<u32, TunnelError> {
    use ring::rand::{SecureRandom as _, SystemRandom};
    let mut bytes = [0; 4];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| TunnelError::not_possible("no random numbers", "see getrandom(2)"))?;
    Ok(u32::from_be_bytes(bytes).max(1))
}

/// The next of a sequence that each test has for itself: what is coded is so from a seed, and a test
/// that fails does so again.
#[cfg(test)]
pub(crate) fn random_nonzero() -> Result<u32, TunnelError> {
    thread_local!(static DRAWN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    let number = DRAWN.get().wrapping_add(0x9e37_79b9);
    DRAWN.set(number);
    Ok(number.max(1))
}
