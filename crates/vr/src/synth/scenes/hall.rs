//! A dark hall with a dance floor.

use std::f32::consts::TAU;

use super::super::scene::{Camera, Light, Material, Moment, Pattern, Shape, Sky};
use super::super::vector::{Vec3, cos, sin, vec3};
use super::{Circuit, Dice, World, clothes, object, person};

/// Builds the scene.
pub(super) fn build(seed: u64) -> World {
    let mut dice = Dice::new(seed, "hall");
    let dancers: Vec<_> = (0..36)
        .map(|_| {
            let angle = f64::from(dice.between(0.0, TAU));
            let distance = dice.between(2.2, 11.0);
            let way = Circuit {
                center: vec3(distance * cos(angle), distance * sin(angle), 0.0),
                reach: (dice.between(0.1, 0.9), dice.between(0.1, 0.9)),
                rounds_per_s: f64::from(dice.between(0.3, 1.1)),
                start: f64::from(dice.between(0.0, 1.0)),
            };
            (way, clothes(&mut dice), f64::from(dice.between(0.0, TAU)))
        })
        .collect();
    let posters: Vec<_> = (0..24)
        .map(|i| {
            let color = [dice.between(0.2, 0.9), dice.between(0.2, 0.8), dice.between(0.2, 0.9)];
            (i, Material::new(color, 0.5, 1.5).with_glow(0.25))
        })
        .collect();
    Box::new(move |time_s| {
        let mut objects = walls();
        for &(i, material) in &posters {
            let along = (i % 6) as f32 * 3.4 - 8.5;
            let (center, half) = match i / 6 {
                0 => (vec3(13.9, along, 3.0), vec3(0.05, 1.2, 1.6)),
                1 => (vec3(-13.9, along, 3.0), vec3(0.05, 1.2, 1.6)),
                2 => (vec3(along, 13.9, 3.0), vec3(1.2, 0.05, 1.6)),
                _ => (vec3(along, -13.9, 3.0), vec3(1.2, 0.05, 1.6)),
            };
            objects.push(object(Shape::Cuboid { center, half }, material));
        }
        for (way, clothes, phase) in &dancers {
            let jump = 0.22 * sin(time_s * 6.6 + phase).max(0.0);
            let pulse = 0.25 + 0.25 * sin(time_s * 3.1 + phase);
            person(way.at(time_s), jump, clothes.with_glow(pulse), &mut objects);
        }
        // Lamps circle under the ceiling; the light comes from where they are.
        for lamp in 0..10 {
            let angle = f64::from(lamp) * 0.628 + time_s * 0.5;
            let center = vec3(7.0 * cos(angle), 7.0 * sin(angle), 6.2);
            let on = 0.6 + 0.4 * sin(time_s * 5.0 + f64::from(lamp));
            let glass = Material::new([0.9 * on, 0.75 * on, 0.95 * on], 0.02, 1.0).with_glow(1.0);
            objects.push(object(Shape::Sphere { center, radius: 0.22 }, glass));
        }
        let toward: Vec3 = vec3(cos(time_s * 0.9), sin(time_s * 0.9), 0.9).unit();
        let beat = 0.34 + 0.14 * sin(time_s * 4.2);
        Moment {
            camera: Camera { position: vec3(0.0, 0.0, 1.6), yaw: 0.0 },
            objects,
            ground: Some(
                Material::new([0.3, 0.22, 0.16], 0.3, 3.0)
                    .with_pattern(Pattern::Lines { every: 0.25, width: 0.02 }),
            ),
            sky: Sky::plain([0.02, 0.02, 0.03], [0.05, 0.04, 0.07]),
            light: Light { direction: toward, direct: beat, ambient: 0.36 },
            haze_m: 120.0,
        }
    })
}

/// Four walls and a ceiling.
fn walls() -> Vec<super::Object> {
    let brick = Material::new([0.42, 0.26, 0.22], 0.28, 4.0)
        .with_pattern(Pattern::Bricks { width: 0.5, height: 0.2 });
    let ceiling = Material::new([0.2, 0.2, 0.23], 0.2, 6.0)
        .with_pattern(Pattern::Lines { every: 2.0, width: 0.3 });
    let wall = |center, half| object(Shape::Cuboid { center, half }, brick);
    vec![
        wall(vec3(14.5, 0.0, 3.5), vec3(0.5, 15.0, 3.6)),
        wall(vec3(-14.5, 0.0, 3.5), vec3(0.5, 15.0, 3.6)),
        wall(vec3(0.0, 14.5, 3.5), vec3(15.0, 0.5, 3.6)),
        wall(vec3(0.0, -14.5, 3.5), vec3(15.0, 0.5, 3.6)),
        object(Shape::Cuboid { center: vec3(0.0, 0.0, 7.5), half: vec3(15.0, 15.0, 0.5) }, ceiling),
    ]
}
