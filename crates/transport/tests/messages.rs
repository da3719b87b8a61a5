//! Connections of messages over loopback paths.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{Relay, Security, event, pair, patiently, pattern, server_and_client, two_paths};
use weftline::{
    Client, Connection, Error, Incoming, Message, MessageError, Messages, Outcome, PathEventKind,
    SendError, SendOptions, Server, refusal,
};
use weftline_core::ByteCount;

fn tagged(tag: u64) -> SendOptions {
    SendOptions { tag, ..SendOptions::default() }
}

async fn ends(server: &mut Server, client: &Client) -> (Messages, Messages) {
    let (ours, theirs) = tokio::join!(client.connect(), server.accept());
    (ours.unwrap().into_messages().unwrap(), theirs.into_messages().unwrap())
}

async fn next(messages: &mut Messages) -> Message {
    match messages.recv().await.unwrap() {
        Some(Incoming::Message(message)) => message,
        other => panic!("{other:?} where a message was due"),
    }
}

/// Everything that comes until the end: tag → payload, `None` for a notice.
async fn all(messages: &mut Messages) -> BTreeMap<u64, Option<Bytes>> {
    let mut got = BTreeMap::new();
    while let Some(incoming) = messages.recv().await.unwrap() {
        let (tag, payload) = match incoming {
            Incoming::Message(message) => (message.tag, Some(message.payload)),
            Incoming::Dropped(ended) => (ended.tag, None),
        };
        assert!(got.insert(tag, payload).is_none(), "{tag} comes twice");
    }
    got
}

async fn both_directions(security: Security) {
    let (server, client) = pair(security);
    let mut server = server.messages().bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let client = two_paths(client).server(server.local_addrs()[0]).messages().build().unwrap();
    let (mut ours, mut theirs) = ends(&mut server, &client).await;
    let mut outcomes = ours.outcomes();
    let asked = ours.send("which tiles?", tagged(1)).await.unwrap();
    assert_eq!(next(&mut theirs).await.payload, "which tiles?");
    for n in 0..50 {
        theirs.send(pattern(1000 + 4000 * n as usize, n), tagged(n)).await.unwrap();
    }
    theirs.shutdown();
    let got = all(&mut ours).await;
    assert_eq!(got.len(), 50);
    for (tag, payload) in got {
        assert!(payload.unwrap() == pattern(1000 + 4000 * tag as usize, tag), "{tag} differs");
    }
    let ended = outcomes.next().await.unwrap();
    assert_eq!((ended.id, ended.tag, ended.outcome), (asked, 1, Outcome::Delivered));
    ours.shutdown();
    assert!(theirs.recv().await.unwrap().is_none());
    ours.closed().await.unwrap();
    theirs.closed().await.unwrap();
    assert!(outcomes.next().await.is_none());
    let stats = theirs.stats().session.messages;
    assert_eq!((stats.sent, stats.delivered, stats.dropped, stats.received), (50, 50, 0, 1));
}

