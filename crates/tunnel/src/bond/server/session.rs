//! A client's session at the server: what comes for it, and what may go out in its name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use weftline_core::datagram::{Bond, Carrier, Frame, LaneId, Look};
use weftline_core::limiter::PathLimiter;
use weftline_core::{Instant, Role};

use super::super::address::Ends;
use super::super::allowance::Allowance;
use super::super::client::LaneSession;
use super::super::dns::{self, Relay};
use super::super::end::{LaneEnd, take_mark};
use super::super::keys::{Direction, HEADER, Header, Refused, TAG};
use super::super::socket::{Inbox, LaneSocket, Unsent};
use super::super::status::{BondStatus, Dropped, NamedLane, TCP_LANE, counters, tell_held};
use super::super::whereabouts::Place;
use super::super::{bond_config, is_over_tcp, place_of, role_of};
use super::heard::{Heard, OverTcp, Sockets, TCP_PLACE};
use crate::poll::Source;
use crate::tun::Tun;

/// Says whether a client may send to an address; a port of 0 is none.
pub type Permit = Box<dyn Fn(SocketAddr) -> bool + Send>;

/// Reads of one device or socket in a row.
pub(super) const READS: usize = 16;
const TCP: u8 = 6;
/// Bytes of a datagram that asks an address: a ping with a number of eight bytes.
const QUESTION: u64 = (HEADER + 1 + 8 + TAG) as u64;

/// A client's session.
pub(super) struct Open {
    pub(super) client: Arc<str>,
    pub(super) session: LaneSession,
    pub(super) bond: Bond,
    /// By the lane's number.
    ends: BTreeMap<u8, Heard>,
    /// Those of which nothing authentic has come yet. Keys are derived once for each of the numbers there
    /// are, whatever strangers send.
    strange: BTreeMap<u8, Heard>,
    /// Numbers of lanes that others have taken the places of. Their keys are forgotten, and what has come
    /// under these with them, so that nothing of theirs is taken any more.
    former: BTreeSet<u8>,
    /// By the lane's number: what the client's connections send over the same link goes through.
    pub(super) limiters: BTreeMap<u8, PathLimiter>,
    pub(super) over_tcp: Option<OverTcp>,
    /// Questions to DNS that have no answer yet.
    pub(super) asked: usize,
    pub(super) allowance: Allowance,
    pub(super) dropped: Dropped,
    unsent: Unsent,
    /// Whether something has come for it, or is to be sent.
    pub(super) is_due: bool,
    pub(super) due: Option<Instant>,
}

/// Where clients' packets go, and what says whether they may.
pub(super) type Outside<'a> = (&'a mut Tun, &'a Relay, &'a Permit);

/// What becomes of a client's packet.
enum Verdict {
    Pass,
    /// It is a question to DNS.
    Ask,
    Drop,
}

impl Open {
    pub(super) fn new(
        client: Arc<str>,
        session: LaneSession,
        allowance: Allowance,
        now: Instant,
    ) -> Self {
        Self {
            client,
            bond: Bond::new(bond_config(false), now),
            ends: BTreeMap::new(),
            strange: BTreeMap::new(),
            former: BTreeSet::new(),
            limiters: BTreeMap::new(),
            over_tcp: None,
            asked: 0,
            allowance,
            dropped: Dropped::default(),
            unsent: Unsent::default(),
            is_due: false,
            due: None,
            session,
        }
    }

    /// Takes the lane over TCP that its client has opened.
    pub(super) fn take_over_tcp(&mut self, over_tcp: OverTcp, now: Instant) {
        if let Some(before) = self.over_tcp.take() {
            self.bond.remove_lane(LaneId(before.lane), now);
        }
        let lane = over_tcp.lane;
        let Some(role) = role_of(lane) else { return };
        let LaneSession { number, secret, .. } = &self.session;
        let keys = || LaneEnd::new(*number, secret, lane, Direction::FromServer);
        self.ends.entry(lane).or_insert_with(|| Heard::over_tcp(keys()));
        self.bond.add_lane(LaneId(lane), (role, Carrier::Tcp), now);
        self.over_tcp = Some(over_tcp);
        self.is_due = true;
    }

