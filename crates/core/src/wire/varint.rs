//! Variable-length integers, RFC 9000 §16: the two high bits of the first byte give the length.

use bytes::BufMut;

/// The largest number a varint holds, 2^62 − 1.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Appends `value`, which must be at most [`VARINT_MAX`].
pub(crate) fn put(out: &mut impl BufMut, value: u64) {
    match value {
        0..=0x3f => out.put_u8(value as u8),
        0x40..=0x3fff => out.put_u16(0x4000 | value as u16),
        0x4000..=0x3fff_ffff => out.put_u32(0x8000_0000 | value as u32),
        _ => {
            assert!(value <= VARINT_MAX, "numbers on the wire have at most 62 bits");
            out.put_u64(0xc000_0000_0000_0000 | value);
        }
    }
}

/// Bytes that `value` takes.
pub(crate) const fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Reads numbers and byte strings off the front of a slice; every read is `None` past its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let &first = self.0.first()?;
        let len = 1 << (first >> 6);
        let bytes = self.take(len)?;
        Some(bytes[1..].iter().fold(u64::from(first & 0x3f), |n, &b| (n << 8) | u64::from(b)))
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A length-prefixed byte string of at most `max` bytes.
    pub(crate) fn bytes(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok().filter(|&len| len <= max)?;
        self.take(len)
    }

    /// A length-prefixed UTF-8 string of at most `max` bytes.
    pub(crate) fn text(&mut self, max: usize) -> Option<String> {
        String::from_utf8(self.bytes(max)?.to_vec()).ok()
    }
}

/// Appends a length-prefixed byte string.
pub(crate) fn put_bytes(out: &mut impl BufMut, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.put_slice(bytes);
}
