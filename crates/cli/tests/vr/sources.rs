//! What a source may be: what is refused, what is left out only where that was said, what is kept.

use super::*;

#[test]
fn sources_that_cannot_be_packaged_are_refused() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    let at = dir.path();
    let package =
        |source: &str, more: &str| vr(at, format!("package {source} -o pkg {more}").trim());
    fails(package("none.mp4", ""), 1, &["none.mp4", "No such file"]);
    fs::write(at.join("text.mp4"), "no video").unwrap();
    fails(package("text.mp4", ""), 1, &["text.mp4", "ffmpeg cannot read it"]);
    ff(at, "-i plaza.y4m -vf crop=160:90 -c:v ffv1 wide.mkv");
    fails(package("wide.mkv", ""), 1, &["wide.mkv", "twice as wide", "--size"]);
    ff(at, "-i plaza.y4m -vf scale=191:95 -pix_fmt yuv444p -c:v ffv1 odd.mkv");
    fails(package("odd.mkv", ""), 1, &["odd.mkv", "even"]);
    // Pictures 3 and 4 are left out.
    ff(at, "-i plaza.y4m -vf select='not(between(n,3,4))' -fps_mode vfr -c:v ffv1 vfr.mkv");
    fails(package("vfr.mkv", ""), 1, &["vfr.mkv", "constant rate", "fps=30"]);
    // Sound and bits are not lost without a word.
    ff(at, "-i plaza.y4m -f lavfi -i sine=duration=1 -c:v ffv1 -c:a aac -shortest loud.mkv");
    ff(at, "-i loud.mkv -map 0 -map 0:a -c copy two.mkv");
    fails(package("two.mkv", ""), 1, &["two.mkv", "2 tracks of sound (aac, aac)", "--no-sound"]);
    ff(at, "-i loud.mkv -c:v copy -ac 6 -c:a flac around.mkv");
    fails(package("around.mkv", ""), 1, &["around.mkv", "6 channels (flac)", "-ac 2"]);
    ff(at, "-i plaza.y4m -pix_fmt yuv420p10le -c:v ffv1 deep.mkv");
    fails(package("deep.mkv", ""), 1, &["deep.mkv", "8 bits (yuv420p10le)", "--to-8-bits"]);
    // Matroska says in its head how long it is, and is read as far as it goes.
    let whole = fs::read(at.join("loud.mkv")).unwrap();
    fs::write(at.join("cut.mkv"), &whole[..whole.len() * 6 / 10]).unwrap();
    fails(package("cut.mkv", "--no-sound"), 1, &["cut.mkv", "it was cut", "-c copy"]);
    fails(package("plaza.y4m", "--gop 2"), 1, &["8 pictures", "less than one GoP of 16"]);
    fails(package("plaza.y4m", "--grid 7x4"), 2, &["7x4 equal tiles", "scale it to"]);
    fails(package("plaza.y4m", "--grid 7"), 2, &["--grid", "like 6x4"]);
    fails(package("plaza.y4m", "--grid 12x8"), 2, &["tiles of 16x12 pixels", "coarser"]);
    fails(package("plaza.y4m", "--qp 22,52"), 2, &["from 1 to 51"]);
    fails(package("plaza.y4m", "--whole 0"), 2, &["--whole", "from 1 to 51"]);
    fails(package("plaza.y4m", "--ladder-mbps 0"), 2, &["--ladder-mbps", "above 0"]);
    fails(package("plaza.y4m", "--ladder-mbps 1 --qp 22"), 2, &["--ladder-mbps", "--qp"]);
    fails(package("plaza.y4m", "--preset best"), 2, &["'best'", "ultrafast"]);
    fails(package("plaza.y4m", "--size 192x90"), 2, &["twice as wide"]);
    assert!(!at.join("pkg/package.json").exists(), "nothing was begun");
}

/// Where MP4 keeps the matrix by which pictures are turned, after the type of the track's header.
const MATRIX: usize = 4 + 40;

