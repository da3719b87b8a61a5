//! What a directory is while the whole sphere is added to its package, or was not to the end; and
//! what of a package is to be made again.
#![allow(clippy::unwrap_used, reason = "test code")]

use super::*;
use crate::fingerprint::Fingerprint;

/// Two tiles in one GoP, with the whole sphere at these QPs.
fn plan_of(whole: &[u8], complete: bool) -> Description {
    let colour = r#"{"primaries":1,"transfer":1,"matrix":1,"full_range":false}"#;
    let whole = match whole {
        [] => String::new(),
        qps => format!(r#""whole":{{"qps":{qps:?},"colour":{colour}}},"#),
    };
    let about = format!(
        r#"{{"format":"weftline-vr-1","source":"a.y4m","source_bytes":1,"source_digest":"",
        "width":64,"height":32,"columns":2,"rows":1,"qps":[30],"fps_numerator":8,
        "fps_denominator":1,"gop_frames":4,"gops":1,"preset":"medium","ffmpeg":"5",{whole}
        "complete":{complete}}}"#
    );
    serde_json::from_str(&about).unwrap()
}

/// Writes the GoP's record, with the whole sphere at these QPs.
fn write_record(dir: &Path, whole: &[u8]) -> Record {
    let rung = |qp| {
        let digest = Some(Digest::of(b"abc"));
        let (segment, init) = (digest, digest);
        RungRecord { qp, bytes: 3, ws_mse: 1.0, mixed_mse: None, parts: None, segment, init }
    };
    let whole = whole.iter().map(|&qp| rung(qp)).collect();
    let tiles = vec![vec![rung(30)]; 2];
    let record = Record { gop: 0, tiles, side: None, grey: Vec::new(), whole };
    record.write(dir).unwrap();
    record
}

/// The package of a plan, with the files of its tiles, and of the whole sphere at these QPs.
fn packaged(plan: &Description, whole: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::create_dir(at.join("gops")).unwrap();
    let tiles = [0, 1].map(|tile| (Layer::Tiles, tile, 30));
    let whole_rungs = whole.iter().map(|&qp| (Layer::Whole, 0, qp));
    for (layer, tile, qp) in tiles.into_iter().chain(whole_rungs) {
        fs::create_dir_all(at.join(layer.rung_dir(tile, qp))).unwrap();
        fs::write(at.join(layer.segment(tile, qp, 0)), "abc").unwrap();
        fs::write(at.join(layer.init(tile, qp)), "abc").unwrap();
    }
    let gops = vec![write_record(at, whole).table().unwrap()];
    let table = RdTable::new(2, 1, plan.gop_duration(), gops).unwrap();
    fs::write(at.join(TABLE), table.to_csv()).unwrap();
    plan.write(at).unwrap();
    dir
}

/// What is begun with the whole sphere at these QPs, of which nothing is done yet: the layers that are missing.
fn begun(dir: &Path, whole: &[u8]) -> Vec<Layer> {
    let mut plan = plan_of(whole, false);
    begin(dir, &mut plan).unwrap();
    let layers = if whole.is_empty() { &LAYERS[..1] } else { &LAYERS[..] };
    missing(dir, &plan, layers).unwrap().pop().map_or_else(Vec::new, |wanted| wanted.layers)
}

/// A finished package stays usable while the whole sphere is added, and after that was given up.
#[test]
fn a_finished_package_is_one_until_all_that_is_added_is_there() {
    let finished = plan_of(&[], true);
    let dir = packaged(&finished, &[]);
    let at = dir.path();
    let is_as_it_was = || {
        assert_eq!(Description::read(at).unwrap().as_ref(), Some(&finished));
        let package = Package::open(at).unwrap();
        package.verify().unwrap();
        assert_eq!(package.whole(), Vec::new());
    };
    assert_eq!(begun(at, &[3]), [Layer::Whole]);
    is_as_it_was();
    // A GoP of it is done; that its files have gone is nothing to the package.
    write_record(at, &[3]);
    is_as_it_was();
    assert_eq!(begun(at, &[]), []);
    assert_eq!(begun(at, &[30]), [Layer::Whole]);
    is_as_it_was();
}

