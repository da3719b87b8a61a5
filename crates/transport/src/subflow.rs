//! A subflow in use: one task reads its socket into the session, one writes what the session
//! wants sent.
//!
//! Sending is pulled. The writer asks the kernel whether data could leave soon, and only then asks
//! the session what to send: a range is bound to a path as late as possible. Acknowledgements and
//! other control records do not wait for that.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use weftline_core::{Instant, PathId, SubflowId};

use crate::channel::Parts;
use crate::cipher::{self, Cipher};
use crate::clock;
use crate::congestion::{self, CongestionInUse};
use crate::coop::CoopBudget;
use crate::coupling;
use crate::error::Error;
use crate::events::PathEventKind;
use crate::gather::{self, Gather};
use crate::handshake::Awaited;
use crate::shared::{Shared, path_event};
use crate::socket::{LowWater, TcpInfo, is_writable};
use crate::stats::COUNTERS;
use crate::tls;

/// Room made for a read of a socket: a page at first, and up to what one path of 2 Gb/s delivers in
/// a millisecond when reads fill it.
const READ_LEAST: usize = gather::LITTLE;
const READ_MOST: usize = 256 << 10;
/// A buffer that is larger is given back when it is empty and the last read was smaller.
const KEPT: usize = 256;
/// Frames per system call.
const WRITE_SLICES: usize = 64;
/// The kernel is asked about a subflow at most this often.
const INFO_INTERVAL: Duration = Duration::from_millis(1);

/// Why a subflow ended.
#[derive(Debug)]
pub(crate) enum SubflowEnd {
    /// The connection is over and everything has been said.
    Done,
    /// Nothing can leave from its address any more.
    NoLink(IpAddr),
    /// Its client has not answered, and another connection has its place.
    GaveWay,
    /// The connection is over, and the peer did not close in time.
    Overdue,
    /// The peer closed it.
    PeerClosed,
    /// Its path was taken out of use.
    Removed,
    /// Another subflow took its place.
    Replaced,
    /// The socket or TLS failed.
    Socket(io::Error),
    /// The server has not answered the hello, or not let the connection in.
    Unanswered,
}

impl SubflowEnd {
    /// Whether the socket is dead, and what came before that can still be read.
    fn is_reset(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        matches!(self, Self::Socket(error) if matches!(error.kind(), BrokenPipe | ConnectionReset))
    }
}

impl fmt::Display for SubflowEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("the connection is over"),
            Self::NoLink(address) => write!(f, "the interface with {address} is down or gone"),
            Self::GaveWay => f.write_str("its client did not answer, and others wait"),
            Self::Overdue => f.write_str("not closed by the peer in time"),
            Self::PeerClosed => f.write_str("closed by the peer"),
            Self::Removed => f.write_str("its path is no longer in use"),
            Self::Replaced => f.write_str("replaced by a new one"),
            Self::Socket(error) => error.fmt(f),
            Self::Unanswered => f.write_str("the server does not let it in"),
        }
    }
}

/// A subflow's socket, with its TLS state if any.
struct Socket {
    stream: TcpStream,
    cipher: Option<Cipher>,
    peer: SocketAddr,
    /// Tells the path manager of the first write after it has found nothing on its way.
    news: Arc<Notify>,
    is_watched: AtomicBool,
}

impl Socket {
    /// Notes that something was written.
    fn written(&self) {
        if !self.is_watched.load(Ordering::SeqCst) && !self.is_watched.swap(true, Ordering::SeqCst)
        {
            self.news.notify_one();
        }
    }

    /// Lets the kernel forget what it has not sent or got acknowledged when the socket closes: it
    /// goes another way, and here it would only be in the way of a fresh connection.
    fn drop_unsent(&self) {
        // An error means that the socket is gone already.
        let _ = self.stream.set_zero_linger();
    }
}

/// A running subflow, as the path manager sees it.
pub(crate) struct Running {
    /// Its number.
    pub(crate) id: SubflowId,
    /// The socket, which closes when the subflow's own tasks end.
    socket: Weak<Socket>,
    local: SocketAddr,
    peer: SocketAddr,
    stop: Option<oneshot::Sender<SubflowEnd>>,
    ended: Arc<Ended>,
}

/// Whether a subflow is down; whoever keeps its paths is told.
struct Ended {
    is_down: AtomicBool,
    news: Arc<Notify>,
}

/// Says so when the subflow's task ends, whatever the way.
struct Ending(Arc<Ended>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.is_down.store(true, Ordering::SeqCst);
        self.0.news.notify_one();
    }
}

impl Running {
    /// Whether the subflow is down.
    pub(crate) fn is_down(&self) -> bool {
        self.ended.is_down.load(Ordering::SeqCst)
    }

