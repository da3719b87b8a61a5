//! The steps of an attempt: dial, secure, and hello or join.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{AbortHandle, JoinError};
use weftline_core::path_manager::{ConnectingId, Failure, Turn};
use weftline_core::wire::{Hello, Join};
use weftline_core::{PathId, SubflowId};

use super::{Paths, Stage, Watched};
use crate::channel::{Channel, Parts};
use crate::clock;
use crate::dial;
use crate::error::Error;
use crate::handshake::{self, Accepted};
use crate::memory::unasked;
use crate::refusal;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::socket::TcpInfo;
use crate::subflow::{self, Running, SubflowEnd};

/// What a step has come to.
pub(super) enum Step {
    Connected(Result<(TcpStream, Option<OwnedSemaphorePermit>), Error>),
    Secured(Result<Channel, Error>),
    Answered(Result<Accepted, Error>),
    Joined(Result<Box<Parts>, Error>),
}

/// An attempt that is under way.
pub(super) struct Underway {
    path: PathId,
    task: AbortHandle,
    /// The server, once it has been reached.
    peer: Option<SocketAddr>,
    /// Between two steps.
    stream: Option<TcpStream>,
    channel: Option<Channel>,
    subflow: Option<SubflowId>,
    /// One that has said hello, and is not accepted yet.
    running: Option<Running>,
    /// Held while it has its turn, if it needs one.
    _turn: Option<OwnedSemaphorePermit>,
}

impl Paths {
    /// Where joins are dialled; without any, where a hello would be said.
    fn join_addresses(&self) -> Arc<[SocketAddr]> {
        self.accepted
            .as_ref()
            .map(|accepted| Arc::clone(&accepted.join_addresses))
            .unwrap_or_default()
    }

    pub(super) fn dial(&mut self, connecting: ConnectingId, path: PathId, turn: Turn) {
        let Some(index) = self.settings.index(path) else { return };
        let (settings, addresses) = (Arc::clone(&self.settings), self.join_addresses());
        let task = self.steps.spawn(async move {
            let turn = settings.knowledge[index].turn(turn, settings.handshake_timeout).await;
            let stream = match addresses.is_empty() {
                true => dial::dial(&settings, index).await,
                false => dial::dial_join(&settings, index, &addresses).await,
            };
            (connecting, Step::Connected(stream.map(|stream| (stream, turn))))
        });
        let (peer, stream, channel, subflow, running) = (None, None, None, None, None);
        let underway =
            Underway { path, task, peer, stream, channel, subflow, running, _turn: None };
        self.underway.insert(connecting, Box::new(underway));
    }

    pub(super) fn secure(&mut self, connecting: ConnectingId) {
        let Some(underway) = self.underway.get_mut(&connecting) else { return };
        let Some((stream, index)) = underway.stream.take().zip(self.settings.index(underway.path))
        else {
            return;
        };
        let settings = Arc::clone(&self.settings);
        underway.task = self.steps.spawn(async move {
            (connecting, Step::Secured(secured(&settings, index, stream).await))
        });
    }

    /// Says hello, with what the application has written by then and goes on writing behind it.
    pub(super) fn hello(&mut self, connecting: ConnectingId, subflow: SubflowId) {
        if let Err(error) = self.say_hello(connecting, subflow) {
            self.connecting_failed(connecting, error);
        }
    }

    fn say_hello(&mut self, connecting: ConnectingId, subflow: SubflowId) -> Result<(), Error> {
        let shared = self.begin()?;
        let Some(underway) = self.underway.get_mut(&connecting) else { return Ok(()) };
        let Some((channel, index)) =
            underway.channel.take().zip(self.settings.index(underway.path))
        else {
            return Ok(());
        };
        let (settings, path) = (&*self.settings, underway.path);
        let (config, peer) = (&settings.paths[index].0, channel.peer());
        let hello = Hello {
            subflow: subflow.0,
            path: path.0,
            path_name: config.name.clone(),
            nonce: self.nonce,
            policy: settings.note(index),
            congestion: settings.socket_options(config).congestion.on_wire(),
            ..settings.hello.clone()
        };
        let (parts, awaited, answer) = handshake::hello(channel, hello, settings.token.as_ref())?;
        let running = subflow::start(
            &shared,
            subflow,
            path,
            &config.name.as_str().into(),
            parts,
            Some(awaited),
        );
        underway.running = Some(running.ok_or(Error::ClosedInHandshake { peer })?);
        underway.subflow = Some(subflow);
        underway.task = self.steps.spawn(async move {
            // What breaks a subflow off before its answer is told with it, but not the connection's
            // end.
            let answer = answer.await.unwrap_or(Err(Error::ClosedInHandshake { peer }));
            (connecting, Step::Answered(answer))
        });
        self.report(Stage::Reached, peer);
        Ok(())
    }

