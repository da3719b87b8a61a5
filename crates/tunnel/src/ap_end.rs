//! An access point between the gateway and its devices: what it holds for each, whose turn it is, and
//! what the gateway is told of each one's link. No socket and no clock.

use std::time::Duration;

use weftline_coding::node::{self, MEASURE_EVERY, admissible, counters};
use weftline_core::{Bitrate, ByteCount, Instant};

use crate::class::{self, Class, Classes};
use crate::endpoint::{Around, Use};
use crate::epoch::Epochs;
use crate::fifo::Fifo;
use crate::frame::{self, CODED_HEADER, Coding, DeviceTag, EpochList, Frame, NO_LIMIT, Settings};
use crate::key::PublicKey;
use crate::status::{self, Counter, Past};
use crate::turns::Turns;

/// The gateway is told of a change by more than one of so many parts at once, and otherwise in this
/// time.
const TELL_CHANGE: u64 = 32;
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// What goes down to a device.
enum Downlink {
    /// The gateway's settings are not known yet.
    Unknown,
    Coded(Box<node::AccessPoint>),
    Plain(Fifo, u64),
}

/// A device.
struct Member {
    tag: DeviceTag,
    downlink: Downlink,
    epochs: Epochs,
    /// What was counted by the settings before.
    past: Past,
    /// Of packets that are held.
    classes: Classes,
    told: Told,
    backlog: Backlog,
}

/// What waits for a measured link for too long, looked at as often as that is measured: the gateway need
/// not hear of each packet.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    bytes: ByteCount,
    looked: Option<Instant>,
}

/// A rate that the gateway was told last, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told(Option<(Bitrate, Instant)>);

impl Told {
    /// Whether it is to be told `rate` now.
    pub(crate) fn is_due(&mut self, rate: Bitrate, now: Instant) -> bool {
        let known = self.0.is_some_and(|(said, at)| {
            let change = rate.as_bps().abs_diff(said.as_bps());
            change <= said.as_bps() / TELL_CHANGE && now < at + TELL_INTERVAL
        });
        if !known {
            self.0 = Some((rate, now));
        }
        !known
    }
}

/// The state.
pub(crate) struct ApEnd {
    members: Vec<Member>,
    turns: Turns,
    seed: u64,
}

impl ApEnd {
    /// One that serves the devices with these keys.
    pub(crate) fn new(devices: &[PublicKey], seed: u64) -> Self {
        let member = |key| Member {
            tag: DeviceTag::of(key),
            downlink: Downlink::Unknown,
            epochs: Epochs::default(),
            past: Past::default(),
            classes: Classes::default(),
            told: Told::default(),
            backlog: Backlog::default(),
        };
        let members: Vec<_> = devices.iter().map(member).collect();
        Self { turns: Turns::new(members.len()), members, seed }
    }

    /// Takes what comes from the gateway. What is to go on at once is appended to `on`, and the device
    /// that it goes to is given back.
    pub(crate) fn receive_down(
        &mut self,
        frame: Frame<'_>,
        around: Around,
        now: Instant,
        on: &mut Vec<u8>,
    ) -> (Use, Option<usize>) {
        let used = match frame {
            Frame::Keepalive(keepalive, epochs) => {
                if let Some(settings) = keepalive.settings {
                    self.follow(settings, epochs);
                }
                Use::Taken
            }
            Frame::Relay(datagram) => {
                let of = self.members.iter().position(|member| Some(member.tag) == around.of);
                frame::begin_relay(on);
                on.extend_from_slice(datagram);
                return (of.map_or(Use::Unexpected, |_| Use::Taken), of);
            }
            Frame::Coded { epoch, .. } | Frame::Down { epoch, .. } => {
                let whose = self.members.iter_mut().find(|member| member.epochs.is_current(epoch));
                whose.map_or(Use::Stale, |member| member.receive(frame, around.class, now))
            }
            _ => Use::Unexpected,
        };
        (used, None)
    }

