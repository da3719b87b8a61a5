//! The rules of the bond's schedulers that can be switched off by name, for ablations.

use std::fmt;
use std::str::FromStr;

/// A rule of `earliest` and `fbdt`, or of `fbdt-strict`, that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What a stalled path carries is sent again at once.
    Reinject,
    /// The byte at the in-order point is copied when it is late.
    CopyLate,
    /// A path gets no new bytes that would hold up more than they bring.
    SpareFar,
    /// At the end of all data, what will come last is copied.
    CopyLast,
    /// `fbdt-strict`: at a window's end a path waits until all that it sent is acknowledged.
    WaitAcks,
    /// `fbdt-strict`: then for a round trip of the other paths.
    WaitRoundTrip,
    /// `fbdt-strict`: then it sends what the others have outstanding.
    SendAgain,
    /// What waits for a path that has become slow is copied.
    CopySlow,
    /// Of messages with deadlines only what can be there in time is sent.
    Deadlines,
}

impl Rule {
    /// All of them, with their names and what they do. A rule's place is its bit where sets are stored
    /// or sent: a new one comes last.
    pub const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::Reinject, "reinject", "what a silent path carries is sent again at once"),
        (Self::CopyLate, "copy-late", "the byte at the in-order point is copied when it is late"),
        (Self::SpareFar, "spare-far", "new data only where they make the transfer finish earlier"),
        (Self::CopyLast, "copy-last", "at the end of all data, what will come last is copied"),
        (Self::WaitAcks, "wait-acks", "fbdt-strict: a window's end waits for acknowledgements"),
        (Self::WaitRoundTrip, "wait-round-trip", "fbdt-strict: and a round trip of the others"),
        (Self::SendAgain, "send-again", "fbdt-strict: then what others have outstanding is sent"),
        (Self::CopySlow, "copy-slow", "what waits for a path that has become slow is copied"),
        (Self::Deadlines, "deadlines", "of messages only what can be there in time is sent"),
    ];
}

/// A set of rules that are switched off. Written as their names with commas between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RulesOff(u64);

impl RulesOff {
    /// Whether `rule` is in force.
    pub const fn keeps(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u32) == 0
    }

    /// As bits, the first of [`Rule::ALL`] the lowest.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// From [`bits`](Self::bits); what stands for no known rule is left out.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Rule::ALL.len()) - 1))
    }

    /// The set with `rule` switched off, too.
    #[must_use]
    pub const fn and(self, rule: Rule) -> Self {
        Self(self.0 | 1 << rule as u32)
    }

    /// The names of the rules that are switched off.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let off = Rule::ALL.into_iter().filter(move |&(rule, ..)| !self.keeps(rule));
        off.map(|(_, name, _)| name)
    }
}

/// A rule that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown rule '{name}'; known are {}", known())]
pub struct UnknownRule {
    name: String,
}

fn known() -> String {
    Rule::ALL.map(|(_, name, _)| name).join(", ")
}

impl FromStr for RulesOff {
    type Err = UnknownRule;

    /// Reads names with commas between; nothing switches nothing off.
    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.into_iter().try_fold(Self::default(), |set, name| {
            let rule = Rule::ALL.into_iter().find(|&(_, known, _)| known == name);
            let unknown = || UnknownRule { name: name.chars().take(64).collect() };
            Ok(set.and(rule.ok_or_else(unknown)?.0))
        })
    }
}

impl fmt::Display for RulesOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_go_by_their_names() {
        let off: RulesOff = "copy-late, copy-last".parse().unwrap();
        assert!(
            !off.keeps(Rule::CopyLate) && !off.keeps(Rule::CopyLast) && off.keeps(Rule::Reinject)
        );
        assert_eq!(off.to_string(), "copy-late,copy-last");
        assert_eq!(RulesOff::from_bits(off.bits() | 1 << 40), off);
        assert_eq!("".parse(), Ok(RulesOff::default()));
        let error = "copy-lat".parse::<RulesOff>().unwrap_err().to_string();
        assert!(error.contains("'copy-lat'") && error.contains("copy-late"), "{error}");
        for (n, (rule, ..)) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(RulesOff::default().and(rule).bits(), 1 << n);
        }
    }
}
