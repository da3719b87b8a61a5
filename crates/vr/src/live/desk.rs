//! What the threads of a live source share: its clock, and what became of its GoPs.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weftline_core::Instant as Time;
use weftline_core::time::nanos;
use weftline_video::live::{Slot, Timeline};

use super::{LiveEnd, LiveEvent, Lost};
use crate::ffmpeg::Stop;
use crate::package::{Description, Record};
use crate::source::Source;

/// The longest wait between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// See the module's documentation.
pub(super) struct Desk {
    pub(super) source: Source,
    pub(super) plan: Description,
    pub(super) encode_within: Option<Duration>,
    pub(super) tell: Arc<dyn Fn(LiveEvent) + Send + Sync>,
    pub(super) stop: Stop,
    began: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

/// What is known of the GoPs that were not sent.
pub(super) struct State {
    pub(super) timeline: Timeline,
    pub(super) gops: BTreeMap<u32, Gop>,
    pub(super) end: LiveEnd,
}

/// A GoP that was read.
pub(super) struct Gop {
    /// Its number in the source, which those that were left free have not.
    pub(super) source: u64,
    /// What its tiles lose where they are concealed.
    pub(super) concealments: Vec<(f64, Vec<f64>)>,
    /// When all of it was there.
    pub(super) read: Instant,
    pub(super) work: Work,
}

/// What became of the work on a GoP.
pub(super) enum Work {
    Under,
    Done { record: Record, init: u64 },
    Lost(Lost),
}

impl Desk {
    pub(super) fn new(
        (source, plan): (Source, Description),
        delay: Duration,
        encode_within: Option<Duration>,
        tell: Arc<dyn Fn(LiveEvent) + Send + Sync>,
        stop: Stop,
    ) -> Self {
        let timeline = Timeline::new(plan.gop_duration(), delay);
        let state = State { timeline, gops: BTreeMap::new(), end: LiveEnd::default() };
        Self {
            source,
            plan,
            encode_within,
            tell,
            stop,
            began: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked leaves whole values behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has those that wait look again.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// The time of the state machine.
    pub(super) fn now(&self) -> Time {
        Time::from_nanos(nanos(self.began.elapsed()))
    }

    /// The same time on the system's clock.
    pub(super) fn at(&self, time: Time) -> Instant {
        self.began + time.since(Time::ZERO)
    }

    /// Waits for a change, or until then; not for long, as it may be told to stop.
    pub(super) fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        until: Option<Time>,
    ) -> MutexGuard<'a, State> {
        let left = until.map_or(LOOK, |until| until.since(self.now()).min(LOOK));
        let waited = self.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until the next GoP may be read; `false` if it is to stop.
    pub(super) fn wait_to_read(&self) -> bool {
        let mut state = self.lock();
        loop {
            if self.stop.asked() {
                return false;
            }
            match state.timeline.reads_from() {
                Some(at) if at > self.now() => state = self.wait(state, Some(at)),
                _ => return true,
            }
        }
    }

    /// A GoP is there, of that number in the source; `concealments` is asked for what it loses where it is
    /// concealed, given how many numbers nothing came for. Its number in the stream, if it has one.
    pub(super) fn take(
        &self,
        source: u64,
        concealments: impl FnOnce(u32) -> Vec<(f64, Vec<f64>)>,
    ) -> Option<u32> {
        let slot = self.lock().timeline.handle_gop(self.now());
        let Slot::Take { number, missed } = slot else {
            self.lock().end.left_out += 1;
            (self.tell)(LiveEvent::LeftOut(1));
            return None;
        };
        let (concealments, read) = (concealments(missed), Instant::now());
        self.lock().gops.insert(number, Gop { source, concealments, read, work: Work::Under });
        Some(number)
    }

    /// Something became of a GoP; `false` if it was sent before.
    pub(super) fn conclude(&self, number: u32, work: Work) -> bool {
        let mut state = self.lock();
        let found = state.gops.get_mut(&number).map(|gop| gop.work = work);
        drop(state);
        self.wake();
        found.is_some()
    }
}

impl State {
    /// How long the oldest GoP has been there that is not encoded.
    pub(super) fn behind(&self) -> Duration {
        let under = self.gops.values().filter(|gop| matches!(gop.work, Work::Under));
        under.map(|gop| gop.read.elapsed()).max().unwrap_or(Duration::ZERO)
    }
}
