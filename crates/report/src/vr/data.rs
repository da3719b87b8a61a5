//! What an evaluation wrote, read again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use weftline_scenario::{
    ResultsError, VR_GOPS, VR_GOPS_HEADER, VR_MOMENTS, VR_SESSIONS, VrMoment, VrRecord,
    read_vr_moments, read_vr_sessions,
};

use crate::ReportError;

/// The most rows of GoPs that are read.
const MAX_ROWS: usize = 10_000_000;
/// The longest row in bytes.
const MAX_LINE: u64 = 1 << 16;
/// The largest picture that a page takes, and all of them together.
const MAX_PICTURE: u64 = 1 << 20;
const MAX_PICTURES: u64 = 5 << 20;

/// The results of an evaluation.
pub(crate) struct VrData {
    pub(super) records: Vec<VrRecord>,
    pub(super) moments: Vec<VrMoment>,
    pub(super) strips: Vec<Strip>,
    /// PNG files by name.
    pub(super) pictures: BTreeMap<String, Vec<u8>>,
}

/// A tile scheme over a transport.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    scheme: String,
    transport: String,
}

impl Pair {
    pub(super) fn of(record: &VrRecord) -> Self {
        Self { scheme: record.scheme.clone(), transport: record.transport.clone() }
    }

    pub(super) fn name(&self) -> String {
        format!("{} over {}", self.scheme, self.transport)
    }
}

/// GoPs of one video under one condition.
pub(super) struct Strip {
    pub(super) video: String,
    pub(super) condition: String,
    pub(super) concealment: String,
    /// Pairs, and the mean PSNR of each GoP.
    pub(super) rows: Vec<(Pair, Vec<f64>)>,
}

impl VrData {
    /// Reads what is in `dir`; `None` if there is no evaluation.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, ReportError> {
        if !dir.join(VR_SESSIONS).exists() {
            return Ok(None);
        }
        let records = read_vr_sessions(dir)?;
        if records.is_empty() {
            return Ok(None);
        }
        let moments = match dir.join(VR_MOMENTS).exists() {
            true => read_vr_moments(dir)?,
            false => Vec::new(),
        };
        let strips = read_strips(&dir.join(VR_GOPS), &records)?;
        let pictures = read_pictures(dir, &moments)?;
        Ok(Some(Self { records, moments, strips, pictures }))
    }
}

/// Sums and counts of each GoP's PSNR.
type Sums = BTreeMap<(String, String), BTreeMap<Pair, Vec<(f64, u32)>>>;

/// The GoPs of the first seed with the first concealment.
fn read_strips(file: &Path, records: &[VrRecord]) -> Result<Vec<Strip>, ReportError> {
    let (seed, concealment) = (records[0].seed, records[0].concealment.as_str());
    let io = |source| ResultsError::Io { file: file.to_owned(), source };
    if !file.exists() {
        return Ok(Vec::new());
    }
    let mut reader = BufReader::new(File::open(file).map_err(io)?);
    let mut sums: Sums = BTreeMap::new();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        if (&mut reader).take(MAX_LINE).read_line(&mut text).map_err(io)? == 0 {
            break;
        }
        if line > MAX_ROWS {
            return Err(ReportError::TooLong { file: file.to_owned(), limit: MAX_ROWS });
        }
        let row = text.trim_end();
        let wrong = || ResultsError::Line {
            file: file.to_owned(),
            line,
            message: format!("is no row of '{VR_GOPS_HEADER}'"),
        };
        if line == 1 {
            if row != VR_GOPS_HEADER {
                return Err(wrong().into());
            }
            continue;
        }
        let row = Row::parse(row).ok_or_else(wrong)?;
        if row.seed == seed && row.concealment == concealment && row.gop < 10_000 {
            let pair = Pair { scheme: row.scheme.to_owned(), transport: row.transport.to_owned() };
            let key = (row.video.to_owned(), row.condition.to_owned());
            let gops = sums.entry(key).or_default().entry(pair).or_default();
            if gops.len() <= row.gop {
                gops.resize(row.gop + 1, (0.0, 0));
            }
            gops[row.gop].0 += row.psnr_db;
            gops[row.gop].1 += 1;
        }
    }
    let strip = |((video, condition), pairs): (_, BTreeMap<Pair, Vec<(f64, u32)>>)| Strip {
        video,
        condition,
        concealment: concealment.to_owned(),
        rows: pairs
            .into_iter()
            .map(|(pair, gops)| {
                (pair, gops.iter().map(|(sum, count)| sum / f64::from(*count)).collect())
            })
            .collect(),
    };
    Ok(sums.into_iter().map(strip).collect())
}

/// The cells of a row that strips need.
struct Row<'a> {
    video: &'a str,
    condition: &'a str,
    transport: &'a str,
    scheme: &'a str,
    concealment: &'a str,
    seed: u64,
    gop: usize,
    psnr_db: f64,
}

impl<'a> Row<'a> {
    fn parse(row: &'a str) -> Option<Self> {
        let mut cells = row.split(',');
        let [video, condition, transport, scheme, concealment] =
            [cells.next()?, cells.next()?, cells.next()?, cells.next()?, cells.next()?];
        let _viewer = cells.next()?;
        let (seed, gop) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
        let psnr_db = cells.next()?.parse().ok()?;
        Some(Self { video, condition, transport, scheme, concealment, seed, gop, psnr_db })
    }
}

/// The pictures that moments name: only plain names, which do not lead out of the directory.
fn read_pictures(
    dir: &Path,
    moments: &[VrMoment],
) -> Result<BTreeMap<String, Vec<u8>>, ReportError> {
    let mut pictures = BTreeMap::new();
    let mut all = 0;
    let names = moments.iter().flat_map(|moment| {
        moment.original.iter().chain(moment.plans.iter().filter_map(|plan| plan.picture.as_ref()))
    });
    for name in names {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let file = dir.join(name);
        let length = fs::metadata(&file).map_or(u64::MAX, |file| file.len());
        if !name.chars().all(plain) || length > MAX_PICTURE || all + length > MAX_PICTURES {
            continue;
        }
        all += length;
        let bytes = fs::read(&file).map_err(|source| ResultsError::Io { file, source })?;
        pictures.insert(name.clone(), bytes);
    }
    Ok(pictures)
}
