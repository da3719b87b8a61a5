//! A session of the core over several TCP connections: the very state machine and framing of the
//! daemons, on simulated sockets.

mod options;
mod paths;

use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weftline_core::path::{PathId, PathInfo, SubflowId};
use weftline_core::path_manager::{ConnectingId, PathPlan};
use weftline_core::scheduler::{Entry, Penalties, RatioMemory, SchedulerConfig};
use weftline_core::session::{
    DEFAULT_LONGEST_MESSAGE, Event, Incoming, MessageLimits, MessageOptions, Outcome,
    SchedulerFault, SessionStats, WeaveRecord,
};
use weftline_core::{ByteCount, Instant, Session, SessionConfig};

use self::paths::Paths;
use super::byte_queue::ByteQueue;
use super::ends::{CLIENT, SERVER, ZEROS};
use super::live::Live;
use super::options::Options;
use super::oracle::{forecast, may_ask};
use super::{Sink, Source};
use crate::build::Opener;
use crate::calls::Limiters;
use crate::net::Net;
use crate::plan::{FlowPlan, LiveOutcome, Traffic};
use crate::tcp::ReceiveBuffer;

/// How much it writes to a byte stream at once.
const WRITE: usize = 64 << 10;
/// The longest header of a record: what a record that fits a segment leaves of it.
const RECORD_HEADER: u64 = 16;
/// The scheduler of upstream's MPTCP; the others of kernels are v0.95's.
const LINUX: &str = "linux";
/// Bounds of what a daemon's socket holds unsent, in bytes, and that as time at the path's rate. The
/// daemons let a socket hold more where the round trip is longer than 80 ms.
const LOW_WATER: (u64, u64) = (16 << 10, 256 << 10);
const LOW_WATER_TIME: Duration = Duration::from_millis(5);

/// A TCP connection and what travels in it: a subflow, once it has joined.
#[derive(Debug)]
pub(super) struct Subflow {
    pub(super) path: PathId,
    /// Which of the flow's paths that is.
    pub(super) k: usize,
    /// Its number, once it has said hello or join.
    pub(super) id: Option<SubflowId>,
    /// The client's attempt that it is, until it is up.
    pub(super) connecting: Option<ConnectingId>,
    /// Whether the path manager knows that the TCP connection stands.
    pub(super) is_connected: bool,
    /// The endpoints of client and server.
    pub(super) ends: [u32; 2],
    /// What client and server have written.
    pub(super) queues: [ByteQueue; 2],
    /// What has arrived at client and server and is no complete record.
    pub(super) inputs: [BytesMut; 2],
    /// Records of a kernel's client, which are options of its segments.
    pub(super) options: Options,
    /// Whether the sessions of client and server know it.
    pub(super) up: [bool; 2],
    /// Whether the sessions want to be asked for more, whatever room there is.
    pub(super) woken: [bool; 2],
    /// Whether an endpoint may have changed since its session was told of it.
    pub(super) stale: [bool; 2],
    /// Payload bytes that the endpoints had room for then.
    pub(super) room: [u64; 2],
    /// Whether the server's socket has nothing unsent, its window room, and data wait.
    pub(super) starves: bool,
    /// How long that was so.
    pub(super) starved_ns: u64,
    /// Whether the path manager wants to know when the client next writes on it.
    pub(super) rests: bool,
    /// Since when the client's session finds that its data do not arrive.
    pub(super) stalled_since: Option<Instant>,
}

/// A connection over several subflows.
#[derive(Debug)]
pub(super) struct Multi {
    pub(super) sessions: [Session; 2],
    /// All that there have been.
    pub(super) subflows: Vec<Subflow>,
    paths: Paths,
    scheduler: &'static Entry,
    /// The subflows whose windows the server's scheduler wants halved.
    penalties: mpsc::Receiver<SubflowId>,
    /// Whether an oracle decides who may send.
    oracle: bool,
    /// Whether the scheduler decides for each segment, when there is room for it, as a kernel's
    /// does. Those of the daemons keep a little unsent in the socket.
    by_segment: bool,
    /// The receive buffer that a kernel's subflows share.
    buffer: Option<ReceiveBuffer>,
    /// Payload of a full segment.
    pub(super) mss: u64,
    out: VecDeque<Bytes>,
    /// Up to when it is known which subflows starved.
    starved_until_ns: u64,
    /// How a scheduler broke its contract, if one did.
    fault: Option<SchedulerFault>,
    /// The live stream, if it carries one.
    live: Option<Box<Live>>,
    /// Whether the client's program is stopped.
    is_stopped: bool,
    /// When the sessions have something to do.
    due_ns: [Option<u64>; 2],
}

