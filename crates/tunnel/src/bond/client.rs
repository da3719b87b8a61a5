//! The client's end of a bond: a thread between the device and a socket on each link.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tun_rs::SyncDevice;
use weftline_core::datagram::{Bond, Carrier, LaneId, LaneState};
use weftline_core::limiter::PathLimiter;
use weftline_core::{Instant, Role};

use super::address::{ErrorPace, destination_of, is_ipv6, is_tcp, refused, too_long, unreachable};
use super::dns::by_tcp;
use super::end::{LaneEnd, take_mark};
use super::handle::{Handle, Orders};
use super::keys::{Direction, Header, LaneSecret, Refused};
use super::socket::{Inbox, LaneSocket, NOWHERE, Unsent};
use super::status::{BondStatus, Dropped, NamedLane, TCP_LANE, counters, tell_held};
use super::{bond_config, is_over_tcp, lane_id, tcp_lane_id};
use crate::poll::{Poller, Source};
use crate::tun::Tun;
use crate::udp::Via;
use crate::way::Way;
use crate::{TunnelError, clock};

/// How long a link without a socket is left alone before it gets another.
const REOPEN: Duration = Duration::from_secs(1);
/// How long no lane is up before questions to DNS are asked again by TCP.
const GAP: Duration = Duration::from_secs(1);
/// How long a link carries nothing, while others do, before that is told.
const BLOCKED: Duration = Duration::from_secs(10);
/// How long nothing comes through by a link before TCP is to carry it.
const TRIED_BY_TCP: Duration = Duration::from_secs(1);
/// Reads of one device or socket in a row.
const READS: usize = 16;

/// A link of this machine that carries a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneLink {
    /// Its name where it is shown.
    pub name: String,
    /// Where it leaves this machine.
    pub via: Via,
    /// The server as it is reached by this link.
    pub server: SocketAddr,
    /// When it carries something.
    pub role: Role,
    /// The mark of its socket (`SO_MARK`), if it is to have one; it needs CAP_NET_ADMIN, and is left out
    /// without.
    pub mark: Option<u32>,
}

/// What both ends have agreed on over their connection.
#[derive(Clone)]
pub struct LaneSession {
    /// The session's number, which the server has chosen.
    pub number: u32,
    /// Its secret.
    pub secret: LaneSecret,
    /// The device's addresses: what comes for others is dropped.
    pub addresses: Vec<IpAddr>,
    /// Whether the server forwards IPv6; programs hear at once if it does not.
    pub has_ipv6: bool,
}

/// A link by which no datagram comes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedLink {
    /// Its name.
    pub name: String,
    /// When it carries something.
    pub role: Role,
}

/// How lanes are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanesNow {
    /// How many are up.
    pub up: usize,
    /// Links by which nothing has come through for a second, of those that would be used before all or like the best
    /// of those that carry UDP. By TCP they may.
    pub blocked: Vec<BlockedLink>,
}

enum Command {
    Session(Option<LaneSession>),
    Addresses(Vec<IpAddr>),
    Links(Vec<LaneLink>),
    OverTcp(Role, LaneSocket),
    LinksChanged,
    Limiters(BTreeMap<String, PathLimiter>),
    Refusing(bool),
    Status(Sender<BondStatus>),
}

/// The client's end; it ends when this is dropped.
pub struct BondClient {
    handle: Handle<Command>,
}

impl std::fmt::Debug for BondClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BondClient").finish_non_exhaustive()
    }
}

impl BondClient {
    /// Starts the thread, which reads packets from `device` from now on. `changed` hears, there, how lanes are
    /// when that changes.
    ///
    /// # Errors
    /// When the system has no descriptor or thread to give.
    pub fn start(
        device: Arc<SyncDevice>,
        name: &str,
        changed: impl Fn(LanesNow) + Send + 'static,
    ) -> Result<Self, TunnelError> {
        let (handle, orders, mut poller) = Handle::new()?;
        let tun = Tun::adopt(device, name)?;
        let tun_source = poller.add(tun.as_fd())?;
        let mut work = Work {
            tun,
            tun_source,
            poller,
            orders,
            links: BTreeMap::new(),
            limiters: BTreeMap::new(),
            session: None,
            is_refusing: true,
            changed: Box::new(changed),
            over_tcp: None,
            lanes_up: 0,
            blocked: 0,
            without: None,
            dropped: Dropped::default(),
            errors: ErrorPace::default(),
            unsent: Unsent::default(),
            inbox: Inbox::new(),
        };
        Ok(Self { handle: handle.start(move || work.run())? })
    }

