//! Until when a certificate holds. TLS itself tells only the other end, and only when it is too late.
#![expect(clippy::disallowed_types, reason = "certificates have dates; nothing is timed by them")]

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_parser::pem::Pem;

use crate::output;

/// How long before its end a certificate is told of: authorities that issue for 90 days advise to
/// renew after 60, and a renewal that failed leaves some days to see to it.
const SOON: Duration = Duration::from_hours(14 * 24);

/// What is to be said of the time of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dates {
    /// It holds from then on.
    Early(SystemTime),
    /// It holds until then, which is soon.
    Soon(SystemTime),
    /// It held until then.
    Over(SystemTime),
}

impl Dates {
    /// As words: what is the matter with the certificate.
    pub(crate) fn found(self) -> String {
        match self {
            Self::Early(from) => format!("it holds from {} on only", date(from)),
            Self::Soon(until) => format!("it holds until {} only", date(until)),
            Self::Over(until) => format!("it has expired on {}", date(until)),
        }
    }

    /// What to do.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::Early(_) => "set this machine's clock, or have the certificate issued anew",
            Self::Soon(_) | Self::Over(_) => {
                "renew it, and have the daemon read it: 'systemctl reload', or SIGHUP"
            }
        }
    }
}

/// What is to be said of the chain of certificates in `file`, if anything is. A file that cannot be
/// read is none of this module's business.
pub(crate) fn look(file: &Path) -> Option<Dates> {
    let now = SystemTime::now();
    judge(&std::fs::read(file).ok()?, now)
}

/// Warns of a chain whose time is over, soon to be over, or still to come. The other end refuses it
/// then if it looks at dates, as it does with `--ca` and `--client-ca`.
pub(crate) fn warn(file: &Path) {
    if let Some(dates) = look(file) {
        let (file, found, remedy) = (file.display(), dates.found(), dates.remedy());
        output::warn(format_args!("certificate {file}: {found}; {remedy}"));
    }
}

/// The worst of all certificates in `pem` at the time `now`: a chain is as good as its weakest link.
fn judge(pem: &[u8], now: SystemTime) -> Option<Dates> {
    let all = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let certificates = all.filter(|part| part.label == "CERTIFICATE");
    let (mut from, mut until) = (UNIX_EPOCH, None::<SystemTime>);
    for certificate in certificates {
        let Ok(parsed) = certificate.parse_x509() else { continue };
        let time =
            |seconds: i64| UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let validity = parsed.validity();
        from = from.max(time(validity.not_before.timestamp()));
        let end = time(validity.not_after.timestamp());
        until = Some(until.map_or(end, |until| until.min(end)));
    }
    let until = until?;
    if now < from {
        Some(Dates::Early(from))
    } else if until < now {
        Some(Dates::Over(until))
    } else {
        (until < now + SOON).then_some(Dates::Soon(until))
    }
}

fn date(time: SystemTime) -> impl std::fmt::Display {
    humantime::format_rfc3339_seconds(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    /// A certificate for the year.
    fn of(year: i32) -> String {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(year, 1, 1);
        params.not_after = date_time_ymd(year + 1, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn a_chain_is_as_good_as_its_weakest_link() {
        // 1 July 2030, 25 December 2030, 1 January 2031.
        let (summer, winter, end) = (1_909_094_400, 1_924_387_200, 1_924_992_000);
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let (now, chain) = (of(2030), of(2030) + &of(2029));
        assert_eq!(judge(now.as_bytes(), at(summer)), None);
        assert_eq!(judge(now.as_bytes(), at(winter)), Some(Dates::Soon(at(end))));
        assert_eq!(judge(now.as_bytes(), at(end + 1)), Some(Dates::Over(at(end))));
        let Some(Dates::Over(_)) = judge(chain.as_bytes(), at(summer)) else {
            panic!("the second certificate is of the year before");
        };
        let Some(Dates::Early(_)) = judge(of(2031).as_bytes(), at(summer)) else {
            panic!("it is of the year after");
        };
        assert_eq!(judge(b"no certificate", at(summer)), None);
        assert_eq!(Dates::Over(at(end)).found(), "it has expired on 2031-01-01T00:00:00Z");
    }
}