impl Multi {
    pub(super) fn new(
        entry: &'static Entry,
        plan: &FlowPlan,
        ratio: RatioMemory,
        paths: Vec<PathPlan>,
        openers: Vec<Opener>,
        mss: u64,
        receive_buffer: u64,
    ) -> Self {
        let (penalise, penalties) = mpsc::channel();
        let live = match &plan.traffic {
            Traffic::Live(live) => Some(Box::new(Live::new(live))),
            _ => None,
        };
        // A live stream is the daemons', whichever scheduler they have been given.
        let by_segment = live.is_none() && (plan.oracle || entry.is_by_segment());
        let mut config = SessionConfig {
            scheduler: entry,
            scheduler_config: SchedulerConfig {
                penalties: Penalties::to(penalise),
                ratio,
                ..plan.settings.clone()
            },
            ..SessionConfig::default()
        };
        if live.is_some() || matches!(plan.traffic, Traffic::Messages { whole: true, .. }) {
            config.messages = Some(MessageLimits {
                longest_sent: DEFAULT_LONGEST_MESSAGE,
                longest_received: DEFAULT_LONGEST_MESSAGE,
            });
        }
        let buffer = by_segment.then(|| {
            let payload = mss - RECORD_HEADER;
            config.chunk = Some((payload, payload));
            config.max_memory = ReceiveBuffer::most_window(receive_buffer);
            // Messages are not written as the window allows.
            config.first_window = match config.messages {
                Some(_) => config.max_memory,
                // As large as a kernel's buffer is at least here.
                None => ByteCount::kib(256),
            };
            config.driver_sizes_window = true;
            config.stalls_by_timeout = entry.name != LINUX && !plan.oracle;
            ReceiveBuffer::new(receive_buffer, mss)
        });
        let mut sessions = [(); 2].map(|()| Session::new(&config, Instant::ZERO));
        if let Some(buffer) = &buffer {
            sessions[CLIENT].set_receive_limit(buffer.window(), Instant::ZERO);
        }
        Self {
            sessions,
            subflows: Vec::new(),
            paths: Paths::new(paths, openers, !by_segment),
            scheduler: entry,
            penalties,
            oracle: plan.oracle,
            by_segment,
            buffer,
            mss,
            out: VecDeque::new(),
            starved_until_ns: 0,
            fault: None,
            live,
            is_stopped: false,
            due_ns: [None; 2],
        }
    }

    /// Sets the limiters for what both ends send.
    pub(super) fn set_limiters(&mut self, limiters: &Limiters) {
        for (end, session) in self.sessions.iter_mut().enumerate() {
            limiters.of(end).for_each(|(path, limiter)| session.set_limiter(path, limiter));
        }
    }

    pub(super) const fn fault(&self) -> Option<&SchedulerFault> {
        self.fault.as_ref()
    }

