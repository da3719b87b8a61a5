//! A TOML document read key by key, so that every error names its file, line and key.
//!
//! A reader takes the keys it knows from a [`Table`] and then calls [`Table::finish`], which
//! refuses what is left and lists what would have been understood.

use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::ScenarioError;

/// The text that positions refer to.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl<'a> Source<'a> {
    /// Parses the text as TOML.
    pub(crate) fn parse(self) -> Result<Table<'a>, ScenarioError> {
        let parsed = DeTable::parse(self.text)
            .map_err(|error| self.error(error.span().unwrap_or(0..0), error.message()))?;
        let span = parsed.span();
        Ok(Table::new(self, String::new(), span, parsed.into_inner()))
    }

    /// The line where `span` begins, from 1.
    fn line(self, span: Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    fn error(self, span: Range<usize>, message: impl Display) -> ScenarioError {
        let line = self.line(span);
        // One line, whatever the parser or the file put into the message.
        let message = message.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        ScenarioError::Invalid { file: self.file.to_owned(), line, message }
    }
}

/// A table whose keys are being taken.
pub(crate) struct Table<'a> {
    source: Source<'a>,
    /// The table's name with a trailing dot, or empty at the top.
    prefix: String,
    span: Range<usize>,
    entries: DeTable<'a>,
    asked: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn new(source: Source<'a>, prefix: String, span: Range<usize>, entries: DeTable<'a>) -> Self {
        Self { source, prefix, span, entries, asked: Vec::new() }
    }

    /// The value of `key`, if it is there.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.asked.push(key);
        let value = self.entries.remove(key)?;
        Some(Value { source: self.source, key: format!("{}{key}", self.prefix), value })
    }

    /// Whether `key` is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The value of `key`, which must be there; `example` shows what to write.
    pub(crate) fn need(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Result<Value<'a>, ScenarioError> {
        let instead = self.mistyped(key);
        let missing =
            format!("key '{}{key}' is missing{instead}; write for example {example}", self.prefix);
        self.take(key).ok_or_else(|| self.source.error(self.span.clone(), missing))
    }

    /// What is said of a key one letter off `key`, which is missing, if there is one.
    pub(crate) fn mistyped(&self, key: &str) -> String {
        let keys = self.entries.keys().map(|other| other.get_ref());
        let mut close = keys.filter(|other| strsim::damerau_levenshtein(other, key) == 1);
        close.next().map(|other| format!(", and there is '{other}'")).unwrap_or_default()
    }

    /// The duration of `key`, or the default.
    pub(crate) fn duration_or(
        &mut self,
        key: &'static str,
        default: Duration,
    ) -> Result<Duration, ScenarioError> {
        self.take(key).map_or(Ok(default), |value| value.duration())
    }

    /// Everything that has not been taken, with its own keys, in the order of the keys.
    pub(crate) fn entries(self) -> Vec<(String, Value<'a>)> {
        let Self { source, prefix, entries, .. } = self;
        let value = |(key, value): (Spanned<_>, _)| {
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            let name = format!("{prefix}{key}");
            (key.into_owned(), Value { source, key: name, value })
        };
        let mut entries: Vec<_> = entries.into_iter().map(value).collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries
    }

    /// An error about the table as a whole.
    pub(crate) fn error(&self, message: impl Display) -> ScenarioError {
        match self.prefix.strip_suffix('.') {
            Some(name) => self.source.error(self.span.clone(), format!("key '{name}': {message}")),
            None => self.source.error(self.span.clone(), message),
        }
    }

    /// Refuses keys that nobody took.
    pub(crate) fn finish(self) -> Result<(), ScenarioError> {
        let first = self.entries.iter().min_by_key(|(key, _)| key.span().start);
        let Some((key, _)) = first else { return Ok(()) };
        let message = format!(
            "key '{}{}' is not known here; known keys: {}",
            self.prefix,
            key.get_ref(),
            self.asked.join(", ")
        );
        Err(self.source.error(key.span(), message))
    }
}

/// A value and the key it was found under.
pub(crate) struct Value<'a> {
    source: Source<'a>,
    key: String,
    value: Spanned<DeValue<'a>>,
}

impl<'a> Value<'a> {
    /// An error about this value; the message continues "key 'x': ".
    pub(crate) fn error(&self, message: impl Display) -> ScenarioError {
        self.source.error(self.value.span(), format!("key '{}': {message}", self.key))
    }

    fn unexpected(&self, wanted: &str) -> ScenarioError {
        self.error(format!("wants {wanted}, not a TOML {}", self.value.get_ref().type_str()))
    }

    /// The text of a string.
    pub(crate) fn text(&self) -> Result<&str, ScenarioError> {
        let text = self.value.get_ref().as_str();
        text.ok_or_else(|| self.unexpected("a text in quotation marks"))
    }

    /// A string in the form of its type.
    pub(crate) fn parse<T: FromStr<Err: Display>>(&self) -> Result<T, ScenarioError> {
        self.text()?.parse().map_err(|error| self.error(error))
    }

    /// As [`parse`](Self::parse), of a quantity: of a number in its place it is said what the type wants,
    /// as the unit is what is missing most often.
    pub(crate) fn quantity<T: FromStr<Err: Display>>(&self) -> Result<T, ScenarioError> {
        match self.number_as_written().map(str::parse::<T>) {
            Some(Err(error)) => Err(self.error(error)),
            _ => self.parse(),
        }
    }

