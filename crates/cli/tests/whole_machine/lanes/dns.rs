//! Questions to DNS that the lanes carry to the server's resolver.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

use super::lengths::{NARROW, carry};
use super::*;
use crate::common::{patient, until};

pub(crate) const QUERY: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03far\x07example\x00\x00\x01\x00\x01";

/// A resolver of the server's machine, which answers with what it was asked.
pub(crate) fn resolver(ns: &Netns) -> Arc<AtomicU64> {
    long_resolver(ns, 0)
}

/// The same with answers of so many bytes at least.
fn long_resolver(ns: &Netns, least: usize) -> Arc<AtomicU64> {
    let socket = ns.run(|| UdpSocket::bind("127.0.0.1:53")).unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            count.fetch_add(1, Ordering::SeqCst);
            buffer[2] |= 0x80;
            let _ = socket.send_to(&buffer[..length.max(least)], from);
        }
    });
    asked
}

/// Starts the server with a resolver on its own machine in its resolv.conf(5).
pub(crate) fn serve_with_resolver(net: &Network, more: &[&str]) -> (Daemon, String) {
    let file = net.state.path().join("resolv.conf");
    fs::write(&file, "nameserver 127.0.0.1\n").unwrap();
    let program = weftline(&[]);
    let mut command = net.server.command("unshare");
    let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&file);
    command.arg(program.get_program());
    net.serve_by(command, more)
}

#[test]
fn questions_to_dns_are_answered_by_the_server_s_resolver() {
    let Some(net) = Network::set_up() else { return };
    let asked = resolver(&net.server);
    let (_server, invite) = serve_with_resolver(&net, &["--listen", "0.0.0.0:0"]);
    // On the link's own network, as most machines have it.
    let router = net.server.run(|| UdpSocket::bind("192.168.1.1:53")).unwrap();
    router.set_nonblocking(true).unwrap();
    let up = up(&net, &invite);
    for to in ["192.168.1.1:53", "192.0.2.53:53", "[2001:db8:77::53]:53"] {
        let answer = ask(&net, to.parse().unwrap(), QUERY);
        assert_eq!(answer.len(), QUERY.len());
        assert_eq!((&answer[..2], answer[2] & 0x80), (&QUERY[..2], 0x80));
    }
    assert!(asked.load(Ordering::SeqCst) >= 3);
    let nobody = router.recv_from(&mut [0; 64]).map_err(|error| error.kind());
    assert_eq!(nobody.unwrap_err(), io::ErrorKind::WouldBlock, "the router is not asked");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));

    // Switched off, it is.
    fs::write(net.state.path().join("up.toml"), "dns = \"system\"\n").unwrap();
    let _up = self::up(&net, &invite);
    let socket = socket(&net, true);
    let began = Instant::now();
    loop {
        socket.send_to(QUERY, "192.168.1.1:53").unwrap();
        match router.recv_from(&mut [0; 64]) {
            Ok((_, from)) => break assert_eq!(from.ip().to_string(), "192.168.1.20"),
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Both links carry less than the answer: it is not lost, but says that it is to be asked for by TCP.
#[test]
fn an_answer_to_dns_that_no_link_carries_says_so() {
    let Some(net) = Network::set_up() else { return };
    for link in ["wlan0", "wwan0"] {
        ip(&net.server, &format!("link set {link} mtu 1400"));
    }
    let asked = long_resolver(&net.server, 1345);
    let options = ["--listen", "0.0.0.0:0", "--control", "none"];
    let (_server, invite) = serve_with_resolver(&net, &options);
    let _up = up(&net, &invite);
    carry(&net, [NARROW, NARROW]);
    for to in ["192.0.2.53:53", "[2001:db8:77::53]:53"] {
        let answer = ask(&net, to.parse().unwrap(), QUERY);
        // The one question, and the bit that says that the rest was cut off.
        assert_eq!((answer.len(), answer[2] & 0x82), (QUERY.len(), 0x82), "{to}");
        assert_eq!((&answer[..2], &answer[12..]), (&QUERY[..2], &QUERY[12..]));
    }
    assert!(asked.load(Ordering::SeqCst) >= 2);
}

/// A resolver by TCP, which answers with what it was asked and more; what it was asked.
fn resolver_by_tcp(ns: &Netns, more: usize) -> Arc<Mutex<Vec<Vec<u8>>>> {
    let listener = ns.run(|| TcpListener::bind("127.0.0.1:53")).unwrap();
    let asked = Arc::new(Mutex::default());
    let noted: Arc<Mutex<Vec<Vec<u8>>>> = Arc::clone(&asked);
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // Where this machine stands still the server may have given a question up.
            let Ok(question) = read_message(&mut stream) else { continue };
            noted.lock().unwrap().push(question.clone());
            let _ = write_message(&mut stream, &[&question[..], &vec![9; more]].concat());
        }
    });
    asked
}