    /// The endpoints of the connections over the `k`-th path.
    pub(super) fn ends_of(&self, k: usize) -> impl Iterator<Item = [u32; 2]> + '_ {
        self.subflows.iter().filter(move |subflow| subflow.k == k).map(|subflow| subflow.ends)
    }

    /// By path.
    pub(super) fn starved_ns(&self) -> Vec<u64> {
        let paths = self.subflows.iter().map(|subflow| subflow.k + 1).max().unwrap_or(0);
        let mut starved = vec![0; paths];
        for subflow in &self.subflows {
            starved[subflow.k] += subflow.starved_ns;
        }
        starved
    }

    /// Records where the server sends what, and where the client gets it.
    pub(super) fn record_weave(&mut self, most: Option<usize>) {
        self.sessions.iter_mut().for_each(|session| session.record_weave(most));
    }

    /// What was sent, and what was received.
    pub(super) fn weave(&self, now: Instant) -> Option<[WeaveRecord; 2]> {
        let sent = self.sessions[SERVER].weave_sent(now)?;
        Some([sent, self.sessions[CLIENT].weave_received(now)?])
    }

    pub(super) fn stats(&self) -> [SessionStats; 2] {
        [self.sessions[CLIENT].stats(), self.sessions[SERVER].stats()]
    }

    /// The workload begins.
    pub(super) fn begin(&mut self, now: Instant) {
        if let Some(live) = &mut self.live {
            live.begin(now);
        }
    }

    /// Whether its live stream is over.
    pub(super) fn is_done(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_done())
    }

    /// What has come of its live stream.
    pub(super) fn live(&self) -> Option<&LiveOutcome> {
        self.live.as_deref().map(Live::outcome)
    }

    /// All paths are dialled at once; the first connection that stands opens the session, the others
    /// join when it has been answered.
    pub(super) fn connect(&mut self, net: &mut Net) {
        self.expire_paths(net);
    }

    /// Whether each of `paths` paths carries data.
    pub(super) fn is_up(&self, paths: usize) -> bool {
        (0..paths).all(|k| self.is_path_up(k))
    }

    /// Whether the path with that number among the connection's carries data.
    pub(super) fn is_path_up(&self, k: usize) -> bool {
        self.subflows.iter().any(|one| one.k == k && one.up == [true; 2])
    }

    // ---- what arrives ----

    /// Something has changed at one end of a subflow.
    pub(super) fn handle(
        &mut self,
        index: usize,
        server: bool,
        source: &mut Source,
        sink: &mut Sink,
        net: &mut Net,
    ) {
        let end = usize::from(server);
        if end == CLIENT && self.is_stopped {
            return;
        }
        self.read_socket(index, end, net);
        self.serve(end, source, sink, net);
        net.transmit(self.subflows[index].ends[end]);
    }

    /// Takes what has come to one end of a subflow.
    fn read_socket(&mut self, index: usize, end: usize, net: &mut Net) {
        self.note_endpoint(index, end, net);
        let subflow = &mut self.subflows[index];
        subflow.stale[end] = true;
        let now_ns = net.now_ns();
        let endpoint = net.endpoint_mut(subflow.ends[end]);
        if endpoint.is_closed() {
            // What was on its way, and is for nobody any more.
            return;
        }
        let arrived = endpoint.in_order();
        let queue = &mut subflow.queues[1 - end];
        if arrived > queue.read() {
            queue.read_until(arrived, &mut subflow.inputs[end]);
            endpoint.set_read(arrived, now_ns);
            self.take_input(index, end, net);
        }
    }

    fn take_input(&mut self, index: usize, end: usize, net: &mut Net) {
        if !self.take_greeting(index, end, net) {
            return;
        }
        let now = Instant::from_nanos(net.now_ns());
        let subflow = &mut self.subflows[index];
        let Some(id) = subflow.id else { return };
        let taken = self.sessions[end].handle_input(id, &mut subflow.inputs[end], now);
        taken.expect("both ends are ours and keep to the protocol");
    }

    // ---- what goes out ----

    /// Moves what can be moved at both ends.
    pub(super) fn pump(&mut self, source: &mut Source, sink: &mut Sink, net: &mut Net) {
        for end in [CLIENT, SERVER] {
            self.serve(end, source, sink, net);
        }
    }

    /// Application and subflows of one end, until nothing moves.
    fn serve(&mut self, end: usize, source: &mut Source, sink: &mut Sink, net: &mut Net) {
        if end == CLIENT && self.is_stopped {
            return;
        }
        let now = Instant::from_nanos(net.now_ns());
        if let Some(live) = &mut self.live {
            live.receive(end, &mut self.sessions[end], now);
            live.send(end, &mut self.sessions[end], now);
        } else if end == CLIENT {
            self.read(source, sink, now);
            self.size_buffer(sink.read(), net);
        } else {
            self.write(source, now);
        }
        while self.feed_subflows(end, net, now) {
            if let Some(live) = &mut self.live {
                live.send(end, &mut self.sessions[end], now);
            } else if end == SERVER {
                self.write(source, now);
            }
        }
        if end == SERVER {
            self.note_starving(net);
        }
        for subflow in self.subflows.iter().filter(|subflow| subflow.up[end]) {
            // Nobody had anything for it, though it had room.
            if subflow.room[end] > 0 {
                net.endpoint_mut(subflow.ends[end]).note_app_limited();
            }
        }
        for id in self.penalties.try_iter() {
            if let Some(subflow) = self.subflows.iter().find(|subflow| subflow.id == Some(id)) {
                net.endpoint_mut(subflow.ends[SERVER]).penalise();
            }
        }
        while let Some(event) = self.sessions[end].poll_event() {
            match event {
                Event::SchedulerReplaced(fault) => self.fault = self.fault.take().or(Some(fault)),
                event if end == CLIENT => self.note_event(&event, now),
                _ => {}
            }
        }
        self.act(net);
        self.due_ns[end] = self.sessions[end].poll_timeout(now).map(Instant::as_nanos);
    }

    /// What the client's session finds of a subflow.
    fn note_event(&mut self, event: &Event, now: Instant) {
        let (id, since) = match *event {
            Event::SubflowStalled(id) => (id, Some(now)),
            Event::SubflowRecovered(id) => (id, None),
            _ => return,
        };
        if let Some(subflow) = self.subflows.iter_mut().find(|subflow| subflow.id == Some(id)) {
            subflow.stalled_since = since;
            self.paths.note_news(id);
        }
    }

    /// Notes which subflows have room and nothing to send though data wait: until the next event.
    fn note_starving(&mut self, net: &Net) {
        let (now_ns, waits) = (net.now_ns(), self.sessions[SERVER].unsent() > 0);
        for subflow in &mut self.subflows {
            if subflow.starves {
                subflow.starved_ns += now_ns - self.starved_until_ns;
            }
            subflow.starves = waits && subflow.up[SERVER] && {
                let info = net.endpoint(subflow.ends[SERVER]).info(self.mss);
                info.unsent == ByteCount::ZERO
                    && info.cwnd.as_u64() >= info.queued().as_u64() + self.mss
            };
        }
        self.starved_until_ns = now_ns;
    }

    fn read(&mut self, source: &mut Source, sink: &mut Sink, now: Instant) {
        let session = &mut self.sessions[CLIENT];
        while let Some(incoming) = session.poll_message(now) {
            if let Incoming::Message(message) = incoming
                && let Some(made) = source.message_ended(message.tag, true, now.as_nanos())
            {
                sink.take_message(made.bytes, made.made_ns, now.as_nanos());
            }
        }
        if session.has_messages() {
            return;
        }
        loop {
            let left = sink.wanted().saturating_sub(sink.read());
            let n = session.read_chunk().len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if n == 0 {
                return;
            }
            session.consume(n, now).expect("that much was there");
            sink.take(sink.read() + n as u64, source, now.as_nanos());
        }
    }

    /// The receive buffer follows what the application has read in the longest of the subflows' round
    /// trips (Linux, `mptcp_rcv_space_adjust`).
    fn size_buffer(&mut self, read: u64, net: &Net) {
        let Some(buffer) = &mut self.buffer else { return };
        let up = self.subflows.iter().filter(|subflow| subflow.up[CLIENT]);
        let rtt_ns = up.map(|subflow| net.endpoint(subflow.ends[CLIENT]).receiver_rtt_ns()).max();
        let before = buffer.window();
        buffer.adjust(read, rtt_ns.unwrap_or(0), net.now_ns());
        if buffer.window() > before {
            let now = Instant::from_nanos(net.now_ns());
            self.sessions[CLIENT].set_receive_limit(buffer.window(), now);
        }
    }

    /// The application sends the messages that it has made, as far as there is room.
    fn send_messages(&mut self, source: &mut Source, now: Instant) {
        let session = &mut self.sessions[SERVER];
        while let Some(ended) = session.poll_outcome() {
            if ended.outcome != Outcome::Delivered {
                source.message_ended(ended.tag, false, now.as_nanos());
            }
        }
        while let Some(made) = source.next_message(now.as_nanos()) {
            let bytes = made.bytes as usize;
            let payload =
                ZEROS.get(..bytes).map_or_else(|| vec![0; bytes].into(), Bytes::from_static);
            let deadline = Some(Instant::from_nanos(made.deadline_ns));
            let options = MessageOptions { deadline, tag: made.number };
            if session.send_message(payload, options, now).is_err() {
                return;
            }
            source.message_taken(&made);
        }
    }

    fn write(&mut self, source: &mut Source, now: Instant) {
        if self.sessions[SERVER].has_messages() {
            return self.send_messages(source, now);
        }
        let session = &mut self.sessions[SERVER];
        loop {
            let ready = source.ready(now.as_nanos());
            // It offers what it has; the session says how much it takes. Beside a kernel's scheduler it
            // never runs into full memory: see docs/schedulers.md, "A full send window".
            let most = match self.by_segment {
                true => session.room().min(session.credit_left()),
                false => u64::MAX,
            };
            let n = usize::try_from(ready.min(most)).unwrap_or(usize::MAX).min(WRITE);
            if n == 0 {
                return;
            }
            let written = session.write(&ZEROS[..n], now).expect("it is not finished yet");
            source.wrote(written as u64, now.as_nanos());
            if written < n {
                return;
            }
        }
    }

    /// Offers every subflow of one end what room it has. Returns whether any took something.
    ///
    /// The server is asked whenever a subflow has room: what a kernel's scheduler answers may change
    /// with every acknowledgement. A client that sends only control records asks when the session says
    /// so; the player of a live stream has messages, too.
    fn feed_subflows(&mut self, end: usize, net: &mut Net, now: Instant) -> bool {
        let allowed = self.oracles_choice(end, net);
        let Self {
            sessions, subflows, paths, scheduler, oracle, by_segment, mss, out, live, ..
        } = self;
        let (mss, by_segment, has_data) = (*mss, *by_segment, end == SERVER || live.is_some());
        let session = &mut sessions[end];
        while let Some(id) = session.poll_wake() {
            // One may have ended since.
            if let Some(woken) = subflows.iter_mut().find(|subflow| subflow.id == Some(id)) {
                woken.woken[end] = true;
            }
        }
        for subflow in subflows.iter_mut().filter(|subflow| subflow.up[end] && subflow.stale[end]) {
            subflow.tell(end, session, by_segment.then_some(*scheduler), mss, net);
        }
        if *oracle {
            // It lets some have a segment, and looks again.
            for (at, subflow) in subflows.iter().enumerate() {
                let may = allowed.as_ref().is_none_or(|allowed| allowed[at]);
                let room = if may { subflow.room[end].min(mss - RECORD_HEADER) } else { 0 };
                subflow.id.inspect(|&id| session.handle_room(id, room));
            }
        }
        let mut moved = false;
        for subflow in subflows.iter_mut().filter(|subflow| subflow.up[end]) {
            let spare = has_data && subflow.room[end] > 0;
            if !(std::mem::take(&mut subflow.woken[end]) || spare) {
                continue;
            }
            let Some(id) = subflow.id else { continue };
            let bytes = session.poll_transmit(id, out, now);
            if bytes == 0 {
                continue;
            }
            moved = true;
            if end == CLIENT && std::mem::take(&mut subflow.rests) {
                paths.note_news(id);
            }
            if end == CLIENT && by_segment {
                let endpoint = net.endpoint_mut(subflow.ends[end]);
                let number = subflow.options.add(out, endpoint.has_option(), now.as_nanos());
                endpoint.set_option(number);
            } else {
                subflow.queues[end].write(out);
                net.endpoint_mut(subflow.ends[end]).write(bytes);
            }
            net.transmit(subflow.ends[end]);
            subflow.tell(end, session, by_segment.then_some(*scheduler), mss, net);
        }
        moved
    }

    /// Which of the server's subflows an oracle lets ask.
    fn oracles_choice(&self, end: usize, net: &mut Net) -> Option<Vec<bool>> {
        // Without unsent data only copies are left to be asked for.
        if !self.oracle || end != SERVER || self.sessions[end].unsent() == 0 {
            return None;
        }
        let forecasts = self.subflows.iter().map(|subflow| {
            let [client, server] = subflow.ends;
            subflow.up[end].then(|| forecast(server, client, self.mss, net)).flatten()
        });
        Some(may_ask(&forecasts.collect::<Vec<_>>(), self.sessions[end].unsent()))
    }

    // ---- timers ----

    pub(super) fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let now = Instant::from_nanos(now_ns);
        let live = self.live.as_ref().and_then(|live| live.next(now)).map(Instant::as_nanos);
        let server = self.due_ns[SERVER].into_iter().chain(live);
        if self.is_stopped {
            return server.min();
        }
        let paths = self.paths.next().map(Instant::as_nanos);
        let options = self.subflows.iter().filter_map(Subflow::option_due_ns);
        server.chain(self.due_ns[CLIENT]).chain(paths).chain(options).min()
    }

    /// Does what is due. Returns whether anything was.
    pub(super) fn expire(&mut self, net: &mut Net) -> bool {
        let now = Instant::from_nanos(net.now_ns());
        let mut any = self.stop_or_go_on(net, now);
        if !self.is_stopped && self.paths.next().is_some_and(|at| at <= now) {
            self.expire_paths(net);
            any = true;
        }
        if let Some(live) = &mut self.live {
            any |= live.handle_timeout(&self.sessions, now);
        }
        for (end, session) in self.sessions.iter_mut().enumerate() {
            let is_due = self.due_ns[end].is_some_and(|at| at <= now.as_nanos());
            if is_due && !(end == CLIENT && self.is_stopped) {
                session.handle_timeout(now);
                any = true;
            }
        }
        any | self.say_options_again(net)
    }

    /// The client's program stops, or goes on with what has come meanwhile.
    fn stop_or_go_on(&mut self, net: &mut Net, now: Instant) -> bool {
        let was_stopped = self.is_stopped;
        self.is_stopped = self.live.as_ref().is_some_and(|live| live.is_stopped(now));
        if !was_stopped || self.is_stopped {
            return false;
        }
        for index in 0..self.subflows.len() {
            self.read_socket(index, CLIENT, net);
        }
        true
    }
}

