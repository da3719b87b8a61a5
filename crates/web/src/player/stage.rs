//! What is shown to pages: a live stream as it comes, and what the pages say of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use weftline_video::live::MAX_OPEN_GOPS;
use weftline_video::live::wire::{Message, PoseNotice, Tile, TileId};
use weftline_video::rd::MAX_TILES;

use super::message::{self, FromPage, Pong, Shown};

/// Pages that watch at once.
pub(crate) const VIEWERS: usize = 8;
/// GoPs that have begun and wait for a page: what is older than the newest of so many is dropped.
const GOPS: u32 = 2;
/// What came of GoPs that have not begun, what is held of those that have, and what waits for a page, each in
/// bytes; tiles that are over are dropped.
const MAX_WAITING: usize = 64 << 20;
/// Messages other than tiles of GoPs to come that wait for a page, and what their bytes may add to
/// [`MAX_WAITING`], where the server's words on all GoPs to come have room. A page that does not take so many is
/// given up. At first it is sent what it holds of each tile.
const MAX_WORDS: usize = 1_024 + MAX_TILES;
const WORDS_ROOM: usize = 32 << 20;
/// What decoders are set up from, of all tiles, in bytes. What is over is not kept, and its tiles are not
/// shown; a package has some hundred kilobytes.
const MAX_INITS: usize = 16 << 20;
/// What pages have shown that waits to be taken.
const MAX_SHOWN: usize = 1_024;

/// A live stream that pages show. A player gives it what comes, and asks it where to look.
///
/// A page is sent each tile that was whole in time, and then that its GoP begins; so all pages show what
/// the player counts as shown, however slow they are, unless they are too slow to decode it.
#[derive(Default)]
pub struct Stage {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    manifest: Option<Bytes>,
    tiles: usize,
    /// What each encoding's decoder is set up from.
    inits: BTreeMap<(u16, u8), Bytes>,
    inits_bytes: usize,
    /// The newest GoP that has begun.
    begun: Option<u32>,
    /// What came of GoPs that have not begun, in the order in which it came: a page that comes now is to
    /// show all of them.
    coming: VecDeque<Item>,
    coming_bytes: usize,
    /// Tiles of these that are there: the GoP, the tile and the QP.
    known: BTreeSet<(u32, u16, u8)>,
    /// Tiles of these that no page is sent, for want of room or of what their decoders are set up from, by
    /// the GoP.
    lost: BTreeMap<u32, u32>,
    /// The newest of each tile that was in time, of the GoPs that have begun, and the message of it: what
    /// conceals it on a page that comes now.
    held: BTreeMap<u16, (TileId, Bytes)>,
    held_bytes: usize,
    /// The time in the video, when that was, and whether it goes on.
    clock: Option<(Instant, Duration, bool)>,
    /// Those that watch, in the order in which they came. The first steers.
    viewers: Vec<Viewer>,
    next: u64,
    shown: VecDeque<(u64, Shown)>,
    over: bool,
    /// Why it broke off, as pages are told.
    refusal: Option<Bytes>,
}

struct Viewer {
    number: u64,
    queue: Arc<Queue>,
    /// Where it looked last.
    pose: Option<PoseNotice>,
    /// The GoP after the newest of which it has told what it showed.
    told: u32,
}

/// What waits for a page.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: usize,
    words: usize,
    dropped: u32,
    /// Of these, those of GoPs of which the page has not told what it showed, by the GoP.
    lost: BTreeMap<u32, u32>,
    /// What the page said when it asked for the time last, until it is answered.
    asked: Option<u64>,
    /// Nothing more comes.
    ended: bool,
    /// It took nothing for too long.
    given_up: bool,
}

#[derive(Clone)]
struct Item {
    /// Of a tile, or of a GoP's sound, which it is.
    tile: Option<TileId>,
    gop: u32,
    bytes: Bytes,
}

