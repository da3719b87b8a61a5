//! What the kernel at hand must have before anything is tried, so that what is missing has a name.

use std::fs;
use std::path::Path;

use crate::BpfError;

/// Where a kernel describes its types.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The congestion controls that the kernel has, in this network namespace as in all.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The first kernel whose verifier and helpers have all that the programs use.
const OLDEST: (u32, u32) = (6, 1);

/// The congestion controls that the kernel gives to any socket, by its own names; none where it does
/// not say.
pub fn available() -> Vec<String> {
    let text = fs::read_to_string(AVAILABLE).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Checks that this kernel can load the programs.
///
/// # Errors
/// [`BpfError::OldKernel`] and [`BpfError::NoBtf`].
#[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "nothing is loaded"))]
pub(crate) fn check() -> Result<(), BpfError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    check_kernel(&release, Path::new(BTF))
}

fn check_kernel(release: &str, btf: &Path) -> Result<(), BpfError> {
    // A release that does not begin with two numbers is left to the kernel's own judgement.
    if version(release).is_some_and(|version| version < OLDEST) {
        return Err(BpfError::OldKernel { release: release.to_owned() });
    }
    match btf.exists() {
        true => Ok(()),
        false => Err(BpfError::NoBtf { path: btf.to_owned() }),
    }
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(version("6.18.44-fc-v769"), Some((6, 18)));
        assert_eq!(version("5.15.0-91-generic"), Some((5, 15)));
        assert_eq!(version("6.1-rc3"), Some((6, 1)));
        assert_eq!(version("next"), None);
    }

    #[test]
    fn what_is_missing_has_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let btf = dir.path().join("vmlinux");
        let message = |release| check_kernel(release, &btf).unwrap_err().to_string();
        assert!(message("6.12.1").contains("CONFIG_DEBUG_INFO_BTF"), "{}", message("6.12.1"));
        fs::write(&btf, "").unwrap();
        assert!(message("5.15.0-91-generic").contains("5.15.0-91-generic; "));
        assert!(check_kernel("6.1.0", &btf).is_ok());
        assert!(check_kernel("10.0", &btf).is_ok());
    }
}
