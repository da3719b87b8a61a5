//! Ends that keep to no rule: nothing greeted, taken, made whole or sent.

use super::*;
use crate::common::accept;

/// A greeting with the settings of every day, with its length before it.
fn greeting() -> Vec<u8> {
    let hello = Hello { fov_deg: [100.0; 2], buffer: None, rebuffer: Duration::ZERO };
    framed(&Message::Hello(hello))
}

/// A message as the kernel's transports carry it.
fn framed(message: &Message<'_>) -> Vec<u8> {
    let bytes = message.to_bytes();
    [&(bytes.len() as u32).to_be_bytes()[..], &bytes].concat()
}

/// What a player of a stream that breaks off says, its log before it.
#[track_caller]
fn broken(args: &[&str]) -> String {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

/// A player that only spoke kept its place for the whole stream, and all that it was to get was kept for it.
#[test]
fn a_player_that_takes_nothing_makes_room() {
    if !ffmpeg() {
        return;
    }
    let tcp = ["--transport", "tcp", "--gops", "5000", "--max-players", "1"];
    let (server, address) = serve(package(), &tcp);
    let mut player = dial(address);
    player.write_all(&greeting()).unwrap();
    let mut report = Report::default();
    let until = std::time::Instant::now() + PATIENCE;
    while player.write_all(&framed(&Message::Report(report.clone()))).is_ok() {
        // What it says to have had.
        report.received += 10_000;
        assert!(std::time::Instant::now() < until, "it still has its place");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.logs("it has taken nothing of what is sent for 11s");
}

/// What a decoder is set up from was empty: all of that tile was taken for whole.
#[test]
fn a_tile_without_what_its_decoder_needs_ends_the_stream() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spoiled = copied(package(), dir.path());
    for qp in [22, 37] {
        fs::write(spoiled.join(format!("tiles/t003q{qp}/init.mp4")), b"").unwrap();
    }
    let (_server, address) = serve(&spoiled, &["--scheme", "fix"]);
    let error = broken(&play(&address.to_string(), &[]));
    assert!(error.contains("init.mp4 is empty: the package was changed"), "{error}");
}

/// A disk that does not answer kept the player waiting for ever, and its place taken.
#[test]
fn a_tile_that_cannot_be_read_ends_the_stream() {
    if !ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let hanging = copied(package(), dir.path());
    // It is looked at when the server starts.
    let (_server, address) = serve(&hanging, &["--scheme", "fix", "--gops", "1000"]);
    for qp in [22, 37] {
        for file in fs::read_dir(hanging.join(format!("tiles/t003q{qp}"))).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|ending| ending == "m4s") {
                fs::remove_file(&file).unwrap();
                // Nobody ever writes to it.
                assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
            }
        }
    }
    let error = broken(&play(&address.to_string(), &[]));
    assert!(error.contains("cannot be read within 5s"), "{error}");
}

/// A server that says that all was sent, and has announced one GoP of four.
#[test]
fn what_was_announced_and_never_comes_is_not_waited_for_without_end() {
    if !ffmpeg() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let said = std::thread::spawn(move || {
        let mut player = accept(&listener);
        let manifest = Manifest {
            frame: FrameSize::new(192, 96).unwrap(),
            grid: Grid::new(1, 1).unwrap(),
            gop: Duration::from_millis(500),
            gop_frames: 4,
            gops: 4,
            concealment: Concealment::Grey,
            scheme: "ows".to_owned(),
            qps: vec![22],
            sound: None,
        };
        let tile = TileNotice { planned: None, base: None, grey: 1.0, changes: Vec::new() };
        let gop = GopNotice { gop: 0, expected: ByteCount::ZERO, sound: 0, tiles: vec![tile] };
        for message in [Message::Manifest(manifest), Message::Gop(gop), Message::End { gops: 4 }] {
            player.write_all(&framed(&message)).unwrap();
        }
        // Until it has had enough.
        let _ = player.read_to_end(&mut Vec::new());
    });
    let args = ["vr", "play", "--server", &address, "--insecure-plaintext", "--transport", "tcp"];
    let error = broken(&[&args[..], &["--grace", "10s"]].concat());
    assert!(error.contains("broke off after 1 of 4 GoPs: nothing came for 10s"), "{error}");
    said.join().unwrap();
}
