//! The encoder: the packets of a generation, as they are and combined.

use crate::coefficients;
use crate::generation::{GenerationError, Limits, MAX_PACKETS, RowStore};
use crate::kernels::Kernel;

/// Combinations that are computed in one pass over the sources.
const MOST_SEEDS: usize = 4;

/// A generation at the gateway, which has all of its packets.
///
/// It grows packet by packet; whoever combines before the last one has come says the size as it is
/// then, and may not let it grow after.
#[derive(Clone, Debug)]
pub struct Encoder {
    limits: Limits,
    kernel: Kernel,
    rows: RowStore,
}

impl Encoder {
    /// An empty generation.
    pub fn new(limits: Limits, kernel: Kernel) -> Self {
        Self { limits, kernel, rows: RowStore::new(limits.row_bytes()) }
    }

    /// Begins another generation in the same memory.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Adds a packet; its index.
    ///
    /// # Errors
    ///
    /// If the generation is full or the packet too long.
    pub fn push(&mut self, packet: &[u8]) -> Result<u8, GenerationError> {
        let (index, max) = (self.size(), usize::from(self.limits.packet_bytes));
        if index >= self.limits.packets {
            return Err(GenerationError::Full(index));
        }
        if packet.len() > max {
            return Err(GenerationError::Long { bytes: packet.len(), max });
        }
        self.rows.push_packet(packet);
        Ok(index)
    }

    /// Packets in the generation so far, n.
    pub fn size(&self) -> u8 {
        u8::try_from(self.rows.len()).expect("limited by a byte in push")
    }

    /// Whether there is no packet.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Whether no other packet fits.
    pub fn is_full(&self) -> bool {
        self.size() >= self.limits.packets
    }

    /// A packet as it is: the payload of [`Coding::Systematic`](crate::Coding::Systematic).
    pub fn packet(&self, index: u8) -> Option<&[u8]> {
        let index = usize::from(index);
        (index < self.rows.len()).then(|| self.rows.packet(index))
    }

    /// Bytes of every combination: two more than the longest packet has.
    pub fn combined_bytes(&self) -> usize {
        self.rows.longest()
    }

    /// Appends the payload of [`Coding::Seed`](crate::Coding::Seed) to `out`.
    pub fn append_seeded(&self, seed: u32, out: &mut Vec<u8>) {
        let mut vector = [0; 255];
        let vector = &mut vector[..self.rows.len()];
        coefficients::from_seed(seed, vector);
        self.append_combined(vector, out);
    }

    /// Appends the payloads of [`Coding::Seed`](crate::Coding::Seed) for several seeds to `out`, which
    /// takes less time than one by one: each source is read once for all. Payload i is
    /// [`Self::combined_bytes`] bytes, i times the result after where `out` ended.
    pub fn append_seeded_all(&self, seeds: &[u32], out: &mut Vec<u8>) -> usize {
        let (start, stride) = (out.len(), self.rows.padded());
        let mut matrix = [0; MOST_SEEDS * MAX_PACKETS as usize];
        let packets = self.rows.len();
        out.resize(start + seeds.len() * stride, 0);
        if packets == 0 {
            return stride;
        }
        let outputs = out[start..].chunks_mut(MOST_SEEDS * stride);
        for (seeds, outputs) in seeds.chunks(MOST_SEEDS).zip(outputs) {
            let matrix = &mut matrix[..seeds.len() * packets];
            for (&seed, vector) in seeds.iter().zip(matrix.chunks_mut(packets)) {
                coefficients::from_seed(seed, vector);
            }
            let matrix = (&*matrix, packets);
            self.kernel.multiply(outputs, stride, matrix, self.rows.bytes(), self.rows.stride());
        }
        stride
    }

    /// Appends the payload of [`Coding::Vector`](crate::Coding::Vector) to `out`.
    ///
    /// # Panics
    ///
    /// If there is not one coefficient for each packet.
    pub fn append_combined(&self, vector: &[u8], out: &mut Vec<u8>) {
        assert_eq!(vector.len(), self.rows.len(), "each packet has a coefficient");
        append_combined(&self.rows, self.kernel, vector, out);
    }
}

/// Appends Σ vector[i] · rows[i], as long as the longest row, to `out`.
pub(crate) fn append_combined(rows: &RowStore, kernel: Kernel, vector: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    // Whole vectors are faster than the rest of a row one by one.
    out.resize(start + rows.padded(), 0);
    kernel.combine(&mut out[start..], vector, rows.bytes(), rows.stride());
    out.truncate(start + rows.longest());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gf256::mul;

    #[test]
    fn combinations_are_sums_of_rows() {
        let limits = Limits { packets: 3, packet_bytes: 5 };
        let mut encoder = Encoder::new(limits, Kernel::best());
        assert!(encoder.is_empty());
        assert_eq!(encoder.push(&[7, 8]), Ok(0));
        assert_eq!(encoder.push(&[1, 2, 3, 4]), Ok(1));
        assert_eq!(encoder.combined_bytes(), 6);
        let mut out = vec![0xee];
        encoder.append_combined(&[5, 9], &mut out);
        let sum = |a, b| mul(5, a) ^ mul(9, b);
        let wanted = [0, sum(2, 4), sum(7, 1), sum(8, 2), sum(0, 3), sum(0, 4)];
        assert_eq!(out[0], 0xee, "what was there stays");
        assert_eq!(out[1..], wanted);
        assert_eq!(encoder.packet(1), Some(&[1, 2, 3, 4][..]));
        assert_eq!(encoder.packet(2), None);
    }

    #[test]
    fn several_at_once_are_the_same() {
        let mut encoder = Encoder::new(Limits { packets: 9, packet_bytes: 99 }, Kernel::best());
        let mut out = Vec::new();
        assert_eq!(encoder.append_seeded_all(&[1, 2], &mut out), 0);
        for n in 1..=if cfg!(miri) { 2 } else { 9 } {
            encoder.push(&vec![n; 11 * usize::from(n)]).unwrap();
            for seeds in [&[5][..], &[5, 6, 7, 8], &[1, 2, 3, 4, 5, 6, 7]] {
                let mut out = vec![0xee; 3];
                let stride = encoder.append_seeded_all(seeds, &mut out);
                for (i, &seed) in seeds.iter().enumerate() {
                    let mut one = Vec::new();
                    encoder.append_seeded(seed, &mut one);
                    assert_eq!(out[3 + i * stride..][..encoder.combined_bytes()], one);
                }
            }
        }
    }

    #[test]
    fn limits_hold() {
        let limits = Limits { packets: 2, packet_bytes: 5 };
        let mut encoder = Encoder::new(limits, Kernel::best());
        assert_eq!(encoder.push(&[0; 6]), Err(GenerationError::Long { bytes: 6, max: 5 }));
        assert_eq!((encoder.push(&[0; 5]), encoder.push(&[])), (Ok(0), Ok(1)));
        assert!(encoder.is_full());
        assert_eq!(encoder.push(&[]), Err(GenerationError::Full(2)));
        encoder.clear();
        assert_eq!((encoder.size(), encoder.combined_bytes(), encoder.packet(0)), (0, 0, None));
        let mut out = Vec::new();
        encoder.append_seeded(1, &mut out);
        assert_eq!(out, []);
    }
}
