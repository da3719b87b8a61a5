//! Draws one moment of a scene as an equirectangular picture in 4:2:0.

use rayon::prelude::*;
use weftline_video::geometry::FrameSize;

use super::scene::{Color, Hit, Moment, Object, Textures, blend, scramble};
use super::vector::{Vec3, cos, sin, vec3};

/// A picture: planes of luma and of the two chroma differences, 8 bits, limited range, BT.709.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    size: FrameSize,
    luma: Vec<u8>,
    blue: Vec<u8>,
    red: Vec<u8>,
}

impl Picture {
    /// A black picture.
    pub fn new(size: FrameSize) -> Self {
        let pixels = size.width() as usize * size.height() as usize;
        let chroma = vec![128; pixels / 4];
        Self { size, luma: vec![16; pixels], blue: chroma.clone(), red: chroma }
    }

    /// Its size.
    pub fn size(&self) -> FrameSize {
        self.size
    }

    /// Luma, then the blue and the red difference, row by row without gaps.
    pub fn planes(&self) -> [&[u8]; 3] {
        [&self.luma, &self.blue, &self.red]
    }
}

/// Rows that are drawn at a time by one thread. Even, since chroma has half the rows.
const BAND: usize = 16;
/// Columns for which the objects that may be seen are listed together.
const BLOCK: usize = 32;

/// Draws `moment` as `picture`. `grain` is the standard deviation of the camera's noise in steps
/// of luma; `frame` makes that of each picture another one.
pub(super) fn draw(
    moment: &Moment,
    textures: &Textures,
    frame: u32,
    grain: f32,
    picture: &mut Picture,
) {
    let view = View::new(moment, textures, picture.size);
    let width = view.width;
    let bands = picture
        .luma
        .par_chunks_mut(BAND * width)
        .zip(picture.blue.par_chunks_mut(BAND / 2 * (width / 2)))
        .zip(picture.red.par_chunks_mut(BAND / 2 * (width / 2)));
    bands.enumerate().for_each(|(band, ((luma, blue), red))| {
        let colors = view.band(band * BAND, luma.len() / width);
        encode(&colors, width, luma, blue, red);
        add_grain(luma, width, band * BAND, frame, grain);
    });
}

/// What a frame is drawn from.
struct View<'a> {
    moment: &'a Moment,
    textures: &'a Textures,
    width: usize,
    height: usize,
    /// Sine and cosine of the yaw at ¼, ½ and ¾ of each column.
    columns: Vec<[(f32, f32); 3]>,
    /// Sine and cosine of the pitch at ¼, ½ and ¾ of each row.
    rows: Vec<[(f32, f32); 3]>,
    /// For each object the rows and columns in which it may be seen.
    boxes: Vec<Bounds>,
    /// The angle of a pixel in radians.
    pixel: f32,
}

/// Where in the frame an object may be seen.
struct Bounds {
    rows: (f64, f64),
    /// The middle, in columns from the left.
    column: f64,
    /// To either side, in columns.
    reach: f64,
}

/// What a ray meets: the sky, the ground or an object.
type Id = u16;
const SKY: Id = u16::MAX;
const GROUND: Id = u16::MAX - 1;

impl<'a> View<'a> {
    fn new(moment: &'a Moment, textures: &'a Textures, size: FrameSize) -> Self {
        use std::f64::consts::{PI, TAU};
        let (width, height) = (size.width() as usize, size.height() as usize);
        let angles = |n: usize, angle: &dyn Fn(f64) -> f64| {
            let at = |i: usize, part: f64| {
                let angle = angle(i as f64 + part);
                (sin(angle), cos(angle))
            };
            (0..n).map(|i| [at(i, 0.25), at(i, 0.5), at(i, 0.75)]).collect()
        };
        let yaw = moment.camera.yaw;
        let columns = angles(width, &|i| (i / width as f64 - 0.5) * TAU + yaw);
        let rows = angles(height, &|j| (0.5 - j / height as f64) * PI);
        let boxes = moment.objects.iter().map(|o| bounds(o, moment, width, height)).collect();
        let pixel = (TAU / width as f64) as f32;
        Self { moment, textures, width, height, columns, rows, boxes, pixel }
    }

