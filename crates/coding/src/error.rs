//! Why a packet is not taken into a generation.

/// Why a packet was not taken into a generation; the generation is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerationError {
    /// A combination of no packets has no meaning.
    #[error("a combination without the generation's size; only systematic packets may lack it")]
    Combination,
    /// No room for another packet.
    #[error("the generation is full with {0} packets; begin another one")]
    Full(u8),
    /// A systematic packet that is not in the generation.
    #[error("packet {index} of a generation of {size}")]
    Index {
        /// The packet's index, from 0.
        index: u8,
        /// The generation's size, or the most it may be.
        size: u8,
    },
    /// More bytes than a packet may have.
    #[error("{bytes} bytes, more than the {max} allowed; raise the limit at every node")]
    Long {
        /// Bytes there are.
        bytes: usize,
        /// The most bytes there may be.
        max: usize,
    },
    /// A combination shorter than the length of a packet.
    #[error("a combination of {0} bytes, too short for any packet")]
    Short(usize),
    /// A size beyond the limit, or another one than before.
    #[error("a generation of {size} packets where {allowed} are allowed")]
    Size {
        /// The size that the packet states.
        size: u8,
        /// The size known before, or the most it may be.
        allowed: u8,
    },
    /// A vector that has not one coefficient for each packet.
    #[error("{coefficients} coefficients for a generation of {size} packets")]
    Vector {
        /// Coefficients there are.
        coefficients: usize,
        /// The generation's size.
        size: u8,
    },
}
