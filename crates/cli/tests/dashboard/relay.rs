//! A relay that can be cut or blocked: what a broken link, or one in which packets vanish, does to those
//! who connect through it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Passes connections on while it is whole.
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    is_blocked: bool,
    streams: Vec<TcpStream>,
}

impl Relay {
    /// A relay to `target`.
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared: Arc<Shared> = Arc::default();
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut state = own.state.lock().unwrap();
                // One that comes while it is cut is dropped.
                if let (Ok(from), false) = (stream, state.is_cut)
                    && let Ok(to) = TcpStream::connect(target)
                {
                    for (from, to) in [(&from, &to), (&to, &from)] {
                        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                        let own = Arc::clone(&own);
                        thread::spawn(move || own.pass(from, to));
                    }
                    state.streams.extend([from, to]);
                }
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends what goes through it, and lets nothing through from now on.
    pub(crate) fn cut(&self) {
        self.shared.set(|state| {
            state.is_cut = true;
            for stream in state.streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
    }

    /// Lets nothing through, and ends nothing.
    pub(crate) fn block(&self) {
        self.shared.set(|state| state.is_blocked = true);
    }

    /// Passes on again.
    pub(crate) fn restore(&self) {
        self.shared.set(|state| (state.is_cut, state.is_blocked) = (false, false));
    }
}

impl Shared {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// Passes on what comes, to the end.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 << 10];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            let state = self.state.lock().unwrap();
            let is_blocked = |state: &mut State| state.is_blocked && !state.is_cut;
            drop(self.changed.wait_while(state, is_blocked).unwrap());
            if to.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }
}
