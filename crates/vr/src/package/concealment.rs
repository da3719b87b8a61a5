//! What the concealments of late tiles lose, measured on the source's own pictures: `miss.csv`.
//!
//! A tile in grey, and a tile that stands still at the last picture of the GoP one, two or three
//! before. To keep the cost small, every few pixels of four pictures of a GoP are compared instead
//! of all: a sample of squared errors, which is right on average. While a GoP's pictures are at
//! hand its sample is put beside its record, and the table is made of all samples at the end. A
//! sample that is not there (of a package begun before there were any) is decoded again.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use weftline_video::evaluate::ConcealmentTable;
use weftline_video::live::Digest;
use weftline_video::metric::SphereWeights;

use super::plan::{Description, write_whole};
use crate::error::VrError;

/// The table's file.
pub const CONCEALMENTS: &str = "miss.csv";

/// How many GoPs back a tile may stand still.
const AGES: usize = 3;
/// Pictures of a GoP in which errors are taken, beside the last one, which later GoPs may show.
const PICTURES: usize = 4;
/// Mid-grey.
pub(crate) const GREY: u8 = 128;
/// The distance of the pixels that are taken: at most that many to a row, but some of every tile.
const ACROSS: u32 = 480;
const MAX_STEP: u32 = 8;

/// Reads the table of the package in `dir`.
pub(crate) fn read(dir: &Path, plan: &Description) -> Result<ConcealmentTable, VrError> {
    let path = dir.join(CONCEALMENTS);
    let remedy =
        "run the same weftline vr package again: it adds the table and encodes nothing anew";
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => VrError::damaged(
            &path,
            format!("there is no table of concealments, as in packages of before; {remedy}"),
        ),
        _ => VrError::io("read", &path)(error),
    })?;
    let table = ConcealmentTable::parse(&text)
        .map_err(|why| VrError::damaged(&path, format!("{why}; remove it and {remedy}")))?;
    let (gops, tiles) = (plan.gops as usize, plan.grid().tiles());
    if table.gops() != gops || (0..gops).any(|gop| table.tiles(gop) != tiles) {
        let got = table.gops();
        let why = format!("is for {got} GoPs, not for {gops} of {tiles} tiles");
        return Err(VrError::damaged(&path, format!("{why}; remove it and {remedy}")));
    }
    if plan.tables.is_some_and(|tables| tables.concealments != Digest::of(text.as_bytes())) {
        let why = format!("has other bytes than were packaged; {remedy}");
        return Err(VrError::damaged(&path, why));
    }
    Ok(table)
}

/// Keeps a sample of a GoP's luma until the table is made.
pub(crate) fn keep(dir: &Path, plan: &Description, gop: u32, luma: &[u8]) -> Result<(), VrError> {
    let path = sample_path(dir, gop);
    fs::write(&path, Lattice::new(plan).sample(plan, luma)).map_err(VrError::io("write", &path))
}

