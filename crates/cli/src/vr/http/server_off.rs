//! In place of the server of `vr http`, in a program that is built without it (the feature `web`).

use std::net::SocketAddr;

use super::HttpArgs;
use crate::failure::Failure;

/// Says that there is none.
///
/// # Errors
/// Always.
pub(super) async fn open(_: &HttpArgs) -> Result<((), SocketAddr), Failure> {
    Err(Failure::not_possible(
        "this program is built without its web server; build it with the feature web, or let any server \
         of files offer the package",
    ))
}
