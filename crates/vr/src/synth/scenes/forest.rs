//! A wood, seen by somebody who walks.

use super::super::scene::{Camera, Light, Material, Moment, Shape, Sky};
use super::super::vector::{sin, vec3};
use super::{Dice, World, object};

/// Builds the scene.
pub(super) fn build(seed: u64) -> World {
    let mut dice = Dice::new(seed, "forest");
    let mut things = Vec::new();
    for _ in 0..150 {
        // A path along x is free.
        let side = if dice.below(2) == 0 { 1.0 } else { -1.0 };
        let foot = vec3(dice.between(-45.0, 75.0), side * dice.between(1.6, 38.0), 0.0);
        let radius = dice.between(0.12, 0.42);
        let brown = dice.between(0.25, 0.42);
        let bark = Material::new([brown, brown * 0.84, brown * 0.66], 0.42, 1.2);
        things.push((Shape::Cylinder { foot, radius, height: 14.0 }, bark, 0.0));
        let green = dice.between(0.32, 0.5);
        let leaves = Material::new([green * 0.7, green, green * 0.4], 0.6, 1.4);
        let center = foot + vec3(0.0, 0.0, dice.between(4.5, 9.0));
        let crown = Shape::Sphere { center, radius: dice.between(1.6, 3.4) };
        things.push((crown, leaves, dice.between(0.02, 0.08)));
        if dice.below(2) == 0 {
            let radius = dice.between(0.3, 0.9);
            let place = vec3(dice.between(-2.0, 2.0), side * dice.between(0.5, 2.0), 0.1);
            let bush = Shape::Sphere { center: foot + place, radius };
            things.push((bush, leaves, 0.015));
        }
    }
    Box::new(move |time_s| {
        let mut objects = Vec::new();
        for (i, &(shape, material, sway)) in things.iter().enumerate() {
            let sway = sway * sin(time_s * 1.7 + i as f64);
            let shape = match shape {
                Shape::Sphere { center, radius } => {
                    Shape::Sphere { center: center + vec3(sway, sway * 0.6, 0.0), radius }
                }
                other => other,
            };
            objects.push(object(shape, material.with_drift(0.0, sway * 2.0)));
        }
        let along = (time_s * 1.4) as f32;
        let bob = 0.025 * sin(time_s * 11.5).abs();
        Moment {
            camera: Camera {
                position: vec3(along, 0.2 * sin(time_s * 0.9), 1.65 + bob),
                yaw: 0.06 * f64::from(sin(time_s * 0.8)),
            },
            objects,
            ground: Some(Material::new([0.36, 0.32, 0.2], 0.42, 5.0)),
            sky: Sky { clouds: 0.2, ..Sky::plain([0.5, 0.65, 0.8], [0.72, 0.78, 0.72]) },
            light: Light { direction: vec3(0.3, -0.3, 0.9), direct: 0.45, ambient: 0.55 },
            haze_m: 160.0,
        }
    })
}
