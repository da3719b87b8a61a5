//! The server's end of all bonds: a thread between the device and the sockets that clients speak to.

mod heard;
mod session;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tun_rs::SyncDevice;
use weftline_core::Instant;
use weftline_core::limiter::PathLimiter;

use super::address::{destination_of, too_long};
use super::allowance::Allowances;
use super::client::LaneSession;
use super::dns::{self, Relay};
use super::handle::{Handle, Orders};
use super::keys::Header;
use super::socket::{Inbox, LaneSocket, Unsent};
use super::status::{BondStatus, Dropped, counters};
use super::whereabouts::Place;
use super::{role_of, tcp_lane_id};
use crate::poll::{Poller, Source};
use crate::tun::Tun;
use crate::{TunnelError, clock};
use heard::OverTcp;
use session::{Open, READS};

pub use session::Permit;

enum Command {
    Open(Arc<str>, Box<LaneSession>),
    Addresses(u32, Vec<IpAddr>),
    Limiters(u32, Vec<(u8, PathLimiter)>),
    OverTcp(u32, u8, LaneSocket),
    Close(u32),
    Status(Sender<Vec<BondStatus>>),
}

/// The server's end; it ends when this is dropped.
pub struct BondServer {
    handle: Handle<Command>,
}

impl std::fmt::Debug for BondServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BondServer").finish_non_exhaustive()
    }
}

impl BondServer {
    /// Starts the thread. It listens on `addresses` (UDP) and reads packets from `device`; `permit` says
    /// where clients may send to.
    ///
    /// # Errors
    /// When an address is taken, or the system has no descriptor or thread to give.
    pub fn start(
        device: Arc<SyncDevice>,
        name: &str,
        addresses: &[SocketAddr],
        permit: Permit,
    ) -> Result<Self, TunnelError> {
        let (handle, orders, mut poller) = Handle::new()?;
        let tun = Tun::adopt(device, name)?;
        let tun_source = poller.add(tun.as_fd())?;
        let mut sockets = Vec::new();
        for &address in addresses {
            let context = format!("listening on {address} (UDP)");
            // As for TCP there.
            let is_shared = |one: &SocketAddr| one.is_ipv4() && one.port() == address.port();
            let socket = LaneSocket::listen(address, addresses.iter().any(is_shared));
            let socket = socket.map_err(TunnelError::os(context))?;
            let source = poller.add(socket.as_fd())?;
            sockets.push((socket, source));
        }
        let mut work = Work {
            tun,
            tun_source,
            sockets,
            poller,
            dns: Relay::start(orders.wake.clone(), dns::system_resolvers)?,
            permit,
            orders,
            sessions: BTreeMap::new(),
            allowances: Allowances::default(),
            by_address: BTreeMap::new(),
            dropped: Dropped::default(),
            inbox: Inbox::new(),
        };
        Ok(Self { handle: handle.start(move || work.run())? })
    }

    /// Begins a session of a client, which has one at a time: one that it had before ends.
    pub fn open(&self, client: &str, session: LaneSession) {
        self.handle.tell(Command::Open(client.into(), Box::new(session)));
    }

    /// Whether it has ended by itself, and carries nothing any more: its device is gone.
    pub fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    /// A client's device has these addresses from now on: packets from others are dropped.
    pub fn set_addresses(&self, session: u32, addresses: Vec<IpAddr>) {
        self.handle.tell(Command::Addresses(session, addresses));
    }

    /// What a client's connections send over the links of these lanes goes through these limiters.
    pub fn set_limiters(&self, session: u32, limiters: Vec<(u8, PathLimiter)>) {
        self.handle.tell(Command::Limiters(session, limiters));
    }

    /// A lane over TCP that a client has opened in its session, in the place of one that it had: the descriptor of a
    /// socket of datagrams, which somebody is to pass on to the client and back. It ends when that is closed, and
    /// with the session.
    ///
    /// # Errors
    /// When it is no number of such a lane, or the system has no descriptor to give.
    pub fn open_over_tcp(&self, session: u32, lane: u8) -> Result<OwnedFd, TunnelError> {
        if role_of(lane).is_none_or(|role| lane != tcp_lane_id(role)) {
            return Err(TunnelError::Usage(format!("{lane} is no number of a lane over TCP")));
        }
        let pair = LaneSocket::over_tcp();
        let (socket, other) = pair.map_err(TunnelError::os("making a pair of sockets"))?;
        self.handle.tell(Command::OverTcp(session, lane, socket));
        Ok(other)
    }

    /// Ends a session.
    pub fn close(&self, session: u32) {
        self.handle.tell(Command::Close(session));
    }

    /// How each bond is, the last for what is of none; `None` if it does not say.
    pub fn status(&self) -> Option<Vec<BondStatus>> {
        self.handle.ask(Command::Status)
    }
}

struct Work {
    tun: Tun,
    tun_source: Source,
    sockets: Vec<(LaneSocket, Source)>,
    poller: Poller,
    dns: Relay,
    permit: Permit,
    orders: Orders<Command>,
    sessions: BTreeMap<u32, Open>,
    allowances: Allowances,
    by_address: BTreeMap<IpAddr, u32>,
    /// What is of no session.
    dropped: Dropped,
    inbox: Inbox,
}

