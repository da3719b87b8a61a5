//! The invite of the last time, so that `weftline up` needs none.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config;
use crate::failure::Failure;
use crate::instance::write_whole;
use crate::secrets;

/// Where it is kept unless told otherwise.
const DIR: &str = "/etc/weftline";

/// What is kept.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invite: Option<String>,
    /// Exceptions, as `--except` has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) except: Vec<String>,
}

/// The file in `dir` that keeps it.
pub(super) fn file(dir: Option<&Path>) -> PathBuf {
    dir.unwrap_or(Path::new(DIR)).join("up.toml")
}

/// What is kept, if anything is.
///
/// # Errors
/// When the file cannot be read, or has something else in it.
pub(super) fn read(file: &Path) -> Result<Saved, Failure> {
    if !file.exists() {
        return Ok(Saved::default());
    }
    secrets::warn_if_others_can_read(file);
    config::read(file)
}

impl Saved {
    /// The text of the invite.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn invite(&self, file: &Path) -> Result<&str, Failure> {
        self.invite.as_deref().ok_or_else(|| {
            Failure::wrong_use(format!(
                "no invite given, and none kept in {}; give the one that 'weftline serve --internet' \
                 or 'weftline invite NAME' has printed",
                file.display()
            ))
        })
    }

    /// Keeps it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(&self, file: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(Failure::failed)?;
        write_whole(file, &text).map_err(|error| {
            Failure::failed(format!("cannot keep the invite in {}: {error}", file.display()))
        })
    }
}
