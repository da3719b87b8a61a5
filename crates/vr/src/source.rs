//! What is known of a source before it is packaged: its size, rate and pictures.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::colour::Colour;
use crate::container::{self, Cut, Structure};
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::fingerprint::Fingerprint;
use crate::rate::FrameRate;

/// A file may say so much more than its last picture and sound have: containers round, and sound ends
/// with whole frames of its codec.
const SLACK_S: f64 = 0.1;
/// Pictures at the end of a file of which some may be missing where it was cut: twice the longest row of
/// pictures between two that do not depend on later ones (H.264).
const MAX_REORDERED: usize = 32;
/// What is said to have more pictures a second has no constant rate: it is the unit of its times.
const USUAL_FPS: u64 = 120;
/// The most pictures of a source: a day at 120 per second.
const MAX_PICTURES: usize = 120 * 86_400;

/// A file of video whose pictures come at a constant rate.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, absolute.
    pub(crate) path: PathBuf,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rate: FrameRate,
    pub(crate) frames: u64,
    /// When the first picture is shown, in seconds after what ffmpeg takes for the beginning.
    first_s: f64,
    /// The same by the source's own times.
    first_at_s: f64,
    /// Its container, as ffmpeg calls it.
    container: String,
    /// The format of its pixels, as ffmpeg calls it.
    pub(crate) pixels: String,
    /// What it says of its colours.
    pub(crate) colour: Option<Colour>,
    /// Its tracks of sound.
    pub(crate) sound: Vec<Track>,
}

/// A track of sound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Track {
    #[serde(default, rename = "codec_name")]
    pub(crate) codec: String,
    #[serde(default)]
    pub(crate) channels: u8,
}

#[derive(Deserialize)]
struct Probed {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    packets: Vec<Packet>,
    #[serde(default)]
    format: Format,
}

#[derive(Default, Deserialize)]
struct Format {
    format_name: Option<String>,
    start_time: Option<String>,
    duration: Option<String>,
}

#[derive(Deserialize)]
struct Stream {
    #[serde(default)]
    index: u32,
    #[serde(default)]
    codec_type: String,
    #[serde(flatten)]
    track: Track,
    width: Option<u32>,
    height: Option<u32>,
    r_frame_rate: Option<String>,
    avg_frame_rate: Option<String>,
    time_base: Option<String>,
    start_time: Option<String>,
    duration: Option<String>,
    pix_fmt: Option<String>,
    /// Pictures that are decoded before one that is shown earlier, at most.
    #[serde(default)]
    has_b_frames: u8,
    color_primaries: Option<String>,
    color_transfer: Option<String>,
    color_space: Option<String>,
    color_range: Option<String>,
    #[serde(default)]
    side_data_list: Vec<SideData>,
}

/// What is said of a stream beside its pictures.
#[derive(Default, Deserialize)]
struct SideData {
    #[serde(default)]
    side_data_type: String,
    projection: Option<String>,
    yaw: Option<f64>,
    pitch: Option<f64>,
    roll: Option<f64>,
    /// Rows of numbers, each after its own number.
    displaymatrix: Option<String>,
    /// How pictures for two eyes are put into one.
    #[serde(rename = "type")]
    eyes: Option<String>,
}

#[derive(Deserialize)]
struct Packet {
    #[serde(default)]
    stream_index: u32,
    pts: Option<i64>,
    pts_time: Option<String>,
    duration_time: Option<String>,
    #[serde(default)]
    flags: String,
}

impl Probed {
    /// The streams of this kind.
    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Stream> {
        self.streams.iter().filter(move |stream| stream.codec_type == kind)
    }

    /// When the last of what is in any track is over, in seconds. What is not said to last begins
    /// then.
    fn over_s(&self) -> f64 {
        let is_known =
            |packet: &&Packet| self.streams.iter().any(|one| one.index == packet.stream_index);
        let number = |text: &Option<String>| text.as_ref()?.parse::<f64>().ok();
        let over = |packet: &Packet| {
            Some(number(&packet.pts_time)? + number(&packet.duration_time).unwrap_or(0.0))
        };
        self.packets.iter().filter(is_known).filter_map(over).fold(0.0, f64::max)
    }
}

