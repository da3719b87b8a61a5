//! The files of a package over HTTP, as they are, for players of DASH: nothing is listed or changed.

mod body;
mod pace;
mod range;
mod tree;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, IF_RANGE, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use self::body::FileBody;
use self::pace::Paced;
use self::range::Part;
use self::tree::{NotServed, Tree};
use crate::guard::{OWN_RESOURCES, Refusal, without_port};
use crate::listen::{self, MAX_HEAD, OpenError, PATIENCE};

/// Connections that are answered at once; further ones wait in the kernel's queue. A browser has six.
const MAX_CONNECTIONS: usize = 64;
/// The longest part of a name that is repeated to who asked for it.
const MAX_SHOWN: usize = 253;
/// What can be asked for.
const METHODS: &str = "GET, HEAD, OPTIONS";
const TEXT: &str = "text/plain; charset=utf-8";

type Answer = Response<Either<Full<Bytes>, FileBody>>;

/// What is served, where, and to whom.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// The directory.
    pub dir: PathBuf,
    /// Where it listens; with port 0 the system chooses one.
    pub address: SocketAddr,
    /// The origin whose pages may read the files, such as `https://player.example`, or `*` for all; none
    /// without it.
    pub allow_origin: Option<String>,
}

/// Why no files are served.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The directory cannot be read.
    #[error("cannot read {}: {source}; is it the directory of a package?", dir.display())]
    Dir {
        /// Which.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The address cannot be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something that is no origin.
    #[error(
        "'{0}' is no origin of pages; give one as browsers write it, in small letters, without a path \
         and without the usual port, such as https://player.example or http://127.0.0.1:8080, or *"
    )]
    Origin(String),
}

