//! What a source says of its colours, by the codes of ISO/IEC 23091-2, which H.264 and DASH share.

use serde::{Deserialize, Serialize};

/// Not said.
const UNKNOWN: u8 = 2;
/// The matrix of ITU-R BT.709.
const BT709: u8 = 1;

/// What pixels mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Colour {
    /// The primaries (`ColourPrimaries`); 2: not said.
    pub primaries: u8,
    /// The transfer function (`TransferCharacteristics`); 2: not said.
    pub transfer: u8,
    /// The matrix (`MatrixCoefficients`); 2: not said.
    pub matrix: u8,
    /// Whether luma goes from 0 to 255, and not from 16 to 235.
    pub full_range: bool,
}

impl Colour {
    /// By ffmpeg's names for primaries, transfer, matrix and range, and that of the pixels' format;
    /// `None` if nothing is said that is not taken for granted.
    pub(crate) fn of(names: [Option<&str>; 3], range: Option<&str>, pixels: &str) -> Option<Self> {
        let code = |name: Option<&str>, known: &[(&str, u8)]| {
            let found = known.iter().find(|(other, _)| Some(*other) == name);
            found.map_or(UNKNOWN, |(_, code)| *code)
        };
        let [primaries, transfer, matrix] = names;
        // Pixels in RGB have no matrix: they get one by being turned into YUV. Formats called yuvj
        // have the full range, and are turned into others by it.
        let kind = Kind::of(pixels);
        let is_yuv = kind == Kind::Yuv;
        let colour = Self {
            primaries: code(primaries, &PRIMARIES),
            transfer: code(transfer, &TRANSFERS),
            matrix: match kind {
                Kind::Yuv => code(matrix, &MATRICES),
                Kind::Rgb => BT709,
                Kind::Grey => UNKNOWN,
            },
            full_range: is_yuv && range == Some("pc") && !pixels.starts_with("yuvj"),
        };
        let says = [colour.primaries, colour.transfer, colour.matrix] != [UNKNOWN; 3];
        (says || colour.full_range).then_some(colour)
    }

    /// What a source says, or if it says nothing of what its pixels mean, what video is by and large:
    /// BT.709. Browsers guess by the height of a picture otherwise.
    pub(crate) fn or_usual(said: Option<Self>) -> Self {
        let range = said.is_some_and(|said| said.full_range);
        let says = |said: &Self| [said.primaries, said.transfer, said.matrix] != [UNKNOWN; 3];
        let usual = Self { primaries: BT709, transfer: BT709, matrix: BT709, full_range: range };
        let said = said.filter(says).unwrap_or(usual);
        // RGB has got the matrix from us.
        let is_ours = [said.primaries, said.transfer, said.matrix] == [UNKNOWN, UNKNOWN, BT709];
        if is_ours { usual } else { said }
    }

    /// The options of ffmpeg's filter `scale` that make just this of pixels in that format.
    pub(crate) fn scale_options(said: Option<Self>, pixels: &str) -> &'static str {
        let is_full = said.is_some_and(|said| said.full_range);
        let is_bt709 = said.is_some_and(|said| said.matrix == BT709);
        match Kind::of(pixels) {
            // Packages of before were begun without a word about the matrix, with ffmpeg's own.
            Kind::Rgb if is_bt709 => ":out_range=tv:out_color_matrix=bt709",
            _ if is_full => ":out_range=pc",
            _ => ":out_range=tv",
        }
    }

    /// Whether ffmpeg, left to itself, makes something else of pixels in that format than is said.
    pub(crate) fn wants_scale(said: Option<Self>, pixels: &str) -> bool {
        // From version 7 on it leaves the full range of yuvj as it is.
        let is_as_said = Self::scale_options(said, pixels) == ":out_range=tv";
        pixels != "yuv420p" && (!is_as_said || pixels.starts_with("yuvj"))
    }

    /// The options that tell an encoder.
    pub(crate) fn encoder_args(self) -> [String; 8] {
        let range = if self.full_range { "pc" } else { "tv" };
        let option = |name: &str, code: u8| [format!("-{name}"), code.to_string()];
        let [[a, b], [c, d], [e, f]] = [
            option("color_primaries", self.primaries),
            option("color_trc", self.transfer),
            option("colorspace", self.matrix),
        ];
        [a, b, c, d, e, f, "-color_range".to_owned(), range.to_owned()]
    }

    /// The properties of a manifest: the names of their schemes after `urn:mpeg:mpegB:cicp:`, and values.
    pub(crate) fn properties(self) -> [(&'static str, u8); 4] {
        [
            ("ColourPrimaries", self.primaries),
            ("TransferCharacteristics", self.transfer),
            ("MatrixCoefficients", self.matrix),
            ("VideoFullRangeFlag", self.full_range.into()),
        ]
    }
}

