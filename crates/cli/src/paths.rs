//! Paths as they stand on the command line and in configuration files.

use serde::Deserialize;
use weftline::{Bind, PathConfig, Role};
use weftline_core::{Bitrate, RateCap};

use crate::congestion;
use crate::failure::Failure;
use crate::routes;

/// A path as a table of a configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PathTable {
    /// A name of the user's choice.
    name: String,
    /// The interface or local address it leaves through.
    via: String,
    role: Option<String>,
    cap: Option<String>,
    congestion: Option<String>,
}

impl PathTable {
    /// The path; whether it is there is another question.
    pub(crate) fn path(&self) -> Result<PathConfig, Failure> {
        let wrong = |reason| Failure::wrong_use(format!("[[paths]] '{}': {reason}", self.name));
        let mut path = PathConfig::new(&self.name, bind(&self.via));
        let options = [("role", &self.role), ("cap", &self.cap), ("congestion", &self.congestion)];
        for (key, value) in options {
            if let Some(value) = value {
                path = set(path, key, value).map_err(wrong)?;
            }
        }
        Ok(path)
    }
}

/// Every other interface with a default route.
const AUTO: &str = "auto";

/// Why there are no paths.
#[derive(Debug)]
pub(crate) enum PathError {
    /// One is written wrong.
    Written(Failure),
    /// No interface has a default route, and no path is named.
    NoRoute,
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Written(failure) => failure,
            PathError::NoRoute => Self::wrong_use(
                "no interface has a default route for --path auto; name the paths, such as \
                 wifi=wlan0, or see 'ip route'",
            ),
        }
    }
}

/// The paths as they stand on the command line; `auto` as the interfaces that it stands for.
///
/// # Errors
/// When one is written wrong, or there is none.
pub(crate) fn parse_all(texts: &[String]) -> Result<Vec<PathConfig>, PathError> {
    let named = texts.iter().filter(|text| *text != AUTO);
    let paths = named.map(|text| parse(text)).collect::<Result<Vec<_>, _>>();
    let mut paths = paths.map_err(PathError::Written)?;
    if paths.len() < texts.len() {
        add_interfaces(&mut paths, routes::interfaces());
    }
    if paths.is_empty() && !texts.is_empty() {
        return Err(PathError::NoRoute);
    }
    Ok(paths)
}

/// Adds a path for each interface that has none.
fn add_interfaces(paths: &mut Vec<PathConfig>, interfaces: Vec<String>) {
    for interface in interfaces {
        let bind = Bind::Interface(interface.clone());
        if !paths.iter().any(|path| path.bind == bind) {
            paths.push(PathConfig::new(&interface, bind));
        }
    }
}

/// A path as it stands on the command line; whether it is there is another question.
pub(crate) fn parse(text: &str) -> Result<PathConfig, Failure> {
    let wrong = |reason: String| Failure::wrong_use(format!("path '{text}': {reason}"));
    let mut parts = text.split(',');
    let place = parts.next().unwrap_or_default();
    let Some((name, via)) = place.split_once('=').filter(|(_, via)| !via.is_empty()) else {
        return Err(Failure::wrong_use(format!(
            "'{text}' is no path; write NAME=INTERFACE or NAME=ADDRESS, such as wifi=wlan0"
        )));
    };
    let mut path = PathConfig::new(name, bind(via));
    let mut seen = Vec::new();
    for option in parts {
        let Some((key, value)) = option.split_once('=') else {
            return Err(wrong(format!(
                "'{option}' is no option; {OPTIONS} (an interface with a comma in its name can be given \
                 by its address, or in a file as via)"
            )));
        };
        if seen.contains(&key) {
            return Err(wrong(format!("{key} is given twice; leave one out")));
        }
        seen.push(key);
        path = set(path, key, value).map_err(wrong)?;
    }
    Ok(path)
}

const OPTIONS: &str = "there are role=active|backup|metered, cap=RATE and congestion=NAME";

fn bind(via: &str) -> Bind {
    let Ok(bind) = via.parse();
    bind
}

/// The paths, with congestion controls that this machine has. One whose link is not there, as a
/// modem that nobody has plugged in yet, is warned of: it is taken when it comes. Without `others`,
/// one has to be there.
///
/// # Errors
/// When none of the links is there, or a congestion control is not.
pub(crate) fn provided(paths: Vec<PathConfig>, others: bool) -> Result<Vec<PathConfig>, Failure> {
    let absent = |path: &PathConfig| Some((path.name.clone(), path.bind.check().err()?));
    let mut absent: Vec<_> = paths.iter().filter_map(absent).collect();
    if absent.len() == paths.len() && !others && !absent.is_empty() {
        return Err(absent.swap_remove(0).1.into());
    }
    for (name, error) in absent {
        tracing::warn!("path {name}: {error}; it is used as soon as it is there");
    }
    paths.into_iter().map(with_control).collect()
}

