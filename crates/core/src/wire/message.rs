//! What is said about messages: their headers, their cancellation and its outcome.

use bytes::BufMut;

use super::VARINT_MAX;
use super::varint::{self, Reader};

/// The header of a message of the stream, sent on each subflow before the first of its bytes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// The offset of its first byte in the stream.
    pub offset: u64,
    /// Its bytes; at least one.
    pub len: u64,
    /// What the application calls it.
    pub tag: u64,
}

/// Drops a message: all its offsets count as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The cancels of a direction are numbered from 0.
    pub number: u64,
    /// The oldest number whose delivery status the sender does not know; at most `number`.
    pub oldest: u64,
    /// Whether a deadline was the reason, rather than the application.
    pub expired: bool,
    /// The message.
    pub message: MessageHeader,
}

/// Answers a [`Cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// The cancel's number.
    pub number: u64,
    /// Whether the message had arrived whole before the cancel.
    pub delivered: bool,
}

impl MessageHeader {
    /// One past its last offset.
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }

    pub(super) fn put(&self, out: &mut impl BufMut) {
        varint::put(out, self.offset);
        varint::put(out, self.len);
        varint::put(out, self.tag);
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        let header = Self { offset: body.varint()?, len: body.varint()?, tag: body.varint()? };
        // Both are below 2^62, so that the sum cannot overflow.
        (header.len > 0 && header.end() <= VARINT_MAX).then_some(header)
    }
}

impl Cancel {
    pub(super) fn put(&self, out: &mut impl BufMut) {
        varint::put(out, self.number);
        varint::put(out, self.oldest);
        varint::put(out, u64::from(self.expired));
        self.message.put(out);
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        let (number, oldest) = (body.varint()?, body.varint()?);
        let expired = body.varint()? == 1;
        let message = MessageHeader::read(body)?;
        (oldest <= number).then_some(Self { number, oldest, expired, message })
    }
}

impl DeliveryStatus {
    pub(super) fn put(&self, out: &mut impl BufMut) {
        varint::put(out, self.number);
        varint::put(out, u64::from(self.delivered));
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        Some(Self { number: body.varint()?, delivered: body.varint()? == 1 })
    }
}
