//! Having the kernel refuse targets that the server does not reach: a program that is refused before it
//! has sent anything tries its next address.
//!
//! The kernel is asked by a thread of its own, as it may take its time. Only the connection that has
//! failed waits for that, and not for long; where many targets fail at once, some are left out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

/// The most targets that wait for the kernel.
const WAITING: usize = 64;
/// How long a program may wait for its reset until its target is refused.
const PATIENCE: Duration = Duration::from_secs(1);

/// Has targets refused. The thread ends with this.
#[derive(Debug)]
pub(super) struct Refusals {
    queue: SyncSender<Refusal>,
    /// How many targets have been left out since that was logged.
    skipped: Arc<AtomicU64>,
}

/// A target to be refused, and who waits for that.
type Refusal = (SocketAddr, oneshot::Sender<()>);

impl Refusals {
    /// Starts the thread, in which `refuse` asks the kernel.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(super) fn start(
        refuse: impl Fn(SocketAddr) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, waiting) = sync_channel(WAITING);
        let skipped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&skipped);
        let thread = std::thread::Builder::new().name("refusals".to_owned());
        thread.spawn(move || work(&waiting, &counter, refuse))?;
        Ok(Self { queue, skipped })
    }

    /// Has `target` refused. What it returns is done when it is, or was left out, or that takes long.
    pub(super) fn ask(&self, target: SocketAddr) -> impl Future<Output = ()> + Send + use<> {
        let (done, is_done) = oneshot::channel();
        if self.queue.try_send((target, done)).is_err() {
            // With that, its other end is dropped: nobody waits.
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
        async move {
            let _ = tokio::time::timeout(PATIENCE, is_done).await;
        }
    }
}

fn work(
    waiting: &Receiver<Refusal>,
    skipped: &AtomicU64,
    refuse: impl Fn(SocketAddr) -> io::Result<()>,
) {
    while let Ok(first) = waiting.recv() {
        for (target, done) in std::iter::once(first).chain(waiting.try_iter()) {
            if let Err(error) = refuse(target) {
                tracing::debug!("{target} is not refused ahead: {error}");
            }
            let _ = done.send(());
        }
        // Once for all that came together.
        match skipped.swap(0, Ordering::Relaxed) {
            0 => {}
            n => tracing::info!(
                "{n} connections to targets that the server does not reach were reset, but the \
                 targets are not refused ahead: more came than the kernel takes at once"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::sync::mpsc::channel;

    use super::*;

    fn target(port: u16) -> SocketAddr {
        SocketAddr::new([192, 0, 2, 1].into(), port)
    }

    #[tokio::test]
    async fn nobody_waits_for_a_kernel_that_is_busy() {
        let (seen, asked) = channel();
        let (go, gone) = channel::<()>();
        let patience = Duration::from_secs(400);
        let refuse = move |target: SocketAddr| {
            seen.send(target).unwrap();
            gone.recv_timeout(patience).map_err(io::Error::other)
        };
        let refusals = Refusals::start(refuse).unwrap();
        let first = refusals.ask(target(1));
        // The kernel is busy with it.
        assert_eq!(asked.recv_timeout(patience).unwrap(), target(1));
        let waiting = u16::try_from(WAITING).unwrap();
        let others: Vec<_> = (2..2 + waiting).map(|port| refusals.ask(target(port))).collect();
        // More find no place, are done at once, and are counted.
        for port in 0..10 {
            refusals.ask(target(1000 + port)).await;
        }
        assert_eq!(refusals.skipped.load(Ordering::Relaxed), 10);
        // The others are done when the kernel is.
        for _ in 0..=WAITING {
            go.send(()).unwrap();
        }
        let all = async {
            first.await;
            for other in others {
                other.await;
            }
        };
        tokio::time::timeout(patience, all).await.unwrap();
        assert_eq!(asked.try_iter().count(), WAITING);
    }
}
