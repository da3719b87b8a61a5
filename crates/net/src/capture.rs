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
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::error::NetError;
use crate::exception::Exception;
use crate::journal::Journal;
use crate::link_name::LinkName;
use crate::nft::{self, Ports, Redirect, Table};
use crate::own_address::{addresses_v4, addresses_v6, free_address};
use crate::route::{Address, Link, Routes, Rule};
use crate::rules::{Scope, TABLE, exceptions, rule_of_own, rules_v4, rules_v6, shared};
use crate::share::Share;
use crate::share_table;

/// The name of the device.
pub const DEVICE: &str = "weft0";
/// The longest packet of the device. TCP never sees it, as connections end in this machine.
pub(crate) const MTU: u16 = 1400;
/// Packets that the kernel keeps for us to read.
pub(crate) const QUEUE: u32 = 1000;
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
    /// Links of whose machines the same is captured. What listens at the ports then has to do so at all
    /// addresses: nothing reaches it by a link but what is redirected.
    pub shared: Vec<LinkName>,
    /// This client's number at its server, by which its device has addresses.
    pub client: u16,
    /// The file of the journal in which sysctls that are changed are noted.
    pub journal: PathBuf,
}

/// The capture; new connections go their usual ways again when this is dropped.
pub struct Capture {
    routes: Routes,
    /// The device's number.
    index: u32,
    exceptions: Vec<Exception>,
    share: Share,
    /// The number of this client at its server.
    client: AtomicU16,
    journal: Journal,
    /// Held while the kernel is told of a change: whoever sets again what was deleted would else add
    /// rules of the scope before. A lock that is fair in the end: each rule that is set again wakes whoever
    /// keeps rules, and with the standard library's lock they keep others out of it for minutes.
    change: parking_lot::Mutex<()>,
    /// Whether IPv6 can be captured, once there is any.
    can_ipv6: bool,
    held: Mutex<Held>,
    /// What refuses connections, of IPv4 and IPv6.
    _refusing: [Option<Refusing>; 2],
    table: Mutex<Table>,
    device: Arc<SyncDevice>,
}

/// What the capture goes by at a time.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The device's addresses.
    v4: IpAddr,
    v6: IpAddr,
    /// Whether IPv6 is captured: since this machine has had any.
    ipv6: bool,
    /// What is captured, of IPv4 and IPv6.
    scopes: [Scope; 2],
    /// Whether it has been said that loopback has no IPv6.
    is_told: bool,
    /// Whether nothing new is captured for a while, and whether nothing is any more.
    is_suspended: bool,
    is_released: bool,
}

