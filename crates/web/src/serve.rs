//! HTTP: who is answered, with what, and within which limits.

use std::convert::Infallible;
use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderValue, IF_NONE_MATCH, SET_COOKIE, UPGRADE, VARY,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::assets;
use crate::clock::{Clock, of_thread, since_boot};
use crate::guard::{self, Guard, Program, Refusal};
use crate::listen::{self, MAX_HEAD, OpenError, PATIENCE};
use crate::player::Stage;
use crate::player::socket::{self, Opening};
use crate::rates::Rates;
use crate::source::Source;
use crate::sse::{Board, Dropped, Stream, VIEWERS};
use crate::tls::Tls;
use crate::weave::Loom;

/// Connections that are answered at once; further ones wait in the kernel's queue. Pages that watch
/// hold one each.
const MAX_CONNECTIONS: usize = 32;
/// The longest body of a request in bytes.
const MAX_BODY: usize = 4 << 10;
/// The least rate at which a long answer is taken, in bytes per second: ten minutes of many paths are a
/// megabyte, and links may be slow.
const LEAST_RATE: u64 = 4 << 10;
/// The time between two looks at the program.
const INTERVAL: Duration = Duration::from_millis(500);
/// A look takes at most one part in so many of a processor: after one that took long the next comes
/// later, but not more than this later. One of a program whose clock is its own takes no more for coming
/// soon: it is shown moments that wait.
const COST: u32 = 200;
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Where there is nothing new for so long, pages are told that.
const STILL_HERE: Duration = Duration::from_secs(10);
/// The time between two messages of a weave, and the part of a processor that making them takes at most.
const WEAVE_INTERVAL: Duration = Duration::from_millis(250);
const WEAVE_COST: u32 = 50;
/// Connections listed in a status unless asked otherwise, and the most that are.
const LISTED: usize = 50;
const MAX_LISTED: usize = 1000;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const EVENTS: &str = "text/event-stream";
/// By which a page that comes back says what it had last (HTML, server-sent events).
const LAST_EVENT_ID: &str = "last-event-id";

type Answer = Response<Either<Full<Bytes>, Stream>>;

/// Where a dashboard is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens; with port 0 the system chooses one.
    pub address: SocketAddr,
    /// The names under which proxies with TLS offer it.
    pub names: Vec<String>,
    /// What offers it.
    pub program: Program,
    /// What it shows over TLS. Without it, and without a name, `address` has to be this machine's loopback.
    pub tls: Option<Tls>,
}

/// A dashboard that is open as long as this lives.
pub struct Dashboard {
    url: String,
    tasks: [AbortHandle; 2],
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its address is a secret.
        f.debug_struct("Dashboard").finish_non_exhaustive()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Dashboard {
    /// Shows `source` from now on, in tasks of the present runtime (tokio, with time and IO).
    ///
    /// # Errors
    /// When the address cannot be had, or is reached from other machines and no proxy is named.
    pub async fn open(settings: &Settings, source: Arc<dyn Source>) -> Result<Self, OpenError> {
        Self::open_by(settings, source, Box::new(since_boot)).await
    }

    /// The same, with times by this clock.
    async fn open_by(
        settings: &Settings,
        source: Arc<dyn Source>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let (listener, guard) = settings.listen().await?;
        let url = guard.url();
        let mut instance = [0; 8];
        let filled =
            ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut instance);
        filled.map_err(|_| OpenError::Random)?;
        let instance = format!("{:016x}", u64::from_be_bytes(instance));
        let board = Arc::new(Board::new(instance, source.has_own_clock()));
        let daemon = Arc::new(Daemon { board, source, clock });
        let looking = tokio::spawn(look(Arc::clone(&daemon))).abort_handle();
        let shared =
            Arc::new(Shared { guard, tls: settings.tls.clone(), face: Face::Dashboard(daemon) });
        let serving = tokio::spawn(shared.accept(listener)).abort_handle();
        Ok(Self { url, tasks: [looking, serving] })
    }

