//! The program's description of itself: an example for each command, and the page of all commands.

use clap::{Arg, Command, CommandFactory as _};

use crate::Cli;
use crate::doctor::OWN_OPTIONS;

/// An example for the long help of each command. The tests hold them to the parser.
pub(crate) const EXAMPLES: [(&str, &str); 41] = [
    ("serve", "weftline serve --listen 0.0.0.0:4433 --forward 127.0.0.1:8080 --token-file token"),
    (
        "connect",
        "weftline connect --server server.example:4433 --fingerprint sha256:5ef17016… \\
      --token-file token --path wifi=wlan0 lte=wwan0,role=metered --listen 127.0.0.1:8080",
    ),
    ("up", "weftline up weftline:AQEEywBxBRFR…"),
    ("down", "weftline down"),
    ("portal", "weftline portal wlan0"),
    ("invite", "weftline invite phone"),
    ("status", "weftline status --watch"),
    (
        "doctor connect",
        "weftline doctor connect --server server.example:4433 --fingerprint sha256:5ef17016… \\
      --token-file token --path wifi=wlan0 lte=wwan0 --listen 127.0.0.1:8080",
    ),
    (
        "doctor serve",
        "weftline doctor serve --listen 0.0.0.0:4433 --forward 127.0.0.1:8080 --token-file token",
    ),
    ("doctor up", "weftline doctor up"),
    ("lab list", "weftline lab list"),
    (
        "lab run",
        "weftline lab run bond --scheme single:dsl,single:lte,linux-mptcp,earliest --congestion bbr",
    ),
    ("lab sweep", "weftline lab sweep mptcp-players --jobs 4"),
    ("lab shell", "weftline lab shell demo"),
    ("lab check", "weftline lab check"),
    ("sim list", "weftline sim list"),
    (
        "sim run",
        "weftline sim run bond --scheme linux-mptcp,earliest --repeat 5 --out results/bond",
    ),
    ("sim sweep", "weftline sim sweep random-wan --out results/wan"),
    ("sim merge", "weftline sim merge results/wan"),
    (
        "cotag gateway",
        "weftline cotag gateway --key gateway.key --listen 0.0.0.0:7100 \\
      --ap mmwave=public:2222… --ap sub6=public:3333… --device-key public:4444… \\
      --address 10.9.0.1/24",
    ),
    (
        "cotag ap",
        "weftline cotag ap --key ap1.key --gateway gateway.example:7100 \\
      --gateway-key public:1111… --listen 0.0.0.0:7200 --device-key public:4444… --rate auto",
    ),
    (
        "cotag device",
        "weftline cotag device --key device.key --gateway-key public:1111… --address 10.9.0.2/24 \\
      --ap mmwave=192.168.1.1:7200,key=public:2222…,via=wlan0 \\
      --ap sub6=192.168.2.1:7200,key=public:3333…,via=wwan0",
    ),
    ("cotag key", "weftline cotag key gateway.key"),
    ("probe serve", "weftline probe serve --token-file token"),
    ("probe run", "weftline probe run server.example --duration 60s --out ride.csv"),
    ("vr check", "weftline vr check plaza --gops 2 --viewers 3"),
    ("vr evaluate", "weftline vr evaluate plaza reef --out results/vr"),
    ("vr http", "weftline vr http ride --allow-origin https://player.example"),
    ("vr package", "weftline vr package ride.mp4 -o ride --grid 6x4 --qp 22,27,32,37,42"),
    (
        "vr play",
        "weftline vr play --server 192.0.2.1:7000 --fingerprint sha256:5ef17016… \\
      --path wifi=wlan0 lte=wwan0 --token-file token --log gops.csv",
    ),
    ("vr serve", "weftline vr serve ride --listen 0.0.0.0:7000 --token-file tokens"),
    ("vr synth", "weftline vr synth plaza -o plaza.y4m --duration 10s"),
    ("congestion load", "weftline congestion load lia olia"),
    ("congestion unload", "weftline congestion unload lia"),
    ("congestion list", "weftline congestion list"),
    ("report", "weftline report results/bond"),
    ("replay", "weftline replay events/1763793000123-connect-4711-0.sqlog --pace 10"),
    ("list", "weftline list schedulers"),
    ("generate commands", "weftline generate commands > commands.md"),
    ("generate man", "weftline generate man ~/.local/share/man/man1"),
    ("generate completions", "weftline generate completions bash"),
];

