//! A link that is open for a while to a user's browser, past the capture: networks that want a login show it
//! to whom asks there, and to nobody else.
//!
//! Connections to the ports of HTTP(S) of that user, and questions to DNS of all programs, go by the default
//! route of the link, by IPv4. Rules and route are removed when this is dropped, or by what removes the rules
//! of a process that was killed.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use crate::error::NetError;
use crate::nft::{TCP, UDP};
use crate::route::{Routes, Rule, RuleAction};

/// The routing table with the link's default route.
pub(crate) const PORTAL_TABLE: u32 = 30566;
/// The priority of the rules: before all others of ours.
pub(crate) const PORTAL_RULES: u32 = 5278;
/// Ports of browsers, and of DNS.
const HTTP: [u16; 2] = [80, 443];
const DNS: u16 = 53;

/// A link that is open.
#[derive(Debug)]
pub struct Portal {
    routes: Routes,
    rules: Vec<Rule>,
}

impl Portal {
    /// Opens a link for the browser of a user.
    ///
    /// # Errors
    /// When there is no such link, or it has no address or no default route of IPv4; or the kernel refuses.
    pub fn open(link: &str, user: u32) -> Result<Self, NetError> {
        let routes = Routes::open().map_err(NetError::os("asking for the routes"))?;
        let (index, gateway, own) = look(&routes, link)?;
        let open = Self { routes, rules: rules(own, user) };
        // What is left of another.
        remove(&open.routes).map_err(NetError::os("removing an earlier portal"))?;
        let made = open
            .routes
            .add_default_by(gateway, index, PORTAL_TABLE)
            .and_then(|()| open.rules.iter().try_for_each(|rule| open.routes.add_rule(rule)));
        made.map_err(NetError::os(format!("opening {link}")))?;
        Ok(open)
    }
}

impl Drop for Portal {
    fn drop(&mut self) {
        for rule in &self.rules {
            if let Err(error) = self.routes.delete_rule(rule) {
                tracing::warn!("a routing rule stays, priority {}: {error}", rule.priority);
            }
        }
        if let Err(error) = remove(&self.routes) {
            tracing::warn!("the route of a portal stays: {error}");
        }
    }
}

/// A link's number, its router, if it has one, and its addresses.
fn look(routes: &Routes, name: &str) -> Result<(u32, Option<IpAddr>, Vec<IpAddr>), NetError> {
    let asking = || NetError::os("asking for the links");
    let links = routes.links().map_err(asking())?;
    let Some(link) = links.iter().find(|link| link.name == name) else {
        let mut known: Vec<_> =
            links.iter().filter(|link| !link.loopback).map(|link| &*link.name).collect();
        known.sort_unstable();
        let what = format!("there is no link '{name}', but {}", known.join(", "));
        return Err(NetError::NotPossible { what, remedy: "name one of these" });
    };
    let defaults = routes.defaults().map_err(asking())?;
    let default =
        defaults.iter().find(|route| route.link == Some(link.index) && route.destination.is_ipv4());
    let there = routes.addresses().map_err(asking())?;
    let own = there.iter().filter(|one| one.link == link.index && one.address.is_ipv4());
    let own: Vec<_> = own.map(|one| one.address).collect();
    match default {
        Some(default) if !own.is_empty() => Ok((link.index, default.gateway, own)),
        _ => Err(NetError::NotPossible {
            what: format!("{name} has no IPv4 address or no default route"),
            remedy: "wait until the network has given it one, or connect it",
        }),
    }
}

/// Of sockets that have no address yet, and of those that have the link's by now.
fn rules(own: Vec<IpAddr>, user: u32) -> Vec<Rule> {
    let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let of = |from, protocol, port, user| Rule {
        from: Some((from, 32)),
        protocol: Some(protocol),
        port: Some(port),
        user,
        ..Rule::new(false, PORTAL_RULES, RuleAction::Lookup(PORTAL_TABLE))
    };
    let mut rules = Vec::new();
    for from in own.into_iter().chain([none]) {
        rules.extend(HTTP.map(|port| of(from, TCP, port, Some(user))));
        rules.extend([TCP, UDP].map(|protocol| of(from, protocol, DNS, None)));
    }
    rules
}

/// Removes the route.
pub(crate) fn remove(routes: &Routes) -> io::Result<()> {
    let left = routes.routes(|route| route.table == PORTAL_TABLE)?;
    left.iter().try_for_each(|route| routes.delete_default(route.link, PORTAL_TABLE))
}
