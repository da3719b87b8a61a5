//! What the fuzz target, and the replay of its corpus, drive: a stage whose pages say anything. Not for use
//! otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use weftline_core::time::nanos;
use weftline_video::live::wire::{MAX_POSES, Tile, TileDigests, TileId};

use super::message::{self, FromPage};
use super::stage::{Next, Stage, VIEWERS, Watching};

/// Tiles of the stream.
const TILES: usize = 4;
/// The longest GoP number that the program comes to.
const GOPS: u32 = 64;

/// A page, and what it has been sent.
struct Page {
    watching: Watching,
    /// The newest GoP that had begun when it came, or of which it was told that it begins.
    begun: Option<u32>,
    /// How many tiles it was told it was not sent.
    dropped: u32,
}

/// Steps, each of a byte that says which page it is of and what is done, and one that says how many bytes
/// follow: of a message of the page, or of what the program shows. Whatever pages say, each is a message or
/// refused; no more than eight watch, none tells twice of a GoP or of one that has not begun, and where the
/// viewer looks is an angle. Whatever is shown, no page is sent anything of a GoP that has begun, and when all
/// is over each is told.
///
/// # Panics
/// If one of these does not hold.
pub fn pages(bytes: &[u8]) {
    let stage = Arc::new(Stage::new());
    stage.manifest(b"\x02", TILES);
    let mut pages: Vec<Page> = Vec::new();
    let (mut rest, mut begun) = (bytes, None);
    let mut told = BTreeSet::new();
    while let [step, length, after @ ..] = rest {
        let (words, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        match step % 8 {
            0 => {
                let room = pages.len() < VIEWERS;
                let page = stage.watch();
                assert_eq!(page.is_some(), room, "eight pages watch, and no more");
                let page = page.map(|watching| Page { watching, begun, dropped: 0 });
                pages.extend(page);
            }
            1 if !pages.is_empty() => {
                let page = usize::from(step / 8) % pages.len();
                drop(pages.remove(page));
            }
            2 => {
                let next = begun.map_or(0, |gop: u32| gop + 1).min(GOPS);
                stage.begin(next, step & 8 != 0);
                begun = Some(next);
            }
            3 => show(&stage, begun, *step, words),
            6 => {
                let bytes = [&[3][..], words].concat();
                stage.notice(begun.unwrap_or(0) + u32::from(step >> 6), &bytes);
            }
            7 if !pages.is_empty() => {
                let page = usize::from(step / 8) % pages.len();
                take(&mut pages[page]);
            }
            _ if !pages.is_empty() => {
                let page = usize::from(step / 8) % pages.len();
                say(&pages[page].watching, words);
            }
            _ => {}
        }
        assert_eq!(stage.viewers(), pages.len());
        for (page, shown) in stage.take_shown() {
            assert!(begun.is_some_and(|begun| shown.gop <= begun), "it has begun");
            assert!(shown.tiles.len() == TILES && shown.had.len() == TILES);
            assert!(told.insert((page, shown.gop)), "it is told once");
        }
        if let Some(pose) = stage.pose() {
            assert!(pose.degrees.iter().all(|angle| angle.abs() <= 3_600.0), "{pose:?}");
            assert!(nanos(pose.at) < u64::MAX);
        }
    }
    stage.end(bytes.last().filter(|last| **last > 127).map(|_| "it broke\noff"));
    for mut page in pages {
        while take(&mut page) {}
        let last = page.watching.next().now_or_never();
        assert!(matches!(last, Some(Next::End | Next::GivenUp)), "it is told that it is over");
    }
}

/// A page takes what is next, if there is something.
fn take(page: &mut Page) -> bool {
    let Some(Next::Message(bytes)) = page.watching.next().now_or_never() else { return false };
    let number = |at: usize| {
        let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
        u32::from_be_bytes(field.expect("it is whole"))
    };
    match bytes[0] {
        // A tile, or sound.
        4 => assert!(page.begun.is_none_or(|begun| number(1) > begun), "it comes in time"),
        34 => {
            let dropped = number(19);
            assert!(dropped >= page.dropped, "what is lost stays lost");
            page.dropped = dropped;
        }
        35 => page.begun = page.begun.max(Some(number(1))),
        // What conceals a tile is none of sound.
        36 => assert_ne!(bytes[5..7], TileId::SOUND.to_be_bytes()),
        2 | 3 | 7 => {}
        other => panic!("nobody has sent a message of type {other}"),
    }
    true
}

/// A page says this.
fn say(page: &Watching, bytes: &[u8]) {
    match message::decode(bytes) {
        Ok(FromPage::Poses(poses)) => assert!(poses.len() <= MAX_POSES),
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    if let Err(why) = page.hear(bytes) {
        assert!(!why.contains('\n') && why.len() < 200, "one line: {why:?}");
    }
}

/// The program has a tile, of the GoP that has begun or of one to come.
fn show(stage: &Stage, begun: Option<u32>, step: u8, words: &[u8]) {
    let gop = begun.unwrap_or(0) + u32::from(step >> 6);
    let id = match words.first() {
        Some(0xff) => TileId::sound(gop),
        _ => TileId { gop, tile: u16::from(step >> 3) % TILES as u16, qp: 32 },
    };
    let digests = TileDigests::of(b"init", words);
    stage.tile(&Tile { id, init: b"init", segment: words, digests }, step & 32 != 0);
}
