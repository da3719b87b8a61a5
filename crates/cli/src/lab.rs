//! `weftline lab`: experiments over emulated links.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weftline_lab::LabOptions;
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
            let message = "the warm-up must be shorter than the duration; see --warmup";
            return Err(Failure::wrong_use(message));
        }
        if self.repeat == 0 {
            return Err(Failure::wrong_use("--repeat: at least 1"));
        }
        let schemes = self.schemes(&scenario)?;
        Ok(LabOptions {
            congestion: self.congestion.parse()?,
            tls: self.tls,
            seed: self.seed,
            repeat: self.repeat,
            out: self.out.clone(),
            json: self.json,
            ..LabOptions::new(scenario, schemes)?
        })
    }

    fn schemes(&self, scenario: &Scenario) -> Result<Vec<Scheme>, Failure> {
        if self.scheme.is_empty() {
            let alone = scenario.paths.iter().map(|path| Scheme::Single(path.name.clone()));
            return Ok(alone.chain([Scheme::LinuxMptcp, Scheme::Fbdt]).collect());
        }
        let schemes: Result<Vec<Scheme>, _> = self.scheme.iter().map(|s| s.parse()).collect();
        Ok(schemes?)
    }
}
