//! A square in a town.

use super::super::scene::{Camera, Light, Material, Moment, Pattern, Shape, Sky};
use super::super::vector::{cos, sin, vec3};
use super::{Circuit, Dice, World, clothes, object, person};

/// Builds the scene.
pub(super) fn build(seed: u64) -> World {
    let mut dice = Dice::new(seed, "plaza");
    let mut houses = Vec::new();
    for i in 0..26 {
        let angle = f64::from(i) / 26.0 * std::f64::consts::TAU;
        let distance = dice.between(32.0, 46.0);
        let height = dice.between(5.0, 13.0);
        let center = vec3(distance * cos(angle), distance * sin(angle), height);
        let shade = dice.between(0.5, 0.85);
        let wall = Material::new([shade, shade * 0.9, shade * 0.78], 0.16, 9.0);
        let pattern = match dice.below(3) {
            0 => Pattern::Bricks { width: 0.6, height: 0.25 },
            _ => Pattern::Windows { width: dice.between(2.0, 3.2), height: 3.2 },
        };
        let half = vec3(dice.between(3.0, 6.0), dice.between(3.0, 6.0), height);
        houses.push((Shape::Cuboid { center, half }, wall.with_pattern(pattern)));
    }
    let walkers: Vec<_> = (0..40)
        .map(|_| {
            let reach = (dice.between(3.0, 22.0), dice.between(3.0, 22.0));
            let speed = dice.between(0.8, 1.8);
            // Round an ellipse of about this length.
            let rounds = f64::from(speed / (3.1 * (reach.0 + reach.1)));
            let way = if dice.below(2) == 0 { rounds } else { -rounds };
            let start = f64::from(dice.between(0.0, 1.0));
            let center = vec3(dice.between(-4.0, 4.0), dice.between(-4.0, 4.0), 0.0);
            (Circuit { center, reach, rounds_per_s: way, start }, clothes(&mut dice))
        })
        .collect();
    Box::new(move |time_s| {
        let mut objects: Vec<_> =
            houses.iter().map(|&(shape, material)| object(shape, material)).collect();
        for (i, (way, clothes)) in walkers.iter().enumerate() {
            let step = 0.03 * sin(time_s * 11.0 + i as f64).abs();
            person(way.at(time_s), step, *clothes, &mut objects);
        }
        for bus in 0..3 {
            let bus = f64::from(bus);
            let along = ((time_s * 7.0 + bus * 53.0) % 140.0) as f32 - 70.0;
            let center = vec3(along, 27.0 + bus as f32 * 0.1, 1.7);
            let paint = Material::new([0.8, 0.25 + 0.2 * bus as f32, 0.15], 0.1, 3.0)
                .with_pattern(Pattern::Windows { width: 1.5, height: 1.7 });
            let half = vec3(5.5, 1.25, 1.6);
            objects.push(object(Shape::Cuboid { center, half }, paint));
        }
        let paving = Material::new([0.56, 0.54, 0.5], 0.22, 25.0)
            .with_pattern(Pattern::Bricks { width: 0.9, height: 0.6 });
        Moment {
            camera: Camera { position: vec3(0.0, 0.0, 1.7), yaw: 0.0 },
            objects,
            ground: Some(paving),
            sky: Sky {
                clouds: 0.45,
                drift: (6.0 * time_s as f32, 2.0 * time_s as f32),
                ..Sky::plain([0.25, 0.45, 0.78], [0.75, 0.82, 0.9])
            },
            light: Light { direction: vec3(0.5, 0.4, 0.77), direct: 0.6, ambient: 0.5 },
            haze_m: 900.0,
        }
    })
}
