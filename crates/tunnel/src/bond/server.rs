//! The server's end of all bonds: a thread between the device and the sockets that clients speak to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tun_rs::SyncDevice;
use weftline_core::datagram::{Bond, Frame, LaneId, Look};
use weftline_core::limiter::PathLimiter;
use weftline_core::{Instant, Role};

use super::address::{Ends, destination_of, too_long};
use super::allowance::{Allowance, Allowances};
use super::client::LaneSession;
use super::dns::{self, Relay};
use super::end::{LaneEnd, take_mark};
use super::handle::{Handle, Orders};
use super::keys::{Direction, HEADER, Header, Refused, TAG};
use super::socket::{Inbox, LaneSocket, Unsent};
use super::status::{BondStatus, Dropped, NamedLane, counters, tell_held};
use super::whereabouts::{Place, Whereabouts};
use super::{bond_config, role_of};
use crate::poll::{Poller, Source};
use crate::tun::Tun;
use crate::{TunnelError, clock};

/// Reads of one device or socket in a row.
const READS: usize = 16;
const TCP: u8 = 6;
/// Bytes of a datagram that asks an address: a ping with a number of eight bytes.
const QUESTION: u64 = (HEADER + 1 + 8 + TAG) as u64;

/// Says whether a client may send to an address; a port of 0 is none.
pub type Permit = Box<dyn Fn(SocketAddr) -> bool + Send>;

enum Command {
    Open(Arc<str>, Box<LaneSession>),
    Addresses(u32, Vec<IpAddr>),
    Limiters(u32, Vec<(u8, PathLimiter)>),
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

    /// Ends a session.
    pub fn close(&self, session: u32) {
        self.handle.tell(Command::Close(session));
    }

    /// How each bond is, the last for what is of none; `None` if it does not say.
    pub fn status(&self) -> Option<Vec<BondStatus>> {
        self.handle.ask(Command::Status)
    }
}

/// A client's session.
struct Open {
    client: Arc<str>,
    session: LaneSession,
    bond: Bond,
    /// By the lane's number.
    ends: BTreeMap<u8, Heard>,
    /// Those of which nothing authentic has come yet. Keys are derived once for each of the numbers there
    /// are, whatever strangers send.
    strange: BTreeMap<u8, Heard>,
    /// Numbers of lanes that others have taken the places of. Their keys are forgotten, and what has come
    /// under these with them, so that nothing of theirs is taken any more.
    former: BTreeSet<u8>,
    /// By the lane's number: what the client's connections send over the same link goes through.
    limiters: BTreeMap<u8, PathLimiter>,
    /// Questions to DNS that have no answer yet.
    asked: usize,
    allowance: Allowance,
    dropped: Dropped,
    unsent: Unsent,
    /// Whether something has come for it, or is to be sent.
    is_due: bool,
    due: Option<Instant>,
}

/// A lane, and where its client is.
struct Heard {
    end: LaneEnd,
    whereabouts: Whereabouts,
    /// The socket by which what is gathered leaves.
    socket: usize,
}

/// A server's sockets, and what tells when something can be read.
type Sockets = [(LaneSocket, Source)];

impl Heard {
    fn new(end: LaneEnd) -> Self {
        Self { end, whereabouts: Whereabouts::default(), socket: 0 }
    }

    /// Queues a frame to be sent, if it may be; whether the link is there.
    fn send(
        &mut self,
        sockets: &Sockets,
        (datagram, frame): ((u64, bool), &[u8]),
        dropped: &mut Dropped,
    ) -> bool {
        let Some(place) = self.whereabouts.take((HEADER + frame.len() + TAG) as u64) else {
            dropped.unproven += 1;
            return true;
        };
        self.send_to(place, sockets, (datagram, frame))
    }

    fn send_to(
        &mut self,
        place: Place,
        sockets: &Sockets,
        (datagram, frame): ((u64, bool), &[u8]),
    ) -> bool {
        let is_there = place.socket == self.socket || self.flush(sockets);
        self.socket = place.socket;
        self.end.way = Some(place.way);
        self.end.send(&sockets[place.socket].0, datagram, frame) && is_there
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.whereabouts.place().map(|place| place.way.peer)
    }

