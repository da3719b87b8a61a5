//! The record of one run, the same from both backends; one JSON object a line in `runs.jsonl`.
//!
//! What each figure means is defined where it is computed, in `weftline-measure`. Units end the
//! names. A field that does not apply is absent; a reader ignores fields it does not know.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The version of the schema; it changes when a field is renamed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// One run of a scheme over a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The backend that ran it, `"lab"` or `"sim"`; not the scenario's `[backend]`, which is a link.
    #[serde(rename = "world")]
    pub backend: String,
    /// The scenario's name.
    pub scenario: String,
    /// The scheme's name.
    pub scheme: String,
    /// The congestion control's name.
    pub congestion: String,
    /// The workload.
    pub workload: String,
    /// The seed of the links' random streams.
    pub seed: u64,
    /// How long the workload ran, or was to run.
    pub duration_s: f64,
    /// How much of the beginning `goodput_mbps` leaves out.
    #[serde(default)]
    pub warmup_s: f64,
    /// Whether the connections were encrypted.
    #[serde(default)]
    pub tls: bool,
    /// Whether the workload ended as it should.
    pub completed: bool,
    /// Why not.
    #[serde(default)]
    pub error: Option<String>,
    /// Bytes released in order after the warm-up ÷ (duration − warm-up).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_mbps: Option<f64>,
    /// Bytes released in order ÷ duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_total_mbps: Option<f64>,
    /// Bytes released in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_delivered: Option<u64>,
    /// The time to the end of a transfer or burst, or of a clip's playing.
    #[serde(default)]
    pub completion_s: Option<f64>,
    /// From the write of a byte to its release in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_order_delay_ms: Option<DelayMs>,
    /// What came of messages with deadlines (simulator).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesRecord>,
    /// From the server's network interface to the client's TCP, by packets that carry data (where
    /// the scenario has a gateway).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_delay_ms: Option<DelayMs>,
    /// Goodput in each 100 ms after the warm-up: its distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_term_mbps: Option<ShortTermMbps>,
    /// The longest time in which nothing was released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_ms: Option<f64>,
    /// Bytes that arrived although they had arrived before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_bytes: Option<u64>,
    /// Bytes that were sent again though another path was still delivering them: redundant copies.
    /// What a stalled path held and others sent again does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_bytes: Option<u64>,
    /// Processor time of both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The larger of both ends' peaks of resident memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// What each path carried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathRecord>,
    /// What the nodes of COTAG did (the schemes `cotag` and `cotag-dense`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cotag: Option<CotagRecord>,
    /// What a viewer saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoRecord>,
    /// Each flow of a scenario that has `[[flow]]` entries; the first is the one that the fields
    /// above are about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowRecord>,
    /// What a sweep has set for this run: keys of the scenario and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub case: BTreeMap<String, String>,
    /// How many events the run took (simulator).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// How well the lab's emulator kept time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<EmulatorRecord>,
    /// The kernel of the guest that it ran in, with the key of its build: `6.12.117
    /// (19174e282073685d)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_kernel: Option<String>,
    /// A digest of the run's events (simulator).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The program's version.
    pub version: String,
}

/// A distribution of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DelayMs {
    /// Half of what is counted (bytes, or packets) had at most this.
    pub p50: f64,
    /// 95 % had at most this.
    pub p95: f64,
    /// 99 % had at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// What came of messages with deadlines: of those made after the warm-up whose deadline was before
/// the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesRecord {
    /// Messages made.
    pub made: u64,
    /// Their bytes.
    pub made_bytes: u64,
    /// The share of them that was there, whole, by its deadline.
    pub on_time_share: f64,
    /// The share of their bytes that was in such messages.
    pub on_time_bytes_share: f64,
    /// The share of their weights that was in such messages, of tiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time_weight_share: Option<f64>,
    /// The same if nothing but the links' rates, delays and losses limited it: a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_weight_share: Option<f64>,
    /// From the making of a message to its being there whole, by messages; those that never came
    /// do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<DelayMs>,
}

