//! Makes tiles of GoPs of a live source.

use std::fs;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use weftline_video::metric::SphereWeights;

use super::Lost;
use super::desk::{Desk, Work};
use super::store::Store;
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::package::{EncodedRung, OpenGop, Record, Workshop};

/// A GoP that is to be encoded.
pub(super) struct Job {
    pub(super) open: OpenGop,
}

/// Jobs for all encoders.
pub(super) type Jobs = Arc<Mutex<Receiver<Job>>>;

/// One GoP may wait for an encoder: with more of them all would be late.
pub(super) fn queue() -> (SyncSender<Job>, Jobs) {
    let (to, from) = sync_channel(1);
    (to, Arc::new(Mutex::new(from)))
}

/// Encodes one GoP after the other.
pub(super) struct Encoder {
    ffmpeg: Ffmpeg,
    desk: Arc<Desk>,
    store: Arc<Store>,
    jobs: Jobs,
    weights: SphereWeights,
}

impl Encoder {
    pub(super) fn new(ffmpeg: &Ffmpeg, desk: &Arc<Desk>, store: &Arc<Store>, jobs: &Jobs) -> Self {
        let weights = SphereWeights::new(desk.plan.frame());
        let (desk, store, jobs) = (Arc::clone(desk), Arc::clone(store), Arc::clone(jobs));
        Self { ffmpeg: ffmpeg.clone(), desk, store, jobs, weights }
    }

    /// Encodes until nothing more comes.
    pub(super) fn run(self) {
        loop {
            let next = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { open }) = next else { return };
            if self.desk.stop.asked() {
                return;
            }
            let number = open.gop;
            let work = self.work(open);
            if !self.desk.conclude(number, work) {
                // It was sent as a gap meanwhile.
                self.store.remove(&self.desk.plan, number);
            }
        }
    }

    /// Encodes a GoP, if that is possible in its time.
    fn work(&self, open: OpenGop) -> Work {
        let late = || Work::Lost(Lost::Encoder { behind: self.desk.lock().behind() });
        let sends_at = self.desk.lock().timeline.sends_at(open.gop);
        let Some(mut until) = sends_at.map(|at| self.desk.at(at)) else { return late() };
        if let Some(within) = self.desk.encode_within {
            until = until.min(Instant::now() + within);
        }
        let ffmpeg = self.ffmpeg.with_stop(self.desk.stop.at(until));
        match self.encode(&ffmpeg, &open) {
            Ok((record, init)) => Work::Done { record, init },
            Err(VrError::Stopped) => late(),
            Err(error) => Work::Lost(Lost::Failed(error.to_string())),
        }
    }

    fn encode(&self, ffmpeg: &Ffmpeg, open: &OpenGop) -> Result<(Record, u64), VrError> {
        let Desk { plan, source, .. } = &*self.desk;
        let weights = &self.weights;
        let shop = Workshop { ffmpeg, source, plan, weights, with_parts: false };
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
