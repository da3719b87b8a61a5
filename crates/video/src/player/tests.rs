//! The player under delivery schedules: steady, stalled and random.

use proptest::prelude::*;

use super::*;
use crate::ClipConfig;

const MS: Duration = Duration::from_millis(1);

fn clip(seconds: u64) -> Arc<Clip> {
    let duration = Duration::from_secs(seconds);
    Arc::new(Clip::generate(&ClipConfig { duration, ..ClipConfig::default() }).unwrap())
}

/// Delivers `rate(t)` bytes in each millisecond, as far as the player wants, until it has finished
/// or `limit` milliseconds have passed.
fn play(player: &mut Player, limit: u64, rate: &mut dyn FnMut(u64) -> u64) -> PlayerStats {
    let mut sent = 0;
    for ms in 0..limit {
        let now = Instant::from_millis(ms);
        while let Some(due) = player.poll_timeout().filter(|&due| due <= now) {
            player.handle_timeout(due);
        }
        sent = (sent + rate(ms)).min(player.wanted().max(sent));
        player.handle_bytes(sent, now);
        if player.is_finished() {
            break;
        }
    }
    player.stats(Instant::from_millis(limit))
}

fn events(player: &mut Player) -> Vec<PlayerEvent> {
    std::iter::from_fn(|| player.poll_event()).collect()
}

/// The bytes of the largest step between clock points, a second.
fn peak_rate(clip: &Clip, step: Duration) -> u64 {
    let (mut peak, mut before) = (clip.samples()[0].end, 0);
    for point in 1..=(clip.duration().as_nanos() / step.as_nanos()) as u32 {
        let end = clip.samples().partition_point(|sample| sample.decode <= step * point);
        let end = clip.samples()[end - 1].end;
        peak = peak.max(end - before);
        before = end;
    }
    peak * 1000 / step.as_millis() as u64
}

#[test]
fn steady_delivery_plays_everything() {
    let clip = clip(180);
    let mut player = Player::new(clip.clone(), PlayerRules::default(), Instant::ZERO);
    let stats = play(&mut player, 200_000, &mut |_| 1500);
    assert!(player.is_finished());
    assert_eq!((stats.played, stats.picture_discards), (5400, 0));
    assert_eq!((stats.buffer_underflows, stats.underflow), (0, Duration::ZERO));
    insta::assert_debug_snapshot!((stats.startup, events(&mut player)));
}

#[test]
fn the_client_reads_so_far_ahead_and_no_further() {
    let clip = clip(180);
    let mut player = Player::new(clip.clone(), PlayerRules::default(), Instant::ZERO);
    assert_eq!(player.wanted(), 16 << 20);
    play(&mut player, 60_000, &mut |_| 100_000);
    // At 60 s the demultiplexer stands one caching time ahead of the clock.
    let stream = Duration::from_secs(61);
    let read = clip.samples().partition_point(|sample| sample.decode <= stream);
    let read = clip.samples()[read].end;
    let ahead = player.wanted() - read;
    assert!(ahead.abs_diff(16 << 20) < 400_000, "{ahead}");
    let buffered = player.buffered(Instant::from_millis(60_000)).as_secs();
    assert!((20..33).contains(&buffered), "{buffered}");
}

#[test]
fn a_client_that_reads_a_little_ahead_still_reads_on() {
    let rules = PlayerRules { read_ahead: ByteCount::new(1), ..PlayerRules::default() };
    let mut player = Player::new(clip(3), rules, Instant::ZERO);
    let (mut now, mut sent) = (Instant::ZERO, 0);
    while !player.is_finished() {
        sent += 1;
        assert!(sent <= player.wanted(), "stuck at {sent}");
        player.handle_bytes(sent, now);
        while let Some(due) = player.poll_timeout() {
            now = due;
            player.handle_timeout(now);
        }
    }
    assert_eq!(sent, player.wanted());
}

