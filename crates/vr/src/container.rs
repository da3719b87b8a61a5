//! What the structure of a file says before its pictures are read: whether it ends early, and where; and
//! what MP4 says of its projection that ffprobe does not.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

use crate::mp4::{self, Projection};

/// The longest index of an MP4 file that is looked into; longer ones are left to ffmpeg.
const MAX_INDEX: u64 = 64 << 20;
/// The longest head of a Y4M file, and of one of its pictures.
const MAX_LINE: u64 = 1 << 10;
/// The boxes of an MP4 file. Behind them cameras write data of their own, which are none.
const BOXES: [&[u8; 4]; 12] = [
    b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"free", b"skip", b"wide", b"uuid", b"sidx",
    b"mfra", b"meta",
];
/// How long a packet of an MPEG transport stream is, and where in it the sync byte stands: as broadcast,
/// and with the time before it (Blu-ray, AVCHD).
const PACKETS: [(u64, usize); 2] = [(188, 0), (192, 4)];
const SYNC: u8 = 0x47;

/// What is known of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Structure {
    /// That it ends early.
    pub(crate) cut: Option<Cut>,
    /// The projection that it names.
    pub(crate) projection: Option<Projection>,
}

/// How a file ends early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// At which byte, and within what.
    pub(crate) place: String,
    /// Whether what is there can be read.
    pub(crate) is_readable: bool,
}

impl Cut {
    fn at(place: String) -> Self {
        Self { place, is_readable: true }
    }
}

/// Looks at the structure of a file; nothing is known of containers other than MP4, MPEG-TS and Y4M.
pub(crate) fn look(mut file: File) -> io::Result<Structure> {
    let length = file.metadata()?.len();
    let mut start = Vec::new();
    file.by_ref().take(600).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    let mut file = BufReader::new(file);
    if start.starts_with(b"YUV4MPEG2 ") {
        return Ok(Structure { cut: y4m(&mut file, length)?, projection: None });
    }
    if let Some((packet, _)) = PACKETS.into_iter().find(|kind| is_ts(&start, *kind)) {
        return Ok(Structure { cut: ts(length, packet), projection: None });
    }
    match start.get(4..8) {
        Some(kind) if BOXES.iter().any(|known| *known == kind) => boxes(&mut file, length),
        _ => Ok(Structure::default()),
    }
}

fn is_ts(start: &[u8], (packet, at): (u64, usize)) -> bool {
    (0..3).all(|index| start.get(at + index * packet as usize) == Some(&SYNC))
}

fn ts(length: u64, packet: u64) -> Option<Cut> {
    let over = length % packet;
    (over > 0).then(|| Cut::at(format!("byte {length}, within a packet of {packet} bytes")))
}

/// Goes over the boxes of an MP4 file.
fn boxes(file: &mut BufReader<File>, length: u64) -> io::Result<Structure> {
    let mut structure = Structure::default();
    let (mut at, mut has_index) = (0_u64, false);
    while let Some((kind, size, head)) = box_head(file, length - at)? {
        if !BOXES.contains(&&kind) {
            return Ok(structure);
        }
        let name = String::from_utf8_lossy(&kind).into_owned();
        if size > length - at {
            let index = if has_index { "" } else { ", and before its index (moov)" };
            let place = format!(
                "byte {length}, within its box {name}, which begins at byte {at} and is to have {size} \
                 bytes{index}"
            );
            structure.cut = Some(Cut { place, is_readable: has_index });
            return Ok(structure);
        }
        let content = size - head;
        if &kind == b"moov" && content <= MAX_INDEX {
            let mut index = vec![0; content as usize];
            file.read_exact(&mut index)?;
            structure.projection = mp4::projection(&index);
        } else {
            file.seek_relative(content as i64)?;
        }
        has_index |= &kind == b"moov";
        at += size;
    }
    if !has_index {
        let place = format!("byte {length}, before its index (moov)");
        structure.cut = Some(Cut { place, is_readable: false });
    }
    Ok(structure)
}

