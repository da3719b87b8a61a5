//! The colour of each scheme: the same in every report, whatever else ran.

/// The hues of the page's style, `s0` to `s11`.
const HUES: usize = 12;

/// Hue and stroke of the schemes there are. Those of one family share the hue.
const SCHEMES: &[(&str, usize, &str)] = &[
    ("fbdt", 0, ""),
    ("fbdt-strict", 0, " dotted"),
    ("linux-mptcp", 1, ""),
    ("linux", 1, " dotted"),
    ("linux-default", 1, " mixed"),
    ("linux-forward", 3, " mixed"),
    ("linux-fbdt", 0, " mixed"),
    ("min-rtt", 2, ""),
    ("earliest", 3, ""),
    ("latency", 3, " dotted"),
    ("musher", 4, ""),
    ("ecf", 5, ""),
    ("blest", 6, ""),
    ("round-robin", 7, ""),
    ("packet-round-robin", 7, " dotted"),
    ("redundant", 8, ""),
    ("lpc", 9, ""),
    ("let", 10, ""),
    ("gr-sty", 11, ""),
    ("tp-sty", 4, " dotted"),
    ("tr-sty", 5, " dotted"),
    ("gr-sty-soft", 11, " mixed"),
    ("tp-sty-soft", 4, " mixed"),
    ("tr-sty-soft", 5, " mixed"),
    ("cotag", 8, " dotted"),
    ("cotag-dense", 10, " dotted"),
    ("oracle", 9, " dotted"),
    // Congestion controls, where they are the lines of a figure.
    ("cubic", 0, ""),
    ("bbr", 1, ""),
    ("bbr3", 1, " dotted"),
    ("reno", 2, ""),
    ("compound", 3, ""),
    ("lia", 4, ""),
    ("olia", 5, ""),
    ("balia", 6, ""),
];

/// Hues of the paths that scenarios have most, so that two of them differ.
const PATHS: &[(&str, usize)] = &[
    ("wifi", 7),
    ("wigig", 10),
    ("lte", 8),
    ("one", 7),
    ("two", 10),
    ("three", 8),
    ("four", 11),
    ("near", 7),
    ("far", 10),
    ("link", 7),
];

/// The classes of a scheme's or congestion control's colour and stroke. What runs over one path is
/// dashed.
pub(crate) fn colour(name: &str) -> String {
    if let Some((kind, path)) = name.split_once(':') {
        let known = PATHS.iter().find(|(known, _)| *known == path);
        let stroke = if kind == "single" { " dashed" } else { " mixed" };
        return format!("s{}{stroke}", known.map_or_else(|| hue(path), |(_, hue)| *hue));
    }
    match SCHEMES.iter().find(|(known, ..)| *known == name) {
        Some((_, hue, stroke)) => format!("s{hue}{stroke}"),
        None => format!("s{} mixed", hue(name)),
    }
}

/// The hue of a name that is in no table: of its FNV-1a digest.
fn hue(name: &str) -> usize {
    let digest = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (digest >> 32) as usize % HUES
}

/// Whether the scheme uses one path by its nature.
pub(crate) fn is_single(scheme: &str) -> bool {
    scheme.contains(':')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weftline_scenario::{Congestion, Scheme};

    use super::*;

    #[test]
    fn every_scheme_has_a_colour_of_its_own() {
        let named = |name: &String| !name.contains('<');
        let schemes: Vec<String> = Scheme::all().map(|info| info.name.to_owned()).collect();
        for name in schemes.iter().filter(|name| named(name)) {
            assert!(SCHEMES.iter().any(|(known, ..)| known == name), "{name} has no colour");
        }
        let colours: BTreeSet<_> =
            schemes.iter().filter(|name| named(name)).map(|name| colour(name)).collect();
        assert_eq!(colours.len(), schemes.iter().filter(|name| named(name)).count());
        for control in Congestion::all() {
            assert!(SCHEMES.iter().any(|(known, ..)| *known == control.name()), "{control}");
        }
        assert_ne!(colour("single:wifi"), colour("single:wigig"));
        assert_eq!(colour("single:wifi"), "s7 dashed");
        assert_eq!(colour("not-yet-known"), colour("not-yet-known"));
    }
}
