//! What the paths carry in each second, and how it is made to fit the content.

use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};
use weftline_video::ows::{Delivery, FbdtMessages, FbdtStream, InOrder, Throughput, TwoEnded};

use super::{Scene, Transport, bitrate};
use crate::error::VrError;

/// The paper's radios and its content: FBDT carries 1,920 Mb/s in line of sight (§6.2), and the
/// 8K video of Fig. 3c takes 4,370 Mb/s at its finest.
pub const PAPER_SHARE: f64 = 1920.0 / 4370.0;

/// The rates of a transport in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Under which conditions: a scenario's name.
    pub condition: String,
    /// The transport.
    pub transport: Transport,
    /// The seed of the run.
    pub seed: u64,
    /// For each second the rate of each path; one value, the rate in order, for a transport that
    /// fills in order.
    pub seconds: Vec<Vec<Bitrate>>,
    /// The window of the paper's FBDT, which covers so much time of all paths whatever the rates.
    window: ByteCount,
}

impl Rates {
    /// Rates in Mb/s, scaled by `scale`. The window of the paper's FBDT, of which the middle is late,
    /// scales with them.
    ///
    /// # Errors
    /// [`VrError::Invalid`] if there is no second, or not the same number of paths in each.
    pub fn new(
        condition: &str,
        transport: Transport,
        seed: u64,
        mbps: &[Vec<f64>],
        scale: f64,
    ) -> Result<Self, VrError> {
        let paths = mbps.first().map_or(0, Vec::len);
        let wrong = |why: &str| VrError::Invalid(format!("the rates of {condition}: {why}"));
        if paths == 0 || mbps.iter().any(|second| second.len() != paths) {
            return Err(wrong("every second wants a rate for each path"));
        }
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(wrong(&format!("a scale of {scale} is not above 0")));
        }
        let second = Duration::from_secs(1);
        let mean = mbps.iter().flatten().sum::<f64>() / mbps.len() as f64;
        let window = Throughput::certain(&[bitrate(mean).bytes_in(second)])
            .map(|mean| TwoEnded::adaptive_window(&mean, second))
            .map_err(|why| wrong(&why.to_string()))?;
        let scaled = |rates: &Vec<f64>| rates.iter().map(|rate| bitrate(rate * scale)).collect();
        Ok(Self {
            condition: condition.to_owned(),
            transport,
            seed,
            seconds: mbps.iter().map(scaled).collect(),
            window: ByteCount::new((window.as_u64() as f64 * scale).max(1.0) as u64),
        })
    }

    /// The mean rate of all paths together in the time that begins with second `from` and lasts so
    /// long, Mb/s. Rates may go on after that, as those of a run of the lab do.
    pub fn mean_mbps(&self, from: usize, lasts: Duration) -> f64 {
        let (mut sum, mut time_s, mut left_s) = (0.0, 0.0, lasts.as_secs_f64());
        for second in self.seconds.iter().skip(from) {
            let part_s = left_s.clamp(0.0, 1.0);
            sum += part_s * second.iter().map(|rate| rate.as_mbps_f64()).sum::<f64>();
            time_s += part_s;
            left_s -= part_s;
        }
        if time_s > 0.0 { sum / time_s } else { 0.0 }
    }

    /// The transport's way to deliver. In the paper's FBDT the path of the fewest changes works forward:
    /// as there, that is the first one.
    pub(crate) fn delivery(&self) -> Box<dyn Delivery> {
        let ends = TwoEnded { forward: 0, window: self.window };
        match self.transport {
            Transport::LinuxMptcp | Transport::Fbdt => Box::new(InOrder),
            Transport::FbdtWindows => Box::new(FbdtMessages(ends)),
            Transport::FbdtStream => Box::new(FbdtStream(ends)),
        }
    }

    /// Whether they last for all of `scene` after `warm_up` seconds.
    pub(crate) fn check(&self, scene: &Scene, warm_up: usize) -> Result<(), VrError> {
        let gops = scene.table.gops().len();
        let played_s = scene.table.gop_duration().as_secs_f64() * gops as f64;
        let wanted = warm_up + (played_s - 1e-9).ceil() as usize;
        let there = self.seconds.len();
        if warm_up == 0 || there < wanted {
            let Self { condition, transport, seed, .. } = self;
            return Err(VrError::Invalid(format!(
                "{there} s of rates of {transport} in {condition} (seed {seed}) are too short: {} \
                 lasts {played_s} s after {warm_up} s of history; run it for {} s at least, or \
                 lower --warmup (1 at least)",
                scene.name,
                wanted.max(1)
            )));
        }
        Ok(())
    }
}

/// The scale at which rates whose fastest mean is `fastest_mbps` are to the finest encodings of a
/// scene as the paper's were to its own. Each scene has its own: at one for all of them, a scene that
/// takes little has all it wants, and its gains of nothing are averaged with the others'.
pub fn fitting_scale(scene: &Scene, fastest_mbps: f64) -> f64 {
    PAPER_SHARE * scene.finest_mbps() / fastest_mbps.max(1e-9)
}