/// The type of the next box, its length, and that of its head; `None` if `left` bytes have no such.
fn box_head(file: &mut BufReader<File>, left: u64) -> io::Result<Option<([u8; 4], u64, u64)>> {
    if left < 8 {
        return Ok(None);
    }
    let mut head = [0; 8];
    file.read_exact(&mut head)?;
    let [a, b, c, d, kind @ ..] = head;
    let (size, head) = match u32::from_be_bytes([a, b, c, d]) {
        0 => (left, 8),
        1 if left >= 16 => {
            let mut long = [0; 8];
            file.read_exact(&mut long)?;
            (u64::from_be_bytes(long), 16)
        }
        size => (size.into(), 8),
    };
    Ok((size >= head).then_some((kind, size, head)))
}

/// Goes over the pictures of a Y4M file.
fn y4m(file: &mut BufReader<File>, length: u64) -> io::Result<Option<Cut>> {
    let Some(head) = line(file)? else { return Ok(None) };
    let Some(picture) = picture_bytes(&head) else { return Ok(None) };
    let mut at = head.len() as u64 + 1;
    // As nearly always, the pictures have no heads of their own to speak of.
    if (length - at).is_multiple_of(picture + "FRAME\n".len() as u64) {
        return Ok(None);
    }
    let mut pictures = 0_u64;
    while at < length {
        let head = line(file)?.filter(|head| head.starts_with("FRAME"));
        at = match &head {
            Some(head) => at + head.len() as u64 + 1 + picture,
            // What that is, ffmpeg says.
            None if length - at > MAX_LINE => return Ok(None),
            None => u64::MAX,
        };
        if at > length {
            let place = format!("byte {length}, within picture {} of it", pictures + 1);
            return Ok(Some(Cut::at(place)));
        }
        pictures += 1;
        file.seek_relative(picture as i64)?;
    }
    Ok(None)
}

/// A line without its end; `None` if there is none that short.
fn line(file: &mut BufReader<File>) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes)?;
    Ok(bytes.pop_if(|last| *last == b'\n').and_then(|_| String::from_utf8(bytes).ok()))
}