    /// The address of the page, with the token: whoever has it sees the dashboard.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The page of a 360° player, which is open as long as this lives.
pub struct PlayerPage {
    url: String,
    task: AbortHandle,
}

impl fmt::Debug for PlayerPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its address is a secret.
        f.debug_struct("PlayerPage").finish_non_exhaustive()
    }
}

impl Drop for PlayerPage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PlayerPage {
    /// Shows what is on `stage` from now on, in tasks of the present runtime (tokio, with time and IO).
    ///
    /// # Errors
    /// When the address cannot be had, or is reached from other machines and no proxy is named.
    pub async fn open(settings: &Settings, stage: Arc<Stage>) -> Result<Self, OpenError> {
        let (listener, guard) = settings.listen().await?;
        let url = guard.url();
        let shared =
            Arc::new(Shared { guard, tls: settings.tls.clone(), face: Face::Player(stage) });
        Ok(Self { url, task: tokio::spawn(shared.accept(listener)).abort_handle() })
    }

    /// The address of the page, with the token: whoever has it sees the stream.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Settings {
    /// Listens where it is to be.
    async fn listen(&self) -> Result<(TcpListener, Guard), OpenError> {
        let Self { address, names, program, tls } = self;
        self.check(self.tls.is_some())?;
        let (listener, address) = listen::bind(*address).await?;
        let guard = Guard::new(address, tls.is_some(), names, *program);
        Ok((listener, guard.map_err(|_| OpenError::Random)?))
    }

    /// Refuses what cannot be opened, whatever the machine; `has_tls` says whether it is to have TLS, also if
    /// that is not there yet.
    ///
    /// # Errors
    /// When the address is reached from other machines and there is neither TLS nor the name of a proxy, or a
    /// name is none.
    pub fn check(&self, has_tls: bool) -> Result<(), OpenError> {
        self.names.iter().try_for_each(|name| guard::check_name(name))?;
        let ip = self.address.ip();
        match (ip.is_loopback() || !self.names.is_empty(), has_tls) {
            (true, _) => Ok(()),
            // A request has to name it, and nobody calls on that.
            (false, true) if ip.is_unspecified() => Err(OpenError::Everywhere(self.address)),
            (false, true) => Ok(()),
            (false, false) => Err(OpenError::NotLoopback(self.address)),
        }
    }
}

/// What all requests need.
struct Shared {
    guard: Guard,
    tls: Option<Tls>,
    face: Face,
}

impl Shared {
    /// Answers everybody.
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        listen::accept(listener, MAX_CONNECTIONS, |stream| serve(stream, Arc::clone(&self))).await;
    }
}

/// What is shown.
enum Face {
    Dashboard(Arc<Daemon>),
    Player(Arc<Stage>),
}

impl Face {
    const fn page(&self) -> &'static assets::Asset {
        match self {
            Self::Dashboard(_) => &assets::PAGE,
            Self::Player(_) => &assets::PLAYER,
        }
    }
}

/// A daemon that is looked at.
struct Daemon {
    board: Arc<Board>,
    source: Arc<dyn Source>,
    clock: Clock,
}

/// What becomes of a connection besides an answer.
#[derive(Default)]
struct Fate {
    /// It watches until it is dropped.
    watching: Option<Dropped>,
    /// It is a WebSocket from now on.
    opening: Option<Opening>,
    /// What taking the answer may take longer than [`PATIENCE`].
    more: Duration,
}

/// Looks at the program for ever.
async fn look(shared: Arc<Daemon>) {
    let began = (shared.clock)();
    let mut rates = Rates::default();
    let mut told = tokio::time::Instant::now();
    let cost = if shared.source.has_own_clock() { 0 } else { COST };
    let mut last = 0.0_f64;
    loop {
        let started = Looked::now();
        let looks = shared.source.looks();
        let seen = looks.into_iter().map(|look| {
            let at = look.at.map_or_else(
                || {
                    let now = (shared.clock)().saturating_sub(began).as_secs_f64();
                    // A program that stood still may say how it was before the last look.
                    (now - look.age.as_secs_f64()).max(last)
                },
                |at| at.as_secs_f64(),
            );
            last = at;
            (rates.sample(&look, at), look.events)
        });
        let seen: Vec<_> = seen.collect();
        if !seen.is_empty() {
            shared.board.add(&seen);
            told = tokio::time::Instant::now();
        } else if told.elapsed() >= STILL_HERE {
            shared.board.tell_still_here();
            told = tokio::time::Instant::now();
        }
        tokio::time::sleep(started.pause(INTERVAL, cost)).await;
    }
}

