//! A node of a coded tunnel, as the dashboard shows it: its links are paths, and it has no
//! connections.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use weftline_core::Instant;
use weftline_web::{Event, EventLevel, Look, PathLook, PathState, Source};

use crate::ops::snapshot::{About, NodeLink, NodeLinks};

/// A node as the dashboard looks at it.
pub(super) struct NodeFeed {
    pub(super) about: Box<dyn Fn() -> About + Send + Sync>,
    pub(super) links: Box<dyn Fn() -> NodeLinks + Send + Sync>,
    pub(super) seen: Mutex<Seen>,
}

/// What the look before has seen.
#[derive(Default)]
pub(super) struct Seen {
    /// When the node said it.
    at: Instant,
    /// The links, and whether they were up.
    links: BTreeMap<String, bool>,
}

impl Source for NodeFeed {
    fn status(&self, connections: usize) -> String {
        super::status((self.about)(), connections)
    }

    fn look(&self) -> Look {
        let NodeLinks { links, at, age } = (self.links)();
        let mut seen = self.seen.lock().expect("nobody panics with it");
        let events = changes(&seen.links, &links);
        // A node that hangs says nothing new: then that holds until now.
        let age = if at > seen.at { age } else { Duration::ZERO };
        let up = links.iter().map(|link| (link.name.clone(), link.up)).collect();
        *seen = Seen { at, links: up };
        Look {
            age,
            state: (self.about)().state.to_owned(),
            paths: links.iter().map(path).collect(),
            events,
            ..Look::default()
        }
    }
}

fn path(link: &NodeLink) -> PathLook {
    PathLook {
        name: link.name.as_str().into(),
        state: if link.up { PathState::Up } else { PathState::Down },
        sent_bytes: link.sent_bytes,
        received_bytes: link.received_bytes,
        retransmitted_segments: None,
        srtt_ms: link.rtt.map(|rtt| (rtt.as_secs_f64() * 1e3) as f32),
        queueing_ms: None,
        cwnd_bytes: None,
    }
}

/// Links that have come up, or are not heard any more.
fn changes(seen: &BTreeMap<String, bool>, links: &[NodeLink]) -> Vec<Event> {
    let event = |link: &NodeLink| {
        let was_up = seen.get(&link.name).copied();
        let (name, level, what) = match (was_up, link.up) {
            (None, true) => ("path_up", EventLevel::Info, "came up"),
            (Some(false), true) => ("path_up", EventLevel::Good, "is back"),
            (Some(true), false) => ("path_down", EventLevel::Error, "is not heard any more"),
            _ => return None,
        };
        let text = format!("link {} {what}", link.name);
        Some(Event { name, level, path: Some(link.name.as_str().into()), text })
    };
    links.iter().filter_map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_as_old_as_what_the_node_said_unless_it_says_nothing_new() {
        let said = |at: u64, age: u64| NodeLinks {
            at: Instant::from_millis(at),
            age: Duration::from_millis(age),
            ..NodeLinks::default()
        };
        let all = Mutex::new(vec![said(1500, 500), said(1500, 0), said(900, 100)]);
        let feed = NodeFeed {
            about: Box::new(|| About {
                daemon: "cotag ap",
                state: "running",
                began: std::time::Instant::now(),
                listening: Vec::new(),
                lanes: Vec::new(),
                node: None,
            }),
            links: Box::new(move || all.lock().unwrap().pop().unwrap()),
            seen: Mutex::default(),
        };
        let ages: Vec<_> = (0..3).map(|_| feed.look().age.as_millis()).collect();
        assert_eq!(ages, [100, 0, 0]);
    }

    #[test]
    fn links_that_change_are_told_once() {
        let link = |up| NodeLink {
            name: "mmwave".to_owned(),
            up,
            sent_bytes: 0,
            received_bytes: 0,
            rtt: None,
        };
        let told = |was: Option<bool>, up| {
            let seen = was.map(|was| ("mmwave".to_owned(), was)).into_iter().collect();
            changes(&seen, &[link(up)]).pop().map(|event| event.text)
        };
        assert_eq!(told(None, false), None);
        assert_eq!(told(None, true).as_deref(), Some("link mmwave came up"));
        assert_eq!(told(Some(true), true), None);
        let gone = "link mmwave is not heard any more";
        assert_eq!(told(Some(true), false).as_deref(), Some(gone));
        assert_eq!(told(Some(false), true).as_deref(), Some("link mmwave is back"));
    }
}
