//! The server's end of all bonds: a thread between the device and the sockets that clients speak to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tun_rs::SyncDevice;
use weftline_core::Instant;
use weftline_core::datagram::{Bond, BondConfig, FlowGuard, LaneId, Look};

use super::address::{Ends, destination_of};
use super::client::LaneSession;
use super::dns::{self, Relay};
use super::end::LaneEnd;
use super::keys::{Direction, Header, Refused};
use super::socket::{Inbox, LaneSocket, Unsent};
use super::status::{BondStatus, Dropped, NamedLane, counters};
use super::wake::Wake;
use super::{MTU, role_of};
use crate::poll::{Poller, Source, Stop};
use crate::tun::Tun;
use crate::{TunnelError, class, clock};

/// How long somebody who asks how it is waits for the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Reads of one device or socket in a row.
const READS: usize = 16;
const TCP: u8 = 6;

/// Says whether a client may send to an address; a port of 0 is none.
pub type Permit = Box<dyn Fn(SocketAddr) -> bool + Send>;

enum Command {
    Open(Arc<str>, Box<LaneSession>),
    Addresses(u32, Vec<IpAddr>),
    Close(u32),
    Status(Sender<Vec<BondStatus>>),
}

/// The server's end; it ends when this is dropped.
pub struct BondServer {
    commands: Sender<Command>,
    wake: Wake,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
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
        let (stop, wake) = (Stop::new()?, Wake::new()?);
        let (commands, received) = channel();
        let mut poller = Poller::new(&stop)?;
        poller.add(wake.as_fd())?;
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
            dns: Relay::start(wake.clone(), dns::system_resolvers)?,
            permit,
            commands: received,
            wake: wake.clone(),
            stop: stop.clone(),
            sessions: BTreeMap::new(),
            by_address: BTreeMap::new(),
            dropped: Dropped::default(),
            inbox: Inbox::new(),
        };
        let thread = std::thread::Builder::new().name("lanes".to_owned());
        let thread = thread.spawn(move || work.run());
        let thread = Some(thread.map_err(TunnelError::os("starting a thread"))?);
        Ok(Self { commands, wake, stop, thread })
    }

    fn tell(&self, command: Command) {
        // It has ended only if it has panicked.
        let _ = self.commands.send(command);
        self.wake.wake();
    }

    /// Begins a session of a client, which has one at a time: one that it had before ends.
    pub fn open(&self, client: &str, session: LaneSession) {
        self.tell(Command::Open(client.into(), Box::new(session)));
    }

    /// A client's device has these addresses from now on: packets from others are dropped.
    pub fn set_addresses(&self, session: u32, addresses: Vec<IpAddr>) {
        self.tell(Command::Addresses(session, addresses));
    }

    /// Ends a session.
    pub fn close(&self, session: u32) {
        self.tell(Command::Close(session));
    }

    /// How each bond is, the last for what is of none; `None` if it does not say.
    pub fn status(&self) -> Option<Vec<BondStatus>> {
        let (answer, answered) = channel();
        self.tell(Command::Status(answer));
        answered.recv_timeout(PATIENCE).ok()
    }
}