    /// The gateway's epoch for each device, and its settings.
    fn follow(&mut self, settings: Settings, epochs: EpochList<'_>) {
        for (tag, epoch) in epochs.iter() {
            let Some(member) = self.members.iter_mut().find(|member| member.tag == tag) else {
                continue;
            };
            if let Some(settings) = member.epochs.follow(epoch, settings) {
                member.past.add(member.downlink.counters(), member.downlink.unsent());
                member.downlink = Downlink::new(&settings, self.seed);
                member.classes = Classes::default();
            }
        }
    }

    /// Takes what comes from a device. What is to go on to the gateway is appended to `on`.
    pub(crate) fn receive_up(&self, device: usize, frame: Frame<'_>, on: &mut Vec<u8>) -> Use {
        match frame {
            Frame::Relay(datagram) => {
                frame::begin_of(self.members[device].tag, on);
                frame::begin_relay(on);
                on.extend_from_slice(datagram);
                Use::Taken
            }
            Frame::Keepalive(..) => Use::Taken,
            _ => Use::Unexpected,
        }
    }

    /// The least interval of coding of its devices' epochs.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let settings = self.members.iter().filter_map(|member| member.epochs.settings());
        settings.map(|settings| settings.interval).min()
    }

    /// Appends what goes out next, to a device whose link has room, to `out`: which device that is, and
    /// the class of what is in it.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        mut has_room: impl FnMut(usize) -> bool,
        out: &mut Vec<u8>,
    ) -> Option<(usize, Class)> {
        let Self { members, turns, .. } = self;
        // While no member has room, none loses its turn.
        if !(0..members.len()).any(&mut has_room) {
            return None;
        }
        let mut class = Class::NONE;
        let device = turns.next(|device| {
            if !has_room(device) {
                return None;
            }
            let start = out.len();
            let Some(sent) = members[device].transmit(now, out) else {
                out.truncate(start);
                return None;
            };
            class = sent;
            Some(out.len() - start)
        })?;
        Some((device, class))
    }

    /// Appends what the gateway is to be told now of a device's link to `out`: `rate` is what it
    /// carries, if that is measured, and `None` if it takes what comes.
    ///
    /// Of a measured link the gateway is told so much less that what waits here goes first. So that goes
    /// late, and is not given away, while the device is near.
    pub(crate) fn poll_rate(
        &mut self,
        device: usize,
        is_near: bool,
        rate: Option<Bitrate>,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let member = &mut self.members[device];
        let keeps = member.keep(is_near && rate.is_some());
        let rate = rate.map(|rate| match keeps {
            true => admissible(rate, member.backlog(rate, now)).min(rate),
            false => rate,
        });
        let rate = node::told(is_near, rate).unwrap_or(NO_LIMIT);
        let due = member.told.is_due(rate, now);
        if due {
            frame::begin_of(member.tag, out);
            frame::encode_rate(rate, out);
        }
        due
    }

    /// Gives away what is too old, also while no link has room.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for member in &mut self.members {
            if let Downlink::Coded(node) = &mut member.downlink {
                node.handle_timeout(now);
            }
        }
    }

    /// When it has something to do, and whether packets wait for the links.
    pub(crate) fn poll_timeout(&self) -> (Option<Instant>, bool) {
        let (mut due, mut waits) = (None::<Instant>, false);
        for member in &self.members {
            match &member.downlink {
                Downlink::Unknown => {}
                Downlink::Plain(fifo, _) => waits |= !fifo.is_empty(),
                Downlink::Coded(node) => {
                    let turn = node.poll_timeout();
                    // What is late is due at no time: it goes when there is room.
                    waits |= turn.is_some() || node.unsent() > 0;
                    due = due.into_iter().chain(turn).min();
                }
            }
        }
        (due, waits)
    }

    /// What was counted for each device.
    pub(crate) fn counters(&self) -> Vec<Vec<Counter>> {
        self.members.iter().map(|member| member.past.plus(member.downlink.counters())).collect()
    }

    /// Packets that wait for each device.
    pub(crate) fn waiting(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.downlink.unsent() as u64).collect()
    }

    /// The sums.
    pub(crate) fn sums(&self) -> Vec<Counter> {
        status::sums(self.counters())
    }
}

