//! What this machine allows: the rights, devices, kernel features and programs the lab uses, and
//! how well the emulator keeps time here.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use weftline_scenario::{Congestion, Scenario, Scheme};

use crate::LabError;
use crate::child::StopFlag;
use crate::guest;
use crate::mptcp;
use crate::netns::Netns;
use crate::privilege::{self, Privilege};
use crate::programs::is_installed;
use crate::run::Plan;
use crate::sys::process;
use crate::tun;

/// The scenario of the self-test: 1.8 + 0.6 Gb/s, as much as the papers' radios carry.
const SELF_TEST: &str = "fbdt-3b-normal";

/// How long the self-test sends.
const SELF_TEST_TIME: Duration = Duration::from_secs(3);

/// Says on standard output what this machine allows, line by line as it is found out, with the
/// remedy where something is missing. The self-test starts this very program as its endpoints
/// (with [`ENDPOINT_COMMAND`](crate::ENDPOINT_COMMAND)).
///
/// # Errors
/// [`LabError::NotPossible`] if the lab cannot run at all here.
pub fn check() -> Result<(), LabError> {
    let program = std::env::current_exe().map_err(LabError::os("finding this program"))?;
    // A guest needs no rights: whether one can be booted is said in any case.
    let privilege = privilege::ensure().inspect_err(|_| check_guests(&program))?;
    let ns = Netns::create()?;
    say(
        true,
        "rights",
        match privilege {
            Privilege::Root => "root",
            Privilege::UserNamespace => "root of a user namespace",
        },
    );
    let udp = tun::check_offloads(&ns)?;
    let offloads = if udp { "TCP and UDP" } else { "TCP" };
    say(true, "/dev/net/tun", &format!("segmentation offload for {offloads}"));
    ns.ip("link show lo")?;
    say(true, "ip", "runs in a namespace");
    check_real_time();
    match mptcp::check_kernel() {
        Ok(()) => say(true, "kernel MPTCP", "there"),
        Err(error) => say(false, "kernel MPTCP", &format!("{error}")),
    }
    check_guests(&program);
    check_congestions(&ns);
    for (name, about) in [
        ("iperf3", "for the workload iperf3; install the package iperf3"),
        ("cvlc", "for the workload vlc; install vlc-bin and vlc-plugin-base"),
        ("mpv", "for the workloads mpv and mpv-hls; install the package mpv"),
        ("nginx", "serves the clip to players; install the package nginx-light"),
        ("ffmpeg", "makes that clip; install the package ffmpeg"),
        ("mptcpize", "for iperf3 and players over kernel MPTCP; install the package mptcpize"),
    ] {
        match is_installed(name) {
            true => say(true, name, "installed"),
            false => say(false, name, &format!("not installed: {about}")),
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let enough = if cores < 2 { "; the emulator wants one of its own" } else { "" };
    say(cores >= 2, "processor cores", &format!("{cores}{enough}"));
    self_test(&program)
}

fn check_guests(program: &Path) {
    match guest::available(program) {
        Ok(kernel) => say(true, "guests with the patched kernel", &kernel),
        Err(error) => say(false, "guests with the patched kernel", &error.to_string()),
    }
}

fn say(good: bool, what: &str, text: &str) {
    let mark = if good { "yes" } else { "no " };
    // A reader who left has seen enough.
    let _ =
        std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{mark}  {what}: {text}\n"));
}

fn check_real_time() {
    // On a thread of its own: the others keep their class.
    let possible = std::thread::spawn(|| process::set_fifo(1)).join();
    match possible {
        Ok(Ok(())) => say(true, "real-time priority", "the emulator gets SCHED_FIFO"),
        _ => say(
            false,
            "real-time priority",
            "not permitted, the emulator may be late under load; run as root, or grant \
             CAP_SYS_NICE",
        ),
    }
}

fn check_congestions(ns: &Netns) {
    for congestion in Congestion::all().filter(|congestion| congestion.is_in_linux()) {
        let name = congestion.name();
        match ns.configure(name) {
            Ok(()) => say(true, &format!("congestion control {name}"), "there"),
            Err(error) => say(false, &format!("congestion control {name}"), &error.to_string()),
        }
    }
    for name in weftline_bpf::CONTROLS.iter().map(|control| control.name) {
        let what = format!("congestion control {name}");
        match weftline_bpf::Control::provide(name) {
            Ok((name, None)) => say(true, &what, &format!("there, as {name}")),
            Ok((name, Some(_))) => say(true, &what, &format!("can be loaded, as {name}")),
            Err(error) => say(false, &what, &error.to_string()),
        }
    }
}

/// Three seconds at full load over two paths.
fn self_test(program: &Path) -> Result<(), LabError> {
    let mut scenario =
        Scenario::find(SELF_TEST).map_err(|error| LabError::Failed(error.to_string()))?;
    scenario.duration = SELF_TEST_TIME;
    scenario.warmup = Duration::ZERO;
    let scheme = match mptcp::check_kernel() {
        Ok(()) => Scheme::LinuxMptcp,
        Err(_) => Scheme::Single("wigig".to_owned()),
    };
    let plan = Plan {
        scenario: &scenario,
        scheme: &scheme,
        congestion: Congestion::CUBIC,
        in_kernel: Congestion::CUBIC.name(),
        seed: 1,
        tls: false,
        cuts: &[],
        version: env!("CARGO_PKG_VERSION"),
        program,
        observer: None,
    };
    let outcome = plan.run(&StopFlag::on_signals()?, &mut |_| {})?;
    let report = &outcome.emulator;
    let ms = |quantile| report.lateness.value_at_quantile(quantile) as f64 / 1e6;
    let mbps = outcome.receiver.figures.goodput_total_mbps.unwrap_or(0.0);
    let mut text = format!("{SELF_TEST}, {scheme}: {mbps:.0} Mb/s carried; packets late by ");
    let _ = write!(text, "{:.2} ms (median), {:.2} ms (99 %), ", ms(0.5), ms(0.99));
    let _ = write!(text, "{:.2} % over 1 ms", report.late_share() * 100.0);
    let _ = write!(text, "; {:.0} % of a core", emulator_load(report.cpu));
    say(report.valid(), "emulator in time", &text);
    match outcome.error {
        None => Ok(()),
        Some(error) => Err(LabError::Failed(format!("the self-test failed: {error}"))),
    }
}

fn emulator_load(cpu: Duration) -> f64 {
    cpu.as_secs_f64() / SELF_TEST_TIME.as_secs_f64() * 100.0
}
