//! A machine of the internet.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use weftline_lab::netns::Netns;

/// Bytes of the long answer, and how many of them come before it waits for the word to go on.
pub(crate) const LONG: usize = 24 << 20;

pub(crate) const FIRST: usize = 4 << 20;

/// A machine of the internet that speaks HTTP: it says who asks; `/long` sends many bytes, of which
/// the rest waits until `go` is not zero.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<AtomicU64>,
    pub(crate) go: Arc<AtomicU64>,
}

impl Site {
    pub(crate) fn start(ns: &Netns, address: &str) -> Self {
        let address: SocketAddr = address.parse().unwrap();
        let listener = ns.run(|| TcpListener::bind(address)).unwrap();
        let (asked, go) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let site = Self { address, asked: Arc::clone(&asked), go: Arc::clone(&go) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                asked.fetch_add(1, Ordering::SeqCst);
                let go = Arc::clone(&go);
                thread::spawn(move || answer(stream, &go));
            }
        });
        site
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

pub(crate) fn answer(mut stream: TcpStream, go: &AtomicU64) -> Option<()> {
    let mut line = String::new();
    let mut from = BufReader::new(stream.try_clone().ok()?);
    from.read_line(&mut line).ok()?;
    let is_long = line.contains("/long");
    let mut rest = String::new();
    while from.read_line(&mut rest).ok()? > 2 {
        rest.clear();
    }
    let peer = stream.peer_addr().ok()?.ip();
    let body = if is_long { LONG } else { peer.to_string().len() };
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {body}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    if !is_long {
        return stream.write_all(peer.to_string().as_bytes()).ok();
    }
    stream.write_all(&vec![b'x'; FIRST]).ok()?;
    while go.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    stream.write_all(&vec![b'y'; LONG - FIRST]).ok()
}
