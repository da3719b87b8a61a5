//! Network namespaces that exist only as long as we do.
//!
//! A namespace here has no name in `/run/netns`: a helper thread makes it, and from then on only a
//! file descriptor (and the programs in it) holds it. When the last of them is gone, even by
//! `kill -9`, the kernel removes the namespace and every device in it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use weftline_core::ByteCount;

use crate::LabError;
use crate::sys::process;

/// Largest send buffer, and largest buffer that a program may ask for, in the lab, the same for every
/// scheme: the kernel's default of 4 MiB would limit one flow to about 1.1 Gb/s at 23 ms.
pub(crate) const SOCKET_BUFFER_MAX: u64 = 32 << 20;

/// The congestion control of sockets that choose none.
const DEFAULT_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Where a thread finds its own network namespace.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// An anonymous network namespace.
#[derive(Clone, Debug)]
pub struct Netns {
    fd: Arc<OwnedFd>,
}

impl Netns {
    /// A new namespace with nothing in it but a loopback device that is down.
    ///
    /// # Errors
    /// [`LabError::NotPossible`] without the right to make one (`CAP_SYS_ADMIN`).
    pub fn create() -> Result<Self, LabError> {
        let make = || {
            process::unshare_network()?;
            fs::File::open(OWN_NAMESPACE).map(OwnedFd::from)
        };
        let made = in_thread(make);
        made.map(|fd| Self { fd: Arc::new(fd) }).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => LabError::not_possible(
                "making a network namespace is not permitted",
                "run as root (sudo)",
            ),
            _ => LabError::Os { context: "making a network namespace".to_owned(), source: error },
        })
    }

    /// Runs `work` on a thread inside the namespace. Sockets it opens stay there.
    ///
    /// # Errors
    /// Those of `work`, or of entering.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        in_thread(|| {
            process::enter_network(self.fd.as_fd())?;
            work()
        })
    }

    /// A command whose child runs inside the namespace, leads its own process group and dies with
    /// the calling thread.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.foreground_command(program);
        command.process_group(0);
        command
    }

    /// Like [`Netns::command`], but in our own process group, which has the terminal.
    pub(crate) fn foreground_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        process::tie_to_us(&mut command, Arc::clone(&self.fd));
        command
    }

    /// Where other programs find the namespace, for `nsenter --net=…`, while we run.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Runs `ip ARGS` inside the namespace.
    pub(crate) fn ip(&self, args: &str) -> Result<String, LabError> {
        let output = self.command("ip").args(args.split(' ')).output().map_err(ip_missing)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(LabError::Failed(format!("ip {args}: {}", message.trim())))
    }

    /// Lets the kernel tune receive buffers up to `most`.
    pub(crate) fn set_receive_buffer(&self, most: ByteCount) -> Result<(), LabError> {
        let set = self.run(|| set_most("tcp_rmem", most.as_u64()));
        set.map_err(LabError::os("setting the receive buffers of a network namespace"))
    }

    /// Sets what every scheme finds: loopback up, large automatic socket buffers, `congestion` as
    /// the congestion control (a new namespace inherits the host's default), MPTCP on, nothing
    /// remembered from earlier connections.
    ///
    /// A kernel lets namespaces have only some congestion controls as default
    /// (`tcp_allowed_congestion_control`); with another one, programs must choose it themselves,
    /// as all those the lab runs do.
    ///
    /// # Errors
    /// [`LabError::NotPossible`] if the kernel has no congestion control of that name.
    pub(crate) fn configure(&self, congestion: &str) -> Result<(), LabError> {
        self.ip("link set lo up")?;
        self.run(set_sysctls).map_err(LabError::os("setting up a network namespace"))?;
        let pinned = self.run(|| fs::write(DEFAULT_CONGESTION, congestion));
        match pinned.map_err(|error| error.kind()) {
            Ok(()) => Ok(()),
            Err(io::ErrorKind::PermissionDenied) => {
                tracing::debug!(congestion, "not the default: programs must choose it");
                Ok(())
            }
            Err(_) => Err(LabError::not_possible(
                format!("this kernel has no congestion control '{congestion}'"),
                format!("load it with 'modprobe tcp_{congestion}', or choose another"),
            )),
        }
    }
}

fn ip_missing(error: io::Error) -> LabError {
    LabError::not_possible(format!("the program ip does not run ({error})"), "install iproute2")
}

/// Runs `work` on a thread of its own and waits for it.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let handle = std::thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, work);
        handle?.join().unwrap_or_else(|_| Err(io::Error::other("the helper thread panicked")))
    })
}

/// Sets the last of the three numbers of `tcp_rmem` or `tcp_wmem`, of the namespace of the thread.
fn set_most(buffer: &str, bytes: u64) -> io::Result<()> {
    let path = format!("/proc/sys/net/ipv4/{buffer}");
    let old = fs::read_to_string(&path)?;
    let mut words = old.split_whitespace();
    let (min, default) = (words.next().unwrap_or("4096"), words.next().unwrap_or("131072"));
    fs::write(&path, format!("{min} {default} {bytes}"))
}

/// Runs inside the namespace: `/proc/sys/net` shows the namespace of the thread that looks.
fn set_sysctls() -> io::Result<()> {
    for buffer in ["tcp_rmem", "tcp_wmem"] {
        set_most(buffer, SOCKET_BUFFER_MAX)?;
    }
    let settings = [
        ("net/ipv4/tcp_no_metrics_save", "1"),
        // Each path has its own prefix; a packet is never to be dropped for its way back.
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        // Nothing on the links that no program sent: it would draw from the loss stream.
        ("net/ipv6/conf/default/accept_dad", "0"),
        ("net/ipv6/conf/default/router_solicitations", "0"),
    ];
    for (name, value) in settings {
        fs::write(format!("/proc/sys/{name}"), value)?;
    }
    // Not in every kernel; where they are missing, or belong to the host alone, nothing depends
    // on them (kernel MPTCP is checked where it is used).
    for (name, value) in [
        ("net/mptcp/enabled", "1".to_owned()),
        ("net/core/rmem_max", SOCKET_BUFFER_MAX.to_string()),
        ("net/core/wmem_max", SOCKET_BUFFER_MAX.to_string()),
    ] {
        match fs::write(format!("/proc/sys/{name}"), value) {
            Ok(()) => {}
            Err(error) => tracing::debug!(name, %error, "left as it is"),
        }
    }
    Ok(())
}
