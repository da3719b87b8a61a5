//! The server's side of forwarding.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use weftline_core::session::{
    RESET_FORWARD, RESET_SERVER, RESET_SERVICE, RESET_SHUTDOWN, RESET_TARGET,
};

use super::captured::InternetOffer;
use super::dial;
use super::dns;
use super::egress::Egress;
use super::lanes::{LaneHost, serve_lanes};
use super::over_tcp::serve_lane;
use super::pace::{Pace, Pass};
use super::socks::Reply;
use super::waiting::Waiting;
use super::{Open, Opening, SHUTTING_DOWN, Stage, reached, relay_until};
use crate::address::ServerAddr;
use crate::clock;
use crate::connection::Connection;
use crate::refusal::printable;
use crate::server::Server;

/// Where a server forwards to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Always to this TCP address.
    Fixed(ServerAddr),
    /// Wherever the client says: it takes SOCKS connections.
    Named,
    /// To the address that the client says, as far as it is let go: it carries whole machines.
    Internet(Egress),
}

/// Forwards each connection of `server` to its target until `stop` completes. Nothing is accepted
/// any more then, and connections under way may finish until `stop_now` completes; those that
/// have not are reset. Subflows do not join any more either: connections under way go on with
/// those they have.
pub async fn serve(
    server: Server,
    target: Target,
    stop: impl Future<Output = ()>,
    stop_now: impl Future<Output = ()>,
) {
    serve_with_lanes(server, target, None, stop, stop_now).await;
}

/// As [`serve`]. A server that carries whole machines offers them lanes besides if there is a `host`.
pub async fn serve_with_lanes(
    mut server: Server,
    target: Target,
    host: Option<Arc<dyn LaneHost>>,
    stop: impl Future<Output = ()>,
    stop_now: impl Future<Output = ()>,
) {
    let (dns, lookups) = (dns::questions(), dial::lookups());
    let service = Arc::new(Service { target, host, pace: Pace::default(), dns, lookups });
    let mut open = Open::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            connection = server.accept() => {
                open.tasks.spawn(serve_one(connection, Arc::clone(&service), open.stage.subscribe()));
            }
            Some(_) = open.tasks.join_next() => {}
            () = &mut stop => break,
        }
    }
    open.tasks.spawn(server.close(SHUTTING_DOWN));
    open.drain(stop_now).await;
}

/// What connections are for.
struct Service {
    target: Target,
    host: Option<Arc<dyn LaneHost>>,
    pace: Pace,
    /// Questions to DNS by TCP.
    dns: Arc<Waiting>,
    /// Lookups of targets' names.
    lookups: Arc<Waiting>,
}

