//! A game on ice.

use std::f32::consts::TAU;

use super::super::scene::{Camera, Light, Material, Moment, Pattern, Shape, Sky, scramble};
use super::super::vector::{cos, sin, vec3};
use super::{Circuit, Dice, World, object, person};

/// Builds the scene.
pub(super) fn build(seed: u64) -> World {
    let mut dice = Dice::new(seed, "rink");
    let players: Vec<_> = (0..14)
        .map(|i| {
            let reach = (dice.between(4.0, 22.0), dice.between(3.0, 11.0));
            let rounds = f64::from(dice.between(5.0, 9.0) / (3.1 * (reach.0 + reach.1)));
            let way = Circuit {
                center: vec3(dice.between(-5.0, 5.0), dice.between(-3.0, 3.0), 0.0),
                reach,
                rounds_per_s: if dice.below(2) == 0 { rounds } else { -rounds },
                start: f64::from(dice.between(0.0, 1.0)),
            };
            let team = if i % 2 == 0 { [0.8, 0.12, 0.12] } else { [0.15, 0.3, 0.75] };
            (way, Material::new(team, 0.25, 0.5))
        })
        .collect();
    Box::new(move |time_s| {
        let mut objects = stands(time_s);
        for (way, shirt) in &players {
            person(way.at(time_s), 0.0, *shirt, &mut objects);
        }
        let boards = Material::new([0.92, 0.92, 0.95], 0.1, 4.0)
            .with_pattern(Pattern::Lines { every: 4.0, width: 1.6 });
        let board = |center, half| object(Shape::Cuboid { center, half }, boards);
        objects.push(board(vec3(0.0, 15.0, 0.5), vec3(30.0, 0.1, 0.6)));
        objects.push(board(vec3(0.0, -15.0, 0.5), vec3(30.0, 0.1, 0.6)));
        objects.push(board(vec3(30.0, 0.0, 0.5), vec3(0.1, 15.0, 0.6)));
        objects.push(board(vec3(-30.0, 0.0, 0.5), vec3(0.1, 15.0, 0.6)));
        Moment {
            camera: Camera { position: vec3(1.0, -2.0, 1.8), yaw: 0.0 },
            objects,
            ground: Some(
                Material::new([0.86, 0.89, 0.93], 0.035, 12.0)
                    .with_pattern(Pattern::Lines { every: 14.0, width: 0.3 }),
            ),
            sky: Sky::plain([0.16, 0.17, 0.2], [0.3, 0.31, 0.34]),
            light: Light { direction: vec3(0.1, 0.2, 0.97), direct: 0.4, ambient: 0.62 },
            haze_m: 500.0,
        }
    })
}

/// Rising rows all around, with people who sit and now and then jump up.
fn stands(time_s: f64) -> Vec<super::Object> {
    let mut objects = Vec::new();
    for row in 0..7 {
        let row = row as f32;
        let out = 18.0 + 1.6 * row;
        let height = 1.4 + 1.5 * row;
        let seats = Material::new([0.35, 0.33, 0.38], 0.5, 1.2);
        for side in [-1.0, 1.0] {
            let long = Shape::Cuboid {
                center: vec3(0.0, side * out, 0.5 * height),
                half: vec3(34.0, 0.8, 0.5 * height),
            };
            let short = Shape::Cuboid {
                center: vec3(side * (out + 15.0), 0.0, 0.5 * height),
                half: vec3(0.8, 18.0, 0.5 * height),
            };
            objects.extend([object(long, seats), object(short, seats)]);
        }
    }
    for seat in 0..420_u32 {
        let hash = scramble(seat, 11, 5);
        let part = |shift: u32| (hash >> shift & 0xff) as f32 / 255.0;
        let row = (hash % 7) as f32;
        let out = 18.0 + 1.6 * row;
        let place = match seat % 4 {
            0 => vec3(64.0 * part(8) - 32.0, out, 0.0),
            1 => vec3(64.0 * part(8) - 32.0, -out, 0.0),
            2 => vec3(out + 15.0, 32.0 * part(8) - 16.0, 0.0),
            _ => vec3(-out - 15.0, 32.0 * part(8) - 16.0, 0.0),
        };
        let phase = f64::from(part(16)) * f64::from(TAU);
        let jump = 0.3 * (sin(time_s * 5.0 + phase) - 0.4).max(0.0);
        let lean = 0.05 * cos(time_s * 2.0 + phase);
        let center = place + vec3(lean, lean, 1.7 + 1.5 * row + jump);
        let color = [0.25 + 0.6 * part(0), 0.25 + 0.5 * part(20), 0.3 + 0.5 * part(12)];
        let coat = Material::new(color, 0.35, 0.5);
        objects.push(object(Shape::Sphere { center, radius: 0.38 }, coat));
    }
    objects
}
