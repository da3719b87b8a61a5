//! The server over real sockets. Time is tokio's, which goes on by itself when nothing else can: no
//! test waits, and none depends on how fast the machine is. What is on its way between two sockets is
//! nothing that tokio knows of, so the clock stands still until a request is answered: see [`Stopped`].

use std::io::Read as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::rates::tests::path;
use crate::source::{Event, EventLevel, Look, WeaveLook, WeaveSource};
use crate::stopped::{Bounded, HANGS, Stopped};

/// A program whose path sends a megabyte between two looks, and to which as many things happen.
#[derive(Default)]
struct Program {
    looks: AtomicUsize,
    events: usize,
    /// How many record the weave of connection 5.
    recorded: Arc<AtomicUsize>,
}

/// So many connections make a long answer.
const HUGE: usize = 999;

/// One that records it, for two looks.
struct Recorder(Arc<AtomicUsize>, usize);

impl WeaveSource for Recorder {
    fn look(&mut self) -> Option<WeaveLook> {
        self.1 = self.1.checked_sub(1)?;
        Some(WeaveLook { names: [(0, "wifi".into())].into(), ..WeaveLook::default() })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Source for Program {
    fn status(&self, connections: usize) -> String {
        match connections {
            // More than the kernel holds of an answer that nobody takes.
            HUGE => "x".repeat(32 << 20),
            _ => format!("{{\"listed\":{connections}}}"),
        }
    }

    fn look(&self) -> Look {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed) as u64;
        let event = Event {
            name: "path_down",
            level: EventLevel::Error,
            path: Some("wifi".into()),
            text: "x".repeat(300),
        };
        Look {
            state: "running".to_owned(),
            paths: vec![path("wifi", looks * 1_000_000, 0)],
            events: vec![event; self.events],
            ..Look::default()
        }
    }

    fn weave(&self, connection: u64) -> Option<Box<dyn WeaveSource>> {
        let looks = [(5, usize::MAX), (6, 2)].into_iter().find(|(number, _)| *number == connection);
        let (_, looks) = looks?;
        self.recorded.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(Recorder(Arc::clone(&self.recorded), looks)))
    }
}

/// An open dashboard, as its clients see it.
struct Open {
    address: SocketAddr,
    token: String,
    dashboard: Dashboard,
    recorded: Arc<AtomicUsize>,
    _bounded: Bounded,
}

/// The time by tokio's clock.
fn by_tokio() -> Clock {
    let began = tokio::time::Instant::now();
    Box::new(move || began.elapsed())
}

impl Open {
    async fn new(events: usize) -> Self {
        Self::by(events, by_tokio()).await
    }

    async fn by(events: usize, clock: Clock) -> Self {
        let program = Program { events, ..Program::default() };
        let recorded = Arc::clone(&program.recorded);
        Self::of(Arc::new(program), recorded, clock).await
    }

    async fn of(program: Arc<dyn Source>, recorded: Arc<AtomicUsize>, clock: Clock) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings =
            Settings { address, names: Vec::new(), program: guard::Program::Daemon, tls: None };
        let dashboard = Dashboard::open_by(&settings, program, clock).await.unwrap();
        let (address, token) = dashboard.url().split_once("/#k=").unwrap();
        let address = address.strip_prefix("http://").unwrap().parse().unwrap();
        let (token, _bounded) = (token.to_owned(), Bounded::new());
        Self { address, token, dashboard, recorded, _bounded }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The whole answer to a request as it is, before anything has lasted too long.
    async fn ask(&self, request: &str) -> String {
        let _stopped = Stopped::now();
        self.ask_and_wait(request).await
    }

    /// The same of what is refused before all of it is read. Then the connection may be reset before the
    /// answer is there, but not each time.
    async fn ask_until_told(&self, request: &str) -> String {
        let begun = Instant::now();
        loop {
            let answer = self.ask(request).await;
            if !answer.is_empty() {
                return answer;
            }
            assert!(begun.elapsed() < HANGS, "it never says why");
        }
    }

    /// The same, however long it takes.
    async fn ask_and_wait(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        // It may be refused before all of it is there.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    /// The answer to `GET` with the token, and these lines of the head.
    async fn get(&self, path: &str, more: &str) -> String {
        self.ask(&self.request(path, more)).await
    }

    fn request(&self, path: &str, more: &str) -> String {
        format!("GET {path} HTTP/1.1\r\n{}{more}\r\n", self.own())
    }

    /// The head of a request that is let in.
    fn own(&self) -> String {
        format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.token)
    }

