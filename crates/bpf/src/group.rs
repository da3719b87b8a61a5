//! Telling a coupled control which sockets are one connection. Subflows of Linux MPTCP need no
//! telling: the kernel knows.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use socket2::SockRef;

use crate::kernel::GroupMap;
use crate::{BpfError, Control};

/// The groups of sockets of this process, by coupled control. It outlives what it refers to: a
/// control that is taken out and loaded again is found anew.
#[derive(Debug)]
pub struct Groups {
    /// Added to what this process calls its groups: other processes have groups, too.
    base: u64,
    /// The control's map that was used last, with the control.
    open: Mutex<Option<(Control, GroupMap)>>,
}

/// The highest bit is the kernel's: addresses of MPTCP connections have it, numbers of groups not.
const GROUP_MASK: u64 = u64::MAX >> 1;

impl Default for Groups {
    fn default() -> Self {
        Self { base: RandomState::new().build_hasher().finish(), open: Mutex::default() }
    }
}

impl Groups {
    /// Checks that sockets can be put in groups of `control`, which must be loaded.
    ///
    /// # Errors
    /// [`BpfError::NotPermitted`] without the right to reach the control's maps, and what the
    /// kernel refuses.
    pub fn check(control: Control) -> Result<(), BpfError> {
        match control.is_coupled {
            true => GroupMap::open(control).map(drop),
            false => Ok(()),
        }
    }

    /// Puts a socket into the group of that number if its congestion control is a coupled one of
    /// ours; otherwise does nothing. Sockets of one number are the subflows of one connection.
    ///
    /// # Errors
    /// When the control's maps cannot be reached; the socket is then a connection by itself.
    pub fn join(&self, socket: BorrowedFd<'_>, group: u64) -> Result<(), BpfError> {
        let name = SockRef::from(&socket).tcp_congestion().unwrap_or_default();
        let name = String::from_utf8_lossy(&name);
        let control = Control::find(name.trim_end_matches('\0'));
        let Some(control) = control.filter(|control| control.is_coupled) else { return Ok(()) };
        // 0 stands for none.
        let group = (self.base.wrapping_add(group) & GROUP_MASK).max(1);
        let mut open = self.open.lock().expect("nobody panics with it");
        match &*open {
            Some((of, map)) if *of == control && map.put(socket, group).is_ok() => Ok(()),
            _ => {
                let map = GroupMap::open(control)?;
                map.put(socket, group)?;
                *open = Some((control, map));
                Ok(())
            }
        }
    }
}
