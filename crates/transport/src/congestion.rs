//! Which congestion control of the kernel a subflow's socket runs.
//!
//! A name that was asked for is set or refused. Where nothing was asked for, the choice is
//! automatic: BBR where this process may set it, as it does not take the losses of a wireless link
//! for congestion, else the system's default. Each end chooses for what it sends, and says which
//! control it is in its log and its status.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use weftline_core::Instant;

use crate::clock;
use crate::error::Error;
use crate::refusal::printable;

/// The name that asks for the automatic choice, as no name does.
pub(crate) const AUTO: &str = "auto";
/// What the automatic choice sets where it may.
const PREFERRED: &str = "bbr";
/// A control that the kernel does not have is not asked for again for this long: a process with
/// `CAP_NET_ADMIN` makes the kernel look for a module each time.
const ABSENT_TIME: Duration = Duration::from_secs(60);
/// Controls and reasons that are said in the log.
const MOST_SAID: usize = 16;
/// How long the list of the kernel's controls is taken for true.
const LIST_TIME: Duration = Duration::from_secs(1);

/// What a subflow is asked to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The best that this end may set.
    #[default]
    Auto,
    /// This control of the kernel and no other.
    Named(String),
}

impl Choice {
    /// The choice that `name` stands for, in settings and on the wire.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "" | AUTO => Self::Auto,
            name => Self::Named(name.to_owned()),
        }
    }

    /// The choice on the wire: the automatic one is the empty name, which servers that know no
    /// automatic choice take as the system's default.
    pub(crate) fn on_wire(&self) -> String {
        match self {
            Self::Auto => String::new(),
            Self::Named(name) => name.clone(),
        }
    }
}

/// The congestion control that a subflow's socket runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CongestionInUse {
    /// The kernel's name of it; empty if the kernel does not tell.
    pub name: Arc<str>,
    /// Why it is not BBR, if it was to be the best this end may set and is another.
    pub fallback: Option<Arc<str>>,
}

impl CongestionInUse {
    /// What the socket runs now.
    pub(crate) fn of(socket: &SockRef<'_>) -> Self {
        Self { name: current(socket).into(), fallback: None }
    }
}

/// Gives the socket the control that was chosen. If `allowed` is given, the automatic choice keeps
/// to these names as far as one of them can be set.
///
/// # Errors
/// When a control was named and cannot be set: the error says why. The automatic choice never
/// fails.
pub(crate) fn apply(
    socket: &SockRef<'_>,
    choice: &Choice,
    allowed: Option<&[String]>,
) -> Result<CongestionInUse, Error> {
    match choice {
        Choice::Named(name) => {
            set(socket, name)?;
            Ok(CongestionInUse { name: name.as_str().into(), fallback: None })
        }
        Choice::Auto => Ok(automatic(socket, PREFERRED, allowed)),
    }
}

/// Sets `preferred`, or else says why not and leaves the system's default, or what of `allowed` can
/// be set.
fn automatic(socket: &SockRef<'_>, preferred: &str, allowed: Option<&[String]>) -> CongestionInUse {
    let permits = |name: &str| allowed.is_none_or(|list| list.iter().any(|one| one == name));
    let why = match permits(preferred) {
        false => format!("{preferred} is not among those that this server allows"),
        true => match set_preferred(socket, preferred) {
            Ok(()) => return CongestionInUse { name: preferred.into(), fallback: None },
            Err(why) => why,
        },
    };
    let mut rest = allowed.unwrap_or_default().iter();
    if !permits(&current(socket)) {
        rest.any(|name| name != preferred && set(socket, name).is_ok());
    }
    CongestionInUse { name: current(socket).into(), fallback: Some(why.into()) }
}

/// Sets `name` unless the kernel did not have it a moment ago; why it cannot be set.
fn set_preferred(socket: &SockRef<'_>, name: &str) -> Result<(), String> {
    static ABSENT: Mutex<Option<(String, Instant)>> = Mutex::new(None);
    let absent = || format!("this kernel has no {name} ('modprobe tcp_{name}' loads its module)");
    let now = clock::now();
    let known = || ABSENT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_recent = |(of, at): &(String, Instant)| of == name && now.since(*at) < ABSENT_TIME;
    if known().as_ref().is_some_and(is_recent) {
        return Err(absent());
    }
    match socket.set_tcp_congestion(name.as_bytes()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            *known() = Some((name.to_owned(), now));
            Err(absent())
        }
        Err(error) => Err(failed(name, &error).to_string()),
    }
}

/// Sets `name`.
///
/// # Errors
/// [`Error::CongestionNotPermitted`] and [`Error::UnknownCongestion`].
fn set(socket: &SockRef<'_>, name: &str) -> Result<(), Error> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| failed(name, &error))
}

