//! The server of files over real sockets.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::os::unix::fs::symlink;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::pace::PAUSE;
use super::*;
use crate::stopped::{Bounded, Stopped};

/// More than the buffers of a connection hold.
const LARGE: usize = 16 << 20;

/// An open server, as its clients see it.
struct Open {
    _dir: tempfile::TempDir,
    server: FileServer,
    _bounded: Bounded,
}

/// What came as an answer.
struct Got {
    head: String,
    body: Vec<u8>,
}

impl Got {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The value of a field, if there is one.
    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A directory beside which there is a secret.
fn dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("package");
    fs::create_dir_all(root.join("whole/q32")).unwrap();
    fs::write(root.join("manifest.mpd"), "<MPD/>").unwrap();
    fs::write(root.join("whole/q32/init.mp4"), "0123456789").unwrap();
    fs::write(root.join("whole/q32/000000.m4s"), vec![7; LARGE]).unwrap();
    fs::write(root.join("whole/q32/empty.m4s"), "").unwrap();
    fs::create_dir(root.join("private")).unwrap();
    for other in ["notes.txt", "keys.mp4", "whole/q32/key", "private/key.m4s"] {
        fs::write(root.join(other), "secret").unwrap();
    }
    fs::write(dir.path().join("secret"), "secret").unwrap();
    symlink(dir.path().join("secret"), root.join("out.mp4")).unwrap();
    dir
}

fn settings(dir: &tempfile::TempDir, address: &str, allow_origin: Option<&str>) -> FileSettings {
    let allow_origin = allow_origin.map(str::to_owned);
    FileSettings {
        dir: dir.path().join("package"),
        address: address.parse().unwrap(),
        allow_origin,
    }
}

impl Open {
    async fn new(address: &str, allow_origin: Option<&str>) -> Self {
        let dir = dir();
        let server = FileServer::open(&settings(&dir, address, allow_origin)).await.unwrap();
        Self { _dir: dir, server, _bounded: Bounded::new() }
    }

    async fn connect(&self) -> TcpStream {
        let address = SocketAddr::from(([127, 0, 0, 1], self.server.address().port()));
        TcpStream::connect(address).await.unwrap()
    }

    /// The answer to these bytes.
    async fn ask(&self, request: &str) -> Got {
        let mut stream = self.connect().await;
        // It may be refused before all of it is there.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
        let body = answer.split_off((end + 4).min(answer.len()));
        Got { head: String::from_utf8(answer).unwrap(), body }
    }

    async fn request(&self, method: &str, path: &str, more: &str) -> Got {
        let host = "Host: 127.0.0.1\r\nConnection: close\r\n";
        self.ask(&format!("{method} {path} HTTP/1.1\r\n{host}{more}\r\n")).await
    }

    async fn get(&self, path: &str, more: &str) -> Got {
        self.request("GET", path, more).await
    }
}

#[tokio::test]
async fn files_are_as_they_are() {
    let open = Open::new("127.0.0.1:0", None).await;
    for (path, kind, length) in [
        ("/manifest.mpd", "application/dash+xml", 6),
        ("/whole/q32/init.mp4", "video/mp4", 10),
        ("/whole/q32/000000.m4s", "video/iso.segment", LARGE),
        ("/whole/q32/empty.m4s", "video/iso.segment", 0),
        ("/%77hole/q32/init.mp4?from=cache", "video/mp4", 10),
    ] {
        let got = open.get(path, "").await;
        assert_eq!((got.status(), got.body.len()), (200, length), "{path} {}", got.head);
        assert_eq!(got.field("content-type"), Some(kind));
        let head = open.request("HEAD", path, "").await;
        assert_eq!((head.status(), head.body.len()), (200, 0), "{path} {}", head.head);
        for got in [&got, &head] {
            assert_eq!(got.field("content-length"), Some(&*length.to_string()), "{}", got.head);
            assert_eq!(got.field("accept-ranges"), Some("bytes"));
            assert_eq!(got.field("x-content-type-options"), Some("nosniff"));
            // Other origins' pages cannot read it.
            assert_eq!(got.field("access-control-allow-origin"), None);
            assert_eq!(got.field("cross-origin-resource-policy"), Some("same-origin"));
        }
    }
    // One after the other over the same connection.
    let twice = "GET /manifest.mpd HTTP/1.1\r\nHost: localhost\r\n\r\n\
                 GET /whole/q32/init.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let got = open.ask(twice).await;
    let rest = String::from_utf8(got.body).unwrap();
    assert!(rest.starts_with("<MPD/>HTTP/1.1 200") && rest.ends_with("0123456789"), "{rest}");
}

