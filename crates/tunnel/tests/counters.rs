//! Every counter of a node is described in the documents.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names that follow such a text in the sources, as strings.
fn names(after: &str) -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let mut names = BTreeSet::new();
    for text in texts.map(|path| fs::read_to_string(path).unwrap()) {
        for found in text.split(after).skip(1) {
            let name = found.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

#[test]
fn all_are_described() {
    let doc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cotag.md");
    let doc = fs::read_to_string(doc).unwrap();
    let counters = names("Counter::new(");
    assert!(counters.len() > 30 && counters.contains("uplink_stray"), "{counters:?}");
    let missing: Vec<_> =
        counters.iter().filter(|name| !doc.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/cotag.md does not say what these count: {missing:?}");
}
