//! The values of a swept key: texts in the records, numbers on an axis where they are quantities.

use crate::format::number;

/// Suffixes, what they count in, and how much of it.
const UNITS: &[(&str, &str, f64)] = &[
    ("bps", "Mb/s", 1e-6),
    ("kbps", "Mb/s", 1e-3),
    ("Mbps", "Mb/s", 1.0),
    ("Gbps", "Mb/s", 1e3),
    ("ns", "ms", 1e-6),
    ("us", "ms", 1e-3),
    ("µs", "ms", 1e-3),
    ("ms", "ms", 1.0),
    ("s", "ms", 1e3),
    ("m", "ms", 6e4),
    ("min", "ms", 6e4),
    ("h", "ms", 3.6e6),
    ("B", "kB", 1e-3),
    ("kB", "kB", 1.0),
    ("KB", "kB", 1.0),
    ("KiB", "kB", 1.024),
    ("MB", "kB", 1e3),
    ("MiB", "kB", 1_048.576),
    ("GB", "kB", 1e6),
    ("GiB", "kB", 1_073_741.824),
];

/// The values of one key, in the order of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) key: String,
    /// As the sweep wrote them; empty where the key was not set.
    pub(crate) texts: Vec<String>,
    /// What they are, if all are quantities of one kind.
    pub(crate) numbers: Option<Vec<f64>>,
    pub(crate) unit: String,
}

impl Axis {
    /// `texts` in the order in which they appear; doubles are dropped.
    pub(crate) fn new(key: &str, texts: impl IntoIterator<Item = String>) -> Self {
        let mut seen = std::collections::BTreeSet::new();
        let mut distinct: Vec<String> = Vec::new();
        distinct.extend(texts.into_iter().filter(|text| seen.insert(text.clone())));
        let parsed: Option<Vec<(f64, String)>> =
            distinct.iter().map(|text| quantity(text)).collect();
        let unit = parsed.as_ref().and_then(|all| all.first()).map(|(_, unit)| unit.clone());
        let unit = unit.unwrap_or_default();
        let alike = parsed.filter(|all| all.iter().all(|(_, other)| *other == unit));
        let key = key.to_owned();
        let Some(parsed) = alike else {
            return Self { key, texts: distinct, numbers: None, unit: String::new() };
        };
        let mut pairs: Vec<(f64, String)> =
            parsed.into_iter().map(|(value, _)| value).zip(distinct).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (numbers, texts) = pairs.into_iter().unzip();
        Self { key, texts, numbers: Some(numbers), unit }
    }

    /// The place of a value.
    pub(crate) fn place(&self, text: &str) -> Option<usize> {
        self.texts.iter().position(|other| other == text)
    }

    /// The key with its unit.
    pub(crate) fn label(&self) -> String {
        match (&self.unit, &self.numbers) {
            (unit, Some(_)) if !unit.is_empty() => format!("{} ({unit})", self.key),
            _ => self.key.clone(),
        }
    }

    /// A value as a short label.
    pub(crate) fn tick(&self, place: usize) -> String {
        match &self.numbers {
            Some(numbers) => plain(numbers[place]),
            None if self.texts[place].is_empty() => "–".to_owned(),
            None => shorten(&self.texts[place], 16),
        }
    }
}

/// A number without needless digits.
pub(crate) fn plain(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e7).contains(&value.abs()) {
        return format!("{value:.1e}");
    }
    let whole = value.abs().max(1e-9).log10().floor() as i32;
    let text = number(value, (3 - whole).clamp(0, 7) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// At most `most` characters.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

/// A finite number and its unit; a unit that is not known stays as it is (`bdp`, `packets`). Times
/// may have several parts (`3ms 341us`).
fn quantity(text: &str) -> Option<(f64, String)> {
    let mut parts = text.split_whitespace().map(simple_quantity);
    let (mut sum, unit) = parts.next()??;
    for part in parts {
        let (value, _) = part.filter(|(_, other)| unit == "ms" && *other == unit)?;
        sum += value;
    }
    Some((sum, unit))
}

fn simple_quantity(text: &str) -> Option<(f64, String)> {
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let mut end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    // An exponent belongs to the number.
    let rest = &text[end..];
    if let Some(exponent) = rest.strip_prefix(['e', 'E'])
        && exponent.starts_with(is_digit)
    {
        let digits = exponent.find(|c| !is_digit(c)).unwrap_or(exponent.len());
        end += 1 + digits;
    }
    let (value, suffix) = (text[..end].parse::<f64>().ok()?, text[end..].trim());
    if !suffix.chars().all(|c| c.is_alphabetic() || c == '%') {
        return None;
    }
    let known = UNITS.iter().find(|(name, _, _)| *name == suffix);
    let (value, unit) = known.map_or((value, suffix), |(_, unit, factor)| (value * factor, *unit));
    value.is_finite().then(|| (value, unit.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_one_kind_make_an_axis_in_their_order() {
        let axis = Axis::new("path.wifi.rate", ["1Gbps", "20Mbps", "500kbps"].map(String::from));
        assert_eq!(axis.numbers, Some(vec![0.5, 20.0, 1000.0]));
        assert_eq!(axis.texts, ["500kbps", "20Mbps", "1Gbps"]);
        assert_eq!(axis.label(), "path.wifi.rate (Mb/s)");
        assert_eq!([axis.tick(0), axis.tick(2)], ["0.5", "1000"]);
        let axis = Axis::new("d", ["2s", "10ms", "10ms"].map(String::from));
        assert_eq!(axis.numbers, Some(vec![10.0, 2000.0]));
        assert_eq!(quantity("3ms 250us"), Some((3.25, "ms".to_owned())));
        let axis = Axis::new("loss", ["0.0", "1e-3", "0.05"].map(String::from));
        assert_eq!((axis.numbers, axis.unit.as_str()), (Some(vec![0.0, 0.001, 0.05]), ""));
    }

    #[test]
    fn everything_else_keeps_its_order_as_text() {
        for odd in
            [["1bdp", "20packets"], ["", "5Mbps"], ["[{ at = \"0s\" }]", "0"], ["1s 5kB", "1s"]]
        {
            let axis = Axis::new("k", odd.map(String::from));
            assert_eq!((axis.numbers, axis.texts), (None, odd.map(String::from).to_vec()));
        }
        assert_eq!(quantity("inf"), None);
        assert_eq!(quantity("1e999"), None);
        assert_eq!(quantity("0.5bdp"), Some((0.5, "bdp".to_owned())));
    }

    #[test]
    fn numbers_are_short() {
        let short = [0.0, 0.001, 12.5, 0.12345, 5420.0, 1e9, 3e-7].map(plain);
        assert_eq!(short, ["0", "0.001", "12.5", "0.1235", "5420", "1.0e9", "3.0e-7"]);
        assert_eq!(shorten("abcdef", 4), "abc…");
    }
}
