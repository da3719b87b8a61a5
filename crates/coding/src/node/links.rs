//! What the links into a node have shown: labels, and when something came.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_core::Instant;
use weftline_core::time::nanos;

use super::lags::{Least, Nominal};
use super::{NodeConfig, NodeError};
use crate::serial::Label;
use crate::wire::{Name, Packet};

/// Labels ahead of the newest that are believed at once; more are as time passes, since labels
/// count intervals.
const MAX_AHEAD: u64 = 256;
/// The farthest ahead that the order of labels allows.
const FARTHEST: u64 = (1 << 31) - 1 - MAX_BEHIND as u64;
/// Labels behind the newest that are late rather than absurd.
const MAX_BEHIND: u32 = 4096;
/// Packets in a row that are of no use, after which a node may begin anew.
const MAX_USELESS: u32 = 4;
/// Time without a packet that is not late, after which a node begins anew.
const LOST: Duration = Duration::from_secs(1);
/// A link is taken to lag by so many intervals at most, and of so many labels it is known when they
/// first came.
pub(super) const MAX_LAG: u32 = 64;
/// Of the time from one new label to the next, so many intervals count for links that have not come on:
/// in a longer one the gateway had nothing to send, also on these.
const PAUSE: u32 = MAX_LAG / 4;

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The newest label that it has shown, in a packet of this name.
    shown: Option<Name>,
    /// The newest label of anything that came on it.
    reached: Option<Label>,
    /// When something of use, or of a newer label, last came on it.
    heard: Option<Instant>,
    /// Since when it has not come on while others had: when they did, or when it was heard after.
    /// Pauses of the gateway's are left out: it is moved on by them.
    behind: Option<Instant>,
    /// How much later a label comes on it than on the first link.
    lag: Duration,
    /// How early labels come on it.
    least: Least,
}

impl Link {
    /// A label has come on it, so much later than on the first link. Up at once, down slowly.
    fn reach(&mut self, label: Label, lag: Duration, now: Instant) {
        (self.reached, self.heard) = (Some(label), Some(now));
        self.lag = lag.max(self.lag - self.lag / 16);
    }

    /// Others have come on, for the first time for so long.
    fn leave(&mut self, after: Duration, now: Instant, config: &NodeConfig) {
        let paused = after.saturating_sub(config.interval * PAUSE);
        self.behind = Some(self.behind.map_or(now, |behind| (behind + paused).min(now)));
    }

    /// Whether others have left it behind for longer than any may lag.
    fn is_gone_at(&self, now: Instant, config: &NodeConfig) -> bool {
        let left = self.behind.map_or(Duration::ZERO, |behind| now.since(behind));
        left >= config.interval * MAX_LAG + config.silence()
    }
}

/// The links into a node.
#[derive(Clone, Debug)]
pub(super) struct Links {
    links: Vec<Link>,
    /// When something first came on any of them.
    first: Option<Instant>,
    /// The newest labels, and when each first came; the newest is the last one.
    came: VecDeque<(Label, Instant)>,
    nominal: Nominal,
    /// When a packet last was of use, and how many since were not.
    useful: Option<Instant>,
    useless: u32,
}

impl Links {
    pub(super) fn new(links: usize) -> Self {
        let links = vec![Link::default(); links];
        let (came, nominal) = Default::default();
        Self { links, first: None, came, nominal, useful: None, useless: 0 }
    }

