//! A stream, some subflows with figures set by hand, and a scheduler that is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::path::{PathId, PathInfo, PathMeter, SubflowId};
use crate::ranges::RangeSet;
use crate::scheduler::choice::SEGMENT;
use crate::scheduler::{Assignment, Entry, Scheduler, SchedulerConfig, SendView};
use crate::subflow::Subflow;
use crate::{ByteCount, Instant};

/// The figures of a subflow in the units that tables of schedulers use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) cwnd: u64,
    pub(super) in_flight: u64,
    pub(super) srtt_ms: u64,
}

impl Figures {
    /// `cwnd` and `in_flight` are segments.
    pub(super) const fn new(cwnd: u64, in_flight: u64, srtt_ms: u64) -> Self {
        Self { cwnd, in_flight, srtt_ms }
    }

    pub(super) fn info(self) -> PathInfo {
        let srtt = Duration::from_millis(self.srtt_ms);
        PathInfo {
            exact: true,
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
    pub(super) meters: BTreeMap<PathId, PathMeter>,
}

impl Bench {
    /// `written` segments to send, plenty of credit, and a subflow for each of `figures`.
    pub(super) fn new(scheduler: &str, written: u64, figures: &[Figures]) -> Self {
        Self::with(scheduler, &SchedulerConfig::default(), written, figures)
    }

    /// The same with other settings.
    pub(super) fn with(
        scheduler: &str,
        config: &SchedulerConfig,
        written: u64,
        figures: &[Figures],
    ) -> Self {
        let entry = Entry::find(scheduler).expect("registered");
        let mut bench = Self {
            scheduler: entry.make(config),
            now: Instant::from_millis(1),
            una: 0,
            acked: RangeSet::new(),
            unassigned: RangeSet::new(),
            end: 0,
            credit: u64::MAX,
            memory_left: None,
            expected: 0,
            subflows: Vec::new(),
            meters: BTreeMap::new(),
        };
        bench.write(written * SEGMENT);
        for (n, figures) in (0..).zip(figures) {
            bench.up(n);
            bench.figures(n as usize, *figures);
        }
        bench
    }

    pub(super) fn write(&mut self, bytes: u64) {
        self.unassigned.insert(self.end..self.end + bytes);
        self.end += bytes;
    }

    /// A subflow of one-segment chunks comes up on the path of its number.
    pub(super) fn up(&mut self, id: u64) {
        let chunk = (SEGMENT, SEGMENT);
        self.subflows.push(Subflow::new(SubflowId(id), PathId(id), chunk, self.now));
    }

    pub(super) fn figures(&mut self, index: usize, figures: Figures) {
        self.subflows[index].set_info(figures.info());
    }

    pub(super) fn view(&self) -> SendView<'_> {
        SendView {
            now: self.now,
            una: self.una,
            acked: &self.acked,
            unassigned: &self.unassigned,
            limit: self.end.min(self.credit),
            credit_window: self.credit.saturating_sub(self.una),
            credit_bound: false,
            memory_left: self.memory_left,
            max_memory: 256 << 20,
            expected: self.expected,
            subflows: &self.subflows,
            meters: &self.meters,
        }
    }

    /// The subflow asks for a segment; what it is given counts as given.
    pub(super) fn ask(&mut self, index: usize) -> Option<Assignment> {
        self.ask_for(index, SEGMENT)
    }

    /// What the subflow would get; nothing is given.
    pub(super) fn would(&mut self, index: usize) -> Option<Assignment> {
        self.answer(index, SEGMENT)
    }

    fn answer(&mut self, index: usize, budget: u64) -> Option<Assignment> {
        let mut scheduler = std::mem::replace(&mut self.scheduler, Box::new(Nothing));
        let next = scheduler.next(index, &self.view(), budget);
        self.scheduler = scheduler;
        next
    }

    pub(super) fn ask_for(&mut self, index: usize, budget: u64) -> Option<Assignment> {
        let next = self.answer(index, budget);
        if let Some(next) = &next {
            self.unassigned.remove(next.range.clone());
            self.subflows[index].assign(next.range.clone(), next.kind, self.now);
        }
        next
    }

    /// Asks every subflow that has room by its figures, in turn, until none takes anything, as a
    /// simulator does. Returns who took each segment, at most `most` of them.
    pub(super) fn settle(&mut self, most: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        loop {
            let before = taken.len();
            for index in 0..self.subflows.len() {
                if taken.len() == most {
                    return taken;
                }
                let room = self.subflows[index].room() >= SEGMENT;
                if room && !self.subflows[index].is_silent() && self.ask(index).is_some() {
                    taken.push(index);
                }
            }
            if taken.len() == before {
                return taken;
            }
        }
    }

    /// The peer has `range`.
    pub(super) fn ack(&mut self, range: std::ops::Range<u64>) {
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

    /// Gives the subflow something and lets it fall silent with that.
    pub(super) fn silence_after_ask(&mut self, index: usize) {
        self.ask(index).expect("something to send");
        self.silence(index);
    }

    /// Lets the subflow fall silent: time passes while it has data outstanding.
    pub(super) fn silence(&mut self, index: usize) {
        self.now += Duration::from_secs(10);
        assert_eq!(self.subflows[index].judge(self.now), Some(true), "nothing outstanding");
    }
}

/// Stands in while a scheduler is being asked.
#[derive(Debug)]
struct Nothing;

impl Scheduler for Nothing {
    fn next(&mut self, _: usize, _: &SendView<'_>, _: u64) -> Option<Assignment> {
        None
    }
}
