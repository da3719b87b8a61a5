//! What to do about an error of the system, where the message that has it says nothing of it.

use rustix::io::Errno;

/// What is said of a server from which nothing came.
const SILENCES: [&str; 2] = [": no answer within ", "did not finish the handshake within "];

/// What to do next about an error that ends as the standard library writes the system's errors:
/// `… (os error 2)`. `None` for other messages, and where they say it themselves.
pub(crate) fn of(message: &str) -> Option<&'static str> {
    if message.contains("; ") {
        return None;
    }
    if message.contains("failed to lookup address information") {
        return Some("check the name and, in /etc/resolv.conf, the name server");
    }
    if SILENCES.iter().any(|silence| message.contains(silence)) {
        return Some("'weftline doctor' with the same options says more");
    }
    let (_, number) = message.trim_end_matches(')').rsplit_once("(os error ")?;
    Some(match Errno::from_raw_os_error(number.parse().ok()?) {
        Errno::NOENT | Errno::NOTDIR => "check the path; its directory must be there",
        Errno::ISDIR => "give the path of a file",
        Errno::EXIST => "give another path, or move away what is there",
        Errno::ACCESS | Errno::PERM => "run it as root, or as a user who may do this",
        Errno::ADDRINUSE => "choose another port, or stop the program that ss -lntup shows there",
        Errno::ADDRNOTAVAIL => "give an address of this machine: ip -br addr shows them",
        Errno::CONNREFUSED => "check that the program there runs, and its address and port",
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::TIMEDOUT => {
            "check the route (ip route get ADDRESS) and the firewalls on the way"
        }
        Errno::NOSPC | Errno::FBIG | Errno::DQUOT => "make room, or give another place",
        Errno::ROFS => "give a place that can be written to",
        Errno::MFILE | Errno::NFILE => "raise the limit of open files: ulimit -n",
        _ => return None,
    })
}

/// Whether an error of the system in this message is for want of rights.
pub(crate) fn lacks_rights(message: &str) -> bool {
    [Errno::ACCESS, Errno::PERM]
        .iter()
        .any(|errno| message.contains(&format!("(os error {})", errno.raw_os_error())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::io;

    use super::{lacks_rights, of};

    #[test]
    fn errors_of_the_system_have_a_remedy_and_only_one() {
        let missing = std::fs::read("/nowhere/to/be/found").unwrap_err();
        assert!(of(&format!("token file x: {missing}")).unwrap().contains("check the path"));
        let busy = io::Error::from_raw_os_error(98);
        assert!(of(&format!("cannot listen on 1: {busy}")).unwrap().contains("another port"));
        assert_eq!(of(&format!("cannot keep it: {missing}; name another directory")), None);
        assert_eq!(of("--ready: at most 64"), None);
        assert_eq!(of("(os error x)"), None);
        let denied = io::Error::from_raw_os_error(13);
        assert!(lacks_rights(&format!("cannot listen on 1: {denied}; run it as root")));
        assert!(!lacks_rights(&format!("cannot listen on 1: {busy}")));
    }
}
