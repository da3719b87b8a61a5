//! The world of one run: two namespaces, the devices of every path, and the emulator between them.

use std::net::{IpAddr, SocketAddr};

use weftline_core::ByteCount;
use weftline_link::LinkConfig;

use crate::LabError;
use crate::emulator::{EmulatedPath, Emulator, Start};
use crate::netns::Netns;
use crate::topology::{self, End, PATHS_MAX};
use crate::tun::{self, Tun};

/// The links of one path.
#[derive(Clone, Debug)]
pub struct PathLinks {
    /// The path's name, also its interfaces' at both ends.
    pub name: String,
    /// Server to client.
    pub down: LinkConfig,
    /// Client to server.
    pub up: LinkConfig,
}

/// A client and a server joined by emulated links. Dropping it removes everything.
#[derive(Debug)]
pub struct Testbed {
    /// Where the client's programs run.
    pub client: Netns,
    /// Where the server's programs run.
    pub server: Netns,
    /// What carries the packets.
    pub emulator: Emulator,
    names: Vec<String>,
}

impl Testbed {
    /// Builds the world anew: nothing is shared with an earlier one.
    ///
    /// `congestion` is the congestion control of every connection in it, `seed` that of every
    /// random draw of its links.
    ///
    /// # Errors
    /// [`LabError::Usage`] for path names that cannot be interfaces' or too many paths,
    /// [`LabError::NotPossible`] without the rights or the congestion control.
    pub fn build(
        paths: Vec<PathLinks>,
        congestion: &str,
        seed: u64,
        start: Start,
    ) -> Result<Self, LabError> {
        check_paths(&paths)?;
        let (client, server) = (Netns::create()?, Netns::create()?);
        client.configure(congestion)?;
        server.configure(congestion)?;
        let names = paths.iter().map(|path| path.name.clone()).collect();
        let mut emulated = Vec::new();
        for (index, path) in paths.into_iter().enumerate() {
            let end = |ns: &Netns, end| Tun::create(ns, &path.name, topology::address(index, end));
            emulated.push(EmulatedPath {
                client: end(&client, End::Client)?,
                server: end(&server, End::Server)?,
                name: path.name,
                down: path.down,
                up: path.up,
            });
        }
        let emulator = Emulator::spawn(emulated, seed, start)?;
        Ok(Self { client, server, emulator, names })
    }

    /// Lets the kernel tune receive buffers of sockets that are made from now on up to `most`.
    pub(crate) fn set_receive_buffer(&self, most: ByteCount) -> Result<(), LabError> {
        for ns in [&self.client, &self.server] {
            ns.set_receive_buffer(most)?;
        }
        Ok(())
    }

    /// The paths' names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The index of the path `name`.
    ///
    /// # Errors
    /// [`LabError::Usage`] naming the paths there are.
    pub fn path(&self, name: &str) -> Result<usize, LabError> {
        self.names.iter().position(|n| n == name).ok_or_else(|| {
            LabError::Usage(format!(
                "there is no path '{name}'; the scenario has {}",
                self.names.join(", ")
            ))
        })
    }

    /// The IPv4 address of `end` on the path of index `path`, with `port`.
    pub fn address(&self, path: usize, end: End, port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(topology::address(path, end).v4), port)
    }
}

fn check_paths(paths: &[PathLinks]) -> Result<(), LabError> {
    if paths.is_empty() || paths.len() > PATHS_MAX {
        return Err(LabError::Usage(format!(
            "the lab takes 1 to {PATHS_MAX} paths, not {}",
            paths.len()
        )));
    }
    for (index, path) in paths.iter().enumerate() {
        tun::check_name(&path.name)?;
        if paths[..index].iter().any(|other| other.name == path.name) {
            return Err(LabError::Usage(format!("two paths are called '{}'", path.name)));
        }
    }
    Ok(())
}
