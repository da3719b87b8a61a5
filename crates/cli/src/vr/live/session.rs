//! One player of `vr serve`, from its greeting to its end.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use weftline::Control;
use weftline_core::{ByteCount, Instant};
use weftline_video::live::wire::{Message, Tile};
use weftline_video::live::{
    Content, Counters, MAX_OPEN_GOPS, Outgoing, PlannedGop, Reported, Server, ServerSettings,
    TileOrder, Traffic,
};

use super::admission::Ticket;
use super::link::{Link, Received, Sender};
use super::origin::{Follower, News, Origin, Place};
use super::{Clock, path_event, ticks};

/// How long a player may take to greet, and to go once everything was sent and shown.
const GREETING: Duration = Duration::from_secs(10);
/// How long a player may say nothing beside the time of two GoPs. It reports ten times a second, and gives
/// a server up by the same rule (`vr play --grace`).
const SILENCE: Duration = Duration::from_secs(10);
/// How long a tile may take to be read: less than a player waits for it, so that it is told.
const READING: Duration = Duration::from_secs(5);
/// How long all of a player's connections may be closed. A player that is there opens another one every
/// 200 ms; one that was killed has its system close them all.
const GONE: Duration = Duration::from_secs(3);
/// Messages besides tiles that may wait for a player: one tells of each GoP, and it plays no more than
/// so many at once.
const MAX_NOTICES: usize = MAX_OPEN_GOPS as usize;
/// The code with which a player that has gone is told so, should it come back.
const LOST: u64 = 16;

/// What is served, and how.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) origin: Origin,
    pub(super) content: Arc<Content>,
    pub(super) settings: ServerSettings,
}

/// What was done for a player.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) gops: u32,
    /// Tiles that were given to the connection.
    pub(super) sent: u64,
    /// Tiles whose time was over before they could be.
    pub(super) expired: u64,
    /// Bytes of the tiles given to the connection.
    pub(super) bytes: u64,
    /// What the player has reported of them.
    pub(super) reported: Reported,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, expired, bytes, reported, .. } = *self;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        write!(
            f,
            "it reported {} tiles of {:.2} MB (sound counts as one of its GoP), {} of them in time, of {sent} of {:.2} MB sent; \
             {expired} were too late to be",
            reported.tiles,
            megabytes(reported.bytes.as_u64()),
            reported.in_time,
            megabytes(bytes)
        )
    }
}

/// Serves one player until it has everything.
///
/// # Errors
/// Why it ended before, in one line.
pub(super) async fn serve(
    served: Arc<Served>,
    link: Link,
    who: &str,
    ticket: Ticket,
    stop: impl Future<Output = ()>,
) -> Result<Tally, String> {
    let server = Server::new(Arc::clone(&served.content), served.settings.clone());
    let (queue, head) = (VecDeque::new(), Head::Empty);
    let control = link.control.clone();
    let clock = Clock::start();
    let tally = Tally::default();
    let (heard, dark) = (clock.now(), None);
    let taken = (0, heard);
    let follower = match &served.origin {
        Origin::Package(_) => None,
        Origin::Live(feed) => Some(feed.follow()),
    };
    let session = Session {
        served,
        server,
        queue,
        head,
        control,
        clock,
        who,
        ticket,
        tally,
        heard,
        dark,
        taken,
    };
    session.run(link, follower, stop).await
}

struct Session<'a> {
    served: Arc<Served>,
    server: Server,
    queue: VecDeque<Outgoing>,
    /// The first of the queue, as a message.
    head: Head,
    control: Option<Control>,
    clock: Clock,
    who: &'a str,
    ticket: Ticket,
    tally: Tally,
    /// When the player last said something.
    heard: Instant,
    /// Since when it has had no connection.
    dark: Option<Instant>,
    /// What its connection had taken when that last grew, and when that was.
    taken: (u64, Instant),
}

/// A file that is read. A player waits for one at a time: each that is asked for beside others takes a thread of the
/// pool, whose heap keeps the most that it once held.
type Reading = JoinHandle<io::Result<Option<Bytes>>>;

/// The first of what waits to be sent, as it is sent.
#[derive(Debug)]
enum Head {
    /// It is no message yet.
    Empty,
    /// It is read, since then.
    Reading(Reading, Instant),
    Ready(Bytes),
}

/// How a session goes on.
enum Next {
    On,
    /// It cannot, and why.
    Over(String),
    /// The player is not there to be told why.
    Gone(String),
}

