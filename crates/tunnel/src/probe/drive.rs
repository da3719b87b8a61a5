//! The loops around the state machines: a socket, a clock, and the wish to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use weftline_core::Instant;

use super::client::{Client, Event};
use super::server::{Route, Server, ServerEvent};
use super::socket::{IDLE, ProbeSocket, is_too_big};
use crate::clock;

/// Serves clients until `stop`, telling what happens to `tell`.
///
/// # Errors
/// When the system does not let us receive any more.
pub fn serve(
    socket: &mut ProbeSocket,
    server: &mut Server,
    stop: &AtomicBool,
    mut tell: impl FnMut(&Server, ServerEvent),
) -> io::Result<()> {
    let mut out = Vec::new();
    loop {
        let mut now = clock::now();
        // Looked at once: a wish that comes later must not end this before the clients are told.
        let last = stop.load(Ordering::Relaxed);
        if last {
            server.stop(now);
        }
        server.handle_timeout(now);
        transmit(socket, server, now, &mut out);
        while let Some(event) = server.poll_event() {
            tell(server, event);
        }
        if last {
            return Ok(());
        }
        let idle = now + IDLE;
        socket.wait(server.poll_timeout().map_or(idle, |due| due.min(idle)))?;
        now = clock::now();
        let mut answers: Vec<(Route, Vec<u8>)> = Vec::new();
        let received = socket.receive(|datagram| {
            let route = Route { client: datagram.from, local: datagram.to };
            let answer = server.handle(route, datagram.bytes, datagram.stamp, now);
            answers.extend(answer.map(|answer| (route, answer)));
        });
        // A client that has gone away is told by its silence.
        if let Err(error) = received
            && error.kind() != io::ErrorKind::ConnectionRefused
        {
            return Err(error);
        }
        for (route, answer) in answers {
            let shape = super::Shape { segment: answer.len(), together: true };
            // It asks again.
            let _ = socket.send(route.client, route.local, &answer, shape);
        }
    }
}

fn transmit(socket: &ProbeSocket, server: &mut Server, now: Instant, out: &mut Vec<u8>) {
    loop {
        out.clear();
        let Some((route, shape)) = server.poll_transmit(now, out) else { return };
        if let Err(error) = socket.send(route.client, route.local, out, shape)
            && is_too_big(&error)
        {
            server.too_big(route.client, now);
        }
        // Any other failure is one of the link, such as an interface that is down.
    }
}

/// Runs a client to its end, telling what happens to `tell`; `stop` ends it before its time.
///
/// # Errors
/// `ConnectionRefused` when nobody listens at the server's port; packets that are larger than the
/// interface takes; a system that does not let us send or receive.
pub fn run(
    socket: &mut ProbeSocket,
    server: SocketAddr,
    client: &mut Client,
    stop: &AtomicBool,
    mut tell: impl FnMut(&Client, Instant, Option<Event>),
) -> io::Result<()> {
    let mut out = Vec::new();
    let mut started = false;
    loop {
        let now = clock::now();
        if stop.load(Ordering::Relaxed) {
            client.stop(now);
        }
        client.handle_timeout(now);
        loop {
            out.clear();
            let Some(shape) = client.poll_transmit(now, &mut out) else { break };
            match socket.send(server, None, &out, shape) {
                Err(error) if is_too_big(&error) || !started => return Err(error),
                // A link that is down comes back, or the server's silence ends it.
                _ => {}
            }
        }
        while let Some(event) = client.poll_event() {
            started |= event == Event::Started;
            tell(client, now, Some(event));
        }
        tell(client, now, None);
        if client.is_over() {
            return Ok(());
        }
        let idle = now + IDLE;
        socket.wait(client.poll_timeout().map_or(idle, |due| due.min(idle)))?;
        let now = clock::now();
        let received = socket.receive(|datagram| {
            client.handle(datagram.bytes, datagram.stamp, now);
        });
        match received {
            Err(error) if !started => return Err(error),
            _ => {}
        }
    }
}
