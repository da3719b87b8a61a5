//! The client's attempts: what the path manager asks for, and what becomes of it.

use super::*;

impl World<'_> {
    pub(super) fn greeted(&mut self, conn: u64, subflow: SubflowId, is_hello: bool) {
        let (now, plan) = (self.now, self.plan);
        let Some(path) = self.conns.get(&conn).map(|conn| PathId(conn.link as u64)) else { return };
        if is_hello && self.server.is_none() && self.serves {
            let mut server = Node::new(plan, SERVER, now);
            server.life.accepted(now);
            self.server = Some(server);
        }
        let Some(server) = self.server.as_mut().filter(|server| server.life.takes_subflow()) else {
            self.say(conn, SERVER, Packet::Refused);
            return self.close(conn, SERVER);
        };
        if server.subs.iter().any(|(&newer, sub)| sub.path == path && newer > subflow) {
            self.say(conn, SERVER, Packet::Refused);
            return self.close(conn, SERVER);
        }
        // The client has replaced an older one.
        let older = server.subs.values().filter(|sub| sub.path == path).map(|sub| sub.conn);
        let older: Vec<u64> = older.collect();
        server.attach(subflow, path, conn, now);
        older.into_iter().for_each(|older| self.close(older, SERVER));
        self.say(conn, SERVER, Packet::Welcome);
    }

    // ---- the client's path manager ----

    pub(super) fn connected(&mut self, connecting: ConnectingId) {
        let now = self.now;
        let Some(client) = &mut self.client else { return };
        let Some(found) = client.connecting.get(&connecting) else { return };
        let link = found.path.0 as usize;
        // A SYN that the dark swallows is not sent again before the dial is given up.
        if self.dark[link] <= now {
            client.manager.handle_connected(connecting, 2 * self.links[link].delay, now);
        }
    }

    /// The server has answered a step of an attempt.
    pub(super) fn answered(&mut self, conn: u64, packet: &Packet) {
        let now = self.now;
        let Some(client) = &mut self.client else { return };
        let found = client.connecting.iter().find(|(_, connecting)| connecting.conn == conn);
        let Some((&id, &connecting)) = found else { return };
        match packet {
            Packet::Secured => client.manager.handle_secured(id, now),
            Packet::Welcome => {
                client.connecting.remove(&id);
                self.was_opened = true;
                client.node.life.accepted(now);
                if let Some(subflow) = connecting.subflow
                    && !client.node.subs.contains_key(&subflow)
                {
                    if !client.node.life.takes_subflow() {
                        client.manager.handle_failed(id, Failure::Temporary, now);
                        return self.close(conn, CLIENT);
                    }
                    client.node.attach(subflow, connecting.path, conn, now);
                }
                client.manager.handle_up(id, now);
            }
            _ => {
                client.connecting.remove(&id);
                if let Some(subflow) = connecting.subflow {
                    client.node.detach(subflow, false, now);
                }
                client.manager.handle_failed(id, Failure::Permanent, now);
                // A server that does not know the connection any more will not know it later.
                if client.node.life.was_open() && client.node.subs.is_empty() {
                    let (node, reason) = (&mut client.node, "the server has forgotten it");
                    node.life.forgotten();
                    node.life.fail(RESET_ABANDONED, reason, &mut node.session, now);
                }
                self.close(conn, CLIENT);
            }
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        let now = self.now;
        let Some(client) = &mut self.client else { return };
        match action {
            Action::Dial { connecting, path, .. } => {
                let (conn, link) = (self.next_conn, path.0 as usize);
                self.next_conn += 1;
                client.connecting.insert(connecting, Connecting { conn, path, subflow: None });
                self.conns.insert(conn, Conn::new(link));
                let rtt = 2 * self.links[link].delay;
                if !self.is_dark(link) {
                    self.due.insert((now + rtt, Due::Connected(connecting)));
                }
            }
            Action::Secure(connecting) => {
                let conn = client.connecting.get(&connecting).map(|connecting| connecting.conn);
                conn.into_iter().for_each(|conn| self.say(conn, CLIENT, Packet::Secure));
            }
            Action::Hello(connecting, subflow) => {
                let Some(found) = client.connecting.get_mut(&connecting) else { return };
                found.subflow = Some(subflow);
                let Connecting { conn, path, .. } = *found;
                client.has_begun = true;
                client.node.attach(subflow, path, conn, now);
                self.say(conn, CLIENT, Packet::Hello(subflow));
            }
            Action::Join(connecting, subflow) => {
                let Some(found) = client.connecting.get_mut(&connecting) else { return };
                found.subflow = Some(subflow);
                let conn = found.conn;
                self.say(conn, CLIENT, Packet::Join(subflow));
            }
            Action::Abandon(connecting) | Action::TimeOut(connecting, _) => {
                let Some(connecting) = client.connecting.remove(&connecting) else { return };
                self.close(connecting.conn, CLIENT);
            }
            Action::Look(subflow) => self.look(subflow),
            Action::Rest(subflow) => {
                let sub = client.node.subs.get_mut(&subflow);
                sub.into_iter().for_each(|sub| sub.rests = true);
                self.look(subflow);
            }
            Action::Probe(subflow) => client.node.session.probe(subflow, now),
            Action::Replace(subflow) => {
                let conn = client.node.subs.get(&subflow).map(|sub| sub.conn);
                conn.into_iter().for_each(|conn| self.close(conn, CLIENT));
            }
            Action::GiveUp => {
                client.gave_up = true;
                if client.has_begun {
                    let node = &mut client.node;
                    node.life.fail(RESET_ABANDONED, "gave up", &mut node.session, now);
                }
            }
            Action::Carried(path) => {
                let node = &client.node;
                let of_path = node.subs.values().filter(|sub| sub.path == path).count();
                let stats = node.session.stats();
                let stats = stats.paths.get(&path).filter(|_| of_path > 0);
                let carried = stats.map(|stats| Carried {
                    outstanding: stats.subflow.as_ref().map_or(0, |subflow| subflow.outstanding),
                    received: stats.received,
                    is_spare: node.subs.len() > of_path,
                });
                client.manager.handle_carried(path, carried, now);
            }
            Action::ClosePath(path) => {
                let subs = client.node.subs.values().filter(|sub| sub.path == path);
                let conns: Vec<u64> = subs.map(|sub| sub.conn).collect();
                conns.into_iter().for_each(|conn| self.close(conn, CLIENT));
            }
            Action::PotentiallyFailed(..) | Action::Recovered(_) => {}
        }
    }
}
