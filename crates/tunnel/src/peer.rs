//! What a socket keeps of each peer: its address, the datagrams that wait for it, and its pacing.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weftline_coding::node::{Pacer, Presence};
use weftline_core::{Bitrate, Instant};

use crate::capacity::{CapacityEstimator, Receiver};
use crate::complaint::Complaints;
use crate::frame::{Keepalive, Settings};
use crate::key::PublicKey;
use crate::outbox::{Outbox, Sent};
use crate::probe::Burst;
use crate::reach::{Longest, Reach};
use crate::way::Way;

/// A neighbour that is back at its former address so often within [`FLAP_TIME`] is two neighbours.
const FLAPS: u32 = 3;
const FLAP_TIME: Duration = Duration::from_secs(10);

/// Bytes of IP and UDP headers that count for a rate, by IPv4: where a neighbour's family is not known.
pub(crate) const IP_UDP: usize = 28;

/// Bytes of IP and UDP headers of a datagram to or from `address`.
fn headers(address: SocketAddr) -> usize {
    // A socket for both families has IPv4 as mapped addresses.
    match address.ip().to_canonical() {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

/// Time at a link's rate that leaves in one go: it takes half of it to wake up again. Waking up costs
/// a node more than what it sends then, and the queue of any link holds this much.
const BURST: Duration = Duration::from_millis(1);

/// What a neighbour said of its own link holds for so long; it says it again each 100 ms.
pub(crate) const TOLD_FOR: Duration = Duration::from_secs(3);

/// How a node knows what the link to a neighbour has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// The system says when the interface has none, and the neighbour, if it is an access point,
    /// what its own link carries.
    #[default]
    Interface,
    /// It carries this much.
    Fixed(Bitrate),
    /// It is measured while it is used, by packet trains (COTAG §IV-A.2).
    Measured,
}

/// The counters of a neighbour or a socket; they count datagrams where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Sent, and their bytes with UDP and IP headers.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Received and authentic.
    pub received: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Not sent, and dropped.
    pub unsent: Unsent,
    /// Sessions made.
    pub sessions: u64,
    /// Sent (the kernel took them), and longer than any that came to the neighbour of late, while it
    /// heard others: a link of the way has a smaller MTU.
    pub swallowed: u64,
}

/// Datagrams that were dropped instead of sent, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// There was no session with the neighbour, or its address is not known.
    pub no_session: u64,
    /// The kernel had no room for long: so much waited that no more was kept.
    pub no_room: u64,
    /// Longer than the interface carries.
    pub too_long: u64,
    /// The kernel refused them for another reason, such as no route.
    pub refused: u64,
}

impl Unsent {
    /// The counts by name.
    pub fn by_reason(&self) -> [(&'static str, u64); 4] {
        [
            ("no_session", self.no_session),
            ("no_room", self.no_room),
            ("too_long", self.too_long),
            ("refused", self.refused),
        ]
    }

    /// Their sum.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

/// The status of a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// Whether it was heard lately.
    pub up: bool,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// The round-trip time, smoothed.
    pub rtt: Option<Duration>,
    /// The rate that is sent by, where one is set or measured; zero while the link stands still.
    pub rate: Option<Bitrate>,
    /// At a device: how much later packets come on it than on the nearest link, if that is known.
    pub lag: Option<Duration>,
    /// At a device: how often something that the gateway did not make may have come from it.
    pub wrong: u64,
    /// What was counted.
    pub counters: LinkCounters,
}

/// A neighbour as it is configured.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    /// Where it is, if this side initiates handshakes.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) pace: Pace,
}

