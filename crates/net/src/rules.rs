//! Our routing rules: what they choose, and how they are known again.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::exception::Exception;
use crate::kill_switch::MARK;
use crate::link_name::LinkName;
use crate::portal::{self, PORTAL_RULES, PORTAL_TABLE};
use crate::route::{Input, MAIN, Routes, Rule, RuleAction, TCP};

/// The routing table with the default routes through the device.
pub const TABLE: u32 = 30565;
/// The priorities of our rules, from the first to the last: after those of Tailscale, 5210 to 5270,
/// which lead to its own network. The last does nothing: what is not captured goes on there.
const EXCEPTIONS: u32 = 5279;
const FIRST_RULE: u32 = 5280;
const LAST_RULE: u32 = 5285;
/// Those of what comes from machines behind shared links, from the first to the last.
const SHARED: u32 = 5272;
/// The mark of such a machine's TCP while the kernel is asked where it would go, and that of questions to DNS by
/// TCP. Nothing leaves with them, and our own sockets' mark has neither.
pub(crate) const ASKED: u32 = 0x2000_0000;
pub(crate) const ASKED_DNS: u32 = 0x0800_0000;
/// That of packets of machines behind shared links that answer somebody who has begun to speak to them.
pub(crate) const ANSWERS: u32 = 0x8000_0000;
const _: () = assert!(MARK & (ASKED | ASKED_DNS | ANSWERS) == 0);
/// The protocol number of UDP, and the port of DNS.
const UDP: u8 = 17;
pub(crate) const DNS: u16 = 53;
/// Those of earlier versions, which may have left some.
const FORMER_RULES: RangeInclusive<u32> = 5200..=5204;

/// Removes the rules that a process has left behind that was killed. Returns how many those were.
///
/// # Errors
/// The kernel's first refusal; all the others have been tried all the same.
pub fn remove_leftovers() -> io::Result<usize> {
    let routes = Routes::open()?;
    let left = routes.rules()?.into_iter().filter(is_ours);
    // One that stays keeps no other.
    let deleted: Vec<_> = left.map(|rule| routes.delete_rule(&rule)).collect();
    let number = deleted.len();
    let portal = portal::remove(&routes);
    deleted.into_iter().chain([portal]).collect::<io::Result<()>>().map(|()| number)
}

/// Whether a rule is one of those made here.
fn is_ours(rule: &Rule) -> bool {
    let priority = rule.priority;
    let is_place = (SHARED..=SHARED + 4).contains(&priority)
        || (PORTAL_RULES..=LAST_RULE).contains(&priority)
        || FORMER_RULES.contains(&priority);
    is_place
        && match rule.action {
            RuleAction::Lookup(table) => [TABLE, MAIN, PORTAL_TABLE].contains(&table),
            RuleAction::LookupLonger(table, length) => (table, length) == (MAIN, 0),
            RuleAction::Goto(priority) => priority == LAST_RULE,
            RuleAction::Nothing | RuleAction::Unreachable => true,
        }
}

/// What comes to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// TCP alone.
    Tcp,
    /// All packets; whether questions to DNS do so even if they are for a link's own network, or none
    /// does.
    All { dns: bool },
}

impl Scope {
    /// A rule of a family, at a place among ours.
    const fn rule(self, ipv6: bool, place: u32, action: RuleAction) -> Rule {
        let protocol = if matches!(self, Self::Tcp) { Some(TCP) } else { None };
        Rule { protocol, ..Rule::new(ipv6, FIRST_RULE + place, action) }
    }

    /// What is done with questions to DNS. Those that are asked again by TCP go where the first one went.
    fn dns(self, ipv6: bool, place: u32, from: Option<(IpAddr, u8)>) -> Vec<Rule> {
        let Self::All { dns } = self else { return Vec::new() };
        let action = if dns { RuleAction::Lookup(TABLE) } else { RuleAction::Goto(LAST_RULE) };
        let rule = Rule::new(ipv6, FIRST_RULE + place, action);
        let of = |protocol| Rule { protocol: Some(protocol), port: Some(DNS), from, ..rule };
        [UDP, TCP].map(of).to_vec()
    }
}

/// What we have given our address comes to us, whatever else does: no other link has a way for it, and whom
/// it is sent to could not answer. A connected socket of UDP keeps its address for as long as it lives.
pub(crate) fn rule_of_own(own: IpAddr) -> Rule {
    let (length, place) = if own.is_ipv6() { (128, 0) } else { (32, 3) };
    let rule = Rule::new(own.is_ipv6(), FIRST_RULE + place, RuleAction::Lookup(TABLE));
    Rule { from: Some((own, length)), protocol: None, ..rule }
}

