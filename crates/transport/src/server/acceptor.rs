//! What a peer comes to first: the limits, the handshake, and its place in a connection.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, error::TrySendError};
use weftline_core::ranges::RangeSet;
use weftline_core::scheduler::Entry;
use weftline_core::session::{MessageLimits, RESET_REVOKED, SessionConfig};
use weftline_core::wire::{Hello, Join, JoinReply, Record, WireError};
use weftline_core::{PathId, SubflowId};

use super::sessions::{Session, Tables, use_number};
use super::{Live, State};
use crate::channel::Channel;
use crate::checks::unknown_scheduler;
use crate::clock;
use crate::congestion::{self, Choice};
use crate::connection::Connection;
use crate::error::Error;
use crate::handshake::{SessionId, SessionKeys};
use crate::limits::{ClientId, Full, Handshake, SessionPlace, Source};
use crate::memory::{Lease, connection_takes, unasked};
use crate::refusal::{self, printable};
use crate::shared::Shared;
use crate::socket;
use crate::stats::COUNTERS;
use crate::subflow;
use crate::token::Token;

/// Live subflows of one connection, and paths it may have had.
const MAX_SUBFLOWS: usize = 32;
const MAX_PATHS: usize = 64;
/// The wait after the system refused to accept a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts TCP connections for ever.
pub(super) async fn listen(state: Arc<State>, listener: TcpListener) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let counted = state.admission.handshake(peer.ip().into());
        tokio::spawn(receive(Arc::clone(&state), stream, peer, counted));
    }
}

/// Does the handshake with a peer that has just come.
async fn receive(state: Arc<State>, stream: TcpStream, peer: SocketAddr, counted: Handshake) {
    let after = state.handshake_timeout;
    let result = tokio::select! {
        result = tokio::time::timeout(after, state.handshake(stream)) => {
            result.unwrap_or(Err(Error::HandshakeTimeout { peer, after }))
        }
        () = counted.given_up() => Err(Error::GivenUp { peer }),
    };
    drop(counted);
    if let Err(error) = result {
        COUNTERS.refused(&error);
        state.refusals.log(&error);
    }
}

/// What a handshake came to: a refusal to send, with the error to report here.
struct Refused {
    code: u64,
    reason: String,
}

impl Refused {
    fn new(code: u64, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    fn busy(reason: impl fmt::Display) -> Self {
        Self::new(refusal::BUSY, reason.to_string())
    }
}

/// What a connection that may be opened has.
struct Admitted {
    permit: mpsc::OwnedPermit<Connection>,
    keys: SessionKeys,
    config: SessionConfig,
    client: ClientId,
    place: SessionPlace,
    lease: Lease,
}

/// What a hello that is accepted asks for.
enum Established {
    /// A connection.
    First(Admitted),
    /// The connection that it has opened before.
    Again(Joining, SessionConfig),
}

/// A subflow that was accepted into its connection and is not live yet.
struct Joining {
    state: Arc<State>,
    keys: SessionKeys,
    shared: Arc<Shared>,
}

impl Drop for Joining {
    fn drop(&mut self) {
        let mut tables = self.state.tables();
        if let Some(session) = tables.session_of(&self.keys.id, &self.shared) {
            session.joining -= 1;
        }
    }
}

impl State {
    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("the tables' users do not panic")
    }

    fn live(&self) -> Live {
        self.live.lock().expect("nobody panics with it").clone()
    }

    async fn handshake(self: &Arc<Self>, stream: TcpStream) -> Result<(), Error> {
        socket::configure((&stream).into(), &self.socket)?;
        let mut channel = Channel::accept(stream, &self.live().security).await?;
        let peer = channel.peer();
        let record = match channel.receive().await {
            Ok(record) => record,
            Err(error) => {
                // Our preamble tells another version of this protocol which one is spoken here.
                channel.refuse(refusal::PROTOCOL, &error.to_string()).await;
                return Err(error);
            }
        };
        match record {
            Record::Hello(hello) => self.hello(channel, hello).await,
            Record::Join(join) => self.join(channel, join).await,
            _ => {
                let source = WireError::Unexpected("hello or join");
                channel.refuse(refusal::PROTOCOL, &source.to_string()).await;
                Err(Error::Protocol { peer, source: source.into() })
            }
        }
    }

