//! A beach.

use super::super::scene::{Camera, Light, Material, Moment, Pattern, Shape, Sky};
use super::super::vector::{sin, vec3};
use super::{Circuit, Dice, World, clothes, object, person};

/// Builds the scene.
pub(super) fn build(seed: u64) -> World {
    let mut dice = Dice::new(seed, "coast");
    let birds: Vec<_> = (0..14)
        .map(|_| Circuit {
            center: vec3(
                dice.between(-5.0, 40.0),
                dice.between(-20.0, 20.0),
                dice.between(6.0, 18.0),
            ),
            reach: (dice.between(6.0, 25.0), dice.between(6.0, 25.0)),
            rounds_per_s: f64::from(dice.between(0.04, 0.12)),
            start: f64::from(dice.between(0.0, 1.0)),
        })
        .collect();
    let people: Vec<_> = (0..9)
        .map(|_| {
            let place = vec3(dice.between(-14.0, -3.0), dice.between(-16.0, 16.0), 0.0);
            (place, dice.between(-0.8, 0.8), clothes(&mut dice))
        })
        .collect();
    let boats: Vec<_> = (0..5)
        .map(|_| (dice.between(60.0, 220.0), dice.between(-200.0, 200.0), dice.between(-5.0, 5.0)))
        .collect();
    let rocks: Vec<_> = (0..16)
        .map(|_| {
            let center = vec3(dice.between(-30.0, -6.0), dice.between(-35.0, 35.0), -0.2);
            Shape::Sphere { center, radius: dice.between(0.5, 2.4) }
        })
        .collect();
    Box::new(move |time_s| {
        let time = time_s as f32;
        let mut objects = Vec::new();
        for &rock in &rocks {
            objects.push(object(rock, Material::new([0.45, 0.42, 0.4], 0.3, 2.0)));
        }
        for (bird, way) in birds.iter().enumerate() {
            let beat = 0.15 * sin(time_s * 14.0 + bird as f64);
            let center = way.at(time_s) + vec3(0.0, 0.0, beat);
            let half = vec3(0.15, 0.55, 0.05 + beat.abs() * 0.5);
            let feathers = Material::new([0.9, 0.9, 0.88], 0.1, 0.5);
            objects.push(object(Shape::Cuboid { center, half }, feathers));
        }
        for (place, speed, clothes) in &people {
            let foot = *place + vec3(0.0, speed * time, 0.0);
            person(foot, 0.03 * sin(time_s * 10.0).abs(), *clothes, &mut objects);
        }
        boats.iter().for_each(|&boat| add_boat(boat, time_s, &mut objects));
        // The beach is a slab on the sea's level, behind the camera.
        let sand = Material::new([0.8, 0.72, 0.56], 0.12, 8.0);
        let beach =
            Shape::Cuboid { center: vec3(-100.0, 0.0, 0.0), half: vec3(102.0, 400.0, 0.05) };
        objects.push(object(beach, sand));
        Moment {
            camera: Camera { position: vec3(0.0, 0.0, 1.7), yaw: 0.0 },
            objects,
            ground: Some(
                Material::new([0.16, 0.36, 0.44], 0.26, 7.0)
                    .with_pattern(Pattern::Waves)
                    .with_drift(0.9 * time, 0.5 * time),
            ),
            sky: Sky::plain([0.22, 0.44, 0.8], [0.74, 0.83, 0.92]),
            light: Light { direction: vec3(0.6, 0.2, 0.77), direct: 0.5, ambient: 0.55 },
            haze_m: 2500.0,
        }
    })
}

/// A hull with a mast: its place at the start and how fast it goes to the left.
fn add_boat((x, y, speed): (f32, f32, f32), time_s: f64, objects: &mut Vec<super::Object>) {
    let heave = 0.2 * sin(time_s * 1.3 + f64::from(x));
    let hull = vec3(x, y + speed * time_s as f32, 0.8 + heave);
    let paint = Material::new([0.85, 0.83, 0.8], 0.12, 4.0);
    objects.push(object(Shape::Cuboid { center: hull, half: vec3(1.5, 5.0, 1.0) }, paint));
    let mast = Shape::Cylinder { foot: hull + vec3(0.0, 0.0, 1.0), radius: 0.12, height: 7.0 };
    objects.push(object(mast, Material::new([0.6, 0.5, 0.4], 0.1, 1.0)));
}