/// What has no source address yet comes to us, but for what is on a link's own network; and so does what
/// we have given ours.
pub(crate) fn rules_v4(own: IpAddr, scope: Scope) -> Vec<Rule> {
    // Questions to DNS come before all else.
    let first: u32 = if scope == Scope::Tcp { 0 } else { 1 };
    let rule = |place, from, action| Rule { from, ..scope.rule(false, first + place, action) };
    let none: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    let mut rules = vec![end(false, scope)];
    rules.extend(scope.dns(false, 0, Some((none, 32))));
    rules.extend([
        rule(0, Some((none, 32)), RuleAction::LookupLonger(MAIN, 0)),
        rule(1, Some((none, 32)), RuleAction::Lookup(TABLE)),
        rule_of_own(own),
    ]);
    rules
}

/// The same for IPv6. A rule `from ::/128` never holds there for a socket without an address, which
/// would leave all of IPv6 uncaptured; but each of the two halves holds for every socket with one.
pub(crate) fn rules_v6(own: IpAddr, scope: Scope) -> Vec<Rule> {
    let rule = |place, from, action| Rule { from, ..scope.rule(true, place, action) };
    let half = |first| Some((Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(), 1));
    // The halves may stand in any order, where the place is needed for another.
    let second_half = if scope == Scope::Tcp { 2 } else { 1 };
    let mut rules = vec![
        end(true, scope),
        rule_of_own(own),
        rule(1, half(0), RuleAction::Goto(LAST_RULE)),
        rule(second_half, half(0x8000), RuleAction::Goto(LAST_RULE)),
    ];
    rules.extend(scope.dns(true, 2, None));
    rules.extend([
        rule(3, None, RuleAction::LookupLonger(MAIN, 0)),
        rule(4, None, RuleAction::Lookup(TABLE)),
    ]);
    rules
}

/// Where rules lead that take connections past ours.
fn end(ipv6: bool, scope: Scope) -> Rule {
    let rule = scope.rule(ipv6, 0, RuleAction::Nothing);
    Rule { priority: LAST_RULE, ..rule }
}

/// The rules by which exceptions go past ours, of one family.
pub(crate) fn exceptions(all: &[Exception], ipv6: bool, scope: Scope) -> Vec<Rule> {
    let whole = scope.rule(ipv6, 0, RuleAction::Goto(LAST_RULE));
    let whole = Rule { priority: EXCEPTIONS, ..whole };
    let of_port = |protocol, port| Rule { protocol: Some(protocol), port: Some(port), ..whole };
    let mut rules = Vec::new();
    for exception in all {
        match *exception {
            Exception::Network(address, length) if address.is_ipv6() == ipv6 => {
                rules.push(Rule { to: Some((address, length)), ..whole });
            }
            Exception::Network(..) => {}
            // Without a protocol it would hold for a type of ICMP, too.
            Exception::Port(port) if scope == Scope::Tcp => rules.push(of_port(TCP, port)),
            Exception::Port(port) => rules.extend([of_port(TCP, port), of_port(UDP, port)]),
            Exception::User(user) => rules.push(Rule { user: Some(user), ..whole }),
        }
    }
    if scope != Scope::Tcp && !ipv6 {
        // What is for all on a link is for nobody beyond. (Of IPv6 the kernel knows that by itself.)
        let near = [(Ipv4Addr::new(224, 0, 0, 0), 4), (Ipv4Addr::BROADCAST, 32)];
        let near = near.map(|(address, length)| (IpAddr::V4(address), length));
        rules.extend(near.map(|network| Rule { to: Some(network), ..whole }));
    }
    without_doubles(rules)
}

/// The rules by which what comes from machines behind shared links is captured, of one family. Their TCP ends
/// here, so that only the question where it would go is answered; what goes on by itself is routed to the device.
pub(crate) fn shared(links: &[LinkName], all: &[Exception], ipv6: bool, scope: Scope) -> Vec<Rule> {
    if links.is_empty() {
        return Vec::new();
    }
    let past = RuleAction::Goto(LAST_RULE);
    // Only TCP is asked for, and kernels before 6.16 ask without saying so.
    let asked = Rule { mark: Some(ASKED), protocol: None, ..Rule::new(ipv6, SHARED, past) };
    let is_wide = scope != Scope::Tcp;
    let routed = links.iter().filter(|_| is_wide);
    let routed = routed.map(|&link| Rule { input: Input::Link(link), mark: None, ..asked });
    // TCP that is not captured, and answers, are routed as they are without us.
    let mut rules: Vec<Rule> = routed
        .clone()
        .flat_map(|all| [Rule { protocol: Some(TCP), ..all }, Rule { mark: Some(ANSWERS), ..all }])
        .collect();
    let kinds = std::iter::once(asked).chain(routed);
    rules.extend(kinds.flat_map(|kind| captured(kind, all, scope)));
    let asked_dns = Rule { mark: Some(ASKED_DNS), ..asked };
    match scope {
        Scope::Tcp => rules.extend(captured(asked_dns, all, scope)),
        Scope::All { dns: true } => {
            rules.extend(captured(asked_dns, all, scope));
            rules.retain(|rule| {
                rule.mark != Some(ASKED_DNS) || !matches!(rule.action, RuleAction::LookupLonger(..))
            });
        }
        Scope::All { dns: false } => {}
    }
    without_doubles(rules)
}

