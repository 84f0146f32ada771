//! Wall-clock times and durations as logs write them.

use crate::error::Problem;
use rota_core::Span;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const MOMENT_WANTED: &str = "a time such as `2017-09-04 10:30:41`";
/// The words with which logs say that a time is not known.
const UNKNOWN_WORDS: [&str; 8] = ["", "none", "null", "nan", "nat", "unknown", "n/a", "-"];

/// Whether a log says that it does not know.
pub(crate) fn is_unknown(text: &str) -> bool {
    UNKNOWN_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Nanoseconds since 1970 of `2017-09-04 10:30:41`, also with `T`, a fraction and an offset; or of seconds since 1970.
pub(crate) fn moment(text: &str) -> Result<u64, Problem> {
    if !text.get(1..).is_some_and(|rest| rest.contains('-')) {
        return crate::cell::nanos(text).map_err(|problem| match problem {
            Problem::Malformed { .. } => Problem::malformed(text, MOMENT_WANTED),
            other => other,
        });
    }
    let (seconds, nanos) = date_and_time(text.as_bytes()).ok_or_else(|| Problem::malformed(text, MOMENT_WANTED))?;
    u64::try_from(seconds)
        .ok()
        .filter(|&seconds| seconds < rota_core::time::SECONDS_MAX as u64)
        .map(|seconds| seconds * NANOS_PER_SECOND + nanos)
        .ok_or_else(|| Problem::out_of_range(text, "a year from 1970 to 2069"))
}

/// Seconds since 1970, which may be before it, and nanoseconds; `None` if it does not read as a time.
fn date_and_time(text: &[u8]) -> Option<(i64, u64)> {
    let digits = |from: usize, to: usize| -> Option<i64> {
        text.get(from..to)?.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
    };
    let marks = [(4, b"-"), (7, b"-"), (13, b":"), (16, b":")];
    let has_marks = marks.iter().all(|&(position, mark)| text.get(position) == Some(&mark[0]));
    if !has_marks || !matches!(text.get(10)?, b' ' | b'T') {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // 60 is a leap second.
    if !(1..=month_days).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let [b'.', fraction @ ..] = rest {
        let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let padded = fraction[..length].iter().chain(std::iter::repeat(&b'0'));
        nanos = padded.take(9).fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
        rest = &fraction[length..];
    }
    let offset_seconds = offset(rest)?;
    let seconds = days_since_1970(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset_seconds;
    Some((seconds, nanos))
}

/// Seconds east of Greenwich: nothing, `Z`, `+08:00`, `+0800` or `+08`.
fn offset(text: &[u8]) -> Option<i64> {
    let (sign, rest) = match text {
        [] | [b'Z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match *rest {
        [h1, h2] => ([h1, h2], [b'0', b'0']),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => ([h1, h2], [m1, m2]),
        _ => return None,
    };
    let two =
        |pair: [u8; 2]| pair.iter().all(u8::is_ascii_digit).then(|| i64::from(pair[0] - b'0') * 10 + i64::from(pair[1] - b'0'));
    let seconds = two(hours)? * 3600 + two(minutes)? * 60;
    (seconds <= SECONDS_PER_DAY).then_some(sign * seconds)
}

/// Days from 1970-01-01 in the Gregorian calendar, by whole 400-year eras counted from a March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// A moment in words: `2017-09-04 10:30:41`.
pub(crate) fn moment_text(nanos: u64) -> String {
    let seconds = (nanos / NANOS_PER_SECOND).cast_signed();
    let (days, second_of_day) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// `[days-]hours:minutes:seconds[.fraction]`, also `minutes:seconds`, as Slurm writes lengths of time.
pub(crate) fn elapsed(text: &str) -> Result<Span, Problem> {
    let malformed = || Problem::malformed(text, "a length of time such as `1-02:03:04`");
    let whole = |part: &str| part.parse::<u32>().map(u64::from).map_err(|_| malformed());
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (whole(days)?, clock),
        None => (0, text),
    };
    let mut parts = clock.rsplitn(3, ':');
    let seconds = crate::cell::nanos(parts.next().unwrap_or_default()).map_err(|_| malformed())?;
    let minutes = parts.next().ok_or_else(malformed).and_then(whole)?;
    let hours = parts.next().map_or(Ok(0), whole)?;
    let nanos =
        (days * 86_400 + hours * 3600 + minutes * 60).checked_mul(NANOS_PER_SECOND).and_then(|nanos| nanos.checked_add(seconds));
    nanos
        .filter(|&nanos| Span(nanos).seconds() <= rota_core::time::SECONDS_MAX)
        .map(Span)
        .ok_or_else(|| Problem::out_of_range(text, "at most 100 years"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_read_with_offsets_and_fractions() {
        let second = NANOS_PER_SECOND;
        for (text, expected) in [
            ("1970-01-01 00:00:00", 0),
            ("2017-09-04 10:30:41", 1_504_521_041 * second),
            ("2000-02-29T12:00:00Z", 951_825_600 * second),
            ("2023-05-17 11:00:58+08:00", 1_684_292_458 * second),
            ("2023-05-17 11:00:58.25+0000", 1_684_321_258 * second + second / 4),
            ("1504521041.5", 1_504_521_041 * second + second / 2),
        ] {
            assert_eq!(moment(text).unwrap(), expected, "{text}");
        }
        assert_eq!(moment_text(1_504_521_041 * second), "2017-09-04 10:30:41");
        for bad in [
            "2017-13-04 10:30:41",
            "2017-02-29 10:30:41",
            "2017-09-04",
            "2017-09-04 10:30",
            "-5",
            "soon",
            "2017-09-04 10:30:41 PM",
        ] {
            assert!(moment(bad).is_err(), "{bad}");
        }
        assert!(moment("1815-06-18 11:35:00").unwrap_err().to_string().contains("1970 to 2069"));
    }

    #[test]
    fn every_day_of_a_century_reads_back() {
        for day in 0..36_500 {
            let nanos = day * 86_400 * NANOS_PER_SECOND;
            assert_eq!(moment(&moment_text(nanos)).unwrap(), nanos, "{day}");
        }
    }

    #[test]
    fn slurm_lengths_of_time() {
        for (text, seconds) in [("00:01:30", 90.0), ("1-02:03:04", 93_784.0), ("05:06", 306.0), ("00:00:01.500", 1.5)] {
            assert!((elapsed(text).unwrap().seconds() - seconds).abs() < 1e-9, "{text}");
        }
        for bad in ["", "5", "x", "1-", "1-2-3:4", "a:b:c", "99999999999-00:00:00", "4000000000-00:00:00"] {
            assert!(elapsed(bad).is_err(), "{bad}");
        }
    }
}
