//! What a player writes: a line for each GoP, and a summary.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use weftline_core::Instant;
use weftline_video::evaluate::{PSNR_CEILING_DB, Shown};
use weftline_video::geometry::FieldOfView;
use weftline_video::live::{GopReport, Pose};
use weftline_video::metric::{mse_of_psnr_db, psnr_db};

use super::p1203::Inputs;

/// A line for each GoP: CSV, or JSON where the file's name ends in `.jsonl`.
pub(super) struct GopLog {
    path: PathBuf,
    out: Box<dyn Write>,
    json: bool,
    fov: FieldOfView,
}

/// What is known of a GoP besides its report.
#[derive(Clone, Debug)]
pub(super) struct Around {
    /// When it was over, seconds from the start of the program.
    pub(super) time_s: f64,
    /// Each path: its name, the bytes it brought since the line before, and whether it is up.
    pub(super) paths: Vec<(String, u64, bool)>,
}

impl GopLog {
    /// Begins a log about these paths and a viewport that spans `fov`; `-` is standard output.
    ///
    /// # Errors
    /// What cannot be written, and why.
    pub(super) fn new(path: &Path, names: &[String], fov: FieldOfView) -> Result<Self, String> {
        let json = path.extension().is_some_and(|extension| extension == "jsonl");
        let path = path.to_owned();
        let out: Box<dyn Write> = match path.as_os_str() == "-" {
            true => Box::new(io::stdout()),
            false => match File::create(&path) {
                Ok(file) => Box::new(file),
                Err(error) => return Err(wrong(&path, &error)),
            },
        };
        let mut log = Self { path, out, json, fov };
        if !json {
            let paths: String = names.iter().map(|name| format!(",{name}_bytes")).collect();
            log.line(&format!(
                "gop,time_s,arrived,late,called_back,damaged,dropped,concealed,planned_bytes,expected_bytes,\
                 bytes,late_bytes,psnr_db,mean_psnr_db,stalled_s,sound,down{paths}"
            ))?;
        }
        Ok(log)
    }

    /// Writes the line of a GoP.
    ///
    /// # Errors
    /// What cannot be written, and why.
    pub(super) fn gop(&mut self, report: &GopReport, around: &Around) -> Result<(), String> {
        let line = match self.json {
            true => json_line(report, around, self.fov),
            false => csv_line(report, around),
        };
        self.line(&line)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let written = self.out.write_all(format!("{line}\n").as_bytes());
        let written = written.and_then(|()| self.out.flush());
        written.map_err(|error| wrong(&self.path, &error))
    }
}

fn wrong(path: &Path, error: &io::Error) -> String {
    format!("--log: cannot write {}: {error}", path.display())
}

fn csv_line(report: &GopReport, around: &Around) -> String {
    let r = report;
    let db = |value: Option<f64>| value.map_or(String::new(), |db| format!("{db:.3}"));
    let down: Vec<&str> =
        around.paths.iter().filter(|(_, _, up)| !up).map(|(name, _, _)| name.as_str()).collect();
    let paths: String = around.paths.iter().map(|(_, bytes, _)| format!(",{bytes}")).collect();
    format!(
        "{},{:.3},{},{},{},{},{},{},{},{},{},{},{},{},{:.3},{},{}{paths}",
        r.gop,
        around.time_s,
        r.arrived,
        r.late,
        r.called_back,
        r.damaged,
        r.dropped,
        r.concealed,
        r.planned.as_u64(),
        r.expected.as_u64(),
        r.bytes.as_u64(),
        r.late_bytes.as_u64(),
        db(r.psnr_db()),
        db(r.mean_psnr_db),
        r.stalled.as_secs_f64(),
        r.sound.map_or("", |there| if there { "1" } else { "0" }),
        down.join("+")
    )
}

fn json_line(report: &GopReport, around: &Around, fov: FieldOfView) -> String {
    let paths = around
        .paths
        .iter()
        .map(|(name, bytes, up)| (name.clone(), json!({ "bytes": bytes, "up": up })));
    let (horizontal, vertical) = fov.degrees();
    let line = json!({
        "gop": report.gop,
        "time_s": around.time_s,
        "arrived": report.arrived,
        "late": report.late,
        "called_back": report.called_back,
        "damaged": report.damaged,
        "dropped": report.dropped,
        "concealed": report.concealed,
        "planned_bytes": report.planned.as_u64(),
        "expected_bytes": report.expected.as_u64(),
        "bytes": report.bytes.as_u64(),
        "late_bytes": report.late_bytes.as_u64(),
        "psnr_db": report.psnr_db(),
        "mean_psnr_db": report.mean_psnr_db,
        "stalled_s": report.stalled.as_secs_f64(),
        "sound": report.sound,
        "paths": Map::from_iter(paths),
        "fov_deg": [horizontal, vertical],
        "shown": report.shown.iter().map(shown).collect::<Vec<Value>>(),
        "poses": report.poses.iter().map(pose).collect::<Vec<Value>>(),
    });
    line.to_string()
}

