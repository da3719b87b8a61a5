//! Whether a server answers by UDP over links, without a device: what somebody asks who looks for a fault.

use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use weftline_core::datagram::{DATA_OVERHEAD, Frame};

use super::client::{LaneLink, LaneSession};
use super::end::LaneEnd;
use super::keys::{Direction, Header};
use super::socket::{Inbox, LaneSocket, Way};
use super::{MTU, lane_id};
use crate::poll::{Poller, Stop};
use crate::{TunnelError, clock};

/// How often the server is asked, and how long an answer is waited for each time.
const ASKED: u64 = 8;
const ANSWER: Duration = Duration::from_millis(400);
/// A question is padded by this: an address that a server does not know is sent no more than three times
/// what came from there.
const PADDING: usize = 64;
/// The most links that are asked.
const MOST_LINKS: usize = 8;

/// What a link carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneReach {
    /// The link.
    pub link: LaneLink,
    /// How long an answer took; `None` if there was none.
    pub round_trip: Option<Duration>,
    /// Whether the longest packet of a bond gets through.
    pub carries_long: bool,
}

/// Asks over all links at once, in a session that nobody speaks in yet. It takes seconds where there is no
/// answer, and must not be called where nothing may wait.
pub fn reach(session: &LaneSession, links: &[LaneLink]) -> Vec<LaneReach> {
    let ask = |(place, link): (usize, &LaneLink)| {
        let asked = Asker::new(session, place as u8, link).map(|mut asker| {
            let round_trip = asker.ask(PADDING);
            let carries_long = round_trip.is_some() && asker.ask(MTU + DATA_OVERHEAD - 2).is_some();
            (round_trip, carries_long)
        });
        let (round_trip, carries_long) = asked.unwrap_or_else(|error| {
            tracing::debug!(link = link.name, %error, "no socket for a lane");
            (None, false)
        });
        LaneReach { link: link.clone(), round_trip, carries_long }
    };
    thread::scope(|scope| {
        let each = links.iter().take(MOST_LINKS).enumerate();
        let threads: Vec<_> = each.map(|one| scope.spawn(move || ask(one))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Asks over a link.
struct Asker {
    session: u32,
    lane: u8,
    end: LaneEnd,
    socket: LaneSocket,
    poller: Poller,
    inbox: Inbox,
    next: u64,
}

impl Asker {
    fn new(session: &LaneSession, place: u8, link: &LaneLink) -> Result<Self, TunnelError> {
        let lane = lane_id(place, link.role);
        let mut end = LaneEnd::new(session.number, &session.secret, lane, Direction::FromClient);
        end.way = Some(Way { peer: link.server, own: None });
        let socket = LaneSocket::through(&link.via, link.server.is_ipv4());
        let socket = socket.map_err(TunnelError::os("opening a socket"))?;
        let mut poller = Poller::new(&Stop::new()?)?;
        poller.add(socket.as_fd())?;
        let inbox = Inbox::new();
        Ok(Self { session: session.number, lane, end, socket, poller, inbox, next: 0 })
    }

    /// Asks with so much padding until there is an answer; how long that took.
    fn ask(&mut self, padding: usize) -> Option<Duration> {
        let first = self.next;
        while self.next < first + ASKED {
            let (id, began) = (self.next, clock::now());
            self.next += 1;
            let mut frame = Vec::new();
            Frame::Ping { id, padding }.encode(&mut frame);
            self.end.send(&self.socket, id, &frame);
            self.end.batch.flush(&self.socket);
            let until = began + ANSWER;
            while clock::now() < until {
                if self.is_answered(first) {
                    return Some(clock::now().since(began));
                }
                self.poller.wait(until, true);
            }
        }
        None
    }

    /// Whether one of the questions from `first` on is answered by what has come.
    fn is_answered(&mut self, first: u64) -> bool {
        let (session, lane, end) = (self.session, self.lane, &mut self.end);
        let mut is_answered = false;
        let mut more = true;
        while more {
            more = self.socket.read(&mut self.inbox, |datagram, _| {
                let header = Header::decode(datagram);
                let ours = header.filter(|one| (one.session, one.lane) == (session, lane));
                let Some(Ok((frame, _))) = ours.map(|header| end.open(header, datagram)) else {
                    return;
                };
                is_answered |=
                    matches!(Frame::decode(frame), Ok(Frame::Pong { id }) if id >= first);
            });
        }
        is_answered
    }
}