impl Source {
    /// Looks at `file`: reads all of it once, without decoding.
    ///
    /// # Errors
    /// [`VrError::Source`] if it is no video or its pictures do not come at a constant rate.
    pub fn probe(ffmpeg: &Ffmpeg, file: &Path) -> Result<Self, VrError> {
        // What the system says of a missing file is clearer than what ffprobe does.
        let opened = File::open(file).map_err(VrError::io("read", file))?;
        if opened.metadata().is_ok_and(|about| about.is_file()) {
            let structure = container::look(opened).map_err(VrError::io("read", file))?;
            check_structure(&structure).map_err(|why| VrError::source(file, why))?;
        }
        let path = std::path::absolute(file).map_err(VrError::io("find", file))?;
        let entries = "format=format_name,start_time,duration:stream=index,codec_type,codec_name,channels,width,\
                       height,r_frame_rate,avg_frame_rate,time_base,duration,pix_fmt,has_b_frames,\
                       color_primaries,color_transfer,color_space,color_range:stream_side_data=\
                       side_data_type,projection,yaw,pitch,roll,displaymatrix,type:\
                       packet=stream_index,pts,pts_time,duration_time,flags";
        let said = ffmpeg.probe(&path, entries).map_err(|error| match error {
            VrError::Ffmpeg { reason, .. } => {
                VrError::source(file, format!("ffmpeg cannot read it: {reason}"))
            }
            other => other,
        })?;
        let unread = |error| VrError::source(file, format!("ffprobe's answer: {error}"));
        let probed: Probed = serde_json::from_str(&said).map_err(unread)?;
        let source = Self::from_probed(&probed).map_err(|why| VrError::source(file, why))?;
        if let Some([lasts, ends]) = source.missing_s(&probed) {
            return Err(VrError::source(
                file,
                format!(
                    "is to last {lasts:.2} s and ends after {ends:.2} s: it was cut; get the whole \
                     file, or take what is there: ffmpeg -i SOURCE -c copy NEW.mkv"
                ),
            ));
        }
        Ok(Self { path, ..source })
    }

    /// What ffprobe says of the streams of a live source, of which nothing is known but its beginning:
    /// it has no number of pictures, and its rate is what it is said to be, or `rate`.
    ///
    /// # Errors
    /// [`VrError::Source`] if there is no video in it, or none that is equirectangular as it says.
    pub(crate) fn of_live(
        path: &Path,
        said: &str,
        rate: Option<FrameRate>,
    ) -> Result<Self, VrError> {
        #[derive(Deserialize)]
        struct Streams {
            #[serde(default)]
            streams: Vec<serde_json::Value>,
            #[serde(default)]
            format: Format,
        }
        let wrong = |why: String| VrError::source(path, why);
        let unread = |error| wrong(format!("ffprobe's answer: {error}"));
        let all: Streams = serde_json::from_str(said).map_err(unread)?;
        let of = |kind: &str| {
            let is_it = move |stream: &serde_json::Value| stream["codec_type"] == kind;
            all.streams.iter().filter(move |stream| is_it(stream)).cloned().collect::<Vec<_>>()
        };
        let stream = of("video").into_iter().next();
        let stream = stream.ok_or_else(|| wrong("there is no video in it".to_owned()))?;
        let stream: Stream = serde_json::from_value(stream).map_err(unread)?;
        let (Some(width), Some(height)) = (stream.width, stream.height) else {
            return Err(wrong("its pictures have no size".to_owned()));
        };
        stream.side_data_list.iter().try_for_each(SideData::check).map_err(wrong)?;
        let rate = rate.or_else(|| stream.said_rate()).ok_or_else(|| {
            wrong("does not say how many pictures it has a second; give --fps".to_owned())
        })?;
        let sound = of("audio").into_iter().map(serde_json::from_value);
        let seconds = |text: &Option<String>| {
            text.as_ref().and_then(|text| text.parse().ok()).unwrap_or(0.0_f64)
        };
        Ok(Self {
            path: path.to_owned(),
            width,
            height,
            rate,
            frames: 0,
            first_s: seconds(&stream.start_time) - seconds(&all.format.start_time),
            first_at_s: seconds(&stream.start_time),
            container: all.format.format_name.unwrap_or_default(),
            colour: stream.colour(),
            pixels: stream.pix_fmt.clone().unwrap_or_default(),
            sound: sound.collect::<Result<_, _>>().map_err(unread)?,
        })
    }

