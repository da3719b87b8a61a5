//! The options that runs have in the lab and in the simulator alike.

use std::path::{Path, PathBuf};

use clap::Args;
use weftline_core::scheduler::{Entry, SchedulerConfig, check_settings};
use weftline_scenario::{BUILTIN, BadTimes, Congestion, Scenario, Scheme};

use crate::daemon::{parse_duration, parse_seconds};
use crate::failure::Failure;

/// The most seeds of each scheme.
const MAX_REPEAT: u64 = 100_000;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// A built-in scenario or a TOML file
    scenario: String,
    /// What to compare, see `weftline list schemes` [default: each path alone, linux-mptcp, earliest
    /// and fbdt]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scheme: Vec<String>,
    /// The congestion control of every connection
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Rules that are switched off: of earliest and fbdt reinject, copy-late, copy-slow, spare-far,
    /// copy-last, deadlines; of fbdt-strict wait-acks, wait-round-trip, send-again
    #[arg(long, value_name = "RULE,…", hide_short_help = true)]
    without: Option<String>,
    /// What is sent, instead of the scenario's workload: bulk, cbr:20Mbps, cbr:80%, transfer:1MiB, …
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// How long, instead of the scenario's duration
    #[arg(long, value_name = "DURATION")]
    duration: Option<String>,
    /// The same, as a number
    #[arg(long, value_name = "N", hide = true, conflicts_with = "duration")]
    seconds: Option<String>,
    /// How much of that is left out of the goodput, instead of the scenario's
    #[arg(long, value_name = "DURATION", alias = "warm-up")]
    warmup: Option<String>,
    /// Seed of the links' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How often each scheme runs, each time with the next seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u64,
    /// Where to write results: runs.jsonl, series.csv and the scenario; a run that is there already
    /// is replaced
    #[arg(short, long, value_name = "DIR", alias = "output")]
    pub(crate) out: Option<PathBuf>,
    /// One JSON object per run on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

impl CommonArgs {
    /// The scenario with what the options say otherwise.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        let mut scenario = Scenario::find(&self.scenario)?;
        if let Some(text) = &self.workload {
            scenario.workload = scenario.workload.replaced(text).map_err(Failure::wrong_use)?;
        }
        if let Some(rules) = &self.without {
            scenario.scheduler.without = rules.parse().map_err(Failure::wrong_use)?;
        }
        let given = |option, text: &Option<String>, or| match text {
            Some(text) => parse_duration(option, text),
            None => Ok(or),
        };
        let duration = match &self.seconds {
            Some(text) => parse_seconds("--seconds", text)?,
            None => given("--duration", &self.duration, scenario.duration)?,
        };
        let warmup = given("--warmup", &self.warmup, scenario.warmup)?;
        scenario.set_duration(duration, warmup).map_err(|error| match error {
            BadTimes::Warmup(..) => {
                Failure::wrong_use(format!("{error}; give --warmup or a longer --duration"))
            }
            _ => Failure::wrong_use(format!("--duration: {error}")),
        })?;
        if !(1..=MAX_REPEAT).contains(&self.repeat) {
            return Err(Failure::wrong_use(format!("--repeat: at least 1, at most {MAX_REPEAT}")));
        }
        let last = self.seed.checked_add(self.repeat - 1);
        last.ok_or_else(|| {
            let Self { seed, repeat, .. } = self;
            Failure::wrong_use(format!(
                "--seed {seed}: {repeat} seeds from there are beyond 2^64; give a smaller one"
            ))
        })?;
        Ok(scenario)
    }

    /// Whether what the options say can be read and goes together. A file that is not there is
    /// not looked into.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let is_name = BUILTIN.iter().any(|builtin| builtin.name == self.scenario);
        if is_name || Path::new(&self.scenario).exists() {
            self.schemes(&self.scenario()?)?;
        }
        self.congestion().map(|_| ())
    }

    /// The schemes to compare.
    pub(crate) fn schemes(&self, scenario: &Scenario) -> Result<Vec<Scheme>, Failure> {
        let mut schemes: Vec<Scheme> = Vec::new();
        if self.scheme.is_empty() {
            let alone = scenario.paths.iter().map(|path| Scheme::Single(path.name.clone()));
            let default = [Scheme::LinuxMptcp, Scheme::default_scheduler(), Scheme::FBDT];
            schemes.extend(alone.chain(default));
        }
        for name in &self.scheme {
            let scheme = name.parse()?;
            if schemes.contains(&scheme) {
                // With the same seeds, it would be measured once and counted twice.
                let message = format!("--scheme: {name} is listed twice; --repeat runs it again");
                return Err(Failure::wrong_use(message));
            }
            schemes.push(scheme);
        }
        if self.without.is_some() {
            let used = schemes.iter().filter_map(Scheme::scheduler);
            let used: Vec<_> = used.filter_map(|name| Entry::find(name).ok()).collect();
            let config = SchedulerConfig {
                without: scenario.scheduler.without,
                ..SchedulerConfig::default()
            };
            check_settings(&used, &config)
                .map_err(|error| Failure::wrong_use(format!("--without: {error}")))?;
        }
        Ok(schemes)
    }

    /// The congestion control.
    pub(crate) fn congestion(&self) -> Result<Congestion, Failure> {
        Ok(self.congestion.parse()?)
    }
}
