//! What the fuzz targets, and the replay of their corpus, drive: the parts of a node that read what
//! strangers and neighbours send. Not for use otherwise.

use std::time::Duration;

use weftline_core::Instant;

use crate::capacity::{CapacityEstimator, Receiver};
use crate::epoch::Epochs;
use crate::frame::{self, Frame};
use crate::key::{KEY_BYTES, SecretKey};
use crate::packet;
use crate::probe::Stamp;
use crate::reorder::ReorderBuffer;
use crate::secure::{HandshakeTable, Link, Local, MAC, Role, seal_mac};

/// Datagrams, each after its length (2 bytes) and the time since the one before; in the second byte
/// of the length, bit 7 sets the MAC right, so that handshakes are read to their end. Nothing is
/// believed that nobody made with a key, no answer is longer than what it answers, and both sides
/// carry on.
///
/// # Panics
/// If one of these does not hold.
pub fn datagrams(bytes: &[u8]) {
    let secrets = [1, 2].map(|byte| SecretKey::from_bytes([byte; KEY_BYTES]));
    let table = |own: usize, role| {
        let local = Local::new(secrets[own].clone(), false);
        HandshakeTable::new(local, Link::Access, role, &[secrets[1 - own].public()])
    };
    let mut tables = [table(0, Role::Initiator), table(1, Role::Responder)];
    let (mut frame, mut out) = (vec![0; 65_536], Vec::new());
    let (mut rest, mut now) = (bytes, Instant::from_millis(1_000_000));
    while let [flags, length, pause, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*flags & 7, *length]));
        let (datagram, after) = after.split_at(after.len().min(length));
        rest = after;
        now += Duration::from_millis(u64::from(*pause) * 4);
        for (table, secret) in tables.iter_mut().zip(&secrets) {
            let mut datagram = datagram.to_vec();
            if *flags & 0x80 != 0 && datagram.len() > 2 * MAC {
                // An initiation has its proof after the MAC.
                let proof = if datagram[0] == 1 { MAC } else { 0 };
                let proof = datagram.split_off(datagram.len() - proof);
                datagram.truncate(datagram.len() - MAC);
                seal_mac(&secret.public(), &mut datagram);
                datagram.extend_from_slice(&proof);
            }
            out.clear();
            let taken = table.take(&datagram, now, &mut frame, &mut out);
            assert!(taken.is_err(), "nobody made it: {taken:?}");
            assert!(out.is_empty(), "and it is not answered");
            out.clear();
            table.poll_initiation(0, now, &mut out);
            let _ = table.poll_timeout();
        }
    }
}

/// What an authentic neighbour may say: frames, each after its length (2 bytes). Whatever it is, it
/// is a frame of this version or none, keepalives come back as they were, and what waits for order
/// is bounded.
///
/// # Panics
/// If one of these does not hold.
pub fn frames(bytes: &[u8]) {
    let mut epochs = Epochs::default();
    let mut buffer = ReorderBuffer::new(Duration::from_millis(30));
    let (mut estimator, mut receiver) =
        (CapacityEstimator::new(1, Instant::ZERO), Receiver::default());
    let (mut report, mut counter) = (Vec::new(), 0);
    let (mut rest, mut now) = (bytes, Instant::ZERO);
    while let [high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high & 7, *low]));
        let (said, after) = after.split_at(after.len().min(length));
        rest = after;
        now += Duration::from_millis(u64::from(*high >> 3));
        receiver.see(counter, said.len(), None, now);
        counter += 1;
        let (_, said) = frame::of_device(frame::class(said).1);
        match Frame::decode(said) {
            Some(Frame::Keepalive(keepalive, list)) => {
                let mut again = Vec::new();
                keepalive.encode(&mut again);
                let mut last = 0;
                for (device, epoch) in list.iter() {
                    frame::list_epoch(device, epoch, &mut again);
                    last = epoch;
                }
                assert_eq!(Frame::decode(&again), Some(Frame::Keepalive(keepalive, list)));
                assert!(list.iter().count() <= frame::MAX_DEVICES);
                let follow = |settings| epochs.follow(last, settings);
                if let Some(settings) = keepalive.settings.and_then(follow) {
                    assert!(settings.is_possible());
                }
            }
            Some(Frame::Terms(terms)) => assert!(terms.settings.is_possible()),
            Some(Frame::Up { number, packet, .. }) => {
                buffer.receive(number, packet, now);
                let mut packet = packet.to_vec();
                let _ = packet::flow(&packet);
                packet::clamp_mss(&mut packet, 1364);
            }
            Some(Frame::Coded { epoch, .. }) => {
                let _ = epochs.is_current(epoch);
            }
            Some(Frame::Mark { body }) => {
                let translate = |_, at| Stamp { at, steps: Some(0) };
                receiver.receive(body, translate, now);
            }
            Some(Frame::Report { body }) => {
                estimator.receive(body, now);
                while estimator.poll_timeout() <= now {
                    estimator.poll(now);
                }
            }
            Some(
                Frame::Padding
                | Frame::Rate(_)
                | Frame::Relay(_)
                | Frame::Hello { .. }
                | Frame::Losses(_)
                | Frame::Down { .. },
            )
            | None => {}
        }
        report.clear();
        receiver.poll(now, &mut report);
        assert!(report.len() < 1000, "reports are short");
        buffer.handle_timeout(now);
        while let Some(packet) = buffer.poll() {
            assert!(packet.len() + frame::PACKET_HEADER <= bytes.len(), "no longer than it came");
            buffer.recycle(packet);
        }
    }
}
