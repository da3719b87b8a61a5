//! What paths are for, over real sockets: roles in both directions, and changes under way.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::{Duration, Instant};

use common::{Relay, Security, event, pair, patiently, pattern, refusing, transfer};
use tokio::sync::broadcast::Receiver;
use weftline::{
    Bind, Client, ClientBuilder, ClientSecurity, Connection, Error, PathConfig, PathEvent,
    PathEventKind, Role, Server,
};

/// How long a path in reserve waits for the active ones to open a connection.
const HEAD_START: Duration = Duration::from_millis(250);

/// A path to this machine from the loopback address that ends in `last`.
fn path(name: &str, last: u8) -> PathConfig {
    PathConfig::new(name, Bind::Address([127, 0, 0, last].into()))
}

/// A server; a client's security; a relay to the server.
async fn world() -> (Server, ClientSecurity, Relay) {
    let (server, trust) = pair(Security::Tls);
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let relay = Relay::start(server.local_addrs()[0]).await;
    (server, trust, relay)
}

/// Bytes this side has given to `path`; 0 before it has come up.
fn sent(connection: &Connection, path: &str) -> u64 {
    let stats = connection.stats();
    let found = stats.names.iter().find(|(_, name)| &***name == path);
    found.map_or(0, |(id, _)| stats.session.paths[id].sent)
}

/// What this side has been told of `path`.
fn role(connection: &Connection, path: &str) -> Option<Role> {
    let stats = connection.stats();
    let (id, _) = stats.names.iter().find(|(_, name)| &***name == path)?;
    Some(stats.session.paths[id].policy.role)
}

