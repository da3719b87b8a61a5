//! Taking the new TCP connections of this machine: routes lead them to a device of our own, and a
//! table of nf_tables redirects what leaves there to a local port.
//!
//! The routing rules choose connections whose socket has no address of its own yet. A socket that is
//! bound to a link or to one of its addresses, an answer to somebody else's connection, and what is
//! on a link's own network go their usual ways. So do our own sockets, each bound to its link. The usual
//! ways are those of the rules that come after ours, which are an administrator's: what is not captured
//! goes past our rules, and no table is asked for it.
//!
//! No rule refuses anything by itself: rules outlive a process that is killed together with what would
//! remove them. All that they do is to ask our table, which is empty then.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::error::NetError;
use crate::exception::Exception;
use crate::nft::{Ports, Redirect, Table};
use crate::own_address::{ADDRESSES_V4, ADDRESSES_V6, free_address};
use crate::route::{Link, Routes, Rule};
use crate::rules::{TABLE, exceptions, rules_v4, rules_v6};

/// The name of the device.
pub const DEVICE: &str = "weft0";
/// The longest packet of the device. TCP never sees it, as connections end in this machine.
const MTU: u16 = 1400;
/// What becomes of new TCP connections to IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    /// They are redirected to this port of this machine.
    Redirect(u16),
    /// They are refused at once, so that the program tries IPv4.
    Refused,
}

/// Where captured connections go.
#[derive(Clone, Debug)]
pub struct CaptureConfig {
    /// The port of this machine to which IPv4 connections are redirected.
    pub port_v4: u16,
    /// What becomes of IPv6.
    pub ipv6: Ipv6,
    /// What goes its usual way.
    pub exceptions: Vec<Exception>,
}

