//! Whether a daemon can listen on an address, and who has it if not.

use std::fs;
use std::net::SocketAddr;

use weftline::Error;

use clap::CommandFactory as _;

use super::finding::{Check, Finding};
use crate::Cli;
use crate::ops::Daemon;

/// Whether this machine lets `daemon` listen on `address`.
pub(super) fn look(daemon: Daemon, address: SocketAddr) -> Finding {
    let subject = format!("listen {address}");
    match weftline::check_listen(address) {
        Ok(()) => Finding::ok(Check::Port, subject, "the address is free"),
        Err(Error::PortInUse { .. }) => taken(subject, address, daemon, holder(address.port())),
        Err(error @ Error::UnknownAddress { .. }) => {
            let remedy = "give an address of this machine, or 0.0.0.0 or [::] for all of them";
            Finding::error(Check::Configuration, subject, error, remedy)
        }
        Err(Error::Listen { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            let remedy = "ports below 1024 are for root: choose a higher one, or give the program \
                          CAP_NET_BIND_SERVICE ('setcap cap_net_bind_service+ep', \
                          AmbientCapabilities= in a unit)";
            Finding::error(Check::Permission, subject, source, remedy)
        }
        Err(error) => {
            Finding::error(Check::Configuration, subject, error, "give another address or port")
        }
    }
}

/// A program that runs.
struct Program {
    name: String,
    id: u32,
    /// Which of our daemons it is.
    daemon: Option<Daemon>,
}

/// What it means for `daemon` that `holder` has the address.
fn taken(subject: String, address: SocketAddr, daemon: Daemon, holder: Option<Program>) -> Finding {
    let port = address.port();
    match holder {
        Some(Program { id, daemon: Some(one), .. }) if one == daemon => {
            let name = one.name();
            let found = format!(
                "a 'weftline {name}' has it (process {id}): if it is not the one that is meant, \
                 choose another port than {port}"
            );
            Finding::ok(Check::Port, subject, found)
        }
        Some(Program { name, id, daemon }) => {
            let name = daemon.map_or(name, |one| format!("weftline {}", one.name()));
            let found = format!("the program {name} has it (process {id})");
            let remedy = format!("stop {name}, or choose another port than {port}");
            Finding::error(Check::PortTaken, subject, found, remedy)
        }
        None => {
            let remedy =
                format!("'ss -ltnp sport = :{port}' as root says which; choose another port");
            Finding::error(Check::PortTaken, subject, "another program has it", remedy)
        }
    }
}

/// The program that listens on `port`, as far as this user may know.
fn holder(port: u16) -> Option<Program> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let tables = read("/proc/net/tcp") + &read("/proc/net/tcp6");
    let sockets = listening(&tables, port);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let id = ids.find(|id| {
        let open = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| sockets.iter().any(|one| one == link)))
    })?;
    let name = read(&format!("/proc/{id}/comm")).trim().to_owned();
    let daemon = match &*name {
        "weftline" => daemon_of(&read(&format!("/proc/{id}/cmdline"))),
        _ => None,
    };
    Some(Program { name, id, daemon })
}

/// Which daemon a command line starts: words that each end with a zero.
fn daemon_of(words: &str) -> Option<Daemon> {
    let program = Cli::command();
    let command = words.split('\0').skip(1).find(|word| program.find_subcommand(word).is_some())?;
    [Daemon::Serve, Daemon::Connect, Daemon::Up].into_iter().find(|one| one.name() == command)
}

/// The sockets in the kernel's tables that listen on `port`, as links to them are called: `sl
/// local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …`.
fn listening(tables: &str, port: u16) -> Vec<String> {
    /// The state of a socket that listens (linux/tcp_states.h).
    const LISTEN: &str = "0A";
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = words.get(1)?.rsplit_once(':')?;
        let fits = u16::from_str_radix(local, 16) == Ok(port) && words.get(3) == Some(&LISTEN);
        fits.then(|| words.get(9).map(|inode| format!("socket:[{inode}]")))?
    };
    tables.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn who_listens_is_found_in_the_kernels_table() {
        let line = |port: &str, state: &str, inode: u32| {
            format!(
                "   0: 0100007F:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 \
                 0 0 {inode} 1 0000000000000000 100 0 0 10 0\n"
            )
        };
        let table = line("1151", "0A", 7) + &line("1151", "01", 8) + &line("0050", "0A", 9);
        assert_eq!(listening(&table, 4433), ["socket:[7]"]);
        assert!(listening("  sl  local_address rem_address   st\n", 4433).is_empty());
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = own.local_addr().unwrap().port();
        assert_eq!(holder(port).unwrap().id, std::process::id());
    }

    #[test]
    fn a_daemon_of_this_kind_is_no_stranger() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4433));
        let level = |daemon| {
            let holder = Program { name: "weftline".to_owned(), id: 7, daemon };
            taken(String::new(), address, Daemon::Serve, Some(holder)).level
        };
        assert_eq!(level(Some(Daemon::Serve)), Level::Ok);
        assert_eq!(level(Some(Daemon::Connect)), Level::Error);
        assert_eq!(level(None), Level::Error);
        assert_eq!(taken(String::new(), address, Daemon::Serve, None).level, Level::Error);
        let words = "/usr/bin/weftline\0--quiet\0connect\0--listen\0";
        assert_eq!(daemon_of(words), Some(Daemon::Connect));
        for other in ["serve\0lab\0run\0", "weftline\0vr\0serve\0", "weftline\0"] {
            assert_eq!(daemon_of(other), None, "{other}");
        }
    }
}
