//! What a guest's file system begins with: an archive in the format `newc` of cpio, which the kernel
//! unpacks (its Documentation/driver-api/early-userspace/buffer-format.rst). Several may follow each
//! other.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf;
use crate::LabError;

/// Where the guest has this program.
pub(super) const PROGRAM: &str = "bin/weftline";

/// Where it has all libraries: those of the host may be found by its cache, a variable of its environment
/// or the place of a program, of which the guest has none.
pub(super) const LIBRARIES: &str = "lib";

/// Kind and permissions of directories and of programs.
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// Where programs are that a user's search path may not have.
const SYSTEM: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];

/// An archive that is being written.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    /// What is in it.
    names: BTreeSet<String>,
}

impl Archive {
    /// Adds a file, and the directories that lead to it. The name has no slash at its beginning. What is
    /// there already stays.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        for (slash, _) in name.match_indices('/') {
            self.entry(&name[..slash], DIRECTORY, &[]);
        }
        self.entry(name, FILE, content);
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        if self.names.insert(name.to_owned()) {
            let number = self.names.len() as u32;
            self.write(name, number, mode, content);
        }
    }

    fn write(&mut self, name: &str, number: u32, mode: u32, content: &[u8]) {
        let length = u32::try_from(content.len()).expect("no program has 4 GB");
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let named = name.len() as u32 + 1;
        // Number, mode, user, group, links, time, length, devices (of the file: 2, of a node: 2), length of
        // the name, checksum.
        let fields = [number, mode, 0, 0, links, 0, length, 0, 0, 0, 0, named, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The whole of it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.write("TRAILER!!!", 0, 0, &[]);
        self.bytes
    }
}

/// The archive with this program, those that it calls, and all their libraries.
///
/// # Errors
/// [`LabError::NotPossible`] if one is not installed or not for this kind of processor.
pub(super) fn of_programs(program: &Path) -> Result<Vec<u8>, LabError> {
    let mut archive = Archive::default();
    add_program(&mut archive, PROGRAM, program)?;
    let ip = find_program("ip").ok_or_else(|| {
        LabError::not_possible("the program ip is not installed", "install iproute2")
    })?;
    add_program(&mut archive, "bin/ip", &ip)?;
    Ok(archive.finish())
}

/// Where a program of that name is.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn add_program(archive: &mut Archive, name: &str, program: &Path) -> Result<(), LabError> {
    let bytes = read(program)?;
    let elf = elf::parse(&bytes).ok_or_else(|| not_ours(program))?;
    archive.file(name, elf.loaded);
    let Some(interpreter) = elf.interpreter else { return Ok(()) };
    // The loader itself says what it would load, and runs nothing.
    let output = Command::new(interpreter).arg("--list").arg(program).output();
    let output = output.map_err(LabError::os(format!("running {interpreter}")))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let libraries = libraries(&said).map_err(|library| {
        LabError::not_possible(
            format!("{}: its library {library} is not there", program.display()),
            "install it anew",
        )
    })?;
    for (name, library) in libraries.into_iter().chain([(interpreter, interpreter)]) {
        let bytes = read(Path::new(library))?;
        let elf = elf::parse(&bytes).ok_or_else(|| not_ours(Path::new(library)))?;
        archive.file(&place(name), elf.loaded);
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<u8>, LabError> {
    std::fs::read(file).map_err(LabError::os(format!("reading {}", file.display())))
}

fn not_ours(file: &Path) -> LabError {
    let file = file.file_name().unwrap_or(OsStr::new("it")).to_string_lossy();
    LabError::not_possible(
        format!("{file} is no program for x86-64, as the guest's processor is"),
        "run the lab on such a machine, or leave the linux-* schemes of guests out",
    )
}

/// Where the guest has a library of that name: a name with slashes is a place.
fn place(name: &str) -> String {
    match name.strip_prefix('/') {
        Some(place) => place.to_owned(),
        None => format!("{LIBRARIES}/{name}"),
    }
}

/// The names and files in a loader's list; the name of one that it does not find.
fn libraries(list: &str) -> Result<Vec<(&str, &str)>, &str> {
    let mut files = Vec::new();
    for line in list.lines().map(str::trim) {
        let (name, file) = line.split_once(" => ").unwrap_or((line, line));
        if file.starts_with("not found") {
            return Err(name);
        }
        // What the kernel provides itself has no file.
        let file = file.split(" (0x").next().filter(|file| file.starts_with('/'));
        files.extend(file.map(|file| (name.split(" (0x").next().unwrap_or(name), file)));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaders_list_is_read() {
        let list = "\tlinux-vdso.so.1 (0x00007fcce0275000)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fccdfee8000)\n\
                    \tlibz.so.1 => /opt/own/lib/libz.so.1.3 (0x00007fccdfee8000)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007fcce0277000)\n";
        let loader = "/lib64/ld-linux-x86-64.so.2";
        let files = [
            ("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
            ("libz.so.1", "/opt/own/lib/libz.so.1.3"),
            (loader, loader),
        ];
        assert_eq!(libraries(list), Ok(files.to_vec()));
        // Wherever the host has them, the guest's loader finds them.
        assert_eq!(
            files.map(|(name, _)| place(name)),
            ["lib/libc.so.6", "lib/libz.so.1", &loader[1..]]
        );
        assert_eq!(libraries("\tlibbpf.so.1 => not found\n"), Err("libbpf.so.1"));
        assert_eq!(libraries(""), Ok(Vec::new()));
    }

    #[test]
    fn an_archive_has_each_directory_once_before_its_files() {
        let mut archive = Archive::default();
        archive.file("bin/ip", b"#!ip");
        archive.file("bin/tc", b"#!t");
        archive.file("bin/ip", b"another");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).unwrap();
        let entries: Vec<&str> = text.split("070701").skip(1).collect();
        let names: Vec<&str> =
            entries.iter().map(|entry| entry[104..].split('\0').next().unwrap()).collect();
        assert_eq!(names, ["bin", "bin/ip", "bin/tc", "TRAILER!!!"]);
        // 13 fields of eight digits; mode and length of the file.
        assert_eq!((&entries[1][8..16], &entries[1][48..56]), ("000081ed", "00000004"));
        assert_eq!(&entries[0][8..16], "000041ed");
        assert!(entries[1].ends_with("#!ip") && entries[2].ends_with("#!t\0"));
    }

    /// The system's own reader of this format takes it, where there is one.
    #[test]
    fn cpio_reads_it() {
        let Some(cpio) = find_program("cpio") else {
            eprintln!("skipped: cpio is not installed");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::default();
        archive.file("lib/deep/one", b"first");
        archive.file("two", b"second");
        let file = dir.path().join("archive");
        std::fs::write(&file, archive.finish()).unwrap();
        let mut command = Command::new(cpio);
        command.arg("-i").arg("--quiet").current_dir(dir.path());
        let status = command.stdin(std::fs::File::open(&file).unwrap()).status().unwrap();
        assert!(status.success());
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("lib/deep/one"), read("two")), ("first".to_owned(), "second".to_owned()));
    }
}
