//! A package of `vr package --whole` from `vr http` in dash.js and Shaka: crates/web/ui/test/dash.mjs.

use crate::common::vr::ffmpeg;
use crate::common::{Daemon, weftline};
use crate::page::{can_run, drive};

#[test]
fn players_of_dash_show_the_whole_sphere() {
    if !ffmpeg() || !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &str| {
        let output =
            weftline(&["vr"]).args(args.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("synth rink -o rink.y4m --size 384x192 --fps 8 --seconds 2");
    run("package rink.y4m -o package --grid 4x2 --qp 40 --whole 30,40 --preset ultrafast");
    let package = dir.path().join("package");
    let serve = |more: &[&str]| {
        let mut server =
            Daemon::start(&[&["vr", "http", package.to_str().unwrap()], more].concat());
        let url = server.says("manifest");
        (server, url)
    };
    // The page is of another origin than the package.
    let (_closed, closed) = serve(&[]);
    let (_open, open) = serve(&["--allow-origin", "*"]);
    let said = drive(&format!("test/dash.mjs {closed}"), &open, |what| panic!("{what}"));
    eprintln!("{said}");
}
