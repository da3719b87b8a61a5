//! Cuts: moments at which a path, or one direction of it, goes dead and comes back.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Way;

/// A path that carries nothing for a time, whatever its trace says: packets sent into it vanish,
/// and so do those on their way. Written `wigig@5s..8s`, one direction only `wigig/up@5s..8s`, for
/// good `wigig@5s..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The path's name.
    pub path: String,
    /// Which direction; both if absent.
    pub way: Option<Way>,
    /// From when, counted from the workload's first byte.
    pub from: Duration,
    /// Until when; for good if absent.
    pub until: Option<Duration>,
}

/// A text that is no [`Cut`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no cut; write it like wigig@5s..8s, wigig/up@5s..8s or wigig@5s..")]
pub struct ParseCutError(String);

impl FromStr for Cut {
    type Err = ParseCutError;

    fn from_str(text: &str) -> Result<Self, ParseCutError> {
        parse(text).ok_or_else(|| ParseCutError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Cut> {
    let (place, time) = text.split_once('@')?;
    let (path, way) = match place.split_once('/') {
        None => (place, None),
        Some((path, "down")) => (path, Some(Way::Down)),
        Some((path, "up")) => (path, Some(Way::Up)),
        Some(_) => return None,
    };
    let (from, until) = time.split_once("..")?;
    let duration = |text: &str| humantime::parse_duration(text).ok();
    let from = duration(from)?;
    let until = if until.is_empty() { None } else { Some(duration(until)?) };
    let good = !path.is_empty() && until.is_none_or(|until| until > from);
    good.then(|| Cut { path: path.to_owned(), way, from, until })
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            None => "",
            Some(Way::Down) => "/down",
            Some(Way::Up) => "/up",
        };
        write!(f, "{}{way}@{}..", self.path, humantime::format_duration(self.from))?;
        match self.until {
            None => Ok(()),
            Some(until) => write!(f, "{}", humantime::format_duration(until)),
        }
    }
}

/// One switch of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    /// When, counted from the start.
    pub(super) at: Duration,
    /// The path's index.
    pub(super) path: usize,
    /// Which direction; both if absent.
    pub(super) way: Option<Way>,
    /// Cut, or restored.
    pub(super) cut: bool,
}

impl Cut {
    /// Its switches, if it is of the path of index `path`.
    pub(super) fn switches(&self, path: usize) -> impl Iterator<Item = Switch> + use<> {
        let way = self.way;
        let end = self.until.map(|at| Switch { at, path, way, cut: false });
        std::iter::once(Switch { at: self.from, path, way, cut: true }).chain(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_read_and_print() {
        for text in ["wigig@5s..8s", "wigig/up@500ms..1s 200ms", "a-b/down@0s.."] {
            let cut: Cut = text.parse().unwrap();
            assert_eq!(cut.to_string().parse(), Ok(cut), "{text}");
        }
        let cut: Cut = "wigig/up@5s..8s".parse().unwrap();
        assert_eq!((cut.way, cut.from), (Some(Way::Up), Duration::from_secs(5)));
        for bad in
            ["", "wigig", "wigig@5s", "wigig@8s..5s", "wigig/left@1s..2s", "@1s..2s", "a@x..y"]
        {
            assert!(bad.parse::<Cut>().is_err(), "{bad}");
        }
    }
}