impl Held {
    /// The families that are captured, IPv6 or not.
    fn families(self) -> &'static [bool] {
        if self.ipv6 { &[false, true] } else { &[false] }
    }

    const fn address(self, ipv6: bool) -> IpAddr {
        if ipv6 { self.v6 } else { self.v4 }
    }

    /// The rules of a family: what is not captured, before what is, so that none of the first is in
    /// between.
    fn rules(self, all: &[Exception], links: &[LinkName], ipv6: bool) -> Vec<Rule> {
        if self.is_suspended {
            return vec![rule_of_own(self.address(ipv6))];
        }
        let scope = self.scopes[usize::from(ipv6)];
        let mut rules = exceptions(all, ipv6, scope);
        rules.extend(if ipv6 { rules_v6(self.v6, scope) } else { rules_v4(self.v4, scope) });
        rules.extend(shared(links, all, ipv6, scope));
        rules
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("held", &self.held).finish_non_exhaustive()
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
        let v4 = free_address(&routes, &addresses_v4(config.client))?;
        let v6 = free_address(&routes, &addresses_v6(config.client))?;
        check_free(&routes)?;
        let device = create_device()?;
        let index = device.if_index().map_err(NetError::os("asking for the device's number"))?;
        let refusing = refusing_at(!config.shared.is_empty()).map(|at| Refusing::start(at).ok());
        let excepted = config.exceptions.iter().filter_map(|one| match one {
            Exception::Port(port) => Some(*port),
            _ => None,
        });
        let excepted: Vec<_> = excepted.collect();
        let [refused_v4, refused_v6] =
            [0, 1].map(|family: usize| refusing[family].as_ref().map(|one| one.port));
        let port_v6 = match config.ipv6 {
            Ipv6::Redirect(port) => Some(port),
            // None is taken if this kernel has no IPv6 at all.
            Ipv6::Refused => refused_v6,
        };
        let redirect = Redirect {
            device: DEVICE,
            v4: Some(Ports { to: config.port_v4, refused: refused_v4 }),
            v6: port_v6.map(|to| Ports { to, refused: refused_v6 }),
            addresses: &[v4, v6],
            excepted: &excepted,
        };
        let table = Table::create(&redirect, |batch| {
            if !config.shared.is_empty() {
                share_table::write(batch, &redirect);
            }
        });
        // From here on dropping it removes what is there.
        let capture = Self {
            routes,
            index,
            exceptions: config.exceptions.clone(),
            share: Share::of(&config.shared),
            client: AtomicU16::new(config.client),
            journal: Journal::at(&config.journal),
            change: parking_lot::Mutex::default(),
            can_ipv6: port_v6.is_some(),
            held: Mutex::new(Held {
                v4,
                v6,
                ipv6: false,
                scopes: [Scope::Tcp; 2],
                is_told: false,
                is_suspended: false,
                is_released: false,
            }),
            _refusing: refusing,
            table: Mutex::new(table.map_err(no_table)?),
            device,
        };
        capture.keep_family(capture.held(), false).map_err(NetError::os("capturing IPv4"))?;
        if let Err(error) = capture.keep() {
            tracing::warn!(
                "IPv6 connections go past the server, as {DEVICE} gets no IPv6 ({error}); it is tried \
                 again when links change"
            );
        }
        Ok(capture)
    }

    /// The device: packets that are no TCP come from it once [`Self::widen`] has led them there.
    pub fn device(&self) -> Arc<SyncDevice> {
        Arc::clone(&self.device)
    }

    /// The device's addresses: of IPv4, and of IPv6.
    pub fn addresses(&self) -> [IpAddr; 2] {
        let held = self.held();
        [held.v4, held.v6]
    }

    /// This client has another number at its server from now on: the device gets addresses by that with
    /// the next [`Self::keep`]. Whether it had another one until now.
    pub fn set_client(&self, client: u16) -> bool {
        self.client.swap(client, Ordering::Relaxed) != client
    }

    /// Captures all other packets as well as TCP from now on: they come out of the device. With `dns`
    /// also questions to DNS that are for a link's own network; without, none of them.
    ///
    /// # Errors
    /// The kernel's refusal of IPv4: then all is as before, as far as the kernel allows that. What it refuses
    /// of IPv6 alone is logged, and tried again by [`Self::keep`].
    pub fn widen(&self, dns: bool) -> Result<(), NetError> {
        self.set_scope(Scope::All { dns })
    }

    /// Captures TCP alone from now on, as before [`Self::widen`].
    ///
    /// # Errors
    /// The kernel's refusal to delete rules, of either family: those of the other are deleted all the same.
    pub fn narrow(&self) -> Result<(), NetError> {
        self.set_scope(Scope::Tcp)
    }

    /// Captures nothing new from now on: connections and packets go their usual ways. Those connections that
    /// are captured stay so, and sockets that have the device's address.
    ///
    /// # Errors
    /// The kernel's refusal to delete rules: those of the other family are deleted all the same, and nothing
    /// that is missing is added again.
    ///
    /// # Panics
    /// If another thread has panicked in here.
    pub fn suspend(&self) -> Result<(), NetError> {
        let _change = self.change.lock();
        let before = self.held();
        let now = Held { is_suspended: true, ..before };
        *self.held.lock().expect("no panic") = now;
        if before.is_released {
            return Ok(());
        }
        let families = before.families().iter();
        let former = families.map(|&ipv6| self.former(before, now, ipv6));
        let deleted = former.map(|rules| self.delete_rules(&rules).map(|()| 0));
        all(deleted).map(drop).map_err(NetError::os("suspending the capture"))
    }

    /// Captures again what was captured before [`Self::suspend`], or is to be by now.
    ///
    /// # Errors
    /// The kernel's refusal of a rule; the others are added all the same, and [`Self::keep`] tries it again.
    ///
    /// # Panics
    /// If another thread has panicked in here.
    pub fn resume(&self) -> Result<(), NetError> {
        let _change = self.change.lock();
        self.held.lock().expect("no panic").is_suspended = false;
        let held = self.held();
        if held.is_released {
            return Ok(());
        }
        let added = held.families().iter().map(|&ipv6| self.keep_family(held, ipv6));
        all(added).map(drop).map_err(NetError::os("resuming the capture"))
    }

    fn set_scope(&self, scope: Scope) -> Result<(), NetError> {
        let _change = self.change.lock();
        if self.held().is_released {
            return Ok(());
        }
        let changed = match (self.set_family(scope, false), scope) {
            // What of IPv4 is refused is of more importance, and tried again as a whole.
            (Err(error), Scope::All { .. }) => Err(error),
            (v4, _) => v4.and(self.set_family(scope, true)),
        };
        changed.map_err(NetError::os("changing what is captured"))
    }

    /// Changes what is captured of a family.
    fn set_family(&self, scope: Scope, ipv6: bool) -> io::Result<()> {
        let before = self.held();
        let mut now = before;
        now.scopes[usize::from(ipv6)] = scope;
        if now.families().contains(&ipv6)
            && let Err(error) = self.replace(before, now, ipv6)
        {
            if !ipv6 || scope == Scope::Tcp {
                // As it was, so that another try does all of it.
                if let Err(error) = self.replace(now, before, ipv6) {
                    tracing::debug!(%error, "rules of a change that was refused are still there");
                }
                return Err(error);
            }
            // A machine may lack IPv6 for good: that keeps nothing of IPv4 from being captured.
            tracing::warn!(
                "UDP, DNS and ICMP of IPv6 go past the server ({error}); it is tried again when links \
                 change"
            );
        }
        self.held.lock().expect("no panic").scopes[usize::from(ipv6)] = scope;
        Ok(())
    }

    /// Adds the rules of `now` that are missing, and then deletes those of `before` that are not among
    /// them. What is refused keeps no other from being tried.
    fn replace(&self, before: Held, now: Held, ipv6: bool) -> io::Result<()> {
        let mut kept = self.keep_family(now, ipv6);
        let former = self.former(before, now, ipv6).into_iter();
        let deleted = all(former.map(|rule| self.routes.delete_rule(&rule).map(|()| 0)));
        if now.scopes[usize::from(ipv6)] == Scope::Tcp {
            // Nothing more comes to the device than should; what is missing is for `keep`.
            let missing = kept.inspect_err(|error| tracing::debug!(%error, ipv6, "not kept"));
            kept = Ok(missing.unwrap_or(0));
        }
        kept.and(deleted).map(drop)
    }

    /// The rules of a family that were `before`, and are not `now`.
    fn former(&self, before: Held, now: Held, ipv6: bool) -> Vec<Rule> {
        let rules = self.rules(now, ipv6);
        let former = self.rules(before, ipv6).into_iter();
        former.filter(|rule| !rules.contains(rule)).collect()
    }

    fn rules(&self, held: Held, ipv6: bool) -> Vec<Rule> {
        held.rules(&self.exceptions, &self.share.links(), ipv6)
    }

    fn held(&self) -> Held {
        *self.held.lock().expect("no panic")
    }

    /// Adds again what somebody has deleted: addresses of the device, routes through it, rules; and
    /// sets the device up if it is down. Captures IPv6 from when this machine has any. Gives the device
    /// another address if a link has been given its own. Returns how much has been added.
    ///
    /// # Errors
    /// [`NetError::AddressTaken`] when there is no other address: then no link works that has ours, until
    /// this is dropped. Else the kernel's first refusal; all the rest has been tried all the same.
    pub fn keep(&self) -> Result<usize, NetError> {
        let _change = self.change.lock();
        if self.held().is_released {
            return Ok(0);
        }
        let left = self.leave_taken()?;
        let found = self.look_for_ipv6();
        let held = self.held();
        let shared = self.keep_share(held);
        let families = held.families().iter().map(|&ipv6| self.keep_family(held, ipv6));
        let others = [found.map(|()| 0), shared.map(|()| 0)].into_iter();
        let added = all(others.chain(families));
        if let Some(before) = left {
            self.remove_former(before, held);
        }
        added.map_err(NetError::os("setting again what was deleted"))
    }

    /// Looks which links are shared, and lets the kernel forward what comes by them. The rules of those that are no
    /// more are deleted; those of new ones are missing, and added with all others.
    fn keep_share(&self, held: Held) -> io::Result<()> {
        let before = held.families().iter().flat_map(|&ipv6| self.rules(held, ipv6));
        let before: Vec<_> = if self.share.is_wanted() { before.collect() } else { Vec::new() };
        let kept = {
            let table = self.table.lock().expect("no panic");
            self.share.keep(DEVICE, (&self.routes, &self.journal), |shared| table.share(shared))
        };
        let now = held.families().iter().flat_map(|&ipv6| self.rules(held, ipv6));
        let now: Vec<_> = if before.is_empty() { Vec::new() } else { now.collect() };
        let former = before.iter().filter(|rule| !now.contains(rule));
        let deleted = all(former.map(|rule| self.routes.delete_rule(rule).map(|()| 0)));
        kept.and(deleted.map(drop))
    }

    /// Chooses other addresses for the device if a link has its own, as by DHCP: what comes in there for
    /// it would be dropped; or if this client has another number. Returns what held before.
    fn leave_taken(&self) -> Result<Option<Held>, NetError> {
        let there = self.routes.addresses().map_err(NetError::os("asking for the addresses"))?;
        let client = self.client.load(Ordering::Relaxed);
        let (all_v4, all_v6) = (addresses_v4(client), addresses_v6(client));
        let is_taken = |address: IpAddr| {
            there.iter().any(|one| one.link != self.index && one.address == address)
                || !all_v4.contains(&address) && !all_v6.contains(&address)
        };
        let mut held = self.held.lock().expect("no panic");
        let (before, mut now) = (*held, *held);
        if is_taken(now.v4) {
            now.v4 = free_address(&self.routes, &all_v4)?;
        }
        if is_taken(now.v6) {
            now.v6 = free_address(&self.routes, &all_v6)?;
        }
        if (before.v4, before.v6) == (now.v4, now.v6) {
            return Ok(None);
        }
        let table = self.table.lock().expect("no panic");
        table.guard(&[now.v4, now.v6]).map_err(NetError::os("leaving a link its address"))?;
        *held = now;
        Ok(Some(before))
    }

    /// Removes rules and addresses that were ours `before`, and are not `now`.
    fn remove_former(&self, before: Held, now: Held) {
        for &ipv6 in before.families() {
            let (old, new) = (before.address(ipv6), now.address(ipv6));
            if old == new {
                continue;
            }
            let former = self.former(before, now, ipv6).into_iter();
            let rules = former.map(|rule| self.routes.delete_rule(&rule).map(|()| 0));
            let address = || self.routes.delete_address(self.index, old).map(|()| 0);
            match all(rules.chain(std::iter::once_with(address))) {
                Ok(_) => tracing::warn!(
                    "{DEVICE} has {new} now: {old}, which it had, is a link's, or another \
                     client's; captured connections may have ended"
                ),
                Err(error) => tracing::warn!(
                    "{DEVICE} cannot leave {old} ({error}), which is a link's, too, or another \
                     client's: 'weftline down' and 'weftline up' do that"
                ),
            }
        }
    }

    /// Has IPv6 captured if this machine has any now. Loopback, to which it is redirected, must have it
    /// then, too.
    fn look_for_ipv6(&self) -> io::Result<()> {
        let mut held = self.held.lock().expect("no panic");
        if !self.can_ipv6 {
            return Ok(());
        }
        let (links, there) = (self.routes.links()?, self.routes.addresses()?);
        let is_loopback =
            |one: &Address| links.iter().any(|link| link.index == one.link && link.loopback);
        let mut of_ipv6 = there.iter().filter(|one| one.address.is_ipv6());
        held.ipv6 = held.ipv6
            || fs::read_to_string(disable_ipv6(DEVICE)).is_ok_and(|text| text.trim() == "0")
            || of_ipv6.clone().any(|one| !is_loopback(one));
        if held.ipv6 && !of_ipv6.any(is_loopback) {
            self.give_loopback_ipv6(&mut held);
        }
        Ok(())
    }

    /// Without it connections by IPv6 would go nowhere.
    fn give_loopback_ipv6(&self, held: &mut Held) {
        const LOOPBACK: &str = "net/ipv6/conf/lo/disable_ipv6";
        let set = self.journal.set(LOOPBACK, "0");
        let has_it = self.routes.addresses().is_ok_and(|there| {
            there.iter().any(|one| one.address == IpAddr::V6(Ipv6Addr::LOCALHOST))
        });
        let reason = match set {
            Ok(()) if has_it => {
                return tracing::info!("loopback has IPv6 for as long as this runs");
            }
            Ok(()) => "it has no address ::1".to_owned(),
            Err(error) => error.to_string(),
        };
        if !std::mem::replace(&mut held.is_told, true) {
            tracing::warn!(
                "IPv6 connections get no answer until they give up, as loopback has no IPv6 ({reason}); \
                 'sysctl net.ipv6.conf.lo.disable_ipv6=0' and 'ip link set lo up' give it that"
            );
        }
    }

    /// Adds what is missing of one family.
    fn keep_family(&self, held: Held, ipv6: bool) -> io::Result<usize> {
        // Routes need an address and a device that is up; rules lead to routes.
        let address = || self.keep_address(held.address(ipv6));
        let route = || is_new(self.routes.add_default(ipv6, self.index, TABLE)).map(usize::from);
        let rules = || self.keep_rules(&self.rules(held, ipv6));
        let steps: [&dyn Fn() -> io::Result<usize>; 4] =
            [&address, &|| self.keep_up(), &route, &rules];
        all(steps.into_iter().map(|step| step()))
    }

    fn keep_address(&self, address: IpAddr) -> io::Result<usize> {
        let add = || is_new(self.routes.add_address(self.index, address));
        match add() {
            Err(error) if address.is_ipv6() && error.kind() == io::ErrorKind::PermissionDenied => {
                // It has none where new interfaces have none, or somebody has switched it off.
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

    fn keep_rules(&self, rules: &[Rule]) -> io::Result<usize> {
        let there = self.routes.rules()?;
        let missing: Vec<_> = rules.iter().filter(|rule| !there.contains(rule)).collect();
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

    /// From now on new connections go their usual ways. Those that are captured stay so. Whoever keeps
    /// rules or changes what is captured changes nothing any more.
    ///
    /// # Panics
    /// If another thread has panicked in here.
    pub fn release(&self) {
        let _change = self.change.lock();
        let held = {
            let mut held = self.held.lock().expect("no panic");
            held.is_released = true;
            *held
        };
        for &ipv6 in held.families() {
            // Sockets may have the device's address for as long as there is the device.
            let own = rule_of_own(held.address(ipv6));
            let rules: Vec<_> =
                self.rules(held, ipv6).into_iter().filter(|rule| *rule != own).collect();
            // What is refused is told of there.
            let _ = self.delete_rules(&rules);
        }
    }

    /// Deletes rules in the other order, so that what is not captured is not in between.
    fn delete_rules(&self, rules: &[Rule]) -> io::Result<()> {
        let mut first = Ok(());
        for rule in rules.iter().rev() {
            if let Err(error) = self.routes.delete_rule(rule) {
                tracing::warn!("a routing rule stays, priority {}: {error}", rule.priority);
                first = first.and(Err(error));
            }
        }
        first
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

/// Goes through all steps: one may be refused, and the others are to go on.
fn all(steps: impl Iterator<Item = io::Result<usize>>) -> io::Result<usize> {
    let (mut added, mut failed) = (0, None);
    for step in steps {
        match step {
            Ok(more) => added += more,
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(added), Err)
}

/// Lets the device have IPv6 addresses. It fails where the kernel has no IPv6, or the directory is
/// read-only; then so does adding one.
fn enable_ipv6() {
    let _ = fs::write(disable_ipv6(DEVICE), "0");
}

/// The sysctl by which an interface has no IPv6.
fn disable_ipv6(interface: &str) -> String {
    format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.release();
        let held = self.held();
        let own = held.families().iter().map(|&ipv6| rule_of_own(held.address(ipv6)));
        let _ = self.delete_rules(&own.collect::<Vec<_>>());
    }
}

/// A port of this machine that is ours and on which nobody listens: the kernel refuses connections
/// that are redirected to it.
#[derive(Debug)]
struct Refusing {
    port: u16,
    _socket: OwnedFd,
}

/// Where connections are refused: on loopback, and also for machines behind shared links at all addresses.
fn refusing_at(is_shared: bool) -> [IpAddr; 2] {
    if is_shared {
        [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
    } else {
        [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
    }
}

impl Refusing {
    /// Takes a port of an address of this machine.
    fn start(at: IpAddr) -> io::Result<Self> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        if at.is_ipv6() {
            // Loopback may get its address later.
            rustix::net::sockopt::set_ipv6_freebind(&socket, true)?;
            rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &SocketAddr::new(at, 0))?;
        let port = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?.port();
        Ok(Self { port, _socket: socket })
    }
}

fn check_free(routes: &Routes) -> Result<(), NetError> {
    let links = routes.links().map_err(NetError::os("asking for the interfaces"))?;
    match links.iter().any(|link| link.name == DEVICE) {
        true => Err(NetError::DeviceTaken { name: DEVICE }),
        false => Ok(()),
    }
}

fn create_device() -> Result<Arc<SyncDevice>, NetError> {
    let made = DeviceBuilder::new().name(DEVICE).mtu(MTU).enable(false);
    // A read gives up to 64 KiB, and the device's queue is not longer than others are.
    let made = made.offload(true).tx_queue_len(QUEUE).build_sync();
    made.map(Arc::new).map_err(cannot_create)
}

/// Why there is no device.
pub(crate) fn cannot_create(error: io::Error) -> NetError {
    match error.kind() {
        io::ErrorKind::NotFound => NetError::NotPossible {
            what: "there is no /dev/net/tun".to_owned(),
            remedy: "load it with 'modprobe tun', or pass --device /dev/net/tun to the container",
        },
        _ => NetError::os("creating a TUN device")(error),
    }
}

/// What the kernel's refusal of the table means.
fn no_table(error: io::Error) -> NetError {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    match code {
        _ if nft::cannot_own(&error) => NetError::NotPossible {
            what: format!("this kernel cannot redirect connections by nf_tables ({error})"),
            remedy: "load the modules with 'modprobe -a nf_tables nft_ct nft_redir nft_masq nft_fib_inet nft_chain_nat', \
                         or use Linux 5.12 or newer with nf_tables",
        },
        Some(Errno::EXIST) => NetError::NotPossible {
            what: "there is an nf_tables table 'inet weftline' of another program".to_owned(),
            remedy: "remove it with 'nft delete table inet weftline'",
        },
        _ => NetError::os("making the nf_tables table 'inet weftline'")(error),
    }
}