    /// The colours of `rows` rows from `top` on.
    fn band(&self, top: usize, rows: usize) -> Vec<Color> {
        let lists = self.lists(top, rows);
        // One row more above and below: where the object changes, a pixel is drawn finer.
        let (first, last) = (top.saturating_sub(1), (top + rows + 1).min(self.height));
        let mut ids = Vec::with_capacity((last - first) * self.width);
        let mut colors = Vec::with_capacity(rows * self.width);
        for row in first..last {
            for column in 0..self.width {
                let ray = self.ray(column, row, 1, 1);
                let (id, hit) = self.meet(ray, &lists[column / BLOCK]);
                ids.push(id);
                if (top..top + rows).contains(&row) {
                    colors.push(self.color(id, hit, ray));
                }
            }
        }
        for row in top..top + rows {
            for column in 0..self.width {
                if is_edge(&ids, self.width, row - first, column) {
                    colors[(row - top) * self.width + column] =
                        self.fine(column, row, &lists[column / BLOCK]);
                }
            }
        }
        colors
    }

    /// The objects that may be seen in each block of columns of a band.
    fn lists(&self, top: usize, rows: usize) -> Vec<Vec<Id>> {
        let mut lists = vec![Vec::new(); self.width.div_ceil(BLOCK)];
        let width = self.width as f64;
        for (id, bounds) in self.boxes.iter().enumerate() {
            if bounds.rows.1 < top as f64 - 1.0 || bounds.rows.0 > (top + rows) as f64 + 1.0 {
                continue;
            }
            for (block, list) in lists.iter_mut().enumerate() {
                let middle = (block * BLOCK + BLOCK / 2) as f64;
                let apart = (middle - bounds.column).abs();
                // Around the back of the head.
                let apart = apart.min(width - apart);
                if apart <= bounds.reach + BLOCK as f64 / 2.0 + 1.0 {
                    list.push(id as Id);
                }
            }
        }
        lists
    }

    /// The direction of a pixel, or of a quarter of it (0 and 2 instead of 1).
    fn ray(&self, column: usize, row: usize, across: usize, down: usize) -> Vec3 {
        let (sin_yaw, cos_yaw) = self.columns[column][across];
        let (sin_pitch, cos_pitch) = self.rows[row][down];
        vec3(cos_pitch * cos_yaw, -cos_pitch * sin_yaw, sin_pitch)
    }

    /// What the ray meets first.
    fn meet(&self, ray: Vec3, list: &[Id]) -> (Id, Option<Hit>) {
        let from = self.moment.camera.position;
        let (mut id, mut nearest) = (SKY, None);
        let mut within = f32::INFINITY;
        if self.moment.ground.is_some() && ray.z < 0.0 {
            let distance = -from.z / ray.z;
            let local = from + ray * distance;
            id = GROUND;
            within = distance;
            nearest = Some(Hit { distance, normal: vec3(0.0, 0.0, 1.0), local });
        }
        for &object in list {
            let shape = &self.moment.objects[usize::from(object)].shape;
            if let Some(hit) = shape.hit(from, ray, within) {
                within = hit.distance;
                id = object;
                nearest = Some(hit);
            }
        }
        (id, nearest)
    }

    fn color(&self, id: Id, hit: Option<Hit>, ray: Vec3) -> Color {
        let moment = self.moment;
        let (Some(hit), Some(material)) = (hit, self.material(id)) else {
            return moment.sky.color_at(ray, self.pixel, self.textures);
        };
        // A surface seen at an angle is covered by a pixel over a longer stretch.
        let facing = (-ray.dot(hit.normal)).max(0.02);
        let footprint = self.pixel * hit.distance / facing.sqrt();
        let [r, g, b] = material.color_at(&hit, footprint, self.textures);
        let light = &moment.light;
        let lit = light.ambient * (0.75 + 0.25 * hit.normal.z)
            + light.direct * hit.normal.dot(light.direction).max(0.0);
        let lit = lit + (1.0 - lit) * material.glow;
        let haze = hit.distance / (hit.distance + moment.haze_m);
        blend([r * lit, g * lit, b * lit], moment.sky.horizon, haze)
    }

    fn material(&self, id: Id) -> Option<&super::scene::Material> {
        match id {
            SKY => None,
            GROUND => self.moment.ground.as_ref(),
            object => Some(&self.moment.objects[usize::from(object)].material),
        }
    }

    /// A pixel as the mean of its quarters.
    fn fine(&self, column: usize, row: usize, list: &[Id]) -> Color {
        let mut sum = [0.0; 3];
        for (across, down) in [(0, 0), (2, 0), (0, 2), (2, 2)] {
            let ray = self.ray(column, row, across, down);
            let (id, hit) = self.meet(ray, list);
            let color = self.color(id, hit, ray);
            for (sum, part) in sum.iter_mut().zip(color) {
                *sum += part * 0.25;
            }
        }
        sum
    }
}

