//! A stream, some subflows with metrics set by hand, and a scheduler that is asked.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

use crate::path::{PathId, PathInfo, PathMeter, SubflowId};
use crate::ranges::RangeSet;
use crate::scheduler::choice::SEGMENT;
use crate::scheduler::{
    Assignment, Entry, Kind, Messages, Penalties, Scheduler, SchedulerConfig, SendView,
};
use crate::subflow::Subflow;
use crate::{ByteCount, Instant};

/// The metrics of a subflow in the units that tables of schedulers use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metrics {
    pub(super) cwnd: u64,
    pub(super) in_flight: u64,
    pub(super) srtt_ms: u64,
}

impl Metrics {
    /// `cwnd` and `in_flight` are segments.
    pub(super) const fn new(cwnd: u64, in_flight: u64, srtt_ms: u64) -> Self {
        Self { cwnd, in_flight, srtt_ms }
    }

    pub(super) fn info(self) -> PathInfo {
        let srtt = Duration::from_millis(self.srtt_ms);
        PathInfo {
            cwnd: segments(self.cwnd),
            in_flight: segments(self.in_flight),
            srtt,
            rttvar: srtt / 8,
            min_rtt: srtt,
            // Past the first slow start, in congestion avoidance.
            ssthresh: Some(segments(self.cwnd / 2)),
            ..PathInfo::default()
        }
    }
}

pub(super) fn segments(n: u64) -> ByteCount {
    ByteCount::new(n * SEGMENT)
}

/// Where bytes begin that only fill a socket.
const FILLER: u64 = 1 << 50;

/// What a subflow was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) subflow: usize,
    pub(super) range: Range<u64>,
    pub(super) kind: Kind,
}

impl Given {
    pub(super) fn is_again(&self) -> bool {
        self.kind != Kind::New
    }
}

/// Messages: where each begins and ends, and its deadline.
#[derive(Debug, Default)]
pub(super) struct Sent(pub(super) Vec<(Range<u64>, Option<Instant>)>);

impl Messages for Sent {
    fn at(&self, offset: u64) -> Option<(Range<u64>, Option<Instant>)> {
        self.0.iter().find(|(range, _)| range.contains(&offset)).cloned()
    }

    fn undated_from(&self, offset: u64) -> Option<Range<u64>> {
        let mut above = self.0.iter().filter(|(range, _)| range.end > offset);
        above.find(|(_, deadline)| deadline.is_none()).map(|(range, _)| range.clone())
    }
}

/// The sending side of a connection as far as a scheduler sees it.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) now: Instant,
    pub(super) una: u64,
    pub(super) acked: RangeSet,
    pub(super) unassigned: RangeSet,
    /// Bytes written.
    pub(super) end: u64,
    pub(super) credit: u64,
    pub(super) memory_left: Option<u64>,
    pub(super) expected: u64,
    pub(super) subflows: Vec<Subflow>,
    pub(super) rooms: Vec<u64>,
    /// The chunks of subflows that come up: one segment.
    pub(super) chunk: (u64, u64),
    /// Whose windows are to be halved.
    pub(super) penalties: mpsc::Receiver<SubflowId>,
    pub(super) meters: BTreeMap<PathId, PathMeter>,
    pub(super) messages: Option<Sent>,
}

impl Bench {
    /// `written` segments to send, plenty of credit, and a subflow for each of `metrics`.
    pub(super) fn new(scheduler: &str, written: u64, metrics: &[Metrics]) -> Self {
        Self::with(scheduler, &SchedulerConfig::default(), written, metrics)
    }

    /// The same with other settings.
    pub(super) fn with(
        scheduler: &str,
        config: &SchedulerConfig,
        written: u64,
        metrics: &[Metrics],
    ) -> Self {
        let entry = Entry::find(scheduler).expect("registered");
        let (penalise, penalties) = mpsc::channel();
        let config = SchedulerConfig { penalties: Penalties::to(penalise), ..config.clone() };
        let mut bench = Self {
            scheduler: entry.make(&config),
            now: Instant::from_millis(1),
            una: 0,
            acked: RangeSet::new(),
            unassigned: RangeSet::new(),
            end: 0,
            credit: u64::MAX,
            memory_left: None,
            expected: 0,
            subflows: Vec::new(),
            rooms: Vec::new(),
            chunk: (SEGMENT, SEGMENT),
            penalties,
            meters: BTreeMap::new(),
            messages: None,
        };
        bench.write(written * SEGMENT);
        for (n, metrics) in (0..).zip(metrics) {
            bench.up(n);
            bench.set_metrics(n as usize, *metrics);
        }
        bench
    }

    pub(super) fn write(&mut self, bytes: u64) {
        self.unassigned.insert(self.end..self.end + bytes);
        self.end += bytes;
    }

    /// A subflow comes up on the path of its number.
    pub(super) fn up(&mut self, id: u64) {
        let chunk = self.chunk;
        self.subflows.push(Subflow::new(SubflowId(id), PathId(id), chunk, self.now));
    }

    pub(super) fn set_metrics(&mut self, index: usize, metrics: Metrics) {
        self.set_info(index, metrics.info());
    }

