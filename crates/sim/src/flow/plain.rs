//! Plain TCP over one path.

use super::{Sink, Source};
use crate::net::Net;

/// Least room in a socket for bytes sent and not acknowledged (Linux, `tcp_wmem`).
const SEND_BUFFER_MIN: u64 = 64 << 10;
/// The most, as in the lab's namespaces.
const SEND_BUFFER_MAX: u64 = 32 << 20;
/// What a segment counts for in the buffer beyond its payload: headers and the kernel's own data
/// about it (Linux, `tcp_sndbuf_expand`).
const SEGMENT_OVERHEAD: u64 = 856;

/// A TCP connection with nothing above it.
#[derive(Debug)]
pub(super) struct Plain {
    client: u32,
    server: u32,
    /// The payload of a full segment.
    mss: u64,
    /// The most bytes written and not acknowledged. It grows with the window and never shrinks: a
    /// sender in recovery must not run dry for want of room.
    buffer: u64,
}

impl Plain {
    pub(super) const fn new([client, server]: [u32; 2], mss: u64) -> Self {
        Self { client, server, mss, buffer: SEND_BUFFER_MIN }
    }

    pub(super) const fn ends(&self) -> [u32; 2] {
        [self.client, self.server]
    }

    pub(super) fn connect(&self, net: &mut Net) {
        net.endpoint_mut(self.client).connect();
        net.transmit(self.client);
    }

    pub(super) fn is_up(&self, net: &Net) -> bool {
        self.ends().iter().all(|&end| net.endpoint(end).is_established())
    }

    pub(super) fn handle(
        &mut self,
        server: bool,
        source: &mut Source,
        sink: &mut Sink,
        net: &mut Net,
    ) {
        if server {
            self.write(source, net);
            net.transmit(self.server);
            net.endpoint_mut(self.server).note_app_limited();
        } else {
            self.read(source, sink, net);
            net.transmit(self.client);
        }
    }

    pub(super) fn pump(&mut self, source: &mut Source, sink: &mut Sink, net: &mut Net) {
        self.handle(true, source, sink, net);
        self.handle(false, source, sink, net);
    }

    /// The application fills the socket: room for two windows, as Linux gives it.
    fn write(&mut self, source: &mut Source, net: &mut Net) {
        let now_ns = net.now_ns();
        let endpoint = net.endpoint_mut(self.server);
        if !endpoint.is_established() {
            return;
        }
        let windows = (2.0 * endpoint.cwnd() * (self.mss + SEGMENT_OVERHEAD) as f64) as u64;
        self.buffer = self.buffer.max(windows).min(SEND_BUFFER_MAX);
        let room = self.buffer.saturating_sub(endpoint.written() - endpoint.acknowledged());
        let bytes = source.ready(now_ns).min(room);
        if bytes > 0 {
            source.wrote(bytes, now_ns);
            endpoint.write(bytes);
        }
    }

    fn read(&self, source: &mut Source, sink: &mut Sink, net: &mut Net) {
        let now_ns = net.now_ns();
        let endpoint = net.endpoint_mut(self.client);
        let offset = endpoint.in_order().min(sink.wanted());
        if offset > sink.read() {
            sink.take(offset, source, now_ns);
            endpoint.set_read(offset, now_ns);
        }
    }
}
