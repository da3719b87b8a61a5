//! What schedulers are told of the memory for bytes to send.

use std::sync::atomic::{AtomicU64, Ordering};

use super::schedulers::broken;
use super::*;

/// A scheduler that gives out nothing and notes how much memory it may count on.
#[derive(Debug)]
struct Noting;

static NOTED: AtomicU64 = AtomicU64::new(0);

impl Scheduler for Noting {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        NOTED.store(view.memory, Ordering::Relaxed);
        None
    }
}

#[test]
fn a_scheduler_counts_on_the_memory_that_there_would_be() {
    static NOTING: Entry = broken("noting", |_| Box::new(Noting));
    let config = SessionConfig { scheduler: &NOTING, ..SessionConfig::default() };
    let mut session = Session::new(&config, Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    let mut counted = |limit, reach| {
        session.set_send_limit(limit, reach, Instant::ZERO);
        session.write(&[7; 10], Instant::ZERO).unwrap();
        let _ = sent(&mut session, Instant::ZERO);
        NOTED.load(Ordering::Relaxed)
    };
    // A driver takes memory as it is held: what it has now would keep far paths from all data.
    let least = 64 << 10;
    assert_eq!(counted(least, u64::MAX), config.max_memory.as_u64());
    assert_eq!(counted(least, least), least);
}
