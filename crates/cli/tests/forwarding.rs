//! The program as its users run it: `serve` and `connect` between TCP programs that know nothing
//! of them.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use common::{
    Daemon, PATIENCE, connect, connect_with, dial, patient, refusing, reserved, serve, serve_at,
    until,
};

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(seed | 1).wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Serves every TCP connection in a thread of its own.
fn target(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(patient(stream.unwrap())));
        }
    });
    address
}

/// Answers with what it got, turned round, once it has got all of it.
fn reversing(mut stream: TcpStream) {
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    got.reverse();
    stream.write_all(&got).unwrap();
}

/// A server and a client in front of `target`.
fn daemons(target: SocketAddr) -> (Daemon, Daemon, SocketAddr, tempfile::TempDir) {
    let state = tempfile::tempdir().unwrap();
    let (server, address, fingerprint) = serve(state.path(), target);
    let (client, local) = connect(address, &fingerprint);
    (server, client, local, state)
}

fn ask(local: SocketAddr, question: &[u8]) -> Vec<u8> {
    let mut stream = dial(local);
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(question).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    })
}

#[test]
fn a_path_that_is_not_there_is_left_out_if_another_one_is() {
    let state = tempfile::tempdir().unwrap();
    let (_server, address, fingerprint) = serve(state.path(), target(reversing));
    let server = address.to_string();
    let args = ["connect", "--server", &server, "--fingerprint", &fingerprint];
    let args = [&args[..], &["--listen", "127.0.0.1:0", "--path", "lte=nosuch0"]].concat();
    let refused = common::failure(2, &args);
    assert!(refused.contains("unknown interface 'nosuch0' (there are: "), "{refused}");
    let mut client = Daemon::start(&[&args[..], &["wifi=127.0.0.1"]].concat());
    client.logs("path lte: unknown interface 'nosuch0'");
    assert_eq!(ask(client.listening(), b"one"), b"eno");
}

#[test]
fn bytes_and_half_closes_pass_both_ways() {
    let (_server, _client, local, _state) = daemons(target(reversing));
    thread::scope(|scope| {
        for n in 0..8_u64 {
            scope.spawn(move || {
                let question = pattern(100 + 700_000 * n as usize, n);
                let mut answer = ask(local, &question);
                answer.reverse();
                assert!(answer == question, "connection {n}");
            });
        }
    });
    assert_eq!(ask(local, b""), b"");
}

#[test]
fn a_target_that_speaks_first_is_heard_without_a_word() {
    let greeting = |mut stream: TcpStream| {
        stream.write_all(b"220 ready\r\n").unwrap();
        let _ = stream.read(&mut [0; 1]);
    };
    let (_server, _client, local, _state) = daemons(target(greeting));
    let mut stream = dial(local);
    let mut got = [0; 11];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"220 ready\r\n");
}

#[test]
fn a_reset_passes_both_ways() {
    let reset = |stream: TcpStream| {
        // Closing with unread bytes resets.
        assert!(stream.peek(&mut [0; 1]).unwrap() > 0);
    };
    let (_server, _client, local, _state) = daemons(target(reset));
    let mut stream = dial(local);
    stream.write_all(b"unread").unwrap();
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    let (ends, ended) = std::sync::mpsc::channel();
    let watch = move |mut stream: TcpStream| {
        stream.write_all(b"hello").unwrap();
        ends.send(stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind())).unwrap();
    };
    let (_server, _client, local, _state) = daemons(target(watch));
    let stream = dial(local);
    until("it has greeted", || match stream.peek(&mut [0; 5]).unwrap() {
        0 => panic!("it has ended"),
        seen => seen == 5,
    });
    drop(stream);
    assert_eq!(ended.recv_timeout(PATIENCE).unwrap(), Err(ErrorKind::ConnectionReset));
}

#[test]
fn an_unreachable_target_resets_and_both_ends_say_why() {
    let (_held, closed) = refusing();
    let (server, client, local, _state) = daemons(closed);
    let mut stream = dial(local);
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let message = format!("cannot reach the forward target {closed}: Connection refused");
    server.logs(&message);
    client.logs(&message);
}

#[test]
fn a_peer_that_speaks_something_else_disturbs_nobody() {
    let state = tempfile::tempdir().unwrap();
    let (server, address, fingerprint) = serve(state.path(), target(reversing));
    let (_client, local) = connect(address, &fingerprint);
    let mut browser = dial(address);
    browser.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = browser.read_to_end(&mut answer);
    assert!(answer.starts_with(b"WEFT"), "{answer:?}");
    server.logs("does not speak weftline (it began with \"GET / HTTP/1.1");
    let mut answer = ask(local, b"still there?");
    answer.reverse();
    assert_eq!(answer, b"still there?");
}

