//! The files of a package that players ask for, and nothing else: names are looked up one by one from the directory that was
//! opened at the start, and none of them may be a symbolic link, so that no path leads out of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

/// The one file beside the folders.
const MANIFEST: &[u8] = b"manifest.mpd";
/// What players get is in these, and is called so.
const FOLDERS: [&[u8]; 3] = [b"tiles", b"whole", b"sound"];
const ENDINGS: [&[u8]; 2] = [b".mp4", b".m4s"];
/// How deep a file may be.
const MAX_DEPTH: usize = 16;

/// A directory that is served.
pub(super) struct Tree {
    root: OwnedFd,
}

/// Why there is no answer with a file.
#[derive(Debug)]
pub(super) enum NotServed {
    /// It is not there, or no plain file, or hidden, or outside, or nothing that players get.
    Absent,
    /// The system does not give it.
    Failed(io::Error),
}

impl Tree {
    /// The directory may itself be a link.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: open(dir, flags, Mode::empty())? })
    }

    /// The file of a request's path, and its length.
    pub(super) fn file(&self, path: &str) -> Result<(File, u64), NotServed> {
        let names = names(path).ok_or(NotServed::Absent)?;
        let (name, folders) = names.split_last().ok_or(NotServed::Absent)?;
        let mut at = None;
        for folder in folders {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = openat(at.as_ref().unwrap_or(&self.root), folder, flags, Mode::empty());
            at = Some(next.map_err(why)?);
        }
        // Whoever waits for the other end of a pipe waits for ever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let at = at.as_ref().unwrap_or(&self.root).as_fd();
        let file = File::from(openat(at, name, flags, Mode::empty()).map_err(why)?);
        let about = file.metadata().map_err(NotServed::Failed)?;
        match about.is_file() {
            true => Ok((file, about.len())),
            false => Err(NotServed::Absent),
        }
    }
}

fn why(error: Errno) -> NotServed {
    match error {
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::LOOP
        | Errno::NAMETOOLONG
        | Errno::INVAL
        | Errno::NXIO => NotServed::Absent,
        _ => NotServed::Failed(error.into()),
    }
}

/// The names in a path; `None` if it has one that no file here can have.
fn names(path: &str) -> Option<Vec<Vec<u8>>> {
    let names: Vec<Vec<u8>> = path
        .strip_prefix('/')?
        .split('/')
        .take(MAX_DEPTH + 1)
        .map(|name| decoded(name).filter(|name| is_served(name)))
        .collect::<Option<_>>()?;
    (names.len() <= MAX_DEPTH && is_for_players(&names)).then_some(names)
}

/// Whether it is a file that a manifest may name, or the manifest.
fn is_for_players(names: &[Vec<u8>]) -> bool {
    match names {
        [name] => name == MANIFEST,
        [folder, .., name] => {
            FOLDERS.contains(&&folder[..]) && ENDINGS.iter().any(|end| name.ends_with(end))
        }
        [] => false,
    }
}

/// Neither hidden nor a way up, nor more than one name.
fn is_served(name: &[u8]) -> bool {
    !name.is_empty() && !name.starts_with(b".") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// A name without its percent encoding (RFC 3986, 2.1), which is undone once.
fn decoded(name: &str) -> Option<Vec<u8>> {
    let mut bytes = name.bytes();
    let mut decoded = Vec::with_capacity(name.len());
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        decoded.push(match byte {
            b'%' => (digit()? * 16 + digit()?) as u8,
            byte => byte,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_below_are_found_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("tiles/deep")).unwrap();
        fs::create_dir(root.join("tiles/.work-1")).unwrap();
        for (name, text) in
            [("manifest.mpd", "a"), ("tiles/deep/b c.m4s", "bc"), ("tiles/.work-1/c.m4s", "hidden")]
        {
            fs::write(root.join(name), text).unwrap();
        }
        for name in ["secret", "secret.mp4"] {
            fs::write(dir.path().join(name), "secret").unwrap();
        }
        symlink(dir.path().join("secret"), root.join("tiles/out.mp4")).unwrap();
        symlink(dir.path(), root.join("tiles/up")).unwrap();
        symlink("../manifest.mpd", root.join("tiles/within.mp4")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("tiles/pipe.mp4"), Mode::RUSR | Mode::WUSR)
            .unwrap();

        let tree = Tree::open(&root).unwrap();
        let length = |path: &str| tree.file(path).map(|(_, length)| length);
        assert_eq!(length("/manifest.mpd").unwrap(), 1);
        assert_eq!(length("/tiles/deep/b%20c.m4s").unwrap(), 2);
        assert_eq!(length("/%6danifest.mpd").unwrap(), 1);
        for path in [
            "",
            "manifest.mpd",
            "/",
            "//manifest.mpd",
            "/manifest.mpd/",
            "/tiles",
            "/tiles/",
            "/tiles/../manifest.mpd",
            "/../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "/tiles/%2E%2E/%2e%2e/secret",
            "/%252e%252e/secret",
            "/tiles/out.mp4",
            "/tiles/up/secret.mp4",
            "/tiles/within.mp4",
            "/tiles/pipe.mp4",
            "/tiles/.work-1/c.m4s",
            "/manifest.mpd%00",
            "/%00",
            "/manifest.mpd%",
            "/manifest.mpd%4",
            "/manifest%zz",
            "/..\\secret",
            "/none",
        ] {
            assert!(matches!(length(path), Err(NotServed::Absent)), "{path}: {:?}", length(path));
        }
        let long = format!("/tiles/{}.mp4", "a".repeat(5_000));
        let deep = format!("/tiles{}/a.mp4", "/a".repeat(MAX_DEPTH - 1));
        for path in [long, deep] {
            assert!(matches!(length(&path), Err(NotServed::Absent)));
        }
        // The directory is the one that was opened, whatever its name leads to now.
        fs::rename(&root, dir.path().join("moved")).unwrap();
        symlink(dir.path(), &root).unwrap();
        assert_eq!(length("/manifest.mpd").unwrap(), 1);
        assert!(length("/secret").is_err());
    }
}
