//! Where the GoPs of a stream come from: a package, or a live source.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use weftline_video::live::wire::TileDigests;
use weftline_video::live::{MAX_OPEN_GOPS, TileOrder};
use weftline_vr::live::{LiveEnd, SentGop};
use weftline_vr::package::Package;

/// GoPs of a live source that tiles may be asked of.
const KEPT: usize = MAX_OPEN_GOPS as usize;

/// Where GoPs come from.
#[derive(Debug)]
pub(super) enum Origin {
    Package(Box<Package>),
    Live(Arc<Feed>),
}

/// The files of a tile, or of a GoP's sound, and what they must hold.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) init: PathBuf,
    pub(super) segment: PathBuf,
    pub(super) digests: TileDigests,
}

impl Origin {
    /// Where a tile, or a GoP's sound, is.
    ///
    /// # Errors
    /// If the package has no such thing; [`io::ErrorKind::NotFound`] if a live source has it no more.
    pub(super) fn place(&self, order: &TileOrder) -> io::Result<Place> {
        let (tile, qp, gop) = (usize::from(order.id.tile), order.id.qp, order.packaged);
        match self {
            Self::Package(package) if order.id.is_sound() => Ok(Place {
                init: package.sound_init(),
                segment: package.sound_segment(gop),
                digests: package.sound_digests(gop).map_err(io::Error::other)?,
            }),
            Self::Package(package) => Ok(Place {
                init: package.init(tile, qp),
                segment: package.segment(tile, qp, gop),
                digests: package.digests(tile, qp, gop).map_err(io::Error::other)?,
            }),
            Self::Live(feed) => {
                let sent = feed.get(gop).ok_or(io::ErrorKind::NotFound)?;
                let ([init, segment], digests) = match order.id.is_sound() {
                    true => (sent.sound(), sent.sound_digests()),
                    false => (sent.tile(tile, qp), sent.digests(tile, qp)),
                };
                let none = || io::Error::other(format!("GoP {gop} of the source has no such tile"));
                let digests = digests.ok_or_else(none)?;
                Ok(Place { init, segment, digests })
            }
        }
    }
}

/// The newest GoPs of a live source, for all sessions.
#[derive(Debug)]
pub(super) struct Feed {
    kept: Mutex<VecDeque<Arc<SentGop>>>,
    state: watch::Sender<State>,
}

/// How far a live source is.
#[derive(Clone, Debug, Default)]
struct State {
    /// GoPs that were sent.
    sent: u32,
    end: Option<LiveEnd>,
}

impl Feed {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), state: watch::Sender::default() }
    }

    /// The next GoP.
    pub(super) fn push(&self, gop: Arc<SentGop>) {
        let sent = gop.gop.number + 1;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(gop);
        if kept.len() > KEPT {
            kept.pop_front();
        }
        drop(kept);
        self.state.send_modify(|state| state.sent = sent);
    }

    /// A GoP, if it is not too old.
    fn get(&self, number: u32) -> Option<Arc<SentGop>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|gop| gop.gop.number == number).map(Arc::clone)
    }

    /// No more come.
    pub(super) fn finish(&self, end: LiveEnd) {
        self.state.send_modify(|state| state.end = Some(end));
    }

    /// What became of the source, once it has ended.
    pub(super) async fn ended(&self) -> LiveEnd {
        let mut state = self.state.subscribe();
        let ended = state.wait_for(|state| state.end.is_some()).await;
        ended.ok().and_then(|state| state.end.clone()).unwrap_or_default()
    }

    /// One that takes GoPs from the newest on.
    pub(super) fn follow(self: &Arc<Self>) -> Follower {
        let mut state = self.state.subscribe();
        state.mark_changed();
        let next = state.borrow().sent.saturating_sub(1);
        Follower { feed: Arc::clone(self), state, next, has_end: false }
    }
}

/// A session's place in a live source.
#[derive(Debug)]
pub(super) struct Follower {
    feed: Arc<Feed>,
    state: watch::Receiver<State>,
    next: u32,
    has_end: bool,
}

/// What a live source has that is new.
#[derive(Debug)]
pub(super) struct News {
    pub(super) gops: Vec<Arc<SentGop>>,
    /// How many GoPs there were, once it has ended.
    pub(super) end: Option<u32>,
}

impl Follower {
    /// Waits for something new. Cancel safe.
    ///
    /// # Errors
    /// If this session was held up for so long that GoPs were missed.
    pub(super) async fn next(&mut self) -> Result<News, String> {
        // The sender lives as long as this does; after the end nothing changes.
        if self.has_end || self.state.changed().await.is_err() {
            return std::future::pending().await;
        }
        let State { sent, end } = self.state.borrow_and_update().clone();
        let kept = self.feed.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let gops = kept.iter().filter(|gop| (self.next..sent).contains(&gop.gop.number));
        let gops: Vec<_> = gops.map(Arc::clone).collect();
        drop(kept);
        if gops.len() as u32 != sent.saturating_sub(self.next) {
            return Err(format!("GoPs from {} on are kept no more: it was held up", self.next));
        }
        self.next = sent;
        self.has_end = end.is_some();
        Ok(News { gops, end: end.map(|end| end.gops) })
    }
}
