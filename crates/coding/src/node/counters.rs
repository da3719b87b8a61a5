//! What nodes count, by name: the names and meanings that metrics, `weftline status`, `--stats`, the records of
//! runs and docs/cotag.md share. Most are of the state machines beside; the others are of the programs around
//! them.

use super::access_point::AccessPointStats;
use super::device::DeviceStats;
use super::gateway::GatewayStats;

/// A counter: its name, as in a metric's, and what it counts, at whichever node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub about: &'static str,
}

macro_rules! counters {
    ($($id:ident = $name:literal, $about:literal;)*) => {
        $(
            #[doc = $about]
            pub const $id: Meaning = Meaning { name: $name, about: $about };
        )*

        /// All of them.
        pub const ALL: &[Meaning] = &[$($id),*];
    };
}

counters! {
    PACKETS_RECEIVED = "packets_received",
        "packets taken: from the TUN device, from the gateway, from access points";
    PACKETS_HIGH = "packets_high",
        "packets sent for the first time; at an access point sent on as they came";
    PACKETS_LOW = "packets_low",
        "redundant packets sent; at an access point sent on";
    PACKETS_RECODED = "packets_recoded",
        "combinations that the access point made";
    PACKETS_GIVEN = "packets_given",
        "packets that a node had no time to send";
    PACKETS_LOW_GIVEN = "packets_low_given",
        "redundant packets that an access point had no time to send on";
    PACKETS_FULL = "packets_full",
        "dropped for lack of room: cohort, buffer or queue";
    PACKETS_DELAYED = "packets_delayed",
        "dropped by the queue: they had waited for too long (CoDel)";
    PACKETS_OVERFLOWED = "packets_overflowed",
        "dropped by the queue: it was full";
    PACKETS_MARKED = "packets_marked",
        "marked by its queue instead of dropped (ECN)";
    PACKETS_UNSEALED = "packets_unsealed",
        "dropped because the session had no keys left";
    PACKETS_NO_DEVICE = "packets_no_device",
        "dropped because the device was not there";
    PACKETS_UNROUTED = "packets_unrouted",
        "to the address of no device";
    PACKETS_MISADDRESSED = "packets_misaddressed",
        "sent by a device from an address that is not its own";
    UPLINK_LOST = "uplink_lost",
        "packets of the device that did not come";
    UPLINK_DUPLICATE = "uplink_duplicate",
        "packets of the device that came again";
    PACKETS_REDUNDANT = "packets_redundant",
        "combinations of what was there, and copies";
    PACKETS_REFUSED = "packets_refused",
        "wrong; at an access point also late";
    PACKETS_RECOVERED = "packets_recovered",
        "packets that coding restored";
    PACKETS_LOST = "packets_lost",
        "packets that could not be restored";
    PACKETS_LATE = "packets_late",
        "of a cohort that was closed";
    PACKETS_DUPLICATE = "packets_duplicate",
        "not coded, and came again or too late";
    PACKETS_CORRUPT = "packets_corrupt",
        "computed from combinations, and no packets";
    PACKETS_DELIVERED = "packets_delivered",
        "handed to the kernel";
    TIMEOUTS = "timeouts",
        "cohorts closed because a link showed nothing";
    PACKETS_POLLUTED = "packets_polluted",
        "computed from what an access point sent, and not what the gateway sent";
    PACKETS_MISNAMED = "packets_misnamed",
        "from an access point, of a generation that is not the gateway's";
    PACKETS_SHUT_OUT = "packets_shut_out",
        "what was ignored from such an access point afterwards";
    PACKETS_NO_WAY = "packets_no_way",
        "packets up for which there was no access point or session";
    PACKETS_ECN_DROPPED = "packets_ecn_dropped",
        "met congestion on the way, and not ECN-capable (RFC 6040)";
    PACKETS_STRAY = "packets_stray",
        "numbered too far ahead of the others; lost once they are given up";
    UPLINK_STRAY = "uplink_stray",
        "the same, of packets of the device";
    PACKETS_DISCARDED = "packets_discarded",
        "in a node, not yet sent or handed out, when the gateway or the device was restarted";
    RESTARTS = "restarts",
        "times that a node began anew, since the other end was started again, or labels were others";
    BYTES_DOWN = "bytes_down",
        "bytes of IP packets for devices";
    BYTES_UP = "bytes_up",
        "bytes of IP packets from devices";
    MSS_CLAMPED = "mss_clamped",
        "TCP handshakes whose MSS was lowered";
    NOT_IP = "not_ip",
        "what came out of the TUN device and is not IP";
    TUN_DROPPED = "tun_dropped",
        "found no room in the TUN device's queue; joined segments of TCP count as one";
    TUN_REFUSED = "tun_refused",
        "was not taken by the kernel";
    TUN_UNREAD = "tun_unread",
        "came out of the TUN device in a form that cannot be";
}

impl GatewayStats {
    /// What was counted, but for markers.
    pub fn counters(&self) -> [(Meaning, u64); 9] {
        [
            (PACKETS_RECEIVED, self.received),
            (PACKETS_HIGH, self.high),
            (PACKETS_LOW, self.low),
            (PACKETS_GIVEN, self.given),
            (PACKETS_FULL, self.refused),
            (PACKETS_UNSEALED, self.unsealed),
            (PACKETS_DELAYED, self.delayed),
            (PACKETS_OVERFLOWED, self.overflowed),
            (PACKETS_MARKED, self.marked),
        ]
    }
}

impl AccessPointStats {
    /// What was counted, but for markers.
    pub fn counters(&self) -> [(Meaning, u64); 10] {
        [
            (PACKETS_RECEIVED, self.received),
            (PACKETS_HIGH, self.high),
            (PACKETS_LOW, self.low),
            (PACKETS_RECODED, self.recoded),
            (PACKETS_GIVEN, self.given),
            (PACKETS_LOW_GIVEN, self.low_given),
            (PACKETS_FULL, self.full),
            (PACKETS_REDUNDANT, self.redundant),
            (PACKETS_REFUSED, self.refused),
            (RESTARTS, self.restarts),
        ]
    }
}

impl DeviceStats {
    /// What was counted, but for what its driver counts: it hands out what is delivered here.
    pub fn counters(&self) -> [(Meaning, u64); 10] {
        [
            (PACKETS_RECEIVED, self.received),
            (PACKETS_REDUNDANT, self.redundant),
            (PACKETS_RECOVERED, self.recovered),
            (PACKETS_LOST, self.lost),
            (PACKETS_FULL, self.full),
            (PACKETS_LATE, self.late),
            (PACKETS_REFUSED, self.refused),
            (PACKETS_CORRUPT, self.corrupt),
            (RESTARTS, self.restarts),
            (TIMEOUTS, self.timeouts),
        ]
    }
}