impl Work {
    fn run(&mut self) {
        while self.orders.goes_on() {
            while let Some(command) = self.orders.next() {
                self.obey(command);
            }
            let now = clock::now();
            self.take_answers(now);
            if !self.read_device(now) {
                return;
            }
            self.read_sockets(now);
            self.transmit(now);
            self.tun.flush();
            let due = self.sessions.values().filter_map(|open| open.due).min();
            self.poller.wait(due.unwrap_or(now + Duration::from_secs(5)), true);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Open(client, session) => self.open(client, *session),
            Command::Addresses(number, addresses) => {
                self.by_address.retain(|_, owner| *owner != number);
                let Some(open) = self.sessions.get_mut(&number) else { return };
                for &address in &addresses {
                    self.by_address.insert(address, number);
                }
                open.session.addresses = addresses;
            }
            Command::Limiters(number, limiters) => {
                if let Some(open) = self.sessions.get_mut(&number) {
                    open.limiters = limiters.into_iter().collect();
                    open.set_limiters();
                }
            }
            Command::OverTcp(number, lane, socket) => {
                let Some(open) = self.sessions.get_mut(&number) else { return };
                match self.poller.add(socket.as_fd()) {
                    Ok(source) => {
                        open.take_over_tcp(OverTcp { lane, socket, source }, clock::now());
                    }
                    Err(error) => tracing::warn!("no lane over TCP: {error}"),
                }
            }
            Command::Close(number) => {
                if let Some(Open { client, allowance, .. }) = self.sessions.remove(&number) {
                    self.allowances.keep(client, allowance, clock::now());
                }
                self.by_address.retain(|_, owner| *owner != number);
            }
            Command::Status(answer) => {
                let rest = BondStatus {
                    counters: counters(Default::default(), Unsent::default(), self.dropped),
                    ..BondStatus::default()
                };
                let all = self.sessions.values().map(Open::status).chain([rest]).collect();
                let _ = answer.send(all);
            }
        }
    }

    fn open(&mut self, client: Arc<str>, session: LaneSession) {
        let before: Vec<_> =
            self.sessions.iter().filter(|(_, open)| open.client == client).collect();
        let before: Vec<_> = before.into_iter().map(|(number, _)| *number).collect();
        for number in before {
            self.obey(Command::Close(number));
        }
        let now = clock::now();
        let allowance = self.allowances.take(&client, now);
        let open = Open::new(client, session, allowance, now);
        self.sessions.insert(open.session.number, open);
    }

    fn take_answers(&mut self, now: Instant) {
        while let Ok(answer) = self.dns.answers.try_recv() {
            let Some(open) = self.sessions.get_mut(&answer.session) else { continue };
            open.asked = open.asked.saturating_sub(1);
            let most = open.bond.longest_packet(now);
            match answer.reply.and_then(|reply| reply.within(most)) {
                Some(packet) => {
                    open.bond.handle_packet(&packet, now);
                    open.is_due = true;
                }
                None => open.dropped.dns += 1,
            }
        }
    }

    /// Takes packets from the internet; whether the device is still there.
    fn read_device(&mut self, now: Instant) -> bool {
        if !self.poller.is_ready(self.tun_source) {
            return true;
        }
        let (sessions, by_address) = (&mut self.sessions, &self.by_address);
        let dropped = &mut self.dropped;
        let mut refusals = Vec::new();
        for _ in 0..READS {
            let more = self.tun.read(|packet| {
                let owner = destination_of(packet).and_then(|address| by_address.get(&address));
                match owner.and_then(|number| sessions.get_mut(number)) {
                    Some(open) => {
                        let most = open.bond.handle_packet(packet, now);
                        let told = most.and_then(|most| too_long(packet, most));
                        refusals.extend(told.filter(|_| open.allowance.errors.take(now)));
                        open.is_due = true;
                    }
                    None => dropped.unknown += 1,
                }
            });
            if !more {
                break;
            }
        }
        refusals.iter().for_each(|packet| self.tun.write(packet));
        match self.tun.check() {
            Ok(()) => true,
            Err(error) => {
                self.orders.note_end();
                tracing::error!("clients' UDP and ICMP go nowhere: {error}");
                false
            }
        }
    }

    fn read_sockets(&mut self, now: Instant) {
        for (socket, (listener, source)) in self.sockets.iter().enumerate() {
            if !self.poller.is_ready(*source) {
                continue;
            }
            for _ in 0..READS {
                let more = listener.read(&mut self.inbox, |datagram, way, ecn| {
                    let header = Header::decode(datagram);
                    let open = header
                        .and_then(|header| Some((header, self.sessions.get_mut(&header.session)?)));
                    let Some((header, open)) = open else {
                        self.dropped.unknown += 1;
                        return;
                    };
                    let place = Place { way, socket };
                    if let Some(packet) = open.take(header, (datagram, ecn), place, now) {
                        open.hand_out(&packet, (&mut self.tun, &self.dns, &self.permit), now);
                    }
                    open.hand_out_waiting((&mut self.tun, &self.dns, &self.permit), now);
                });
                if !more {
                    break;
                }
            }
        }
        for open in self.sessions.values_mut() {
            let is_ready = |one: &mut OverTcp| self.poller.is_ready(one.source);
            let Some(over_tcp) = open.over_tcp.take_if(is_ready) else { continue };
            let outside = (&mut self.tun, &self.dns, &self.permit);
            open.read_over_tcp(over_tcp, &mut self.inbox, outside, now);
        }
    }

    fn transmit(&mut self, now: Instant) {
        for open in self.sessions.values_mut() {
            if open.is_due || open.due.is_some_and(|due| due <= now) {
                open.bond.handle_timeout(now);
                open.hand_out_waiting((&mut self.tun, &self.dns, &self.permit), now);
                open.transmit(&self.sockets, now);
            }
        }
    }
}
