//! The kernel's connections: what is said, arrives, is closed and lost.

use super::*;

impl World<'_> {
    pub(super) fn say(&mut self, id: u64, end: usize, packet: Packet) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let plan = &self.links[conn.link];
        let at = conn.say(end, packet, plan, self.now);
        self.due.insert((at, Due::Arrive(id, 1 - end)));
    }

    /// An end closes the connection; the other is told, if anything comes through.
    pub(super) fn close(&mut self, id: u64, end: usize) {
        if self.conns.get(&id).is_some_and(|conn| conn.open[end]) {
            self.say(id, end, Packet::Reset);
        }
        self.lose(id, end, false);
    }

    /// An end has said all on the connection, and waits for the other to do so.
    pub(super) fn shut_down(&mut self, id: u64, end: usize) {
        let Some(waits) = self.node(end).map(|node| node.life.close_time()) else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if std::mem::replace(&mut conn.is_shut[end], true) {
            return;
        }
        let was_heard = conn.heard_end[end];
        self.say(id, end, Packet::End);
        match was_heard {
            true => self.lose(id, end, true),
            false => _ = self.due.insert((self.now + waits, Due::Overdue(id, end))),
        }
    }

    /// The other end has said all. One that has not, and is not over, closes.
    pub(super) fn ended(&mut self, id: u64, end: usize) {
        let is_over = self.node(end).is_some_and(|node| node.life.is_over());
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.heard_end[end] = true;
        match (conn.is_shut[end], is_over) {
            (true, _) => self.lose(id, end, true),
            (false, true) => {}
            (false, false) => self.close(id, end),
        }
    }

    /// An end does not have the connection any more, whoever knows; `answered` if both have said all.
    pub(super) fn lose(&mut self, id: u64, end: usize, answered: bool) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if !std::mem::replace(&mut conn.open[end], false) {
            return;
        }
        self.forget(id, end, answered);
        self.reap(id);
    }

    /// Whoever has a subflow or an attempt on the connection at that end loses it.
    pub(super) fn forget(&mut self, id: u64, end: usize, answered: bool) {
        let now = self.now;
        if let Some(node) = self.node(end) {
            let found = node.subs.iter().find(|(_, sub)| sub.conn == id).map(|(&sub, _)| sub);
            if let Some(subflow) = found {
                node.detach(subflow, answered, now);
                if let Some(client) = self.client.as_mut().filter(|_| end == CLIENT) {
                    client.manager.handle_down(subflow, now);
                }
            }
        }
        if end == CLIENT {
            self.forget_connecting(id);
        }
    }

    pub(super) fn forget_connecting(&mut self, conn: u64) {
        let now = self.now;
        let Some(client) = &mut self.client else { return };
        let found = client.connecting.iter().find(|(_, connecting)| connecting.conn == conn);
        if let Some(connecting) = found.map(|(&connecting, _)| connecting) {
            client.connecting.remove(&connecting);
            client.manager.handle_failed(connecting, Failure::Temporary, now);
        }
    }

    pub(super) fn arrive(&mut self, id: u64, end: usize) {
        while let Some(conn) =
            self.conns.get_mut(&id).filter(|conn| self.dark[conn.link] <= self.now)
        {
            let Some(packet) = conn.arrive(end, self.now) else {
                let next = conn.to[end].queue.front().map(|(at, _)| *at);
                self.due.extend(next.map(|at| (at, Due::Arrive(id, end))));
                break;
            };
            if conn.to[end].swallows {
                self.note_room(id, 1 - end);
                continue;
            }
            let corrupt =
                matches!(packet, Packet::Records(_)) && std::mem::take(&mut conn.to[end].corrupt);
            // There is room in the socket again.
            self.note_room(id, 1 - end);
            if corrupt {
                self.close(id, end);
            } else if self.conns.get(&id).is_some_and(|conn| conn.open[end]) {
                self.take(id, end, packet);
            } else if !matches!(packet, Packet::Reset) {
                // The kernel knows no such connection.
                self.say(id, end, Packet::Reset);
            }
        }
        self.reap(id);
    }

    /// Forgets a connection that neither end has and on which nothing is on its way.
    pub(super) fn reap(&mut self, id: u64) {
        let is_over = |conn: &Conn| {
            conn.open == [false; 2] && conn.to.iter().all(|pipe| pipe.queue.is_empty())
        };
        if self.conns.get(&id).is_some_and(is_over) {
            self.conns.remove(&id);
        }
    }

    pub(super) fn note_room(&mut self, conn: u64, end: usize) {
        if let Some(node) = self.node(end) {
            let found = node.subs.iter().find(|(_, sub)| sub.conn == conn).map(|(&id, _)| id);
            node.ready.extend(found);
        }
    }

    pub(super) fn take(&mut self, id: u64, end: usize, packet: Packet) {
        let now = self.now;
        match packet {
            Packet::Secure => self.say(id, SERVER, Packet::Secured),
            Packet::Hello(subflow) => self.greeted(id, subflow, true),
            Packet::Join(subflow) => self.greeted(id, subflow, false),
            Packet::Records(records) => {
                let Some(node) = self.node(end) else { return };
                let found = node.subs.iter().find(|(_, sub)| sub.conn == id).map(|(&id, _)| id);
                if let Some(subflow) = found {
                    node.take(subflow, &records, now);
                }
            }
            Packet::End => self.ended(id, end),
            Packet::Reset => self.lose(id, end, false),
            Packet::Secured | Packet::Welcome | Packet::Refused => self.answered(id, &packet),
        }
    }
}
