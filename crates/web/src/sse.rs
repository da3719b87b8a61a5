//! The board: what has been seen of the program, and the pages that watch it by server-sent events.
//!
//! Each page has a queue of its own, of a bounded length. One that takes nothing for so long that it
//! is full is dropped; it connects again and says by `Last-Event-ID` what it had last.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::history::History;
use crate::rates::Sample;
use crate::source::Event;

/// Pages that may watch at once.
pub(crate) const VIEWERS: usize = 8;
/// Looks that wait for a page, each with its sample and its events: half a minute.
const QUEUE: usize = 64;
/// Messages of the weave that wait for a page.
const WEAVE_QUEUE: usize = 4;
/// Events that are kept, and the most of them that one look may bring.
const EVENTS: usize = 256;
const EVENTS_AT_ONCE: usize = 64;
/// Characters of an event's text that are kept.
const MAX_TEXT: usize = 300;

/// What has been seen, and who watches.
pub(crate) struct Board {
    /// Tells this process's messages from those of one before it.
    instance: String,
    /// Whether the times of samples are a run's, and not seconds since this began.
    has_own_clock: bool,
    inner: Mutex<Inner>,
}

struct Inner {
    /// The number of the last message.
    last: u64,
    history: History,
    /// The last events, each with its number.
    events: VecDeque<(u64, String)>,
    viewers: Vec<Viewer>,
}

/// A page that watches.
struct Viewer {
    queue: mpsc::Sender<Bytes>,
    /// Closed with it, so that its connection ends even while it takes nothing.
    _lives: oneshot::Sender<Infallible>,
}

/// What a page that watches is sent. The weave has a queue of its own: where it is full, rows are left
/// out, and nothing else is.
pub(crate) struct Stream {
    board: mpsc::Receiver<Bytes>,
    weave: Option<mpsc::Receiver<Bytes>>,
}

impl Stream {
    /// Where messages of the weave go; closed when the page has left.
    pub(crate) fn weave(&mut self) -> mpsc::Sender<Bytes> {
        let (sender, receiver) = mpsc::channel(WEAVE_QUEUE);
        self.weave = Some(receiver);
        sender
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes: Option<Bytes>| bytes.map(|bytes| Ok(Frame::data(bytes)));
        if let Poll::Ready(bytes) = self.board.poll_recv(cx) {
            return Poll::Ready(frame(bytes));
        }
        let Some(weave) = &mut self.weave else { return Poll::Pending };
        match weave.poll_recv(cx) {
            Poll::Ready(None) => {
                // The connection is over; the page goes on.
                self.weave = None;
                Poll::Pending
            }
            polled => polled.map(frame),
        }
    }
}

/// Closed when the page has been dropped.
pub(crate) type Dropped = oneshot::Receiver<Infallible>;

impl Board {
    /// A board with nothing on it; `instance` is one that no other process has.
    pub(crate) fn new(instance: String, has_own_clock: bool) -> Self {
        let (history, events, viewers) = (History::new(), VecDeque::new(), Vec::new());
        let inner = Mutex::new(Inner { last: 0, history, events, viewers });
        Self { instance, has_own_clock, inner }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with it")
    }

    /// Keeps samples, each with what has happened in its time, and sends them to all who watch. Of more
    /// events of a sample than [`EVENTS_AT_ONCE`] the rest is left out.
    pub(crate) fn add(&self, seen: &[(Sample, Vec<Event>)]) {
        let mut inner = self.inner();
        let mut messages = String::new();
        for (sample, events) in seen {
            for event in events.iter().take(EVENTS_AT_ONCE) {
                let text = event_text(event, sample.t);
                inner.last += 1;
                let id = inner.last;
                messages += &self.message(id, "event", &text);
                if inner.events.len() == EVENTS {
                    inner.events.pop_front();
                }
                inner.events.push_back((id, text));
            }
            inner.last += 1;
            let id = inner.last;
            inner.history.push(id, sample);
            // Nobody watches most of the time.
            if !inner.viewers.is_empty()
                && let Some(text) = inner.history.newest()
            {
                messages += &self.message(id, "sample", &text);
            }
        }
        if !messages.is_empty() && !inner.viewers.is_empty() {
            inner.send(&messages.into());
        }
    }

    /// Tells all who watch that there is nothing new: a page takes a long silence for a break.
    pub(crate) fn tell_still_here(&self) {
        self.inner().send(&Bytes::from_static(b"event: idle\ndata: {}\n\n"));
    }

