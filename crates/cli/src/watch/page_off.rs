//! In place of the page, in a program that is built without it (the feature `web`).

use std::net::SocketAddr;
use std::sync::Arc;

use super::show::Show;
use crate::failure::Failure;

/// There is none.
pub(crate) enum Page {}

impl Page {
    /// Says that there is no page.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn open(address: SocketAddr, _: &Arc<Show>) -> Result<Self, Failure> {
        Err(Failure::not_possible(format!(
            "--watch {address}: this program is built without pages; build it with the feature web"
        )))
    }

    pub(crate) fn url(&self) -> &str {
        match *self {}
    }
}
