//! Netlink messages (netlink(7)): headers and attributes, written and read.

/// Length of a message's header.
pub(crate) const HEADER: usize = 16;
/// Where a message's number stands in it.
const SEQUENCE: usize = 8;
/// Everything begins at a multiple of this.
const ALIGN: usize = 4;
/// The bits of an attribute's type that name it; the others are flags.
const TYPE_MASK: u16 = 0x3fff;
/// Flag of an attribute that holds attributes.
const NESTED: u16 = 0x8000;

/// Flags of requests.
pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const ACK: u16 = 0x4;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const EXCL: u16 = 0x200;
pub(crate) const APPEND: u16 = 0x800;

/// Flag of an answer: what is listed has changed since the list began.
pub(crate) const CHANGED: u16 = 0x10;

/// One message after another, as they go to the kernel.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    /// Where the message under way begins.
    start: usize,
    /// How many of them ask for an answer.
    acks: usize,
}

impl Builder {
    /// Begins a message with its family's own `header`, and ends the one before.
    pub(crate) fn message(&mut self, kind: u16, flags: u16, header: &[u8]) -> &mut Self {
        self.start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        // The sequence, which `finish` fills in, and the port, which the kernel knows.
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(header);
        self.acks += usize::from(flags & ACK != 0);
        self.close(self.start, 4);
        self
    }

    /// Adds an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.close(at, 2);
        self.close(self.start, 4);
        self
    }

    /// Adds an attribute with the text and a terminating zero.
    pub(crate) fn text(&mut self, kind: u16, text: &str) -> &mut Self {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute that holds those that `fill` adds.
    pub(crate) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        fill(self);
        self.close(at, 2);
        self.close(self.start, 4);
        self
    }

    /// Writes the length of what began at `at`, and fills up to where the next one may begin.
    fn close(&mut self, at: usize, width: usize) {
        let length = self.bytes.len() - at;
        let written = match width {
            // Attributes here have some hundred bytes at most; messages are our own.
            2 => u16::try_from(length).expect("short attributes").to_ne_bytes().to_vec(),
            _ => u32::try_from(length).expect("short messages").to_ne_bytes().to_vec(),
        };
        self.bytes[at..at + width].copy_from_slice(&written);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }

    /// All messages, each with this number, which its answer has, too; and how many answers there
    /// will be.
    pub(crate) fn finish(mut self, sequence: u32) -> (Vec<u8>, usize) {
        let mut at = 0;
        while let Some(length) = u32_at(&self.bytes, at).and_then(|one| usize::try_from(one).ok()) {
            self.bytes[at + SEQUENCE..at + SEQUENCE + 4].copy_from_slice(&sequence.to_ne_bytes());
            at += length.next_multiple_of(ALIGN);
        }
        (self.bytes, self.acks)
    }
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    /// The number of the request that it answers.
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// The messages in what was received, to the first that is cut off.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let (kind, flags) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
        let sequence = u32_at(bytes, SEQUENCE)?;
        let payload = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some(Message { kind, flags, sequence, payload })
    })
}

/// The attributes in a payload: type and value of each, to the first that is cut off.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The number at `at`, in this machine's order of bytes.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number at `at`, in this machine's order of bytes.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The text of an attribute, up to its terminating zero.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let mut builder = Builder::default();
        builder.message(16, ACK, &[7; 4]).text(3, "wlan0").nest(18, |inner| {
            inner.attribute(1, &[1, 2, 3]);
        });
        builder.message(17, 0, &[]).attribute(1, &[9]);
        let (bytes, acks) = builder.finish(7);
        assert_eq!(acks, 1);
        let found: Vec<_> = messages(&bytes).collect();
        assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [16, 17]);
        assert!(found.iter().all(|one| one.sequence == 7), "{found:?}");
        let inner: Vec<_> = attributes(&found[0].payload[4..]).collect();
        assert_eq!((inner[0].0, text(inner[0].1)), (3, "wlan0".to_owned()));
        assert_eq!(attributes(inner[1].1).collect::<Vec<_>>(), [(1, &[1, 2, 3][..])]);
        assert_eq!(attributes(found[1].payload).collect::<Vec<_>>(), [(1, &[9][..])]);
    }

    proptest! {
        #[test]
        fn anything_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(messages(&bytes).count() <= bytes.len() / HEADER);
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
        }
    }
}
