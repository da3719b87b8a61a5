//! Schedulers that a program makes as it runs, such as from a script: an entry of the registry is a
//! constant and has nowhere to keep what these are made of.

use std::fmt;
use std::sync::Arc;

use super::{Scheduler, SchedulerConfig};

/// Makes schedulers.
type Make = dyn Fn(&SchedulerConfig) -> Box<dyn Scheduler> + Send + Sync;

/// What makes the schedulers of an entry that stands for them: one whose `make` is
/// `|config| config.own.make(config)…`. By default there is nothing.
#[derive(Clone, Default)]
pub struct Own(Option<Arc<Make>>);

impl Own {
    /// Schedulers that `make` makes.
    pub fn new(
        make: impl Fn(&SchedulerConfig) -> Box<dyn Scheduler> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(make)))
    }

    /// A scheduler; `None` if the program has not said what makes them.
    pub fn make(&self, config: &SchedulerConfig) -> Option<Box<dyn Scheduler>> {
        self.0.as_ref().map(|make| make(config))
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Own" } else { "None" })
    }
}

/// What makes schedulers is no setting.
impl PartialEq for Own {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Own {}
