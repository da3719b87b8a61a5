//! Sysctls that are changed for a while: the journal says what they were, so that they are restored
//! even by another process after this one has been killed.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The most bytes of a journal, which it is kept below and no other is read: a line has some sixty.
const MAX_BYTES: u64 = 1 << 16;
/// Where sysctls are.
const SYSCTLS: &str = "/proc/sys";

/// Sysctls that this process has changed, each noted in a file before.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    /// The directory of all sysctls.
    sysctls: PathBuf,
}

impl Journal {
    /// A journal in `file`, which continues what is there.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), sysctls: SYSCTLS.into() }
    }

    /// Sets the sysctl `name`, such as `net/ipv4/conf/wlan0/rp_filter`, after what it was has been
    /// noted. One that has the value already is left alone. A name is noted once, however often its
    /// interface goes and comes again with what the system gives it; those of interfaces that are gone are
    /// noted no more.
    ///
    /// # Errors
    /// When there is no such sysctl, the journal or the sysctl cannot be read or written, or the journal
    /// has no room.
    pub fn set(&self, name: &str, value: &str) -> io::Result<()> {
        let path = sysctl(&self.sysctls, name)?;
        let now = fs::read_to_string(&path)?;
        let now = now.trim();
        if now == value {
            return Ok(());
        }
        let text = read(&self.file)?.unwrap_or_default();
        let of_name = |line: &&str| parts(line).is_some_and(|(noted, ..)| noted == name);
        let noted = text.lines().find(of_name).and_then(parts);
        // What we have set ourselves is not what it was.
        let old = noted.filter(|(_, _, set)| *set == now).map_or(now, |(_, old, _)| old);
        let is_there = |line: &&str| {
            let path = parts(line).map(|(name, ..)| sysctl(&self.sysctls, name));
            path.is_some_and(|path| path.is_ok_and(|path| path.exists()))
        };
        let others = text.lines().filter(|line| !of_name(line) && is_there(line));
        let others: String = others.map(|line| format!("{line}\n")).collect();
        self.write(&format!("{others}{name}\t{old}\t{value}\n"))?;
        fs::write(path, value)
    }

    /// Notes that the sysctl `name` has the `value` by us and was `old`: one that was set under another name of
    /// its interface. One that has another value by now is somebody else's.
    ///
    /// # Errors
    /// As with [`set`](Self::set).
    pub(crate) fn note(&self, name: &str, old: &str, value: &str) -> io::Result<()> {
        if fs::read_to_string(sysctl(&self.sysctls, name)?)?.trim() != value {
            return Ok(());
        }
        let text = read(&self.file)?.unwrap_or_default();
        let of_name = |line: &&str| parts(line).is_some_and(|(noted, ..)| noted == name);
        let others = text.lines().filter(|line| !of_name(line));
        let others: String = others.map(|line| format!("{line}\n")).collect();
        self.write(&format!("{others}{name}\t{old}\t{value}\n"))
    }

    /// Writes the journal so that it is whole at any time.
    fn write(&self, text: &str) -> io::Result<()> {
        if text.len() as u64 > MAX_BYTES {
            let message = format!("{}: there is no room for another sysctl", self.file.display());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let mut draft = self.file.as_os_str().to_owned();
        draft.push(".new");
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft);
        file?.write_all(text.as_bytes())?;
        fs::rename(draft, &self.file)
    }

    /// Restores what the journal in `file` says, and removes it. A sysctl that is gone, or that
    /// somebody has set to something else since, is left alone.
    ///
    /// # Errors
    /// When a file cannot be read or written; the rest has been restored then.
    pub fn undo(file: &Path) -> io::Result<()> {
        let Some(text) = read(file)? else { return Ok(()) };
        let mut result = Ok(());
        for (name, old, set) in text.lines().rev().filter_map(parts) {
            result = result.and(restore(name, old, set));
        }
        result.and_then(|()| fs::remove_file(file))
    }
}

