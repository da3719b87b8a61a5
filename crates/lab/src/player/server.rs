//! nginx, which serves the clip.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};

use socket2::{Domain, Protocol, Socket, Type};
use weftline_scenario::Scheme;

use super::HTTP_PORT;
use super::clip::Clip;
use crate::LabError;
use crate::child::{Program, StopFlag};
use crate::netns::Netns;
use crate::programs::wait_for;
use crate::sys::process;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// Starts nginx in a namespace. Its files are gone when the second value is dropped.
///
/// It gets its listening socket from us, as it hands it on to its successors: it cannot be told
/// what congestion control to use, nor to listen for MPTCP, and what is accepted inherits both.
pub(super) fn start(
    ns: &Netns,
    kernel: Option<(&Scheme, &str)>,
    clip: &Clip,
    stop: &StopFlag,
) -> Result<(Program, tempfile::TempDir), LabError> {
    let listener = ns.run(|| listen(kernel)).map_err(LabError::os("listening for nginx"))?;
    let files = tempfile::Builder::new().prefix("weftline-nginx-").tempdir();
    let files = files.map_err(LabError::os("making a directory for nginx"))?;
    let config = files.path().join("nginx.conf");
    let (place, root) = (files.path().display().to_string(), clip.dir.display().to_string());
    for path in [&place, &root] {
        if path.contains(['"', '\\', '$', '\n']) {
            let what = format!("nginx cannot serve from '{path}'");
            return Err(LabError::not_possible(what, "set XDG_CACHE_HOME to a simpler path"));
        }
    }
    std::fs::write(&config, configuration(&place, &root))
        .map_err(LabError::os(format!("writing {}", config.display())))?;
    // All it says on one stream, which is read line by line.
    let mut nginx = ns.command("sh");
    nginx.env("NGINX", format!("{};", listener.as_raw_fd()));
    process::hand_down(&mut nginx, listener);
    nginx.args(["-c", "exec nginx -p \"$1\" -c \"$2\" 2>&1", "sh"]).arg(files.path()).arg(&config);
    let mut program = Program::start("nginx", nginx, stop)?;
    wait_for(&mut program, "start worker process ")?;
    Ok((program, files))
}

fn listen(kernel: Option<(&Scheme, &str)>) -> io::Result<OwnedFd> {
    let mptcp = matches!(kernel, Some((Scheme::LinuxMptcp, _)));
    let protocol = if mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    if let Some((_, congestion)) = kernel {
        socket.set_tcp_congestion(congestion.as_bytes())?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, HTTP_PORT)).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A server for one client: as it comes, but in the foreground, with all its files in `place`.
fn configuration(place: &str, root: &str) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String = temporary
        .iter()
        .map(|name| format!("    {name}_temp_path \"{place}/{name}\";\n"))
        .collect();
    format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid \"{place}/nginx.pid\";\n\
         error_log stderr notice;\nevents {{ worker_connections 64; }}\nhttp {{\n{temporary}    \
         access_log off;\n    sendfile on;\n    tcp_nopush on;\n    keepalive_timeout 75;\n    \
         types {{ video/mp4 mp4; application/vnd.apple.mpegurl m3u8; video/mp2t ts; }}\n    \
         server {{ listen 0.0.0.0:{HTTP_PORT}; root \"{root}\"; }}\n}}\n"
    )
}
