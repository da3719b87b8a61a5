//! Two endpoints and a path between them that does as a script says.

use std::collections::{BTreeMap, VecDeque};

use weftline_congestion::{Config, Coupling, Entry};

use crate::tcp::{Endpoint, EndpointConfig, MS, ReceiveBuffer, SECOND, Segment};

/// Payload of a full segment.
pub(super) const MSS: u64 = 1448;
/// The end that asks for the connection and receives.
pub(super) const CLIENT: usize = 0;
/// The end that sends.
pub(super) const SERVER: usize = 1;
/// When the scripts begin: the handshake is long over.
pub(super) const START: u64 = SECOND;

/// A segment as it goes out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// Which end sends it.
    pub(super) from: usize,
    /// How many of that end with payload (server) or in all (client) went before it.
    pub(super) nth: usize,
    /// How often this payload went before; 0 for an acknowledgement.
    pub(super) copy: usize,
    /// When, from [`START`]; negative during the handshake.
    pub(super) at_ns: i64,
    pub(super) segment: Segment,
}

/// What happens to a segment: it arrives so much later, or never.
pub(super) type Fate = Option<u64>;
/// What happens to each.
pub(super) type Script = Box<dyn FnMut(&Departure) -> Fate>;

/// The two ends.
pub(super) struct Pair {
    pub(super) now_ns: u64,
    pub(super) ends: [Endpoint; 2],
    script: Script,
    flying: BTreeMap<(u64, u64), (usize, Segment)>,
    departed: u64,
    copies: BTreeMap<u64, usize>,
    /// Bytes that the server's application writes, and when.
    writes: VecDeque<(u64, u64)>,
    /// Whether the client's application reads all that arrives.
    pub(super) reads: bool,
    /// Segments with payload that the server sent, from [`START`] on.
    pub(super) sent: Vec<Departure>,
    /// Segments that the client sent, from [`START`] on.
    pub(super) acks: Vec<Departure>,
}

/// How the pair is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) control: &'static str,
    pub(super) initial_cwnd: u64,
    pub(super) receive_window: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self { control: "reno", initial_cwnd: 10, receive_window: 32 << 20 }
    }
}

/// Every segment takes 10 ms.
pub(super) fn steady(_: &Departure) -> Fate {
    Some(10 * MS)
}

/// Every segment takes 10 ms but those that `lost` names.
pub(super) fn losing(mut lost: impl FnMut(&Departure) -> bool + 'static) -> Script {
    Box::new(move |departure| (!lost(departure)).then_some(10 * MS))
}

impl Pair {
    /// Two ends that have not met.
    pub(super) fn strangers(setup: Setup, script: Script) -> Self {
        let Setup { control, initial_cwnd, receive_window } = setup;
        let entry = Entry::find(control).expect("registered");
        let end = |peer: u32| {
            let receive_buffer = ReceiveBuffer::of_window(receive_window, MSS);
            let config =
                EndpointConfig { peer, mss: MSS, initial_cwnd, receive_buffer, host_paces: false };
            let config_of_control =
                Config { mss: MSS, initial_cwnd, seed: u64::from(peer), ..Config::default() };
            Endpoint::new(&config, entry.make(&config_of_control))
        };
        Self {
            now_ns: 0,
            ends: [end(1), end(0)],
            script,
            flying: BTreeMap::new(),
            departed: 0,
            copies: BTreeMap::new(),
            writes: VecDeque::new(),
            reads: true,
            sent: Vec::new(),
            acks: Vec::new(),
        }
    }

    /// Two ends that have shaken hands, at [`START`].
    pub(super) fn new(setup: Setup, script: Script) -> Self {
        let mut pair = Self::strangers(setup, script);
        pair.ends[CLIENT].connect();
        pair.run_to(0);
        assert!(pair.ends.iter().all(Endpoint::is_established), "no connection");
        pair
    }

