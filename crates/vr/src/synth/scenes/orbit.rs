//! A station above a planet.

use super::super::scene::{Camera, Light, Material, Moment, Pattern, Shape, Sky};
use super::super::vector::{cos, sin, vec3};
use super::{Dice, World, object};

/// Builds the scene.
pub(super) fn build(seed: u64) -> World {
    let mut dice = Dice::new(seed, "orbit");
    let debris: Vec<_> = (0..24)
        .map(|_| {
            let place = vec3(
                dice.between(-30.0, 60.0),
                dice.between(-40.0, 40.0),
                dice.between(-6.0, 30.0),
            );
            let speed =
                vec3(dice.between(-1.5, 1.5), dice.between(-1.5, 1.5), dice.between(-0.5, 0.5));
            (place, speed, dice.between(0.1, 0.7))
        })
        .collect();
    Box::new(move |time_s| {
        let time = time_s as f32;
        let mut objects = Vec::new();
        // The planet fills the view below; it turns under the camera.
        let land = Material::new([0.3, 0.42, 0.5], 0.45, 160.0).with_drift(3.0 * time, 0.6 * time);
        let planet = Shape::Sphere { center: vec3(30.0, 0.0, -210.0), radius: 190.0 };
        objects.push(object(planet, land));
        let moon = Material::new([0.6, 0.58, 0.55], 0.3, 9.0);
        let angle = 0.4 + time_s * 0.02;
        let center = vec3(80.0 * cos(angle), -80.0 * sin(angle), 45.0);
        objects.push(object(Shape::Sphere { center, radius: 8.0 }, moon));
        station(time_s, &mut objects);
        for &(place, speed, radius) in &debris {
            let center = place + speed * time;
            let rock = Material::new([0.5, 0.45, 0.4], 0.4, 0.8);
            objects.push(object(Shape::Sphere { center, radius }, rock));
        }
        Moment {
            camera: Camera { position: vec3(0.0, 0.0, 2.0), yaw: 0.01 * time_s },
            objects,
            ground: None,
            sky: Sky { stars: 0.02, ..Sky::plain([0.01, 0.01, 0.02], [0.01, 0.01, 0.02]) },
            light: Light { direction: vec3(0.6, 0.5, 0.62), direct: 0.85, ambient: 0.12 },
            haze_m: 1.0e6,
        }
    })
}

/// Modules with panels that turn to the sun.
fn station(time_s: f64, objects: &mut Vec<super::Object>) {
    let drift = (time_s * 0.8) as f32;
    let hull = Material::new([0.82, 0.8, 0.78], 0.18, 3.0)
        .with_pattern(Pattern::Windows { width: 1.6, height: 1.6 });
    let panel = Material::new([0.15, 0.18, 0.42], 0.2, 2.0)
        .with_pattern(Pattern::Bricks { width: 0.8, height: 0.8 });
    for module in 0..5 {
        let center = vec3(14.0 - drift, module as f32 * 3.6 - 7.2, 5.0);
        objects.push(object(Shape::Cuboid { center, half: vec3(1.4, 1.6, 1.4) }, hull));
    }
    let tilt = 0.6 + 0.5 * sin(time_s * 0.4);
    for side in [-1.0, 1.0] {
        for wing in 0..3 {
            let center = vec3(14.0 - drift, side * (12.0 + 4.0 * wing as f32), 5.0);
            let half = vec3(3.5 * tilt, 1.8, 0.08 + 1.2 * (1.0 - tilt));
            objects.push(object(Shape::Cuboid { center, half }, panel));
        }
    }
}
