//! Several servers behind one address: every path of a connection joins the one that has it.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use common::attack::{Heard, hello_reply};
use common::{Relay, Security, check_echo, echo, event, pair, patiently, pattern, two_paths};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use weftline::{Client, ClientSecurity, Connection, Error, PathEventKind, Server, ServerBuilder};
use weftline_core::wire::{Preamble, Record};

/// How a balancer chooses between two servers.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// By turns.
    RoundRobin,
    /// By the client's address: the paths of a connection always get different ones.
    BySource,
}

/// A layer-4 balancer. Its connections end when it is dropped.
struct Balancer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Balancer {
    async fn start(spread: Spread, servers: [SocketAddr; 2]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut links = JoinSet::new();
            for number in 0.. {
                let (mut client, peer) = listener.accept().await.unwrap();
                let chosen = match (spread, peer.ip()) {
                    (Spread::BySource, IpAddr::V4(ip)) => usize::from(ip.octets()[3]),
                    _ => number,
                };
                links.spawn(async move {
                    let mut server = TcpStream::connect(servers[chosen % 2]).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { address, _tasks: tasks }
    }
}

/// Binds `server` on loopback. With `announces` it takes joins there and says so.
fn start(server: &ServerBuilder, announces: bool) -> (Server, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.clone().listener(listener);
    let server = if announces { server.join_address(address) } else { server };
    (server.bind(&[]).unwrap(), address)
}

/// Has `server` answer each connection with a number, and then with what it gets.
fn numbered_echo(mut server: Server, number: u8) {
    tokio::spawn(async move {
        loop {
            let mut connection = server.accept().await;
            tokio::spawn(async move {
                // A hello that was said again may have left this one behind.
                if connection.write_all(&[number]).await.is_ok() {
                    let (mut from, mut to) = connection.into_split();
                    let _ = tokio::io::copy_buf(&mut from, &mut to).await;
                    let _ = to.shutdown().await;
                }
            });
        }
    });
}

/// Two servers with one identity behind a balancer, and a client of that.
async fn two_servers(
    security: Security,
    spread: Spread,
    announce: bool,
) -> ([SocketAddr; 2], Balancer, Client) {
    let (builder, trust) = pair(security);
    let mut addresses = Vec::new();
    for number in 0..2 {
        let (server, address) = start(&builder, announce);
        numbered_echo(server, number);
        addresses.push(address);
    }
    let addresses = [addresses[0], addresses[1]];
    let balancer = Balancer::start(spread, addresses).await;
    let client = two_paths(trust).server(balancer.address).build().unwrap();
    (addresses, balancer, client)
}

/// Waits until the two paths of a connection are up to these addresses, in whatever order; and
/// which path is up to which.
async fn up_to(connection: &Connection, wanted: [SocketAddr; 2]) -> BTreeMap<String, SocketAddr> {
    let (control, mut events) = (connection.control(), connection.events());
    let sorted = |mut addresses: Vec<SocketAddr>| {
        addresses.sort_unstable();
        addresses
    };
    loop {
        let status = control.status();
        if sorted(status.peers.values().copied().collect()) == sorted(wanted.to_vec()) {
            let peers = status.peers.iter();
            return peers.map(|(path, &peer)| (status.names[path].to_string(), peer)).collect();
        }
        let _ = events.recv().await;
    }
}

/// Waits until a path cannot come up for a reason that contains `text`.
async fn failed(connection: &Connection, text: &str) {
    let mut events = connection.events();
    loop {
        match events.recv().await.unwrap().kind {
            PathEventKind::AttemptFailed { reason } if reason.contains(text) => return,
            _ => {}
        }
    }
}

/// The number of the server that a connection is with; and it echoes.
async fn number_of(connection: &mut Connection) -> usize {
    let mut number = [0];
    connection.read_exact(&mut number).await.unwrap();
    say_and_hear(connection, 1).await;
    usize::from(number[0])
}

async fn say_and_hear(connection: &mut Connection, seed: u64) {
    let data = pattern(50_000, seed);
    let mut back = vec![0; data.len()];
    connection.write_all(&data).await.unwrap();
    connection.read_exact(&mut back).await.unwrap();
    assert!(back == data, "other bytes came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_join_addresses_a_path_comes_to_the_server_that_knows_nothing() {
    let (_, _balancer, client) = two_servers(Security::Tls, Spread::BySource, false).await;
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        number_of(&mut connection).await;
        failed(&connection, "no such connection, or not yours").await;
        say_and_hear(&mut connection, 2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_joins_the_server_that_has_the_connection() {
    for security in [Security::Plain, Security::Tls] {
        for spread in [Spread::RoundRobin, Spread::BySource] {
            let (servers, balancer, client) = two_servers(security, spread, true).await;
            patiently(async {
                for _ in 0..20 {
                    let mut connection = client.connect().await.unwrap();
                    let server = servers[number_of(&mut connection).await];
                    // One path has said hello through the balancer, the other joins.
                    up_to(&connection, [balancer.address, server]).await;
                    say_and_hear(&mut connection, 2).await;
                }
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_outlives_its_balancer_and_a_new_one_needs_it() {
    let (servers, balancer, client) = two_servers(Security::Tls, Spread::RoundRobin, true).await;
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let server = servers[number_of(&mut connection).await];
        let peers = up_to(&connection, [balancer.address, server]).await;
        let (first, _) = peers.iter().find(|(_, peer)| **peer == balancer.address).unwrap();
        let mut events = connection.events();
        drop(balancer);
        let up = event(&mut events, first, |k| matches!(k, PathEventKind::Up { .. })).await;
        let PathEventKind::Up { peer, .. } = up.kind else { unreachable!() };
        assert_eq!(peer, server, "the path that has said hello joins like any other");
        say_and_hear(&mut connection, 2).await;
        client.connect().await.unwrap_err();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_fails_is_tried_again_where_joins_are_taken() {
    let (builder, trust) = pair(Security::Tls);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let relay = Relay::start(address).await;
    relay.cut();
    let builder = builder.listener(listener).join_address(relay.address);
    echo(builder.bind(&[]).unwrap());
    // At the configured address the server would take the join.
    let client = two_paths(trust).server(address).build().unwrap();
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let closed = format!("{} closed the connection", relay.address);
        for _ in 0..3 {
            failed(&connection, &closed).await;
        }
        say_and_hear(&mut connection, 1).await;
        relay.mend();
        up_to(&connection, [address, relay.address]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_joins_in_its_own_family() {
    let (builder, trust) = pair(Security::Plain);
    let v6 = std::net::TcpListener::bind("[::1]:0").unwrap();
    let only_v6 = builder.clone().join_address(v6.local_addr().unwrap());
    let (server, address) = start(&only_v6, false);
    let control = server.control();
    echo(server);
    let client = two_paths(trust).server(address).build().unwrap();
    patiently(async {
        let connection = client.connect().await.unwrap();
        let wanted = format!("takes joins at {} only, which 127.0.0.", v6.local_addr().unwrap());
        failed(&connection, &wanted).await;
        // What is announced is read again; new connections are told the new addresses.
        let relay = Relay::start(address).await;
        control.reload(only_v6.join_address(relay.address)).unwrap();
        let connection = client.connect().await.unwrap();
        up_to(&connection, [address, relay.address]).await;
    })
    .await;
}

/// What a client makes of a server that announces `address`.
async fn announced(address: &str) -> Error {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::builder().security(ClientSecurity::InsecurePlaintext);
    let client = client.server(listener.local_addr().unwrap()).build().unwrap();
    let mut reply = hello_reply([1; 16], [2; 32]);
    reply.join_addresses.push(address.parse().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut peer, _) = listener.accept().await.unwrap();
            assert!(matches!(Heard::default().next(&mut peer).await, Some(Record::Hello(_))));
            let mut out = BytesMut::from(&Preamble::OURS.encode()[..]);
            Record::HelloReply(reply.clone()).encode(&mut out);
            let _ = peer.write_all(&out).await;
            // The client closes.
            let _ = peer.read_to_end(&mut Vec::new()).await;
        }
    });
    client.connect().await.unwrap_err()
}

#[tokio::test]
async fn addresses_that_no_server_can_mean_break_the_protocol() {
    patiently(async {
        for (address, reason) in [
            ("0.0.0.0:7000", "it stands for all addresses of a machine"),
            ("[::]:7000", "it stands for all addresses of a machine"),
            ("224.0.0.1:7000", "it stands for several machines"),
            ("192.0.2.1:0", "it has no port"),
        ] {
            let error = announced(address).await;
            assert!(matches!(error, Error::Protocol { .. }), "{address}: {error}");
            let text = error.to_string();
            let wanted = format!("{address} cannot be announced for joins: {reason}");
            assert!(text.contains(&wanted), "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_does_not_announce_what_clients_would_refuse() {
    let (builder, _) = pair(Security::Plain);
    let listen = ["127.0.0.1:0".parse().unwrap()];
    let refused = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        let builder = addresses.fold(builder.clone(), ServerBuilder::join_address);
        builder.bind(&listen).unwrap_err().to_string()
    };
    for (addresses, reason) in [
        (&["0.0.0.0:7000"][..], "0.0.0.0:7000 cannot be announced for joins: it stands for all"),
        (&["192.0.2.1:7000", "192.0.2.1:0"], "192.0.2.1:0 cannot be announced for joins: it has"),
        (&["[ff02::1]:7"], "it stands for several machines; give one of this server"),
        (&["192.0.2.1:7", "192.0.2.1:7"], "192.0.2.1:7 is announced for joins twice"),
        (
            &["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.1:4", "192.0.2.1:5"],
            "at most 4 addresses are announced for joins, not 5",
        ),
    ] {
        let text = refused(addresses);
        assert!(text.contains(reason), "{text}");
    }
}

/// A single server may be asked to join where it was told hello.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_announce_where_it_is_known_already() {
    let (builder, trust) = pair(Security::Tls);
    let (server, address) = start(&builder, true);
    echo(server);
    let client = two_paths(trust).server(address).build().unwrap();
    patiently(async {
        check_echo(&client, 100_000).await;
        let connection = client.connect().await.unwrap();
        up_to(&connection, [address, address]).await;
    })
    .await;
}