/// What cameras and players say of a picture beside its pixels is not left out without a word.
#[test]
fn pictures_that_are_turned_or_of_another_projection_are_refused() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    let at = dir.path();
    let package = |source: &str| vr(at, &format!("package {source} -o pkg {QUICK}"));
    ff(at, "-i plaza.y4m -c:v libx264 plain.mp4");
    let plain = fs::read(at.join("plain.mp4")).unwrap();
    let place = |kind: &[u8; 4]| plain.windows(4).position(|found| found == kind).unwrap();
    let mut turned = plain.clone();
    let matrix = place(b"tkhd") + MATRIX;
    for at in [matrix, matrix + 16] {
        turned[at..at + 4].copy_from_slice(&(-65_536_i32).to_be_bytes());
    }
    fs::write(at.join("turned.mp4"), turned).unwrap();
    fails(package("turned.mp4"), 1, &["turned.mp4", "turned or mirrored", "-c:v libx264"]);
    // The remedy is one.
    ff(at, "-i turned.mp4 -c:v libx264 -crf 12 upright.mp4");
    package("upright.mp4").unwrap();
    // In place of the pixels' shape and the rate: a mesh.
    let mut mesh = plain.clone();
    let start = place(b"pasp") - 4;
    assert_eq!(place(b"btrt") - 4, start + 16);
    let boxes = b"\0\0\0\x18sv3d\0\0\0\x10proj\0\0\0\x08mshp\0\0\0\x0cfree\0\0\0\0";
    mesh[start..start + 36].copy_from_slice(boxes);
    fs::write(at.join("mesh.mp4"), mesh).unwrap();
    fails(package("mesh.mp4"), 1, &["mesh.mp4", "a mesh of its own (mshp)", "equirectangular"]);
}

#[test]
fn files_that_end_early_say_so_and_where() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.0);
    let at = dir.path();
    ff(at, "-i plaza.y4m -c:v libx264 -preset ultrafast late.mp4");
    ff(at, "-i late.mp4 -c copy -movflags faststart early.mp4");
    ff(at, "-i late.mp4 -c copy -movflags frag_keyframe+empty_moov parts.mp4");
    ff(at, "-i late.mp4 -c copy -f mpegts stream.ts");
    for (name, within) in [
        ("late.mp4", "within its box mdat"),
        ("early.mp4", "within its box mdat"),
        ("parts.mp4", "within its box mdat"),
        ("stream.ts", "within a packet of 188 bytes"),
        ("plaza.y4m", "within picture 12"),
    ] {
        let bytes = fs::read(at.join(name)).unwrap();
        let length = bytes.len() * 7 / 10 + 1;
        let cut = format!("cut-{name}");
        fs::write(at.join(&cut), &bytes[..length]).unwrap();
        let where_it_ends = format!("at byte {length}");
        let said = vr(at, &format!("package {cut} -o pkg {QUICK}"));
        fails(said, 1, &[&cut, "ends early", &where_it_ends, within, "get the whole file"]);
    }
    assert!(!at.join("pkg").exists(), "nothing was begun");
}

/// A transport stream has no index, and is decoded from its beginning for each GoP.
#[test]
fn a_transport_stream_with_one_key_frame_is_packaged() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(3.0);
    let at = dir.path();
    ff(at, "-i plaza.y4m -c:v libx264 -preset ultrafast -bf 2 -g 999 one.mkv");
    ff(at, "-i one.mkv -c copy -f mpegts one.ts");
    for name in ["one.mkv", "one.ts"] {
        let args = format!("package {name} -o {name}.pkg {QUICK} --grid 2x1");
        let said = vr(at, &args).unwrap();
        assert!(said.contains(": 3 GoPs"), "{said}");
    }
    let [indexed, searched] = ["one.mkv.pkg", "one.ts.pkg"].map(|name| at.join(name));
    for name in ["rd.csv", "miss.csv"] {
        let read = |dir: &Path| fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(read(&indexed), read(&searched));
    }
    // Made on its own, the table of concealments is the same.
    fs::remove_file(searched.join("miss.csv")).unwrap();
    vr(at, &format!("package one.ts -o one.ts.pkg {QUICK} --grid 2x1")).unwrap();
    assert!(content(&searched.join("tiles")) == content(&indexed.join("tiles")));
    let concealments = |dir: &Path| fs::read_to_string(dir.join("miss.csv")).unwrap();
    assert_eq!(concealments(&indexed), concealments(&searched));
}

