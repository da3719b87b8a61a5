//! `--quiet` and `--color`, with any command.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Daemon, failure, run};

const SERVE: [&str; 8] = [
    "serve",
    "--insecure-plaintext",
    "--listen",
    "127.0.0.1:0",
    "--forward",
    "127.0.0.1:1",
    "--control",
    "none",
];

/// What a server says on standard error from start to end.
fn logged(args: &[&str]) -> Vec<String> {
    let mut server = Daemon::start(&[&SERVE[..], args].concat());
    server.listening();
    server.signal("-TERM");
    server.all_it_logged()
}

#[test]
fn quiet_leaves_nothing_but_errors() {
    let all = logged(&[]);
    assert!(all.iter().any(|line| line.contains("warning: --insecure-plaintext")), "{all:?}");
    assert!(all.iter().any(|line| line.contains("stopped")), "{all:?}");
    for quiet in ["--quiet", "-q"] {
        assert_eq!(logged(&[quiet]), [""; 0], "{quiet}");
    }
    // Who asks for a level gets it.
    let wanted = logged(&["--quiet", "--log-level", "info"]);
    assert!(wanted.iter().any(|line| line.contains("stopped")), "{wanted:?}");
    // Before the command, too; and why something failed is no chatter.
    let line = failure(2, &["--quiet", "connect", "--listen", "127.0.0.1:0"]);
    assert!(line.contains("give --server ADDR"), "{line}");
}

#[test]
fn colours_are_as_they_are_wanted() {
    let is_coloured = |lines: Vec<String>| lines.iter().any(|line| line.contains('\x1b'));
    assert!(is_coloured(logged(&["--color", "always"])));
    for args in [&[][..], &["--color", "never"], &["--color=auto"]] {
        assert!(!is_coloured(logged(args)), "{args:?}: standard error is no terminal here");
    }
    let help = |args: &[&str]| String::from_utf8(run(args).stdout).unwrap();
    assert!(help(&["--color", "always", "serve", "-h"]).contains('\x1b'));
    assert!(help(&["serve", "-h", "--color=always"]).contains('\x1b'));
    assert!(!help(&["--color", "never", "serve", "-h"]).contains('\x1b'));
    let line = failure(2, &["list", "schedulers", "--color", "sometimes"]);
    assert!(line.contains("possible values: auto, always, never"), "{line}");
}
