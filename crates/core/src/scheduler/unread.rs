//! Settings that no scheduler reads: what is set for one that does not have it is a mistake, and not passed
//! over.

use super::entry::Entry;
use super::registry::all;
use super::settings::Setting;
use super::{Rule, SchedulerConfig};

/// A setting that no scheduler that is used reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{used} no {what}; leave that out, or use one that has: {others}")]
pub struct UnreadSetting {
    used: String,
    what: String,
    others: String,
}

impl UnreadSetting {
    fn of(used: &[&Entry], what: String, has: impl Fn(&Entry) -> bool) -> Self {
        let names = |entries: Vec<&Entry>| {
            entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
        };
        let used = match used {
            [] => "what is used has".to_owned(),
            [one] => format!("the scheduler '{}' has", one.name),
            more => format!("the schedulers {} have", names(more.to_vec())),
        };
        Self { used, what, others: names(all().filter(|entry| has(entry)).collect()) }
    }
}

/// Whether one at least of the schedulers that are used reads what `config` sets, and has the rules that it
/// switches off.
///
/// # Errors
///
/// None does; the error names those that would.
pub fn check_settings(used: &[&Entry], config: &SchedulerConfig) -> Result<(), UnreadSetting> {
    for setting in Setting::ALL.into_iter().filter(|setting| setting.is_in(config)) {
        let reads = |entry: &Entry| entry.settings.contains(&setting);
        if !used.iter().any(|entry| reads(entry)) {
            return Err(UnreadSetting::of(used, setting.to_string(), reads));
        }
    }
    for (rule, name, _) in Rule::ALL.into_iter().filter(|(rule, ..)| !config.without.keeps(*rule)) {
        let has = |entry: &Entry| entry.rules.contains(&rule);
        if !used.iter().any(|entry| has(entry)) {
            return Err(UnreadSetting::of(used, format!("rule '{name}'"), has));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::path::PathId;

    fn check(names: &[&str], config: &SchedulerConfig) -> Result<(), String> {
        let used: Vec<_> =
            names.iter().map(|name| Entry::find(name).expect("registered")).collect();
        check_settings(&used, config).map_err(|error| error.to_string())
    }

    #[test]
    fn what_nobody_reads_is_refused_with_those_that_do() {
        let none = SchedulerConfig::default();
        let window = SchedulerConfig { window: Some(1 << 20), ..none.clone() };
        let forward = SchedulerConfig { forward_pin: Some(PathId(0)), ..none.clone() };
        let latency = SchedulerConfig { latency: Some(Duration::from_millis(50)), ..none.clone() };
        let without =
            |rule: &str| SchedulerConfig { without: rule.parse().expect("a rule"), ..none.clone() };
        assert_eq!(check(&["min-rtt"], &none), Ok(()));
        for config in [&window, &forward] {
            assert_eq!(check(&["fbdt"], config), Ok(()));
            assert_eq!(check(&["min-rtt", "fbdt-strict"], config), Ok(()));
            let error = check(&["earliest"], config).unwrap_err();
            assert!(error.contains("'earliest' has no") && error.contains("fbdt"), "{error}");
        }
        assert_eq!(check(&["earliest"], &latency), Ok(()));
        let error = check(&["min-rtt", "ecf"], &latency).unwrap_err();
        assert!(error.starts_with("the schedulers min-rtt, ecf have no aim"), "{error}");
        assert_eq!(check(&["earliest"], &without("copy-late")), Ok(()));
        assert_eq!(check(&["fbdt-strict"], &without("wait-acks")), Ok(()));
        let error = check(&["earliest"], &without("copy-late,wait-acks")).unwrap_err();
        assert_eq!(
            error,
            "the scheduler 'earliest' has no rule 'wait-acks'; leave that out, or use one that has: \
             fbdt-strict"
        );
        assert!(check(&[], &without("reinject")).is_err());
    }
}
