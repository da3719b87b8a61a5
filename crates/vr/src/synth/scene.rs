//! What a scene is made of: objects with their materials, the ground, the sky, the light.

use weftline_core::rng::Rng;

use super::texture::Texture;
use super::vector::{Vec3, floor, mix, smoothstep, vec3};

/// A colour: red, green and blue as a display takes them (gamma-encoded), each from 0 to 1.
pub(super) type Color = [f32; 3];

/// One moment of a scene.
pub(super) struct Moment {
    pub(super) camera: Camera,
    pub(super) objects: Vec<Object>,
    /// The ground at height 0, if there is one.
    pub(super) ground: Option<Material>,
    pub(super) sky: Sky,
    pub(super) light: Light,
    /// How far one sees: at this distance half of what is seen is haze, of the sky's colour at the
    /// horizon.
    pub(super) haze_m: f32,
}

/// Where the scene is seen from.
#[derive(Clone, Copy)]
pub(super) struct Camera {
    pub(super) position: Vec3,
    /// To the right of the x axis, in radians.
    pub(super) yaw: f64,
}

/// A thing with a surface.
pub(super) struct Object {
    pub(super) shape: Shape,
    pub(super) material: Material,
}

/// The solids, all upright.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Sphere {
        center: Vec3,
        radius: f32,
    },
    /// Stands on `foot`.
    Cylinder {
        foot: Vec3,
        radius: f32,
        height: f32,
    },
    /// The middle and half of each side.
    Cuboid {
        center: Vec3,
        half: Vec3,
    },
}

/// What a surface looks like.
#[derive(Clone, Copy)]
pub(super) struct Material {
    pub(super) color: Color,
    /// How much of the colour is noise: about the standard deviation over the mean.
    pub(super) contrast: f32,
    /// The size of the coarsest detail, in metres; finer detail goes on without end.
    pub(super) size_m: f32,
    pub(super) pattern: Pattern,
    /// How much of the colour does not depend on the light, from 0 to 1.
    pub(super) glow: f32,
    /// By how much the texture has moved over the surface, in metres.
    pub(super) drift: (f32, f32),
}

/// What regular thing a surface has besides noise.
#[derive(Clone, Copy)]
pub(super) enum Pattern {
    Plain,
    /// Rows of `width × height` with joints of a twelfth of the height, every second row shifted.
    Bricks {
        width: f32,
        height: f32,
    },
    /// Darker panes in a wall, one for every `width × height`; some are lit.
    Windows {
        width: f32,
        height: f32,
    },
    /// A second wave of noise of half the size that moves the other way, as on water.
    Waves,
    /// Lines of the given distance and width.
    Lines {
        every: f32,
        width: f32,
    },
}

/// What is behind everything.
#[derive(Clone, Copy)]
pub(super) struct Sky {
    pub(super) zenith: Color,
    pub(super) horizon: Color,
    /// How much of the sky the clouds cover, from 0 to 1.
    pub(super) clouds: f32,
    /// By how much the clouds have moved, in metres.
    pub(super) drift: (f32, f32),
    /// How high hills at the horizon are: the tangent of their elevation.
    pub(super) hills: f32,
    /// Share of the sky's places that have a star.
    pub(super) stars: f32,
}

/// A far light, and what comes from everywhere.
#[derive(Clone, Copy)]
pub(super) struct Light {
    /// Towards the light, of length 1.
    pub(super) direction: Vec3,
    pub(super) direct: f32,
    pub(super) ambient: f32,
}

/// The textures that all materials share.
pub(super) struct Textures {
    pub(super) rough: Texture,
    pub(super) soft: Texture,
}

impl Textures {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rough: Texture::new(&mut Rng::stream(seed, "synth/texture/rough"), 0.9),
            soft: Texture::new(&mut Rng::stream(seed, "synth/texture/soft"), 0.6),
        }
    }
}

/// Where a ray meets a surface.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    /// In metres from the camera.
    pub(super) distance: f32,
    pub(super) normal: Vec3,
    /// The place relative to the object, which the texture is fixed to.
    pub(super) local: Vec3,
}

impl Material {
    /// A surface of plain noise.
    pub(super) const fn new(color: Color, contrast: f32, size_m: f32) -> Self {
        Self { color, contrast, size_m, pattern: Pattern::Plain, glow: 0.0, drift: (0.0, 0.0) }
    }

    pub(super) const fn with_pattern(mut self, pattern: Pattern) -> Self {
        self.pattern = pattern;
        self
    }

    pub(super) const fn with_glow(mut self, glow: f32) -> Self {
        self.glow = glow;
        self
    }

    pub(super) const fn with_drift(mut self, x: f32, y: f32) -> Self {
        self.drift = (x, y);
        self
    }

