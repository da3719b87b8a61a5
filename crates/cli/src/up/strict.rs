//! The kill switch as `up` keeps it: closed before anything else, and as long as nobody opens it.

use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use weftline_net::{DEVICE, Inside, KillSwitch, LinkName, Near, NetError};

use super::args::Wish;
use super::{Links, UpArgs, saved, share};
use crate::config;
use crate::failure::Failure;

/// How often it is looked whether somebody has removed it, as `nft flush ruleset` does.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// What holds while it is closed.
pub(super) struct Strict {
    switch: KillSwitch,
    /// Whether networks of links are reached.
    lan: bool,
    /// Those that are now.
    near: Vec<Near>,
    /// Links that lead inside, and those of the bond, which never do: by their names and addresses.
    inside: Inside,
    used: (Vec<String>, Vec<IpAddr>),
    shared: Vec<LinkName>,
}

impl Strict {
    /// Closes it.
    ///
    /// # Errors
    /// When the kernel cannot do it, or does not let us.
    fn close(
        lan: bool,
        used: (Vec<String>, Vec<IpAddr>),
        shared: Vec<LinkName>,
    ) -> Result<Self, Failure> {
        let (switch, near, inside) =
            (KillSwitch::connect()?, networks(lan), inside(&used, &shared));
        switch.close(DEVICE, &inside, &near)?;
        let strict = Self { switch, lan, near, inside, used, shared };
        tracing::info!("the kill switch is closed until 'weftline down'");
        Ok(strict)
    }

    /// Closes it if up.toml, or who has closed it before, says so: before anything else is looked at that could
    /// be refused.
    ///
    /// # Errors
    /// When the kernel cannot do it, or does not let us.
    pub(super) fn close_first(args: &UpArgs) -> Result<Option<Self>, Failure> {
        let kept = saved::file(args.state_dir.as_deref());
        let (is_kept, lan) = saved::strict(&kept);
        if !is_kept && !KillSwitch::is_wanted()? {
            return Ok(None);
        }
        if !is_kept && !args.strict {
            tracing::warn!(
                "the kill switch is closed from before, and stays so until 'weftline down'"
            );
        }
        // What is wrong with the links is told of later.
        let kept = config::read::<saved::Saved>(&kept).unwrap_or_default();
        let shared = share::names(kept.share.iter().chain(&args.share)).unwrap_or_default();
        let links = Links::new(&saved::paths(&args.path, kept.path), Vec::new());
        let used = links.map(|links| links.interfaces()).unwrap_or_default();
        Self::close(lan || args.lan, used, shared).map(Some)
    }

    /// Closes it if that is wished for, and it is not `closed` by now (`given_lan`: whether --lan is): whoever has closed it has said until when.
    ///
    /// # Errors
    /// When it cannot be closed, or something is to go directly all the same.
    pub(super) fn wished(
        wish: &Wish,
        given_lan: bool,
        closed: Option<Self>,
    ) -> Result<Option<Self>, Failure> {
        if !wish.strict && closed.is_none() {
            if given_lan {
                return Err(Failure::wrong_use(
                    "--lan is for --strict, which is not given; add it",
                ));
            }
            if wish.lan {
                let file = wish.kept.display();
                tracing::warn!(
                    "lan in {file} does nothing without strict = true: add that, or take lan out"
                );
            }
            return Ok(None);
        }
        if !wish.dns {
            return Err(Failure::wrong_use(
                "with --strict questions to DNS reach the server alone: remove dns = \"system\" in \
                 up.toml, or strict",
            ));
        }
        if !wish.exceptions.is_empty() {
            return Err(Failure::wrong_use(
                "nothing goes directly with --strict: remove the exceptions (--except, and except in \
                 up.toml), or strict",
            ));
        }
        let (links, shared) = (wish.links()?, wish.shared.clone());
        closed.map_or_else(|| Self::close(wish.lan, links.interfaces(), shared), Ok).map(Some)
    }

    /// Follows the networks of links, and closes it again if somebody has opened it.
    pub(super) fn keep(&mut self) {
        if let Err(error) = self.try_keep() {
            tracing::error!("the kill switch may be open: {error}");
        }
    }

    fn try_keep(&mut self) -> Result<(), NetError> {
        let (near, inside) = (networks(self.lan), inside(&self.used, &self.shared));
        if !KillSwitch::is_closed().unwrap_or(false) {
            self.switch.close(DEVICE, &inside, &near)?;
            tracing::warn!("the kill switch was removed by somebody: it is closed again");
        } else if (&near, &inside) != (&self.near, &self.inside) {
            self.switch.change(&inside, &near)?;
        }
        (self.near, self.inside) = (near, inside);
        Ok(())
    }
}

/// Looks after it again and again, if there is one.
pub(super) async fn keep_closed(strict: &mut Option<Strict>) -> Infallible {
    loop {
        tokio::time::sleep(LOOK).await;
        strict.iter_mut().for_each(Strict::keep);
    }
}

/// The links that lead inside now.
fn inside((names, addresses): &(Vec<String>, Vec<IpAddr>), shared: &[LinkName]) -> Inside {
    Inside::look(names, addresses, shared).unwrap_or_else(|error| {
        tracing::warn!("containers and tunnels are not reached: {error}");
        Inside::default()
    })
}

/// What is near now, if that is reached.
fn networks(lan: bool) -> Vec<Near> {
    if !lan {
        return Vec::new();
    }
    Near::networks().unwrap_or_else(|error| {
        tracing::warn!("networks of links are not reached: {error}");
        Vec::new()
    })
}
