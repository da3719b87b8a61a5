//! The machine's network, as `weftline up` changes it: Linux only, by netlink(7), without programs
//! such as `ip` or `nft`.
//!
//! | to | use |
//! |---|---|
//! | list links, addresses, routes and rules, add and delete them | [`Routes`] |
//! | hear of changes | [`Watch`] |
//! | take all new TCP connections of this machine | `Capture` (feature `capture`) |
//! | let nothing else out by the links, even after the process's end | `KillSwitch` (feature `capture`) |
//! | lead a browser past the capture for a while | `Portal` (feature `capture`) |
//! | forward the packets of such machines, at a server | `Exit` (feature `capture`) |
//! | change a sysctl so that it can be undone | [`Journal`] |
//!
//! What `Capture` sets up goes with the process that made it, whatever ends it: the device and its
//! routes with the open device, the nf_tables table with the socket that owns it. Only routing rules
//! and sysctls remain; `remove_leftovers` and [`Journal::undo`] remove those. What `KillSwitch` has closed
//! stays closed until it is opened.
//!
//! Messages from the kernel are checked as if they came from a stranger: nothing in them panics, and
//! what is kept of a long list is bounded by the caller.

#![cfg_attr(not(feature = "capture"), allow(dead_code, reason = "the capture uses it"))]

#[cfg(feature = "capture")]
mod capture;
#[cfg(feature = "capture")]
mod error;
#[cfg(feature = "capture")]
mod exception;
#[cfg(feature = "capture")]
mod exit;
#[cfg(feature = "capture")]
mod exit_table;
#[cfg(feature = "capture")]
mod firewall;
#[cfg(feature = "capture")]
mod forwarding;
#[cfg(feature = "capture")]
mod inside;
mod journal;
#[cfg(feature = "capture")]
mod kill_switch;
mod link_name;
mod message;
#[cfg(feature = "capture")]
mod nft;
#[cfg(feature = "capture")]
mod own_address;
#[cfg(feature = "capture")]
mod portal;
mod route;
#[cfg(feature = "capture")]
mod rules;
#[cfg(feature = "capture")]
mod ruleset;
#[cfg(feature = "capture")]
mod share;
#[cfg(feature = "capture")]
mod share_table;
mod socket;
mod sys;
mod watch;

#[cfg(feature = "capture")]
pub use capture::{Capture, CaptureConfig, DEVICE, Ipv6};
#[cfg(feature = "capture")]
pub use error::NetError;
#[cfg(feature = "capture")]
pub use exception::{Exception, ParseExceptionError};
#[cfg(feature = "capture")]
pub use exit::{EXIT_DEVICE, Exit, ExitConfig};
#[cfg(feature = "capture")]
pub use firewall::{forbids_forwarding, forbids_input};
#[cfg(feature = "capture")]
pub use inside::Inside;
pub use journal::Journal;
#[cfg(feature = "capture")]
pub use kill_switch::{KillSwitch, MARK, Near};
pub use link_name::{LinkName, ParseLinkNameError};
#[cfg(feature = "capture")]
pub use own_address::{FIRST_CLIENT, LAST_CLIENT, addresses_v4, addresses_v6};
#[cfg(feature = "capture")]
pub use portal::Portal;
pub use route::{Address, Input, Link, Route, Routes, Rule, RuleAction};
#[cfg(feature = "capture")]
pub use rules::{TABLE, remove_leftovers};
#[cfg(feature = "capture")]
pub use ruleset::tables;
pub use watch::Watch;

/// What the fuzz target `netlink`, and the replay of its corpus, drive. Not for use otherwise.
#[doc(hidden)]
pub mod fuzz {
    use crate::message::{HEADER, attributes, messages, text};
    use crate::route::parse_anything;

    /// Any bytes are messages, to the first that is cut off, and any payload is read or left aside.
    ///
    /// # Panics
    /// If it is not so.
    pub fn netlink(bytes: &[u8]) {
        let mut count = 0;
        for message in messages(bytes) {
            parse_anything(message.payload);
            for (_, value) in attributes(message.payload) {
                assert!(text(value).len() <= 3 * value.len(), "no byte becomes a long text");
            }
            count += 1;
        }
        assert!(count * HEADER <= bytes.len(), "each message has a header");
        parse_anything(bytes);
    }
}
