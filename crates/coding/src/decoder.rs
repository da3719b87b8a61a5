//! The decoder: from any n independent packets of a generation back to its n packets.
//!
//! Coefficients are solved as packets come (Gauss–Jordan), each row carrying along of which
//! received payloads it is made. Payload is only stored: when packets are determined, each is one
//! fused pass over what it is made of. So a packet that adds nothing costs no payload work, and
//! the output is written once instead of once for each coefficient.

use crate::coefficients::Coding;
use crate::echelon::Echelon;
use crate::generation::{
    GenerationError, LENGTH_BYTES, Limits, MAX_PACKETS, RowStore, Shape, Verdict, packet_of,
};
use crate::kernels::Kernel;

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere yet.
    Missing,
    /// In this row of what was received.
    Received(usize),
    /// In this row of what was computed.
    Recovered(usize),
    /// Computed, and no packet: what was combined does not belong together.
    Corrupt,
}

/// A generation at the device.
///
/// [`receive`](Self::receive) takes packets in any order; [`recover`](Self::recover) computes what
/// has become known, and [`packet`](Self::packet) hands packets out: those that came as they are
/// at once, the others when they are determined, all of them at full rank. A packet that is not
/// determined is never handed out.
#[derive(Clone, Debug)]
pub struct Decoder {
    kernel: Kernel,
    shape: Shape,
    /// What has come and raised the rank.
    received: RowStore,
    recovered: RowStore,
    places: Vec<Place>,
    /// Coefficients, and of which received rows each row is made; unused until a combination comes.
    matrix: Echelon,
    solving: bool,
    /// The rank at the last recovery.
    recovered_rank: usize,
    /// Rows of the matrix that are to be computed, and the packets they give.
    solved: Vec<(usize, usize)>,
    /// What those rows are made of.
    weights: Vec<u8>,
}

impl Decoder {
    /// A generation of which nothing has come.
    pub fn new(limits: Limits, kernel: Kernel) -> Self {
        Self {
            kernel,
            shape: Shape::new(limits),
            received: RowStore::new(limits.row_bytes()),
            recovered: RowStore::new(limits.row_bytes()),
            places: vec![Place::Missing; usize::from(limits.packets)],
            matrix: Echelon::new(0, 0, kernel),
            solving: false,
            recovered_rank: 0,
            solved: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Begins another generation in the same memory.
    pub fn clear(&mut self) {
        self.shape.clear();
        self.received.clear();
        self.recovered.clear();
        self.places.fill(Place::Missing);
        self.solving = false;
        self.recovered_rank = 0;
    }

    /// Takes a packet of the generation, of `size` packets; a systematic packet may come with 0
    /// for "not known yet".
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
        if self.is_complete() {
            return Ok(Verdict::Redundant);
        }
        let innovative = match coding {
            Coding::Systematic(index) if !self.solving => {
                self.places[usize::from(index)] == Place::Missing
            }
            coding => self.solve(coding)?,
        };
        if !innovative {
            return Ok(Verdict::Redundant);
        }
        if let Coding::Systematic(index) = coding {
            self.places[usize::from(index)] = Place::Received(self.received.len());
            self.received.push_packet(payload);
        } else {
            self.received.push([&[], payload]);
        }
        Ok(Verdict::Innovative)
    }

    /// Puts the coefficients of the next row into the matrix, if they raise the rank.
    fn solve(&mut self, coding: Coding<'_>) -> Result<bool, GenerationError> {
        let size = usize::from(self.size());
        if !self.solving {
            self.solving = true;
            self.matrix.reset(size, size);
            for row in 0..self.received.len() {
                let own = self.places.iter().position(|&place| place == Place::Received(row));
                let index = own.expect("without combinations every row is a packet");
                self.insert(Coding::Systematic(index as u8), row)?;
            }
        }
        self.insert(coding, self.received.len())
    }

    /// Adds the equation of a received row.
    fn insert(&mut self, coding: Coding<'_>, row: usize) -> Result<bool, GenerationError> {
        let size = usize::from(self.size());
        let mut equation = [0; 2 * MAX_PACKETS as usize];
        let (coefficients, made_of) = equation[..2 * size].split_at_mut(size);
        coding.expand(coefficients)?;
        made_of[row] = 1;
        Ok(self.matrix.insert([coefficients, made_of]))
    }

    /// Computes the packets that are determined and not yet there; how many.
    pub fn recover(&mut self) -> usize {
        if !self.solving || self.recovered_rank == self.rank() {
            return 0;
        }
        self.recovered_rank = self.rank();
        let first = self.recovered.len();
        self.solved.clear();
        for (row, index) in self.matrix.solved() {
            if self.places[index] == Place::Missing {
                self.solved.push((row, index));
                self.recovered.push([&[], &[]]);
            }
        }
        self.compute(first);
        let mut count = 0;
        for (row, &(_, index)) in (first..).zip(&self.solved) {
            let computed = &self.recovered.row(row)[..self.received.longest()];
            self.places[index] = match packet_of(computed).map(<[u8]>::len) {
                Some(len) => {
                    self.recovered.set_length(row, LENGTH_BYTES + len);
                    count += 1;
                    Place::Recovered(row)
                }
                None => Place::Corrupt,
            };
        }
        count
    }

    /// Computes the rows from `first` on, all in one pass over what was received.
    fn compute(&mut self, first: usize) {
        let (stride, len) = (self.received.stride(), self.received.padded());
        self.weights.clear();
        for &(row, _) in &self.solved {
            let made_of = &self.matrix.carried(row)[..self.received.len()];
            self.weights.extend_from_slice(made_of);
        }
        let Some(last) = self.solved.len().checked_sub(1) else { return };
        let recovered = &mut self.recovered.bytes_mut()[first * stride..][..last * stride + len];
        let matrix = (&self.weights[..], self.received.len());
        self.kernel.multiply(recovered, stride, matrix, self.received.bytes(), stride);
    }

    /// A packet of the generation, if it came as it is or was recovered.
    pub fn packet(&self, index: u8) -> Option<&[u8]> {
        match *self.places.get(usize::from(index))? {
            Place::Received(row) => Some(self.received.packet(row)),
            Place::Recovered(row) => Some(self.recovered.packet(row)),
            Place::Missing | Place::Corrupt => None,
        }
    }

    /// Whether a packet was computed from combinations.
    pub fn is_computed(&self, index: u8) -> bool {
        let place = self.places.get(usize::from(index));
        place.is_some_and(|place| matches!(place, Place::Recovered(_)))
    }

    /// The generation's packets; 0 while not known.
    pub fn size(&self) -> u8 {
        self.shape.size()
    }

    /// Independent packets received.
    pub fn rank(&self) -> usize {
        self.received.len()
    }

    /// Whether every packet is determined.
    pub fn is_complete(&self) -> bool {
        self.size() > 0 && self.rank() == usize::from(self.size())
    }

    /// Packets that were computed and turned out to be none: somebody combined what does not belong
    /// together, or changed it on the way.
    pub fn corrupt_packets(&self) -> usize {
        self.places.iter().filter(|&&place| place == Place::Corrupt).count()
    }
}
