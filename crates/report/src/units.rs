//! Numbers for people: times in the unit their size asks for, counts with separators, three significant digits.

/// A unit of time for an axis or a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeUnit {
    pub seconds: f64,
    pub name: &'static str,
}

const UNITS: [TimeUnit; 6] = [
    TimeUnit { seconds: 1e-6, name: "µs" },
    TimeUnit { seconds: 1e-3, name: "ms" },
    TimeUnit { seconds: 1.0, name: "s" },
    TimeUnit { seconds: 60.0, name: "min" },
    TimeUnit { seconds: 3600.0, name: "h" },
    TimeUnit { seconds: 86_400.0, name: "d" },
];

/// The unit in which a span of `seconds` has a handy size.
pub(crate) fn time_unit(seconds: f64) -> TimeUnit {
    // Up to two of a unit, the next smaller one tells more; below a second only whole units are natural.
    let fits = |unit: &&TimeUnit| seconds >= unit.seconds * if unit.seconds > 1.0 { 2.0 } else { 1.0 };
    if seconds == 0.0 { UNITS[2] } else { *UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]) }
}

/// `2.35 h`, `41.0 s`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    let unit = time_unit(seconds.abs());
    format!("{} {}", significant(seconds / unit.seconds), unit.name)
}

/// Three significant digits at least, whole part always complete.
pub(crate) fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1000.0 {
        grouped(value.round())
    } else if magnitude >= 100.0 {
        format!("{value:.0}")
    } else if magnitude >= 10.0 {
        format!("{value:.1}")
    } else if magnitude >= 0.1 || magnitude == 0.0 {
        format!("{value:.2}")
    } else if magnitude >= 1e-4 {
        format!("{value:.4}")
    } else {
        format!("{value:.2e}")
    }
}

/// A number with commas between thousands, such as `82,000`.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Steps that read well on an axis of about `count` marks up to `span`: 1, 2 or 5 times a power of ten.
pub(crate) fn nice_step(span: f64, count: f64) -> f64 {
    let rough = span / count;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999).unwrap_or(10.0);
    factor * power
}

/// The same for a time axis, where hours and minutes come in twelves and sixties.
pub(crate) fn nice_time_step(seconds: f64, count: f64) -> f64 {
    const STEPS: [f64; 22] = [
        1.0,
        2.0,
        5.0,
        10.0,
        15.0,
        30.0,
        60.0,
        120.0,
        300.0,
        600.0,
        900.0,
        1800.0,
        3600.0,
        7200.0,
        10_800.0,
        21_600.0,
        43_200.0,
        86_400.0,
        172_800.0,
        432_000.0,
        864_000.0,
        1_728_000.0,
    ];
    let rough = seconds / count;
    if rough < 1.0 {
        return nice_step(seconds, count);
    }
    if rough > 1_728_000.0 {
        return nice_step(seconds / 86_400.0, count) * 86_400.0;
    }
    STEPS.into_iter().find(|&step| step >= rough).unwrap_or(1_728_000.0)
}

/// A mark on an axis without needless zeros.
pub(crate) fn mark(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return grouped(value);
    }
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// `1 job`, `3 jobs`.
pub(crate) fn plural(count: usize, word: &str) -> String {
    format!("{} {word}{}", grouped(count as f64), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_choose_their_unit() {
        let shown = [0.0, 0.02, 41.0, 119.0, 130.0, 7300.0, 190_000.0, 9e8].map(duration);
        assert_eq!(shown, ["0 s", "20.0 ms", "41.0 s", "119 s", "2.17 min", "2.03 h", "2.20 d", "10,417 d"]);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "steps are exact")]
    fn steps_are_round() {
        assert_eq!(nice_step(97.0, 5.0), 20.0);
        assert_eq!(nice_time_step(3600.0 * 24.0, 8.0), 10_800.0);
        assert_eq!(nice_time_step(9.4e6, 8.0), 1_728_000.0);
        assert_eq!(nice_time_step(300.0 * 86_400.0, 8.0), 50.0 * 86_400.0);
        assert_eq!(mark(0.25), "0.25");
        assert_eq!(mark(1200.0), "1,200");
    }
}