impl Subflow {
    /// Tells the session how the endpoint stands, and notes what room it has.
    ///
    /// `kernel` is the scheduler, if it decides for each segment.
    fn tell(
        &mut self,
        end: usize,
        session: &mut Session,
        kernel: Option<&Entry>,
        mss: u64,
        net: &Net,
    ) {
        self.stale[end] = false;
        let Some(id) = self.id else { return };
        let endpoint = net.endpoint(self.ends[end]);
        let mut info = endpoint.info(mss);
        if kernel.is_some() && end == CLIENT {
            // Its acknowledgements ride on segments, and are as frequent: no round trip is to make
            // the session spare of them.
            info.min_rtt = Duration::ZERO;
        }
        session.handle_path_info(id, info);
        let holds = kernel.is_some() && endpoint.waits_for_burst(net.now_ns());
        self.room[end] = if holds { 0 } else { room(kernel, mss, &info) };
        session.handle_room(id, self.room[end]);
    }
}

/// Payload bytes that a subflow may be given now. Kernels fill its congestion window; upstream's MPTCP
/// its send memory, which is sized to twice that (`tcp_sndbuf_expand`).
fn room(kernel: Option<&Entry>, mss: u64, info: &PathInfo) -> u64 {
    if let Some(scheduler) = kernel {
        let memory = info.cwnd.as_u64() * if scheduler.name == LINUX { 2 } else { 1 };
        return memory.saturating_sub(info.queued().as_u64()) / mss * (mss - RECORD_HEADER);
    }
    let mark = info.delivery_rate.bytes_in(LOW_WATER_TIME).as_u64();
    let mark = mark.clamp(LOW_WATER.0, LOW_WATER.1);
    let unsent = info.unsent.as_u64();
    if unsent < mark / 2 { mark - unsent } else { 0 }
}
