//! The workloads `vlc`, `mpv` and `mpv-hls`: a real web server and a real player, unmodified. nginx
//! serves a generated clip, the player runs without a screen and without privileges, and its own
//! counters say what a viewer would have seen.
//!
//! A picture is *discarded* when the player decoded it and threw it away because its time had
//! passed; a *decoder's drop* is one that was not decoded, or not handed on, because the decoder was
//! late; an *underflow* is a stop because the next sample had not come. All of them also happen when
//! a machine is busy, so *control* runs of the same player and clip without links go before a series,
//! as many at once as runs will be, and the medians of their counts stand in every record.

mod clip;
mod mpv;
mod server;
mod vlc;

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use weftline_measure::{FlowFigures, FlowMeasurement, STEP};
use weftline_scenario::{PlayerProgram, RunRecord, VideoRecord, VideoSpec};

use crate::LabError;
use crate::child::StopFlag;
use crate::clock;
use crate::emulator::{EmulatorReport, PathReport, Start};
use crate::endpoint::{ReceiverReport, SenderReport};
use crate::netns::Netns;
use crate::programs::Programs;
use crate::run::{Outcome, Plan};
use crate::sys::process::Usage;
use crate::topology::End;
use clip::Clip;

/// Where nginx listens.
const HTTP_PORT: u16 = 8080;

/// What a web server sends that is larger is the clip: requests and handshakes are smaller.
const DATA_FROM: usize = 1024;

/// The user and group of the players: `nobody`. VLC refuses to run as root.
const NOBODY: u32 = 65534;

/// How much longer than the clip a control run may take: programs start, decoders fill.
const CONTROL_GRACE: Duration = Duration::from_secs(20);

/// What a player shows to its viewer.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    video: VideoRecord,
    /// From the request to the end of the clip; none if that did not come in time.
    ended: Option<Duration>,
}

/// Where a player runs.
struct Stage<'a> {
    /// Its command line, in its namespace, without privileges; to be completed with its arguments.
    command: Command,
    ns: &'a Netns,
    /// A directory of its own.
    home: &'a Path,
    url: String,
    video: &'a VideoSpec,
    stop: &'a StopFlag,
    /// When to give up.
    deadline: Instant,
}

/// Makes sure that programs and clip are there, once for a series; says on `tell` what takes time.
pub(crate) fn prepare(
    program: PlayerProgram,
    video: &VideoSpec,
    tell: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let player = if program == PlayerProgram::Vlc { "cvlc" } else { "mpv" };
    for (name, package) in [
        (player, if player == "mpv" { "mpv" } else { "vlc-bin and vlc-plugin-base" }),
        ("nginx", "nginx-light"),
        ("ffmpeg", "ffmpeg"),
        ("setpriv", "util-linux"),
    ] {
        if !crate::programs::is_installed(name) {
            let what = format!("workload {}: the program {name} is missing", program.name());
            return Err(LabError::not_possible(what, format!("install the package {package}")));
        }
    }
    Clip::prepare(&video.clip, program, tell).map(drop)
}

/// Plays the clip without links: in one namespace with its server. What the machine itself costs.
pub(crate) fn control(
    program: PlayerProgram,
    video: &VideoSpec,
    stop: &StopFlag,
) -> Result<VideoRecord, LabError> {
    let clip = Clip::prepare(&video.clip, program, &mut |_| {})?;
    let ns = Netns::create()?;
    ns.configure("cubic")?;
    let (mut server, _files) = server::start(&ns, None, &clip, stop)?;
    let home = home()?;
    let stage = Stage {
        command: unprivileged(ns.command("setpriv")),
        ns: &ns,
        home: home.path(),
        url: format!("http://127.0.0.1:{HTTP_PORT}/{}", clip.file),
        video,
        stop,
        deadline: Instant::now() + video.clip.duration + CONTROL_GRACE,
    };
    let (seen, _) = watch(program, stage, &mut || {})?;
    server.stop()?;
    match seen.ended {
        Some(_) => Ok(seen.video),
        None => Err(LabError::Failed(format!(
            "{} did not play its clip to the end even without links; is the machine too busy?",
            program.name()
        ))),
    }
}

