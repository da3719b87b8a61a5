//! How a statically linked program resolves names (`make dist`).
#![expect(unsafe_code, reason = "the C library's setting has no safe wrapper")]

use std::ffi::{c_char, c_int};

unsafe extern "C" {
    /// glibc's nss/nsswitch.c: says which sources a database has, in place of /etc/nsswitch.conf.
    fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
}

/// Asks /etc/hosts and the name servers only. The other sources of /etc/nsswitch.conf are libraries
/// of the machine's own C library, which need not fit the one in this program. To be called before
/// there are threads.
pub(crate) fn resolve_without_plugins() {
    // SAFETY: both strings end with zero and live for ever, and no other thread runs yet. An error
    // (no memory) leaves the machine's own setting.
    let _ = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
}
