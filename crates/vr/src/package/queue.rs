//! Shares the work on GoPs among threads: a piece of work is some rungs of one GoP. Rungs of a GoP
//! that is open come before another GoP is opened, so that few GoPs are in memory at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::encode::{EncodedRung, OpenGop, Workshop};
use crate::error::VrError;

/// Takes a GoP whose rungs are all there.
pub(crate) type Finish<'f> =
    &'f mut (dyn FnMut(&OpenGop, Vec<EncodedRung>) -> Result<(), VrError> + Send);

/// A GoP whose pictures are decoded, and what of it is done.
struct Bench {
    open: Arc<OpenGop>,
    /// Rungs that nobody has begun, those together that one process encodes.
    waiting: VecDeque<Vec<u8>>,
    done: Vec<EncodedRung>,
}

#[derive(Default)]
struct State {
    /// GoPs that nobody has opened.
    unopened: VecDeque<u32>,
    benches: Vec<Bench>,
    /// How many threads open a GoP just now.
    opening: usize,
    failure: Option<VrError>,
}

/// What a thread does next.
enum Work {
    Open(u32),
    Encode(Arc<OpenGop>, Vec<u8>),
    Nothing,
}

/// Encodes `gops` with `jobs` threads. `finish` takes each GoP when all its rungs are there, one
/// at a time.
///
/// # Errors
/// The first that any piece of work, or `finish`, gives; pieces that were begun are ended first.
pub(crate) fn encode_all(
    shop: &Workshop<'_>,
    gops: Vec<u32>,
    jobs: usize,
    workdir: &PathBuf,
    finish: Finish<'_>,
) -> Result<(), VrError> {
    let state = Mutex::new(State { unopened: gops.into(), ..State::default() });
    let queue = Queue { shop, workdir, state, changed: Condvar::new() };
    let finish = Mutex::new(finish);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| queue.work(&finish));
        }
    });
    match queue.lock().failure.take() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

struct Queue<'a> {
    shop: &'a Workshop<'a>,
    workdir: &'a PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue<'_> {
    fn work(&self, finish: &Mutex<Finish<'_>>) {
        loop {
            let done = match self.next() {
                Work::Nothing => return,
                Work::Open(gop) => self.open(gop),
                Work::Encode(open, qps) => self.encode(&open, &qps, finish),
            };
            if let Err(failure) = done {
                let mut state = self.lock();
                state.failure.get_or_insert(failure);
                state.unopened.clear();
                state.benches.clear();
            }
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Work {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                return Work::Nothing;
            }
            let ready = state.benches.iter_mut().find_map(|bench| {
                bench.waiting.pop_front().map(|qps| Work::Encode(Arc::clone(&bench.open), qps))
            });
            if let Some(work) = ready {
                return work;
            }
            if let Some(gop) = state.unopened.pop_front() {
                state.opening += 1;
                return Work::Open(gop);
            }
            if state.opening == 0 {
                return Work::Nothing;
            }
            // What is opened by another thread gives work to all.
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn open(&self, gop: u32) -> Result<(), VrError> {
        let opened = self.shop.open(gop, self.workdir.join(format!("{gop:06}")));
        let mut state = self.lock();
        state.opening -= 1;
        let open = Arc::new(opened?);
        let waiting = self.shop.together(&self.shop.plan.qps).map(<[u8]>::to_vec).collect();
        state.benches.push(Bench { open, waiting, done: Vec::new() });
        Ok(())
    }

    fn encode(
        &self,
        open: &OpenGop,
        qps: &[u8],
        finish: &Mutex<Finish<'_>>,
    ) -> Result<(), VrError> {
        let rungs = self.shop.encode(open, qps)?;
        let mut state = self.lock();
        let Some(at) = state.benches.iter().position(|bench| bench.open.gop == open.gop) else {
            // Another thread failed, and nothing more is finished.
            return Ok(());
        };
        state.benches[at].done.extend(rungs);
        if state.benches[at].done.len() < self.shop.plan.qps.len() {
            return Ok(());
        }
        let bench = state.benches.swap_remove(at);
        drop(state);
        let mut finish = finish.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        finish(open, bench.done)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked ends the scope with its panic.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
