//! Lanes over TCP: datagrams that a server's host and a client make and take, and who gets none.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::future::pending;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};

use common::{Security, pair, patiently, two_paths};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::net::UnixDatagram as Socket;
use tokio::task::JoinHandle;
use weftline::{
    Client, Egress, Error, LONGEST_DATAGRAM, LaneControl, LaneHost, LaneOverTcp, SendOptions,
    ServerBuilder, Target, Token,
};
use weftline_core::session::Incoming;

const LANE: u8 = 32;

/// A host that keeps the ends of its lanes.
#[derive(Default)]
struct Host {
    session: Mutex<Option<(String, u32)>>,
    lanes: Mutex<Vec<Option<UnixDatagram>>>,
}

/// Both ends of a pair that keeps the bounds of datagrams, and tells of its end.
fn datagrams() -> [OwnedFd; 2] {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap().into()
}

impl LaneHost for Host {
    fn open(&self, client: &str, session: u32, _: [u8; 32]) -> Result<u16, String> {
        *self.session.lock().unwrap() = Some((client.to_owned(), session));
        Ok(2)
    }

    fn set_addresses(&self, _: u32, _: [IpAddr; 2]) -> Result<(), String> {
        Ok(())
    }

    fn open_over_tcp(&self, client: &str, session: u32, lane: u8) -> Result<OwnedFd, String> {
        if *self.session.lock().unwrap() != Some((client.to_owned(), session)) || lane != LANE {
            return Err("there is no such session or lane".to_owned());
        }
        let [ours, theirs] = datagrams();
        let mut lanes = self.lanes.lock().unwrap();
        lanes.iter_mut().for_each(|lane| *lane = None);
        lanes.push(Some(ours.into()));
        Ok(theirs)
    }

    fn close(&self, _: u32) {}

    fn has_ipv6(&self) -> bool {
        false
    }
}

impl Host {
    /// Its end of the newest lane.
    fn newest(&self) -> Socket {
        let lanes = self.lanes.lock().unwrap();
        let newest = lanes.last().unwrap().as_ref().unwrap();
        Socket::from_std(newest.try_clone().unwrap()).unwrap()
    }
}

/// A server with this host, and a client of this name.
fn served(server: ServerBuilder, client: weftline::ClientBuilder, host: Arc<Host>) -> Client {
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let client = client.server(server.local_addrs()[0]).build().unwrap();
    let target = Target::Internet(Egress::default());
    tokio::spawn(weftline::serve_with_lanes(server, target, Some(host), pending(), pending()));
    client
}

fn tokens(name: &str) -> Token {
    Token::named(name, &format!("a secret that is long enough, of {name}")).unwrap()
}

fn with_lanes(host: &Arc<Host>) -> [Client; 2] {
    let (server, security) = pair(Security::Tls);
    let names = ["ann", "bob"];
    let server = server.longest_message(LONGEST_DATAGRAM);
    let server = names.iter().fold(server, |server, name| server.token(tokens(name)));
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    let target = Target::Internet(Egress::default());
    let host: Arc<dyn LaneHost> = Arc::<Host>::clone(host);
    tokio::spawn(weftline::serve_with_lanes(server, target, Some(host), pending(), pending()));
    names.map(|name| {
        let client = two_paths(security.clone()).token(tokens(name));
        client.server(address).build().unwrap()
    })
}

async fn opened(client: &Client, session: u32, lane: u8) -> Result<LaneOverTcp, Error> {
    let mut opened = LaneOverTcp::connect(client).await?;
    opened.open(session, lane).await?;
    Ok(opened)
}

/// Both ends of a lane that is carried, and what carries it.
fn carry(lane: LaneOverTcp, host: &Host) -> (Socket, Socket, JoinHandle<Option<Error>>) {
    let [ours, theirs] = datagrams();
    let here = Socket::from_std(ours.into()).unwrap();
    (here, host.newest(), tokio::spawn(lane.carry(theirs)))
}

async fn received(socket: &Socket) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let length = socket.recv(&mut bytes).await.unwrap();
    bytes.truncate(length);
    bytes
}

