//! `weftline list`: what can be named on the command line.

use clap::ValueEnum;
use weftline_bpf::{Control, IS_BUILT};
use weftline_core::scheduler;
use weftline_scenario::{BUILTIN, Congestion, SWEEPS, Scenario, Scheme, Sweep};

use crate::failure::Failure;
use crate::output;

/// What there are lists of.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum What {
    /// For `connect --scheduler`
    Schedulers,
    /// For `--congestion`
    Congestion,
    /// For `lab run` and `sim run`
    Scenarios,
    /// For `--scheme` of `lab run` and `sim run`
    Schemes,
    /// For `sim sweep` and `lab sweep`
    Sweeps,
}

/// Prints a list, a name and what it is on each line.
pub(crate) fn run(what: What) -> Result<(), Failure> {
    let text = match what {
        What::Schedulers => {
            output::columns(scheduler::all().map(|entry| (entry.name, entry.about)))
        }
        What::Schemes => output::columns(Scheme::all().map(|scheme| (scheme.name, scheme.about))),
        What::Congestion => congestion(),
        What::Scenarios => scenarios(|_| true)?,
        What::Sweeps => sweeps()?,
    };
    output::print(&text)
}

/// The congestion controls of the lab and whether this kernel has them, and what else it has.
fn congestion() -> String {
    let kernel = weftline::congestion_controls();
    let known: Vec<&str> = Congestion::all().map(Congestion::name).collect();
    let about = |congestion: Congestion| {
        let here = kernel.iter().any(|have| have == congestion.name());
        let ours = Control::find(congestion.name());
        match (here, congestion.is_in_linux(), ours) {
            (true, ..) => "in this kernel",
            (false, true, _) => "not in this kernel; try: modprobe tcp_NAME",
            (.., Some(ours)) if ours.is_loaded() => "loaded into this kernel, as weft_NAME",
            (.., Some(_)) if IS_BUILT => "for the simulator, and with root for this kernel",
            _ => "not in this kernel; for the simulator",
        }
    };
    let others = kernel
        .iter()
        .map(String::as_str)
        .filter(|name| !known.contains(name) && Control::find(name).is_none());
    let others = others.map(|name| (name, "in this kernel; for connect only"));
    output::columns(Congestion::all().map(|one| (one.name(), about(one))).chain(others))
}

/// The built-in scenarios of which `is_wanted` says so.
pub(crate) fn scenarios(is_wanted: impl Fn(&Scenario) -> bool) -> Result<String, Failure> {
    let scenarios: Result<Vec<_>, _> = BUILTIN.iter().map(|builtin| builtin.scenario()).collect();
    let scenarios = scenarios?;
    let wanted = scenarios.iter().filter(|scenario| is_wanted(scenario));
    Ok(output::columns(wanted.map(|s| (s.name.as_str(), s.about.as_str()))))
}

/// The built-in sweeps.
pub(crate) fn sweeps() -> Result<String, Failure> {
    let mut rows = Vec::new();
    for builtin in SWEEPS {
        let sweep = Sweep::find(builtin.name)?;
        rows.push((builtin.name, format!("{} runs; {}", sweep.len(), sweep.about())));
    }
    Ok(output::columns(rows.iter().map(|(name, about)| (*name, about.as_str()))))
}
