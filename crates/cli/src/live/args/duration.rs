//! Times and sizes as they are typed.

/// Seconds from a number with a unit, from `1h30m`, or from a clock's `01:00:00`.
pub fn duration(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a length of time; write seconds, or 90s, 15m, 2h, 1d, 1h30m, 01:00:00");
    let seconds = if text.contains(':') { clock(text) } else { with_units(text) };
    seconds.filter(|seconds| seconds.is_finite() && (0.0..=1e9).contains(seconds)).ok_or_else(wrong)
}

/// `HH:MM:SS`, `MM:SS`, or `D-HH:MM:SS` as in Slurm.
fn clock(text: &str) -> Option<f64> {
    let (days, rest) = text.split_once('-').map_or((0.0, text), |(days, rest)| (days.parse().unwrap_or(f64::NAN), rest));
    let parts = rest.split(':').map(|part| part.parse::<u32>().ok().map(f64::from)).collect::<Option<Vec<_>>>()?;
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        [minutes, seconds] => (0.0, *minutes, *seconds),
        _ => return None,
    };
    (minutes < 60.0 || parts.len() == 2).then_some(days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds)
}

/// `90`, `90s`, `1.5h` or `1h30m`.
fn with_units(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let factor = match unit {
            "" | "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        seconds += number.trim().parse::<f64>().ok()? * factor;
        rest = next.trim_start();
    }
    (!text.trim().is_empty()).then_some(seconds)
}

/// MiB from a number, or from a number with a unit: `8000`, `8G`, `8GiB`, `1.5T`, `512M`.
pub fn mebibytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not an amount of memory; write MiB, or 512M, 8G, 1.5T");
    let letters = text.trim();
    let end = letters.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(letters.len());
    let (number, unit) = letters.split_at(end);
    let factor = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" if unit.is_empty() => 1.0,
        "m" => 1.0,
        "g" => 1024.0,
        "t" => 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let mebibytes = number.trim().parse::<f64>().map_err(|_| wrong())? * factor;
    if (0.0..=1e12).contains(&mebibytes) { Ok(mebibytes.round() as u64) } else { Err(wrong()) }
}

/// The same, where it is a GPU's memory.
pub fn gpu_mebibytes(text: &str) -> Result<u32, String> {
    mebibytes(text).and_then(|memory| u32::try_from(memory).map_err(|_| format!("`{text}` is more than any GPU has")))
}

/// A moment, RFC 3339: as it is written, as a length of time before now (`1h`, `7d`), `today`, `yesterday`, or a local date or time.
pub fn moment(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "`{text}` is not a moment; write 1h or 7d (ago), today, yesterday, 2026-11-16, 2026-11-16T18:00 or 2026-11-16T18:00:00Z"
        )
    };
    if text.parse::<jiff::Timestamp>().is_ok() {
        return Ok(text.to_owned());
    }
    let now = jiff::Zoned::now();
    if let Ok(seconds) = duration(text.strip_suffix("ago").unwrap_or(text).trim()) {
        let span = jiff::SignedDuration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        return now.timestamp().checked_sub(span).map(|moment| moment.to_string()).map_err(|_| wrong());
    }
    let midnight = |day: jiff::civil::Date| day.to_zoned(now.time_zone().clone()).map(|zoned| zoned.timestamp().to_string());
    match text {
        "today" => return midnight(now.date()).map_err(|_| wrong()),
        "yesterday" => return now.date().yesterday().and_then(midnight).map_err(|_| wrong()),
        _ => {}
    }
    let local = text.parse::<jiff::civil::DateTime>().map_err(|_| wrong())?;
    local.to_zoned(now.time_zone().clone()).map(|zoned| zoned.timestamp().to_string()).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("90", 90.0),
            ("90s", 90.0),
            ("15m", 900.0),
            ("2h", 7200.0),
            ("1d", 86_400.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("01:00:00", 3600.0),
            ("05:30", 330.0),
            ("1-12:00:00", 129_600.0),
            ("90:00", 5400.0),
        ] {
            assert_eq!(duration(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "x", "1x", "1h30x", "01:99:00", "1:2:3:4", "-5", "x-01:00:00"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_is_read_with_its_unit() {
        for (text, memory) in [("8000", 8000), ("8G", 8192), ("8GiB", 8192), ("8gb", 8192), ("512M", 512), ("1.5T", 1_572_864)] {
            assert_eq!(mebibytes(text), Ok(memory), "{text}");
        }
        for wrong in ["", "G", "8X", "-1", "8Gi8"] {
            assert!(mebibytes(wrong).is_err(), "{wrong}");
        }
        assert!(gpu_mebibytes("9000T").is_err());
    }

    #[test]
    fn moments_are_read_before_now_or_by_the_local_clock() {
        let second = |text: &str| moment(text).unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
        let now = jiff::Timestamp::now().as_second();
        assert!((second("1h") - (now - 3600)).abs() < 5 && (second("2d ago") - (now - 172_800)).abs() < 5);
        assert_eq!(moment("2026-11-16T18:00:00Z").as_deref(), Ok("2026-11-16T18:00:00Z"));
        assert!(second("yesterday") < second("today") && second("today") <= now);
        assert_eq!(second("2026-11-16T18:00") - second("2026-11-16"), 18 * 3600);
        assert!(moment("tomorrowish").is_err());
    }
}