fn read_message(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    from.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    from.read_exact(&mut message)?;
    Ok(message)
}

fn write_message(to: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    to.write_all(&[&length[..], message].concat())
}

/// The answer to a question for an address: that of the documentation, if it is one of IPv4.
fn address_for(question: &[u8]) -> Vec<u8> {
    const ADDRESS: &[u8] = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xcb\x00\x71\x09";
    let is_v4 = question[question.len() - 4..] == [0, 1, 0, 1];
    // An answer that has what recursion found, to the one question.
    let header = [&question[..2], &[0x81, 0x80, 0, 1, 0, u8::from(is_v4), 0, 0, 0, 0]].concat();
    [&header[..], &question[12..], if is_v4 { ADDRESS } else { &[] }].concat()
}

/// A program that has the C library look names up, as most have.
#[test]
fn names_are_looked_up_by_tcp_where_no_lane_is_up() {
    let Some(net) = Network::set_up() else { return };
    let listener = net.server.run(|| TcpListener::bind("127.0.0.1:53")).unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let Ok(question) = read_message(&mut stream) else { continue };
            let _ = write_message(&mut stream, &address_for(&question));
        }
    });
    let (_server, invite) = serve_with_resolver(&net, &["--listen", "0.0.0.0:4433"]);
    block_udp(&net, 4433, true);
    let args = [&net.up_args(&invite)[..], &["--strict", "--udp-over-tcp", "off"]].concat();
    let _up = Daemon::spawn(&mut net.command(&net.client, &args));
    let file = net.state.path().join("client.resolv.conf");
    fs::write(&file, "nameserver 192.168.1.1\n").unwrap();
    let script =
        "mount --bind \"$0\" /etc/resolv.conf && exec getent -s hosts:dns ahostsv4 far.example";
    let (mut found, mut said) = (String::new(), String::new());
    until("the name is found", || {
        let mut look = net.client.command("unshare");
        look.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&file);
        let output = look.output().unwrap();
        (found, said) = (text(&output.stdout), text(&output.stderr));
        !found.is_empty() || said.contains("mount")
    });
    assert!(found.starts_with("203.0.113.9 "), "{found} {said}");
}

/// What was cut is asked for by TCP of whom it was asked before: the resolver of the link's own network, or the
/// one that systemd-resolved is told of.
#[test]
fn questions_to_dns_by_tcp_are_answered_by_the_server_s_resolver_too() {
    let Some(net) = Network::set_up() else { return };
    let asked = resolver_by_tcp(&net.server, 3000);
    let (_server, invite) = serve_with_resolver(&net, &["--listen", "0.0.0.0:0"]);
    let router = net.server.run(|| TcpListener::bind("192.168.1.1:53")).unwrap();
    router.set_nonblocking(true).unwrap();
    let _up = up(&net, &invite);
    let ask = |to: &str, question: &[u8]| {
        let mut stream = patient(net.client.run(|| TcpStream::connect(to)).unwrap());
        write_message(&mut stream, question)?;
        read_message(&mut stream)
    };
    for to in ["192.168.1.1:53", "10.87.0.1:53"] {
        let mut answer = Vec::new();
        until("there is an answer", || {
            answer = ask(to, QUERY).unwrap_or_default();
            !answer.is_empty()
        });
        assert_eq!((answer.len(), &answer[..QUERY.len()]), (QUERY.len() + 3000, QUERY), "{to}");
    }
    // Of its own zones it tells nothing.
    let mut transfer = QUERY.to_vec();
    let kind = transfer.len() - 3;
    transfer[kind] = 252;
    ask("192.168.1.1:53", &transfer).unwrap_err();
    let asked = asked.lock().unwrap();
    assert!(asked.len() >= 2 && asked.iter().all(|question| question == QUERY), "{asked:?}");
    let nobody = router.accept().map_err(|error| error.kind());
    assert_eq!(nobody.unwrap_err(), io::ErrorKind::WouldBlock, "the router is not asked");
}
