//! Files that are read while streams go on: by a few threads, however many players there are.
//!
//! The runtime's own pool begins another thread for each file that is asked for while all of its threads read,
//! up to hundreds. Each thread has a heap of its own in the system's allocator, which keeps the most that it
//! once held, so a server's memory grew with the threads that had ever read for it. What is read here is mostly
//! in the system's cache, and as many threads as there are cores read it as fast.

use std::fmt;
use std::io;
use std::num::NonZero;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// The readers of a server. They end with it.
pub(super) struct Disk(Sender<Work>);

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl Disk {
    /// As many readers as there are cores.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub(super) fn start() -> io::Result<Self> {
        Self::with(thread::available_parallelism().map_or(1, NonZero::get))
    }

    fn with(readers: usize) -> io::Result<Self> {
        let (to, from) = mpsc::channel();
        let from = Arc::new(Mutex::new(from));
        for _ in 0..readers {
            let from = Arc::clone(&from);
            thread::Builder::new().name("disk".to_owned()).spawn(move || serve(&from))?;
        }
        Ok(Self(to))
    }

    /// What `read` reads, once a reader is free. Cancel safe: what is not waited for is read for nothing.
    ///
    /// # Errors
    /// Those of `read`; also if it panics.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (answer, answered) = oneshot::channel();
        let work = move || {
            if !answer.is_closed() {
                let _ = answer.send(read());
            }
        };
        let gone = || io::Error::other("the thread that reads files has ended");
        self.0.send(Box::new(work)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// Reads what is asked for until nobody can ask any more.
fn serve(from: &Mutex<Receiver<Work>>) {
    loop {
        let next = from.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(work) => work(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Sixty-four players that wanted a file at once were as many threads.
    #[tokio::test]
    async fn a_crowd_is_read_for_by_few_threads() {
        let disk = Arc::new(Disk::with(2).unwrap());
        let (seen, read) = mpsc::channel();
        let players: Vec<_> = (0..64_usize)
            .map(|player| {
                let (disk, seen) = (Arc::clone(&disk), seen.clone());
                tokio::spawn(async move {
                    let id = move || {
                        let _ = seen.send(format!("{:?}", thread::current().id()));
                        Ok(player)
                    };
                    disk.read(id).await
                })
            })
            .collect();
        for (player, read) in players.into_iter().enumerate() {
            assert_eq!(read.await.unwrap().unwrap(), player);
        }
        drop(seen);
        let threads: BTreeSet<String> = read.iter().collect();
        assert!((1..=2).contains(&threads.len()), "{threads:?}");
    }

    #[tokio::test]
    async fn what_is_not_waited_for_and_what_fails_does_no_harm() {
        let disk = Disk::with(1).unwrap();
        for _ in 0..8 {
            drop(disk.read(|| Ok(())));
        }
        let missing = disk.read(|| std::fs::read("/nonexistent")).await;
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(disk.read(|| Ok(7)).await.unwrap(), 7);
    }
}