impl Session<'_> {
    async fn run(
        mut self,
        link: Link,
        mut follower: Option<Follower>,
        stop: impl Future<Output = ()>,
    ) -> Result<Tally, String> {
        let Link { mut sender, mut receiver, control } = link;
        let mut events = control.as_ref().map(Control::events);
        let mut ticks = ticks();
        let mut stop = std::pin::pin!(stop);
        let (mut closed, mut shut, mut ending) = (false, false, None);
        // When it is given up: nobody may keep it open by doing nothing.
        let mut limit = Some(self.clock.now() + GREETING);
        let result = loop {
            self.drain(&sender);
            if self.server.is_done() && self.queue.is_empty() && !shut {
                sender.shutdown().await;
                shut = true;
                limit = Some(self.clock.now() + self.server.most_behind() + GREETING);
            }
            if shut && (closed || ending.is_some()) {
                break ending.unwrap_or(Ok(()));
            }
            let next = tokio::select! {
                sent = push(&mut sender, &self.queue, &mut self.head, &self.served.origin,
                            self.clock), if !self.queue.is_empty() => self.sent(sent),
                received = receiver.recv(), if !closed => match received {
                    Ok(Some(Received::Message(message))) => self.received(&message, &mut limit),
                    Ok(Some(Received::CalledBack(_))) => Next::On,
                    // It has had everything, and need not say good-bye.
                    Ok(None) | Err(_) if self.is_shown() => { closed = true; Next::On }
                    Ok(None) => Next::Over("it left before the end".to_owned()),
                    Err(error) => Next::Over(error.to_string()),
                },
                () = self.clock.until(self.server.poll_timeout()) => self.timeout(&sender),
                news = news(&mut follower) => self.news(news, &sender),
                _ = ticks.tick() => { self.read_counters(&sender); self.look_after(&sender) }
                event = path_event(&mut events) => {
                    tracing::info!("{}: {event}", self.who);
                    Next::On
                }
                () = self.clock.until(limit), if shut => { closed = true; Next::On }
                () = self.clock.until(limit), if !shut => {
                    Next::Over("it neither goes on nor leaves".to_owned())
                }
                () = self.ticket.put_out() => Next::Over(
                    "its place is for a player of another address, as its own has the most".to_owned(),
                ),
                () = &mut stop, if ending.is_none() => {
                    self.server.refuse("the server is stopping");
                    self.give_up(&sender);
                    ending = Some(Err("the server is stopping".to_owned()));
                    limit = Some(self.clock.now() + GREETING);
                    Next::On
                }
            };
            match next {
                Next::On => {}
                Next::Over(error) => {
                    // The player is told, if it can be.
                    self.server.refuse(&error);
                    self.give_up(&sender);
                    break Err(error);
                }
                Next::Gone(error) => {
                    self.queue.clear();
                    if let Some(control) = &control {
                        // Nothing of it is kept for a return.
                        control.abort(LOST, &error);
                    }
                    return Err(self.told(error));
                }
            }
        };
        if result.is_err() {
            let words = self.last_words(&mut sender);
            // A peer that does not take them does not get them.
            let _ = tokio::time::timeout(Duration::from_secs(1), words).await;
        }
        drop((sender, receiver));
        if let Some(control) = &control {
            // The last acknowledgement, or the reason of the end, is on its way.
            let _ = tokio::time::timeout(Duration::from_secs(1), control.closed()).await;
        }
        self.tally.reported = self.server.reported();
        result.map(|()| self.tally).map_err(|error| self.told(error))
    }

    /// Why it ended, and what the player had until then.
    fn told(&mut self, error: String) -> String {
        self.tally.reported = self.server.reported();
        if self.tally.sent == 0 { error } else { format!("{error}; {}", self.tally) }
    }

    /// Whether the last GoP's time is over at the player.
    fn is_shown(&self) -> bool {
        self.server.shown_by().is_some_and(|at| at <= self.clock.now())
    }

    /// Gives up a player that is known to have gone: its place is for others.
    fn look_after(&mut self, sender: &Sender) -> Next {
        let now = self.clock.now();
        let taken = self.control.as_ref().map_or(sender.written(), |control| {
            let paths = control.stats().session.paths;
            paths.values().fold(0, |sum: u64, path| sum.saturating_add(path.delivered))
        });
        // It cannot take what there is not, or what is still read.
        if taken > self.taken.0 || !matches!(self.head, Head::Ready(_)) {
            self.taken = (taken.max(self.taken.0), now);
        }
        let patience = SILENCE + self.served.content.gop_duration() * 2;
        // A package's player has a limit of its own until its stream begins; of a live source nobody
        // knows when that is, and players report from the manifest on.
        let is_live = self.served.content.gops().is_none();
        let reports = self.server.has_begun() || (is_live && self.server.has_player());
        if reports && !self.is_shown() && now.since(self.heard) > patience {
            return Next::Gone(format!("nothing came from it for {patience:?}"));
        }
        if let Head::Reading(_, since) = self.head
            && now.since(since) > READING
        {
            return Next::Over(format!("what is to be sent cannot be read within {READING:?}"));
        }
        // What it reports it may say without reading, and all that is sent to it would be kept.
        if now.since(self.taken.1) > patience {
            return Next::Gone(format!("it has taken nothing of what is sent for {patience:?}"));
        }
        let notices = self.queue.iter().filter(|one| matches!(one, Outgoing::Message(_))).count();
        if notices > MAX_NOTICES {
            return Next::Gone(format!("{notices} messages wait for it: it takes too little"));
        }
        let has_path = self.control.as_ref().is_none_or(|control| {
            control.stats().session.paths.values().any(|path| path.subflow.is_some())
        });
        if has_path {
            self.dark = None;
            return Next::On;
        }
        match *self.dark.get_or_insert(now) {
            since if now.since(since) < GONE => Next::On,
            _ => {
                Next::Gone(format!("all its connections were closed {GONE:?} ago, and it has gone"))
            }
        }
    }

    /// Queues what the state machine wants sent, without what is too late, and tells what it did.
    fn drain(&mut self, sender: &Sender) {
        while let Some(put_off) = self.server.poll_put_off() {
            self.queue.iter_mut().for_each(|outgoing| put_off.apply(outgoing));
            sender.put_off(put_off.after.since(self.clock.now()), put_off.by);
        }
        while let Some(outgoing) = self.server.poll_transmit() {
            self.queue.push_back(outgoing);
        }
        while let Some(planned) = self.server.poll_event() {
            self.tally.gops += 1;
            if let Some(first) = self.server.begins_with().filter(|_| self.tally.gops == 1) {
                tracing::info!("{}: begins with GoP {first} of the source", self.who);
            }
            tell(self.who, &planned);
        }
        // One that is read stays until it is: else a disk that hangs would take a thread for each.
        let begun = sender.has_begun() || matches!(self.head, Head::Reading(..));
        let late = drop_late(&mut self.queue, begun, self.clock.now());
        self.tally.expired += late.tiles;
        if late.is_first {
            self.head = Head::Empty;
        }
    }

    fn pop(&mut self) {
        self.queue.pop_front();
        self.head = Head::Empty;
    }

    /// Drops all that has not begun to be sent.
    fn give_up(&mut self, sender: &Sender) {
        let begun = usize::from(sender.has_begun());
        self.queue.truncate(begun);
        if begun == 0 {
            self.head = Head::Empty;
        }
        while let Some(outgoing) = self.server.poll_transmit() {
            self.queue.push_back(outgoing);
        }
    }

    fn sent(&mut self, sent: io::Result<bool>) -> Next {
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => return Next::Over(error.to_string()),
        };
        if let Some(Outgoing::Tile(order)) = self.queue.front() {
            self.tally.sent += u64::from(sent);
            self.tally.expired += u64::from(!sent);
            self.tally.bytes += if sent { order.bytes.as_u64() } else { 0 };
        }
        self.pop();
        Next::On
    }

    fn received(&mut self, message: &[u8], limit: &mut Option<Instant>) -> Next {
        let now = self.clock.now();
        self.heard = now;
        // With the first report the stream begins; after that a plan has its time.
        let plans =
            !self.server.has_begun() || self.server.poll_timeout().is_some_and(|at| at <= now);
        let handled = match plans {
            true => aside(|| self.server.handle_message(message, now)),
            false => self.server.handle_message(message, now),
        };
        match handled {
            Ok(()) => {
                if self.server.has_player()
                    && let Err(error) = self.ticket.sit()
                {
                    return Next::Over(error);
                }
                // From its first report on, the stream's own length is the limit.
                // What comes of a live source, and when, nobody knows.
                let gops = self.served.content.gops();
                let length = gops.map(|gops| self.served.content.gop_duration() * gops);
                if self.server.has_begun() && self.tally.gops == 0 {
                    let most = self.server.most_behind() + GREETING;
                    *limit = length.map(|length| now + length + most);
                } else if length.is_none() && self.server.has_player() {
                    *limit = None;
                }
                Next::On
            }
            Err(error) => Next::Over(error.to_string()),
        }
    }

    /// Takes what is new of a live source.
    fn news(&mut self, news: Result<News, String>, sender: &Sender) -> Next {
        let News { gops, end } = match news {
            Ok(news) => news,
            Err(error) => return Next::Over(error),
        };
        self.read_counters(sender);
        let now = self.clock.now();
        for sent in gops {
            if let Err(error) = aside(|| self.server.handle_gop(Arc::clone(&sent.gop), now)) {
                return Next::Over(error.to_string());
            }
        }
        match end {
            Some(_) if self.server.begins_with().is_none() => {
                Next::Over("the source has ended before the stream began".to_owned())
            }
            Some(gops) => {
                self.server.handle_end(gops);
                Next::On
            }
            None => Next::On,
        }
    }

    fn timeout(&mut self, sender: &Sender) -> Next {
        self.read_counters(sender);
        let now = self.clock.now();
        match aside(|| self.server.handle_timeout(now)) {
            Ok(()) => Next::On,
            Err(error) => Next::Over(error.to_string()),
        }
    }

    /// Gives the state machine what the connection has carried so far.
    fn read_counters(&mut self, sender: &Sender) {
        let now = self.clock.now();
        let queued: ByteCount = self.queue.iter().map(Outgoing::bytes).sum();
        let waiting = queued + ByteCount::new(sender.unsent());
        if let Some(control) = &self.control {
            self.server.handle_stats(&control.stats().session, waiting, now);
        } else {
            let (bytes, ago) = (ByteCount::new(sender.written()), sender.written_ago());
            let at = Instant::ZERO + now.since(Instant::ZERO).saturating_sub(ago);
            let traffic = Traffic { counters: Counters::Taken { bytes, at }, waiting };
            self.server.handle_traffic(traffic, now);
        }
    }

    /// Sends what is still queued: a refusal.
    async fn last_words(&mut self, sender: &mut Sender) {
        while !self.queue.is_empty() {
            let origin = &self.served.origin;
            let sent = push(sender, &self.queue, &mut self.head, origin, self.clock).await;
            if sent.is_err() {
                return;
            }
            self.pop();
        }
        sender.shutdown().await;
        if let Some(control) = &self.control {
            // Until the peer has them; it ends the connection then.
            let _ = control.closed().await;
        }
    }
}

