//! Network coding on a real network: the nodes of COTAG as programs (`weftline cotag`), and the
//! measuring of what a link carries, by packet trains (`weftline probe`).
//!
//! The state machines are those of `weftline-coding`, which the simulator drives as well; here are
//! the sockets, the TUN devices, the clock and the encryption between nodes.

pub mod probe;
