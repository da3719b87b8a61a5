//! What is left of a path that comes and goes: nothing. A program of its own, whose allocator counts.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::sync::atomic::Ordering;

use common::{Relay, Security, event, pair, patiently, pattern, transfer, two_paths};
use counting::LIVE;
use weftline::{Connection, PathEventKind};

#[allow(unsafe_code, reason = "an allocator is unsafe; this one passes on what it is asked")]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicI64, Ordering};

    /// Bytes that are allocated.
    pub(crate) static LIVE: AtomicI64 = AtomicI64::new(0);

    struct Counting;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    // SAFETY: the system's allocator does the work.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe { System.dealloc(at, layout) }
        }
    }
}

/// The least that is allocated at rest: on a busy machine what was lost is put away long after its path
/// is back.
async fn at_rest(from: &mut Connection, to: &mut Connection) -> i64 {
    let mut least = i64::MAX;
    for _ in 0..30 {
        transfer(from, to, &pattern(20_000, 0)).await;
        least = least.min(LIVE.load(Ordering::Relaxed));
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
        // Buffers are one of a few sizes, now these and now those, so that a look may be any step above
        // or below another; what flaps leave is between all of them. The least that an allocator gives is
        // 16 bytes.
        let mut more: Vec<i64> = looks.windows(2).map(|two| two[1] - two[0]).collect();
        more.sort_unstable();
        let usual = more[more.len() / 2];
        eprintln!("{usual} bytes more after {BETWEEN_LOOKS} flaps: {looks:?}");
        assert!(usual < 8 * BETWEEN_LOOKS as i64, "flaps leave memory behind: {looks:?}");
        let all = looks[looks.len() - 1] - looks[0];
        assert!(all < 1 << 20, "{all} bytes more, and no buffers are so long: {looks:?}");
        let stats = connection.stats().session;
        assert!(stats.paths.len() == 2 && stats.paths.values().any(|p| p.lost_subflows >= 900));
    })
    .await;
}
