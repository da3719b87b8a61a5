//! The values that a sweep gives a key: listed, over a range, or drawn.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use weftline_core::rng::Rng;
use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount};

use super::MAX_VALUES;
use crate::ScenarioError;
use crate::document::{Table, Value};

/// A draw of one value.
#[derive(Clone, Debug)]
pub(super) enum Drawn {
    /// One of these, each as likely.
    Choice(Vec<Self>),
    /// Always the same.
    Constant(toml::Value),
    /// Uniform, or its logarithm is.
    Range(Range),
    /// Each value of a table for itself.
    Table(Vec<(String, Self)>),
}

/// The values of a key in a grid: those of a list, or evenly spaced over a range, or one.
pub(super) fn grid(value: Value<'_>) -> Result<Vec<toml::Value>, ScenarioError> {
    let empty = value.error("is an empty list; give at least one value");
    let many = value.error(format!("has more than {MAX_VALUES} values"));
    let twice = value.error("has a value twice");
    let values = if value.is_array() {
        let items = value.array()?;
        items.into_iter().map(Value::into_toml).collect::<Result<Vec<_>, _>>()?
    } else if value.has_key("from") {
        let mut table = value.table()?;
        let range = Range::read(&mut table)?;
        let steps = table.need("steps", "steps = 8")?.whole(2, MAX_VALUES)?;
        table.finish()?;
        (0..steps).map(|step| range.at(step as f64 / (steps - 1) as f64)).collect()
    } else {
        vec![value.into_toml()?]
    };
    if values.is_empty() {
        return Err(empty);
    }
    if values.len() as u64 > MAX_VALUES {
        return Err(many);
    }
    let mut texts: Vec<String> = values.iter().map(meaning).collect();
    texts.sort_unstable();
    if texts.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(twice);
    }
    Ok(values)
}

/// One text for all spellings of a quantity: `5Mbps` and `5000kbps`, `1s` and `1000ms`, `1` and `1.0`.
fn meaning(value: &toml::Value) -> String {
    match value {
        toml::Value::Integer(whole) => format!("number {whole}"),
        toml::Value::Float(float) => format!("number {float}"),
        toml::Value::String(text) => {
            let rate = text.parse::<Bitrate>().map(|rate| format!("rate {}", rate.as_bps()));
            let size = || text.parse::<ByteCount>().map(|size| format!("size {}", size.as_u64()));
            let time =
                || humantime::parse_duration(text).map(|time| format!("time {}", nanos(time)));
            rate.or_else(|_| size()).or_else(|_| time()).unwrap_or_else(|_| value.to_string())
        }
        toml::Value::Array(values) => {
            values.iter().map(|value| format!("{}, ", meaning(value))).collect()
        }
        toml::Value::Table(table) => {
            table.iter().map(|(key, value)| format!("{key}: {}, ", meaning(value))).collect()
        }
        other => other.to_string(),
    }
}

/// Adds the value under its key, that of a table key by key.
pub(super) fn describe(key: &str, value: &toml::Value, case: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (inner, value) in table {
                describe(&format!("{key}.{inner}"), value, case);
            }
        }
        toml::Value::String(text) => {
            case.insert(key.to_owned(), text.clone());
        }
        other => {
            case.insert(key.to_owned(), other.to_string());
        }
    }
}

/// Adds the trace files that the value names, at a key that ends with `file` or within it.
pub(super) fn files(key: &str, value: &toml::Value, names: &mut Vec<PathBuf>) {
    match value {
        toml::Value::Table(table) => table.iter().for_each(|(key, value)| files(key, value, names)),
        toml::Value::Array(values) => values.iter().for_each(|value| files(key, value, names)),
        toml::Value::String(name) if key.rsplit('.').next() == Some("file") => {
            names.push(name.into());
        }
        _ => {}
    }
}

impl Drawn {
    /// Shows every value that is not of a range, with the innermost key that it stands at.
    pub(super) fn constants(&self, key: &str, see: &mut dyn FnMut(&str, &toml::Value)) {
        match self {
            Self::Choice(choices) => choices.iter().for_each(|choice| choice.constants(key, see)),
            Self::Constant(value) => see(key, value),
            Self::Range(_) => {}
            Self::Table(entries) => {
                entries.iter().for_each(|(key, drawn)| drawn.constants(key, see));
            }
        }
    }

