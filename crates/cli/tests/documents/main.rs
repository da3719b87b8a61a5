//! The documents do what they say: their commands run or at least exist, their links lead somewhere.
//!
//! A fenced block is of a known kind. A block of commands (`sh`, or `console` with prompts and
//! outputs) is run (`<!-- run -->`, `<!-- run: two machines -->` …), or the comment before it says why
//! not (`<!-- not run: … -->`). In both cases its uses of `weftline`, `make`, `cargo` and scripts are
//! held to the real ones.
#![allow(clippy::unwrap_used, reason = "test code")]

mod check;
#[path = "../common/mod.rs"]
mod common;
mod keys;
mod machines;
mod markdown;
mod reference;
mod shell;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use machines::Machines;
use markdown::{Block, Document, Mark, Place, Run, documents, root};

/// Kinds of blocks that are no commands.
const DATA: [&str; 5] = ["json", "rust", "text", "toml", "yaml"];

/// What a document's block of the sources finds in its directory.
const SOURCES: [&str; 4] = ["Makefile", "crates", "packaging", "scripts"];

/// A function of bash in place of the program, which machines for tests mostly lack.
const SUDO: &str = r#"() { while [[ $1 == -* ]]; do shift; done; "$@"; }"#;

/// What a program of a document finds in its environment: our program first, and directories that
/// are its own. `make` builds nothing, takes our program, and installs below its own directory.
fn environment(command: &mut Command, own: &Path) {
    fs::create_dir_all(own).unwrap();
    let program = assert_cmd::cargo::cargo_bin!("weftline");
    let path = std::env::var("PATH").unwrap();
    let (built, root) = (program.display(), own.join("installed"));
    command
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .env("BASH_FUNC_sudo%%", SUDO)
        .env("WEFTLINE", program)
        .env("MAKEFLAGS", format!("CARGO=true BUILT={built} DESTDIR={}", root.display()))
        .env("PYTHONUNBUFFERED", "1")
        // The least that somebody may have; it knows no `kill %1`.
        .env("SHELL", "/bin/sh")
        .env_remove("RUST_LOG");
    for name in ["HOME", "RUNTIME_DIRECTORY", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(name, own);
    }
}

/// The change that a mutant makes is known by its text, once in its file; whoever changes that text
/// changes the mutant with it.
#[test]
fn each_mutant_has_its_place() {
    let table = fs::read_to_string(root().join("scripts/mutants.toml")).unwrap();
    let table: toml::Table = table.parse().unwrap();
    let mutants = table["mutant"].as_array().unwrap();
    assert!(mutants.len() >= 40);
    for mutant in mutants {
        let word = |key: &str| mutant[key].as_str().unwrap();
        let text = fs::read_to_string(root().join(word("file"))).unwrap();
        let found = text.matches(word("from")).count();
        assert_eq!(found, 1, "scripts/mutants.toml: '{}' in {}", word("name"), word("file"));
        assert!(!mutant["tests"].as_array().unwrap().is_empty(), "{}", word("name"));
    }
}

/// Who embeds the library has no options.
#[test]
fn the_library_names_no_options() {
    let mut looked_at = 0;
    let mut dirs = vec![root().join("crates/transport/src"), root().join("crates/core/src")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                dirs.push(entry);
                continue;
            }
            let text = fs::read_to_string(&entry).unwrap();
            for (number, line) in (1..).zip(text.lines()) {
                let code = !line.trim_start().starts_with("//");
                let option =
                    line.split("--").skip(1).any(|rest| rest.starts_with(char::is_alphabetic));
                let place = entry.display();
                assert!(!(code && option), "{place}:{number} names an option: {line}");
            }
            looked_at += 1;
        }
    }
    assert!(looked_at > 100, "{looked_at} files");
}

impl Block {
    fn is_commands(&self) -> bool {
        ["sh", "console"].contains(&self.language.as_str())
    }

    /// Its commands as they are shown.
    fn shown(&self, place: &str) -> Vec<shell::Command> {
        self.parse(&self.text, place)
    }

    /// Its commands as they are run.
    fn commands(&self, run: &Run, place: &str) -> Vec<shell::Command> {
        let mut text = self.text.clone();
        for (shown, run) in &run.replaced {
            assert!(text.contains(shown), "{place}: '{shown}' is not in the block");
            text = text.replace(shown, run);
        }
        self.parse(&text, place)
    }

    fn parse(&self, text: &str, place: &str) -> Vec<shell::Command> {
        if self.language == "console" {
            return shell::console(text).unwrap_or_else(|error| panic!("{place}: {error}"));
        }
        vec![shell::Command { machine: String::new(), text: text.to_owned(), output: Vec::new() }]
    }
}