    /// Speaks in this session from now on, or in none.
    pub fn set_session(&self, session: Option<LaneSession>) {
        self.handle.tell(Command::Session(session));
    }

    /// The device has these addresses from now on.
    pub fn set_addresses(&self, addresses: Vec<IpAddr>) {
        self.handle.tell(Command::Addresses(addresses));
    }

    /// Uses these links from now on, at most as many as a bond has lanes.
    pub fn set_links(&self, links: Vec<LaneLink>) {
        self.handle.tell(Command::Links(links));
    }

    /// The number of a lane over TCP.
    pub fn lane_over_tcp(role: Role) -> u8 {
        tcp_lane_id(role)
    }

    /// Has a lane over TCP for the session there is now, in the place of one that there was: the descriptor of a
    /// socket of datagrams, which somebody is to pass on to the server and back. It ends when that is closed, and
    /// with the session.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub fn open_over_tcp(&self, role: Role) -> Result<OwnedFd, TunnelError> {
        let pair = LaneSocket::over_tcp();
        let (socket, other) = pair.map_err(TunnelError::os("making a pair of sockets"))?;
        self.handle.tell(Command::OverTcp(role, socket));
        Ok(other)
    }

    /// Links have other addresses or routes than before: those that carry nothing may do so now, and are asked
    /// often again.
    pub fn note_links_changed(&self) {
        self.handle.tell(Command::LinksChanged);
    }

    /// What TCP sends over links goes through these limiters from now on, by the names of the
    /// links.
    pub fn set_limiters(&self, limiters: BTreeMap<String, PathLimiter>) {
        self.handle.tell(Command::Limiters(limiters));
    }

    /// Whether packets are refused from now on, as at first, and their senders told: where no link has
    /// carried any for a while, and programs are to look for another way.
    pub fn set_refusing(&self, is_refusing: bool) {
        self.handle.tell(Command::Refusing(is_refusing));
    }

    /// How it is; `None` if it does not say.
    pub fn status(&self) -> Option<BondStatus> {
        self.handle.ask(Command::Status)
    }
}

/// A link and its socket.
struct Link {
    config: LaneLink,
    socket: Option<(LaneSocket, Source)>,
    /// The number of the interface that the socket is bound to, if it is bound to one.
    interface: Option<u32>,
    tried: Option<Instant>,
    /// Whether it has been told that no packets get through while other links carry some.
    is_blocked: bool,
}

impl Link {
    /// The socket could not send. It is kept while its interface is the same, which may come up again:
    /// another one would have another port, and the server speaks to this one.
    fn handle_unsent(&mut self) {
        let Some((socket, _)) = &self.socket else { return };
        if interface_of(&self.config.via, socket) != self.interface {
            self.socket = None;
        }
    }
}

/// The lane over TCP.
struct OverTcp {
    lane: u8,
    role: Role,
    socket: LaneSocket,
    source: Source,
}

/// The number that an interface has now.
fn interface_of(via: &Via, socket: &LaneSocket) -> Option<u32> {
    match via {
        Via::Interface(name) => rustix::net::netdevice::name_to_index(socket.as_fd(), name).ok(),
        Via::Address(_) => None,
    }
}

/// A session and its lanes, by their numbers. Those of links that are gone are kept: a number stands for
/// keys, with which no nonce may be used twice, so that a link that comes back goes on where it was.
struct Open {
    session: LaneSession,
    bond: Bond,
    ends: BTreeMap<u8, LaneEnd>,
}

struct Work {
    tun: Tun,
    tun_source: Source,
    poller: Poller,
    orders: Orders<Command>,
    /// By the number of the lane.
    links: BTreeMap<u8, Link>,
    /// By the name of the link.
    limiters: BTreeMap<String, PathLimiter>,
    session: Option<Open>,
    is_refusing: bool,
    over_tcp: Option<OverTcp>,
    changed: Box<dyn Fn(LanesNow) + Send>,
    lanes_up: usize,
    /// A bit for each lane whose link is blocked.
    blocked: u32,
    /// Since when no lane is up.
    without: Option<Instant>,
    dropped: Dropped,
    errors: ErrorPace,
    /// Of lanes that are no more.
    unsent: Unsent,
    inbox: Inbox,
}