/// What was dropped of a queue.
#[derive(Debug, PartialEq, Eq)]
struct Late {
    tiles: u64,
    /// Whether the first was among them.
    is_first: bool,
}

/// Drops the tiles whose time is over, wherever they are; not the first, if it has `begun` to be sent.
fn drop_late(queue: &mut VecDeque<Outgoing>, begun: bool, now: Instant) -> Late {
    let is_late = |one: &Outgoing| matches!(one, Outgoing::Tile(order) if order.deadline <= now);
    let is_first = !begun && queue.front().is_some_and(is_late);
    let (before, mut place) = (queue.len(), 0);
    queue.retain(|one| {
        place += 1;
        (begun && place == 1) || !is_late(one)
    });
    Late { tiles: (before - queue.len()) as u64, is_first }
}

/// What is new of a live source; never, of a package. Cancel safe.
async fn news(follower: &mut Option<Follower>) -> Result<News, String> {
    match follower {
        Some(follower) => follower.next().await,
        None => std::future::pending().await,
    }
}

/// Sends the first of the queue, made a message on first use; `false` if its time was over. Cancel safe: a read
/// that is under way goes on, and is taken up again.
async fn push(
    sender: &mut Sender,
    queue: &VecDeque<Outgoing>,
    head: &mut Head,
    origin: &Origin,
    clock: Clock,
) -> io::Result<bool> {
    let Some(first) = queue.front() else { return Ok(false) };
    let message = loop {
        match (&mut *head, first) {
            (Head::Ready(message), _) => break message.clone(),
            (Head::Reading(reading, _), _) => {
                let read = reading.await.map_err(io::Error::other).flatten();
                *head = read?.map_or(Head::Empty, Head::Ready);
                if matches!(head, Head::Empty) {
                    return Ok(false);
                }
            }
            (Head::Empty, Outgoing::Message(bytes)) => *head = Head::Ready(bytes.clone().into()),
            (Head::Empty, Outgoing::Tile(order)) => match load(origin, *order)? {
                Some(reading) => *head = Head::Reading(reading, clock.now()),
                None => return Ok(false),
            },
        }
    };
    match first {
        Outgoing::Message(_) => sender.send(&message, None, 0).await,
        Outgoing::Tile(order) => {
            let left = order.deadline.since(clock.now());
            sender.send(&message, Some(left), order.id.tag()).await
        }
    }
}

