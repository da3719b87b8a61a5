//! What a build without the feature `bpf` has instead of the kernel: the same functions, which
//! say so.

use std::os::fd::BorrowedFd;

use crate::{BpfError, Control};

/// Controls that this process holds: none in this build.
#[derive(Debug)]
pub struct Loaded(());

impl Loaded {
    /// Says that this build cannot.
    ///
    /// # Errors
    /// [`BpfError::NotBuilt`].
    pub fn load(_: &[Control]) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// The controls.
    pub fn controls(&self) -> impl Iterator<Item = Control> {
        std::iter::empty()
    }

    /// The kernel's links to them.
    pub fn links(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::empty()
    }
}

/// Says that this build cannot.
///
/// # Errors
/// [`BpfError::NotBuilt`].
pub fn unload(_: Control) -> Result<(), BpfError> {
    Err(BpfError::NotBuilt)
}

/// The process that holds a control: not known in this build.
pub(crate) fn holder(_: Control) -> Option<u32> {
    None
}

/// The map of a coupled control's groups.
#[derive(Debug)]
pub(crate) enum GroupMap {}

impl GroupMap {
    pub(crate) fn open(_: Control) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt)
    }

    pub(crate) fn put(&self, _: BorrowedFd<'_>, _: u64) -> Result<(), BpfError> {
        match *self {}
    }
}