async fn serve_one(
    mut connection: Connection,
    service: Arc<Service>,
    mut stage: watch::Receiver<Stage>,
) {
    let Service { target, host, .. } = &*service;
    let peer = connection.peer_addr();
    if connection.carries_messages() {
        return serve_datagrams(connection, &service, stage).await;
    }
    let opening = tokio::select! {
        opening = Opening::read(&mut connection) => opening,
        () = reached(&mut stage, Stage::Finishing) => {
            connection.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
            let _ = connection.closed().await;
            return;
        }
    };
    if let (Ok(Opening::Lanes), Target::Internet(_), Some(host)) = (&opening, target, host) {
        let stopped = async { reached(&mut stage, Stage::Finishing).await };
        return serve_lanes(connection, &**host, stopped).await;
    }
    if let (Ok(Opening::Ask), Target::Internet(_)) = (&opening, target) {
        if let Err(error) = InternetOffer::write(&mut connection, host.is_some()).await {
            tracing::debug!("{peer}: asked what is offered, and left: {error}");
        }
        return closed_or_over(&mut connection, &mut stage).await;
    }
    if let (Ok(Opening::Address(address)), Target::Internet(egress), Some(host)) =
        (&opening, target, host)
        && address.port() == dns::PORT
        && matches!(egress.check(*address), Ok(Err(_)))
    {
        return serve_dns(connection, &service, &host.resolvers(), stage).await;
    }
    let dialled = match &opening {
        Ok(opening) => {
            let dialled = tokio::select! {
                dialled = dial(&mut connection, &service, opening) => Some(dialled),
                () = reached(&mut stage, Stage::Over) => None,
            };
            let Some(dialled) = dialled else {
                connection.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
                let _ = connection.closed().await;
                return;
            };
            dialled
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Refused::new(RESET_SERVICE, error.to_string()))
        }
        Err(error) => {
            // It was kept ready and never used, or its client failed.
            tracing::debug!("{peer}: a connection ended unused: {error}");
            return;
        }
    };
    match dialled {
        Ok(local) => {
            connection.set_label(&match (&opening, target) {
                (Ok(Opening::Named(name)), _) => format!("to {name}"),
                (Ok(Opening::Address(address)), _) => format!("to {address}"),
                (_, Target::Fixed(target)) => format!("to {target}"),
                _ => "to a target".to_owned(),
            });
            relay_until(connection, local, peer, stage, |_| std::future::ready(())).await;
        }
        Err(Refused { code, reason, is_news }) => {
            // A client that has gone meanwhile says nothing of the target.
            if is_news && connection.error().is_none() {
                tracing::warn!("{peer}: {reason}");
            }
            connection.abort(code, &reason);
            let _ = connection.closed().await;
        }
    }
}

/// Carries a lane over TCP, where there are lanes.
async fn serve_datagrams(
    connection: Connection,
    service: &Service,
    mut stage: watch::Receiver<Stage>,
) {
    let Service { target: Target::Internet(_), host: Some(host), .. } = service else {
        connection.abort(RESET_SERVICE, "this server takes messages for lanes only, and has none");
        let _ = connection.closed().await;
        return;
    };
    serve_lane(connection, &**host, async { reached(&mut stage, Stage::Finishing).await }).await;
}

/// Answers questions to DNS, until the client has no more or the server stops.
async fn serve_dns(
    mut connection: Connection,
    service: &Service,
    resolvers: &[SocketAddr],
    mut stage: watch::Receiver<Stage>,
) {
    connection.set_label("to DNS");
    let (peer, client) = (connection.peer_addr(), client_of(&connection));
    if let Err(Refused { code, reason, .. }) = take_pace(&connection, &service.pace) {
        connection.abort(code, &reason);
    } else {
        tokio::select! {
            answered = dns::answer(&mut connection, &client, resolvers, &service.dns) => match answered {
                Ok(()) => _ = connection.shutdown().await,
                Err(error) => {
                    tracing::debug!("{peer}: a question to DNS by TCP has no answer: {error}");
                    connection.abort(RESET_SERVER, &error.to_string());
                }
            },
            () = reached(&mut stage, Stage::Finishing) => {
                connection.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
            }
        }
    }
    closed_or_over(&mut connection, &mut stage).await;
}

/// Waits until a connection is closed, which its client may have forgotten or sleep over, but no longer
/// than the server runs.
async fn closed_or_over(connection: &mut Connection, stage: &mut watch::Receiver<Stage>) {
    let over = tokio::select! {
        _ = connection.closed() => false,
        () = reached(stage, Stage::Over) => true,
    };
    if over {
        connection.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
        let _ = connection.closed().await;
    }
}

/// Counts a connection as its client's.
fn take_pace(connection: &Connection, pace: &Pace) -> Result<(), Refused> {
    let of = client_of(connection);
    match pace.take(&of, clock::now()) {
        Pass::Yes => Ok(()),
        Pass::No { is_news } => Err(Refused::pace(&of, is_news)),
    }
}

/// Whose a connection is: the client's name, or where it comes from.
fn client_of(connection: &Connection) -> String {
    let control = connection.control();
    control.client().map_or_else(|| control.peer_addr().ip().to_string(), str::to_owned)
}

