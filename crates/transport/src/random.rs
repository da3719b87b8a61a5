//! Randomness of the system.

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::error::Error;

/// A number to seed random streams that need not be secret.
///
/// # Errors
/// When the system has no randomness to give.
pub(crate) fn random_seed() -> Result<u64, Error> {
    Ok(u64::from_ne_bytes(random()?))
}

/// Secret random bytes.
///
/// # Errors
/// When the system has no randomness to give.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::Invalid("the system gives no random numbers".to_owned()))?;
    Ok(bytes)
}
