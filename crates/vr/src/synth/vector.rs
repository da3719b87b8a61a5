//! Three-dimensional vectors and the few functions of the renderer that a platform's own library
//! could round differently: those come from the portable `libm`. All else is + − × ÷ and square
//! roots, which IEEE 754 defines to the last bit.

use std::ops::{Add, Mul, Neg, Sub};

/// A point or direction: x to the front, y to the left, z up, in metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Vec3 {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) z: f32,
}

/// Shorthand for [`Vec3`].
pub(super) const fn vec3(x: f32, y: f32, z: f32) -> Vec3 {
    Vec3 { x, y, z }
}

impl Vec3 {
    pub(super) fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    pub(super) fn length(self) -> f32 {
        self.dot(self).sqrt()
    }

    /// The vector of length 1 in this direction.
    pub(super) fn unit(self) -> Self {
        self * (1.0 / self.length())
    }
}

impl Add for Vec3 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        vec3(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl Sub for Vec3 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        vec3(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl Mul<f32> for Vec3 {
    type Output = Self;

    fn mul(self, factor: f32) -> Self {
        vec3(self.x * factor, self.y * factor, self.z * factor)
    }
}

impl Neg for Vec3 {
    type Output = Self;

    fn neg(self) -> Self {
        self * -1.0
    }
}

pub(super) fn sin(angle: f64) -> f32 {
    libm::sin(angle) as f32
}

pub(super) fn cos(angle: f64) -> f32 {
    libm::cos(angle) as f32
}

/// The whole number at or below `x`, which lies within ±2^30.
pub(super) fn floor(x: f32) -> i32 {
    let whole = x as i32;
    whole - i32::from(x < whole as f32)
}

/// From 0 at `from` to 1 at `to`, with no slope at either.
pub(super) fn smoothstep(from: f32, to: f32, x: f32) -> f32 {
    let t = ((x - from) / (to - from)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// `a` at 0, `b` at 1.
pub(super) fn mix(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}