    /// The colour before light falls on it. A pixel covers `footprint` metres of the surface.
    pub(super) fn color_at(&self, hit: &Hit, footprint: f32, textures: &Textures) -> Color {
        let (x, y) = hit.surface_place();
        let (x, y) = (x + self.drift.0, y + self.drift.1);
        let mut noise = textures.rough.detail(x, y, self.size_m, footprint);
        let mut factor = 1.0;
        match self.pattern {
            Pattern::Plain => {}
            Pattern::Bricks { width, height } => {
                factor = bricks(x, y, width, height, footprint);
            }
            Pattern::Windows { width, height } => {
                factor = windows(x, y, width, height, footprint);
                // Panes are smoother than walls.
                noise *= factor.min(1.0);
            }
            Pattern::Waves => {
                let (x, y) = (x - 2.0 * self.drift.0, y - 1.7 * self.drift.1);
                noise = (noise + textures.soft.detail(y, x, self.size_m * 0.5, footprint)) * 0.7;
            }
            Pattern::Lines { every, width } => {
                factor = 1.0 - 0.6 * line(x, every, width, footprint);
            }
        }
        let shade = factor * (1.0 + self.contrast * noise).max(0.05);
        // Light and dark places differ a little in hue, too.
        let warm = 0.06 * self.contrast * noise;
        let [r, g, b] = self.color;
        [r * (shade + warm), g * shade, b * (shade - warm)]
    }
}

/// Two rows of bricks with mortar, faded out where a pixel is larger than a joint.
fn bricks(x: f32, y: f32, width: f32, height: f32, footprint: f32) -> f32 {
    let row = floor(y / height);
    let shift = if row & 1 == 0 { 0.0 } else { 0.5 * width };
    let joint = height / 12.0;
    let across = line(x + shift, width, joint, footprint);
    let down = line(y, height, joint, footprint);
    1.0 - 0.45 * across.max(down)
}

/// Panes in a wall: dark ones, and every fifth lit.
fn windows(x: f32, y: f32, width: f32, height: f32, footprint: f32) -> f32 {
    let (column, row) = (floor(x / width), floor(y / height));
    let edge = |place: f32, of: f32| {
        let place = (place / of - floor(place / of) as f32 - 0.5).abs() * of;
        smoothstep(0.3 * of + footprint, 0.3 * of - footprint, place)
    };
    let inside = edge(x, width) * edge(y, height);
    let lit = scramble(column as u32, row as u32, 0).is_multiple_of(5);
    mix(1.0, if lit { 1.4 } else { 0.3 }, inside)
}

/// 1 on a line of `width`, one every `every`; blurred over a pixel and gone where they are too
/// close to be told apart.
fn line(x: f32, every: f32, width: f32, footprint: f32) -> f32 {
    let place = x / every;
    let from_line = (place - floor(place + 0.5) as f32).abs() * every;
    let blur = footprint.max(width * 0.1);
    let sharp = smoothstep(0.5 * width + blur, 0.5 * width - blur, from_line);
    let mean = (width / every).min(1.0);
    mix(sharp, mean, smoothstep(0.2 * every, 0.6 * every, footprint))
}

