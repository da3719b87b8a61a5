//! Quantities with their units in the type: bit rates and byte counts.
//!
//! `Bitrate × Duration = ByteCount` and `ByteCount ÷ Bitrate = Duration` are exact integer
//! arithmetic (rounded as each operation says), so results do not depend on the platform's
//! floating point.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;
use std::time::Duration;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitrate(u64);

impl Bitrate {
    /// No bits at all: a blocked link.
    pub const ZERO: Self = Self(0);

    /// A rate of `bps` bits per second.
    pub const fn bps(bps: u64) -> Self {
        Self(bps)
    }

    /// A rate of `kbps` thousand bits per second.
    pub const fn kbps(kbps: u64) -> Self {
        Self(kbps * 1_000)
    }

    /// A rate of `mbps` million bits per second.
    pub const fn mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }

    /// The rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// The rate in Mb/s, for display and reports.
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The rate that carries `bytes` in `elapsed`, rounded down; zero if no time has passed.
    pub fn from_transfer(bytes: ByteCount, elapsed: Duration) -> Self {
        let ns = elapsed.as_nanos();
        if ns == 0 {
            return Self::ZERO;
        }
        let bits_ns = u128::from(bytes.0) * 8 * NANOS_PER_SEC;
        Self(u64::try_from(bits_ns / ns).unwrap_or(u64::MAX))
    }

    /// Whole bytes carried in `elapsed`, rounded down.
    pub fn bytes_in(self, elapsed: Duration) -> ByteCount {
        let bytes = u128::from(self.0) * elapsed.as_nanos() / (8 * NANOS_PER_SEC);
        ByteCount(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The time `bytes` need at this rate, rounded up to a nanosecond; `None` at rate zero.
    pub fn time_for(self, bytes: ByteCount) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        let ns = (u128::from(bytes.0) * 8 * NANOS_PER_SEC).div_ceil(u128::from(self.0));
        Some(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
    }
}

impl Add for Bitrate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Bitrate {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bitrate {
    /// In the largest unit that shows it whole, as [`Bitrate::from_str`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, scale) in [("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("kbps", 1_000)] {
            if self.0 >= scale && self.0.is_multiple_of(scale) {
                return write!(f, "{}{unit}", self.0 / scale);
            }
        }
        write!(f, "{}bps", self.0)
    }
}

/// A text that is no quantity of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no {what}; write it like {example}")]
pub struct ParseUnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// Splits `text` at the end of its number and scales it: `"1.5Mbps"` → `1_500_000`.
fn parse_scaled(text: &str, scales: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let &(_, scale) = scales.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    if fraction.is_empty() {
        return if number.ends_with('.') { None } else { Some(whole) };
    }
    let digits = u128::from(fraction.parse::<u64>().ok()?);
    let part = digits * u128::from(scale) / 10u128.pow(fraction.len() as u32);
    whole.checked_add(u64::try_from(part).ok()?)
}

impl FromStr for Bitrate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let scales = [("bps", 1), ("kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000)];
        // A large B is a byte to many: eight times what is meant, or an eighth.
        let bits = Some(text).filter(|text| !text.contains('B'));
        bits.and_then(|text| parse_scaled(text, &scales)).map(Self).ok_or_else(|| ParseUnitError {
            text: text.to_owned(),
            what: "rate",
            example: "\"476Mbps\" (bps, kbps, Mbps or Gbps)",
        })
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(u64);

impl ByteCount {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// A count of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A count of `kib` × 1024 bytes.
    pub const fn kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// A count of `mib` × 1024² bytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// The count as an integer.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// `self − other`, zero where that would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for ByteCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for ByteCount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for ByteCount {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Sum for ByteCount {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for ByteCount {
    /// In the largest binary unit that shows it whole, as [`ByteCount::from_str`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, scale) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= scale && self.0.is_multiple_of(scale) {
                return write!(f, "{}{unit}", self.0 / scale);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl FromStr for ByteCount {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let scales = [
            ("B", 1),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
        ];
        parse_scaled(text, &scales).map(Self).ok_or_else(|| ParseUnitError {
            text: text.to_owned(),
            what: "size",
            example: "\"512KiB\" (B, kB, MB, GB, KiB, MiB or GiB)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_and_print() {
        for (text, bps) in
            [("476Mbps", 476_000_000), ("1.5Gbps", 1_500_000_000), ("12 kbps", 12_000)]
        {
            assert_eq!(text.parse(), Ok(Bitrate::bps(bps)));
        }
        assert_eq!(Bitrate::mbps(1544).to_string(), "1544Mbps");
        for bad in
            ["", "Mbps", "5", "1.Mbps", "-3Mbps", "5 furlongs", "99999999999999Gbps", "5MBps"]
        {
            assert!(bad.parse::<Bitrate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_read_and_print() {
        assert_eq!("512KiB".parse(), Ok(ByteCount::kib(512)));
        assert_eq!("0.5MiB".parse(), Ok(ByteCount::kib(512)));
        assert_eq!(ByteCount::mib(3).to_string(), "3MiB");
        assert!("12".parse::<ByteCount>().is_err());
    }

    #[test]
    fn rate_times_time_is_bytes_and_back() {
        let rate = Bitrate::mbps(100);
        assert_eq!(rate.bytes_in(Duration::from_millis(20)), ByteCount::new(250_000));
        assert_eq!(rate.time_for(ByteCount::new(250_000)), Some(Duration::from_millis(20)));
        assert_eq!(Bitrate::ZERO.time_for(ByteCount::new(1)), None);
        let back = Bitrate::from_transfer(ByteCount::new(250_000), Duration::from_millis(20));
        assert_eq!(back, rate);
    }
}
