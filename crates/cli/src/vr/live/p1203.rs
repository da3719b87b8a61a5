//! What a player saw in the terms of ITU-T P.1203, mode 0: the inputs of a model of quality, under the
//! names that the standard's reference software has for them.
//!
//! I.11 and I.13 are the segments of sound and video that were played, I.23 what the viewer waited for. The
//! model's I.GEN, the device and its distance, is the viewer's own. No score is computed here.

use std::time::Duration;

use serde_json::{Value, json};
use weftline_video::live::GopReport;
use weftline_video::live::wire::Manifest;

/// The inputs of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    stream: Option<Stream>,
    /// Of each GoP that was shown its number, and the bytes of video and sound that were there in time.
    segments: Vec<(u32, [u64; 2])>,
    /// Before which GoP the picture stood still, and how long.
    stalls: Vec<(u32, Duration)>,
}

/// The stalling events of a session. The initial loading delay, which the model's inputs have as one at media
/// time 0, is none of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stalling {
    /// How long they were together.
    pub(super) total: Duration,
    /// Where each was, in seconds of the media's time.
    pub(super) positions_s: Vec<f64>,
}

impl Stalling {
    /// How many there were.
    pub(super) fn events(&self) -> usize {
        self.positions_s.len()
    }

    /// How long they were in the mean, in seconds, if there were any.
    pub(super) fn mean_s(&self) -> Option<f64> {
        let events = self.events();
        (events > 0).then(|| self.total.as_secs_f64() / events as f64)
    }
}

/// What all segments have in common.
#[derive(Clone, Debug)]
struct Stream {
    gop_s: f64,
    fps: f64,
    resolution: String,
    has_sound: bool,
}

impl Inputs {
    /// The stream is this one.
    pub(super) fn begin(&mut self, manifest: &Manifest) {
        let (gop_s, frame) = (manifest.gop.as_secs_f64(), manifest.frame);
        self.stream = Some(Stream {
            gop_s,
            fps: f64::from(manifest.gop_frames) / gop_s,
            resolution: format!("{}x{}", frame.width(), frame.height()),
            has_sound: manifest.sound.is_some(),
        });
    }

    /// A GoP was shown.
    pub(super) fn add(&mut self, report: &GopReport) {
        let bytes = [report.bytes, report.sound_bytes].map(|bytes| bytes.as_u64());
        self.segments.push((report.gop, bytes));
        // What the first one waits for is part of the initial loading delay.
        if !report.stalled.is_zero() && self.segments.len() > 1 {
            self.stalls.push((report.gop, report.stalled));
        }
    }

    /// How the picture stood still after its beginning.
    pub(super) fn stalling(&self) -> Stalling {
        let gop_s = self.stream.as_ref().map_or(0.0, |stream| stream.gop_s);
        Stalling {
            total: self.stalls.iter().map(|(_, stood)| *stood).sum(),
            positions_s: self.stalls.iter().map(|(gop, _)| f64::from(*gop) * gop_s).collect(),
        }
    }

    /// The inputs; `startup` is the time until the first picture. Null before the stream is known.
    pub(super) fn json(&self, startup_s: Option<f64>) -> Value {
        let Some(stream) = &self.stream else { return Value::Null };
        let segment = |gop: u32, bytes: u64, codec: &str| {
            json!({
                "start": f64::from(gop) * stream.gop_s,
                "duration": stream.gop_s,
                // In kb/s, as all rates of P.1203.
                "bitrate": (bytes * 8) as f64 / stream.gop_s / 1e3,
                "codec": codec,
            })
        };
        let video = self.segments.iter().map(|(gop, [bytes, _])| {
            let mut segment = segment(*gop, *bytes, "h264");
            segment["fps"] = json!(stream.fps);
            segment["resolution"] = json!(stream.resolution);
            segment
        });
        let sound = self.segments.iter().filter(|_| stream.has_sound);
        let sound = sound.map(|(gop, [_, bytes])| segment(*gop, *bytes, "aaclc"));
        // The initial loading is a stall at the beginning of the media.
        let startup = startup_s.map(|seconds| json!([0.0, seconds]));
        let stalls = self
            .stalls
            .iter()
            .map(|(gop, stood)| json!([f64::from(*gop) * stream.gop_s, stood.as_secs_f64()]));
        json!({
            "I11": { "streamId": 1, "segments": sound.collect::<Vec<Value>>() },
            "I13": { "streamId": 1, "segments": video.collect::<Vec<Value>>() },
            "I23": { "streamId": 1, "stalling": startup.into_iter().chain(stalls).collect::<Vec<Value>>() },
        })
    }
}

#[cfg(test)]
mod tests {
    use weftline_core::ByteCount;
    use weftline_video::evaluate::Concealment;
    use weftline_video::geometry::{FrameSize, Grid};
    use weftline_video::live::wire::SoundFormat;

    use super::*;

    #[test]
    fn a_session_is_told_in_the_models_inputs() {
        let mut inputs = Inputs::default();
        assert!(inputs.json(Some(1.0)).is_null());
        inputs.begin(&Manifest {
            frame: FrameSize::new(192, 96).unwrap(),
            grid: Grid::new(4, 2).unwrap(),
            gop: Duration::from_millis(500),
            gop_frames: 15,
            gops: 2,
            concealment: Concealment::Grey,
            scheme: "ows".to_owned(),
            qps: vec![22],
            sound: Some(SoundFormat { rate_hz: 48_000, channels: 2 }),
        });
        let report = GopReport {
            gop: 1,
            bytes: ByteCount::new(25_000),
            sound_bytes: ByteCount::new(8_000),
            stalled: Duration::from_millis(250),
            ..GopReport::default()
        };
        assert_eq!(inputs.stalling().mean_s(), None);
        // The first picture waits, too.
        inputs.add(&GopReport { gop: 0, ..report.clone() });
        assert_eq!(inputs.stalling().events(), 0);
        inputs.add(&report);
        inputs.add(&GopReport { gop: 2, ..report.clone() });
        let stalling = inputs.stalling();
        assert_eq!((stalling.events(), stalling.mean_s()), (2, Some(0.25)));
        assert_eq!((stalling.total, stalling.positions_s), (report.stalled * 2, vec![0.5, 1.0]));
        let said = inputs.json(Some(1.5));
        let video = &said["I13"]["segments"][1];
        assert_eq!((&video["bitrate"], &video["start"]), (&json!(400.0), &json!(0.5)));
        assert_eq!((&video["fps"], &video["resolution"]), (&json!(30.0), &json!("192x96")));
        assert_eq!((&video["codec"], &video["duration"]), (&json!("h264"), &json!(0.5)));
        assert_eq!(said["I11"]["segments"][1]["bitrate"], json!(128.0));
        assert_eq!(said["I23"]["stalling"], json!([[0.0, 1.5], [0.5, 0.25], [1.0, 0.25]]));
    }
}