#[test]
fn the_fingerprint_stays_over_a_restart_and_connections_come_back() {
    let state = tempfile::tempdir().unwrap();
    let target = target(reversing);
    // Nobody else gets the port between the two.
    let (_held, listen) = reserved();
    let (server, address, fingerprint) = serve_at(listen, state.path(), target);
    let (client, local) = connect(address, &fingerprint);
    assert_eq!(ask(local, b"abc"), b"cba");
    server.signal("-TERM");
    assert_eq!(server.end(), (Some(0), String::new()));
    let (_server, again, same) = serve_at(listen, state.path(), target);
    assert_eq!((again, same), (address, fingerprint));
    assert_eq!(ask(local, b"def"), b"fed");
    client.signal("-INT");
    assert_eq!(client.end(), (Some(0), String::new()));
}

#[test]
fn a_connection_under_way_may_finish_after_the_first_signal_and_not_after_the_second() {
    // Says when it has the first half: a connection that waits to be taken is not under way.
    let telling = |mut stream: TcpStream| {
        let mut got = vec![0; 4];
        stream.read_exact(&mut got).unwrap();
        stream.write_all(b"+").unwrap();
        stream.read_to_end(&mut got).unwrap();
        got.reverse();
        stream.write_all(&got).unwrap();
    };
    for impatient in [false, true] {
        let state = tempfile::tempdir().unwrap();
        let (server, address, fingerprint) = serve(state.path(), target(telling));
        let (client, local) = connect_with(address, &fingerprint, &["--drain", "1h"]);
        let mut stream = dial(local);
        stream.write_all(b"half").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        client.signal("-TERM");
        // It does not take new connections any more.
        until("it refuses", || TcpStream::connect(local).is_err());
        if impatient {
            client.signal("-TERM");
            let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            server.logs("the other side is shutting down");
        } else {
            stream.write_all(b" done").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, b"enod flah");
        }
        assert_eq!(client.end().0, Some(0));
    }
}

#[test]
fn everything_can_stand_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let token = file("token", "a secret of some length\n");
    let (target, state) = (target(reversing), dir.path().join("state"));
    let server = file(
        "serve.toml",
        &format!(
            "listen = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\nforward = \"{target}\"\n\
             state-dir = \"{}\"\ntoken-file = \"{token}\"\nmax-memory = \"64MiB\"\n",
            state.display()
        ),
    );
    let mut server = Daemon::start(&["serve", "--config", &server]);
    let fingerprint = server.says("fingerprint");
    let (one, two) = (server.listening(), server.listening());
    let client = file(
        "connect.toml",
        &format!(
            "server = [\"{one}\", \"{two}\"]\npath = [\"a=127.0.0.1\", \"b=lo\"]\n\
             listen = \"127.0.0.1:1\"\nfingerprint = \"{fingerprint}\"\ntoken-file = \"{token}\"\n\
             scheduler = \"min-rtt\"\ncongestion = \"reno\"\nready = 1\n"
        ),
    );
    let mut client = Daemon::start(&["connect", "--config", &client, "--listen", "127.0.0.1:0"]);
    let local = client.listening();
    let mut answer = ask(local, &pattern(1_000_000, 5));
    answer.reverse();
    assert!(answer == pattern(1_000_000, 5));
}

/// Asks the SOCKS proxy at `local` for `request` and returns the stream with the reply's code.
fn socks(local: SocketAddr, request: &[u8]) -> (TcpStream, u8) {
    let mut stream = dial(local);
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    stream.write_all(&[&[5, 1, 0], request].concat()).unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    (stream, reply[1])
}

#[test]
fn a_socks_proxy_reaches_what_the_server_can_reach() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "a secret of some length").unwrap();
    let (token, state) = (token.to_str().unwrap(), dir.path().to_str().unwrap());
    let mut server = Daemon::start(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--socks",
        "--token-file",
        token,
        "--state-dir",
        state,
    ]);
    let fingerprint = server.says("fingerprint");
    let address = server.listening().to_string();
    let client = |service: &str| {
        let mut client = Daemon::start(&[
            "connect",
            "--server",
            &address,
            "--path",
            "one=127.0.0.1",
            "two=127.0.0.2",
            service,
            "127.0.0.1:0",
            "--fingerprint",
            &fingerprint,
            "--token-file",
            token,
        ]);
        let local = client.listening();
        (client, local)
    };
    let (proxy, local) = client("--socks");

    let port = target(reversing).port().to_be_bytes();
    let by_address = [&[1, 127, 0, 0, 1][..], &port].concat();
    let by_name = [&b"\x03\x09localhost"[..], &port].concat();
    for request in [by_address, by_name] {
        let (mut stream, code) = socks(local, &request);
        assert_eq!(code, 0);
        stream.write_all(b"there").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ereht");
    }

    let (_held, closed) = refusing();
    let (mut stream, code) =
        socks(local, &[&[1, 127, 0, 0, 1][..], &closed.port().to_be_bytes()].concat());
    assert_eq!((code, stream.read(&mut [0; 1]).unwrap()), (5, 0));
    server.logs(&format!("cannot reach {closed}: Connection refused"));
    proxy.logs(&format!("the server cannot reach {closed} (reply 5)"));

    // A client that does not say where to is told what is missing.
    let (plain, local) = client("--listen");
    let mut stream = dial(local);
    assert!(stream.read_to_end(&mut Vec::new()).is_err());
    plain.logs("this server wants to be told where to connect: use SOCKS");
}

