//! Where the other end of a lane is believed to be: at an address that has answered (RFC 9000 §8, §9).
//!
//! A datagram that is authentic may all the same come from an address that its sender does not have: who
//! sees it on its way can send it on with another one, and be first. So an address is asked before the
//! lane follows, and until the first one has answered, each is sent no more than three times what came from
//! there. The question is a ping whose number is random: who has the lane's keys can answer it, but only
//! if it got there, so that a client cannot give a victim's address for its own (RFC 9000 §8.2.1).

use std::collections::VecDeque;
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use weftline_core::Instant;

use crate::way::Way;

/// Bytes that an address may be sent for each that came from there (RFC 9000 §8.1).
const TIMES: u64 = 3;
/// How long an answer is waited for before the address is asked again, if more comes from there.
const AGAIN: Duration = Duration::from_millis(100);
/// Numbers of these pings are above those that the lane asks with.
const FIRST_ID: u64 = 1 << 61;

/// An address of the other end, and the socket that hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) way: Way,
    /// Which of an end's sockets.
    pub(super) socket: usize,
}

/// The most addresses that have not answered yet and are remembered. A router that sends by two, or somebody
/// who sends datagrams on, must not keep the client's own from answering.
const MOST_CANDIDATES: usize = 8;

/// An address that has not answered yet.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    place: Place,
    /// The number of the ping that it is to answer.
    id: u64,
    /// Bytes that it may be sent.
    credit: u64,
    asked: Option<Instant>,
}

impl Candidate {
    /// Pays for so many bytes; the address, if it may be sent as many.
    fn pay(&mut self, bytes: u64) -> Option<Place> {
        self.credit = self.credit.checked_sub(bytes)?;
        Some(self.place)
    }
}

/// Where the other end of a lane is.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    proven: Option<Place>,
    /// The one that was heard last comes last.
    candidates: VecDeque<Candidate>,
}

impl Whereabouts {
    /// It is there, and nowhere else.
    pub(super) fn known(place: Place) -> Self {
        Self { proven: Some(place), candidates: VecDeque::new() }
    }

    /// Something authentic of so many bytes has come from there, newer than all before.
    pub(super) fn note_newest(&mut self, place: Place, bytes: u64) {
        if self.proven == Some(place) {
            // It is where it was.
            self.candidates.clear();
            return;
        }
        let at = self.candidates.iter().position(|one| one.place == place);
        let known = at.and_then(|at| self.candidates.remove(at));
        let new = || draw_id().map(|id| Candidate { place, id, credit: 0, asked: None });
        let Some(mut candidate) = known.or_else(new) else { return };
        candidate.credit += TIMES * bytes;
        if self.candidates.len() >= MOST_CANDIDATES {
            self.candidates.pop_front();
        }
        self.candidates.push_back(candidate);
    }

    /// An address that is to be asked now, and the number of the ping; `bytes` is how long that is. To be
    /// called until there is none.
    pub(super) fn ask(&mut self, bytes: u64, now: Instant) -> Option<(Place, u64)> {
        let is_due = |one: &Candidate| {
            one.asked.is_none_or(|at| now.since(at) >= AGAIN) && one.credit >= bytes
        };
        let candidate = self.candidates.iter_mut().rev().find(|one| is_due(one))?;
        candidate.asked = Some(now);
        candidate.pay(bytes).map(|place| (place, candidate.id))
    }

    /// A ping of this number was answered; wherever that came from, it had got to the address.
    pub(super) fn handle_answer(&mut self, id: u64) {
        let at = self.candidates.iter().position(|one| one.id == id);
        if let Some(candidate) = at.and_then(|at| self.candidates.remove(at)) {
            self.proven = Some(candidate.place);
        }
    }

    /// Where a datagram of so many bytes goes: before one has answered, to the address that was heard
    /// last and may be sent as many. `None` if there is none.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Place> {
        let unproven = || self.candidates.iter_mut().rev().find_map(|one| one.pay(bytes));
        self.proven.or_else(unproven)
    }

    /// Where it is, as far as is known.
    pub(super) fn place(&self) -> Option<Place> {
        self.proven.or(self.candidates.back().map(|candidate| candidate.place))
    }
}