/// The capture; new connections go their usual ways again when this is dropped.
pub struct Capture {
    routes: Routes,
    /// The device's number.
    index: u32,
    /// The device's addresses, one of each family that is captured.
    addresses: Vec<IpAddr>,
    rules: Vec<Rule>,
    /// What refuses connections, of IPv4 and IPv6.
    _refusing: [Option<Refusing>; 2],
    table: Mutex<Table>,
    _device: SyncDevice,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Capture {
    /// Sets it up; the rules, which turn it on, come last. On an error nothing is left behind.
    ///
    /// # Errors
    /// When the device is there already, an address cannot be had, or the kernel or the rights of
    /// this process do not allow it.
    pub fn start(config: &CaptureConfig) -> Result<Self, NetError> {
        let routes = Routes::open().map_err(NetError::os("asking for the routes"))?;
        let v4 = free_address(&routes, &ADDRESSES_V4.map(IpAddr::V4))?;
        let v6 = free_address(&routes, &ADDRESSES_V6.map(IpAddr::V6))?;
        check_free(&routes)?;
        let device = create_device()?;
        let index = device.if_index().map_err(NetError::os("asking for the device's number"))?;
        let os = |what: &str| NetError::os(format!("{what} the device {DEVICE}"));
        routes.add_address(index, v4).map_err(os("giving an address to"))?;
        let has_ipv6 = add_ipv6(&routes, index, v6);
        routes.set_up(index).map_err(os("setting up"))?;
        let refusing_v4 = Refusing::start(Ipv4Addr::LOCALHOST.into());
        let refusing_v6 =
            has_ipv6.then(|| Refusing::start(Ipv6Addr::LOCALHOST.into())).and_then(warned_of);
        let refusing = [refusing_v4.ok(), refusing_v6];
        let [refused_v4, refused_v6] =
            [0, 1].map(|family: usize| refusing[family].as_ref().map(|one| one.port));
        let port_v6 = match config.ipv6 {
            Ipv6::Redirect(port) => has_ipv6.then_some(port),
            Ipv6::Refused => refused_v6,
        };
        let addresses = if has_ipv6 { vec![v4, v6] } else { vec![v4] };
        let v4_ports = Some(Ports { to: config.port_v4, refused: refused_v4 });
        let v6_ports = port_v6.map(|to| Ports { to, refused: refused_v6 });
        let redirect =
            Redirect { device: DEVICE, v4: v4_ports, v6: v6_ports, addresses: &addresses };
        let table = Table::create(&redirect).map_err(no_table)?;
        // What is not captured, before what is: none of the first is, in between.
        let mut rules = exceptions(&config.exceptions, port_v6.is_some());
        rules.extend(rules_v4(v4));
        let mut addresses = vec![v4];
        if port_v6.is_some() {
            rules.extend(rules_v6(v6));
            addresses.push(v6);
        }
        // From here on dropping it removes what is there.
        let capture = Self {
            routes,
            index,
            addresses,
            rules,
            _refusing: refusing,
            table: Mutex::new(table),
            _device: device,
        };
        capture.keep().map_err(NetError::os("adding routes and rules"))?;
        Ok(capture)
    }

    /// Adds again what somebody has deleted: addresses of the device, routes through it, rules; and
    /// sets the device up if it is down. Returns how much that is.
    ///
    /// # Errors
    /// The kernel's first refusal; all the rest has been tried all the same.
    pub fn keep(&self) -> io::Result<usize> {
        // Routes need an address and a device that is up; rules lead to routes.
        let addresses = self.addresses.iter().map(|&address| self.keep_address(address));
        let routes = self.addresses.iter().map(|address| {
            let route = self.routes.add_default(address.is_ipv6(), self.index, TABLE);
            is_new(route).map(usize::from)
        });
        let rest = [Self::keep_up as fn(&Self) -> io::Result<usize>, Self::keep_rules];
        let [up, rules] = rest.map(|step| std::iter::once_with(move || step(self)));
        let steps = addresses.chain(up).chain(routes).chain(rules);
        let (mut added, mut failed) = (0, None);
        for step in steps {
            match step {
                Ok(more) => added += more,
                // One family may be refused, and the other is to go on.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(added), Err)
    }

    fn keep_address(&self, address: IpAddr) -> io::Result<usize> {
        let add = || is_new(self.routes.add_address(self.index, address));
        match add() {
            Err(error) if address.is_ipv6() && error.kind() == io::ErrorKind::PermissionDenied => {
                // Somebody has switched IPv6 off, perhaps for all interfaces.
                enable_ipv6();
                add()
            }
            added => added,
        }
        .map(usize::from)
    }

    fn keep_up(&self) -> io::Result<usize> {
        let is_down = |link: &Link| link.index == self.index && !link.up;
        if !self.routes.links()?.iter().any(is_down) {
            return Ok(0);
        }
        self.routes.set_up(self.index).map(|()| 1)
    }

    fn keep_rules(&self) -> io::Result<usize> {
        let there = self.routes.rules()?;
        let missing: Vec<_> = self.rules.iter().filter(|rule| !there.contains(rule)).collect();
        missing.iter().try_for_each(|rule| self.routes.add_rule(rule))?;
        Ok(missing.len())
    }

    /// Has the kernel refuse new connections to `target` for ten seconds: a program that is refused
    /// before it has sent anything tries its next address. The newest of very many are left out.
    ///
    /// # Errors
    /// The kernel's refusal.
    ///
    /// # Panics
    /// If another thread has panicked in here.
    pub fn refuse(&self, target: SocketAddr) -> io::Result<()> {
        self.table.lock().expect("no panic").refuse(target)
    }

    /// From now on new connections go their usual ways. Those that are captured stay so.
    pub fn release(&self) {
        // In the other order, so that what is not captured is not in between.
        for rule in self.rules.iter().rev() {
            if let Err(error) = self.routes.delete_rule(rule) {
                tracing::warn!("a routing rule stays, priority {}: {error}", rule.priority);
            }
        }
    }
}

/// Whether the kernel has added something; what was there already is no fault.
fn is_new(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lets the device have IPv6 addresses. It fails where the kernel has no IPv6, or the directory is
/// read-only; then so does adding one.
fn enable_ipv6() {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6"), "0");
}

/// Gives the device an IPv6 address; whether it has one then. Where new interfaces have no IPv6, ours
/// gets it nevertheless if others have it: what goes out by those is to be captured.
fn add_ipv6(routes: &Routes, index: u32, address: IpAddr) -> bool {
    let is_used = || {
        let links = routes.links()?;
        let is_loopback = |number| links.iter().any(|link| link.index == number && link.loopback);
        let mut there = routes.addresses()?.into_iter();
        Ok::<_, io::Error>(there.any(|one| one.address.is_ipv6() && !is_loopback(one.link)))
    };
    let is_used = is_used().unwrap_or(true);
    if is_used {
        enable_ipv6();
    }
    match routes.add_address(index, address) {
        Ok(()) => return true,
        Err(error) if is_used => tracing::warn!(
            "IPv6 connections go past the server, as {DEVICE} gets no IPv6 address ({error}); let it \
             have one with 'sysctl net.ipv6.conf.default.disable_ipv6=0' and start again"
        ),
        Err(error) => tracing::info!("this machine has no IPv6 to capture: {error}"),
    }
    false
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.release();
    }
}

/// A port of this machine that is ours and on which nobody listens: the kernel refuses connections
/// that are redirected to it.
#[derive(Debug)]
struct Refusing {
    port: u16,
    _socket: OwnedFd,
}

impl Refusing {
    /// Takes a port of a loopback address.
    fn start(loopback: IpAddr) -> io::Result<Self> {
        let family = if loopback.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddr::new(loopback, 0))?;
        let port = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?.port();
        Ok(Self { port, _socket: socket })
    }
}

/// Where loopback has no IPv6, nothing can refuse its connections; that is warned of.
fn warned_of(started: io::Result<Refusing>) -> Option<Refusing> {
    let warn = |error: &io::Error| {
        tracing::warn!(
            "loopback has no IPv6 here ({error}): if the server has none either, IPv6 connections go \
             past it; 'sysctl net.ipv6.conf.lo.disable_ipv6=0' lets them be refused"
        );
    };
    started.inspect_err(warn).ok()
}

fn check_free(routes: &Routes) -> Result<(), NetError> {
    let links = routes.links().map_err(NetError::os("asking for the interfaces"))?;
    match links.iter().any(|link| link.name == DEVICE) {
        true => Err(NetError::DeviceTaken { name: DEVICE }),
        false => Ok(()),
    }
}

fn create_device() -> Result<SyncDevice, NetError> {
    let made = DeviceBuilder::new().name(DEVICE).mtu(MTU).enable(false).build_sync();
    made.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NetError::NotPossible {
            what: "there is no /dev/net/tun".to_owned(),
            remedy: "load it with 'modprobe tun', or pass --device /dev/net/tun to the container",
        },
        _ => NetError::os(format!("creating the device {DEVICE}"))(error),
    })
}

/// What the kernel's refusal of the table means.
fn no_table(error: io::Error) -> NetError {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    match code {
        Some(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::NOENT | Errno::OPNOTSUPP) => {
            NetError::NotPossible {
                what: format!("this kernel cannot redirect connections by nf_tables ({error})"),
                remedy: "load the modules with 'modprobe -a nf_tables nft_redir nft_chain_nat', or \
                         use Linux 5.12 or newer with nf_tables",
            }
        }
        Some(Errno::EXIST) => NetError::NotPossible {
            what: "there is an nf_tables table 'inet weftline' of another program".to_owned(),
            remedy: "remove it with 'nft delete table inet weftline'",
        },
        _ => NetError::os("making the nf_tables table 'inet weftline'")(error),
    }
}