#[test]
fn a_source_that_ends_early_has_fewer_gops() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(2.0);
    let bytes = fs::read(dir.path().join("plaza.y4m")).unwrap();
    // Twelve of sixteen pictures; in the middle of one the file would say that it was cut.
    let head = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let pictures = head + (bytes.len() - head) * 3 / 4;
    fs::write(dir.path().join("cut.y4m"), &bytes[..pictures]).unwrap();
    let said = vr(dir.path(), &format!("package cut.y4m -o pkg {QUICK} --grid 2x1")).unwrap();
    assert!(said.starts_with("pkg: 1 GoPs"), "the second GoP is not whole: {said}");
}

#[test]
fn sound_and_bits_are_left_out_where_that_was_said() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    ff(
        dir.path(),
        "-i plaza.y4m -f lavfi -i sine=duration=3 -pix_fmt yuv420p10le -c:v ffv1 -c:a aac both.mkv",
    );
    let args = format!("package both.mkv -o pkg {QUICK} --grid 2x1 --no-sound --to-8-bits");
    let said = vr(dir.path(), &args).unwrap();
    assert!(said.starts_with("pkg: 1 GoPs"), "{said}");
}

/// What a source says of its colours is said by tiles and manifest, whatever codec it had; what has more
/// than 8 bits is rounded only where that was said.
#[test]
fn sources_of_other_codecs_keep_their_colours() {
    if !ffmpeg() {
        return;
    }
    let dir = with_scene(1.0);
    let at = dir.path();
    let colours = "-color_primaries bt2020 -color_trc arib-std-b67 -colorspace bt2020nc";
    let encoders = Command::new("ffmpeg").args(["-v", "error", "-encoders"]).output().unwrap();
    let encoders = String::from_utf8_lossy(&encoders.stdout).into_owned();
    for (name, codec) in [
        ("hevc", "libx265 -x265-params log-level=none:colorprim=9:transfer=18:colormatrix=9"),
        ("av1", "libaom-av1 -cpu-used 8"),
    ] {
        if !encoders.contains(codec.split(' ').next().unwrap()) {
            assert!(std::env::var_os("CI").is_none(), "in CI ffmpeg encodes {name}");
            println!("skipped: this ffmpeg has no encoder for {name}");
            continue;
        }
        ff(at, &format!("-i plaza.y4m -pix_fmt yuv420p10le -c:v {codec} {colours} {name}.mp4"));
        let package = format!("package {name}.mp4 -o {name} {QUICK} --grid 2x1");
        fails(vr(at, &package), 1, &["more than 8 bits (yuv420p10le)", "--to-8-bits"]);
        vr(at, &format!("{package} --to-8-bits")).unwrap();
        let manifest = fs::read_to_string(at.join(name).join("manifest.mpd")).unwrap();
        for (property, code) in
            [("ColourPrimaries", 9), ("TransferCharacteristics", 18), ("MatrixCoefficients", 9)]
        {
            let wanted = format!("urn:mpeg:mpegB:cicp:{property}\" value=\"{code}\"");
            assert_eq!(manifest.matches(&wanted).count(), 2, "{name}: {manifest}");
        }
        assert!(manifest.contains("omaf:projection_type=\"0\""), "{manifest}");
        let tile = at.join(name).join("tiles/t000q22");
        let bytes =
            [fs::read(tile.join("init.mp4")).unwrap(), fs::read(tile.join("000000.m4s")).unwrap()];
        fs::write(at.join("tile.mp4"), bytes.concat()).unwrap();
        let entries = "stream=color_primaries,color_transfer,color_space";
        let mut probe = Command::new("ffprobe");
        probe.args(["-v", "error", "-show_entries", entries, "-of", "csv=p=0", "tile.mp4"]);
        let said = finish(probe.current_dir(at)).unwrap();
        assert_eq!(said.trim(), "bt2020nc,arib-std-b67,bt2020", "{name}");
    }
}
