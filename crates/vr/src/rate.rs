//! Frame rates as exact fractions.

use std::fmt;
use std::str::FromStr;

use crate::error::VrError;

/// Pictures per second, as a fraction: 30 is 30/1, NTSC's is 30000/1001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    numerator: u32,
    denominator: u32,
}

impl FrameRate {
    /// The highest rate.
    pub const MAX_FPS: u32 = 480;

    /// `numerator / denominator` pictures per second.
    ///
    /// # Errors
    /// [`VrError::Invalid`] unless it is at least 1 and at most [`Self::MAX_FPS`] per second.
    pub fn new(numerator: u32, denominator: u32) -> Result<Self, VrError> {
        let most = u64::from(denominator) * u64::from(Self::MAX_FPS);
        if denominator == 0 || numerator < denominator || u64::from(numerator) > most {
            let most = Self::MAX_FPS;
            return Err(VrError::Invalid(format!(
                "a rate of {numerator}/{denominator} pictures per second is not from 1 to {most}"
            )));
        }
        let divisor = greatest_common_divisor(numerator, denominator);
        Ok(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// The number above the line, in lowest terms.
    pub const fn numerator(self) -> u32 {
        self.numerator
    }

    /// The number below the line, in lowest terms.
    pub const fn denominator(self) -> u32 {
        self.denominator
    }

    /// When picture number `frame` is shown, in seconds after the first.
    pub fn seconds(self, frame: u64) -> f64 {
        frame as f64 * f64::from(self.denominator) / f64::from(self.numerator)
    }

    /// The number of the picture that is shown at `time` after the first one appeared.
    pub fn frame_at(self, time: std::time::Duration) -> usize {
        let nanos = u128::from(self.denominator) * 1_000_000_000;
        (time.as_nanos() * u128::from(self.numerator) / nanos) as usize
    }

    /// How many pictures are nearest to `seconds`, at least one.
    pub fn frames_in(self, seconds: f64) -> u32 {
        let frames = seconds * f64::from(self.numerator) / f64::from(self.denominator);
        frames.round().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl fmt::Display for FrameRate {
    /// As ffmpeg takes it: `30/1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

impl FromStr for FrameRate {
    type Err = VrError;

    /// Reads `30` or `30000/1001`.
    fn from_str(text: &str) -> Result<Self, VrError> {
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        let number = |text: &str| {
            text.trim().parse::<u32>().map_err(|_| {
                VrError::Invalid(format!(
                    "'{text}' is no rate of pictures; write 30 or a fraction like 30000/1001"
                ))
            })
        };
        Self::new(number(numerator)?, number(denominator)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_kept_in_lowest_terms() {
        assert_eq!("30".parse::<FrameRate>().unwrap(), FrameRate::new(60, 2).unwrap());
        let ntsc: FrameRate = "30000/1001".parse().unwrap();
        assert_eq!(ntsc.to_string(), "30000/1001");
        assert_eq!(ntsc.frames_in(1.0), 30);
        assert_eq!(ntsc.seconds(30_000), 1001.0);
        let at = |micros| ntsc.frame_at(std::time::Duration::from_micros(micros));
        assert_eq!([at(0), at(33_366), at(33_367), at(1_001_000)], [0, 0, 1, 30]);
        for wrong in ["", "0", "x", "1/0", "481", "1/2", "-3", "4294967296"] {
            assert!(wrong.parse::<FrameRate>().is_err(), "{wrong}");
        }
    }
}
