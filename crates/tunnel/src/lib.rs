//! Network coding on a real network: the nodes of COTAG as programs (`weftline cotag`), and the
//! measuring of what a link carries, by packet trains (`weftline probe`).
//!
//! The state machines are those of `weftline-coding`, which the simulator drives as well; here are
//! the sockets, the TUN devices, the clock and the encryption between nodes. Each node is one
//! thread with one epoll loop: [`Gateway`], [`AccessPoint`] and [`Device`] are opened with their
//! configuration and run until [`Stop`].

mod access_point;
mod clock;
mod complaint;
mod device;
mod device_end;
mod end;
mod error;
mod fifo;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod gateway;
mod gateway_end;
mod gauge;
mod key;
mod lane;
mod order;
mod outbox;
mod packet;
mod poll;
mod port;
pub mod probe;
mod run;
mod runs;
mod secure;
mod settings;
mod status;
#[cfg(test)]
mod tests;
mod trust;
mod tun;
mod udp;

pub use access_point::{AccessPoint, AccessPointConfig};
pub use device::{Device, DeviceConfig, DevicePeer, Uplink};
pub use error::TunnelError;
pub use gateway::{Gateway, GatewayConfig, GatewayPeer};
pub use key::{KEY_BYTES, ParseKeyError, PublicKey, SecretKey};
pub use lane::{LinkCounters, LinkStatus, Pace, Unsent};
pub use poll::Stop;
pub use port::Dropped;
pub use settings::{IPV6_MTU, Scheme, Sending};
pub use status::{Counter, Publish, Status};
pub use tun::{ParsePrefixError, Prefix, TunConfig};
pub use udp::Via;
