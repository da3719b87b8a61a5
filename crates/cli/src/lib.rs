//! The `weftline` program. A library, so that a program with schedulers or congestion controls of its
//! own is one that registers them and calls [`run`] (`examples/own.rs`), and that the fuzz targets can
//! link to what reads configuration files.

mod certificates;
mod config;
mod congestion;
mod connect;
mod cotag;
mod daemon;
mod doctor;
mod failure;
#[doc(hidden)]
pub mod fuzz;
mod generate;
mod help;
mod instance;
mod internet;
mod invite;
mod journal;
mod lab;
mod lifeline;
mod list;
mod listeners;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
mod names;
mod ops;
mod output;
mod paths;
mod probe;
mod ray;
mod remedy;
mod report;
mod rights;
mod routes;
mod run_args;
mod secrets;
mod serve;
mod signals;
mod sim;
mod status;
mod trust;
mod up;
#[doc(hidden)]
pub mod usage;
mod vr;
mod watch;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{FromArgMatches as _, Parser, Subcommand};

use failure::Failure;

/// Bonds several network links into one encrypted connection, and compares multipath schemes
#[derive(Debug, Parser)]
#[command(name = "weftline", version = VERSION)]
#[command(
    help_template = "{about}\n\n{usage-heading} {usage}, one of:\n{subcommands}{after-help}",
    after_help = "Every command takes --help, --quiet (errors only), --color auto|always|never; -V: version."
)]
struct Cli {
    #[command(flatten)]
    screen: output::ScreenArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Accept multipath connections and forward each to a TCP address
    Serve(Box<serve::ServeArgs>),
    /// Take local TCP connections and carry them to a server over several paths
    Connect(Box<connect::ConnectArgs>),
    /// Carry the traffic of this machine to a server over all its links (needs root)
    Up(up::UpArgs),
    /// Undo `up`: connections use the machine's own routes again (needs root)
    Down,
    /// Open a link to a browser for five minutes, as for a login to a network (needs root)
    Portal(up::PortalArgs),
    /// Invite a machine to a server with --internet, show its invite again, or revoke it
    Invite(internet::InviteArgs),
    /// Show what a running daemon does: its connections, and each one's paths
    Status(status::StatusArgs),
    /// Check a client or a server that does not work, and say what to do
    #[command(subcommand)]
    Doctor(doctor::DoctorCommand),
    /// Run schemes and programs over emulated links on the real kernel (most need root)
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Run schemes in the simulator, one run or thousands
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Run a node of a tunnel that is network-coded over several access points
    #[command(subcommand)]
    Cotag(cotag::CotagCommand),
    /// Measure what a path carries, by trains of packets
    #[command(subcommand)]
    Probe(probe::ProbeCommand),
    /// 360° video: scenes, packages of encoded tiles, live streams, evaluations
    #[command(subcommand)]
    Vr(vr::VrCommand),
    /// Congestion controls for Linux TCP and MPTCP, loaded into the kernel (needs root)
    #[command(subcommand)]
    Congestion(congestion::CongestionCommand),
    /// Draw the results in a directory as one HTML file
    Report(report::ReportArgs),
    /// Show a connection again in a browser, from the file that --qlog wrote
    Replay(watch::replay::ReplayArgs),
    /// List what can be named on the command line
    List {
        /// What to list
        what: list::What,
    },
    /// Make manual pages, shell completions and the page of commands
    #[command(subcommand)]
    Generate(generate::GenerateCommand),
    /// One end of a lab run, started by the lab
    #[command(name = weftline_lab::ENDPOINT_COMMAND, hide = true)]
    LabEndpoint {
        /// What to do, as JSON
        args: String,
    },
    /// The first process of a guest of the lab, started by its kernel
    #[command(name = weftline_lab::GUEST_COMMAND, hide = true)]
    LabGuest,
    /// What restores the network after `up` or `serve`, started by it
    #[command(name = lifeline::COMMAND, hide = true)]
    UpJanitor {
        /// The journal of changed sysctls
        journal: std::path::PathBuf,
        /// Restore those and nothing else
        #[arg(long)]
        sysctls: bool,
    },
}

/// The version with the commit that the program is built from, as records have it.
const VERSION: &str = env!("WEFTLINE_VERSION");

/// Does what the process's arguments say. Returns its exit status: 0 done, 1 failed, 2 wrong use,
/// 3 not possible here, 4 done with runs that do not count.
pub fn run() -> ExitCode {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    names::resolve_without_plugins();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = help::program().color(output::color_among(words));
    let parsed = program.try_get_matches();
    let command = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => {
            output::set(cli.screen);
            cli.command
        }
        Err(error) => return usage(&error),
    };
    match obey(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::fail(&failure);
            ExitCode::from(failure.status())
        }
    }
}

fn obey(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(*args),
        Command::Connect(args) => connect::run(*args),
        Command::Up(args) => up::run(&args),
        Command::Down => up::down(),
        Command::Portal(args) => up::portal(&args),
        Command::Invite(args) => internet::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Doctor(command) => doctor::run(command),
        Command::Lab(command) => lab::run(command),
        Command::Sim(command) => sim::run(command),
        Command::Cotag(command) => cotag::run(command),
        Command::Probe(command) => probe::run(command),
        Command::Vr(command) => vr::run(command),
        Command::Congestion(command) => congestion::run(command),
        Command::Report(args) => report::run(&args),
        Command::Replay(args) => watch::replay::run(&args),
        Command::List { what } => list::run(what),
        Command::Generate(what) => generate::run(what, help::program()),
        Command::LabEndpoint { args } => lab::endpoint(&args),
        Command::LabGuest => Ok(weftline_lab::run_guest()?),
        Command::UpJanitor { journal, sysctls } => {
            use lifeline::Left;
            lifeline::run(&journal, if sysctls { Left::Sysctls } else { Left::RulesAndSysctls })
        }
    }
}

/// Help and version are answers; anything else is wrong use, told in one line.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is no failure of ours.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            let failure = Failure::wrong_use(in_a_line(&error.render().to_string()));
            output::fail(format_args!("{failure} (see --help)"));
            ExitCode::from(failure.status())
        }
    }
}

/// What the standard library says of numbers, and what users understand.
const NUMBERS: [(&str, &str); 5] = [
    ("number would be zero for non-zero type", "give 1 or more"),
    ("invalid digit found in string", "give a whole number without a sign"),
    ("invalid float literal", "give a number"),
    ("cannot parse integer from empty string", "give a whole number"),
    ("number too large to fit in target type", "give a smaller number"),
];

/// The parser's message with its tips, without the usage between them.
fn in_a_line(text: &str) -> String {
    // The message ends at the first empty line; then come tips and usage.
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut line = message.trim_start_matches("error: ").to_owned();
    if line.contains("invalid socket address syntax") {
        line += "; an address has a port, such as 127.0.0.1:8080, or 0.0.0.0:8080 for all of this \
                 machine";
    }
    // The value itself may be any text.
    if let Some((value, reason)) = line.rsplit_once("': ")
        && let Some((_, ours)) = NUMBERS.iter().find(|(parsers, _)| *parsers == reason)
    {
        line = format!("{value}': {ours}");
    }
    for tip in rest.lines().filter_map(|tip| tip.trim().strip_prefix("tip: ")) {
        line = line + "; " + tip;
    }
    line
}
