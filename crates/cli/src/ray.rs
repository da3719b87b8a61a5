//! Sweeps on a Ray cluster: the Python package does them.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Failure;

const PYTHON: &str = "python3";

/// Names on standard error the modules that are missing.
const LOOK: &str = "import importlib.util as u, sys; \
    sys.exit(' and '.join(m for m in ('weftline', 'ray') if u.find_spec(m) is None) or 0)";

/// Does the sweep on Ray, as `python3 -m weftline sweep --on ray` does.
pub(crate) fn sweep(sweep: &str, out: &Path, series: bool) -> Result<(), Failure> {
    let look = Command::new(PYTHON).args(["-c", LOOK]).stdin(Stdio::null()).output();
    let look = look.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::not_possible(
            "there is no python3, whose package weftline runs sweeps on Ray; install Python 3.11 \
             and, in the sources, pip install './python[ray]'",
        ),
        _ => Failure::failed(format_args!("cannot start {PYTHON}: {error}")),
    })?;
    if !look.status.success() {
        let missing = String::from_utf8_lossy(&look.stderr);
        return Err(Failure::not_possible(format_args!(
            "{PYTHON} has no module {}; in the sources, pip install './python[ray]'",
            missing.trim().lines().last().unwrap_or("weftline")
        )));
    }
    let mut command = Command::new(PYTHON);
    command.args(["-m", "weftline", "sweep", "--on", "ray", "--out"]).arg(out);
    if series {
        command.arg("--series");
    }
    // What begins with a dash is no option.
    let status = command.arg("--").arg(sweep).status()?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => {
            let code = u8::try_from(code).unwrap_or(1);
            Err(Failure::with_status("the sweep on Ray has not made all of its runs", code))
        }
        None => Err(Failure::failed(format_args!("the sweep on Ray was ended: {status}"))),
    }
}
