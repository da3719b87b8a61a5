//! Loaders for the formats of public head-motion sets.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::{HeadError, Pose, Trace};
use crate::geometry::{Direction, Orientation};

/// The file format of head traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// AVTrack360 (Fremerey et al., MMSys 2018): a viewer's JSON with `pitch_yaw_roll_data_hmd`
    /// for each `filename`, or CSV with the columns `yaw_deg,pitch_deg,roll_deg`. Degrees; pitch
    /// is negative upwards.
    Avtrack360,
    /// Corbillon et al. (MMSys 2017): lines of time, frame and a quaternion w x y z, separated by
    /// spaces; one viewer and video a file. Axes as ours.
    Corbillon2017,
    /// CSV with a header that says which columns there are and their units: `t_s` or `t_ms`;
    /// `yaw_deg,pitch_deg[,roll_deg]` or the same in `_rad`, or `qw,qx,qy,qz`, or `x,y,z`; and, if
    /// wanted, `viewer` and `video`. Signs and axes as in [`crate::geometry`], where up is positive;
    /// `pitch_up_deg` says so, and `pitch_down_deg` that it is negative. A pitch that does not say it
    /// beside names of AVTrack360's (`user`, `sec`) is refused: it would be read upside down.
    Csv,
    /// Nasrabadi et al. (MMSys 2019): CSV rows of time, quaternion and the unit vector of the
    /// viewport's centre (x right, y up, z front); with a header also any columns among which are
    /// `t_s`, `x`, `y`, `z`. The vector is used: heads are taken as upright.
    Nasrabadi2019,
}

impl Format {
    /// All formats with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("avtrack360", Self::Avtrack360),
        ("corbillon2017", Self::Corbillon2017),
        ("csv", Self::Csv),
        ("nasrabadi2019", Self::Nasrabadi2019),
    ];
}

impl FromStr for Format {
    type Err = HeadError;

    fn from_str(name: &str) -> Result<Self, HeadError> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names = Self::ALL.map(|(known, _)| known).join(", ");
            HeadError::Traces(format!("'{name}' is no format of head traces; known are {names}"))
        })
    }
}

/// The names of traces whose file does not say them: most sets keep one viewer's poses over one
/// video in a file named after both.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// The viewer's name.
    pub viewer: &'a str,
    /// The video's name.
    pub video: &'a str,
}

/// Reads the traces in `text`, in the order in which they begin.
///
/// # Errors
/// [`HeadError`] if the text is not of the format, has no traces, or a trace has gaps; if angles
/// are in radians where degrees are wanted, or the other way round; if vectors or quaternions have
/// not length 1.
pub fn read(format: Format, label: Label<'_>, text: &str) -> Result<Vec<Trace>, HeadError> {
    let rows = match format {
        Format::Avtrack360 if text.trim_start().starts_with('{') => avtrack_json(label, text)?,
        Format::Avtrack360 => {
            let header = Header { axes: Axes::PitchDown, ..Header::read(text)? };
            header.check_angles()?;
            table(&header, label, text)?
        }
        Format::Corbillon2017 => corbillon(label, text)?,
        Format::Csv => {
            let header = Header::read(text)?;
            header.check_convention(text)?;
            table(&header, label, text)?
        }
        Format::Nasrabadi2019 => nasrabadi(label, text)?,
    };
    rows.check_units()?;
    rows.into_traces()
}

/// Poses of several viewers and videos, as they come.
#[derive(Default)]
struct Rows {
    traces: Vec<(String, String, Vec<Pose>)>,
    /// The largest yaw and pitch of all poses that are given as degrees, and their number.
    largest_deg: f64,
    angles: usize,
    /// Whether some angle in degrees is no whole number.
    fractions: bool,
}

impl Rows {
    fn add(&mut self, viewer: &str, video: &str, pose: Pose) {
        let same = |trace: &&mut (String, String, _)| trace.0 == viewer && trace.1 == video;
        // Rows of a trace are together in every set: the last one is nearly always it.
        match self.traces.iter_mut().rev().find(same) {
            Some((_, _, poses)) => poses.push(pose),
            None => self.traces.push((viewer.to_owned(), video.to_owned(), vec![pose])),
        }
    }

    fn note_degrees(&mut self, angles: [f64; 3]) {
        self.angles += 1;
        for angle in angles {
            self.largest_deg = self.largest_deg.max(angle.abs());
            self.fractions |= angle.fract() != 0.0;
        }
    }

