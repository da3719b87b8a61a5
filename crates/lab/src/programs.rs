//! Real programs over a plan's scheme: over kernel MPTCP they run under `mptcpize`, over weftline
//! through the daemons `weftline serve` and `weftline connect`.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use weftline_scenario::Scheme;

use crate::LabError;
use crate::child::{Program, StopFlag};
use crate::netns::Netns;
use crate::run::{PORT, Plan, SETUP_LIMIT, rules_of};
use crate::sys::process::Usage;
use crate::testbed::Testbed;
use crate::topology::End;

/// Whether there is a program of that name.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// The servers of a run, in the order in which they were started.
pub(crate) struct Programs<'a> {
    pub(crate) plan: &'a Plan<'a>,
    pub(crate) testbed: &'a Testbed,
    pub(crate) stop: &'a StopFlag,
    running: Vec<Program>,
}

impl<'a> Programs<'a> {
    pub(crate) fn new(plan: &'a Plan<'a>, testbed: &'a Testbed, stop: &'a StopFlag) -> Self {
        Self { plan, testbed, stop, running: Vec::new() }
    }

    /// The scheduler of the daemons, if the scheme is weftline's.
    pub(crate) fn scheduler(&self) -> Option<&str> {
        self.plan.scheme.scheduler()
    }

    /// Whether the daemons encrypt.
    pub(crate) fn tls(&self) -> bool {
        self.plan.tls && self.scheduler().is_some()
    }

    /// A command line in a namespace; under `mptcpize` for kernel MPTCP.
    pub(crate) fn command(&self, end: End, program: &str) -> Command {
        let ns = self.namespace(end);
        if matches!(self.plan.scheme, Scheme::LinuxMptcp) {
            let mut command = ns.command("mptcpize");
            command.args(["run", program]);
            return command;
        }
        ns.command(program)
    }

    fn namespace(&self, end: End) -> &Netns {
        match end {
            End::Client => &self.testbed.client,
            End::Server => &self.testbed.server,
        }
    }

    /// Where the client reaches the service at `port` of the server: at the first path's address,
    /// or at daemons that are started for it.
    pub(crate) fn reach(&mut self, port: u16) -> Result<SocketAddr, LabError> {
        match self.scheduler().map(str::to_owned) {
            None => Ok(self.testbed.address(0, End::Server, port)),
            Some(scheduler) => self.start_daemons(&scheduler, port),
        }
    }

    fn start_daemons(&mut self, scheduler: &str, port: u16) -> Result<SocketAddr, LabError> {
        let local = SocketAddr::from(([127, 0, 0, 1], port));
        let names = self.testbed.names();
        let address = |k| self.testbed.address(k, End::Server, PORT).to_string();
        let servers: Vec<String> = (0..names.len()).map(address).collect();
        let state_dir = tempfile::tempdir().map_err(LabError::os("making a directory"))?;
        let mut serve = self.testbed.server.command(self.plan.program);
        // Daemons of a run are nobody else's: no control sockets.
        serve.args(["serve", "--control", "none", "--forward"]).arg(local.to_string());
        serve.arg("--listen").args(&servers);
        match self.plan.tls {
            true => serve.arg("--state-dir").arg(state_dir.path()),
            false => serve.arg("--insecure-plaintext"),
        };
        let greeting = self.start("weftline serve", serve, "listening on")?;
        let mut connect = self.testbed.client.command(self.plan.program);
        connect.args(["connect", "--control", "none", "--listen"]).arg(local.to_string());
        connect.args(["--scheduler", scheduler]);
        let without = rules_of(scheduler, self.plan.scenario.scheduler.without);
        connect.arg("--without").arg(without);
        connect.args(["--congestion", self.plan.in_kernel, "--server"]).args(&servers);
        connect.arg("--path").args(names.iter().map(|name| format!("{name}={name}")));
        match greeting.iter().find_map(|line| line.strip_prefix("fingerprint ")) {
            Some(fingerprint) => connect.args(["--fingerprint", fingerprint]),
            None => connect.arg("--insecure-plaintext"),
        };
        self.start("weftline connect", connect, "listening on")?;
        Ok(local)
    }

    /// Starts a program and waits until it says `ready`; all it said until then.
    pub(crate) fn start(
        &mut self,
        name: &str,
        command: Command,
        ready: &str,
    ) -> Result<Vec<String>, LabError> {
        let mut program = Program::start(name, command, self.stop)?;
        let said = wait_for(&mut program, ready)?;
        self.running.push(program);
        Ok(said)
    }

    /// Stops them all; what each used.
    pub(crate) fn stop(mut self) -> Result<Vec<Usage>, LabError> {
        self.running.iter_mut().map(Program::stop).collect()
    }
}

/// Waits until `program` says `ready`; all it said until then.
pub(crate) fn wait_for(program: &mut Program, ready: &str) -> Result<Vec<String>, LabError> {
    let deadline = Instant::now() + SETUP_LIMIT;
    let mut said = Vec::new();
    loop {
        let Some(line) = program.line(deadline)? else {
            return Err(program.failure("took too long to start"));
        };
        let is_ready = line.contains(ready);
        said.push(line);
        if is_ready {
            return Ok(said);
        }
    }
}
