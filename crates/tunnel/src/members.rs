//! The devices of a gateway: which one a packet is for, whose turn it is on a link, and through which
//! access points each can be reached. No socket and no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use weftline_coding::node::Pacer;
use weftline_coding::node::counters;
use weftline_core::{Bitrate, Instant};

use crate::TunnelError;
use crate::class::Class;
use crate::endpoint::{Around, Use};
use crate::frame::{self, DeviceTag, Frame, MAX_DEVICES, NO_LIMIT, Settings};
use crate::gateway_end::GatewayEnd;
use crate::key::PublicKey;
use crate::packet;
use crate::peer::{IP_UDP, TOLD_FOR, pacer};
use crate::secure::Local;
use crate::settings::Sending;
use crate::status::{self, Counter, DeviceStatus};
use crate::tun::Prefix;
use crate::turns::Turns;

/// A device that has said nothing for so long is not there: it says something ten times a second.
const SILENCE: Duration = Duration::from_millis(600);

/// A device as the gateway knows it.
#[derive(Clone, Debug)]
pub struct GatewayDevice {
    /// A name of the user's choice.
    pub name: String,
    /// Its public key.
    pub key: PublicKey,
    /// Its addresses in the tunnel, or networks behind it: packets to them are for it, and it can send
    /// from no others. None: all, if it is the only device.
    pub addresses: Vec<Prefix>,
}

/// Checks that devices can be told apart.
///
/// # Errors
/// If there are none or too many, or two have one name or one key.
pub(crate) fn check_devices<'a>(
    devices: impl ExactSizeIterator<Item = (&'a str, &'a PublicKey)> + Clone,
) -> Result<(), TunnelError> {
    if !(1..=MAX_DEVICES).contains(&devices.len()) {
        return Err(TunnelError::Usage(format!(
            "1 to {MAX_DEVICES} devices are served; give --device NAME=KEY for each, or \
             --device-key KEY for one"
        )));
    }
    for (index, (name, key)) in devices.clone().enumerate() {
        for (other, known) in devices.clone().take(index) {
            let what = if other == name {
                "name"
            } else if DeviceTag::of(known) == DeviceTag::of(key) {
                "key"
            } else {
                continue;
            };
            return Err(TunnelError::Usage(format!(
                "the devices '{other}' and '{name}' have the same {what}; give each its own"
            )));
        }
    }
    Ok(())
}

/// What an access point says of its link to a device.
#[derive(Clone, Debug, Default)]
enum Reach {
    /// It is not there, or stands still.
    #[default]
    Away,
    /// It takes what comes.
    Free,
    /// It carries a rate of its own.
    Paced(Pacer),
}

/// A device.
struct Member {
    name: String,
    tag: DeviceTag,
    end: GatewayEnd,
    /// By access point, and when it said so last.
    reach: Vec<Reach>,
    told: Vec<Instant>,
    /// Bytes of IP packets handed to links, and taken.
    bytes_down: u64,
    bytes_up: u64,
    /// Packets that it sent from an address that is not its own.
    misaddressed: u64,
}

/// The state.
pub(crate) struct Members {
    members: Vec<Member>,
    /// Networks with the number of the device that they are of, the smallest first.
    routes: Vec<(Prefix, usize)>,
    /// By access point.
    turns: Vec<Turns>,
    /// As they stand in keepalives.
    epochs: Vec<u8>,
    /// Packets to no device's address, and of no IP.
    unrouted: u64,
    not_ip: u64,
    clamped: u64,
    mtu: u16,
}

impl Members {
    /// The devices, each with an end of its own, at a gateway with so many links.
    ///
    /// # Errors
    /// For devices or settings that make no sense.
    pub(crate) fn new(
        local: &Local,
        devices: &[GatewayDevice],
        sending: Sending,
        ipv6: bool,
        links: usize,
        now: Instant,
    ) -> Result<Self, TunnelError> {
        check_devices(devices.iter().map(|device| (&*device.name, &device.key)))?;
        let settings = sending.settings(local, ipv6)?;
        let member = |device: &GatewayDevice| {
            let end = GatewayEnd::new(local.clone(), device.key, settings, sending, links, now)?;
            Ok(Member {
                name: device.name.clone(),
                tag: DeviceTag::of(&device.key),
                end,
                reach: vec![Reach::default(); links],
                told: vec![now; links],
                bytes_down: 0,
                bytes_up: 0,
                misaddressed: 0,
            })
        };
        let members: Vec<_> = devices.iter().map(member).collect::<Result<_, TunnelError>>()?;
        let mut new = Self {
            turns: vec![Turns::new(members.len()); links],
            members,
            routes: routes(devices)?,
            epochs: Vec::new(),
            unrouted: 0,
            not_ip: 0,
            clamped: 0,
            mtu: sending.tunnel_mtu(local, ipv6)?,
        };
        new.list_epochs();
        Ok(new)
    }

