//! Every counter of a node has one name and one meaning, which the documents have, too.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use weftline_coding::node::counters;

#[test]
fn documents_say_of_each_what_it_counts() {
    let doc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cotag.md");
    let doc = fs::read_to_string(doc).unwrap();
    let names: BTreeSet<_> = counters::ALL.iter().map(|counter| counter.name).collect();
    assert!(names.len() == counters::ALL.len() && names.len() > 30, "{names:?}");
    for counter in counters::ALL {
        let row = |line: &&str| line.starts_with(&format!("| `{}` | ", counter.name));
        let rows: Vec<_> = doc.lines().filter(row).collect();
        let is_said =
            matches!(rows[..], [row] if row.ends_with(&format!(" | {} |", counter.about)));
        assert!(
            is_said,
            "docs/cotag.md is to have one row with this end: {counter:?}; it has {rows:?}"
        );
    }
}

#[test]
fn nodes_make_counters_of_these_only() {
    let own = texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let nodes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../coding/src/node/counters.rs");
    let nodes = fs::read_to_string(nodes).unwrap();
    // A name and a description beside it would be a second one.
    assert!(!own.contains("Counter::new("));
    assert_eq!(own.matches("struct Counter {").count(), 1);
    assert_eq!(own.matches("Counter {").count(), 2, "its struct and its impl");
    for counter in counters::ALL {
        let name = counter.name.to_uppercase();
        let is_counted = own.contains(&format!("counters::{name}"))
            || nodes.contains(&format!("({name}, self."));
        assert!(is_counted, "no node counts {name}");
    }
}

/// All sources below, one after another, but for those of `weftline bond`, whose counters are others.
fn texts(directory: &Path) -> String {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: std::path::PathBuf| match path.extension() {
        _ if path.is_dir() && !path.ends_with("bond") => texts(&path),
        Some(end) if end == "rs" => fs::read_to_string(&path).unwrap(),
        _ => String::new(),
    };
    entries.map(text).collect()
}