    /// All that is kept, as a JSON object; the page goes on from it by its `last`.
    pub(crate) fn history(&self) -> String {
        let inner = self.inner();
        let events: Vec<&str> = inner.events.iter().map(|(_, text)| text.as_str()).collect();
        let last = json!(format!("{}-{}", self.instance, inner.last));
        let (members, events) = (inner.history.members(), events.join(","));
        let clock = if self.has_own_clock { "run" } else { "day" };
        format!("{{\"last\":{last},\"clock\":\"{clock}\",{members},\"events\":[{events}]}}")
    }

    /// Lets one more page watch. `since` is the number of the last message it had, if it was here
    /// before; what it has missed since comes first. `None` when enough pages watch.
    pub(crate) fn watch(&self, since: Option<&str>) -> Option<(Stream, Dropped)> {
        let mut inner = self.inner();
        inner.viewers.retain(|viewer| !viewer.queue.is_closed());
        if inner.viewers.len() >= VIEWERS {
            return None;
        }
        let missed = since.and_then(|since| self.missed(&inner, since));
        let is_resumed = missed.is_some();
        let hello = json!({ "instance": self.instance, "resumed": is_resumed });
        let mut first = self.message(inner.last, "hello", &hello.to_string());
        first.extend(missed);
        let (sender, queue) = mpsc::channel(QUEUE);
        let (lives, dropped) = oneshot::channel();
        // It is empty, so there is room.
        let _ = sender.try_send(first.into());
        inner.viewers.push(Viewer { queue: sender, _lives: lives });
        Some((Stream { board: queue, weave: None }, dropped))
    }

    /// What was sent after the message `since`; `None` if that is not known any more, or was of
    /// another process.
    fn missed(&self, inner: &Inner, since: &str) -> Option<String> {
        let (instance, id) = since.rsplit_once('-')?;
        let id: u64 = id.parse().ok()?;
        let is_known = instance == self.instance && id <= inner.last;
        // With the row before the first that is kept, nothing is missing.
        let kept_from = inner.history.first_id()?;
        if !is_known || id.saturating_add(1) < kept_from {
            return None;
        }
        let events = inner.events.iter().filter(|(event, _)| *event > id);
        let events = events.map(|(event, text)| (*event, "event", text.clone()));
        let rows = inner.history.after(id).map(|(row, text)| (row, "sample", text));
        let mut all: Vec<_> = events.chain(rows).collect();
        all.sort_by_key(|(id, ..)| *id);
        Some(all.into_iter().map(|(id, kind, text)| self.message(id, kind, &text)).collect())
    }

    /// A message as server-sent events have it. `data` is JSON and so has no line break.
    fn message(&self, id: u64, kind: &str, data: &str) -> String {
        format!("id: {}-{id}\nevent: {kind}\ndata: {data}\n\n", self.instance)
    }

    /// Pages that watch.
    #[cfg(test)]
    pub(crate) fn viewers(&self) -> usize {
        self.inner().viewers.len()
    }
}

impl Inner {
    /// Sends to all who watch; those whose queue is full, or who are gone, are dropped.
    fn send(&mut self, message: &Bytes) {
        self.viewers.retain(|viewer| match viewer.queue.try_send(message.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(_)) => {
                tracing::debug!("a page takes nothing any more and is dropped");
                false
            }
        });
    }
}