/// The path, if this machine has its congestion control.
///
/// # Errors
/// When it has not.
pub(crate) fn with_control(mut path: PathConfig) -> Result<PathConfig, Failure> {
    path.congestion = path.congestion.as_deref().map(congestion::provide).transpose()?;
    Ok(path)
}

/// The path with an option of it set.
fn set(path: PathConfig, key: &str, value: &str) -> Result<PathConfig, String> {
    match key {
        "role" => role(value).map(|role| path.role(role)),
        "cap" => cap(value).map(|cap| path.cap(cap)),
        "congestion" if value.is_empty() => Err("congestion: give a name".to_owned()),
        "congestion" => Ok(path.congestion(value)),
        _ => Err(format!("unknown option '{key}'; {OPTIONS}")),
    }
}

fn role(value: &str) -> Result<Role, String> {
    let roles = [Role::Active, Role::Backup, Role::Metered];
    let found = roles.into_iter().find(|role| role.name() == value);
    found.ok_or_else(|| format!("'{value}' is no role; choose active, backup or metered"))
}

fn cap(value: &str) -> Result<Bitrate, String> {
    let cap: Bitrate = value.parse().map_err(|error| format!("cap: {error}"))?;
    if (RateCap::MIN..=RateCap::MAX).contains(&cap) {
        Ok(cap)
    } else {
        Err(format!("cap: choose a rate between {} and {}, not {cap}", RateCap::MIN, RateCap::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_path() {
        let path = parse("lte=127.0.0.2,role=metered,cap=20Mbps,congestion=cubic").unwrap();
        let wanted = PathConfig::new("lte", Bind::Address([127, 0, 0, 2].into()));
        let wanted = wanted.role(Role::Metered).cap(Bitrate::mbps(20)).congestion("cubic");
        assert_eq!(path, wanted);
        assert_eq!(parse("lte=127.0.0.2").unwrap().policy, weftline::PathPolicy::default());
    }

    #[test]
    fn interfaces_join_the_paths_that_are_named() {
        let interface = |name: &str| PathConfig::new(name, Bind::Interface(name.to_owned()));
        let mut paths = vec![PathConfig::new("lte", Bind::Interface("wwan0".to_owned()))];
        add_interfaces(&mut paths, vec!["wlan0".to_owned(), "wwan0".to_owned()]);
        assert_eq!(paths.iter().map(|path| &*path.name).collect::<Vec<_>>(), ["lte", "wlan0"]);
        assert_eq!(paths[1], interface("wlan0"));
    }

    #[test]
    fn what_is_wrong_with_a_path_is_said() {
        for (text, message) in [
            ("lte", "is no path; write NAME=INTERFACE"),
            ("lte=127.0.0.2,backup", "'backup' is no option; there are role=active|backup|metered"),
            ("lte=127.0.0.2,role=spare", "'spare' is no role; choose active, backup or metered"),
            ("lte=127.0.0.2,role=retired", "'retired' is no role"),
            ("lte=127.0.0.2,cap=fast", "cap: "),
            ("lte=127.0.0.2,cap=1bps", "cap: choose a rate between 1"),
            ("lte=127.0.0.2,speed=1", "unknown option 'speed'; there are"),
            ("lte=127.0.0.2,role=backup,role=active", "role is given twice"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn tables_are_the_same_paths() {
        let table = |text| toml::from_str::<PathTable>(text).map_err(|error| error.to_string());
        let full = table("name = 'lte'\nvia = '127.0.0.2'\nrole = 'backup'\ncap = '5Mbps'");
        let path = full.unwrap().path().unwrap();
        assert_eq!(path, parse("lte=127.0.0.2,role=backup,cap=5Mbps").unwrap());
        assert!(table("name = 'lte'\nvia = 'x'\nspeed = 1").unwrap_err().contains("`speed`"));
        let wrong = table("name = 'lte'\nvia = '127.0.0.2'\nrole = 'x'").unwrap().path();
        assert!(wrong.unwrap_err().to_string().contains("[[paths]] 'lte': 'x' is no role"));
    }
}
