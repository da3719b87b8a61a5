//! What is left of a path that comes and goes: nothing. A program of its own, whose allocator counts.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Instant;

use common::{PATIENCE, Relay, Security, event, pair, patiently, pattern, transfer, two_paths};
use counting::LIVE;
use weftline::PathEventKind;

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

#[tokio::test]
async fn a_path_may_flap_a_thousand_times() {
    const FLAPS: usize = 1000;
    /// Transfers without a flap.
    const AT_REST: usize = 100;
    let (server, trust) = pair(Security::Plain);
    let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    let relay = Relay::start(address).await;
    let client = two_paths(trust).server(address).server(relay.address).build().unwrap();
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let mut events = connection.events();
        let mut peer = server.accept().await;
        // At rest: on a busy machine what was lost is put away long after its path is back. What is left
        // at the end must become as little as it was after the first flaps.
        let mut settled = i64::MAX;
        for flap in 0..FLAPS {
            relay.cut();
            relay.mend();
            transfer(&mut peer, &mut connection, &pattern(20_000, flap as u64)).await;
            event(&mut events, "two", |k| matches!(k, PathEventKind::Up { .. })).await;
            if flap == FLAPS / 5 {
                for _ in 0..AT_REST {
                    transfer(&mut peer, &mut connection, &pattern(20_000, 0)).await;
                    settled = settled.min(LIVE.load(Ordering::Relaxed));
                }
            }
        }
        let (began, mut waited, mut grown) = (Instant::now(), 0, i64::MAX);
        // The least that an allocator gives is 16 bytes, one a flap would be 13 KiB; none were seen.
        while grown >= 8 << 10 && began.elapsed() < PATIENCE / 4 {
            transfer(&mut peer, &mut connection, &pattern(20_000, 0)).await;
            grown = grown.min(LIVE.load(Ordering::Relaxed) - settled);
            waited += 1;
        }
        eprintln!("{grown} bytes more after {FLAPS} flaps and {waited} transfers at rest");
        assert!(grown < 8 << 10, "{FLAPS} flaps leave {grown} bytes");
        let stats = connection.stats().session;
        assert!(stats.paths.len() == 2 && stats.paths.values().any(|p| p.lost_subflows >= 900));
    })
    .await;
}
