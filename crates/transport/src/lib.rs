//! Weftline's multipath transport over the real kernel: one ordered byte stream over several TCP
//! connections, each on a path of its own, at the sum of their rates.
//!
//! A [`Server`] accepts [`Connection`]s and a [`Client`] opens them; a connection reads and writes
//! like a TCP stream. A scheduler of [`weftline_core::scheduler`], by default `earliest`, decides which
//! bytes go over which path.
//!
//! Paths come and go. The first one that is up opens the connection, and the others join when they
//! can. When a path stalls, the others send its bytes again, and a fresh TCP connection replaces it. A
//! connection fails only when it has had no path for 30 s, and the error says how much had been
//! delivered.
//!
//! | to | use |
//! |---|---|
//! | carry a byte stream | [`Connection`]: `AsyncRead + AsyncWrite` |
//! | carry messages with deadlines | [`Connection::into_messages`] |
//! | forward TCP ports, offer SOCKS 5, or carry a whole machine | [`Forwarder`] at the client, [`serve`] at the server |
//! | see what goes on | [`Control`], [`status`] |
//! | find out why a path does not work | [`reach`](crate::reach()), [`Error`] |
//!
//! A client and a server in one program, where two addresses stand for two paths:
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use weftline::{Bind, Client, ClientSecurity, ClientTls, Identity, PathConfig, Server};
//! use weftline::{ServerSecurity, ServerTls, Trust};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let state_dir = tempfile::tempdir()?;
//! // The server makes itself a certificate on first start and keeps it.
//! let identity = Identity::from_state_dir(state_dir.path())?;
//! let tls = ServerTls::new(&identity, None)?;
//! let fingerprint = tls.fingerprint();
//! let mut server = Server::builder()
//!     .security(ServerSecurity::Tls(tls))
//!     .bind(&["127.0.0.1:0".parse()?])?;
//! let address = server.local_addrs()[0];
//!
//! tokio::spawn(async move {
//!     let connection = server.accept().await;
//!     let (mut from, mut to) = tokio::io::split(connection);
//!     tokio::io::copy(&mut from, &mut to).await?; // an echo
//!     to.shutdown().await
//! });
//!
//! // Two local addresses stand for two paths here; Bind::Interface("wlan0".into()) names one.
//! let client = Client::builder()
//!     .server(address)
//!     .path(PathConfig::new("wifi", Bind::Address("127.0.0.1".parse()?)))
//!     .path(PathConfig::new("wigig", Bind::Address("127.0.0.2".parse()?)))
//!     .security(ClientSecurity::Tls(ClientTls::new(&Trust::Pinned(fingerprint), None)?))
//!     .build()?;
//! let mut connection = client.connect().await?;
//! connection.write_all(b"over both paths").await?;
//! connection.shutdown().await?;
//! let mut echo = Vec::new();
//! connection.read_to_end(&mut echo).await?;
//! assert_eq!(echo, b"over both paths");
//! # Ok(())
//! # }
//! ```

/// The code in the book's page on the library compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;

mod about;
mod address;
mod bind;
mod channel;
mod checks;
mod cipher;
mod client;
mod clock;
mod congestion;
mod connection;
mod control;
mod coop;
mod coupling;
mod denial;
mod dial;
mod error;
mod events;
mod fingerprint;
mod forward;
mod gather;
mod handshake;
mod knowledge;
mod limits;
mod links;
mod memory;
mod messages;
mod paths;
mod policy;
mod race;
mod random;
mod reach;
mod server;
mod settings;
mod shared;
mod socket;
mod stats;
mod subflow;
mod sys;
mod tls;
mod token;
mod weave;

pub mod refusal;
pub mod status;

pub use about::{ConnectionWeave, WEAVE_STRETCHES};
pub use address::{ParseServerAddrError, ServerAddr};
pub use bind::Bind;
pub use client::{Client, ClientBuilder};
pub use congestion::{CongestionInUse, check_congestion, congestion_controls};
pub use connection::{Connection, ReadHalf, WriteHalf};
pub use control::{ConnectionStats, Control};
pub use coupling::set_coupler;
pub use error::Error;
pub use events::{PathEvent, PathEventKind};
pub use fingerprint::{Fingerprint, ParseFingerprintError};
pub use forward::{
    Egress, Forwarder, InternetOffer, LONGEST_DATAGRAM, LaneControl, LaneGrant, LaneHost,
    LaneOverTcp, LocalService, Network, ParseNetworkError, Relayed, SocksUsers, Target, relay,
    serve, serve_with_lanes,
};
pub use limits::Limits;
pub use links::LinkState;
pub use memory::{MemoryBudget, MemoryLease};
pub use messages::{
    MessageError, MessageOutcomes, MessageReceiver, MessageSender, Messages, SendOptions,
};
pub use reach::{Reach, check_listen, reach};
pub use server::{Server, ServerBuilder, ServerControl};
pub use settings::PathConfig;
pub use stats::{ProcessStats, process_stats, refusals};
pub use tls::{
    ClientSecurity, ClientTls, Identity, ServerSecurity, ServerTls, Trust, default_state_dir,
    make_state_dir,
};
pub use token::{Token, TokenLine};
pub use weave::WeaveWatch;
pub use weftline_core::limiter::PathLimiter;
pub use weftline_core::session::{
    Incoming, Message, MessageId, MessageOutcome, Outcome, SendError,
};
pub use weftline_core::{PathId, PathPolicy, Role};