impl Drop for BondServer {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A client's session.
struct Open {
    client: Arc<str>,
    session: LaneSession,
    bond: Bond,
    /// By the lane's number; the socket that it was heard on with each.
    ends: BTreeMap<u8, (LaneEnd, usize)>,
    /// Numbers of lanes that others have taken the places of. Their keys are forgotten, and what has come
    /// under these with them, so that nothing of theirs is taken any more.
    former: BTreeSet<u8>,
    /// Questions to DNS that have no answer yet.
    asked: usize,
    guard: FlowGuard,
    dropped: Dropped,
    unsent: Unsent,
    /// Whether something has come for it, or is to be sent.
    is_due: bool,
    due: Option<Instant>,
}

struct Work {
    tun: Tun,
    tun_source: Source,
    sockets: Vec<(LaneSocket, Source)>,
    poller: Poller,
    dns: Relay,
    permit: Permit,
    commands: Receiver<Command>,
    wake: Wake,
    stop: Stop,
    sessions: BTreeMap<u32, Open>,
    by_address: BTreeMap<IpAddr, u32>,
    /// What is of no session.
    dropped: Dropped,
    inbox: Inbox,
}

impl Work {
    fn run(&mut self) {
        while !self.stop.is_wanted() {
            self.wake.clear();
            while let Ok(command) = self.commands.try_recv() {
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
            Command::Close(number) => {
                self.sessions.remove(&number);
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
        let config = BondConfig { is_initiator: false, mtu: MTU, mark: class::mark };
        let open = Open {
            client,
            bond: Bond::new(config, clock::now()),
            ends: BTreeMap::new(),
            former: BTreeSet::new(),
            asked: 0,
            guard: FlowGuard::default(),
            dropped: Dropped::default(),
            unsent: Unsent::default(),
            is_due: false,
            due: None,
            session,
        };
        self.sessions.insert(open.session.number, open);
    }

    fn take_answers(&mut self, now: Instant) {
        while let Ok(answer) = self.dns.answers.try_recv() {
            let Some(open) = self.sessions.get_mut(&answer.session) else { continue };
            open.asked = open.asked.saturating_sub(1);
            match answer.packet {
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
        for _ in 0..READS {
            let more = self.tun.read(|packet| {
                let owner = destination_of(packet).and_then(|address| by_address.get(&address));
                match owner.and_then(|number| sessions.get_mut(number)) {
                    Some(open) => {
                        open.bond.handle_packet(packet, now);
                        open.is_due = true;
                    }
                    None => dropped.unknown += 1,
                }
            });
            if !more {
                break;
            }
        }
        match self.tun.check() {
            Ok(()) => true,
            Err(error) => {
                tracing::error!("clients' UDP and ICMP go nowhere: {error}");
                false
            }
        }
    }

    fn read_sockets(&mut self, now: Instant) {
        for (place, (socket, source)) in self.sockets.iter().enumerate() {
            if !self.poller.is_ready(*source) {
                continue;
            }
            for _ in 0..READS {
                let more = socket.read(&mut self.inbox, |datagram, way| {
                    let header = Header::decode(datagram);
                    let open = header
                        .and_then(|header| Some((header, self.sessions.get_mut(&header.session)?)));
                    let Some((header, open)) = open else {
                        self.dropped.unknown += 1;
                        return;
                    };
                    let Some(packet) = open.take(header, datagram, (way, place), now) else {
                        return;
                    };
                    open.is_due = true;
                    match open.judge(&packet, &self.permit, now) {
                        Verdict::Pass => self.tun.write(&packet),
                        Verdict::Ask
                            if open.asked < dns::MOST_OF_ONE
                                && self.dns.ask(header.session, &packet) =>
                        {
                            open.asked += 1;
                        }
                        Verdict::Ask => open.dropped.dns += 1,
                        Verdict::Drop => {}
                    }
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
                open.transmit(&self.sockets, now);
            }
        }
    }
}

/// What becomes of a client's packet.
enum Verdict {
    Pass,
    /// It is a question to DNS.
    Ask,
    Drop,
}

impl Open {
    /// Takes a datagram; the packet in it, if it has not come yet.
    fn take(
        &mut self,
        header: Header,
        datagram: &mut [u8],
        (way, place): (super::socket::Way, usize),
        now: Instant,
    ) -> Option<Vec<u8>> {
        let role = role_of(header.lane)?;
        if self.former.contains(&header.lane) {
            self.dropped.unknown += 1;
            return None;
        }
        let LaneSession { number, secret, .. } = &self.session;
        // One for each place: a lane that has changed its role takes the place of what it was.
        let place_of = |lane: u8| lane & 7;
        let is_new = !self.ends.contains_key(&header.lane);
        let mut fresh = is_new
            .then(|| (LaneEnd::new(*number, secret, header.lane, Direction::FromServer), place));
        let (end, heard_on) = match &mut fresh {
            Some((end, heard_on)) => (end, heard_on),
            None => {
                let (end, heard_on) = self.ends.get_mut(&header.lane).expect("it is there");
                (end, heard_on)
            }
        };
        let frame = match end.open(header, datagram, Some(way)) {
            Ok(frame) => &*frame,
            Err(Refused::Forged) => {
                self.dropped.forged += 1;
                return None;
            }
            Err(Refused::Replayed) => {
                self.dropped.replayed += 1;
                return None;
            }
        };
        *heard_on = place;
        self.is_due = true;
        if let Some(fresh) = fresh {
            let other =
                self.ends.keys().copied().find(|&lane| place_of(lane) == place_of(header.lane));
            if let Some(other) = other {
                self.bond.remove_lane(LaneId(other), now);
                self.former.insert(other);
                self.unsent += self.ends.remove(&other).expect("it was found").0.batch.unsent;
            }
            self.bond.add_lane(LaneId(header.lane), role, now);
            self.ends.insert(header.lane, fresh);
        }
        let packet = self.bond.handle_frame(LaneId(header.lane), header.sequence, frame, now);
        packet.ok().flatten().map(<[u8]>::to_vec)
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
            _ if !self.guard.admit(look.flow, now) => &mut self.dropped.flows,
            _ => return Verdict::Pass,
        };
        *dropped += 1;
        Verdict::Drop
    }

    fn transmit(&mut self, sockets: &[(LaneSocket, Source)], now: Instant) {
        self.bond.handle_timeout(now);
        let mut frame = Vec::new();
        while let Some(transmit) = self.bond.poll_transmit(now, &mut frame) {
            let (end, place) = self.ends.get_mut(&transmit.lane.0).expect("each lane has one");
            if !end.send(&sockets[*place].0, transmit.sequence, &frame) {
                self.bond.handle_unsent(transmit.lane, now);
            }
            frame.clear();
        }
        for (&lane, (end, place)) in &mut self.ends {
            if !end.batch.flush(&sockets[*place].0) {
                self.bond.handle_unsent(LaneId(lane), now);
            }
        }
        self.is_due = false;
        self.due = self.bond.poll_timeout();
    }

    fn status(&self) -> BondStatus {
        let ends = self.ends.values();
        let unsent = ends.fold(self.unsent, |sum, (end, _)| sum + end.batch.unsent);
        let named = |status: weftline_core::datagram::LaneStatus| NamedLane {
            name: format!("lane {}", status.lane.0 & 7),
            peer: self.ends.get(&status.lane.0).and_then(|(end, _)| end.way).map(|way| way.peer),
            status,
        };
        BondStatus {
            client: Some(self.client.to_string()),
            lanes: self.bond.lanes().into_iter().map(named).collect(),
            counters: counters(self.bond.counters(), unsent, self.dropped),
        }
    }
}