/// What the nodes of COTAG did, in packets (COTAG §III-C). The table of `weftline-measure` says which node's
/// counter each is; `weftline-coding` defines them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CotagRecord {
    /// Taken by the gateway.
    pub received: u64,
    /// Not taken by the gateway: its cohort was full.
    pub refused: u64,
    /// Of high priority, given up by the gateway at the end of their interval.
    pub given_gateway: u64,
    /// The same at each access point.
    pub given_access_points: Vec<u64>,
    /// Received by the device and of no use to it.
    pub redundant: u64,
    /// Handed out by the device.
    pub delivered: u64,
    /// Of those, computed from combinations.
    pub recovered: u64,
    /// Given up by the device.
    pub lost: u64,
    /// Cohorts that the device closed because a link was silent.
    pub timeouts: u64,
    /// Dropped in the gateway's queue, by CoDel or because it was full.
    #[serde(default)]
    pub dropped_queue: u64,
    /// Redundant packets that the gateway sent.
    #[serde(default)]
    pub taken_gateway: u64,
    /// Dropped by access points and the device because they were full.
    #[serde(default)]
    pub dropped_full: u64,
}

/// The distribution of the goodput of short times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShortTermMbps {
    /// 5 % had at most this.
    pub p5: f64,
    /// Half had at most this.
    pub p50: f64,
    /// 95 % had at most this.
    pub p95: f64,
}

/// What one path carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathRecord {
    /// The path's name.
    pub name: String,
    /// TCP payload that arrived over it after the warm-up, repetitions included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_mbps: Option<f64>,
    /// Payload bytes sent over it, repetitions included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Packets with TCP payload offered to its link in the data direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Packets sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted_packets: Option<u64>,
    /// Packets lost by the link's loss model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Packets dropped at the link's full queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_drops: Option<u64>,
    /// How long its socket had sent everything and its window had room, and the scheduler gave it
    /// nothing though data waited (simulator).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starved_s: Option<f64>,
    /// The sender's smoothed round-trip time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<RttMs>,
}

/// One flow of several. Its fields mean what those of [`RunRecord`] mean, over the time from the
/// flow's start, or the end of the warm-up if that is later, to its stop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// The flow's name.
    pub name: String,
    /// Its scheme.
    pub scheme: String,
    /// Its congestion control.
    pub congestion: String,
    /// Its workload.
    pub workload: String,
    /// Bytes released in order, over that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_mbps: Option<f64>,
    /// Bytes released in order, in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_delivered: Option<u64>,
    /// The time a transfer or burst took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_s: Option<f64>,
    /// From the write of a byte to its release in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_order_delay_ms: Option<DelayMs>,
    /// What came of messages with deadlines (simulator).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesRecord>,
    /// The longest time in which nothing was released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_ms: Option<f64>,
    /// Bytes that arrived although they had arrived before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_bytes: Option<u64>,
    /// Bytes that were sent again though another path was still delivering them: redundant copies.
    /// What a stalled path held and others sent again does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_bytes: Option<u64>,
    /// What it sent over each of its paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathRecord>,
    /// What its viewer saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoRecord>,
}

/// A distribution of round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RttMs {
    /// Mean of the samples, one each 100 ms.
    pub mean: f64,
    /// 95 % of the samples had at most this.
    pub p95: f64,
}

