//! What the integration tests share: a server and clients on loopback, and a relay to cut.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code; each test binary uses its own part"
)]

pub mod attack;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use weftline::{
    Bind, Client, ClientBuilder, ClientSecurity, ClientTls, Connection, Control, Identity, Limits,
    PathConfig, PathEvent, PathEventKind, Server, ServerBuilder, ServerSecurity, ServerTls, Trust,
};

/// Far more than anything here takes: a test that waits this long hangs.
pub const PATIENCE: Duration = Duration::from_secs(400);

/// How the two ends are secured in a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Security {
    Plain,
    Tls,
}

/// The two addresses that stand for two paths.
pub const PATHS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// A server builder and the client security that fits. No handshake is too slow for it.
pub fn pair(security: Security) -> (ServerBuilder, ClientSecurity) {
    let (server, client) = unlimited(security);
    (server.limits(patient()), client)
}

/// Limits of a server under which nobody is given up, or makes room, for being slow.
pub fn patient() -> Limits {
    Limits { handshake_timeout: PATIENCE, answer_time: PATIENCE, ..Limits::default() }
}

fn unlimited(security: Security) -> (ServerBuilder, ClientSecurity) {
    match security {
        Security::Plain => (
            Server::builder().security(ServerSecurity::InsecurePlaintext),
            ClientSecurity::InsecurePlaintext,
        ),
        Security::Tls => {
            let dir = tempfile::tempdir().unwrap();
            let identity = Identity::from_state_dir(dir.path()).unwrap();
            let tls = ServerTls::new(&identity, None).unwrap();
            let trust = Trust::Pinned(tls.fingerprint());
            let client = ClientSecurity::Tls(ClientTls::new(&trust, None).unwrap());
            (Server::builder().security(ServerSecurity::Tls(tls)), client)
        }
    }
}

/// A server on a port of the system's choice and a client builder with two paths to it.
pub fn server_and_client(security: Security) -> (Server, ClientBuilder) {
    let (server, client) = pair(security);
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let builder = two_paths(client).server(server.local_addrs()[0]);
    (server, builder)
}

/// A client with the two loopback paths and no server yet.
pub fn two_paths(security: ClientSecurity) -> ClientBuilder {
    let builder = Client::builder().security(security).seed(1);
    // On a busy machine an answer takes its time; what is to be given up is closed, or says so.
    let mut builder = builder.connect_timeout(PATIENCE).handshake_timeout(PATIENCE);
    for (name, address) in ["one", "two"].iter().zip(PATHS) {
        builder = builder.path(PathConfig::new(*name, Bind::Address(address.parse().unwrap())));
    }
    builder
}

/// `len` bytes that differ from offset to offset and from `seed` to `seed`.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// An address that refuses: nobody listens, and nobody else gets its port while the socket is held.
pub fn refusing() -> (socket2::Socket, SocketAddr) {
    let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    held.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let address = held.local_addr().unwrap().as_socket().unwrap();
    (held, address)
}

/// Lets this process have as many files as it may; how many those are.
pub fn raise_file_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    hard.map_or(usize::MAX, |most| most as usize)
}

/// Fails the test if `work` takes longer than any machine needs.
pub async fn patiently<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("the test hangs")
}

/// A TCP relay in front of a server, whose connections can be cut and frozen.
pub struct Relay {
    pub address: SocketAddr,
    state: watch::Sender<RelayState>,
    _tasks: JoinSet<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RelayState {
    /// Closes new connections at once.
    shut: bool,
    /// Connections with a lower number are reset.
    cut_below: u64,
    /// Connections with a lower number are reset at the client and ended at the server.
    ended_below: u64,
    /// Connections with a lower number pass nothing on, for ever.
    frozen_below: u64,
    /// Connections with a lower number pass nothing from server to client, for ever.
    mute_below: u64,
    /// The number of the next connection.
    next: u64,
}

impl Relay {
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = watch::Sender::new(RelayState::default());
        let mut tasks = JoinSet::new();
        let shared = state.clone();
        tasks.spawn(async move {
            let mut links = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                // In one step: a cut comes before it, or meets it.
                let mut number = None;
                shared.send_modify(|state| {
                    number = (!state.shut).then_some(state.next);
                    state.next += u64::from(!state.shut);
                });
                let Some(number) = number else {
                    let _ = client.set_zero_linger();
                    continue;
                };
                // Those that are over cost memory until they are taken.
                while links.try_join_next().is_some() {}
                links.spawn(link(client, target, number, shared.subscribe()));
            }
        });
        Self { address, state, _tasks: tasks }
    }

    /// Resets the connections there are and closes new ones, until [`Relay::mend`].
    pub fn cut(&self) {
        self.state.send_modify(|state| {
            state.shut = true;
            state.cut_below = state.next;
        });
    }

    /// As [`Relay::cut`], but the server sees an orderly end, as proxies make it.
    pub fn end(&self) {
        self.state.send_modify(|state| state.ended_below = state.next);
    }

    /// Lets new connections through again.
    pub fn mend(&self) {
        self.state.send_modify(|state| state.shut = false);
    }

    /// As [`Relay::freeze`], from the server to the client only.
    pub fn mute(&self) {
        self.state.send_modify(|state| state.mute_below = state.next);
    }

    /// Takes everything on every connection, those to come as well, and passes nothing on.
    pub fn swallow(&self) {
        self.state.send_modify(|state| state.frozen_below = u64::MAX);
    }

    /// Stops what the connections there are carry, without closing them; new ones are not touched.
    pub fn freeze(&self) {
        self.state.send_modify(|state| state.frozen_below = state.next);
    }
}