/// What is in a journal, if there is one.
fn read(file: &Path) -> io::Result<Option<String>> {
    let length = match fs::metadata(file) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > MAX_BYTES {
        let message = format!("{}: no journal of sysctls; remove it", file.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    fs::read_to_string(file).map(Some)
}

/// A line's sysctl, what it was, and what it has been set to.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let mut parts = line.split('\t');
    Some((parts.next()?, parts.next()?, parts.next()?))
}

fn restore(name: &str, old: &str, set: &str) -> io::Result<()> {
    const ALL: &str = "net/ipv4/conf/all/forwarding";
    let path = sysctl(Path::new(SYSCTLS), name)?;
    let is_of_link = name.starts_with("net/ipv4/conf/") && name.ends_with("/forwarding");
    if is_of_link && name != ALL {
        // Somebody has made this machine a router since, which says so for all links.
        let all = fs::read_to_string(sysctl(Path::new(SYSCTLS), ALL)?);
        if all.is_ok_and(|all| all.trim() == "1") {
            return Ok(());
        }
    }
    match fs::read_to_string(&path) {
        Ok(now) if now.trim() == set => fs::write(path, old),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The file of a sysctl of the network. An interface may have any name, but no way out of there.
fn sysctl(all: &Path, name: &str) -> io::Result<PathBuf> {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    if name.starts_with("net/") && name.split('/').all(is_part) {
        // That of the network namespace of the thread, where a thread may have its own.
        return Ok(all.join(name));
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("'{name}' is no sysctl of the network"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_is_not_there_or_is_damaged_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("up.journal");
        Journal::undo(&file).unwrap();
        fs::write(&file, "half a li").unwrap();
        Journal::undo(&file).unwrap();
        assert!(!file.exists());
        fs::write(&file, "net/../../etc/passwd\t1\t2\n").unwrap();
        assert!(Journal::undo(&file).is_err());
        fs::write(&file, "x".repeat(1 << 17)).unwrap();
        assert!(Journal::undo(&file).is_err());
    }

    #[test]
    fn interfaces_that_come_and_go_do_not_fill_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("up.journal");
        let journal = Journal { file: file.clone(), sysctls: dir.path().to_owned() };
        let name = |interface: &str| format!("net/ipv4/conf/{interface}/rp_filter");
        let appear = |interface: &str| {
            let path = dir.path().join(name(interface));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "1\n").unwrap();
            journal.set(&name(interface), "2")
        };
        appear("wlan0").unwrap();
        // As those of a telephone, which has another name each time.
        for number in 0..2000 {
            let modem = format!("enx{number:012x}");
            appear(&modem).unwrap();
            fs::remove_dir_all(dir.path().join("net/ipv4/conf").join(&modem)).unwrap();
        }
        let noted = fs::read_to_string(&file).unwrap();
        assert_eq!(noted.lines().count(), 2, "{noted}");
        assert!(noted.starts_with(&format!("{}\t1\t2\n", name("wlan0"))), "{noted}");
        // Very many at once find no room, and are left as they are; the journal is good.
        let refused = (0..).find_map(|number| appear(&format!("{number:0200}")).err()).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
        assert!(fs::metadata(&file).unwrap().len() <= MAX_BYTES);
        assert!(read(&file).unwrap().unwrap().contains("007/"));
    }

    #[test]
    fn only_what_is_still_as_we_set_it_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("up.journal");
        let name = "net/ipv4/conf/lo/rp_filter";
        let now = fs::read_to_string(sysctl(Path::new(SYSCTLS), name).unwrap()).unwrap();
        // It has another value than the journal's: nobody writes.
        fs::write(&file, format!("{name}\t7\t9\nnet/ipv4/conf/gone0/rp_filter\t0\t2\n")).unwrap();
        Journal::undo(&file).unwrap();
        assert_eq!(fs::read_to_string(sysctl(Path::new(SYSCTLS), name).unwrap()).unwrap(), now);
        Journal::at(&file).set(name, now.trim()).unwrap();
        assert!(!file.exists(), "nothing was changed");
    }
}