    async fn hello(self: &Arc<Self>, mut channel: Channel, hello: Hello) -> Result<(), Error> {
        let peer = channel.peer();
        let live = self.live();
        let admitted = self.identify(&channel, &hello).and_then(|client| {
            let config = self.session_config(&hello, &live)?;
            let again = self.check_again(&mut channel, &hello, &client)?;
            if let Some(joining) = again {
                return Ok(Established::Again(joining, config));
            }
            set_congestion(&mut channel, &hello.congestion, live.allowed_congestion.as_deref())?;
            self.admit(peer.ip().into(), client, &hello, config).map(Established::First)
        });
        let admitted = match admitted {
            Ok(Established::First(admitted)) => admitted,
            Ok(Established::Again(joining, config)) => {
                joining.shared.set_policy(PathId(hello.path), hello.policy);
                let reply = joining.keys.reply(longest_received(&config), &live.join_addresses);
                let (id, path) = (&joining.keys.id, (hello.path, &*hello.path_name));
                self.start(id, &joining.shared, channel, Some(&reply), hello.subflow, path);
                return Ok(());
            }
            Err(refused) => return refuse(channel, refused).await,
        };
        let Admitted { permit, keys, config, client, place, lease } = admitted;
        let arrival = place.arrival();
        let shared = Shared::open(&config, live.grace, self.groups.of(hello.group), lease);
        shared.set_policy(PathId(hello.path), hello.policy);
        let connection = Connection::new(Arc::clone(&shared), peer, client.name());
        // The first subflow's number is taken before the reply lets anyone join with it.
        let mut used = RangeSet::new();
        used.insert(hello.subflow..hello.subflow + 1);
        let registered = self.register(Session {
            keys: keys.clone(),
            shared: Arc::clone(&shared),
            congestion: hello.congestion,
            allowed_congestion: live.allowed_congestion,
            client,
            source: peer.ip().into(),
            joining: 0,
            _place: place,
            used,
            paths: BTreeMap::new(),
        });
        if let Err(refused) = registered {
            connection.abort(RESET_REVOKED, &refused.reason);
            return refuse(channel, refused).await;
        }
        if let Some(arrival) = arrival {
            arrival.log(peer.ip(), clock::now());
        }
        let reply = keys.reply(longest_received(&config), &live.join_addresses);
        let path = (hello.path, &*hello.path_name);
        self.start(&keys.id, &shared, channel, Some(&reply), hello.subflow, path);
        permit.send(connection);
        Ok(())
    }

    /// The connection that this client's hello has opened before: the answer did not get through,
    /// and the client says it once more on another subflow. Otherwise `None`.
    fn check_again(
        self: &Arc<Self>,
        channel: &mut Channel,
        hello: &Hello,
        client: &ClientId,
    ) -> Result<Option<Joining>, Refused> {
        if !hello.nonce.is_some() {
            return Ok(None);
        }
        let id = self.numbering.id(&hello.nonce);
        let tables = self.tables();
        if let Some(end) = tables.end_of(&id) {
            return Err(Refused::new(refusal::JOIN, end));
        }
        let Some(session) = tables.sessions.get(&id) else { return Ok(None) };
        if session.client != *client {
            return Err(wrong_join());
        }
        let (keys, allowed) = (session.keys.clone(), session.allowed_congestion.clone());
        drop(tables);
        set_congestion(channel, &hello.congestion, allowed.as_deref())?;
        self.take_place(keys, hello.subflow, PathId(hello.path)).map(Some)
    }

    /// Who says hello. A wrong token, one of nobody and none at all are refused alike.
    fn identify(&self, channel: &Channel, hello: &Hello) -> Result<ClientId, Refused> {
        let certificate = || channel.peer_certificate().map(ClientId::Certificate);
        if !self.wants_token {
            return Ok(certificate().unwrap_or(ClientId::Anybody));
        }
        let source = Source::from(channel.peer().ip());
        let tokens = Arc::clone(&self.tables().tokens);
        let found = Token::find(&tokens, channel, &hello.token).map_err(Refused::busy)?;
        let client = found.map(Token::id);
        self.admission
            .evaluate_token(source, client.as_ref(), clock::now())
            .map_err(Refused::busy)?;
        if found.is_some_and(|token| token.is_over(clock::time_of_day())) {
            return Err(Refused::new(refusal::EXPIRED, "the time of your token is over"));
        }
        client.ok_or_else(no_token)
    }

    /// How the connection will behave that a hello asks for.
    fn session_config(&self, hello: &Hello, live: &Live) -> Result<SessionConfig, Refused> {
        let scheduler = Entry::find(&hello.scheduler).map_err(|_| {
            let reason = unknown_scheduler(&printable(&hello.scheduler)).to_string();
            Refused::new(refusal::SCHEDULER, reason)
        })?;
        Ok(SessionConfig {
            scheduler,
            scheduler_config: hello.scheduler_config(),
            max_memory: live.max_memory,
            peer_timeout: Some(live.idle_timeout),
            messages: self.message_limits(hello)?,
            follow_policy: true,
            pool: crate::memory::blocks(),
            ..SessionConfig::default()
        })
    }

