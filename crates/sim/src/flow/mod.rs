//! A flow: an application that sends, a transport, an application that receives.

pub(crate) mod bound;
mod byte_queue;
mod ends;
mod live;
mod messages;
mod multi;
mod options;
mod oracle;
mod plain;
mod sink;
mod source;
mod tiles;

use std::sync::Arc;

use weftline_core::path_manager::{PathPlan, ProbeSeat};
use weftline_core::rng::Rng;
use weftline_core::scheduler::RatioMemory;
use weftline_core::session::{SchedulerFault, SessionStats, WeaveRecord};
use weftline_core::{ByteCount, Instant, PathId};
use weftline_measure::{PathMeasurement, Window};
use weftline_video::Player;

use self::messages::Messages;
pub(crate) use self::messages::Tally;
use self::multi::Multi;
use self::plain::Plain;
pub(crate) use self::sink::Sink;
pub(crate) use self::source::Source;
use crate::build::Opener;
use crate::calls::Limiters;
use crate::net::Net;
use crate::plan::{FlowPlan, LiveOutcome, Plan, Traffic};
use crate::queue::Event;

/// How far a flow has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not begun.
    Waiting,
    /// Its connections are made; the workload has not begun.
    Connecting,
    /// Data flow.
    Running,
}

#[derive(Debug)]
enum Carrier {
    Plain(Plain),
    Multi(Box<Multi>),
}

/// A flow of a run.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) index: u32,
    pub(crate) plan: FlowPlan,
    carrier: Carrier,
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    stage: Stage,
    /// By the number of the path in the run's plan.
    paths: Vec<PathMeasurement>,
    armed: Option<u64>,
}

impl Flow {
    /// The flow `index` of a plan, whose connections the `openers` make, one for each of its paths.
    /// `mss` is the payload of a full segment; `ratio` is the host's, for `musher`, and `limiters`
    /// are what it sends through.
    pub(crate) fn new(
        index: u32,
        run: &Plan,
        mss: u64,
        (openers, ratio, limiters): (Vec<Opener>, RatioMemory, &Limiters),
        net: &mut Net,
    ) -> Self {
        let (plan, seed) = (run.flows[index as usize].clone(), run.seed);
        let rng = |purpose: &str| Rng::stream(seed, &format!("flow/{index}/{purpose}"));
        let (source, size) = match &plan.traffic {
            // What a live stream carries is its own affair.
            Traffic::Bulk | Traffic::Live(_) => (Source::bulk(), None),
            Traffic::Cbr(rate) => (Source::cbr(*rate), None),
            Traffic::Messages { pattern, rate, .. } => {
                (Source::messages(Messages::new(*pattern, *rate, rng("messages"))), None)
            }
            Traffic::Burst(size) | Traffic::Transfer(size) => {
                (Source::size(*size), Some(size.as_u64()))
            }
            Traffic::Video(clip, _) => {
                let size = clip.total_bytes();
                (Source::size(ByteCount::new(size)), Some(size))
            }
        };
        let carrier = match plan.scheduler {
            None => Carrier::Plain(Plain::new(openers[0].open(net, 0), mss)),
            Some(entry) => {
                let plans = plan.paths.iter().map(|&path| PathPlan {
                    id: PathId(path as u64),
                    reserve: false,
                    seat: ProbeSeat::default(),
                    rng: rng(&format!("path/{path}")),
                });
                let mut multi = Multi::new(
                    entry,
                    &plan,
                    ratio,
                    plans.collect(),
                    openers,
                    mss,
                    run.receive_buffer,
                );
                multi.set_limiters(limiters);
                if index == 0 {
                    multi.record_weave(run.weave);
                }
                Carrier::Multi(Box::new(multi))
            }
        };
        Self {
            index,
            plan,
            carrier,
            source,
            sink: Sink::new(size),
            stage: Stage::Waiting,
            paths: Vec::new(),
            armed: None,
        }
    }

    /// What was recorded of where its server has sent what, and of where its client got it.
    pub(crate) fn weave(&self, now: Instant) -> Option<[WeaveRecord; 2]> {
        match &self.carrier {
            Carrier::Plain(_) => None,
            Carrier::Multi(multi) => multi.weave(now),
        }
    }

