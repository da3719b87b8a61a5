//! What a packet has at its end while it waits for room on a lane: its place in its flow, and its class.

use super::LaneId;
use super::flows::Flows;
use super::frame::Class;
use super::packet::Look;
use super::place::{PLACE, Place};
use crate::Instant;

/// Gives a packet its number in its flow, if it is in an order, as it is sent over a lane.
pub(super) fn number_now(flows: &mut Flows, packet: &mut [u8], lane: LaneId, now: Instant) {
    let Some((inner, place)) = Place::split(packet).filter(|(_, place)| place.flow != 0) else {
        return;
    };
    let flow = Look::at(inner).map(|look| look.flow);
    // One that is forgotten has rested for long.
    let numbers = flow.and_then(|flow| flows.numbered(flow)).filter(|one| one.is_of(place));
    numbers.map(|numbers| numbers.take(lane, now)).unwrap_or_default().replace(packet);
}

/// Takes the class off the end of a packet that has waited.
pub(super) fn take_class(packet: &mut Vec<u8>) -> Class {
    if packet.pop() == Some(Class::Bulk as u8) { Class::Bulk } else { Class::Medium }
}

/// Takes the place off a packet's end if it is in no order; the class that says whether it still has one.
pub(super) fn take_empty_place(packet: &mut Vec<u8>) -> Class {
    match Place::split(packet) {
        Some((_, place)) if place.flow != 0 => Class::Bulk,
        _ => {
            packet.truncate(packet.len().saturating_sub(PLACE));
            Class::Medium
        }
    }
}