impl Drop for Work {
    /// However the thread ends, no lane is up any more.
    fn drop(&mut self) {
        if (self.lanes_up, self.blocked) != (0, 0) {
            (self.changed)(LanesNow::default());
        }
    }
}

impl Work {
    fn run(&mut self) {
        while self.orders.goes_on() {
            while let Some(command) = self.orders.next() {
                self.obey(command);
            }
            let now = clock::now();
            self.open_sockets(now);
            if !self.read_device(now) {
                break;
            }
            self.read_sockets(now);
            self.transmit(now);
            self.tun.flush();
            self.tell_change();
            let due = self.due(now);
            self.poller.wait(due, true);
        }
    }

    fn obey(&mut self, command: Command) {
        let now = clock::now();
        match command {
            Command::Session(session) => {
                let before = self.session.take();
                let ends = before.iter().flat_map(|open| open.ends.values());
                self.unsent = ends.fold(self.unsent, |sum, end| sum + end.batches.unsent);
                self.over_tcp = None;
                self.session = session.map(|session| Open {
                    session,
                    bond: Bond::new(bond_config(true), now),
                    ends: BTreeMap::new(),
                });
                self.add_lanes(now);
            }
            Command::Addresses(addresses) => {
                self.session.iter_mut().for_each(|open| open.session.addresses = addresses.clone());
            }
            Command::Links(links) => {
                self.set_links(links);
                self.add_lanes(now);
            }
            Command::OverTcp(role, socket) => {
                self.take_over_tcp(role, socket);
                self.add_lanes(now);
            }
            Command::LinksChanged => {
                self.session.iter_mut().for_each(|open| open.bond.note_links_changed(now));
            }
            Command::Limiters(limiters) => {
                self.limiters = limiters;
                self.add_lanes(now);
            }
            Command::Refusing(is_refusing) => self.is_refusing = is_refusing,
            Command::Status(answer) => {
                let _ = answer.send(self.status());
            }
        }
    }

    /// Each link keeps its lane's number for as long as it is the same. A new one gets a number that no
    /// link has, and no lane of another role had: the server has forgotten the keys of what it followed.
    fn set_links(&mut self, links: Vec<LaneLink>) {
        let left = self.links.extract_if(.., |_, link| !links.contains(&link.config));
        for (lane, _) in left {
            // Another link that gets the number begins anew: it is another way, with other rates.
            let Some(open) = &mut self.session else { continue };
            open.bond.remove_lane(LaneId(lane), clock::now());
        }
        for config in links {
            if self.links.values().any(|link| link.config == config) {
                continue;
            }
            let used = self.session.iter().flat_map(|open| open.ends.keys().copied());
            let used: Vec<u8> = used.filter(|&lane| !is_over_tcp(lane)).collect();
            let is_free = |place: &u8| {
                let lane = lane_id(*place, config.role);
                self.links.keys().all(|other| other & 7 != *place)
                    && used.iter().all(|&other| other & 7 != *place || other == lane)
            };
            let Some(place) = (0..8).find(is_free) else {
                tracing::warn!("link {}: there are too many to use it for UDP", config.name);
                continue;
            };
            let link =
                Link { socket: None, interface: None, tried: None, is_blocked: false, config };
            self.links.insert(lane_id(place, link.config.role), link);
        }
    }

    fn take_over_tcp(&mut self, role: Role, socket: LaneSocket) {
        let lane = tcp_lane_id(role);
        self.over_tcp = match self.poller.add(socket.as_fd()) {
            Ok(source) => Some(OverTcp { lane, role, socket, source }),
            Err(error) => {
                tracing::warn!("no lane over TCP: {error}");
                None
            }
        };
    }

