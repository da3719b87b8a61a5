//! Records: everything said on a subflow after the preamble.

use std::ops::Range;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::handshake::{Hello, HelloReply, Join, JoinReply, Refusal};
use super::message::{Cancel, DeliveryStatus, MessageHeader};
use super::policy::PolicyChange;
use super::varint::{self, Reader};
use super::{
    MAX_ACK_RANGES, MAX_BODY, MAX_HANDSHAKE_BODY, MAX_PAYLOAD, MAX_SUBFLOW_ACKS, VARINT_MAX,
    WireError,
};

/// Record types. Even ones are critical: a receiver that does not know one closes the connection.
/// Odd ones are optional: a receiver that does not know one skips it.
mod kind {
    pub(super) const HELLO: u64 = 0x00;
    pub(super) const HELLO_REPLY: u64 = 0x02;
    pub(super) const JOIN: u64 = 0x04;
    pub(super) const JOIN_REPLY: u64 = 0x06;
    pub(super) const REFUSAL: u64 = 0x08;
    pub(super) const DATA: u64 = 0x10;
    pub(super) const ACK: u64 = 0x12;
    pub(super) const FIN: u64 = 0x14;
    pub(super) const RESET: u64 = 0x16;
    pub(super) const PING: u64 = 0x18;
    pub(super) const PONG: u64 = 0x1a;
    pub(super) const CREDIT_WISH: u64 = 0x21;
    pub(super) const MESSAGE: u64 = 0x30;
    pub(super) const PATH_POLICY: u64 = 0x31;
    pub(super) const CANCEL: u64 = 0x32;
    pub(super) const DELIVERY_STATUS: u64 = 0x34;
}

/// Flags of an acknowledgement: the stream's end is known; the number of messages taken follows.
const ACK_FIN: u64 = 1;
const ACK_TAKEN: u64 = 2;

/// A range of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The first byte's offset in the stream.
    pub offset: u64,
    /// The bytes, at most [`MAX_PAYLOAD`].
    pub payload: Bytes,
}

/// The acknowledgement of one subflow: how much of its data has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowAck {
    /// The subflow.
    pub subflow: u64,
    /// Payload bytes received in its data records, duplicates included.
    pub received: u64,
}

/// What the receiver has and how far the sender may go. Sent on every subflow, so that data of a
/// path whose return direction is cut is confirmed through another (FBDT §3.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Everything below has been received.
    pub in_order: u64,
    /// The sender may send below this offset.
    pub credit: u64,
    /// Whether the stream's end ([`Record::Fin`]) is known.
    pub fin: bool,
    /// Ranges received above `in_order`, lowest first, disjoint and not adjacent. In FBDT the gap
    /// between two of them is what forward and backward pointer have left.
    pub ranges: Vec<Range<u64>>,
    /// The delivered count of each subflow.
    pub subflow_acks: Vec<SubflowAck>,
    /// Messages taken by the receiving application; 0 in a byte stream.
    pub taken: u64,
}

/// Anything said on a subflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An acknowledgement.
    Ack(Ack),
    /// Drops a message.
    Cancel(Cancel),
    /// The sender would use this much credit (bytes above the in-order point) if it had it.
    CreditWish(u64),
    /// Stream bytes.
    Data(Data),
    /// What became of a message that was to be dropped.
    DeliveryStatus(DeliveryStatus),
    /// The stream ends at this offset.
    Fin(u64),
    /// Opens a connection.
    Hello(Hello),
    /// Accepts a hello.
    HelloReply(HelloReply),
    /// Adds a subflow.
    Join(Join),
    /// Accepts a join.
    JoinReply(JoinReply),
    /// A message of the stream.
    Message(MessageHeader),
    /// Changes what a path is for.
    PathPolicy(PolicyChange),
    /// Asks for a [`Record::Pong`] with the same number on the same subflow.
    Ping(u64),
    /// Answers a [`Record::Ping`].
    Pong(u64),
    /// Refuses a hello or a join.
    Refusal(Refusal),
    /// Ends the connection at once.
    Reset(Refusal),
}

