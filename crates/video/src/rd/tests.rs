//! Tests of the table's text form: what is read back, and what each refusal says.

use proptest::prelude::*;

use super::*;

const HEAD: &str = "# weftline-rd grid=2x1 gop_s=1\ngop,tile,qp,bytes,ws_mse\n";

fn refusal(text: &str) -> String {
    RdTable::parse(text).expect_err("the text is not a table").to_string()
}

#[test]
fn rows_in_any_order_make_one_table() {
    let text = format!("{HEAD}0,1,32,70,4\r\n0,0,22,100,1.5\n\n0,1,22,90,2e0\n0,0,32,50,3\n");
    let table = RdTable::parse(&text).unwrap();
    assert_eq!((table.columns(), table.rows(), table.gops().len()), (2, 1, 1));
    assert_eq!(table.gop_duration(), Duration::from_secs(1));
    let tile = &table.gops()[0].tiles()[1];
    assert_eq!(tile.rungs().iter().map(|r| r.qp).collect::<Vec<_>>(), [22, 32]);
    assert_eq!(tile.at_qp(32).unwrap().bytes, ByteCount::new(70));
    assert_eq!(tile.at_qp(23), None);
}

#[test]
fn a_table_that_is_not_monotone_is_taken() {
    let text = format!("{HEAD}0,0,22,50,9\n0,0,32,100,1\n0,1,22,1,1\n");
    assert_eq!(RdTable::parse(&text).unwrap().gops()[0].tiles()[0].rungs()[0].ws_mse, 9.0);
}

#[test]
fn a_refusal_names_the_line_and_the_reason() {
    for (row, want) in [
        ("0,2,22,1,1", "tile 2 is not in the grid 2x1 of 2"),
        ("0,0,22,0,1", "a tile of 0 bytes at QP 22 is no encoding"),
        ("0,0,22,1,nan", "a WS-MSE of NaN at QP 22"),
        ("0,0,22,1,inf", "a WS-MSE of inf"),
        ("0,0,22,1,-1", "a WS-MSE of -1"),
        ("0,0,22,-1,1", "bytes '-1' is no number in range"),
        ("0,0,300,1,1", "qp '300' is no number in range"),
        ("99999999,0,22,1,1", "gop 99999999 is above the last one allowed"),
        ("0,0,22,1", "no ws_mse"),
        ("0,0,22,1,1,1", "more than the fields gop,tile,qp,bytes,ws_mse"),
        ("0,1,22,1,1\n0,1,22,2,1", "comes a second time"),
    ] {
        let got = refusal(&format!("{HEAD}{row}\n"));
        assert!(got.contains(want), "{row:?}: {got}");
        let line = 3 + row.matches('\n').count();
        assert!(got.starts_with(&format!("line {line}: ")), "{row:?}: {got}");
    }
}

#[test]
fn a_table_with_holes_is_refused_by_name() {
    assert_eq!(refusal(HEAD), "the table has no rows");
    assert_eq!(refusal(&format!("{HEAD}0,0,22,1,1\n")), "gop 0, tile 1 has no rows");
    let gap = format!("{HEAD}0,0,22,1,1\n0,1,22,1,1\n2,0,22,1,1\n2,1,22,1,1\n");
    assert_eq!(refusal(&gap), "gop 1, tile 0 has no rows");
    // A table of one row for a far GoP costs no more memory than its one row.
    assert_eq!(refusal(&format!("{HEAD}86399,1,22,1,1\n")), "gop 0, tile 0 has no rows");
}

#[test]
fn the_first_two_lines_are_checked() {
    for head in [
        "",
        "gop,tile,qp,bytes,ws_mse\n",
        "# weftline-rd\n",
        "# weftline-rd grid=6 gop_s=1\n",
        "# weftline-rd grid=6x4 gop_s=-1\n",
        "# weftline-rd grid=6x4 gop_s=1.0000000001\n",
        "# weftline-rd grid=6x4 gop_s=1 fps=30\n",
    ] {
        assert!(refusal(head).starts_with("line 1: want '# weftline-rd grid="), "{head:?}");
    }
    for (head, want) in [
        ("# weftline-rd grid=0x4 gop_s=1\n", "line 1: a grid of 0x4 must have 1 to"),
        ("# weftline-rd grid=6x4 gop_s=0\n", "line 1: a GoP of 0 s must last more"),
        ("# weftline-rd grid=6x4 gop_s=1\n0,0,1,1,1\n", "line 2: want the names of the columns"),
    ] {
        let got = refusal(head);
        assert!(got.starts_with(want), "{got}");
    }
}

#[test]
fn tables_built_in_memory_are_held_to_the_same_rules() {
    let rung = |qp| Rung { qp, bytes: ByteCount::new(1), ws_mse: 1.0, mixed_mse: None };
    assert!(TileTable::new(vec![]).is_err());
    assert!(TileTable::new(vec![rung(1), rung(1)]).is_err());
    assert!(TileTable::new(vec![Rung { ws_mse: f64::NAN, ..rung(1) }]).is_err());
    assert!(GopTable::new(vec![]).is_err());
    let tile = TileTable::new(vec![rung(9), rung(3)]).unwrap();
    assert_eq!(tile.rungs()[0].qp, 3);
    let gop = GopTable::new(vec![tile]).unwrap();
    let error = RdTable::new(2, 1, Duration::from_secs(1), vec![gop]).unwrap_err();
    assert_eq!(error.to_string(), "GoP 0 has 1 tiles, but a grid of 2x1 has 2");
}

prop_compose! {
    fn any_tile()(rungs in proptest::collection::btree_map(
        0_u8..=63, (1..1_u64 << 40, 0.0..1e9_f64), 1..6,
    ), mixed in any::<bool>()) -> TileTable {
        let rungs = rungs.into_iter().map(|(qp, (bytes, ws_mse))| {
            let mixed_mse = mixed.then_some(ws_mse / 2.0);
            Rung { qp, bytes: ByteCount::new(bytes), ws_mse, mixed_mse }
        });
        TileTable::new(rungs.collect()).unwrap()
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        tiles in proptest::collection::vec(any_tile(), 6),
        ns in 1_u64..3_600_000_000_000,
    ) {
        let gops = tiles.chunks(2).map(|pair| GopTable::new(pair.to_vec()).unwrap()).collect();
        let table = RdTable::new(1, 2, Duration::from_nanos(ns), gops).unwrap();
        let read = RdTable::parse(&table.to_csv()).unwrap();
        prop_assert_eq!(read.mixed(), table.mixed());
        match table.mixed() {
            Some(_) => prop_assert_eq!(read, table),
            // One that was not measured of all rungs is left out of the text.
            None => prop_assert_eq!(read.to_csv(), table.to_csv()),
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(# weftline-rd grid=1x1 gop_s=1\ngop,tile,qp,bytes,ws_mse\n)?[0-9,.\n-]{0,80}") {
        let _ = RdTable::parse(&text);
    }
}