#[tokio::test]
async fn both_directions_plaintext() {
    patiently(both_directions(Security::Plain)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_directions_tls() {
    patiently(both_directions(Security::Tls)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_dies_takes_no_message_along() {
    let (server, client) = pair(Security::Tls);
    let mut server = server.messages().bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let relay = Relay::start(server.local_addrs()[0]).await;
    let client = two_paths(client)
        .server(server.local_addrs()[0])
        .server(relay.address)
        .messages()
        .build()
        .unwrap();
    patiently(async {
        let (ours, theirs) = ends(&mut server, &client).await;
        let mut events = ours.events();
        let path = |control: &weftline::Control, name: &str| {
            let stats = control.stats();
            let id = stats.names.iter().find(|(_, known)| &***known == name).map(|(id, _)| *id);
            id.and_then(|id| stats.session.paths.get(&id).map(|path| path.delivered)).unwrap_or(0)
        };
        let (mut sender, _receiver) = ours.into_split();
        let control = sender.control();
        let mut outcomes = sender.outcomes();
        let sizes = |tag: u64| 1 + (tag * 7919 % 200_000) as usize;
        let sending = tokio::spawn(async move {
            let mut tag = 0;
            // The path is used, dies, comes back and is used again, all in the middle of it.
            let mut phase = 0;
            let mut before = 0;
            while phase < 4 {
                sender.send(pattern(sizes(tag), tag), tagged(tag)).await.unwrap();
                tag += 1;
                let delivered = path(&control, "two");
                match phase {
                    0 if delivered > 2_000_000 => {
                        relay.cut();
                        phase = 1;
                    }
                    1 if control.stats().session.messages.sent > 0 => {
                        let down = |k: &PathEventKind| matches!(k, PathEventKind::Down { .. });
                        if tag % 50 == 0 {
                            event(&mut events, "two", down).await;
                            relay.mend();
                            before = path(&control, "two");
                            phase = 2;
                        }
                    }
                    2 if delivered > before + 2_000_000 => {
                        relay.freeze();
                        phase = 3;
                        before = tag;
                    }
                    3 if tag > before + 100 => phase = 4,
                    _ => {}
                }
            }
            sender.shutdown();
            (tag, sender)
        });
        let (theirs_sender, mut theirs) = theirs.into_split();
        let mut count = 0;
        while let Some(incoming) = theirs.recv().await.unwrap() {
            let Incoming::Message(message) = incoming else { panic!("none was dropped") };
            let (tag, payload) = (message.tag, message.payload);
            assert!(payload == pattern(sizes(tag), tag), "{tag} differs");
            count += 1;
        }
        let (sent, sender) = sending.await.unwrap();
        assert_eq!(count, sent);
        let mut theirs_sender = theirs_sender;
        theirs_sender.shutdown();
        sender.control().closed().await.unwrap();
        let mut delivered = 0;
        while let Some(one) = outcomes.next().await {
            assert_eq!(one.outcome, Outcome::Delivered);
            delivered += 1;
        }
        assert_eq!(delivered, sent);
    })
    .await;
}

#[tokio::test]
async fn a_sender_that_need_not_wait_lets_others_run() {
    let (server, client) = pair(Security::Plain);
    let mut server = server.messages().bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let client = two_paths(client).server(server.local_addrs()[0]).messages().build().unwrap();
    patiently(async {
        let (mut ours, _theirs) = ends(&mut server, &client).await;
        let turns = Arc::new(AtomicU64::new(0));
        let others = Arc::clone(&turns);
        tokio::spawn(async move {
            loop {
                others.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        });
        // Far less than there is memory for: nothing here waits for the paths.
        for tag in 0..40 {
            ours.send(pattern(100_000, tag), tagged(tag)).await.unwrap();
        }
        assert!(turns.load(Ordering::SeqCst) >= 10, "{turns:?} turns beside 4 MB");
    })
    .await;
}

#[tokio::test]
async fn deadlines_and_cancels_reach_both_ends() {
    let (server, client) = pair(Security::Plain);
    let mut server = server.messages().bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let relay = Relay::start(server.local_addrs()[0]).await;
    let client = two_paths(client).server(relay.address).messages().build().unwrap();
    patiently(async {
        let (mut ours, mut theirs) = ends(&mut server, &client).await;
        let mut outcomes = ours.outcomes();
        // Without a path for a while, so that nothing of what follows is sent in time.
        relay.cut();
        while ours.stats().session.paths.values().any(|path| path.subflow.is_some()) {
            tokio::task::yield_now().await;
        }
        let deadline = Some(Duration::from_millis(30));
        let expired = loop {
            match ours.send(pattern(500_000, 1), SendOptions { deadline, tag: 1 }).await {
                // The machine has stood still for so long in the call.
                Err(MessageError::Refused(SendError::Expired)) => {}
                sent => break sent.unwrap(),
            }
        };
        let kept = ours.send(pattern(100_000, 2), tagged(2)).await.unwrap();
        let cancelled = ours.send(pattern(500_000, 3), tagged(3)).await.unwrap();
        assert!(ours.cancel(cancelled));
        assert!(!ours.cancel(cancelled));
        // The deadline passes before there is a path again.
        while ours.unsent() != ByteCount::new(100_000) {
            tokio::task::yield_now().await;
        }
        relay.mend();
        ours.shutdown();
        let got = all(&mut theirs).await;
        assert_eq!(got.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((&got[&1], &got[&3]), (&None, &None));
        assert!(got[&2].as_deref() == Some(&pattern(100_000, 2)));
        theirs.shutdown();
        ours.closed().await.unwrap();
        let mut ended = BTreeMap::new();
        while let Some(one) = outcomes.next().await {
            ended.insert(one.id, one.outcome);
        }
        let outcomes = [
            (expired, Outcome::Expired),
            (kept, Outcome::Delivered),
            (cancelled, Outcome::Cancelled),
        ];
        assert_eq!(ended, BTreeMap::from(outcomes));
        // Nothing of what was dropped was sent.
        let paths = ours.stats().session.paths;
        let sent: u64 = paths.values().map(|path| path.sent - path.reinjected).sum();
        assert_eq!(sent, 100_000);
    })
    .await;
}

/// A message that is put off is sent after what was its deadline.
#[tokio::test]
async fn deadlines_are_put_off() {
    let (server, client) = pair(Security::Plain);
    let mut server = server.messages().bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let relay = Relay::start(server.local_addrs()[0]).await;
    let client = two_paths(client).server(relay.address).messages().build().unwrap();
    patiently(async {
        let (mut ours, mut theirs) = ends(&mut server, &client).await;
        relay.cut();
        while ours.stats().session.paths.values().any(|path| path.subflow.is_some()) {
            tokio::task::yield_now().await;
        }
        let (time, mut tag) = (Duration::from_millis(200), 0);
        let until = loop {
            tag += 1;
            let (began, deadline) = (std::time::Instant::now(), Some(time));
            let sent = ours.send(pattern(1_000, 1), SendOptions { deadline, tag }).await;
            ours.put_off(Duration::ZERO, Duration::from_secs(3_600));
            // Else the machine has stood still for so long in between.
            if sent.is_ok() && began.elapsed() < time {
                break tokio::time::Instant::now() + time;
            }
        };
        tokio::time::sleep_until(until).await;
        relay.mend();
        ours.shutdown();
        let got = all(&mut theirs).await;
        assert!(got[&tag].as_deref() == Some(&pattern(1_000, 1)));
    })
    .await;
}

#[tokio::test]
async fn sending_waits_for_memory_and_past_the_deadline_gives_up() {
    let (server, client) = pair(Security::Plain);
    let memory = ByteCount::kib(256);
    let small = ByteCount::new(100_000);
    let server = server.max_memory(memory).longest_message(small);
    let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let client = two_paths(client).server(server.local_addrs()[0]).max_memory(memory);
    let client = client.longest_message(ByteCount::new(1)).build().unwrap();
    patiently(async {
        let (mut ours, mut theirs) = ends(&mut server, &client).await;
        let too_long = ours.send(vec![0; 100_001], tagged(0)).await.unwrap_err();
        assert!(
            matches!(
                too_long,
                MessageError::Refused(SendError::TooLong { len: 100_001, longest: 100_000 })
            ),
            "{too_long}"
        );
        assert!(matches!(
            theirs.send(vec![0; 2], tagged(0)).await,
            Err(MessageError::Refused(SendError::TooLong { longest: 1, .. }))
        ));
        // Nobody takes what comes: in the end there is no room. What has room goes within moments, so
        // that a message that waited for seconds has none; unless the machine stood still meanwhile.
        let (mut taken, mut late) = (0, 0);
        let full = loop {
            match ours.try_send(pattern(100_000, taken), tagged(taken)) {
                Ok(_) => taken += 1,
                Err(full) => {
                    // Without a deadline: one that is taken and given up would make room again.
                    let waits = ours.send(pattern(100_000, taken), tagged(taken));
                    if let Ok(sent) = tokio::time::timeout(Duration::from_secs(1), waits).await {
                        sent.unwrap();
                        taken += 1;
                        continue;
                    }
                    late += 1;
                    let deadline = Some(Duration::from_secs(3));
                    let options = SendOptions { deadline, tag: 1000 + late };
                    match ours.send(vec![0; 100_000], options).await {
                        Ok(_) => {}
                        Err(MessageError::Refused(SendError::Expired)) => break full,
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        };
        assert!(taken >= 2, "{taken}");
        assert!(matches!(full, MessageError::Refused(SendError::Full)), "{full}");
        // One that may wait for ever does until there is room.
        let (got, ()) = tokio::join!(all(&mut theirs), async {
            ours.send(pattern(100_000, taken), tagged(taken)).await.unwrap();
            ours.shutdown();
            assert!(matches!(
                ours.send("x", tagged(0)).await,
                Err(MessageError::Refused(SendError::Finished))
            ));
        });
        taken += 1;
        for tag in 0..taken {
            assert!(got[&tag].as_deref() == Some(&pattern(100_000, tag)), "{tag} differs");
        }
        theirs.shutdown();
        ours.closed().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn streams_and_messages_are_not_mixed_up() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let unsupported = |error: std::io::Error| {
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("into_messages"), "{text}");
    };
    patiently(async {
        let (server, client) = pair(Security::Plain);
        let mut server = server.messages().bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let client = two_paths(client).server(server.local_addrs()[0]);
        // A server for messages takes byte streams, too.
        let mut stream = client.clone().build().unwrap().connect().await.unwrap();
        let accepted = server.accept().await;
        assert!(!accepted.carries_messages() && !stream.carries_messages());
        stream.write_all(b"bytes").await.unwrap();
        let mut accepted: Connection = accepted.into_messages().unwrap_err();
        let mut bytes = [0; 5];
        accepted.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"bytes");
        let mut messages = client.messages().build().unwrap().connect().await.unwrap();
        assert!(messages.carries_messages() && server.accept().await.carries_messages());
        unsupported(messages.write_all(b"bytes").await.unwrap_err());
        unsupported(messages.read(&mut bytes).await.unwrap_err());
        // One for byte streams takes no messages.
        let (_server, client) = server_and_client(Security::Plain);
        let refused = client.messages().build().unwrap().connect().await.unwrap_err();
        assert!(matches!(refused, Error::Refused { code: refusal::MESSAGES, .. }), "{refused}");
        assert!(refused.to_string().ends_with("byte streams only, not messages"), "{refused}");
        let (_, client) = pair(Security::Plain);
        for longest in [ByteCount::ZERO, ByteCount::mib(1025)] {
            let client = two_paths(client.clone())
                .server("127.0.0.1:1".parse::<std::net::SocketAddr>().unwrap());
            let error = client.longest_message(longest).build().err().unwrap();
            assert!(matches!(&error, Error::Invalid(_)), "{error}");
        }
    })
    .await;
}