impl Record {
    /// Appends the record to `out`.
    ///
    /// # Panics
    /// If a number is more than [`VARINT_MAX`], ranges are not in their order, or there are more of
    /// them, or of subflow acknowledgements, than an acknowledgement has: what a session makes never
    /// is.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut body = BytesMut::new();
        self.put_body(&mut body);
        varint::put(out, self.kind());
        varint::put(out, body.len() as u64);
        out.extend_from_slice(&body);
    }

    /// Takes the record at the front of `input`; `Ok(None)` when it is not complete yet.
    ///
    /// Unknown optional records are skipped. A record longer than [`MAX_BODY`] is refused as soon
    /// as its length is known, so that `input` need never hold more than one such record.
    ///
    /// # Errors
    /// When the bytes are no record, or one that is too long or that must be understood and is not.
    pub fn decode(input: &mut BytesMut) -> Result<Option<Self>, WireError> {
        Self::decode_limited(input, MAX_BODY)
    }

    /// As [`Record::decode`], with the limit that holds before a connection exists.
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn decode_handshake(input: &mut BytesMut) -> Result<Option<Self>, WireError> {
        Self::decode_limited(input, MAX_HANDSHAKE_BODY)
    }

    fn decode_limited(input: &mut BytesMut, max: u64) -> Result<Option<Self>, WireError> {
        loop {
            let mut header = Reader(input);
            let (Some(kind), Some(len)) = (header.varint(), header.varint()) else {
                return Ok(None);
            };
            if len > max {
                return Err(WireError::TooLong { kind, len, max });
            }
            let header_len = input.len() - header.0.len();
            if header.0.len() < len as usize {
                return Ok(None);
            }
            input.advance(header_len);
            let body = input.split_to(len as usize);
            if let Some(record) = Self::decode_body(kind, body)? {
                return Ok(Some(record));
            }
        }
    }

    fn decode_body(kind: u64, body: BytesMut) -> Result<Option<Self>, WireError> {
        let mut reader = Reader(&body);
        let (record, name) = match kind {
            kind::ACK => (Ack::read(&mut reader).map(Self::Ack), "ack"),
            kind::CANCEL => (Cancel::read(&mut reader).map(Self::Cancel), "cancel"),
            kind::CREDIT_WISH => (reader.varint().map(Self::CreditWish), "credit wish"),
            kind::DATA => (Data::read(body).map(Self::Data), "data"),
            kind::DELIVERY_STATUS => {
                (DeliveryStatus::read(&mut reader).map(Self::DeliveryStatus), "fate")
            }
            kind::FIN => (reader.varint().map(Self::Fin), "fin"),
            kind::HELLO => (Hello::read(&mut reader).map(Self::Hello), "hello"),
            kind::HELLO_REPLY => {
                (HelloReply::read(&mut reader).map(Self::HelloReply), "hello reply")
            }
            kind::JOIN => (Join::read(&mut reader).map(Self::Join), "join"),
            kind::JOIN_REPLY => (Some(Self::JoinReply(JoinReply {})), "join reply"),
            kind::MESSAGE => (MessageHeader::read(&mut reader).map(Self::Message), "message"),
            kind::PATH_POLICY => {
                (PolicyChange::read(&mut reader).map(Self::PathPolicy), "path policy")
            }
            kind::PING => (reader.varint().map(Self::Ping), "ping"),
            kind::PONG => (reader.varint().map(Self::Pong), "pong"),
            kind::REFUSAL => (Refusal::read(&mut reader).map(Self::Refusal), "refusal"),
            kind::RESET => (Refusal::read(&mut reader).map(Self::Reset), "reset"),
            optional if optional % 2 == 1 => return Ok(None),
            critical => return Err(WireError::UnknownCritical(critical)),
        };
        record.map(Some).ok_or(WireError::Malformed(name))
    }

    const fn kind(&self) -> u64 {
        match self {
            Self::Ack(_) => kind::ACK,
            Self::Cancel(_) => kind::CANCEL,
            Self::CreditWish(_) => kind::CREDIT_WISH,
            Self::Data(_) => kind::DATA,
            Self::DeliveryStatus(_) => kind::DELIVERY_STATUS,
            Self::Fin(_) => kind::FIN,
            Self::Hello(_) => kind::HELLO,
            Self::HelloReply(_) => kind::HELLO_REPLY,
            Self::Join(_) => kind::JOIN,
            Self::JoinReply(_) => kind::JOIN_REPLY,
            Self::Message(_) => kind::MESSAGE,
            Self::PathPolicy(_) => kind::PATH_POLICY,
            Self::Ping(_) => kind::PING,
            Self::Pong(_) => kind::PONG,
            Self::Refusal(_) => kind::REFUSAL,
            Self::Reset(_) => kind::RESET,
        }
    }

    fn put_body(&self, out: &mut BytesMut) {
        match self {
            Self::Ack(ack) => ack.put(out),
            Self::Cancel(cancel) => cancel.put(out),
            Self::CreditWish(number)
            | Self::Fin(number)
            | Self::Ping(number)
            | Self::Pong(number) => varint::put(out, *number),
            Self::Data(data) => {
                varint::put(out, data.offset);
                out.put_slice(&data.payload);
            }
            Self::DeliveryStatus(status) => status.put(out),
            Self::Hello(hello) => hello.put(out),
            Self::HelloReply(reply) => reply.put(out),
            Self::Join(join) => join.put(out),
            Self::JoinReply(JoinReply {}) => {}
            Self::Message(message) => message.put(out),
            Self::PathPolicy(change) => change.put(out),
            Self::Refusal(refusal) | Self::Reset(refusal) => refusal.put(out),
        }
    }
}

