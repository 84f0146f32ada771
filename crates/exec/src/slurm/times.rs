//! Times and lengths of time as Slurm prints them.

use std::time::Duration;

/// Seconds since 1970 of `2026-11-17T14:20:12`, which is UTC; `None` for `N/A`, `Unknown` and everything else.
pub fn read_time(text: &str) -> Option<u64> {
    let (date, clock) = text.trim().split_once('T')?;
    let mut parts = date.split('-').map(str::parse::<u64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let mut parts = clock.split(':').map(str::parse::<u64>);
    let (hour, minute, second) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let is_sound = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_sound {
        return None;
    }
    // Days of the civil calendar, with years that begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    let days = days.checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// The length of `1-02:03:04`, `02:03:04`, `03:04` or `5` (minutes); `None` for `UNLIMITED` and everything that is no length.
pub fn read_limit(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (days.parse::<u64>().ok()?, rest),
        None => (0, text),
    };
    let parts = rest.split(':').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>().ok()?;
    let has_days = text.contains('-');
    let seconds = match (parts.as_slice(), has_days) {
        ([hours, minutes, seconds], _) => hours.checked_mul(3600)?.checked_add(minutes * 60)?.checked_add(*seconds)?,
        ([hours, minutes], true) => hours.checked_mul(3600)?.checked_add(minutes * 60)?,
        ([hours], true) => hours.checked_mul(3600)?,
        ([minutes, seconds], false) => minutes.checked_mul(60)?.checked_add(*seconds)?,
        ([minutes], false) => minutes.checked_mul(60)?,
        _ => return None,
    };
    Some(Duration::from_secs(days.checked_mul(86_400)?.checked_add(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(read_time("1970-01-01T00:00:00"), Some(0));
        assert_eq!(read_time("2026-11-17T14:20:12"), Some(1_794_925_212));
        assert_eq!(read_time("2024-02-29T00:00:00"), Some(1_709_164_800));
        for text in ["N/A", "Unknown", "", "2026-13-01T00:00:00", "2026-11-17 14:20"] {
            assert_eq!(read_time(text), None, "{text}");
        }
    }

    #[test]
    fn limits_have_days_or_not() {
        let seconds = |text| read_limit(text).map(|limit| limit.as_secs());
        assert_eq!(seconds("10:00"), Some(600));
        assert_eq!(seconds("2-00:00:00"), Some(172_800));
        assert_eq!(seconds("1-06"), Some(108_000));
        assert_eq!(seconds("00:30:00"), Some(1800));
        assert_eq!(seconds("30"), Some(1800));
        assert_eq!(seconds("UNLIMITED"), None);
        assert_eq!(seconds("1-"), None);
        assert_eq!(seconds("99999999999999999999"), None);
    }
}
