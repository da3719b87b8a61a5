//! The control socket: where a running daemon can be asked how it is (docs/service.md).
//!
//! A Unix socket that only its owner may open. Each line is a request, a JSON object; the answer is
//! one line, too. Requests, programs at once and their patience are bounded.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Access;
use serde::Deserialize;
use socket2::{Domain, SockAddr, Socket as Socket2, Type};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::PortalRequest;
use super::answer_each;
use super::snapshot::Snapshot;
use crate::failure::Failure;

/// The longest request in bytes.
const MAX_REQUEST: u64 = 4096;
/// Programs that are answered at once; further ones wait.
const MAX_PROGRAMS: usize = 8;
/// How long a program may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections listed unless asked otherwise, and the most that are.
pub(crate) const LISTED: usize = 50;
const MAX_LISTED: usize = 1000;

/// Where the control socket is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(crate) enum Control {
    None,
    At(PathBuf),
}

impl From<String> for Control {
    fn from(text: String) -> Self {
        if text == "none" { Self::None } else { Self::At(text.into()) }
    }
}

impl FromStr for Control {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.to_owned().into())
    }
}

/// What is asked there.
pub(crate) trait Asked: Send + Sync + 'static {
    /// How it is now, with so many connections.
    fn snapshot(&self, connections: usize) -> Snapshot;

    /// The address of its dashboard, if it has one.
    fn dashboard(&self) -> Option<String>;

    /// Opens a link to a browser, or closes it; why not, as a sentence.
    fn portal(&self, _: &PortalRequest) -> Result<(), String> {
        Err("it captures nothing; ask a 'weftline up'".to_owned())
    }
}

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    /// The daemon's state.
    Status {
        /// The most connections to list.
        connections: Option<usize>,
    },
    /// Where the dashboard is, with its token.
    Dashboard,
    /// A link is to be open to a browser, or no more.
    Portal {
        /// Which, and to whose.
        portal: PortalRequest,
    },
}

/// The open control socket; its file is removed when this is dropped.
pub(crate) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // It may be gone, with its directory, by systemd's hand.
        let _ = fs::remove_file(&self.0);
    }
}

/// A control socket that nobody answers at yet.
pub(crate) struct Bound {
    socket: Socket,
    listener: UnixListener,
}

/// Opens the control socket of the daemon of this name; `None` if it has none.
///
/// # Errors
/// When a place was named and cannot be had. The default place is only warned of.
pub(crate) fn bind(name: &str, at: Option<&Control>) -> Result<Option<Bound>, Failure> {
    let (path, listener) = match at {
        Some(Control::None) => return Ok(None),
        Some(Control::At(path)) => (
            path.clone(),
            listen_at(path).map_err(|error| {
                let path = path.display();
                Failure::failed(format!("cannot open the control socket {path}: {error}"))
            })?,
        ),
        None => {
            let Some(dir) = default_dirs().into_iter().next() else { return Ok(None) };
            let path = dir.join(format!("{name}-{}.sock", std::process::id()));
            match make_dir(&dir).and_then(|()| listen_at(&path)) {
                Ok(listener) => (path, listener),
                Err(error) => {
                    let path = path.display();
                    tracing::warn!("no control socket: {path}: {error}; give --control PATH|none");
                    return Ok(None);
                }
            }
        }
    };
    tracing::debug!("control socket {}", path.display());
    Ok(Some(Bound { socket: Socket(path), listener }))
}

impl Bound {
    /// Answers for this daemon from now on.
    pub(crate) fn answer(self, life: &Arc<impl Asked>) -> Socket {
        let Self { socket, listener } = self;
        let life = Arc::clone(life);
        let answer = move |(stream, _)| {
            let life = Arc::clone(&life);
            async move {
                if let Err(error) = answer(stream, &*life).await {
                    tracing::debug!("control socket: {error}");
                }
            }
        };
        tokio::spawn(answer_each(MAX_PROGRAMS, move |cx| listener.poll_accept(cx), answer));
        socket
    }
}

/// Where control sockets are looked for, what $RUNTIME_DIRECTORY says or else the usual places; the
/// first is where one is made.
pub(crate) fn default_dirs() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // systemd separates several with colons.
    let given =
        variable("RUNTIME_DIRECTORY").and_then(|dirs| dirs.split(':').next().map(PathBuf::from));
    if let Some(given) = given {
        return vec![given];
    }
    let system = PathBuf::from("/run/weftline");
    let of_user = variable("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("weftline"));
    if rustix::process::geteuid().is_root() {
        [system].into_iter().chain(of_user).collect()
    } else {
        of_user.into_iter().chain([system]).collect()
    }
}

/// The control sockets in the default places at which somebody answers: what a killed daemon has left
/// behind is none.
pub(crate) fn find_all() -> Vec<PathBuf> {
    // systemd's units have a directory each in /run/weftline.
    let mut dirs = default_dirs();
    let inner = dirs.iter().flat_map(|dir| entries(dir)).filter(|path| path.is_dir());
    dirs.extend(inner.collect::<Vec<_>>());
    let mut found: Vec<PathBuf> =
        dirs.iter().flat_map(|dir| entries(dir)).filter(|path| is_ours(path)).collect();
    found.sort();
    found.dedup();
    found.retain(|path| !is_dead(path));
    found
}

