//! Every error ends with what to do next: what a user may get wrong, and what the machine may lack.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::weftline;

/// A line for each command that fails. `DIR` is a directory, `FILE` a file of one line in it.
const COMMANDS: &str = "\
serve
serve --listen 24433 --forward 127.0.0.1:1
serve --listen 127.0.0.1:0 --forward 127.0.0.1
serve --listen 127.0.0.1:0 --socks
serve --listen 203.0.113.1:4433 --forward 127.0.0.1:80
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --token-file DIR/none
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --token-file DIR
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --max-total-memory lots
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --drain 5
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --insecure-plaintext --log-level loud
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --insecure-plaintext --metrics 80
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --insecure-plaintext --qlog FILE/logs
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --insecure-plaintext --control DIR/none/socket
serve --listen 127.0.0.1:0 --forward 127.0.0.1:80 --state-dir FILE
serve --config DIR/none.toml
serve --config FILE
connect
connect --server example.org --path a=lo --listen 127.0.0.1:0 --insecure-plaintext
connect --server http://example.org --path a=lo --listen 127.0.0.1:0 --insecure-plaintext
connect --server 127.0.0.1:1 --path a=lo --listen 127.0.0.1:0
connect --server 127.0.0.1:1 --path a=lo --listen 127.0.0.1:0 --fingerprint sha256:00
connect --server 127.0.0.1:1 --path a=nosuch0 --listen 127.0.0.1:0 --insecure-plaintext
connect --server 127.0.0.1:1 --path a=127.0.0.1 a=127.0.0.2 --listen 127.0.0.1:0 --insecure-plaintext
connect --server 127.0.0.1:1 --path a=127.0.0.1 --insecure-plaintext --listen 127.0.0.1:0 --socks-users FILE
connect --server 127.0.0.1:1 --path a=127.0.0.1 --insecure-plaintext --listen 203.0.113.7:8081
connect --server 127.0.0.1:1 --path a=127.0.0.1 --insecure-plaintext --listen 127.0.0.1:0 --scheduler warp
connect --server 127.0.0.1:1 --path a=127.0.0.1 --insecure-plaintext --listen 127.0.0.1:0 --congestion warp
connect --server 127.0.0.1:1 --path a=127.0.0.1 --insecure-plaintext --listen 127.0.0.1:0 --token-file DIR/none
status --control DIR/none
status --control FILE
doctor serve
sim run
sim run nothing
sim run FILE
sim run bond --scheme warp
sim run bond --congestion warp
sim run bond --duration 5
sim run bond --duration 1ms
sim run bond --workload juggle
sim run bond --duration 200ms --warmup 0s --out FILE/results
sim sweep nothing
lab run nothing
report
report DIR
report DIR/none
probe run
probe serve --listen 1
cotag gateway
cotag key DIR/none/key
cotag ap --listen 1
vr serve
vr play
vr synth nothing --out DIR/scene
vr synth plaza --duration 0s --out DIR/scene
vr package DIR/none.y4m --out DIR/package
vr evaluate DIR
vr check DIR
congestion load nothing
generate man FILE
list nothing
serv
serve --lsten 1
";

/// How a line shows what to do: a clause of its own, the values there are, or the option.
fn says_what_to_do(line: &str) -> bool {
    let clause = line.rsplit_once("; ").map_or("", |(_, clause)| clause);
    let choice = [
        "(there are: ",
        "(known: ",
        "(this kernel has: ",
        "(see --help)",
        "known: ",
        "expected one of ",
    ];
    clause.split(' ').count() > 1
        || choice.iter().any(|words| line.contains(words))
        || [": give ", ": write "].iter().any(|words| line.contains(words))
}

#[test]
fn every_error_ends_with_what_to_do_next() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "speed = 1\n").unwrap();
    let mut silent = Vec::new();
    for text in COMMANDS.lines() {
        let text = text
            .replace("FILE", file.to_str().unwrap())
            .replace("DIR", dir.path().to_str().unwrap());
        let args: Vec<&str> = text.split(' ').collect();
        let output = weftline(&args).output().unwrap();
        assert!(!output.status.success(), "{text}");
        let error = String::from_utf8(output.stderr).unwrap();
        let line = error.lines().last().unwrap_or_default();
        if !says_what_to_do(line) {
            silent.push(format!("{text}\n    {line}"));
        }
    }
    assert!(silent.is_empty(), "these say no more than what is wrong:\n{}", silent.join("\n"));
}
