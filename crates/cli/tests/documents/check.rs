//! Whether a command of a document would be accepted: by our program, by the Makefile, by cargo.

use std::fs;

use crate::markdown::root;

/// Whether the command is one whose use can be checked; if it is, its use is right.
///
/// # Errors
/// Says what is wrong.
pub(crate) fn check(words: &[String]) -> Result<bool, String> {
    let program = words[0].as_str();
    let words = &words[1..];
    match program {
        "weftline" | "target/release/weftline" => weftline(words, false)?,
        "make" => make(words)?,
        "cargo" => cargo(words)?,
        _ if program.starts_with("scripts/") => there(program)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn there(path: &str) -> Result<(), String> {
    if root().join(path).exists() { Ok(()) } else { Err(format!("{path} is not there")) }
}

/// By the parser of the program's command line. `…` stands for more of the same.
pub(crate) fn weftline(words: &[String], cut: bool) -> Result<(), String> {
    let cut = cut || words.contains(&"…".to_owned());
    // It may also be the value of the option before it.
    let is_option = |at: usize| at > 0 && words[at - 1].starts_with("--");
    let given = words.iter().enumerate().filter(|(at, word)| *word != "…" || is_option(*at));
    let given: Vec<String> = given.map(|(_, word)| word.clone()).collect();
    weftline_cli::usage::check(&given, cut)
}

fn make(words: &[String]) -> Result<(), String> {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let is_target = |word: &str| makefile.lines().any(|line| line.starts_with(&format!("{word}:")));
    let targets = words.iter().filter(|word| !word.contains('=') && !word.starts_with('-'));
    match targets.into_iter().find(|word| !is_target(word)) {
        None => Ok(()),
        Some(word) => Err(format!("the Makefile has no target {word}")),
    }
}

/// The crates, tests, benchmarks and examples that are named are there.
fn cargo(words: &[String]) -> Result<(), String> {
    let after = |option: &str| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1).map(String::as_str)
    };
    if let Some(manifest) = after("--manifest-path") {
        there(manifest)?;
    }
    let Some(package) = after("-p") else { return Ok(()) };
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let named = format!("name = \"{package}\"");
    let found = crates.into_iter().find(|path| {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line == named)
    });
    let found = found.ok_or_else(|| format!("there is no crate {package}"))?;
    let kinds = [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")];
    for (option, folder) in kinds {
        let Some(name) = after(option) else { continue };
        let file = found.join(folder).join(format!("{name}.rs"));
        let in_folder = found.join(folder).join(name).join("main.rs");
        if !file.exists() && !in_folder.exists() {
            return Err(format!("{package} has no {name} in {folder}/"));
        }
    }
    Ok(())
}
