//! Our routing rules: what they choose, and how they are known again.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::exception::Exception;
use crate::route::{MAIN, Routes, Rule, RuleAction};

/// The routing table with the default routes through the device.
pub const TABLE: u32 = 30565;
/// The priorities of our rules, from the first to the last: after those of Tailscale, 5210 to 5270,
/// which lead to its own network. The last does nothing: what is not captured goes on there.
const EXCEPTIONS: u32 = 5279;
const FIRST_RULE: u32 = 5280;
const LAST_RULE: u32 = 5285;
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
    deleted.into_iter().collect::<io::Result<()>>().map(|()| number)
}

/// Whether a rule for TCP is one of those made here.
fn is_ours(rule: &Rule) -> bool {
    let priority = rule.priority;
    ((EXCEPTIONS..=LAST_RULE).contains(&priority) || FORMER_RULES.contains(&priority))
        && match rule.action {
            RuleAction::Lookup(table) => table == TABLE || table == MAIN,
            RuleAction::LookupLonger(table, length) => (table, length) == (MAIN, 0),
            RuleAction::Goto(priority) => priority == LAST_RULE,
            RuleAction::Nothing | RuleAction::Unreachable => true,
        }
}

/// What has no source address yet comes to us, but for what is on a link's own network; and so does what
/// we have given ours.
pub(crate) fn rules_v4(own: IpAddr) -> Vec<Rule> {
    let rule = |place, from, action| Rule { from, ..Rule::new(false, FIRST_RULE + place, action) };
    let none: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    vec![
        end(false),
        rule(0, Some((none, 32)), RuleAction::LookupLonger(MAIN, 0)),
        rule(1, Some((none, 32)), RuleAction::Lookup(TABLE)),
        rule(2, Some((own, 32)), RuleAction::Lookup(TABLE)),
    ]
}

/// The same for IPv6. A rule `from ::/128` never holds there for a socket without an address, which
/// would leave all of IPv6 uncaptured; but each of the two halves holds for every socket with one.
pub(crate) fn rules_v6(own: IpAddr) -> Vec<Rule> {
    let rule = |place, from, action| Rule { from, ..Rule::new(true, FIRST_RULE + place, action) };
    let half = |first| Some((Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(), 1));
    vec![
        end(true),
        rule(0, Some((own, 128)), RuleAction::Lookup(TABLE)),
        rule(1, half(0), RuleAction::Goto(LAST_RULE)),
        rule(2, half(0x8000), RuleAction::Goto(LAST_RULE)),
        rule(3, None, RuleAction::LookupLonger(MAIN, 0)),
        rule(4, None, RuleAction::Lookup(TABLE)),
    ]
}

/// Where rules lead that take connections past ours.
fn end(ipv6: bool) -> Rule {
    Rule::new(ipv6, LAST_RULE, RuleAction::Nothing)
}

/// The rules by which exceptions go past ours, of one family.
pub(crate) fn exceptions(all: &[Exception], ipv6: bool) -> Vec<Rule> {
    let whole = Rule::new(ipv6, EXCEPTIONS, RuleAction::Goto(LAST_RULE));
    let rules = all.iter().filter_map(|exception| match *exception {
        Exception::Network(address, length) => {
            (address.is_ipv6() == ipv6).then_some(Rule { to: Some((address, length)), ..whole })
        }
        Exception::Port(port) => Some(Rule { port: Some(port), ..whole }),
        Exception::User(user) => Some(Rule { user: Some(user), ..whole }),
    });
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
    use crate::own_address::{ADDRESSES_V4, ADDRESSES_V6};

    #[test]
    fn our_rules_are_known_again_and_others_are_not() {
        let own = ADDRESSES_V6[0].into();
        let excepted = ["10.1.0.0/16", "2001:db8::/32", "port:22", "uid:7"];
        let excepted = excepted.map(|text| text.parse().unwrap());
        let excepted = [false, true].map(|ipv6| exceptions(&excepted, ipv6)).concat();
        assert_eq!(excepted.len(), 1 + 1 + 2 + 2);
        let all = [rules_v4(ADDRESSES_V4[0].into()), rules_v6(own), excepted];
        assert!(all.concat().iter().all(is_ours));
        // Of an earlier version.
        assert!(is_ours(&Rule { action: RuleAction::Lookup(MAIN), ..all[2][0] }));
        assert!(is_ours(&Rule { priority: 5204, action: RuleAction::Unreachable, ..all[0][0] }));
        assert!(!is_ours(&Rule { priority: 5210, ..all[0][0] }));
        assert!(!is_ours(&Rule { action: RuleAction::Lookup(52), ..all[0][0] }));
    }
}
