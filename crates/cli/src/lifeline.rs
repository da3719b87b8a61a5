//! The janitor: a process of its own that waits for the end of `weftline up`, or of a server that
//! carries whole machines, whatever ends it, and undoes in the machine's network what does not go with
//! the process.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use weftline_net::{Journal, remove_leftovers};

use crate::failure::Failure;
use crate::instance::Instance;

/// The hidden command that is the janitor.
pub(crate) const COMMAND: &str = "up-janitor";

/// What would end a process: a service manager that stops all processes of a service, or ends them as
/// its watchdog has heard nothing (SIGABRT), means the other one, of which the janitor hears otherwise.
const MEANT_FOR_OTHERS: [i32; 10] =
    [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGABRT, SIGALRM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU];

/// What does not go with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Of `up`.
    RulesAndSysctls,
    /// Of a server.
    Sysctls,
}

/// An end of a pipe that is open as long as this process lives.
#[derive(Debug)]
pub(crate) struct Lifeline(
    #[expect(dead_code, reason = "it is closed when it is dropped")] OwnedFd,
);

/// Starts it. It shares the claim of this machine, so that no successor begins before it is done.
///
/// # Errors
/// When the program cannot be started once more.
pub(crate) fn start(instance: &Instance, journal: &Path, left: Left) -> Result<Lifeline, Failure> {
    let start = || {
        // This very program, also when its file has been replaced.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("weftline").arg(COMMAND).arg(journal);
        if left == Left::Sysctls {
            command.arg("--sysctls");
        }
        // Of a group of its own: what a terminal sends is not for it.
        command.stdin(Stdio::piped()).stdout(instance.share()?).process_group(0);
        command.spawn()
    };
    let child = start()
        .map_err(|error| Failure::failed(format!("cannot start the janitor process: {error}")))?;
    let pipe = child.stdin.ok_or_else(|| Failure::failed("the janitor has no pipe"))?;
    Ok(Lifeline(OwnedFd::from(pipe)))
}

/// Waits until the other end of standard input is closed, and undoes what is left.
pub(crate) fn run(journal: &Path, left: Left) -> Result<(), Failure> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in MEANT_FOR_OTHERS {
        signal_hook::flag::register(signal, Arc::clone(&ignored))?;
    }
    let mut rest = [0; 64];
    let mut from = io::stdin().lock();
    loop {
        match from.read(&mut rest) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let rules = match left {
        Left::RulesAndSysctls => remove_leftovers().map(drop),
        Left::Sysctls => Ok(()),
    };
    let sysctls = Journal::undo(journal);
    rules.and(sysctls).map_err(|error| {
        Failure::failed(format!("cannot restore this machine's network: {error}; reboot it"))
    })
}
