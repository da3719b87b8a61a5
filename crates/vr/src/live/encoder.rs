//! Makes tiles of GoPs of a live source.

use std::fs;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weftline_video::metric::SphereWeights;

use super::Lost;
use super::desk::{Desk, Work};
use super::store::Store;
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::package::{Description, EncodedRung, Layer, OpenGop, Record, Workshop};

/// A GoP that is to be encoded.
pub(super) struct Job {
    pub(super) open: OpenGop,
}

/// Jobs for all encoders.
pub(super) type Jobs = Arc<Mutex<Receiver<Job>>>;

/// The luma of GoPs that wait is this at most; the rest of them is on the disk.
const WAITING_BYTES: u64 = 256 << 20;

/// As many GoPs may wait for an encoder as come in the time until the first of them is sent, if they fit
/// into memory; one in any case.
pub(super) fn queue(plan: &Description, delay: Duration) -> (SyncSender<Job>, Jobs) {
    let frame = plan.frame();
    let luma = u64::from(frame.width()) * u64::from(frame.height()) * u64::from(plan.gop_frames());
    let by_time = delay.as_nanos() / plan.gop_duration().as_nanos().max(1);
    let by_room = u128::from(WAITING_BYTES / luma.max(1));
    let (to, from) = sync_channel(by_time.min(by_room).max(1) as usize);
    (to, Arc::new(Mutex::new(from)))
}

/// Encodes one GoP after the other.
pub(super) struct Encoder {
    ffmpeg: Ffmpeg,
    desk: Arc<Desk>,
    store: Arc<Store>,
    jobs: Jobs,
    weights: SphereWeights,
    /// How long a GoP took of late.
    took: Duration,
}

impl Encoder {
    pub(super) fn new(ffmpeg: &Ffmpeg, desk: &Arc<Desk>, store: &Arc<Store>, jobs: &Jobs) -> Self {
        let weights = SphereWeights::new(desk.plan.frame());
        let (desk, store, jobs) = (Arc::clone(desk), Arc::clone(store), Arc::clone(jobs));
        Self { ffmpeg: ffmpeg.clone(), desk, store, jobs, weights, took: Duration::ZERO }
    }

    /// Encodes until nothing more comes.
    pub(super) fn run(mut self) {
        loop {
            let next = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { open }) = next else { return };
            if self.desk.stop.asked() {
                return;
            }
            let number = open.gop;
            let work = self.work(&open);
            if !self.desk.conclude(number, work) {
                // It was sent as a gap meanwhile.
                self.store.remove(&self.desk.plan, number);
            }
        }
    }

    /// Encodes a GoP, if that is possible in its time.
    fn work(&mut self, open: &OpenGop) -> Work {
        let desk = Arc::clone(&self.desk);
        let late = || Work::Lost(Lost::Encoder { behind: desk.lock().behind() });
        let sends_at = desk.lock().timeline.sends_at(open.gop);
        let Some(mut until) = sends_at.map(|at| desk.at(at)) else { return late() };
        let began = Instant::now();
        if let Some(within) = desk.encode_within {
            until = until.min(began + within);
        }
        if began + self.took > until {
            // It would be late, and make others late. What it would take is tried again some time.
            self.took = self.took * 9 / 10;
            return late();
        }
        let ffmpeg = self.ffmpeg.with_stop(desk.stop.at(until));
        let encoded = self.encode(&ffmpeg, open);
        self.took = began.elapsed();
        match encoded {
            Ok((record, init)) => Work::Done { record, init },
            Err(VrError::Stopped) => late(),
            Err(error) => Work::Lost(Lost::Failed(error.to_string())),
        }
    }

    fn encode(&self, ffmpeg: &Ffmpeg, open: &OpenGop) -> Result<(Record, u64), VrError> {
        let Desk { plan, source, .. } = &*self.desk;
        let weights = &self.weights;
        let layer = Layer::Tiles;
        let shop = Workshop { layer, ffmpeg, source, plan, weights, with_parts: false };
        let mut rungs: Vec<EncodedRung> = Vec::with_capacity(plan.qps().len());
        for qps in shop.together(plan.qps()) {
            rungs.extend(shop.encode(open, qps)?);
        }
        let record = self.store.put(plan, open.gop, rungs)?;
        let [init, _] = self.store.tile(0, plan.qps()[0], open.gop);
        let init = fs::metadata(&init).map_err(VrError::io("read", &init))?.len();
        Ok((record, init))
    }
}
