//! Whether the server is there. Where it is not for a while, over any link, nothing is captured, so that this
//! machine speaks with the internet by itself until the server answers again.

use std::net::IpAddr;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use weftline::refusal::{EXPIRED, TOKEN};
use weftline::{Client, Control, Error, InternetOffer, LaneControl};
use weftline_net::{Capture, Route, Routes};

/// How long the server may be away before it is gone; and how long it counts as gone, or as there again, at
/// least, so that one that comes and goes does not have all change with it.
const GONE: Duration = Duration::from_secs(10);
/// How long an answer to a question may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// When it is asked again: while it does not answer, at first and after a while; where it answers and no lane
/// tells so, while there are connections and while there are none.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_LATER: Duration = Duration::from_secs(5);
const IN_USE: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(300);
/// How long the connections that there are have for an answer before another one is made for the question, which
/// costs some kilobytes; how many are asked, the newest; and how often it is looked whether they have heard one.
const SOON: Duration = Duration::from_secs(1);
const ASKED: usize = 4;
const LOOK: Duration = Duration::from_millis(50);
/// How long it is asked often.
const OFTEN_FOR: Duration = Duration::from_secs(60);

/// What is known of it.
#[derive(Debug)]
struct Presence {
    /// When it was there last, and whether it was when it was looked for last.
    heard: Instant,
    is_heard: bool,
    is_gone: bool,
    changed: Option<Instant>,
}

impl Presence {
    fn new(now: Instant) -> Self {
        Self { heard: now, is_heard: true, is_gone: false, changed: None }
    }

    /// It has been looked for.
    fn note(&mut self, is_heard: bool, now: Instant) {
        self.is_heard = is_heard;
        if is_heard {
            self.heard = now;
        }
    }

    /// There are other ways now than before, or none: it was looked for in vain over those alone. It counts as
    /// there again as soon as it answers.
    fn note_ways(&mut self, now: Instant) {
        self.heard = now;
        if self.is_gone {
            self.changed = None;
        }
    }

    /// When it changes, if nothing else is heard.
    fn due(&self) -> Option<Instant> {
        let gone = (!self.is_gone && !self.is_heard).then(|| self.heard + GONE);
        let back = (self.is_gone && self.is_heard).then_some(self.heard);
        let rested = self.changed.map(|at| at + GONE);
        gone.or(back).map(|at| rested.map_or(at, |rested| at.max(rested)))
    }

    /// Whether it is gone now, if that changes.
    fn step(&mut self, now: Instant) -> Option<bool> {
        self.due().filter(|due| *due <= now)?;
        self.is_gone = !self.is_gone;
        self.changed = Some(now);
        Some(self.is_gone)
    }
}

/// Looks for the server, and has the capture follow.
pub(super) struct Watcher {
    pub(super) client: Client,
    pub(super) capture: Weak<Capture>,
    /// How many lanes are up, if there are lanes.
    pub(super) lanes_up: Option<watch::Receiver<usize>>,
    /// The default routes of links.
    pub(super) ways: watch::Receiver<Vec<Route>>,
    /// Tells whether nothing is captured; not where nothing is to go directly, whatever the server does.
    pub(super) suspended: Option<watch::Sender<bool>>,
    /// Counts how often another address of the server is to be tried.
    pub(super) turns: watch::Sender<u64>,
    /// Whether nobody has answered, or somebody else, when it was asked last.
    pub(super) is_elsewhere: bool,
}

impl Watcher {
    /// Goes on until nothing is captured any more.
    pub(super) async fn watch(mut self) {
        let mut presence = Presence::new(Instant::now());
        let (mut was_denied, mut turned) = (false, Instant::now());
        loop {
            // Lanes of a client that is let in no more may go on, but nothing else does.
            let has_lanes = self.lanes_up.as_ref().is_some_and(|up| *up.borrow() > 0);
            let is_denied = self.client.is_denied();
            let is_up = has_lanes && !is_denied;
            if is_denied && !was_denied && has_lanes {
                // It was there until then.
                presence.note(true, Instant::now());
            }
            was_denied = is_denied;
            let mut ways = self.ways.clone();
            ways.mark_unchanged();
            let is_heard = is_up
                || tokio::select! {
                    is_heard = self.answers(is_denied) => is_heard,
                    Ok(()) = ways.changed() => false,
                };
            presence.note(is_heard, Instant::now());
            let has_changed = self.ways.has_changed().unwrap_or(false);
            let has_way = !self.ways.borrow_and_update().is_empty();
            if has_changed || !(is_heard || has_way) {
                presence.note_ways(Instant::now());
            }
            if let Some(is_gone) = presence.step(Instant::now())
                && !self.follow(is_gone)
            {
                return;
            }
            if presence.is_gone && self.is_elsewhere && !is_heard && turned.elapsed() >= GONE {
                turned = Instant::now();
                self.turns.send_modify(|turns| *turns += 1);
            }
            let wait = match is_heard {
                _ if is_up => IDLE,
                true if is_used() => IN_USE,
                true => IDLE,
                false if presence.heard.elapsed() < OFTEN_FOR => AGAIN,
                false => AGAIN_LATER,
            };
            let until = Instant::now() + wait;
            let due = presence.due().filter(|_| has_way || is_heard);
            let until = due.map_or(until, |due| until.min(due.max(Instant::now())));
            self.rest(until, is_up).await;
            if is_up && !self.client.is_denied() {
                // It was there until now.
                presence.note(true, Instant::now());
            }
        }
    }

