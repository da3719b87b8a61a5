//! Replays the corpus of the fuzz target `ows`, and spoiled tables, on stable Rust.
#![expect(unreachable_pub, reason = "the target is shared with the fuzz crate")]
#![expect(clippy::disallowed_methods, reason = "a test reads its corpus")]

#[path = "../../../fuzz/ows.rs"]
mod target;

use proptest::prelude::*;

#[test]
fn the_ows_corpus() {
    let folder = format!("{}/../../fuzz/corpus/ows", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let read = |file: std::io::Result<std::fs::DirEntry>| std::fs::read(file?.path());
    let run = files.map(|file| target::ows(&read(file).expect("readable"))).count();
    assert!(run > 0, "{folder} is empty");
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
        problem in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut text = "# weftline-rd grid=3x2 gop_s=1\ngop,tile,qp,bytes,ws_mse\n".to_owned();
        for (index, row) in rows.iter().enumerate() {
            text.push_str(&format!("0,{},{},{row}\n", index / 2, 20 + index % 2));
        }
        target::ows(&[text.as_bytes(), &[0], &problem].concat());
    }
}