fn event_text(event: &Event, t: f64) -> String {
    let text: String = event.text.chars().take(MAX_TEXT).collect();
    json!({
        "t": (t * 1e3).round() / 1e3,
        "name": event.name,
        "level": event.level.name(),
        "path": event.path.as_deref(),
        "text": text,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::Rates;
    use crate::rates::tests::path;
    use crate::source::{EventLevel, Look};

    fn event(text: &str) -> Event {
        let (name, level) = ("path_down", EventLevel::Error);
        Event { name, level, path: Some("wifi".into()), text: text.to_owned() }
    }

    fn sample(t: f64) -> Sample {
        Rates::default().sample(&Look { paths: vec![path("wifi", 1, 0)], ..Look::default() }, t)
    }

    /// What has been sent to a page by now: (number, kind) of each message.
    fn sent(stream: &mut Stream) -> Vec<(u64, String)> {
        let mut text = String::new();
        while let Ok(bytes) = stream.board.try_recv() {
            text += std::str::from_utf8(&bytes).unwrap();
        }
        let messages = text.split_terminator("\n\n").map(|message| {
            let lines: Vec<&str> = message.split('\n').collect();
            assert_eq!(lines.len(), 3, "{message}");
            let id = lines[0].strip_prefix("id: one-").unwrap().parse().unwrap();
            let data = lines[2].strip_prefix("data: ").unwrap();
            serde_json::from_str::<serde_json::Value>(data).unwrap();
            (id, lines[1].strip_prefix("event: ").unwrap().to_owned())
        });
        messages.collect()
    }

    fn kinds(sent: &[(u64, String)]) -> Vec<&str> {
        sent.iter().map(|(_, kind)| kind.as_str()).collect()
    }

    #[test]
    fn a_page_that_was_away_gets_what_it_missed_once_and_in_order() {
        let board = Board::new("one".to_owned(), false);
        let (mut stream, _lives) = board.watch(None).unwrap();
        board.add(&[(sample(0.5), vec![])]);
        let before = sent(&mut stream);
        assert_eq!(kinds(&before), ["hello", "sample"]);
        let last = before.last().unwrap().0;
        drop(stream);
        board.add(&[(sample(1.0), vec![event("it broke")])]);
        board.add(&[(sample(1.5), vec![])]);
        let (mut stream, _lives) = board.watch(Some(&format!("one-{last}"))).unwrap();
        board.add(&[(sample(2.0), vec![])]);
        let after = sent(&mut stream);
        assert_eq!(kinds(&after), ["hello", "event", "sample", "sample", "sample"]);
        let ids: Vec<u64> = after[1..].iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, (last + 1..=last + 4).collect::<Vec<_>>());
        assert_eq!(board.viewers(), 1);
        // Whoever has all of it gets nothing twice.
        let (mut again, _lives) = board.watch(Some(&format!("one-{}", last + 4))).unwrap();
        assert_eq!(kinds(&sent(&mut again)), ["hello"]);
    }

    #[test]
    fn what_is_not_known_any_more_is_not_made_up() {
        let board = Board::new("one".to_owned(), false);
        for row in 0..crate::history::ROWS + 100 {
            board.add(&[(sample(row as f64), vec![])]);
        }
        let future = format!("one-{}", u64::MAX);
        for since in ["two-1305", "one-5", &future, "one-", "", "-", "one-x"] {
            let (mut stream, _lives) = board.watch(Some(since)).unwrap();
            assert_eq!(kinds(&sent(&mut stream)), ["hello"], "{since}");
        }
        let (mut stream, _lives) = board.watch(Some("one-1298")).unwrap();
        assert_eq!(kinds(&sent(&mut stream)), ["hello", "sample", "sample"]);
    }

    #[test]
    fn eight_pages_may_watch_and_the_place_of_one_that_left_is_free_at_once() {
        let board = Board::new("one".to_owned(), false);
        let mut watching: Vec<_> = (0..VIEWERS).map(|_| board.watch(None).unwrap()).collect();
        assert!(board.watch(None).is_none());
        drop(watching.pop());
        watching.push(board.watch(None).unwrap());
        assert!(board.watch(None).is_none());
    }

    #[test]
    fn a_page_that_takes_nothing_is_dropped_and_the_others_go_on() {
        let board = Board::new("one".to_owned(), false);
        let (_stuck, mut dropped) = board.watch(None).unwrap();
        let (mut alive, mut lives) = board.watch(None).unwrap();
        let mut got = 0;
        for row in 0..200 {
            board.add(&[(sample(f64::from(row)), vec![])]);
            got += sent(&mut alive).len();
        }
        assert_eq!((board.viewers(), got), (1, 201));
        assert_eq!(dropped.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(lives.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn events_are_bounded_in_number_and_length_and_the_history_has_them() {
        let board = Board::new("one".to_owned(), false);
        let long = "é".repeat(5000);
        for row in 0..EVENTS + 50 {
            board.add(&[(sample(row as f64), vec![event(&long)])]);
        }
        let history: serde_json::Value = serde_json::from_str(&board.history()).unwrap();
        let events = history["events"].as_array().unwrap();
        assert_eq!(events.len(), EVENTS);
        assert_eq!(events[0]["text"].as_str().unwrap().chars().count(), MAX_TEXT);
        assert_eq!((&events[0]["t"], &events[0]["path"]), (&json!(50.0), &json!("wifi")));
        assert_eq!(history["last"], format!("one-{}", 2 * (EVENTS + 50)));
        assert_eq!(history["paths"][0]["name"], "wifi");
    }
}
