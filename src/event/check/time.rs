//! The forms of `eventTime`.

/// What a text says about a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    /// A point in time.
    Exact,
    /// A date and time without offset from UTC.
    Local,
    /// No date and time.
    Wrong,
}

/// Reads an RFC 3339 date and time. Some freedom is allowed that both Gravitino and the Java clients take: no seconds, an
/// offset without colon, the name of a time zone after the offset. The letter between date and time is not optional:
/// Gravitino and Marquez refuse a blank (facts: gravitino-real 4, marquez-and-clients-real 1).
pub(super) fn read(text: &str) -> Time {
    if !text.contains(['T', 't']) {
        return Time::Wrong;
    }
    if text.parse::<jiff::Timestamp>().is_ok() {
        return Time::Exact;
    }
    if text.parse::<jiff::civil::DateTime>().is_ok() && !text.contains('[') {
        return Time::Local;
    }
    Time::Wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_local_or_wrong() {
        let table = [
            ("2026-11-29T18:47:18.163Z", Time::Exact),
            ("2026-11-29T18:47:18.123456789Z", Time::Exact),
            ("2026-11-29T18:48:12.585417+00:00", Time::Exact),
            ("2026-11-29T18:48:12-05:30", Time::Exact),
            ("2026-11-29t18:48:12z", Time::Exact),
            ("2026-01-01T00:00:00+0200", Time::Exact),
            ("2026-01-01T00:00Z", Time::Exact),
            ("2026-01-01T00:00:00+01:00[Europe/Paris]", Time::Exact),
            ("2016-12-31T23:59:60Z", Time::Exact),
            ("2021-11-03T10:53:52.427343", Time::Local),
            ("2026-01-01T00:00", Time::Local),
            ("2026-01-01T00:00:00[Europe/Paris]", Time::Wrong),
            ("2026-01-01 00:00:00Z", Time::Wrong),
            ("2026-01-01", Time::Wrong),
            ("2026-13-01T00:00:00Z", Time::Wrong),
            ("2026-02-30T00:00:00Z", Time::Wrong),
            ("2026-01-01T25:00:00Z", Time::Wrong),
            ("1767225600", Time::Wrong),
            ("yesterdayT", Time::Wrong),
            (" 2026-01-01T00:00:00Z", Time::Wrong),
            ("T", Time::Wrong),
        ];
        for (text, time) in table {
            assert_eq!(read(text), time, "{text}");
        }
    }
}
