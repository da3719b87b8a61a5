//! What the tests share: the right to load programs, and turns.

#![allow(dead_code, reason = "each test program uses a part")]

use std::fs::File;

use weftline_bpf::BpfError;

/// One test on the machine at a time: the kernel has one list of congestion controls.
pub(crate) fn alone() -> File {
    let path = std::env::temp_dir().join("weftline-congestion.lock");
    let file = File::options().create(true).append(true).open(path).unwrap();
    file.lock().unwrap();
    file
}

/// The result; `None`, after saying how to run the test, where programs cannot be loaded. In CI
/// they must be.
pub(crate) fn possible<T>(result: Result<T, BpfError>) -> Option<T> {
    match result {
        Ok(result) => Some(result),
        Err(error) if error.exit_code() == 3 && std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {error}; run 'sudo -E cargo test -p weftline-bpf --features bpf'");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether this kernel is of that release or a later one.
pub(crate) fn since(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (major, minor)
}
