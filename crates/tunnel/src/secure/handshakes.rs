//! The handshake table of one socket: it finds the neighbour that sent a datagram, and makes and
//! answers handshakes.

use std::time::Duration;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use subtle::ConstantTimeEq as _;
use weftline_core::Instant;

use super::Refused;
use super::channel::{Channel, Initiation, Opened, Role};
use super::datagram::{Datagram, INITIATION_NOISE, MAC, RESPONSE_NOISE, kind};
use super::rising::{Allowance, TimeOfDay};
use super::session::Session;
use crate::clock;
use crate::key::{PublicKey, SecretKey};

const PATTERN: &str = "Noise_IK_25519_AESGCM_SHA256";

/// Initiations without a neighbour's proof that are looked at, to say whose they are: at once, and the
/// time after which there may be another one. Each costs about 0.1 ms.
const STRANGERS: Allowance = Allowance::new(8, Duration::from_millis(100));

/// Which two kinds of nodes a link joins. A datagram of one kind of link is none on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Gateway and access point.
    Backhaul,
    /// Access point and device.
    Access,
    /// Gateway and device, through access points.
    EndToEnd,
}

/// This node.
#[derive(Clone)]
pub(crate) struct Local {
    secret: SecretKey,
    plaintext: bool,
    time_of_day: TimeOfDay,
}

impl Local {
    /// With `plaintext` only handshakes are authenticated and nothing is encrypted.
    pub(crate) fn new(secret: SecretKey, plaintext: bool) -> Self {
        Self { secret, plaintext, time_of_day: clock::time_of_day }
    }

    /// The same, by another clock.
    #[cfg(test)]
    pub(crate) fn with_clock(mut self, time_of_day: TimeOfDay) -> Self {
        self.time_of_day = time_of_day;
        self
    }

    /// Bytes that a datagram has besides its frame.
    pub(crate) fn overhead(&self) -> usize {
        super::DATA_OVERHEAD - if self.plaintext { 16 } else { 0 }
    }

    /// Bytes that a sealed packet has besides the packet.
    pub(crate) fn packet_overhead(&self) -> usize {
        super::PACKET_OVERHEAD - if self.plaintext { 16 } else { 0 }
    }
}

/// The neighbours at a socket, with a channel for each.
pub(crate) struct HandshakeTable {
    local: Local,
    mac_key: hmac::Key,
    prologue: Vec<u8>,
    channels: Vec<Channel>,
    /// The keys of the channels' proofs.
    proof_keys: Vec<hmac::Key>,
    random: SystemRandom,
    strangers: Allowance,
}

/// What became of a datagram that was authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A frame came on a channel.
    Frame(usize, Opened),
    /// A response has come: the channel has a session now.
    Begun(usize),
    /// A response to the sender's initiation was appended to the output.
    Response,
}

impl HandshakeTable {
    /// Neighbours with these keys, all of one kind of link.
    pub(crate) fn new(local: Local, link: Link, role: Role, peers: &[PublicKey]) -> Self {
        let kind = match link {
            Link::Backhaul => "backhaul",
            Link::Access => "access",
            Link::EndToEnd => "end to end",
        };
        let secrecy = if local.plaintext { "plaintext" } else { "encrypted" };
        let prologue = format!("weftline cotag 7 {kind} {secrecy}").into_bytes();
        let mac_key = mac_key(&local.secret.public());
        let channels = peers.iter().map(|&peer| Channel::new(role, peer)).collect();
        let proof_keys = peers.iter().map(|peer| proof_key(&local.secret, peer)).collect();
        let random = SystemRandom::new();
        Self { local, mac_key, prologue, channels, proof_keys, random, strangers: STRANGERS }
    }

    /// The channel with a neighbour.
    pub(crate) fn channel(&mut self, index: usize) -> &mut Channel {
        &mut self.channels[index]
    }