    /// Takes what has come over TCP, and gives the lane up if nobody passes it on any more.
    pub(super) fn read_over_tcp(
        &mut self,
        over_tcp: OverTcp,
        inbox: &mut Inbox,
        (tun, dns, permit): Outside<'_>,
        now: Instant,
    ) {
        for _ in 0..READS {
            let more = over_tcp.socket.read(inbox, |datagram, _, ecn| {
                if let Some(packet) = self.take_by_tcp(over_tcp.lane, (datagram, ecn), now) {
                    self.hand_out(&packet, (&mut *tun, dns, permit), now);
                }
                self.hand_out_waiting((&mut *tun, dns, permit), now);
            });
            if !more {
                break;
            }
        }
        if over_tcp.socket.has_ended() {
            self.bond.remove_lane(LaneId(over_tcp.lane), now);
            self.is_due = true;
        } else {
            self.over_tcp = Some(over_tcp);
        }
    }

    /// Takes a datagram that has come over TCP, which carries one lane and no other.
    fn take_by_tcp(
        &mut self,
        lane: u8,
        datagram: (&mut [u8], u8),
        now: Instant,
    ) -> Option<Vec<u8>> {
        let wanted = (self.session.number, lane);
        let header = Header::decode(datagram.0);
        let Some(header) = header.filter(|one| (one.session, one.lane) == wanted) else {
            self.dropped.unknown += 1;
            return None;
        };
        self.take(header, datagram, TCP_PLACE, now)
    }

    /// Takes a datagram; the packet in it, if it has not come yet.
    pub(super) fn take(
        &mut self,
        header: Header,
        (datagram, ecn): (&mut [u8], u8),
        place: Place,
        now: Instant,
    ) -> Option<Vec<u8>> {
        // What is heard elsewhere than its number says is nobody's.
        let is_at_home = is_over_tcp(header.lane) == (place == TCP_PLACE);
        let role = role_of(header.lane).filter(|_| is_at_home)?;
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
        let mut others = self.ends.keys().copied();
        let other = others.find(|&other| place_of(other) == place_of(lane));
        if let Some(other) = other {
            self.bond.remove_lane(LaneId(other), now);
            self.former.insert(other);
            self.unsent += self.ends.remove(&other).expect("it was found").end.batches.unsent;
        }
        if !self.bond.add_lane(LaneId(lane), (role, Carrier::Udp), now) {
            return;
        }
        let heard = self.strange.remove(&lane).expect("it was opened with its keys");
        self.ends.insert(lane, heard);
        self.set_limiters();
    }

    /// Each lane has the limiter that was named for it, or none.
    pub(super) fn set_limiters(&mut self) {
        for &lane in self.ends.keys() {
            let limiter = self.limiters.get(&lane).cloned();
            self.bond.set_limiter(LaneId(lane), limiter);
        }
    }