/// Transfers in both directions, until the spare path has had nothing to do in that since it carried
/// `before` at each end. It stands in for an active one whose peer does not get a processor: then
/// the end says that this was stalled, or is gone.
async fn stands_by(
    [here, there]: [&mut Connection; 2],
    mut events: [&mut Receiver<PathEvent>; 2],
    mut before: [u64; 2],
) {
    loop {
        transfer(here, there, &pattern(1_000_000, 1)).await;
        transfer(there, here, &pattern(2_000_000, 2)).await;
        let after = [&*here, &*there].map(|end| sent(end, "spare"));
        if after == before {
            return;
        }
        for (end, events) in events.iter_mut().enumerate() {
            let stands_in = |kind: &PathEventKind| {
                matches!(kind, PathEventKind::Stalled { .. } | PathEventKind::Down { .. })
            };
            if after[end] != before[end] {
                event(events, "main", stands_in).await;
            }
        }
        before = after;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_carries_both_directions_while_the_active_path_is_gone() {
    patiently(async {
        let (mut server, trust, relay) = world().await;
        let client = Client::builder().security(trust).seed(1);
        let client = client.server(relay.address).server(server.local_addrs()[0]);
        let client = client.path(path("main", 1)).path(path("spare", 2).role(Role::Backup));
        let mut here = client.build().unwrap().connect().await.unwrap();
        let mut events = here.events();
        let mut there = server.accept().await;
        let mut events_there = there.events();
        // The spare path is up, and nothing goes there.
        let (up, down) = (pattern(1_000_000, 1), pattern(2_000_000, 2));
        while role(&there, "spare") != Some(Role::Backup) {
            transfer(&mut here, &mut there, &up).await;
        }
        stands_by([&mut here, &mut there], [&mut events, &mut events_there], [0, 0]).await;

        relay.cut();
        transfer(&mut here, &mut there, &up).await;
        transfer(&mut there, &mut here, &down).await;
        assert!(sent(&here, "spare") > 0 && sent(&there, "spare") > 0);

        relay.mend();
        event(&mut events, "main", |kind| matches!(kind, PathEventKind::Up { .. })).await;
        // The server has it, too, once something has come by it.
        let before = sent(&there, "main");
        while sent(&there, "main") == before {
            transfer(&mut here, &mut there, &up).await;
            transfer(&mut there, &mut here, &down).await;
        }
        let before = [&here, &there].map(|end| sent(end, "spare"));
        stands_by([&mut here, &mut there], [&mut events, &mut events_there], before).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_active_path_is_stood_in_for() {
    patiently(async {
        let (mut server, trust, relay) = world().await;
        let client = Client::builder().security(trust).seed(1);
        let client = client.server(relay.address).server(server.local_addrs()[0]);
        let client = client.path(path("main", 1)).path(path("spare", 2).role(Role::Backup));
        let mut here = client.build().unwrap().connect().await.unwrap();
        let mut there = server.accept().await;
        transfer(&mut here, &mut there, &pattern(1_000_000, 1)).await;
        // Nothing is closed: only missing acknowledgements tell. Another connection on the path
        // stalls, too.
        relay.swallow();
        transfer(&mut here, &mut there, &pattern(1_000_000, 2)).await;
        transfer(&mut there, &mut here, &pattern(1_000_000, 3)).await;
        assert!(sent(&here, "spare") > 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_active_path_opens_the_connection() {
    patiently(async {
        let (mut server, trust, _relay) = world().await;
        let client = Client::builder().security(trust).seed(1).server(server.local_addrs()[0]);
        let client = client.path(path("spare", 2).role(Role::Metered)).path(path("main", 1));
        let client = client.build().unwrap();
        let mut opened = 0;
        while opened < 5 {
            let begun = Instant::now();
            let _here = client.connect().await.unwrap();
            let took = begun.elapsed();
            let there = server.accept().await;
            if there.peer_addr().ip().to_string() == "127.0.0.1" {
                opened += 1;
            } else {
                assert!(took >= HEAD_START, "the other opened it after {took:?}");
            }
        }
        // One that cannot is not waited for.
        let reserve = path("spare", 2).role(Role::Backup);
        let client = Client::builder().security(pair(Security::Plain).1).seed(1);
        let (_held, closed) = refusing();
        let (plain, _) = pair(Security::Plain);
        let mut plain = plain.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let client = client.server(closed).server(plain.local_addrs()[0]);
        let client = client.path(path("main", 1)).path(reserve).build().unwrap();
        let _here = client.connect().await.unwrap();
        assert_eq!(plain.accept().await.peer_addr().ip().to_string(), "127.0.0.2");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_role_holds_at_both_ends_of_a_connection_under_way() {
    patiently(async {
        let (mut server, trust, _relay) = world().await;
        let address = server.local_addrs()[0];
        let with = |spare: Role| -> ClientBuilder {
            let builder = Client::builder().security(trust.clone()).seed(1).server(address);
            builder.path(path("main", 1)).path(path("spare", 2).role(spare))
        };
        let client = with(Role::Active).build().unwrap();
        let mut here = client.connect().await.unwrap();
        let mut there = server.accept().await;
        let (mut events, mut events_there) = (here.events(), there.events());
        let data = pattern(2_000_000, 1);
        while sent(&there, "spare") == 0 {
            transfer(&mut there, &mut here, &data).await;
        }
        client.reload(with(Role::Backup)).unwrap();
        while role(&there, "spare") != Some(Role::Backup) {
            transfer(&mut there, &mut here, &data).await;
        }
        let before = [&here, &there].map(|end| sent(end, "spare"));
        stands_by([&mut here, &mut there], [&mut events, &mut events_there], before).await;
        let before = sent(&there, "spare");
        // And back again.
        client.reload(with(Role::Active)).unwrap();
        while sent(&there, "spare") == before {
            transfer(&mut there, &mut here, &data).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn congestion_control_is_a_matter_of_the_path() {
    patiently(async {
        let (mut server, trust, _relay) = world().await;
        let builder = || Client::builder().security(trust.clone()).server(server.local_addrs()[0]);
        let unknown = builder().path(path("main", 1)).path(path("spare", 2).congestion("warp"));
        let error = unknown.build().err().unwrap();
        assert!(matches!(error, Error::UnknownCongestion { name, .. } if name == "warp"));
        // Every kernel has this one.
        let client = builder().path(path("main", 1).congestion("reno")).path(path("spare", 2));
        let mut here = client.build().unwrap().connect().await.unwrap();
        let mut there = server.accept().await;
        // Either may open the connection, and the other one joins later.
        while sent(&there, "main") == 0 || sent(&there, "spare") == 0 {
            transfer(&mut there, &mut here, &pattern(2_000_000, 1)).await;
        }
        let of_port = |port: u16| {
            let filter = format!("src 127.0.0.1:{port}");
            let mut ss = std::process::Command::new("ss");
            let out = ss.args(["-tinH", "state", "established", &filter]).output().ok()?;
            String::from_utf8(out.stdout).ok()
        };
        // Of the server's two sockets the one on the path has it, and the automatic choice holds on
        // the other. Without the tool ss there is nothing more to see.
        let Some(sockets) = of_port(server.local_addrs()[0].port()) else { return };
        let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
        let default =
            if weftline::check_congestion("bbr").is_ok() { "bbr" } else { default.trim() };
        let lines: Vec<&str> = sockets.lines().collect();
        for (peer, name) in [("127.0.0.1", "reno"), ("127.0.0.2", default)] {
            let at = lines
                .iter()
                .position(|l| l.split_whitespace().last().is_some_and(|p| p.starts_with(peer)));
            let at = at.unwrap_or_else(|| panic!("no socket to {peer}: {sockets}"));
            assert!(lines[at + 1].split_whitespace().any(|word| word == name), "{peer}: {sockets}");
        }
    })
    .await;
}