/// The state of one peer.
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) address: Option<SocketAddr>,
    /// The address of this machine that it speaks to, where that is known.
    own: Option<IpAddr>,
    pub(crate) outbox: Outbox,
    pacing: Pacing,
    /// What is told of the neighbour's trains.
    pub(crate) receiver: Receiver,
    pub(crate) blocked: bool,
    /// The last keepalive and when it came.
    pub(crate) heard: Option<(Keepalive, Instant)>,
    pub(crate) next_keepalive: Instant,
    /// Whether it is there.
    pub(crate) presence: Presence,
    /// The longest datagram of late that came from it, and what is known of those to it.
    longest: Longest,
    way: Reach,
    pub(crate) rtt: Option<Duration>,
    was_up: bool,
    /// The address before, how often it was taken again, and since when that is counted.
    former: Option<SocketAddr>,
    flaps: (u32, Instant),
    pub(crate) counters: LinkCounters,
}

/// How packets to a peer are paced.
enum Pacing {
    Interface,
    Fixed(Pacer),
    /// By what the neighbour has said last, and when; `None` while nothing may go.
    Told(Option<Pacer>, Instant),
    Measured(Box<Measured>),
}

/// A link that is measured.
struct Measured {
    capacity: CapacityEstimator,
    /// `None` while nothing may go: nothing is known, or it stands still.
    pacer: Option<Pacer>,
    /// What is being sent back to back.
    train: Option<Train>,
}

/// A train that is being sent.
pub(crate) struct Train {
    pub(crate) burst: Burst,
    /// The first datagram's counter, and how many there are.
    pub(crate) first: u64,
    pub(crate) packets: u8,
}

impl Train {
    pub(crate) fn is_whole(&self) -> bool {
        self.packets >= self.burst.packets
    }
}

impl Peer {
    /// `measurement` is the number of the link's first measurement, should it be measured.
    pub(crate) fn new(neighbour: &Neighbour, measurement: u32) -> Self {
        let pacing = match neighbour.pace {
            Pace::Interface => Pacing::Interface,
            Pace::Fixed(rate) => Pacing::Fixed(pacer(rate)),
            Pace::Measured => {
                let capacity = CapacityEstimator::new(measurement, Instant::ZERO);
                Pacing::Measured(Box::new(Measured { capacity, pacer: None, train: None }))
            }
        };
        Self {
            name: neighbour.name.clone(),
            address: neighbour.address,
            own: None,
            outbox: Outbox::default(),
            pacing,
            receiver: Receiver::default(),
            blocked: false,
            heard: None,
            next_keepalive: Instant::ZERO,
            presence: Presence::default(),
            longest: Longest::default(),
            way: Reach::default(),
            rtt: None,
            was_up: false,
            former: None,
            flaps: (0, Instant::ZERO),
            counters: LinkCounters::default(),
        }
    }

    /// Notes that a session with it began.
    pub(crate) fn begin(&mut self, way: Way, now: Instant, complaints: &mut Complaints) {
        self.counters.sessions += 1;
        let from = way.peer;
        self.own = way.own;
        // One that goes from network to network does not come back to where it was.
        if let Some(before) = self.address.replace(from)
            && before != from
            && self.former.replace(before) == Some(from)
        {
            let (count, since) = self.flaps;
            let recent = now < since + FLAP_TIME;
            self.flaps = if recent { (count + 1, since) } else { (1, now) };
            if self.flaps.0 >= FLAPS {
                complaints.two_with_one_key(&self.name, before, from, now);
            }
        }
        // What waits was encrypted for the session before; that is still taken.
        self.next_keepalive = Instant::ZERO;
        self.heard = None;
        // What it has said of its silence holds until it says something else: a handshake that comes
        // through now and then makes no way of a dead one.
        self.presence.hear(now);
        self.forget_way();
        self.receiver.restart();
        if let Pacing::Measured(measured) = &mut self.pacing {
            measured.capacity.restart(now);
            measured.train = None;
        }
    }

    /// Bytes of IP and UDP headers of a datagram to or from it.
    pub(crate) fn headers(&self) -> usize {
        self.address.map_or(IP_UDP, headers)
    }