    /// Sends what is gathered; whether the link is there.
    fn flush(&mut self, sockets: &Sockets) -> bool {
        self.end.batches.flush(&sockets[self.socket].0)
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

/// Where clients' packets go, and what says whether they may.
type Outside<'a> = (&'a mut Tun, &'a Relay, &'a Permit);

/// What becomes of a client's packet.
enum Verdict {
    Pass,
    /// It is a question to DNS.
    Ask,
    Drop,
}

impl Open {
    fn new(client: Arc<str>, session: LaneSession, allowance: Allowance, now: Instant) -> Self {
        Self {
            client,
            bond: Bond::new(bond_config(false), now),
            ends: BTreeMap::new(),
            strange: BTreeMap::new(),
            former: BTreeSet::new(),
            limiters: BTreeMap::new(),
            asked: 0,
            allowance,
            dropped: Dropped::default(),
            unsent: Unsent::default(),
            is_due: false,
            due: None,
            session,
        }
    }

    /// Takes a datagram; the packet in it, if it has not come yet.
    fn take(
        &mut self,
        header: Header,
        (datagram, ecn): (&mut [u8], u8),
        place: Place,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let role = role_of(header.lane)?;
        if self.former.contains(&header.lane) {
            self.dropped.unknown += 1;
            return None;
        }
        let LaneSession { number, secret, .. } = &self.session;
        let (heard, is_strange) = match self.ends.get_mut(&header.lane) {
            Some(heard) => (heard, false),
            None => {
                let keys = || LaneEnd::new(*number, secret, header.lane, Direction::FromServer);
                let heard = self.strange.entry(header.lane);
                (heard.or_insert_with(|| Heard::new(keys())), true)
            }
        };
        let bytes = datagram.len() as u64;
        let frame = match heard.end.open(header, datagram) {
            Ok((frame, is_newest)) => {
                if is_newest {
                    heard.whereabouts.note_newest(place, bytes);
                }
                frame
            }
            Err(Refused::Forged) => {
                self.dropped.forged += 1;
                return None;
            }
            Err(Refused::Replayed) => {
                self.dropped.replayed += 1;
                return None;
            }
        };
        if let Ok(Frame::Pong { id }) = Frame::decode(frame) {
            heard.whereabouts.handle_answer(id);
        }
        self.is_due = true;
        if is_strange {
            self.admit(header.lane, role, now);
        }
        let lane = LaneId(header.lane);
        if !take_mark(frame, ecn) {
            self.bond.handle_dropped(lane, header.sequence, now);
            self.dropped.marked += 1;
            return None;
        }
        let packet = self.bond.handle_frame(lane, header.sequence, frame, now);
        packet.ok().flatten().map(<[u8]>::to_vec)
    }

    /// Takes a lane in of which something authentic has come. There is one for each place: one that has
    /// changed its role takes the place of what it was.
    fn admit(&mut self, lane: u8, role: Role, now: Instant) {
        let other = self.ends.keys().copied().find(|&other| other & 7 == lane & 7);
        if let Some(other) = other {
            self.bond.remove_lane(LaneId(other), now);
            self.former.insert(other);
            self.unsent += self.ends.remove(&other).expect("it was found").end.batches.unsent;
        }
        self.bond.add_lane(LaneId(lane), role, now);
        let heard = self.strange.remove(&lane).expect("it was opened with its keys");
        self.ends.insert(lane, heard);
        self.set_limiters();
    }

    /// Each lane has the limiter that was named for it, or none.
    fn set_limiters(&mut self) {
        for &lane in self.ends.keys() {
            let limiter = self.limiters.get(&lane).cloned();
            self.bond.set_limiter(LaneId(lane), limiter);
        }
    }

    /// Sends a client's packet on, if it may.
    fn hand_out(&mut self, packet: &[u8], (tun, dns, permit): Outside<'_>, now: Instant) {
        match self.judge(packet, permit, now) {
            Verdict::Pass => tun.write(packet),
            Verdict::Ask
                if self.asked < dns::MOST_OF_ONE
                    && dns.ask(&self.client, self.session.number, packet) =>
            {
                self.asked += 1;
            }
            Verdict::Ask => self.dropped.dns += 1,
            Verdict::Drop => {}
        }
    }

