//! Namespaces, scheduling class, and children that cannot outlive us.
#![expect(
    unsafe_code,
    reason = "unshare, pre_exec, sched_setscheduler and wait4 have no safe form"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// Moves the calling thread into a new, empty network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: only the file-descriptor table (CLONE_FILES) could invalidate other code's
    // descriptors; a network namespace cannot.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.map_err(Into::into)
}

/// Moves the calling thread into the network namespace `ns`.
pub(crate) fn enter_network(ns: BorrowedFd<'_>) -> io::Result<()> {
    rustix::thread::move_into_link_name_space(ns, Some(LinkNameSpaceType::Network))
        .map_err(Into::into)
}

/// Gives the calling thread `SCHED_FIFO` at `priority`; children and new threads do not inherit it.
pub(crate) fn set_fifo(priority: i32) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` lives across the call; 0 means the calling thread.
    let answer = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the child of `command` run in the network namespace `ns` and be killed when the thread
/// that spawns it ends.
///
/// The spawning thread must outlive the child: the kernel's parent-death signal watches the
/// thread, not the process.
pub(crate) fn tie_to_us(command: &mut Command, ns: Arc<OwnedFd>) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        // SAFETY: setns is async-signal-safe; the closure keeps the descriptor open.
        if unsafe { libc::setns(ns.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        die_with(parent)
    };
    // SAFETY: between fork and exec the closure makes only system calls: no allocation, no lock.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the child of `command` be killed when the thread that spawns it ends, which must outlive it.
pub(crate) fn die_with_us(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec the closure makes only system calls: no allocation, no lock.
    unsafe { command.pre_exec(move || die_with(parent)) };
}

/// Makes the child of `command` keep `file`, under the number that it has here.
pub(crate) fn hand_down(command: &mut Command, file: OwnedFd) {
    let keep = move || {
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec the closure makes only a system call: no allocation, no lock.
    unsafe { command.pre_exec(keep) };
}

/// Asks the kernel to kill this process when its parent dies, and sees that it has not yet.
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died between the fork and the line above.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

/// Replaces this process by `command`, run as root of a new user namespace in which our user is
/// mapped to 0. Returns only if that fails; the kernel wants a process of one thread.
pub(crate) fn exec_in_user_namespace(mut command: Command) -> io::Error {
    let uid_map = format!("0 {} 1", rustix::process::geteuid().as_raw());
    let gid_map = format!("0 {} 1", rustix::process::getegid().as_raw());
    let prepare = move || {
        // SAFETY: a user namespace changes none of our descriptors.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?;
        write_file(c"/proc/self/setgroups", b"deny")?;
        write_file(c"/proc/self/uid_map", uid_map.as_bytes())?;
        write_file(c"/proc/self/gid_map", gid_map.as_bytes())
    };
    // SAFETY: the closure makes only system calls.
    unsafe { command.pre_exec(prepare) };
    command.exec()
}

fn write_file(path: &std::ffi::CStr, content: &[u8]) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content)?;
    Ok(())
}

/// What an ended child used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Processor time, user and system, of the child and the children it waited for.
    pub(crate) cpu: Duration,
    /// Largest resident set of any one of these processes, in bytes.
    pub(crate) peak_memory: u64,
}

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The status as `waitpid` gives it.
    pub(crate) status: std::process::ExitStatus,
    /// What it used.
    pub(crate) usage: Usage,
}

/// Reaps `pid` if it has ended; waits for that when `block` is set.
pub(crate) fn reap(pid: Pid, block: bool) -> io::Result<Option<Ended>> {
    use std::os::unix::process::ExitStatusExt as _;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let flags = if block { 0 } else { libc::WNOHANG };
    let answer = loop {
        // SAFETY: both pointers are to live, writable values of the right type.
        let answer = unsafe {
            libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, flags, usage.as_mut_ptr())
        };
        if answer >= 0 {
            break answer;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    if answer == 0 {
        return Ok(None);
    }
    // SAFETY: `rusage` is plain integers, zeroed above and filled by the kernel.
    let usage = unsafe { usage.assume_init() };
    let time = |t: libc::timeval| {
        Duration::from_micros(t.tv_sec.cast_unsigned() * 1_000_000 + t.tv_usec.cast_unsigned())
    };
    Ok(Some(Ended {
        status: std::process::ExitStatus::from_raw(status),
        usage: Usage {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            peak_memory: usage.ru_maxrss.cast_unsigned() * 1024,
        },
    }))
}

/// Processor time of the calling thread so far.
pub(crate) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned() as u32)
}