    /// The longest packet for a device.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// How all are sent to, as it stands in keepalives.
    pub(crate) fn settings(&self) -> Option<Settings> {
        self.members.first().map(|member| member.end.settings())
    }

    /// The devices with their epochs, as they stand in keepalives.
    pub(crate) fn epochs(&self) -> &[u8] {
        &self.epochs
    }

    /// Lists the epochs anew; whether something has changed.
    pub(crate) fn list_epochs(&mut self) -> bool {
        let before = std::mem::take(&mut self.epochs);
        for Member { tag, end, .. } in &self.members {
            frame::list_epoch(*tag, end.epoch(), &mut self.epochs);
        }
        self.epochs != before
    }

    /// Takes what an access point says, or hands on.
    pub(crate) fn receive(
        &mut self,
        link: usize,
        frame: Frame<'_>,
        around: Around,
        now: Instant,
    ) -> Use {
        if let Frame::Keepalive(..) = frame {
            return Use::Taken;
        }
        let whose = self.members.iter_mut().find(|member| Some(member.tag) == around.of);
        let Some(member) = whose else { return Use::Unexpected };
        if let Frame::Rate(rate) = frame {
            member.told(link, rate, now);
            return Use::Taken;
        }
        member.end.receive(link, frame, around.class, now)
    }

    /// Appends the next frame that answers a device to `out`; the link that it goes on.
    pub(crate) fn poll_reply(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        let replies = self.members.iter_mut().find_map(|member| {
            let (link, frame) = member.end.poll_reply()?;
            Some((member.tag, link, frame))
        });
        let (tag, link, frame) = replies?;
        frame::begin_of(tag, out);
        out.extend_from_slice(&frame);
        Some(link)
    }

    /// Takes a packet of the TUN device's for the device that has its destination.
    pub(crate) fn push(&mut self, packet: &mut [u8], now: Instant) {
        let (Some(flow), Some((_, to))) = (packet::flow(packet), packet::addresses(packet)) else {
            self.not_ip += 1;
            return;
        };
        let Some(&(_, device)) = self.routes.iter().find(|(prefix, _)| prefix.contains(to)) else {
            self.unrouted += 1;
            return;
        };
        self.clamped += u64::from(packet::clamp_mss(packet, self.mtu));
        let member = &mut self.members[device];
        member.bytes_down += packet.len() as u64;
        member.end.push(flow, packet, now);
    }

    /// Forgets what an access point has said of its links: it begins anew.
    pub(crate) fn lost(&mut self, link: usize) {
        for member in &mut self.members {
            member.reach[link] = Reach::Away;
        }
    }

    /// What a link carries for all devices together, if that is known: what intervals are filled by
    /// where cohorts are sent whole.
    pub(crate) fn set_rate(&mut self, link: usize, rate: Option<Bitrate>) {
        let reached = |member: &&mut Member| !matches!(member.reach[link], Reach::Away);
        let active = self.members.iter_mut().filter(reached).filter(|m| m.end.waits()).count();
        let share = rate.map(|rate| Bitrate::bps(rate.as_bps() / active.max(1) as u64));
        for member in &mut self.members {
            let own = match &member.reach[link] {
                Reach::Away => Some(Bitrate::ZERO),
                Reach::Free => None,
                Reach::Paced(pacer) => Some(pacer.rate()),
            };
            member.end.set_rate(link, own.into_iter().chain(share).min());
        }
    }

    /// What an access point's links carry to the devices that it reaches, together; `None` if one takes
    /// what comes.
    pub(crate) fn rate(&self, link: usize) -> Option<Bitrate> {
        let mut rates = self.members.iter().map(|member| match &member.reach[link] {
            Reach::Away => Some(0),
            Reach::Free => None,
            Reach::Paced(pacer) => Some(pacer.rate().as_bps()),
        });
        let sum = rates.try_fold(0_u64, |sum, rate| Some(sum.saturating_add(rate?)));
        sum.map(Bitrate::bps)
    }

