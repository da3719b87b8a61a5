//! UDP, ICMP and all that is no TCP: agreed on with the server, and carried over lanes on all links.
//!
//! Such packets go their usual ways until the first lane is up, and again when none has been for a while:
//! where a network lets no UDP through, nothing is taken that could not be carried.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weftline::{Client, InternetOffer, LaneControl, LaneGrant, PathId};
use weftline_core::datagram::Carrier;
use weftline_net::{Capture, DEVICE};
use weftline_tunnel::bond::{
    BlockedLink, BondClient, BondStatus, LaneLink, LaneSecret, LaneSession, LanesNow,
};

use super::over_tcp::OverTcp;
use super::pause::{LASTING, Pause, RETRY, Why};
use super::{changes, resolved};

/// How long packets are still taken when no lane is up: links that come and go have none meanwhile.
const WITHOUT_LANES: Duration = Duration::from_secs(10);
/// After so long without a lane another session is agreed on: the server may have given this one up. At first it
/// is less than [`WITHOUT_LANES`], so that packets need not go another way meanwhile; it doubles with each session
/// that has had no lane, as where no UDP comes through at all.
const AGREED_ANEW: Duration = Duration::from_secs(4);
const MOST_AGREED_ANEW: Duration = Duration::from_secs(3600);
/// How long the start waits for the first lane.
const FIRST_LANE: Duration = Duration::from_secs(3);
/// The longest wait before the kernel is asked again for what it has refused.
const MOST_KERNEL_RETRY: Duration = Duration::from_secs(30);

/// What both ends have agreed on.
pub(super) type Granted = (LaneControl, LaneGrant);

/// What becomes of packets that are no TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packets {
    /// They go their usual ways.
    Past,
    /// Lanes carry them to the server.
    Carried,
    /// Nothing is to go past the server, and no link carries them there.
    Refused,
}

/// The lanes of this machine; they end when this is dropped.
pub(super) struct Lanes {
    bond: Arc<BondClient>,
    packets: watch::Receiver<Packets>,
    lanes_up: watch::Receiver<usize>,
    changed: Arc<Notify>,
    task: JoinHandle<()>,
}

/// Asks a server that offers lanes for them. Where there are none, it is said, and it is asked again later.
pub(super) async fn ask(client: &Client, offer: InternetOffer) -> Result<Granted, Why> {
    let granted = agree(client, offer).await;
    granted.inspect_err(|why| {
        tracing::warn!("UDP, DNS and ICMP go past the server for now: {}", why.says);
    })
}

async fn agree(client: &Client, offer: InternetOffer) -> Result<Granted, Why> {
    if offer.lanes {
        return Ok(LaneControl::open(client).await?);
    }
    let says = "the server carries TCP only; for more it needs a newer version and the capability \
                CAP_NET_ADMIN, and its log says what it lacks";
    Err(Why::said(says))
}

impl Lanes {
    /// Starts them, and waits for the first one for a while, if they are granted.
    pub(super) async fn start(
        client: &Client,
        granted: Result<Granted, Why>,
        capture: &Arc<Capture>,
        links: Vec<LaneLink>,
        Manner { dns, calls, udp_over_tcp, is_strict, suspended }: Manner,
    ) -> Option<Self> {
        let (up, lanes_up) = watch::channel(0);
        let (tell_blocked, blocked) = watch::channel(Vec::new());
        let bond = BondClient::start(capture.device(), DEVICE, move |now: LanesNow| {
            tell_blocked.send_if_modified(|before| changes(before, &now.blocked));
            up.send_if_modified(|before| changes(before, &now.up));
        });
        let bond = match bond {
            Ok(bond) => Arc::new(bond),
            Err(error) => {
                tracing::warn!("UDP, DNS and ICMP go past the server: {error}");
                return None;
            }
        };
        bond.set_links(links);
        let changed = Arc::new(Notify::new());
        let (become_of, mut packets) = watch::channel(Packets::Past);
        let keeper = Keeper {
            client: client.clone(),
            capture: Arc::downgrade(capture),
            bond: Arc::clone(&bond),
            changed: Arc::clone(&changed),
            lanes_up: lanes_up.clone(),
            blocked,
            calls,
            udp_over_tcp,
        };
        let capture = Arc::downgrade(capture);
        let scope =
            ScopeKeeper { capture, bond: Arc::clone(&bond), become_of, dns, is_strict, suspended };
        let lanes = lanes_up.clone();
        let is_granted = granted.is_ok();
        let task = tokio::spawn(async move {
            tokio::join!(keeper.keep(granted), scope.keep(lanes_up));
        });
        if !is_granted {
            return Some(Self { bond, packets, lanes_up: lanes, changed, task });
        }
        let mut first = lanes.clone();
        let first = async {
            let _ = first.wait_for(|n| *n > 0).await;
            let _ = packets.wait_for(|packets| *packets == Packets::Carried).await;
        };
        let first = tokio::time::timeout(FIRST_LANE, first).await.is_ok();
        if first {
        } else if is_strict {
            tracing::warn!(
                "no answer by UDP from the server yet: until then UDP and ICMP go nowhere, and DNS by TCP; if \
                 none comes, a firewall may be in the way, there or here"
            );
        } else {
            tracing::warn!(
                "no answer by UDP from the server yet: until then UDP, DNS and ICMP go past it; if none \
                 comes, a firewall may be in the way, there or here"
            );
        }
        Some(Self { bond, packets, lanes_up: lanes, changed, task })
    }

