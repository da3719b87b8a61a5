//! Which bytes of a file a request is for (RFC 9110, 14).

/// What of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it. Also where several ranges are asked for, or something that is no range: a server may ignore
    /// what it does not know.
    Whole,
    /// From the first byte to before the last; there is one at least.
    Bytes(u64, u64),
    /// What begins after the end.
    Beyond,
}

impl Part {
    /// Of a file of `length` bytes, by the value of a `Range` header.
    pub(super) fn of(value: &[u8], length: u64) -> Self {
        let parsed = std::str::from_utf8(value).ok().and_then(|value| parse(value, length));
        parsed.unwrap_or(Self::Whole)
    }
}

/// `None` if it is no range, or several.
fn parse(value: &str, length: u64) -> Option<Part> {
    let (unit, range) = value.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    // Larger ones are beyond any file.
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let (from, until) = match (first, last) {
        ("", last) => (length.saturating_sub(number(last)?), length),
        (first, "") => (number(first)?, length),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(length))
        }
    };
    Some(if from < until { Part::Bytes(from, until) } else { Part::Beyond })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_parts_of_the_file() {
        let of = |value: &str| Part::of(value.as_bytes(), 100);
        assert_eq!(of("bytes=0-9"), Part::Bytes(0, 10));
        assert_eq!(of("Bytes = 90-"), Part::Bytes(90, 100));
        assert_eq!(of("bytes=-10"), Part::Bytes(90, 100));
        assert_eq!(of("bytes=-1000"), Part::Bytes(0, 100));
        assert_eq!(of("bytes=99-99999999999999999999999999"), Part::Bytes(99, 100));
        for beyond in ["bytes=100-", "bytes=-0", "bytes=99999999999999999999-"] {
            assert_eq!(of(beyond), Part::Beyond, "{beyond}");
        }
        let others = ["", "bytes", "bytes=", "bytes=-", "bytes=9-8", "bytes=1-2,4-5", "lines=1-2"];
        for other in others.into_iter().chain(["bytes=+1-2", "bytes=1--2", "bytes=a-b"]) {
            assert_eq!(of(other), Part::Whole, "{other}");
        }
        assert_eq!(Part::of(b"bytes=0-", 0), Part::Beyond);
        assert_eq!(Part::of(b"bytes=\xff-", 10), Part::Whole);
    }

    proptest! {
        #[test]
        fn no_part_is_outside_or_empty(value in "bytes=[0-9]{0,21}-[0-9]{0,21}", length: u64) {
            if let Part::Bytes(from, until) = Part::of(value.as_bytes(), length) {
                prop_assert!(from < until && until <= length);
            }
        }
    }
}
