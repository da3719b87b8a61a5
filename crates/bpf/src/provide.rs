//! Makes the controls available to sockets: looks what is there, and loads what is not.

use crate::{BpfError, Control, Groups, Loaded, available, kernel};

impl Control {
    /// Makes sure that sockets can ask for the congestion control `name`, a name of ours or the
    /// kernel's: gives the kernel's name of it. Ours is loaded unless it is there already, and
    /// is there as long as what is given with the name.
    ///
    /// # Errors
    /// When this kernel or user cannot load it, or cannot couple sockets under it.
    pub fn provide(name: &str) -> Result<(String, Option<Loaded>), BpfError> {
        let Some(control) = Self::find(name) else { return Ok((name.to_owned(), None)) };
        // A kernel may have been built with one.
        if available().iter().any(|have| have == control.name) {
            return Ok((control.name.to_owned(), None));
        }
        let loaded = match control.is_loaded() {
            true => None,
            false => Some(Loaded::load(&[control])?),
        };
        Groups::check(control)?;
        Ok((control.kernel_name.to_owned(), loaded))
    }

    /// The process that has loaded it, as far as we may see.
    pub fn holder(self) -> Option<u32> {
        kernel::holder(self)
    }

    /// Whether it is loaded, whoever did it. Anybody may ask.
    pub fn is_loaded(self) -> bool {
        available().iter().any(|have| have == self.kernel_name)
    }
}
