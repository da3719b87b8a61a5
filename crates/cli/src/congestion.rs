//! `weftline congestion`: congestion controls in the running kernel, for any program on the machine.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use clap::Subcommand;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use weftline_bpf::{CONTROLS, Control, Groups, Loaded};

use crate::failure::Failure;
use crate::ops::systemd;
use crate::output;

/// Where the congestion control of new sockets is said that ask for none.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The name of the automatic choice, which is nothing to load.
pub(crate) const AUTO: &str = "auto";

/// What can be done with controls.
#[derive(Debug, Subcommand)]
pub(crate) enum CongestionCommand {
    /// Load controls into the kernel and hold them there until a signal comes or they are unloaded
    Load {
        /// Which: compound, lia, olia, balia
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// List the controls, their names in the kernel and whether they are loaded
    List,
    /// Take controls out of the kernel, whoever has loaded them; connections keep theirs
    Unload {
        /// Which [default: all that are loaded]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Does what was asked.
pub(crate) fn run(command: CongestionCommand) -> Result<(), Failure> {
    match command {
        CongestionCommand::Load { names } => load(&controls(&names)?),
        CongestionCommand::List => list(),
        CongestionCommand::Unload { names } => unload(&names),
    }
}

/// Makes sure that this process's sockets can ask for the congestion control `name` to its end, and
/// from now on tells coupled ones which of them are one connection: the kernel's name of it.
pub(crate) fn provide(name: &str) -> Result<String, Failure> {
    if name == AUTO {
        return Ok(name.to_owned());
    }
    let (kernel_name, loaded) = Control::provide(name)?;
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).extend(loaded);
    couple();
    Ok(kernel_name)
}

/// What this process holds in the kernel. From Linux 6.4 on it goes with the process, however that
/// ends; before, only when it is dropped.
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

/// Takes out of the kernel what [`provide`] has loaded.
pub(crate) fn release() {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// From now on coupled controls of the kernel are told which sockets are one connection.
pub(crate) fn couple() {
    let groups = Groups::default();
    weftline::set_coupler(move |socket, connection| {
        if let Err(error) = groups.join(socket, connection) {
            tracing::warn!("a subflow is not coupled to the others: {error}");
        }
    });
}

/// The controls of those names, each once.
fn controls(names: &[String]) -> Result<Vec<Control>, Failure> {
    let mut controls: Vec<Control> = Vec::new();
    for name in names {
        let unknown = || weftline_bpf::BpfError::Unknown { name: name.clone() };
        let control = Control::find(name).ok_or_else(unknown)?;
        if !controls.contains(&control) {
            controls.push(control);
        }
    }
    Ok(controls)
}

fn load(controls: &[Control]) -> Result<(), Failure> {
    // Before anything is loaded, so that no signal leaves it half done.
    let (signalled, signal) = UnixStream::pair()?;
    for number in [SIGINT, SIGTERM] {
        pipe::register(number, signal.try_clone()?)?;
    }
    {
        let loaded = Loaded::load(controls)?;
        for control in loaded.controls() {
            output::print(&format!("{} is loaded\n", control.kernel_name))?;
        }
        systemd::ready("the controls are loaded");
        if hold(&loaded, &signalled)? == End::Unloaded {
            output::remark("all controls have been unloaded");
        }
    }
    warn_of_default(controls);
    Ok(())
}

/// Why controls are held no longer.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Signal,
    Unloaded,
}

/// Waits for a signal, or until others have taken all controls out where the kernel can tell.
fn hold(loaded: &Loaded, signalled: &UnixStream) -> Result<End, Failure> {
    let links: Vec<BorrowedFd<'_>> = loaded.links().collect();
    let mut gone = vec![false; links.len()];
    while gone.contains(&false) {
        let held = links.iter().zip(&gone).filter(|(_, gone)| !**gone).map(|(link, _)| link);
        let mut polled = vec![PollFd::new(signalled, PollFlags::IN)];
        polled.extend(held.map(|link| PollFd::new(link, PollFlags::empty())));
        match poll(&mut polled, None) {
            Ok(_) => {}
            // The signal comes through the pipe as well.
            Err(Errno::INTR) => continue,
            Err(error) => return Err(io::Error::from(error).into()),
        }
        if !polled[0].revents().is_empty() {
            return Ok(End::Signal);
        }
        let hung: Vec<bool> =
            polled[1..].iter().map(|fd| fd.revents().contains(PollFlags::HUP)).collect();
        for (gone, hung) in gone.iter_mut().filter(|gone| !**gone).zip(hung) {
            *gone = hung;
        }
    }
    Ok(End::Unloaded)
}

fn list() -> Result<(), Failure> {
    let state = |control: &Control| match (control.is_loaded(), control.holder()) {
        (false, _) => "not loaded".to_owned(),
        (true, None) => "loaded".to_owned(),
        (true, Some(pid)) => format!("loaded by process {pid}"),
    };
    let rows: Vec<(&str, String)> = CONTROLS
        .iter()
        .map(|one| (one.kernel_name, format!("{}; {}", state(one), one.about)))
        .collect();
    output::print(&output::columns(rows.iter().map(|(name, text)| (*name, text.as_str()))))
}

fn unload(names: &[String]) -> Result<(), Failure> {
    let controls = match names.is_empty() {
        true => CONTROLS.iter().copied().filter(|control| control.is_loaded()).collect(),
        false => controls(names)?,
    };
    for control in &controls {
        weftline_bpf::unload(*control)?;
        output::print(&format!("{} is unloaded\n", control.kernel_name))?;
    }
    warn_of_default(&controls);
    Ok(())
}

/// The kernel goes on giving sockets a default that has been unloaded until it is set otherwise.
fn warn_of_default(controls: &[Control]) {
    let default = std::fs::read_to_string(DEFAULT).unwrap_or_default();
    if let Some(control) = controls.iter().find(|one| one.kernel_name == default.trim()) {
        output::warn(format_args!(
            "{} is still the default of new sockets; set another: sysctl -w \
             net.ipv4.tcp_congestion_control=cubic",
            control.kernel_name
        ));
    }
}
