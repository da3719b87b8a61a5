//! The lab's own application: a sender and a receiver that run as processes inside the namespaces.
//!
//! They are the same program over every transport, so that a comparison compares transports. The
//! client connects and asks with a small request; the server answers with a stream of blocks that
//! carry time stamps and content that is checked to the last byte. Goodput, delay and gaps are what
//! the receiving application sees, in order.

mod connection;
mod protocol;
mod receiver;
mod sender;
mod stream;
mod timer;

use std::io::{self, BufRead as _, Write as _};

use tokio::sync::mpsc;

pub(crate) use protocol::{Command, Event, ReceiverReport, SenderReport, SocketReport};
pub use protocol::{EndpointArgs, Role, Traffic, Transport};

use crate::LabError;

/// The hidden subcommand under which the lab starts its own program as an endpoint; its one
/// argument is the JSON text of [`EndpointArgs`].
pub const ENDPOINT_COMMAND: &str = "lab-endpoint";

/// A request asks for so many bytes; [`ENDLESS`] for a stream.
const REQUEST_LEN: usize = 16;
const REQUEST_MAGIC: u64 = 0x5745_4654_4c41_4221;
const ENDLESS: u64 = u64::MAX;

/// Bytes sent over a connection to warm it up, before a burst.
const WARMUP_BYTES: u64 = 256 << 10;

/// Runs one endpoint until the orchestrator is satisfied: reads its commands from standard input,
/// writes events to standard output.
///
/// # Errors
/// [`LabError::Failed`] if the transport cannot be set up. Failures of the connection itself are
/// part of the report.
pub fn run_endpoint(args: EndpointArgs) -> Result<(), LabError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(LabError::os("starting the runtime"))?;
    let groups = weftline_bpf::Groups::default();
    weftline::set_coupler(move |socket, connection| {
        if let Err(error) = groups.join(socket, connection) {
            tracing::warn!("a subflow is not coupled to the others: {error}");
        }
    });
    let orchestrator = Orchestrator::listen();
    let outcome = runtime.block_on(async {
        let task = tokio::spawn(async move {
            match args.role {
                Role::Sender => sender::run(args, orchestrator).await,
                Role::Receiver => receiver::run(args, orchestrator).await,
            }
        });
        task.await.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    });
    runtime.shutdown_background();
    outcome.map_err(|error| {
        let message = error.to_string();
        // If the orchestrator is gone, nobody is left to be told.
        let _ = tell(&Event::Failed { message: message.clone() });
        LabError::Failed(message)
    })
}

/// Reads the text of [`EndpointArgs`].
///
/// # Errors
/// [`LabError::Usage`] if it is none.
pub fn parse_endpoint_args(text: &str) -> Result<EndpointArgs, LabError> {
    serde_json::from_str(text).map_err(|error| {
        LabError::Usage(format!("{ENDPOINT_COMMAND} is for the lab's own use: {error}"))
    })
}

/// The process that started this one.
#[derive(Debug)]
struct Orchestrator {
    commands: mpsc::UnboundedReceiver<Command>,
}

impl Orchestrator {
    fn listen() -> Self {
        let (sender, commands) = mpsc::unbounded_channel();
        // Standard input cannot be polled by every runtime, so a thread waits for it. It ends with
        // the pipe or the process.
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if let Ok(command) = serde_json::from_str(&line)
                    && sender.send(command).is_err()
                {
                    break;
                }
            }
        });
        Self { commands }
    }

    /// Waits for `go`; the epoch.
    async fn go(&mut self) -> io::Result<weftline_core::Instant> {
        match self.commands.recv().await {
            Some(Command::Go { epoch_ns }) => Ok(weftline_core::Instant::from_nanos(epoch_ns)),
            None => Err(io::Error::other("the orchestrator is gone")),
        }
    }

    /// Waits until the orchestrator closes our standard input: it has all it wants.
    async fn dismissed(&mut self) {
        while self.commands.recv().await.is_some() {}
    }
}

/// Writes an event to standard output.
fn tell(event: &Event) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, event)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The bytes of a request for `size` bytes.
fn encode_request(size: u64) -> [u8; REQUEST_LEN] {
    let mut bytes = [0; REQUEST_LEN];
    bytes[..8].copy_from_slice(&REQUEST_MAGIC.to_le_bytes());
    bytes[8..].copy_from_slice(&size.to_le_bytes());
    bytes
}

/// The number of bytes a request asks for.
fn decode_request(bytes: &[u8; REQUEST_LEN]) -> io::Result<u64> {
    let (magic, size) = bytes.split_at(8);
    if magic != REQUEST_MAGIC.to_le_bytes() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is damaged"));
    }
    Ok(u64::from_le_bytes(size.try_into().expect("8 bytes")))
}
