//! Replays the corpora of the fuzz targets `ows` and `live`, and spoiled tables and scripts, on
//! stable Rust.
#![expect(unreachable_pub, reason = "the target is shared with the fuzz crate")]
#![expect(clippy::disallowed_methods, reason = "a test reads its corpus")]

#[path = "../../../fuzz/ows.rs"]
mod target;

#[path = "../../../fuzz/live.rs"]
mod live;

use proptest::prelude::*;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let read = |file: std::io::Result<std::fs::DirEntry>| std::fs::read(file?.path());
    let run = files.map(|file| target(&read(file).expect("readable"))).count();
    assert!(run > 0, "{folder} is empty");
}

#[test]
fn the_ows_corpus() {
    replay("ows", target::ows);
}

#[test]
fn the_live_corpus() {
    replay("live", live::live);
}

/// A step of a script: what it does, and its words.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let words = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..3),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    (any::<u8>(), words).prop_map(|(step, words)| {
        let len = words.len() as u8 + 1;
        [&[step, len][..], &words].concat()
    })
}

fn row() -> impl Strategy<Value = String> {
    let number =
        prop_oneof![60 => (1_u64..1_000_000).prop_map(|n| n.to_string()), 1 => "[0-9.e-]{0,6}"];
    (number, 0.0_f64..100.0).prop_map(|(bytes, ws_mse)| format!("{bytes},{ws_mse}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Tables of six tiles with two rungs each, most of them whole, and any problem behind them.
    #[test]
    fn any_table_and_problem(
        rows in prop::collection::vec(row(), 12),
        mixed in any::<bool>(),
        problem in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let (column, value) = if mixed { (",mixed_mse", ",0.5") } else { ("", "") };
        let mut text =
            format!("# weftline-rd grid=3x2 gop_s=1\ngop,tile,qp,bytes,ws_mse{column}\n");
        for (index, row) in rows.iter().enumerate() {
            text.push_str(&format!("0,{},{},{row}{value}\n", index / 2, 20 + index % 2));
        }
        target::ows(&[text.as_bytes(), &[0], &problem].concat());
    }

    /// Most steps let the two talk, so that streams go on for some GoPs.
    #[test]
    fn any_script(steps in prop::collection::vec(step(), 0..120)) {
        // A greeting, the manifest, the first report.
        let begun = [6, 1, 4, 1, 2, 2, 1, 6, 1];
        live::live(&[&begun[..], &steps.concat()].concat());
    }
}
