//! Daemons that are killed in the middle of a transfer: the other one says so or goes on, and serves
//! whoever comes after.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc;
use std::thread;

use common::{Daemon, PATIENCE, dial, reserved, serve_at};

/// Says `e` to a service: it sends without end. Or `o`: it echoes what follows.
const ENDLESS: &[u8] = b"e";
const ECHO: &[u8] = b"o";

/// A service; it tells how its endless connections end.
fn service() -> (SocketAddr, mpsc::Receiver<ErrorKind>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (ends, ended) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, ends) = (stream.unwrap(), ends.clone());
            thread::spawn(move || {
                let mut wanted = [0; 1];
                if stream.read_exact(&mut wanted).is_err() || wanted == ECHO {
                    let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
                    return;
                }
                let error = loop {
                    if let Err(error) = stream.write_all(&[7; 16 << 10]) {
                        break error;
                    }
                };
                let _ = ends.send(error.kind());
            });
        }
    });
    (address, ended)
}

/// A client of `server` that gives up soon.
fn connect(server: SocketAddr, fingerprint: &str) -> (Daemon, SocketAddr) {
    let server = server.to_string();
    let args = ["connect", "--server", &server, "--path", "one=127.0.0.1", "two=127.0.0.2"];
    let more = ["--listen", "127.0.0.1:0", "--fingerprint", fingerprint, "--grace", "500ms"];
    let mut client = Daemon::start(&[&args[..], &more].concat());
    let local = client.listening();
    (client, local)
}

/// A connection through the daemons in the middle of an endless transfer.
fn busy(local: SocketAddr) -> TcpStream {
    let mut stream = dial(local);
    stream.write_all(ENDLESS).unwrap();
    stream.read_exact(&mut vec![0; 1 << 20]).unwrap();
    stream
}

/// One exchange of some bytes on a connection of its own.
fn check(local: SocketAddr) {
    let mut stream = dial(local);
    stream.write_all(&[ECHO, b"still there?"].concat()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"still there?");
}

#[test]
fn a_killed_server_ends_what_it_carried_and_its_successor_serves_the_same_client() {
    let state = tempfile::tempdir().unwrap();
    let (target, _ended) = service();
    // Nobody else gets the port between the two.
    let (_held, listen) = reserved();
    let (server, address, fingerprint) = serve_at(listen, state.path(), target);
    let (client, local) = connect(address, &fingerprint);
    let mut stream = busy(local);
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    // The program at this end learns it by a reset, and the log says why and how much had arrived.
    let error = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let line = client.logs("no path to the peer for 500ms");
    assert!(line.contains("bytes sent were acknowledged in order"), "{line}");

    let (_successor, _, same) = serve_at(listen, state.path(), target);
    assert_eq!(same, fingerprint);
    check(local);
}

#[test]
fn a_killed_client_ends_its_connections_at_the_server_and_no_others() {
    let state = tempfile::tempdir().unwrap();
    let (target, ended) = service();
    let dir = state.path().to_str().unwrap();
    let forward = target.to_string();
    let args = ["serve", "--listen", "127.0.0.1:0", "--forward", &forward];
    let more = ["--state-dir", dir, "--grace", "500ms"];
    let mut server = Daemon::start(&[&args[..], &more].concat());
    let fingerprint = server.says("fingerprint");
    let address = server.listening();
    let (doomed, first) = connect(address, &fingerprint);
    let (_other, second) = connect(address, &fingerprint);
    let _stream = busy(first);
    let mut kept = dial(second);
    kept.write_all(ECHO).unwrap();
    doomed.signal("-KILL");
    assert_eq!(doomed.end().0, None);
    server.logs("no path to the peer for 500ms");
    // The service learns that not everything was taken.
    assert!(
        [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe]
            .contains(&ended.recv_timeout(PATIENCE).unwrap())
    );
    kept.write_all(b"not my affair").unwrap();
    let mut answer = [0; 13];
    kept.read_exact(&mut answer).unwrap();
    check(second);
}

#[test]
fn a_secret_that_others_can_read_is_warned_of() {
    let state = tempfile::tempdir().unwrap();
    let token = state.path().join("token");
    std::fs::write(&token, "a secret of some length").unwrap();
    let (token, dir) = (token.to_str().unwrap(), state.path().to_str().unwrap());
    let warned = |mode| {
        std::fs::set_permissions(token, std::fs::Permissions::from_mode(mode)).unwrap();
        let args = ["serve", "--listen", "127.0.0.1:0", "--forward", "127.0.0.1:9"];
        let more = ["--token-file", token, "--state-dir", dir];
        let mut server = Daemon::start(&[&args[..], &more].concat());
        server.says("fingerprint");
        server.listening();
        server.signal("-TERM");
        server.all_it_logged()
    };
    let warning =
        format!("weftline: warning: others can read the secret in {token}; chmod 600 {token}");
    for mode in [0o644, 0o640, 0o604] {
        assert!(warned(mode).contains(&warning), "{mode:o}");
    }
    for mode in [0o600, 0o400] {
        assert!(!warned(mode).contains(&warning), "{mode:o}");
    }
}
