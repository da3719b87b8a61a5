//! What happens to paths and connections, as the dashboard tells it: what is alike in one look is one
//! event, however many connections it happens to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;
use weftline::status::{ConnectionStatus, Ended, MAX_NAMES};
use weftline::{PathEvent, PathEventKind, refusals};
use weftline_web::{Event, EventLevel};

/// Connections that are followed at once, those in use first; what happens to paths of others is not told.
const MAX_FOLLOWED: usize = 256;
/// Different events in one look; further ones are not told.
const MAX_KINDS: usize = 64;

/// What is followed, and what has been told.
pub(super) struct Events {
    followed: BTreeMap<u64, Followed>,
    /// Of connections that are over, followed or not.
    ended: broadcast::Receiver<Ended>,
    refused: BTreeMap<&'static str, u64>,
    /// Paths that have come up before, and why those that cannot do not: each reason is told once.
    known: BTreeSet<Arc<str>>,
    failing: BTreeMap<Arc<str>, String>,
}

/// A connection whose events are told.
struct Followed {
    events: broadcast::Receiver<PathEvent>,
    is_used: bool,
    /// Paths that it has lost.
    lost: BTreeSet<u64>,
    /// The newest subflow of each path: one that is repaired has a new one before the old one ends.
    newest: BTreeMap<u64, u64>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            followed: BTreeMap::new(),
            ended: weftline::status::ended(),
            refused: BTreeMap::new(),
            known: BTreeSet::new(),
            failing: BTreeMap::new(),
        }
    }
}

