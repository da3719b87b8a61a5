//! A server that does not answer, looked for at the other addresses that the invite names.

use std::net::SocketAddr;

use tokio::task::JoinHandle;
use weftline::{Client, ClientBuilder, InternetOffer};

use super::links::{self, Links};

/// A look for it; nothing is changed by that before it has answered.
#[derive(Default)]
pub(super) struct Elsewhere {
    asking: Option<JoinHandle<Option<Links>>>,
    /// Where it was looked for since it answered last.
    tried: Vec<Vec<SocketAddr>>,
}

impl Elsewhere {
    /// Asks at the next addresses, unless an answer is waited for.
    pub(super) fn look(&mut self, client: &Client, basis: &ClientBuilder, links: &Links) {
        if self.asking.is_some() {
            return;
        }
        let mut next = links.clone();
        self.tried.push(servers(&next));
        if !matches!(next.turn(&self.tried), Ok(true)) {
            // All were tried: from the beginning.
            self.tried = vec![servers(links)];
            if !matches!(next.turn(&self.tried), Ok(true)) {
                return;
            }
        }
        self.tried.push(servers(&next));
        let other = links::with(basis, next.pairs().to_vec()).beside(client).build();
        let Ok(other) = other else { return };
        self.asking = Some(tokio::spawn(async move {
            let answer = InternetOffer::ask(&other).await;
            answer.inspect_err(|error| tracing::debug!(%error, "nor is it there")).ok()?;
            Some(next)
        }));
    }

    /// Waits for the end of a look: the links, led to where it answers.
    pub(super) async fn found(&mut self) -> Option<Links> {
        let Some(asking) = &mut self.asking else { return std::future::pending().await };
        let found = asking.await.ok().flatten();
        self.asking = None;
        if found.is_some() {
            self.tried.clear();
        }
        found
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.asking.iter().for_each(JoinHandle::abort);
    }
}

fn servers(links: &Links) -> Vec<SocketAddr> {
    links.pairs().iter().map(|(_, server)| *server).collect()
}