/// The most files of a directory that are looked at.
const MAX_ENTRIES: usize = 4096;

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES);
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Whether a path is named like a control socket, and is a socket.
fn is_ours(path: &Path) -> bool {
    is_name(path) && is_socket(path)
}

fn is_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let named = ["serve-", "connect-", "up-", "cotag-"].iter().any(|kind| name.starts_with(kind));
    named && name.ends_with(".sock")
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Makes the default directory, and removes what daemons left there that were killed.
fn make_dir(dir: &Path) -> io::Result<()> {
    // Whatever the mask of this process: who may write there may replace the sockets.
    fs::DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    for path in &entries(dir) {
        if is_ours(path) && is_dead(path) || is_draft(path) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// Whether a path is a socket as [`listen_at`] makes it before it has its name, of a process that is no
/// more.
fn is_draft(path: &Path) -> bool {
    let process = path.extension().and_then(|end| end.to_str()?.parse::<u32>().ok());
    let is_named = path.file_stem().is_some_and(|stem| is_name(Path::new(stem)));
    let is_gone = |process: u32| !Path::new("/proc").join(process.to_string()).exists();
    is_named && process.is_some_and(is_gone) && is_socket(path)
}

/// Whether nobody answers at a socket.
fn is_dead(path: &Path) -> bool {
    let connected = std::os::unix::net::UnixStream::connect(path);
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Programs that the kernel lets wait.
const BACKLOG: i32 = 128;
/// The longest path of a socket (unix(7)).
const MAX_PATH: usize = 107;

/// Listens at `path`, in place of a daemon that is no more. The socket appears there when it is
/// ready and belongs to its owner only.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    check(path)?;
    let fresh = draft(path);
    let _ = fs::remove_file(&fresh);
    let listener = listen(&fresh)?;
    if let Err(error) = fs::rename(&fresh, path) {
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    Ok(listener)
}

/// Where a socket is made before it has its name.
fn draft(path: &Path) -> PathBuf {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    PathBuf::from(fresh)
}

/// A socket at `path` that belongs to its owner from its first moment: the file takes over the mode of
/// the socket that is bound to it (unix_bind() in Linux).
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket2::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    UnixListener::from_std(socket.into())
}

/// Whether a socket can be had at `path`.
///
/// # Errors
/// When there is something else, or another daemon, or the directory is not there or not this user's.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        if !is_socket(path) {
            let message = "there is something else than a socket; choose another path";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        if !is_dead(path) {
            let message = "another daemon has it; choose another path";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
    }
    let length = draft(path).as_os_str().len();
    if length > MAX_PATH {
        let message =
            format!("it is too long by {} bytes; choose a shorter one", length - MAX_PATH);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    rustix::fs::access(parent, Access::WRITE_OK | Access::EXEC_OK)?;
    Ok(())
}

/// Answers one program until it leaves or asks nothing for a while.
async fn answer(mut stream: UnixStream, life: &impl Asked) -> io::Result<()> {
    let (from, mut to) = stream.split();
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut from).take(MAX_REQUEST);
        let read = tokio::time::timeout(PATIENCE, limited.read_until(b'\n', &mut line)).await??;
        if read == 0 {
            return Ok(());
        }
        let mut text = match line.ends_with(b"\n") || (read as u64) < MAX_REQUEST {
            true => reply(&line, life),
            false => refuse(&format!("a request has at most {MAX_REQUEST} bytes")),
        };
        text.push('\n');
        tokio::time::timeout(PATIENCE, to.write_all(text.as_bytes())).await??;
        if !line.ends_with(b"\n") {
            return Ok(());
        }
    }
}

fn reply(line: &[u8], life: &impl Asked) -> String {
    match serde_json::from_slice(line) {
        Ok(Request::Status { connections }) => {
            let most = connections.unwrap_or(LISTED).min(MAX_LISTED);
            serde_json::to_string(&life.snapshot(most))
                .unwrap_or_else(|error| refuse(&error.to_string()))
        }
        Ok(Request::Dashboard) => match life.dashboard() {
            Some(url) => serde_json::json!({ "url": url }).to_string(),
            None => refuse("it has no dashboard; start it with --dashboard 127.0.0.1:9480"),
        },
        Ok(Request::Portal { portal }) => match life.portal(&portal) {
            Ok(()) => serde_json::json!({ "done": true }).to_string(),
            Err(reason) => refuse(&reason),
        },
        Err(error) => refuse(&error.to_string()),
    }
}

fn refuse(reason: &str) -> String {
    serde_json::json!({ "error": reason }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test]
    async fn a_dead_socket_is_replaced_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serve-1.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(is_dead(&path) && is_ours(&path));
        let alive = listen_at(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listen_at(&path).unwrap_err().to_string().contains("another daemon has it"));
        drop(alive);
        make_dir(dir.path()).unwrap();
        assert!(!path.exists(), "the rest of a daemon that was killed");
        fs::write(&path, "a file").unwrap();
        assert!(listen_at(&path).unwrap_err().to_string().contains("something else than a socket"));
        make_dir(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
        assert_eq!(entries(dir.path()).len(), 1, "nothing is left behind");
    }
}
