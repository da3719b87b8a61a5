//! What a scheduler sees.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::path::{PathId, PathMeter};
use crate::ranges::RangeSet;
use crate::subflow::Subflow;
use crate::{Bitrate, Instant};

/// The messages that a stream's bytes are.
pub(crate) trait Messages: std::fmt::Debug {
    /// The message that has the byte at `offset`, and its deadline.
    fn at(&self, offset: u64) -> Option<(Range<u64>, Option<Instant>)>;

    /// The first message without a deadline that has a byte at `offset` or above.
    fn undated_from(&self, offset: u64) -> Option<Range<u64>>;
}

/// Everything a scheduler sees when it is asked.
#[derive(Debug)]
pub struct SendView<'a> {
    /// The time.
    pub now: Instant,
    /// Everything below has been received by the peer.
    pub una: u64,
    /// Received above `una`.
    pub acked: &'a RangeSet,
    /// Offsets written by the application and on no live subflow.
    pub unassigned: &'a RangeSet,
    /// Nothing at or above this offset may be sent: the end of what was written, or of the
    /// receiver's credit.
    pub limit: u64,
    /// How far above the in-order point the receiver lets the sender go, in bytes.
    pub credit_window: u64,
    /// The most memory that there may be for bytes that are written and not acknowledged in order: a
    /// driver may have it only when they are held.
    pub memory: u64,
    /// What is left of the send memory, in bytes, if the application was refused for lack of it and
    /// less than a third has come free since.
    pub memory_left: Option<u64>,
    /// Bytes of the stream so far that the application has written, if it was refused room for
    /// more: as many again may be expected. Zero when it has said all that it has.
    pub expected: u64,
    /// The live subflows, in the order they came up.
    pub subflows: &'a [Subflow],
    /// How many bytes each of them may be given now, in the same order. Zero for one whose socket is
    /// full, that is stalled or stands by, or whose path has used up its cap.
    pub rooms: &'a [u64],
    /// Measurements of each path.
    pub meters: &'a BTreeMap<PathId, PathMeter>,
    /// The messages that the stream's bytes are, in a connection of messages.
    pub(crate) messages: Option<&'a dyn Messages>,
}