    /// Heads turn by far more than 3.2° within seconds, so a file whose angles all stay within ±π
    /// is in radians.
    fn check_units(&self) -> Result<(), HeadError> {
        let narrow = self.largest_deg <= std::f64::consts::PI + 0.01;
        if self.angles >= 50 && narrow && self.fractions {
            return Err(HeadError::Traces(format!(
                "all angles are within ±{:.2}: these are radians, but degrees are wanted; convert \
                 them, or use the format csv with columns yaw_rad,pitch_rad",
                self.largest_deg
            )));
        }
        Ok(())
    }

    fn into_traces(self) -> Result<Vec<Trace>, HeadError> {
        if self.traces.is_empty() {
            return Err(HeadError::Traces("there are no poses; is the file empty?".to_owned()));
        }
        let traces = self.traces.into_iter();
        traces.map(|(viewer, video, poses)| Trace::new(&viewer, &video, poses)).collect()
    }
}

/// What a column of pitch is called, in degrees and in radians: as ours, and with its sign.
const PITCHES: [[&str; 3]; 2] = [
    ["pitch_deg", "pitch_up_deg", "pitch_down_deg"],
    ["pitch_rad", "pitch_up_rad", "pitch_down_rad"],
];

/// What a row's numbers say of the orientation.
#[derive(Clone, Copy)]
enum Columns {
    /// Yaw, pitch and, if it is there, roll; and how many degrees a unit is.
    Angles([Option<usize>; 3], f64),
    /// w, x, y, z.
    Quaternion([usize; 4]),
    /// x, y, z.
    Vector([usize; 3]),
}

/// Where the columns of a CSV file are.
struct Header {
    /// Where the rows begin: after how many lines.
    rows: usize,
    time: usize,
    /// Seconds of a unit of time.
    time_unit: f64,
    viewer: Option<usize>,
    video: Option<usize>,
    columns: Columns,
    axes: Axes,
}

/// How a set's signs and axes differ from ours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axes {
    Ours,
    /// Pitch is negative upwards.
    PitchDown,
    /// x right, y up, z front.
    FrontZ,
}

impl Header {
    /// Reads the first line of `text`.
    fn read(text: &str) -> Result<Self, HeadError> {
        let names: Vec<&str> =
            text.lines().next().unwrap_or_default().split(',').map(str::trim).collect();
        let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(name));
        let all = |wanted: [&str; 3]| wanted.map(|name| find(&[name]));
        let error = |reason: String| HeadError::Line { line: 1, reason };
        let (time, time_unit) = match (find(&["t_s", "sec"]), find(&["t_ms"])) {
            (Some(column), _) => (column, 1.0),
            (None, Some(column)) => (column, 1e-3),
            (None, None) => {
                return Err(error("the header wants a column t_s or t_ms".to_owned()));
            }
        };
        let (up, down) =
            (PITCHES.map(|name| find(&[name[1]])), PITCHES.map(|name| find(&[name[2]])));
        let pitch = |unit: usize| find(&[PITCHES[unit][0]]).or(up[unit]).or(down[unit]);
        let angles = |unit: usize, yaw: &str, roll: &str| {
            Some([Some(find(&[yaw])?), Some(pitch(unit)?), find(&[roll])])
        };
        let columns = if let Some(columns) = angles(0, "yaw_deg", "roll_deg") {
            Columns::Angles(columns, 1.0)
        } else if let Some(columns) = angles(1, "yaw_rad", "roll_rad") {
            Columns::Angles(columns, 1_f64.to_degrees())
        } else if let (Some(w), [Some(x), Some(y), Some(z)]) =
            (find(&["qw"]), all(["qx", "qy", "qz"]))
        {
            Columns::Quaternion([w, x, y, z])
        } else if let [Some(x), Some(y), Some(z)] = all(["x", "y", "z"]) {
            Columns::Vector([x, y, z])
        } else {
            return Err(error(
                "the header wants yaw_deg,pitch_deg or yaw_rad,pitch_rad or qw,qx,qy,qz or x,y,z"
                    .to_owned(),
            ));
        };
        let (viewer, video) = (find(&["viewer", "user"]), find(&["video"]));
        let axes = if down.iter().any(Option::is_some) { Axes::PitchDown } else { Axes::Ours };
        Ok(Self { rows: 1, time, time_unit, viewer, video, columns, axes })
    }

    /// Whether the sign of the pitch is known where the names of other columns are AVTrack360's, who
    /// has it the other way round.
    fn check_convention(&self, text: &str) -> Result<(), HeadError> {
        let names: Vec<&str> =
            text.lines().next().unwrap_or_default().split(',').map(str::trim).collect();
        let has = |wanted: &[&str]| names.iter().find(|name| wanted.contains(name)).copied();
        let (Some(theirs), Some(pitch)) = (has(&["user", "sec"]), has(&["pitch_deg", "pitch_rad"]))
        else {
            return Ok(());
        };
        let unit = &pitch[pitch.len() - 3..];
        let reason = format!(
            "a column '{theirs}' is of AVTrack360, whose pitch is negative upwards, and '{pitch}' \
             does not say; use the format avtrack360, or call it pitch_up_{unit} or \
             pitch_down_{unit}"
        );
        Err(HeadError::Line { line: 1, reason })
    }

    fn check_angles(&self) -> Result<(), HeadError> {
        if matches!(self.columns, Columns::Angles(_, 1.0)) {
            return Ok(());
        }
        let reason = "AVTrack360 has yaw_deg, pitch_deg and roll_deg".to_owned();
        Err(HeadError::Line { line: 1, reason })
    }
}

