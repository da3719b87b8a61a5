//! What the program says of itself, and the pages that are made of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::common::{Daemon, run};
use crate::markdown::{documents, root};
use crate::{check, shell};

/// The most lines of the top-level help, and of any other command's short help.
const TOP: usize = 25;
const SHORT: usize = 30;

/// The words of each command after `weftline`, and whether others are below it.
fn commands(command: &clap::Command, words: &[String], found: &mut Vec<(Vec<String>, bool)>) {
    for below in command.get_subcommands() {
        if below.is_hide_set() || below.get_name() == "help" {
            continue;
        }
        let words = [words, &[below.get_name().to_owned()]].concat();
        found.push((words.clone(), below.has_subcommands()));
        commands(below, &words, found);
    }
}

fn help(words: &[String], option: &str) -> String {
    let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
    args.push(option);
    let output = run(&args);
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_is_short_and_long_help_has_an_example() {
    let top = help(&[], "--help");
    assert!(top.lines().count() <= TOP, "{top}");
    let mut all = Vec::new();
    commands(&weftline_cli::usage::command(), &[], &mut all);
    for (words, has_others) in all {
        let short = help(&words, "-h");
        let lines = short.lines().count();
        assert!(lines <= SHORT, "{}: {lines} lines; hide rare options\n{short}", words.join(" "));
        let long = help(&words, "--help");
        assert!(has_others || long.contains("\nExample:\n  weftline "), "{long}");
    }
}

#[test]
fn the_examples_are_right() {
    for (name, example) in weftline_cli::usage::examples() {
        let commands = shell::simple_commands(example);
        assert_eq!(commands.len(), 1, "{example}");
        assert!(commands[0].join(" ").starts_with(&format!("weftline {name}")), "{example}");
        assert_eq!(check::check(&commands[0]), Ok(true), "{example}");
    }
}

#[test]
fn the_page_of_commands_is_current() {
    let made = String::from_utf8(run(&["generate", "commands"]).stdout).unwrap();
    let kept = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let differs = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
    assert!(
        made == kept,
        "docs/commands.md is old ({differs:?}); weftline generate commands > docs/commands.md"
    );
}

/// `weftline_path_{sent,received}_bytes_total{path}` as the two names it stands for.
fn names(span: &str) -> Vec<String> {
    let Some((before, rest)) = span.split_once('{') else { return vec![span.to_owned()] };
    let (inside, after) = rest.split_once('}').unwrap();
    if after.is_empty() {
        // Labels.
        return vec![before.to_owned()];
    }
    let ending = after.split('{').next().unwrap();
    inside.split(',').map(|one| format!("{before}{one}{ending}")).collect()
}

#[test]
fn every_metric_is_documented_and_none_besides() {
    let mut server = Daemon::start(
        &[
            &["serve", "--insecure-plaintext", "--listen", "127.0.0.1:0", "--control", "none"][..],
            &["--forward", "127.0.0.1:1", "--metrics", "127.0.0.1:0"],
        ]
        .concat(),
    );
    server.listening();
    let mut scraper = TcpStream::connect(server.says("metrics on")).unwrap();
    scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut page = String::new();
    scraper.read_to_string(&mut page).unwrap();
    let mut offered = BTreeSet::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        offered.insert(format!("{name}{}", if kind == "counter" { "_total" } else { "" }));
    }
    assert!(offered.len() > 20, "{page}");

    let all = documents();
    let service = all.iter().find(|document| document.name == "docs/service.md").unwrap();
    let heading = |name| service.prose.iter().position(|(_, text)| text == name).unwrap();
    let section = heading("## Metrics")..heading("## Event files");
    let lines = service.prose[section].iter().filter(|(_, text)| text.starts_with("| `weftline_"));
    let cells = lines.filter_map(|(_, text)| text.split('|').nth(1));
    let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let documented: BTreeSet<String> = spans.flat_map(names).collect();
    let missing: Vec<_> = offered.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&offered).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not documented: {missing:?}; gone: {gone:?}");
}

/// What the kernel, systemd and the resolver say, not we.
const OF_THE_SYSTEM: [&str; 8] = [
    "Address already in use",
    "Connection refused",
    "Failed to parse service type",
    "No route to host",
    "No space left on device",
    "Permission denied",
    "Too many open files",
    "Watchdog timeout",
];

/// The messages in the first column of the tables of troubleshooting are those of the program, as far
/// as they are the same every time.
#[test]
fn the_messages_of_troubleshooting_are_the_programs() {
    let mut source = String::new();
    for krate in fs::read_dir(root().join("crates")).unwrap() {
        collect(&krate.unwrap().path().join("src"), &mut source);
    }
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
    let all = documents();
    let page = all.iter().find(|one| one.name == "docs/troubleshooting.md").unwrap();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let mut messages = false;
    for (line, text) in page.prose.iter().filter(|(_, text)| text.starts_with("| ")) {
        // A table says in its head what its first column is.
        messages = (messages || text.starts_with("| message") || text.starts_with("| seen"))
            && !text.starts_with("| to run");
        if !messages {
            continue;
        }
        let cell = text.split('|').nth(1).unwrap();
        for message in cell.split('`').skip(1).step_by(2) {
            let apart = ['…', '\'', '(', ')', ':', ';', '.', ','];
            let parts = message.split(|c: char| apart.contains(&c) || c.is_ascii_digit());
            for part in parts.map(str::trim).filter(|part| part.split(' ').count() >= 3) {
                seen += 1;
                if !source.contains(part) && !OF_THE_SYSTEM.contains(&part) {
                    wrong.push(format!("docs/troubleshooting.md:{line}: '{part}'"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "the program says nothing like this:\n{}", wrong.join("\n"));
    assert!(seen > 30, "only {seen} messages were found");
}

/// The text of all Rust files below.
fn collect(directory: &std::path::Path, text: &mut String) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            // A backslash at the end of a line takes its break and the next line's indent away.
            text.push_str(&fs::read_to_string(path).unwrap().replace("\\\n", "\n"));
            text.push('\n');
        }
    }
}
