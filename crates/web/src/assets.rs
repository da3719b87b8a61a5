//! The page, built from `ui/` by `scripts/web` and committed, so that cargo alone builds all of it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::HeaderValue;
use ring::digest::{SHA256, digest};

/// A file that browsers fetch.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Under `/a/`.
    name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) bytes: &'static [u8],
}

/// The page itself, at `/`.
pub(crate) static PAGE: Asset = Asset {
    name: "index.html",
    kind: "text/html; charset=utf-8",
    bytes: include_bytes!("../dist/index.html"),
};

/// The page of the player.
pub(crate) static PLAYER: Asset = Asset {
    name: "player.html",
    kind: "text/html; charset=utf-8",
    bytes: include_bytes!("../dist/player.html"),
};

/// What the pages name.
static NAMED: [Asset; 7] = [
    Asset {
        name: "dashboard.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../dist/dashboard.js"),
    },
    Asset {
        name: "dashboard.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../dist/dashboard.css"),
    },
    Asset {
        name: "player.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../dist/player.js"),
    },
    Asset {
        name: "player-worker.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../dist/player-worker.js"),
    },
    Asset {
        name: "player.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../dist/player.css"),
    },
    Asset { name: "icon.svg", kind: "image/svg+xml", bytes: include_bytes!("../dist/icon.svg") },
    Asset {
        name: "licenses.txt",
        kind: "text/plain; charset=utf-8",
        bytes: include_bytes!("../dist/licenses.txt"),
    },
];

/// The file of this name, if there is one.
pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    NAMED.iter().find(|asset| asset.name == name)
}

/// A file as it is sent.
pub(crate) struct Packed {
    pub(crate) gzip: Bytes,
    /// Its entity tag, another one for other bytes: a weak one, as packed and not it is the same.
    pub(crate) tag: HeaderValue,
}

/// A file of these, packed when the first is asked for: some milliseconds.
pub(crate) fn packed(asset: &'static Asset) -> &'static Packed {
    static ALL: LazyLock<BTreeMap<&'static str, Packed>> = LazyLock::new(|| {
        let pack = |asset: &'static Asset| {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            gzip.write_all(asset.bytes).expect("memory takes all");
            let gzip = gzip.finish().expect("memory takes all").into();
            let hash = digest(&SHA256, asset.bytes);
            let hex: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let tag = HeaderValue::from_str(&format!("W/\"{hex}\"")).expect("it is of ASCII");
            (asset.name, Packed { gzip, tag })
        };
        [&PAGE, &PLAYER].into_iter().chain(&NAMED).map(pack).collect()
    });
    &ALL[asset.name]
}

/// A page that needs nothing else and draws `data`, a weave as JSON without any `<`.
pub(crate) fn weave_page(data: &str) -> String {
    const SCRIPT: &str = include_str!("../dist/weave.js");
    const STYLE: &str = include_str!("../dist/dashboard.css");
    const POLICY: &str =
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Weave</title>\n\
         <style>{STYLE}</style>\n<div id=\"app\"></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script type=\"module\">\n{SCRIPT}</script>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_name_what_is_here_and_nothing_of_others() {
        for page in [&PAGE, &PLAYER] {
            names_what_is_here(std::str::from_utf8(page.bytes).unwrap());
        }
    }

    #[track_caller]
    fn names_what_is_here(page: &str) {
        let mut named = 0;
        for part in ["src=\"", "href=\""] {
            for rest in page.split(part).skip(1) {
                let target = rest.split('"').next().unwrap();
                let Some(name) = target.strip_prefix("/a/") else {
                    assert!(target.starts_with('#'), "{target} is not ours");
                    continue;
                };
                assert!(find(name).is_some(), "{name}");
                named += 1;
            }
        }
        assert!(named >= 3, "{page}");
        // The policy of content lets no script and no style stand in the page.
        for forbidden in ["<style", "style=", "onload", "onclick", "<script>"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(find("index.html").is_none() && find("../Cargo.toml").is_none());
    }

    /// Over a slow link each of them is a second or so (the budgets of the pages).
    #[test]
    fn what_a_page_loads_stays_small() {
        let size = |names: &[&str], page: &'static Asset| {
            let parts = names.iter().map(|name| find(name).unwrap()).chain([page]);
            parts.map(|part| packed(part).gzip.len()).sum::<usize>()
        };
        let dashboard = size(&["dashboard.js", "dashboard.css", "icon.svg"], &PAGE);
        let player = size(&["player.js", "player-worker.js", "player.css", "icon.svg"], &PLAYER);
        assert!(dashboard <= 60_000 && player <= 30_000, "{dashboard} and {player} bytes");
    }

    #[test]
    fn the_licences_of_what_is_built_in_come_with_it() {
        let text = std::str::from_utf8(find("licenses.txt").unwrap().bytes).unwrap();
        for part in ["lit-html", "BSD-3-Clause", "Google LLC", "uPlot", "MIT", "Leon Sorokin"] {
            assert!(text.contains(part), "{part}");
        }
    }
}
