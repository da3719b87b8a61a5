//! The lab: real programs over emulated links, on the real kernel.
//!
//! Two network namespaces, a client and a server, are joined by the paths of a scenario. Each path
//! is a pair of TUN devices between which the [`emulator`] carries packets as the link model says,
//! the same model the simulator runs on. Over these links the lab runs the kernel's TCP and MPTCP,
//! our transport, or unmodified programs, and writes the same records as the simulator.
//!
//! It needs root, or a user namespace in which `/dev/net/tun` is accessible. Nothing can be left
//! behind: namespaces and devices are held by file descriptors only, and children die with us.

mod check;
mod child;
pub mod clock;
mod control;
pub mod emulator;
pub mod endpoint;
mod error;
mod iperf;
mod load;
mod mptcp;
pub mod netns;
mod packet;
mod player;
mod privilege;
mod programs;
mod progress;
mod record;
mod run;
mod series;
mod shell;
mod sweep;
mod sys;
pub mod testbed;
pub mod topology;
mod tun;
mod workload;

pub use check::check;
pub use child::StopFlag;
pub use endpoint::{ENDPOINT_COMMAND, EndpointArgs, parse_endpoint_args, run_endpoint};
pub use error::LabError;
pub use run::check_scenario;
pub use series::{LabOptions, run_many};
pub use shell::shell;
pub use sweep::{SweepOptions, run_sweep};
pub use tun::Tun;