    /// Appends the frame that goes out next on a link with room to `out`; the class of what is in it.
    pub(crate) fn poll_transmit(
        &mut self,
        link: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Class> {
        let Self { members, turns, .. } = self;
        let mut class = None;
        turns[link].next(|device| {
            let start = out.len();
            class = members[device].transmit(link, now, out);
            if class.is_none() {
                out.truncate(start);
            }
            class.map(|_| out.len() - start)
        })?;
        class
    }

    /// Hands what the devices have sent, and what is due, to `each`.
    pub(crate) fn deliver(&mut self, now: Instant, mut each: impl FnMut(&[u8])) {
        let Self { members, routes, .. } = self;
        for (index, member) in members.iter_mut().enumerate() {
            let Member { end, bytes_up, misaddressed, .. } = member;
            end.deliver(now, |packet| {
                let from = packet::addresses(packet).map(|(from, _)| from);
                let of = from.and_then(|from| routes.iter().find(|(net, _)| net.contains(from)));
                if of.is_some_and(|&(_, owner)| owner == index) {
                    *bytes_up += packet.len() as u64;
                    each(packet);
                } else {
                    *misaddressed += 1;
                }
            });
        }
    }

    /// Gives away what is too old, and forgets what access points no longer say.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for member in &mut self.members {
            member.forget_told(now);
            member.end.handle_timeout(now);
        }
    }

    /// When it has something to do, and whether packets wait for the links.
    pub(crate) fn poll_timeout(&self, now: Instant) -> (Option<Instant>, bool) {
        let (mut due, mut waits) = (None::<Instant>, false);
        for member in &self.members {
            let (end, for_room) = member.end.poll_timeout();
            waits |= for_room;
            let paced = member.next_room(now).filter(|_| for_room);
            due = due.into_iter().chain(end).chain(paced).min();
        }
        (due, waits)
    }

    /// Whether it can go on.
    ///
    /// # Errors
    /// That the system has no random numbers for a new epoch.
    pub(crate) fn check(&mut self) -> Result<(), TunnelError> {
        self.members.iter_mut().try_for_each(|member| member.end.check())
    }

    /// What the sessions with the devices have dropped.
    pub(crate) fn dropped(&self) -> crate::endpoint::Dropped {
        let each = self.members.iter().map(|member| member.end.end.dropped);
        each.fold(crate::endpoint::Dropped::default(), crate::endpoint::Dropped::plus)
    }

    /// What was counted of all devices together.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let mut sums = status::sums(self.members.iter().map(Member::counters));
        sums.extend([
            Counter::of(counters::MSS_CLAMPED, self.clamped),
            Counter::of(counters::NOT_IP, self.not_ip),
            Counter::of(counters::PACKETS_UNROUTED, self.unrouted),
        ]);
        sums
    }

    /// How each device is; `links` are the access points' names.
    pub(crate) fn status(&self, links: &[String], now: Instant) -> Vec<DeviceStatus> {
        let device = |member: &Member| DeviceStatus {
            name: member.name.clone(),
            up: member.end.heard().is_some_and(|heard| now < heard + SILENCE),
            through: links
                .iter()
                .zip(&member.reach)
                .filter(|(_, reach)| !matches!(reach, Reach::Away))
                .map(|(name, _)| name.clone())
                .collect(),
            waiting: member.end.waiting() as u64,
            counters: member.counters(),
        };
        self.members.iter().map(device).collect()
    }
}

impl Member {
    /// What an access point says of its link to this device.
    fn told(&mut self, link: usize, rate: Bitrate, now: Instant) {
        self.told[link] = now;
        match (&mut self.reach[link], rate) {
            (reach, Bitrate::ZERO) => *reach = Reach::Away,
            (reach, NO_LIMIT) => *reach = Reach::Free,
            (Reach::Paced(known), rate) => known.set_rate(rate),
            (reach, rate) => *reach = Reach::Paced(pacer(rate)),
        }
    }

    /// An access point that does not know the device says nothing of it: it may be another one than before,
    /// or have been started anew with other devices.
    fn forget_told(&mut self, now: Instant) {
        for (reach, &told) in self.reach.iter_mut().zip(&self.told) {
            if now > told + TOLD_FOR {
                *reach = Reach::Away;
            }
        }
    }

