//! `weftline lab`: experiments over emulated links.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weftline_lab::LabOptions;
use weftline_lab::emulator::Cut;
use weftline_scenario::{Scenario, Scheme};

use crate::failure::Failure;
use crate::serve::parse_duration;
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
    /// A built-in scenario or a TOML file
    scenario: String,
    /// What to compare, see `weftline list schemes` [default: each path alone, the kernel's
    /// MPTCP, and fbdt]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scheme: Vec<String>,
    /// The congestion control of every connection
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// What is sent, instead of the scenario's workload: bulk, cbr:20Mbps, transfer:1MiB, …
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// How long, instead of the scenario's duration
    #[arg(long, value_name = "DURATION")]
    duration: Option<String>,
    /// How much of that is left out of the goodput, instead of the scenario's
    #[arg(long, value_name = "DURATION")]
    warmup: Option<String>,
    /// Encrypt weftline's connections
    #[arg(long)]
    tls: bool,
    /// Seed of the links' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How often each scheme runs, each time with the next seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u64,
    /// Make a path go dead for a while, such as wigig@5s..8s, or for good: wigig@5s..
    #[arg(long, value_name = "PATH@FROM..UNTIL")]
    cut: Vec<String>,
    /// Where to write results: runs.jsonl, series.csv and the scenario
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// One JSON object per run on standard output and nothing else
    #[arg(long)]
    json: bool,
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
        let mut scenario = Scenario::find(&self.scenario)?;
        if let Some(text) = &self.workload {
            scenario.workload = text.parse().map_err(Failure::wrong_use)?;
        }
        if let Some(text) = &self.duration {
            scenario.duration = parse_duration("--duration", text)?;
        }
        if let Some(text) = &self.warmup {
            scenario.warmup = parse_duration("--warmup", text)?;
        }
        if scenario.warmup >= scenario.duration {
            let (warmup, duration) = (scenario.warmup, scenario.duration);
            return Err(Failure::wrong_use(format!(
                "the warm-up of {warmup:?} is not shorter than the duration of {duration:?}; \
                 give --warmup or a longer --duration"
            )));
        }
        if self.repeat == 0 {
            return Err(Failure::wrong_use("--repeat: at least 1"));
        }
        let schemes = self.schemes(&scenario)?;
        let cuts: Result<Vec<Cut>, _> = self.cut.iter().map(|cut| cut.parse()).collect();
        Ok(LabOptions {
            congestion: self.congestion.parse()?,
            tls: self.tls,
            seed: self.seed,
            repeat: self.repeat,
            cuts: cuts.map_err(Failure::wrong_use)?,
            out: self.out.clone(),
            json: self.json,
            ..LabOptions::new(scenario, schemes)?
        })
    }

    fn schemes(&self, scenario: &Scenario) -> Result<Vec<Scheme>, Failure> {
        if self.scheme.is_empty() {
            let alone = scenario.paths.iter().map(|path| Scheme::Single(path.name.clone()));
            return Ok(alone.chain([Scheme::LinuxMptcp, Scheme::FBDT]).collect());
        }
        let schemes: Result<Vec<Scheme>, _> = self.scheme.iter().map(|s| s.parse()).collect();
        Ok(schemes?)
    }
}