    /// Ends the subflow: another has taken its place.
    pub(crate) fn replace(mut self) {
        self.stop(SubflowEnd::Replaced);
    }

    /// Ends the subflow without waiting for anything that was sent on it.
    pub(crate) fn stop(&mut self, why: SubflowEnd) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(why);
        }
    }

    /// This side's address.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The server's or client's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The kernel's metrics; `None` when the socket is gone.
    pub(crate) fn info(&self) -> Option<TcpInfo> {
        TcpInfo::of(&self.socket.upgrade()?.stream).ok()
    }

    /// Asks for a notification of the next write. Look at the metrics once more after this.
    pub(crate) fn rest(&self) {
        if let Some(socket) = self.socket.upgrade() {
            socket.is_watched.store(false, Ordering::SeqCst);
        }
    }
}

/// Tells of a subflow that comes up, and goes down.
struct Announcer {
    shared: Arc<Shared>,
    id: SubflowId,
    path: PathId,
    name: Arc<str>,
    local: SocketAddr,
    peer: SocketAddr,
    congestion: CongestionInUse,
    told: Mutex<Told>,
}

/// What has been told of a subflow.
enum Told {
    Nothing,
    Up,
    /// It is gone: nothing more is told.
    All,
}

impl Announcer {
    /// The reader, which tells this, may be about to when the subflow ends.
    fn up(&self) {
        let mut told = self.told.lock().expect("nobody panics with it");
        if !matches!(*told, Told::Nothing) {
            return;
        }
        *told = Told::Up;
        COUNTERS.subflow_up();
        congestion::say_once(&self.congestion);
        let (subflow, local, peer) = (self.id.0, self.local, self.peer);
        self.tell(PathEventKind::Up { subflow, local, peer });
    }

    /// One that has not been up is nobody's business.
    fn down(&self, reason: &SubflowEnd) {
        let mut told = self.told.lock().expect("nobody panics with it");
        if matches!(std::mem::replace(&mut *told, Told::All), Told::Up) {
            COUNTERS.subflow_down();
            self.tell(PathEventKind::Down { subflow: self.id.0, reason: reason.to_string() });
        }
    }

    fn tell(&self, kind: PathEventKind) {
        self.shared.publish(path_event(clock::now(), self.path, &self.name, kind));
    }
}

/// Brings a subflow into the connection and runs it until it ends, once the server has said what is
/// `awaited`, if anything; `None` when the connection is over. The subflow goes on when the [`Running`] is dropped.
pub(crate) fn start(
    shared: &Arc<Shared>,
    id: SubflowId,
    path: PathId,
    name: &Arc<str>,
    parts: Parts,
    awaited: Option<Awaited>,
) -> Option<Running> {
    let local = parts.stream.local_addr().unwrap_or(parts.peer);
    let peer = parts.peer;
    let cipher = parts.tls.map(Cipher::new);
    let attached = shared.attach(id, path, name, peer, parts.congestion.clone())?;
    coupling::couple(&parts.stream, shared.number);
    let (news, is_watched) = (shared.path_news(), AtomicBool::new(true));
    let ended = Arc::new(Ended { is_down: AtomicBool::new(false), news: Arc::clone(&news) });
    let socket = Arc::new(Socket { stream: parts.stream, cipher, peer, news, is_watched });
    let (shared, name, told) = (Arc::clone(shared), Arc::clone(name), Mutex::new(Told::Nothing));
    let congestion = parts.congestion;
    let announcer = Arc::new(Announcer { shared, id, path, name, local, peer, congestion, told });
    if awaited.is_none() {
        announcer.up();
    }
    let (stop, stopped) = oneshot::channel();
    let (ending, weak) = (Ending(Arc::clone(&ended)), Arc::downgrade(&socket));
    let source = Source {
        announcer: Arc::clone(&announcer),
        wake: Arc::clone(&attached.wake),
        socket: Arc::clone(&socket),
        encrypted: BytesMut::new(),
        coop: CoopBudget::default(),
        gather: Gather::default(),
        room: READ_LEAST,
        last: 0,
        closed: false,
    };
    let reading = read(source, parts.input, awaited);
    let shared = Arc::clone(&announcer.shared);
    let writing = write(shared, id, attached.wake, Arc::clone(&socket), parts.first);
    // Begun here: what runs them would else keep the room that each of them takes before it begins.
    let both = [AbortOnDrop(tokio::spawn(reading)), AbortOnDrop(tokio::spawn(writing))];
    tokio::spawn(async move {
        let run = run(&announcer.shared, socket, both, stopped);
        let reason = tokio::select! {
            reason = run => reason,
            () = attached.leave.notified() => SubflowEnd::Removed,
        };
        announcer.shared.detach(id, matches!(reason, SubflowEnd::Done));
        announcer.down(&reason);
        drop(ending);
    });
    Some(Running { id, socket: weak, local, peer, stop: Some(stop), ended })
}