    /// The connection that the hellos are to open.
    fn begin(&mut self) -> Result<Arc<Shared>, Error> {
        if let Some(shared) = &self.shared {
            return Ok(Arc::clone(shared));
        }
        let settings = &*self.settings;
        let lease = settings.memory.connection(unasked(&settings.session))?;
        let caps = Arc::clone(&settings.common.caps);
        let shared = Shared::opening(&settings.session, settings.grace, caps, lease);
        for (index, &id) in settings.ids.iter().enumerate() {
            shared.set_policy(id, settings.note(index));
            shared.name_path(id, &settings.paths[index].0.name);
        }
        Ok(Arc::clone(self.shared.insert(shared)))
    }

    /// Joins. A TCP connection that was begun before the server said where it takes joins may be
    /// to another server; then a fresh one takes its place.
    pub(super) fn join(&mut self, connecting: ConnectingId, subflow: SubflowId) {
        let addresses = self.join_addresses();
        let Some(underway) = self.underway.get_mut(&connecting) else { return };
        let Some((channel, index)) =
            underway.channel.take().zip(self.settings.index(underway.path))
        else {
            return;
        };
        let Some((shared, accepted)) = self.shared.as_ref().zip(self.accepted.as_ref()) else {
            return;
        };
        let keys = accepted.keys.clone();
        let config = &self.settings.paths[index].0;
        let join = Join {
            subflow: subflow.0,
            path: underway.path.0,
            path_name: config.name.clone(),
            policy: shared.policy(underway.path),
            congestion: Some(self.settings.socket_options(config).congestion.on_wire()),
            ..Join::default()
        };
        underway.subflow = Some(subflow);
        if !takes_joins(&addresses, channel.peer()) {
            underway.peer = addresses.first().copied();
        }
        let settings = Arc::clone(&self.settings);
        underway.task = self.steps.spawn(async move {
            let joined = async {
                let channel = at_join_address(&settings, index, channel, &addresses).await?;
                handshake::join(channel, &keys, join).await
            };
            (connecting, Step::Joined(joined.await.map(Box::new)))
        });
    }

    // ---- what came of them ----

    /// A step is done.
    pub(super) fn stepped(&mut self, connecting: ConnectingId, step: Step) {
        let Some(underway) = self.underway.get_mut(&connecting) else { return };
        let done = match step {
            Step::Connected(done) => done.and_then(|(stream, turn)| {
                underway.peer = Some(stream.peer_addr().map_err(Error::Socket)?);
                let rtt = TcpInfo::of(&stream).map(|info| info.srtt).unwrap_or_default();
                (underway.stream, underway._turn) = (Some(stream), turn);
                self.manager.handle_connected(connecting, rtt, clock::now());
                Ok(())
            }),
            Step::Secured(done) => done.map(|channel| {
                underway.channel = Some(channel);
                self.manager.handle_secured(connecting, clock::now());
            }),
            Step::Answered(done) => done.map(|accepted| {
                self.accepted = Some(accepted);
                self.found(connecting);
                self.came_up(connecting);
            }),
            Step::Joined(done) => done.and_then(|parts| self.joined(connecting, *parts)),
        };
        if let Err(error) = done {
            self.connecting_failed(connecting, error);
        }
    }

    fn joined(&mut self, connecting: ConnectingId, parts: Parts) -> Result<(), Error> {
        let Some(underway) = self.underway.get_mut(&connecting) else { return Ok(()) };
        let peer = parts.peer;
        let Some(((shared, subflow), index)) =
            self.shared.as_ref().zip(underway.subflow).zip(self.settings.index(underway.path))
        else {
            return Ok(());
        };
        let name = self.settings.paths[index].0.name.as_str().into();
        let running = subflow::start(shared, subflow, underway.path, &name, parts, None);
        underway.running = Some(running.ok_or(Error::ClosedInHandshake { peer })?);
        self.came_up(connecting);
        Ok(())
    }

    /// The attempt's subflow is up.
    fn came_up(&mut self, connecting: ConnectingId) {
        let Some(underway) = self.underway.remove(&connecting) else { return };
        let Some(running) = underway.running else { return };
        let (peer, local) = (running.peer(), running.local().ip());
        let index = self.settings.index(underway.path);
        if let Some(index) = index {
            self.settings.knowledge[index].note_answer();
            self.settings.common.answers.send_replace(());
        }
        let bind = index.map(|at| &self.settings.paths[at].0.bind);
        let is_listed = self.links.as_ref().zip(bind).is_some_and(|(l, bind)| l.carry(bind, local));
        let id = running.id;
        self.subflows.insert(id, Watched { running, is_listed });
        self.manager.handle_up(connecting, clock::now());
        self.report(Stage::Up, peer);
        // It may have gone down while nobody watched it.
        self.look_around();
    }