    /// A datagram of so many bytes came from it, in whatever session.
    pub(crate) fn hear(&mut self, bytes: usize, now: Instant) {
        self.counters.received += 1;
        self.counters.received_bytes += (bytes + self.headers()) as u64;
        self.presence.hear(now);
        self.longest.take(bytes, now);
        if let Some(capacity) = self.capacity() {
            capacity.hear(now);
        }
    }

    /// The way to it, if its address is known.
    pub(crate) fn to(&self) -> Option<Way> {
        self.address.map(|peer| Way { peer, own: self.own })
    }

    /// Notes that it is at this address now.
    pub(crate) fn is_at(&mut self, way: Way) {
        let is_other =
            self.address != Some(way.peer) || self.own.is_some_and(|own| Some(own) != way.own);
        (self.address, self.own) = (Some(way.peer), way.own);
        if is_other {
            self.forget_way();
        }
    }

    /// Forgets what is known of the way to its former address.
    fn forget_way(&mut self) {
        (self.longest, self.way, self.outbox.bar) = (Longest::default(), Reach::default(), 0);
    }

    /// Whether the rate leaves room for a packet.
    pub(crate) fn has_room(&self, now: Instant) -> bool {
        !self.blocked
            && match &self.pacing {
                Pacing::Interface => true,
                Pacing::Fixed(pacer) => pacer.has_room(now),
                Pacing::Told(pacer, _) => pacer.as_ref().is_some_and(|pacer| pacer.has_room(now)),
                Pacing::Measured(measured) => {
                    measured.train.as_ref().is_some_and(|train| !train.is_whole())
                        || measured.pacer.as_ref().is_some_and(|pacer| pacer.has_room(now))
                }
            }
    }

    fn pacer(&self) -> Option<&Pacer> {
        match &self.pacing {
            Pacing::Interface => None,
            Pacing::Fixed(pacer) => Some(pacer),
            Pacing::Told(pacer, _) => pacer.as_ref(),
            Pacing::Measured(measured) => measured.pacer.as_ref(),
        }
    }

    /// When the rate leaves room, if it does not now.
    pub(crate) fn next_room(&self, now: Instant) -> Option<Instant> {
        self.pacer().filter(|pacer| !pacer.has_room(now)).map(Pacer::next_room)
    }

    /// Counts datagram `counter` of the session, of so many bytes with all headers, that is sent.
    pub(crate) fn pace(&mut self, counter: u64, bytes: usize, now: Instant) {
        let pacer = match &mut self.pacing {
            Pacing::Interface => None,
            Pacing::Fixed(pacer) => Some(pacer),
            Pacing::Told(pacer, _) => pacer.as_mut(),
            Pacing::Measured(measured) => {
                if let Some(train) = measured.train.as_mut().filter(|train| !train.is_whole()) {
                    if train.packets == 0 {
                        train.first = counter;
                    }
                    train.packets += 1;
                }
                measured.pacer.as_mut()
            }
        };
        if let Some(pacer) = pacer {
            pacer.send(bytes, now);
        }
    }

    /// Begins a train: the next datagrams go back to back.
    pub(crate) fn begin_train(&mut self, burst: Burst) {
        if let Pacing::Measured(measured) = &mut self.pacing {
            measured.train = Some(Train { burst, first: 0, packets: 0 });
        }
    }

    /// The train that is being sent.
    pub(crate) fn train(&self) -> Option<&Train> {
        match &self.pacing {
            Pacing::Measured(measured) => measured.train.as_ref(),
            _ => None,
        }
    }

    /// Ends the train that is being sent.
    pub(crate) fn end_train(&mut self) -> Option<Train> {
        match &mut self.pacing {
            Pacing::Measured(measured) => measured.train.take(),
            _ => None,
        }
    }

    /// The capacity estimator of the link, if the link is measured.
    pub(crate) fn capacity(&mut self) -> Option<&mut CapacityEstimator> {
        match &mut self.pacing {
            Pacing::Measured(measured) => Some(&mut measured.capacity),
            _ => None,
        }
    }

