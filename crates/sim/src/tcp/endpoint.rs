//! An endpoint of a TCP connection: handshake, both halves, and the segments between them.

use std::time::Duration;

use weftline_congestion::{CongestionControl, Coupling, Member, Phase};
use weftline_core::ByteCount;
use weftline_core::path::PathInfo;

use super::SECOND;
use super::buffer::ReceiveBuffer;
use super::receiver::Receiver;
use super::segment::Segment;
use super::sender::{Sender, SenderStats};

/// What an endpoint is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointConfig {
    /// The number of the endpoint at the other end.
    pub(crate) peer: u32,
    /// The payload of a full segment in bytes.
    pub(crate) mss: u64,
    /// The first window in segments.
    pub(crate) initial_cwnd: u64,
    /// For what it receives.
    pub(crate) receive_buffer: ReceiveBuffer,
    /// Whether the host paces what its control does not (Linux with `fq`).
    pub(crate) host_paces: bool,
}

/// Where the handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for a connection request.
    Listening,
    /// Will send, or has sent, a request (client) or its answer (server).
    Opening { server: bool, sent_ns: Option<u64>, tries: u32 },
    /// Carries data.
    Established,
    /// Broken off: by this side, or by the peer, which is answered so too.
    Closed,
}

/// One end of a TCP connection.
#[derive(Debug)]
pub(crate) struct Endpoint {
    peer: u32,
    state: State,
    syn_due: bool,
    rst_due: bool,
    /// The option of each segment from now on, and whether none has carried it yet.
    option: u32,
    is_option_new: bool,
    tx: Sender,
    rx: Receiver,
}

impl Endpoint {
    /// An endpoint that waits for its peer's request.
    pub(crate) fn new(config: &EndpointConfig, control: Box<dyn CongestionControl>) -> Self {
        let mut tx = Sender::new(config.mss, config.initial_cwnd, control);
        if config.host_paces {
            tx.set_host_paces();
        }
        Self {
            peer: config.peer,
            state: State::Listening,
            syn_due: false,
            rst_due: false,
            option: 0,
            is_option_new: false,
            tx,
            rx: Receiver::new(config.mss, config.receive_buffer),
        }
    }

    /// Asks the peer for a connection.
    pub(crate) fn connect(&mut self) {
        self.state = State::Opening { server: false, sent_ns: None, tries: 0 };
        self.syn_due = true;
    }

    /// Whether data can flow.
    pub(crate) fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Breaks the connection off; what was not sent or not acknowledged is forgotten. The peer is
    /// told if it may know of the connection.
    pub(crate) fn abort(&mut self) {
        self.rst_due = self.state != State::Listening && self.state != State::Closed;
        (self.state, self.syn_due) = (State::Closed, false);
    }

    /// Whether it has been broken off.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    // ---- the application's side ----