    /// How many lanes are up, as it changes.
    pub(super) fn up(&self) -> watch::Receiver<usize> {
        self.lanes_up.clone()
    }

    /// What becomes of packets that are no TCP, as it changes.
    pub(super) fn packets(&self) -> watch::Receiver<Packets> {
        self.packets.clone()
    }

    /// Links have other addresses or routes, or are plugged in: what carried nothing may do so now.
    pub(super) fn note_links_changed(&self) {
        self.bond.note_links_changed();
    }

    /// Takes links that have come, and addresses that have changed.
    pub(super) fn follow(&self, links: Vec<LaneLink>) {
        self.bond.set_links(links);
        self.changed.notify_one();
    }

    /// The client's paths have changed.
    pub(super) fn note_paths(&self) {
        self.changed.notify_one();
    }

    /// Agrees on nothing more, and leaves what is captured as it is. They carry what they carry until
    /// they are dropped.
    pub(super) fn stop_keeping(&self) {
        self.task.abort();
    }

    /// What says how they are.
    pub(super) fn watcher(&self) -> Box<dyn Fn() -> Vec<BondStatus> + Send + Sync> {
        let bond = Arc::downgrade(&self.bond);
        Box::new(move || bond.upgrade().and_then(|bond| bond.status()).into_iter().collect())
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.stop_keeping();
    }
}

/// How lanes are used.
pub(super) struct Manner {
    /// Whether questions to DNS go there.
    pub(super) dns: bool,
    /// Whether TCP makes way for calls.
    pub(super) calls: bool,
    /// Whether UDP goes over TCP where no link lets it through.
    pub(super) udp_over_tcp: bool,
    /// Whether nothing goes past the server in any case.
    pub(super) is_strict: bool,
    /// Whether nothing is captured, as the server is away.
    pub(super) suspended: watch::Receiver<bool>,
}

/// Has all packets captured while lanes are up.
struct ScopeKeeper {
    capture: std::sync::Weak<Capture>,
    bond: Arc<BondClient>,
    become_of: watch::Sender<Packets>,
    dns: bool,
    is_strict: bool,
    suspended: watch::Receiver<bool>,
}

impl ScopeKeeper {
    async fn keep(mut self, mut lanes_up: watch::Receiver<usize>) {
        loop {
            // In strict mode nothing goes past the server, whether it can be carried or not.
            if !self.is_strict && lanes_up.wait_for(|n| *n > 0).await.is_err() {
                return;
            }
            // Where all is suspended nothing of it is captured yet.
            let _ = self.suspended.wait_for(|is_suspended| !is_suspended).await;
            if !self.is_strict && *lanes_up.borrow() == 0 {
                // The lanes have gone meanwhile.
                continue;
            }
            if self.widen().await.is_none() {
                return;
            }
            let have_ended = self.use_lanes(&mut lanes_up).await.is_none();
            let is_narrow = !self.is_strict && self.narrow().await.is_some();
            if have_ended || !is_narrow {
                return;
            }
        }
    }

    /// Completes when no lane has been up for a while, in strict mode never; `None` when they have ended.
    async fn use_lanes(&self, lanes_up: &mut watch::Receiver<usize>) -> Option<()> {
        // In strict mode the first lane may be to come.
        let mut had_any = *lanes_up.borrow_and_update() > 0;
        loop {
            if had_any {
                lanes_up.wait_for(|n| *n == 0).await.ok()?;
                tracing::warn!("no link carries UDP to the server now");
            }
            let back = lanes_up.wait_for(|n| *n > 0);
            let back = tokio::time::timeout(WITHOUT_LANES, back).await.map(|back| back.is_ok());
            match back {
                Ok(true) => {}
                Ok(false) => return None,
                // Nothing goes past the server: what cannot be carried is refused.
                Err(_) if self.is_strict => {
                    self.tell(Packets::Refused);
                    lanes_up.wait_for(|n| *n > 0).await.ok()?;
                    self.tell(Packets::Carried);
                }
                Err(_) => return Some(()),
            }
            if had_any {
                tracing::info!("UDP reaches the server again");
            }
            had_any = true;
        }
    }