    fn add_lanes(&mut self, now: Instant) {
        let Some(open) = &mut self.session else { return };
        let over_tcp = self.over_tcp.as_ref();
        let is_there = |lane: &u8| {
            self.links.contains_key(lane) || over_tcp.is_some_and(|one| one.lane == *lane)
        };
        for &lane in open.ends.keys().filter(|lane| !is_there(lane)) {
            open.bond.remove_lane(LaneId(lane), now);
        }
        if let Some(&OverTcp { lane, role, .. }) = over_tcp {
            let LaneSession { number, secret, .. } = &open.session;
            let end = open.ends.entry(lane);
            let end =
                end.or_insert_with(|| LaneEnd::new(*number, secret, lane, Direction::FromClient));
            end.way = Some(NOWHERE);
            open.bond.add_lane(LaneId(lane), (role, Carrier::Tcp), now);
        }
        for (&lane, link) in &self.links {
            let LaneSession { number, secret, .. } = &open.session;
            let end = open.ends.entry(lane);
            let end =
                end.or_insert_with(|| LaneEnd::new(*number, secret, lane, Direction::FromClient));
            open.bond.add_lane(LaneId(lane), (link.config.role, Carrier::Udp), now);
            let limiter = self.limiters.get(&link.config.name).cloned();
            open.bond.set_limiter(LaneId(lane), limiter);
            // UDP has the number of TCP's port.
            end.way = Some(Way::to(link.config.server));
        }
    }

    fn open_sockets(&mut self, now: Instant) {
        for link in self.links.values_mut().filter(|link| link.socket.is_none()) {
            if link.tried.is_some_and(|at| now.since(at) < REOPEN) {
                continue;
            }
            link.tried = Some(now);
            let socket = {
                let LaneLink { via, server, mark, .. } = &link.config;
                LaneSocket::through(via, server.is_ipv4(), *mark)
            };
            let added = socket.map_err(TunnelError::os("opening a socket")).and_then(|socket| {
                let source = self.poller.add(socket.as_fd())?;
                Ok((socket, source))
            });
            match added {
                Ok(socket) => {
                    link.interface = interface_of(&link.config.via, &socket.0);
                    link.socket = Some(socket);
                }
                Err(error) => {
                    tracing::debug!(link = link.config.name, %error, "no socket for a lane");
                }
            }
        }
    }

    /// Takes packets from the device; whether that is still there.
    fn read_device(&mut self, now: Instant) -> bool {
        if !self.poller.is_ready(self.tun_source) {
            return true;
        }
        let is_refusing = self.is_refusing;
        // In a short gap of all lanes who asks DNS asks again, and is answered then.
        let is_by_tcp = is_refusing || self.without.is_some_and(|at| now.since(at) >= GAP);
        let (session, dropped) = (&mut self.session, &mut self.dropped);
        let errors = &mut self.errors;
        let mut refusals = Vec::new();
        for _ in 0..READS {
            let more = self.tun.read(|packet| match session {
                // What the capture does not redirect, such as an answer without a question.
                _ if is_tcp(packet) => dropped.tcp += 1,
                // What TCP can do needs no lane.
                _ if is_by_tcp && let Some(answer) = by_tcp(packet) => {
                    dropped.by_tcp += 1;
                    refusals.push(answer);
                }
                _ if is_refusing => {
                    dropped.refused += 1;
                    refusals.extend(refused(packet).filter(|_| errors.take(now)));
                }
                Some(open) if !open.session.has_ipv6 && is_ipv6(packet) => {
                    dropped.no_ipv6 += 1;
                    refusals.extend(unreachable(packet));
                }
                Some(open) => {
                    let most = open.bond.handle_packet(packet, now);
                    let told = most.and_then(|most| too_long(packet, most));
                    refusals.extend(told.filter(|_| errors.take(now)));
                }
                None => dropped.unknown += 1,
            });
            if !more {
                break;
            }
        }
        refusals.iter().for_each(|packet| self.tun.write(packet));
        match self.tun.check() {
            Ok(()) => true,
            Err(error) => {
                tracing::error!("UDP and ICMP go nowhere: {error}");
                false
            }
        }
    }

    fn read_sockets(&mut self, now: Instant) {
        let Some(open) = &mut self.session else {
            // Nobody speaks to this end; what comes all the same must not wake it for ever.
            for (socket, _) in self.links.values().filter_map(|link| link.socket.as_ref()) {
                while socket.read(&mut self.inbox, |_, _, _| self.dropped.unknown += 1) {}
            }
            return;
        };
        let (tun, dropped) = (&mut self.tun, &mut self.dropped);
        let sockets = self.links.values().filter_map(|link| link.socket.as_ref());
        let sockets = sockets.map(|(socket, source)| (socket, *source));
        let over_tcp = self.over_tcp.iter().map(|one| (&one.socket, one.source));
        for (socket, source) in sockets.chain(over_tcp) {
            if !self.poller.is_ready(source) {
                continue;
            }
            for _ in 0..READS {
                let more = socket.read(&mut self.inbox, |datagram, _, ecn| {
                    take_datagram(open, (&mut *tun, &mut *dropped), (datagram, ecn), now);
                });
                if !more {
                    break;
                }
            }
        }
        if let Some(ended) = self.over_tcp.take_if(|one| one.socket.has_ended()) {
            open.bond.remove_lane(LaneId(ended.lane), now);
        }
    }