impl SendView<'_> {
    /// The rate at which a subflow delivers: measured, else the kernel's metric; at most the cap of
    /// its path, which the measurement does not see, as it counts the busy time only.
    pub fn rate(&self, subflow: &Subflow) -> Bitrate {
        let rate = self.measured_rate(subflow).unwrap_or(subflow.info().delivery_rate);
        subflow.cap().map_or(rate, |cap| cap.min(rate))
    }

    /// The subflows that new data may be counted on to go to: neither stalled nor standing by.
    pub fn usable(&self) -> impl Iterator<Item = &Subflow> {
        self.subflows.iter().filter(|subflow| subflow.is_usable())
    }

    /// Whether there are bytes to send and the receiver's credit lets none of them go.
    pub fn is_credit_spent(&self) -> bool {
        let waits = self.unassigned.last().is_some_and(|range| range.end > self.limit);
        waits && self.next_unsent().is_none()
    }

    /// Whether the send window is full: credit or memory is spent, and nothing new may be sent
    /// before the lowest bytes are acknowledged.
    pub fn is_blocked(&self) -> bool {
        self.is_credit_spent() || (self.unassigned.is_empty() && self.memory_left.is_some())
    }

    /// How many bytes the subflow with that index may be given now.
    pub fn room(&self, index: usize) -> u64 {
        self.rooms.get(index).copied().unwrap_or(0)
    }

    /// The indices of the subflows that may be given something.
    pub fn with_room(&self) -> impl Iterator<Item = usize> {
        (0..self.subflows.len()).filter(|&index| self.room(index) > 0)
    }

    /// How many bytes to give a subflow at once, if it has room for them.
    pub fn chunk_size(&self, subflow: &Subflow) -> u64 {
        subflow.chunk(self.measured_rate(subflow))
    }

    /// How many bytes to give the subflow with that index at once.
    pub fn chunk(&self, index: usize) -> u64 {
        self.chunk_size(&self.subflows[index]).min(self.room(index))
    }

    /// The lower end of `range`, as much as the subflow with that index is given at once.
    pub fn clip(&self, range: Range<u64>, index: usize) -> Range<u64> {
        let most = range.start.saturating_add(self.chunk(index));
        range.start..range.end.min(most)
    }

    /// The next new bytes in order of the stream for the subflow with that index.
    pub fn next_chunk(&self, index: usize) -> Option<Range<u64>> {
        Some(self.clip(self.next_unsent()?, index))
    }

    /// The message that has the byte at `offset`, and its deadline; `None` in a byte stream.
    pub fn message_at(&self, offset: u64) -> Option<(Range<u64>, Option<Instant>)> {
        self.messages?.at(offset)
    }

    /// The first message without a deadline that has a byte at `offset` or above.
    pub(crate) fn undated_from(&self, offset: u64) -> Option<Range<u64>> {
        self.messages?.undated_from(offset)
    }

    /// How many bytes of `within` no subflow has been given.
    pub(crate) fn unassigned_in(&self, within: &Range<u64>) -> u64 {
        let (mut at, mut bytes) = (within.start, 0);
        while let Some(open) = self.unassigned.first_in(&(at..within.end)) {
            bytes += open.end - open.start;
            at = open.end;
        }
        bytes
    }

    fn measured_rate(&self, subflow: &Subflow) -> Option<Bitrate> {
        self.meters.get(&subflow.path()).and_then(PathMeter::rate)
    }

    /// The lowest offsets that no subflow has and that may be sent.
    pub fn next_unsent(&self) -> Option<Range<u64>> {
        self.unassigned.first_in(&(self.una..self.limit))
    }

    /// The lowest offsets of `within` that are unacknowledged, on their way on another subflow,
    /// and were never sent on `me`.
    pub fn lowest_foreign(&self, me: &Subflow, within: &Range<u64>) -> Option<Range<u64>> {
        let mut at = within.start.max(self.una);
        while let Some(unacked) = self.acked.first_missing(&(at..within.end)) {
            at = unacked.start;
            while let Some(part) = me.on().first_missing(&(at..unacked.end)) {
                if let Some(open) = self.unassigned.first_missing(&part) {
                    return Some(open);
                }
                at = part.end;
            }
            at = unacked.end;
        }
        None
    }

    /// As [`lowest_foreign`](Self::lowest_foreign), but only if they begin at the in-order point. It
    /// looks nowhere else, however many holes a peer makes.
    pub fn foreign_head(&self, me: &Subflow) -> Option<Range<u64>> {
        let is_head = |range: &Range<u64>| range.start == self.una;
        let unacked = self.acked.first_missing(&(self.una..self.limit)).filter(is_head)?;
        let part = me.on().first_missing(&unacked).filter(is_head)?;
        self.unassigned.first_missing(&part).filter(is_head)
    }

    /// As [`lowest_foreign`](Self::lowest_foreign), the highest.
    pub fn highest_foreign(&self, me: &Subflow, within: &Range<u64>) -> Option<Range<u64>> {
        let start = within.start.max(self.una);
        let mut end = within.end;
        while let Some(unacked) = self.acked.last_missing(&(start..end)) {
            end = unacked.end;
            while let Some(part) = me.on().last_missing(&(unacked.start..end)) {
                if let Some(open) = self.unassigned.last_missing(&part) {
                    return Some(open);
                }
                end = part.start;
            }
            end = unacked.start;
        }
        None
    }

    /// The lowest offset of `within` that only `subflow` carries and that has not been acknowledged.
    /// What is on another subflow too is not waited for.
    pub fn own_unacked(&self, subflow: &Subflow, within: &Range<u64>) -> Option<u64> {
        let others = || self.subflows.iter().filter(|other| other.id() != subflow.id());
        let mut at = within.start.max(self.una);
        while let Some(part) = subflow.on().first_in(&(at..within.end)) {
            at = part.start;
            while let Some(unacked) = self.acked.first_missing(&(at..part.end)) {
                let shared = others().find_map(|other| other.on().range_at(unacked.start));
                let Some(shared) = shared else { return Some(unacked.start) };
                at = shared.end.min(unacked.end);
            }
            at = part.end;
        }
        None
    }

    /// The subflow other than `me` on which `offset` is on its way, the last that was given it if
    /// there are several, and when it was.
    pub(crate) fn latest_holder(&self, me: &Subflow, offset: u64) -> Option<(Instant, &Subflow)> {
        let others = self.subflows.iter().filter(|other| other.id() != me.id());
        let holders = others.filter_map(|other| Some((other.sent_at(offset)?, other)));
        holders.max_by_key(|(at, _)| *at)
    }

    /// The lowest range that only stalled subflows carry, as much of it as the subflow `me` can
    /// take: the lowest byte is what blocks the application.
    pub fn stalled_range(&self, me: usize) -> Option<Range<u64>> {
        Some(self.clip(self.only_on_stalled()?, me))
    }

    /// The lowest range that is unacknowledged and that only stalled subflows carry.
    pub(crate) fn only_on_stalled(&self) -> Option<Range<u64>> {
        let stalled = self.subflows.iter().filter(|subflow| subflow.is_stalled());
        stalled.filter_map(|one| self.only_on_stalled_one(one)).min_by_key(|range| range.start)
    }

    /// The lowest range that is unacknowledged, that `stalled` carries and no subflow that makes
    /// progress.
    pub(crate) fn only_on_stalled_one(&self, stalled: &Subflow) -> Option<Range<u64>> {
        let above = stalled.reinjected_below()..u64::MAX;
        self.lowest_only_on(stalled, &above, |other| !other.is_stalled())
    }

    /// The lowest offsets of `within` that `holder` carries, that are unacknowledged, and that none of the
    /// `others` carries.
    pub(crate) fn lowest_only_on(
        &self,
        holder: &Subflow,
        within: &Range<u64>,
        others: impl Fn(&Subflow) -> bool,
    ) -> Option<Range<u64>> {
        let mut at = within.start.max(self.una);
        'search: while let Some(part) = holder.on().first_in(&(at..within.end)) {
            let Some(mut open) = self.acked.first_missing(&part) else {
                at = part.end;
                continue;
            };
            for other in self.subflows.iter().filter(|other| others(other)) {
                let Some(left) = other.on().first_missing(&open) else {
                    at = open.end;
                    continue 'search;
                };
                open = left;
            }
            return Some(open);
        }
        None
    }

    /// As [`lowest_only_on`](Self::lowest_only_on), the highest.
    pub(crate) fn highest_only_on(
        &self,
        holder: &Subflow,
        within: &Range<u64>,
        others: impl Fn(&Subflow) -> bool,
    ) -> Option<Range<u64>> {
        let start = within.start.max(self.una);
        let mut end = within.end;
        'search: while let Some(part) = holder.on().last_in(&(start..end)) {
            let Some(mut open) = self.acked.last_missing(&part) else {
                end = part.start;
                continue;
            };
            for other in self.subflows.iter().filter(|other| others(other)) {
                let Some(left) = other.on().last_missing(&open) else {
                    end = open.start;
                    continue 'search;
                };
                open = left;
            }
            return Some(open);
        }
        None
    }
}