impl Events {
    /// What has happened since the last time; `all` are the connections there are.
    pub(super) fn look(&mut self, all: &[ConnectionStatus]) -> Vec<Event> {
        let mut told = Told::default();
        for status in all {
            self.follow(status, &mut told);
        }
        let live: BTreeSet<u64> = all.iter().map(|status| status.number).collect();
        let mut followed = std::mem::take(&mut self.followed);
        for (number, one) in &mut followed {
            self.drain(*number, one, &mut told);
        }
        // What these have told before their end was the last.
        followed.retain(|number, _| live.contains(number));
        self.followed = followed;
        loop {
            match self.ended.try_recv() {
                Ok(end) => told.end(end),
                Err(TryRecvError::Lagged(more)) => told.ends_left_out(more),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        for (reason, count) in refusals() {
            let before = self.refused.insert(reason, count).unwrap_or(0);
            let new = count.saturating_sub(before);
            if new > 0 {
                let kind = Kind::new("handshakes_refused", EventLevel::Warning, reason);
                told.add(kind, 0, new, 0);
            }
        }
        told.events()
    }

    /// Follows a connection that is new, and notes when one begins to be used.
    fn follow(&mut self, status: &ConnectionStatus, told: &mut Told) {
        let number = status.number;
        if !self.followed.contains_key(&number) {
            let Some(control) = weftline::status::connection(number) else { return };
            let is_used = status.label.is_some();
            if self.followed.len() >= MAX_FOLLOWED && !(is_used && self.make_room(told)) {
                return;
            }
            let events = control.events();
            let subflows = status
                .stats
                .paths
                .iter()
                .filter_map(|(path, stats)| Some((path.0, stats.subflow.as_ref()?.id.0)));
            let (lost, newest) = (BTreeSet::new(), subflows.collect());
            self.followed.insert(number, Followed { events, is_used: false, lost, newest });
            let up = status.stats.paths.iter().filter(|(_, path)| path.subflow.is_some());
            for name in up.filter_map(|(id, _)| status.names.get(id)) {
                self.first_up(name, number, told);
            }
        }
        if let Some(followed) = self.followed.get_mut(&number)
            && let Some(label) = status.label.as_ref().filter(|_| !followed.is_used)
        {
            followed.is_used = true;
            let client = status.client.as_ref().map(|name| format!(", client {name}"));
            let about = format!(" ({label}{})", client.unwrap_or_default());
            let kind = Kind::new("connection_used", EventLevel::Info, "");
            told.add_of(kind, number, Words { about, detail: String::new() });
        }
    }

    /// Follows one less, which was only kept ready so far, for one that is in use; whether there was one. What
    /// has happened to its paths is told.
    fn make_room(&mut self, told: &mut Told) -> bool {
        let ready = self.followed.iter().find(|(_, one)| !one.is_used).map(|(number, _)| *number);
        let Some((number, mut one)) = ready.and_then(|ready| self.followed.remove_entry(&ready))
        else {
            return false;
        };
        self.drain(number, &mut one, told);
        true
    }

    /// Tells what has happened to the paths of a connection.
    fn drain(&mut self, number: u64, followed: &mut Followed, told: &mut Told) {
        loop {
            match followed.events.try_recv() {
                Ok(event) => self.tell(number, followed, &event, told),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn tell(&mut self, number: u64, of: &mut Followed, event: &PathEvent, told: &mut Told) {
        use EventLevel::{Error, Good, Info, Warning};
        let name = &event.name;
        let (kind, bytes) = match &event.kind {
            PathEventKind::Up { subflow, .. } => {
                of.newest.insert(event.path, *subflow);
                let could_not = self.failing.remove(name).is_some();
                if !of.lost.remove(&event.path) && !could_not {
                    return self.first_up(name, number, told);
                }
                (Kind::new("path_up", Good, "back"), 0)
            }
            // Later ones have higher numbers.
            PathEventKind::Down { subflow, reason }
                if of.newest.get(&event.path).is_some_and(|newest| subflow < newest) =>
            {
                (Kind::new("path_down", Good, reason), 0)
            }
            PathEventKind::Down { reason, .. } => {
                of.lost.insert(event.path);
                (Kind::new("path_down", Error, reason), 0)
            }
            PathEventKind::AttemptFailed { reason } => {
                if self.failing.get(name) == Some(reason) || self.failing.len() >= MAX_NAMES {
                    return;
                }
                self.failing.insert(Arc::clone(name), reason.clone());
                (Kind::new("path_attempt_failed", Warning, reason), 0)
            }
            PathEventKind::Stalled { .. } => (Kind::new("path_silent", Warning, ""), 0),
            PathEventKind::PotentiallyFailed { .. } => (Kind::new("path_stalled", Warning, ""), 0),
            PathEventKind::Recovered { .. } => (Kind::new("path_recovered", Good, ""), 0),
            PathEventKind::Reinjected { bytes, redundant: false, .. } => {
                (Kind::new("path_reinjected", Info, ""), *bytes)
            }
            // Copies are the ordinary course of things.
            _ => return,
        };
        told.add(Kind { path: Some(Arc::clone(name)), ..kind }, number, 1, bytes);
    }

    /// Tells of a path that has never been up before.
    fn first_up(&mut self, name: &Arc<str>, number: u64, told: &mut Told) {
        if self.known.len() < MAX_NAMES && self.known.insert(Arc::clone(name)) {
            let kind = Kind::new("path_up", EventLevel::Info, "up");
            told.add(Kind { path: Some(Arc::clone(name)), ..kind }, number, 1, 0);
        }
    }
}

/// What is alike.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    name: &'static str,
    path: Option<Arc<str>>,
    reason: String,
    level: EventLevel,
}

impl Kind {
    fn new(name: &'static str, level: EventLevel, reason: &str) -> Self {
        Self { name, path: None, reason: reason.to_owned(), level }
    }
}

/// How often it has happened.
struct Count {
    /// The first connection it happened to, and how many there are.
    first: u64,
    connections: BTreeSet<u64>,
    times: u64,
    bytes: u64,
    /// Of the first.
    words: Words,
}

/// What is to be said of a connection.
#[derive(Default)]
struct Words {
    /// After its number.
    about: String,
    /// At the end.
    detail: String,
}

/// What has happened in one look, in the order in which it first did.
#[derive(Default)]
struct Told(Vec<(Kind, Count)>);

impl Told {
    fn add(&mut self, kind: Kind, number: u64, times: u64, bytes: u64) {
        if let Some(count) = self.count(kind, number, Words::default()) {
            count.times += times;
            count.bytes = count.bytes.saturating_add(bytes);
        }
    }

    /// The same of a connection of which there is more to say.
    fn add_of(&mut self, kind: Kind, number: u64, words: Words) {
        self.count(kind, number, words);
    }

    fn count(&mut self, kind: Kind, number: u64, words: Words) -> Option<&mut Count> {
        let known = self.0.iter().position(|(one, _)| *one == kind);
        let place = known.unwrap_or(self.0.len());
        if place == MAX_KINDS {
            return None;
        }
        if known.is_none() {
            let connections = BTreeSet::new();
            self.0.push((kind, Count { first: number, connections, times: 0, bytes: 0, words }));
        }
        let (_, count) = &mut self.0[place];
        count.connections.insert(number);
        Some(count)
    }

    fn end(&mut self, end: Ended) {
        let Ended { number, label, error, sent, received } = end;
        if error.is_none() && label.is_none() {
            // It was never used: nobody misses it.
            return;
        }
        let about = format!(" ({})", label.as_deref().unwrap_or("kept ready"));
        let detail = format!(": sent {}, received {}", size(sent), size(received));
        let kind = match error {
            Some(error) => Kind::new("connection_closed", EventLevel::Error, &error.to_string()),
            None => Kind::new("connection_closed", EventLevel::Info, ""),
        };
        self.add_of(kind, number, Words { about, detail });
    }

    /// More have ended than could be looked at one by one.
    fn ends_left_out(&mut self, more: u64) {
        let kind = Kind::new("connections_ended", EventLevel::Warning, "");
        self.add(kind, 0, more, 0);
    }

    fn events(self) -> Vec<Event> {
        let event = |(kind, count): (Kind, Count)| Event {
            name: kind.name,
            level: kind.level,
            text: text(&kind, &count),
            path: kind.path,
        };
        self.0.into_iter().map(event).collect()
    }
}

/// A sentence about it.
fn text(kind: &Kind, count: &Count) -> String {
    let path = kind.path.as_deref().unwrap_or_default();
    let reason = &kind.reason;
    let many = count.connections.len();
    let at = match many {
        1 => format!("connection #{}", count.first),
        many => format!("{many} connections"),
    };
    let (first, Words { about, detail }) = (count.first, &count.words);
    match (kind.name, many) {
        ("path_up", _) if reason == "back" => format!("path {path} is back at {at}"),
        ("path_up", _) => format!("path {path} came up"),
        ("path_down", _) if kind.level == EventLevel::Good => {
            format!("path {path} has a new subflow at {at}; its old one ended: {reason}")
        }
        ("path_down", _) => format!("path {path} lost its subflow at {at}: {reason}"),
        ("path_attempt_failed", _) => format!("path {path} cannot come up: {reason}"),
        ("path_silent", _) => {
            format!("path {path} makes no progress at {at}; the other paths carry its data")
        }
        ("path_stalled", _) => {
            format!("path {path} stalled at {at}; a fresh TCP connection is tried beside it")
        }
        ("path_recovered", _) => format!("path {path} makes progress again at {at}"),
        ("path_reinjected", _) => {
            format!("{} of other paths were sent again on path {path} at {at}", size(count.bytes))
        }
        ("connection_used", 1) => format!("connection #{first}{about} began"),
        ("connection_used", _) => format!("{at} began, the first of them #{first}{about}"),
        ("connection_closed", 1) if reason.is_empty() => {
            format!("connection #{first}{about} ended{detail}")
        }
        ("connection_closed", _) if reason.is_empty() => format!("{at} ended"),
        ("connection_closed", 1) => format!("connection #{first}{about} failed: {reason}"),
        ("connection_closed", _) => format!("{at} failed: {reason}"),
        ("connections_ended", _) => {
            format!("{} more connections ended; there were too many to say how", count.times)
        }
        ("handshakes_refused", _) => match count.times {
            1 => format!("a handshake was refused or broke off ({reason})"),
            times => format!("{times} handshakes were refused or broke off ({reason})"),
        },
        (name, _) => format!("{name} at {at}"),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_is_one_event_and_kinds_are_bounded() {
        let mut told = Told::default();
        let down = |path: &str, reason: &str| Kind {
            path: Some(path.into()),
            ..Kind::new("path_down", EventLevel::Error, reason)
        };
        for number in 0..12 {
            told.add(down("wifi", "no route to host"), number, 1, 0);
        }
        told.add(down("lte", "no route to host"), 7, 1, 0);
        for n in 0..1000 {
            told.add(down("wifi", &format!("reason {n}")), 1, 1, 0);
        }
        let events = told.events();
        assert_eq!(events.len(), MAX_KINDS);
        let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
        let many = "path wifi lost its subflow at 12 connections: no route to host";
        assert!(texts.contains(&many), "{texts:?}");
        let one = "path lte lost its subflow at connection #7: no route to host";
        assert!(texts.contains(&one), "{texts:?}");
        assert!(events.iter().all(|event| event.level == EventLevel::Error));
    }

    /// What is told of these, one after the other, at a connection whose path 0 has subflow 3.
    fn told(kinds: impl IntoIterator<Item = PathEventKind>) -> Vec<(EventLevel, String)> {
        let mut events = Events::default();
        events.known.insert("wifi".into());
        let (_, receiver) = broadcast::channel(1);
        let (lost, newest) = (BTreeSet::new(), [(0, 3)].into());
        let mut of = Followed { events: receiver, is_used: true, lost, newest };
        let mut all = Vec::new();
        for kind in kinds {
            let at = std::time::Duration::ZERO;
            let event = PathEvent { at, path: 0, name: "wifi".into(), kind };
            let mut told = Told::default();
            events.tell(7, &mut of, &event, &mut told);
            all.extend(told.events().into_iter().map(|event| (event.level, event.text)));
        }
        all
    }

    fn up(subflow: u64) -> PathEventKind {
        let address = ([192, 0, 2, 1], 1).into();
        PathEventKind::Up { subflow, local: address, peer: address }
    }

    fn down(subflow: u64, reason: &str) -> PathEventKind {
        PathEventKind::Down { subflow, reason: reason.to_owned() }
    }

    #[test]
    fn a_path_that_is_repaired_is_not_lost() {
        let replaced = "replaced by a new one";
        let repaired = "path wifi has a new subflow at connection #7; its old one ended: replaced by a new one";
        let all = told([up(5), down(3, replaced), up(6), down(5, replaced)]);
        assert_eq!(
            all,
            [(EventLevel::Good, repaired.to_owned()), (EventLevel::Good, repaired.to_owned())]
        );
        // The newest one ends, and another comes.
        let all = told([up(5), down(3, replaced), down(5, "reset"), up(6)]);
        let lost = "path wifi lost its subflow at connection #7: reset";
        assert_eq!(
            all[1..],
            [
                (EventLevel::Error, lost.to_owned()),
                (EventLevel::Good, "path wifi is back at connection #7".to_owned()),
            ]
        );
    }

    #[test]
    fn an_end_says_what_was_carried_or_why_it_failed() {
        let mut told = Told::default();
        let end = |number, label: Option<&str>, error: Option<weftline::Error>| Ended {
            number,
            label: label.map(Into::into),
            error: error.map(Arc::new),
            sent: 12_000_000,
            received: 50,
        };
        told.end(end(5, Some("to 127.0.0.1:80"), None));
        told.end(end(6, None, None));
        told.end(end(7, Some("to 127.0.0.1:80"), Some(weftline::Error::CarriesMessages)));
        told.ends_left_out(300);
        let mut texts: Vec<_> = told.events().into_iter().map(|event| event.text).collect();
        texts.sort();
        assert_eq!(
            texts,
            [
                "300 more connections ended; there were too many to say how",
                "connection #5 (to 127.0.0.1:80) ended: sent 12.0 MB, received 50 B",
                "connection #7 (to 127.0.0.1:80) failed: the connection carries messages, not a byte \
                 stream: use Connection::into_messages",
            ]
        );
    }
}