    /// A page that watches, after the first of what it is sent has come.
    async fn watch(&self, more: &str) -> (TcpStream, String) {
        self.watch_with("", more).await
    }

    /// The same with a query.
    async fn watch_with(&self, query: &str, more: &str) -> (TcpStream, String) {
        let _stopped = Stopped::now();
        let mut stream = self.connect().await;
        let request = format!("GET /api/1/stream{query} HTTP/1.1\r\n{}{more}\r\n", self.own());
        stream.write_all(request.as_bytes()).await.unwrap();
        let text = read_to(&mut stream, "\n\n").await;
        (stream, text)
    }
}

/// Reads until `end` has come, or all.
async fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(end) {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await.unwrap() {
            0 => break,
            n => text.extend_from_slice(&buffer[..n]),
        }
    }
    String::from_utf8(text).unwrap()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("'{answer}'")).parse().unwrap()
}

const API: [&str; 4] = ["/api/1/status", "/api/1/history", "/api/1/stream", "/api/1/other"];

#[tokio::test(start_paused = true)]
async fn on_loopback_too_nothing_is_told_without_the_token() {
    let open = Open::new(0).await;
    for path in API {
        let answer = open.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        assert_eq!(status(&answer), 401, "{answer}");
        assert!(answer.contains("weftline status --url"), "{answer}");
    }
    // The page itself says nothing of the daemon.
    for path in ["/", "/a/dashboard.js", "/a/dashboard.css", "/a/icon.svg", "/a/licenses.txt"] {
        let answer = open.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        assert_eq!(status(&answer), 200, "{answer}");
    }
    assert_eq!(status(&open.get("/api/1/status", "").await), 200);

    // As the page does it: the token for a cookie.
    let (address, token) = (open.address, &open.token);
    let body = format!("{{\"token\":\"{token}\"}}");
    let head = format!("Host: {address}\r\nOrigin: http://{address}\r\nContent-Length: 44\r\n");
    let answer = open.ask(&format!("POST /api/1/session HTTP/1.1\r\n{head}\r\n{body}")).await;
    assert_eq!(status(&answer), 200, "{answer}");
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let pair = cookie.split(';').next().unwrap();
    let head = format!("Host: {address}\r\nCookie: {pair}\r\n");
    let answer = open.ask(&format!("GET /api/1/status HTTP/1.1\r\n{head}\r\n")).await;
    assert!(answer.ends_with("{\"listed\":50}"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_name_and_a_foreign_page_are_refused_with_the_remedy() {
    let open = Open::new(0).await;
    for path in ["/", "/api/1/status"] {
        let answer = open.ask(&format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n")).await;
        assert_eq!(status(&answer), 403, "{answer}");
        assert!(answer.contains("--behind-proxy evil.example"), "{answer}");
    }
    let (address, token) = (open.address, &open.token);
    let body = format!("{{\"token\":\"{token}\"}}");
    for more in ["", "Origin: http://evil.example\r\n", "Origin: http://127.0.0.1:1\r\n"] {
        let head = format!("Host: {address}\r\n{more}Content-Length: 44\r\n");
        let answer = open.ask(&format!("POST /api/1/session HTTP/1.1\r\n{head}\r\n{body}")).await;
        assert_eq!(status(&answer), 403, "{answer}");
        assert!(!answer.contains("set-cookie"), "{answer}");
    }
    let answer = open.get("/api/1/stream", "Sec-Fetch-Site: same-site\r\n").await;
    assert_eq!(status(&answer), 403, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_the_policy_and_none_lets_other_origins_read() {
    let open = Open::new(0).await;
    let mut answers = vec![
        open.get("/", "").await,
        open.get("/a/dashboard.js", "").await,
        open.get("/a/none", "").await,
        open.get("/api/1/status", "").await,
        open.get("/api/1/history", "").await,
        open.get("/api/2/status", "").await,
        open.get("/api/1/session", "").await,
        open.ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").await,
        open.ask("GET /api/1/status HTTP/1.1\r\nHost: localhost\r\n\r\n").await,
        open.ask(&format!("DELETE / HTTP/1.1\r\n{}\r\n", open.own())).await,
    ];
    answers.push(open.watch("").await.1);
    let seen: Vec<u16> = answers.iter().map(|answer| status(answer)).collect();
    assert_eq!(seen, [200, 200, 404, 200, 200, 404, 204, 403, 401, 405, 200]);
    for answer in answers {
        assert!(answer.contains("content-security-policy: default-src 'none'; "), "{answer}");
        assert!(answer.contains("x-content-type-options: nosniff"), "{answer}");
        assert!(answer.contains("referrer-policy: no-referrer"), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_pages_files_come_packed_and_only_once() {
    let open = Open::new(0).await;
    let ask = async |more: &str| {
        let request = format!("GET /a/dashboard.css HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        let mut stream = open.connect().await;
        let _stopped = Stopped::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
    };
    let bytes = assets::find("dashboard.css").unwrap().bytes;
    let (head, plain) = ask("").await;
    assert!(plain == bytes && !head.contains("content-encoding"), "{head}");
    let (head, packed) = ask("Accept-Encoding: gzip\r\n").await;
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked)
        .unwrap();
    assert!(unpacked == bytes && packed.len() < bytes.len() / 2, "{} bytes", packed.len());
    assert!(head.contains("content-encoding: gzip\r\n"), "{head}");
    // It is asked for each time, and sent only if it is another one.
    assert!(head.contains("cache-control: no-cache"), "{head}");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let strong = tag.strip_prefix("W/").expect("both codings have it");
    for (named, is_known) in [
        (tag, true),
        ("*", true),
        (&*format!("\"other\", {tag}"), true),
        (strong, true),
        ("\"other\"", false),
    ] {
        let (head, body) = ask(&format!("If-None-Match: {named}\r\n")).await;
        assert_eq!(status(&head) == 304 && body.is_empty(), is_known, "{named}: {head}");
    }
    // What is told of the daemon is kept nowhere.
    assert!(open.get("/api/1/status", "").await.contains("cache-control: no-store"));
}

#[tokio::test(start_paused = true)]
async fn a_page_can_ask_whether_it_has_a_session() {
    let open = Open::new(0).await;
    assert_eq!(status(&open.get("/api/1/session", "").await), 204);
    let stranger = "GET /api/1/session HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(status(&open.ask(stranger).await), 401);
    let foreign = open.get("/api/1/session", "Sec-Fetch-Site: cross-site\r\n").await;
    assert_eq!(status(&foreign), 403);
}

#[tokio::test(start_paused = true)]
async fn a_page_is_sent_samples_and_what_it_has_missed() {
    let open = Open::new(1).await;
    let (mut stream, first) = open.watch("").await;
    assert!(first.contains("content-type: text/event-stream"), "{first}");
    assert!(first.contains("event: hello") && first.contains("\"resumed\":false"), "{first}");
    // A megabyte in half a second is 16 Mb/s, by this clock to a thousandth.
    let text = read_to(&mut stream, "[\"wifi\",\"up\",16.0,").await;
    assert!(text.contains("event: event") && text.contains("path_down"), "{text}");
    let last = text.lines().rfind(|line| line.starts_with("id: ")).unwrap();
    drop(stream);
    let last = last.strip_prefix("id: ").unwrap();
    let (_, again) = open.watch(&format!("Last-Event-ID: {last}\r\n")).await;
    assert!(again.contains("\"resumed\":true"), "{again}");
    let (_, fresh) = open.watch("Last-Event-ID: 0-5\r\n").await;
    assert!(fresh.contains("\"resumed\":false"), "{fresh}");

    let history = open.get("/api/1/history", "").await;
    let body = history.split("\r\n\r\n").nth(1).unwrap();
    let history: serde_json::Value = serde_json::from_str(body).unwrap();
    let rows = history["t"].as_array().unwrap().len();
    assert!(rows >= 2 && history["paths"][0]["send"].as_array().unwrap().len() == rows);
    assert!(!history["events"].as_array().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn times_go_on_while_the_machine_sleeps() {
    let slept = Arc::new(AtomicU64::new(0));
    let (awake, asleep) = (by_tokio(), Arc::clone(&slept));
    let clock = move || awake() + Duration::from_secs(asleep.load(Ordering::Relaxed));
    let open = Open::by(1, Box::new(clock)).await;
    let (mut stream, _) = open.watch("").await;
    read_to(&mut stream, "event: sample").await;
    slept.store(3600, Ordering::Relaxed);
    // What was under way is of before.
    for _ in 0..20 {
        read_to(&mut stream, "event: sample").await;
    }
    let history = open.get("/api/1/history", "").await;
    let body = history.split("\r\n\r\n").nth(1).unwrap();
    let history: serde_json::Value = serde_json::from_str(body).unwrap();
    for t in [&history["t"], &history["events"]] {
        let last = t.as_array().unwrap().last().unwrap();
        let last = last.as_f64().or(last["t"].as_f64()).unwrap();
        assert!((3600.0..7200.0).contains(&last), "{last}");
    }
}

/// A program that counts a megabyte in a second, and says so five times a second.
struct Tardy(tokio::time::Instant);

impl Source for Tardy {
    fn status(&self, _: usize) -> String {
        String::new()
    }

    fn look(&self) -> Look {
        let now = self.0.elapsed().as_millis() as u64;
        let said = now - now % 200;
        let age = Duration::from_millis(now - said);
        Look { age, paths: vec![path("wifi", said * 1000, 0)], ..Look::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn rates_are_over_the_time_between_what_was_counted() {
    let began = tokio::time::Instant::now();
    let open = Open::of(Arc::new(Tardy(began)), Arc::default(), by_tokio()).await;
    let (mut stream, _) = open.watch("").await;
    for _ in 0..9 {
        read_to(&mut stream, "event: sample").await;
    }
    let history = open.get("/api/1/history", "").await;
    let body = history.split("\r\n\r\n").nth(1).unwrap();
    let history: serde_json::Value = serde_json::from_str(body).unwrap();
    let send = history["paths"][0]["send"].as_array().unwrap();
    assert!(send.len() > 3, "{send:?}");
    // The first has nothing before it.
    for rate in &send[1..] {
        let rate = rate.as_f64().unwrap();
        assert!((rate - 8.0).abs() < 0.1, "{send:?}");
    }
}

/// A program to look at which takes long: the times of looks, what each does, and whose clock it is.
struct Slow(Arc<Mutex<Vec<tokio::time::Instant>>>, fn(), bool);

impl Source for Slow {
    fn status(&self, _: usize) -> String {
        String::new()
    }

    fn look(&self) -> Look {
        self.0.lock().unwrap().push(tokio::time::Instant::now());
        self.1();
        Look { at: self.2.then_some(Duration::ZERO), ..Look::default() }
    }

    fn has_own_clock(&self) -> bool {
        self.2
    }
}

/// The time between two looks at it.
async fn between(takes: fn(), has_own_clock: bool) -> Duration {
    let looks: Arc<Mutex<Vec<_>>> = Arc::default();
    let slow = Arc::new(Slow(Arc::clone(&looks), takes, has_own_clock));
    let _open = Open::of(slow, Arc::default(), by_tokio()).await;
    loop {
        tokio::time::sleep(INTERVAL / 5).await;
        if let [first, second, ..] = looks.lock().unwrap()[..] {
            return second - first;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_look_takes_of_a_processor_says_when_the_next_comes() {
    let waits = || std::thread::sleep(Duration::from_millis(100));
    let works = || {
        let begun = of_thread();
        while of_thread() - begun < Duration::from_millis(60) {}
    };
    // Others had the processor meanwhile.
    assert!(between(waits, false).await < MAX_PAUSE / 2);
    assert!(between(works, false).await >= MAX_PAUSE);
    // Moments that wait are shown whatever it takes.
    assert!(between(works, true).await <= INTERVAL);
}

#[tokio::test(start_paused = true)]
async fn eight_pages_may_watch_and_the_ninth_is_told() {
    let open = Open::new(0).await;
    let mut pages = Vec::new();
    for _ in 0..VIEWERS {
        let (stream, text) = open.watch("").await;
        assert_eq!(status(&text), 200);
        pages.push(stream);
    }
    let (_, text) = open.watch("").await;
    assert_eq!(status(&text), 503, "{text}");
    assert!(text.contains("8 pages watch this daemon already; close one"), "{text}");
    // Everything else is answered as before, and a place that is left is taken.
    assert_eq!(status(&open.get("/api/1/status", "").await), 200);
    drop(pages.pop());
    while status(&open.watch("").await.1) != 200 {
        tokio::time::sleep(INTERVAL).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_takes_nothing_loses_its_place() {
    let open = Open::new(64).await;
    let mut stuck = Vec::new();
    for _ in 0..VIEWERS {
        stuck.push(open.watch("").await.0);
    }
    // The kernel's buffers are filled first, some megabytes for each.
    while status(&open.watch("").await.1) != 200 {
        tokio::time::sleep(INTERVAL).await;
    }
    // Its connection is ended, too, which nobody has read from.
    let mut stream = stuck.swap_remove(0);
    while !matches!(stream.read(&mut [0; 1 << 16]).await, Ok(0) | Err(_)) {}
}

#[tokio::test(start_paused = true)]
async fn huge_requests_are_refused() {
    let open = Open::new(0).await;
    let address = open.address;
    let huge = format!("X: {}\r\n", "x".repeat(64 << 10));
    let answer = open.ask_until_told(&open.request("/api/1/status", &huge)).await;
    assert_eq!(status(&answer), 431, "{answer}");
    let own = format!("Host: {address}\r\nOrigin: http://{address}\r\n");
    let many = "A: b\r\n".repeat(500);
    let answer = open.ask_until_told(&open.request("/api/1/status", &many)).await;
    assert_eq!(status(&answer), 431, "{answer}");
    let body = "x".repeat(64 << 10);
    let head = format!("{own}Content-Length: {}\r\n", body.len());
    let post = format!("POST /api/1/session HTTP/1.1\r\n{head}\r\n{body}");
    let answer = open.ask_until_told(&post).await;
    assert_eq!(status(&answer), 413, "{answer}");
    let claimed = "Content-Length: 99999999999\r\n";
    let answer = open.ask(&format!("POST /api/1/session HTTP/1.1\r\n{own}{claimed}\r\n")).await;
    assert_eq!(status(&answer), 413, "{answer}");
    assert!(answer.contains("at most 4096 bytes"), "{answer}");
    // Without a length, and with the end never said.
    let chunk = format!("1400\r\n{}\r\n", "x".repeat(0x1400));
    let head = format!("{own}Transfer-Encoding: chunked\r\n");
    let answer = open.ask(&format!("POST /api/1/session HTTP/1.1\r\n{head}\r\n{chunk}")).await;
    assert_eq!(status(&answer), 413, "{answer}");
    for query in ["?connections=x", "?connections=-1", "?other=1"] {
        let answer = open.get(&format!("/api/1/status{query}"), "").await;
        assert_eq!(status(&answer), 400, "{answer}");
    }
    let answer = open.get("/api/1/status?connections=5000000", "").await;
    assert!(answer.ends_with("{\"listed\":1000}"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn slow_requests_end_and_keep_nobody_out() {
    let open = Open::new(0).await;
    let own = format!("Host: {0}\r\nOrigin: http://{0}\r\n", open.address);
    // Half a head; a body that does not come; nothing at all, more often than there are places.
    let mut slow = Vec::new();
    for begun in [
        "GET / HTTP/1.1\r\nHost: loc".to_owned(),
        format!("POST /api/1/session HTTP/1.1\r\n{own}Content-Length: 44\r\n\r\n{{\"tok"),
        String::new(),
    ] {
        for _ in 0..MAX_CONNECTIONS {
            let mut stream = open.connect().await;
            stream.write_all(begun.as_bytes()).await.unwrap();
            slow.push(stream);
        }
    }
    let began = tokio::time::Instant::now();
    let request = open.request("/api/1/status", "");
    assert_eq!(status(&open.ask_and_wait(&request).await), 200);
    assert!(began.elapsed() >= PATIENCE, "the others had their time first");
    for mut stream in slow {
        // Ended without an answer, or with one that says so.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty() || status(&String::from_utf8(rest).unwrap()) == 408);
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_long_answer_slowly_gets_all_of_it_but_not_for_ever() {
    let open = Open::new(0).await;
    let request = open.request(&format!("/api/1/status?connections={HUGE}"), "");
    for (wait, is_whole) in [(6 * PATIENCE, true), (1000 * PATIENCE, false)] {
        let mut stream = open.connect().await;
        {
            let _stopped = Stopped::now();
            stream.write_all(request.as_bytes()).await.unwrap();
            read_to(&mut stream, "HTTP/1.1 200").await;
        }
        tokio::time::sleep(wait).await;
        let mut rest = Vec::new();
        // One that is ended may be reset.
        let _ = stream.read_to_end(&mut rest).await;
        assert_eq!(rest.len() >= (32 << 20) - 4096, is_whole, "{}", rest.len());
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_is_kept_comes_packed_to_who_takes_that() {
    let open = Open::new(9).await;
    let (mut page, _) = open.watch("").await;
    for _ in 0..5 {
        read_to(&mut page, "event: sample").await;
    }
    // Time stands still, so that both answers are of the same.
    let _stopped = Stopped::now();
    let ask = async |coding: &str| {
        let more = format!("Accept-Encoding: {coding}\r\n");
        let mut stream = open.connect().await;
        stream.write_all(open.request("/api/1/history", &more).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).unwrap(), body)
    };
    let (head, plain) = ask("br, gzip;q=0").await;
    assert!(!head.contains("content-encoding"), "{head}");
    let (head, packed) = ask("deflate, GZIP;q=0.5, br").await;
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(packed.len() < plain.len() / 3, "{} of {}", packed.len(), plain.len());
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text).unwrap();
    assert_eq!(text, plain);
}

/// Waits until so many record.
async fn recorded(open: &Open, count: usize) {
    while open.recorded.load(Ordering::Relaxed) != count {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_weave_is_recorded_only_while_a_page_watches_it() {
    let open = Open::new(0).await;
    let (mut other, _) = open.watch("").await;
    read_to(&mut other, "event: sample").await;
    assert_eq!(open.recorded.load(Ordering::Relaxed), 0, "one that does not ask for it");
    let (mut first, _) = open.watch_with("?weave=5", "").await;
    let said = read_to(&mut first, "event: weave").await;
    assert!(said.contains("event: weave\ndata: {\"connection\":5,"), "{said}");
    // Nothing else is lost for it.
    read_to(&mut first, "event: sample").await;
    let (second, _) = open.watch_with("?weave=5", "").await;
    recorded(&open, 2).await;
    drop(first);
    recorded(&open, 1).await;
    drop(second);
    recorded(&open, 0).await;

    // The page hears when the connection is over, or was never there, and goes on.
    for (query, before) in [("?weave=6", 1), ("?weave=7", 0)] {
        let (mut page, text) = open.watch_with(query, "").await;
        let over = "\"over\":true";
        let more = if text.contains(over) { String::new() } else { read_to(&mut page, over).await };
        let said = text + &more;
        assert!(said.matches("event: weave").count() > before, "{said}");
        recorded(&open, 0).await;
        read_to(&mut page, "event: sample").await;
    }
    for query in ["?weave=x", "?weave=-1", "?weave=", "?connections=1"] {
        let answer = open.get(&format!("/api/1/stream{query}"), "").await;
        assert_eq!(status(&answer), 400, "{answer}");
        assert!(answer.contains("number of a connection"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_http_stops_nobody() {
    let open = Open::new(0).await;
    for noise in
        ["\u{0}\u{1}\u{2}\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n"]
    {
        let answer = open.ask_and_wait(noise).await;
        assert!(answer.is_empty() || status(&answer) >= 400, "{answer}");
    }
    assert_eq!(status(&open.get("/", "").await), 200);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_handle_and_an_address_can_be_had_once() {
    let open = Open::new(0).await;
    let settings = Settings {
        address: open.address,
        names: Vec::new(),
        program: guard::Program::Daemon,
        tls: None,
    };
    let second = Dashboard::open(&settings, Arc::new(Program::default())).await;
    let error = second.unwrap_err().to_string();
    assert!(error.contains("stop the program that has it, or choose another port"), "{error}");
    drop(open.dashboard);
    // The listener goes with its task.
    while TcpStream::connect(open.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn beyond_this_machine_it_is_refused_unless_a_proxy_is_named() {
    let check = |address: &str, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Settings {
            address: address.parse().unwrap(),
            names,
            program: guard::Program::Daemon,
            tls: None,
        }
        .check(false)
        .map_err(|e| e.to_string())
    };
    for address in ["127.0.0.1:0", "127.0.0.7:9471", "[::1]:9471"] {
        assert_eq!(check(address, &[]), Ok(()));
    }
    for address in ["0.0.0.0:9471", "192.0.2.1:9471", "[::]:9471"] {
        let error = check(address, &[]).unwrap_err();
        assert!(error.contains("no TLS yet") && error.contains("--behind-proxy NAME"), "{error}");
        assert_eq!(check(address, &["weft.example"]), Ok(()));
        let error = check(address, &["https://weft.example"]).unwrap_err();
        assert!(error.contains("is no host's name"), "{error}");
    }
}
