//! What both ends say to each other, and what is no message.

use super::*;

#[test]
fn other_programs_and_versions_are_named() {
    let mut hello = Client::new(ClientSettings::default()).poll_transmit().unwrap();
    hello[6] = 9;
    assert_eq!(Message::decode(&hello), Err(WireError::Version(9)));
    hello[1] = b'X';
    assert_eq!(Message::decode(&hello), Err(WireError::Stranger));
    assert_eq!(Message::decode(&hello[..2]), Err(WireError::Stranger));
    assert_eq!(Message::decode(b"GET / HTTP/1.1"), Err(WireError::Kind(b'G')));
}

#[test]
fn tags_are_tiles() {
    let id = TileId { gop: u32::MAX, tile: u16::MAX, qp: u8::MAX };
    assert!(id.tag() < 1 << 62);
    assert_eq!(TileId::from_tag(id.tag()), Some(id));
    assert_eq!(TileId::from_tag(1 << 56), None);
}

/// A page makes room for each picture of a GoP.
#[test]
fn a_gop_has_no_more_pictures_than_it_may() {
    let decoded = |gop_frames: u32| {
        let mut bytes = hostile::manifest(0);
        // Behind the type, the version, the frame, the grid and the length of a GoP.
        bytes[21..25].copy_from_slice(&gop_frames.to_be_bytes());
        Message::decode(&bytes).map(|message| match message {
            Message::Manifest(manifest) => manifest.gop_frames,
            other => panic!("{other:?}"),
        })
    };
    for fine in [1, MAX_GOP_FRAMES] {
        assert_eq!(decoded(fine), Ok(fine));
    }
    for wrong in [0, MAX_GOP_FRAMES + 1, u32::MAX] {
        let error = decoded(wrong).unwrap_err().to_string();
        assert!(error.contains("number of pictures in a GoP out of range"), "{error}");
    }
}

fn rung() -> impl Strategy<Value = RungNotice> {
    (any::<u8>(), any::<u32>(), 0_f32..1e6).prop_map(|(qp, bytes, ws_mse)| RungNotice {
        qp,
        bytes,
        ws_mse,
    })
}

fn message() -> impl Strategy<Value = Message<'static>> {
    let id = (0_u32..86_400, 0_u16..4_096, any::<u8>());
    let id = id.prop_map(|(gop, tile, qp)| TileId { gop, tile, qp });
    let id = prop_oneof![4 => id, 1 => (0_u32..9).prop_map(TileId::sound)];
    let arrived = (id, any::<bool>());
    let notice = (
        prop::option::of(rung()),
        prop::option::of(rung()),
        0_f32..1e6,
        prop::collection::vec(0_f32..1e6, 0..=MAX_AGES),
    );
    let notice = notice.prop_map(|(planned, base, grey, changes)| TileNotice {
        planned,
        base,
        grey,
        changes,
    });
    let pose = (0_u64..86_400_000, prop::array::uniform3(-360_f32..360.0))
        .prop_map(|(ms, degrees)| PoseNotice { at: Duration::from_millis(ms), degrees });
    prop_oneof![
        (prop::array::uniform2(1_f32..170.0), prop::option::of(100_u64..60_000), 0_u64..60_000)
            .prop_map(|(fov_deg, buffer, rebuffer)| {
                let buffer = buffer.map(Duration::from_millis);
                Message::Hello(Hello { fov_deg, buffer, rebuffer: MS * rebuffer as u32 })
            }),
        (0_u32..1_000, any::<u64>(), prop::collection::vec(notice, 0..20)).prop_map(
            |(gop, expected, tiles)| {
                let expected = ByteCount::new(expected);
                Message::Gop(GopNotice { gop, expected, sound: gop, tiles })
            }
        ),
        (
            any::<u64>(),
            0_u32..86_400_000,
            prop::collection::vec(pose, 0..MAX_POSES),
            prop::collection::vec(arrived, 0..50)
        )
            .prop_map(|(received, stalled, poses, arrived)| {
                Message::Report(Report { received, stalled: MS * stalled, poses, arrived })
            }),
        (0_u8..9, 1..=MAX_SAMPLE_RATE, any::<bool>()).prop_map(|(channels, rate_hz, is_silent)| {
            let has_sound = !is_silent && channels > 0;
            let sound = has_sound.then_some(SoundFormat { rate_hz, channels });
            Message::Manifest(Manifest {
                frame: FrameSize::new(256, 128).unwrap(),
                grid: Grid::new(4, 2).unwrap(),
                gop: GOP,
                gop_frames: 15,
                // None are told of a live source.
                gops: u32::from(channels),
                concealment: Concealment::Grey,
                scheme: "ows".to_owned(),
                qps: vec![22, 32],
                sound,
            })
        }),
        any::<u32>().prop_map(|gops| Message::End { gops }),
        "[ -~]{0,255}".prop_map(|reason| Message::Refusal { reason }),
    ]
}

proptest! {
    #[test]
    fn messages_read_back(message in message()) {
        let bytes = message.to_bytes();
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
        // Cut or longer ones are none.
        prop_assert!(Message::decode(&bytes[..bytes.len() - 1]).is_err());
        prop_assert!(Message::decode(&[&bytes[..], b"x"].concat()).is_err());
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(message) = Message::decode(&bytes) {
            let again = message.to_bytes();
            prop_assert_eq!(Message::decode(&again), Ok(message));
        }
    }
}