    /// Takes a connection's place within each limit, or none. Half-open connections make room.
    fn admit(
        &self,
        source: Source,
        client: ClientId,
        hello: &Hello,
        config: SessionConfig,
    ) -> Result<Admitted, Refused> {
        // With nobody to accept it, no room that others make would be of use.
        let permit = self.accepted.clone().try_reserve_owned();
        let permit = permit.map_err(|error| match error {
            TrySendError::Full(_) => Refused::busy(Full::Sessions),
            TrySendError::Closed(_) => Refused::busy("this server is shutting down"),
        })?;
        let unasked = unasked(&config);
        let (place, lease) = loop {
            let room = self.admission.session(source, &client).and_then(|place| {
                let lease = self.memory.connection(unasked).map_err(Full::Memory)?;
                Ok((place, lease))
            });
            if let Ok(room) = room {
                break room;
            }
            let room = self.make_room(source, &client, connection_takes(unasked));
            room.map_err(Refused::busy)?;
        };
        let keys = match hello.nonce.is_some() {
            true => SessionKeys::of(self.numbering.id(&hello.nonce)),
            false => SessionKeys::random(),
        };
        let keys = keys.map_err(Refused::busy)?;
        Ok(Admitted { permit, keys, config, client, place, lease })
    }

    /// What is agreed upon if the client wants messages.
    fn message_limits(&self, hello: &Hello) -> Result<Option<MessageLimits>, Refused> {
        match (hello.messages, self.longest_message) {
            (0, _) => Ok(None),
            (longest_sent, Some(longest)) => {
                Ok(Some(MessageLimits { longest_sent, longest_received: longest.as_u64() }))
            }
            (_, None) => {
                let reason = "this server takes byte streams only, not messages";
                Err(Refused::new(refusal::MESSAGES, reason))
            }
        }
    }

    /// Makes the connection known to joins until it is over.
    fn register(self: &Arc<Self>, session: Session) -> Result<(), Refused> {
        let (id, shared) = (session.keys.id, Arc::clone(&session.shared));
        let mut tables = self.tables();
        // Its token may have been withdrawn since it was looked at.
        if !tables.admits(&session.client) {
            return Err(no_token());
        }
        if tables.sessions.contains_key(&id) {
            // The same hello, twice at once.
            return Err(Refused::busy("this connection is being opened"));
        }
        tables.open(session);
        drop(tables);
        let state = Arc::clone(self);
        tokio::spawn(async move {
            shared.gone().await;
            let session = state.tables().close(id, &shared);
            drop(session);
        });
        Ok(())
    }

    async fn join(self: &Arc<Self>, mut channel: Channel, join: Join) -> Result<(), Error> {
        let joining = match self.check_join(&mut channel, &join) {
            Ok(joining) => joining,
            Err(refused) => return refuse(channel, refused).await,
        };
        joining.shared.set_policy(PathId(join.path), join.policy);
        channel.send(&Record::JoinReply(JoinReply {})).await?;
        let path = (join.path, &*join.path_name);
        self.start(&joining.keys.id, &joining.shared, channel, None, join.subflow, path);
        Ok(())
    }

    /// Finds the connection to join and takes a place in it.
    fn check_join(
        self: &Arc<Self>,
        channel: &mut Channel,
        join: &Join,
    ) -> Result<Joining, Refused> {
        // A guessed number and a wrong proof look the same and take as long. No work is done under
        // the lock that all handshakes want.
        let id = SessionId(join.session);
        let of = |session: &Session| {
            let congestion = (session.congestion.clone(), session.allowed_congestion.clone());
            (session.keys.clone(), congestion)
        };
        let found = self.tables().sessions.get(&id).map(of);
        let keys = found.as_ref().map_or(&self.decoy, |(keys, _)| keys);
        let proven = keys.verify(channel, join).unwrap_or(false);
        let (keys, (said, allowed)) = found.filter(|_| proven).ok_or_else(wrong_join)?;
        let congestion = join.congestion.clone().unwrap_or(said);
        set_congestion(channel, &congestion, allowed.as_deref())?;
        let joining = self.take_place(keys, join.subflow, PathId(join.path))?;
        // The proof takes the secret that the server's answer brought.
        joining.shared.note_answered();
        Ok(joining)
    }

