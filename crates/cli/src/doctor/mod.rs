//! `weftline doctor`: whether a client or a server that is set up so can work on this machine, and
//! what to do where it cannot.
//!
//! `client.rs`, `server.rs` and `whole.rs` look, the last by `lanes.rs`, too, each with what several have: `machine.rs`,
//! `directory.rs`, `admin_endpoints.rs` and `ports.rs`. `verdict.rs` and `firewall.rs` judge what was seen.

mod admin_endpoints;
mod client;
mod directory;
mod finding;
mod firewall;
mod lanes;
mod machine;
mod ports;
mod server;
mod verdict;
mod whole;

use clap::{Args, Subcommand};

use crate::connect::ConnectArgs;
use crate::daemon::runtime;
use crate::failure::Failure;
use crate::output;
use crate::serve::ServeArgs;
use crate::up::UpArgs;
use finding::{Check, Finding, Findings, Level};

/// Whom to look at.
#[derive(Debug, Subcommand)]
pub(crate) enum DoctorCommand {
    /// Check a client, with the options of `weftline connect`
    Connect(Box<Client>),
    /// Check a server, with the options of `weftline serve`
    Serve(Box<Server>),
    /// Check a machine, with the options of `weftline up`
    Up(Box<Machine>),
}

/// Options of `doctor connect`.
#[derive(Debug, Args)]
pub(crate) struct Client {
    /// One JSON object on standard output and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Options of `doctor serve`.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// One JSON object on standard output and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Options of `doctor up`.
#[derive(Debug, Args)]
pub(crate) struct Machine {
    /// One JSON object on standard output and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    up: UpArgs,
}

/// The options that are the doctor's own; all others have their description elsewhere.
pub(crate) const OWN_OPTIONS: [&str; 2] = ["json", "config"];

/// Looks, and shows what was found. Fails if anything is wrong.
pub(crate) fn run(command: DoctorCommand) -> Result<(), Failure> {
    // What others warn of is among the findings.
    output::be_quiet();
    let runtime = runtime()?;
    let (of, json, findings) = match command {
        DoctorCommand::Connect(args) => {
            let look = |parts| runtime.block_on(client::examine(parts));
            ("connect", args.json, args.connect.parts().map(look))
        }
        DoctorCommand::Serve(args) => {
            let look = |parts| runtime.block_on(server::examine(parts));
            ("serve", args.json, args.serve.parts().map(look))
        }
        DoctorCommand::Up(args) => {
            let look = |parts| runtime.block_on(whole::examine(parts));
            ("up", args.json, args.up.parts().map(look))
        }
    };
    crate::daemon::end(runtime);
    let findings = findings.inspect_err(|failure| {
        // For programs that read it; people are told in a line.
        if json {
            let remedy = "correct that option, or its line in the file";
            let mut findings = Findings::default();
            findings.add(Finding::error(Check::Configuration, "options", failure, remedy));
            let _ = output::print(&findings.json(of));
        }
    })?;
    let color = output::has_color(&std::io::stdout());
    output::print(&if json { findings.json(of) } else { findings.text(color) })?;
    match findings.count(Level::Error) {
        0 => Ok(()),
        1 => Err(Failure::failed("1 thing is wrong; do what stands below it, then ask again")),
        n => Err(Failure::failed(format!(
            "{n} things are wrong; do what stands below the first, then ask again"
        ))),
    }
}