    /// The same of packets that have waited for others before them.
    fn hand_out_waiting(&mut self, (tun, dns, permit): Outside<'_>, now: Instant) {
        while let Some(packet) = self.bond.poll_packet() {
            self.hand_out(&packet, (&mut *tun, dns, permit), now);
        }
    }

    /// Whether a packet may go on.
    fn judge(&mut self, packet: &[u8], permit: &Permit, now: Instant) -> Verdict {
        let (Some(ends), Some(look)) = (Ends::of(packet), Look::at(packet)) else {
            self.dropped.wrong_address += 1;
            return Verdict::Drop;
        };
        let dropped = match ends {
            _ if !self.session.addresses.contains(&ends.from.ip()) => {
                &mut self.dropped.wrong_address
            }
            _ if ends.protocol == TCP => &mut self.dropped.tcp,
            // Of other protocols nobody could tell how many flows they have.
            _ if !ends.is_counted() => &mut self.dropped.closed,
            _ if ends.is_udp_to(dns::PORT) => return Verdict::Ask,
            _ if !permit(ends.to) => &mut self.dropped.closed,
            _ if !self.allowance.guard.admit(look.flow, now) => &mut self.dropped.flows,
            _ => return Verdict::Pass,
        };
        *dropped += 1;
        Verdict::Drop
    }

    fn transmit(&mut self, sockets: &Sockets, now: Instant) {
        self.ask_addresses(sockets, now);
        let mut frame = Vec::new();
        while let Some(transmit) = self.bond.poll_transmit(now, &mut frame) {
            let heard = self.ends.get_mut(&transmit.lane.0).expect("each lane has one");
            let datagram = (transmit.sequence, transmit.is_carried);
            if !heard.send(sockets, (datagram, &frame), &mut self.dropped) {
                self.bond.handle_unsent(transmit.lane, now);
            }
            frame.clear();
        }
        for (&lane, heard) in &mut self.ends {
            if !heard.flush(sockets) {
                self.bond.handle_unsent(LaneId(lane), now);
            }
        }
        while let Some((lane, status)) = self.bond.poll_held() {
            tell_held(&format!("client '{}', lane {}", self.client, lane.0 & 7), &status);
        }
        self.is_due = false;
        self.due = self.bond.poll_timeout();
    }

    /// Asks addresses that clients were heard from lately, and nobody knows to be theirs.
    fn ask_addresses(&mut self, sockets: &Sockets, now: Instant) {
        for (&lane, heard) in &mut self.ends {
            while let Some((place, id)) = heard.whereabouts.ask(QUESTION, now) {
                let sequence = self.bond.take_sequence(LaneId(lane)).expect("each end has a lane");
                let mut frame = Vec::new();
                Frame::Ping { id, padding: 0 }.encode(&mut frame);
                // Whether it can be sent there says nothing of where the lane is.
                heard.send_to(place, sockets, ((sequence, true), &frame));
                heard.flush(sockets);
            }
        }
    }

