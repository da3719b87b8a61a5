//! Where a path is dialled.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use weftline_core::addresses::Resolve;

use crate::bind::Bind;
use crate::clock;
use crate::error::Error;
use crate::settings::Settings;
use crate::socket;

/// How long the resolver may take.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A TCP connection to the server on the path `index`.
///
/// # Errors
/// When the server's name has no address, or none of its addresses answers in time.
pub(crate) async fn dial(settings: &Arc<Settings>, index: usize) -> Result<TcpStream, Error> {
    let (path, server) = &settings.paths[index];
    let knowledge = &settings.knowledge[index];
    let (mut candidates, resolve) = knowledge.names().candidates(clock::now());
    match resolve {
        Resolve::No => {}
        Resolve::First => {
            candidates = server.resolve(&path.bind, RESOLVE_TIMEOUT).await?;
            knowledge.names().handle_resolved(Some(candidates.clone()), clock::now());
        }
        Resolve::Beside => {
            let settings = Arc::clone(settings);
            tokio::spawn(async move {
                let (path, server) = &settings.paths[index];
                let found = server.resolve(&path.bind, RESOLVE_TIMEOUT).await;
                settings.knowledge[index].names().handle_resolved(found.ok(), clock::now());
            });
        }
    }
    connect(settings, index, &candidates).await
}

/// A TCP connection on the path `index` to where the connection's server takes joins.
///
/// # Errors
/// When the path reaches none of the addresses, or none answers in time.
pub(crate) async fn dial_join(
    settings: &Settings,
    index: usize,
    addresses: &[SocketAddr],
) -> Result<TcpStream, Error> {
    let candidates = within_reach(&settings.paths[index].0.bind, addresses)?;
    connect(settings, index, &candidates).await
}

/// Those of `addresses` that are of the family of `bind`.
///
/// # Errors
/// When none is.
fn within_reach(bind: &Bind, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, Error> {
    let fits = |address: &&SocketAddr| match bind {
        Bind::Address(local) => local.is_ipv4() == address.is_ipv4(),
        Bind::Any | Bind::Interface(_) => true,
    };
    let found: Vec<SocketAddr> = addresses.iter().filter(fits).copied().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let known: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    Err(Error::NoJoinAddress { via: bind.clone(), known: known.join(", ") })
}

/// A TCP connection on the path `index` to the first of `candidates` that answers.
async fn connect(
    settings: &Settings,
    index: usize,
    candidates: &[SocketAddr],
) -> Result<TcpStream, Error> {
    let path = &settings.paths[index].0;
    let options = settings.socket_options(path);
    socket::connect_any(&path.bind, candidates, &options).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_dials_the_join_addresses_of_its_family() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let both = ["192.0.2.1:7", "[2001:db8::1]:7"].map(parse);
        let bind = |text: &str| text.parse::<Bind>().unwrap();
        assert_eq!(within_reach(&bind("10.0.0.1"), &both).unwrap(), both[..1]);
        assert_eq!(within_reach(&bind("fd00::1"), &both).unwrap(), both[1..]);
        assert_eq!(within_reach(&bind("wlan0"), &both).unwrap(), both);
        assert_eq!(within_reach(&Bind::Any, &both).unwrap(), both);
        let error = within_reach(&bind("fd00::1"), &both[..1]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("192.0.2.1:7 only") && text.contains("fd00::1"), "{text}");
    }
}