/// A stall of 3 s and then one of 8 s with little read ahead: what the viewer sees.
#[test]
fn stalls_are_noticed_and_refilled() {
    let rules = PlayerRules { read_ahead: ByteCount::kib(512), ..PlayerRules::default() };
    let mut player = Player::new(clip(60), rules, Instant::ZERO);
    let stall = |ms: u64| (10_000..13_000).contains(&ms) || (30_000..38_000).contains(&ms);
    let stats = play(&mut player, 90_000, &mut |ms| if stall(ms) { 0 } else { 2000 });
    assert!(player.is_finished());
    assert_eq!(stats.played + stats.picture_discards, 1800);
    insta::assert_debug_snapshot!((stats, events(&mut player)));
}

/// The caching time grows with the median of three latenesses, as VLC's `pts_delay`: not after one
/// stall, but after two; past 5 s more than it began with the clock is set anew instead.
#[test]
fn caching_grows_with_the_median_of_three() {
    let rules = PlayerRules { read_ahead: ByteCount::kib(64), ..PlayerRules::default() };
    let mut player = Player::new(clip(170), rules, Instant::ZERO);
    let mut lengths = vec![];
    let mut previous = 0;
    let stall = |ms: u64| ms % 20_000 >= 15_000 && (ms % 20_000 < 19_500);
    play(&mut player, 190_000, &mut |ms| if stall(ms) { 0 } else { 2000 });
    for event in events(&mut player) {
        if let PlayerEvent::Underflow { at, .. } = event {
            lengths.push(at.as_nanos() / 1_000_000 - previous);
            previous = at.as_nanos() / 1_000_000;
        }
    }
    insta::assert_debug_snapshot!((player.caching, lengths, player.stats(Instant::ZERO)));
}

/// Once the caching time may grow no more the clock is set anew, without a refill: what is read up
/// to the next clock point is lost and the next is shown a caching time later.
#[test]
fn too_much_jitter_is_ignored() {
    let read_ahead = ByteCount::kib(64);
    let rules = PlayerRules { read_ahead, jitter_max: Duration::ZERO, ..PlayerRules::default() };
    let mut player = Player::new(clip(60), rules, Instant::ZERO);
    let stats = play(&mut player, 90_000, &mut |ms| if ms % 15_000 < 3000 { 0 } else { 2000 });
    assert_eq!(player.caching, 1000 * MS);
    assert_eq!(stats.played + stats.picture_discards, 1800);
    let gaps: Vec<_> = events(&mut player)
        .windows(2)
        .filter_map(|pair| match pair {
            [PlayerEvent::Underflow { at, .. }, PlayerEvent::Discarded { .. }, ..] => Some(*at),
            _ => None,
        })
        .collect();
    insta::assert_debug_snapshot!((stats, gaps));
}

#[test]
fn a_stall_before_the_very_end_counts() {
    let clip = clip(5);
    let mut player = Player::new(clip.clone(), PlayerRules::default(), Instant::ZERO);
    player.handle_bytes(clip.total_bytes() - 1, Instant::ZERO);
    while let Some(due) = player.poll_timeout() {
        player.handle_timeout(due);
    }
    player.handle_bytes(clip.total_bytes(), Instant::from_millis(9000));
    while let Some(due) = player.poll_timeout() {
        player.handle_timeout(due);
    }
    let stats = player.stats(Instant::FAR);
    assert!(player.is_finished());
    assert_eq!((stats.buffer_underflows, stats.played + stats.picture_discards), (1, 150));
    assert!(stats.underflow > 3990 * MS && stats.underflow < 4100 * MS, "{stats:?}");
}

