//! Hands the GoPs of a live source on, each when its time has come.

use std::collections::VecDeque;
use std::sync::Arc;

use weftline_core::ByteCount;
use weftline_video::live::wire::TileDigests;
use weftline_video::live::{LiveGop, check_lengths};
use weftline_video::rd::GopTable;

use super::desk::{Desk, Gop, Work};
use super::sound::LiveSound;
use super::store::{KEPT, Store};
use super::{LiveEvent, Lost, SentGop};
use crate::package::Record;

/// Sends one GoP after the other.
pub(super) struct Sender {
    desk: Arc<Desk>,
    store: Arc<Store>,
    sound: Option<Arc<LiveSound>>,
    /// Those whose files are kept.
    kept: VecDeque<u32>,
    /// What concealments lost in the GoP before: of a gap nobody knows.
    concealments: Vec<(f64, Vec<f64>)>,
}

impl Sender {
    pub(super) fn new(desk: &Arc<Desk>, store: &Arc<Store>, sound: Option<Arc<LiveSound>>) -> Self {
        let concealments = vec![(0.0, Vec::new()); desk.plan.grid().tiles()];
        let (desk, store) = (Arc::clone(desk), Arc::clone(store));
        Self { desk, store, sound, kept: VecDeque::new(), concealments }
    }

    /// Sends until the source has ended.
    pub(super) fn run(mut self) {
        let desk = Arc::clone(&self.desk);
        let mut state = desk.lock();
        loop {
            if desk.stop.asked() {
                return;
            }
            if let Some(number) = state.timeline.handle_timeout(desk.now()) {
                let gop = state.gops.remove(&number);
                // GoPs before it were sent.
                state.gops = state.gops.split_off(&number);
                drop(state);
                let sent = self.sent(number, gop);
                let mut counted = desk.lock();
                match sent.lost {
                    None => {}
                    Some(Lost::Source) => counted.end.without_source += 1,
                    Some(_) => counted.end.not_encoded += 1,
                }
                drop(counted);
                (desk.tell)(LiveEvent::Gop(Arc::new(sent)));
                state = desk.lock();
            } else if let Some(gops) = state.timeline.ended() {
                state.end.gops = gops;
                let end = state.end.clone();
                drop(state);
                (desk.tell)(LiveEvent::End(end));
                return;
            } else {
                let until = state.timeline.poll_timeout();
                state = desk.wait(state, until);
            }
        }
    }

    /// A GoP as it is sent.
    fn sent(&mut self, number: u32, gop: Option<Gop>) -> SentGop {
        self.kept.push_back(number);
        if self.kept.len() > KEPT as usize
            && let Some(old) = self.kept.pop_front()
        {
            self.store.remove(&self.desk.plan, old);
        }
        let mut sent = LiveGop {
            number,
            tiles: None,
            concealments: Vec::new(),
            init: ByteCount::ZERO,
            sound: None,
        };
        let (mut lost, mut written, mut sound) = (Some(Lost::Source), None, None);
        if let Some(Gop { source, concealments, read, work }) = gop {
            self.concealments = concealments;
            lost = match work {
                Work::Under => Some(Lost::Encoder { behind: read.elapsed() }),
                Work::Lost(lost) => Some(lost),
                Work::Done { record, init } => match streamable(&record) {
                    Ok(table) => {
                        (sent.tiles, sent.init) = (Some(table), ByteCount::new(init));
                        written = Some(record);
                        None
                    }
                    Err(error) => Some(Lost::Failed(error)),
                },
            };
            if lost.is_none() {
                (sent.sound, sound) = self.sound(source, number).unzip();
            }
        }
        sent.concealments.clone_from(&self.concealments);
        let (gop, store) = (Arc::new(sent), Arc::clone(&self.store));
        SentGop { gop, lost, record: written, sound, store }
    }

    /// The sound of a GoP, if it is there.
    fn sound(&self, source: u64, number: u32) -> Option<([ByteCount; 2], TileDigests)> {
        let segment = self.sound.as_ref()?.take(source, number, &self.desk.plan)?;
        let lengths =
            [&segment.init, &segment.media].map(|bytes| ByteCount::new(bytes.len() as u64));
        // A full disk is told of by the tiles.
        let digests = self.store.put_sound(number, &segment).ok()?;
        Some((lengths, digests))
    }
}

/// The table of a GoP, if each of its tiles fits a message to a player: one that does not costs its GoP, and
/// not the stream.
fn streamable(record: &Record) -> Result<GopTable, String> {
    let table = record.table().map_err(|error| error.to_string())?;
    check_lengths(std::slice::from_ref(&table)).map_err(|error| error.to_string())?;
    // Players mix each pixel of a viewport from four.
    Ok(table.mixed().unwrap_or(table))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::package::RungRecord;

    #[test]
    fn a_tile_too_long_for_a_message_costs_its_gop() {
        let record = |bytes| {
            let rung = RungRecord {
                qp: 28,
                bytes,
                ws_mse: 1.0,
                mixed_mse: None,
                parts: None,
                segment: None,
                init: None,
            };
            Record {
                gop: 0,
                tiles: vec![vec![rung]],
                side: None,
                grey: Vec::new(),
                whole: Vec::new(),
            }
        };
        assert_eq!(streamable(&record(1000)).unwrap().tiles().len(), 1);
        let error = streamable(&record(1 << 30)).unwrap_err();
        assert!(error.contains("a tile of 1073741824 bytes"), "{error}");
    }
}