    /// Whether the server answers, to a connection that there is or to another one. Those that there are of a
    /// client that is denied go on, and say nothing of what is let in.
    async fn answers(&mut self, is_denied: bool) -> bool {
        (!is_denied && answers().await) || self.asks().await
    }

    /// Whether the server answers to another connection.
    async fn asks(&mut self) -> bool {
        let asked = tokio::time::timeout(PATIENCE, InternetOffer::ask(&self.client)).await;
        self.is_elsewhere = match &asked {
            Ok(asked) => asked.as_ref().is_err_and(is_elsewhere),
            Err(_) => true,
        };
        match asked {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::debug!(%error, "the server does not answer as it should");
                // It is busy with everybody at an address where too many tokens were wrong.
                is_there(&error) && !self.client.is_denied()
            }
            Err(_) => false,
        }
    }

    /// Waits until then, or until lanes or ways have come or gone, or, if no lane is up, a while after
    /// connections have begun: they would wait for a server that is away. Where lanes are up, until a while
    /// after the server has let this client in no more.
    async fn rest(&mut self, until: Instant, is_up: bool) {
        let ways = &mut self.ways;
        let other_ways = async move {
            // It ends with all else.
            if ways.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            ways.mark_changed();
        };
        let lanes_up = &mut self.lanes_up;
        let lanes = async move {
            let changed = match lanes_up {
                Some(up) => up.changed().await.is_ok(),
                None => false,
            };
            // It ends with the lanes.
            if !changed {
                std::future::pending::<()>().await;
            }
        };
        let client = self.client.clone();
        let began = async {
            loop {
                tokio::time::sleep(IN_USE).await;
                if if is_up { client.is_denied() } else { is_used() } {
                    return;
                }
            }
        };
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = lanes => {}
            () = other_ways => {}
            () = began => {}
        }
    }

    /// Whether there is something that can follow.
    fn follow(&self, is_gone: bool) -> bool {
        let Some(capture) = self.capture.upgrade() else { return false };
        let Some(suspended) = &self.suspended else {
            match is_gone {
                true => tracing::warn!(
                    "the server has not answered for {} s over any link, and nothing else is reached, as the \
                     kill switch is closed",
                    GONE.as_secs()
                ),
                false => tracing::info!("the server answers again"),
            }
            return true;
        };
        if is_gone {
            tracing::warn!(
                "the server has not answered for {} s over any link: new connections and packets go \
                 past it, directly, until it answers again",
                GONE.as_secs()
            );
        } else {
            tracing::info!("the server answers again: new connections go there");
        }
        let done = if is_gone { capture.suspend() } else { capture.resume() };
        if let Err(error) = done {
            tracing::error!("{error}; 'weftline down' and 'weftline up' help");
        }
        suspended.send_replace(is_gone);
        true
    }
}

/// Whether the server has not said this: nobody is there, or somebody else, or a link is not there now. It may be at
/// another address.
pub(super) fn is_elsewhere(error: &Error) -> bool {
    matches!(
        error,
        Error::ClosedInHandshake { .. }
            | Error::HandshakeTimeout { .. }
            | Error::NoInterfaceAddress { .. }
            | Error::OtherProtocol { .. }
            | Error::PeerNotTls { .. }
            | Error::Socket(_)
            | Error::Tls { .. }
            | Error::UnknownAddress { .. }
            | Error::UnknownInterface { .. }
            | Error::Unreachable { .. }
            | Error::WrongFingerprint { .. }
    )
}

/// Whether a server that has answered so is there for this client: it has said so itself, by TLS. One that lets
/// it in no more is away for it.
fn is_there(error: &Error) -> bool {
    matches!(error, Error::Refused { code, .. } if ![TOKEN, EXPIRED].contains(code))
}

/// The default routes of this machine that are not ours: without one there is no link by which a server could be
/// away.
pub(super) fn ways() -> Vec<Route> {
    Routes::open().and_then(|routes| routes.defaults()).unwrap_or_default()
}

