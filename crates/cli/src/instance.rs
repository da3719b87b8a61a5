//! One process of a kind at a time: a file that is locked as long as the process lives, with its
//! number in it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

/// The longest number of a process that is read, in bytes.
const MAX_NUMBER: u64 = 32;

/// How often in a row others may be looking at a file that is to be claimed.
const MOST_LOOKS: u32 = 1000;

/// A claim, which lasts as long as this or a copy of its file is open.
#[derive(Debug)]
pub(crate) struct Instance(File);

impl Instance {
    /// Claims `path`; `None` if another process has it.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn claim(path: &Path) -> io::Result<Option<Self>> {
        make_parent(path)?;
        let mut file = open(path)?;
        let mut looks = 0;
        while !try_lock(&file)? {
            if is_claimed(&file)? {
                return Ok(None);
            }
            // Somebody looks at it, for a moment.
            looks += 1;
            if looks == MOST_LOOKS {
                return Err(io::Error::other("a process keeps looking at it: fuser says which"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(Self(file)))
    }

    /// The number of the process that has claimed `path`.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub(crate) fn holder(path: &Path) -> io::Result<Option<u32>> {
        // It may be another user's: a pipe must not keep us waiting, nor a device fill our memory.
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let file = match File::options().read(true).custom_flags(nonblocking).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if !is_claimed(&file)? {
            return Ok(None);
        }
        let mut text = String::new();
        file.take(MAX_NUMBER).read_to_string(&mut text)?;
        let number = text.trim().parse();
        number.map(Some).map_err(|_| io::Error::other("its process does not say its number"))
    }

    /// Another handle of the claim, for a process that shares it.
    ///
    /// # Errors
    /// When there are too many open files.
    pub(crate) fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

/// Locks the file for itself alone; false if another has it locked in any way.
fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether another has the file locked for itself alone, as a claim does. Those that look, as this does,
/// lock it with each other.
fn is_claimed(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes the directory of a file. Whatever the mask of this process, nobody else may write there.
fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => fs::DirBuilder::new().recursive(true).mode(0o755).create(dir),
        None => Ok(()),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Writes a file that is whole at any time. A new one is for its owner only; one that is there keeps its
/// owner and mode, as root may change what a server of another user reads.
///
/// # Errors
/// When it cannot be written, or is no file but a link to one.
pub(crate) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    make_parent(path)?;
    let old = match fs::symlink_metadata(path) {
        Ok(old) if !old.is_file() => {
            let message = "it is no file, but perhaps a link to one; name the file itself";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        old => old.ok(),
    };
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
    let kept = old.map_or(Ok(()), |old| keep(&file, &old));
    let written =
        kept.and_then(|()| file.write_all(text.as_bytes())).and_then(|()| file.sync_all());
    let moved = written.and_then(|()| fs::rename(&draft, path));
    if moved.is_err() {
        let _ = fs::remove_file(&draft);
    }
    moved
}

/// Gives a file the owner and the mode of another.
fn keep(file: &File, old: &fs::Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    // A unit may be kept from the call, also where nothing would change.
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o777))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn who_looks_at_a_claim_does_not_keep_others_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(Instance::holder(&path).unwrap(), None);
        drop(Instance::claim(&path).unwrap().unwrap());
        assert_eq!(Instance::holder(&path).unwrap(), None, "it is not claimed any more");
        let looking = File::open(&path).unwrap();
        looking.lock_shared().unwrap();
        let claiming = {
            let path = path.clone();
            std::thread::spawn(move || {
                loop {
                    match Instance::claim(&path) {
                        // This machine stood still for longer than a claim waits.
                        Err(error) if error.to_string().contains("keeps looking") => {}
                        claimed => return claimed,
                    }
                }
            })
        };
        drop(looking);
        let claim = claiming.join().unwrap().unwrap().unwrap();
        assert_eq!(Instance::holder(&path).unwrap(), Some(std::process::id()));
        assert!(Instance::claim(&path).unwrap().is_none());
        // One that looks on and on is an error and no wait without end.
        drop(claim);
        let looking = File::open(&path).unwrap();
        looking.lock_shared().unwrap();
        assert!(Instance::claim(&path).unwrap_err().to_string().contains("keeps looking"));
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_link_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        let mode = |file: &Path| fs::metadata(file).unwrap().mode() & 0o777;
        write_whole(&file, "one").unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        write_whole(&file, "two").unwrap();
        assert_eq!((mode(&file), &*fs::read_to_string(&file).unwrap()), (0o640, "two"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(write_whole(&link, "three").unwrap_err().to_string().contains("a link"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no draft is left");
    }
}
