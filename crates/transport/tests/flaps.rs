//! What is left of a path that comes and goes: nothing. A program of its own, whose allocator counts.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::sync::atomic::Ordering;

use common::{Relay, Security, event, pair, patiently, pattern, transfer, two_paths};
use counting::{BUFFERS, ELSE};
use weftline::{Connection, PathEventKind};

#[allow(unsafe_code, reason = "an allocator is unsafe; this one passes on what it is asked")]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicI64, Ordering};

    /// Bytes that are longer together are a buffer.
    pub(crate) const SMALL: usize = 1024;

    /// Bytes that are allocated, of buffers and of all else.
    pub(crate) static BUFFERS: AtomicI64 = AtomicI64::new(0);
    pub(crate) static ELSE: AtomicI64 = AtomicI64::new(0);

    struct Counting;

    /// Buffers are of bytes; what has parts, such as a table that grows, is none, however long it is.
    fn count(layout: Layout) -> &'static AtomicI64 {
        if layout.align() == 1 && layout.size() > SMALL { &BUFFERS } else { &ELSE }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;

    // SAFETY: the system's allocator does the work.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count(layout).fetch_add(layout.size() as i64, Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            count(layout).fetch_sub(layout.size() as i64, Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe { System.dealloc(at, layout) }
        }
    }
}

/// The least that is allocated at rest, in buffers and else: on a busy machine what was lost is put away
/// long after its path is back.
async fn at_rest(from: &mut Connection, to: &mut Connection) -> [i64; 2] {
    let mut least = [i64::MAX; 2];
    for _ in 0..30 {
        transfer(from, to, &pattern(20_000, 0)).await;
        let now = [&BUFFERS, &ELSE].map(|count| count.load(Ordering::Relaxed));
        least = [least[0].min(now[0]), least[1].min(now[1])];
    }
    least
}

#[tokio::test]
async fn a_path_may_flap_a_thousand_times() {
    const FLAPS: usize = 1000;
    const BETWEEN_LOOKS: usize = 50;
    let (server, trust) = pair(Security::Plain);
    let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    let relay = Relay::start(address).await;
    let client = two_paths(trust).server(address).server(relay.address).build().unwrap();
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let mut events = connection.events();
        let mut peer = server.accept().await;
        let mut looks = Vec::new();
        for flap in 1..=FLAPS {
            relay.cut();
            relay.mend();
            transfer(&mut peer, &mut connection, &pattern(20_000, flap as u64)).await;
            event(&mut events, "two", |k| matches!(k, PathEventKind::Up { .. })).await;
            if flap % BETWEEN_LOOKS == 0 {
                looks.push(at_rest(&mut peer, &mut connection).await);
            }
        }
        // A look may find a buffer of 256 KiB more or less. The most of a quarter has it at both ends; a buffer
        // left behind by each flap is more than two of them. All else moves by some hundred bytes, where the
        // least that an allocator gives is 16.
        let quarter = looks.len() / 4;
        let of = |number: usize, which: usize| {
            let looks = &looks[quarter * number..quarter * (number + 1)];
            let mut of: Vec<i64> = looks.iter().map(|look| look[which]).collect();
            of.sort_unstable();
            of
        };
        let most = |number| of(number, 0).pop().unwrap();
        let median = |number| of(number, 1)[looks.len() / 8];
        let (buffers, more) = (most(3) - most(0), median(3) - median(1));
        let between = FLAPS as i64 / 2;
        eprintln!("{more} bytes more after {between} flaps, {buffers} of buffers: {looks:?}");
        assert!(more < 8 * between, "flaps leave memory behind: {looks:?}");
        assert!(buffers < 512 << 10, "flaps leave buffers behind: {looks:?}");
        let stats = connection.stats().session;
        assert!(stats.paths.len() == 2 && stats.paths.values().any(|p| p.lost_subflows >= 900));
    })
    .await;
}