/// Begins to read a tile, or a GoP's sound; `None` if a live source has it no more, which may turn out later.
fn load(origin: &Origin, order: TileOrder) -> io::Result<Option<Reading>> {
    let is_live = matches!(origin, Origin::Live(_));
    let is_gone = move |error: &io::Error| is_live && error.kind() == io::ErrorKind::NotFound;
    let Place { init, segment, digests } = match origin.place(&order) {
        Err(error) if is_gone(&error) => return Ok(None),
        place => place?,
    };
    let init = order.with_init.then_some(init);
    let load = move || {
        let init = match init {
            Some(path) => match read(&path)? {
                // It would be taken for one that the player has.
                init if init.is_empty() => {
                    let changed = "is empty: the package was changed; package it anew";
                    return Err(io::Error::other(format!("{} {changed}", path.display())));
                }
                init => init,
            },
            None => Vec::new(),
        };
        let bytes = read(&segment)?;
        if bytes.len() as u64 != order.bytes.as_u64() {
            return Err(io::Error::other(format!(
                "{} has {} bytes where {} were packaged: the package was changed while it is \
                 served",
                segment.display(),
                bytes.len(),
                order.bytes.as_u64()
            )));
        }
        let tile = Tile { id: order.id, init: &init, segment: &bytes, digests };
        Ok(Message::Tile(tile).to_bytes().into())
    };
    Ok(Some(tokio::task::spawn_blocking(move || match load() {
        Err(error) if is_gone(&error) => Ok(None),
        loaded => loaded.map(Some),
    })))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
    };
    std::fs::read(path).map_err(named)
}