/// Runs the subflow's two tasks until one of them ends it.
async fn run(
    shared: &Arc<Shared>,
    closing: Arc<Socket>,
    [mut reader, mut writer]: [AbortOnDrop; 2],
    stopped: oneshot::Receiver<SubflowEnd>,
) -> SubflowEnd {
    let stopped = async {
        // Dropping the sender does not stop the subflow.
        let Ok(why) = stopped.await else { return std::future::pending().await };
        closing.drop_unsent();
        why
    };
    let overdue = async {
        shared.ended().await;
        tokio::time::sleep(shared.close_time()).await;
    };
    let both = async {
        tokio::select! {
            end = &mut reader.0 => match joined(end) {
                Some(failed) => failed,
                None if shared.end().is_none() => SubflowEnd::PeerClosed,
                // The peer has said all, and so may we.
                None => joined((&mut writer.0).await).unwrap_or(SubflowEnd::Done),
            },
            end = &mut writer.0 => match joined(end) {
                Some(failed) => {
                    if failed.is_reset() {
                        // The peer may have said why before.
                        let _ = (&mut reader.0).await;
                    }
                    failed
                }
                // All said: let the peer finish, too.
                None => joined((&mut reader.0).await).unwrap_or(SubflowEnd::Done),
            },
        }
    };
    tokio::select! {
        end = both => end,
        why = stopped => why,
        () = overdue => SubflowEnd::Overdue,
    }
}

