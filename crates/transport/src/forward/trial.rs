//! Whether a server does what a client's listeners are for.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weftline_core::session::{RESET_FORWARD, RESET_SHUTDOWN};
#[cfg(doc)]
use weftline_core::session::{RESET_SERVER, RESET_SERVICE, RESET_TARGET};

use super::{LocalService, Opening};
use crate::client::Client;
use crate::error::Error;

/// How long the server may take to say that it does not: it does so at once, unless it has to wait for
/// its own target.
const PATIENCE: Duration = Duration::from_secs(3);

impl LocalService {
    /// Opens one connection as for a local program, over which nothing is sent, and waits for what the
    /// server says of it. The server's fixed target is connected to for that.
    ///
    /// # Errors
    /// When the server cannot be reached or does not accept the client; [`Error::Reset`] with its
    /// reason, and the code [`RESET_SERVICE`] when it does something else for its clients,
    /// [`RESET_TARGET`] or [`RESET_SERVER`] when it cannot reach its target. A target that is there and resets the
    /// connection is none of the server's faults.
    pub async fn try_out(self, client: &Client) -> Result<(), Arc<Error>> {
        let opening = match self {
            Self::Forward => Opening::Forward,
            // A place that is none: the server says so, and dials nobody.
            Self::Socks => Opening::Named(String::new()),
            Self::Captured => Opening::Ask,
        };
        let mut connection = client.connect().await?;
        let control = connection.control();
        let talk = async {
            opening.write(&mut connection).await?;
            connection.shutdown().await?;
            // Data or their end: somebody is there.
            match connection.read_u8().await {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
                Err(error) => Err(error),
            }
        };
        let said = tokio::time::timeout(PATIENCE, talk).await;
        let failure = control.error();
        // No effect where the connection has ended or failed.
        control.abort(RESET_SHUTDOWN, "weftline doctor has tried whether this server answers");
        let _ = control.closed().await;
        match (said, failure) {
            // Silence is a service that waits to be spoken to.
            (Err(_) | Ok(Ok(())), _) => Ok(()),
            (Ok(Err(_)), Some(failure)) => match (self, &*failure) {
                (Self::Forward, Error::Reset { code: RESET_FORWARD, .. }) => Ok(()),
                _ => Err(failure),
            },
            (Ok(Err(error)), None) => Err(Error::Socket(error).into()),
        }
    }
}
