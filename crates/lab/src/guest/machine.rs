//! The virtual machine: QEMU, which emulates it, and what it is given.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use weftline_scenario::RunRecord;

use super::Guests;
use super::archive::{self, Archive, LIBRARIES, PROGRAM};
use super::figures::Row;
use super::hearing::{Heard, Hearing, complaint, plain};
use super::inside::{GUEST_COMMAND, REQUEST};
use super::words::Request;
use crate::LabError;
use crate::child::{Program, StopFlag};
use crate::run::Plan;
use crate::sys::process;

const QEMU: &str = "qemu-system-x86_64";

/// How long a guest may come no further. It says how far it is five times in each of its seconds, and that
/// it boots takes less than a minute of a slow machine.
const SILENCE: Duration = Duration::from_secs(300);

/// Longest line of a guest: more than it may say besides its series, so that such a line is refused as that.
const LINE_MAX: u64 = 2 << 20;

/// QEMU's machine: one processor, emulated, of 10^9 instructions in each of its own seconds,
/// which skips all waiting. Nothing but what we give it.
const MACHINE: [&str; 17] = [
    "-accel",
    "tcg,thread=single",
    "-cpu",
    "max",
    "-icount",
    "shift=0,sleep=off",
    "-smp",
    "1",
    "-m",
    "1G",
    "-no-user-config",
    "-nodefaults",
    "-no-reboot",
    "-nic",
    "none",
    "-display",
    "none",
];

/// Where QEMU is.
///
/// # Errors
/// [`LabError::NotPossible`] if it is not installed.
pub(super) fn find_qemu() -> Result<PathBuf, LabError> {
    archive::find_program(QEMU).ok_or_else(|| {
        LabError::not_possible(
            format!("the program {QEMU} is not installed, which guests run in"),
            "install qemu-system-x86, or leave the linux-* schemes of guests out",
        )
    })
}

/// Boots a guest for a plan, and hears what it says of the run.
pub(super) fn run(
    guests: &Guests,
    plan: &Plan<'_>,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Duration),
) -> Result<(RunRecord, Vec<Row>), LabError> {
    let mut guest = Program::start_bounded("the guest", command(guests, plan)?, stop, LINE_MAX)?;
    let mut hearing = Hearing::new(plan);
    let mut deadline = Instant::now() + SILENCE;
    loop {
        let line = match guest.line(deadline) {
            Ok(Some(line)) => line,
            Ok(None) => {
                let silence = format!(
                    "it came no further for {} s (if the host has no time for it, run it with less beside)",
                    SILENCE.as_secs()
                );
                return Err(failure(&mut guest, &silence, Some(&remedy(guests, &hearing))));
            }
            Err(LabError::Failed(_)) => {
                let what = match guest.status() {
                    Some(status) => format!("it ended before it was through ({status})"),
                    None => "it closed its port and went on".to_owned(),
                };
                return Err(failure(&mut guest, &what, Some(&remedy(guests, &hearing))));
            }
            Err(error) => return Err(error),
        };
        match hearing.hear(&line) {
            Ok(Heard::At(elapsed)) => {
                progress(elapsed);
                deadline = Instant::now() + SILENCE;
            }
            Ok(Heard::Part) => deadline = Instant::now() + SILENCE,
            // What has been said already is still taken after the deadline; its bytes are counted.
            Ok(Heard::Nothing) => {}
            Ok(Heard::End(record, rows)) => {
                guest.stop()?;
                return match complaint(&guest.errors()) {
                    Some(_) => Err(failure(&mut guest, "its kernel complained", None)),
                    None => Ok((*record, rows)),
                };
            }
            Err(what) => return Err(failure(&mut guest, &what, None)),
        }
    }
}

/// What to do about a guest that has said nothing.
fn remedy(guests: &Guests, hearing: &Hearing<'_>) -> String {
    match hearing.has_heard() {
        true => String::new(),
        false => format!(
            "; if {} does not boot, 'kernel/build' makes one that does",
            guests.kernel.file.display()
        ),
    }
}

/// What went wrong, with what the guest's kernel complains of; of a guest that went mute, what it or QEMU
/// said last, and the remedy.
fn failure(guest: &mut Program, what: &str, mute: Option<&str>) -> LabError {
    // The rest of what they say is there when they have ended; nothing else depends on it.
    let _ = guest.stop();
    let console = guest.errors();
    let last = || console.lines().map(str::trim).rfind(|line| mute.is_some() && !line.is_empty());
    let words = complaint(&console)
        .or_else(last)
        .map_or(String::new(), |words| format!("; its console: {}", plain(words, 200)));
    LabError::Failed(format!("the guest: {what}{words}{}", mute.unwrap_or_default()))
}

/// QEMU's command line. The console is its standard error, so that its own complaints are with the
/// kernel's; the second port, on which the guest talks to us, is its standard output.
fn command(guests: &Guests, plan: &Plan<'_>) -> Result<Command, LabError> {
    let initial = initial_files(guests, &Request::of(plan))?;
    let mut command = Command::new(&guests.qemu);
    command.args(MACHINE);
    command.args(["-serial", "file:/dev/stderr", "-serial", "stdio"]);
    command.arg("-kernel").arg(&guests.kernel.file);
    command.arg("-initrd").arg(format!("/proc/self/fd/{}", initial.as_raw_fd()));
    // Warnings are level 4. A kernel that complains ends there, however much its console says after it.
    // The words after the dashes are for the first process, and what no part of the kernel knows is its
    // environment.
    command.arg("-append").arg(format!(
        "console=ttyS0 loglevel=5 panic=-1 panic_on_warn=1 oops=panic no_timer_check rdinit=/{PROGRAM} \
         LD_LIBRARY_PATH=/{LIBRARIES} -- {GUEST_COMMAND}"
    ));
    command.process_group(0);
    process::die_with_us(&mut command);
    process::hand_down(&mut command, initial);
    Ok(command)
}

/// The guest's first files, in memory: the programs and the request.
fn initial_files(guests: &Guests, request: &Request) -> Result<OwnedFd, LabError> {
    let text = serde_json::to_vec(request)
        .map_err(|error| LabError::Failed(format!("writing a request: {error}")))?;
    let mut archive = Archive::default();
    archive.file(REQUEST.trim_start_matches('/'), &text);
    let write = || -> std::io::Result<OwnedFd> {
        let mut file = File::from(rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC)?);
        file.write_all(&guests.programs)?;
        file.write_all(&archive.finish())?;
        Ok(file.into())
    };
    write().map_err(LabError::os("making the guest's files"))
}