#[tokio::test]
async fn parts_are_served() {
    let open = Open::new("127.0.0.1:0", None).await;
    let path = "/whole/q32/init.mp4";
    for (range, body, place) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=5-500", "56789", "bytes 5-9/10"),
    ] {
        let got = open.get(path, &format!("Range: {range}\r\n")).await;
        assert_eq!((got.status(), &*got.body), (206, body.as_bytes()), "{}", got.head);
        assert_eq!(got.field("content-range"), Some(place));
        assert_eq!(got.field("content-length"), Some(&*body.len().to_string()));
    }
    for whole in ["Range: bytes=0-1,4-5", "Range: x", "Range: bytes=0-1\r\nIf-Range: \"tag\""] {
        let got = open.get(path, &format!("{whole}\r\n")).await;
        assert_eq!((got.status(), got.body.len()), (200, 10), "{whole}: {}", got.head);
    }
    let got = open.get(path, "Range: bytes=10-\r\n").await;
    assert_eq!((got.status(), got.field("content-range")), (416, Some("bytes */10")));
    let got = open.get("/whole/q32/empty.m4s", "Range: bytes=0-\r\n").await;
    assert_eq!((got.status(), got.field("content-range")), (416, Some("bytes */0")));
}

#[tokio::test]
async fn nothing_else_is_served() {
    let open = Open::new("127.0.0.1:0", None).await;
    for path in [
        "/",
        "/whole",
        "/whole/",
        "/none",
        "/notes.txt",
        "/keys.mp4",
        "/whole/q32/key",
        "/private/key.m4s",
        "/../secret",
        "/whole/../../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/whole/%2e%2e/%2e%2e/secret",
        "/%252e%252e/secret",
        "/out.mp4",
        "/manifest.mpd%00",
        "/manifest.mpd/",
        "//manifest.mpd",
        "/..%5csecret",
        "/%",
        "/%f",
        "http://127.0.0.1/../secret",
    ] {
        let got = open.get(path, "").await;
        assert_eq!(got.status(), 404, "{path}: {}", got.head);
        assert!(!got.body.starts_with(b"secret"));
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
        let got = open.request(method, "/manifest.mpd", "").await;
        assert_eq!((got.status(), got.field("allow")), (405, Some(METHODS)), "{}", got.head);
    }
    for (request, status) in [
        ("GET /manifest.mpd HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (
            "GET /manifest.mpd HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            400,
        ),
        ("GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET \r\n\r\n", 400),
        ("\x16\x03\x01\x02\0\x01\0\x01\u{7f}\r\n\r\n", 400),
    ] {
        let got = open.ask(request).await;
        assert_eq!(got.status(), status, "{request:?}: {}", got.head);
    }
    let long = format!("/{}", "a".repeat(MAX_HEAD));
    let got = open.get(&long, "").await;
    assert!(matches!(got.status(), 414 | 431), "{}", got.head);
    let many = format!("X: {}\r\n", "b".repeat(MAX_HEAD));
    assert_eq!(open.get("/manifest.mpd", &many).await.status(), 431);
    // A body is not waited for.
    let got = open.get("/manifest.mpd", "Content-Length: 1000000000000\r\n").await;
    assert_eq!(got.status(), 200);
}