impl Item {
    fn word(bytes: impl Into<Bytes>) -> Self {
        Self { tile: None, gop: 0, bytes: bytes.into() }
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").finish_non_exhaustive()
    }
}

impl Stage {
    /// Nothing yet, and nobody who watches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with it")
    }

    /// The stream begins: `bytes` are its manifest as the server sent it, and it has so many tiles.
    pub fn manifest(&self, bytes: &[u8], tiles: usize) {
        let mut inner = self.inner();
        let bytes = Bytes::copy_from_slice(bytes);
        inner.manifest = Some(bytes.clone());
        inner.tiles = tiles;
        inner.send(&Item { tile: None, gop: 0, bytes });
    }

    /// The server has said what it sends of a GoP; `bytes` are its message.
    pub fn notice(&self, gop: u32, bytes: &[u8]) {
        let mut inner = self.inner();
        inner.keep(Item { tile: None, gop, bytes: Bytes::copy_from_slice(bytes) });
    }

    /// A tile came, or a GoP's sound, whole and as it was packaged. Pages are sent what was `on_time`.
    pub fn tile(&self, tile: &Tile<'_>, on_time: bool) {
        let mut inner = self.inner();
        let which = (tile.id.tile, tile.id.qp);
        if !tile.init.is_empty()
            && !inner.inits.contains_key(&which)
            && inner.inits_bytes + tile.init.len() <= MAX_INITS
        {
            inner.inits_bytes += tile.init.len();
            inner.inits.insert(which, Bytes::copy_from_slice(tile.init));
        }
        let TileId { gop, tile: place, qp } = tile.id;
        let is_to_come = inner.begun.is_none_or(|begun| gop > begun);
        if !on_time || !is_to_come || !inner.known.insert((gop, place, qp)) {
            return;
        }
        let Some(init) = inner.inits.get(&which).cloned() else {
            inner.lose(tile.id);
            return;
        };
        // A page that comes now has nothing of the GoPs before.
        let bytes = Message::Tile(Tile { init: &init, ..*tile }).to_bytes().into();
        inner.keep(Item { tile: Some(tile.id), gop, bytes });
    }

    /// A GoP is shown from now on; `stood` says that the picture stood still before.
    pub fn begin(&self, gop: u32, stood: bool) {
        let mut inner = self.inner();
        inner.begun = Some(gop);
        inner.forget();
        for viewer in &inner.viewers {
            viewer.queue.waiting().drop_before((gop + 1).saturating_sub(GOPS));
        }
        inner.send(&Item::word(message::begin(gop, stood)));
    }

    /// The time in the video is `position` now, and whether it goes on.
    pub fn clock(&self, position: Duration, moves: bool) {
        self.inner().clock = Some((Instant::now(), position, moves));
    }

    /// What the paths carry, as a JSON object.
    pub fn sample(&self, json: &str) {
        self.inner().send(&Item::word(message::sample(json)));
    }

    /// What became of a GoP, as a JSON object.
    pub fn report(&self, json: &str) {
        self.inner().send(&Item::word(message::report(json)));
    }

    /// The stream is over: pages are told so once they have taken all. With a reason, it broke off.
    pub fn end(&self, reason: Option<&str>) {
        let mut inner = self.inner();
        inner.over = true;
        if let Some(reason) = reason {
            let reason = reason.replace(char::is_control, " ");
            let refusal = Bytes::from(Message::Refusal { reason }.to_bytes());
            inner.send(&Item::word(refusal.clone()));
            inner.refusal = Some(refusal);
        }
        for viewer in &inner.viewers {
            viewer.queue.waiting().ended = true;
            viewer.queue.changed.notify_one();
        }
    }

    /// Where the viewer of the page that steers looked last; `None` when nobody watches.
    pub fn pose(&self) -> Option<PoseNotice> {
        self.inner().viewers.first()?.pose
    }

    /// How many pages watch.
    pub fn viewers(&self) -> usize {
        self.inner().viewers.len()
    }

    /// The numbers of the pages that watch. No two pages have the same.
    pub fn pages(&self) -> Vec<u64> {
        self.inner().viewers.iter().map(|viewer| viewer.number).collect()
    }

    /// Whether each page that watches has told what it showed of the GoPs before `gop`.
    pub fn have_told(&self, gop: u32) -> bool {
        self.inner().viewers.iter().all(|viewer| viewer.told >= gop)
    }

    /// What pages have shown, each with the number of its page, since this was asked before. What nobody
    /// takes is forgotten, the oldest first.
    pub fn take_shown(&self) -> Vec<(u64, Shown)> {
        self.inner().shown.drain(..).collect()
    }

    /// Whether another page may watch.
    pub(crate) fn has_room(&self) -> bool {
        self.inner().viewers.len() < VIEWERS
    }

    /// One more page watches; `None` when enough do.
    pub(crate) fn watch(self: &Arc<Self>) -> Option<Watching> {
        let mut inner = self.inner();
        if inner.viewers.len() >= VIEWERS {
            return None;
        }
        let number = inner.next;
        inner.next += 1;
        let queue = Arc::<Queue>::default();
        if let Some(bytes) = &inner.manifest {
            queue.push(&Item::word(bytes.clone()));
        }
        // What is to come has the room first.
        let mut room = MAX_WAITING.saturating_sub(inner.coming_bytes);
        for (_, bytes) in inner.held.values() {
            match room.checked_sub(bytes.len()) {
                Some(left) => room = left,
                None => {
                    queue.waiting().dropped += 1;
                    continue;
                }
            }
            queue.push(&Item::word(bytes.clone()));
        }
        inner.coming.iter().for_each(|item| queue.push(item));
        queue.waiting().begin_lost(&inner.lost);
        // Who comes back hears why there is no more.
        if let Some(bytes) = &inner.refusal {
            queue.push(&Item::word(bytes.clone()));
        }
        queue.waiting().ended = inner.over;
        let told = inner.begun.map_or(0, |gop| gop + 1);
        inner.viewers.push(Viewer { number, queue: Arc::clone(&queue), pose: None, told });
        drop(inner);
        Some(Watching { stage: Arc::clone(self), queue, number })
    }
}

