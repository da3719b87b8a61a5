//! The lab: real programs over emulated links, on the real kernel.
//!
//! Two network namespaces, a client and a server, are joined by the paths of a scenario. Each path is a
//! pair of TUN devices, between which the [`emulator`] carries packets by the link model that the
//! simulator uses, too. Over these links the lab runs the kernel's TCP and MPTCP, our transport, or
//! unmodified programs, and writes the same records as the simulator.
//!
//! Schemes of a patched kernel run in a guest: a virtual machine in which this program measures. That
//! needs no rights.
//!
//! It needs root, or a user namespace in which `/dev/net/tun` is accessible. Nothing is left behind:
//! namespaces and devices are held by file descriptors only, and child processes die with their parent.
//!
//! ```no_run
//! use weftline_lab::{LabOptions, run_many};
//! use weftline_scenario::Scenario;
//!
//! // A program that does this answers to `ENDPOINT_COMMAND` with `run_endpoint`: the lab starts it again
//! // as the two ends of each run.
//! let scenario = Scenario::find("bond")?;
//! let schemes = vec!["linux-mptcp".parse()?, "earliest".parse()?];
//! for record in run_many(&LabOptions::new(scenario, schemes)?)? {
//!     println!("{}: {:?} Mb/s", record.scheme, record.goodput_mbps);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod child;
pub mod clock;
mod control;
pub mod emulator;
pub mod endpoint;
mod error;
mod guest;
mod iperf;
mod load;
mod mptcp;
pub mod netns;
mod observe;
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
pub use guest::{GUEST_COMMAND, run_guest};
pub use observe::{Observer, Seen, SeenPath, SeenSocket};
pub use run::check_scenario;
pub use series::{LabOptions, run_many};
pub use shell::shell;
pub use sweep::{SweepOptions, run_sweep};
pub use tun::Tun;
