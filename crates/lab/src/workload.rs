//! What a run runs: the lab's own sender and receiver, iperf3, or a player.

use std::time::Duration;

use weftline_scenario::Workload;

use crate::child::StopFlag;
use crate::run::{Outcome, Plan};
use crate::{LabError, iperf, player};

impl Plan<'_> {
    /// Runs it. `progress` hears the time since t = 0.
    pub(crate) fn run(
        &self,
        stop: &StopFlag,
        progress: &mut dyn FnMut(Duration),
    ) -> Result<Outcome, LabError> {
        match self.scenario.workload {
            Workload::Iperf3 => iperf::run(self, stop, progress),
            Workload::Player(program, video) => player::run(self, program, &video, stop, progress),
            _ => self.run_endpoints(stop, progress),
        }
    }
}
