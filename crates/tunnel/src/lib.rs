//! Network coding on a real network: the nodes of COTAG as programs (`weftline cotag`), and the
//! measuring of what a link carries, by packet trains (`weftline probe`).
//!
//! The state machines are those of `weftline-coding`, which the simulator drives as well. This crate has
//! the sockets, the TUN devices, the clock and the encryption between nodes. Each node is one thread
//! with one epoll loop: open a [`Gateway`], an [`AccessPoint`] or a [`Device`] with its configuration
//! and run it until [`Stop`]. [`probe`] has the measurement by itself:
//!
//! ```
//! use weftline_core::Bitrate;
//! use weftline_tunnel::probe::Estimator;
//!
//! // A rate to pace by, from the rates that trains have measured.
//! let mut estimator = Estimator::default();
//! for mbps in [100, 100, 100, 20, 20] {
//!     estimator.on_sample(Bitrate::mbps(mbps));
//! }
//! // It follows a collapse after two trains.
//! assert_eq!(estimator.rate(), Some(Bitrate::mbps(20)));
//! ```

mod access_point;
mod ap_end;
pub mod bond;
mod capacity;
mod class;
mod clock;
mod complaint;
mod device;
mod device_end;
mod end;
mod endpoint;
mod epoch;
mod error;
mod fifo;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod gateway;
mod gateway_end;
mod kernel_drops;
mod key;
mod members;
mod outbox;
mod packet;
mod peer;
mod poll;
pub mod probe;
mod random;
mod reach;
mod reorder;
mod secure;
mod settings;
mod status;
mod sys;
#[cfg(test)]
mod tests;
mod trust;
mod tun;
mod turns;
mod udp;
mod way;

pub use access_point::{AccessPoint, AccessPointConfig, AccessPointPeer};
pub use device::{Device, DeviceConfig, DevicePeer, Uplink};
pub use endpoint::Dropped;
pub use error::TunnelError;
pub use gateway::{Gateway, GatewayConfig, GatewayPeer};
pub use key::{KEY_BYTES, ParseKeyError, PublicKey, SecretKey};
pub use members::GatewayDevice;
pub use peer::{LinkCounters, LinkStatus, Pace, Unsent};
pub use poll::Stop;
pub use settings::{IPV6_MTU, Scheme, Sending};
pub use status::{Counter, DeviceStatus, Publish, Status};
pub use tun::{ParsePrefixError, Prefix, TunConfig};
pub use udp::Via;
pub use weftline_coding::node::{QueueConfig, Redundancy};