/// Where `object` may be seen in a frame of `width × height`.
fn bounds(object: &Object, moment: &Moment, width: usize, height: usize) -> Bounds {
    use std::f64::consts::{FRAC_PI_2, PI, TAU};
    let (center, radius) = object.shape.bounds();
    let center = center - moment.camera.position;
    let distance = f64::from(center.length());
    // A hair larger than it is: what rounds must not cut.
    let radius = f64::from(radius) * 1.001;
    let (rows, columns) = (height as f64, width as f64);
    let everywhere = Bounds { rows: (0.0, rows), column: 0.0, reach: columns };
    if distance <= radius * 1.001 {
        return everywhere;
    }
    let angle = libm::asin(radius / distance);
    let pitch = libm::asin((f64::from(center.z) / distance).clamp(-1.0, 1.0));
    let row = |pitch: f64| (0.5 - pitch / PI) * rows;
    let seen = (row(pitch + angle) - 1.0, row(pitch - angle) + 1.0);
    if pitch.abs() + angle >= FRAC_PI_2 - 1e-3 {
        return Bounds { rows: seen, ..everywhere };
    }
    let reach = libm::asin((libm::sin(angle) / libm::cos(pitch)).clamp(-1.0, 1.0));
    let yaw = libm::atan2(-f64::from(center.y), f64::from(center.x)) - moment.camera.yaw;
    let turns = yaw / TAU + 0.5;
    let column = (turns - libm::floor(turns)) * columns;
    Bounds { rows: seen, column, reach: reach / TAU * columns + 1.0 }
}

/// Whether a neighbour shows something else.
fn is_edge(ids: &[Id], width: usize, row: usize, column: usize) -> bool {
    let at = |row: usize, column: usize| ids[row * width + column];
    let here = at(row, column);
    let left = if column == 0 { width - 1 } else { column - 1 };
    let right = if column + 1 == width { 0 } else { column + 1 };
    at(row, left) != here
        || at(row, right) != here
        || (row > 0 && at(row - 1, column) != here)
        || ((row + 2) * width <= ids.len() && at(row + 1, column) != here)
}

/// RGB to YCbCr by BT.709, limited range; chroma is the mean of 2 × 2 pixels.
fn encode(colors: &[Color], width: usize, luma: &mut [u8], blue: &mut [u8], red: &mut [u8]) {
    let brightness = |[r, g, b]: Color| 0.2126 * r + 0.7152 * g + 0.0722 * b;
    let clip = |c: Color| [c[0].clamp(0.0, 1.0), c[1].clamp(0.0, 1.0), c[2].clamp(0.0, 1.0)];
    for (luma, &color) in luma.iter_mut().zip(colors) {
        *luma = (16.5 + 219.0 * brightness(clip(color))) as u8;
    }
    let halves = blue.chunks_exact_mut(width / 2).zip(red.chunks_exact_mut(width / 2));
    for ((blue, red), rows) in halves.zip(colors.chunks_exact(2 * width)) {
        for (i, (blue, red)) in blue.iter_mut().zip(red).enumerate() {
            let mut mean = [0.0; 3];
            for at in [2 * i, 2 * i + 1, width + 2 * i, width + 2 * i + 1] {
                for (mean, part) in mean.iter_mut().zip(clip(rows[at])) {
                    *mean += part * 0.25;
                }
            }
            let y = brightness(mean);
            *blue = (128.5 + 224.0 * (mean[2] - y) / 1.8556) as u8;
            *red = (128.5 + 224.0 * (mean[0] - y) / 1.5748) as u8;
        }
    }
}

/// Adds the camera's noise to luma: of every pixel and picture another, about normal (the sum of
/// four uniform numbers).
fn add_grain(luma: &mut [u8], width: usize, top: usize, frame: u32, grain: f32) {
    if grain <= 0.0 {
        return;
    }
    // Four bytes have a standard deviation of 2 · √((256² − 1)/12) = 147.8.
    let scale = grain / 147.8;
    for (y, row) in luma.chunks_exact_mut(width).enumerate() {
        for (x, sample) in row.iter_mut().enumerate() {
            let hash = scramble(x as u32, (top + y) as u32, frame);
            let sum: u32 = hash.to_le_bytes().iter().map(|&byte| u32::from(byte)).sum();
            let noisy = f32::from(*sample) + 0.5 + (sum as f32 - 510.0) * scale;
            *sample = noisy.clamp(16.0, 235.0) as u8;
        }
    }
}