    /// That becomes of packets from now on. Of those that are to go past the server some still come to the
    /// device, from sockets of UDP that are connected and have its address: they are refused.
    fn tell(&self, packets: Packets) {
        self.bond.set_refusing(packets != Packets::Carried);
        self.become_of.send_replace(packets);
    }

    /// `None` when nothing is captured any more.
    async fn widen(&self) -> Option<()> {
        self.bond.set_refusing(false);
        // What the kernel refuses now, as somebody else changes rules, it may take in a moment.
        let mut wait = RETRY;
        loop {
            // The capture may end meanwhile: it is held for the call only.
            let done = self.capture.upgrade()?.widen(self.dns);
            let Err(error) = done else { break };
            tracing::error!(
                "UDP, DNS and ICMP go past the server ({error}); it is tried again, 'weftline down' and \
                 'weftline up' may help"
            );
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(MOST_KERNEL_RETRY);
        }
        tracing::info!("UDP, ICMP and all else go to the server, too");
        if self.dns {
            let _ = tokio::task::spawn_blocking(resolved::tell).await;
        }
        self.tell(Packets::Carried);
        Some(())
    }

    /// As [`Self::widen`].
    async fn narrow(&self) -> Option<()> {
        // Of those that are to go past the server some still come to the device.
        self.bond.set_refusing(true);
        let mut wait = RETRY;
        loop {
            let done = self.capture.upgrade()?.narrow();
            let Err(error) = done else { break };
            tracing::error!(
                "UDP, DNS and ICMP go nowhere ({error}); it is tried again, 'weftline down' helps"
            );
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(MOST_KERNEL_RETRY);
        }
        tracing::warn!(
            "UDP, DNS and ICMP go past the server until a link carries UDP there again: a firewall may \
             be in the way"
        );
        if self.dns {
            let _ = tokio::task::spawn_blocking(resolved::revert).await;
        }
        self.tell(Packets::Past);
        Some(())
    }
}

/// Keeps a session with the server.
struct Keeper {
    client: Client,
    capture: std::sync::Weak<Capture>,
    bond: Arc<BondClient>,
    changed: Arc<Notify>,
    lanes_up: watch::Receiver<usize>,
    /// The links that let no UDP through.
    blocked: watch::Receiver<Vec<BlockedLink>>,
    /// Whether TCP makes way for calls.
    calls: bool,
    /// Whether UDP goes over TCP where no link lets it through.
    udp_over_tcp: bool,
}

impl Keeper {
    async fn keep(self, mut next: Result<Granted, Why>) {
        let (mut pause, mut patience) = (Pause::default(), AGREED_ANEW);
        loop {
            next = match next {
                Ok((control, grant)) => {
                    let began = Instant::now();
                    let over = self.follow(control, grant, patience).await;
                    if began.elapsed() > LASTING {
                        pause = Pause::default();
                    }
                    match over {
                        Over::Replaced(granted, longer) => {
                            patience = longer;
                            Ok(*granted)
                        }
                        Over::Failed(why) => {
                            patience = AGREED_ANEW;
                            Err(why)
                        }
                    }
                }
                Err(why) => {
                    tracing::info!("lanes have to be agreed on again: {}", why.says);
                    self.rest(pause.after(&why)).await;
                    self.agree().await
                }
            };
        }
    }

    /// What is offered may have changed: another version may run there now.
    async fn agree(&self) -> Result<Granted, Why> {
        let offer = InternetOffer::ask(&self.client).await?;
        agree(&self.client, offer).await
    }