/// The rows of a CSV file.
fn table(header: &Header, label: Label<'_>, text: &str) -> Result<Rows, HeadError> {
    let mut rows = Rows::default();
    for (line, row) in text.lines().enumerate().skip(header.rows) {
        if row.trim().is_empty() {
            continue;
        }
        let cells = Cells { line: line + 1, cells: row.split(',').map(str::trim).collect() };
        let at = cells.time(header.time, header.time_unit)?;
        let orientation = match header.columns {
            Columns::Angles(columns, degrees) => {
                let [yaw, pitch, roll] = cells.angles(columns, degrees)?;
                if degrees == 1.0 {
                    rows.note_degrees([yaw, pitch, roll]);
                }
                let pitch = if header.axes == Axes::PitchDown { -pitch } else { pitch };
                Orientation::from_degrees(yaw, pitch, roll)
            }
            Columns::Quaternion(columns) => cells.quaternion(columns)?,
            Columns::Vector(columns) => {
                let [x, y, z] = cells.vector(columns)?;
                let [x, y, z] = if header.axes == Axes::FrontZ { [z, -x, y] } else { [x, y, z] };
                cells.look(x, y, z)?
            }
        };
        let name = |column: Option<usize>, other| match column {
            Some(column) => cells.cell(column),
            None => Ok(other),
        };
        let pose = Pose { at, orientation };
        rows.add(name(header.viewer, label.viewer)?, name(header.video, label.video)?, pose);
    }
    Ok(rows)
}

/// Nasrabadi's columns: `t,qx,qy,qz,qw,x,y,z` with no header, or with one that has `x,y,z`.
fn nasrabadi(label: Label<'_>, text: &str) -> Result<Rows, HeadError> {
    let first = text.lines().next().unwrap_or_default();
    let bare = first.split(',').next().is_some_and(|cell| cell.trim().parse::<f64>().is_ok());
    let mut header = Header {
        rows: 0,
        time: 0,
        time_unit: 1.0,
        viewer: None,
        video: None,
        columns: Columns::Vector([5, 6, 7]),
        axes: Axes::FrontZ,
    };
    if !bare {
        header = Header { axes: Axes::FrontZ, ..Header::read(text)? };
    }
    if !matches!(header.columns, Columns::Vector(_)) {
        let reason = "this format wants the columns t_s,x,y,z".to_owned();
        return Err(HeadError::Line { line: 1, reason });
    }
    table(&header, label, text)
}

/// Corbillon's lines: time, frame, w, x, y, z.
fn corbillon(label: Label<'_>, text: &str) -> Result<Rows, HeadError> {
    let mut rows = Rows::default();
    for (line, row) in text.lines().enumerate() {
        let cells = Cells { line: line + 1, cells: row.split_whitespace().collect() };
        if cells.cells.is_empty() {
            continue;
        }
        let orientation = cells.quaternion([2, 3, 4, 5])?;
        rows.add(label.viewer, label.video, Pose { at: cells.time(0, 1.0)?, orientation });
    }
    Ok(rows)
}

#[derive(Deserialize)]
struct AvtrackFile {
    data: Vec<AvtrackVideo>,
}

#[derive(Deserialize)]
struct AvtrackVideo {
    filename: String,
    pitch_yaw_roll_data_hmd: Vec<AvtrackPose>,
}

#[derive(Deserialize)]
struct AvtrackPose {
    sec: f64,
    yaw: f64,
    pitch: f64,
    roll: f64,
}

