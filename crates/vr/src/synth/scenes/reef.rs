//! Under water.

use super::super::scene::{Camera, Light, Material, Moment, Pattern, Shape, Sky};
use super::super::vector::{sin, vec3};
use super::{Circuit, Dice, World, object};

/// Builds the scene.
pub(super) fn build(seed: u64) -> World {
    let mut dice = Dice::new(seed, "reef");
    let coral = coral(&mut dice);
    let fish: Vec<_> = (0..130)
        .map(|i| {
            // Thirteen shoals, each on one way.
            let mut shoal = Dice::new(seed, &format!("reef/shoal/{}", i / 10));
            let center =
                vec3(shoal.between(-4.0, 4.0), shoal.between(-4.0, 4.0), shoal.between(1.0, 5.0));
            let reach = (shoal.between(3.0, 12.0), shoal.between(3.0, 12.0));
            let way = if shoal.below(2) == 0 { 1.0 } else { -1.0 };
            let rounds_per_s = way * f64::from(shoal.between(0.03, 0.09));
            let start = f64::from(shoal.between(0.0, 1.0) + dice.between(-0.03, 0.03));
            let color = [shoal.between(0.4, 1.0), shoal.between(0.4, 0.9), shoal.between(0.2, 0.8)];
            let apart =
                vec3(dice.between(-0.6, 0.6), dice.between(-0.6, 0.6), dice.between(-0.5, 0.5));
            let circuit = Circuit { center: center + apart, reach, rounds_per_s, start };
            (circuit, Material::new(color, 0.3, 0.3), dice.between(0.08, 0.2))
        })
        .collect();
    Box::new(move |time_s| {
        let time = time_s as f32;
        let mut objects = Vec::new();
        for &(shape, material) in &coral {
            objects.push(object(shape, material));
        }
        for (i, (way, scales, size)) in fish.iter().enumerate() {
            let wag = 0.05 * sin(time_s * 9.0 + i as f64);
            let center = way.at(time_s) + vec3(wag, wag, 0.4 * wag);
            objects.push(object(Shape::Sphere { center, radius: *size }, *scales));
            let tail = way.at(time_s - 0.12 * way.rounds_per_s.signum()) - vec3(wag, wag, 0.0);
            objects.push(object(Shape::Sphere { center: tail, radius: 0.55 * size }, *scales));
        }
        // Light through the waves runs over the sand.
        let sand = Material::new([0.62, 0.64, 0.5], 0.3, 3.0)
            .with_pattern(Pattern::Waves)
            .with_drift(0.25 * time, 0.2 * time);
        let deep = Sky {
            clouds: 0.4,
            drift: (400.0 * time, 250.0 * time),
            ..Sky::plain([0.35, 0.65, 0.75], [0.1, 0.36, 0.48])
        };
        Moment {
            camera: Camera {
                position: vec3(
                    0.35 * time,
                    0.15 * sin(time_s * 0.8),
                    1.5 + 0.1 * sin(time_s * 0.6),
                ),
                yaw: 0.05 * f64::from(sin(time_s * 0.5)),
            },
            objects,
            ground: Some(sand),
            sky: deep,
            light: Light { direction: vec3(0.1, 0.1, 0.99), direct: 0.5, ambient: 0.5 },
            haze_m: 22.0,
        }
    })
}

/// What grows on the ground, none of it where the camera is.
fn coral(dice: &mut Dice) -> Vec<(Shape, Material)> {
    (0..110)
        .map(|_| {
            let center =
                vec3(dice.between(-22.0, 22.0), dice.between(-22.0, 22.0), dice.between(-0.3, 0.3));
            let radius = dice.between(0.25, 1.3);
            let color = [dice.between(0.35, 0.85), dice.between(0.3, 0.6), dice.between(0.3, 0.6)];
            let material = Material::new(color, 0.45, 0.9);
            if dice.below(3) == 0 {
                (
                    Shape::Cylinder { foot: center, radius: 0.3 * radius, height: 2.0 * radius },
                    material,
                )
            } else {
                (Shape::Sphere { center, radius }, material)
            }
        })
        .filter(|(shape, _)| {
            let (center, radius) = shape.bounds();
            vec3(center.x, center.y, 0.0).length() > radius + 1.0
        })
        .collect()
}
