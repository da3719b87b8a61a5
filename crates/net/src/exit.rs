//! Where packets of whole machines leave a server: a device of our own, from which the kernel forwards
//! them in the server's name, and a table of nf_tables that says where they may go.
//!
//! Device, routes and table go with the process. The sysctls that let the kernel forward are noted in a
//! journal.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tun_rs::{DeviceBuilder, SyncDevice};

use crate::capture::{MTU, QUEUE, cannot_create};
use crate::error::NetError;
use crate::exit_table::{ExitTable, Gate, Unforwarded};
use crate::forwarding::{ALL_V6, forward_v6, forwarding, is_off, keep_advertisements};
use crate::journal::Journal;
use crate::nft;
use crate::route::{Link, Route, Routes};

/// The name of the device.
pub const EXIT_DEVICE: &str = "weft-exit";

/// Where packets may leave to.
#[derive(Clone, Debug)]
pub struct ExitConfig {
    /// Networks that clients reach whatever `closed` says.
    pub allowed: Vec<(IpAddr, u8)>,
    /// Networks that they do not reach.
    pub closed: Vec<(IpAddr, u8)>,
    /// The file of the journal in which sysctls that are changed are noted.
    pub journal: PathBuf,
}

/// The exit; nothing is forwarded any more when this is dropped.
pub struct Exit {
    routes: Routes,
    device: Arc<SyncDevice>,
    index: u32,
    ipv6: AtomicBool,
    journal: Journal,
    table: ExitTable,
    kept: Mutex<Kept>,
}

/// What is known of links.
struct Kept {
    /// Those by which nothing is forwarded to another but for clients.
    unforwarded: Vec<Unforwarded>,
    /// Those that we let forward, by number and name.
    set: Vec<(u32, String)>,
    /// Those that there were when it was looked last.
    links: Vec<String>,
    /// Whether this machine has become a router of IPv6 by us.
    is_our_ipv6: bool,
}

impl fmt::Debug for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exit").field("ipv6", &self.has_ipv6()).finish_non_exhaustive()
    }
}

impl Exit {
    /// Sets it up.
    ///
    /// # Errors
    /// When the device is there already, or the kernel or the rights of this process do not allow it.
    pub fn start(config: &ExitConfig) -> Result<Self, NetError> {
        let routes = Routes::open().map_err(NetError::os("asking for the routes"))?;
        let links = routes.links().map_err(NetError::os("asking for the interfaces"))?;
        if links.iter().any(|link| link.name == EXIT_DEVICE) {
            return Err(NetError::DeviceTaken { name: EXIT_DEVICE });
        }
        let device = DeviceBuilder::new().name(EXIT_DEVICE).mtu(MTU).enable(false);
        let device = device.offload(true).tx_queue_len(QUEUE).build_sync();
        let device = Arc::new(device.map_err(cannot_create)?);
        let index = device.if_index().map_err(NetError::os("asking for the device's number"))?;
        let defaults = routes.defaults().map_err(NetError::os("asking for the routes"))?;
        let has_way = defaults.iter().any(|route| route.destination.is_ipv6());
        let unforwarded = unforwarded(&links, has_way);
        let is_ours = |link: &&Link| unforwarded.iter().any(|one| one.link == Some(link.index));
        let set = links.iter().filter(is_ours).map(|link| (link.index, link.name.clone()));
        let set = set.collect();
        let names: Vec<_> = links.iter().map(|link| link.name.clone()).collect();
        let bridges = links.into_iter().filter(|link| link.kind == "bridge");
        let bridges: Vec<_> = bridges.map(|link| link.name).collect();
        let gate = Gate {
            device: EXIT_DEVICE,
            allowed: &config.allowed,
            closed: &config.closed,
            unforwarded: &unforwarded,
            bridges: &bridges,
        };
        let table = ExitTable::create(&gate).map_err(no_table)?;
        let journal = Journal::at(&config.journal);
        let is_our_ipv6 = has_way && is_off(ALL_V6);
        // The table is there before the first packet is forwarded.
        forward_v4(&routes, &journal).map_err(NetError::os("letting the kernel forward IPv4"))?;
        let forwarded = if has_way { forward_v6(&journal) } else { Ok(()) };
        let ipv6 = has_way && forwarded.is_ok();
        if let Err(error) = forwarded {
            tracing::warn!("clients' IPv6 is not forwarded: {error}");
        }
        routes.set_up(index).map_err(NetError::os("setting the device up"))?;
        let kept = Kept { unforwarded, set, links: names, is_our_ipv6: ipv6 && is_our_ipv6 };
        let (ipv6, kept) = (AtomicBool::new(ipv6), Mutex::new(kept));
        Ok(Self { routes, device, index, ipv6, journal, table, kept })
    }