    /// Forgets everything but how many links there are.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.links.len());
    }

    /// Notes what a packet on `link` shows.
    pub(super) fn show(
        &mut self,
        link: usize,
        packet: &Packet<'_>,
        now: Instant,
        config: &NodeConfig,
    ) -> Result<(), NodeError> {
        let label = packet.label();
        let links = self.links.len();
        if link >= links {
            return Err(NodeError::Link { link, links });
        }
        if let Some(&(newest, came)) = self.came.back() {
            let passed = nanos(now.since(came)) / nanos(config.interval).max(1);
            let credible = (passed + passed / 8 + MAX_AHEAD).min(FARTHEST);
            // A label that the gateway has proven is believed: what came last may have waited for long
            // where the link was away.
            let ahead = if config.names_proven { FARTHEST } else { credible } as u32;
            if !label.is_near(newest, MAX_BEHIND, ahead) {
                return Err(NodeError::Label { label, newest });
            }
        }
        self.first.get_or_insert(now);
        if self.came.back().is_none_or(|(newest, _)| newest.is_before(label)) {
            let after = self.came.back().map_or(Duration::ZERO, |(_, came)| now.since(*came));
            if self.came.len() >= MAX_LAG as usize {
                self.came.pop_front();
            }
            self.came.push_back((label, now));
            self.links.iter_mut().for_each(|link| link.leave(after, now, config));
        }
        let is_newest = self.came.back().is_some_and(|(newest, _)| *newest == label);
        let lag = self.lag_of(label, now).min(config.interval * MAX_LAG);
        let link = &mut self.links[link];
        // What comes again says nothing of where the link is.
        if link.reached.is_none_or(|reached| reached.is_before(label)) {
            link.reach(label, lag, now);
            link.behind = (!is_newest).then_some(now);
        }
        if packet.shows_label() && link.shown.is_none_or(|shown| shown.label.is_before(label)) {
            link.shown = Some(packet.name());
            link.least.learn(self.nominal.offset(label, config.interval, now), now);
        }
        Ok(())
    }

    /// For how long this label, or a later one, has been there.
    fn lag_of(&self, label: Label, now: Instant) -> Duration {
        let first = self.came.partition_point(|(before, _)| before.is_before(label));
        self.came.get(first).map_or(Duration::ZERO, |(_, came)| now.since(*came))
    }

    /// How much later labels come on a link than on the first one, at the least of late; `None` if
    /// none has come, or the link is gone.
    pub(super) fn least_lag(&self, link: usize, config: &NodeConfig) -> Option<Duration> {
        let (_, newest) = *self.came.back()?;
        let offset = |link: &Link| link.least.get().filter(|_| !link.is_gone_at(newest, config));
        let own = offset(self.links.get(link)?)?;
        let first = self.links.iter().filter_map(offset).min()?;
        Some(Duration::from_nanos(own.abs_diff(first)))
    }

    /// Something of use came on a link.
    pub(super) fn was_of_use(&mut self, link: usize, now: Instant) {
        if let Some(link) = self.links.get_mut(link) {
            link.heard = Some(now);
        }
    }

    /// The label that every link has come to, L of COTAG Algorithms 2 and 3; `None` while a link
    /// has shown nothing.
    pub(super) fn all_at(&self) -> Option<Label> {
        self.all_at_name().map(|name| name.label)
    }

    /// The name of the packet that has shown it.
    pub(super) fn all_at_name(&self) -> Option<Name> {
        let mut least: Option<Name> = None;
        for link in &self.links {
            let shown = link.shown?;
            if least.is_none_or(|least| shown.label.is_before(least.label)) {
                least = Some(shown);
            }
        }
        least
    }

    /// Until when links that have not come to `label` are waited for, if there was something to
    /// wait for since `begun`. A link that lags behind shows signs of life; one that has never been
    /// heard may lag as much as any, so it has that long from the first packet on.
    pub(super) fn silent_at(&self, label: Label, begun: Instant, config: &NodeConfig) -> Instant {
        let waited = self
            .links
            .iter()
            .filter(|link| link.shown.is_none_or(|shown| shown.label.is_before(label)));
        let until = waited.map(|link| {
            let Some(heard) = link.heard else {
                let longest = config.interval * MAX_LAG;
                return begun.max(self.first.map_or(begun, |first| first + longest))
                    + config.silence();
            };
            let lag = if link.is_gone_at(begun, config) { Duration::ZERO } else { link.lag };
            heard.max(begun) + config.silence() + lag
        });
        until.max().unwrap_or(begun)
    }

    /// Learns what became of a packet. Whether the node cannot find its way any more, as after a
    /// new start of the gateway: only absurd labels come, or for long only late ones.
    pub(super) fn is_lost(
        &mut self,
        taken: Result<(), NodeError>,
        now: Instant,
        config: &NodeConfig,
    ) -> bool {
        let after = match taken {
            Err(NodeError::Label { .. }) => config.silence(),
            Err(NodeError::Late(_)) => LOST.max(config.interval * MAX_LAG),
            Ok(()) | Err(NodeError::Full(_)) => {
                (self.useful, self.useless) = (Some(now), 0);
                return false;
            }
            Err(_) => return false,
        };
        self.useless = self.useless.saturating_add(1);
        self.useless >= MAX_USELESS && self.useful.is_some_and(|useful| now >= useful + after)
    }
}
