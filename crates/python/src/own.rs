//! What of a run is made in Python: its schedulers and congestion controls.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyString;
use weftline_congestion as congestion;
use weftline_core::scheduler::{self, Assignment, Entry, Scheduler, SchedulerConfig, SendView};
use weftline_scenario as weft;
use weftline_sim::{OwnControl, Plan};

use crate::acts::{Acts, Steered};
use crate::control::Control;
use crate::halt::Own;
use crate::picker;
use crate::wrong;

/// How the names of all these begin; no name of a file or on a command line does.
pub(crate) const PREFIX: &str = "py:";

/// What stands for a name of a scheme or congestion control.
#[derive(Debug)]
enum Kind {
    /// A `wl.Picker`.
    Picker(Py<PyAny>),
    /// A `wl.Scheduler`.
    Scheduler(Py<PyAny>),
    /// A `wl.Control`.
    Control(Py<PyAny>),
    /// The shares of the paths are set from outside.
    Split,
    /// The windows of the paths are set from outside.
    Steered,
}

/// A scheduler or congestion control of Python's, with the name that runs and records have for it.
#[pyclass(frozen)]
pub(crate) struct Part {
    name: String,
    kind: Kind,
}

#[pymethods]
impl Part {
    /// Makes the name known, which begins with `py:`.
    #[new]
    #[pyo3(signature = (name, kind, class=None, /, *, by_segment=false))]
    fn new(name: String, kind: &str, class: Option<Py<PyAny>>, by_segment: bool) -> PyResult<Self> {
        if !name.starts_with(PREFIX) {
            return Err(wrong(format!("'{name}' does not begin with '{PREFIX}'")));
        }
        let (kind, by_segment) = match (kind, class) {
            ("picker", Some(class)) => (Kind::Picker(class), true),
            ("scheduler", Some(class)) => (Kind::Scheduler(class), by_segment),
            ("control", Some(class)) => (Kind::Control(class), false),
            ("split", None) => (Kind::Split, true),
            ("steered", None) => (Kind::Steered, false),
            (kind, _) => return Err(wrong(format!("there is no part of the kind '{kind}'"))),
        };
        match kind {
            Kind::Control(_) | Kind::Steered => know_control(&name),
            _ => know_scheduler(&name, by_segment)?,
        }
        Ok(Self { name, kind })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
}

/// Makes a scheduler's name known to the simulator, if it is new. What is known of a name stays for as
/// long as the process does: names have the digest of what they stand for. One that is asked at other
/// times than what had its name before is refused.
fn know_scheduler(name: &str, by_segment: bool) -> PyResult<()> {
    if Entry::find(name).is_err() {
        let entry = Entry::new(kept(name), "a class of Python's", make).in_simulator_only();
        let entry = if by_segment { entry.by_segment() } else { entry };
        // Another thread may have been before this one.
        let _ = scheduler::register(Box::leak(Box::new(entry)));
    }
    match Entry::find(name) {
        Ok(known) if known.is_by_segment() == by_segment => Ok(()),
        _ => Err(wrong(format!(
            "'{name}' has another by_segment in this process; give one of the two another name"
        ))),
    }
}

/// The same for a congestion control's.
fn know_control(name: &str) {
    if congestion::Entry::find(name).is_none() {
        let make = |config: &congestion::Config| {
            // Where there is none of Python's: connections beside those under test.
            congestion::Entry::find("reno").expect("it is built in").make(config)
        };
        let entry = congestion::Entry::new(kept(name), "a class of Python's", make);
        let _ = congestion::register(Box::leak(Box::new(entry)));
    }
}

fn kept(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

fn make(config: &SchedulerConfig) -> Box<dyn Scheduler> {
    config.own.make(config).unwrap_or_else(|| Box::new(Nobody))
}

/// A scheduler that nobody has given: the run is told that.
#[derive(Debug)]
struct Nobody;

impl Scheduler for Nobody {
    fn pick(&mut self, _: &SendView<'_>) -> Option<Assignment> {
        Some(Assignment { subflow: usize::MAX, range: 0..0 })
    }
}

/// The parts of a run under these names.
pub(crate) fn parts_of<'a>(
    all: &'a [Py<Part>],
    scheme: &weft::Scheme,
    congestion: weft::Congestion,
) -> Vec<&'a Part> {
    let names = [scheme.to_string(), congestion.to_string()];
    all.iter().map(Py::get).filter(|part| names.contains(&part.name)).collect()
}

/// Puts `parts` into a plan over `scenario`. What they raise goes to `own`.
pub(crate) fn put(
    parts: &[&Part],
    mut plan: Plan,
    scenario: &weft::Scenario,
    own: &Own,
    acts: &Arc<Acts>,
) -> Plan {
    let names: Arc<[Py<_>]> = Python::attach(|py| {
        let string = |path: &weft::PathSpec| PyString::new(py, &path.name).unbind();
        scenario.paths.iter().map(string).collect()
    });
    for part in parts {
        for flow in &mut plan.flows {
            if flow.scheduler.is_some_and(|entry| entry.name == part.name) {
                flow.settings.own = part.scheduler(own, &names, acts);
            }
        }
        for flow in plan.flows.iter_mut().take(plan.measured) {
            if flow.congestion.name == part.name {
                flow.own_control = part.control(own, acts);
            }
        }
    }
    plan
}

impl Part {
    fn scheduler(
        &self,
        own: &Own,
        names: &Arc<[Py<PyString>]>,
        acts: &Arc<Acts>,
    ) -> scheduler::Own {
        let (own, names, acts) = (own.clone(), Arc::clone(names), Arc::clone(acts));
        match &self.kind {
            Kind::Picker(class) => {
                let class = copy(class);
                scheduler::Own::new(move |config| {
                    picker::picker(&own, &class, Arc::clone(&names), config)
                })
            }
            Kind::Scheduler(class) => {
                let class = copy(class);
                scheduler::Own::new(move |_| {
                    Box::new(picker::Ranges::new(&own, &class, Arc::clone(&names)))
                })
            }
            Kind::Split => scheduler::Own::new(move |config| Steered::scheduler(&acts, config)),
            Kind::Control(_) | Kind::Steered => scheduler::Own::default(),
        }
    }

    fn control(&self, own: &Own, acts: &Arc<Acts>) -> Option<OwnControl> {
        let (own, acts) = (own.clone(), Arc::clone(acts));
        match &self.kind {
            Kind::Control(class) => {
                let class = copy(class);
                Some(OwnControl::new(move |config, _| Box::new(Control::new(&own, &class, config))))
            }
            Kind::Steered => {
                Some(OwnControl::new(move |config, place| Steered::control(&acts, config, place)))
            }
            Kind::Picker(_) | Kind::Scheduler(_) | Kind::Split => None,
        }
    }
}

fn copy(class: &Py<PyAny>) -> Py<PyAny> {
    Python::attach(|py| class.clone_ref(py))
}
