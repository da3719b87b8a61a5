//! Paths that come up and carry nothing: small packets pass, so that they are connected, and those of
//! full size vanish. Nothing fails then, and the other paths carry everything; it has to be said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weftline::status::{PathTotals, totals};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(5);
/// So many looks in a row have to find a path stuck: outages of some seconds have causes of their own.
const LOOKS: u32 = 2;

/// Says in the log, for ever, when a path is stuck.
pub(super) async fn watch() {
    let mut paths = Paths::default();
    loop {
        tokio::time::sleep(INTERVAL).await;
        for name in paths.look(&totals().paths) {
            tracing::warn!(
                "path {name}: nothing gets through for {} s, while other paths carry: it is cut, or \
                 packets of full size vanish there; 'weftline doctor connect' at the client says which",
                INTERVAL.as_secs() * u64::from(LOOKS)
            );
        }
    }
}

/// What was seen of each path.
#[derive(Debug, Default)]
struct Paths(BTreeMap<Arc<str>, Seen>);

#[derive(Debug, Default)]
struct Seen {
    delivered: u64,
    /// How many looks in a row it has been stuck.
    stuck: u32,
}

impl Paths {
    /// Which paths are to be told of after this look at all of them. All connections count together: where
    /// a path of that name carries in one, it is not told of.
    fn look(&mut self, now: &BTreeMap<Arc<str>, PathTotals>) -> Vec<Arc<str>> {
        self.0.retain(|name, _| now.contains_key(name));
        let carries = |path: &PathTotals, seen: Option<&Seen>| {
            path.delivered > seen.map_or(0, |seen| seen.delivered)
        };
        let any_carries = now.iter().any(|(name, path)| carries(path, self.0.get(name)));
        let mut told = Vec::new();
        for (name, path) in now {
            let seen = self.0.entry(Arc::clone(name)).or_default();
            let is_stuck = any_carries && path.stalled > 0 && !carries(path, Some(seen));
            seen.stuck = if is_stuck { seen.stuck.saturating_add(1) } else { 0 };
            if seen.stuck == LOOKS {
                told.push(Arc::clone(name));
            }
            seen.delivered = path.delivered;
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at two paths: what the one has delivered, and the other, which is stalled or not.
    fn look(paths: &mut Paths, one: u64, other: u64, stalled: u64) -> Vec<String> {
        let path = |delivered, stalled| {
            let mut path = PathTotals::default();
            (path.delivered, path.stalled) = (delivered, stalled);
            path
        };
        let now = [("one".into(), path(one, 0)), ("other".into(), path(other, stalled))];
        paths.look(&BTreeMap::from(now)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_that_carries_nothing_beside_one_that_does_is_told_of_once() {
        let mut paths = Paths::default();
        assert!(look(&mut paths, 10, 0, 1).is_empty(), "it may be an outage");
        assert_eq!(look(&mut paths, 20, 0, 1), ["other"]);
        assert!(look(&mut paths, 30, 0, 1).is_empty(), "it has been said");
        // It carries, and later it does not any more.
        assert!(look(&mut paths, 40, 5, 1).is_empty());
        assert!(look(&mut paths, 50, 5, 1).is_empty());
        assert_eq!(look(&mut paths, 60, 5, 1), ["other"]);
    }

    #[test]
    fn a_path_that_has_nothing_to_carry_is_not_told_of() {
        let mut paths = Paths::default();
        for step in 1..10 {
            assert!(look(&mut paths, 10 * step, 0, 0).is_empty(), "idle");
        }
        for _ in 0..10 {
            assert!(look(&mut paths, 90, 0, 1).is_empty(), "nothing moves anywhere");
        }
        // Looks that find it stuck have to follow each other.
        assert!(look(&mut paths, 100, 0, 1).is_empty());
        assert!(look(&mut paths, 100, 0, 1).is_empty());
        assert!(look(&mut paths, 110, 0, 1).is_empty());
    }
}