    pub(super) fn read(value: Value<'_>) -> Result<Self, ScenarioError> {
        if value.is_array() {
            let empty = value.error("is an empty list; give at least one choice");
            let choices: Vec<Self> =
                value.array()?.into_iter().map(Self::read).collect::<Result<_, _>>()?;
            return if choices.is_empty() { Err(empty) } else { Ok(Self::Choice(choices)) };
        }
        if value.has_key("from") {
            let mut table = value.table()?;
            let range = Range::read(&mut table)?;
            table.finish()?;
            return Ok(Self::Range(range));
        }
        if value.has_key("value") {
            let mut table = value.table()?;
            let constant = table.need("value", "value = [\"2s\", \"8s\"]")?.into_toml()?;
            table.finish()?;
            return Ok(Self::Constant(constant));
        }
        if value.is_table() {
            let entries = value.table()?.entries().into_iter();
            let entries = entries.map(|(key, value)| Ok((key, Self::read(value)?)));
            return Ok(Self::Table(entries.collect::<Result<_, _>>()?));
        }
        Ok(Self::Constant(value.into_toml()?))
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> toml::Value {
        match self {
            Self::Choice(choices) => choices[rng.below(choices.len() as u64) as usize].draw(rng),
            Self::Constant(value) => value.clone(),
            Self::Range(range) => range.at(rng.unit_f64()),
            Self::Table(entries) => {
                let entries = entries.iter().map(|(key, drawn)| (key.clone(), drawn.draw(rng)));
                toml::Value::Table(entries.collect())
            }
        }
    }
}

/// From one quantity to another of its kind.
#[derive(Clone, Debug)]
pub(super) struct Range {
    from: f64,
    to: f64,
    unit: Unit,
    log: bool,
}

/// What a number of a range counts.
#[derive(Clone, Debug, PartialEq)]
enum Unit {
    BitsPerSecond,
    Bytes,
    Nanoseconds,
    None,
    /// Written behind the number, like `bdp`.
    Suffix(String),
}

impl Range {
    /// Takes `from`, `to` and `scale`.
    fn read(table: &mut Table<'_>) -> Result<Self, ScenarioError> {
        let low = table.need("from", "from = \"10Mbps\"")?;
        let high = table.need("to", "to = \"80Mbps\"")?;
        let ((from, unit), (to, other)) = (quantity(&low)?, quantity(&high)?);
        if unit != other {
            return Err(high.error("is of another kind than 'from'"));
        }
        if from >= to {
            return Err(high.error("must be more than 'from'"));
        }
        let log = match table.take("scale") {
            None => false,
            Some(scale) => match scale.text()? {
                "linear" => false,
                "log" => true,
                other => {
                    let message = format!("there is no scale '{other}'; known: linear, log");
                    return Err(scale.error(message));
                }
            },
        };
        if log && from <= 0.0 {
            return Err(low.error("must be more than zero on a logarithmic scale"));
        }
        Ok(Self { from, to, unit, log })
    }

    /// The value at `part` of the way, 0 to 1, rounded to four significant digits between the
    /// ends.
    fn at(&self, part: f64) -> toml::Value {
        let exact = match self.log {
            true => self.from * power(self.to / self.from, part),
            false => self.from + (self.to - self.from) * part,
        };
        let number = match part {
            0.0 => self.from,
            1.0 => self.to,
            _ => format!("{exact:.3e}").parse().expect("a number as formatted"),
        };
        let whole = number as u64;
        toml::Value::String(match &self.unit {
            Unit::BitsPerSecond => Bitrate::bps(whole).to_string(),
            Unit::Bytes => ByteCount::new(whole).to_string(),
            Unit::Nanoseconds => {
                humantime::format_duration(Duration::from_nanos(whole)).to_string()
            }
            Unit::None if number.fract() == 0.0 => return toml::Value::Integer(number as i64),
            Unit::None => return toml::Value::Float(number),
            Unit::Suffix(unit) => format!("{number}{unit}"),
        })
    }
}

/// A number with its unit, or alone.
fn quantity(value: &Value<'_>) -> Result<(f64, Unit), ScenarioError> {
    if !value.is_text() {
        return Ok((value.number(-1e15, 1e15)?, Unit::None));
    }
    let text = value.text()?;
    if let Ok(rate) = text.parse::<Bitrate>() {
        return Ok((rate.as_bps() as f64, Unit::BitsPerSecond));
    }
    if let Ok(bytes) = text.parse::<ByteCount>() {
        return Ok((bytes.as_u64() as f64, Unit::Bytes));
    }
    if let Ok(duration) = humantime::parse_duration(text) {
        return Ok((nanos(duration) as f64, Unit::Nanoseconds));
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let wrong = || value.error(format!("'{text}' is no number with a unit"));
    let number = number.parse().map_err(|_| wrong())?;
    Ok((number, Unit::Suffix(unit.trim().to_owned())))
}

/// `ratio` to the power of `part`, 0 to 1, from square roots and products alone, so that every
/// machine has the same bits.
fn power(ratio: f64, part: f64) -> f64 {
    if part >= 1.0 {
        return ratio;
    }
    let (mut result, mut root, mut rest) = (1.0, ratio, part);
    for _ in 0..f64::MANTISSA_DIGITS {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            result *= root;
            rest -= 1.0;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_the_platform() {
        for (ratio, part) in [(400.0, 0.25), (8.0, 1.0 / 3.0), (1e9, 0.999), (2.0, 0.0)] {
            let exact = f64::powf(ratio, part);
            assert!((power(ratio, part) / exact - 1.0).abs() < 1e-12, "{ratio} {part}");
        }
    }
}