    /// How long the file is to last and after what time all that is in it ends, if that is sooner,
    /// and its pictures do not last as long as they are to.
    fn missing_s(&self, probed: &Probed) -> Option<[f64; 2]> {
        let number = |text: &Option<String>| text.as_ref()?.parse::<f64>().ok();
        let start = number(&probed.format.start_time).unwrap_or(0.0);
        let lasts = number(&probed.format.duration).filter(|lasts| lasts.is_finite())?;
        let shown = self.rate.seconds(self.frames);
        let ends = (self.first_s + shown).max(probed.over_s() - start);
        let is_short = |of: f64, wanted: f64| of + self.rate.seconds(2) + SLACK_S < wanted;
        let own = probed.of("video").next().and_then(|stream| number(&stream.duration));
        let is_whole = own.is_some_and(|own| !is_short(shown, own));
        (is_short(ends, lasts) && !is_whole).then_some([lasts, ends])
    }

    /// Whether its pixels have more than the 8 bits of a tile's.
    pub(crate) fn is_deep(&self) -> bool {
        // ffmpeg names the order of bytes where a component takes two, and in pixels of 15 or 16 bits.
        let of_two = self.pixels.ends_with("le") || self.pixels.ends_with("be");
        let small =
            ["rgb4", "bgr4", "rgb5", "bgr5"].iter().any(|name| self.pixels.starts_with(name));
        of_two && (!small || self.pixels.contains("48"))
    }

    fn from_probed(probed: &Probed) -> Result<Self, String> {
        let stream = probed.of("video").next().ok_or("there is no video in it")?;
        let (Some(width), Some(height)) = (stream.width, stream.height) else {
            return Err("its pictures have no size".to_owned());
        };
        stream.side_data_list.iter().try_for_each(SideData::check)?;
        let mut times: Vec<i64> = Vec::with_capacity(probed.packets.len());
        let packets = || probed.packets.iter().filter(|one| one.stream_index == stream.index);
        if packets().next().is_some_and(|first| !first.flags.contains('K')) {
            return Err(NO_KEY_FRAME.to_owned());
        }
        for packet in packets().filter(|packet| !packet.flags.contains('D')) {
            times.push(packet.pts.ok_or(
                "its pictures have no times; put it into another container: ffmpeg -fflags +genpts -i \
                 SOURCE -c copy NEW.mkv",
            )?);
        }
        times.sort_unstable();
        let &first = times.first().ok_or("there is no picture in it")?;
        if times.len() > MAX_PICTURES {
            return Err(format!("it has more than {MAX_PICTURES} pictures; cut it"));
        }
        let tick_s =
            tick(stream.time_base.as_deref()).ok_or("its pictures have no unit of time")?;
        let rate = constant_rate(stream, &times, tick_s)?;
        let start = probed.format.start_time.as_deref().and_then(|text| text.parse::<f64>().ok());
        Ok(Self {
            path: PathBuf::new(),
            width,
            height,
            rate,
            frames: times.len() as u64,
            first_s: first as f64 * tick_s - start.unwrap_or(0.0),
            first_at_s: first as f64 * tick_s,
            container: probed.format.format_name.clone().unwrap_or_default(),
            colour: stream.colour(),
            pixels: stream.pix_fmt.clone().unwrap_or_default(),
            sound: probed.of("audio").map(|stream| stream.track.clone()).collect(),
        })
    }

    /// Pictures per second.
    pub fn rate(&self) -> FrameRate {
        self.rate
    }

    /// How many pictures there are.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// When the first picture is shown, in seconds after what ffmpeg takes for the beginning.
    pub(crate) fn first_s(&self) -> f64 {
        self.first_s.max(0.0)
    }

    /// Whether its container is searched by an index of its key frames. Elsewhere ffmpeg finds some
    /// place near a time, and what decodes from there may begin later.
    pub(crate) fn has_index(&self) -> bool {
        !self.container.split(',').any(|name| matches!(name, "mpeg" | "mpegts"))
    }

