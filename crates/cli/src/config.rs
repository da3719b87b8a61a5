//! Settings from a TOML file: the same names as the long options, which take precedence.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
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
        let written = text.lines().nth(line - 1).unwrap_or_default();
        // What is expected says nothing without what it is expected of.
        let key = written.split_once('=').map(|(key, _)| key.trim());
        let key = key.filter(|key| !error.message().contains(key));
        let key = key.map(|key| format!(" (key '{key}')")).unwrap_or_default();
        let advice = advice(error.message(), written);
        format!("line {line}: {}{key}{advice}", error.message())
    })
}

/// What to write instead of the line `written`, of which the parser says `message`.
fn advice(message: &str, written: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field") {
        let wrong = names.next().unwrap_or_default();
        let near = names.min_by_key(|name| strsim::damerau_levenshtein(name, wrong));
        let near = near.filter(|name| strsim::damerau_levenshtein(name, wrong) <= 2);
        return near.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    }
    for table in ["path", "forward"] {
        if written.trim() == format!("[[{table}]]") {
            return format!("; such a table is called [[{table}s]]");
        }
    }
    let is_number =
        ["integer", "float"].iter().any(|kind| message.contains(&format!("type: {kind}")));
    if is_number && message.contains("expected a string") {
        return "; put it in quotes, with its unit".to_owned();
    }
    match message.contains("type: string") && message.contains("expected u") {
        true => "; write the number without quotes".to_owned(),
        false => String::new(),
    }
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
    let mut text = String::new();
    fs::File::open(file)?.take(max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max {
        let message = format!("longer than the {max} bytes allowed");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
    #[derive(Default)]
    struct Some {
        grace: Option<String>,
        ready: Option<usize>,
        token_file: Option<String>,
        #[serde(deserialize_with = "one_or_many")]
        path: Vec<String>,
    }

    #[test]
    fn what_to_write_instead_is_said() {
        for (text, words) in [
            (
                "grace = 30",
                "line 1: invalid type: integer `30`, expected a string (key 'grace'); put",
            ),
            ("\nready = '2'", "line 2: invalid type: string"),
            ("ready = '2'", "; write the number without quotes"),
            ("token_file = 'x'", "; did you mean token-file?"),
            ("[[path]]\nname = 'a'", "; such a table is called [[paths]]"),
        ] {
            let error = parse::<Some>(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let error = parse::<Some>("else = 1").unwrap_err();
        assert!(!error.contains("did you mean"), "{error}");
    }
}