    /// Sends a client's packet on, if it may.
    pub(super) fn hand_out(
        &mut self,
        packet: &[u8],
        (tun, dns, permit): Outside<'_>,
        now: Instant,
    ) {
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
    pub(super) fn hand_out_waiting(&mut self, (tun, dns, permit): Outside<'_>, now: Instant) {
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

    /// Sends what is to be sent, by the server's sockets of UDP and over TCP.
    pub(super) fn transmit(&mut self, udp: &[(LaneSocket, Source)], now: Instant) {
        let over_tcp = self.over_tcp.take();
        let sockets = Sockets { udp, over_tcp: over_tcp.as_ref().map(|one| &one.socket) };
        self.transmit_by(sockets, now);
        self.over_tcp = over_tcp;
    }

    fn transmit_by(&mut self, sockets: Sockets<'_>, now: Instant) {
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
            tell_held(&format!("client '{}', {}", self.client, name_of(lane.0)), &status);
        }
        self.is_due = false;
        self.due = self.bond.poll_timeout();
    }

    /// Asks addresses that clients were heard from lately, and nobody knows to be theirs.
    fn ask_addresses(&mut self, sockets: Sockets<'_>, now: Instant) {
        for (&lane, heard) in &mut self.ends {
            while let Some((place, id)) = heard.whereabouts.ask(QUESTION, now) {
                let Some(sequence) = self.bond.take_sequence(LaneId(lane)) else { continue };
                let mut frame = Vec::new();
                Frame::Ping { id, padding: 0 }.encode(&mut frame);
                // Whether it can be sent there says nothing of where the lane is.
                heard.send_to(place, sockets, ((sequence, true), &frame));
                heard.flush(sockets);
            }
        }
    }

    pub(super) fn status(&self) -> BondStatus {
        let ends = self.ends.values();
        let unsent = ends.fold(self.unsent, |sum, heard| sum + heard.end.batches.unsent);
        let named = |status: weftline_core::datagram::LaneStatus| NamedLane {
            name: name_of(status.lane.0),
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

/// What a lane is called where a client's links have no names.
fn name_of(lane: u8) -> String {
    if is_over_tcp(lane) { TCP_LANE.to_owned() } else { format!("lane {}", lane & 7) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::net::UdpSocket;
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::UnixDatagram;

    use weftline_core::datagram;

    use super::super::super::keys::{LaneSecret, Opener, SECRET_BYTES, Sealer};
    use super::super::super::tcp_lane_id;
    use super::*;
    use crate::class::Class;
    use crate::poll::{Poller, Stop};
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
        let mut poller = Poller::new(&Stop::new().unwrap()).unwrap();
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

    /// The lane over TCP of a role, and the other end of its pipe.
    fn over_tcp(open: &mut Open, role: Role) -> OwnedFd {
        let (socket, other) = LaneSocket::over_tcp().unwrap();
        let mut poller = Poller::new(&Stop::new().unwrap()).unwrap();
        let source = poller.add(socket.as_fd()).unwrap();
        open.take_over_tcp(OverTcp { lane: tcp_lane_id(role), socket, source }, Instant::ZERO);
        other
    }

    /// A client that has the keys of all numbers has one lane over TCP all the same, and costs nobody else any.
    #[test]
    fn over_tcp_comes_one_lane_and_by_udp_none_that_is_of_tcp() {
        let secret = LaneSecret::new([7; SECRET_BYTES]);
        let mut open = open_with(&secret);
        let way = Way { peer: ([192, 0, 2, 1], 1000).into(), own: None };
        let (lane, at) = (tcp_lane_id(Role::Active), Instant::from_millis);
        let take = |open: &mut Open, mut datagram: Vec<u8>, place: Option<Place>| {
            let header = Header::decode(&datagram).unwrap();
            match place {
                Some(place) => open.take(header, (&mut datagram, 0), place, at(0)),
                None => open.take_by_tcp(lane, (&mut datagram, 0), at(0)),
            };
        };
        let udp = Place { way, socket: 0 };
        (0..8).for_each(|lane| take(&mut open, datagram(&secret, lane, 0), Some(udp)));
        let _other = over_tcp(&mut open, Role::Active);
        assert_eq!((open.ends.len(), open.bond.lanes().len()), (9, datagram::MAX_LANES));
        for number in 0..=255 {
            if number != lane {
                take(&mut open, datagram(&secret, number, 1), None);
            }
            if is_over_tcp(number) {
                take(&mut open, datagram(&secret, number, 1), Some(udp));
            }
        }
        assert_eq!((open.ends.len(), open.strange.len(), open.bond.lanes().len()), (9, 0, 9));
        let received = |open: &Open| {
            let lanes = open.bond.lanes();
            let lane = lanes.iter().find(|one| one.lane.0 == lane).unwrap();
            (lane.carrier, lane.counters.received_packets)
        };
        assert_eq!(received(&open), (Carrier::Tcp, 0));
        let frame = Frame::Data { number: 7, class: datagram::Class::Urgent, packet: &[0x45; 40] };
        take(&mut open, sealed(&secret, lane, 1, &frame), None);
        assert_eq!(received(&open), (Carrier::Tcp, 1));
    }

    #[test]
    fn a_lane_over_tcp_goes_on_where_it_was_and_another_role_is_another_one() {
        let secret = LaneSecret::new([7; SECRET_BYTES]);
        let mut open = open_with(&secret);
        let mut used = BTreeSet::new();
        let mut now = Instant::ZERO;
        for role in [Role::Active, Role::Active, Role::Metered, Role::Active] {
            let other = UnixDatagram::from(over_tcp(&mut open, role));
            for _ in 0..10 {
                now += std::time::Duration::from_millis(200);
                open.bond.handle_timeout(now);
                open.transmit(&[], now);
            }
            let (mut buffer, mut count) = ([0; 2048], 0);
            while let Ok(length) = other.recv(&mut buffer) {
                let header = Header::decode(&buffer[..length]).unwrap();
                assert_eq!(header.lane, tcp_lane_id(role));
                assert!(used.insert((header.lane, header.sequence)), "a nonce is used once");
                count += 1;
            }
            assert!(count > 5, "it is asked whether it is there: {count}");
            assert_eq!(open.bond.lanes().len(), 1);
        }
    }
}