/// A tile: its QP, or of which older GoP it was, or null for grey.
fn shown(shown: &Shown) -> Value {
    match *shown {
        Shown::Grey => Value::Null,
        Shown::Rung(qp) => json!(qp),
        Shown::Stale { gop, qp } => json!({ "gop": gop, "qp": qp }),
    }
}

/// Seconds in the GoP, and degrees to a hundredth.
fn pose(pose: &Pose) -> Value {
    let (yaw, pitch, roll) = pose.orientation.degrees();
    // Nothing is no less than nothing.
    let [yaw, pitch, roll] =
        [yaw, pitch, roll].map(|degrees| (degrees * 100.0).round() / 100.0 + 0.0);
    json!({ "at_s": pose.at.as_secs_f64(), "yaw": yaw, "pitch": pitch, "roll": roll })
}

/// All GoPs together.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    /// What carried it, the tile scheme, the concealment.
    pub(super) about: [String; 3],
    /// GoPs of the stream, and of these those shown.
    pub(super) gops: [u32; 2],
    arrived: usize,
    late: usize,
    called_back: usize,
    damaged: usize,
    dropped: usize,
    concealed: usize,
    bytes: u64,
    late_bytes: u64,
    mse: f64,
    psnr_db: f64,
    judged: u32,
    /// When the first GoP was shown, since the program began to connect.
    pub(super) first_shown: Option<Instant>,
    /// GoPs that have sound, and of these those whose sound was there in time; and its bytes.
    sound: ([u32; 2], u64),
    /// The same in the terms of P.1203.
    pub(super) inputs: Inputs,
    /// Bytes that each path brought, by its name.
    pub(super) paths: Vec<(String, u64)>,
    /// Why it ended before the end, if it did.
    pub(super) error: Option<String>,
}

impl Summary {
    /// Of a stream over `transport`, of which nothing else is known.
    pub(super) fn over(transport: String) -> Self {
        let unknown = || "?".to_owned();
        Self { about: [transport, unknown(), unknown()], ..Self::default() }
    }

    /// Counts a GoP.
    pub(super) fn add(&mut self, report: &GopReport) {
        self.gops[1] += 1;
        self.arrived += report.arrived;
        self.late += report.late;
        self.called_back += report.called_back;
        self.damaged += report.damaged;
        self.dropped += report.dropped;
        self.concealed += report.concealed;
        self.bytes += report.bytes.as_u64();
        self.late_bytes += report.late_bytes.as_u64();
        self.sound.0[0] += u32::from(report.sound.is_some());
        self.sound.0[1] += u32::from(report.sound == Some(true));
        self.sound.1 += report.sound_bytes.as_u64();
        self.inputs.add(report);
        if let (Some(mse), Some(db)) = (report.mse, report.psnr_db()) {
            self.mse += mse;
            self.psnr_db += db;
            self.judged += 1;
        }
    }

    /// The PSNR of the mean MSE over the GoPs, and the mean of their PSNRs, in dB.
    fn psnr(&self) -> Option<[f64; 2]> {
        let count = f64::from(self.judged);
        let mse = (self.mse / count).max(mse_of_psnr_db(PSNR_CEILING_DB));
        (self.judged > 0).then(|| [psnr_db(mse), self.psnr_db / count])
    }

    /// Seconds from the beginning to the first picture.
    fn startup_s(&self) -> Option<f64> {
        Some(self.first_shown?.as_secs_f64())
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let [transport, scheme, concealment] = &self.about;
        let psnr = self.psnr().map_or("nothing to judge".to_owned(), |[of_mean, mean]| {
            format!("viewport {of_mean:.2} dB, mean of the GoPs {mean:.2} dB")
        });
        let [gops, shown] = self.gops;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let paths: Vec<String> =
            self.paths.iter().map(|(name, bytes)| format!("{name} {:.2} MB", mb(*bytes))).collect();
        let startup = self.startup_s().map_or("nothing was shown".to_owned(), |seconds| {
            format!("the first picture came after {seconds:.2} s")
        });
        let stalling = self.inputs.stalling();
        let sound = match self.sound {
            ([0, _], _) => String::new(),
            ([all, there], bytes) => {
                format!("sound: {there} of {all} GoPs in time, {:.2} MB\n", mb(bytes))
            }
        };
        format!(
            "{shown} of {gops} GoPs over {transport}, {scheme}, {concealment}: {psnr}\n\
             tiles: {} arrived, {} late ({} called back, {} damaged), {} dropped; {} concealed\n\
             {sound}segments: {:.2} MB in time, {:.2} MB too late; received: {}\n\
             {startup}; it stood still {} times, {:.2} s in all\n",
            self.arrived,
            self.late,
            self.called_back,
            self.damaged,
            self.dropped,
            self.concealed,
            mb(self.bytes),
            mb(self.late_bytes),
            paths.join(", "),
            stalling.events(),
            stalling.total.as_secs_f64()
        )
    }

