//! Schemes that need another kernel: each run boots a virtual machine with the patched kernel that
//! `kernel/build` has made, and this very program measures inside it.
//!
//! QEMU emulates a machine with a clock of its own (a second is so many instructions), so that the
//! host's load touches nothing that is measured, and no rights are needed. What the guest needs is in
//! memory alone: nothing is left behind, however a run ends.

mod archive;
mod elf;
mod figures;
mod hearing;
mod image;
mod inside;
mod machine;
mod words;

use std::path::{Path, PathBuf};
use std::time::Duration;

use weftline_scenario::{Congestion, RunRecord, Sample, Scenario, Scheme, Workload};

use crate::LabError;
use crate::child::StopFlag;
use crate::run::Plan;
use figures::Row;
use image::Image;

pub use inside::{GUEST_COMMAND, run_guest};

/// What every guest is made of.
#[derive(Debug)]
pub(crate) struct Guests {
    kernel: Image,
    qemu: PathBuf,
    /// The programs and their libraries, as an archive that the kernel unpacks.
    programs: Vec<u8>,
}

/// The series of a run in a guest.
#[derive(Debug)]
pub(crate) struct Series(Vec<Row>);

impl Series {
    /// Its values.
    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.0.iter().map(Row::sample)
    }
}

/// Refuses what a guest cannot run; says nothing of schemes that run in none.
///
/// # Errors
/// [`LabError::Usage`] for workloads with real programs, and congestion controls that are not Linux's.
pub(crate) fn check(
    scheme: &Scheme,
    scenario: &Scenario,
    congestion: Congestion,
) -> Result<(), LabError> {
    if scheme.guest_scheduler().is_none() {
        return Ok(());
    }
    let workload = scenario.workload;
    let refused = |message: String| Err(LabError::Usage(format!("scheme '{scheme}': {message}")));
    if matches!(workload, Workload::Iperf3 | Workload::Player(..)) {
        return refused(format!(
            "its guest has the lab's own sender and receiver, not the programs of '{workload}'; give \
             --workload bulk, cbr:RATE, transfer:SIZE or burst:SIZE, or leave it out"
        ));
    }
    if !congestion.is_in_linux() {
        return refused(format!(
            "its guest has no congestion control '{congestion}'; give --congestion cubic, reno or bbr, \
             or leave it out"
        ));
    }
    Ok(())
}

/// The kernel of guests with this program, if they can be booted here.
///
/// # Errors
/// Those of [`Guests::find`].
pub(crate) fn available(program: &Path) -> Result<String, LabError> {
    Guests::find(program).map(|guests| guests.kernel())
}

/// What guests are made of, if one of the schemes runs in one.
///
/// # Errors
/// Those of [`Guests::find`]; [`LabError::NotPossible`] if their kernel has not the scheduler of one.
pub(crate) fn needed<'a>(
    schemes: impl Iterator<Item = &'a Scheme>,
    program: &Path,
) -> Result<Option<Guests>, LabError> {
    let mut guests = None;
    for scheme in schemes {
        let Some(scheduler) = scheme.guest_scheduler() else { continue };
        let guests = match &mut guests {
            Some(guests) => guests,
            none => none.insert(Guests::find(program)?),
        };
        guests.kernel.check(&scheme.to_string(), scheduler)?;
    }
    Ok(guests)
}

impl Guests {
    /// Finds all that guests with this program need.
    ///
    /// # Errors
    /// [`LabError::NotPossible`] if QEMU, a kernel or a program is not there: what, and how to get it.
    fn find(program: &Path) -> Result<Self, LabError> {
        let qemu = machine::find_qemu()?;
        let kernel = image::find()?;
        let programs = archive::of_programs(program)?;
        Ok(Self { kernel, qemu, programs })
    }

    /// The release of their kernel, with the key of its build.
    pub(crate) fn kernel(&self) -> String {
        self.kernel.to_string()
    }

    /// Runs a plan in a guest of its own: the record and the series. `progress` hears the guest's time
    /// since t = 0.
    ///
    /// # Errors
    /// [`LabError::Failed`] for a guest that fails, hangs, dies, complains or talks nonsense;
    /// [`LabError::Interrupted`].
    pub(crate) fn run(
        &self,
        plan: &Plan<'_>,
        stop: &StopFlag,
        progress: &mut dyn FnMut(Duration),
    ) -> Result<(RunRecord, Series), LabError> {
        let (record, rows) = machine::run(self, plan, stop, progress)?;
        let record = RunRecord { guest_kernel: Some(self.kernel()), ..record };
        Ok((record, Series(rows)))
    }
}