/// Puts what the player discarded without links beside what it did in a run.
pub(crate) fn with_control(record: &mut RunRecord, control: Option<&VideoRecord>) {
    if let (Some(video), Some(control)) = (&mut record.video, control) {
        video.control_discards = Some(control.picture_discards);
        video.control_underflows = Some(control.buffer_underflows);
        video.control_decoder_drops = control.decoder_drops;
    }
}

/// Runs a player over the plan's scheme.
pub(crate) fn run(
    plan: &Plan<'_>,
    program: PlayerProgram,
    video: &VideoSpec,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Duration),
) -> Result<Outcome, LabError> {
    let clip = Clip::prepare(&video.clip, program, &mut |_| {})?;
    let testbed = plan.testbed(Start::FirstData(DATA_FROM))?;
    let mut programs = Programs::new(plan, &testbed, stop);
    let kernel = (plan.scheme, plan.in_kernel);
    let (mut server, _files) = server::start(&testbed.server, Some(kernel), &clip, stop)?;
    let to = programs.reach(HTTP_PORT)?;
    let home = home()?;
    let begun = clock::now();
    let stage = Stage {
        command: unprivileged(programs.command(End::Client, "setpriv")),
        ns: &testbed.client,
        home: home.path(),
        url: format!("http://{to}/{}", clip.file),
        video,
        stop,
        deadline: Instant::now() + plan.scenario.duration,
    };
    let (seen, usage) = watch(program, stage, &mut || progress(clock::now().since(begun)))?;
    let emulator = testbed.emulator.report()?;
    let figures = figures(plan, &emulator, seen.ended);
    let tls = programs.tls();
    let mut all = programs.stop()?;
    all.extend([server.stop()?, usage]);
    let receiver = ReceiverReport { figures, ..ReceiverReport::default() };
    let error = match seen.video.startup_s {
        None => Some("stalled: not a picture was shown".to_owned()),
        Some(_) => None,
    };
    let (sender, video) = (SenderReport::default(), Some(seen.video));
    Ok(Outcome { receiver, sender, emulator, usage: all, error, tls, video })
}

/// Web server and player do not say it alike; what the links delivered is the same for all.
fn figures(plan: &Plan<'_>, emulator: &EmulatorReport, ended: Option<Duration>) -> FlowFigures {
    let Some(epoch) = emulator.epoch else { return FlowFigures::default() };
    let window = plan.window(epoch);
    let mut measurement = FlowMeasurement::new(window);
    let length = emulator.paths.iter().map(|path| path.down.series.len()).max().unwrap_or(0);
    for step in 0..length {
        let of = |path: &PathReport| path.down.series.get(step).copied().unwrap_or(0);
        let bytes = emulator.paths.iter().map(of).sum();
        measurement.released(epoch + STEP * step as u32, bytes);
    }
    let end = ended.map_or(window.until, |ended| epoch + ended);
    if ended.is_some() {
        measurement.completed(end);
    }
    // Steps are too coarse for gaps, and a player that has enough makes some.
    FlowFigures { longest_gap_ms: None, ..measurement.figures(end) }
}

fn watch(
    program: PlayerProgram,
    stage: Stage<'_>,
    tick: &mut dyn FnMut(),
) -> Result<(Seen, Usage), LabError> {
    match program {
        PlayerProgram::Vlc => vlc::watch(stage, tick),
        PlayerProgram::Mpv | PlayerProgram::MpvHls => mpv::watch(stage, tick),
    }
}

/// The rest of a command line that begins with `setpriv`, up to the program itself.
fn unprivileged(mut setpriv: Command) -> Command {
    setpriv.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}"));
    setpriv.arg("--clear-groups");
    setpriv
}

/// A directory for what a player writes, gone when dropped.
fn home() -> Result<tempfile::TempDir, LabError> {
    let failed = || LabError::os("making a directory for the player");
    let home = tempfile::Builder::new().prefix("weftline-player-").tempdir().map_err(failed())?;
    let everyone = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.path(), everyone).map_err(failed())?;
    match chown(home.path(), Some(NOBODY), Some(NOBODY)) {
        Ok(()) => Ok(home),
        Err(error) => Err(LabError::not_possible(
            format!("players run as 'nobody', and there is no such user here ({error})"),
            "run as root: a user namespace has one user only",
        )),
    }
}
