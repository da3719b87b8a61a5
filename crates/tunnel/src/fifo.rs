//! A queue of packets, for links without coding.

use std::collections::VecDeque;

use crate::class::Class;

/// Packets that wait, each with its number and class, the oldest first.
#[derive(Debug)]
pub(crate) struct Fifo {
    packets: VecDeque<(u32, Class, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    most: usize,
    /// Packets taken, and those for which there was no room.
    pub(crate) taken: u64,
    pub(crate) full: u64,
}

impl Fifo {
    /// For so many packets.
    pub(crate) fn new(most: usize) -> Self {
        Self { packets: VecDeque::new(), spare: Vec::new(), most, taken: 0, full: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Drops all that waits; how many packets that were.
    pub(crate) fn clear(&mut self) -> usize {
        let dropped = self.packets.len();
        self.packets.clear();
        dropped
    }

    /// Takes a packet; whether there was room.
    pub(crate) fn push(&mut self, number: u32, class: Class, packet: &[u8]) -> bool {
        if self.packets.len() >= self.most {
            self.full += 1;
            return false;
        }
        self.taken += 1;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(packet);
        self.packets.push_back((number, class, copy));
        true
    }

    /// Hands the oldest out; its class, if there was one.
    pub(crate) fn pop(&mut self, each: impl FnOnce(u32, &[u8])) -> Option<Class> {
        let (number, class, packet) = self.packets.pop_front()?;
        each(number, &packet);
        self.spare.push(packet);
        Some(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_and_bounded() {
        let mut fifo = Fifo::new(2);
        assert!(fifo.push(3, Class(2), b"a") && fifo.push(5, Class::NONE, b"bb"));
        assert!(!fifo.push(6, Class::NONE, b"c"));
        let (mut out, mut classes) = (Vec::new(), Vec::new());
        while let Some(class) = fifo.pop(|number, packet| out.push((number, packet.to_vec()))) {
            classes.push(class.0);
        }
        assert_eq!(out, [(3, b"a".to_vec()), (5, b"bb".to_vec())]);
        assert_eq!(classes, [2, 0]);
        assert_eq!((fifo.taken, fifo.full, fifo.is_empty()), (2, 1, true));
    }
}
