//! What comes on a subflow: records, one after another.

use bytes::BytesMut;

use super::{Event, RESET_PROTOCOL, Session, SessionEnd, SessionError};
use crate::wire::Record;
use crate::{Instant, SubflowId};

/// Answers to pings kept for a subflow that cannot send; more than one is rare.
pub(super) const MAX_PONGS: usize = 8;

impl Session {
    /// Consumes the complete records at the front of `input`, which arrived on subflow `id`.
    ///
    /// # Errors
    ///
    /// The peer broke the protocol: a [`Record::Reset`] with the error is queued for the other
    /// side, and the driver closes the connection with it.
    pub fn handle_input(
        &mut self,
        id: SubflowId,
        input: &mut BytesMut,
        now: Instant,
    ) -> Result<(), SessionError> {
        if !input.is_empty() {
            self.liveness.heard(now);
            if let Some(control) = self.control.get_mut(&id) {
                control.heard_at = now;
            }
        }
        let result = self.take_records(id, input, now);
        if let Err(error) = &result {
            self.reset(RESET_PROTOCOL, &error.to_string(), now);
        }
        result
    }

    fn take_records(
        &mut self,
        id: SubflowId,
        input: &mut BytesMut,
        now: Instant,
    ) -> Result<(), SessionError> {
        while let Some(record) = Record::decode(input)? {
            if !self.is_reset() {
                self.handle_record(id, record, now)?;
            }
        }
        self.acknowledge(now);
        self.update(now);
        Ok(())
    }

    fn handle_record(
        &mut self,
        id: SubflowId,
        record: Record,
        now: Instant,
    ) -> Result<(), SessionError> {
        match record {
            Record::Ack(ack) => {
                self.send.handle_ack(&ack, now)?;
                self.evaluate_stalls(now);
                self.wake_idle();
            }
            Record::CreditWish(wish) => self.recv.handle_wish(wish, now),
            Record::Data(data) => {
                self.note_moved(now);
                let path = self.send.index(id).map(|index| self.send.subflows[index].path());
                if let Some(path) = path {
                    let stats = self.paths.entry(path).or_default();
                    stats.received += data.payload.len() as u64;
                }
                self.recv.handle_data((id, path), &data, now)?;
                if let Some(control) = self.control.get_mut(&id) {
                    control.is_heard = true;
                }
            }
            Record::Fin(offset) => self.recv.handle_fin(offset, now)?,
            Record::Cancel(cancel) => self.handle_cancel(id, &cancel, now)?,
            Record::DeliveryStatus(status) => self.handle_delivery_status(status)?,
            Record::Message(header) => self.recv.handle_header(&header)?,
            Record::PathPolicy(change) => self.handle_policy(change),
            Record::Ping(number) => {
                if let Some(control) = self.control.get_mut(&id)
                    && control.pongs.len() < MAX_PONGS
                {
                    control.pongs.push(number);
                    self.wake(id);
                }
            }
            Record::Pong(number) => self.handle_pong(id, number, now),
            Record::Reset(refusal) => {
                if !matches!(self.end, Some(SessionEnd::Reset(_))) {
                    self.end = Some(SessionEnd::ResetByPeer);
                }
                self.events.push_back(Event::Reset(refusal.code, refusal.reason));
            }
            Record::Hello(_)
            | Record::HelloReply(_)
            | Record::Join(_)
            | Record::JoinReply(_)
            | Record::Refusal(_) => return Err(SessionError::UnexpectedRecord),
        }
        Ok(())
    }

    fn handle_pong(&mut self, id: SubflowId, number: u64, now: Instant) {
        let Some(control) = self.control.get_mut(&id) else { return };
        let Some((_, sent_at)) = control.ping.take_if(|(sent, _)| *sent == number) else { return };
        self.liveness.has_answered = true;
        if let Some(index) = self.send.index(id) {
            let (rtt, subflow) = (now.since(sent_at), &mut self.send.subflows[index]);
            subflow.set_ping_rtt(rtt, now);
            self.paths.entry(subflow.path()).or_default().ping_rtt = Some(rtt);
            if self.send.has_data_to_send() {
                // It may have been turned down for a round-trip time that was out of date.
                self.wake_idle();
            }
        }
    }
}