/// When a look began. Until its end nothing is waited for, so that its thread is the same.
struct Looked {
    at: Instant,
    of_thread: Duration,
}

impl Looked {
    fn now() -> Self {
        Self { at: Instant::now(), of_thread: of_thread() }
    }

    /// How long to wait after its end for the next, which comes `interval` after it, or later, so that
    /// looks take one part in `cost` of a processor at most. On a busy machine it is done later, too,
    /// and takes no more for that.
    fn pause(&self, interval: Duration, cost: u32) -> Duration {
        let took = of_thread().saturating_sub(self.of_thread);
        let rest = interval.saturating_sub(self.at.elapsed());
        rest.max(took.saturating_mul(cost)).min(MAX_PAUSE)
    }
}

/// Answers one request. A page that watches goes on until it leaves or is dropped; anybody else has
/// a time to be done in.
async fn serve(stream: TcpStream, shared: Arc<Shared>) -> hyper::Result<()> {
    let Some(tls) = &shared.tls else { return serve_over(stream, shared).await };
    match tls.accept(stream).await {
        Some(stream) => serve_over(stream, shared).await,
        None => Ok(()),
    }
}

/// The same over what is secure, or needs not be.
async fn serve_over<S>(stream: S, shared: Arc<Shared>) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let fate: Arc<Mutex<Fate>> = Arc::default();
    let own = Arc::clone(&fate);
    let service = hyper::service::service_fn(move |request| {
        let (shared, own) = (Arc::clone(&shared), Arc::clone(&own));
        async move { Ok::<_, Infallible>(answer(request, &shared, &own).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        ended = connection => ended?,
        () = overdue(&fate) => return Ok(()),
    }
    let opening = fate.lock().expect("nobody panics with it").opening.take();
    if let Some(opening) = opening {
        opening.run().await;
    }
    Ok(())
}

/// Waits until a connection is to be ended.
async fn overdue(fate: &Mutex<Fate>) {
    tokio::time::sleep(PATIENCE).await;
    let (watching, more) = {
        let mut fate = fate.lock().expect("nobody panics with it");
        (fate.watching.take(), fate.more)
    };
    tokio::time::sleep(more).await;
    if let Some(dropped) = watching {
        // There is no message: it is closed.
        let _ = dropped.await;
    }
}

async fn answer(request: Request<Incoming>, shared: &Arc<Shared>, fate: &Mutex<Fate>) -> Answer {
    let is_api = request.uri().path().starts_with("/api/");
    let mut answer = match route(request, shared, fate).await {
        Ok(answer) => answer,
        Err(refusal) => refuse(&refusal, is_api),
    };
    guard::seal(answer.headers_mut());
    let length = answer.body().size_hint().exact().unwrap_or(0);
    fate.lock().expect("nobody panics with it").more = Duration::from_secs(length / LEAST_RATE);
    // A connection is for one request; one that is upgraded is the page's from then on.
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// What is where, and who may ask for it.
async fn route(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
    fate: &Mutex<Fate>,
) -> Result<Answer, Refusal> {
    let guard = &shared.guard;
    let (uri, headers) = (request.uri(), request.headers());
    guard.check_host(headers, uri)?;
    let path = uri.path();
    if !path.starts_with("/api/") {
        let asset = if path == "/" { Some(shared.face.page()) } else { None };
        let asset = asset.or_else(|| path.strip_prefix("/a/").and_then(assets::find));
        let asset = asset.ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, "there is nothing here; the page is at /")
        })?;
        must_read(request.method())?;
        return Ok(file(asset, headers));
    }
    guard.check_site(headers)?;
    if path == "/api/1/session" {
        match *request.method() {
            Method::GET | Method::HEAD => return guard.check_session(headers).map(|()| nothing()),
            Method::POST => guard.check_origin(headers)?,
            _ => return Err(Refusal::method("GET, HEAD, POST")),
        }
        return session(request, guard).await;
    }
    guard.check_session(headers)?;
    must_read(request.method())?;
    match &shared.face {
        Face::Dashboard(daemon) => of_daemon(&request, daemon, fate),
        Face::Player(stage) if path == "/api/1/player" => {
            // HEAD would change what the connection is (RFC 6455 §4.1).
            if request.method() != Method::GET {
                return Err(Refusal::method("GET"));
            }
            socket::check(headers, stage)?;
            guard.check_origin(headers)?;
            upgrade(request, stage, fate)
        }
        Face::Player(stage) if path == "/api/1/room" => {
            socket::check_room(stage)?;
            Ok(nothing())
        }
        Face::Player(_) => {
            let text = "there is no such thing; there are session, room and player";
            Err(Refusal::new(StatusCode::NOT_FOUND, text))
        }
    }
}

