//! In place of the page of `vr play --web`, in a program that is built without it (the feature `web`).

use std::path::Path;

use weftline::Fingerprint;
use weftline_core::Instant;
use weftline_video::geometry::{FieldOfView, Orientation};
use weftline_video::live::wire::{PoseNotice, Tile};
use weftline_video::live::{Client, GopReport};

use crate::failure::Failure;
use crate::ops::DashboardPlace;

/// There is none.
pub(crate) enum Web {}

/// Nothing is secured.
pub(crate) struct Secured {
    pub(crate) fingerprint: Fingerprint,
}

/// There is no page to be secured.
pub(crate) fn secured(_: &Path, _: &Path) -> Result<Secured, Failure> {
    Err(Failure::not_possible(
        "--web-tls: this program is built without the player's page; build it with the feature web",
    ))
}

impl Web {
    pub(crate) async fn open(
        place: &DashboardPlace,
        _: Option<&Secured>,
        _: Option<&Path>,
        _: FieldOfView,
    ) -> Result<Self, Failure> {
        check(place, false).map(|()| unreachable!("it always fails"))
    }

    pub(crate) fn url(&self) -> &str {
        match *self {}
    }

    pub(crate) fn message(&mut self, _: &[u8]) {
        match *self {}
    }

    pub(crate) fn tile(&mut self, _: &Tile<'_>, _: bool) {
        match *self {}
    }

    pub(crate) fn follow(&mut self, _: &Client, _: Instant) {
        match *self {}
    }

    pub(crate) fn pose(&self) -> Option<PoseNotice> {
        match *self {}
    }

    pub(crate) fn is_watched(&self) -> bool {
        match *self {}
    }

    pub(crate) fn looked(&mut self, _: u32, _: Orientation) {
        match *self {}
    }

    pub(crate) fn sample(&self, _: &[(String, f64, bool)]) {
        match *self {}
    }

    pub(crate) fn report(&mut self, _: &GopReport, _: Orientation) {
        match *self {}
    }

    pub(crate) fn note_shown(&mut self) -> Result<(), String> {
        match *self {}
    }

    pub(crate) async fn finish(&mut self, _: Option<&str>) -> Result<(), String> {
        match *self {}
    }
}

/// Says that there is no page.
///
/// # Errors
/// Always.
pub(crate) fn check(place: &DashboardPlace, _: bool) -> Result<(), Failure> {
    let address = place.address;
    Err(Failure::not_possible(format!(
        "--web {address}: this program is built without the player's page; build it with the \
         feature web"
    )))
}