/// What a viewer of a streamed video saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VideoRecord {
    /// Pictures that came too late to be shown.
    pub picture_discards: u64,
    /// How often playback stopped for want of data.
    pub buffer_underflows: u64,
    /// How long it stood still.
    pub underflow_s: f64,
    /// From the request to the first picture; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_s: Option<f64>,
    /// Pictures that were shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures_played: Option<u64>,
    /// Pictures that the model of a player had not come to at the end of a run that was as long as the
    /// clip: standstills have kept them from the viewer (simulator only; absent if there are none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures_missed: Option<u64>,
    /// Pictures that a real player's decoder left out, because it was late itself, and that are not
    /// among `picture_discards` (lab only; absent where the clip was not played to its end).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoder_drops: Option<u64>,
    /// Pictures that the same real player discarded when it played the same clip without links, as
    /// often at once as there were runs at once: what the machine costs, to be subtracted (lab only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_discards: Option<u64>,
    /// How often it stopped for want of data there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_underflows: Option<u64>,
    /// What its decoder left out there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_decoder_drops: Option<u64>,
}

impl VideoRecord {
    /// Pictures that a real player's viewer did not see because of the links: what the player and its
    /// decoder threw away, less what they throw away without links. Below zero if the machine was
    /// busier during the control run; `None` without one, and where only one of the two was played to
    /// its end, so that the decoder's part of the other is not known.
    pub fn net_discards(&self) -> Option<i64> {
        if self.decoder_drops.is_some() != self.control_decoder_drops.is_some() {
            return None;
        }
        let sum =
            |pictures: u64, decoder: Option<u64>| pictures.saturating_add(decoder.unwrap_or(0));
        let all = sum(self.picture_discards, self.decoder_drops);
        let control = sum(self.control_discards?, self.control_decoder_drops);
        i64::try_from(i128::from(all) - i128::from(control)).ok()
    }
}

/// How well the lab's emulator kept time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EmulatorRecord {
    /// The share of packets delivered more than 1 ms after their time.
    pub late_over_1ms_share: f64,
    /// Whether that share is small enough for the run to count.
    pub valid: bool,
}

/// With fewer seeds what real players discard says nothing: one that starts at a busy moment discards
/// dozens of pictures.
pub const LEAST_PLAYER_SEEDS: usize = 3;

/// Whether the [discards](RunRecord::link_discards) of these runs, all of one scheme in one case, say
/// anything: a real player's want [`LEAST_PLAYER_SEEDS`] different seeds that have a value, the model's any.
pub fn discards_say<'a>(runs: impl IntoIterator<Item = &'a RunRecord>) -> bool {
    let known = runs.into_iter().filter(|run| run.is_valid() && run.link_discards().is_some());
    let (mut seeds, mut is_model) = (BTreeSet::new(), true);
    for run in known {
        seeds.insert(run.seed);
        is_model &= run.plays_model();
    }
    seeds.len() >= if is_model { 1 } else { LEAST_PLAYER_SEEDS }
}

impl RunRecord {
    /// Pictures that the run's viewer did not see because of the links: of a real player its
    /// [net discards](VideoRecord::net_discards), of the simulator's model all that it discards or had not
    /// come to at the end, because no machine costs it any. `None` without a player, and where the run and its control run cannot be
    /// compared. Everything that judges discards goes by this; see also [`discards_say`].
    pub fn link_discards(&self) -> Option<f64> {
        let video = self.video?;
        match self.plays_model() {
            true => {
                let missed = video.pictures_missed.unwrap_or(0);
                Some(video.picture_discards.saturating_add(missed) as f64)
            }
            false => video.net_discards().map(|net| net as f64),
        }
    }

    /// Whether its player, if it has one, is the simulator's model.
    fn plays_model(&self) -> bool {
        self.backend == "sim" && self.video.is_none_or(|video| video.control_discards.is_none())
    }

    /// Whether the run counts: it does unless the emulator was late.
    pub fn is_valid(&self) -> bool {
        self.emulator.is_none_or(|emulator| emulator.valid)
    }

    /// Whether the run did not end as it should. Everything that marks failures goes by this: there are
    /// records with an error that say that they completed.
    pub fn has_failed(&self) -> bool {
        !self.completed || self.error.is_some()
    }

    /// Whether the run is a result: it ended as it should, and is [valid](Self::is_valid). Others
    /// are made again when a sweep goes on.
    pub fn counts(&self) -> bool {
        !self.has_failed() && self.is_valid()
    }