/// What the components of pixels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Yuv,
    Grey,
    Rgb,
}

impl Kind {
    /// By the name that ffmpeg has for the format.
    fn of(pixels: &str) -> Self {
        let is = |names: &[&str]| names.iter().any(|name| pixels.starts_with(name));
        if pixels.is_empty() || is(&YUV) {
            return Self::Yuv;
        }
        if is(&["gray", "ya8", "ya16", "mono"]) { Self::Grey } else { Self::Rgb }
    }
}

/// How the names of formats in YUV begin.
const YUV: [&str; 17] = [
    "yuv", "yuyv", "yvyu", "uyvy", "uyyv", "nv", "p01", "p21", "p41", "y21", "y41", "ayuv", "vuy",
    "xv3", "xv4", "v30", "vyu",
];

/// ISO/IEC 23091-2, table 2, under ffmpeg's names.
const PRIMARIES: [(&str, u8); 11] = [
    ("bt709", 1),
    ("bt470m", 4),
    ("bt470bg", 5),
    ("smpte170m", 6),
    ("smpte240m", 7),
    ("film", 8),
    ("bt2020", 9),
    ("smpte428", 10),
    ("smpte431", 11),
    ("smpte432", 12),
    ("ebu3213", 22),
];
/// Table 3.
const TRANSFERS: [(&str, u8); 17] = [
    ("bt709", 1),
    ("bt470m", 4),
    ("bt470bg", 5),
    ("smpte170m", 6),
    ("smpte240m", 7),
    ("linear", 8),
    ("log100", 9),
    ("log316", 10),
    ("iec61966-2-4", 11),
    ("bt1361e", 12),
    ("iec61966-2-1", 13),
    ("bt2020-10", 14),
    ("bt2020-12", 15),
    ("smpte2084", 16),
    ("smpte428", 17),
    ("arib-std-b67", 18),
    ("gamma22", 4),
];
/// Table 4. The identity, of RGB, is left out: tiles have none.
const MATRICES: [(&str, u8); 9] = [
    ("bt709", 1),
    ("fcc", 4),
    ("bt470bg", 5),
    ("smpte170m", 6),
    ("smpte240m", 7),
    ("ycgco", 8),
    ("bt2020nc", 9),
    ("bt2020c", 10),
    ("ictcp", 14),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_codes_and_nothing_said_is_nothing() {
        let bt709 = [Some("bt709"); 3];
        let video = Colour::of(bt709, Some("tv"), "yuv420p").unwrap();
        assert_eq!(video, Colour { primaries: 1, transfer: 1, matrix: 1, full_range: false });
        let hdr = [Some("bt2020"), Some("smpte2084"), Some("bt2020nc")];
        let hdr = Colour::of(hdr, Some("tv"), "yuv420p10le").unwrap();
        assert_eq!((hdr.primaries, hdr.transfer, hdr.matrix), (9, 16, 9));
        // Only the range that everybody expects; a name that nobody knows.
        assert_eq!(Colour::of([None; 3], Some("tv"), "yuv420p"), None);
        assert_eq!(Colour::of([Some("unknown"), None, None], None, "yuv420p"), None);
        // RGB gets BT.709's matrix by being turned into YUV; the full range of yuvj is gone by
        // then.
        let [primaries, transfer, _] = bt709;
        let rgb = Colour::of([primaries, transfer, Some("gbr")], Some("pc"), "gbrp").unwrap();
        assert_eq!((rgb.matrix, rgb.full_range), (BT709, false));
        for name in ["rgb24", "bgra", "gbrp10le", "pal8", "0rgb", "x2rgb10le"] {
            let bare = Colour::of([None; 3], Some("pc"), name).unwrap();
            assert_eq!((bare.primaries, bare.matrix, bare.full_range), (UNKNOWN, BT709, false));
        }
        for name in ["p010le", "nv12", "yuyv422", "y210le", "vuya", "yuva420p"] {
            assert_eq!(Colour::of([None; 3], Some("tv"), name), None, "{name}");
        }
        assert_eq!(Colour::of([None; 3], Some("pc"), "gray"), None);
        assert_eq!(Colour::of([None; 3], Some("pc"), "yuvj420p"), None);
        let full = Colour::of([None; 3], Some("pc"), "yuv420p");
        assert!(full.unwrap().full_range);
        // Where nothing is said, something has to be; what is said stays.
        assert_eq!(Colour::or_usual(None), video);
        assert_eq!(Colour::or_usual(full), Colour { full_range: true, ..video });
        assert_eq!(Colour::or_usual(Some(hdr)), hdr);
        assert_eq!(Colour::or_usual(Some(rgb)), rgb);
        assert_eq!(
            video.encoder_args().join(" "),
            "-color_primaries 1 -color_trc 1 -colorspace 1 -color_range tv"
        );
    }
}