    /// Lets answers come by links that have come since: how many those are. They lead to clients and nowhere
    /// else, as those that were there before. What somebody has switched off since is switched on again.
    ///
    /// # Errors
    /// The kernel's refusal; it is tried again with the next call.
    ///
    /// # Panics
    /// If another thread has panicked in here.
    pub fn keep(&self) -> io::Result<usize> {
        self.restore()?;
        let links = self.routes.links()?;
        let mut kept = self.kept.lock().expect("no panic");
        let (mut added, mut result) = (0, Ok(()));
        // Those of links that are gone are needed no more: a number is never given again.
        let is_there = |index| links.iter().any(|link| link.index == index);
        kept.unforwarded.retain(|one| one.link.is_none_or(is_there));
        kept.set.retain(|(index, _)| is_there(*index));
        for link in links.iter().filter(|link| is_other(link)) {
            match self.keep_link(&mut kept, link) {
                Ok(is_new) => added += usize::from(is_new),
                // The others are looked at all the same.
                Err(error) => result = Err(error),
            }
        }
        kept.links = links.into_iter().map(|link| link.name).collect();
        result.map(|()| added)
    }

    /// Lets the kernel forward again what comes from clients, where somebody has switched that off: what
    /// switches forwarding of IPv4 off does so for all devices. IPv6 is taken up again by
    /// [`take_up_ipv6`](Self::take_up_ipv6).
    fn restore(&self) -> io::Result<()> {
        let own = forwarding(EXIT_DEVICE);
        if is_off(&own) {
            fs::write(Path::new("/proc/sys").join(own), "1")?;
            tracing::warn!(
                "somebody has switched off that IPv4 is forwarded; for clients it is again"
            );
        }
        if self.has_ipv6() && is_off(ALL_V6) {
            self.ipv6.store(false, Ordering::Relaxed);
            tracing::warn!("somebody has switched off that IPv6 is forwarded");
        }
        Ok(())
    }

    /// Forwards IPv6 from now on, if there is a way for it by now: a router may have said so only after the
    /// start. Whether that is new.
    ///
    /// # Errors
    /// The kernel's refusal; it is tried again with the next call.
    ///
    /// # Panics
    /// If another thread has panicked in here.
    pub fn take_up_ipv6(&self) -> io::Result<bool> {
        let mut kept = self.kept.lock().expect("no panic");
        let is_v6 = |route: &Route| route.destination.is_ipv6();
        if self.has_ipv6() || !self.routes.defaults()?.iter().any(is_v6) {
            return Ok(false);
        }
        let rule = Unforwarded { ipv6: true, link: None };
        if is_off(ALL_V6) && !kept.unforwarded.contains(&rule) {
            kept.unforwarded.push(rule);
            self.table.set_unforwarded(&kept.unforwarded).inspect_err(|_| {
                kept.unforwarded.pop();
            })?;
        }
        let is_ours = is_off(ALL_V6);
        forward_v6(&self.journal)?;
        kept.is_our_ipv6 = is_ours;
        self.ipv6.store(true, Ordering::Relaxed);
        Ok(true)
    }