    /// What tells this run from all others: two records with the same are of one run that was made
    /// twice, and the later one is its result.
    pub fn run_id(&self) -> String {
        let Self { backend, workload, tls, .. } = self;
        format!("{backend}/{workload}/{tls}/{}", self.case_id())
    }

    /// Payload bytes sent over all paths; `None` if a path does not say.
    pub fn bytes_sent(&self) -> Option<u64> {
        let sent: Option<u64> = self.paths.iter().map(|path| path.bytes_sent).sum();
        sent.filter(|&sent| sent > 0)
    }

    /// Packets sent again over all paths; `None` if a path does not say.
    pub fn retransmitted_packets(&self) -> Option<u64> {
        let sum = self.paths.iter().map(|path| path.retransmitted_packets).sum();
        if self.paths.is_empty() { None } else { sum }
    }

    /// Bytes that arrived twice as a share of those sent.
    pub fn duplicate_share(&self) -> Option<f64> {
        Some(self.duplicate_bytes? as f64 / self.bytes_sent()? as f64)
    }

    /// Processor seconds per 10^9 bytes delivered.
    pub fn cpu_seconds_per_gb(&self) -> Option<f64> {
        let bytes = self.bytes_delivered.filter(|&bytes| bytes > 0)?;
        Some(self.cpu_seconds? / (bytes as f64 / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_record_reads_and_keeps_its_fields() {
        let text = r#"{"schema":1, "world":"lab", "scenario":"fbdt-6c-mobility", "scheme":"fbdt",
            "congestion":"cubic", "workload":"bulk", "seed":1, "duration_s":60.0,
            "completed":true, "error":null, "goodput_mbps":1381.0, "bytes_delivered":10357500000,
            "completion_s":null,
            "in_order_delay_ms":{"p50":4.1,"p95":9.0,"p99":14.2,"max":40.0},
            "longest_gap_ms":38.0, "duplicate_bytes":1200000, "cpu_seconds":9.1,
            "peak_memory_bytes":52428800,
            "paths":[{"name":"wifi","goodput_mbps":470.0,"bytes_sent":3525000000,
                "packets":2434000,"retransmitted_packets":120,"rtt_ms":{"mean":6.0,"p95":9.0}}],
            "video":{"picture_discards":0,"buffer_underflows":0,"underflow_s":0.0},
            "emulator":{"late_over_1ms_share":0.0001,"valid":true},
            "digest":"9f86d081884c7d65", "version":"0.1.0"}"#;
        let record: RunRecord = serde_json::from_str(text).unwrap();
        let mut before: serde_json::Value = serde_json::from_str(text).unwrap();
        let after = serde_json::to_value(&record).unwrap();
        before["warmup_s"] = 0.0.into();
        before["tls"] = false.into();
        assert_eq!(before, after);
        assert_eq!(record.duplicate_share(), Some(1_200_000.0 / 3_525_000_000.0));
    }

    #[test]
    fn pictures_that_the_model_missed_count_as_discarded() {
        let video = VideoRecord {
            picture_discards: 3,
            pictures_missed: Some(40),
            ..VideoRecord::default()
        };
        let run =
            RunRecord { backend: "sim".to_owned(), video: Some(video), ..RunRecord::default() };
        assert_eq!(run.link_discards(), Some(43.0));
    }

    #[test]
    fn what_does_not_apply_is_absent() {
        let record = RunRecord { schema: SCHEMA_VERSION, ..RunRecord::default() };
        insta::assert_snapshot!(serde_json::to_string(&record).unwrap());
        let later = r#"{"schema":1,"world":"sim","scenario":"a","scheme":"b","congestion":"c",
            "workload":"d","seed":1,"duration_s":1.0,"completed":true,"version":"9","new":[1]}"#;
        assert!(serde_json::from_str::<RunRecord>(later).is_ok());
    }
}
