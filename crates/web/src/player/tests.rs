//! A page's WebSocket, as a page and as others use it; and the fixtures that the page's own tests read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message as Frame};
use weftline_core::ByteCount;
use weftline_video::geometry::{Direction, FrameSize, Grid, Orientation};
use weftline_video::live::wire::{
    GopNotice, MAX_POSES, Manifest, Message, PoseNotice, RungNotice, SoundFormat, Tile,
    TileDigests, TileId, TileNotice,
};
use weftline_video::rd::MAX_TILES;
use weftline_video::shown::Concealment;

use super::message::{self, FromPage, Pong, Shown};
use super::stage::{Stage, VIEWERS};
use crate::serve::{PlayerPage, Settings};
use crate::stopped::{Bounded, HANGS};

fn manifest() -> Manifest {
    Manifest {
        frame: FrameSize::new(384, 192).unwrap(),
        grid: Grid::new(4, 2).unwrap(),
        gop: Duration::from_millis(500),
        gop_frames: 4,
        gops: 60,
        concealment: Concealment::LastReceived,
        scheme: "ows".to_owned(),
        qps: vec![22, 37],
        sound: Some(SoundFormat { rate_hz: 48_000, channels: 2 }),
    }
}

fn notice(gop: u32) -> GopNotice {
    let rung = |qp, bytes| Some(RungNotice { qp, bytes, ws_mse: 1.5 });
    let sent = TileNotice { planned: rung(22, 900), base: rung(37, 70_000), ..Default::default() };
    let left_out = TileNotice { grey: 2.0, changes: vec![0.5, 1.0], ..Default::default() };
    let tiles = (0..8).map(|tile| if tile < 6 { sent.clone() } else { left_out.clone() });
    GopNotice { gop, expected: ByteCount::new(1 << 40), sound: 0, tiles: tiles.collect() }
}

fn tile(gop: u32, segment: &[u8]) -> Vec<u8> {
    let (init, id) = (&b"init"[..], TileId { gop, tile: 5, qp: 37 });
    Message::Tile(Tile { id, init, segment, digests: TileDigests::of(init, segment) }).to_bytes()
}

/// Gives a stage a tile as it comes from a server.
fn give(stage: &Stage, gop: u32, init: &[u8], segment: &[u8], on_time: bool) {
    let digests = TileDigests::of(b"init", segment);
    let id = TileId { gop, tile: 5, qp: 37 };
    stage.tile(&Tile { id, init, segment, digests }, on_time);
}

struct Place {
    page: PlayerPage,
    stage: Arc<Stage>,
    host: String,
    _bounded: Bounded,
}

impl Place {
    async fn open() -> Self {
        let stage = Arc::new(Stage::new());
        let settings = Settings {
            address: "127.0.0.1:0".parse().unwrap(),
            names: Vec::new(),
            program: crate::Program::Player,
            tls: None,
        };
        let page = PlayerPage::open(&settings, Arc::clone(&stage)).await.unwrap();
        let (host, _) = page.url().strip_prefix("http://").unwrap().split_once('/').unwrap();
        Self { host: host.to_owned(), stage, page, _bounded: Bounded::new() }
    }

    fn token(&self) -> &str {
        self.page.url().split_once("#k=").unwrap().1
    }

    /// A page; `change` may make its request another one.
    async fn connect(
        &self,
        change: impl FnOnce(&mut hyper::HeaderMap),
    ) -> Result<WebSocketStream<TcpStream>, Error> {
        let mut request = format!("ws://{}/api/1/player", self.host).into_client_request()?;
        let headers = request.headers_mut();
        let mut set = |name: &'static str, value: String| {
            headers.insert(name, value.parse().unwrap());
        };
        set("origin", format!("http://{}", self.host));
        set("authorization", format!("Bearer {}", self.token()));
        set("sec-websocket-protocol", "weftline-vr-1".to_owned());
        change(headers);
        let stream = TcpStream::connect(&self.host).await?;
        tokio_tungstenite::client_async(request, stream).await.map(|(socket, _)| socket)
    }

    async fn refused(&self, change: impl FnOnce(&mut hyper::HeaderMap)) -> u16 {
        match self.connect(change).await {
            Err(Error::Http(answer)) => answer.status().as_u16(),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until so many pages watch.
    async fn watched_by(&self, count: usize) {
        until(&format!("{count} pages watch"), || self.stage.viewers() == count).await;
    }
}

/// What comes, however slow the machine is.
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let come = tokio::time::timeout(HANGS, future).await;
    come.unwrap_or_else(|_| panic!("{what}: not within {HANGS:?}"))
}