    /// Its container, as ffmpeg calls it.
    pub(crate) fn container(&self) -> &str {
        &self.container
    }

    /// A quarter of a picture before picture number `frame`, by the source's own times. Rounded to a time
    /// base that has no more than the pictures' own times it is that of the picture.
    pub(crate) fn before_s(&self, frame: u64) -> f64 {
        self.first_at_s + self.rate.seconds(frame) - 0.25 * self.rate.seconds(1)
    }

    /// Where to seek so that picture number `frame` is the first that is decoded: half a picture
    /// before it, which no rounding of times moves past another one.
    pub(crate) fn seek_s(&self, frame: u64) -> f64 {
        let half = 0.5 * self.rate.seconds(1);
        (self.first_s + self.rate.seconds(frame) - half).max(0.0)
    }

    /// What tells it from other files without reading all of it.
    pub(crate) fn fingerprint(&self) -> Result<Fingerprint, VrError> {
        Fingerprint::of(&self.path)
    }
}

impl Stream {
    /// The rate that it says: that of its times, or where these have no common one the mean.
    fn said_rate(&self) -> Option<FrameRate> {
        let rate = |text: &Option<String>| text.as_ref()?.parse::<FrameRate>().ok();
        rate(&self.r_frame_rate)
            .filter(|rate| rate.seconds(USUAL_FPS) >= 1.0)
            .or_else(|| rate(&self.avg_frame_rate))
    }

    fn colour(&self) -> Option<Colour> {
        let names = [&self.color_primaries, &self.color_transfer, &self.color_space];
        let pixels = self.pix_fmt.as_deref().unwrap_or_default();
        Colour::of(names.map(Option::as_deref), self.color_range.as_deref(), pixels)
    }
}

/// Why a source is refused that begins between two key frames: decoders leave out what they cannot
/// begin with.
const NO_KEY_FRAME: &str = "begins with pictures that need others before them (no key frame): \
                            it was cut there; take what decodes: ffmpeg -i SOURCE -c:v libx264 \
                            -crf 12 NEW.mp4";

/// How a source is made equirectangular. Only MP4 leaves out what the source says of its projection.
const CONVERT: &str = "make it equirectangular first: ffmpeg -i SOURCE -vf v360=INPUT:e NEW.mp4";

/// Refuses what ends early, and projections of which ffprobe says nothing.
fn check_structure(structure: &Structure) -> Result<(), String> {
    if let Some(Cut { place, is_readable }) = &structure.cut {
        let rest = match is_readable {
            true => ", or take what is there: ffmpeg -i SOURCE -c:v libx264 -crf 12 NEW.mp4",
            false => "; without its index nothing of it can be read",
        };
        return Err(format!("ends early, at {place}: it was cut; get the whole file{rest}"));
    }
    match structure.projection.map(|projection| projection.0) {
        None => Ok(()),
        // What ffprobe says of these has more in it.
        Some(kind) if &kind == b"equi" || &kind == b"cbmp" => Ok(()),
        Some(kind) if &kind == b"mshp" => Err(
            "says that its projection is a mesh of its own (mshp), which ffmpeg does not read; export \
             it as equirectangular, with the program that made it"
                .to_owned(),
        ),
        Some(kind) => {
            let kind = String::from_utf8_lossy(&kind).into_owned();
            Err(format!("says that its projection is '{kind}', which is not known; {CONVERT}"))
        }
    }
}

impl SideData {
    /// Refuses what is no equirectangular picture for one eye, upright and with its front in the middle.
    fn check(&self) -> Result<(), String> {
        match (self.side_data_type.as_str(), &self.projection, &self.eyes) {
            ("Spherical Mapping", Some(projection), _) if projection != "equirectangular" => {
                Err(format!("says that its projection is {projection}; {CONVERT}"))
            }
            ("Spherical Mapping", ..) => self.check_pose(),
            ("Display Matrix", ..) if !self.is_upright() => Err(
                "says that its pictures are to be turned or mirrored when they are shown (a display \
                 matrix); turn them first: ffmpeg -i SOURCE -c:v libx264 -crf 12 NEW.mp4"
                    .to_owned(),
            ),
            ("Stereo 3D", _, Some(eyes)) if eyes != "2D" => Err(format!(
                "has pictures for two eyes ({eyes}), and a package is for one; take one of them: \
                 ffmpeg -i SOURCE -vf stereo3d=LAYOUT:ml NEW.mp4"
            )),
            _ => Ok(()),
        }
    }