/// Every block of every document, with its place.
fn for_each_block(mut what: impl FnMut(&Document, &Block, &str)) {
    for document in documents() {
        for block in &document.blocks {
            what(&document, block, &format!("{}:{}", document.name, block.line));
        }
    }
}

#[test]
fn every_block_is_of_a_known_kind() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for_each_block(|_, block, place| {
        seen += 1;
        let (language, commands) = (block.language.as_str(), block.is_commands());
        let fits = match block.mark {
            Mark::None => !commands,
            Mark::File(_) => !commands,
            Mark::Run(Run { place: Place::Machines, .. }) => language == "console",
            Mark::Run(_) | Mark::NotRun => commands,
        };
        if !(commands || DATA.contains(&language)) {
            wrong.push(format!(
                "{place}: '{language}' is no kind of block; write sh, console, {DATA:?}"
            ));
        } else if !fits {
            wrong.push(format!("{place}: run it, or say why not: the comment before it"));
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 50, "only {seen} blocks were found");
}

#[test]
fn every_command_exists() {
    // Files of the repository are named from its top.
    std::env::set_current_dir(root()).unwrap();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for_each_block(|_, block, place| {
        if !block.is_commands() {
            return;
        }
        for command in block.shown(place) {
            for words in shell::simple_commands(&command.text) {
                match check::check(&words) {
                    Ok(is_known) => checked += usize::from(is_known),
                    Err(error) => wrong.push(format!("{place}: {}: {error}", words.join(" "))),
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 50, "only {checked} commands were found");
}

/// Whether blocks can be run for which one must be root.
fn is_root() -> bool {
    let is = rustix::process::geteuid().is_root();
    if !is {
        assert!(std::env::var_os("CI").is_none(), "in CI it runs as root");
        eprintln!("skipped; run 'sudo -E cargo test -p weftline-cli --test documents'");
    }
    is
}

/// The blocks that are run on one machine, each document in a directory of its own.
#[test]
fn what_is_to_run_runs() {
    let (is_root, mut ran) = (is_root(), 0);
    for document in documents() {
        let here = |block: &Block| block.mark.place().is_some_and(|place| place != Place::Machines);
        if !document.blocks.iter().any(here) {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path();
        for source in SOURCES {
            symlink(root().join(source), own.join(source)).unwrap();
        }
        for block in &document.blocks {
            let place = format!("{}:{}", document.name, block.line);
            match &block.mark {
                Mark::File(name) => fs::write(own.join(name), &block.text).unwrap(),
                Mark::Run(how) if here(block) && (is_root || how.place != Place::Root) => {
                    for command in block.commands(how, &place) {
                        run(&command, own, &place);
                        ran += 1;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(ran > 10, "only {ran} commands were run");
}

/// Runs a command to its end, which must be good, and compares what it prints with what is shown.
fn run(command: &shell::Command, directory: &Path, place: &str) {
    eprintln!("{place}: {}", command.text.trim_end());
    let mut bash = Command::new("bash");
    bash.args(["-euc", &command.text]).current_dir(directory).stdin(Stdio::null());
    environment(&mut bash, directory);
    let output = common::run_alone(&mut bash);
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = &command.text;
    // A lab that had no processor in time is this machine's fault, not the document's.
    let is_late = errors.contains("because the emulator was late");
    assert!(
        output.status.success() || is_late,
        "{place}: {text}: {}\n{printed}{errors}",
        output.status
    );
    let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    let alike = command.output.is_empty() || shell::same_shape(&command.output, &lines);
    assert!(alike, "{place}: {text} prints something else:\n{printed}");
}

#[test]
fn two_machines_do_what_is_shown() {
    if !is_root() {
        return;
    }
    let mut ran = 0;
    for document in documents() {
        let two = |block: &Block| block.mark.place() == Some(Place::Machines);
        if !document.blocks.iter().any(two) {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut machines = Machines::set_up(directory.path());
        for block in &document.blocks {
            let place = format!("{}:{}", document.name, block.line);
            match &block.mark {
                Mark::File(name) => machines.write(name, &block.text),
                Mark::Run(how) if two(block) => {
                    for command in block.commands(how, &place) {
                        eprintln!("{place}: {}$ {}", command.machine, command.text);
                        machines.run(&command);
                        ran += 1;
                    }
                }
                _ => {}
            }
        }
        machines.finish();
    }
    assert!(ran > 10, "only {ran} commands were run");
}

#[test]
fn every_link_leads_somewhere() {
    let documents = documents();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for document in &documents {
        for (line, target) in document.links() {
            if target.starts_with("https://") {
                continue;
            }
            seen += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let own = root().join(&document.name);
            let file = if path.is_empty() { own } else { own.parent().unwrap().join(path) };
            let there = file.canonicalize().ok().and_then(|file| {
                Some(file.strip_prefix(root()).ok()?.to_str().unwrap().to_owned())
            });
            let Some(there) = there else {
                wrong.push(format!("{}:{line}: {target}: no such file", document.name));
                continue;
            };
            let Some(other) = documents.iter().find(|one| one.name == there) else { continue };
            if !anchor.is_empty() && !other.anchors().iter().any(|one| one == anchor) {
                wrong.push(format!("{}:{line}: {target}: no such heading", document.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 50, "only {seen} links were found");
}

/// What is measured again by one command stands where that says, and is made by what there is.
#[test]
fn every_measurement_has_its_place_and_its_command() {
    let listed = Command::new(root().join("scripts/evidence")).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let documents = documents();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for row in listed.lines().skip(2) {
        let [name, places, _, _, command]: [&str; 5] = row
            .trim_matches('|')
            .split(" | ")
            .map(str::trim)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        seen += 1;
        for place in places.split(", ") {
            let (file, anchor) = place.split_once('#').unwrap_or((place, ""));
            let file = if file == "README.md" { file.to_owned() } else { format!("docs/{file}") };
            match documents.iter().find(|one| one.name == file) {
                Some(one) if anchor.is_empty() || one.anchors().iter().any(|a| a == anchor) => {}
                _ => wrong.push(format!("{name}: {place}: no such document or heading")),
            }
        }
        let words: Vec<&str> = command.trim_matches('`').split(' ').collect();
        for (at, word) in words.iter().enumerate() {
            let is_there = match word.strip_prefix("scripts/") {
                Some(_) => root().join(word).exists(),
                None if *word == "sweep" => {
                    root().join(format!("scenarios/sweeps/{}.toml", words[at + 1])).exists()
                }
                None => true,
            };
            if !is_there {
                wrong.push(format!("{name}: {command}: there is no {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 25, "only {seen} measurements were found");
}

#[test]
fn every_document_is_in_the_table_of_contents() {
    let documents = documents();
    let contents = documents.iter().find(|one| one.name == "docs/README.md").unwrap();
    let linked: Vec<String> = contents.links().into_iter().map(|(_, target)| target).collect();
    let mut seen = 0;
    for name in documents.iter().filter_map(|one| one.name.strip_prefix("docs/")) {
        seen += 1;
        let is_there = name == "README.md" || linked.iter().any(|one| one == name);
        assert!(is_there, "docs/README.md has no link to {name}");
    }
    assert!(seen > 10, "only {seen} documents were found");
}

/// Options of other programs that the documents name: cargo's, and those of VLC.
const FOREIGN: [&str; 8] = [
    "--clock-jitter",
    "--example",
    "--features",
    "--network-caching",
    "--prefetch-buffer-size",
    "--profile",
    "--target",
    "--test",
];

#[test]
fn what_the_text_names_exists() {
    std::env::set_current_dir(root()).unwrap();
    let mut options = Vec::new();
    collect_options(&weftline_cli::usage::command(), &mut options);
    let scripts = scripts();
    let (mut wrong, mut seen) = (Vec::new(), [0; 2]);
    for document in documents() {
        for (line, span) in document.code_spans() {
            let first = span.split([' ', '=']).next().unwrap_or_default();
            let place = format!("{}:{line}: {span}", document.name);
            if let Some(name) = first.strip_prefix("--").filter(|name| !name.is_empty()) {
                seen[0] += 1;
                let ours = options.iter().any(|one| one == name) || scripts.contains(first);
                if !ours && !FOREIGN.contains(&first) {
                    wrong.push(format!("{place}: no command has this option"));
                }
            } else if document.name != "docs/protocol.md" && !span.contains(['|', '[', '(']) {
                // (In the protocol, labels of derived keys begin with the program's name.)
                for words in shell::simple_commands(&span) {
                    // A mention need not be complete.
                    if words[0] == "weftline" && words.len() > 1 {
                        seen[1] += 1;
                        let used = check::weftline(&words[1..], true);
                        wrong.extend(used.err().map(|error| format!("{place}: {error}")));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.iter().all(|seen| *seen > 10), "only {seen:?} options and commands were found");
}

/// The text of all scripts, which have options of their own.
fn scripts() -> String {
    let files = fs::read_dir(root().join("scripts")).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

fn collect_options(command: &clap::Command, options: &mut Vec<String>) {
    let here = command.get_arguments().filter_map(clap::Arg::get_long_and_visible_aliases);
    options.extend(here.flatten().map(str::to_owned));
    for one in command.get_subcommands() {
        collect_options(one, options);
    }
}