/// Makes the table, unless it is there, and removes the samples. `pictures` decodes the luma of a
/// GoP whose sample is not there.
pub(crate) fn conclude(
    dir: &Path,
    plan: &Description,
    pictures: &mut dyn FnMut(u32) -> Result<Vec<u8>, VrError>,
) -> Result<(), VrError> {
    if read(dir, plan).is_err() {
        let table = measure(dir, plan, pictures)?;
        write_whole(&dir.join(CONCEALMENTS), table.to_csv().as_bytes())?;
    }
    for gop in 0..plan.gops {
        let path = sample_path(dir, gop);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(VrError::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn sample_path(dir: &Path, gop: u32) -> PathBuf {
    dir.join("gops").join(format!("{gop:06}.luma"))
}

fn measure(
    dir: &Path,
    plan: &Description,
    pictures: &mut dyn FnMut(u32) -> Result<Vec<u8>, VrError>,
) -> Result<ConcealmentTable, VrError> {
    let (mut grey, mut stale) = (Vec::new(), Vec::new());
    let mut following = Following::new(plan);
    for gop in 0..plan.gops {
        let sample = match fs::read(sample_path(dir, gop)) {
            Ok(sample) if sample.len() == following.lattice.sample_bytes() => sample,
            _ => following.lattice.sample(plan, &pictures(gop)?),
        };
        let (lost, changed) = following.next_sample(&sample).into_iter().unzip();
        grey.push(lost);
        stale.push(changed);
    }
    ConcealmentTable::new(grey, stale).map_err(|why| VrError::damaged(dir, why.to_string()))
}

/// GoPs that follow each other: what concealments lose in each, from the last pictures of those before.
pub(crate) struct Following {
    lattice: Lattice,
    /// The last pictures of the GoPs before, the latest first; `None` of those that never were.
    before: VecDeque<Option<Vec<u8>>>,
}

impl Following {
    /// None was before.
    pub(crate) fn new(plan: &Description) -> Self {
        Self { lattice: Lattice::new(plan), before: VecDeque::new() }
    }

    /// So many GoPs are left out.
    pub(crate) fn skip(&mut self, gops: u32) {
        for _ in 0..gops.min(AGES as u32) {
            self.note(None);
        }
    }

    /// What each tile of the next GoP loses in grey, and standing still since each of the GoPs before.
    pub(crate) fn next(&mut self, plan: &Description, luma: &[u8]) -> Vec<(f64, Vec<f64>)> {
        self.next_sample(&self.lattice.sample(plan, luma))
    }

    fn next_sample(&mut self, sample: &[u8]) -> Vec<(f64, Vec<f64>)> {
        let lattice = &self.lattice;
        let (shown, last) = sample.split_at(lattice.points.len() * PICTURES);
        let lost = lattice.errors(shown, |_| GREY);
        let age = |old: &Option<Vec<u8>>| match old {
            Some(old) => lattice.errors(shown, |point| old[point]),
            None => lost.clone(),
        };
        let mut ages: Vec<Vec<f64>> = self.before.iter().map(age).collect();
        // Before the first GoP there is nothing to stand still.
        ages.resize(AGES, lost.clone());
        let of_tile = |tile: usize| (lost[tile], ages.iter().map(|age| age[tile]).collect());
        let concealments = (0..lost.len()).map(of_tile).collect();
        self.note(Some(last.to_vec()));
        concealments
    }

    fn note(&mut self, last: Option<Vec<u8>>) {
        self.before.push_front(last);
        self.before.truncate(AGES);
    }
}

/// The pixels of a picture that are taken.
struct Lattice {
    /// Index of the pixel, its tile, and its weight.
    points: Vec<(usize, usize, f64)>,
    /// Per tile: its share of the frame's weight by that of its points in all pictures taken.
    scale: Vec<f64>,
}

impl Lattice {
    fn new(plan: &Description) -> Self {
        let (frame, grid) = (plan.frame(), plan.grid());
        let weights = SphereWeights::new(frame);
        let step = frame.width().div_ceil(ACROSS).min(MAX_STEP);
        let tile = grid.rect(0, frame);
        let mut points = Vec::new();
        let mut sums = vec![0.0; grid.tiles()];
        for row in (step / 2..frame.height()).step_by(step as usize) {
            for column in (step / 2..frame.width()).step_by(step as usize) {
                let tile = (row / tile.height) * grid.columns() + column / tile.width;
                let (tile, weight) = (tile as usize, weights.row(row));
                sums[tile] += weight;
                points.push(((row * frame.width() + column) as usize, tile, weight));
            }
        }
        let share = |tile| weights.share(grid.rect(tile, frame));
        let scale = sums.iter().enumerate().map(|(tile, sum)| share(tile) / sum / PICTURES as f64);
        Self { points, scale: scale.collect() }
    }

    /// The length of a sample.
    fn sample_bytes(&self) -> usize {
        self.points.len() * (PICTURES + 1)
    }

    /// The points of some pictures of a GoP, evenly apart, and of the last one.
    fn sample(&self, plan: &Description, luma: &[u8]) -> Vec<u8> {
        let pixels = plan.width as usize * plan.height as usize;
        let frames = plan.gop_frames as usize;
        let middles = (0..PICTURES).map(|index| (2 * index + 1) * frames / (2 * PICTURES));
        let mut sample = Vec::with_capacity(self.sample_bytes());
        for picture in middles.chain([frames - 1]) {
            let picture = &luma[picture * pixels..][..pixels];
            sample.extend(self.points.iter().map(|(at, ..)| picture[*at]));
        }
        sample
    }

    /// Each tile's part of the frame's WS-MSE when `shown` is there in place of the pictures: of
    /// a point, by its number.
    fn errors(&self, pictures: &[u8], shown: impl Fn(usize) -> u8) -> Vec<f64> {
        let mut sums = vec![0.0; self.scale.len()];
        for picture in pictures.chunks_exact(self.points.len()) {
            for (index, (sample, (_, tile, weight))) in picture.iter().zip(&self.points).enumerate()
            {
                let error = f64::from(sample.abs_diff(shown(index)));
                sums[*tile] += weight * error * error;
            }
        }
        sums.iter().zip(&self.scale).map(|(sum, scale)| sum * scale).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64×32 in 2×1 tiles, GoPs of 4 pictures.
    fn plan(gops: u32) -> Description {
        Description {
            format: String::new(),
            source: "plain.y4m".to_owned(),
            source_bytes: 1,
            source_digest: String::new(),
            source_blocks: None,
            width: 64,
            height: 32,
            columns: 2,
            rows: 1,
            qps: vec![22],
            fps_numerator: 4,
            fps_denominator: 1,
            gop_frames: 4,
            gops,
            preset: "ultrafast".to_owned(),
            ffmpeg: String::new(),
            mbps: Vec::new(),
            colour: None,
            sound: None,
            whole: None,
            tables: None,
            complete: false,
        }
    }

    /// Pictures whose left and right halves are plain.
    fn luma(halves: [[u8; 2]; 4]) -> Vec<u8> {
        let row = |[left, right]: [u8; 2]| [[left; 32], [right; 32]].concat();
        halves.into_iter().flat_map(|half| row(half).repeat(32)).collect()
    }

    #[test]
    fn grey_and_standing_still_lose_what_they_should() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("gops")).unwrap();
        let plan = plan(3);
        let gops = [
            luma([[128, 100]; 4]),
            luma([[128, 100], [128, 100], [128, 104], [130, 108]]),
            luma([[130, 108]; 4]),
        ];
        // The second one's sample has been lost, and the third one's was cut.
        keep(dir.path(), &plan, 0, &gops[0]).unwrap();
        fs::write(sample_path(dir.path(), 2), b"cut").unwrap();
        assert!(read(dir.path(), &plan).unwrap_err().to_string().contains("run the same"));
        let mut asked = Vec::new();
        conclude(dir.path(), &plan, &mut |gop| {
            asked.push(gop);
            Ok(gops[gop as usize].clone())
        })
        .unwrap();
        assert_eq!(asked, [1, 2]);
        let table = fs::read_to_string(dir.path().join(CONCEALMENTS)).unwrap();
        let rows: Vec<Vec<f64>> = table
            .lines()
            .skip(1)
            .map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect())
            .collect();
        // Each tile is half of the sphere: its mean squared error by two. GoP 1, right tile: grey
        // 28², 28², 24², 20²; still at 100: 0, 0, 4², 8². Before the first GoP all is grey.
        let wanted = [
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 1.0, 392.0, 392.0, 392.0, 392.0],
            [1.0, 0.0, 0.5, 0.5, 0.5, 0.5],
            [1.0, 1.0, 318.0, 10.0, 318.0, 318.0],
            [2.0, 0.0, 2.0, 0.0, 2.0, 2.0],
            [2.0, 1.0, 200.0, 0.0, 32.0, 200.0],
        ];
        assert_eq!(rows.len(), wanted.len());
        for (row, wanted) in rows.iter().flatten().zip(wanted.iter().flatten()) {
            assert!((row - wanted).abs() < 1e-9, "{rows:?}");
        }
        assert_eq!(fs::read_dir(dir.path().join("gops")).unwrap().count(), 0, "no samples stay");
        // Once it is there it is left alone.
        conclude(dir.path(), &plan, &mut |_| panic!("nothing to decode")).unwrap();
        assert_eq!(read(dir.path(), &plan).unwrap().gops(), 3);
        let longer = Description { gops: 4, ..plan };
        assert!(read(dir.path(), &longer).unwrap_err().to_string().contains("3 GoPs, not for 4"));
    }

    #[test]
    fn large_frames_are_sampled_and_small_tiles_are_not_left_out() {
        let large = Description { width: 8192, height: 4096, columns: 64, rows: 64, ..plan(1) };
        let lattice = Lattice::new(&large);
        assert_eq!(lattice.points.len(), 1024 * 512);
        assert!(lattice.scale.iter().all(|scale| scale.is_finite()));
    }
}
