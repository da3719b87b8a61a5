//! Schedulers in Python: `wl.Picker`, which picks a path for each segment, and `wl.Scheduler`, which
//! assigns ranges of the stream.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyString;
use weftline_core::scheduler::choice::Choice;
use weftline_core::scheduler::picking::{Picking, Rule};
use weftline_core::scheduler::{Assignment, Scheduler, SchedulerConfig, SendView, reinject};

use crate::halt::Own;

/// A path as a scheduler sees it.
#[pyclass(frozen, get_all)]
pub(crate) struct PathView {
    index: usize,
    name: Py<PyString>,
    has_room: bool,
    is_usable: bool,
    room: u64,
    chunk: u64,
    cwnd: u64,
    cwnd_bytes: u64,
    queued_bytes: u64,
    srtt_s: f64,
    min_rtt_s: f64,
    rate_mbps: f64,
    lowest_foreign: Option<(u64, u64)>,
    highest_foreign: Option<(u64, u64)>,
}

/// The names of a run's paths, by their numbers.
type Names = Arc<[Py<PyString>]>;

impl PathView {
    fn new(py: Python<'_>, names: &Names, choice: Choice<'_>, index: usize) -> Self {
        let (view, subflow) = (choice.view, choice.subflow(index));
        let number = usize::try_from(subflow.path().0).unwrap_or(usize::MAX);
        let name = names.get(number).map(|name| name.clone_ref(py));
        let info = subflow.info();
        Self {
            index,
            name: name.unwrap_or_else(|| PyString::new(py, "").unbind()),
            has_room: choice.is_available(index),
            is_usable: subflow.is_usable(),
            room: view.room(index),
            chunk: view.chunk(index),
            cwnd: choice.cwnd(index),
            cwnd_bytes: info.cwnd.as_u64(),
            queued_bytes: subflow.queued(),
            srtt_s: choice.rtt(index).as_secs_f64(),
            min_rtt_s: info.min_rtt.as_secs_f64(),
            rate_mbps: view.rate(subflow).as_bps() as f64 / 1e6,
            lowest_foreign: None,
            highest_foreign: None,
        }
    }

    /// With what other paths carry and this one, which has room, has not sent.
    fn with_foreign(mut self, view: &SendView<'_>) -> Self {
        if self.room > 0 {
            let (me, all) = (&view.subflows[self.index], view.una..view.limit);
            self.lowest_foreign = view.lowest_foreign(me, &all).map(|r| (r.start, r.end));
            self.highest_foreign = view.highest_foreign(me, &all).map(|r| (r.start, r.end));
        }
        self
    }
}

/// An object of a class of Python's, until it raises something.
#[derive(Debug)]
struct Object {
    own: Own,
    object: Option<Py<PyAny>>,
}

impl Object {
    fn new(own: &Own, class: &Py<PyAny>) -> Self {
        let mut object = Self { own: own.clone(), object: None };
        object.object = object.attempt(|py| class.call0(py));
        object
    }

    /// Calls something; what is raised ends the run.
    fn attempt<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        Python::attach(call).map_err(|error| self.own.fail(error)).ok()
    }

    /// Asks the object, unless something has been raised.
    fn ask<T>(&self, call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        let object = self.object.as_ref().filter(|_| !self.own.has_failed())?;
        self.attempt(|py| call(py, object.bind(py)))
    }
}

/// A `wl.Picker`, with the reinjection and reopening that the kernel's schedulers have.
pub(crate) fn picker(
    own: &Own,
    class: &Py<PyAny>,
    names: Names,
    config: &SchedulerConfig,
) -> Box<dyn Scheduler> {
    Box::new(Picking::opportunistic(Picks { object: Object::new(own, class), names }, config))
}

#[derive(Debug)]
struct Picks {
    object: Object,
    names: Names,
}

impl Rule for Picks {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        // Where nobody is available there is nothing to pick.
        choice.available().next()?;
        let picked = self.object.ask(|py, object| {
            let paths = (0..choice.view.subflows.len())
                .map(|index| PathView::new(py, &self.names, choice, index));
            let now = choice.view.now.as_nanos() as f64 / 1e9;
            let paths: Vec<PathView> = paths.collect();
            object.call_method1("pick", (now, paths))?.extract::<Option<i64>>()
        })??;
        if let Some(index) =
            usize::try_from(picked).ok().filter(|&index| index < choice.view.subflows.len())
        {
            return Some(index);
        }
        let count = choice.view.subflows.len();
        self.object.own.fail(pyo3::exceptions::PyIndexError::new_err(format!(
            "pick: there is no path {picked}; there are {count}"
        )));
        None
    }
}

/// Everything that a scheduler sees.
#[pyclass(frozen, get_all)]
pub(crate) struct View {
    now: f64,
    una: u64,
    limit: u64,
    credit_window: u64,
    unsent: Vec<(u64, u64)>,
    paths: Vec<Py<PathView>>,
}

/// The most ranges of unsent bytes that are shown; what is beyond comes when these are sent.
const MOST_RANGES: usize = 64;

/// A `wl.Scheduler`, with the reinjection that all have.
#[derive(Debug)]
pub(crate) struct Ranges {
    object: Object,
    names: Names,
}

impl Ranges {
    pub(crate) fn new(own: &Own, class: &Py<PyAny>, names: Names) -> Self {
        Self { object: Object::new(own, class), names }
    }
}

impl Scheduler for Ranges {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        if let Some(reinjection) = reinject(view) {
            return Some(reinjection);
        }
        let (subflow, start, end) = self.object.ask(|py, object| {
            let choice = Choice::new(view);
            let paths = (0..view.subflows.len()).map(|index| {
                Py::new(py, PathView::new(py, &self.names, choice, index).with_foreign(view))
            });
            let seen = View {
                now: view.now.as_nanos() as f64 / 1e9,
                una: view.una,
                limit: view.limit,
                credit_window: view.credit_window,
                unsent: unsent(view),
                paths: paths.collect::<PyResult<_>>()?,
            };
            object.call_method1("next", (seen,))?.extract::<Option<(usize, u64, u64)>>()
        })??;
        // The session refuses what cannot be sent, and the record says so.
        Some(Assignment { subflow, range: start..end })
    }
}

/// The ranges that no path has and that may be sent, the lowest first.
fn unsent(view: &SendView<'_>) -> Vec<(u64, u64)> {
    let mut at = view.una;
    let next = || {
        let range = view.unassigned.first_in(&(at..view.limit))?;
        at = range.end;
        Some((range.start, range.end))
    };
    std::iter::from_fn(next).take(MOST_RANGES).collect()
}