/// Why a target was not reached, and the code with which the client hears of it.
struct Refused {
    code: u64,
    reason: String,
    /// It is worth a line of the log.
    is_news: bool,
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self::new(RESET_FORWARD, reason)
    }
}

impl Refused {
    const fn new(code: u64, reason: String) -> Self {
        Self { code, reason, is_news: true }
    }

    /// The client opens more than it may.
    fn pace(client: &str, is_news: bool) -> Self {
        let reason = format!("{} opens more than 100 targets a second", printable(client));
        Self { code: RESET_SERVER, reason, is_news }
    }

    /// The client wants another service than `target` is.
    fn service(target: &Target) -> Self {
        let reason = match target {
            Target::Fixed(_) => {
                "this server forwards to one target only: use a port that is forwarded, not SOCKS"
            }
            Target::Named => "this server wants to be told where to connect: use SOCKS",
            Target::Internet(_) => {
                "this server carries whole machines; the client must run 'weftline up'"
            }
        };
        Self::new(RESET_SERVICE, reason.to_owned())
    }
}

/// Makes the TCP connection that the opening asks for, or says why not.
async fn dial(
    connection: &mut Connection,
    service: &Service,
    opening: &Opening,
) -> Result<TcpStream, Refused> {
    let Service { target, pace, lookups, .. } = service;
    let client = client_of(connection);
    match (target, opening) {
        (Target::Fixed(target), Opening::Forward) => {
            wanted(connection, dial::connect(target, &client, lookups)).await.map_err(|error| {
                let reason = format!("cannot reach the forward target {target}: {error}");
                Refused::new(code_of(&error), reason)
            })
        }
        (Target::Named, Opening::Named(name)) => {
            let dialled = match name.parse::<ServerAddr>() {
                Ok(address) => wanted(connection, dial::connect(&address, &client, lookups)).await,
                Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
            };
            let reply = dialled.as_ref().map_or_else(Reply::from, |_| Reply::SUCCEEDED);
            let refused =
                |error: &dyn fmt::Display| format!("cannot reach {}: {error}", printable(name));
            connection.write_u8(reply.0).await.map_err(|error| refused(&error))?;
            // The reply says it all; it would not survive a reset that overtakes it.
            if let Err(error) = &dialled
                && connection.shutdown().await.is_ok()
            {
                let _ = connection.closed().await;
                return Err(refused(error).into());
            }
            dialled.map_err(|error| refused(&error).into())
        }
        (Target::Internet(egress), Opening::Address(address)) => {
            take_pace(connection, pace)?;
            dial_to(connection, egress, *address).await
        }
        (target, _) => Err(Refused::service(target)),
    }
}

/// Connects to an address for a whole machine, which goes by what it hears: of a target's own doing, and
/// of nothing else, it draws the conclusion that the target is not there.
async fn dial_to(
    connection: &Connection,
    egress: &Egress,
    address: SocketAddr,
) -> Result<TcpStream, Refused> {
    let checked = egress
        .check(address)
        .map_err(|error| format!("{address}: this server's own addresses: {error}"))?;
    let address = checked.map_err(|reason| Refused::new(RESET_TARGET, reason))?;
    wanted(connection, dial::connect_to(address))
        .await
        .map_err(|error| Refused::new(code_of(&error), format!("cannot reach {address}: {error}")))
}

/// What comes of dialling for a connection, which ends with it: nobody waits for the target any more then.
async fn wanted(
    connection: &Connection,
    dialling: impl Future<Output = io::Result<TcpStream>>,
) -> io::Result<TcpStream> {
    let control = connection.control();
    tokio::select! {
        dialled = dialling => dialled,
        () = control.shared.ended() => {
            Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the client has gone"))
        }
    }
}

/// Whether it is the target's doing that it was not reached, or the server's own want.
fn code_of(error: &io::Error) -> u64 {
    if dial::is_of_target(error) { RESET_TARGET } else { RESET_SERVER }
}