    /// A step's task was broken off: by a panic, as those that are forgotten are not asked.
    pub(super) fn broke_off(&mut self, error: &JoinError) {
        let mut all = self.underway.iter();
        let found = all.find(|(_, underway)| underway.task.id() == error.id());
        if let Some((&connecting, _)) = found {
            let error = std::io::Error::other(error.to_string());
            self.connecting_failed(connecting, Error::Socket(error));
        }
    }

    pub(super) fn abandon(&mut self, connecting: ConnectingId) {
        let Some(mut underway) = self.underway.remove(&connecting) else { return };
        underway.task.abort();
        if let Some(running) = &mut underway.running {
            running.stop(SubflowEnd::Unanswered);
        }
    }

    /// The path manager has counted it as failed already.
    pub(super) fn time_out(&mut self, connecting: ConnectingId, after: Duration) {
        let Some(underway) = self.underway.get(&connecting) else { return };
        let (path, peer) = (underway.path, underway.peer);
        self.doubt(path, peer);
        self.abandon(connecting);
        if let Some(peer) = peer {
            self.told_failure(path, Error::HandshakeTimeout { peer, after });
        }
    }

    fn connecting_failed(&mut self, connecting: ConnectingId, error: Error) {
        let of = self.underway.get(&connecting).map(|underway| (underway.path, underway.peer));
        let Some((path, peer)) = of else { return };
        self.doubt(path, peer);
        self.abandon(connecting);
        let failure = match &error {
            error if error.is_permanent() => Failure::Permanent,
            Error::Refused { .. } => Failure::Busy,
            _ => Failure::Temporary,
        };
        self.check_forgotten(&error);
        self.told_failure(path, error);
        self.manager.handle_failed(connecting, failure, clock::now());
    }

    /// A server has answered a hello where the attempt is.
    fn found(&self, connecting: ConnectingId) {
        if let Some(underway) = self.underway.get(&connecting)
            && let Some((index, peer)) = self.settings.index(underway.path).zip(underway.peer)
        {
            self.settings.knowledge[index].names().found(peer);
        }
    }

    /// Something took a TCP connection at `peer`, and was no server to open a connection with. A join
    /// says nothing of that kind: the connection is where it is.
    fn doubt(&self, path: PathId, peer: Option<SocketAddr>) {
        if self.accepted.is_none()
            && let Some((index, peer)) = self.settings.index(path).zip(peer)
        {
            self.settings.knowledge[index].names().doubt(peer);
        }
    }

    /// A server that does not know the connection any more will not know it later: without a
    /// living subflow there is nothing to wait for.
    fn check_forgotten(&self, error: &Error) {
        if let Error::Refused { peer, code: code @ refusal::JOIN, reason } = error
            && self.accepted.is_some()
            && let Some(shared) = &self.shared
            && shared.subflow_count() == 0
        {
            let (peer, code, reason) = (*peer, *code, reason.clone());
            shared.forgotten(Error::Refused { peer, code, reason });
        }
    }
}

/// The channel to the server on the path `index`, over a TCP connection. The certificate is that of
/// the configured server, wherever this connection goes.
async fn secured(settings: &Settings, index: usize, stream: TcpStream) -> Result<Channel, Error> {
    let (path, server) = &settings.paths[index];
    let name = settings.server_name.clone().unwrap_or_else(|| server.certificate_name());
    let mut channel = Channel::connect(stream, &settings.security, &name).await?;
    channel.set_congestion(&settings.socket_options(path).congestion, None)?;
    Ok(channel)
}

/// Whether the server that announces `addresses` takes joins at `peer`: anywhere, if it announces
/// none.
fn takes_joins(addresses: &[SocketAddr], peer: SocketAddr) -> bool {
    addresses.is_empty() || addresses.contains(&peer)
}

/// `channel`, or in its place a fresh one to where joins are taken.
async fn at_join_address(
    settings: &Settings,
    index: usize,
    channel: Channel,
    addresses: &[SocketAddr],
) -> Result<Channel, Error> {
    if takes_joins(addresses, channel.peer()) {
        return Ok(channel);
    }
    drop(channel);
    let stream = dial::dial_join(settings, index, addresses).await?;
    secured(settings, index, stream).await
}
