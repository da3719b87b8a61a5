//! Kernel MPTCP with one subflow per path, set up as its users do: the server announces its other
//! addresses, the client joins there.

use crate::LabError;
use crate::testbed::Testbed;
use crate::topology::{self, End};

/// Prepares both namespaces. The client connects to the first path's address.
///
/// # Errors
/// [`LabError::NotPossible`] if the kernel has no MPTCP.
pub(crate) fn configure(testbed: &Testbed) -> Result<(), LabError> {
    check_kernel()?;
    let count = testbed.names().len();
    for ns in [&testbed.client, &testbed.server] {
        ns.ip(&format!("mptcp limits set subflow {count} add_addr_accepted {count}"))?;
    }
    for (index, name) in testbed.names().iter().enumerate().skip(1) {
        let address = topology::address(index, End::Server).v4;
        testbed.server.ip(&format!("mptcp endpoint add {address} dev {name} signal"))?;
    }
    Ok(())
}

/// Lets connections that are made from now on use the kernel's scheduler of that name.
///
/// # Errors
/// [`LabError::NotPossible`] if the kernel has none of that name.
pub(crate) fn set_scheduler(testbed: &Testbed, scheduler: &str) -> Result<(), LabError> {
    for ns in [&testbed.client, &testbed.server] {
        let set = ns.run(|| std::fs::write("/proc/sys/net/mptcp/scheduler", scheduler));
        set.map_err(|error| {
            LabError::not_possible(
                format!("this kernel has no MPTCP scheduler '{scheduler}' ({error})"),
                "use one with the patches: 'kernel/build'",
            )
        })?;
    }
    Ok(())
}

/// Whether this kernel has MPTCP.
pub(crate) fn check_kernel() -> Result<(), LabError> {
    if std::path::Path::new("/proc/sys/net/mptcp").is_dir() {
        return Ok(());
    }
    Err(LabError::not_possible(
        "this kernel has no MPTCP",
        "use one built with CONFIG_MPTCP (5.6 or later), or leave out linux-mptcp",
    ))
}