    /// Whether its connections are made before the workload begins, whenever the flow does.
    pub(crate) const fn is_warm(&self) -> bool {
        !matches!(self.plan.traffic, Traffic::Transfer(_))
    }

    /// Asks for its connections.
    pub(crate) fn connect(&mut self, net: &mut Net) {
        self.stage = Stage::Connecting;
        match &mut self.carrier {
            Carrier::Plain(plain) => plain.connect(net),
            Carrier::Multi(multi) => multi.connect(net),
        }
        self.arm(net);
    }

    /// Whether every path carries data.
    pub(crate) fn is_up(&self, net: &Net) -> bool {
        match &self.carrier {
            Carrier::Plain(plain) => plain.is_up(net),
            Carrier::Multi(multi) => multi.is_up(self.plan.subflows()),
        }
    }

    /// The numbers of its paths that carry nothing yet.
    pub(crate) fn paths_not_up(&self, net: &Net) -> Vec<usize> {
        match &self.carrier {
            Carrier::Plain(plain) if plain.is_up(net) => Vec::new(),
            Carrier::Plain(_) => self.plan.paths.clone(),
            Carrier::Multi(multi) => {
                let numbered = self.plan.paths.iter().enumerate();
                numbered.filter(|&(k, _)| !multi.is_path_up(k)).map(|(_, &path)| path).collect()
            }
        }
    }

    /// Begins to send in a run whose workload began at `epoch`, and connects if that has not been
    /// done.
    pub(crate) fn begin(&mut self, epoch: Instant, run: &Plan, net: &mut Net) {
        if self.stage == Stage::Waiting {
            self.connect(net);
        }
        self.stage = Stage::Running;
        let now_ns = net.now_ns();
        let window = self.window(epoch, Instant::from_nanos(now_ns), run);
        self.paths = vec![PathMeasurement::new(window); run.paths.len()];
        self.source.begin(now_ns, window.from.as_nanos()..window.until.as_nanos());
        let player = match &self.plan.traffic {
            Traffic::Video(clip, rules) => {
                Some(Player::new(Arc::clone(clip), *rules, Instant::from_nanos(now_ns)))
            }
            _ => None,
        };
        self.sink.begin(window, player);
        if let Carrier::Multi(multi) = &mut self.carrier {
            multi.begin(Instant::from_nanos(now_ns));
        }
        self.pump(net);
    }

    /// The flow's time, and what of it counts.
    fn window(&self, epoch: Instant, begin: Instant, run: &Plan) -> Window {
        let until = epoch + self.plan.stop.unwrap_or(run.duration).min(run.duration);
        match self.plan.traffic {
            Traffic::Burst(_) | Traffic::Transfer(_) | Traffic::Video(..) => {
                Window::whole(epoch, begin, until)
            }
            Traffic::Bulk | Traffic::Cbr(_) | Traffic::Messages { .. } | Traffic::Live(_) => {
                Window::new(epoch, begin, until, run.warmup)
            }
        }
    }

    /// What the flow does on a path, by its number in the run's plan; once it has begun.
    pub(crate) fn path(&self, path: usize) -> Option<&PathMeasurement> {
        self.paths.get(path)
    }

    /// The same, to be told of it.
    pub(crate) fn path_mut(&mut self, path: usize) -> Option<&mut PathMeasurement> {
        self.paths.get_mut(path)
    }

    /// Stops to send; what was written still goes out.
    pub(crate) fn stop(&mut self, net: &Net) {
        self.source.stop(net.now_ns());
    }

    /// Something has changed at an endpoint of the flow: `server` is its end.
    pub(crate) fn handle(&mut self, subflow: u32, server: bool, net: &mut Net) {
        match &mut self.carrier {
            Carrier::Plain(plain) => plain.handle(server, &mut self.source, &mut self.sink, net),
            Carrier::Multi(multi) => {
                multi.handle(subflow as usize, server, &mut self.source, &mut self.sink, net);
            }
        }
        self.arm(net);
    }

    /// The client's interface on a path, by its number in the run's plan, has gone or is there again.
    pub(crate) fn replug(&mut self, path: u32, is_in: bool, net: &mut Net) {
        if self.stage == Stage::Waiting {
            return;
        }
        if let Carrier::Multi(multi) = &mut self.carrier {
            multi.replug(path, is_in, net);
            self.pump(net);
        }
    }