/// What is told of a daemon.
fn of_daemon(
    request: &Request<Incoming>,
    daemon: &Arc<Daemon>,
    fate: &Mutex<Fate>,
) -> Result<Answer, Refusal> {
    let query = request.uri().query().unwrap_or_default();
    match request.uri().path() {
        "/api/1/status" => Ok(full(JSON, daemon.source.status(listed(query)?))),
        "/api/1/history" => Ok(history(request.headers(), daemon)),
        "/api/1/stream" => {
            let since = request.headers().get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
            watch(daemon, since, woven(query)?, fate)
        }
        _ => {
            let text = "there is no such thing; there are session, status, history and stream";
            Err(Refusal::new(StatusCode::NOT_FOUND, text))
        }
    }
}

/// A file of the page: in gzip for those who take it, and nothing where they have it already.
fn file(asset: &'static assets::Asset, headers: &HeaderMap) -> Answer {
    let packed = assets::packed(asset);
    let has_it = headers.get_all(IF_NONE_MATCH).iter().any(|tags| names(tags, &packed.tag));
    let mut answer = match (has_it, takes_gzip(headers)) {
        (true, _) => {
            let mut answer = nothing();
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            answer
        }
        (false, true) => {
            let mut answer = full(asset.kind, packed.gzip.clone());
            answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            answer
        }
        (false, false) => full(asset.kind, Bytes::from_static(asset.bytes)),
    };
    // Browsers ask each time whether it is still that: another build has another one.
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    answer.headers_mut().insert(ETAG, packed.tag.clone());
    answer
}

/// Whether a list of entity tags has this one, weak or not (RFC 9110 §13.1.2).
fn names(tags: &HeaderValue, tag: &HeaderValue) -> bool {
    fn opaque(tag: &[u8]) -> &[u8] {
        tag.strip_prefix(b"W/").unwrap_or(tag)
    }
    let mut all = tags.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    all.any(|one| one == b"*" || opaque(one) == opaque(tag.as_bytes()))
}

/// All that is kept, in gzip for those who take it: a tenth of the bytes, for some milliseconds.
fn history(headers: &HeaderMap, daemon: &Daemon) -> Answer {
    let text = daemon.board.history();
    if !takes_gzip(headers) {
        return full(JSON, text);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    match packed.write_all(text.as_bytes()).and_then(|()| packed.finish()) {
        Ok(packed) => {
            let mut answer = full(JSON, packed);
            answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            answer
        }
        // Nothing can fail in memory.
        Err(_) => full(JSON, text),
    }
}

/// Whether gzip is among the codings that a client lists and does not refuse (RFC 9110 §12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let all = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse().is_ok_and(|q: f32| q > 0.0)
    })
}

/// A page that shows a stream from now on.
fn upgrade(
    request: Request<Incoming>,
    stage: &Arc<Stage>,
    fate: &Mutex<Fate>,
) -> Result<Answer, Refusal> {
    let opening = socket::open(request, stage)?;
    let mut answer = full(TEXT, Bytes::new());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().remove(CONTENT_TYPE);
    answer.headers_mut().extend(opening.headers.clone());
    fate.lock().expect("nobody panics with it").opening = Some(opening);
    Ok(answer)
}

