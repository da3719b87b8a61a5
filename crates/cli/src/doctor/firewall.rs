//! Whether nftables lets a port in, and through what is forwarded, as far as its rules can be read
//! by a program.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::finding::{Check, Finding};
use crate::internet::{LET_THROUGH, forbidding};

/// By what clients come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// As rules call it.
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Whether the packets of clients are dropped where this machine forwards them. Nothing where we
/// may not ask.
pub(super) fn forwarding() -> Option<Finding> {
    // As a server takes it: without a way out by IPv6 it forwards none.
    let defaults = weftline_net::Routes::open().and_then(|routes| routes.defaults()).ok()?;
    let ipv6 = defaults.iter().any(|route| route.destination.is_ipv6());
    let chain = weftline_net::forbids_forwarding(weftline_net::EXIT_DEVICE, ipv6).ok()??;
    Some(Finding::warning(Check::Firewall, "forwarding", forbidding(&chain), LET_THROUGH))
}

/// What this machine's rules say of `port`. Nothing where there is no nftables, or we may not ask.
pub(super) fn look(port: u16, protocol: Protocol) -> Option<Finding> {
    let mut nft = Command::new("nft");
    nft.args(["-j", "list", "ruleset"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = nft.output().ok().filter(|output| output.status.success())?;
    let rules = serde_json::from_slice(&output.stdout).ok()?;
    is_closed(&rules, port, protocol).then(|| {
        let (subject, found) = match protocol {
            Protocol::Tcp => (
                format!("port {port}"),
                "the firewall drops what comes in, and no rule names this port",
            ),
            Protocol::Udp => (
                format!("port {port}/udp"),
                "the firewall drops what comes in, and no rule names this port for UDP: clients \
                 have TCP alone",
            ),
        };
        let name = protocol.name();
        let remedy = format!(
            "let it in: 'nft add rule inet filter input {name} dport {port} accept', 'ufw allow \
             {port}/{name}' or 'firewall-cmd --add-port {port}/{name}'"
        );
        Finding::warning(Check::Firewall, subject, found, remedy)
    })
}

/// Whether the rules drop what comes in, and none of them is about `port`.
fn is_closed(rules: &Value, port: u16, protocol: Protocol) -> bool {
    let all = rules["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let drops =
        all.iter().any(|one| one["chain"]["hook"] == "input" && one["chain"]["policy"] == "drop");
    drops && !all.iter().any(|one| is_about(&one["rule"]["expr"], port, protocol))
}

/// Whether an expression compares the port of the destination with something that has `port`. One
/// for the other protocol is not about this one; some are for both.
fn is_about(expression: &Value, port: u16, protocol: Protocol) -> bool {
    let is_of = |payload: &Value| match payload["protocol"].as_str() {
        Some("tcp") => protocol == Protocol::Tcp,
        Some("udp") => protocol == Protocol::Udp,
        _ => true,
    };
    let parts = expression.as_array().map(Vec::as_slice).unwrap_or_default();
    parts
        .iter()
        .map(|part| &part["match"])
        .filter(|found| is_of(&found["left"]["payload"]))
        .any(|found| found["left"]["payload"]["field"] == "dport" && holds(&found["right"], port))
}

/// A number, a range, or a set of these. What a set with a name has stands elsewhere: it may be in.
fn holds(value: &Value, port: u16) -> bool {
    let number = |value: &Value| value.as_u64();
    if let Some(range) = value["range"].as_array() {
        let [from, to] = &range[..] else { return false };
        return number(from) <= Some(port.into()) && Some(port.into()) <= number(to);
    }
    match (value, value["set"].as_array()) {
        (Value::Number(_), _) => number(value) == Some(port.into()),
        (Value::String(name), _) => name.starts_with('@'),
        (_, Some(set)) => set.iter().any(|one| holds(one, port)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(policy: &str, right: &str) -> Value {
        let text = format!(
            r#"{{"nftables": [{{"metainfo": {{"version": "1.0.6"}}}},
                {{"chain": {{"family": "inet", "table": "filter", "name": "input", "handle": 1,
                    "type": "filter", "hook": "input", "prio": 0, "policy": "{policy}"}}}},
                {{"rule": {{"family": "inet", "table": "filter", "chain": "input", "expr": [
                    {{"match": {{"op": "==", "left": {{"payload": {{"protocol": "tcp",
                        "field": "dport"}}}}, "right": {right}}}}}, {{"accept": null}}]}}}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_port_that_no_rule_names_is_closed_where_the_rest_is_dropped() {
        assert!(is_closed(&rules("drop", "22"), 4433, Protocol::Tcp));
        assert!(!is_closed(&rules("accept", "22"), 4433, Protocol::Tcp));
        for right in ["4433", r#"{"range": [4000, 5000]}"#, r#"{"set": [22, 4433]}"#, r#""@open""#]
        {
            assert!(!is_closed(&rules("drop", right), 4433, Protocol::Tcp), "{right}");
        }
        assert!(is_closed(&rules("drop", r#"{"range": [1, 1024]}"#), 4433, Protocol::Tcp));
        assert!(!is_closed(&Value::Null, 4433, Protocol::Tcp), "no rules at all");
    }

    #[test]
    fn a_port_that_is_open_to_tcp_alone_is_closed_to_udp() {
        let tcp = rules("drop", "4433");
        assert!(is_closed(&tcp, 4433, Protocol::Udp));
        let with = |protocol: &str| {
            let text = tcp.to_string().replace(r#""protocol":"tcp""#, protocol);
            serde_json::from_str::<Value>(&text).unwrap()
        };
        assert!(!is_closed(&with(r#""protocol":"udp""#), 4433, Protocol::Udp));
        assert!(is_closed(&with(r#""protocol":"udp""#), 4433, Protocol::Tcp));
        // A rule for both.
        assert!(!is_closed(&with(r#""protocol":"th""#), 4433, Protocol::Udp));
    }
}
