//! How a connection ended, and whether that is as it should be.

use super::*;

impl World<'_> {
    pub(super) fn report(&self) -> String {
        let node = |node: &Node| {
            let stats = node.session.stats();
            format!(
                "end {}: {:?}, {} subflows, read {}, acknowledged {}, held {}, {:?}",
                node.which,
                node.life.phase(),
                node.subs.len(),
                node.read,
                stats.acknowledged,
                node.session.send_held(),
                node.ending
            )
        };
        let client = self
            .client
            .as_ref()
            .map(|client| format!("{}; {} attempts", node(&client.node), client.connecting.len()));
        format!("{client:?} {:?}; {} sockets", self.server.as_ref().map(node), self.conns.len())
    }

    /// Neither memory nor the number of sockets grows.
    pub(super) fn check_bounds(&self) -> Result<(), Wrong> {
        let client = self.client.as_ref().map(|client| &client.node);
        client.into_iter().chain(&self.server).try_for_each(Node::check_memory)?;
        let most = MOST_CONNS * self.links.len();
        let subflows = self.server.as_ref().map_or(0, |server| server.subs.len());
        let sockets = self.conns.values().filter(|conn| conn.open[CLIENT]).count();
        let connecting = self.client.as_ref().map_or(0, |client| client.connecting.len());
        if subflows.max(sockets).max(connecting) <= most {
            return Ok(());
        }
        let text = format!("{subflows} subflows at {}: {}", self.now, self.report());
        Err(Wrong::Grows(text))
    }

    pub(super) fn verdict(&mut self) -> Result<Outcome, Wrong> {
        // What has come may be read when the connection is over.
        for end in [CLIENT, SERVER] {
            let now = self.now;
            if let Some(node) = self.node(end) {
                node.read_the_rest();
                node.turn(now)?;
            }
        }
        self.check_bounds()?;
        if self.plan.is_garbled() {
            return Ok(Outcome::Garbled);
        }
        let client = self.client.as_ref().map(|client| &client.node);
        let nodes = [client, self.server.as_ref()];
        for (end, node) in nodes.into_iter().enumerate() {
            let Some(node) = node else { continue };
            let peer = nodes[1 - end];
            let peer_has = peer.map_or(self.read[1 - end], Node::in_order);
            if let Some((delivered, received)) = node.told()
                && (received != node.in_order() || (peer.is_some() && delivered > peer_has))
            {
                return Err(Wrong::Untrue(self.report()));
            }
            let closed = node.ending == Some(Ending::Closed);
            let all_there = peer.is_none_or(Node::read_to_end) && node.read_to_end();
            let left = self.plan.faults.iter().any(|(_, fault)| matches!(fault, Fault::Drop(_)));
            if closed && !all_there && !left {
                return Err(Wrong::Bytes(format!("closed without all: {}", self.report())));
            }
        }
        let closed = |node: Option<&Node>| node.is_some_and(|n| n.ending == Some(Ending::Closed));
        let ends = nodes.map(closed);
        let outcome = match ends {
            [true, true] => Outcome::Closed,
            [false, false] if !self.was_opened => Outcome::Unopened,
            [false, false] => Outcome::Failed,
            _ => Outcome::Half,
        };
        let is_for_nothing = match outcome {
            Outcome::Closed => false,
            Outcome::Unopened => self.plan.must_open(),
            _ => self.plan.is_survivable(),
        };
        if is_for_nothing {
            return Err(Wrong::ForNothing(self.report()));
        }
        Ok(outcome)
    }
}
