//! A client as its invite makes it, and what the server says to that.

use weftline::refusal::{EXPIRED, TOKEN};
use weftline::{Client, ClientBuilder, ClientSecurity, ClientTls, Error, Token, Trust};
use weftline_net::MARK;

use crate::failure::Failure;
use crate::invite::Invite;

/// The client but for its links.
pub(super) fn basis(invite: &Invite) -> Result<ClientBuilder, Failure> {
    let trust = Trust::Pinned(invite.fingerprint);
    let security = ClientSecurity::Tls(ClientTls::new(&trust, None)?);
    // By the mark the kill switch knows its sockets.
    let builder = Client::builder().mark(MARK).security(security);
    Ok(builder.token(Token::named(&invite.name, &invite.secret)?))
}

/// What the server's refusal means to the one who was invited.
pub(super) fn explain(error: Error, invite: &Invite) -> Failure {
    let name = &invite.name;
    match error {
        Error::Refused { peer, code: TOKEN, .. } => Failure::failed(format!(
            "the server {peer} does not let '{name}' in: the invite has been revoked or replaced; \
             make a new one there with 'weftline invite {name}'"
        ))
        .refusal(),
        Error::Refused { peer, code: EXPIRED, .. } => Failure::failed(format!(
            "the server {peer} does not let '{name}' in any more: the invite has expired; ask for a \
             new one, which 'weftline invite {name} --expires 7d' makes there"
        ))
        .refusal(),
        Error::WrongFingerprint { peer, .. } => Failure::failed(format!(
            "{peer} is not the server that has made this invite, or has lost its state directory; \
             make a new invite there with 'weftline invite {name}'"
        )),
        Error::Unreachable { .. } => Failure::failed(format!(
            "{error}; check that 'weftline serve --internet' runs there and that its port is open"
        )),
        error => error.into(),
    }
}