    /// Takes what follows the first byte of a report; whether it is one.
    pub(crate) fn reported(&mut self, body: &[u8], now: Instant) -> bool {
        // A link that is not measured has no reports.
        let Some(capacity) = self.capacity() else { return true };
        let well = capacity.receive(body, now);
        self.take_rate();
        well
    }

    /// Whether it was up when it was last tended.
    pub(crate) fn is_up(&self) -> bool {
        self.was_up
    }

    /// Sends by what is measured from now on.
    pub(crate) fn take_rate(&mut self) {
        if let Pacing::Measured(measured) = &mut self.pacing {
            set_rate(&mut measured.pacer, measured.capacity.rate());
        }
    }

    /// The neighbour says what its own link carries: no more need go to it. What was configured
    /// here counts more.
    pub(crate) fn told(&mut self, rate: Bitrate, now: Instant) {
        if let Pacing::Interface = self.pacing {
            self.pacing = Pacing::Told(None, now);
        }
        if let Pacing::Told(pacer, at) = &mut self.pacing {
            set_rate(pacer, Some(rate));
            *at = now;
        }
    }

    /// Forgets what the neighbour has said if it says it no longer: it was started with another setting.
    pub(crate) fn forget_told(&mut self, now: Instant) {
        if let Pacing::Told(_, at) = self.pacing
            && now > at + TOLD_FOR
        {
            self.pacing = Pacing::Interface;
        }
    }

    /// When a train is due, or a word on the neighbour's.
    pub(crate) fn measuring_timeout(&self) -> Option<Instant> {
        let capacity = match &self.pacing {
            Pacing::Measured(measured) => Some(measured.capacity.poll_timeout()),
            _ => None,
        };
        capacity.into_iter().chain(self.receiver.poll_timeout()).min()
    }

    /// The rate that is sent by; zero while nothing may go, or nothing is known of a measured link.
    pub(crate) fn rate(&self) -> Option<Bitrate> {
        match &self.pacing {
            Pacing::Interface => None,
            Pacing::Fixed(pacer) => Some(pacer.rate()),
            Pacing::Told(pacer, _) => Some(pacer.as_ref().map_or(Bitrate::ZERO, Pacer::rate)),
            Pacing::Measured(measured) => Some(measured.capacity.rate().unwrap_or(Bitrate::ZERO)),
        }
    }

    /// The next keepalive to it.
    pub(crate) fn keepalive(&self, settings: Option<Settings>, now: Instant) -> Keepalive {
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let (heard_us, age_us) =
            self.heard.map_or((0, 0), |(keepalive, at)| (keepalive.time_us, micros(now.since(at))));
        Keepalive {
            time_us: now.as_nanos() / 1000,
            heard_us,
            age_us,
            quiet_us: self.presence.quiet(now).map_or(u32::MAX, micros),
            longest: u16::try_from(self.longest.get(now)).unwrap_or(u16::MAX),
            settings,
        }
    }

    pub(crate) fn on_keepalive(
        &mut self,
        keepalive: Keepalive,
        now: Instant,
        complaints: &mut Complaints,
    ) {
        let before = self.heard.replace((keepalive, now)).map_or(0, |(before, _)| before.heard_us);
        self.presence.answer(Duration::from_micros(keepalive.quiet_us.into()));
        if self.presence.is_there(now) {
            let (longest, answers) = (keepalive.longest.into(), keepalive.heard_us != before);
            let told = self.way.hear(longest, answers, self.rtt.unwrap_or_default(), now);
            self.outbox.bar = self.way.proven();
            if let Some(swallowed) = told {
                self.counters.swallowed += swallowed.count;
                complaints.swallowed(&self.name, &swallowed, now);
            }
        } else {
            self.way.pause();
        }
        let now_us = now.as_nanos() / 1000;
        if keepalive.heard_us == 0 {
            return;
        }
        let away = now_us.checked_sub(keepalive.heard_us);
        let Some(rtt) = away.and_then(|away| away.checked_sub(keepalive.age_us.into())) else {
            return;
        };
        let rtt = Duration::from_micros(rtt.min(60_000_000));
        self.rtt = Some(self.rtt.map_or(rtt, |old| (old * 7 + rtt) / 8));
    }

