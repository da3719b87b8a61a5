//! In place of the dashboard, in a program that is built without it (the feature `web`).

use super::DashboardPlace;
use super::snapshot::{About, NodeLinks};
use crate::failure::Failure;

/// There is none.
pub(crate) enum Opened {}

/// Says that there is no dashboard.
///
/// # Errors
/// Always.
pub(crate) fn check(place: &DashboardPlace) -> Result<(), Failure> {
    let address = place.address;
    Err(Failure::not_possible(format!(
        "--dashboard {address}: this program is built without the dashboard; build it with the \
         feature web"
    )))
}

/// Says that there is no dashboard.
///
/// # Errors
/// Always.
pub(crate) async fn open(
    _: impl Fn() -> About + Send + Sync + 'static,
    place: &DashboardPlace,
    _: bool,
) -> Result<(Opened, String), Failure> {
    check(place).map(|()| unreachable!("it always fails"))
}

/// Says that there is no dashboard.
///
/// # Errors
/// Always.
pub(crate) async fn open_node(
    _: impl Fn() -> About + Send + Sync + 'static,
    _: impl Fn() -> NodeLinks + Send + Sync + 'static,
    place: &DashboardPlace,
    _: bool,
) -> Result<(Opened, String), Failure> {
    check(place).map(|()| unreachable!("it always fails"))
}
