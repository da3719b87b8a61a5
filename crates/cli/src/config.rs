//! Settings from a TOML file: the same names as the long options, which take precedence.

use std::fmt;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, DeserializeOwned, IntoDeserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::failure::Failure;

/// The longest configuration file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads the settings in `file`.
///
/// # Errors
/// When it cannot be read, or has an unknown or wrong key; the message names the line.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Failure> {
    let wrong = |reason: String| Failure::wrong_use(format!("{}: {reason}", file.display()));
    let text = read_text(file, MAX_FILE).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

/// Refuses settings that exclude each other, of which those are `given` that say so: each with its
/// long name. The parser of options knows this of options only; files, and options beside a file,
/// come here.
///
/// # Errors
/// When `one` is given, and any of `others`.
pub(crate) fn exclude(one: (&str, bool), others: &[(&str, bool)]) -> Result<(), Failure> {
    match others.iter().find(|(_, given)| *given && one.1) {
        Some((other, _)) => Err(Failure::wrong_use(format!(
            "--{} cannot be used with --{other}, whether as options or in a file; leave one out",
            one.0
        ))),
        None => Ok(()),
    }
}

/// The settings in `text`, or what is wrong on which line.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text[..start].matches('\n').count() + 1;
        // What is expected says nothing without what it is expected of.
        let key = text.lines().nth(line - 1).and_then(|line| line.split_once('='));
        let key = key.map(|(key, _)| key.trim()).filter(|key| !error.message().contains(key));
        let key = key.map(|key| format!(" (key '{key}')")).unwrap_or_default();
        format!("line {line}: {}{key}", error.message())
    })
}

/// Reads a list, or one of what it would have: a list of one.
///
/// # Errors
/// When it is neither.
pub(crate) fn one_or_many<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(OneOrMany(PhantomData))
}

struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in quotes, or a list of them: [\"…\", \"…\"]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(vec![T::deserialize(text.into_deserializer())?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

/// The text of `file`, unless it is longer than `max` bytes.
pub(crate) fn read_text(file: &Path, max: u64) -> io::Result<String> {
    let length = fs::metadata(file)?.len();
    if length > max {
        let message = format!("{length} bytes are more than the {max} allowed");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    fs::read_to_string(file)
}