/// Waits for a condition.
async fn until(what: &str, is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(what, wait).await;
}

async fn next(page: &mut WebSocketStream<TcpStream>) -> Bytes {
    match within("a message", page.next()).await {
        Some(Ok(Frame::Binary(bytes))) => bytes,
        other => panic!("{other:?}"),
    }
}

async fn say(page: &mut WebSocketStream<TcpStream>, bytes: Vec<u8>) {
    page.send(Frame::Binary(bytes.into())).await.unwrap();
}

/// How a page is told to go.
async fn closed(page: &mut WebSocketStream<TcpStream>) -> (CloseCode, String) {
    loop {
        match within("a good-bye", page.next()).await {
            Some(Ok(Frame::Close(Some(frame)))) => return (frame.code, frame.reason.to_string()),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn only_the_pages_own_script_gets_in() {
    let place = Place::open().await;
    assert_eq!(place.refused(|headers| drop(headers.remove("authorization"))).await, 401);
    let forged = "Bearer 00000000000000000000000000000000";
    assert_eq!(
        place
            .refused(|headers| drop(headers.insert("authorization", forged.parse().unwrap())))
            .await,
        401
    );
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let set = |headers: &mut hyper::HeaderMap| {
            headers.insert("origin", origin.parse().unwrap());
        };
        assert_eq!(place.refused(set).await, 403, "{origin}");
    }
    assert_eq!(place.refused(|headers| drop(headers.remove("origin"))).await, 403);
    let evil = |headers: &mut hyper::HeaderMap| {
        headers.insert("host", "evil.example".parse().unwrap());
    };
    assert_eq!(place.refused(evil).await, 403);
    let foreign = |headers: &mut hyper::HeaderMap| {
        headers.insert("sec-fetch-site", "cross-site".parse().unwrap());
    };
    assert_eq!(place.refused(foreign).await, 403);
    let other = |headers: &mut hyper::HeaderMap| {
        headers.insert("sec-websocket-protocol", "weftline-vr-9".parse().unwrap());
    };
    assert_eq!(place.refused(other).await, 426);
    assert_eq!(place.stage.viewers(), 0);
    // What is no WebSocket is told so.
    let mut plain = TcpStream::connect(&place.host).await.unwrap();
    let (host, token) = (&place.host, place.token());
    let ask = format!(
        "GET /api/1/player HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    plain.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 426"), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n"), "{answer}");
    assert!(answer.contains("default-src 'none'"), "{answer}");
    // HEAD opens none, whatever else it says.
    let mut plain = TcpStream::connect(&place.host).await.unwrap();
    let ask = format!(
        "HEAD /api/1/player HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\
         Authorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: weftline-vr-1\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    plain.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    // What is refused speaks of the player.
    let refusal = format!("GET /api/1/player HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut plain = TcpStream::connect(&place.host).await.unwrap();
    plain.write_all(refusal.as_bytes()).await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("the address that the player printed"), "{answer}");
    assert!(!answer.contains("daemon"), "{answer}");
}

#[tokio::test]
async fn a_page_that_comes_late_has_all_of_the_gops_that_have_not_begun() {
    let place = Place::open().await;
    let stage = &place.stage;
    let manifest = Message::Manifest(manifest()).to_bytes();
    stage.manifest(&manifest, 8);
    for gop in 0..3 {
        stage.notice(gop, &Message::Gop(notice(gop)).to_bytes());
        // Only the first tells what its decoder is set up from; a late one does it, too.
        give(stage, gop, if gop == 0 { b"init" } else { b"" }, &[gop as u8; 9], gop != 0);
    }
    stage.begin(0, false);
    let mut page = place.connect(|_| ()).await.unwrap();
    assert_eq!(next(&mut page).await, manifest);
    // The tile of GoP 0 was late: nothing of it is held.
    for gop in 1..3 {
        assert_eq!(next(&mut page).await, Message::Gop(notice(gop)).to_bytes());
        assert_eq!(next(&mut page).await, tile(gop, &[gop as u8; 9]));
    }
    stage.begin(1, false);
    assert_eq!(next(&mut page).await, message::begin(1, false));
    // What comes after that is late, and not shown.
    give(stage, 1, b"", b"late", false);
    stage.begin(2, false);
    assert_eq!(next(&mut page).await, message::begin(2, false));
    // The next page shows the last picture of it until another comes.
    let mut late = place.connect(|_| ()).await.unwrap();
    assert_eq!(next(&mut late).await, manifest);
    assert_eq!(next(&mut late).await, message::held(&tile(2, &[2; 9])));
    stage.end(None);
    assert_eq!(closed(&mut page).await.0, CloseCode::Normal);
    assert_eq!(closed(&mut late).await.0, CloseCode::Normal);
}

#[tokio::test]
async fn one_steers_and_when_it_leaves_the_next_does() {
    let place = Place::open().await;
    let looks = |yaw: f32| poses(&[(7, [yaw, 1.0, 0.0])]);
    let mut first = place.connect(|_| ()).await.unwrap();
    let mut second = place.connect(|_| ()).await.unwrap();
    place.watched_by(2).await;
    assert_eq!(place.stage.pose(), None);
    say(&mut second, looks(20.0)).await;
    say(&mut second, ping(1)).await;
    let answer = next(&mut second).await;
    assert_eq!((answer[17] & 1, answer[18]), (0, 2), "the first steers");
    assert_eq!(place.stage.pose(), None);
    say(&mut second, vec![51]).await;
    say(&mut second, ping(2)).await;
    assert_eq!(next(&mut second).await[17] & 1, 1);
    assert_eq!(place.stage.pose().unwrap().degrees, [20.0, 1.0, 0.0]);
    say(&mut first, looks(10.0)).await;
    // One that vanishes leaves the others alone.
    drop(second);
    place.watched_by(1).await;
    say(&mut first, ping(3)).await;
    assert_eq!(next(&mut first).await[17] & 1, 1);
    assert_eq!(place.stage.pose().unwrap().degrees, [10.0, 1.0, 0.0]);
}

#[tokio::test]
async fn eight_pages_watch_and_the_ninth_is_told() {
    let place = Place::open().await;
    let mut pages = Vec::new();
    for _ in 0..VIEWERS {
        pages.push(place.connect(|_| ()).await.unwrap());
    }
    place.watched_by(VIEWERS).await;
    assert_eq!(place.refused(|_| ()).await, 503);
    // A page asks so why it is not let in.
    let room = async || {
        let mut plain = TcpStream::connect(&place.host).await.unwrap();
        let (host, token) = (&place.host, place.token());
        let head = format!("Host: {host}\r\nAuthorization: Bearer {token}\r\n");
        let ask = format!("GET /api/1/room HTTP/1.1\r\n{head}\r\n");
        plain.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within("an answer", plain.read_to_string(&mut answer)).await.unwrap();
        answer
    };
    let full = room().await;
    assert!(full.starts_with("HTTP/1.1 503") && full.contains("8 pages watch"), "{full}");
    pages.pop();
    place.watched_by(VIEWERS - 1).await;
    assert!(room().await.starts_with("HTTP/1.1 204"));
    place.connect(|_| ()).await.unwrap();
}

#[tokio::test]
async fn what_is_no_message_ends_that_page_alone() {
    let place = Place::open().await;
    place.stage.manifest(&Message::Manifest(manifest()).to_bytes(), 8);
    let mut good = place.connect(|_| ()).await.unwrap();
    next(&mut good).await;
    let future = Shown { gop: 5, tiles: vec![(None, 0); 8], ..Default::default() };
    let other = Shown { tiles: vec![(None, 0); 7], ..Default::default() };
    let wrong = [vec![], vec![9], vec![48, 1], vec![51, 0], shown(&future), shown(&other)];
    for bytes in wrong.into_iter().chain([vec![48; 65 << 10]]) {
        let mut page = place.connect(|_| ()).await.unwrap();
        // One that is told to go may not hear all of what it says.
        let _ = page.send(Frame::Binary(bytes.into())).await;
        assert_eq!(closed(&mut page).await.0, CloseCode::Policy);
    }
    let mut page = place.connect(|_| ()).await.unwrap();
    page.send(Frame::Text("hello".into())).await.unwrap();
    assert_eq!(closed(&mut page).await.0, CloseCode::Policy);
    place.watched_by(1).await;
    say(&mut good, ping(4)).await;
    assert_eq!(next(&mut good).await[0], 34);
}

#[tokio::test]
async fn what_a_page_has_shown_is_taken_once() {
    let place = Place::open().await;
    place.stage.manifest(&Message::Manifest(manifest()).to_bytes(), 8);
    let mut page = place.connect(|_| ()).await.unwrap();
    place.watched_by(1).await;
    // Of this tile no decoder can be set up.
    give(&place.stage, 0, b"", b"lost", true);
    place.stage.begin(0, false);
    let (tiles, had) = (vec![(Some(22), 1); 8], vec![Some(22); 8]);
    let of = Shown { shown: 4, tiles, had, unsent: 1, ..Default::default() };
    say(&mut page, shown(&of)).await;
    until("it has told", || place.stage.have_told(1)).await;
    assert_eq!(place.stage.take_shown(), [(0, of.clone())]);
    assert!(place.stage.take_shown().is_empty());
    // Again, and of a GoP that had begun before another page came.
    let late = place.connect(|_| ()).await.unwrap();
    for mut page in [page, late] {
        say(&mut page, shown(&of)).await;
        say(&mut page, ping(5)).await;
        while next(&mut page).await[0] != 34 {}
    }
    assert!(place.stage.take_shown().is_empty());
}

/// A page that takes nothing: what waits for it is two GoPs, and it is told how much was dropped.
#[tokio::test]
async fn a_slow_page_misses_old_tiles_and_nothing_grows() {
    let stage = Arc::new(Stage::new());
    stage.manifest(&Message::Manifest(manifest()).to_bytes(), 8);
    let watching = stage.watch().unwrap();
    for gop in 0..50 {
        give(&stage, gop, b"init", &[0; 1000], true);
        let (init, segment) = (&b"init"[..], &[1; 1000][..]);
        let id = TileId { gop, tile: 6, qp: 37 };
        let digests = TileDigests::of(init, segment);
        stage.tile(&Tile { id, init, segment, digests }, true);
        stage.begin(gop, false);
    }
    stage.end(None);
    watching.pong(9);
    let got = all_of(&watching).await;
    // The answer comes first.
    assert_eq!((got[0][0], got[0][19..23].to_vec()), (34, 96_u32.to_be_bytes().to_vec()));
    let tiles: Vec<u32> = got
        .iter()
        .filter(|bytes| bytes[0] == 4)
        .map(|bytes| u32::from_be_bytes(bytes[1..5].try_into().unwrap()))
        .collect();
    assert_eq!(tiles, [48, 48, 49, 49]);
    // Words cannot pile up for ever either.
    for _ in 0..6_000 {
        stage.sample("{}");
    }
    assert_eq!(watching.next().await, super::stage::Next::GivenUp);
}

/// What is told to a page that takes all that waits for it.
async fn all_of(watching: &super::stage::Watching) -> Vec<Bytes> {
    let mut got = Vec::new();
    while let super::stage::Next::Message(bytes) = within("what is next", watching.next()).await {
        got.push(bytes);
    }
    got
}

/// A jitter buffer of many GoPs: what begins first is there, for a page that comes late and for one that
/// takes nothing for a while.
#[tokio::test]
async fn a_buffer_of_many_gops_is_there_when_it_begins() {
    let stage = Arc::new(Stage::new());
    let manifest = Message::Manifest(manifest()).to_bytes();
    stage.manifest(&manifest, 8);
    let slow = stage.watch().unwrap();
    let mut expected = vec![Bytes::from(manifest)];
    for gop in 0..12 {
        let notice = Message::Gop(notice(gop)).to_bytes();
        stage.notice(gop, &notice);
        give(&stage, gop, b"init", &[gop as u8; 9], true);
        expected.extend([notice.into(), tile(gop, &[gop as u8; 9]).into()]);
    }
    let late = stage.watch().unwrap();
    for gop in 0..2 {
        stage.begin(gop, false);
        expected.push(message::begin(gop, false).into());
    }
    stage.end(None);
    for page in [slow, late] {
        assert_eq!(all_of(&page).await, expected);
    }
}

/// A server that sends one tile again and again, and one that sends more ahead than anybody can keep.
#[tokio::test]
async fn what_is_to_come_is_kept_once_and_within_bounds() {
    let stage = Arc::new(Stage::new());
    let page = stage.watch().unwrap();
    for _ in 0..100 {
        give(&stage, 1, b"init", &[7; 9], true);
    }
    let late = stage.watch().unwrap();
    // Of a page that takes all at once nothing waits; yet it cannot keep more either.
    let segment = vec![0; 2 << 20];
    let mut taken = 0;
    for gop in 2..42 {
        give(&stage, gop, b"", &segment, true);
    }
    page.pong(1);
    late.pong(1);
    stage.end(None);
    for page in [page, late] {
        let got = all_of(&page).await;
        let tiles = got.iter().filter(|bytes| bytes[0] == 4);
        assert_eq!(tiles.clone().filter(|bytes| bytes[4] == 1).count(), 1, "once");
        taken += tiles.map(Bytes::len).sum::<usize>();
        let dropped = u32::from_be_bytes(got[0][19..23].try_into().unwrap());
        assert_eq!(dropped, 9, "31 and a small one fit within 64 MiB");
    }
    assert!(taken <= 2 * (64 << 20), "{taken}");
}

/// Sound goes to pages as tiles do, and is no tile: nothing conceals it later, and where there is no room for
/// it no tile is missing.
#[tokio::test]
async fn sound_goes_to_pages_and_counts_as_no_tile() {
    let stage = Arc::new(Stage::new());
    let sound = |gop, segment: &[u8], on_time| {
        let digests = TileDigests::of(b"aac", segment);
        let tile = Tile { id: TileId::sound(gop), init: b"aac", segment, digests };
        stage.tile(&tile, on_time);
        Bytes::from(Message::Tile(tile).to_bytes())
    };
    let page = stage.watch().unwrap();
    let first = sound(0, b"heard", true);
    sound(1, b"late", false);
    let second = sound(1, b"in time", true);
    // A page that comes now has what is to come.
    let late = stage.watch().unwrap();
    stage.begin(0, false);
    stage.begin(1, false);
    // Of what was there nothing is held for the next one.
    let last = stage.watch().unwrap();
    let begins = [0, 1].map(|gop| Bytes::from(message::begin(gop, false)));
    for of in 2..6 {
        let room = vec![0; 15 << 20];
        sound(of, &room, true);
    }
    sound(6, &[0; 15 << 20], true);
    page.pong(1);
    stage.end(None);
    let got = all_of(&page).await;
    assert_eq!(u32::from_be_bytes(got[0][19..23].try_into().unwrap()), 0, "no tile is missing");
    assert_eq!(got[1..5], [&[first.clone(), second.clone()][..], &begins].concat());
    assert_eq!(got.len(), 1 + 4 + 4, "one was over");
    assert_eq!(all_of(&late).await[..4], [&[first, second][..], &begins].concat());
    assert_eq!(all_of(&last).await.len(), 4);
}

/// A page that comes while much is held and much is to come, and takes nothing.
#[tokio::test]
async fn what_is_held_has_the_room_that_is_to_come_leaves() {
    let stage = Arc::new(Stage::new());
    let tiles = |gop, count| {
        let segment = vec![0; 2 << 20];
        let digests = TileDigests::of(b"init", &segment);
        for tile in 0..count {
            let id = TileId { gop, tile, qp: 37 };
            stage.tile(&Tile { id, init: b"init", segment: &segment, digests }, true);
        }
    };
    tiles(0, 31);
    stage.begin(0, false);
    tiles(1, 20);
    let page = stage.watch().unwrap();
    // It takes no tile more than fits.
    tiles(2, 11);
    let slow = stage.watch().unwrap();
    stage.end(None);
    for (page, held, coming, dropped) in [(page, 11, 20, 31_u32), (slow, 0, 31, 31)] {
        page.pong(1);
        let got = all_of(&page).await;
        let count = |kind| got.iter().filter(|bytes| bytes[0] == kind).count();
        assert_eq!((count(36), count(4)), (held, coming));
        let said = u32::from_be_bytes(got[0][19..23].try_into().unwrap());
        assert_eq!(said, dropped, "each that is left out is counted");
        assert!(got.iter().map(Bytes::len).sum::<usize>() <= 64 << 20);
    }
}

/// Long words, as a server's on GoPs of very many tiles, pile up for a page that takes nothing.
#[tokio::test]
async fn words_that_wait_are_bounded_by_their_bytes() {
    let stage = Arc::new(Stage::new());
    let page = stage.watch().unwrap();
    for _ in 0..97 {
        stage.sample(&" ".repeat(1 << 20));
    }
    assert!(page.is_given_up());
}

/// The stream has broken off, and a page that had lost its connection comes back.
#[tokio::test]
async fn a_page_that_comes_back_hears_why_the_stream_is_over() {
    let place = Place::open().await;
    place.stage.end(Some("the server is stopping"));
    let mut page = place.connect(|_| ()).await.unwrap();
    let refusal = Message::Refusal { reason: "the server is stopping".into() }.to_bytes();
    assert_eq!(next(&mut page).await, refusal);
    assert_eq!(closed(&mut page).await.0, CloseCode::Normal);
}

/// The first that comes of a tile may be of a GoP that has long to wait: until then an older one conceals it.
#[tokio::test]
async fn what_conceals_a_tile_on_a_new_page_has_begun() {
    let stage = Arc::new(Stage::new());
    give(&stage, 0, b"init", b"old", true);
    stage.begin(0, false);
    give(&stage, 2, b"", b"new", true);
    let page = stage.watch().unwrap();
    stage.end(None);
    assert_eq!(all_of(&page).await, [message::held(&tile(0, b"old")), tile(2, b"new")]);
}

/// A page that asks for the time and takes no answer.
#[tokio::test]
async fn answers_do_not_pile_up() {
    let stage = Arc::new(Stage::new());
    let page = stage.watch().unwrap();
    for echo in 0..6_000_u64 {
        page.pong(echo);
    }
    stage.end(None);
    let got = all_of(&page).await;
    assert_eq!((got.len(), &got[0][1..9]), (1, &5_999_u64.to_be_bytes()[..]));
}

fn poses(all: &[(u64, [f32; 3])]) -> Vec<u8> {
    let mut bytes = vec![48, all.len() as u8];
    for (at, degrees) in all {
        bytes.extend(at.to_be_bytes());
        degrees.iter().for_each(|degrees| bytes.extend(degrees.to_be_bytes()));
    }
    bytes
}

fn ping(echo: u64) -> Vec<u8> {
    [&[50][..], &echo.to_be_bytes()].concat()
}

fn shown(of: &Shown) -> Vec<u8> {
    let mut bytes = vec![49];
    bytes.extend(of.gop.to_be_bytes());
    for count in [of.shown, of.dropped, of.late_network, of.late_decoding] {
        bytes.extend(count.to_be_bytes());
    }
    bytes.extend(of.lead_ms.to_be_bytes());
    bytes.extend((of.tiles.len() as u16).to_be_bytes());
    for (tile, (qp, missed)) in of.tiles.iter().enumerate() {
        bytes.push(of.had.get(tile).copied().flatten().unwrap_or(255));
        bytes.push(qp.unwrap_or(255));
        bytes.extend(missed.to_be_bytes());
    }
    bytes
}

/// What a page is told and what it says, as its own tests read them (`ui/test/player-unit.mjs`). After a change
/// of the messages: WEFTLINE_FIXTURES=write cargo test -p weftline-web fixtures
#[test]
fn the_fixtures_of_the_page_are_these_messages() {
    let pong = |position| {
        let pong =
            Pong { echo: 77_000_001, position, steers: true, moves: false, viewers: 3, dropped: 9 };
        pong.to_bytes()
    };
    let of = Shown {
        gop: 3,
        shown: 4,
        dropped: 1,
        late_network: 2,
        late_decoding: 5,
        lead_ms: -12.5,
        tiles: vec![(Some(22), 0), (None, 4)],
        had: vec![Some(22), Some(37)],
        unsent: 0,
    };
    let said = [(1_500_000_000, [-170.5, 30.0, 0.0]), (1_550_000_000, [180.0, -90.0, 2.5])];
    let all = [
        ("manifest", Message::Manifest(manifest()).to_bytes()),
        ("gop", Message::Gop(notice(7)).to_bytes()),
        ("tile", tile(7, b"segment")),
        ("held", message::held(&tile(6, b"older"))),
        ("end", Message::End { gops: 60 }.to_bytes()),
        ("refusal", Message::Refusal { reason: "the server is stopping: ö".into() }.to_bytes()),
        ("sample", message::sample("{\"paths\":[[\"wifi\",1.5,true]]}")),
        ("report", message::report("{\"gop\":1}")),
        ("pong", pong(Some(Duration::from_millis(2_250)))),
        ("pong-before", pong(None)),
        ("begin", message::begin(7, true)),
        ("poses", poses(&said)),
        ("shown", shown(&of)),
        ("ping", ping(77_000_001)),
        ("steer", vec![51]),
    ];
    let notices = said.map(|(at, degrees)| PoseNotice { at: Duration::from_nanos(at), degrees });
    let decode = |name: &str| message::decode(&all.iter().find(|one| one.0 == name).unwrap().1);
    assert_eq!(decode("poses"), Ok(FromPage::Poses(notices.to_vec())));
    assert_eq!(decode("shown"), Ok(FromPage::Shown(of)));
    assert_eq!(decode("ping"), Ok(FromPage::Ping(77_000_001)));
    assert_eq!(decode("steer"), Ok(FromPage::Steer));
    for (name, bytes) in &all {
        is_fixture(&format!("{name}.bin"), bytes);
    }
}

/// Where rays of heads meet the frame, for the page's own geometry.
#[test]
fn the_fixtures_of_the_pages_geometry_are_these() {
    let heads = [[0.0, 0.0, 0.0], [90.0, 0.0, 0.0], [-170.0, 35.0, 0.0], [20.0, -80.0, 15.0]];
    let rays = [[1.0, 0.0, 0.0], [1.0, 1.19, 0.4], [1.0, -1.19, -0.7], [1.0, 0.2, 1.0]];
    let mut lines = Vec::new();
    for head in heads {
        let orientation = Orientation::from_degrees(head[0], head[1], head[2]);
        for ray in rays {
            let seen = orientation.turn(Direction::new(ray[0], ray[1], ray[2]).unwrap());
            let (across, down) = seen.frame_position();
            // Nine digits: others than these differ from machine to machine.
            lines.push(format!("[{head:?},{ray:?},[{across:.9},{down:.9}]]"));
        }
    }
    is_fixture("geometry.json", format!("[\n{}\n]\n", lines.join(",\n")).as_bytes());
}

#[track_caller]
fn is_fixture(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui/fixtures").join(name);
    if std::env::var_os("WEFTLINE_FIXTURES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(kept == bytes, "{name} is another one; WEFTLINE_FIXTURES=write writes it");
}

#[test]
fn what_is_out_of_range_is_refused() {
    let degrees = |angle: f32| message::decode(&poses(&[(7, [0.0, angle, 0.0])]));
    let lead = |lead_ms| message::decode(&shown(&Shown { lead_ms, ..Default::default() }));
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e9, -1e9] {
        assert!(degrees(wrong).is_err(), "{wrong}°");
        assert!(lead(wrong).is_err(), "{wrong} ms");
    }
    assert!(degrees(3_600.0).is_ok() && lead(-3.6e6).is_ok());
    // As many GoPs as there may be, of which the longest take a minute.
    let longest = 60 * 86_400_000_000_000;
    assert!(message::decode(&poses(&[(longest, [0.0; 3])])).is_ok());
    for wrong in [longest + 1, u64::MAX] {
        assert!(message::decode(&poses(&[(wrong, [0.0; 3])])).is_err(), "{wrong} ns");
    }
}

fn check_message(bytes: &[u8]) {
    match message::decode(bytes) {
        Ok(FromPage::Poses(poses)) => assert!(poses.len() <= MAX_POSES),
        Ok(FromPage::Shown(shown)) => assert!(shown.tiles.len() <= MAX_TILES),
        Ok(FromPage::Ping(_) | FromPage::Steer) => {}
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(mut bytes: Vec<u8>, kind in 47_u8..53) {
        check_message(&bytes);
        bytes.insert(0, kind);
        check_message(&bytes);
    }

    #[test]
    fn what_is_said_is_what_is_heard(
        gop in 0_u32..1000, pictures in 0_u16..500, lead_ms in -1e5_f32..1e5,
        tiles in prop::collection::vec((prop::option::of(0_u8..52), 0_u16..500), 0..50),
    ) {
        let tiles = tiles.into_iter().map(|(qp, missed)| (qp, missed.min(pictures))).collect();
        let tiles: Vec<(Option<u8>, u16)> = tiles;
        let had = tiles.iter().rev().map(|(qp, _)| *qp).collect();
        let of = Shown { gop, shown: pictures, lead_ms, tiles, had, ..Default::default() };
        let bytes = shown(&of);
        for cut in 0..bytes.len() {
            prop_assert!(message::decode(&bytes[..cut]).is_err());
        }
        prop_assert_eq!(message::decode(&bytes), Ok(FromPage::Shown(of)));
    }
}