impl Inner {
    /// Keeps a tile that is the newest of its place, and of these the finest; `bytes` are its message.
    fn hold(&mut self, id: TileId, bytes: &[u8]) {
        let is_newer = |(old, _): &(TileId, Bytes)| (old.gop, id.qp) < (id.gop, old.qp);
        let old = self.held.get(&id.tile);
        if !old.is_none_or(is_newer) {
            return;
        }
        let freed = old.map_or(0, |(_, bytes)| bytes.len());
        if self.held_bytes - freed + bytes.len() <= MAX_WAITING {
            self.held_bytes = self.held_bytes - freed + bytes.len();
            self.held.insert(id.tile, (id, message::held(bytes).into()));
        }
    }

    /// Sends what pages that come later are to have, too, until its GoP begins. There is no room for more
    /// than pages can take: of that all lack the last that comes.
    fn keep(&mut self, item: Item) {
        let is_near = item.gop - self.begun.unwrap_or(0).min(item.gop) <= MAX_OPEN_GOPS;
        if self.begun.is_some_and(|begun| item.gop <= begun) {
            // The server's word on a GoP may come late. A tile that does is none of the GoP's.
            if item.tile.is_none() {
                self.send(&item);
            }
        } else if is_near
            && (item.tile.is_none() || self.coming_bytes + item.bytes.len() <= MAX_WAITING)
        {
            // Of the server's words there is one on each GoP.
            self.send(&item);
            self.coming_bytes += item.bytes.len();
            self.coming.push_back(item);
        } else if let Some(id) = item.tile {
            self.lose(id);
        }
    }

