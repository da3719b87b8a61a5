//! How what is made in Python ends a run.
//!
//! An exception in any of it ends the run, which raises it with its traceback. Calls take the
//! interpreter's lock; the simulator goes on without it between them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::PyErr;
use pyo3::prelude::*;

/// What a run's parts in Python share: what ends it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Own {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Set when the run is to end.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.0.stop
    }

    /// Ends the run with an exception; the first one counts.
    pub(crate) fn fail(&self, error: PyErr) {
        self.0.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.0.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }

    /// Adds where it happened to the exception that has ended the run.
    pub(crate) fn note(&self, note: &str) {
        let error = self.0.error.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*error {
            // Without it the exception is the same.
            let _ =
                Python::attach(|py| error.value(py).call_method1("add_note", (note,)).map(drop));
        }
    }

    /// Raises the exception that has ended the run, if one has.
    pub(crate) fn raised(&self) -> PyResult<()> {
        let error = self.0.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), Err)
    }
}
