//! Replays the corpus of the fuzz target `scenario`, and changed scenario files, on stable Rust.
#![expect(unreachable_pub, reason = "the target is shared with the fuzz crate")]

#[path = "../../../fuzz/scenario.rs"]
mod target;

use proptest::prelude::*;
use weftline_scenario::{BUILTIN, SWEEPS};

#[test]
fn the_scenario_corpus() {
    let folder = format!("{}/../../fuzz/corpus/scenario", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let read = |file: std::io::Result<std::fs::DirEntry>| std::fs::read(file?.path());
    let run = files.map(|file| target::scenario(&read(file).expect("readable"))).count();
    assert!(run > 0, "{folder} is empty");
}

proptest! {
    /// Files that were right until some lines were taken out, doubled or spoiled.
    #[test]
    fn spoiled_files_are_told_in_one_line(
        file in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0u8..5, "[ -~]{0,12}"), 1..5),
    ) {
        let texts: Vec<&str> =
            BUILTIN.iter().map(|file| file.text).chain(SWEEPS.iter().map(|file| file.text)).collect();
        let mut lines: Vec<String> = file.get(&texts).lines().map(str::to_owned).collect();
        for (at, kind, text) in edits {
            let at = at.index(lines.len());
            match kind {
                0 if lines.len() > 1 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => lines[at].push_str(&text),
                3 => lines[at] = format!("{} = {text}", lines[at].split('=').next().unwrap_or("x")),
                _ => lines.insert(at, text),
            }
        }
        target::scenario(lines.join("\n").as_bytes());
    }
}