    fn transmit(&mut self, now: Instant) {
        let Some(open) = &mut self.session else { return };
        open.bond.handle_timeout(now);
        hand_out_waiting(open, &mut self.tun, &mut self.dropped);
        let mut frame = Vec::new();
        while let Some(transmit) = open.bond.poll_transmit(now, &mut frame) {
            let lane = transmit.lane.0;
            let end = open.ends.get_mut(&lane).expect("each lane has one");
            let is_there = match socket_of(lane, &self.links, self.over_tcp.as_ref()) {
                Some(socket) => end.send(socket, (transmit.sequence, transmit.is_carried), &frame),
                None => {
                    end.batches.unsent.refused += 1;
                    false
                }
            };
            if !is_there {
                self.links.get_mut(&lane).into_iter().for_each(Link::handle_unsent);
                open.bond.handle_unsent(transmit.lane, now);
            }
            frame.clear();
        }
        for (&lane, end) in &mut open.ends {
            let socket = socket_of(lane, &self.links, self.over_tcp.as_ref());
            let Some(socket) = socket else { continue };
            if !end.batches.flush(socket) {
                self.links.get_mut(&lane).into_iter().for_each(Link::handle_unsent);
                open.bond.handle_unsent(LaneId(lane), now);
            }
        }
    }

    /// Links that carry no UDP, though they would be used before those that do, or like the best of them: a bit for
    /// each lane.
    fn blocked(&self) -> u32 {
        let Some(open) = &self.session else { return 0 };
        let now = clock::now();
        let down_for = |lane: u8| open.bond.down_for(LaneId(lane), now);
        let up = self.links.iter().filter(|(lane, _)| down_for(**lane).is_none());
        let best = up.map(|(_, link)| link.config.role).min();
        let is_blocked = |lane: u8, link: &Link| {
            let role = link.config.role;
            role != Role::Retired
                && best.is_none_or(|best| role <= best)
                && link.socket.is_some()
                && down_for(lane).is_some_and(|time| time >= TRIED_BY_TCP)
        };
        let blocked = self.links.iter().filter(|(lane, link)| is_blocked(**lane, link));
        blocked.fold(0, |all, (lane, _)| all | 1 << lane)
    }

    fn lanes_now(&self) -> LanesNow {
        let blocked = self.links.iter().filter(|(lane, _)| self.blocked >> **lane & 1 == 1);
        let blocked = blocked.map(|(_, Link { config, .. })| BlockedLink {
            name: config.name.clone(),
            role: config.role,
        });
        LanesNow { up: self.lanes_up, blocked: blocked.collect() }
    }

    /// Tells of links that carry nothing though others do, and when they do again. Where none does, whoever
    /// hears how many are up tells it.
    fn tell_blocked(&mut self) {
        let Some(open) = &self.session else { return };
        let now = clock::now();
        let is_up = |lane: u8| open.bond.down_for(LaneId(lane), now).is_none();
        let is_by_tcp = self.over_tcp.as_ref().is_some_and(|one| is_up(one.lane));
        let up = self.links.iter().filter(|(lane, _)| is_up(**lane));
        let best = up.map(|(_, link)| link.config.role).min();
        for (&lane, link) in &mut self.links {
            let down_for = open.bond.down_for(LaneId(lane), now);
            let LaneLink { name, role, .. } = &link.config;
            let is_instead = is_by_tcp && best.is_none_or(|best| best > *role);
            let others = if is_instead { "TCP" } else { "other links" };
            match down_for {
                Some(time) if time >= BLOCKED && link.socket.is_some() && !link.is_blocked => {
                    link.is_blocked = true;
                    tracing::warn!(
                        "{name}: no UDP comes through to the server and back; UDP, DNS and ICMP go over \
                         {others}"
                    );
                }
                None if link.is_blocked => {
                    link.is_blocked = false;
                    tracing::info!("{name}: UDP comes through again");
                }
                _ => {}
            }
        }
    }

