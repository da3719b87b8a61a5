//! The model of the player on what real links delivered, beside the real player that got it: is it
//! the player's model that differs from the lab, or the transport's?
//!
//! `cargo run --release -p weftline-sim --example replay -- DIR` reads the results of `weftline lab
//! sweep` with the workload `vlc` and prints for each run what VLC saw and what the model sees of the
//! same bytes. What a link delivered in a tenth of a second comes at its end and in order. What was
//! delivered beyond the clip's size (VLC asks for it three times) counts as the first of it.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::Instant;
use weftline_scenario::{RunRecord, SeriesReader, VideoRecord, read_runs};
use weftline_video::{Clip, ClipConfig, Player, PlayerRules, PlayerStats};

/// Bytes that all paths delivered, by run and tenth of a second.
fn deliveries(dir: &Path) -> Result<BTreeMap<usize, BTreeMap<u64, u64>>, Box<dyn Error>> {
    let mut runs: BTreeMap<usize, BTreeMap<u64, u64>> = BTreeMap::new();
    let mut reader = SeriesReader::open(dir)?;
    while let Some(row) = reader.next_row()? {
        let sample = row.sample;
        if sample.metric == "goodput_mbps" && !sample.path.is_empty() {
            let tenth = (sample.time_s * 10.0).round() as u64;
            let bytes = (sample.value * 1e6 / 8.0 / 10.0).round() as u64;
            *runs.entry(row.run).or_default().entry(tenth).or_default() += bytes;
        }
    }
    Ok(runs)
}

/// What the model sees of `delivered` but its first `skipped` bytes, by the time `end`.
fn replay(
    clip: &Arc<Clip>,
    delivered: &BTreeMap<u64, u64>,
    skipped: u64,
    end: Duration,
) -> PlayerStats {
    let mut player = Player::new(Arc::clone(clip), PlayerRules::default(), Instant::ZERO);
    let mut total = 0;
    for (&tenth, &bytes) in delivered {
        let now = Instant::ZERO + Duration::from_millis(100 * tenth);
        while let Some(at) = player.poll_timeout().filter(|&at| at <= now) {
            player.handle_timeout(at);
        }
        total += bytes;
        player.handle_bytes(u64::saturating_sub(total, skipped), now);
        while player.poll_event().is_some() {}
    }
    let end = Instant::ZERO + end;
    while let Some(at) = player.poll_timeout().filter(|&at| at <= end) {
        player.handle_timeout(at);
    }
    player.stats(end)
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("replay DIR")?;
    let dir = Path::new(&dir);
    let (runs, deliveries) = (read_runs(dir)?, deliveries(dir)?);
    let clip = Arc::new(Clip::generate(&ClipConfig::default())?);
    let surplus = |run: usize| {
        let total: u64 = deliveries.get(&run).map_or(0, |delivered| delivered.values().sum());
        total.saturating_sub(clip.total_bytes())
    };
    println!(
        "| run | underflows, VLC | model | discards, VLC | model | standstill s, VLC | model |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (number, run) in runs.iter().enumerate() {
        let RunRecord { scenario, scheme, congestion, seed, .. } = run;
        let (Some(video), Some(delivered)) = (&run.video, deliveries.get(&number)) else {
            continue;
        };
        let end = Duration::from_secs_f64(run.completion_s.unwrap_or(240.0));
        let seen = replay(&clip, delivered, surplus(number), end);
        let VideoRecord { buffer_underflows, picture_discards, underflow_s, .. } = video;
        println!(
            "| {scenario} {scheme} {congestion} {seed} | {buffer_underflows} | {} | \
             {picture_discards} | {} | {underflow_s:.1} | {:.1} |",
            seen.buffer_underflows,
            seen.picture_discards,
            seen.underflow.as_secs_f64(),
        );
    }
    Ok(())
}