    /// The application writes `segments` full segments at `at_ns`, from [`START`].
    pub(super) fn write_at(&mut self, at_ns: u64, segments: u64) {
        self.writes.push_back((START + at_ns, segments * MSS));
    }

    /// One full segment per millisecond: number k at k ms.
    pub(super) fn write_each_ms(&mut self, numbers: std::ops::RangeInclusive<u64>) {
        numbers.for_each(|k| self.write_at(k * MS, 1));
    }

    /// Lets everything happen up to `until_ns` from [`START`].
    pub(super) fn run_to(&mut self, until_ns: u64) {
        let end = START + until_ns;
        while self.step(end) {}
        self.now_ns = end;
        self.transmit();
    }

    /// Lets the next thing happen, if there is one up to `end_ns`.
    pub(super) fn step(&mut self, end_ns: u64) -> bool {
        self.transmit();
        let arrival = self.flying.keys().next().map(|&(at, _)| at);
        let write = self.writes.front().map(|&(at, _)| at);
        let timers = self.ends.iter().filter_map(Endpoint::deadline_ns);
        let next = timers.chain(arrival).chain(write).min().map(|at| at.max(self.now_ns));
        let Some(next) = next.filter(|&at| at <= end_ns) else { return false };
        self.now_ns = next;
        if arrival == Some(next) {
            let ((_, _), (to, segment)) = self.flying.pop_first().expect("one is due");
            let members = [self.ends[to].member()];
            let coupling = Coupling { members: &members, me: 0 };
            self.ends[to].handle(&segment, next, &coupling);
            if self.reads && to == CLIENT {
                let offset = self.ends[CLIENT].in_order();
                self.ends[CLIENT].set_read(offset, next);
            }
        } else if write == Some(next) {
            let (_, bytes) = self.writes.pop_front().expect("one is due");
            self.ends[SERVER].write(bytes);
        } else {
            for end in &mut self.ends {
                if end.deadline_ns().is_some_and(|at| at <= next) {
                    let members = [end.member()];
                    end.handle_timeout(next, &Coupling { members: &members, me: 0 });
                }
            }
        }
        self.ends.iter().for_each(Endpoint::check);
        true
    }

    fn transmit(&mut self) {
        for from in [CLIENT, SERVER] {
            while let Some(segment) = self.ends[from].poll_transmit(self.now_ns) {
                self.depart(from, segment);
            }
        }
    }

    fn depart(&mut self, from: usize, segment: Segment) {
        let data = segment.len > 0;
        let at_ns = self.now_ns as i64 - START as i64;
        let nth = if from == SERVER { self.sent.len() } else { self.acks.len() };
        let copies = self.copies.entry(segment.seq).or_default();
        let copy = if data { *copies } else { 0 };
        *copies += usize::from(data);
        let departure = Departure { from, nth, copy, at_ns, segment };
        if data && from == SERVER {
            self.sent.push(departure);
        } else if from == CLIENT && at_ns >= 0 {
            self.acks.push(departure);
        }
        if let Some(delay) = (self.script)(&departure) {
            self.departed += 1;
            self.flying.insert((self.now_ns + delay, self.departed), (1 - from, segment));
        }
    }

    /// When each copy of segment number `k` (by its place in the stream, from 0) went out, in
    /// milliseconds from [`START`].
    pub(super) fn sent_ms(&self, k: u64) -> Vec<f64> {
        let copies = self.sent.iter().filter(|departure| departure.segment.seq == k * MSS);
        copies.map(|departure| departure.at_ns as f64 / 1e6).collect()
    }

    /// The client's application reads up to `offset`.
    pub(super) fn read(&mut self, offset: u64) {
        self.ends[CLIENT].set_read(offset, self.now_ns);
    }

    /// Whether everything written has arrived and is known to have.
    pub(super) fn is_done(&self) -> bool {
        let [client, server] = &self.ends;
        self.writes.is_empty()
            && server.acknowledged() == server.written()
            && client.in_order() == server.written()
    }
}
