//! What is wrong with a neighbour or the network, told in the log: each kind once in a while, for
//! it may come with every packet.

use std::net::SocketAddr;
use std::time::Duration;

use weftline_core::Instant;

use crate::reach::Swallowed;
use crate::secure::Refused;

/// The time between two lines of one kind.
const PAUSE: Duration = Duration::from_secs(10);
/// A neighbour may be started a little later without a line about it.
const PATIENCE: Duration = Duration::from_secs(3);

/// When each kind was told last.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    other_key: Option<Instant>,
    stranger: Option<Instant>,
    flood: Option<Instant>,
    old: Option<Instant>,
    /// When it is due.
    no_answer: Option<Instant>,
    unreachable: Option<Instant>,
    too_long: Option<Instant>,
    swallowed: Option<Instant>,
    two_with_one_key: Option<Instant>,
}

/// Whether it is time to tell again.
fn due(told: &mut Option<Instant>, now: Instant) -> bool {
    let due = told.is_none_or(|told| now >= told + PAUSE);
    if due {
        *told = Some(now);
    }
    due
}

impl Complaints {
    pub(crate) fn refused(&mut self, refused: Refused, from: SocketAddr, now: Instant) {
        match refused {
            Refused::OtherKey if due(&mut self.other_key, now) => tracing::warn!(
                "{from} opens with another key than this node's: compare the key that is set for \
                 this node there with the one that `weftline cotag key` prints here"
            ),
            Refused::Stranger(key) if due(&mut self.stranger, now) => tracing::warn!(
                "{from} opens with a key that is not expected here; if it is yours, set it: {key}"
            ),
            Refused::Forged if due(&mut self.stranger, now) => tracing::warn!(
                "datagrams from {from} are forged or corrupted and are dropped (if no link comes \
                 up: --insecure-plaintext is set at one of both nodes only, or they are of different \
                 versions)"
            ),
            Refused::Old if due(&mut self.old, now) => tracing::warn!(
                "{from} opens with what was said before: somebody repeats it, or the neighbour's \
                 clock was set back while it was started anew; then start this node anew, too"
            ),
            Refused::Flood if due(&mut self.flood, now) => {
                tracing::warn!("more handshakes than are answered, the last from {from}");
            }
            _ => {}
        }
    }

    pub(crate) fn no_answer(&mut self, name: &str, to: SocketAddr, now: Instant) {
        if now < *self.no_answer.get_or_insert(now + PATIENCE) {
            return;
        }
        self.no_answer = Some(now + PAUSE);
        tracing::warn!(
            "link '{name}': no answer from {to}; is the node there running, is the address right, \
             does each have the other's key, and are both of the same version?"
        );
    }

    pub(crate) fn unreachable(&mut self, name: &str, to: SocketAddr, now: Instant) {
        if due(&mut self.unreachable, now) {
            tracing::warn!("link '{name}': the system has no way to {to}");
        }
    }

    pub(crate) fn too_long(&mut self, name: &str, length: usize, now: Instant) {
        if due(&mut self.too_long, now) {
            tracing::warn!(
                "link '{name}': datagrams of up to {length} bytes are too long for the way; set \
                 link-mtu at the gateway to the least MTU of all links"
            );
        }
    }

    pub(crate) fn swallowed(&mut self, name: &str, swallowed: &Swallowed, now: Instant) {
        if due(&mut self.swallowed, now) {
            let Swallowed { count, proven, longest } = swallowed;
            tracing::warn!(
                "link '{name}': none of {count} datagrams of more than {proven} bytes came to the other \
                 end, of up to {longest}: a link of the way has a smaller MTU and drops them; set \
                 link-mtu at the gateway to the least MTU of all links (ping -M do -s SIZE finds it)"
            );
        }
    }

    pub(crate) fn two_with_one_key(
        &mut self,
        name: &str,
        one: SocketAddr,
        other: SocketAddr,
        now: Instant,
    ) {
        if due(&mut self.two_with_one_key, now) {
            tracing::warn!(
                "link '{name}': {one} and {other} take turns: two nodes with one key? give each \
                 its own by weftline cotag key"
            );
        }
    }
}