    fn status(&self) -> BondStatus {
        let ends = self.ends.values();
        let unsent = ends.fold(self.unsent, |sum, heard| sum + heard.end.batches.unsent);
        let named = |status: weftline_core::datagram::LaneStatus| NamedLane {
            name: format!("lane {}", status.lane.0 & 7),
            peer: self.ends.get(&status.lane.0).and_then(Heard::peer),
            status,
        };
        BondStatus {
            client: Some(self.client.to_string()),
            lanes: self.bond.lanes().into_iter().map(named).collect(),
            counters: counters(self.bond.counters(), unsent, self.dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::net::UdpSocket;

    use weftline_core::datagram;

    use super::super::keys::{LaneSecret, Opener, SECRET_BYTES, Sealer};
    use super::*;
    use crate::class::Class;
    use crate::way::Way;

    fn sealed(secret: &LaneSecret, lane: u8, sequence: u64, frame: &Frame<'_>) -> Vec<u8> {
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        frame.encode(&mut bytes);
        Sealer::new(9, secret, lane, Direction::FromClient).seal(sequence, &bytes, &mut datagram);
        datagram
    }

    fn datagram(secret: &LaneSecret, lane: u8, sequence: u64) -> Vec<u8> {
        sealed(secret, lane, sequence, &Frame::Pong { id: 0 })
    }

    fn open_with(secret: &LaneSecret) -> Open {
        let secret = secret.clone();
        let session = LaneSession { number: 9, secret, addresses: Vec::new(), has_ipv6: false };
        Open::new("ann".into(), session, Allowance::default(), Instant::ZERO)
    }

    /// A program at an address, which reads what the server sends there.
    struct Machine {
        socket: UdpSocket,
        place: Place,
    }

    impl Machine {
        fn new() -> Self {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            let way = Way { peer: socket.local_addr().unwrap(), own: None };
            Self { socket, place: Place { way, socket: 0 } }
        }

        /// What has come, opened by the client's keys if they fit, once there is enough: a busy kernel may
        /// bring it later.
        fn came(
            &self,
            opener: &mut Opener,
            enough: impl Fn(&Vec<Vec<u8>>) -> bool,
        ) -> Vec<Vec<u8>> {
            let (mut buffer, mut came) = ([0; 2048], Vec::new());
            let begun = std::time::Instant::now();
            loop {
                let Ok(length) = self.socket.recv(&mut buffer) else {
                    if enough(&came) || begun.elapsed().as_secs() >= 400 {
                        return came;
                    }
                    continue;
                };
                let datagram = &mut buffer[..length].to_vec();
                let header = Header::decode(datagram).unwrap();
                came.push(opener.open(header, datagram).unwrap().0.to_vec());
            }
        }
    }

    /// The number of the last ping among frames.
    fn asked(frames: &[Vec<u8>]) -> Option<u64> {
        let pings = frames.iter().filter_map(|frame| match Frame::decode(frame) {
            Ok(Frame::Ping { id, .. }) => Some(id),
            _ => None,
        });
        pings.max()
    }

    /// Datagrams that somebody sends on from another address, faster than they come by themselves.
    #[test]
    fn a_lane_follows_no_address_that_does_not_answer() {
        let secret = LaneSecret::new([7; SECRET_BYTES]);
        let mut open = open_with(&secret);
        let mut opener = Opener::new(&secret, 1, Direction::FromServer);
        let mut poller = Poller::new(&crate::poll::Stop::new().unwrap()).unwrap();
        let socket = LaneSocket::listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let source = poller.add(socket.as_fd()).unwrap();
        let sockets = [(socket, source)];
        let [client, victim] = [(); 2].map(|()| Machine::new());
        let mut sequence = 0;
        let mut hear = |open: &mut Open, from: &Machine, frame: &Frame<'_>, now| {
            let mut datagram = sealed(&secret, 1, sequence, frame);
            let header = Header::decode(&datagram).unwrap();
            open.take(header, (&mut datagram, 0), from.place, now);
            sequence += 1;
            open.transmit(&sockets, now);
        };
        let at = Instant::from_millis;
        hear(&mut open, &client, &Frame::Ping { id: 0, padding: 64 }, at(0));
        // What is for the client goes there in part only, until it has answered.
        // The first packets of a flow, which wait for nothing.
        let send = |open: &mut Open, flow: u8, now| {
            let mut packet = [0; 1400];
            (packet[0], packet[19]) = (0x45, flow);
            (0..16).for_each(|_| _ = open.bond.handle_packet(&packet, now));
        };
        send(&mut open, 1, at(1));
        open.transmit(&sockets, at(1));
        let frames = client.came(&mut opener, |came| asked(came).is_some());
        assert!(frames.iter().map(Vec::len).sum::<usize>() < 300, "{frames:?}");
        assert!(open.dropped.unproven > 0);
        hear(&mut open, &client, &Frame::Pong { id: asked(&frames).unwrap() }, at(2));
        hear(&mut open, &victim, &Frame::Ping { id: 1, padding: 0 }, at(3));
        send(&mut open, 2, at(4));
        open.transmit(&sockets, at(4));
        let frames = victim.came(&mut opener, |came| !came.is_empty());
        let [only] = &frames[..] else { panic!("one question: {frames:?}") };
        assert!(only.len() < 20);
        assert!(client.came(&mut opener, |came| came.len() > 10).len() > 10);
        // Had it been the client, it would have answered.
        hear(&mut open, &victim, &Frame::Pong { id: asked(&frames).unwrap() }, at(5));
        send(&mut open, 3, at(6));
        open.transmit(&sockets, at(6));
        assert!(victim.came(&mut opener, |came| came.len() > 10).len() > 10);
        assert_eq!(open.ends[&1].peer(), Some(victim.place.way.peer));
    }

    /// What a router marks on the way is told to the ends of the flow, in a header whose checksum is right.
    #[test]
    fn a_mark_comes_out_of_the_lane_with_the_packet_and_goes_in_with_it() {
        let secret = LaneSecret::new([7; SECRET_BYTES]);
        let mut open = open_with(&secret);
        let client = Machine::new();
        let ends = ("10.87.0.2:4000".parse().unwrap(), "198.51.100.9:4000".parse().unwrap());
        let packet = |ecn: u8| {
            let mut packet =
                crate::bond::address::udp_packet(ends.0, ends.1, b"a question").unwrap();
            Class(0xb8 | ecn).put(&mut packet);
            packet
        };
        let at = Instant::from_millis;
        let mut sequence = 0;
        let mut hear = |open: &mut Open, inner: u8, outer: u8| {
            let (number, packet) = (sequence, packet(inner));
            let frame = Frame::Data { number, class: datagram::Class::Urgent, packet: &packet };
            let mut datagram = sealed(&secret, 1, sequence, &frame);
            sequence += 1;
            let header = Header::decode(&datagram).unwrap();
            open.take(header, (&mut datagram, outer), client.place, at(0))
        };
        for (inner, outer, expected) in [(2, 3, 3), (1, 3, 3), (2, 2, 2), (2, 0, 2), (0, 2, 0)] {
            assert_eq!(hear(&mut open, inner, outer), Some(packet(expected)), "{inner} {outer}");
        }
        assert_eq!((hear(&mut open, 0, 3), open.dropped.marked), (None, 1));
        // The client is told of all six, so none counts as lost.
        let mut told = Vec::new();
        open.bond.poll_transmit(at(50), &mut told).unwrap();
        let Ok(Frame::Feedback(told)) = Frame::decode(&told) else { panic!("{told:?}") };
        assert_eq!(told.ranges, vec![0..6]);
    }

    #[test]
    fn strangers_get_no_lane_and_keys_are_derived_once_for_each_number() {
        let [secret, other] = [7, 8].map(|byte| LaneSecret::new([byte; SECRET_BYTES]));
        let mut open = open_with(&secret);
        let way = Way { peer: "192.0.2.1:5".parse().unwrap(), own: None };
        let place = Place { way, socket: 0 };
        let take = |open: &mut Open, mut datagram: Vec<u8>| {
            let header = Header::decode(&datagram).unwrap();
            open.take(header, (&mut datagram, 0), place, Instant::ZERO)
        };
        for sequence in 0..3 {
            for lane in 0..=255 {
                assert_eq!(take(&mut open, datagram(&other, lane, sequence)), None);
            }
        }
        let counts = |open: &Open| (open.ends.len(), open.strange.len(), open.bond.lanes().len());
        assert_eq!((counts(&open), open.dropped.forged), ((0, 32, 0), 96));
        // The client itself is heard under the same numbers.
        take(&mut open, datagram(&secret, 1, 0));
        assert_eq!((counts(&open), open.ends[&1].peer()), ((1, 31, 1), Some(way.peer)));
        take(&mut open, datagram(&secret, 9, 0));
        assert_eq!(counts(&open), (1, 30, 1), "the same place, metered");
        take(&mut open, datagram(&secret, 1, 1));
        assert_eq!((counts(&open), open.dropped.unknown), ((1, 30, 1), 1));
    }
}