/// A number that nobody can guess; `None` if the system has none now, and the next datagram tries again.
fn draw_id() -> Option<u64> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(FIRST_ID | u64::from_be_bytes(bytes) & (FIRST_ID - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(port: u16) -> Place {
        let peer = ([192, 0, 2, 1], port).into();
        Place { way: Way { peer, own: None }, socket: 0 }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn the_first_address_is_sent_three_times_what_came_until_it_answers() {
        let mut whereabouts = Whereabouts::default();
        assert_eq!((whereabouts.ask(39, at(0)), whereabouts.take(1)), (None, None));
        whereabouts.note_newest(place(1), 100);
        let (asked, id) = whereabouts.ask(39, at(0)).unwrap();
        assert_eq!((asked, whereabouts.ask(39, at(99))), (place(1), None));
        assert_eq!(whereabouts.take(261), Some(place(1)));
        assert_eq!(whereabouts.take(1), None);
        assert_eq!(whereabouts.ask(39, at(100)), None, "not for that either");
        whereabouts.note_newest(place(1), 100);
        assert_eq!(whereabouts.ask(39, at(100)), Some((place(1), id)));
        whereabouts.handle_answer(id + 1);
        assert_eq!(whereabouts.take(300), None);
        whereabouts.handle_answer(id);
        assert_eq!(whereabouts.take(1 << 30), Some(place(1)));
        assert_eq!(whereabouts.ask(39, at(300)), None);
    }

    /// Who has the keys might answer without having been asked, for an address of somebody else.
    #[test]
    fn an_answer_cannot_be_guessed() {
        let mut drawn = std::collections::BTreeSet::new();
        for n in 0..1000 {
            let mut whereabouts = Whereabouts::default();
            whereabouts.note_newest(place(1), 100);
            (0..=n).for_each(|guess| whereabouts.handle_answer(FIRST_ID + guess));
            assert_eq!(whereabouts.take(301), None, "not proven");
            let (_, id) = whereabouts.ask(39, at(0)).unwrap();
            assert!((FIRST_ID..2 * FIRST_ID).contains(&id) && drawn.insert(id), "{id}");
        }
    }

    #[test]
    fn another_address_is_followed_when_it_has_answered() {
        let mut whereabouts = Whereabouts::default();
        whereabouts.note_newest(place(1), 100);
        let (_, first) = whereabouts.ask(39, at(0)).unwrap();
        whereabouts.handle_answer(first);
        // Somebody was faster with a datagram, under an address that is not the client's.
        whereabouts.note_newest(place(2), 1400);
        let (asked, second) = whereabouts.ask(39, at(1)).unwrap();
        assert_eq!((asked, whereabouts.take(1400)), (place(2), Some(place(1))));
        whereabouts.note_newest(place(1), 100);
        whereabouts.handle_answer(second);
        assert_eq!(whereabouts.take(1400), Some(place(1)), "it was too late");
        // A router that gives it another port.
        whereabouts.note_newest(place(3), 100);
        let (_, third) = whereabouts.ask(39, at(2)).unwrap();
        assert!(third != second && third != first);
        whereabouts.handle_answer(third);
        assert_eq!((whereabouts.take(1400), whereabouts.place()), (Some(place(3)), Some(place(3))));
    }

    /// A router that sends by two addresses in turn, or somebody who is faster with each second datagram:
    /// the answer comes when the other address has been heard again.
    #[test]
    fn addresses_in_turn_are_asked_each() {
        for ports in [2, 4] {
            let (mut whereabouts, mut asked) = (Whereabouts::default(), Vec::new());
            for n in 0..8_u16 {
                whereabouts.note_newest(place(n % ports), 100);
                asked.extend(whereabouts.ask(39, at(10 * u64::from(n))));
            }
            assert_eq!(asked.len(), usize::from(ports), "each once: {asked:?}");
            assert_eq!(whereabouts.take(100), Some(place(7 % ports)), "as long as nobody knows");
            let (first, id) = asked[0];
            whereabouts.handle_answer(id);
            assert_eq!((first, whereabouts.take(1 << 30)), (place(0), Some(place(0))));
            // The others are still to answer, and may, as long as the first is not heard again.
            whereabouts.note_newest(place(1), 100);
            whereabouts.handle_answer(asked[1].1);
            assert_eq!(whereabouts.take(1 << 30), Some(place(1)));
        }
    }

    #[test]
    fn no_more_addresses_are_remembered_than_may_be_and_the_oldest_is_forgotten() {
        let mut whereabouts = Whereabouts::default();
        let mut ids = Vec::new();
        for n in 0..1000_u16 {
            whereabouts.note_newest(place(n), 1000);
            ids.push(whereabouts.ask(39, at(0)).unwrap().1);
            assert!(whereabouts.candidates.len() <= MOST_CANDIDATES);
        }
        // No address is sent what is owed to another.
        let sent = std::iter::from_fn(|| whereabouts.take(1400)).take(100).count();
        assert_eq!(sent, 2 * MOST_CANDIDATES);
        whereabouts.handle_answer(ids[1000 - MOST_CANDIDATES - 1]);
        assert_eq!(whereabouts.proven, None, "it is forgotten");
        whereabouts.handle_answer(ids[1000 - MOST_CANDIDATES]);
        assert_eq!(whereabouts.place(), Some(place(1000 - MOST_CANDIDATES as u16)));
    }
}
