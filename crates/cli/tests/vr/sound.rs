//! Sound, which is packaged with the pictures.

use super::*;

/// What a decoder makes of files put together, as 16-bit samples of one channel at 48 kHz.
fn samples(dir: &Path, files: &[&str]) -> Vec<i16> {
    let bytes: Vec<u8> = files.iter().flat_map(|file| fs::read(dir.join(file)).unwrap()).collect();
    fs::write(dir.join("heard.mp4"), bytes).unwrap();
    ff(dir, "-i heard.mp4 -ac 1 -ar 48000 -f s16le heard.raw");
    let raw = fs::read(dir.join("heard.raw")).unwrap();
    raw.chunks_exact(2).map(|pair| i16::from_le_bytes(pair.try_into().unwrap())).collect()
}

/// A tone that begins at a known picture is in the segments at its time, to a few milliseconds; each
/// segment begins with its GoP or less than a frame of AAC later; the manifest, a second run and damage.
#[test]
fn sound_is_packaged_by_gops_and_in_time() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let at = dir.path();
    // Silent for 1.25 s, and it ends half a second before the pictures do.
    let tone = "sine=frequency=1000:duration=1.25,adelay=1250:all=1";
    ff(at, &format!("-i plaza.y4m -f lavfi -i {tone} -c:v ffv1 -c:a flac -ar 44100 tone.mkv"));
    let command = format!("package tone.mkv -o pkg {QUICK} --grid 2x1");
    let said = vr(at, &command).unwrap();
    assert!(said.contains("sound: AAC, one channel at 48000 Hz"), "{said}");
    let package = at.join("pkg");
    let manifest = fs::read_to_string(package.join("manifest.mpd")).unwrap();
    assert!(manifest.contains("codecs=\"mp4a.40.2\""), "{manifest}");
    assert!(manifest.contains("audioSamplingRate=\"48000\""), "{manifest}");
    let all = ["sound/init.mp4", "sound/000000.m4s", "sound/000001.m4s", "sound/000002.m4s"];
    let heard = samples(&package, &all);
    // Whole frames, and all of three seconds.
    assert!(heard.len().abs_diff(144_000) <= 1_024, "{}", heard.len());
    let begins = heard.iter().position(|sample| sample.abs() > 500).unwrap();
    let ends = heard.iter().rposition(|sample| sample.abs() > 500).unwrap();
    for (found, wanted_s) in [(begins, 1.25), (ends, 2.5)] {
        let off_s = found as f64 / 48_000.0 - wanted_s;
        assert!(off_s.abs() < 0.005, "off by {off_s} s");
    }
    for (gop, file) in all[1..].iter().enumerate() {
        let bytes = fs::read(package.join(file)).unwrap();
        let tfdt = bytes.windows(4).position(|kind| kind == b"tfdt").unwrap() + 8;
        let time = u64::from_be_bytes(bytes[tfdt..tfdt + 8].try_into().unwrap());
        let late = time as f64 / 48_000.0 - gop as f64;
        assert!((0.0..1_024.0 / 48_000.0).contains(&late), "GoP {gop}: {late} s");
    }
    // It is made again where it was cut, and only it; other sound is another package.
    let whole = content(&package);
    fs::write(package.join("sound/000001.m4s"), b"cut").unwrap();
    let damaged = vr(at, "evaluate pkg --rates-mbps 1 --scheme fix");
    fails(damaged, 1, &["sound is missing or was cut", "vr package again"]);
    vr(at, &command).unwrap();
    assert!(content(&package) == whole, "the same package again");
    fails(vr(at, &format!("{command} --no-sound")), 2, &["other sound (one channel", "not none"]);
}
