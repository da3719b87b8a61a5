//! What the fuzz targets `config` and `invite`, and the replay of their corpora, drive. Not for use
//! otherwise.

use serde::de::DeserializeOwned;

use crate::config::parse;
use crate::connect::ConnectArgs;
use crate::invite;
use crate::paths::{self, PathTable};
use crate::serve::ServeArgs;

/// Any text is settings of `serve`, of `connect` or a table of paths, or one line that says where
/// it is wrong; and each line of it is a path or an error of one line.
///
/// # Panics
/// If it is not so.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    check::<ServeArgs>(text);
    check::<ConnectArgs>(text);
    check::<PathTable>(text);
    for error in text.lines().filter_map(|line| paths::parse(line).err()) {
        assert!(!error.to_string().contains('\n'), "one line: {error}");
    }
}

/// Any text, and any bytes in the form of an invite with a checksum that is right, is an invite that is
/// written as it was read, or an error of one line that shows nothing of it.
///
/// # Panics
/// If it is not so.
pub fn invite(bytes: &[u8]) {
    let given = std::str::from_utf8(bytes).ok().map(str::to_owned);
    for text in given.into_iter().chain([invite::sealed(bytes.to_vec())]) {
        match text.parse::<invite::Invite>() {
            Ok(read) => assert!(read.to_string().parse() == Ok(read), "it is read as written"),
            Err(error) => assert!(!error.to_string().contains('\n'), "one line: {error}"),
        }
    }
}

fn check<T: DeserializeOwned>(text: &str) {
    let Err(error) = parse::<T>(text) else { return };
    let number = || error.strip_prefix("line ")?.split(':').next()?.parse::<usize>().ok();
    let line = number().expect("an error begins with its line");
    assert!(line <= text.lines().count() + 1, "{error:?} of {text:?}");
    assert!(!error.contains('\n'), "one line: {error:?}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{config, invite};

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

    proptest! {
        /// Whatever stands in a file. `PROPTEST_CASES` says how many are tried.
        #[test]
        fn any_file_is_settings_or_a_line_that_says_where_not(
            lines in prop::collection::vec(line(), 0..8),
        ) {
            config(lines.join("\n").as_bytes());
        }

        /// And so for a path on the command line.
        #[test]
        fn any_path_is_one_or_an_error_of_one_line(text in "[a-z=,.0-9:]{0,40}|\\PC{0,40}") {
            config(text.as_bytes());
        }
    }

    #[test]
    fn the_corpora_of_the_fuzz_targets() {
        for (name, target) in [("config", config as fn(&[u8])), ("invite", invite)] {
            let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
            let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
            let read = |file: std::io::Result<std::fs::DirEntry>| std::fs::read(file?.path());
            let run = files.map(|file| target(&read(file).unwrap())).count();
            assert!(run > 0, "{folder} is empty");
        }
    }
}