/// A server of files that is open as long as this lives.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
    task: AbortHandle,
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FileServer {
    /// Serves from now on, in a task of the present runtime (tokio, with time and IO).
    ///
    /// # Errors
    /// When the address or the directory cannot be had, or the origin is none.
    pub async fn open(settings: &FileSettings) -> Result<Self, FilesError> {
        let tree = Tree::open(&settings.dir)
            .map_err(|source| FilesError::Dir { dir: settings.dir.clone(), source })?;
        let origin = settings.allow_origin.as_deref().map(checked_origin).transpose()?;
        let (listener, address) = listen::bind(settings.address).await?;
        let shared = Arc::new(Shared { tree: Arc::new(tree), origin, address });
        let task = tokio::spawn(async move {
            listen::accept(listener, MAX_CONNECTIONS, |stream| serve(stream, Arc::clone(&shared)))
                .await;
        });
        Ok(Self { address, task: task.abort_handle() })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// An origin as browsers write it (RFC 6454, 6.2), or `*`.
fn checked_origin(origin: &str) -> Result<HeaderValue, FilesError> {
    let wrong = || FilesError::Origin(origin.chars().take(MAX_SHOWN).collect());
    let is_origin = || {
        let uri = Uri::from_str(origin).ok()?;
        let (scheme, host) = (uri.scheme_str()?, uri.host()?);
        let usual = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let port = match uri.port_u16() {
            None => String::new(),
            Some(port) => format!(":{}", Some(port).filter(|port| ![0, usual].contains(port))?),
        };
        // Of an address in brackets there are colons, too.
        let is_written = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._:[]".contains(&byte)
        };
        let is_host = !host.is_empty() && host.bytes().all(is_written);
        (is_host && format!("{scheme}://{host}{port}") == origin).then_some(())
    };
    if origin != "*" {
        is_origin().ok_or_else(wrong)?;
    }
    HeaderValue::from_str(origin).map_err(|_| wrong())
}

/// What all requests need.
struct Shared {
    tree: Arc<Tree>,
    origin: Option<HeaderValue>,
    address: SocketAddr,
}

/// Answers one client, request after request.
async fn serve(stream: TcpStream, shared: Arc<Shared>) -> hyper::Result<()> {
    let service = hyper::service::service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    // The time for a head is also that for which nothing needs to be asked. One that takes nothing of what
    // it has asked for is ended by its pace.
    hyper::server::conn::http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(Paced::new(stream)), service)
        .await
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let mut answer = match self.route(&request).await {
            Ok(answer) => answer,
            Err(refusal) => refuse(&refusal),
        };
        self.seal(answer.headers_mut());
        answer
    }

    /// What is true of all answers.
    fn seal(&self, headers: &mut HeaderMap) {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // Pages of a named origin read by CORS, which this does not concern; others may not embed the files.
        let is_for_all = self.origin.as_ref().is_some_and(|origin| origin == "*");
        let whose = if is_for_all { "cross-origin" } else { "same-origin" };
        headers.insert(OWN_RESOURCES, HeaderValue::from_static(whose));
        let Some(origin) = &self.origin else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let shown = HeaderValue::from_static("Accept-Ranges, Content-Length, Content-Range");
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, shown);
    }

    async fn route(&self, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        self.check_host(request.headers())?;
        match *request.method() {
            Method::GET | Method::HEAD => self.file(request).await,
            Method::OPTIONS => {
                let mut answer = Response::new(Either::Left(Full::default()));
                *answer.status_mut() = StatusCode::NO_CONTENT;
                let headers = answer.headers_mut();
                headers.insert(ALLOW, HeaderValue::from_static(METHODS));
                if self.origin.is_some() {
                    let methods = HeaderValue::from_static(METHODS);
                    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
                    let range = HeaderValue::from_static("Range");
                    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, range);
                }
                Ok(answer)
            }
            _ => Err(Refusal::method(METHODS)),
        }
    }

    /// Refuses a foreign name that was made to lead to this machine (DNS rebinding): by it a page of that
    /// name would read what only this machine's users can.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let (Some(host), None) = (host, hosts.next()) else {
            let text = "a request has one Host header, and this one has none or several";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
        };
        let name = without_port(host);
        let is_address = IpAddr::from_str(name.trim_matches(['[', ']'])).is_ok();
        if !self.address.ip().is_loopback() || is_address || name.eq_ignore_ascii_case("localhost")
        {
            return Ok(());
        }
        let shown: String = name.chars().take(MAX_SHOWN).collect();
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!(
                "this server is for its own machine and does not answer to the name '{shown}'; open it \
                 by the address that it printed, or start it with --listen and an address that is reached \
                 from elsewhere"
            ),
        ))
    }

    async fn file(&self, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        let path = request.uri().path();
        let (tree, asked) = (Arc::clone(&self.tree), path.to_owned());
        // A disk may take its time.
        let opened = tokio::task::spawn_blocking(move || tree.file(&asked)).await;
        let opened = opened.unwrap_or_else(|error| Err(NotServed::Failed(error.into())));
        let (file, length) = opened.map_err(|why| match why {
            NotServed::Absent => Refusal::new(StatusCode::NOT_FOUND, "there is no such file here"),
            NotServed::Failed(error) => {
                tracing::warn!("{path} cannot be read: {error}");
                let text = "the file cannot be read now; the server's log says why";
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        })?;
        let headers = request.headers();
        // There are no validators here that a condition could name: then it does not hold (RFC 9110, 13.1.5).
        let range = headers.get(RANGE).filter(|_| !headers.contains_key(IF_RANGE));
        let part = match range {
            Some(range) if *request.method() == Method::GET => Part::of(range.as_bytes(), length),
            _ => Part::Whole,
        };
        let (from, until) = match part {
            Part::Whole => (0, length),
            Part::Bytes(from, until) => (from, until),
            Part::Beyond => return Ok(beyond(length)),
        };
        let body = match *request.method() == Method::HEAD {
            true => Either::Left(Full::default()),
            false => Either::Right(FileBody::new(file, from, until)),
        };
        let mut answer = Response::new(body);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind(path)));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(until - from));
        if part != Part::Whole {
            let range = format!("bytes {from}-{}/{length}", until - 1);
            headers.insert(CONTENT_RANGE, text(&range));
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        Ok(answer)
    }
}

/// What a file is, by its name.
fn kind(path: &str) -> &'static str {
    match Path::new(path).extension().and_then(|end| end.to_str()) {
        // ISO/IEC 23009-1, C.1; IANA's registry.
        Some("mpd") => "application/dash+xml",
        Some("m4s") => "video/iso.segment",
        Some("mp4") => "video/mp4",
        _ => "application/octet-stream",
    }
}

/// Of a range that begins after the end.
fn beyond(length: u64) -> Answer {
    let refusal = Refusal::new(
        StatusCode::RANGE_NOT_SATISFIABLE,
        format!("the file has {length} bytes, and the range begins after them"),
    );
    let mut answer = refuse(&refusal);
    answer.headers_mut().insert(CONTENT_RANGE, text(&format!("bytes */{length}")));
    answer
}

fn refuse(refusal: &Refusal) -> Answer {
    let body = Bytes::from(format!("{}\n", refusal.text));
    let mut answer = Response::new(Either::Left(Full::new(body)));
    *answer.status_mut() = refusal.status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    if let Some(allowed) = refusal.allowed {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    answer
}

fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).expect("it has plain letters and digits only")
}

#[cfg(test)]
mod tests;
