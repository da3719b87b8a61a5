//! A relay that can be cut: what a broken link does to those who connect through it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on while it is whole.
pub(crate) struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    streams: Vec<TcpStream>,
}

impl Relay {
    /// A relay to `target`.
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut state = own.lock().unwrap();
                // One that comes while it is cut is dropped.
                if let (Ok(from), false) = (stream, state.is_cut)
                    && let Ok(to) = TcpStream::connect(target)
                {
                    for (from, to) in [(&from, &to), (&to, &from)] {
                        let mut ends = (from.try_clone().unwrap(), to.try_clone().unwrap());
                        thread::spawn(move || {
                            let _ = io::copy(&mut ends.0, &mut ends.1);
                            let _ = ends.1.shutdown(Shutdown::Write);
                        });
                    }
                    state.streams.extend([from, to]);
                }
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends what goes through it, and lets nothing through from now on.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = true;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Passes on again.
    pub(crate) fn restore(&self) {
        self.state.lock().unwrap().is_cut = false;
    }
}