/// What options of `connect` and `serve` are about, as headings in their help; those that are not here
/// stand first.
const HEADINGS: [(&str, &[&str]); 4] = [
    (
        "Scheduling",
        &[
            "scheduler",
            "congestion",
            "window",
            "latency",
            "without",
            "forward_path",
            "allow_congestion",
        ],
    ),
    (
        "Security",
        &[
            "fingerprint",
            "ca",
            "server_name",
            "cert",
            "key",
            "token_file",
            "insecure_plaintext",
            "socks_users",
            "client_ca",
            "state_dir",
            "allow",
            "public",
        ],
    ),
    (
        "Limits",
        &["ready", "max_memory", "max_total_memory", "max_connections", "grace", "idle_timeout"],
    ),
    (
        "Operations",
        &[
            "drain",
            "control",
            "metrics",
            "dashboard",
            "behind_proxy",
            "qlog",
            "log_format",
            "log_level",
            "config",
        ],
    ),
];

/// The program's commands and options, each command with its example.
pub(crate) fn program() -> Command {
    let program = Cli::command().mut_subcommand("doctor", |doctor| {
        ["connect", "serve", "up"].into_iter().fold(doctor, |doctor, daemon| {
            doctor.mut_subcommand(daemon, |command| {
                // They stand with the daemon whose they are.
                command.mut_args(|arg| match OWN_OPTIONS.contains(&arg.get_id().as_str()) {
                    true => arg,
                    false => arg.hide(true),
                })
            })
        })
    });
    with_examples(program, "")
}

fn under_heading(arg: Arg) -> Arg {
    let id = arg.get_id().as_str();
    let heading = HEADINGS.iter().find(|(_, ids)| ids.contains(&id));
    match heading {
        Some((heading, _)) => arg.help_heading(*heading),
        None => arg,
    }
}

/// `command`, which is called by the words of `path`, and those below it.
fn with_examples(mut command: Command, path: &str) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for name in names {
        let path = format!("{path} {name}").trim_start().to_owned();
        command = command.mut_subcommand(&name, |one| with_examples(one, &path));
    }
    if ["connect", "serve"].contains(&path) {
        command = command.mut_args(under_heading);
    }
    // A wrong number is a wrong number, not an option that is not known.
    command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    match EXAMPLES.iter().find(|(of, _)| *of == path) {
        Some((_, example)) => command.after_long_help(format!("Example:\n  {example}")),
        None => command,
    }
}

/// What `--help` says of each command, as a page of Markdown.
pub(crate) fn page() -> String {
    let mut page =
        "# Commands\n\nWhat `--help` says of each command. `weftline generate commands` \
                    makes this page.\n"
            .to_owned();
    let mut program = program();
    program.build();
    add(&mut page, &program);
    page
}

fn add(page: &mut String, command: &Command) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let text = command.clone().term_width(WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    *page += &format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for below in command.get_subcommands() {
        add(page, below);
    }
}

/// Columns of a line on the page.
const WIDTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_under_a_heading_is_one_and_stands_once() {
        let program = Cli::command();
        let of = |daemon: &str| {
            let command = program.find_subcommand(daemon).expect("a command");
            command.get_arguments().map(|arg| arg.get_id().to_string()).collect::<Vec<_>>()
        };
        let known = [of("connect"), of("serve")].concat();
        let mut ids: Vec<&str> = HEADINGS.iter().flat_map(|(_, ids)| *ids).copied().collect();
        for id in &ids {
            assert!(known.iter().any(|one| one == id), "{id} is no option");
        }
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "one stands twice");
    }
}
