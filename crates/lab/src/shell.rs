//! A shell on the client's side of a scenario, for trying things by hand.

use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weftline_scenario::{Congestion, Scenario, Scheme};

use crate::LabError;
use crate::control;
use crate::emulator::Start;
use crate::mptcp;
use crate::privilege;
use crate::run::{Plan, check_scenario};
use crate::testbed::Testbed;
use crate::topology::{self, End};

/// Payload of the first packet from the server that starts the scenario's traces.
const DATA_FROM: usize = 1024;

/// Opens `$SHELL` in the client's namespace of `scenario`, with its links up until the shell ends.
/// The environment tells it where the server is: `WEFTLINE_SERVER` (on the first path),
/// `WEFTLINE_SERVER_<PATH>` on each, `WEFTLINE_SERVER_NS` for `nsenter --net=`. Kernel MPTCP is set
/// up with a subflow on every path. Traces start with the first data from the server. Returns the
/// shell's exit status.
///
/// # Errors
/// What this machine cannot do, or a shell that does not start.
pub fn shell(scenario: &Scenario, congestion: Congestion, seed: u64) -> Result<u8, LabError> {
    check_scenario(scenario)?;
    privilege::ensure()?;
    let provided = control::provide(congestion)?;
    let in_kernel = &provided.kernel_name;
    let scheme = Scheme::FBDT; // all paths
    let program = std::path::Path::new("");
    let plan = Plan {
        scenario,
        scheme: &scheme,
        congestion,
        in_kernel,
        seed,
        tls: false,
        cuts: &[],
        version: env!("CARGO_PKG_VERSION"),
        program,
        observer: None,
    };
    let testbed = plan.testbed(Start::FirstData(DATA_FROM))?;
    if mptcp::check_kernel().is_ok() {
        mptcp::configure(&testbed)?;
    }
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let mut command = testbed.client.foreground_command(&shell);
    command.envs(environment(&testbed));
    explain(scenario, &testbed);
    // Ctrl-C is for the shell, which shares our terminal; a handler (unlike ignoring it) is not
    // passed on to it.
    let ours = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGINT, ours).map_err(LabError::os("catching signals"))?;
    let context = || format!("running {}", shell.to_string_lossy());
    let status = command.status().map_err(LabError::os(context()))?;
    match status.signal() {
        Some(signal) => Err(LabError::Failed(format!("{}: killed by {signal}", context()))),
        None => Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
    }
}

fn environment(testbed: &Testbed) -> Vec<(String, String)> {
    let server = |path| topology::address(path, End::Server).v4.to_string();
    let mut environment = vec![
        ("WEFTLINE_SERVER".to_owned(), server(0)),
        ("WEFTLINE_SERVER_NS".to_owned(), testbed.server.path()),
    ];
    for (path, name) in testbed.names().iter().enumerate() {
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        environment.push((format!("WEFTLINE_SERVER_{name}"), server(path)));
    }
    environment
}

fn explain(scenario: &Scenario, testbed: &Testbed) {
    // Nobody may be reading any more.
    let mut out = io::stderr().lock();
    let mut tell = |line: String| drop(writeln!(out, "{line}"));
    tell(format!("{}: this shell is the client; leave it to end the lab", scenario.name));
    for (path, name) in testbed.names().iter().enumerate() {
        let ends = [End::Client, End::Server].map(|end| topology::address(path, end).v4);
        tell(format!("  {name}: {} here, {} at the server", ends[0], ends[1]));
    }
    tell("  a program at the server: nsenter --net=$WEFTLINE_SERVER_NS PROGRAM".to_owned());
}
