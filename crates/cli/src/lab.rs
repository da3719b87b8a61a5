//! `weftline lab`: experiments over emulated links.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use weftline_lab::emulator::Cut;
use weftline_lab::{LabOptions, SweepOptions};
use weftline_scenario::{RunRecord, Scenario, Sweep};

use crate::failure::Failure;
use crate::run_args::CommonArgs;
use crate::watch::Watch;
use crate::watch::lab::LabRuns;
use crate::watch::pace::Pace;
use crate::{VERSION, list, output};

/// What the lab can do.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the built-in scenarios that the lab can set up
    List,
    /// Run schemes over a scenario and compare them
    Run(Box<RunArgs>),
    /// Do every run of a sweep file; goes on where an interrupted one stopped
    Sweep(SweepArgs),
    /// Open a shell beside the client, the scenario's links up until it ends; its exit status is
    /// the command's
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

/// Options of `lab sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// A built-in sweep or a TOML file
    sweep: String,
    /// Where to write results [default: results/lab-NAME]; runs found there are not done again, but
    /// for those that failed or are invalid
    #[arg(short, long, value_name = "DIR", alias = "output")]
    out: Option<PathBuf>,
    /// How many runs at once: more than the machine has room for makes emulators late, and such
    /// runs are done again
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// One JSON object per run on standard output and nothing else
    #[arg(long)]
    json: bool,
}

/// Options of `lab run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Encrypt weftline's connections
    #[arg(long)]
    tls: bool,
    /// Make a path go dead for a while, such as wigig@5s..8s, or for good: wigig@5s..
    #[arg(long, value_name = "PATH@FROM..UNTIL")]
    cut: Vec<String>,
    /// Show the runs in a browser; prints the address. Players, other programs and schemes in a guest
    /// show only that they run
    #[arg(long, value_name = "ADDR")]
    watch: Option<SocketAddr>,
}

/// Does what was asked of the lab.
pub(crate) fn run(command: LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::Check => Ok(weftline_lab::check()?),
        LabCommand::Shell(args) => {
            let scenario = Scenario::find(&args.scenario)?;
            match weftline_lab::shell(&scenario, args.congestion.parse()?, args.seed)? {
                0 => Ok(()),
                // A script that is fed to it can fail, and whoever has started it is to see that.
                n => Err(Failure::with_status(format!("the shell's exit status is {n}"), n)),
            }
        }
        LabCommand::Sweep(args) => run_sweep(&args),
        LabCommand::List => output::print(&list::scenarios(can_run)?),
        LabCommand::Run(args) => run_schemes(&args),
    }
}

fn run_schemes(args: &RunArgs) -> Result<(), Failure> {
    let options = args.options()?;
    let Some(address) = args.watch else {
        return tell_failed(&weftline_lab::run_many(&options)?);
    };
    let watch = Watch::open(address, "lab run", Pace::Times(1.0), args.common.json)?;
    let observer = Arc::new(LabRuns::new(watch.show()));
    let runs = weftline_lab::run_many(&LabOptions { observer: Some(observer), ..options })?;
    watch.linger()?;
    tell_failed(&runs)
}

/// Whether the lab can set a scenario up.
fn can_run(scenario: &Scenario) -> bool {
    weftline_lab::check_scenario(scenario).is_ok()
}

/// Says how many runs failed, or else how many do not count.
fn tell_failed(runs: &[RunRecord]) -> Result<(), Failure> {
    let count = |is: fn(&RunRecord) -> bool| runs.iter().filter(|run| is(run)).count();
    let (failed, invalid) = (count(RunRecord::has_failed), count(|run| !run.is_valid()));
    match (failed, invalid) {
        (0, 0) => Ok(()),
        (0, _) => {
            // A guest has a clock of its own.
            let is_here = |run: &RunRecord| !run.is_valid() && run.guest_kernel.is_none();
            let remedy = match runs.iter().any(is_here) {
                true => "run them again on a quieter machine, or with fewer --jobs",
                false => {
                    "give their guests more to do, by --workload or --duration, or slower links"
                }
            };
            Err(Failure::invalid(format!(
                "{invalid} of {} runs do not count, because the emulator was late; {remedy}",
                runs.len()
            )))
        }
        _ => Err(Failure::failed(format!("{failed} of {} runs failed", runs.len()))),
    }
}

fn run_sweep(args: &SweepArgs) -> Result<(), Failure> {
    let sweep = Sweep::find(&args.sweep)?;
    let default = || Path::new("results").join(format!("lab-{}", sweep.name()));
    let out = args.out.clone().unwrap_or_else(default);
    let program = std::env::current_exe()?;
    let runs = weftline_lab::run_sweep(&SweepOptions {
        out: out.clone(),
        jobs: args.jobs,
        json: args.json,
        quiet: output::is_quiet(),
        version: VERSION.to_owned(),
        program,
        sweep,
    })?;
    if !args.json {
        output::print(&format!("{}: {} runs\n", out.display(), runs.len()))?;
    }
    tell_failed(&runs)
}

/// Runs one end of a lab connection.
pub(crate) fn endpoint(args: &str) -> Result<(), Failure> {
    Ok(weftline_lab::run_endpoint(weftline_lab::parse_endpoint_args(args)?)?)
}

impl RunArgs {
    /// Those that the simulator has, too.
    pub(crate) fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn options(&self) -> Result<LabOptions, Failure> {
        let common = &self.common;
        let scenario = common.scenario()?;
        let schemes = common.schemes(&scenario)?;
        let cuts: Result<Vec<Cut>, _> = self.cut.iter().map(|cut| cut.parse()).collect();
        Ok(LabOptions {
            congestion: common.congestion()?,
            tls: self.tls,
            seed: common.seed,
            repeat: common.repeat,
            cuts: cuts.map_err(Failure::wrong_use)?,
            out: common.out.clone(),
            json: common.json,
            quiet: output::is_quiet(),
            version: VERSION.to_owned(),
            ..LabOptions::new(scenario, schemes)?
        })
    }
}

#[cfg(test)]
mod tests {
    use weftline_scenario::EmulatorRecord;

    use super::*;

    #[test]
    fn the_status_tells_failed_from_invalid_runs() {
        let good = RunRecord { completed: true, ..RunRecord::default() };
        let failed = RunRecord::default();
        let emulator = Some(EmulatorRecord { late_over_1ms_share: 0.2, valid: false });
        let late = RunRecord { emulator, ..good.clone() };
        let told = |runs: &[RunRecord]| tell_failed(runs).map_err(|failure| failure.status());
        assert_eq!(told(&[good.clone(), good.clone()]), Ok(()));
        assert_eq!(told(&[good.clone(), late.clone()]), Err(4));
        assert_eq!(told(&[good.clone(), late.clone(), failed]), Err(1));
        let message = tell_failed(&[good.clone(), late.clone()]).unwrap_err().to_string();
        assert!(message.starts_with("1 of 2 runs do not count"), "{message}");
        assert!(message.contains("quieter machine"), "{message}");
        let in_guest = RunRecord { guest_kernel: Some("6.12".to_owned()), ..late };
        let message = tell_failed(&[good, in_guest]).unwrap_err().to_string();
        assert!(message.contains("give their guests more to do"), "{message}");
    }
}
