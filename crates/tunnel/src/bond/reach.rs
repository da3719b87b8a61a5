//! Whether a server answers by UDP over links, without a device: what somebody asks who looks for a fault.

use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use weftline_core::Instant;
use weftline_core::datagram::{DATA_OVERHEAD, Frame};

use super::client::{LaneLink, LaneSession};
use super::end::LaneEnd;
use super::keys::{Direction, Header};
use super::socket::{Inbox, LaneSocket};
use super::{MTU, lane_id};
use crate::poll::{Poller, Stop};
use crate::way::Way;
use crate::{TunnelError, clock};

/// How often the server is asked, and how long an answer is waited for each time.
const ASKED: usize = 8;
const ANSWER: Duration = Duration::from_millis(400);
/// The same of the last question.
const LAST_ANSWER: Duration = Duration::from_secs(1);
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
    questions: Questions,
}

/// The questions of a link, by their numbers. An answer may be to one that is older than the last, where a
/// round trip takes longer than the wait between two.
#[derive(Debug, Default)]
struct Questions {
    /// When each was asked.
    asked: Vec<Instant>,
    /// The first of those whose answers count.
    first: usize,
}

impl Questions {
    /// From here on the answers to questions so far count no more.
    fn begin(&mut self) {
        self.first = self.asked.len();
    }

    /// The number of the question that is asked now, and until when its answer is waited for before the
    /// next one; `None` if enough have been asked.
    fn ask(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let asked = self.asked.len() - self.first;
        if asked >= ASKED {
            return None;
        }
        self.asked.push(now);
        let wait = if asked + 1 == ASKED { LAST_ANSWER } else { ANSWER };
        Some((self.asked.len() as u64 - 1, now + wait))
    }

    /// How long the answer to a question has taken; `None` if it is none, or counts no more.
    fn handle_answer(&self, id: u64, now: Instant) -> Option<Duration> {
        let id = usize::try_from(id).ok().filter(|&id| id >= self.first)?;
        self.asked.get(id).map(|&asked| now.since(asked))
    }
}

impl Asker {
    fn new(session: &LaneSession, place: u8, link: &LaneLink) -> Result<Self, TunnelError> {
        let lane = lane_id(place, link.role);
        let mut end = LaneEnd::new(session.number, &session.secret, lane, Direction::FromClient);
        end.way = Some(Way::to(link.server));
        let socket = LaneSocket::through(&link.via, link.server.is_ipv4(), link.mark);
        let socket = socket.map_err(TunnelError::os("opening a socket"))?;
        let mut poller = Poller::new(&Stop::new()?)?;
        poller.add(socket.as_fd())?;
        let inbox = Inbox::new();
        let questions = Questions::default();
        Ok(Self { session: session.number, lane, end, socket, poller, inbox, questions })
    }

    /// Asks with so much padding until there is an answer; how long that took.
    fn ask(&mut self, padding: usize) -> Option<Duration> {
        self.questions.begin();
        while let Some((id, until)) = self.questions.ask(clock::now()) {
            let mut frame = Vec::new();
            Frame::Ping { id, padding }.encode(&mut frame);
            self.end.send(&self.socket, (id, padding == PADDING), &frame);
            self.end.batches.flush(&self.socket);
            while clock::now() < until {
                let answered = self.answered();
                if answered.is_some() {
                    return answered;
                }
                self.poller.wait(until, true);
            }
        }
        None
    }

    /// How long the first answer of those that have come has taken.
    fn answered(&mut self) -> Option<Duration> {
        let (session, lane, end) = (self.session, self.lane, &mut self.end);
        let questions = &self.questions;
        let mut answered = None;
        let mut more = true;
        while more {
            more = self.socket.read(&mut self.inbox, |datagram, _, _| {
                let header = Header::decode(datagram);
                let ours = header.filter(|one| (one.session, one.lane) == (session, lane));
                let Some(Ok((frame, _))) = ours.map(|header| end.open(header, datagram)) else {
                    return;
                };
                if let Ok(Frame::Pong { id }) = Frame::decode(frame) {
                    answered = answered.or_else(|| questions.handle_answer(id, clock::now()));
                }
            });
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks over a link with such a round trip, in virtual time; what is measured.
    fn measure(
        questions: &mut Questions,
        round_trip: Duration,
        start: Instant,
    ) -> Option<Duration> {
        questions.begin();
        let (mut now, mut answers) = (start, Vec::new());
        while let Some((id, until)) = questions.ask(now) {
            answers.push((now + round_trip, id));
            let came = answers.iter().find(|(at, _)| *at <= until);
            if let Some(&(at, id)) = came {
                return questions.handle_answer(id, at);
            }
            now = until;
        }
        None
    }

    #[test]
    fn a_round_trip_is_known_for_what_it_is_however_long() {
        let mut questions = Questions::default();
        let mut now = Instant::ZERO;
        for ms in [1, 399, 400, 401, 700, 1500, 3000] {
            let round_trip = Duration::from_millis(ms);
            assert_eq!(measure(&mut questions, round_trip, now), Some(round_trip), "{ms} ms");
            now += Duration::from_secs(10);
        }
        assert_eq!(measure(&mut questions, Duration::from_secs(5), now), None);
        // What was asked before says nothing of the questions of now.
        questions.begin();
        let (id, _) = questions.ask(now).expect("one may be asked");
        assert_eq!(questions.handle_answer(id - 1, now), None);
        assert_eq!(questions.handle_answer(id + 1, now), None);
        assert_eq!(questions.handle_answer(u64::MAX, now), None);
        assert_eq!(questions.handle_answer(id, now), Some(Duration::ZERO));
    }
}
