//! Synthetic 360° video: ray-traced scenes with motion and texture, the same for the same seed on
//! every machine.
//!
//! A scene is solids, ground, sky and light, each a function of time; every surface carries noise
//! with the spectrum of photographs, filtered to what a pixel shows, and the picture a camera's
//! grain. So an encoder meets what it meets in natural video: detail at all scales, true motion
//! (of things, and of the camera in some scenes), plain sky, cuts in depth.
//!
//! The pictures are equirectangular with the axes of [`weftline_video::geometry`]. Nothing in them
//! depends on the platform: arithmetic is + − × ÷ and square roots, and sines come from `libm`.

mod output;
mod render;
mod scene;
mod scenes;
mod texture;
mod vector;
mod y4m;

#[cfg(test)]
mod tests;

use weftline_video::geometry::FrameSize;

use crate::error::VrError;
use crate::rate::FrameRate;

pub use output::{Container, write};
pub use render::Picture;
pub use scenes::{SCENES, Scene};

/// A scene that is drawn picture by picture.
pub struct Synth {
    scene: Scene,
    world: scenes::World,
    textures: scene::Textures,
    size: FrameSize,
    rate: FrameRate,
    seed: u64,
}

impl Synth {
    /// The scene called `name`, built from `seed`.
    ///
    /// # Errors
    /// [`VrError::UnknownScene`] if there is none of that name.
    pub fn new(name: &str, seed: u64, size: FrameSize, rate: FrameRate) -> Result<Self, VrError> {
        let scene = SCENES.iter().find(|scene| scene.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = SCENES.iter().map(|scene| scene.name).collect();
            VrError::UnknownScene { name: name.to_owned(), names: names.join(", ") }
        })?;
        let textures = scene::Textures::new(seed);
        Ok(Self { scene, world: (scene.build)(seed), textures, size, rate, seed })
    }

    /// The size of its pictures.
    pub fn size(&self) -> FrameSize {
        self.size
    }

    /// How many pictures there are in a second.
    pub fn rate(&self) -> FrameRate {
        self.rate
    }

    /// Draws picture number `frame` into `picture`, on all threads of the current rayon pool.
    ///
    /// # Panics
    /// If `picture` has another size.
    pub fn draw(&self, frame: u32, picture: &mut Picture) {
        assert_eq!(picture.size(), self.size, "the picture has the size of the scene");
        let moment = (self.world)(self.rate.seconds(u64::from(frame)));
        // The grain of two seeds differs, too.
        let grain_frame = frame ^ (self.seed as u32).rotate_left(16);
        render::draw(&moment, &self.textures, grain_frame, self.scene.grain, picture);
    }
}
