//! The congestion control of a run: the kernel's own, or one of ours that is loaded into it for as
//! long as the lab needs it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use weftline_bpf::{Control, Loaded};
use weftline_scenario::Congestion;

use crate::LabError;

/// A congestion control that sockets can ask for.
#[derive(Debug)]
pub(crate) struct Provided {
    /// The kernel's name of it.
    pub(crate) kernel_name: String,
    /// Ours, if nobody else has loaded it.
    _loaded: Option<Loaded>,
}

/// Checks, before anything is done, that the kernel may have a congestion control.
///
/// # Errors
/// [`LabError::NotPossible`] if the kernel was not built with it, Linux has no module for it, and
/// it is none of ours.
pub(crate) fn check(congestion: Congestion) -> Result<(), LabError> {
    let name = congestion.name();
    let known = congestion.is_in_linux() || Control::find(name).is_some();
    if known || weftline_bpf::available().iter().any(|have| have == name) {
        return Ok(());
    }
    Err(LabError::not_possible(
        format!("this kernel has no congestion control '{name}', and Linux no module for it"),
        "run it in the simulator with 'weftline sim run', or choose another",
    ))
}

/// Sees to it that sockets can ask for a congestion control.
///
/// # Errors
/// Those of [`check`], and [`LabError::NotPossible`] if ours cannot be loaded here.
pub(crate) fn provide(congestion: Congestion) -> Result<Provided, LabError> {
    check(congestion)?;
    let provided = Control::provide(congestion.name());
    let (kernel_name, _loaded) = provided.map_err(|error| LabError::congestion(&error))?;
    Ok(Provided { kernel_name, _loaded })
}

/// The same for several.
pub(crate) fn provide_all(
    congestions: impl Iterator<Item = Congestion>,
) -> Result<BTreeMap<Congestion, Provided>, LabError> {
    let mut all = BTreeMap::new();
    for congestion in congestions {
        if let Entry::Vacant(place) = all.entry(congestion) {
            place.insert(provide(congestion)?);
        }
    }
    Ok(all)
}