/// Whether a connection that there is hears something from the server now that it asks for that.
async fn answers() -> bool {
    let began = Instant::now();
    let known: Vec<Control> =
        weftline::status::connections().into_iter().rev().take(ASKED).collect();
    known.iter().for_each(Control::ask);
    while !known.is_empty() && began.elapsed() < SOON {
        tokio::time::sleep(LOOK).await;
        if known.iter().any(|one| one.unheard_for() < began.elapsed()) {
            return true;
        }
    }
    false
}

/// By what a link may carry something that carried nothing before: the addresses of this machine, and the links
/// that are plugged in, by their numbers.
pub(super) type Plugged = (Vec<(u32, IpAddr)>, Vec<u32>);

/// How that is now; `None` where the kernel does not say.
pub(super) fn plugged() -> Option<Plugged> {
    let routes = Routes::open().ok()?;
    let addresses = routes.addresses().ok()?.into_iter();
    let mut addresses: Vec<_> = addresses.map(|one| (one.link, one.address)).collect();
    addresses.sort_unstable();
    let links = routes.links().ok()?.into_iter().filter(|link| link.running);
    Some((addresses, links.map(|link| link.index).collect()))
}

/// Whether connections of programs are under way.
fn is_used() -> bool {
    let of_program =
        |control: &Control| control.label().is_some_and(|of| *of != *LaneControl::LABEL);
    weftline::status::connections().iter().any(of_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence() -> (Presence, impl Fn(u64) -> Instant) {
        let began = Instant::now();
        (Presence::new(began), move |seconds| began + Duration::from_secs(seconds))
    }

    #[test]
    fn a_server_that_is_away_for_ten_seconds_is_gone_until_it_answers() {
        let (mut presence, at) = presence();
        for second in 0..10 {
            presence.note(second < 3, at(second));
            assert_eq!(presence.step(at(second)), None);
        }
        // It was there at the second second.
        presence.note(false, at(11));
        assert_eq!((presence.due(), presence.step(at(11))), (Some(at(12)), None));
        assert_eq!(presence.step(at(12)), Some(true));
        presence.note(false, at(30));
        assert_eq!((presence.due(), presence.step(at(30))), (None, None));
        presence.note(true, at(31));
        assert_eq!(presence.step(at(31)), Some(false));
        assert_eq!((presence.due(), presence.step(at(3000))), (None, None));
    }

    #[test]
    fn where_the_ways_change_it_is_looked_for_anew_and_taken_back_at_once() {
        let (mut presence, at) = presence();
        // For a minute there is no way at all.
        for second in 0..60 {
            presence.note(false, at(second));
            presence.note_ways(at(second));
            assert_eq!(presence.step(at(second)), None);
        }
        presence.note(false, at(68));
        assert_eq!((presence.due(), presence.step(at(68))), (Some(at(69)), None));
        presence.note(false, at(69));
        assert_eq!(presence.step(at(69)), Some(true));
        // Another network, in which it answers.
        presence.note(false, at(71));
        presence.note_ways(at(71));
        assert_eq!(presence.step(at(71)), None);
        presence.note(true, at(72));
        assert_eq!(presence.step(at(72)), Some(false));
        // It leaves no more often than before.
        presence.note(false, at(73));
        assert_eq!(presence.due(), Some(at(82)));
    }

    #[test]
    fn one_that_is_busy_is_there_and_one_that_has_revoked_the_invite_is_not() {
        let refused = |code| Error::Refused {
            peer: ([192, 0, 2, 1], 4433).into(),
            code,
            reason: String::new(),
        };
        assert!(is_there(&refused(weftline::refusal::BUSY)));
        assert!(!is_there(&refused(TOKEN)) && !is_there(&refused(EXPIRED)));
        assert!(!is_there(&Error::NoTrust));
    }

    #[test]
    fn one_that_comes_and_goes_changes_nothing_more_often_than_each_ten_seconds() {
        let (mut presence, at) = presence();
        let (mut changes, mut was_there) = (Vec::new(), 0);
        for second in 0..600 {
            // Away for eleven seconds, there for one.
            let is_heard = second % 12 == 11;
            was_there += u64::from(is_heard);
            presence.note(is_heard, at(second));
            changes.extend(presence.step(at(second)).map(|_| second));
        }
        assert!(was_there == 50 && changes.len() > 10, "{changes:?}");
        assert!(changes.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{changes:?}");
        // That it answered once, while it could not change, is not enough.
        let (mut presence, at) = self::presence();
        presence.note(false, at(10));
        assert_eq!(presence.step(at(10)), Some(true));
        presence.note(true, at(12));
        presence.note(false, at(14));
        assert_eq!((presence.step(at(20)), presence.due()), (None, None));
    }
}
