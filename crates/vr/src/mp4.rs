//! The boxes of fragmented MP4 (ISO/IEC 14496-12) as far as segments of DASH need them: one file of
//! ffmpeg's becomes an initialisation segment and a media segment with its place in time.

use std::time::Duration;

/// A box: its type and the range of its content within the bytes looked at.
struct Box4 {
    kind: [u8; 4],
    /// Where the box begins, with its header.
    start: usize,
    /// Where the content begins.
    body: usize,
    end: usize,
}

/// The two parts of a fragmented file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    /// `ftyp` and `moov`: what a decoder is set up from.
    pub(crate) init: Vec<u8>,
    /// `moof` and `mdat`.
    pub(crate) media: Vec<u8>,
}

/// Takes apart a file with one fragment.
///
/// # Errors
/// Why it is no such file.
pub(crate) fn split(file: &[u8]) -> Result<Segments, String> {
    let mut segments = Segments { init: Vec::new(), media: Vec::new() };
    let mut seen = Vec::new();
    for found in boxes(file, 0, file.len())? {
        let bytes = &file[found.start..found.end];
        match &found.kind {
            b"ftyp" | b"moov" => segments.init.extend_from_slice(bytes),
            b"moof" | b"mdat" => segments.media.extend_from_slice(bytes),
            _ => continue,
        }
        seen.push(found.kind);
    }
    if seen != [*b"ftyp", *b"moov", *b"moof", *b"mdat"] {
        let kinds: Vec<_> = seen.iter().map(|kind| String::from_utf8_lossy(kind)).collect();
        return Err(format!("it is no MP4 file with one fragment but has {kinds:?}; was it cut?"));
    }
    Ok(segments)
}

/// Gives a media segment its number, and its time in the track's units.
///
/// # Errors
/// If the boxes for them are not there.
pub(crate) fn place(media: &mut [u8], number: u32, time: u64) -> Result<(), String> {
    let header = find(media, &[b"moof", b"mfhd"])?;
    write(media, header.body + 4, &number.to_be_bytes())?;
    let decode_time = find(media, &[b"moof", b"traf", b"tfdt"])?;
    match media.get(decode_time.body) {
        Some(1) => write(media, decode_time.body + 4, &time.to_be_bytes()),
        _ => {
            let time = u32::try_from(time).map_err(|_| "the segment's time needs 64 bits")?;
            write(media, decode_time.body + 4, &time.to_be_bytes())
        }
    }
}

/// What a segment is when it is played again: see [`replay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The GoP as which it is played, from 0.
    pub gop: u32,
    /// How long a GoP is.
    pub length: Duration,
    /// The pictures of a GoP; `None` for sound, whose frames are no part of one.
    pub pictures: Option<u32>,
}

/// The units of time in a second of an initialisation segment's track.
///
/// # Errors
/// If it does not say them.
pub fn timescale(init: &[u8]) -> Result<u32, String> {
    let header = find(init, &[b"moov", b"trak", b"mdia", b"mdhd"])?;
    // Version and flags, and when it was made and changed, of 4 bytes each or of 8.
    let at = header.body + if init.get(header.body) == Some(&1) { 20 } else { 12 };
    let bytes = init.get(at..at + 4).ok_or("its track's unit of time is cut short")?;
    match u32::from_be_bytes(bytes.try_into().expect("it has four bytes")) {
        0 => Err("its track has no unit of time".to_owned()),
        scale => Ok(scale),
    }
}

/// Gives a packaged segment that is played again, after the package's last one, its number and its time
/// in the stream, so that what is played decodes as one. `scale` is its track's [`timescale`].
///
/// # Errors
/// If it is no segment of a package.
pub fn replay(media: &mut [u8], scale: u32, to: Replayed) -> Result<(), String> {
    let header = find(media, &[b"moof", b"mfhd"])?;
    let number = media.get(header.body + 4..header.body + 8).ok_or("its number is cut short")?;
    let number = u32::from_be_bytes(number.try_into().expect("it has four bytes"));
    let packaged = number.checked_sub(1).ok_or("it has no number")?;
    let Some(after) = to.gop.checked_sub(packaged).filter(|after| *after > 0) else {
        return Ok(());
    };
    let nanos = to.length.as_nanos() * u128::from(scale);
    let units = match to.pictures.map(u128::from) {
        // All pictures last as long, in whole units.
        Some(pictures) if pictures > 0 => {
            let picture = 1_000_000_000 * pictures;
            (nanos + picture / 2) / picture * pictures * u128::from(after)
        }
        _ => (nanos * u128::from(after) + 500_000_000) / 1_000_000_000,
    };
    let time = u128::from(time(media)?) + units;
    let time = u64::try_from(time).map_err(|_| "its time does not fit 64 bits")?;
    place(media, to.gop.saturating_add(1), time)
}