/// A viewer's file of AVTrack360; its videos are named like files, `2.mp4`.
fn avtrack_json(label: Label<'_>, text: &str) -> Result<Rows, HeadError> {
    let file: AvtrackFile =
        serde_json::from_str(text).map_err(|error| HeadError::Json(error.to_string()))?;
    let mut rows = Rows::default();
    for video in file.data {
        let name = video.filename.strip_suffix(".mp4").unwrap_or(&video.filename);
        for (index, pose) in video.pitch_yaw_roll_data_hmd.iter().enumerate() {
            let wrong = |reason: String| {
                let (viewer, video) = (label.viewer.to_owned(), name.to_owned());
                HeadError::Trace { viewer, video, reason: format!("pose {index}: {reason}") }
            };
            let angles = [pose.yaw, pose.pitch, pose.roll];
            check_degrees(angles).map_err(wrong)?;
            rows.note_degrees(angles);
            let at = seconds(pose.sec).map_err(wrong)?;
            let orientation = Orientation::from_degrees(pose.yaw, -pose.pitch, pose.roll);
            rows.add(label.viewer, name, Pose { at, orientation });
        }
    }
    Ok(rows)
}

/// A time of at most a day.
fn seconds(value: f64) -> Result<Duration, String> {
    if (0.0..=86_400.0).contains(&value) {
        return Ok(Duration::from_nanos((value * 1e9).round() as u64));
    }
    Err(format!("a time of {value} s is outside a day; times are seconds from the video's start"))
}

/// Angles that a head can have, with yaw unwrapped over at most ten turns.
fn check_degrees([yaw, pitch, roll]: [f64; 3]) -> Result<(), String> {
    for (name, angle, most) in [("yaw", yaw, 3600.0), ("pitch", pitch, 90.0), ("roll", roll, 180.0)]
    {
        if !(-most..=most).contains(&angle) {
            return Err(format!("a {name} of {angle}° is outside ±{most}°; which unit is it?"));
        }
    }
    Ok(())
}

/// The cells of one row.
struct Cells<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Cells<'a> {
    fn error(&self, reason: String) -> HeadError {
        HeadError::Line { line: self.line, reason }
    }

    fn cell(&self, column: usize) -> Result<&'a str, HeadError> {
        let cell = self.cells.get(column).copied();
        cell.ok_or_else(|| {
            let wanted = column + 1;
            let found = self.cells.len();
            self.error(format!("{found} cells, but at least {wanted} are wanted; cut short?"))
        })
    }

    fn number(&self, column: usize) -> Result<f64, HeadError> {
        let cell = self.cell(column)?;
        let value = cell.parse().ok().filter(|value: &f64| value.is_finite());
        value.ok_or_else(|| self.error(format!("'{cell}' is no number")))
    }

    fn time(&self, column: usize, unit: f64) -> Result<Duration, HeadError> {
        seconds(self.number(column)? * unit).map_err(|reason| self.error(reason))
    }

    fn angles(&self, columns: [Option<usize>; 3], degrees: f64) -> Result<[f64; 3], HeadError> {
        let mut angles = [0.0; 3];
        for (angle, column) in angles.iter_mut().zip(columns) {
            *angle = column.map_or(Ok(0.0), |column| self.number(column))? * degrees;
        }
        check_degrees(angles).map_err(|reason| self.error(reason))?;
        Ok(angles)
    }

    fn quaternion(&self, columns: [usize; 4]) -> Result<Orientation, HeadError> {
        let mut q = [0.0; 4];
        for (value, column) in q.iter_mut().zip(columns) {
            *value = self.number(column)?;
        }
        self.check_length("quaternion", &q)?;
        let [w, x, y, z] = q;
        Orientation::from_quaternion(w, x, y, z)
            .ok_or_else(|| self.error("the quaternion is zero".to_owned()))
    }

    fn vector(&self, columns: [usize; 3]) -> Result<[f64; 3], HeadError> {
        let mut vector = [0.0; 3];
        for (value, column) in vector.iter_mut().zip(columns) {
            *value = self.number(column)?;
        }
        self.check_length("vector", &vector)?;
        Ok(vector)
    }

    /// Files round to a few digits: 2 % off is still length 1.
    fn check_length(&self, what: &str, values: &[f64]) -> Result<(), HeadError> {
        let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
        if (length - 1.0).abs() <= 0.02 {
            return Ok(());
        }
        Err(self.error(format!(
            "a {what} of length {length:.3} is none of length 1; are its columns in this order?"
        )))
    }

    fn look(&self, x: f64, y: f64, z: f64) -> Result<Orientation, HeadError> {
        let direction = Direction::new(x, y, z);
        let direction = direction.ok_or_else(|| self.error("the vector is zero".to_owned()))?;
        Ok(Orientation::looking_at(direction))
    }
}
