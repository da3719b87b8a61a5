//! What the tasks of subflows ask of their connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use weftline_core::path_manager::Look;
use weftline_core::{ByteCount, PathId, PathInfo, SubflowId};

use super::{Attached, End, Shared, Slot};
use crate::congestion::CongestionInUse;
use crate::error::Error;
use crate::memory::SUBFLOW;
use crate::socket::TcpInfo;

impl Shared {
    /// Tells the session of a new subflow; `None` if the connection is over. One that has closed
    /// still takes a subflow, to say its last acknowledgement, until the peer has closed, too.
    pub(crate) fn attach(
        &self,
        id: SubflowId,
        path: PathId,
        name: &Arc<str>,
        peer: SocketAddr,
        congestion: CongestionInUse,
    ) -> Option<Attached> {
        self.with(|inner, now| {
            if !inner.life.takes_subflow() || inner.session.subflow_up(id, path, now).is_err() {
                return None;
            }
            let wake = Arc::new(Notify::new());
            let leave = Arc::new(Notify::new());
            inner.slots.push(Slot {
                id,
                path,
                name: Arc::clone(name),
                wake: Arc::clone(&wake),
                leave: Arc::clone(&leave),
                peer,
                congestion,
                stalled_since: None,
                answers: true,
                buffers: SUBFLOW,
            });
            inner.names.insert(path, Arc::clone(name));
            inner.life.subflow_up();
            inner.lease.add_subflow();
            Some(Attached { wake, leave })
        })
    }

    /// Tells the session that a subflow is gone; `answered` if that was after everything had been
    /// said, and the peer closed it, too.
    pub(crate) fn detach(&self, id: SubflowId, answered: bool) {
        self.with(|inner, now| {
            if let Some(at) = inner.slots.iter().position(|slot| slot.id == id) {
                let slot = inner.slots.remove(at);
                inner.lease.shrink_buffers(slot.buffers);
                inner.life.subflow_down(answered, now);
            }
            inner.session.subflow_down(id, now);
        });
        // The timer of a finished connection waits for its last subflow.
        self.timer.notify_one();
    }

    /// Whether there is memory for `more` bytes of a subflow's buffers.
    pub(crate) fn grow_buffers(&self, id: SubflowId, more: u64) -> bool {
        self.with(|inner, _| {
            let Some(slot) = inner.slots.iter_mut().find(|slot| slot.id == id) else {
                return false;
            };
            let grows = inner.lease.grow_buffers(more);
            slot.buffers += if grows { more } else { 0 };
            grows
        })
    }

    /// How long a subflow on which everything has been said waits for the peer to close it, too.
    pub(crate) fn close_time(&self) -> Duration {
        self.see(|inner| inner.life.close_time())
    }

    /// What the session knows of the subflow's progress; what the kernel knows is left open.
    pub(crate) fn progress(&self, id: SubflowId) -> Look {
        self.see(|inner| {
            let slot = inner.slots.iter().find(|slot| slot.id == id);
            Look {
                stalled_since: slot.and_then(|slot| slot.stalled_since),
                unanswered_since: inner.session.unanswered_since(id),
                received: inner.session.received_on(id),
                ..Look::default()
            }
        })
    }

    /// Notes whether a subflow is waited for.
    pub(crate) fn note_answering(&self, id: SubflowId, answers: bool) {
        self.with(|inner, _| {
            let slot = inner.slots.iter_mut().find(|slot| slot.id == id);
            slot.into_iter().for_each(|slot| slot.answers = answers);
        });
    }

    /// Asks the peer for a sign of life on each subflow.
    pub(crate) fn ask(&self) {
        if !self.has_panicked() {
            self.with(|inner, now| {
                inner.slots.iter().for_each(|slot| inner.session.probe(slot.id, now));
            });
        }
    }

    /// The same on a subflow.
    pub(crate) fn probe(&self, id: SubflowId) {
        self.with(|inner, now| inner.session.probe(id, now));
    }

    /// Feeds what a subflow has received; a peer that breaks the protocol ends the connection.
    pub(crate) fn handle_input(&self, id: SubflowId, input: &mut BytesMut, peer: SocketAddr) {
        self.with(|inner, now| {
            if inner.end.is_some() {
                input.clear();
                return;
            }
            if let Err(source) = inner.session.handle_input(id, input, now) {
                inner.life.broken();
                inner.end = Some(End::Failed(Arc::new(Error::Protocol { peer, source })));
            }
            if inner.session.has_answered() {
                self.note_answered();
            }
        });
    }

    /// Whether it matters what room the subflow's socket has.
    pub(crate) fn wants_room(&self, id: SubflowId) -> bool {
        self.see(|inner| inner.session.wants_room(id))
    }

    /// Appends what the subflow should send to `out`, after passing on the kernel's news of it and
    /// how many bytes of data its socket has room for, if it was looked at. Returns whether the connection is over and everything
    /// has been said on this subflow.
    pub(crate) fn poll_transmit(
        &self,
        id: SubflowId,
        info: Option<TcpInfo>,
        room: Option<u64>,
        out: &mut VecDeque<Bytes>,
    ) -> bool {
        self.with(|inner, now| {
            if let Some(info) = info {
                inner.session.handle_path_info(id, path_info(&info));
            }
            if let Some(room) = room {
                inner.session.handle_room(id, room);
            }
            let bytes = inner.session.poll_transmit(id, out, now);
            bytes == 0 && inner.end.is_some()
        })
    }
}

fn path_info(info: &TcpInfo) -> PathInfo {
    PathInfo {
        cwnd: ByteCount::new(info.cwnd_bytes),
        in_flight: ByteCount::new(info.in_flight_bytes),
        unsent: ByteCount::new(info.unsent_bytes),
        srtt: info.srtt,
        rttvar: info.rttvar,
        min_rtt: info.min_rtt,
        delivery_rate: info.delivery_rate,
        retransmitted: info.retransmitted_segments,
        ssthresh: info.ssthresh_bytes.map(ByteCount::new),
        pacing_rate: info.pacing_rate,
        timed_out: info.timed_out,
    }
}