    /// Waits before the server is asked again, for less where links have changed: it may be reached by now.
    async fn rest(&self, pause: Duration) {
        tokio::time::sleep(RETRY).await;
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(RETRY)) => {}
            () = self.changed.notified() => {}
        }
    }

    /// Another session than the one there is, once that has had no lane for so long; and how long that one is to
    /// have. The one there is goes on until the server answers, which ends it: a question is not taken back,
    /// as neither might be left then.
    async fn successor(&self, mut patience: Duration) -> (Granted, Duration) {
        let mut lanes_up = self.lanes_up.clone();
        let (mut wait, mut pause) = (patience, Pause::default());
        let mut told = String::new();
        loop {
            // It ends with all else.
            if lanes_up.wait_for(|n| *n == 0).await.is_err() {
                return std::future::pending().await;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Ok(_) = lanes_up.wait_for(|n| *n > 0) => {
                    (patience, wait, pause) = (AGREED_ANEW, AGREED_ANEW, Pause::default());
                    told.clear();
                    continue;
                }
            }
            match LaneControl::open(&self.client).await {
                Ok(granted) => {
                    tracing::info!("lanes are agreed on anew, as no link carried UDP");
                    return (granted, (patience * 2).min(MOST_AGREED_ANEW));
                }
                Err(error) => {
                    let why = Why::from(error);
                    if !why.is_unanswered && why.says != told {
                        tracing::warn!("the server grants no lanes any more: {}", why.says);
                        told.clone_from(&why.says);
                    }
                    wait = pause.after(&why);
                }
            }
        }
    }

    /// A server that has lost what it had written down may give this client another number, and other
    /// addresses with it.
    fn take_number(&self, client: u16) -> Result<(), String> {
        let Some(capture) = self.capture.upgrade() else { return Ok(()) };
        let before = capture.addresses();
        if !capture.set_client(client) {
            return Ok(());
        }
        // What else is refused, of IPv6 for instance, is no matter of these addresses.
        match capture.keep() {
            Err(error) if capture.addresses() == before => return Err(error.to_string()),
            Err(error) => tracing::warn!("{error}"),
            Ok(_) => {}
        }
        Ok(())
    }

    /// Which paths of TCP are one link with lanes. Each of these makes way for calls on the other. `None` if
    /// it is not to, or the lanes do not say. A server that is told of none holds nothing back either.
    async fn paths(&self) -> Option<Vec<(u8, PathId)>> {
        if !self.calls {
            return None;
        }
        let bond = Arc::clone(&self.bond);
        // It waits for the lanes' thread.
        let asked = tokio::task::spawn_blocking(move || bond.status());
        let lanes = asked.await.ok()??.lanes;
        let of_links = lanes.into_iter().filter(|lane| lane.status.carrier == Carrier::Udp);
        let found = of_links.filter_map(|lane| {
            let (path, limiter) = self.client.path_limiter(&lane.name)?;
            Some((lane.status.lane.0, path, lane.name, limiter))
        });
        let found: Vec<_> = found.collect();
        let limiters = found.iter().map(|(.., name, limiter)| (name.clone(), limiter.clone()));
        self.bond.set_limiters(limiters.collect());
        Some(found.into_iter().map(|(lane, path, ..)| (lane, path)).collect())
    }

    /// Speaks in a session until that is over.
    async fn follow(&self, mut control: LaneControl, grant: LaneGrant, patience: Duration) -> Over {
        if let Err(why) = self.take_number(grant.client) {
            return Over::failed(why);
        }
        let mut successor = pin!(self.successor(patience));
        let mut told: Option<[IpAddr; 2]> = None;
        let mut over_tcp = None;
        let mut paths = Vec::new();
        loop {
            let Some(addresses) = self.capture.upgrade().map(|capture| capture.addresses()) else {
                return Over::failed("this machine is down");
            };
            if told != Some(addresses) {
                let [IpAddr::V4(v4), IpAddr::V6(v6)] = addresses else {
                    return Over::failed("the device has no addresses");
                };
                if let Err(error) = control.set_addresses(v4, v6).await {
                    return Over::Failed(error.into());
                }
                match told {
                    Some(_) => self.bond.set_addresses(addresses.to_vec()),
                    None => self.bond.set_session(Some(LaneSession {
                        number: grant.session,
                        secret: LaneSecret::new(grant.secret),
                        addresses: addresses.to_vec(),
                        has_ipv6: grant.ipv6,
                    })),
                }
                told = Some(addresses);
            }
            if over_tcp.is_none() && self.udp_over_tcp && control.takes_tcp() {
                let (client, bond) = (self.client.clone(), Arc::clone(&self.bond));
                let (blocked, control) = (self.blocked.clone(), control.control());
                let keeper = OverTcp { client, bond, blocked, control, session: grant.session };
                over_tcp = Some(keeper.start());
            }
            if let Some(found) = self.paths().await.filter(|found| *found != paths) {
                if let Err(error) = control.set_paths(&found).await {
                    return Over::Failed(error.into());
                }
                paths = found;
            }
            tokio::select! {
                error = control.closed() => return Over::Failed(error.into()),
                () = self.changed.notified() => {}
                (granted, longer) = &mut successor => {
                    return Over::Replaced(Box::new(granted), longer);
                }
            }
        }
    }
}

/// How a session is over.
enum Over {
    /// By this session, which is to have a lane within this time.
    Replaced(Box<Granted>, Duration),
    Failed(Why),
}

impl Over {
    fn failed(why: impl Into<String>) -> Self {
        Self::Failed(Why::said(why))
    }
}