    /// When a handshake is to be begun or repeated.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.channels.iter().filter_map(Channel::poll_timeout).min()
    }

    /// Appends the initiation that is to be sent to a neighbour now to `out`, if there is one.
    pub(crate) fn poll_initiation(
        &mut self,
        index: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let channel = &mut self.channels[index];
        if channel.role != Role::Initiator {
            return false;
        }
        channel.drop_old_initiation(now);
        if channel.initiation.is_none() && channel.wants_handshake(now) {
            let peer = channel.peer;
            let initiation = self.open_handshake(index, &peer, now);
            self.channels[index].initiation = Some(initiation);
        }
        self.channels[index].repeat_initiation(now, out)
    }

    /// Takes a datagram; a frame in it comes into the start of `frame`, a response to its sender is
    /// appended to `response`.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        now: Instant,
        frame: &mut [u8],
        response: &mut Vec<u8>,
    ) -> Result<Taken, Refused> {
        match Datagram::decode(bytes)? {
            Datagram::Data { receiver, counter, sealed } => {
                let index = slot(receiver);
                let channel = self.channels.get_mut(index).ok_or(Refused::Unknown)?;
                let opened = channel.open(receiver, counter, sealed, now, frame)?;
                Ok(Taken::Frame(index, opened))
            }
            Datagram::Initiation { sender, time, noise, covered, mac, proven, proof } => {
                self.check_mac(covered, mac)?;
                let proves = |key: &hmac::Key| is_mac(key, proven, proof);
                let Some(index) = self.proof_keys.iter().position(proves) else {
                    return Err(self.look_at_stranger(noise, now));
                };
                if self.channels[index].role != Role::Responder {
                    return Err(Refused::OtherKey);
                }
                if self.channels[index].admit(time, bytes, now, response)? {
                    let start = response.len();
                    self.respond(index, sender, noise, now, response)?;
                    self.channels[index].answered(time, bytes, &response[start..]);
                }
                Ok(Taken::Response)
            }
            Datagram::Response { sender, receiver, noise, covered, mac } => {
                self.check_mac(covered, mac)?;
                self.finish(sender, receiver, noise, now).map(Taken::Begun)
            }
        }
    }

    fn check_mac(&self, covered: &[u8], mac: &[u8]) -> Result<(), Refused> {
        if is_mac(&self.mac_key, covered, mac) { Ok(()) } else { Err(Refused::OtherKey) }
    }

    fn builder(&self) -> Builder<'_> {
        let params: NoiseParams = PATTERN.parse().expect("a pattern that snow knows");
        let builder = Builder::new(params).local_private_key(self.local.secret.bytes());
        let builder = builder.and_then(|builder| builder.prologue(&self.prologue));
        builder.expect("each is set once")
    }

    /// An index that names a session of the neighbour at `index`.
    fn draw_index(&self, index: usize) -> u32 {
        let mut bytes = [0; 4];
        // An index needs to be another one than the last few, not a secret: without random numbers
        // no key would have been made either.
        let _ = self.random.fill(&mut bytes[..3]);
        bytes[3] = index as u8;
        u32::from_be_bytes(bytes)
    }

    fn open_handshake(&mut self, index: usize, peer: &PublicKey, now: Instant) -> Initiation {
        let time = self.channels[index].times.next((self.local.time_of_day)());
        let builder = self.builder().remote_public_key(&peer.0).expect("set once");
        let mut noise: HandshakeState = builder.build_initiator().expect("all keys are set");
        let own = self.draw_index(index);
        let mut datagram = vec![kind::INITIATION];
        datagram.extend_from_slice(&own.to_be_bytes());
        datagram.extend_from_slice(&time.to_be_bytes());
        write_noise(&mut noise, INITIATION_NOISE, &mut datagram).expect("it is our turn");
        seal_mac(peer, &mut datagram);
        let proof = hmac::sign(&self.proof_keys[index], &datagram);
        datagram.extend_from_slice(&proof.as_ref()[..MAC]);
        Initiation::new(noise, own, datagram, now)
    }

    /// What an initiation without a neighbour's proof is.
    fn look_at_stranger(&mut self, message: &[u8], now: Instant) -> Refused {
        if !self.strangers.take(now) {
            return Refused::Flood;
        }
        let mut noise = self.builder().build_responder().expect("all keys are set");
        if noise.read_message(message, &mut []).is_err() {
            return Refused::Forged;
        }
        let peer = noise.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey);
        match peer {
            Some(peer) if self.channels.iter().all(|channel| channel.peer != peer) => {
                Refused::Stranger(peer)
            }
            _ => Refused::Forged,
        }
    }

    /// Answers the initiation of the neighbour at `index`.
    fn respond(
        &mut self,
        index: usize,
        sender: u32,
        message: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let peer = self.channels[index].peer;
        let mut noise = self.builder().build_responder().expect("all keys are set");
        noise.read_message(message, &mut []).map_err(|_| Refused::Forged)?;
        if noise.get_remote_static() != Some(&peer.0[..]) {
            return Err(Refused::Forged);
        }
        let own = self.draw_index(index);
        let start = out.len();
        out.push(kind::RESPONSE);
        out.extend_from_slice(&own.to_be_bytes());
        out.extend_from_slice(&sender.to_be_bytes());
        write_noise(&mut noise, RESPONSE_NOISE, out).map_err(|_| Refused::Forged)?;
        let mac = hmac::sign(&mac_key(&peer), &out[start..]);
        out.extend_from_slice(&mac.as_ref()[..MAC]);
        let transport = noise.into_stateless_transport_mode().map_err(|_| Refused::Forged)?;
        let session = Session::new(transport, own, sender, now, self.local.plaintext);
        self.channels[index].prepare(session);
        Ok(())
    }

    /// Takes the response to our initiation.
    fn finish(
        &mut self,
        sender: u32,
        receiver: u32,
        message: &[u8],
        now: Instant,
    ) -> Result<usize, Refused> {
        let index = slot(receiver);
        let channel = self.channels.get_mut(index).ok_or(Refused::Unknown)?;
        let ours = channel.initiation.as_mut().filter(|initiation| initiation.index == receiver);
        let initiation = ours.ok_or(Refused::Unknown)?;
        // A message that fails leaves the state as it was: an attacker's guess at a response does not
        // keep the right one out.
        initiation.noise.read_message(message, &mut []).map_err(|_| Refused::Forged)?;
        let initiation = channel.initiation.take().ok_or(Refused::Unknown)?;
        let transport = initiation.noise.into_stateless_transport_mode();
        let transport = transport.map_err(|_| Refused::Forged)?;
        let session = Session::new(transport, receiver, sender, now, self.local.plaintext);
        channel.begin(session, now);
        Ok(index)
    }
}

