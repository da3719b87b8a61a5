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
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let all = texts.map(|path| fs::read_to_string(path).unwrap()).collect::<String>();
    // A name and a description beside it would be a second one.
    assert!(!all.contains("Counter::new(") && all.matches("Counter::of(counters::").count() > 25);
    assert_eq!(all.matches("Counter {").count(), 2, "the struct, and what makes it");
    let made = |counter: &&counters::Meaning| {
        all.contains(&format!("counters::{}", counter.name.to_uppercase()))
    };
    let own = counters::ALL.iter().filter(made).count();
    assert!(own > 20, "{own}");
}
