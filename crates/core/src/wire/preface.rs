//! What an unknown peer says first.

use bytes::BytesMut;

use super::{Preamble, Record, WireError};

/// Reads what an unknown peer says first, its preamble and one record, from pieces as they come.
#[derive(Debug, Default)]
pub struct Preface {
    input: BytesMut,
    preamble: Option<Preamble>,
    received: usize,
}

impl Preface {
    /// The most bytes that a peer may say before its first record is there. Only with records that
    /// may be skipped can it go on for so long.
    pub const MAX_BYTES: usize = 4 << 10;

    /// Takes what has come.
    pub fn take(&mut self, bytes: &[u8]) {
        self.received += bytes.len();
        self.input.extend_from_slice(bytes);
    }

    /// The peer's first record; `Ok(None)` while more bytes are needed.
    ///
    /// # Errors
    ///
    /// If the peer speaks another protocol or version, sends a broken record, or goes on for too
    /// long.
    pub fn poll(&mut self) -> Result<Option<Record>, WireError> {
        if self.preamble.is_none() {
            self.preamble = Preamble::decode(&mut self.input)?;
        }
        if self.preamble.is_some()
            && let Some(record) = Record::decode_handshake(&mut self.input)?
        {
            return Ok(Some(record));
        }
        match self.received {
            ..Self::MAX_BYTES => Ok(None),
            _ => Err(WireError::Unexpected("hello or join")),
        }
    }

    /// The first byte that has not been understood yet.
    pub fn first(&self) -> Option<u8> {
        self.input.first().copied()
    }

    /// What has come after the first record.
    pub fn into_rest(self) -> BytesMut {
        self.input
    }
}