    fn transmit(&mut self, link: usize, now: Instant, out: &mut Vec<u8>) -> Option<Class> {
        let has_room = match &self.reach[link] {
            Reach::Away => false,
            Reach::Free => true,
            Reach::Paced(pacer) => pacer.has_room(now),
        };
        let start = out.len();
        let class = has_room.then(|| self.end.poll_transmit(link, now, out)).flatten()?;
        if let Reach::Paced(pacer) = &mut self.reach[link] {
            pacer.send(out.len() - start + self.end.link_overhead() + IP_UDP, now);
        }
        Some(class)
    }

    /// When a link that is held back by its rate has room.
    fn next_room(&self, now: Instant) -> Option<Instant> {
        let paced = self.reach.iter().filter_map(|reach| match reach {
            Reach::Paced(pacer) if !pacer.has_room(now) => Some(pacer.next_room()),
            _ => None,
        });
        paced.min()
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = self.end.counters();
        counters.extend([
            Counter::of(counters::BYTES_DOWN, self.bytes_down),
            Counter::of(counters::BYTES_UP, self.bytes_up),
            Counter::of(counters::PACKETS_MISADDRESSED, self.misaddressed),
        ]);
        counters
    }
}

/// Which device each network is of, the smallest network first.
fn routes(devices: &[GatewayDevice]) -> Result<Vec<(Prefix, usize)>, TunnelError> {
    if let [GatewayDevice { addresses, .. }] = devices
        && addresses.is_empty()
    {
        let all = ["0.0.0.0/0", "::/0"].map(|all| (all.parse().expect("a prefix"), 0));
        return Ok(all.to_vec());
    }
    let mut known = BTreeMap::new();
    let mut routes = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        if device.addresses.is_empty() {
            return Err(TunnelError::Usage(format!(
                "the device '{}' has no address; with several devices give each --device \
                 NAME=KEY,address=10.9.0.2/32",
                device.name
            )));
        }
        for &prefix in &device.addresses {
            if let Some(other) = known.insert(prefix.network(), index).filter(|&at| at != index) {
                return Err(TunnelError::Usage(format!(
                    "the devices '{}' and '{}' have the same address; give each its own",
                    devices[other].name, device.name
                )));
            }
            routes.push((prefix, index));
        }
    }
    routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length));
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SecretKey;

    fn device(number: u8, addresses: &[&str]) -> GatewayDevice {
        GatewayDevice {
            name: format!("d{number}"),
            key: SecretKey::from_bytes([number; 32]).public(),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    fn owner(routes: &[(Prefix, usize)], address: &str) -> Option<usize> {
        let address = address.parse().unwrap();
        routes.iter().find(|(prefix, _)| prefix.contains(address)).map(|&(_, owner)| owner)
    }

    #[test]
    fn the_smallest_network_says_whose_a_packet_is() {
        let devices = [device(2, &["10.9.0.0/24", "fd09::2/128"]), device(3, &["10.9.0.3/32"])];
        let known = routes(&devices).unwrap();
        assert_eq!(owner(&known, "10.9.0.3"), Some(1));
        assert_eq!(owner(&known, "10.9.0.4"), Some(0));
        assert_eq!((owner(&known, "fd09::2"), owner(&known, "fd09::3")), (Some(0), None));
        assert_eq!(owner(&known, "10.9.1.3"), None);
        let only = routes(&[device(2, &[])]).unwrap();
        assert_eq!((owner(&only, "192.0.2.1"), owner(&only, "2001:db8::1")), (Some(0), Some(0)));
    }

    #[test]
    fn devices_that_cannot_be_told_apart_are_refused() {
        let said = |devices: &[GatewayDevice]| {
            let peers = devices.iter().map(|device| (&*device.name, &device.key));
            let found = check_devices(peers).and_then(|()| routes(devices).map(drop));
            found.unwrap_err().to_string()
        };
        let one = device(2, &["10.9.0.2/32"]);
        assert!(said(&[]).contains("1 to 64 devices"));
        assert!(said(&[one.clone(), device(3, &[])]).contains("'d3' has no address"));
        assert!(said(&[one.clone(), device(3, &["10.9.0.2/32"])]).contains("the same address"));
        let twice = GatewayDevice { key: one.key, ..device(3, &["10.9.0.3/32"]) };
        assert!(said(&[one.clone(), twice]).contains("the same key"));
        let named = GatewayDevice { name: one.name.clone(), ..device(3, &["10.9.0.3/32"]) };
        assert!(said(&[one, named]).contains("the same name"));
        let many: Vec<_> = (0..65).map(|number| device(number, &["10.0.0.0/8"])).collect();
        assert!(said(&many).contains("1 to 64 devices"));
    }
}