#[test]
fn plaintext_warns_on_both_sides() {
    let target = target(reversing).to_string();
    let mut server = Daemon::start(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--forward",
        &target,
        "--insecure-plaintext",
    ]);
    let address = server.listening().to_string();
    let mut client = Daemon::start(&[
        "connect",
        "--server",
        &address,
        "--path",
        "one=127.0.0.1",
        "--listen",
        "127.0.0.1:0",
        "--insecure-plaintext",
        "--ready",
        "0",
    ]);
    assert_eq!(ask(client.listening(), b"open"), b"nepo");
    for daemon in [server, client] {
        daemon.logs("weftline: warning: --insecure-plaintext: anybody on the way can read");
    }
}

/// A server with `--socks` whose token file has the lines of `tokens`, and how to start clients of it.
fn proxy_server(
    dir: &std::path::Path,
    tokens: &str,
) -> (Daemon, impl Fn(&str, &[&str]) -> Daemon + use<>) {
    let token_file = secret(dir, "tokens", tokens);
    let state = dir.to_str().unwrap().to_owned();
    let mut server = Daemon::start(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--socks",
        "--token-file",
        &token_file,
        "--state-dir",
        &state,
    ]);
    let fingerprint = server.says("fingerprint");
    let address = server.listening().to_string();
    let client = move |token: &str, more: &[&str]| {
        let common = [
            "connect",
            "--server",
            &address,
            "--path",
            "one=127.0.0.1",
            "--socks",
            "127.0.0.1:0",
            "--fingerprint",
            &fingerprint,
            "--token-file",
            token,
        ];
        let args: Vec<&str> = common.into_iter().chain(more.iter().copied()).collect();
        Daemon::start(&args)
    };
    (server, client)
}

/// A file that only its owner can read.
fn secret(dir: &std::path::Path, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_socks_proxy_with_users_lets_in_those_only() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = proxy_server(dir.path(), "alice: a secret of some length\n");
    let token = secret(dir.path(), "token", "a secret of some length\n");
    let users = dir.path().join("users");
    std::fs::write(&users, "bob:let me in\n").unwrap();
    let mut proxy = client(&token, &["--socks-users", users.to_str().unwrap()]);
    let local = proxy.listening();
    server.logs("client 'alice' has come, from 127.0.0.1");
    let login = |password: &[u8]| {
        let mut stream = dial(local);
        let length = password.len() as u8;
        stream.write_all(&[&[5, 1, 2, 1, 3][..], b"bob", &[length], password].concat()).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        (stream, answer)
    };
    let (mut stream, answer) = login(b"let me in");
    assert_eq!(answer, [5, 2, 1, 0]);
    let port = target(reversing).port().to_be_bytes();
    stream.write_all(&[&b"\x05\x01\x00\x03\x09localhost"[..], &port].concat()).unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[1], 0);
    stream.write_all(b"there").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "ereht");
    let (mut stream, answer) = login(b"let me out");
    assert_eq!((answer, stream.read(&mut [0; 1]).unwrap_or(0)), ([5, 2, 1, 1], 0));
    proxy.logs("a wrong SOCKS user name or password");
}

#[test]
fn a_client_is_shut_out_by_taking_its_token_away() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = ("alice: the first of two secrets\n", "bob: the second of two secrets\n");
    let (server, client) = proxy_server(dir.path(), &format!("# who may\n{alice}{bob}"));
    let (hers, his) = (secret(dir.path(), "hers", alice), secret(dir.path(), "his", bob));
    let (mut first, mut second) = (client(&hers, &[]), client(&his, &[]));
    let (closed_to_her, open_to_him) = (first.listening(), second.listening());
    let port = target(reversing).port().to_be_bytes();
    let request = [&[1, 127, 0, 0, 1][..], &port].concat();
    let (mut hers, code) = socks(closed_to_her, &request);
    assert_eq!(code, 0);
    secret(dir.path(), "tokens", bob);
    server.signal("-HUP");
    server.logs("connections of clients whose token is gone were reset");
    // The connection that was open is cut, and she does not come back.
    assert!(hers.read(&mut [0; 1]).is_err());
    server.logs("this server wants a token");
    let (mut stream, code) = socks(open_to_him, &request);
    assert_eq!(code, 0);
    stream.write_all(b"still").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "llits");
    // Nonsense in the file changes nothing.
    secret(dir.path(), "tokens", "short\n");
    server.signal("-HUP");
    server.logs("nothing has changed");
    assert_eq!(socks(open_to_him, &request).1, 0);
}
