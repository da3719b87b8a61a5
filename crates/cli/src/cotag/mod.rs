//! `weftline cotag`: the three nodes of a tunnel that is coded over several access points, and
//! their keys.

mod metrics;
mod nodes;
mod peers;
mod run;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use weftline_tunnel::SecretKey;

use crate::failure::Failure;
use crate::{output, secrets};
pub(crate) use nodes::{ApArgs, DeviceArgs, GatewayArgs};

/// The nodes and their keys.
#[derive(Debug, Subcommand)]
pub(crate) enum CotagCommand {
    /// Run the gateway: code the traffic for devices and send it to the access points
    Gateway(Box<GatewayArgs>),
    /// Run an access point: recode what comes and send it as the device's link has room
    Ap(Box<ApArgs>),
    /// Run the device: decode what the access points send
    Device(Box<DeviceArgs>),
    /// Make a node's secret key in a file, or find it there, and print its public key
    Key {
        /// The file; a key that is there stays
        file: PathBuf,
    },
}

/// Runs a node until a signal comes, or does what is asked with a key.
pub(crate) fn run(command: CotagCommand) -> Result<(), Failure> {
    match command {
        CotagCommand::Gateway(args) => nodes::gateway(*args),
        CotagCommand::Ap(args) => nodes::ap(*args),
        CotagCommand::Device(args) => nodes::device(*args),
        CotagCommand::Key { file } => key(&file),
    }
}

fn key(file: &Path) -> Result<(), Failure> {
    let secret = if file.exists() {
        secrets::warn_if_others_can_read(file);
        SecretKey::read(file)?
    } else {
        let secret = SecretKey::generate()?;
        secret.write_new(file)?;
        secret
    };
    output::print(&format!("{}\n", secret.public()))
}
