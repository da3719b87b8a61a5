//! When a kernel's client says options, and what comes of them.

use weftline_core::Instant;

use super::{CLIENT, Multi, SERVER, Subflow};
use crate::net::Net;

impl Multi {
    /// A segment from the client has come to the server with an option.
    pub(in crate::flow) fn take_option(&mut self, index: usize, serial: u32, now_ns: u64) {
        let subflow = &mut self.subflows[index];
        let Some(mut records) = subflow.options.take(serial) else { return };
        if let Some(id) = subflow.id.filter(|_| subflow.up[SERVER]) {
            let now = Instant::from_nanos(now_ns);
            let taken = self.sessions[SERVER].handle_input(id, &mut records, now);
            taken.expect("both ends are ours and keep to the protocol");
        }
    }

    /// Says again what has not come in an option. Returns whether there was anything.
    pub(super) fn say_options_again(&mut self, net: &mut Net) -> bool {
        let mut any = false;
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.up == [true; 2]) {
            if let Some(number) = subflow.options.say_again(net.now_ns()) {
                let client = subflow.ends[CLIENT];
                net.endpoint_mut(client).set_option(number);
                net.transmit(client);
                any = true;
            }
        }
        any
    }
}

impl Subflow {
    /// When it says an option again, if that has not come by then.
    pub(super) fn option_due_ns(&self) -> Option<u64> {
        if self.up == [true; 2] { self.options.due_ns() } else { None }
    }
}