    fn tell_change(&mut self) {
        while let Some((lane, status)) =
            self.session.as_mut().and_then(|open| open.bond.poll_held())
        {
            let link = self.links.get(&lane.0);
            tell_held(link.map_or("a link", |link| &link.config.name), &status);
        }
        let up = self.session.as_ref().map_or(0, |open| open.bond.lanes_up());
        if up > 0 {
            self.without = None;
            self.tell_blocked();
        } else if self.without.is_none() {
            self.without = Some(clock::now());
        }
        let now = (up, self.blocked());
        if now != (self.lanes_up, self.blocked) {
            (self.lanes_up, self.blocked) = now;
            (self.changed)(self.lanes_now());
        }
    }

    /// When there is something to do, whatever comes.
    fn due(&self, now: Instant) -> Instant {
        const LOOK: Duration = Duration::from_secs(5);
        let bond = self.session.as_ref().and_then(|open| open.bond.poll_timeout());
        let lacks_socket = self.links.values().any(|link| link.socket.is_none());
        let reopen = lacks_socket.then(|| now + REOPEN);
        [bond, reopen].into_iter().flatten().fold(now + LOOK, Instant::min)
    }

    fn status(&self) -> BondStatus {
        let Some(open) = &self.session else { return BondStatus::default() };
        let named = |status: weftline_core::datagram::LaneStatus| {
            if status.carrier == Carrier::Tcp {
                return NamedLane { name: TCP_LANE.to_owned(), peer: None, status };
            }
            let link = self.links.get(&status.lane.0);
            NamedLane {
                name: link.map(|link| link.config.name.clone()).unwrap_or_default(),
                peer: open.ends.get(&status.lane.0).and_then(|end| end.way).map(|way| way.peer),
                status,
            }
        };
        let unsent = open.ends.values().fold(self.unsent, |sum, end| sum + end.batches.unsent);
        BondStatus {
            client: None,
            lanes: open.bond.lanes().into_iter().map(named).collect(),
            counters: counters(open.bond.counters(), unsent, self.dropped),
        }
    }
}

/// The socket of a lane, if it has one now.
fn socket_of<'a>(
    lane: u8,
    links: &'a BTreeMap<u8, Link>,
    over_tcp: Option<&'a OverTcp>,
) -> Option<&'a LaneSocket> {
    match over_tcp {
        Some(one) if one.lane == lane => Some(&one.socket),
        _ => links.get(&lane)?.socket.as_ref().map(|(socket, _)| socket),
    }
}

/// Takes a datagram, and gives the packet in it to the device.
fn take_datagram(
    open: &mut Open,
    (tun, dropped): (&mut Tun, &mut Dropped),
    (datagram, ecn): (&mut [u8], u8),
    now: Instant,
) {
    let header = Header::decode(datagram).filter(|one| one.session == open.session.number);
    let end = header.and_then(|header| Some((header, open.ends.get_mut(&header.lane)?)));
    let Some((header, end)) = end else {
        dropped.unknown += 1;
        return;
    };
    let frame = match end.open(header, datagram) {
        Ok((frame, _)) => frame,
        Err(Refused::Forged) => return dropped.forged += 1,
        Err(Refused::Replayed) => return dropped.replayed += 1,
    };
    if !take_mark(frame, ecn) {
        open.bond.handle_dropped(LaneId(header.lane), header.sequence, now);
        return dropped.marked += 1;
    }
    let packet = open.bond.handle_frame(LaneId(header.lane), header.sequence, frame, now);
    if let Ok(Some(packet)) = packet {
        hand_out(packet, &open.session.addresses, tun, dropped);
    }
    hand_out_waiting(open, tun, dropped);
}

/// Gives packets to the device that have waited for others before them.
fn hand_out_waiting(open: &mut Open, tun: &mut Tun, dropped: &mut Dropped) {
    while let Some(packet) = open.bond.poll_packet() {
        hand_out(&packet, &open.session.addresses, tun, dropped);
    }
}

/// Gives a packet to the device, if it is for this machine.
fn hand_out(packet: &[u8], addresses: &[IpAddr], tun: &mut Tun, dropped: &mut Dropped) {
    let is_ours = destination_of(packet).is_some_and(|address| addresses.contains(&address));
    if is_ours && !is_tcp(packet) {
        tun.write(packet);
    } else {
        dropped.wrong_address += 1;
    }
}

impl NamedLane {
    /// Whether it carries something now.
    pub fn is_up(&self) -> bool {
        self.status.state == LaneState::Up
    }
}
