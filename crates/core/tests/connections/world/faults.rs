//! What breaks the world: links that are cut, go dark, are plugged in and out.

use super::*;

impl World<'_> {
    pub(super) fn fault(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Cut(link) => self.cut(link),
            Fault::HalfOpen(link) => {
                self.on_link(link).into_iter().for_each(|conn| self.lose(conn, CLIENT, false));
            }
            Fault::HalfOpenAtServer(link) => {
                self.on_link(link).into_iter().for_each(|conn| self.lose(conn, SERVER, false));
            }
            Fault::Dark(link, time) => self.darken(link, time),
            Fault::Flap(link, time, times) => {
                for n in 0..times {
                    self.due.insert((now + 2 * time * n, Due::Dark(link, time)));
                }
            }
            Fault::Delay(link, delay) => self.links[link].delay = delay,
            Fault::DelayAll(delay) => self.links.iter_mut().for_each(|link| link.delay = delay),
            Fault::Corrupt(link) => self.mark(link, |pipe| pipe.corrupt = true),
            Fault::Repeat(link) => self.mark(link, |pipe| pipe.repeat = true),
            Fault::Swap(link) => self.mark(link, |pipe| pipe.swap = true),
            Fault::Garble(link) => self.mark(link, |pipe| pipe.garble = true),
            Fault::Swallow(link) => self.mark(link, |pipe| pipe.swallows = true),
            Fault::Unplug(link, time) => {
                self.plug(link, false);
                self.due.insert((now + time, Due::Plug(link)));
            }
            Fault::NewAddress(link) => {
                self.on_link(link).into_iter().for_each(|conn| self.lose(conn, CLIENT, false));
                if let Some(client) = &mut self.client {
                    client.manager.handle_links_changed();
                }
            }
            Fault::StopReading(end, time) => {
                self.node(end).into_iter().for_each(|node| node.stopped_until = now + time);
            }
            Fault::ReadSlowly(end, time, most) => {
                self.node(end).into_iter().for_each(|node| node.read_slowly(now + time, most));
            }
            Fault::ShortOfMemory(end, time) => {
                self.node(end).into_iter().for_each(|node| node.limit_memory(Some(256 << 10), now));
                self.due.insert((now + time, Due::Memory(end)));
            }
            Fault::ServerRestart => {
                self.serves &= self.server.is_none();
                self.read[SERVER] = self.server.take().map_or(0, |server| server.read);
                let all: Vec<u64> = self.conns.keys().copied().collect();
                all.into_iter().for_each(|conn| self.close(conn, SERVER));
            }
            Fault::ClientEnds { told } => {
                let Some(client) = self.client.take() else { return };
                self.read[CLIENT] = client.node.read;
                for conn in self.conns.keys().copied().collect::<Vec<_>>() {
                    match told {
                        true => self.close(conn, CLIENT),
                        false => self.lose(conn, CLIENT, false),
                    }
                }
            }
            Fault::Drop(end) => self.node(end).into_iter().for_each(|node| node.leave(now)),
        }
    }

    /// The client's settings have the link from now on, or do not. They always have one, and change
    /// only while the connection is open.
    pub(super) fn plug(&mut self, link: usize, is_in: bool) {
        let (now, seed) = (self.now, self.plan.seed);
        let Some(client) = &mut self.client else { return };
        let is_last = client.plugged.iter().filter(|&&is_in| is_in).count() == 1;
        let is_open = client.node.life.was_open() && !client.node.life.is_over();
        if client.plugged[link] == is_in || (!is_in && (is_last || !is_open)) {
            return;
        }
        client.plugged[link] = is_in;
        client.manager.set_paths(paths(seed, &client.plugged), now);
    }

    pub(super) fn cut(&mut self, link: usize) {
        for conn in self.on_link(link) {
            // What is on its way is lost as well.
            if let Some(conn) = self.conns.get_mut(&conn) {
                conn.to.iter_mut().for_each(Pipe::lose_all);
            }
            self.close(conn, CLIENT);
            self.close(conn, SERVER);
        }
    }

    pub(super) fn on_link(&self, link: usize) -> Vec<u64> {
        let all = self.conns.iter().filter(|(_, conn)| conn.link == link);
        all.map(|(&id, _)| id).collect()
    }

    pub(super) fn mark(&mut self, link: usize, set: impl Fn(&mut Pipe)) {
        for conn in self.conns.values_mut().filter(|conn| conn.link == link) {
            conn.to.iter_mut().for_each(&set);
        }
    }

    pub(super) fn darken(&mut self, link: usize, time: Duration) {
        self.dark[link] = self.dark[link].max(self.now + time);
        self.due.insert((self.dark[link], Due::Light(link)));
    }

    /// What waited is sent again when the kernel's timer runs out.
    pub(super) fn light(&mut self, link: usize) {
        if self.dark[link] > self.now {
            return;
        }
        for id in self.on_link(link) {
            let after = Duration::from_millis(self.rng.below(1_500));
            for end in [CLIENT, SERVER] {
                self.due.insert((self.now + after, Due::Arrive(id, end)));
            }
        }
    }

    pub(super) fn is_dark(&self, link: usize) -> bool {
        self.dark[link] > self.now
    }
}
