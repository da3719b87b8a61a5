//! The rights the lab needs, and how to get them without being root.

use std::process::Command;

use crate::LabError;
use crate::netns::Netns;
use crate::sys::process;
use crate::tun;

/// Set in the environment of the process that already is root of a user namespace.
const INSIDE: &str = "WEFTLINE_LAB_USER_NAMESPACE";

/// How the lab got its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// Root, or the capabilities that count.
    Root,
    /// Root of a user namespace of our own.
    UserNamespace,
}

/// Makes sure that namespaces and TUN devices can be made. Where we lack the rights but a user
/// namespace would give them, this process is replaced by itself inside one, and the call does
/// not return.
pub(crate) fn ensure() -> Result<Privilege, LabError> {
    tun::check_access()?;
    let inside = std::env::var_os(INSIDE).is_some();
    match Netns::create() {
        Ok(_) if inside => Ok(Privilege::UserNamespace),
        Ok(_) => Ok(Privilege::Root),
        Err(error @ LabError::NotPossible { .. }) if inside => Err(error),
        Err(LabError::NotPossible { what, remedy }) => {
            let program = std::env::current_exe().map_err(LabError::os("finding this program"))?;
            let mut command = Command::new(program);
            command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
            let error = process::exec_in_user_namespace(command);
            let what = format!("{what}, nor is a user namespace ({error})");
            Err(LabError::NotPossible { what, remedy })
        }
        Err(error) => Err(error),
    }
}
