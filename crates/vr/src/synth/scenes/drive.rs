//! A road through fields, seen from a car.

use super::super::scene::{Camera, Light, Material, Moment, Pattern, Shape, Sky};
use super::super::vector::{sin, vec3};
use super::{Dice, World, object};

/// How fast the camera goes.
const SPEED_M_PER_S: f64 = 14.0;
/// What stands beside the road comes again after this way.
const PERIOD_M: f32 = 320.0;

/// Builds the scene.
pub(super) fn build(seed: u64) -> World {
    let mut dice = Dice::new(seed, "drive");
    let mut things = Vec::new();
    for _ in 0..70 {
        let side = if dice.below(2) == 0 { 1.0 } else { -1.0 };
        let place = vec3(dice.between(0.0, PERIOD_M), side * dice.between(8.0, 60.0), 0.0);
        let height = dice.between(3.0, 8.0);
        let bark = Material::new([0.36, 0.28, 0.2], 0.35, 1.0);
        let trunk = Shape::Cylinder { foot: place, radius: 0.06 * height, height: 0.5 * height };
        let green = dice.between(0.3, 0.48);
        let leaves = Material::new([green * 0.75, green, green * 0.45], 0.5, 1.6);
        let crown = Shape::Sphere {
            center: place + vec3(0.0, 0.0, 0.75 * height),
            radius: dice.between(0.3, 0.42) * height,
        };
        things.push((trunk, bark));
        things.push((crown, leaves));
    }
    for pole in 0..16 {
        let foot = vec3(pole as f32 * 20.0, 5.2, 0.0);
        let paint = Material::new([0.85, 0.85, 0.86], 0.1, 0.8);
        things.push((Shape::Cylinder { foot, radius: 0.07, height: 6.5 }, paint));
    }
    Box::new(move |time_s| {
        let way = time_s * SPEED_M_PER_S;
        let mut objects = Vec::new();
        for &(shape, material) in &things {
            objects.push(object(passing(shape, way), material));
        }
        // A car overtakes, another one comes the other way.
        for (lane, speed, color) in
            [(3.4, 4.0, [0.7, 0.1, 0.12]), (-3.6, -28.0, [0.15, 0.25, 0.55])]
        {
            let along = (time_s * speed + 400.0).rem_euclid(200.0) as f32 - 100.0;
            let center = vec3(along, lane, 0.75);
            let paint = Material::new(color, 0.12, 2.0);
            objects.push(object(Shape::Cuboid { center, half: vec3(2.2, 0.9, 0.5) }, paint));
        }
        // Objects are placed relative to the camera; ground and clouds move past it instead.
        let moved = way as f32;
        let fields = Material::new([0.42, 0.46, 0.28], 0.3, 60.0).with_drift(moved, 0.0);
        let asphalt = Material::new([0.4, 0.4, 0.41], 0.16, 6.0)
            .with_pattern(Pattern::Lines { every: 12.0, width: 5.0 })
            .with_drift(moved, 0.0);
        let road = Shape::Cuboid { center: vec3(0.0, 0.8, 0.0), half: vec3(400.0, 4.2, 0.02) };
        objects.push(object(road, asphalt));
        Moment {
            camera: Camera {
                position: vec3(0.0, 0.0, 1.6 + 0.015 * sin(time_s * 13.0)),
                yaw: 0.03 * f64::from(sin(time_s * 0.7)),
            },
            objects,
            ground: Some(fields),
            sky: Sky { hills: 0.09, ..Sky::plain([0.3, 0.5, 0.82], [0.78, 0.84, 0.9]) },
            light: Light { direction: vec3(-0.4, 0.5, 0.77), direct: 0.55, ambient: 0.5 },
            haze_m: 700.0,
        }
    })
}

/// A thing beside the road when the camera has come `way` metres.
fn passing(shape: Shape, way: f64) -> Shape {
    let shift = |x: f32| {
        let along = (f64::from(x) - way).rem_euclid(f64::from(PERIOD_M));
        along as f32 - PERIOD_M / 2.0
    };
    match shape {
        Shape::Sphere { mut center, radius } => {
            center.x = shift(center.x);
            Shape::Sphere { center, radius }
        }
        Shape::Cylinder { mut foot, radius, height } => {
            foot.x = shift(foot.x);
            Shape::Cylinder { foot, radius, height }
        }
        Shape::Cuboid { mut center, half } => {
            center.x = shift(center.x);
            Shape::Cuboid { center, half }
        }
    }
}
