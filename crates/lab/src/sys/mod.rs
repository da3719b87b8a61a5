//! The system calls the lab needs that no library wraps safely, each behind a safe function.

pub(crate) mod process;
pub(crate) mod reactor;
pub(crate) mod socket;
pub(crate) mod tun;