    /// A segment with an option has come to the server's end of a subflow.
    pub(crate) fn take_option(&mut self, subflow: u32, option: u32, net: &Net) {
        if let Carrier::Multi(multi) = &mut self.carrier {
            multi.take_option(subflow as usize, option, net.now_ns());
        }
    }

    /// The flow's timer event has come.
    pub(crate) fn expire(&mut self, net: &mut Net) {
        let now_ns = net.now_ns();
        if self.armed != Some(now_ns) {
            return;
        }
        self.armed = None;
        let read = self.sink.handle_timeout(now_ns);
        let source = self.source.is_due(now_ns);
        let session = match &mut self.carrier {
            Carrier::Plain(_) => false,
            Carrier::Multi(multi) => multi.expire(net),
        };
        if read || source || session {
            self.pump(net);
        } else {
            self.arm(net);
        }
    }

    /// Moves what can be moved at both ends.
    fn pump(&mut self, net: &mut Net) {
        match &mut self.carrier {
            Carrier::Plain(plain) => plain.pump(&mut self.source, &mut self.sink, net),
            Carrier::Multi(multi) => multi.pump(&mut self.source, &mut self.sink, net),
        }
        self.arm(net);
    }

    fn arm(&mut self, net: &mut Net) {
        let now_ns = net.now_ns();
        let session = match &self.carrier {
            Carrier::Plain(_) => None,
            Carrier::Multi(multi) => multi.next_ns(now_ns),
        };
        let own = self.source.next_ns(now_ns).into_iter().chain(self.sink.next_ns());
        let Some(at) = own.chain(session).min() else { return };
        let at = at.max(now_ns);
        if self.armed.is_none_or(|armed| at < armed) {
            self.armed = Some(at);
            net.queue.push(at, Event::Flow(self.index));
        }
    }

    /// Whether nothing more will happen.
    pub(crate) fn is_done(&self) -> bool {
        self.sink.is_done() || self.multi().is_some_and(Multi::is_done)
    }

    fn multi(&self) -> Option<&Multi> {
        match &self.carrier {
            Carrier::Plain(_) => None,
            Carrier::Multi(multi) => Some(multi),
        }
    }

    /// What has come of its live stream.
    pub(crate) fn live(&self) -> Option<&LiveOutcome> {
        self.multi()?.live()
    }

    /// The endpoints of each connection there has been over the `k`-th of its paths, the client's and
    /// the server's, in the order in which they were begun.
    pub(crate) fn ends_of(&self, k: usize) -> impl Iterator<Item = [u32; 2]> + '_ {
        let (plain, multi) = match &self.carrier {
            Carrier::Plain(plain) => (Some(plain.ends()).filter(|_| k == 0), None),
            Carrier::Multi(multi) => (None, Some(multi.ends_of(k))),
        };
        plain.into_iter().chain(multi.into_iter().flatten())
    }

    /// The endpoints of all its connections.
    pub(crate) fn ends(&self) -> impl Iterator<Item = [u32; 2]> + '_ {
        (0..self.plan.subflows()).flat_map(|k| self.ends_of(k))
    }

    /// What the client's and the server's session have done.
    pub(crate) fn sessions(&self) -> Option<[SessionStats; 2]> {
        match &self.carrier {
            Carrier::Plain(_) => None,
            Carrier::Multi(multi) => Some(multi.stats()),
        }
    }

    /// How long each of its paths was given nothing though its window had room and data waited.
    pub(crate) fn starved_ns(&self) -> Vec<u64> {
        match &self.carrier {
            Carrier::Plain(_) => Vec::new(),
            Carrier::Multi(multi) => multi.starved_ns(),
        }
    }

    /// How its scheduler broke its contract, if it did: what was measured is another one's then.
    pub(crate) fn fault(&self) -> Option<&SchedulerFault> {
        match &self.carrier {
            Carrier::Plain(_) => None,
            Carrier::Multi(multi) => multi.fault(),
        }
    }

    /// What has come of its messages.
    pub(crate) fn tally(&self) -> Option<&Tally> {
        self.source.tally()
    }

    /// Invariants that hold between events.
    pub(crate) fn check(&self) {
        assert!(self.sink.read() <= self.source.written(), "only what was written is read");
    }
}
