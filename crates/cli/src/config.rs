//! Settings from a TOML file: the same names as the long options, which take precedence.

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;

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
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })
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