/// The neighbour that an index is of.
fn slot(index: u32) -> usize {
    (index & 0xff) as usize
}

/// The key of the proofs of two nodes, which only they can compute.
fn proof_key(own: &SecretKey, peer: &PublicKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &[b"weftline cotag proof", &own.shared(peer)[..]].concat())
}

fn mac_key(receiver: &PublicKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &[b"weftline cotag mac", &receiver.0[..]].concat())
}

/// Whether `mac` begins the HMAC of `covered`, found out in a time that does not tell how much of it
/// is right.
pub(crate) fn is_mac(key: &hmac::Key, covered: &[u8], mac: &[u8]) -> bool {
    let whole = hmac::sign(key, covered);
    whole.as_ref().get(..mac.len()).is_some_and(|right| right.ct_eq(mac).into())
}

/// Appends the MAC with which a node reads a handshake.
pub(crate) fn seal_mac(receiver: &PublicKey, datagram: &mut Vec<u8>) {
    let mac = hmac::sign(&mac_key(receiver), datagram);
    datagram.extend_from_slice(&mac.as_ref()[..MAC]);
}

/// Appends a handshake message without payload.
fn write_noise(
    noise: &mut HandshakeState,
    length: usize,
    out: &mut Vec<u8>,
) -> Result<(), snow::Error> {
    let at = out.len();
    out.resize(at + length, 0);
    let written = noise.write_message(&[], &mut out[at..])?;
    assert_eq!(written, length, "Noise messages have one length");
    Ok(())
}