#[test]
fn a_download_that_ends_is_one_long_underflow() {
    let mut player = Player::new(clip(60), PlayerRules::default(), Instant::ZERO);
    let stats = play(&mut player, 40_000, &mut |ms| if ms < 10_000 { 700 } else { 0 });
    assert_eq!(stats.buffer_underflows, 1);
    assert!(stats.underflow > 25_000 * MS && stats.underflow < 32_000 * MS, "{stats:?}");
    assert_eq!(player.stats(Instant::ZERO).buffer_underflows, 0);
    // The viewer would have seen all of them within a minute.
    let left = 1800 - stats.played - stats.picture_discards;
    let missed = [59_999, 60_000].map(|ms| player.missed(Instant::from_millis(ms)));
    assert!(left > 1000, "{stats:?}");
    assert_eq!(missed, [0, left]);
    let never = Player::new(clip(60), PlayerRules::default(), Instant::ZERO);
    assert_eq!(never.stats(Instant::from_millis(9000)), PlayerStats::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_picture_is_lost_track_of(
        rates in prop::collection::vec(0_u64..3000, 1..60),
        hold in 50_u64..2000,
        // A client asks anew each millisecond here, for so much at a time.
        read_ahead_kib in 4_u64..4096,
    ) {
        let read_ahead = ByteCount::kib(read_ahead_kib);
        let rules = PlayerRules { read_ahead, ..PlayerRules::default() };
        let clip = clip(20);
        let mut player = Player::new(clip.clone(), rules, Instant::ZERO);
        let rate = |ms: u64| match rates.get((ms / hold) as usize) {
            Some(&rate) => rate,
            None => 3000,
        };
        let mut wanted = 0;
        let limit = 60 * hold + 60_000;
        let mut sent = 0;
        for ms in 0..limit {
            let now = Instant::from_millis(ms);
            while let Some(due) = player.poll_timeout().filter(|&due| due <= now) {
                player.handle_timeout(due);
            }
            prop_assert!(player.wanted() >= wanted);
            wanted = player.wanted();
            sent = (sent + rate(ms)).min(wanted);
            player.handle_bytes(sent, now);
        }
        prop_assert!(player.is_finished());
        let stats = player.stats(Instant::from_millis(limit));
        prop_assert_eq!(stats.played + stats.picture_discards, clip.picture_count());
        let dry = events(&mut player)
            .iter()
            .filter(|event| matches!(event, PlayerEvent::Underflow { .. }))
            .count();
        prop_assert_eq!(stats.buffer_underflows, dry as u64);
        prop_assert_eq!(dry == 0, stats.underflow.is_zero());
    }

    #[test]
    fn enough_is_enough(percent in 101_u64..1000, step_kib in 64_u64..20_000) {
        let rules =
            PlayerRules { read_ahead: ByteCount::kib(step_kib), ..PlayerRules::default() };
        let clip = clip(30);
        let rate = peak_rate(&clip, rules.clock_step) * percent / 100;
        let mut player = Player::new(clip.clone(), rules, Instant::ZERO);
        let mut sent = 0;
        let stats = play(&mut player, 40_000, &mut |ms| {
            let due = rate * (ms + 1) / 1000;
            let part = due - sent;
            sent = due;
            part
        });
        prop_assert!(player.is_finished());
        let zeros = (stats.picture_discards, stats.buffer_underflows, stats.underflow);
        prop_assert_eq!(zeros, (0, 0, Duration::ZERO));
        prop_assert_eq!(stats.played, clip.picture_count());
    }

    /// A stall longer than what is buffered, and everything at once when it ends.
    #[test]
    fn a_stall_beyond_the_buffer_is_one_underflow(
        bytes in 2_000_000_u64..10_000_000,
        beyond_ms in 300_u64..20_000,
    ) {
        let clip = clip(30);
        let mut player = Player::new(clip.clone(), PlayerRules::default(), Instant::ZERO);
        let last = clip.samples().partition_point(|sample| sample.end <= bytes);
        let (start, there) = (Instant::ZERO, clip.samples()[last].present);
        player.handle_bytes(bytes, start);
        let dry = Instant::from_millis(10) + there;
        let end = dry + MS * beyond_ms as u32;
        while let Some(due) = player.poll_timeout().filter(|&due| due <= end) {
            player.handle_timeout(due);
        }
        player.handle_bytes(clip.total_bytes(), end);
        while let Some(due) = player.poll_timeout() {
            player.handle_timeout(due);
        }
        let stats = player.stats(Instant::FAR);
        prop_assert_eq!(stats.buffer_underflows, 1);
        let frozen = stats.underflow.as_millis() as u64;
        prop_assert!((beyond_ms..beyond_ms + 100).contains(&frozen), "{} {}", frozen, beyond_ms);
        prop_assert_eq!(stats.played + stats.picture_discards, 900);
        prop_assert!((1..20).contains(&stats.picture_discards), "{}", stats.picture_discards);
    }
}