    /// The front of a package is in the middle of its pictures.
    fn check_pose(&self) -> Result<(), String> {
        let [yaw, pitch, roll] = [self.yaw, self.pitch, self.roll].map(Option::unwrap_or_default);
        if yaw == 0.0 && pitch == 0.0 && roll == 0.0 {
            return Ok(());
        }
        // Both turn the pictures to the left where the yaw is positive.
        let turn = match pitch == 0.0 && roll == 0.0 {
            true => {
                format!("turn its pictures first: ffmpeg -i SOURCE -vf v360=e:e:yaw={yaw} NEW.mp4")
            }
            false => "level its pictures first, with the program that made it".to_owned(),
        };
        Err(format!(
            "says that its pictures are turned (yaw {yaw}, pitch {pitch}, roll {roll} degrees), which a \
             package does not carry; {turn}, or leave them as they are: ffmpeg -i SOURCE -c copy NEW.mp4"
        ))
    }

    /// Whether a display matrix leaves the pictures as they are, but for their size.
    fn is_upright(&self) -> bool {
        let rows = self.displaymatrix.iter().flat_map(|text| text.lines());
        let numbers = rows.filter_map(|row| row.split_once(':')).map(|(_, numbers)| {
            let numbers = numbers.split_whitespace().map(|number| number.parse::<i64>());
            numbers.collect::<Result<Vec<_>, _>>().unwrap_or_default()
        });
        let rows: Vec<Vec<i64>> = numbers.collect();
        match (rows.first().map(Vec::as_slice), rows.get(1).map(Vec::as_slice)) {
            (Some([across, 0, ..]), Some([0, down, ..])) => *across > 0 && *down > 0,
            _ => false,
        }
    }
}

/// The rate that all `times` follow, to within what the container rounds.
fn constant_rate(stream: &Stream, times: &[i64], tick_s: f64) -> Result<FrameRate, String> {
    let told = [&stream.r_frame_rate, &stream.avg_frame_rate];
    let rates: Vec<FrameRate> =
        told.into_iter().flatten().filter_map(|text| text.parse().ok()).collect();
    let follows = |rate: &&FrameRate| times_follow(times, tick_s, **rate);
    if let Some(&rate) = rates.iter().find(follows) {
        return Ok(rate);
    }
    // Pictures that are shown earlier than one before them may be missing at the end.
    if stream.has_b_frames > 0
        && let Some(at_s) = rates.iter().find_map(|rate| hole(times, tick_s, *rate))
    {
        return Err(format!(
            "ends early: a picture is missing after {at_s:.2} s, among its last ones; it was cut. Get the \
             whole file, or take what is there: ffmpeg -i SOURCE -vf fps={} -c:v libx264 -crf 12 NEW.mp4",
            rates[0]
        ));
    }
    let steps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let (least, most) = (steps.clone().min().unwrap_or(0), steps.max().unwrap_or(0));
    let ms = |ticks: i64| ticks as f64 * tick_s * 1e3;
    Err(format!(
        "its pictures do not come at a constant rate ({:.1} to {:.1} ms apart); make it one first: \
         ffmpeg -i SOURCE -vf fps=30 -c:v libx264 -crf 12 NEW.mp4",
        ms(least),
        ms(most)
    ))
}

/// After what time the first picture is missing of a constant rate, if all are there but for some at the
/// end, among those that a decoder may reorder.
fn hole(times: &[i64], tick_s: f64, rate: FrameRate) -> Option<f64> {
    let place = |time: &i64| ((time - times[0]) as f64 * tick_s / rate.seconds(1)).round() as u64;
    let first = times.iter().zip(0_u64..).position(|(time, index)| place(time) != index)?;
    let fits = |time: &i64| {
        ((time - times[0]) as f64 * tick_s - rate.seconds(place(time))).abs() <= 1.01 * tick_s
    };
    let at_end = times.len() - first <= MAX_REORDERED && first > 0;
    let rising = times.windows(2).all(|pair| place(&pair[0]) < place(&pair[1]));
    (at_end && rising && times.iter().all(fits)).then(|| rate.seconds(first as u64))
}

