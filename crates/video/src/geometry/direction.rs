//! Points of the unit sphere.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

/// A direction as a unit vector: x to the front, y to the left, z up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) z: f64,
}

impl Direction {
    /// Straight ahead: the middle of the frame.
    pub const FRONT: Self = Self { x: 1.0, y: 0.0, z: 0.0 };

    /// The direction of the vector (x, y, z) of any length; `None` if it has none: zero or not
    /// finite.
    pub fn new(x: f64, y: f64, z: f64) -> Option<Self> {
        let length = (x * x + y * y + z * z).sqrt();
        (length.is_finite() && length > 1e-9).then(|| Self {
            x: x / length,
            y: y / length,
            z: z / length,
        })
    }

    /// The direction at `yaw_deg` degrees to the right and `pitch_deg` degrees up.
    pub fn from_degrees(yaw_deg: f64, pitch_deg: f64) -> Self {
        Self::from_radians(yaw_deg.to_radians(), pitch_deg.to_radians())
    }

    fn from_radians(yaw: f64, pitch: f64) -> Self {
        let ((sin_yaw, cos_yaw), (sin_pitch, cos_pitch)) = (yaw.sin_cos(), pitch.sin_cos());
        Self { x: cos_pitch * cos_yaw, y: -cos_pitch * sin_yaw, z: sin_pitch }
    }

    /// The vector's x (front), y (left) and z (up).
    pub const fn xyz(self) -> [f64; 3] {
        [self.x, self.y, self.z]
    }

    /// Degrees to the right of the front, from −180 to 180.
    pub fn yaw_deg(self) -> f64 {
        (-self.y).atan2(self.x).to_degrees()
    }

    /// Degrees above the horizon, from −90 to 90.
    pub fn pitch_deg(self) -> f64 {
        self.z.clamp(-1.0, 1.0).asin().to_degrees()
    }

    /// The angle between two directions in degrees, from 0 to 180 (the orthodromic distance).
    pub fn angle_to_deg(self, other: Self) -> f64 {
        let [a, b] = [self, other];
        let cross = [a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x];
        let sin = cross.iter().map(|c| c * c).sum::<f64>().sqrt();
        let cos = a.x * b.x + a.y * b.y + a.z * b.z;
        sin.atan2(cos).to_degrees()
    }

    /// Where the direction lies in an equirectangular frame, as fractions of its width from the
    /// left and of its height from the top; the first is below 1, the second at most 1.
    pub fn frame_position(self) -> (f64, f64) {
        let across = (-self.y).atan2(self.x) / TAU + 0.5;
        let down = 0.5 - self.z.clamp(-1.0, 1.0).asin() / PI;
        (if across >= 1.0 { 0.0 } else { across }, down)
    }

    /// The direction at a place of the frame: the inverse of [`Self::frame_position`].
    pub fn from_frame_position(across: f64, down: f64) -> Self {
        Self::from_radians((across - 0.5) * TAU, FRAC_PI_2 - down * PI)
    }

    /// `count` directions spread evenly over the sphere, each for the same area: the spherical
    /// Fibonacci lattice (Swinbank and Purser, 2006).
    pub fn lattice(count: u32) -> impl Iterator<Item = Self> {
        let golden_turn = (3.0 - 5.0_f64.sqrt()) / 2.0;
        (0..count).map(move |index| {
            let z = 1.0 - (2.0 * f64::from(index) + 1.0) / f64::from(count);
            let turn = (f64::from(index) * golden_turn).fract() * TAU;
            let (sin, cos) = turn.sin_cos();
            let radius = (1.0 - z * z).sqrt();
            Self { x: radius * cos, y: radius * sin, z }
        })
    }
}
