//! The recoder: an access point's part, which combines anew what it has received.

use weftline_core::rng::Rng;

use crate::coefficients::{self, Coding};
use crate::echelon::Echelon;
use crate::encoder::append_combined;
use crate::generation::{GenerationError, Limits, MAX_PACKETS, RowStore, Shape, Verdict};
use crate::kernels::Kernel;

/// How a received packet was coded; its vector is kept apart.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Seed(u32),
    Systematic(u8),
    Vector,
}

/// A generation at an access point.
///
/// It keeps what raised the rank, numbered from 0 in the order of arrival, to be sent on as it came
/// or in new combinations (*taking*, COTAG Algorithm 2), and the span of what was sent, so that a
/// packet goes out only if it adds to that.
#[derive(Clone, Debug)]
pub struct Recoder {
    limits: Limits,
    kernel: Kernel,
    shape: Shape,
    rows: RowStore,
    origins: Vec<Origin>,
    /// The coefficients of each row, one for each packet that a generation may have.
    vectors: RowStore,
    received: Echelon,
    sent: Echelon,
    weights: Vec<u8>,
    mixed: Vec<u8>,
}

impl Recoder {
    /// A generation of which nothing has come.
    pub fn new(limits: Limits, kernel: Kernel) -> Self {
        let width = usize::from(limits.packets);
        Self {
            limits,
            kernel,
            shape: Shape::new(limits),
            rows: RowStore::new(limits.row_bytes()),
            origins: Vec::new(),
            vectors: RowStore::new(width),
            received: Echelon::new(width, 0, kernel),
            sent: Echelon::new(width, 0, kernel),
            weights: Vec::new(),
            mixed: Vec::new(),
        }
    }

    /// Begins another generation in the same memory.
    pub fn clear(&mut self) {
        let width = usize::from(self.limits.packets);
        self.shape.clear();
        self.rows.clear();
        self.origins.clear();
        self.vectors.clear();
        self.received.reset(width, 0);
        self.sent.reset(width, 0);
    }

    /// Takes a packet of the generation, of `size` packets (0 in a systematic packet: not known
    /// yet). A redundant one is not kept.
    ///
    /// # Errors
    ///
    /// If the packet contradicts the limits, itself, or the generation so far.
    pub fn receive(
        &mut self,
        size: u8,
        coding: Coding<'_>,
        payload: &[u8],
    ) -> Result<Verdict, GenerationError> {
        self.shape.take(size, coding, payload)?;
        let mut vector = [0; MAX_PACKETS as usize];
        let vector = &mut vector[..usize::from(self.limits.packets)];
        // Beyond the generation's size coefficients stay zero.
        let used = if self.size() > 0 { usize::from(self.size()) } else { vector.len() };
        coding.expand(&mut vector[..used])?;
        if !self.received.insert([vector, &[]]) {
            return Ok(Verdict::Redundant);
        }
        self.vectors.push([vector, &[]]);
        self.origins.push(match coding {
            Coding::Seed(seed) => Origin::Seed(seed),
            Coding::Systematic(index) => Origin::Systematic(index),
            Coding::Vector(_) => Origin::Vector,
        });
        if let Coding::Systematic(_) = coding {
            self.rows.push_packet(payload);
        } else {
            self.rows.push([&[], payload]);
        }
        Ok(Verdict::Innovative)
    }

    /// Gives a kept packet away, to make room for another (*giving*, COTAG Algorithm 2); the numbers
    /// of those after it go down by one. What was sent stays sent.
    ///
    /// # Panics
    ///
    /// If there is no packet of that number.
    pub fn remove(&mut self, number: usize) {
        self.rows.remove(number);
        self.vectors.remove(number);
        self.origins.remove(number);
        self.received.reset(usize::from(self.limits.packets), 0);
        for row in 0..self.vectors.len() {
            let adds = self.received.insert([self.vectors.content(row), &[]]);
            debug_assert!(adds, "kept packets are independent");
        }
    }

    /// The generation's packets; 0 while not known.
    pub fn size(&self) -> u8 {
        self.shape.size()
    }

    /// Packets kept, all independent.
    pub fn rank(&self) -> usize {
        self.rows.len()
    }

    /// The rank of what was sent.
    pub fn sent_rank(&self) -> usize {
        self.sent.rank()
    }

    /// A kept packet as it came.
    pub fn packet(&self, number: usize) -> Option<(Coding<'_>, &[u8])> {
        Some(match *self.origins.get(number)? {
            Origin::Seed(seed) => (Coding::Seed(seed), self.rows.content(number)),
            Origin::Systematic(index) => (Coding::Systematic(index), self.rows.packet(number)),
            Origin::Vector => {
                let vector = &self.vectors.row(number)[..usize::from(self.size())];
                (Coding::Vector(vector), self.rows.content(number))
            }
        })
    }

    /// Whether a kept packet would raise the rank of what was sent.
    ///
    /// # Panics
    ///
    /// If there is no packet of that number.
    pub fn adds_to_sent(&mut self, number: usize) -> bool {
        assert!(number < self.rank(), "only packets that are kept are sent");
        self.sent.adds_rank([self.vectors.row(number), &[]])
    }

    /// Counts a kept packet as sent; whether it raised the rank of what was sent.
    ///
    /// # Panics
    ///
    /// If there is no packet of that number.
    pub fn mark_sent(&mut self, number: usize) -> bool {
        assert!(number < self.rank(), "only packets that are kept are sent");
        self.sent.insert([self.vectors.row(number), &[]])
    }

    /// Combines everything kept anew and counts that as sent; `None` if nothing is kept or the
    /// generation's size is not known.
    pub fn recode(&mut self, rng: &mut Rng) -> Option<Recoded<'_>> {
        if self.size() == 0 || self.rank() == 0 {
            return None;
        }
        self.weights.resize(self.rank(), 0);
        coefficients::draw(rng, &mut self.weights);
        self.mixed.clear();
        append_combined(&self.vectors, self.kernel, &self.weights, &mut self.mixed);
        let raises_sent = self.sent.insert([&self.mixed, &[]]);
        let vector = &self.mixed[..usize::from(self.size())];
        Some(Recoded { recoder: self, vector, raises_sent })
    }
}

/// A new combination of what a [`Recoder`] keeps.
#[derive(Clone, Copy, Debug)]
pub struct Recoded<'a> {
    recoder: &'a Recoder,
    vector: &'a [u8],
    raises_sent: bool,
}

impl Recoded<'_> {
    /// Its coefficients in terms of the generation's packets, for [`Coding::Vector`].
    pub fn vector(&self) -> &[u8] {
        self.vector
    }

    /// Whether it raised the rank of what was sent.
    pub fn raises_sent(&self) -> bool {
        self.raises_sent
    }

    /// Appends its payload to `out`.
    pub fn append_payload(&self, out: &mut Vec<u8>) {
        let Recoder { rows, kernel, weights, .. } = self.recoder;
        append_combined(rows, *kernel, weights, out);
    }
}
