//! Shares the work on GoPs among threads: a piece of work is some rungs of one GoP. Rungs of a GoP
//! that is open come before another GoP is opened, so that few GoPs are in memory at once.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::encode::{EncodedRung, OpenGop, Workshop};
use super::layer::Layer;
use crate::error::VrError;

/// A GoP that is to be encoded, and what of it.
pub(crate) struct Wanted {
    pub(crate) gop: u32,
    pub(crate) layers: Vec<Layer>,
}

/// All rungs of the layers of a GoP that were wanted.
pub(crate) type Encoded = BTreeMap<Layer, Vec<EncodedRung>>;

/// Takes a GoP whose rungs are all there.
pub(crate) type Finish<'f> = &'f mut (dyn FnMut(&OpenGop, Encoded) -> Result<(), VrError> + Send);

/// Some rungs of a GoP that one process encodes, by the workshop of this number.
type Piece = (usize, Vec<u8>);

/// A GoP whose pictures are decoded, and what of it is done.
struct Bench {
    open: Arc<OpenGop>,
    /// What nobody has begun.
    waiting: VecDeque<Piece>,
    /// Pieces that are not done.
    left: usize,
    done: Encoded,
}

#[derive(Default)]
struct State {
    /// GoPs that nobody has opened.
    unopened: VecDeque<Wanted>,
    benches: Vec<Bench>,
    /// How many threads open a GoP just now.
    opening: usize,
    /// GoPs whose pictures are in memory or on disk, or will be: from before they are opened until
    /// the last thread has let them go.
    open: usize,
    failure: Option<VrError>,
    /// A thread panicked: what it would have done is done by nobody.
    panicked: bool,
}

/// What a thread does next.
enum Work {
    Open(Wanted),
    Encode(Arc<OpenGop>, Piece),
    Nothing,
}

/// Encodes `gops` with `jobs` threads and the workshop of each layer. `finish` takes each GoP when
/// all its rungs are there, one at a time.
///
/// # Errors
/// The first that any piece of work, or `finish`, gives; pieces that were begun are ended first.
pub(crate) fn encode_all(
    shops: &[Workshop<'_>],
    gops: Vec<Wanted>,
    jobs: usize,
    workdir: &PathBuf,
    finish: Finish<'_>,
) -> Result<(), VrError> {
    let pieces = gops.iter().map(|wanted| pieces(shops, wanted).len()).min().unwrap_or(1);
    let most_open = most_open(jobs, pieces);
    let state = Mutex::new(State { unopened: gops.into(), ..State::default() });
    let queue = Queue { shops, workdir, state, most_open, changed: Condvar::new() };
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

/// How many GoPs keep `jobs` threads busy where each has at least so many pieces: enough for a
/// piece each, and one GoP more, which is opened while the last pieces of another are encoded.
fn most_open(jobs: usize, pieces: usize) -> usize {
    jobs.div_ceil(pieces.max(1)) + 1
}

/// The work on a GoP.
fn pieces(shops: &[Workshop<'_>], wanted: &Wanted) -> VecDeque<Piece> {
    let shops = shops.iter().enumerate();
    let shops = shops.filter(|(_, shop)| wanted.layers.contains(&shop.layer));
    let pieces = |(at, shop): (usize, &Workshop<'_>)| {
        let qps: Vec<Vec<u8>> = shop.together(&shop.plan.qps).map(<[u8]>::to_vec).collect();
        qps.into_iter().map(move |qps| (at, qps))
    };
    shops.flat_map(pieces).collect()
}

struct Queue<'a> {
    shops: &'a [Workshop<'a>],
    workdir: &'a PathBuf,
    state: Mutex<State>,
    /// The most GoPs that are open at once.
    most_open: usize,
    changed: Condvar,
}

impl Queue<'_> {
    fn work(&self, finish: &Mutex<Finish<'_>>) {
        let _alarm = Alarm(self);
        loop {
            let done = match self.next() {
                Work::Nothing => return,
                Work::Open(wanted) => self.open(&wanted),
                Work::Encode(open, piece) => {
                    let done = self.encode(&open, &piece, finish);
                    self.let_go(open);
                    done
                }
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
            if state.failure.is_some() || state.panicked {
                return Work::Nothing;
            }
            let ready = state.benches.iter_mut().find_map(|bench| {
                bench.waiting.pop_front().map(|piece| Work::Encode(Arc::clone(&bench.open), piece))
            });
            if let Some(work) = ready {
                return work;
            }
            if state.open < self.most_open
                && let Some(wanted) = state.unopened.pop_front()
            {
                state.opening += 1;
                state.open += 1;
                return Work::Open(wanted);
            }
            if state.opening == 0 && state.unopened.is_empty() {
                return Work::Nothing;
            }
            // What is opened by another thread gives work to all, and what is let go makes room.
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn open(&self, wanted: &Wanted) -> Result<(), VrError> {
        let gop = wanted.gop;
        // The pictures are the same for all.
        let opened = self.shops[0].open(gop, self.workdir.join(format!("{gop:06}")));
        let mut state = self.lock();
        state.opening -= 1;
        let open = Arc::new(opened?);
        let waiting = pieces(self.shops, wanted);
        let left = waiting.len();
        state.benches.push(Bench { open, waiting, left, done: Encoded::new() });
        Ok(())
    }

    fn encode(
        &self,
        open: &OpenGop,
        (shop, qps): &Piece,
        finish: &Mutex<Finish<'_>>,
    ) -> Result<(), VrError> {
        let shop = &self.shops[*shop];
        let rungs = shop.encode(open, qps)?;
        let mut state = self.lock();
        let Some(at) = state.benches.iter().position(|bench| bench.open.gop == open.gop) else {
            // Another thread failed, and nothing more is finished.
            return Ok(());
        };
        let bench = &mut state.benches[at];
        bench.done.entry(shop.layer).or_default().extend(rungs);
        bench.left -= 1;
        if bench.left > 0 {
            return Ok(());
        }
        let bench = state.benches.swap_remove(at);
        drop(state);
        let mut finish = finish.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        finish(open, bench.done)
    }

    /// The last thread that lets a finished GoP go makes room for another, once its pictures are
    /// gone: those that encoded its other pieces may still hold it.
    fn let_go(&self, open: Arc<OpenGop>) {
        if let Some(last) = Arc::into_inner(open) {
            drop(last);
            self.lock().open -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked ends the scope with its panic.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Sends the other threads home when a thread panics. They would wait for its work for ever.
struct Alarm<'q, 'a>(&'q Queue<'a>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().panicked = true;
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At 8K and 60 pictures a second a GoP takes 2 GB, and its five QPs are five pieces.
    #[test]
    fn no_more_gops_are_open_than_keep_all_threads_busy() {
        for (jobs, pieces, wanted) in [(16, 5, 5), (16, 1, 17), (1, 5, 2), (2, 0, 3)] {
            assert_eq!(most_open(jobs, pieces), wanted, "{jobs} {pieces}");
        }
    }
}