/// Whether the times are those of a constant rate, rounded to the container's unit or to whole
/// milliseconds, whichever is coarser.
fn times_follow(times: &[i64], tick_s: f64, rate: FrameRate) -> bool {
    let allowed = 1.01 * tick_s;
    let off = |(i, &time): (usize, &i64)| {
        ((time - times[0]) as f64 * tick_s - rate.seconds(i as u64)).abs()
    };
    times.iter().enumerate().map(off).all(|off| off <= allowed)
}

/// A unit of time such as `1/15360`, in seconds.
fn tick(text: Option<&str>) -> Option<f64> {
    let (numerator, denominator) = text?.split_once('/')?;
    let (numerator, denominator): (f64, f64) = (numerator.parse().ok()?, denominator.parse().ok()?);
    (numerator > 0.0 && denominator > 0.0).then(|| numerator / denominator)
}

#[cfg(test)]
impl Source {
    /// A source of 64x32 with so many pictures, whose file is that of this program.
    pub(crate) fn drawn(frames: usize, rate: &str, pixels: &str) -> Self {
        let mut probed = tests::probed(rate, "1/1000", &[0, 0]);
        probed.streams[0].pix_fmt = Some(pixels.to_owned());
        probed.format.format_name = Some("drawn".to_owned());
        let rate: FrameRate = rate.parse().unwrap();
        let times = (0..2).map(|frame| (rate.seconds(frame) * 1e3).round() as i64);
        probed.packets.iter_mut().zip(times).for_each(|(packet, time)| packet.pts = Some(time));
        let source = Self::from_probed(&probed).unwrap();
        Self { path: std::env::current_exe().unwrap(), frames: frames as u64, ..source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn probed(rate: &str, base: &str, times: &[i64]) -> Probed {
        let stream = Stream {
            index: 0,
            codec_type: "video".to_owned(),
            track: Track::default(),
            width: Some(64),
            height: Some(32),
            r_frame_rate: Some(rate.to_owned()),
            avg_frame_rate: Some(rate.to_owned()),
            time_base: Some(base.to_owned()),
            start_time: None,
            duration: None,
            pix_fmt: Some("yuv420p".to_owned()),
            has_b_frames: 0,
            color_primaries: None,
            color_transfer: None,
            color_space: None,
            color_range: None,
            side_data_list: Vec::new(),
        };
        let packets = times.iter().map(|&pts| Packet {
            stream_index: 0,
            pts: Some(pts),
            pts_time: None,
            duration_time: None,
            flags: "K_".to_owned(),
        });
        Probed { streams: vec![stream], packets: packets.collect(), format: Format::default() }
    }

    #[test]
    fn a_constant_rate_is_known_whatever_the_order_and_the_rounding() {
        // Decoding order, and Matroska's whole milliseconds.
        let source =
            Source::from_probed(&probed("30/1", "1/1000", &[0, 100, 33, 67, 133])).unwrap();
        assert_eq!((source.frames(), source.rate().to_string().as_str()), (5, "30/1"));
        assert_eq!(source.seek_s(0), 0.0);
        assert!((source.seek_s(3) - 2.5 / 30.0).abs() < 1e-9);
        // A first picture that is not at 0.
        let late = probed("30000/1001", "1/30000", &[1001, 2002, 3003]);
        assert!(
            (Source::from_probed(&late).unwrap().seek_s(1) - 1.5 * 1001.0 / 30_000.0).abs() < 1e-9
        );
    }

    #[test]
    fn a_rate_that_varies_is_refused_with_the_remedy() {
        for times in [&[0, 33, 67, 150, 183][..], &[0, 33, 33, 67], &[0, 40, 80, 120]] {
            let why = Source::from_probed(&probed("30/1", "1/1000", times)).unwrap_err();
            assert!(why.contains("fps=30"), "{why}");
        }
    }

    #[test]
    fn a_file_that_was_cut_between_reordered_pictures_says_where() {
        let mut cut = probed("25/1", "1/1000", &[0, 40, 80, 120, 160, 320, 240]);
        let why = |probed: &Probed| Source::from_probed(probed).unwrap_err();
        assert!(why(&cut).contains("constant rate"), "nothing is reordered");
        cut.streams[0].has_b_frames = 2;
        assert!(
            why(&cut).contains("ends early: a picture is missing after 0.20 s"),
            "{}",
            why(&cut)
        );
        // Somewhere in between, they never were.
        let times: Vec<i64> =
            (0..60).filter(|index| *index != 20).map(|index| index * 40).collect();
        let mut varies = probed("25/1", "1/1000", &times);
        varies.streams[0].has_b_frames = 2;
        assert!(why(&varies).contains("constant rate"), "{}", why(&varies));
    }

    #[test]
    fn pictures_that_are_turned_mirrored_or_not_in_front_are_refused() {
        let side_data = |json: &str| serde_json::from_str::<SideData>(json).unwrap();
        let matrix = |rows: &str| {
            side_data(&format!(
                r#"{{"side_data_type": "Display Matrix", "displaymatrix": "\\n00000000: {rows}"}}"#
            ))
        };
        assert_eq!(matrix("65536 0 0\\n00000001: 0 65536 0\\n").check(), Ok(()));
        for rows in [
            "-65536 0 0\\n00000001: 0 -65536 0",
            "65536 0 0\\n00000001: 0 -65536 0",
            "0 65536 0\\n00000001: -65536 0 0",
            "46341 46341 0\\n00000001: -46341 46341 0",
            "x",
        ] {
            let why = matrix(rows).check().unwrap_err();
            assert!(why.contains("turned or mirrored") && why.contains("NEW.mp4"), "{rows}: {why}");
        }
        let pose = |pose: &str| {
            side_data(&format!(
                r#"{{"side_data_type": "Spherical Mapping", "projection": "equirectangular", {pose}}}"#
            ))
        };
        assert_eq!(pose(r#""yaw": 0, "pitch": 0, "roll": 0"#).check(), Ok(()));
        let why = pose(r#""yaw": -90, "pitch": 0, "roll": 0"#).check().unwrap_err();
        assert!(why.contains("yaw -90") && why.contains("v360=e:e:yaw=-90"), "{why}");
        let why = pose(r#""yaw": 0, "pitch": 0.5"#).check().unwrap_err();
        assert!(why.contains("pitch 0.5") && why.contains("level"), "{why}");
    }

    #[test]
    fn a_file_that_ends_before_it_says_is_known() {
        let missing = |lasts: Option<&str>, heard: &str| {
            let mut probed = probed("10/1", "1/1000", &[0, 100, 200, 300]);
            let audio = |index| {
                let sound = serde_json::json!({"index": index, "codec_type": "audio"});
                serde_json::from_value::<Stream>(sound).unwrap()
            };
            probed.streams.extend([audio(1), audio(2)]);
            // The later track counts, and what is of none does not.
            probed.packets.extend([(1, "0.1"), (2, heard), (3, "7.0")].map(|(index, time)| {
                Packet {
                    stream_index: index,
                    pts: None,
                    pts_time: Some(time.to_owned()),
                    duration_time: None,
                    flags: String::new(),
                }
            }));
            probed.format.duration = lasts.map(str::to_owned);
            let source = Source::from_probed(&probed).unwrap();
            assert_eq!((source.frames(), source.sound.len()), (4, 2));
            source.missing_s(&probed).is_some()
        };
        assert!(!missing(None, "0.0"), "nothing is said");
        for (lasts, heard, wanted) in [
            ("0.42", "0.0", false),
            ("1.0", "0.0", true),
            ("1.0", "0.98", false),
            ("N/A", "0.0", false),
        ] {
            assert_eq!(missing(Some(lasts), heard), wanted, "{lasts} {heard}");
        }
    }

    /// Subtitles and data may go on when the last picture was shown.
    #[test]
    fn a_track_that_lasts_longer_is_no_file_that_was_cut() {
        let is_cut = |lasts: &str, subtitle: [&str; 2], own: Option<&str>| {
            let mut probed = probed("10/1", "1/1000", &[0, 100, 200, 300]);
            let text = serde_json::json!({"index": 1, "codec_type": "subtitle"});
            probed.streams.push(serde_json::from_value(text).unwrap());
            let [pts_time, duration_time] = subtitle.map(|time| Some(time.to_owned()));
            let (stream_index, pts, flags) = (1, None, "K_".to_owned());
            probed.packets.push(Packet { stream_index, pts, pts_time, duration_time, flags });
            probed.format.duration = Some(lasts.to_owned());
            probed.streams[0].duration = own.map(str::to_owned);
            Source::from_probed(&probed).unwrap().missing_s(&probed).is_some()
        };
        assert!(!is_cut("7.0", ["2.0", "5.0"], None), "the subtitle is over");
        assert!(is_cut("9.0", ["2.0", "5.0"], None), "nothing is");
        assert!(!is_cut("9.0", ["2.0", "5.0"], Some("0.4")), "what is missing are no pictures");
        assert!(is_cut("9.0", ["2.0", "5.0"], Some("9.0")), "pictures are missing");
    }

    #[test]
    fn pixels_of_more_than_eight_bits_are_known_by_name() {
        let is_deep = |name: &str| {
            let mut probed = probed("10/1", "1/1000", &[0, 100]);
            probed.streams[0].pix_fmt = Some(name.to_owned());
            Source::from_probed(&probed).unwrap().is_deep()
        };
        assert!(
            ["yuv420p10le", "p010le", "gray16be", "rgb48le", "gbrp12le"].map(is_deep) == [true; 5]
        );
        assert!(
            ["yuv420p", "yuvj444p", "nv12", "rgb24", "rgb565le", ""].map(is_deep) == [false; 6]
        );
    }

    #[test]
    fn what_is_not_equirectangular_or_for_two_eyes_is_refused() {
        let refusal = |kind: &str, projection: Option<&str>, eyes: Option<&str>| {
            let mut probed = probed("30/1", "1/1000", &[0, 33]);
            probed.streams[0].side_data_list.push(SideData {
                side_data_type: kind.to_owned(),
                projection: projection.map(str::to_owned),
                eyes: eyes.map(str::to_owned),
                ..SideData::default()
            });
            Source::from_probed(&probed).err()
        };
        assert_eq!(refusal("Spherical Mapping", Some("equirectangular"), None), None);
        let cube = refusal("Spherical Mapping", Some("cubemap"), None).unwrap();
        assert!(cube.contains("cubemap") && cube.contains("v360"), "{cube}");
        assert_eq!(refusal("Stereo 3D", None, Some("2D")), None);
        let eyes = refusal("Stereo 3D", None, Some("top and bottom")).unwrap();
        assert!(eyes.contains("two eyes (top and bottom)"), "{eyes}");
    }

    /// A decoder drops pictures until a key frame, and what is counted would not be what is
    /// decoded.
    #[test]
    fn a_source_that_begins_without_a_key_frame_is_refused() {
        let mut cut = probed("30/1", "1/1000", &[0, 33, 67]);
        cut.packets[0].flags = "__".to_owned();
        let why = Source::from_probed(&cut).unwrap_err();
        assert!(why.contains("no key frame") && why.contains("NEW.mp4"), "{why}");
        // What is not shown may be one.
        cut.packets[0].flags = "KD_".to_owned();
        assert_eq!(Source::from_probed(&cut).unwrap().frames(), 2);
    }

    #[test]
    fn only_streams_of_mpeg_have_no_index() {
        let has_index = |name: &str| {
            let mut probed = probed("30/1", "1/1000", &[0, 33]);
            probed.format.format_name = Some(name.to_owned());
            Source::from_probed(&probed).unwrap().has_index()
        };
        assert_eq!(["mpegts", "mpeg"].map(has_index), [false; 2]);
        assert_eq!(["mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", ""].map(has_index), [true; 3]);
    }

    #[test]
    fn what_is_no_video_is_refused() {
        assert!(Source::from_probed(&probed("30/1", "1/1000", &[])).is_err());
        assert!(Source::from_probed(&probed("30/1", "0/0", &[0, 33])).is_err());
        let mut probed = probed("30/1", "1/1000", &[0, 33]);
        probed.packets[1].pts = None;
        assert!(Source::from_probed(&probed).unwrap_err().contains("genpts"));
        probed.streams.clear();
        assert!(Source::from_probed(&probed).is_err());
    }
}
