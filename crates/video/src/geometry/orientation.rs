//! How a head is turned.

use super::Direction;

/// The orientation of a head: a unit quaternion that turns the front into where it looks.
///
/// Its angles are applied in the order yaw, pitch, roll, each about the head's own axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Orientation {
    w: f64,
    x: f64,
    y: f64,
    z: f64,
}

impl Default for Orientation {
    /// Straight ahead and upright.
    fn default() -> Self {
        Self { w: 1.0, x: 0.0, y: 0.0, z: 0.0 }
    }
}

impl Orientation {
    /// Turned `yaw_deg` degrees to the right, `pitch_deg` up, and leaning `roll_deg` to the right.
    /// An angle that is not finite counts as 0.
    pub fn from_degrees(yaw_deg: f64, pitch_deg: f64, roll_deg: f64) -> Self {
        let finite = |deg: f64| if deg.is_finite() { deg } else { 0.0 };
        let half = |deg: f64| (finite(deg).to_radians() / 2.0).sin_cos();
        let ((sy, cy), (sp, cp), (sr, cr)) = (half(yaw_deg), half(pitch_deg), half(roll_deg));
        let yaw = Self { w: cy, x: 0.0, y: 0.0, z: -sy };
        let pitch = Self { w: cp, x: 0.0, y: -sp, z: 0.0 };
        let roll = Self { w: cr, x: sr, y: 0.0, z: 0.0 };
        yaw.times(pitch).times(roll)
    }

    /// The orientation of a quaternion of any length about the axes x (front), y (left), z (up);
    /// `None` if it is zero or not finite.
    pub fn from_quaternion(w: f64, x: f64, y: f64, z: f64) -> Option<Self> {
        let length = (w * w + x * x + y * y + z * z).sqrt();
        (length.is_finite() && length > 1e-9).then(|| Self {
            w: w / length,
            x: x / length,
            y: y / length,
            z: z / length,
        })
    }

    /// Upright, looking at `direction`.
    pub fn looking_at(direction: Direction) -> Self {
        Self::from_degrees(direction.yaw_deg(), direction.pitch_deg(), 0.0)
    }

    /// Where it looks: the middle of the viewport.
    pub fn direction(self) -> Direction {
        self.turn(Direction::FRONT)
    }

    /// Yaw, pitch and roll in degrees. Looking straight up or down yaw and roll are one turn,
    /// which is given as yaw.
    pub fn degrees(self) -> (f64, f64, f64) {
        let front = self.direction();
        let pitch = front.pitch_deg();
        if pitch.abs() > 89.999 {
            let left = self.turn(Direction { x: 0.0, y: 1.0, z: 0.0 });
            return (left.x.atan2(left.y).to_degrees(), pitch, 0.0);
        }
        let yaw = front.yaw_deg();
        let upright = Self::from_degrees(yaw, pitch, 0.0);
        let rest = upright.inverse().times(self);
        let roll = 2.0 * rest.x.atan2(rest.w).to_degrees();
        (yaw, pitch, (roll + 180.0).rem_euclid(360.0) - 180.0)
    }

    /// `direction`, seen from the head, as a direction of the world.
    pub fn turn(self, direction: Direction) -> Direction {
        let m = self.matrix();
        let dot =
            |row: [f64; 3]| row[0] * direction.x + row[1] * direction.y + row[2] * direction.z;
        Direction { x: dot(m[0]), y: dot(m[1]), z: dot(m[2]) }
    }

    /// The rotation matrix, row by row: world = matrix × head.
    pub fn matrix(self) -> [[f64; 3]; 3] {
        let Self { w, x, y, z } = self;
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    }

    /// The orientation that undoes this one.
    pub fn inverse(self) -> Self {
        Self { w: self.w, x: -self.x, y: -self.y, z: -self.z }
    }

    /// `self` after `first` (the product of quaternions): `first` is about the head's own axes.
    pub fn times(self, first: Self) -> Self {
        let (a, b) = (self, first);
        Self {
            w: a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
            x: a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            y: a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
            z: a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
        }
    }

    /// The angle of the turn from `self` to `other` in degrees, from 0 to 180.
    pub fn angle_to_deg(self, other: Self) -> f64 {
        let turn = self.inverse().times(other);
        let sin = (turn.x * turn.x + turn.y * turn.y + turn.z * turn.z).sqrt();
        (2.0 * sin.atan2(turn.w.abs())).to_degrees()
    }

    /// The orientation the share `share` of the way from `self` to `other`, along the shortest
    /// turn; shares outside 0 to 1 go on with the same turn.
    pub fn toward(self, other: Self, share: f64) -> Self {
        let mut turn = self.inverse().times(other);
        if turn.w < 0.0 {
            turn = Self { w: -turn.w, x: -turn.x, y: -turn.y, z: -turn.z };
        }
        let sin = (turn.x * turn.x + turn.y * turn.y + turn.z * turn.z).sqrt();
        if sin < 1e-12 {
            return self;
        }
        let (part_sin, part_cos) = (sin.atan2(turn.w) * share).sin_cos();
        let part = part_sin / sin;
        let part = Self { w: part_cos, x: turn.x * part, y: turn.y * part, z: turn.z * part };
        self.times(part)
    }
}
