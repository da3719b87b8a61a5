//! The server of `vr http`.

use std::net::SocketAddr;

use weftline_web::{FileServer, FileSettings, FilesError};

use super::HttpArgs;
use crate::failure::Failure;

/// Serves the package until what this returns is dropped; says where, too.
///
/// # Errors
/// When the address or the directory cannot be had, or the origin is none.
pub(super) async fn open(args: &HttpArgs) -> Result<(FileServer, SocketAddr), Failure> {
    let settings = FileSettings {
        dir: args.package.clone(),
        address: args.listen,
        allow_origin: args.allow_origin.clone(),
    };
    let server = FileServer::open(&settings).await.map_err(|error| match error {
        FilesError::Dir { .. } => Failure::failed(error),
        FilesError::Open(_) => Failure::failed(format!("--listen {error}")),
        FilesError::Origin(_) => Failure::wrong_use(format!("--allow-origin: {error}")),
    })?;
    let address = server.address();
    Ok((server, address))
}