    /// No page is sent this. Sound is no tile that would be missing in a picture.
    fn lose(&mut self, id: TileId) {
        if id.is_sound() {
            return;
        }
        *self.lost.entry(id.gop).or_default() += 1;
        for viewer in &self.viewers {
            viewer.queue.waiting().lose(id.gop, 1);
        }
    }

    /// What came of GoPs that have begun by now is to come no more, and is held.
    fn forget(&mut self) {
        let Some(begun) = self.begun else { return };
        let all = std::mem::take(&mut self.coming);
        let (coming, old): (Vec<_>, Vec<_>) = all.into_iter().partition(|item| item.gop > begun);
        self.coming_bytes = coming.iter().map(|item| item.bytes.len()).sum();
        self.coming = coming.into();
        for Item { tile, bytes, .. } in old {
            if let Some(id) = tile.filter(|id| !id.is_sound()) {
                self.hold(id, &bytes);
            }
        }
        self.known.retain(|(gop, ..)| *gop > begun);
        self.lost.retain(|gop, _| *gop > begun);
    }

    fn send(&mut self, item: &Item) {
        for viewer in &self.viewers {
            viewer.queue.push(item);
        }
    }

    /// The time in the video now, and whether it goes on.
    fn position(&self) -> Option<(Duration, bool)> {
        let (at, position, moves) = self.clock?;
        Some((if moves { position + at.elapsed() } else { position }, moves))
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nobody panics with it")
    }

    fn push(&self, item: &Item) {
        let mut waiting = self.waiting();
        let bytes = waiting.bytes + item.bytes.len();
        if let Some(id) = item.tile {
            if bytes > MAX_WAITING {
                waiting.lose(id.gop, u32::from(!id.is_sound()));
                return;
            }
        } else {
            waiting.words += 1;
            let is_over = waiting.words > MAX_WORDS || bytes > MAX_WAITING + WORDS_ROOM;
            waiting.given_up |= is_over;
        }
        if !waiting.given_up {
            waiting.bytes = bytes;
            waiting.items.push_back(item.clone());
        }
        drop(waiting);
        self.changed.notify_one();
    }
}

impl Waiting {
    /// Drops tiles of GoPs before `gop`.
    fn drop_before(&mut self, gop: u32) {
        let (mut dropped, mut bytes) = (Vec::new(), 0);
        self.items.retain(|item| {
            let old = item.tile.filter(|id| id.gop < gop);
            dropped.extend(old);
            bytes += old.map_or(0, |_| item.bytes.len());
            old.is_none()
        });
        self.bytes -= bytes;
        for id in dropped {
            self.lose(id.gop, u32::from(!id.is_sound()));
        }
        // A page tells of what it showed within some GoPs, or not at all.
        self.lost.retain(|of, _| of.saturating_add(MAX_OPEN_GOPS) >= gop);
    }

    /// The page is not sent so many tiles of a GoP.
    fn lose(&mut self, gop: u32, tiles: u32) {
        if tiles == 0 {
            return;
        }
        self.dropped += tiles;
        *self.lost.entry(gop).or_default() += tiles;
    }

    /// So many tiles of each GoP were lost before the page came.
    fn begin_lost(&mut self, lost: &BTreeMap<u32, u32>) {
        for (gop, tiles) in lost {
            self.lose(*gop, *tiles);
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        let item = self.items.pop_front()?;
        self.bytes -= item.bytes.len();
        self.words -= usize::from(item.tile.is_none());
        Some(item.bytes)
    }
}

/// A page's place, for as long as this lives.
pub(crate) struct Watching {
    stage: Arc<Stage>,
    queue: Arc<Queue>,
    number: u64,
}

/// What is next for a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Message(Bytes),
    /// The stream is over.
    End,
    /// It takes nothing any more.
    GivenUp,
}