/// What was never finished may be changed or given up.
#[test]
fn a_package_that_is_not_finished_may_do_without_the_whole_sphere() {
    for whole in [&[][..], &[30], &[3, 30]] {
        let dir = packaged(&plan_of(&[3], false), &[3]);
        let wanted = if whole.is_empty() { vec![] } else { vec![Layer::Whole] };
        assert_eq!(begun(dir.path(), whole), wanted);
        let found = Description::read(dir.path()).unwrap().unwrap();
        assert_eq!((found.whole_qps(), found.complete), (whole, false));
    }
}

/// To what is finished further QPs are added, and none is taken away.
#[test]
fn the_whole_sphere_gets_further_qps() {
    let dir = packaged(&plan_of(&[40], true), &[40]);
    let at = dir.path();
    for (whole, said) in [(&[][..], "(40, not none)"), (&[30], "(40, not 30)")] {
        let error = begin(at, &mut plan_of(whole, false)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(begun(at, &[40]), []);
    assert_eq!(begun(at, &[30, 40]), [Layer::Whole]);
    write_record(at, &[30, 40]);
    let package = Package::open(at).unwrap();
    package.verify().unwrap();
    assert_eq!(package.whole(), [(40, ByteCount::new(3), 1.0)]);
}

/// A raw source that was rendered anew has the same length, and may have the same ends.
#[test]
fn a_source_with_another_middle_is_another_one() {
    let dir = packaged(&plan_of(&[], true), &[]);
    let at = dir.path();
    let with = |blocks: &str| Description {
        source_blocks: Some(blocks.to_owned()),
        ..plan_of(&[], false)
    };
    // A package of before has nothing to say, and stays so.
    let mut plan = with("one");
    begin(at, &mut plan).unwrap();
    assert_eq!(plan.source_blocks, None);
    Package::open(at).unwrap();
    Description { complete: true, ..with("one") }.write(at).unwrap();
    begin(at, &mut with("one")).unwrap();
    let error = begin(at, &mut with("two")).unwrap_err().to_string();
    assert!(error.contains("another source") && error.contains("middle two"), "{error}");
    let of =
        |blocks: &str| Fingerprint { bytes: 1, ends: String::new(), blocks: blocks.to_owned() };
    let found = Package::open(at).unwrap();
    assert!(found.description().is_of(&of("one")) && !found.description().is_of(&of("two")));
    assert!(plan_of(&[], true).is_of(&of("two")));
}

/// All GoPs share what a decoder is set up from: one of them makes it anew where it is lost or
/// spoiled, and the others stay as they are.
#[test]
fn what_a_decoder_is_set_up_from_is_made_anew_with_one_gop() {
    let mut plan = plan_of(&[], false);
    plan.gops = 3;
    let dir = packaged(&plan, &[]);
    let at = dir.path();
    for gop in 1..3 {
        for tile in 0..2 {
            fs::write(at.join(Layer::Tiles.segment(tile, 30, gop)), "abc").unwrap();
        }
        Record { gop, ..write_record(at, &[]) }.write(at).unwrap();
    }
    let wanted = || {
        let wanted = missing(at, &plan, &LAYERS[..1]).unwrap();
        wanted.into_iter().map(|wanted| wanted.gop).collect::<Vec<_>>()
    };
    assert_eq!(wanted(), [0_u32; 0]);
    let init = at.join(Layer::Tiles.init(1, 30));
    fs::write(&init, "xyz").unwrap();
    assert_eq!(wanted(), [0], "its bytes are others");
    assert!(!init.exists(), "so that it is written anew");
    assert_eq!(wanted(), [0], "and so after an interruption");
    // Two lost ones are one GoP, too, also if that is to be made anyway.
    fs::remove_file(at.join(Layer::Tiles.init(0, 30))).unwrap();
    fs::remove_file(at.join(Layer::Tiles.segment(0, 30, 0))).unwrap();
    assert_eq!(wanted(), [0]);
}