/// How many pictures a media segment holds.
///
/// # Errors
/// If it has no run of samples.
pub(crate) fn pictures(media: &[u8]) -> Result<u32, String> {
    let run = find(media, &[b"moof", b"traf", b"trun"])?;
    let count = media.get(run.body + 4..run.body + 8).ok_or("its run of samples is cut short")?;
    Ok(u32::from_be_bytes(count.try_into().expect("it has four bytes")))
}

/// A media segment of samples that all last as long: its number, the time of its first sample and the
/// length of each in the track's units.
pub(crate) fn fragment(number: u32, time: u64, lasts: u32, samples: &[Vec<u8>]) -> Vec<u8> {
    // Version and flags come first in each box: the data's place and the samples' sizes are given; places
    // count from the beginning of the fragment, and the samples' length is one for all of them.
    let (with_sizes, from_fragment) = (0x0000_0201_u32, 0x0002_0008_u32);
    let boxed = |kind: &[u8; 4], parts: &[&[u8]]| {
        let content = parts.concat();
        let length = (content.len() as u32 + 8).to_be_bytes();
        [&length[..], kind, &content].concat()
    };
    let header = boxed(b"mfhd", &[&[0; 4], &number.to_be_bytes()]);
    let track = 1_u32.to_be_bytes();
    let tfhd = boxed(b"tfhd", &[&from_fragment.to_be_bytes(), &track, &lasts.to_be_bytes()]);
    let tfdt = boxed(b"tfdt", &[&[1, 0, 0, 0], &time.to_be_bytes()]);
    let count = (samples.len() as u32).to_be_bytes();
    let sizes: Vec<u8> =
        samples.iter().flat_map(|sample| (sample.len() as u32).to_be_bytes()).collect();
    let moof = |data: u32| {
        let run = [&with_sizes.to_be_bytes()[..], &count, &data.to_be_bytes(), &sizes];
        let traf = boxed(b"traf", &[&tfhd, &tfdt, &boxed(b"trun", &run)]);
        boxed(b"moof", &[&header, &traf])
    };
    let data = moof(0).len() as u32 + 8;
    let data = [moof(data), boxed(b"mdat", &[&samples.concat()])];
    data.concat()
}

/// The time of the first sample of a media segment, in the track's units.
///
/// # Errors
/// If it says none.
pub(crate) fn time(media: &[u8]) -> Result<u64, String> {
    let found = find(media, &[b"moof", b"traf", b"tfdt"])?;
    let long = media.get(found.body) == Some(&1);
    let length = if long { 8 } else { 4 };
    let at = found.body + 4;
    let bytes = media.get(at..at + length).ok_or("its time is cut short")?;
    Ok(bytes.iter().fold(0, |time, byte| time << 8 | u64::from(*byte)))
}

/// The type of the box in which a track of Spherical Video V2 says its projection: `equi`, `cbmp`, `mshp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Projection(pub(crate) [u8; 4]);

/// The projection that the first track with one names, in the content of a box `moov`.
pub(crate) fn projection(index: &[u8]) -> Option<Projection> {
    let tracks = each(index, 0, index.len()).filter(|found| found.kind == *b"trak");
    tracks.filter_map(|track| track_projection(index, &track)).next()
}

fn track_projection(index: &[u8], track: &Box4) -> Option<Projection> {
    let child = |parent: (usize, usize), kind: &[u8; 4]| {
        let found = each(index, parent.0, parent.1).find(|found| found.kind == *kind)?;
        Some((found.body, found.end))
    };
    let around = [b"mdia", b"minf", b"stbl", b"stsd"];
    let table = around.into_iter().try_fold((track.body, track.end), child)?;
    let of_entry = |entry: Box4| {
        // As in `codec`.
        let inner = (entry.body.checked_add(78)?, entry.end);
        let said = child(child(inner, b"sv3d")?, b"proj")?;
        each(index, said.0, said.1).find(|found| found.kind != *b"prhd")
    };
    each(index, table.0.checked_add(8)?, table.1)
        .find_map(of_entry)
        .map(|found| Projection(found.kind))
}

