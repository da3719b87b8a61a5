//! Packages that are gone on with: after a crash, a failing or full disk, a kill.

use std::process::Child;

use super::*;

#[test]
fn what_was_cut_or_lost_is_made_again_to_the_byte() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let command = format!("package plaza.y4m -o pkg {QUICK} --grid 3x2 --whole 30 --jobs 2");
    vr(dir.path(), &command).unwrap();
    let package = dir.path().join("pkg");
    let whole = content(&package);
    // As a crash leaves it: no record, a stale work directory, nothing concluded.
    fs::remove_file(package.join("gops/000001.json")).unwrap();
    fs::create_dir(package.join(".work-1")).unwrap();
    fs::write(package.join(".work-1/source.yuv"), b"half").unwrap();
    // As a failing disk leaves it.
    fs::write(package.join("tiles/t004q37/000002.m4s"), b"cut").unwrap();
    fs::remove_file(package.join("tiles/t000q22/init.mp4")).unwrap();
    fs::remove_file(package.join("whole/q30/000000.m4s")).unwrap();
    vr(dir.path(), &command).unwrap();
    assert!(content(&package) == whole, "the same package again");
}

/// A search path with an ffmpeg that does not come to an end with the fourth GoP while its parent lives.
fn stuck_at_the_last(dir: &Path) -> String {
    let path = std::env::var("PATH").unwrap();
    let real = path.split(':').map(|dir| Path::new(dir).join("ffmpeg")).find(|file| file.is_file());
    let script = format!(
        "#!/bin/sh\ncase \"$PWD\" in\n*/000003) while kill -0 $PPID; do sleep 0.1; done; exit 1 ;;\nesac\n\
         exec {} \"$@\"\n",
        real.unwrap().display()
    );
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("ffmpeg"), script).unwrap();
    fs::set_permissions(bin.join("ffmpeg"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", bin.display())
}

/// A program that is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_package_that_was_killed_is_gone_on_with() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(4.0);
    let args = format!("vr package plaza.y4m {QUICK} --grid 3x2 --whole 30 --jobs 1 -o");
    let args: Vec<&str> = args.split(' ').collect();
    let mut package = Command::new(WEFTLINE);
    package
        .args(&args)
        .arg("pkg")
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = package.env("PATH", stuck_at_the_last(dir.path())).spawn().unwrap();
    let mut child = Killed(child);
    let package = dir.path().join("pkg");
    until("the first GoP is there", || {
        assert!(child.0.try_wait().unwrap().is_none(), "it ended before its first GoP");
        package.join("gops/000000.json").is_file()
    });
    drop(child);
    let first = fs::metadata(package.join("tiles/t000q22/000000.m4s")).unwrap();
    assert!(!package.join("gops/000003.json").exists(), "it was killed too late to test anything");
    for out in ["pkg", "fresh"] {
        finish(Command::new(WEFTLINE).args(&args).arg(out).current_dir(dir.path())).unwrap();
    }
    let again = fs::metadata(package.join("tiles/t000q22/000000.m4s")).unwrap();
    assert_eq!(first.modified().unwrap(), again.modified().unwrap(), "what was done is kept");
    assert!(content(&package) == content(&dir.path().join("fresh")));
}

/// Bytes that have changed, with lengths as they were, are found by their digests.
#[test]
fn files_with_other_bytes_are_found_and_made_again() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let at = dir.path();
    ff(at, "-i plaza.y4m -f lavfi -i sine=duration=3 -c:v ffv1 -c:a flac loud.mkv");
    let args = format!("package loud.mkv -o pkg {QUICK} --grid 4x2");
    vr(at, &args).unwrap();
    let package = at.join("pkg");
    let whole = content(&package);
    for name in ["tiles/t003q37/000001.m4s", "tiles/t002q22/init.mp4", "sound/000002.m4s"] {
        let file = package.join(name);
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&file, bytes).unwrap();
        let said = vr(at, "check pkg --source loud.mkv --gops 1 --viewers 1 --fit-viewers 2");
        fails(said, 1, &[name, "other bytes than were packaged", "vr package again"]);
        vr(at, &args).unwrap();
        assert!(content(&package) == whole, "{name}");
    }
}

#[test]
fn a_directory_holds_one_package() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    let at = dir.path();
    vr(at, &format!("package plaza.y4m -o pkg {QUICK} --grid 2x1")).unwrap();
    let other = vr(at, &format!("package plaza.y4m -o pkg {QUICK} --grid 2x2"));
    fails(other, 2, &["pkg", "another grid (2x1, not 2x2)", "another directory"]);
    vr(at, "synth coast -o coast.y4m --size 192x96 --fps 8 --seconds 1").unwrap();
    let other = vr(at, &format!("package coast.y4m -o pkg {QUICK} --grid 2x1"));
    fails(other, 2, &["another source"]);
    fs::write(at.join("pkg/package.json"), "{}").unwrap();
    let other = vr(at, &format!("package plaza.y4m -o pkg {QUICK} --grid 2x1"));
    fails(other, 1, &["package.json", "no description of a package"]);
}

#[test]
fn a_full_disk_is_told_and_what_is_finished_stays() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.0);
    let small = dir.path().join("small");
    fs::create_dir(&small).unwrap();
    let mount =
        |args: &[&str]| Command::new("mount").args(args).arg(&small).stderr(Stdio::null()).status();
    let mounted = mount(&["-t", "tmpfs", "-o", "size=640k", "tmpfs"]);
    if !mounted.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "in CI it runs as root");
        println!("skipped: mounting a tmpfs needs root (sudo -E cargo test -p weftline-cli)");
        return;
    }
    let command = format!("package plaza.y4m -o small/pkg {QUICK} --grid 2x1 --whole 30 --jobs 1");
    // A filler leaves room for less than the raw pictures of a GoP.
    let filler = small.join("filler");
    fs::write(&filler, vec![0; 500 << 10]).unwrap();
    let full = vr(dir.path(), &command);
    fs::remove_file(&filler).unwrap();
    let done = vr(dir.path(), &command);
    let unmounted = Command::new("umount").arg(&small).status().unwrap();
    assert!(unmounted.success());
    fails(full, 1, &["small/pkg", "no space left", "same command again"]);
    assert!(done.unwrap().starts_with("small/pkg: 2 GoPs"));
}
