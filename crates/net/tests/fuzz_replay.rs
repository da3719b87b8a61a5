//! The corpus of the fuzz target `netlink`, replayed: what the kernel has answered, whole and damaged.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;

#[test]
fn netlink() {
    let folder = format!("{}/../../fuzz/corpus/netlink", env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(&folder).expect("the corpus is in the tree");
    let run =
        files.map(|file| weftline_net::fuzz::netlink(&fs::read(file.unwrap().path()).unwrap()));
    assert!(run.count() > 0, "{folder} is empty");
}
