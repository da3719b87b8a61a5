//! Whether a daemon can make files in a directory that it is given.

use std::path::{Path, absolute};

use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;

use super::finding::{Check, Finding};

/// What is wrong with `dir`, which is made where it is not there, as far as this user can tell.
pub(super) fn look(what: &str, dir: &Path) -> Option<Finding> {
    let subject = format!("{what} {}", dir.display());
    let wrong = |check, found: String, remedy: &str| {
        Some(Finding::error(check, subject.clone(), found, remedy))
    };
    let whole = match absolute(dir) {
        Ok(whole) => whole,
        Err(error) => return wrong(Check::File, error.to_string(), "name a directory"),
    };
    let there = whole.ancestors().find(|part| part.symlink_metadata().is_ok())?;
    let name = there.display();
    if !there.is_dir() {
        return wrong(Check::File, format!("{name} is no directory"), "name another");
    }
    match access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => {}
        Err(Errno::ROFS) => {
            let found = format!("the file system of {name} is mounted read-only");
            let remedy = "mount it for writing, or name a directory elsewhere";
            return wrong(Check::Permission, found, remedy);
        }
        Err(error) => {
            let found = format!("this user cannot make files in {name}: {error}");
            let remedy = "run as the owner of that directory, or name another";
            return wrong(Check::Permission, found, remedy);
        }
    }
    let is_full = statvfs(there).is_ok_and(|space| space.f_blocks > 0 && space.f_bavail == 0);
    is_full
        .then(|| {
            wrong(Check::File, format!("the file system of {name} is full"), "free some space")
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_can_be_made_below_one_and_below_no_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(look("state directory", &dir.path().join("new/newer")), None);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let finding = look("qlog", &file.join("below")).unwrap();
        assert_eq!(finding.check, Check::File);
        assert!(finding.found.ends_with("file is no directory"), "{}", finding.found);
    }
}
