//! `weftline portal`: a link is open to a user's browser for five minutes, so that a network that wants a
//! login can show it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weftline_net::{KillSwitch, Portal};

use super::lanes::Packets;
use super::{Files, check_rights, resolved};
use crate::failure::Failure;
use crate::instance::Instance;
use crate::ops::control::{self, Control};
use crate::ops::{Life, PortalRequest};
use crate::{output, status};

/// How long a link is open, as long as the kill switch has it.
const OPEN_FOR: Duration = Duration::from_secs(300);
/// The longest name of an interface (IFNAMSIZ less one).
const LONGEST_NAME: usize = 15;

/// Options of `portal`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PortalArgs {
    /// The link, such as wlan0
    link: String,
    /// Close it again
    #[arg(long)]
    end: bool,
    /// The number of the user whose browser it is for [default: who has called sudo]
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// The control socket of the `up` that runs [default: found in the usual places]
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    control: Option<Control>,
}

/// Opens a link, or closes it.
///
/// # Errors
/// When nothing captures or blocks connections here, or the link has no way out.
pub(crate) fn run(args: &PortalArgs) -> Result<(), Failure> {
    check_rights("weftline portal")?;
    if args.link.is_empty() || args.link.len() > LONGEST_NAME {
        let link = &args.link;
        return Err(Failure::wrong_use(format!("'{link}' is no name of a link; write wlan0")));
    }
    let by_sudo = || std::env::var("SUDO_UID").ok()?.parse().ok();
    let user = args.user.or_else(by_sudo).ok_or_else(|| {
        Failure::wrong_use("nobody knows whose browser it is; say so with --user 1000 (id -u)")
    })?;
    let request = PortalRequest { link: args.link.clone(), user, end: args.end };
    let files = Files::find()?;
    match (Instance::holder(&files.lock).ok().flatten(), KillSwitch::is_closed()?) {
        (Some(holder), _) => status::ask_portal(&socket(args, holder)?, &request)?,
        (None, true) => {
            if !apply(&request)? && request.end {
                return Err(Failure::failed(not_open(&args.link)));
            }
        }
        (None, false) => {
            return Err(Failure::wrong_use(
                "this machine is not up, and its kill switch is open: a browser reaches the link",
            ));
        }
    }
    output::print(&match args.end {
        true => format!("portal: {} is closed\n", args.link),
        false => format!(
            "portal: {} is open to the browser of user {user} for {} minutes; 'weftline portal {} \
             --end' ends that\n",
            args.link,
            OPEN_FOR.as_secs() / 60,
            args.link
        ),
    })
}

/// Where the `up` of this network is asked: others may have theirs in the same directory.
fn socket(args: &PortalArgs, holder: u32) -> Result<PathBuf, Failure> {
    if let Some(Control::At(path)) = &args.control {
        return Ok(path.clone());
    }
    let name = format!("up-{holder}.sock");
    let is_of_up = |path: &PathBuf| path.file_name().is_some_and(|found| found == &*name);
    control::find_all().into_iter().find(is_of_up).ok_or_else(|| {
        Failure::failed(
            "no control socket of 'weftline up' is found; name it with --control PATH, or start 'weftline \
             up' without --control none",
        )
    })
}

/// Has the kill switch let the link be used, or no more; whether it does, or did.
fn apply(request: &PortalRequest) -> Result<bool, Failure> {
    if !KillSwitch::is_closed()? {
        return Ok(false);
    }
    let switch = KillSwitch::connect()?;
    if request.end {
        return Ok(switch.end_portal(&request.link)?);
    }
    switch.open_portal(&request.link, request.user)?;
    Ok(true)
}

/// What is said of a link that was to be closed.
fn not_open(link: &str) -> String {
    format!("{link} is not open")
}

/// The links that a running `up` has open: one at a time.
#[derive(Debug, Clone)]
pub(super) struct Portals {
    state: Arc<Mutex<State>>,
    /// Whether questions to DNS go to the server, when no link is open. At first nothing is captured.
    packets: Arc<OnceLock<watch::Receiver<Packets>>>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Opened>,
    /// How often a link was opened: the number of the one that is open.
    number: u64,
    /// Whether none is opened any more.
    is_over: bool,
}

#[derive(Debug)]
struct Opened {
    request: PortalRequest,
    _portal: Portal,
    timer: JoinHandle<()>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl Portals {
    /// None is open.
    pub(super) fn new() -> Self {
        Self { state: Arc::default(), packets: Arc::default() }
    }

    /// What becomes of questions to DNS, and of all that is no TCP, is told here from now on.
    pub(super) fn set_packets(&self, packets: watch::Receiver<Packets>) {
        let _ = self.packets.set(packets);
    }

    /// Has what is asked for by the control socket done here.
    pub(super) fn answer(&self, life: &Life) {
        let opener = self.clone();
        // It may wait for systemd-resolved, which nothing else is to.
        let open = move |request: &_| tokio::task::block_in_place(|| opener.follow(request));
        life.set_portals(Box::new(open));
    }

    /// Does what is asked for.
    ///
    /// # Errors
    /// What kept it from that, as a sentence.
    pub(super) fn follow(&self, request: &PortalRequest) -> Result<(), String> {
        let mut state = self.state.lock().expect("no panic");
        if state.is_over {
            return Err("this 'weftline up' is ending".to_owned());
        }
        if request.end && state.open.as_ref().is_none_or(|one| one.request.link != request.link) {
            // By the kill switch it may be, from an `up` that has failed to start.
            return match apply(request).map_err(|failure| failure.to_string())? {
                true => Ok(()),
                false => Err(not_open(&request.link)),
            };
        }
        // One at a time, so that it can be told which.
        self.close(&mut state)?;
        if request.end {
            return Ok(());
        }
        let portal =
            Portal::open(&request.link, request.user).map_err(|error| error.to_string())?;
        apply(request).map_err(|failure| failure.to_string())?;
        // It asks whom the link names.
        resolved::revert();
        state.number += 1;
        let (later, number) = (self.clone(), state.number);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(OPEN_FOR).await;
            // Dropped in a task of its own, as it ends this one.
            tokio::task::spawn_blocking(move || later.close_number(number));
        });
        tracing::info!("{} is open to the browser of user {}", request.link, request.user);
        state.open = Some(Opened { request: request.clone(), _portal: portal, timer });
        Ok(())
    }

    /// Closes what is open.
    fn close(&self, state: &mut State) -> Result<(), String> {
        let Some(before) = state.open.take() else { return Ok(()) };
        let ended = PortalRequest { end: true, ..before.request.clone() };
        apply(&ended).map_err(|failure| failure.to_string())?;
        tracing::info!("{} is not open to a browser any more", ended.link);
        if self.packets.get().is_some_and(|packets| *packets.borrow() != Packets::Past) {
            resolved::tell();
        }
        Ok(())
    }

    /// The time of one is over; another that was opened since stays.
    fn close_number(&self, number: u64) {
        let mut state = self.state.lock().expect("no panic");
        if state.number == number
            && let Err(error) = self.close(&mut state)
        {
            tracing::warn!("{error}");
        }
    }

    /// Opens nothing any more, and leaves what the kill switch lets through to its time: what has
    /// failed to start is begun again, and the login for which a link was opened may be what it has
    /// lacked.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.is_over = true;
        drop(state.open.take());
    }

    /// Closes what is open, and opens nothing any more.
    pub(super) fn end(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.is_over = true;
        if let Err(error) = self.close(&mut state) {
            tracing::warn!("{error}");
        }
    }
}
