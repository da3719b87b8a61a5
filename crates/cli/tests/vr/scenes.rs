//! Scenes that are drawn here.

use super::*;

#[test]
fn a_scene_is_the_same_each_time_and_there_only_when_it_is_whole() {
    let dir = with_scene(0.5);
    let at = dir.path();
    vr(at, "synth plaza -o again.y4m --size 192x96 --fps 8 --seconds 0.5").unwrap();
    let scene = fs::read(at.join("plaza.y4m")).unwrap();
    assert!(scene == fs::read(at.join("again.y4m")).unwrap());
    let piped = Command::new(WEFTLINE)
        .args("vr synth plaza -o - --size 192x96 --fps 8 --seconds 0.5".split(' '))
        .output()
        .unwrap();
    assert!(scene == piped.stdout);
    fails(vr(at, "synth moon -o x.y4m"), 2, &["'moon'", "coast, drive"]);
    fails(vr(at, "synth plaza -o x.avi"), 2, &["x.avi", ".y4m"]);
    fails(vr(at, "synth plaza -o x.y4m --size 100x60"), 2, &["twice as wide"]);
    fails(vr(at, "synth plaza -o x.y4m --fps 0"), 2, &["pictures per second"]);
    fails(vr(at, "synth plaza -o x.y4m --seconds=-1"), 2, &["--duration"]);
    fails(vr(at, "synth plaza -o none/x.y4m --size 64x32"), 1, &["none/x.y4m", "No such file"]);
    let names: Vec<_> = fs::read_dir(at).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(vr(at, "synth --list").unwrap().lines().count() >= 6);
}

#[test]
fn ffv1_holds_the_same_pictures() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(0.5);
    let at = dir.path();
    vr(at, "synth plaza -o plaza.mkv --size 192x96 --fps 8 --seconds 0.5").unwrap();
    ff(at, "-i plaza.mkv -f rawvideo a.yuv");
    ff(at, "-i plaza.y4m -f rawvideo b.yuv");
    assert!(fs::read(at.join("a.yuv")).unwrap() == fs::read(at.join("b.yuv")).unwrap());
}
