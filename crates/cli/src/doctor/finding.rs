//! What the doctor says: findings, as lines and as JSON.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    /// It works, worse than it could.
    Warning,
    /// It does not work.
    Error,
}

/// The cause, as programs read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Check {
    /// Something on the way drops packets.
    Blocked,
    Certificate,
    Clock,
    Configuration,
    Congestion,
    File,
    Firewall,
    Forward,
    /// The server has no room.
    Limits,
    Link,
    /// The machine as a whole, for `up`.
    Machine,
    Mtu,
    Name,
    Path,
    Permission,
    /// Nothing of ours listens at that address and port.
    Port,
    PortTaken,
    Route,
    /// One end speaks TLS and the other does not.
    Tls,
    Token,
    Version,
}

impl Check {
    fn name(self) -> String {
        let value = serde_json::to_value(self).expect("a name");
        value.as_str().unwrap_or_default().to_owned()
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) check: Check,
    /// What was looked at, such as `path wifi`.
    pub(super) subject: String,
    pub(super) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: Check, subject: impl ToString, found: impl ToString) -> Self {
        let (subject, found) = (subject.to_string(), found.to_string());
        Self { level: Level::Ok, check, subject, found, remedy: None }
    }

    pub(super) fn warning(
        check: Check,
        subject: impl ToString,
        found: impl ToString,
        remedy: impl ToString,
    ) -> Self {
        let remedy = Some(remedy.to_string());
        Self { level: Level::Warning, remedy, ..Self::ok(check, subject, found) }
    }

    pub(super) fn error(
        check: Check,
        subject: impl ToString,
        found: impl ToString,
        remedy: impl ToString,
    ) -> Self {
        Self { level: Level::Error, ..Self::warning(check, subject, found, remedy) }
    }
}

/// All of them, in the order of looking.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl IntoIterator for Findings {
    type Item = Finding;
    type IntoIter = std::vec::IntoIter<Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Findings {
    /// Adds one, unless it is there already.
    pub(super) fn add(&mut self, finding: Finding) {
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    /// Adds what was found on a path. The same fault of the server at another of its addresses, with the
    /// same remedy, is said once.
    pub(super) fn add_of_path(&mut self, finding: Finding) {
        let is_same = |there: &Finding| {
            there.remedy.is_some()
                && there.remedy == finding.remedy
                && (there.check, &there.subject) == (finding.check, &finding.subject)
        };
        if !self.0.iter().any(is_same) {
            self.add(finding);
        }
    }

    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.add(finding));
    }

    pub(super) fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|finding| finding.level == level).count()
    }

    /// A line each, and another with what to do; the level in `color`.
    pub(super) fn text(&self, color: bool) -> String {
        let mut text = String::new();
        for finding in &self.0 {
            let (level, code) = match finding.level {
                Level::Ok => ("ok", 32),
                Level::Warning => ("warning", 33),
                Level::Error => ("ERROR", 31),
            };
            let level = format!("{level:<8}");
            let level = if color { format!("\x1b[{code}m{level}\x1b[0m") } else { level };
            let (subject, found, check) = (&finding.subject, &finding.found, finding.check.name());
            text += &format!("{level} {subject}: {found} [{check}]\n");
            if let Some(remedy) = &finding.remedy {
                text += &format!("{:<8} → {remedy}\n", "");
            }
        }
        let count = |level, name: &str| match self.count(level) {
            1 => format!("1 {name}"),
            n => format!("{n} {name}s"),
        };
        text +=
            &format!("{}, {}\n", count(Level::Error, "error"), count(Level::Warning, "warning"));
        text
    }

    /// All in one object.
    pub(super) fn json(&self, of: &str) -> String {
        let whole = serde_json::json!({
            "version": crate::VERSION,
            "daemon": of,
            "errors": self.count(Level::Error),
            "warnings": self.count(Level::Warning),
            "findings": self.0,
        });
        format!("{whole:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_said_once_with_its_remedy() {
        let mut findings = Findings::default();
        findings.add(Finding::ok(Check::Link, "path wifi", "wlan0 is up"));
        for _ in 0..2 {
            let fault = Finding::error(Check::Token, "server s:1", "refused", "give another");
            findings.add(fault);
        }
        assert!(findings.text(true).contains("\x1b[31mERROR   \x1b[0m server s:1"));
        let text = findings.text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ok       path wifi: wlan0 is up [link]");
        assert_eq!(lines[1], "ERROR    server s:1: refused [token]");
        assert_eq!(lines[2], "         → give another");
        assert_eq!(lines[3], "1 error, 0 warnings");
        let json: serde_json::Value = serde_json::from_str(&findings.json("connect")).unwrap();
        assert_eq!(json["errors"], 1);
        assert_eq!(json["findings"][1]["check"], "token");
        assert_eq!(json["findings"][1]["level"], "error");
        assert!(json["findings"][0].get("remedy").is_none());
    }
}