/// Refuses a method that does more than read.
pub(crate) fn must_read(method: &Method) -> Result<(), Refusal> {
    match *method == Method::GET || *method == Method::HEAD {
        true => Ok(()),
        false => Err(Refusal::method("GET, HEAD")),
    }
}

/// A session for the token.
async fn session(request: Request<Incoming>, guard: &Guard) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let too_long = || {
        let text = format!("a request has at most {MAX_BODY} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_long());
    }
    // The time it may take is the connection's.
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(|_| too_long())?.to_bytes();
    let mut answer = full(JSON, "{}");
    for cookie in guard.exchange(&head.headers, &body)? {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(answer)
}

/// A page that watches from now on, and with it the weave of a connection if it wants that.
fn watch(
    shared: &Arc<Daemon>,
    since: Option<&str>,
    weave: Option<u64>,
    fate: &Mutex<Fate>,
) -> Result<Answer, Refusal> {
    let (mut stream, dropped) = shared.board.watch(since).ok_or_else(|| {
        let text = format!("{VIEWERS} pages watch this daemon already; close one of them");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
    })?;
    fate.lock().expect("nobody panics with it").watching = Some(dropped);
    if let Some(connection) = weave {
        tokio::spawn(tell_weave(Arc::clone(shared), connection, stream.weave()));
    }
    let mut answer = Response::new(Either::Right(stream));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    Ok(answer)
}

/// Tells a page of a connection's weave until the page has left or the connection is over. It is
/// recorded meanwhile, and not longer.
async fn tell_weave(shared: Arc<Daemon>, connection: u64, page: mpsc::Sender<Bytes>) {
    let mut loom = Loom::new(connection);
    let mut source = shared.source.weave(connection);
    loop {
        let started = Looked::now();
        // A page that is behind misses some.
        if page.capacity() > 0 {
            let look = source.as_mut().and_then(|source| source.look());
            let text = match &look {
                Some(look) => loom.message(look),
                None => loom.over(),
            };
            // It has no number: a page that comes back does not get it again.
            let _ = page.try_send(format!("event: weave\ndata: {text}\n\n").into());
            if look.is_none() {
                return;
            }
        }
        let pause = started.pause(WEAVE_INTERVAL, WEAVE_COST);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = page.closed() => return,
        }
    }
}

/// Of which connection the weave is wanted.
fn woven(query: &str) -> Result<Option<u64>, Refusal> {
    let wrong = |text: &str| Refusal::new(StatusCode::BAD_REQUEST, text.to_owned());
    let mut connection = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some(number) = pair.strip_prefix("weave=") else {
            return Err(wrong("the query may have weave=N only, the number of a connection"));
        };
        let number = number.parse();
        connection = Some(number.map_err(|_| wrong("weave= takes the number of a connection"))?);
    }
    Ok(connection)
}

/// How many connections a status is to list.
fn listed(query: &str) -> Result<usize, Refusal> {
    let wrong = |text: String| Refusal::new(StatusCode::BAD_REQUEST, text);
    let mut connections = LISTED;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some(number) = pair.strip_prefix("connections=") else {
            return Err(wrong("the query may have connections=N only".to_owned()));
        };
        connections = number.parse().map_err(|_| {
            wrong(format!("connections= takes a whole number, at most {MAX_LISTED}"))
        })?;
    }
    Ok(connections.min(MAX_LISTED))
}

/// There is nothing to say but that.
fn nothing() -> Answer {
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

fn full(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn refuse(refusal: &Refusal, is_api: bool) -> Answer {
    let text = &refusal.text;
    let mut answer = match is_api {
        true => full(JSON, serde_json::json!({ "error": text }).to_string()),
        false => full(TEXT, format!("{text}\n")),
    };
    *answer.status_mut() = refusal.status;
    if let Some(allowed) = refusal.allowed {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    if let Some(protocol) = refusal.upgrade {
        answer.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
    }
    answer
}

#[cfg(test)]
mod tests;
