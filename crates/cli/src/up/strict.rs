//! The kill switch as `up` keeps it: closed before anything else, and as long as nobody opens it.

use std::time::Duration;

use weftline_net::{DEVICE, KillSwitch, Near, NetError};

use crate::failure::Failure;

/// How often it is looked whether somebody has removed it, as `nft flush ruleset` does.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// What holds while it is closed.
pub(super) struct Strict {
    switch: KillSwitch,
    /// Whether networks of links are reached.
    lan: bool,
    /// Those that are now.
    near: Vec<Near>,
    /// Links that are named, which may have a name like those of containers.
    named: Vec<String>,
}

impl Strict {
    /// Closes it.
    ///
    /// # Errors
    /// When the kernel cannot do it, or does not let us.
    pub(super) fn close(lan: bool, named: Vec<String>) -> Result<Self, Failure> {
        let strict = Self { switch: KillSwitch::connect()?, lan, near: networks(lan), named };
        strict.switch.close(DEVICE, &strict.named, &strict.near)?;
        tracing::info!("the kill switch is closed until 'weftline down'");
        Ok(strict)
    }

    /// Follows the networks of links, and closes it again if somebody has opened it.
    pub(super) fn keep(&mut self) {
        if let Err(error) = self.try_keep() {
            tracing::error!("the kill switch may be open: {error}");
        }
    }

    fn try_keep(&mut self) -> Result<(), NetError> {
        let near = networks(self.lan);
        if !KillSwitch::is_closed().unwrap_or(false) {
            self.switch.close(DEVICE, &self.named, &near)?;
            tracing::warn!("the kill switch was removed by somebody: it is closed again");
        } else if near != self.near {
            self.switch.set_near(&near)?;
        }
        self.near = near;
        Ok(())
    }
}

/// What is near now, if that is reached.
fn networks(lan: bool) -> Vec<Near> {
    if !lan {
        return Vec::new();
    }
    Near::networks().unwrap_or_else(|error| {
        tracing::warn!("networks of links are not reached: {error}");
        Vec::new()
    })
}
