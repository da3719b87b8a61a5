//! The guest's side: its first process, which does one run of the lab and turns the machine off.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};
use weftline_scenario::{Congestion, Scheme};

use super::words::{Request, Word};
use crate::LabError;
use crate::child::StopFlag;
use crate::record;
use crate::run::Plan;

/// The command that the guest's kernel starts as its first process. A program that uses the lab answers
/// to it with [`run_guest`].
pub const GUEST_COMMAND: &str = "lab-guest";

/// Where the guest finds what it is to do.
pub(super) const REQUEST: &str = "/weftline-run.json";

/// The port that leads to the host.
const PORT: &str = "/dev/ttyS1";

/// What a system has.
const MOUNTS: [(&str, &str); 4] =
    [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")];

/// Does the run that the host asks for, says what came of it, and turns the machine off.
///
/// # Errors
/// [`LabError::Usage`] where this is no guest of the lab; [`LabError::Os`] if nothing can be said, or
/// the machine not be turned off.
pub fn run_guest() -> Result<(), LabError> {
    if !rustix::process::getpid().is_init() || !Path::new(REQUEST).exists() {
        let message =
            "this is for a guest's kernel; 'weftline lab run --scheme linux-fbdt' starts it";
        return Err(LabError::Usage(message.to_owned()));
    }
    mount_all().map_err(LabError::os("mounting the guest's file systems"))?;
    let mut port = Port::open().map_err(LabError::os(format!("opening {PORT}")))?;
    let said = match run(&mut port) {
        Ok(()) => port.say(&Word::End),
        Err(error) => port.say(&Word::Failed(error.to_string())),
    };
    said.and_then(|()| port.drain()).map_err(LabError::os("talking to the host"))?;
    reboot(RebootCommand::PowerOff).map_err(LabError::os("turning the guest off"))
}

fn mount_all() -> io::Result<()> {
    for (kind, target) in MOUNTS {
        fs::create_dir_all(target)?;
        mount(kind, target, kind, MountFlags::empty(), None)?;
    }
    Ok(())
}

fn run(port: &mut Port) -> Result<(), LabError> {
    let text = fs::read_to_string(REQUEST).map_err(LabError::os(format!("reading {REQUEST}")))?;
    let request: Request = serde_json::from_str(&text)
        .map_err(|error| LabError::Failed(format!("reading {REQUEST}: {error}")))?;
    let wrong = |error: weftline_scenario::UnknownName| LabError::Usage(error.to_string());
    let scheme: Scheme = request.scheme.parse().map_err(wrong)?;
    let congestion: Congestion = request.congestion.parse().map_err(wrong)?;
    let program = std::env::current_exe().map_err(LabError::os("finding this program"))?;
    let plan = Plan {
        scenario: &request.scenario()?,
        scheme: &scheme,
        congestion,
        in_kernel: congestion.name(),
        seed: request.seed,
        tls: false,
        cuts: &request.cuts()?,
        version: &request.version,
        program: &program,
        observer: None,
    };
    let mut said = Ok(());
    let outcome = plan.run(&StopFlag::default(), &mut |elapsed| {
        said = port.say(&Word::At(millis(elapsed)));
    })?;
    let talking = || LabError::os("talking to the host");
    said.map_err(talking())?;
    let record = record::record(&plan, Ok(&outcome));
    port.say(&Word::Record(Box::new(record))).map_err(talking())?;
    for sample in record::samples(&plan, &outcome) {
        let (path, metric) = (sample.path.to_owned(), sample.metric.to_owned());
        let word = Word::Sample(sample.time_s, path, metric, sample.value);
        port.say(&word).map_err(talking())?;
    }
    Ok(())
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Leads to the host.
struct Port(File);

impl Port {
    fn open() -> io::Result<Self> {
        File::options().write(true).open(PORT).map(Self)
    }

    fn say(&mut self, word: &Word) -> io::Result<()> {
        let mut line = serde_json::to_string(word)?;
        line.push('\n');
        self.0.write_all(line.as_bytes())
    }

    /// Waits until the last byte has left: a machine that is turned off says nothing more.
    fn drain(&self) -> io::Result<()> {
        rustix::termios::tcdrain(&self.0).map_err(Into::into)
    }
}
