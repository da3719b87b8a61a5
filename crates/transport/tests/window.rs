//! How much a peer may have outstanding: what its bytes need that come, not what it wishes for.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use bytes::{Bytes, BytesMut};
use common::attack::{Heard, hello_reply, said};
use common::patiently;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use weftline::{Client, ClientSecurity};
use weftline_core::ByteCount;
use weftline_core::session::SessionConfig;
use weftline_core::wire::{Data, Record};

/// A peer that sends a piece when the last one has been acknowledged, and answers every ping at once.
/// So little comes in a round trip that the first window is enough, for an application that reads
/// everything, whatever the peer wishes for.
#[tokio::test]
async fn a_wish_alone_opens_no_window() {
    const PIECE: u64 = 64 << 10;
    let first = SessionConfig::default().first_window.as_u64();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::builder().security(ClientSecurity::InsecurePlaintext);
    let client = client.server(listener.local_addr().unwrap()).build().unwrap();
    patiently(async {
        let (connection, accepted) = tokio::join!(client.connect(), async {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut heard = Heard::default();
            assert!(matches!(heard.next(&mut peer).await, Some(Record::Hello(_))));
            let reply = Record::HelloReply(hello_reply([1; 16], [2; 32]));
            let wish = Record::CreditWish(ByteCount::mib(256).as_u64());
            peer.write_all(&said(&[reply, wish])).await.unwrap();
            (peer, heard)
        });
        let (mut connection, (mut peer, mut heard)) = (connection.unwrap(), accepted);
        let reading = tokio::spawn(async move {
            tokio::io::copy(&mut connection, &mut tokio::io::sink()).await.unwrap()
        });
        let (mut sent, mut window) = (0, 0);
        while sent < 16 * first {
            let payload = Bytes::from(vec![7; PIECE as usize]);
            let mut out = BytesMut::new();
            Record::Data(Data { offset: sent, payload }).encode(&mut out);
            peer.write_all(&out).await.unwrap();
            sent += PIECE;
            loop {
                match heard.next(&mut peer).await.expect("the client goes on") {
                    Record::Ping(number) => {
                        let mut answer = BytesMut::new();
                        Record::Pong(number).encode(&mut answer);
                        peer.write_all(&answer).await.unwrap();
                    }
                    Record::Ack(ack) if ack.in_order == sent => {
                        window = ack.credit - ack.in_order;
                        break;
                    }
                    _ => {}
                }
            }
        }
        assert!(!reading.is_finished());
        // A machine that stands still at a ping makes the round trip long once.
        assert!(window <= 4 * first, "the window is {}", ByteCount::new(window));
    })
    .await;
}