#[tokio::test]
async fn datagrams_go_both_ways_with_their_bounds_until_an_end_closes() {
    patiently(async {
        let host = Arc::new(Host::default());
        let [ann, _] = with_lanes(&host);
        let (control, grant) = LaneControl::open(&ann).await.unwrap();
        assert!(control.takes_tcp());
        let lane = opened(&ann, grant.session, LANE).await.unwrap();
        let (here, there, carrying) = carry(lane, &host);
        for length in [1, 39, 1441, 2048] {
            let datagram = vec![length as u8; length];
            here.send(&datagram).await.unwrap();
            assert_eq!(received(&there).await, datagram);
            there.send(&datagram).await.unwrap();
            assert_eq!(received(&here).await, datagram);
        }
        // Another one takes its place, and the first one ends.
        let second = opened(&ann, grant.session, LANE).await.unwrap();
        drop(there);
        assert!(carrying.await.unwrap().is_some());
        assert_eq!(received(&here).await, b"", "its end shows");
        let (here, there, carrying) = carry(second, &host);
        here.send(b"again").await.unwrap();
        assert_eq!(received(&there).await, b"again");
        // The client's end closes, and the host hears of it.
        drop(here);
        assert!(carrying.await.unwrap().is_none());
        assert_eq!(received(&there).await, b"");
    })
    .await;
}

#[tokio::test]
async fn what_one_end_does_not_take_is_dropped_and_the_rest_goes_on() {
    patiently(async {
        let host = Arc::new(Host::default());
        let [ann, _] = with_lanes(&host);
        let (_control, grant) = LaneControl::open(&ann).await.unwrap();
        let lane = opened(&ann, grant.session, LANE).await.unwrap();
        let (here, there, _) = carry(lane, &host);
        // 28 MB, of which nobody takes any.
        for number in 0..20_000_u32 {
            let datagram = [&number.to_be_bytes()[..], &[0; 1396]].concat();
            here.send(&datagram).await.unwrap();
        }
        here.send(b"the last").await.unwrap();
        let mut count = 0;
        let mut bytes = [0; 2048];
        loop {
            match there.try_recv(&mut bytes) {
                Ok(8) => break,
                Ok(_) => count += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // There is room again, and what comes now is taken.
                    let _ = here.try_send(b"the last");
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!((1..20_000).contains(&count), "{count}");
    })
    .await;
}

#[tokio::test]
async fn a_lane_is_of_a_session_of_the_same_client() {
    patiently(async {
        let host = Arc::new(Host::default());
        let [ann, bob] = with_lanes(&host);
        let (_control, grant) = LaneControl::open(&ann).await.unwrap();
        let wrong = grant.session.wrapping_add(1);
        for (client, session, lane) in
            [(&bob, grant.session, LANE), (&ann, wrong, LANE), (&ann, grant.session, 7)]
        {
            let error = opened(client, session, lane).await.unwrap_err();
            assert_eq!(error.to_string(), "there is no such session or lane");
        }
        assert!(host.lanes.lock().unwrap().is_empty());
        assert!(opened(&ann, grant.session, LANE).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn what_begins_otherwise_is_refused_and_who_has_no_name() {
    patiently(async {
        let host = Arc::new(Host::default());
        let (server, security) = pair(Security::Tls);
        let server = server.longest_message(LONGEST_DATAGRAM);
        let client = two_paths(security).longest_message(LONGEST_DATAGRAM);
        let client = served(server, client, Arc::clone(&host));
        for first in [&b"\x01"[..], b"\x01\0\0\0\0\x20", b"\x05\0\0\0\0\x20", &[0; 2048]] {
            let mut messages = client.connect().await.unwrap().into_messages().unwrap();
            messages.send(first.to_vec(), SendOptions::default()).await.unwrap();
            let Ok(Some(Incoming::Message(answer))) = messages.recv().await else {
                panic!("it is answered")
            };
            assert_eq!(answer.payload[0], 1, "refused");
        }
        assert!(host.lanes.lock().unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_server_without_lanes_carries_none() {
    patiently(async {
        for is_of_messages in [false, true] {
            let (mut server, security) = pair(Security::Tls);
            if is_of_messages {
                server = server.longest_message(LONGEST_DATAGRAM);
            }
            let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
            let client = two_paths(security).server(server.local_addrs()[0]).build().unwrap();
            let target = Target::Internet(Egress::default());
            tokio::spawn(weftline::serve(server, target, pending(), pending()));
            let error = opened(&client, 7, LANE).await.unwrap_err();
            let is_refused = matches!(error, Error::Refused { .. });
            assert!(is_refused || is_of_messages && error.to_string().contains("none"), "{error}");
        }
    })
    .await;
}