    /// The same for a link; whether answers come by it now and did not before.
    fn keep_link(&self, kept: &mut Kept, link: &Link) -> io::Result<bool> {
        let sysctl = forwarding(&link.name);
        if let Some(known) = kept.set.iter_mut().find(|(index, _)| *index == link.index)
            && known.1 != link.name
        {
            // It has another name now, and all else as before.
            self.journal.note(&sysctl, "0", "1")?;
            known.1.clone_from(&link.name);
        }
        if self.has_ipv6() && kept.is_our_ipv6 && !kept.links.contains(&link.name) {
            keep_advertisements(&self.journal, &link.name)?;
        }
        if !is_off(&sysctl) {
            return Ok(false);
        }
        let rule = Unforwarded { ipv6: false, link: Some(link.index) };
        if !kept.unforwarded.contains(&rule) {
            kept.unforwarded.push(rule);
            self.table.set_unforwarded(&kept.unforwarded).inspect_err(|_| {
                kept.unforwarded.pop();
            })?;
        }
        self.journal.set(&sysctl, "1")?;
        kept.set.retain(|(index, _)| *index != link.index);
        kept.set.push((link.index, link.name.clone()));
        Ok(true)
    }

    /// The device.
    pub fn device(&self) -> Arc<SyncDevice> {
        Arc::clone(&self.device)
    }

    /// Whether IPv6 is forwarded.
    pub fn has_ipv6(&self) -> bool {
        self.ipv6.load(Ordering::Relaxed)
    }

    /// Leads packets to a client's address into the device.
    ///
    /// # Errors
    /// When this machine has the address itself, or the kernel refuses.
    pub fn add_client(&self, address: IpAddr) -> Result<(), NetError> {
        let asking = NetError::os("asking for the addresses");
        let there = self.routes.addresses().map_err(asking)?;
        if there.iter().any(|one| one.address == address) {
            return Err(NetError::AddressTaken { tried: address });
        }
        let is_there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let mut added = self.routes.add_host(address, self.index);
        if added.as_ref().is_err_and(is_there) {
            // Our own is made anew. Another one leads elsewhere: to a neighbour with this address.
            let _ = self.routes.delete_host(address, self.index);
            added = self.routes.add_host(address, self.index);
        }
        added.map_err(|error| match is_there(&error) {
            true => NetError::AddressTaken { tried: address },
            false => NetError::os(format!("adding a route to {address}"))(error),
        })
    }

    /// Leads them there no more. One that is not there is no fault.
    pub fn remove_client(&self, address: IpAddr) {
        if let Err(error) = self.routes.delete_host(address, self.index) {
            tracing::warn!("the route to {address} stays: {error}");
        }
    }
}

/// Links other than our own: answers may come by each.
fn is_other(link: &Link) -> bool {
    !link.loopback && link.name != EXIT_DEVICE
}

/// What this machine does not forward before we change that.
fn unforwarded(links: &[Link], with_ipv6: bool) -> Vec<Unforwarded> {
    let is_off_v4 = |link: &&Link| is_off(&forwarding(&link.name));
    let off = links.iter().filter(|link| is_other(link)).filter(is_off_v4);
    let v4 = off.map(|link| Unforwarded { ipv6: false, link: Some(link.index) });
    let v6 = (with_ipv6 && is_off(ALL_V6)).then_some(Unforwarded { ipv6: true, link: None });
    v4.chain(v6).collect()
}

/// The kernel forwards what comes in by an interface that is allowed to: the device, and all by which
/// answers may come.
fn forward_v4(routes: &Routes, journal: &Journal) -> io::Result<()> {
    // A new device forwards where the default is to. In a container nobody may write there, nor need to.
    let own = forwarding(EXIT_DEVICE);
    if is_off(&own) {
        fs::write(Path::new("/proc/sys").join(own), "1")?;
    }
    for link in routes.links()?.into_iter().filter(is_other) {
        journal.set(&forwarding(&link.name), "1")?;
    }
    Ok(())
}

/// What the kernel's refusal of the table means.
fn no_table(error: io::Error) -> NetError {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    match code {
        _ if nft::cannot_own(&error) => NetError::NotPossible {
            what: format!("this kernel cannot masquerade by nf_tables ({error})"),
            remedy: "load the modules with 'modprobe -a nf_tables nft_masq nft_ct nft_chain_nat', or \
                         use Linux 5.12 or newer with nf_tables",
        },
        Some(Errno::EXIST) => NetError::NotPossible {
            what: "there is an nf_tables table 'inet weftline_exit' of another program".to_owned(),
            remedy: "remove it with 'nft delete table inet weftline_exit'",
        },
        _ => NetError::os("making the nf_tables table 'inet weftline_exit'")(error),
    }
}