#[tokio::test]
async fn foreign_names_and_pages_are_refused_unless_they_are_let_in() {
    let open = Open::new("127.0.0.1:0", None).await;
    let named = |host: &str| {
        format!("GET /manifest.mpd HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    };
    for host in
        ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", ""]
    {
        let got = open.ask(&named(host)).await;
        assert_eq!(got.status(), 403, "{host}: {}", got.head);
        assert!(String::from_utf8_lossy(&got.body).contains("--listen"));
    }
    for host in ["127.0.0.1:9", "localhost", "LOCALHOST:80", "[::1]:80", "10.0.0.1"] {
        assert_eq!(open.ask(&named(host)).await.status(), 200, "{host}");
    }
    let asked = "Origin: https://player.example\r\nAccess-Control-Request-Method: GET\r\n\
                 Access-Control-Request-Headers: range\r\n";
    let got = open.request("OPTIONS", "/manifest.mpd", asked).await;
    assert_eq!((got.status(), got.field("access-control-allow-origin")), (204, None));
    assert_eq!(got.field("access-control-allow-headers"), None);

    // What is reached from elsewhere has any name.
    let open = Open::new("0.0.0.0:0", Some("https://player.example")).await;
    assert_eq!(open.ask(&named("media.example")).await.status(), 200);
    for got in [
        open.request("OPTIONS", "/manifest.mpd", asked).await,
        open.get("/manifest.mpd", "").await,
        open.get("/none", "").await,
    ] {
        assert_eq!(got.field("access-control-allow-origin"), Some("https://player.example"));
        assert_eq!(got.field("access-control-allow-credentials"), None);
        assert_eq!(got.field("cross-origin-resource-policy"), Some("same-origin"));
    }
    let all = Open::new("127.0.0.1:0", Some("*")).await;
    let got = all.get("/manifest.mpd", "").await;
    assert_eq!(got.field("access-control-allow-origin"), Some("*"));
    assert_eq!(got.field("cross-origin-resource-policy"), Some("cross-origin"));
    let got = open.request("OPTIONS", "/manifest.mpd", asked).await;
    assert_eq!(got.field("access-control-allow-headers"), Some("Range"));
}

#[tokio::test]
async fn what_is_no_origin_or_directory_is_refused() {
    let dir = dir();
    for origin in [
        "",
        "player.example",
        "https://player.example/",
        "https://player.example/path",
        "null",
        "file:///",
        "ftp://player.example",
        "https://me@player.example",
        "https://a\r\nX: b",
        "**",
        "https://Player.Example",
        "HTTPS://player.example",
        "https://player.example:443",
        "http://[::1]:80",
        "http://player.example:08080",
        "https://player.example:",
        "https://player.example:0",
        "https://player.example:99999",
        "https://*.example",
        "https://",
        "https://:8443",
    ] {
        let error = FileServer::open(&settings(&dir, "127.0.0.1:0", Some(origin))).await;
        assert!(matches!(error, Err(FilesError::Origin(_))), "{origin:?} {error:?}");
    }
    for origin in ["*", "https://player.example", "http://127.0.0.1:8080", "http://[::1]:443"] {
        FileServer::open(&settings(&dir, "127.0.0.1:0", Some(origin))).await.unwrap();
    }
    let nowhere =
        FileSettings { dir: dir.path().join("none"), ..settings(&dir, "127.0.0.1:0", None) };
    let error = FileServer::open(&nowhere).await.unwrap_err().to_string();
    assert!(error.contains("/none: ") && error.contains("a package?"), "{error}");
}

/// Time is tokio's here, which goes on by itself when nothing else can.
#[tokio::test(start_paused = true)]
async fn clients_that_do_not_go_on_are_ended_and_keep_nobody_out() {
    let open = Open::new("127.0.0.1:0", None).await;
    // As many as there are places, of three kinds: half a head, nothing, and a large file that is not taken.
    let began = Instant::now();
    let mut slow = Vec::new();
    let large = "GET /whole/q32/000000.m4s HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for at in 0..MAX_CONNECTIONS {
        let mut stream = open.connect().await;
        let begun = ["GET /manifest.mpd HTTP/1.1\r\nHost:", "", large][at % 3];
        stream.write_all(begun.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let got = open.get("/manifest.mpd", "").await;
    assert_eq!(got.status(), 200);
    assert!(began.elapsed() >= PATIENCE, "the others had their time first");
    tokio::time::sleep(PAUSE).await;
    for (at, mut stream) in slow.into_iter().enumerate() {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        // hyper says so to half a head.
        assert!(rest.len() < LARGE, "{at}");
    }
}

/// A player whose buffer is full pauses for longer than one may take to ask, and has all of it afterwards.
#[tokio::test(start_paused = true)]
async fn who_pauses_has_the_rest_afterwards() {
    let open = Open::new("127.0.0.1:0", None).await;
    let mut stream = open.connect().await;
    let large =
        "GET /whole/q32/000000.m4s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    // What is on its way between two sockets is nothing that tokio's clock waits for.
    let stopped = Stopped::now();
    stream.write_all(large.as_bytes()).await.unwrap();
    let mut first = [0; 1_000];
    stream.read_exact(&mut first).await.unwrap();
    drop(stopped);
    tokio::time::sleep(PAUSE - PATIENCE).await;
    let _stopped = Stopped::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > LARGE - 1_000, "{}", rest.len());
}

/// A file that is cut while it is sent ends the connection before what was promised.
#[tokio::test]
async fn a_file_that_is_cut_meanwhile_is_not_padded() {
    let open = Open::new("127.0.0.1:0", None).await;
    let mut stream = open.connect().await;
    let large = "GET /whole/q32/000000.m4s HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(large.as_bytes()).await.unwrap();
    let mut first = [0; 1_000];
    stream.read_exact(&mut first).await.unwrap();
    let path = open._dir.path().join("package/whole/q32/000000.m4s");
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(PIECE_AND_MORE).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < LARGE - 1_000 && rest.iter().rev().take(100).all(|byte| *byte == 7));
}

/// Where the file is cut: within its first tenth.
const PIECE_AND_MORE: u64 = 1_000_000;