    /// Says once that a neighbour is there, or no longer.
    pub(crate) fn tell_change(
        &mut self,
        is_up: bool,
        now: Instant,
        initiates: bool,
        complaints: &mut Complaints,
    ) {
        let name = &self.name;
        match (self.was_up, is_up, self.address) {
            (false, true, Some(address)) => tracing::info!("link '{name}' is up, with {address}"),
            (true, false, _) => tracing::warn!("link '{name}' is down: nothing is heard of it"),
            (false, false, Some(address)) if initiates => {
                complaints.no_answer(name, address, now);
            }
            _ => {}
        }
        self.was_up = is_up;
        if !is_up {
            self.rtt = None;
        }
    }

    /// Counts what became of datagrams; of those that are too long, one has `length` bytes.
    pub(crate) fn note(
        &mut self,
        sent: Sent,
        length: usize,
        now: Instant,
        complaints: &mut Complaints,
    ) {
        self.counters.sent += sent.taken;
        self.counters.sent_bytes += sent.bytes + sent.taken * self.headers() as u64;
        self.counters.unsent.too_long += sent.too_long;
        self.counters.unsent.refused += sent.refused;
        self.blocked |= sent.blocked;
        if sent.refused > 0 {
            // This machine may have lost the address.
            self.own = None;
        }
        self.way.sent(sent.longer, sent.longest, now);
        if sent.too_long > 0 {
            complaints.too_long(&self.name, length, now);
        }
    }
}

/// What holds packets back to a rate.
pub(crate) fn pacer(rate: Bitrate) -> Pacer {
    Pacer::new(rate).in_bursts_of(BURST)
}

