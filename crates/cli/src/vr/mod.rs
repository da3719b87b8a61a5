//! `weftline vr`: 360° video.

mod check;
mod check_played;
mod check_screens;
mod check_shown;
mod evaluate;
mod evaluate_files;
mod evaluate_table;
mod heads;
mod http;
mod live;
mod package;
mod progress;
mod rates;
mod synth;

use clap::Subcommand;
use weftline_vr::{Stop, VrError};

use crate::failure::Failure;

/// What can be done with 360° video.
#[derive(Debug, Subcommand)]
pub(crate) enum VrCommand {
    /// Check that what `evaluate` adds up is what decoded and rendered viewports show
    Check(check::CheckArgs),
    /// What viewers see of packages, by transport, tile scheme and concealment
    Evaluate(Box<evaluate::EvaluateArgs>),
    /// Serve a package to players of DASH in browsers and elsewhere, over HTTP
    Http(http::HttpArgs),
    /// Cut a 360° video into GoPs and tiles, and encode each at a ladder of qualities
    Package(package::PackageArgs),
    /// Play a live stream without a screen, and say what a viewer would have seen
    Play(Box<live::play::PlayArgs>),
    /// Stream a package, or video as it comes, live and tile by tile to players
    Serve(Box<live::serve::ServeArgs>),
    /// Draw a synthetic 360° video, the same for the same seed on every machine
    Synth(synth::SynthArgs),
}

/// Does what was asked about 360° video.
pub(crate) fn run(command: VrCommand) -> Result<(), Failure> {
    match command {
        VrCommand::Check(args) => check::run(&args),
        VrCommand::Evaluate(args) => evaluate::run(&args),
        VrCommand::Http(args) => http::run(&args),
        VrCommand::Package(args) => package::run(&args),
        VrCommand::Play(args) => live::play::run(&args),
        VrCommand::Serve(args) => live::serve::run(&args),
        VrCommand::Synth(args) => synth::run(&args),
    }
}

/// Asked for by the first SIGINT or SIGTERM; a second one ends the program as it does others.
fn stop_on_signals() -> Result<Stop, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        let status = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, status, stop.flag())?;
        signal_hook::flag::register(signal, stop.flag())?;
    }
    Ok(stop)
}

impl From<VrError> for Failure {
    fn from(error: VrError) -> Self {
        let status = error.exit_code();
        Self::with_status(error, status)
    }
}