/// A hash of three numbers (the finaliser of MurmurHash3 over their sum with odd factors).
pub(super) fn scramble(a: u32, b: u32, c: u32) -> u32 {
    let mut h = a
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add(b.wrapping_mul(0x85eb_ca77))
        .wrapping_add(c.wrapping_mul(0xc2b2_ae3d));
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

impl Hit {
    /// The place on the surface in metres: the local place seen along the axis that the normal is
    /// nearest to.
    fn surface_place(&self) -> (f32, f32) {
        let (n, p) = (self.normal, self.local);
        let (x, y, z) = (n.x.abs(), n.y.abs(), n.z.abs());
        if z >= x && z >= y {
            (p.x, p.y)
        } else if x >= y {
            (p.y, p.z)
        } else {
            (p.x, p.z)
        }
    }
}

impl Shape {
    /// A sphere around the solid: its middle and radius.
    pub(super) fn bounds(&self) -> (Vec3, f32) {
        match *self {
            Self::Sphere { center, radius } => (center, radius),
            Self::Cylinder { foot, radius, height } => {
                let half = 0.5 * height;
                (foot + vec3(0.0, 0.0, half), (radius * radius + half * half).sqrt())
            }
            Self::Cuboid { center, half } => (center, half.length()),
        }
    }

    /// Where the ray from `from` towards `direction` (of length 1) first meets the solid from
    /// outside, nearer than `within` metres.
    pub(super) fn hit(&self, from: Vec3, direction: Vec3, within: f32) -> Option<Hit> {
        let hit = match *self {
            Self::Sphere { center, radius } => hit_sphere(from - center, direction, radius),
            Self::Cylinder { foot, radius, height } => {
                hit_cylinder(from - foot, direction, radius, height)
            }
            Self::Cuboid { center, half } => hit_cuboid(from - center, direction, half),
        };
        hit.filter(|hit| hit.distance < within)
    }
}

fn hit_sphere(from: Vec3, direction: Vec3, radius: f32) -> Option<Hit> {
    let towards = -from.dot(direction);
    let square = towards * towards - from.dot(from) + radius * radius;
    if square < 0.0 || towards < 0.0 {
        return None;
    }
    let distance = towards - square.sqrt();
    let local = from + direction * distance;
    (distance > 0.0).then(|| Hit { distance, normal: local * (1.0 / radius), local })
}

fn hit_cylinder(from: Vec3, direction: Vec3, radius: f32, height: f32) -> Option<Hit> {
    let flat = direction.x * direction.x + direction.y * direction.y;
    let towards = -(from.x * direction.x + from.y * direction.y);
    let outside = from.x * from.x + from.y * from.y - radius * radius;
    if flat > 0.0 && outside > 0.0 {
        let square = towards * towards - flat * outside;
        if square < 0.0 {
            return None;
        }
        let distance = (towards - square.sqrt()) / flat;
        let local = from + direction * distance;
        if distance > 0.0 && (0.0..=height).contains(&local.z) {
            let normal = vec3(local.x, local.y, 0.0) * (1.0 / radius);
            return Some(Hit { distance, normal, local });
        }
    }
    // Past the side, there is the lid that is seen, from above or below.
    let (lid, up) = if from.z > height { (height, 1.0) } else { (0.0, -1.0) };
    let distance = (lid - from.z) / direction.z;
    let local = from + direction * distance;
    let inside = local.x * local.x + local.y * local.y <= radius * radius;
    let seen = !(0.0..=height).contains(&from.z) && distance > 0.0 && inside;
    seen.then_some(Hit { distance, normal: vec3(0.0, 0.0, up), local })
}

fn hit_cuboid(from: Vec3, direction: Vec3, half: Vec3) -> Option<Hit> {
    let (mut near, mut far) = (0.0_f32, f32::INFINITY);
    let mut normal = vec3(0.0, 0.0, 0.0);
    let axes = [
        (from.x, direction.x, half.x, vec3(1.0, 0.0, 0.0)),
        (from.y, direction.y, half.y, vec3(0.0, 1.0, 0.0)),
        (from.z, direction.z, half.z, vec3(0.0, 0.0, 1.0)),
    ];
    for (from, direction, half, axis) in axes {
        if direction == 0.0 {
            if from.abs() > half {
                return None;
            }
            continue;
        }
        let sign = if direction > 0.0 { 1.0 } else { -1.0 };
        let (enter, leave) = ((-half * sign - from) / direction, (half * sign - from) / direction);
        if enter > near {
            near = enter;
            normal = axis * -sign;
        }
        far = far.min(leave);
    }
    let local = from + direction * near;
    (near > 0.0 && near <= far).then_some(Hit { distance: near, normal, local })
}

impl Sky {
    /// A sky without clouds, hills or stars.
    pub(super) const fn plain(zenith: Color, horizon: Color) -> Self {
        Self { zenith, horizon, clouds: 0.0, drift: (0.0, 0.0), hills: 0.0, stars: 0.0 }
    }

    /// The colour towards `direction`, of length 1, where a pixel covers `footprint` radians.
    pub(super) fn color_at(&self, direction: Vec3, footprint: f32, textures: &Textures) -> Color {
        let up = direction.z.max(0.0);
        // The horizon's colour fills most of what is low, as air does.
        let height = 1.0 - (1.0 - up) * (1.0 - up);
        let mut color = blend(self.horizon, self.zenith, height);
        if self.stars > 0.0 {
            color = self.star(direction, color);
        }
        if self.clouds > 0.0 && direction.z > 0.02 {
            color = self.cloud(direction, footprint, color, textures);
        }
        if self.hills > 0.0 && direction.z < 2.0 * self.hills {
            color = self.hill(direction, footprint, color, textures);
        }
        color
    }

    /// Clouds lie in a plane a kilometre up.
    fn cloud(&self, direction: Vec3, footprint: f32, sky: Color, textures: &Textures) -> Color {
        const ALTITUDE_M: f32 = 1000.0;
        let distance = ALTITUDE_M / direction.z;
        let place = direction * distance;
        let (x, y) = (place.x + self.drift.0, place.y + self.drift.1);
        let noise = textures.soft.detail(x, y, 6000.0, footprint * distance / direction.z.sqrt());
        let least = 1.5 - 3.0 * self.clouds;
        let cover = smoothstep(least, least + 1.4, noise) * smoothstep(0.02, 0.2, direction.z);
        let white = 0.95 - 0.12 * smoothstep(least + 0.7, least + 2.5, noise);
        blend(sky, [white, white, white], cover)
    }

    /// Hills are a silhouette, with woods on them.
    fn hill(&self, direction: Vec3, footprint: f32, sky: Color, textures: &Textures) -> Color {
        const DISTANCE_M: f32 = 2000.0;
        let flat = (direction.x * direction.x + direction.y * direction.y).sqrt().max(1e-6);
        let (x, y) = (direction.x / flat, direction.y / flat);
        let ridge = textures.soft.detail(x, y, 2.3, footprint.max(0.002));
        let above = direction.z / flat - self.hills * (0.6 + 0.3 * ridge);
        let cover = smoothstep(footprint, -footprint, above);
        if cover == 0.0 {
            return sky;
        }
        let along = (x + y * 0.7) * DISTANCE_M;
        let wood = textures.rough.detail(along, above * DISTANCE_M, 300.0, footprint * DISTANCE_M);
        let shade = 0.36 + 0.07 * wood;
        blend(sky, blend([shade * 0.8, shade, shade * 0.75], self.horizon, 0.35), cover)
    }

    /// One place in many has a star, the same one in every frame.
    fn star(&self, direction: Vec3, sky: Color) -> Color {
        const PLACES: f32 = 220.0;
        let place = direction * PLACES;
        let (x, y, z) = (floor(place.x), floor(place.y), floor(place.z));
        let hash = scramble(x as u32, y as u32, z as u32);
        if (hash & 0xffff) as f32 >= self.stars * 65536.0 {
            return sky;
        }
        let part = |shift: u32| 0.3 + 0.4 * ((hash >> shift) & 0xf) as f32 / 15.0;
        let from = vec3(x as f32 + part(16), y as f32 + part(20), z as f32 + part(24));
        let off = (place - from).length();
        let bright = smoothstep(0.45, 0.0, off) * (0.3 + 0.7 * (hash >> 28) as f32 / 15.0);
        blend(sky, [1.0, 0.97, 0.9], bright)
    }
}

/// `a` at 0, `b` at 1.
pub(super) fn blend(a: Color, b: Color, t: f32) -> Color {
    [mix(a[0], b[0], t), mix(a[1], b[1], t), mix(a[2], b[2], t)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD: Vec3 = vec3(1.0, 0.0, 0.0);

    fn near(hit: Option<Hit>, distance: f32, normal: Vec3) {
        let hit = hit.expect("the ray meets the solid");
        assert!((hit.distance - distance).abs() < 1e-4, "{}", hit.distance);
        assert!((hit.normal - normal).length() < 1e-4, "{:?}", hit.normal);
    }

    #[test]
    fn rays_meet_solids_where_geometry_says() {
        let origin = Vec3::default();
        let sphere = Shape::Sphere { center: vec3(5.0, 0.0, 0.0), radius: 2.0 };
        near(sphere.hit(origin, AHEAD, 10.0), 3.0, -AHEAD);
        let cylinder = Shape::Cylinder { foot: vec3(5.0, 0.0, -1.0), radius: 1.0, height: 2.0 };
        near(cylinder.hit(origin, AHEAD, 10.0), 4.0, -AHEAD);
        near(
            cylinder.hit(vec3(5.0, 0.5, 4.0), vec3(0.0, 0.0, -1.0), 10.0),
            3.0,
            vec3(0.0, 0.0, 1.0),
        );
        let cuboid = Shape::Cuboid { center: vec3(0.0, -6.0, 0.0), half: vec3(1.0, 2.0, 1.0) };
        near(cuboid.hit(origin, vec3(0.0, -1.0, 0.0), 10.0), 4.0, vec3(0.0, 1.0, 0.0));
    }

    #[test]
    fn rays_miss_what_is_behind_beside_and_too_far() {
        let origin = Vec3::default();
        let sphere = Shape::Sphere { center: vec3(5.0, 0.0, 0.0), radius: 2.0 };
        assert!(sphere.hit(origin, -AHEAD, 10.0).is_none());
        assert!(sphere.hit(vec3(0.0, 2.5, 0.0), AHEAD, 10.0).is_none());
        assert!(sphere.hit(origin, AHEAD, 2.9).is_none());
        let cuboid = Shape::Cuboid { center: vec3(0.0, -6.0, 0.0), half: vec3(1.0, 2.0, 1.0) };
        assert!(cuboid.hit(origin, AHEAD, 10.0).is_none());
        let cylinder = Shape::Cylinder { foot: vec3(5.0, 0.0, -1.0), radius: 1.0, height: 2.0 };
        assert!(cylinder.hit(vec3(0.0, 0.0, 1.5), AHEAD, 10.0).is_none());
    }
}