/// Appends the header of a data record whose `len` payload bytes follow separately, so that the
/// payload is never copied.
pub fn data_header(out: &mut BytesMut, offset: u64, len: u64) {
    debug_assert!(len <= MAX_PAYLOAD, "a data record's payload is limited");
    varint::put(out, kind::DATA);
    varint::put(out, varint::len(offset) as u64 + len);
    varint::put(out, offset);
}

impl Data {
    fn read(mut body: BytesMut) -> Option<Self> {
        let mut reader = Reader(&body);
        let offset = reader.varint()?;
        let payload_len = reader.0.len();
        let fits = payload_len as u64 <= MAX_PAYLOAD && offset + payload_len as u64 <= VARINT_MAX;
        body.advance(body.len() - payload_len);
        fits.then(|| Self { offset, payload: body.freeze() })
    }
}

impl Ack {
    /// Ranges go as (distance from the last end, length) pairs.
    fn put(&self, out: &mut BytesMut) {
        assert!(self.ranges.len() <= MAX_ACK_RANGES && self.subflow_acks.len() <= MAX_SUBFLOW_ACKS);
        varint::put(out, self.in_order);
        varint::put(out, self.credit);
        let counts = if self.taken > 0 { ACK_TAKEN } else { 0 };
        let fin = if self.fin { ACK_FIN } else { 0 };
        varint::put(out, fin | counts);
        varint::put(out, self.ranges.len() as u64);
        let mut at = self.in_order;
        for range in &self.ranges {
            varint::put(out, range.start - at);
            varint::put(out, range.end - range.start);
            at = range.end;
        }
        varint::put(out, self.subflow_acks.len() as u64);
        for one in &self.subflow_acks {
            varint::put(out, one.subflow);
            varint::put(out, one.received);
        }
        if self.taken > 0 {
            varint::put(out, self.taken);
        }
    }

    fn read(body: &mut Reader<'_>) -> Option<Self> {
        let in_order = body.varint()?;
        let credit = body.varint()?;
        let flags = body.varint()?;
        let count = usize::try_from(body.varint()?).ok().filter(|&n| n <= MAX_ACK_RANGES)?;
        let mut ranges = Vec::with_capacity(count);
        let mut at = in_order;
        for _ in 0..count {
            // A gap of zero would make two ranges one.
            let start = at.checked_add(body.varint()?).filter(|&start| start > at)?;
            let len = body.varint()?;
            at = start.checked_add(len).filter(|&end| len > 0 && end <= VARINT_MAX)?;
            ranges.push(start..at);
        }
        let count = usize::try_from(body.varint()?).ok().filter(|&n| n <= MAX_SUBFLOW_ACKS)?;
        let mut subflow_acks = Vec::with_capacity(count);
        for _ in 0..count {
            subflow_acks.push(SubflowAck { subflow: body.varint()?, received: body.varint()? });
        }
        let taken = if flags & ACK_TAKEN == 0 { 0 } else { body.varint()? };
        Some(Self { in_order, credit, fin: flags & ACK_FIN != 0, ranges, subflow_acks, taken })
    }
}
