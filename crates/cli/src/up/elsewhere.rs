//! A server that does not answer, looked for at the other addresses that the invite names.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::timeout;
use weftline::{Client, ClientBuilder, Error, InternetOffer};

use super::links::{self, Links};
use super::presence::{self, PATIENCE};

/// How long one that lets this client in no more is not asked again: it counts wrong tokens.
const REFUSED: Duration = Duration::from_secs(60);

/// The server's addresses in another order, or what has answered there; nothing if the one that did not answer does
/// by now.
type Answer = Option<Result<Vec<SocketAddr>, Error>>;

/// A look for it; nothing is changed by that before it has answered.
#[derive(Default)]
pub(super) struct Elsewhere {
    asking: Option<JoinHandle<Answer>>,
    /// Where it was looked for since it answered last.
    tried: Vec<Vec<SocketAddr>>,
    not_before: Option<Instant>,
}

impl Elsewhere {
    /// Asks at the next addresses, unless an answer is waited for.
    pub(super) fn look(&mut self, client: &Client, basis: &ClientBuilder, links: &Links) {
        let rests = self.not_before.is_some_and(|until| Instant::now() < until);
        if rests || self.asking.is_some() {
            return;
        }
        let mut next = links.clone();
        self.tried.push(leads(&next));
        if !matches!(next.turn(&self.tried), Ok(true)) {
            // All were tried: from the beginning.
            self.tried = vec![leads(links)];
            if !matches!(next.turn(&self.tried), Ok(true)) {
                return;
            }
        }
        self.tried.push(leads(&next));
        let other = links::with(basis, next.pairs().to_vec()).beside(client).build();
        let (Ok(other), here) = (other, client.clone()) else { return };
        self.asking = Some(tokio::spawn(async move {
            if let Err(error) = InternetOffer::ask(&other).await {
                return Some(Err(error));
            }
            // It may have been away as a whole: then it stays where it was.
            match timeout(PATIENCE, InternetOffer::ask(&here)).await {
                Ok(Ok(_)) => None,
                _ => Some(Ok(next.servers())),
            }
        }));
    }

    /// Waits for the end of a look: the server's addresses, those at which it answers first.
    pub(super) async fn found(&mut self) -> Option<Vec<SocketAddr>> {
        let Some(asking) = &mut self.asking else { return std::future::pending().await };
        let answer = asking.await.ok().flatten();
        self.asking = None;
        match answer? {
            Ok(servers) => {
                self.tried.clear();
                Some(servers)
            }
            Err(error) if presence::is_elsewhere(&error) => {
                tracing::debug!(%error, "nor is it there");
                None
            }
            Err(error) => {
                tracing::warn!("the server does not answer, but at another address: {error}");
                self.not_before = Some(Instant::now() + REFUSED);
                None
            }
        }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.asking.iter().for_each(JoinHandle::abort);
    }
}

/// The addresses that links lead to.
fn leads(links: &Links) -> Vec<SocketAddr> {
    links.pairs().iter().map(|(_, server)| *server).collect()
}
