//! What of a run is made in Python: its schedulers and congestion controls.

use std::sync::Arc;

use pyo3::prelude::*;
use weftline_core::scheduler::{self, Assignment, Entry, Scheduler, SchedulerConfig, SendView};
use weftline_scenario as weft;
use weftline_sim::{OwnControl, Plan};

use crate::acts::{Acts, Steered};
use crate::control::Control;
use crate::halt::Own;
use crate::picker;

/// Stands for a `wl.Picker`. The name cannot be used without one.
pub(crate) static PICKER: Entry =
    Entry::new("python-picker", "a class of Python's that picks a path for each segment", make)
        .by_segment();

/// Stands for a `wl.Scheduler`.
pub(crate) static RANGES: Entry =
    Entry::new("python-scheduler", "a class of Python's that assigns ranges", make);

/// Stands for one that is asked for each segment.
pub(crate) static SEGMENTS: Entry =
    Entry::new("python-segments", "the same, for each segment", make).by_segment();

const ENTRIES: [&Entry; 3] = [&PICKER, &RANGES, &SEGMENTS];

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

/// Makes the names known to the simulator.
pub(crate) fn register() {
    for entry in ENTRIES {
        // A module that is loaded twice has done so already.
        let _ = scheduler::register(entry);
    }
}

/// What a run takes from Python, and under which names.
#[pyclass(frozen)]
pub(crate) struct Parts {
    picker: Option<Py<PyAny>>,
    scheduler: Option<Py<PyAny>>,
    /// Whether the scheduler is asked for each segment.
    by_segment: bool,
    control: Option<Py<PyAny>>,
    /// Whether the shares of the paths are set from outside.
    is_split: bool,
    /// Whether the windows of the paths are set from outside.
    is_steered: bool,
    scheme_name: Option<String>,
    congestion_name: Option<String>,
}

/// The names of a run's scheme and congestion control, where they are of Python's.
pub(crate) struct Names {
    pub(crate) scheme: Option<String>,
    pub(crate) congestion: Option<String>,
}

#[pymethods]
impl Parts {
    #[new]
    #[pyo3(signature = (
        *, picker=None, scheduler=None, by_segment=false, control=None, split=false, steered=false,
        scheme_name=None, congestion_name=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn new(
        picker: Option<Py<PyAny>>,
        scheduler: Option<Py<PyAny>>,
        by_segment: bool,
        control: Option<Py<PyAny>>,
        split: bool,
        steered: bool,
        scheme_name: Option<String>,
        congestion_name: Option<String>,
    ) -> Self {
        let (is_split, is_steered) = (split, steered);
        Self {
            picker,
            scheduler,
            by_segment,
            control,
            is_split,
            is_steered,
            scheme_name,
            congestion_name,
        }
    }

    /// The scheme that stands for the scheduler; `None` if it is not Python's.
    #[getter]
    fn scheme(&self) -> Option<&'static str> {
        match self {
            Self { picker: Some(_), .. } | Self { is_split: true, .. } => Some(PICKER.name),
            Self { scheduler: Some(_), by_segment: true, .. } => Some(SEGMENTS.name),
            Self { scheduler: Some(_), .. } => Some(RANGES.name),
            _ => None,
        }
    }
}

impl Parts {
    pub(crate) fn names(&self) -> Names {
        let (scheme, congestion) = (self.scheme_name.clone(), self.congestion_name.clone());
        Names { scheme, congestion }
    }

    /// Puts these parts into a plan over `scenario`.
    pub(crate) fn put(
        &self,
        py: Python<'_>,
        mut plan: Plan,
        scenario: &weft::Scenario,
        own: &Own,
        acts: &Arc<Acts>,
    ) -> Plan {
        let names: Arc<[Py<_>]> = scenario
            .paths
            .iter()
            .map(|path| pyo3::types::PyString::new(py, &path.name).unbind())
            .collect();
        for flow in &mut plan.flows {
            if flow.scheduler.is_some_and(|entry| ENTRIES.iter().any(|own| own.name == entry.name))
            {
                flow.settings.own = self.scheduler(py, own, &names, acts);
            }
        }
        for flow in plan.flows.iter_mut().take(plan.measured) {
            flow.own_control = self.control(py, own, acts);
        }
        plan
    }

    fn scheduler(
        &self,
        py: Python<'_>,
        own: &Own,
        names: &Arc<[Py<pyo3::types::PyString>]>,
        acts: &Arc<Acts>,
    ) -> scheduler::Own {
        if self.is_split {
            let acts = Arc::clone(acts);
            return scheduler::Own::new(move |config| Steered::scheduler(&acts, config));
        }
        let (own, names) = (own.clone(), Arc::clone(names));
        let copy = |class: &Option<Py<PyAny>>| class.as_ref().map(|class| class.clone_ref(py));
        match (copy(&self.picker), copy(&self.scheduler)) {
            (Some(class), _) => scheduler::Own::new(move |config| {
                picker::picker(&own, &class, Arc::clone(&names), config)
            }),
            (None, Some(class)) => scheduler::Own::new(move |_| {
                Box::new(picker::Ranges::new(&own, &class, Arc::clone(&names)))
            }),
            (None, None) => scheduler::Own::default(),
        }
    }

    fn control(&self, py: Python<'_>, own: &Own, acts: &Arc<Acts>) -> Option<OwnControl> {
        if self.is_steered {
            let acts = Arc::clone(acts);
            return Some(OwnControl::new(move |config, place| {
                Steered::control(&acts, config, place)
            }));
        }
        let (class, own) = (self.control.as_ref()?.clone_ref(py), own.clone());
        Some(OwnControl::new(move |config, _| Box::new(Control::new(&own, &class, config))))
    }
}