    /// Appends `bytes` to the stream to send.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.tx.set_end(self.tx.end() + bytes);
    }

    /// Bytes written in all.
    pub(crate) const fn written(&self) -> u64 {
        self.tx.end()
    }

    /// Bytes written and not sent yet.
    pub(crate) const fn unsent(&self) -> u64 {
        self.tx.unsent()
    }

    /// Bytes acknowledged by the peer.
    pub(crate) const fn acknowledged(&self) -> u64 {
        self.tx.una()
    }

    /// Bytes that have arrived in order.
    pub(crate) const fn in_order(&self) -> u64 {
        self.rx.in_order()
    }

    /// The application has read below `offset`.
    pub(crate) fn set_read(&mut self, offset: u64, now_ns: u64) {
        self.rx.set_read(offset, now_ns);
    }

    /// Each segment is to carry the option of that number from now on, in place of an older one. It goes
    /// with the acknowledgement of what has come, and at once where nothing has.
    pub(crate) fn set_option(&mut self, option: u32) {
        (self.option, self.is_option_new) = (option, true);
        if !self.rx.is_ack_scheduled() {
            self.rx.force_ack();
        }
    }

    /// Whether an option waits for a segment.
    pub(crate) const fn has_option(&self) -> bool {
        self.is_option_new
    }

    /// The application has no more to send at the moment.
    pub(crate) fn note_app_limited(&mut self) {
        if self.is_established() {
            self.tx.note_app_limited();
        }
    }

    /// Whether it holds new data back for a larger burst, as segmentation offload makes it, though
    /// the window has room. The next acknowledgement ends it.
    pub(crate) fn waits_for_burst(&self, now_ns: u64) -> bool {
        self.is_established() && self.tx.waits_for_burst(u64::MAX, now_ns)
    }

    // ---- what is known ----

    /// The figures that a kernel would give as `TCP_INFO`.
    pub(crate) fn info(&self, mss: u64) -> PathInfo {
        let rtt = self.tx.rtt();
        PathInfo {
            cwnd: ByteCount::new(self.tx.window_bytes()),
            in_flight: ByteCount::new(self.tx.pipe() * mss),
            unsent: ByteCount::new(self.tx.unsent()),
            srtt: Duration::from_nanos(rtt.srtt_ns()),
            rttvar: Duration::from_nanos(rtt.var_ns()),
            min_rtt: Duration::from_nanos(rtt.min_ns().unwrap_or(0)),
            delivery_rate: self.tx.delivery_rate(),
            retransmitted: self.tx.stats().resent,
            ssthresh: self.tx.ssthresh_bytes().map(ByteCount::new),
            pacing_rate: self.tx.pacing_rate(),
            timed_out: self.is_timed_out(),
        }
    }

    /// What the sender has done.
    pub(crate) const fn stats(&self) -> &SenderStats {
        self.tx.stats()
    }

    /// Its congestion window in segments.
    pub(crate) fn cwnd(&self) -> f64 {
        self.tx.control().cwnd()
    }

    /// The round-trip time that the receiving half knows, in nanoseconds; 0 if none.
    pub(crate) const fn receiver_rtt_ns(&self) -> u64 {
        self.rx.rtt_ns()
    }

    /// A run of segments that came closely one after the other has ended.
    pub(crate) const fn end_run(&mut self) {
        self.rx.end_run();
    }

    /// Whether an acknowledgement is due that does not wait for what follows closely.
    pub(crate) const fn is_urgent(&self) -> bool {
        self.rx.is_urgent()
    }

    /// Smoothed round-trip time in nanoseconds.
    pub(crate) const fn srtt_ns(&self) -> u64 {
        self.tx.rtt().srtt_ns()
    }

    /// Whether it is in a timeout recovery.
    pub(crate) fn is_timed_out(&self) -> bool {
        self.tx.phase() == Phase::Loss
    }

    /// What the connection's other controls see of it.
    pub(crate) fn member(&self) -> Member {
        self.tx.member()
    }

    /// A scheduler asks to slow this subflow down.
    pub(crate) fn penalise(&mut self) {
        self.tx.penalise();
    }

    // ---- segments and timers ----

    /// Takes a segment from the peer. Returns whether the connection has just been established.
    pub(crate) fn handle(
        &mut self,
        segment: &Segment,
        now_ns: u64,
        coupling: &Coupling<'_>,
    ) -> bool {
        if segment.rst {
            (self.state, self.syn_due) = (State::Closed, false);
            return false;
        }
        if self.state == State::Closed {
            self.rst_due = true;
            return false;
        }
        if segment.syn {
            return self.handle_syn(segment, now_ns);
        }
        let mut fresh = false;
        if let State::Opening { server: true, sent_ns, tries } = self.state {
            self.establish(segment, sent_ns, tries, now_ns);
            fresh = true;
        }
        if self.state != State::Established {
            return false;
        }
        if segment.has_ack {
            self.tx.handle_ack(segment, now_ns, coupling);
        }
        if segment.len > 0 {
            self.rx.handle(segment, now_ns);
        } else {
            self.rx.note_time(segment);
            if segment.wants_answer {
                self.rx.force_ack();
            }
        }
        fresh
    }

    fn handle_syn(&mut self, segment: &Segment, now_ns: u64) -> bool {
        match self.state {
            State::Listening => {
                self.state = State::Opening { server: true, sent_ns: None, tries: 0 };
                self.syn_due = true;
                false
            }
            State::Opening { server: true, .. } => {
                self.syn_due = true;
                false
            }
            State::Opening { server: false, sent_ns, tries } if segment.has_ack => {
                self.establish(segment, sent_ns, tries, now_ns);
                self.rx.force_ack();
                true
            }
            State::Opening { .. } => false,
            State::Established => {
                // Our last answer was lost.
                self.rx.force_ack();
                false
            }
            State::Closed => false,
        }
    }

    fn establish(&mut self, segment: &Segment, sent_ns: Option<u64>, tries: u32, now_ns: u64) {
        self.state = State::Established;
        self.syn_due = false;
        self.tx.open(segment.limit);
        if let (Some(sent), 1) = (sent_ns, tries) {
            self.tx.add_rtt(now_ns - sent);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and poll, at the latest.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        match self.state {
            State::Listening | State::Closed => None,
            State::Opening { sent_ns, tries, .. } => {
                // The request is repeated after 1, 2, 4, … s (RFC 6298 §2.1).
                sent_ns.map(|sent| sent + (SECOND << tries.clamp(1, 7) >> 1))
            }
            State::Established => {
                self.tx.deadline_ns().into_iter().chain(self.rx.deadline_ns()).min()
            }
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64, coupling: &Coupling<'_>) {
        match self.state {
            State::Opening { .. } if self.deadline_ns().is_some_and(|at| at <= now_ns) => {
                self.syn_due = true;
            }
            State::Established => self.tx.handle_timeout(now_ns, coupling),
            State::Listening | State::Opening { .. } | State::Closed => {}
        }
    }

    /// The next segment to put on the wire now.
    pub(crate) fn poll_transmit(&mut self, now_ns: u64) -> Option<Segment> {
        match &mut self.state {
            State::Listening => None,
            State::Closed => std::mem::take(&mut self.rst_due).then(|| Segment {
                to: self.peer,
                rst: true,
                sent_ns: now_ns,
                ..Segment::default()
            }),
            State::Opening { server, sent_ns, tries } => {
                if !std::mem::take(&mut self.syn_due) {
                    return None;
                }
                *sent_ns = Some(now_ns);
                *tries += 1;
                let mut segment =
                    Segment { to: self.peer, syn: true, sent_ns: now_ns, ..Segment::default() };
                let answer = *server;
                self.rx.acknowledge(&mut segment);
                segment.has_ack = answer;
                Some(segment)
            }
            State::Established => {
                let mut segment = match self.tx.poll_transmit(now_ns) {
                    Some(segment) => segment,
                    None if self.rx.ack_due(now_ns) => {
                        Segment { sent_ns: now_ns, seq: self.tx.nxt(), ..Segment::default() }
                    }
                    None => return None,
                };
                segment.to = self.peer;
                (segment.option, self.is_option_new) = (self.option, false);
                self.rx.acknowledge(&mut segment);
                Some(segment)
            }
        }
    }

    /// Invariants that hold between events.
    pub(crate) fn check(&self) {
        self.tx.check();
    }
}