/// Lets what is in `slot` go by `rate`; nothing goes at zero, nor while it is not known.
fn set_rate(slot: &mut Option<Pacer>, rate: Option<Bitrate>) {
    match (rate, &mut *slot) {
        (None | Some(Bitrate::ZERO), _) => *slot = None,
        (Some(rate), Some(pacer)) => pacer.set_rate(rate),
        (Some(rate), None) => *slot = Some(pacer(rate)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_counts_with_the_headers_of_its_family() {
        let of = |address: &str| headers(address.parse().unwrap());
        assert_eq!(of("192.0.2.1:7"), 28);
        assert_eq!(of("[2001:db8::1]:7"), 48);
        assert_eq!(of("[::ffff:192.0.2.1]:7"), 28);
    }

    fn peer() -> Peer {
        let key = crate::key::SecretKey::generate().unwrap().public();
        let pace = Pace::Interface;
        Peer::new(&Neighbour { name: "ap".into(), key, address: None, pace }, 0)
    }

    #[test]
    fn two_at_two_addresses_take_turns_and_one_that_moves_does_not() {
        let mut complaints = Complaints::default();
        let mut flaps = |ports: &[u16]| {
            let mut peer = peer();
            for (ms, port) in (1000..).step_by(100).zip(ports) {
                let from = SocketAddr::from(([127, 0, 0, 1], *port));
                peer.begin(Way::to(from), Instant::from_millis(ms), &mut complaints);
            }
            peer.flaps.0
        };
        assert_eq!(flaps(&[1, 2, 3, 4, 5, 5, 6, 7]), 0);
        assert!(flaps(&[1, 2, 1, 2, 1]) >= FLAPS);
    }

    /// Two ends of a link that is up at 10 s. Each millisecond a datagram of data comes down if `data`
    /// of the milliseconds since then says so; keepalives come down so much later, and up at once, if
    /// `kept_alive` of the millisecond and of whether it goes up says so. When the device is not near for
    /// the access point, in ms.
    fn away(
        late_ms: fn(u64) -> u64,
        mut data: impl FnMut(u64) -> bool,
        mut kept_alive: impl FnMut(u64, bool) -> bool,
    ) -> Vec<u64> {
        let (mut ap, mut device, mut complaints) = (peer(), peer(), Complaints::default());
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let at = |ms: u64| Instant::from_millis(10_000 + ms);
        for end in [&mut ap, &mut device] {
            end.begin(Way::to(from), at(0), &mut complaints);
        }
        let (mut away, mut down) = (Vec::new(), std::collections::VecDeque::new());
        for ms in 0..20_000 {
            if ms % 100 == 0 {
                if kept_alive(ms, false) {
                    down.push_back((ms + late_ms(ms), ap.keepalive(None, at(ms))));
                }
                if kept_alive(ms, true) {
                    ap.presence.hear(at(ms));
                    ap.on_keepalive(device.keepalive(None, at(ms)), at(ms), &mut complaints);
                }
            }
            while down.front().is_some_and(|(due, _)| *due <= ms)
                && let Some((_, keepalive)) = down.pop_front()
            {
                device.presence.hear(at(ms));
                device.on_keepalive(keepalive, at(ms), &mut complaints);
            }
            if data(ms) {
                device.presence.hear(at(ms));
            }
            if !ap.presence.is_there(at(ms)) {
                away.push(ms);
            }
        }
        away
    }

    /// Whether the next of three in ten is not lost.
    fn lossy() -> impl FnMut() -> bool {
        let mut state = 7_u32;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % 10 >= 3
        }
    }

    #[test]
    fn losses_and_keepalives_that_are_late_make_no_neighbour_away_while_data_come() {
        let late = away(|ms| if ms % 2000 < 1000 { 0 } else { 500 }, |_| true, |_, _| true);
        assert!(late.is_empty(), "{} ms, first {:?}", late.len(), late.first());
        let (mut data, mut keepalives) = (lossy(), lossy());
        // All that goes up is data, too: of keepalives none is lost here.
        let lost = away(|_| 0, |_| data(), |_, up| up || keepalives());
        assert!(lost.is_empty(), "{} ms, first {:?}", lost.len(), lost.first());
    }

    #[test]
    fn one_that_hears_nothing_is_away_from_the_sessions_beginning_on() {
        let never = away(|_| 0, |_| false, |_, up| up);
        assert_eq!((never.first(), never.len()), (Some(&400), 19_600));
        let until = away(|_| 0, |ms| ms < 5000, |ms, up| up || ms < 5000);
        assert!(until.first().is_some_and(|ms| (5300..=5450).contains(ms)), "{:?}", until.first());
        let back = away(|_| 0, |ms| ms > 9000, |ms, up| up || ms > 9000);
        assert_eq!(back.last(), Some(&9099), "a keepalive after it hears again");
        // Keys that are made anew change nothing.
        let (mut ap, mut complaints) = (peer(), Complaints::default());
        let (from, now) = (SocketAddr::from(([127, 0, 0, 1], 1)), Instant::from_millis(5000));
        ap.begin(Way::to(from), now, &mut complaints);
        ap.on_keepalive(
            Keepalive { quiet_us: 400_000, ..peer().keepalive(None, now) },
            now,
            &mut complaints,
        );
        ap.begin(Way::to(from), now, &mut complaints);
        assert!(!ap.presence.is_there(now));
    }

    #[test]
    fn what_a_neighbour_no_longer_says_is_forgotten() {
        let mut peer = peer();
        let after = |ms: u64| Instant::from_millis(1000 + ms);
        peer.told(Bitrate::mbps(5), after(0));
        peer.told(Bitrate::mbps(6), after(2000));
        peer.forget_told(after(5000));
        assert_eq!(peer.rate(), Some(Bitrate::mbps(6)));
        peer.forget_told(after(5001));
        assert_eq!(peer.rate(), None, "started again with --rate auto");
    }
}