/// A task that lives no longer than its owner.
struct AbortOnDrop(tokio::task::JoinHandle<io::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn joined(result: Result<io::Result<()>, tokio::task::JoinError>) -> Option<SubflowEnd> {
    match result {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(SubflowEnd::Socket(error)),
        Err(error) => Some(SubflowEnd::Socket(io::Error::other(error))),
    }
}

/// Feeds the session until the peer closes.
async fn read(mut source: Source, mut input: BytesMut, awaited: Option<Awaited>) -> io::Result<()> {
    if let Some(cipher) = &source.socket.cipher {
        cipher.decrypt(&mut source.encrypted, &mut input)?;
    }
    if let Some(awaited) = awaited {
        read_answer(&mut source, &mut input, awaited).await?;
    }
    loop {
        if !input.is_empty() {
            let (id, peer) = (source.announcer.id, source.socket.peer);
            source.announcer.shared.handle_input(id, &mut input, peer);
            if input.is_empty() && input.capacity() > KEPT && source.last < KEPT {
                input = BytesMut::new();
            }
        }
        if source.closed {
            return Ok(());
        }
        source.more(&mut input).await?;
    }
}

/// Reads until the server has answered the hello, and tells so. What has come after that is left
/// in `input`.
async fn read_answer(
    source: &mut Source,
    input: &mut BytesMut,
    mut awaited: Awaited,
) -> io::Result<()> {
    let peer = source.socket.peer;
    let answer = loop {
        match awaited.take(input) {
            Ok(None) if source.closed => break Err(Error::ClosedInHandshake { peer }),
            Ok(None) => {}
            Ok(Some(answer)) => break Ok(answer),
            Err(error) => break Err(error),
        }
        if let Err(error) = source.more(input).await {
            break Err(tls::handshake_error(peer, &error));
        }
    };
    let answer = answer.and_then(|accepted| {
        if !source.announcer.shared.accepted(accepted.longest_message, accepted.keys.id) {
            return Err(Error::OtherServer { peer });
        }
        source.announcer.up();
        Ok(accepted)
    });
    let is_in = answer.is_ok();
    *input = awaited.tell(answer);
    if is_in { Ok(()) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

/// Where a subflow's reader gets its bytes from.
struct Source {
    announcer: Arc<Announcer>,
    wake: Arc<Notify>,
    socket: Arc<Socket>,
    encrypted: BytesMut,
    coop: CoopBudget,
    gather: Gather,
    /// Made for the next read.
    room: usize,
    /// Bytes of the last read.
    last: usize,
    /// Whether the peer has closed.
    closed: bool,
}

impl Source {
    /// Appends what comes next to `input`, decrypted.
    async fn more(&mut self, input: &mut BytesMut) -> io::Result<()> {
        let socket = &*self.socket;
        let into = if socket.cipher.is_some() { &mut self.encrypted } else { &mut *input };
        // After little, little is expected, so that a large buffer is not made for each acknowledgement.
        let room = if self.last < KEPT { READ_LEAST } else { self.room };
        let read = self.gather.read(&socket.stream, into, room).await?;
        self.last = read;
        self.closed = read == 0;
        if let Some(cipher) = &socket.cipher {
            let received = cipher.decrypt(&mut self.encrypted, input)?;
            if received.answer_due {
                self.wake.notify_one();
            }
            if read == 0 && !received.closed && self.announcer.shared.end().is_some() {
                // Whoever has all says so (`close_notify`). A relay's end is no answer.
                let why = "closed on the way, not by the peer";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
            self.closed |= received.closed;
            if self.encrypted.is_empty() && self.encrypted.capacity() > KEPT && read < KEPT {
                self.encrypted = BytesMut::new();
            }
        }
        if read >= self.room {
            self.grow_room((read * 2).min(READ_MOST));
        }
        if !self.closed {
            self.coop.moved(read).await;
        }
        Ok(())
    }

    /// Reads into up to `room` bytes from now on, if there is memory for them, and for the same
    /// decrypted.
    fn grow_room(&mut self, room: usize) {
        let more = 2 * room.saturating_sub(self.room) as u64;
        if self.announcer.shared.grow_buffers(self.announcer.id, more) {
            self.room = self.room.max(room);
        }
    }
}

/// Sends `first`, and what the session has for this subflow until the connection is over.
async fn write(
    shared: Arc<Shared>,
    id: SubflowId,
    wake: Arc<Notify>,
    socket: Arc<Socket>,
    first: Bytes,
) -> io::Result<()> {
    let mut writer = Writer {
        socket: &socket,
        low_water: LowWater::new(),
        info_at: None,
        unsent: 0,
        frames: Some(first).filter(|first| !first.is_empty()).into_iter().collect(),
        coop: CoopBudget::default(),
    };
    loop {
        let (info, room) = match shared.wants_room(id) {
            true => writer.look(),
            false => (None, None),
        };
        let over = shared.poll_transmit(id, info, room, &mut writer.frames);
        if writer.pending()? {
            writer.flush().await?;
        } else if over {
            return writer.close().await;
        } else if room != Some(0) {
            wake.notified().await;
        } else {
            tokio::select! {
                () = wake.notified() => {}
                ready = socket.stream.writable() => ready?,
            }
        }
    }
}

struct Writer<'a> {
    socket: &'a Socket,
    low_water: LowWater,
    info_at: Option<Instant>,
    /// Bytes in the socket not yet sent, as of `info_at`, plus what was written since.
    unsent: u64,
    frames: VecDeque<Bytes>,
    coop: CoopBudget,
}

impl Writer<'_> {
    /// The kernel's news of the socket, unless they are fresh, and how many bytes of data may be
    /// committed to it now.
    fn look(&mut self) -> (Option<TcpInfo>, Option<u64>) {
        let now = clock::now();
        let mut info = None;
        if self.info_at.is_none_or(|at| now.since(at) >= INFO_INTERVAL) {
            info = TcpInfo::of(&self.socket.stream).ok();
        }
        if let Some(info) = &info {
            self.info_at = Some(now);
            self.unsent = info.unsent_bytes;
            self.low_water.update(&self.socket.stream, info);
        }
        if !is_writable(&self.socket.stream) {
            return (info, Some(0));
        }
        // The kernel says that less than half of the low-water mark is unsent.
        let mark = self.low_water.bytes();
        (info, Some(mark - self.unsent.min(mark / 2)))
    }

    /// Whether there is something to write; encrypts it first.
    fn pending(&mut self) -> io::Result<bool> {
        match &self.socket.cipher {
            None => Ok(!self.frames.is_empty()),
            Some(cipher) => cipher.encrypt(&mut self.frames),
        }
    }

    /// Writes all that is pending.
    async fn flush(&mut self) -> io::Result<()> {
        loop {
            match self.try_write() {
                Ok((written, left)) => {
                    self.unsent += written as u64;
                    self.socket.written();
                    self.coop.moved(written).await;
                    if !left {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.stream.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes as much as the socket takes now: how many bytes, and whether more are left.
    fn try_write(&mut self) -> io::Result<(usize, bool)> {
        let stream = &self.socket.stream;
        let (written, left) = match &self.socket.cipher {
            Some(cipher) => cipher.write_to(stream)?,
            None => {
                let mut slices = [io::IoSlice::new(&[]); WRITE_SLICES];
                let filled = cipher::fill_slices(&self.frames, &mut slices);
                let written = stream.try_write_vectored(&slices[..filled])?;
                cipher::advance(&mut self.frames, written);
                (written, !self.frames.is_empty())
            }
        };
        if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok((written, left)) }
    }

    /// Says that nothing more comes on this subflow.
    async fn close(mut self) -> io::Result<()> {
        if let Some(cipher) = &self.socket.cipher {
            cipher.close();
            self.flush().await?;
        }
        socket2::SockRef::from(&self.socket.stream).shutdown(std::net::Shutdown::Write)
    }
}