async fn link(
    client: TcpStream,
    target: SocketAddr,
    number: u64,
    state: watch::Receiver<RelayState>,
) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (mut client_in, mut client_out) = tokio::io::split(client);
    let (mut server_in, mut server_out) = tokio::io::split(server);
    let (mut cut, mut ended) = (state.clone(), state.clone());
    let fate = |is_to_client| {
        let state = state.borrow();
        let frozen_below = state.frozen_below.max(if is_to_client { state.mute_below } else { 0 });
        match number {
            _ if number < state.cut_below => Fate::Cut,
            _ if number < frozen_below => Fate::Frozen,
            _ => Fate::Passes,
        }
    };
    let is_ended = tokio::select! {
        _ = pump(&mut client_in, &mut server_out, || fate(false)) => false,
        _ = pump(&mut server_in, &mut client_out, || fate(true)) => false,
        _ = cut.wait_for(|s| number < s.cut_below) => false,
        _ = ended.wait_for(|s| number < s.ended_below) => true,
    };
    let _ = client_in.unsplit(client_out).set_zero_linger();
    if is_ended {
        let _ = server_out.shutdown().await;
        return std::future::pending().await;
    }
    let _ = server_in.unsplit(server_out).set_zero_linger();
}

/// What becomes of what a relay has read.
enum Fate {
    Passes,
    Frozen,
    Cut,
}

/// Copies until something fails; an end is passed on and does not end it. Nothing passes that came
/// after a cut.
async fn pump(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    fate: impl Fn() -> Fate,
) -> Option<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = from.read(&mut buffer).await.ok()?;
        match fate() {
            Fate::Passes => {}
            Fate::Frozen => return std::future::pending().await,
            Fate::Cut => return None,
        }
        if n == 0 {
            to.shutdown().await.ok()?;
            return std::future::pending().await;
        }
        to.write_all(&buffer[..n]).await.ok()?;
    }
}

/// Waits for an event of the path `name` that `wanted` accepts.
pub async fn event(
    events: &mut broadcast::Receiver<PathEvent>,
    name: &str,
    wanted: impl Fn(&PathEventKind) -> bool,
) -> PathEvent {
    loop {
        match events.recv().await {
            Ok(event) if &*event.name == name && wanted(&event.kind) => return event,
            // Those that are missed are the oldest, of what was before this is waited for.
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => panic!("the connection is gone"),
        }
    }
}

/// Sends and receives `data` in step, so that both ends have it when this returns.
pub async fn transfer(from: &mut Connection, to: &mut Connection, data: &[u8]) {
    let mut got = vec![0; data.len()];
    let (sent, received) = tokio::join!(from.write_all(data), to.read_exact(&mut got));
    sent.unwrap();
    received.unwrap();
    assert!(got == data, "other bytes arrived");
}

/// Sends `data`, half-closes, and returns all that comes back.
pub async fn exchange(connection: Connection, data: Vec<u8>) -> (Vec<u8>, Control) {
    let control = connection.control();
    let (mut reader, mut writer) = connection.into_split();
    let writing = tokio::spawn(async move {
        writer.write_all(&data).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut back = Vec::new();
    reader.read_to_end(&mut back).await.unwrap();
    writing.await.unwrap();
    // Before the halves are let go of, so that nothing is left to the background.
    control.closed().await.unwrap();
    (back, control)
}

/// Echoes every connection of `server` until the test ends.
pub fn echo(mut server: Server) {
    tokio::spawn(async move {
        loop {
            let connection = server.accept().await;
            tokio::spawn(async move {
                let (mut from, mut to) = connection.into_split();
                if tokio::io::copy_buf(&mut from, &mut to).await.is_ok() {
                    let _ = to.shutdown().await;
                }
            });
        }
    });
}

/// One echo of `len` bytes.
pub async fn check_echo(client: &Client, len: usize) {
    let data = pattern(len, 7);
    let (back, _) = exchange(client.connect().await.unwrap(), data.clone()).await;
    assert!(back == data, "the echo differs");
}
