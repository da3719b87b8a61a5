//! The scenes: one file and one line of the table each.

mod coast;
mod drive;
mod forest;
mod hall;
mod orbit;
mod plaza;
mod reef;
mod rink;

use weftline_core::rng::Rng;

use super::scene::{Material, Moment, Object, Shape};
use super::vector::{Vec3, cos, sin, vec3};

/// What a scene shows at a time in seconds.
pub(super) type World = Box<dyn Fn(f64) -> Moment + Send + Sync>;

/// A scene that can be drawn.
#[derive(Clone, Copy)]
pub struct Scene {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What is seen, and what moves.
    pub about: &'static str,
    /// The camera's noise: its standard deviation in steps of luma.
    pub grain: f32,
    /// Builds the scene for a seed.
    pub(super) build: fn(u64) -> World,
}

/// All scenes, by name.
pub const SCENES: &[Scene] = &[
    Scene {
        name: "coast",
        about: "sea, beach and a wide plain sky; waves, birds and boats; the camera stands",
        grain: 2.0,
        build: coast::build,
    },
    Scene {
        name: "drive",
        about: "a road through fields; the camera drives at 14 m/s past trees and poles",
        grain: 1.8,
        build: drive::build,
    },
    Scene {
        name: "forest",
        about: "trunks and leaves all around; the camera walks at 1.4 m/s",
        grain: 1.6,
        build: forest::build,
    },
    Scene {
        name: "hall",
        about: "dancers under moving lights in a dark hall; the camera stands",
        grain: 2.6,
        build: hall::build,
    },
    Scene {
        name: "orbit",
        about: "a planet and a station against stars; most of the frame is black",
        grain: 1.5,
        build: orbit::build,
    },
    Scene {
        name: "plaza",
        about: "a square with houses, people, buses and thin clouds; the camera stands",
        grain: 2.0,
        build: plaza::build,
    },
    Scene {
        name: "reef",
        about: "under water: coral, shoals of fish and moving light; the camera drifts",
        grain: 1.5,
        build: reef::build,
    },
    Scene {
        name: "rink",
        about: "players on plain ice before full stands, fast; the camera stands",
        grain: 2.0,
        build: rink::build,
    },
];

/// Uniform numbers for building a scene.
struct Dice(Rng);

impl Dice {
    fn new(seed: u64, name: &str) -> Self {
        Self(Rng::stream(seed, &format!("synth/scene/{name}")))
    }

    /// A number from `from` to `to`.
    fn between(&mut self, from: f32, to: f32) -> f32 {
        from + (to - from) * self.0.unit_f64() as f32
    }

    /// One of the first `n` numbers.
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
}

/// A thing.
fn object(shape: Shape, material: Material) -> Object {
    Object { shape, material }
}

/// A place that goes round on a flat ellipse.
#[derive(Clone, Copy)]
struct Circuit {
    center: Vec3,
    /// Half the lengths of the ellipse along x and y.
    reach: (f32, f32),
    /// Rounds in a second; negative goes the other way.
    rounds_per_s: f64,
    /// Where it is at the start, in rounds.
    start: f64,
}

impl Circuit {
    fn at(&self, time_s: f64) -> Vec3 {
        let angle = (self.start + self.rounds_per_s * time_s) * std::f64::consts::TAU;
        self.center + vec3(self.reach.0 * cos(angle), self.reach.1 * sin(angle), 0.0)
    }
}

/// A person who stands at `foot`: legs, trunk and head, with a step of `step` metres up.
fn person(foot: Vec3, step: f32, clothes: Material, objects: &mut Vec<Object>) {
    let skin = Material::new([0.78, 0.6, 0.5], 0.08, 0.3);
    let trousers = Material::new([0.2, 0.21, 0.28], 0.2, 0.4);
    let foot = foot + vec3(0.0, 0.0, step);
    let up = |height| foot + vec3(0.0, 0.0, height);
    objects.push(object(Shape::Cylinder { foot, radius: 0.16, height: 0.85 }, trousers));
    objects.push(object(Shape::Cylinder { foot: up(0.85), radius: 0.23, height: 0.6 }, clothes));
    objects.push(object(Shape::Sphere { center: up(1.62), radius: 0.14 }, skin));
}

/// A colour out of a small wardrobe.
fn clothes(dice: &mut Dice) -> Material {
    const COLORS: [[f32; 3]; 6] = [
        [0.75, 0.2, 0.18],
        [0.2, 0.35, 0.65],
        [0.85, 0.82, 0.75],
        [0.25, 0.5, 0.3],
        [0.8, 0.65, 0.2],
        [0.3, 0.28, 0.32],
    ];
    let color = COLORS[dice.below(COLORS.len() as u64) as usize];
    Material::new(color, dice.between(0.1, 0.3), 0.6)
}