/// The boxes from `start` to `end` one by one, up to the first that is none.
fn each(bytes: &[u8], start: usize, end: usize) -> impl Iterator<Item = Box4> + '_ {
    let mut at = start;
    std::iter::from_fn(move || {
        let next = (at < end).then(|| read_box(bytes, at, end)).flatten()?;
        at = next.end;
        Some(next)
    })
}

/// The codec of an initialisation segment as RFC 6381 names it, `avc1.` with profile and level.
///
/// # Errors
/// If it is no H.264.
pub(crate) fn codec(init: &[u8]) -> Result<String, String> {
    let table = find(init, &[b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"])?;
    // After 8 bytes come the entries; a visual one has 78 bytes before its own boxes.
    let entry = boxes(init, table.body + 8, table.end)?
        .into_iter()
        .find(|entry| entry.kind == *b"avc1")
        .ok_or("it has no H.264 track")?;
    let config = boxes(init, entry.body + 78, entry.end)?
        .into_iter()
        .find(|found| found.kind == *b"avcC")
        .ok_or("its track has no configuration")?;
    let bytes = init.get(config.body + 1..config.body + 4).ok_or("its configuration is cut")?;
    Ok(format!("avc1.{:02X}{:02X}{:02X}", bytes[0], bytes[1], bytes[2]))
}

fn write(bytes: &mut [u8], at: usize, new: &[u8]) -> Result<(), String> {
    let place = bytes.get_mut(at..at + new.len()).ok_or("a box is cut short")?;
    place.copy_from_slice(new);
    Ok(())
}

/// The box at the end of `path`, the first of each kind.
fn find(bytes: &[u8], path: &[&[u8; 4]]) -> Result<Box4, String> {
    let (mut start, mut end) = (0, bytes.len());
    let mut last = None;
    for &kind in path {
        let found = boxes(bytes, start, end)?
            .into_iter()
            .find(|found| found.kind == *kind)
            .ok_or_else(|| format!("it has no box {}", String::from_utf8_lossy(kind)))?;
        (start, end) = (found.body, found.end);
        last = Some(found);
    }
    last.ok_or_else(|| "no box was asked for".to_owned())
}

/// The boxes from `start` to `end`.
fn boxes(bytes: &[u8], start: usize, end: usize) -> Result<Vec<Box4>, String> {
    let mut found = Vec::new();
    let mut at = start;
    while at < end {
        let next =
            read_box(bytes, at, end).ok_or_else(|| format!("it is cut short at byte {at}"))?;
        at = next.end;
        found.push(next);
    }
    Ok(found)
}

fn read_box(bytes: &[u8], start: usize, end: usize) -> Option<Box4> {
    let bytes = bytes.get(..end)?;
    let header: [u8; 8] = bytes.get(start..start.checked_add(8)?)?.try_into().ok()?;
    let kind = [header[4], header[5], header[6], header[7]];
    let short = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    let (length, head) = match short {
        // Up to the end.
        0 => (end - start, 8),
        1 => {
            let long: [u8; 8] = bytes.get(start + 8..start + 16)?.try_into().ok()?;
            (usize::try_from(u64::from_be_bytes(long)).ok()?, 16)
        }
        length => (length as usize, 8),
    };
    let stop = start.checked_add(length)?;
    (length >= head && stop <= end).then_some(Box4 { kind, start, body: start + head, end: stop })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn box4(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let mut bytes = ((content.len() + 8) as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(kind);
        bytes.extend_from_slice(content);
        bytes
    }

    /// A second of 25 pictures, twice: in units of 1/12,800 s, and with 48,000 samples.
    #[test]
    fn a_segment_that_is_played_again_has_its_time_in_the_stream() {
        let (length, third) = (Duration::from_nanos(1_001_000_000), 2 * 48_048);
        let samples = vec![vec![0; 9]; 3];
        let mut media = super::fragment(3, third, 1024, &samples);
        let as_packaged = media.clone();
        let mut to = Replayed { gop: 2, length, pictures: None };
        replay(&mut media, 48_000, to).unwrap();
        assert!(media == as_packaged, "the first time it is as it was packaged");
        to.gop = 7;
        replay(&mut media, 48_000, to).unwrap();
        assert_eq!(time(&media), Ok(7 * 48_048));
        // 30 pictures of 1,001 units; the time of a GoP is rounded down to nanoseconds.
        let mut media = super::fragment(1, 0, 1_001, &samples);
        let length = Duration::from_nanos(30 * 1_001 * 1_000_000_000 / 30_000 - 1);
        let to = Replayed { gop: 80_000, length, pictures: Some(30) };
        replay(&mut media, 30_000, to).unwrap();
        assert_eq!(time(&media), Ok(80_000 * 30 * 1_001));
        assert!(replay(&mut [0; 8], 1, to).is_err());
        let mdhd = box4(b"mdhd", &[&[0; 12][..], &90_000_u32.to_be_bytes(), &[0; 8]].concat());
        let moov = box4(b"moov", &box4(b"trak", &box4(b"mdia", &mdhd)));
        assert_eq!(timescale(&moov), Ok(90_000));
        assert!(timescale(&moov[..40]).is_err());
    }

    fn fragment(version: u8) -> Vec<u8> {
        let tfdt = box4(b"tfdt", &[&[version, 0, 0, 0][..], &[0; 8]].concat());
        let trun = box4(b"trun", &[0, 0, 0, 0, 0, 0, 0, 30]);
        let traf = box4(b"traf", &[tfdt, trun].concat());
        let mfhd = box4(b"mfhd", &[0; 8]);
        box4(b"moof", &[mfhd, traf].concat())
    }

    fn file() -> Vec<u8> {
        let parts = [
            box4(b"ftyp", b"iso5"),
            box4(b"moov", &[]),
            box4(b"free", &[0; 5]),
            fragment(1),
            box4(b"mdat", &[1, 2, 3]),
        ];
        parts.concat()
    }

    #[test]
    fn a_file_falls_into_its_segments() {
        let segments = split(&file()).unwrap();
        assert_eq!(segments.init, [box4(b"ftyp", b"iso5"), box4(b"moov", &[])].concat());
        assert_eq!(segments.media, [fragment(1), box4(b"mdat", &[1, 2, 3])].concat());
        assert_eq!(pictures(&segments.media), Ok(30));
    }

    #[test]
    fn a_file_that_is_cut_is_refused() {
        let file = file();
        for length in 0..file.len() {
            assert!(split(&file[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn number_and_time_are_written_where_they_belong() {
        let mut media = fragment(1);
        place(&mut media, 7, 1 << 40).unwrap();
        let number = find(&media, &[b"moof", b"mfhd"]).unwrap();
        assert_eq!(media[number.body + 4..number.end], 7_u32.to_be_bytes());
        let time = find(&media, &[b"moof", b"traf", b"tfdt"]).unwrap();
        assert_eq!(media[time.body + 4..time.end], (1_u64 << 40).to_be_bytes());
        assert!(place(&mut fragment(0), 7, 1 << 40).is_err());
        assert!(place(&mut fragment(0), 7, 1 << 20).is_ok());
    }

    #[test]
    fn a_fragment_of_samples_says_where_and_when_they_are() {
        let samples = [vec![1, 2, 3], vec![4]];
        let media = super::fragment(4, 1 << 33, 1_024, &samples);
        let whole = split(&[box4(b"ftyp", b"iso5"), box4(b"moov", &[]), media.clone()].concat());
        assert_eq!(whole.unwrap().media, media);
        assert_eq!((pictures(&media), time(&media)), (Ok(2), Ok(1 << 33)));
        let run = find(&media, &[b"moof", b"traf", b"trun"]).unwrap();
        let word = |at: usize| u32::from_be_bytes(media[at..at + 4].try_into().unwrap());
        assert_eq!(media[word(run.body + 8) as usize..], [1, 2, 3, 4]);
        assert_eq!([word(run.body + 12), word(run.body + 16)], [3, 1]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes: Vec<u8>) {
            let _ = split(&bytes);
            let _ = codec(&bytes);
            let _ = pictures(&bytes);
            let _ = place(&mut bytes.clone(), 1, 2);
        }

        #[test]
        fn a_file_with_wrong_bytes_is_taken_or_refused(at in 0..200_usize, byte: u8) {
            let mut file = file();
            let at = at % file.len();
            file[at] = byte;
            if let Ok(mut segments) = split(&file) {
                let _ = pictures(&segments.media);
                let _ = place(&mut segments.media, 1, 2);
            }
        }
    }
}
