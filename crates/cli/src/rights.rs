//! Root's rights, laid down where files may be another user's traps: in a directory of that user any name
//! may have become a link to a file that only root may read or change.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, OFlags, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// The rights of the one thread that this program has then: those of the owner of a directory.
#[derive(Debug)]
pub(crate) struct Rights {
    /// Whose they are, if root has laid down its own.
    owner: Option<Uid>,
}

impl Rights {
    /// Root goes on as the owner of `dir`, if that is another user, to the end of the program. Others go
    /// on as they are. Returns by what path the directory is reached then: the owner may have no way to
    /// it, as to that of a unit with a user of its own.
    ///
    /// # Errors
    /// When the directory cannot be opened, or the system does not let us.
    pub(crate) fn of_owner(dir: &Path) -> io::Result<(Self, PathBuf)> {
        let flags = (OFlags::DIRECTORY | OFlags::PATH).bits().cast_signed();
        let open = File::options().read(true).custom_flags(flags).open(dir)?;
        let found = open.metadata()?;
        if !rustix::process::geteuid().is_root() || found.uid() == 0 {
            return Ok((Self { owner: None }, dir.to_owned()));
        }
        let (owner, group) = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        // Root stays the saved user, so that it can be root again.
        set_thread_res_uid(owner, owner, Uid::ROOT)?;
        let rights = Self { owner: Some(owner) };
        let is_reached = std::fs::metadata(dir)
            .is_ok_and(|reached| (reached.dev(), reached.ino()) == (found.dev(), found.ino()));
        if is_reached {
            return Ok((rights, dir.to_owned()));
        }
        rights.raised(|| rustix::process::fchdir(&open))??;
        Ok((rights, PathBuf::from(".")))
    }

    /// Whether root has laid down its rights.
    pub(crate) fn are_lowered(&self) -> bool {
        self.owner.is_some()
    }

    /// Does one thing with the rights that the program was started with.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn raised<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let become_user = |user| set_thread_res_uid(None::<Uid>, user, None::<Uid>);
        let Some(owner) = self.owner else { return Ok(work()) };
        become_user(Uid::ROOT)?;
        let result = work();
        become_user(owner)?;
        Ok(result)
    }
}