    /// Takes the number of a subflow of the connection of `keys`, and its place within the limits.
    fn take_place(
        self: &Arc<Self>,
        keys: SessionKeys,
        number: u64,
        path: PathId,
    ) -> Result<Joining, Refused> {
        // A connection that is under way is not to end because others, half-open, have the memory. None
        // of these is put out for a subflow that is refused all the same.
        while let Err(error) = self.memory.check_subflow() {
            let mut tables = self.tables();
            let session = tables.sessions.get_mut(&keys.id).ok_or_else(wrong_join)?;
            check_place(session, number, path)?;
            let source = session.source;
            drop(tables);
            if !self.make_subflow_room(source, keys.id) {
                return Err(Refused::busy(error));
            }
        }
        let mut tables = self.tables();
        let session = tables.sessions.get_mut(&keys.id).ok_or_else(wrong_join)?;
        check_place(session, number, path)?;
        use_number(&mut session.used, number);
        session.note_newest(path, SubflowId(number));
        session.joining += 1;
        let shared = Arc::clone(&session.shared);
        drop(tables);
        Ok(Joining { state: Arc::clone(self), keys, shared })
    }

    /// Brings a subflow into its connection, with `reply`, if it was not said yet, in front of all
    /// that it says; its `path` has a number and a name. Of two subflows of a path the older one is
    /// given up, whichever gets here first: the client has replaced it.
    fn start(
        &self,
        id: &SessionId,
        shared: &Arc<Shared>,
        channel: Channel,
        reply: Option<&Record>,
        subflow: u64,
        path: (u64, &str),
    ) {
        let (subflow, path, name) = (SubflowId(subflow), PathId(path.0), path.1);
        let name = printable(name).into();
        let parts = channel.into_parts(reply);
        let running = subflow::start(shared, subflow, path, &name, parts, None);
        let mut tables = self.tables();
        let Some(session) = tables.session_of(id, shared) else { return };
        let older = match session.note_newest(path, subflow) {
            Some(newest) => std::mem::replace(&mut newest.running, running),
            None => running,
        };
        if let Some(older) = older {
            older.replace();
        }
    }
}

/// Gives a subflow's socket the congestion control that its client wants, of those that its
/// connection is `allowed`, if not all. Only the automatic choice, which has no name, is never
/// refused.
fn set_congestion(
    channel: &mut Channel,
    name: &str,
    allowed: Option<&[String]>,
) -> Result<(), Refused> {
    let refused = |reason| Refused::new(refusal::CONGESTION, format!("server: {reason}"));
    let choice = Choice::of(name);
    if let Choice::Named(name) = &choice {
        if let Some(allowed) = allowed.filter(|list| !list.contains(name)) {
            let (name, allowed) = (printable(name), allowed.join(", "));
            return Err(refused(format!(
                "the congestion control '{name}' is not allowed here (allowed: {allowed}, auto)"
            )));
        }
        congestion::check_loaded(name).map_err(|error| refused(error.to_string()))?;
    }
    let set = channel.set_congestion(&choice, allowed);
    set.map_err(|error| refused(error.to_string()))
}

/// The longest message that a connection takes, 0 if it carries a byte stream.
fn longest_received(config: &SessionConfig) -> u64 {
    config.messages.map_or(0, |limits| limits.longest_received)
}

/// Whether the connection takes a subflow of that number on the path.
fn check_place(session: &Session, number: u64, path: PathId) -> Result<(), Refused> {
    if session.used.contains(&(number..number + 1)) {
        let reason = format!("subflow number {number} was used before");
        return Err(Refused::new(refusal::SUBFLOW, reason));
    }
    // It was held up on its way, and has been given up for one that got here before it.
    if let Some(newest) = session.paths.get(&path).filter(|newest| number < newest.number.0) {
        let reason = format!("subflow number {number} is older than {}", newest.number.0);
        return Err(Refused::new(refusal::SUBFLOW, reason));
    }
    let is_fresh = !session.paths.contains_key(&path);
    if is_fresh && session.paths.len() >= MAX_PATHS {
        return Err(too_many_subflows());
    }
    // One that goes live meanwhile is in both counts until the tables are free, never in none.
    if session.shared.subflow_count() + session.joining >= MAX_SUBFLOWS {
        return Err(too_many_subflows());
    }
    Ok(())
}

fn too_many_subflows() -> Refused {
    Refused::busy("too many subflows in this connection")
}

fn wrong_join() -> Refused {
    Refused::new(refusal::JOIN, "no such connection, or not yours")
}

fn no_token() -> Refused {
    let reason = "this server wants a token, and the client's is missing or another one";
    Refused::new(refusal::TOKEN, reason)
}

async fn refuse(channel: Channel, refused: Refused) -> Result<(), Error> {
    let peer = channel.peer();
    channel.refuse(refused.code, &refused.reason).await;
    Err(Error::RefusedPeer { peer, code: refused.code, reason: refused.reason })
}