/// Logs what is sent of a GoP.
fn tell(who: &str, planned: &PlannedGop) {
    let PlannedGop { gop, sent, dropped, bytes, expected, least, .. } = *planned;
    if dropped > 0 && expected < least {
        tracing::warn!(
            "{who}: GoP {gop}: {expected} are expected in its time, less than the {least} of the \
             lowest rungs; {sent} tiles of {bytes} are sent, {dropped} dropped"
        );
    } else {
        tracing::debug!(
            "{who}: GoP {gop}: {sent} tiles of {bytes} are sent, {dropped} dropped, {expected} \
             expected"
        );
    }
}

/// Plans, which takes milliseconds: other tasks that were woken on this worker run elsewhere
/// meanwhile. That takes one thread more, so it is for nothing else.
fn aside<T>(plan: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(plan),
        _ => plan(),
    }
}

#[cfg(test)]
mod tests {
    use weftline_video::live::wire::TileId;

    use super::*;

    #[test]
    fn tiles_that_are_late_are_dropped_wherever_they_wait_but_not_the_one_that_is_being_sent() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let tile = |ms| {
            Outgoing::Tile(TileOrder {
                id: TileId { gop: 0, tile: 0, qp: 30 },
                packaged: 0,
                bytes: ByteCount::new(1000),
                with_init: false,
                deadline: at(ms),
            })
        };
        let queue = || VecDeque::from([tile(5), Outgoing::Message(vec![1]), tile(5), tile(9)]);
        let mut all = queue();
        assert_eq!(drop_late(&mut all, false, at(4)), Late { tiles: 0, is_first: false });
        assert_eq!(drop_late(&mut all, false, at(5)), Late { tiles: 2, is_first: true });
        assert!(matches!(&all.make_contiguous(), [Outgoing::Message(_), Outgoing::Tile(_)]));
        let mut all = queue();
        assert_eq!(drop_late(&mut all, true, at(20)), Late { tiles: 2, is_first: false });
        assert!(matches!(&all.make_contiguous(), [Outgoing::Tile(_), Outgoing::Message(_)]));
    }
}
