//! How the ends of a connection know each other: TLS, from what options say of certificates.

use std::path::{Path, PathBuf};

use weftline::{
    ClientSecurity, ClientTls, Identity, ServerSecurity, ServerTls, Trust, default_state_dir,
};

use crate::failure::Failure;
use crate::{certificates, secrets};

/// The certificate and key that the server has made, in its state directory.
pub(crate) const IDENTITY_FILE: &str = "identity.pem";

/// TLS with the certificate and key of two files, or else the self-made ones of `state_dir`, by
/// default the machine's.
pub(crate) fn server_tls(
    files: (Option<&Path>, Option<&Path>),
    state_dir: Option<&Path>,
    client_ca: Option<&Path>,
) -> Result<ServerSecurity, Failure> {
    let identity = match files {
        (Some(cert), Some(key)) => {
            let identity = Identity::from_files(cert, key)?;
            secrets::warn_if_others_can_read(key);
            certificates::warn(cert);
            identity
        }
        (None, None) => {
            let dir = identity_dir(state_dir)?;
            let identity = Identity::from_state_dir(&dir)?;
            secrets::warn_if_others_can_read(&dir.join(IDENTITY_FILE));
            identity
        }
        _ => return Err(Failure::wrong_use("--cert and --key belong together; give both")),
    };
    Ok(ServerSecurity::Tls(ServerTls::new(&identity, client_ca)?))
}

/// Where the self-made certificate is kept.
pub(crate) fn identity_dir(given: Option<&Path>) -> Result<PathBuf, Failure> {
    match given {
        Some(dir) => Ok(dir.to_owned()),
        None => default_state_dir()
            .map_err(|error| Failure::wrong_use(format!("{error} (--state-dir)"))),
    }
}

/// TLS to the server with this fingerprint, or one that these authorities vouch for; with the
/// certificate and key of two files, if there are any.
pub(crate) fn client_tls(
    fingerprint: Option<&str>,
    ca: Option<&Path>,
    files: (Option<&Path>, Option<&Path>),
) -> Result<ClientSecurity, Failure> {
    let trust = match (fingerprint, ca) {
        (Some(text), _) => Trust::Pinned(text.parse().map_err(Failure::wrong_use)?),
        (None, Some(file)) => Trust::Authority(file.to_owned()),
        (None, None) => return Err(weftline::Error::NoTrust.into()),
    };
    let identity = match files {
        (Some(cert), Some(key)) => {
            let identity = Identity::from_files(cert, key)?;
            secrets::warn_if_others_can_read(key);
            certificates::warn(cert);
            Some(identity)
        }
        (None, None) => None,
        _ => return Err(Failure::wrong_use("--cert and --key belong together; give both")),
    };
    Ok(ClientSecurity::Tls(ClientTls::new(&trust, identity.as_ref())?))
}
