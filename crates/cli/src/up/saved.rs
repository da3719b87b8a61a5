//! The invite of the last time, so that `weftline up` needs none.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config;
use crate::failure::Failure;
use crate::instance::write_whole;
use crate::invite::Invite;
use crate::secrets;

/// Where it is kept unless told otherwise.
const DIR: &str = "/etc/weftline";

/// What is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    invite: String,
}

/// The file in `dir` that keeps it.
pub(super) fn file(dir: Option<&Path>) -> PathBuf {
    dir.unwrap_or(Path::new(DIR)).join("up.toml")
}

/// The text of the invite that is kept.
///
/// # Errors
/// When there is none.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    if !file.exists() {
        return Err(Failure::wrong_use(format!(
            "no invite given, and none kept in {}; give the one that 'weftline serve --internet' or \
             'weftline invite NAME' has printed",
            file.display()
        )));
    }
    secrets::warn_if_others_can_read(file);
    config::read::<Saved>(file).map(|saved| saved.invite)
}

/// Keeps an invite that works.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write(file: &Path, invite: &Invite) -> Result<(), Failure> {
    let text = toml::to_string(&Saved { invite: invite.to_string() }).map_err(Failure::failed)?;
    write_whole(file, &text).map_err(|error| {
        Failure::failed(format!("cannot keep the invite in {}: {error}", file.display()))
    })
}