fn failed(name: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::CongestionNotPermitted { name: name.to_owned() },
        _ => Error::UnknownCongestion {
            name: printable(name),
            known: congestion_controls().join(" "),
        },
    }
}

/// The kernel's name of what the socket runs; empty if it does not tell.
fn current(socket: &SockRef<'_>) -> String {
    let name = socket.tcp_congestion().unwrap_or_default();
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Logs what a subflow runs that has come up, each control and each reason once in a process.
pub(crate) fn say_once(in_use: &CongestionInUse) {
    static SAID: Mutex<BTreeSet<CongestionInUse>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().expect("nobody panics with it");
    if said.len() >= MOST_SAID || !said.insert(in_use.clone()) {
        return;
    }
    drop(said);
    match &in_use.fallback {
        None => tracing::info!("congestion control: {}", in_use.name),
        Some(why) => {
            tracing::info!("congestion control: {}, not {PREFERRED}: {why}", in_use.name);
        }
    }
}

/// The congestion controls this kernel offers for `TCP_CONGESTION`, whoever may set them.
pub fn congestion_controls() -> Vec<String> {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map(|text| text.split_whitespace().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Checks that the kernel has the congestion control `name` and that this process may set it.
/// `auto` is always possible.
///
/// # Errors
/// [`Error::UnknownCongestion`], listing those it has, and [`Error::CongestionNotPermitted`].
pub fn check_congestion(name: &str) -> Result<(), Error> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let socket = socket.map_err(Error::Socket)?;
    apply(&SockRef::from(&socket), &Choice::of(name), None).map(drop)
}

/// Whether the kernel has the control `name` already, by a list that is read at most once in
/// [`LIST_TIME`]: peers may ask often, and must not make the kernel load modules.
///
/// # Errors
/// [`Error::UnknownCongestion`].
pub(crate) fn check_loaded(name: &str) -> Result<(), Error> {
    static LIST: Mutex<(Option<Instant>, Vec<String>)> = Mutex::new((None, Vec::new()));
    let now = clock::now();
    let mut list = LIST.lock().expect("nobody panics with it");
    if list.1.iter().any(|known| known == name) {
        return Ok(());
    }
    if list.0.is_none_or(|at| now.since(at) >= LIST_TIME) {
        *list = (Some(now), congestion_controls());
    }
    match list.1.iter().any(|known| known == name) {
        true => Ok(()),
        false => Err(Error::UnknownCongestion { name: printable(name), known: list.1.join(" ") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> Socket {
        Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket")
    }

    #[test]
    fn no_name_is_the_automatic_choice_and_stays_none_on_the_wire() {
        assert_eq!(Choice::of(""), Choice::Auto);
        assert_eq!(Choice::of("auto").on_wire(), "");
        assert_eq!(Choice::of("reno").on_wire(), "reno");
    }

    #[test]
    fn the_automatic_choice_falls_back_and_says_why() {
        let socket = socket();
        let socket = SockRef::from(&socket);
        let default = current(&socket);
        let in_use = automatic(&socket, "warp", None);
        assert_eq!(*in_use.name, *default);
        let why = in_use.fallback.expect("there is no such control");
        assert!(why.contains("this kernel has no warp ('modprobe tcp_warp'"), "{why}");
        assert_eq!(automatic(&socket, "warp", None).fallback, Some(why), "known by now");
        // Every kernel has this one, and every user may set it.
        let in_use = automatic(&socket, "reno", None);
        assert_eq!(in_use, CongestionInUse { name: "reno".into(), fallback: None });
        assert_eq!(current(&socket), "reno");
    }

    #[test]
    fn the_automatic_choice_keeps_to_what_is_allowed() {
        let allowed = ["warp".to_owned(), "reno".to_owned()];
        let socket = socket();
        let socket = SockRef::from(&socket);
        let in_use = automatic(&socket, "bbr", Some(&allowed));
        assert_eq!(*in_use.name, *"reno");
        let why = in_use.fallback.expect("it is not allowed");
        assert!(why.contains("bbr is not among those that this server allows"), "{why}");
        // Nothing is refused where nothing of it can be set.
        let default = current(&SockRef::from(&self::socket()));
        let socket = self::socket();
        let in_use = automatic(&SockRef::from(&socket), "bbr", Some(&allowed[..1]));
        assert_eq!(*in_use.name, *default);
    }

    #[test]
    fn a_named_control_is_set_or_refused() {
        let socket = socket();
        let socket = SockRef::from(&socket);
        let reno = Choice::Named("reno".to_owned());
        assert_eq!(*apply(&socket, &reno, None).expect("every kernel has it").name, *"reno");
        let error = apply(&socket, &Choice::Named("warp".to_owned()), None).unwrap_err();
        assert!(matches!(error, Error::UnknownCongestion { .. }), "{error}");
        assert!(check_loaded("warp").is_err() && check_loaded("reno").is_ok());
    }
}
