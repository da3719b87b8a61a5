//! The thread of a bond's end, as those who own it see it.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::wake::Wake;
use crate::TunnelError;
use crate::poll::{Poller, Stop};

/// How long somebody who asks how it is waits for the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells a thread what to do; it ends when this is dropped.
pub(super) struct Handle<C> {
    commands: Sender<C>,
    wake: Wake,
    stop: Stop,
    /// Whether the thread goes no further, though it may still be there.
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread has of it.
pub(super) struct Orders<C> {
    commands: Receiver<C>,
    pub(super) wake: Wake,
    stop: Stop,
    is_over: Arc<AtomicBool>,
}

impl<C: Send + 'static> Handle<C> {
    /// A handle without a thread yet, what that is to have, and a poller that both can wake.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub(super) fn new() -> Result<(Self, Orders<C>, Poller), TunnelError> {
        let (stop, wake) = (Stop::new()?, Wake::new()?);
        let (commands, received) = channel();
        let mut poller = Poller::new(&stop)?;
        poller.add(wake.as_fd())?;
        let is_over = Arc::new(AtomicBool::new(false));
        let orders = Orders {
            commands: received,
            wake: wake.clone(),
            stop: stop.clone(),
            is_over: Arc::clone(&is_over),
        };
        Ok((Self { commands, wake, stop, is_over, thread: None }, orders, poller))
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has none to give.
    pub(super) fn start(
        mut self,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<Self, TunnelError> {
        let thread = std::thread::Builder::new().name("lanes".to_owned()).spawn(work);
        self.thread = Some(thread.map_err(TunnelError::os("starting a thread"))?);
        Ok(self)
    }

    pub(super) fn tell(&self, command: C) {
        // Nobody hears it if the thread has ended (`has_ended`).
        let _ = self.commands.send(command);
        self.wake.wake();
    }

    /// Whether the thread has ended by itself: its device is gone, or it has panicked.
    pub(super) fn has_ended(&self) -> bool {
        let is_finished = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        is_finished || self.is_over.load(Ordering::Relaxed)
    }

    /// Asks something; `None` if there is no answer within a second.
    pub(super) fn ask<A>(&self, question: impl FnOnce(Sender<A>) -> C) -> Option<A> {
        let (answer, answered) = channel();
        self.tell(question(answer));
        answered.recv_timeout(PATIENCE).ok()
    }
}

impl<C> Orders<C> {
    /// Whether the thread is to go on. Who wakes it from now on is noticed at its next wait.
    pub(super) fn goes_on(&self) -> bool {
        self.wake.clear();
        !self.stop.is_wanted()
    }

    /// The thread ends by itself: known before anybody is told why.
    pub(super) fn note_end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// The next thing to do, if there is one.
    pub(super) fn next(&self) -> Option<C> {
        self.commands.try_recv().ok()
    }
}

impl<C> Drop for Handle<C> {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
