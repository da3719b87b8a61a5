//! What obeys in a run that is steered from outside: the share of each path, or its window and pace.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weftline_congestion::{AckSample, Config, CongestionControl, Coupling, LossEvent};
use weftline_core::scheduler::choice::Choice;
use weftline_core::scheduler::picking::{Picking, Rule};
use weftline_core::scheduler::{Scheduler, SchedulerConfig};
use weftline_core::{Bitrate, SubflowId};
use weftline_sim::ControlPlace;

/// What has been asked of a run.
#[derive(Debug)]
pub(crate) struct Acts {
    /// The share of each path, and how often it was set.
    pub(crate) split: Mutex<(u64, Vec<f64>)>,
    /// By path: the window in segments, as the bits of a float, and the pace in bits a second, 0 for
    /// none.
    pub(crate) windows: Vec<[AtomicU64; 2]>,
}

impl Acts {
    pub(crate) fn new(paths: usize) -> Arc<Self> {
        let window = || [AtomicU64::new(10_f64.to_bits()), AtomicU64::new(0)];
        let windows = (0..paths).map(|_| window()).collect();
        Arc::new(Self { split: Mutex::new((0, vec![1.0; paths])), windows })
    }
}

/// Makes what obeys.
pub(crate) struct Steered;

impl Steered {
    pub(crate) fn scheduler(acts: &Arc<Acts>, config: &SchedulerConfig) -> Box<dyn Scheduler> {
        let split = Split { acts: Arc::clone(acts), seen: 0, sent: BTreeMap::new() };
        Box::new(Picking::opportunistic(split, config))
    }

    pub(crate) fn control(
        acts: &Arc<Acts>,
        config: &Config,
        place: ControlPlace,
    ) -> Box<dyn CongestionControl> {
        match (place.is_server, weftline_congestion::Entry::find("reno")) {
            // What the client sends are acknowledgements.
            (false, Some(reno)) => reno.make(config),
            _ => Box::new(Window { acts: Arc::clone(acts), path: place.path }),
        }
    }
}

/// Each segment goes to the path that is furthest behind its share, and waits for it.
#[derive(Debug)]
struct Split {
    acts: Arc<Acts>,
    seen: u64,
    /// Bytes since the shares were last set.
    sent: BTreeMap<SubflowId, u64>,
}

impl Rule for Split {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        let (version, shares) = &*self.acts.split.lock().unwrap_or_else(PoisonError::into_inner);
        if self.seen != *version {
            self.seen = *version;
            self.sent.clear();
        }
        let share = |index: &usize| {
            let path = usize::try_from(choice.subflow(*index).path().0).unwrap_or(usize::MAX);
            shares.get(path).copied().unwrap_or(0.0)
        };
        let behind = |index: &usize| {
            let sent = self.sent.get(&choice.subflow(*index).id()).copied().unwrap_or(0);
            (sent as f64 + 1.0) / share(index)
        };
        let mut shared = choice.live().filter(|index| share(index) > 0.0).peekable();
        match shared.peek() {
            Some(_) => shared.min_by(|a, b| behind(a).total_cmp(&behind(b))),
            // The paths with a share are dead.
            None => choice.lowest_rtt(),
        }
    }

    fn sent(&mut self, id: SubflowId, bytes: u64) {
        *self.sent.entry(id).or_default() += bytes;
    }
}

/// A control that does as it is told.
#[derive(Debug)]
struct Window {
    acts: Arc<Acts>,
    path: usize,
}

impl Window {
    fn get(&self, which: usize) -> u64 {
        self.acts.windows.get(self.path).map_or(0, |window| window[which].load(Ordering::Relaxed))
    }
}

impl CongestionControl for Window {
    fn on_ack(&mut self, _: &AckSample, _: &Coupling<'_>) {}

    fn on_congestion(&mut self, _: &LossEvent, _: &Coupling<'_>) {}

    fn on_timeout(&mut self, _: &LossEvent, _: bool, _: &Coupling<'_>) {}

    fn on_spurious(&mut self) {}

    fn on_penalty(&mut self) {}

    fn on_unused_window(&mut self, _: f64) {}

    fn cwnd(&self) -> f64 {
        f64::from_bits(self.get(0)).max(1.0)
    }

    fn ssthresh(&self) -> f64 {
        self.cwnd()
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        Some(self.get(1)).filter(|&rate| rate > 0).map(Bitrate::bps)
    }
}