    /// A number as it stands in the file.
    fn number_as_written(&self) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => self.source.text.get(self.value.span()),
            _ => None,
        }
    }

    /// A duration like "1m 30s", at most a day.
    pub(crate) fn duration(&self) -> Result<Duration, ScenarioError> {
        let wrong = |text| {
            self.error(format!("'{text}' is no duration; write it like \"500ms\" or \"1m 30s\""))
        };
        if let Some(number) = self.number_as_written() {
            return Err(wrong(number));
        }
        let text = self.text()?;
        let duration = humantime::parse_duration(text).map_err(|_| wrong(text))?;
        if duration > MAX_DURATION {
            return Err(self.error(format!("'{text}' is longer than 24h, the most there is")));
        }
        Ok(duration)
    }

    /// Two durations, the first not longer than the second, the second not zero.
    pub(crate) fn duration_range(self) -> Result<[Duration; 2], ScenarioError> {
        let wrong = self.error("wants two durations like [\"300ms\", \"2s\"]");
        let order = self.error("wants the shorter duration first, and the longer not zero");
        let [low, high] = <[Self; 2]>::try_from(self.array()?).map_err(|_| wrong)?;
        let range = [low.duration()?, high.duration()?];
        if range[0] > range[1] || range[1].is_zero() {
            return Err(order);
        }
        Ok(range)
    }

    /// A number, written as integer or float, in the closed range.
    pub(crate) fn number(&self, low: f64, high: f64) -> Result<f64, ScenarioError> {
        let number = match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            _ => None,
        };
        let wanted = || self.error(format!("wants a number from {low} to {high}"));
        number.filter(|number| (low..=high).contains(number)).ok_or_else(wanted)
    }

    /// A truth.
    pub(crate) fn boolean(&self) -> Result<bool, ScenarioError> {
        match self.value.get_ref() {
            DeValue::Boolean(boolean) => Ok(*boolean),
            _ => Err(self.unexpected("true or false")),
        }
    }

    /// The number of a packet, from 1.
    pub(crate) fn packet_number(&self) -> Result<u64, ScenarioError> {
        let wanted = || self.error("wants a packet's number, a whole number from 1");
        self.integer().filter(|&number| number > 0).ok_or_else(wanted)
    }

    /// A whole number in the closed range.
    pub(crate) fn whole(&self, low: u64, high: u64) -> Result<u64, ScenarioError> {
        let wanted = || self.error(format!("wants a whole number from {low} to {high}"));
        self.integer().filter(|number| (low..=high).contains(number)).ok_or_else(wanted)
    }

    /// A whole number of either sign: what it is for says which ones it takes.
    fn signed(&self) -> Result<i64, ScenarioError> {
        let number = match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| self.error("wants a whole number of up to 64 bits, in decimal"))
    }

    fn integer(&self) -> Option<u64> {
        match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
            _ => None,
        }
    }

    /// The line where it begins, from 1.
    pub(crate) fn line(&self) -> usize {
        self.source.line(self.value.span())
    }

    /// Whether it is a string.
    pub(crate) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// Whether it is a table with that key.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.value.get_ref().as_table().is_some_and(|table| table.contains_key(key))
    }

    /// Whether it is a table.
    pub(crate) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// Whether it is an array.
    pub(crate) fn is_array(&self) -> bool {
        self.value.get_ref().is_array()
    }

    /// The table, its keys to be taken.
    pub(crate) fn table(self) -> Result<Table<'a>, ScenarioError> {
        let wrong = self.unexpected("a table");
        let span = self.value.span();
        match self.value.into_inner() {
            DeValue::Table(entries) => {
                Ok(Table::new(self.source, format!("{}.", self.key), span, entries))
            }
            _ => Err(wrong),
        }
    }

    /// The values of an array that is not empty, or the one value that is not an array.
    pub(crate) fn one_or_more(self) -> Result<Vec<Self>, ScenarioError> {
        if !self.is_array() {
            return Ok(vec![self]);
        }
        let empty = self.error("is an empty list; give at least one");
        let values = self.array()?;
        if values.is_empty() { Err(empty) } else { Ok(values) }
    }

    /// The value as it would stand in another document.
    pub(crate) fn into_toml(self) -> Result<toml::Value, ScenarioError> {
        let Self { source, ref key, .. } = self;
        let value = |key: String, value| Self { source, key, value };
        Ok(match self.value.get_ref() {
            DeValue::Array(items) => {
                let items = items.iter().cloned().enumerate();
                let items = items.map(|(at, item)| value(format!("{key}[{at}]"), item).into_toml());
                toml::Value::Array(items.collect::<Result<_, _>>()?)
            }
            DeValue::Boolean(boolean) => toml::Value::Boolean(*boolean),
            DeValue::Datetime(_) => return Err(self.unexpected("a number, a text or a table")),
            DeValue::Float(_) => toml::Value::Float(self.number(f64::MIN, f64::MAX)?),
            DeValue::Integer(_) => toml::Value::Integer(self.signed()?),
            DeValue::String(text) => toml::Value::String(text.clone().into_owned()),
            DeValue::Table(entries) => {
                let entries = entries.iter().map(|(name, entry)| {
                    let name = name.get_ref().clone().into_owned();
                    let inner = value(format!("{key}.{name}"), entry.clone());
                    Ok((name, inner.into_toml()?))
                });
                toml::Value::Table(entries.collect::<Result<_, _>>()?)
            }
        })
    }

    /// The values of an array; each is called `key[index]`.
    pub(crate) fn array(self) -> Result<Vec<Self>, ScenarioError> {
        let wrong = self.unexpected("a list in [ ]");
        let Self { source, key, value } = self;
        let DeValue::Array(items) = value.into_inner() else { return Err(wrong) };
        let name = |(index, value)| Self { source, key: format!("{key}[{index}]"), value };
        Ok(items.into_iter().enumerate().map(name).collect())
    }
}

/// The longest time a scenario may name. A trace of this length has 8.6 million steps of 10 ms.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
