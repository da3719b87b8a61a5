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

/// The settings in `text`, or what is wrong on which line.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::connect::ConnectArgs;
    use crate::paths::{self, PathTable};
    use crate::serve::ServeArgs;

    /// A line as it may stand in a file: a key of ours or not, and any value; or anything.
    fn line() -> impl Strategy<Value = String> {
        const KEYS: &[&str] = &[
            "listen",
            "forward",
            "socks",
            "cert",
            "token-file",
            "max-memory",
            "grace",
            "server",
            "path",
            "name",
            "via",
            "role",
            "cap",
            "ready",
            "window",
            "config",
            "paths",
            "forwards",
        ];
        let key = prop_oneof![prop::sample::select(KEYS).prop_map(str::to_owned), "[ -~]{0,8}"];
        let value = prop_oneof![
            any::<i64>().prop_map(|n| n.to_string()),
            any::<bool>().prop_map(|b| b.to_string()),
            "\"[ -~]{0,12}\"",
            "\\[(\"[a-z0-9=:.,]{0,20}\",?){0,3}\\]",
            "\\PC{0,12}",
        ];
        const TABLES: &[&str] = &["[[paths]]", "[[forwards]]", "[paths]", ""];
        prop_oneof![
            4 => (key, value).prop_map(|(key, value)| format!("{key} = {value}")),
            1 => prop::sample::select(TABLES).prop_map(str::to_owned),
            1 => "\\PC{0,30}",
        ]
    }

    fn check<T: DeserializeOwned>(text: &str) {
        if let Err(error) = parse::<T>(text) {
            let line: usize = error
                .strip_prefix("line ")
                .and_then(|e| e.split(':').next()?.parse().ok())
                .unwrap_or_else(|| panic!("no line in {error:?}"));
            assert!(line <= text.lines().count() + 1, "{error:?} of {text:?}");
            assert!(!error.contains('\n'), "one line: {error:?}");
        }
    }

    proptest! {
        /// Whatever stands in a file, it is settings or a line that says where it is wrong.
        /// `PROPTEST_CASES` says how many are tried.
        #[test]
        fn any_file_is_settings_or_a_line_that_says_where_not(
            lines in prop::collection::vec(line(), 0..8),
        ) {
            let text = lines.join("\n");
            check::<ServeArgs>(&text);
            check::<ConnectArgs>(&text);
            check::<PathTable>(&text);
        }

        /// And so for a path on the command line.
        #[test]
        fn any_path_is_one_or_an_error_of_one_line(text in "[a-z=,.0-9:]{0,40}|\\PC{0,40}") {
            if let Err(error) = paths::parse(&text) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
