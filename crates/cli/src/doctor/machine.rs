//! Looks at the machine: its clock, the files that are named, and what its kernel has.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use weftline::{ClientTls, Error, Trust};

use super::finding::{Check, Finding};
use crate::certificates::{self, Dates};
use crate::secrets;

/// When the sources of this program were last changed, in seconds since 1970; 0 where that is not
/// known.
const MADE: &str = env!("WEFTLINE_MADE");

/// Whether the clock can be right.
pub(super) fn clock() -> Option<Finding> {
    let made = Duration::from_secs(MADE.parse().unwrap_or(0));
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    judge_clock(Duration::from_secs(u64::try_from(now).unwrap_or(0)), made)
}

/// The clock says `now`, of a machine that runs a program `made` at that time.
fn judge_clock(now: Duration, made: Duration) -> Option<Finding> {
    let date = |time: Duration| humantime::format_rfc3339_seconds(UNIX_EPOCH + time);
    (now < made).then(|| {
        let found = format!("it says {}, and this program is of {}", date(now), date(made));
        let remedy =
            "set it: 'timedatectl set-ntp true', or 'date -s'; certificates are judged by it";
        Finding::error(Check::Clock, "clock", found, remedy)
    })
}

/// Whether each file can be read, and a secret by nobody else.
pub(super) fn files(files: &[(&'static str, PathBuf)]) -> Vec<Finding> {
    files.iter().flat_map(|(what, file)| look(what, file)).collect()
}

fn look(what: &str, file: &PathBuf) -> Option<Finding> {
    let (subject, name) = (format!("{what} {}", file.display()), file.display());
    match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let user = rustix::process::geteuid().as_raw();
            let remedy =
                format!("let user {user} read it: 'chown {user} {name}', or run as its owner");
            Some(Finding::error(Check::Permission, subject, error, remedy))
        }
        Err(error) => {
            let remedy = "make the file, or correct its name";
            Some(Finding::error(Check::File, subject, error, remedy))
        }
        Ok(_)
            if ["token file", "key", "users file"].contains(&what)
                && secrets::others_can_read(file) =>
        {
            let remedy = format!("'chmod 600 {name}'");
            Some(Finding::warning(Check::Permission, subject, "others can read the secret", remedy))
        }
        Ok(_) => None,
    }
}

/// Whether the time of the certificate in `file`, if there is one, has come and is not over: ends that
/// have it checked by an authority (--ca, --client-ca) look at that, those with a fingerprint do not.
/// `refusing` says who does not take it.
pub(super) fn certificate(file: &Path, refusing: &str) -> Option<Finding> {
    let dates = certificates::look(file)?;
    let (subject, found) = (format!("certificate {}", file.display()), dates.found());
    Some(match dates {
        Dates::Soon(_) => Finding::warning(Check::Certificate, subject, found, dates.remedy()),
        Dates::Early(_) | Dates::Over(_) => {
            let found = format!("{found}; {refusing}");
            Finding::error(Check::Certificate, subject, found, dates.remedy())
        }
    })
}

/// Whether the authorities in `file` can be read; a file that is not there was told of.
pub(super) fn authorities(file: &Path) -> Option<Finding> {
    File::open(file).ok()?;
    let read = ClientTls::new(&Trust::Authority(file.to_owned()), None);
    let remedy = "give --client-ca certificates of authorities, PEM";
    read.err().map(|error| Finding::error(Check::Certificate, "authorities", error, remedy))
}

/// Whether BBR can be used, which both ends choose where they may.
pub(super) fn congestion() -> Option<Finding> {
    let subject = "congestion control";
    match weftline::check_congestion("bbr") {
        Ok(()) => None,
        Err(error @ Error::CongestionNotPermitted { .. }) => {
            let remedy = "'sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic bbr\"'";
            Some(Finding::warning(Check::Permission, subject, error, remedy))
        }
        Err(_) => {
            let found = "this kernel has no bbr; on links with loss others carry much less";
            let remedy = "'modprobe tcp_bbr', and a file in /etc/modules-load.d for the next start";
            Some(Finding::warning(Check::Congestion, subject, found, remedy))
        }
    }
}

/// Whether the kernel drops packets that come in by `interface` if it would answer them by another
/// one (RFC 3704 §2.2): then only the path of the best default route works.
pub(super) fn filters_strictly(interface: &str) -> bool {
    let read = |name: &str| {
        let file = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        fs::read_to_string(file).ok()?.trim().parse::<u8>().ok()
    };
    // The greater of the two holds; 1 is strict, 2 is loose.
    read("all").max(read(interface)) == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_before_the_program_is_off() {
        let made = Duration::from_secs(1_700_000_000);
        assert_eq!(judge_clock(made + Duration::from_secs(1), made), None);
        let finding = judge_clock(Duration::from_secs(86_400), made).unwrap();
        assert_eq!(finding.check, Check::Clock);
        assert!(finding.found.contains("it says 1970-01-02"), "{}", finding.found);
    }
}