/// How many bytes a picture has, by the head of a Y4M file, if that is known.
fn picture_bytes(head: &str) -> Option<u64> {
    let field = |name: char| head.split(' ').skip(1).find_map(|field| field.strip_prefix(name));
    let side =
        |name: char| field(name)?.parse::<u64>().ok().filter(|side| (1..1 << 16).contains(side));
    let (width, height) = (side('W')?, side('H')?);
    let (luma, half) = (width * height, width.div_ceil(2));
    let space = field('C').unwrap_or("420");
    let (space, bytes) = match space.split_once('p') {
        Some((space, "9" | "10" | "12" | "14" | "16")) => (space, 2),
        _ => (space, 1),
    };
    let samples = match space {
        "mono" => luma,
        "422" => luma + 2 * half * height,
        "444" => 3 * luma,
        "420" | "420jpeg" | "420mpeg2" | "420paldv" => luma + 2 * half * height.div_ceil(2),
        _ => return None,
    };
    Some(samples * bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn structure(bytes: &[u8]) -> Structure {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        look(file).unwrap()
    }

    fn cut(bytes: &[u8]) -> String {
        structure(bytes).cut.map(|cut| cut.place).unwrap_or_default()
    }

    fn box4(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32 + 8).to_be_bytes()[..], kind, content].concat()
    }

    #[test]
    fn an_mp4_file_that_ends_early_says_where() {
        let ftyp = box4(b"ftyp", b"isom");
        let (moov, mdat) = (box4(b"moov", &[0; 20]), box4(b"mdat", &[7; 100]));
        let late = [&ftyp[..], &mdat, &moov].concat();
        assert_eq!(structure(&late), Structure::default());
        let said = cut(&late[..60]);
        assert!(said.contains("byte 60, within its box mdat, which begins at byte 12"), "{said}");
        assert!(said.contains("108 bytes, and before its index"), "{said}");
        let said = cut(&late[..120]);
        assert_eq!(said, "byte 120, before its index (moov)");
        let early = [&ftyp[..], &moov, &mdat].concat();
        assert!(!cut(&early[..60]).contains("index"));
        // What cameras write behind it is theirs; long lengths, and one that is left open.
        for tail in [&b"\xff\xff\xff\xff\x01\x02\x03\x04"[..], b"\0\0\0\x05free", b"abc"] {
            assert_eq!(cut(&[&early[..], tail].concat()), "", "{tail:?}");
        }
        let long = [&early[..], b"\0\0\0\x01mdat\0\0\0\0\0\0\0\x11", b"x"].concat();
        assert_eq!(cut(&long), "");
        assert!(cut(&long[..long.len() - 1]).contains("17 bytes"));
        assert_eq!(cut(&[&early[..], b"\0\0\0\0mdatxyz"].concat()), "");
    }

    #[test]
    fn a_transport_stream_that_ends_early_says_where() {
        let mut packets = vec![0; 5 * 188];
        packets.iter_mut().step_by(188).for_each(|byte| *byte = SYNC);
        assert_eq!(structure(&packets), Structure::default());
        assert_eq!(cut(&packets[..700]), "byte 700, within a packet of 188 bytes");
        let mut packets = vec![0; 5 * 192];
        packets.iter_mut().skip(4).step_by(192).for_each(|byte| *byte = SYNC);
        assert_eq!(cut(&packets), "");
        assert_eq!(cut(&packets[..700]), "byte 700, within a packet of 192 bytes");
    }

    #[test]
    fn a_y4m_file_that_ends_early_says_where() {
        let picture = [&b"FRAME\n"[..], &[b'F'; 24]].concat();
        let head = &b"YUV4MPEG2 W4 H4 F8:1\n"[..];
        let whole = [head, &picture, &picture].concat();
        assert_eq!(structure(&whole), Structure::default());
        for less in [1, 20, 26] {
            let said = cut(&whole[..whole.len() - less]);
            assert!(said.ends_with("within picture 2 of it"), "{less}: {said}");
        }
        let other = [head, b"FRAME Ip\n", &[0; 24], &picture].concat();
        assert_eq!(cut(&other), "");
        assert!(cut(&other[..other.len() - 1]).ends_with("picture 2 of it"));
        for (head, bytes) in [
            ("YUV4MPEG2 W5 H3 F8:1 Cmono", Some(15)),
            ("YUV4MPEG2 W5 H3 F8:1 C420jpeg", Some(15 + 2 * 3 * 2)),
            ("YUV4MPEG2 W5 H3 F8:1 C422p10", Some(2 * (15 + 2 * 3 * 3))),
            ("YUV4MPEG2 W5 H3 F8:1 C444alpha", None),
            ("YUV4MPEG2 W99999 H3", None),
        ] {
            assert_eq!(picture_bytes(head), bytes, "{head}");
        }
    }

    #[test]
    fn the_projection_of_a_mesh_is_known() {
        let sv3d = |kind: &[u8; 4]| {
            let proj = [box4(b"prhd", &[0; 16]), box4(kind, &[0; 8])].concat();
            box4(b"sv3d", &[box4(b"svhd", b"\0\0\0\0x\0"), box4(b"proj", &proj)].concat())
        };
        let file = |kind: &[u8; 4]| {
            let entry = box4(b"avc1", &[vec![0; 78], sv3d(kind)].concat());
            let mut inner = box4(b"stsd", &[vec![0; 8], entry].concat());
            for around in [b"stbl", b"minf", b"mdia", b"trak", b"moov"] {
                inner = box4(around, &inner);
            }
            [box4(b"ftyp", b"isom"), inner].concat()
        };
        assert_eq!(structure(&file(b"mshp")).projection, Some(Projection(*b"mshp")));
        assert_eq!(structure(&file(b"equi")).projection, Some(Projection(*b"equi")));
        assert_eq!(structure(&file(b"mshp")[..100]).projection, None);
    }
}