    /// For programs.
    pub(super) fn json(&self) -> String {
        let [transport, scheme, concealment] = &self.about;
        let (psnr, stalling) = (self.psnr(), self.inputs.stalling());
        let stalled_s = stalling.total.as_secs_f64();
        let paths = self.paths.iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes }));
        let object = json!({
            "schema": 1,
            "completed": self.error.is_none(),
            "error": self.error,
            "transport": transport,
            "scheme": scheme,
            "concealment": concealment,
            // Of a live source it is known at its end.
            "gops": Some(self.gops[0]).filter(|gops| *gops > 0),
            "gops_shown": self.gops[1],
            "arrived": self.arrived,
            "late": self.late,
            "called_back": self.called_back,
            "damaged": self.damaged,
            "dropped": self.dropped,
            "concealed": self.concealed,
            "bytes": self.bytes,
            "late_bytes": self.late_bytes,
            "psnr_of_mean_db": psnr.map(|[of_mean, _]| of_mean),
            "mean_psnr_db": psnr.map(|[_, mean]| mean),
            "startup_s": self.startup_s(),
            "stalls": stalling.events(),
            "stalled_s": stalled_s,
            // The same as ITU-T P.1203 calls it, with what the Recommendation wants besides.
            "initial_loading_delay_s": self.startup_s(),
            "stalling_events": stalling.events(),
            "stalling_total_s": stalled_s,
            "stalling_mean_s": stalling.mean_s(),
            "stalling_positions_s": stalling.positions_s,
            "sound_gops": self.sound.0[0],
            "sound_in_time": self.sound.0[1],
            "sound_bytes": self.sound.1,
            "p1203": self.inputs.json(self.startup_s()),
            "paths": paths.collect::<Vec<Value>>(),
        });
        format!("{object}\n")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weftline_video::geometry::Orientation;

    use super::*;

    #[test]
    fn a_line_has_as_many_fields_as_the_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.csv");
        let names = ["wifi".to_owned(), "lte".to_owned()];
        let mut log = GopLog::new(&path, &names, FieldOfView::default()).unwrap();
        let paths = vec![("wifi".to_owned(), 7, true), ("lte".to_owned(), 0, false)];
        let around = Around { time_s: 1.5, paths };
        log.gop(&GopReport { gop: 3, late: 2, mse: Some(65.025), ..Default::default() }, &around)
            .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows[0].len(), rows[1].len());
        let field = |name| rows[1][rows[0].iter().position(|found| *found == name).unwrap()];
        assert_eq!([field("gop"), field("late"), field("psnr_db")], ["3", "2", "30.000"]);
        assert_eq!([field("down"), field("wifi_bytes"), field("lte_bytes")], ["lte", "7", "0"]);
        assert_eq!([field("mean_psnr_db"), field("sound")], ["", ""]);
        let orientation = Orientation::from_degrees(10.0, 0.0, 0.0);
        let seen = GopReport {
            gop: 3,
            shown: vec![Shown::Rung(22), Shown::Grey, Shown::Stale { gop: 2, qp: 30 }],
            poses: vec![Pose { at: Duration::from_millis(500), orientation }],
            ..Default::default()
        };
        let silent = GopReport { sound: Some(false), ..Default::default() };
        assert!(csv_line(&silent, &around).contains(",0.000,0,lte,"));
        let line: Value =
            serde_json::from_str(&json_line(&seen, &around, FieldOfView::default())).unwrap();
        assert_eq!(line["paths"]["lte"]["up"], false);
        assert_eq!(line["shown"], json!([22, null, { "gop": 2, "qp": 30 }]));
        assert_eq!(line["poses"], json!([{ "at_s": 0.5, "yaw": 10.0, "pitch": 0.0, "roll": 0.0 }]));
        assert_eq!(line["fov_deg"], json!([100.0, 100.0]));
    }

    #[test]
    fn a_summary_of_nothing_has_no_quality() {
        let summary = Summary::default();
        let line: Value = serde_json::from_str(&summary.json()).unwrap();
        assert!(line["psnr_of_mean_db"].is_null() && line["completed"] == true);
        assert!(summary.text().contains("nothing to judge"));
    }

    #[test]
    fn a_full_disk_is_said() {
        let Err(error) = GopLog::new(Path::new("/dev/full"), &[], FieldOfView::default()) else {
            panic!("the header is written at once")
        };
        assert!(error.contains("--log: cannot write /dev/full"), "{error}");
    }
}