/// How a kind of packets of such machines is captured: but for exceptions, and for networks with a route of their
/// own. Questions to DNS are captured even if they are for those, or none of them is, if they are no TCP.
fn captured(kind: Rule, all: &[Exception], scope: Scope) -> Vec<Rule> {
    let past = RuleAction::Goto(LAST_RULE);
    let at = |place, action| Rule { priority: SHARED + place, action, ..kind };
    let to_port =
        |port, place, action| Rule { protocol: Some(UDP), port: Some(port), ..at(place, action) };
    let is_routed = kind.mark.is_none();
    let mut rules = Vec::new();
    for exception in all {
        match *exception {
            Exception::Network(address, length) if address.is_ipv6() == kind.ipv6 => {
                rules.push(Rule { to: Some((address, length)), ..at(1, past) });
            }
            // Ports of TCP are left out before the question is asked, and machines have no users here.
            Exception::Port(port) if is_routed => rules.push(to_port(port, 1, past)),
            _ => {}
        }
    }
    match scope {
        Scope::All { dns: true } if is_routed => {
            rules.push(to_port(DNS, 2, RuleAction::Lookup(TABLE)));
        }
        Scope::All { dns: false } if is_routed => rules.push(to_port(DNS, 2, past)),
        _ => {}
    }
    rules.push(at(3, RuleAction::LookupLonger(MAIN, 0)));
    rules.push(at(4, RuleAction::Lookup(TABLE)));
    rules
}

fn without_doubles(rules: Vec<Rule>) -> Vec<Rule> {
    let mut found: Vec<Rule> = Vec::new();
    for rule in rules {
        if !found.contains(&rule) {
            found.push(rule);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_address::{addresses_v4, addresses_v6};

    #[test]
    fn our_rules_are_known_again_and_others_are_not() {
        let own = addresses_v6(2)[0];
        let excepted = ["10.1.0.0/16", "2001:db8::/32", "port:22", "uid:7"];
        let excepted_by: [Exception; 4] = excepted.map(|text| text.parse().unwrap());
        let wide = Scope::All { dns: true };
        let excepted =
            |scope| [false, true].map(|ipv6| exceptions(&excepted_by, ipv6, scope)).concat();
        assert_eq!(excepted(wide).len(), 1 + 1 + 4 + 2 + 2);
        let ours =
            |scope| [rules_v4(addresses_v4(2)[0], scope), rules_v6(own, scope), excepted(scope)];
        assert!([wide, Scope::All { dns: false }].map(ours).concat().concat().iter().all(is_ours));
        let links: [LinkName; 2] = ["eth1", "docker0"].map(|text| text.parse().unwrap());
        for scope in [Scope::Tcp, wide, Scope::All { dns: false }] {
            let shared = [false, true].map(|ipv6| shared(&links, &excepted_by, ipv6, scope));
            let by_mark = 1 + 2;
            let number = match scope {
                Scope::Tcp => 2 * by_mark,
                Scope::All { dns: true } => 2 * by_mark - 1 + 2 * (2 + 1 + 1 + 1 + 2),
                Scope::All { dns: false } => by_mark + 2 * (2 + 1 + 1 + 1 + 2),
            };
            assert!(shared.iter().all(|rules| rules.len() == number), "{scope:?}: {shared:#?}");
            assert!(shared.concat().iter().all(is_ours));
        }
        for own in [addresses_v4(2)[0], own] {
            let rule = rule_of_own(own);
            assert!(is_ours(&rule) && rule.protocol.is_none());
            for scope in [Scope::Tcp, wide] {
                let rules = if own.is_ipv6() { rules_v6(own, scope) } else { rules_v4(own, scope) };
                assert!(rules.contains(&rule), "{own} {scope:?}");
            }
        }
        let all = ours(Scope::Tcp);
        assert_eq!(all[2].len(), 1 + 1 + 2 + 2);
        assert!(all.concat().iter().all(is_ours));
        // Of an earlier version.
        assert!(is_ours(&Rule { action: RuleAction::Lookup(MAIN), ..all[2][0] }));
        assert!(is_ours(&Rule { priority: 5204, action: RuleAction::Unreachable, ..all[0][0] }));
        assert!(!is_ours(&Rule { priority: 5210, ..all[0][0] }));
        assert!(!is_ours(&Rule { action: RuleAction::Lookup(52), ..all[0][0] }));
    }
}