impl Member {
    /// Lets what its link could not carry in time go late from now on, or be given away. With whole cohorts
    /// it is given away always: each waits for the one before. Whether it goes late.
    fn keep(&mut self, late: bool) -> bool {
        let Downlink::Coded(node) = &mut self.downlink else { return false };
        let cuts_through = self.epochs.settings().is_some_and(|settings| settings.cut_through);
        node.set_giving(!(late && cuts_through));
        late && cuts_through
    }

    /// What waits for its link of `rate` beyond what that carries in time.
    fn backlog(&mut self, rate: Bitrate, now: Instant) -> ByteCount {
        let (Downlink::Coded(node), Some(settings)) = (&self.downlink, self.epochs.settings())
        else {
            return ByteCount::ZERO;
        };
        if self.backlog.looked.is_none_or(|looked| now >= looked + MEASURE_EVERY) {
            let waiting = node.backlog_bytes();
            // A cohort that is sent on as it comes has its own interval and the next one.
            let in_time = rate.bytes_in(2 * settings.interval).as_u64();
            let bytes = ByteCount::new(waiting.saturating_sub(in_time));
            self.backlog = Backlog { bytes, looked: Some(now) };
        }
        self.backlog.bytes
    }

    /// Takes a packet of its epoch.
    fn receive(&mut self, frame: Frame<'_>, class: Class, now: Instant) -> Use {
        match (frame, &mut self.downlink) {
            (Frame::Coded { packet, .. }, Downlink::Coded(node)) => {
                if class != Class::NONE
                    && let Some(at) = class::place_of(packet)
                {
                    self.classes.insert(at, class);
                }
                // What is dropped is counted there.
                let _ = node.receive(0, packet, now);
            }
            (Frame::Down { number, packet, .. }, Downlink::Plain(fifo, _)) => {
                fifo.push(number, class, packet);
            }
            _ => return Use::Unexpected,
        }
        Use::Taken
    }

    /// Appends what goes out next; its class.
    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Class> {
        let (epoch, start) = (self.epochs.current(), out.len());
        match &mut self.downlink {
            Downlink::Unknown => None,
            Downlink::Coded(node) => {
                frame::begin_coded(epoch, out);
                node.poll_transmit(now, out)?;
                Some(self.classes.of_coded(&out[start + CODED_HEADER..]))
            }
            Downlink::Plain(fifo, sent) => {
                let class = fifo.pop(|number, packet| {
                    frame::begin_down(epoch, number, out);
                    out.extend_from_slice(packet);
                });
                *sent += u64::from(class.is_some());
                class
            }
        }
    }
}

impl Downlink {
    fn new(settings: &Settings, seed: u64) -> Self {
        match settings.coding {
            Coding::Plain => Self::Plain(Fifo::new(settings.buffer_packets as usize), 0),
            Coding::Coded(mode) => {
                let node = node::AccessPoint::new(settings.node(mode, 100), 1, seed);
                Self::Coded(Box::new(node))
            }
        }
    }

    /// Packets that wait.
    fn unsent(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Coded(node) => node.unsent(),
            Self::Plain(fifo, _) => fifo.len(),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Coded(node) => Counter::of_node(node.stats().counters()),
            Self::Plain(fifo, sent) => vec![
                Counter::of(counters::PACKETS_RECEIVED, fifo.taken),
                Counter::of(counters::PACKETS_HIGH, *sent),
                Counter::of(counters::PACKETS_FULL, fifo.full),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_told_of_changes_at_once_and_of_the_rest_in_time() {
        let (mut told, start) = (Told::default(), Instant::from_millis(1000));
        let after = |ms| start + Duration::from_millis(ms);
        assert!(told.is_due(Bitrate::mbps(100), start));
        assert!(!told.is_due(Bitrate::mbps(101), after(1)), "nearly the same");
        assert!(told.is_due(Bitrate::mbps(110), after(2)));
        assert!(told.is_due(Bitrate::ZERO, after(3)), "it has gone");
        assert!(!told.is_due(Bitrate::ZERO, after(4)));
        assert!(told.is_due(NO_LIMIT, after(5)), "it is back");
        assert!(told.is_due(NO_LIMIT, after(105)));
    }
}