impl Watching {
    /// Waits for what is next. Cancel safe.
    pub(crate) async fn next(&self) -> Next {
        loop {
            {
                let mut waiting = self.queue.waiting();
                if waiting.given_up {
                    return Next::GivenUp;
                }
                if let Some(echo) = waiting.asked.take() {
                    let dropped = waiting.dropped;
                    drop(waiting);
                    return Next::Message(self.answer(echo, dropped));
                }
                if let Some(bytes) = waiting.pop() {
                    return Next::Message(bytes);
                }
                if waiting.ended {
                    return Next::End;
                }
            }
            self.queue.changed.notified().await;
        }
    }

    /// It says this.
    ///
    /// # Errors
    /// Why it is no message of a page, or cannot be.
    pub(crate) fn hear(&self, bytes: &[u8]) -> Result<(), String> {
        match message::decode(bytes).map_err(|error| error.to_string())? {
            FromPage::Poses(poses) => self.look(poses.last().copied()),
            FromPage::Shown(shown) => self.shown(shown)?,
            FromPage::Ping(echo) => self.pong(echo),
            FromPage::Steer => self.steer(),
        }
        Ok(())
    }

    /// Its viewer looked so.
    pub(crate) fn look(&self, pose: Option<PoseNotice>) {
        let mut inner = self.stage.inner();
        if let Some(viewer) = inner.viewers.iter_mut().find(|one| one.number == self.number) {
            viewer.pose = pose.or(viewer.pose);
        }
    }

    /// It is the one that steers from now on.
    pub(crate) fn steer(&self) {
        let mut inner = self.stage.inner();
        if let Some(at) = inner.viewers.iter().position(|one| one.number == self.number) {
            let viewer = inner.viewers.remove(at);
            inner.viewers.insert(0, viewer);
        }
    }

    /// It has shown this. What it tells of a GoP of which it has told, or of one that had begun when it came, is
    /// not taken.
    ///
    /// # Errors
    /// What is wrong with it, if it cannot be.
    pub(crate) fn shown(&self, mut shown: Shown) -> Result<(), &'static str> {
        let mut inner = self.stage.inner();
        let (tiles, begun) = (inner.tiles, inner.begun);
        let Some(viewer) = inner.viewers.iter_mut().find(|one| one.number == self.number) else {
            return Ok(());
        };
        if shown.tiles.len() != tiles {
            return Err("it tells of other tiles than there are");
        }
        if begun.is_none_or(|begun| shown.gop > begun) {
            return Err("it tells of a GoP that has not begun");
        }
        if shown.gop < viewer.told {
            tracing::debug!(
                "page {} tells of GoP {} again, or of one before it came",
                self.number,
                shown.gop
            );
            return Ok(());
        }
        viewer.told = shown.gop + 1;
        shown.unsent = viewer.queue.waiting().lost.remove(&shown.gop).unwrap_or(0);
        if inner.shown.len() == MAX_SHOWN {
            inner.shown.pop_front();
        }
        inner.shown.push_back((self.number, shown));
        Ok(())
    }

    /// Answers a ping, before all that waits. Of several that wait the newest is answered.
    pub(crate) fn pong(&self, echo: u64) {
        self.queue.waiting().asked = Some(echo);
        self.queue.changed.notify_one();
    }

    /// Whether it has let too much wait: what it says is not of use any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.queue.waiting().given_up
    }

    /// The answer to a ping as it is now.
    fn answer(&self, echo: u64, dropped: u32) -> Bytes {
        let inner = self.stage.inner();
        let (position, moves) = inner.position().unzip();
        let moves = moves.unwrap_or(false);
        let steers = inner.viewers.first().is_some_and(|one| one.number == self.number);
        let viewers = u8::try_from(inner.viewers.len()).unwrap_or(u8::MAX);
        Pong { echo, position, steers, moves, viewers, dropped }.to_bytes().into()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stage.inner().viewers.retain(|viewer| viewer.number != self.number);
    }
}
