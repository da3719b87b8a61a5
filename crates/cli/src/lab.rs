//! `weftline lab`: experiments over emulated links.

use clap::{Args, Subcommand};
use weftline_lab::LabOptions;
use weftline_lab::emulator::Cut;
use weftline_scenario::Scenario;

use crate::failure::Failure;
use crate::run_args::CommonArgs;
use crate::{list, output};

/// What the lab can do.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the built-in scenarios
    List,
    /// Run schemes over a scenario and compare them
    Run(Box<RunArgs>),
    /// Open a shell beside the client, the scenario's links up until it ends
    Shell(ShellArgs),
    /// Say what this machine can do
    Check,
}

/// Options of `lab shell`.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// A built-in scenario or a TOML file
    scenario: String,
    /// The congestion control of connections made in the shell
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Seed of the links' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Options of `lab run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Encrypt weftline's connections
    #[arg(long)]
    tls: bool,
    /// Leave a stalled path to the kernel's timers instead of connecting anew over it: as sessions
    /// in the simulator do
    #[arg(long)]
    keep_stalled: bool,
    /// Make a path go dead for a while, such as wigig@5s..8s, or for good: wigig@5s..
    #[arg(long, value_name = "PATH@FROM..UNTIL")]
    cut: Vec<String>,
}

/// Does what was asked of the lab.
pub(crate) fn run(command: LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::Check => Ok(weftline_lab::check()?),
        LabCommand::Shell(args) => {
            let scenario = Scenario::find(&args.scenario)?;
            Ok(weftline_lab::shell(&scenario, args.congestion.parse()?, args.seed)?)
        }
        LabCommand::List => output::print(&list::scenarios()?),
        LabCommand::Run(args) => {
            let runs = weftline_lab::run_many(&args.options()?)?;
            match runs.iter().filter(|run| !run.completed).count() {
                0 => Ok(()),
                failed => Err(Failure::failed(format!("{failed} of {} runs failed", runs.len()))),
            }
        }
    }
}

/// Runs one end of a lab connection.
pub(crate) fn endpoint(args: &str) -> Result<(), Failure> {
    Ok(weftline_lab::run_endpoint(weftline_lab::parse_endpoint_args(args)?)?)
}

impl RunArgs {
    fn options(&self) -> Result<LabOptions, Failure> {
        let common = &self.common;
        let scenario = common.scenario()?;
        let schemes = common.schemes(&scenario)?;
        let cuts: Result<Vec<Cut>, _> = self.cut.iter().map(|cut| cut.parse()).collect();
        Ok(LabOptions {
            congestion: common.congestion()?,
            tls: self.tls,
            keep_stalled: self.keep_stalled,
            seed: common.seed,
            repeat: common.repeat,
            cuts: cuts.map_err(Failure::wrong_use)?,
            out: common.out.clone(),
            json: common.json,
            ..LabOptions::new(scenario, schemes)?
        })
    }
}