    /// Sets a subflow's metrics. What is in its socket by these, and was not given to it here, are
    /// bytes far above the stream.
    pub(super) fn set_info(&mut self, index: usize, info: PathInfo) {
        let subflow = &mut self.subflows[index];
        let missing = info.queued().as_u64().saturating_sub(subflow.outstanding());
        if missing > 0 {
            let start = FILLER + subflow.sent();
            subflow.assign(start..start + missing, Kind::New, self.now);
        }
        subflow.set_info(info, 0);
    }

    pub(super) fn view(&self) -> SendView<'_> {
        SendView {
            now: self.now,
            una: self.una,
            acked: &self.acked,
            unassigned: &self.unassigned,
            limit: self.end.min(self.credit),
            credit_window: self.credit.saturating_sub(self.una),
            memory_left: self.memory_left,
            memory: 256 << 20,
            expected: self.expected,
            subflows: &self.subflows,
            rooms: &self.rooms,
            meters: &self.meters,
            messages: self.messages.as_ref().map(|sent| sent as &dyn Messages),
        }
    }

    /// Only that subflow has room, for a segment; what it is given counts as given.
    pub(super) fn ask(&mut self, index: usize) -> Option<Given> {
        self.ask_for(index, SEGMENT)
    }

    /// What the subflow would get; nothing is given.
    pub(super) fn would(&mut self, index: usize) -> Option<Assignment> {
        self.room_for(index, SEGMENT);
        self.answer()
    }

    pub(super) fn ask_for(&mut self, index: usize, room: u64) -> Option<Given> {
        self.room_for(index, room);
        self.pick()
    }

    fn room_for(&mut self, index: usize, room: u64) {
        self.rooms = vec![0; self.subflows.len()];
        self.rooms[index] = room;
    }

    fn answer(&mut self) -> Option<Assignment> {
        let mut scheduler = std::mem::replace(&mut self.scheduler, Box::new(Nothing));
        let next = scheduler.pick(&self.view());
        self.scheduler = scheduler;
        next
    }

    /// Asks once, with the rooms as they are set.
    pub(super) fn pick(&mut self) -> Option<Given> {
        let Assignment { subflow, range } = self.answer()?;
        let mut moving = self.subflows.iter().filter(|subflow| !subflow.is_stalled());
        let kind = if self.unassigned.contains(&range) {
            Kind::New
        } else if moving.any(|subflow| subflow.on().range_at(range.start).is_some()) {
            Kind::Copy
        } else {
            Kind::Reinjection
        };
        self.unassigned.remove(range.clone());
        self.subflows[subflow].assign(range.clone(), kind, self.now);
        self.rooms[subflow] -= range.end - range.start;
        Some(Given { subflow, range, kind })
    }

    /// Asks with the room that windows have until nobody takes anything, as a simulator does. Returns
    /// who took each segment, at most `most` of them.
    pub(super) fn settle(&mut self, most: usize) -> Vec<usize> {
        self.settle_by(most, Subflow::window_room)
    }

    /// The same with the room that each subflow has at every moment.
    pub(super) fn settle_by(&mut self, most: usize, room: impl Fn(&Subflow) -> u64) -> Vec<usize> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let whole = |subflow: &Subflow| match subflow.is_usable() {
                true => room(subflow) / SEGMENT * SEGMENT,
                false => 0,
            };
            self.rooms = self.subflows.iter().map(whole).collect();
            match self.pick() {
                Some(given) => taken.push(given.subflow),
                None => break,
            }
        }
        taken
    }

    /// The peer has `range`.
    pub(super) fn ack(&mut self, range: Range<u64>) {
        self.unassigned.remove(range.clone());
        self.acked.insert(range.start.max(self.una)..range.end.max(self.una));
        if let Some(first) = self.acked.first().filter(|first| first.start == self.una) {
            self.una = first.end;
            self.acked.remove_below(self.una);
            self.subflows.iter_mut().for_each(|subflow| subflow.release_below(first.end));
        }
    }

    /// The subflow is gone; what only it carried is unassigned again.
    pub(super) fn down(&mut self, index: usize) {
        let dead = self.subflows.remove(index);
        for range in dead.on().iter() {
            self.unassigned.insert(range.start.max(self.una)..range.end.max(self.una));
        }
        let known = self.acked.iter().chain(self.subflows.iter().flat_map(|s| s.on().iter()));
        let known: Vec<_> = known.collect();
        known.into_iter().for_each(|range| {
            self.unassigned.remove(range);
        });
    }

    /// Gives the subflow something and lets it stall with that.
    pub(super) fn stall_after_ask(&mut self, index: usize) {
        self.ask(index).expect("something to send");
        self.stall(index);
    }

    /// Lets the subflow stall: time passes while it has data outstanding.
    pub(super) fn stall(&mut self, index: usize) {
        self.now += Duration::from_secs(10);
        assert_eq!(
            self.subflows[index].evaluate(false, self.now),
            Some(true),
            "nothing outstanding"
        );
    }
}

/// Stands in while a scheduler is being asked.
#[derive(Debug)]
struct Nothing;

impl Scheduler for Nothing {
    fn pick(&mut self, _: &SendView<'_>) -> Option<Assignment> {
        None
    }
}
