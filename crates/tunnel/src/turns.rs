//! Deficit round robin (Shreedhar and Varghese 1995) among members that share a link: each member with
//! something to send gets equal bytes.

/// Bytes that one may send before the next has its turn: the longest datagram. Some in a row leave in
/// one system call.
const QUANTUM: i64 = 9216;

/// The state of the round robin.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    at: usize,
    /// What each may still send in its turn; below zero, what it has sent too much.
    credit: Vec<i64>,
}

impl Turns {
    /// A round robin of so many members.
    pub(crate) fn new(members: usize) -> Self {
        Self { at: 0, credit: vec![0; members] }
    }

    /// Lets the next member send: `take` returns how many bytes it sent, or `None` if it has nothing to
    /// send, or no room. Returns that member.
    pub(crate) fn next(&mut self, mut take: impl FnMut(usize) -> Option<usize>) -> Option<usize> {
        let members = self.credit.len();
        // Once round, and once more to the first member, which may have used up its credit.
        for _ in 0..=members {
            let credit = self.credit.get_mut(self.at)?;
            if *credit > 0 {
                if let Some(bytes) = take(self.at) {
                    *credit -= bytes as i64;
                    return Some(self.at);
                }
                // Nobody saves a turn.
                *credit = 0;
            }
            self.at = (self.at + 1) % members;
            self.credit[self.at] += QUANTUM;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that each gets of so many datagrams; `lengths` are those of each one's, 0: it has none.
    fn share<const N: usize>(
        turns: &mut Turns,
        lengths: [usize; N],
        datagrams: usize,
    ) -> [usize; N] {
        let mut sent = [0; N];
        for _ in 0..datagrams {
            let who = turns.next(|who| Some(lengths[who]).filter(|&length| length > 0));
            if let Some(who) = who {
                sent[who] += lengths[who];
            }
        }
        sent
    }

    #[test]
    fn bytes_are_shared_whatever_the_datagrams() {
        let mut turns = Turns::new(4);
        let sent = share(&mut turns, [1500, 80, 0, 9216], 100_000);
        let most = sent[0].max(sent[1]).max(sent[3]);
        assert_eq!(sent[2], 0);
        for who in [0, 1, 3] {
            assert!(most - sent[who] <= 2 * QUANTUM as usize, "{sent:?}");
        }
    }

    #[test]
    fn one_alone_has_all_and_nobody_saves_turns() {
        let mut turns = Turns::new(3);
        assert_eq!(share(&mut turns, [0, 1500, 0], 1000), [0, 1_500_000, 0]);
        assert_eq!(share(&mut turns, [0, 0, 0], 10), [0; 3]);
        let sent = share(&mut turns, [1500, 1500, 0], 1000);
        assert!(sent[0].abs_diff(sent[1]) <= 2 * QUANTUM as usize, "{sent:?}");
        assert_eq!(share(&mut Turns::new(1), [700], 100), [70_000]);
        assert_eq!(Turns::new(0).next(|_| Some(1)), None);
    }
}
