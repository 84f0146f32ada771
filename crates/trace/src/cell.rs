//! Single values of a trace, read strictly: each function says what belongs there if something else does.
//!
//! Seconds are read as decimals, not through a float: a nanosecond survives being written and read again even
//! thirty years behind the zero of the trace.

use crate::error::{Problem, excerpt};
use rota_core::time::SECONDS_MAX;
use rota_core::{MilliGpu, Span, Time};
use std::fmt;

/// Most GPUs one job may have.
pub(crate) const GANG_MAX: u32 = 1_000_000;
/// Largest number of steps, weight or the like: beyond it is a slip, and floats lose whole numbers.
const QUANTITY_MAX: f64 = 1e15;

const SECONDS_ALLOWED: &str = "seconds from 0 to 3155760000 (100 years)";
const NANOS_MAX: u64 = SECONDS_MAX as u64 * 1_000_000_000;

/// Nanoseconds of a number of seconds.
pub(crate) fn nanos(text: &str) -> Result<u64, Problem> {
    let nanos = match decimal_nanos(text.as_bytes()) {
        Some(nanos) => nanos,
        None => float_nanos(text)?,
    };
    if nanos <= NANOS_MAX { Ok(nanos) } else { Err(Problem::out_of_range(text, SECONDS_ALLOWED)) }
}

/// Plain decimals such as `12` and `12.345`, rounded to a nanosecond; `None` for any other spelling.
fn decimal_nanos(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    if whole.is_empty() || whole.len() > 10 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut nanos = 0_u64;
    for &byte in whole {
        if !byte.is_ascii_digit() {
            return None;
        }
        nanos = nanos * 10 + u64::from(byte - b'0');
    }
    for position in 0..9 {
        nanos = nanos.checked_mul(10)?.checked_add(fraction.get(position).map_or(0, |byte| u64::from(byte - b'0')))?;
    }
    Some(nanos + u64::from(fraction.get(9).is_some_and(|&byte| byte >= b'5')))
}

fn float_nanos(text: &str) -> Result<u64, Problem> {
    let seconds = text.parse::<f64>().map_err(|_| Problem::malformed(text, "a number of seconds"))?;
    Span::from_seconds(seconds).map(|span| span.0).ok_or_else(|| Problem::out_of_range(text, SECONDS_ALLOWED))
}

/// A moment in seconds since zero.
pub(crate) fn time(text: &str) -> Result<Time, Problem> {
    nanos(text).map(Time)
}

/// A length of time in seconds.
pub(crate) fn span(text: &str) -> Result<Span, Problem> {
    nanos(text).map(Span)
}

/// A length of time that is not nothing.
pub(crate) fn span_above_zero(text: &str) -> Result<Span, Problem> {
    match span(text)? {
        Span::ZERO => Err(Problem::out_of_range(text, "seconds above 0")),
        span => Ok(span),
    }
}

/// A whole number; tables written by pandas have `8.0` for 8.
fn whole(text: &str, wanted: &'static str) -> Result<i64, Problem> {
    let digits =
        text.split_once('.').filter(|(_, zeros)| zeros.bytes().all(|byte| byte == b'0')).map_or(text, |(digits, _)| digits);
    digits.parse::<i64>().map_err(|_| {
        let is_huge = digits.len() > 1 && digits.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
        if is_huge { Problem::out_of_range(text, "a number that fits") } else { Problem::malformed(text, wanted) }
    })
}

/// A gang size, or 0 where the format has jobs without GPUs.
pub(crate) fn gpus_or_none(text: &str) -> Result<u32, Problem> {
    let count = whole(text, "a whole number of GPUs")?;
    u32::try_from(count)
        .ok()
        .filter(|&count| count <= GANG_MAX)
        .ok_or_else(|| Problem::out_of_range(text, "a number of GPUs from 0 to 1000000"))
}

/// A gang size.
pub(crate) fn gpus(text: &str) -> Result<u32, Problem> {
    let count = whole(text, "a whole number of GPUs")?;
    u32::try_from(count)
        .ok()
        .filter(|count| (1..=GANG_MAX).contains(count))
        .ok_or_else(|| Problem::out_of_range(text, "a number of GPUs from 1 to 1000000"))
}

/// A whole number from 0.
pub(crate) fn count(text: &str, wanted: &'static str) -> Result<u32, Problem> {
    u32::try_from(whole(text, wanted)?).map_err(|_| Problem::out_of_range(text, "a whole number from 0 to 4294967295"))
}

/// A whole number from 1.
pub(crate) fn count_above_zero(text: &str, wanted: &'static str) -> Result<u32, Problem> {
    match count(text, wanted)? {
        0 => Err(Problem::out_of_range(text, "a whole number from 1 to 4294967295")),
        count => Ok(count),
    }
}

/// Reads a priority, a whole number of either sign.
pub(crate) fn priority(text: &str) -> Result<i32, Problem> {
    i32::try_from(whole(text, "a whole number")?)
        .map_err(|_| Problem::out_of_range(text, "a whole number from -2147483648 to 2147483647"))
}

/// A finite number.
pub(crate) fn number(text: &str, wanted: &'static str) -> Result<f64, Problem> {
    let value = text.parse::<f64>().map_err(|_| Problem::malformed(text, wanted))?;
    if value.is_finite() { Ok(value) } else { Err(Problem::malformed(text, wanted)) }
}

/// A number above 0.
pub(crate) fn quantity(text: &str, wanted: &'static str) -> Result<f64, Problem> {
    let value = number(text, wanted)?;
    if value > 0.0 && value <= QUANTITY_MAX {
        Ok(value)
    } else {
        Err(Problem::out_of_range(text, "a number above 0, at most 1e15"))
    }
}

/// A fraction from 0 to 1.
pub(crate) fn fraction(text: &str) -> Result<f64, Problem> {
    let value = number(text, "a fraction from 0 to 1")?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(Problem::out_of_range(text, "a fraction from 0 to 1")) }
}

/// A share of a GPU.
pub(crate) fn share(text: &str) -> Result<MilliGpu, Problem> {
    let value = number(text, "a share of a GPU from 0.001 to 1")?;
    MilliGpu::from_fraction(value).ok_or_else(|| Problem::out_of_range(text, "a share of a GPU from 0.001 to 1"))
}

/// A name: any text without control characters.
pub(crate) fn name(text: &str) -> Result<&str, Problem> {
    if text.chars().any(char::is_control) { Err(Problem::ControlCharacter { given: excerpt(text) }) } else { Ok(text) }
}

/// The name of a GPU type, several of which may be written with `|` between them.
pub(crate) fn gpu_type(text: &str) -> Result<&str, Problem> {
    match name(text.trim())? {
        name if name.is_empty() || name.contains('|') => Err(Problem::malformed(text, "the name of a GPU type")),
        name => Ok(name),
    }
}

/// A job's id: a name that a list of dependencies can hold.
pub(crate) fn id(text: &str) -> Result<&str, Problem> {
    let name = name(text)?;
    if name.chars().any(|character| character.is_whitespace() || matches!(character, ';' | ':')) {
        return Err(Problem::malformed(text, "an id: ids have no blanks, `;` or `:` in them"));
    }
    Ok(name)
}

/// Writes nanoseconds as seconds that [`nanos`] reads back exactly.
pub(crate) struct Seconds(pub u64);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        if nanos == 0 {
            return write!(formatter, "{whole}");
        }
        let fraction = format!("{nanos:09}");
        write!(formatter, "{whole}.{}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seconds_are_read_exactly_and_rounded_at_the_tenth_digit() {
        for (text, expected) in [
            ("0", 0),
            ("12", 12_000_000_000),
            ("0.000000001", 1),
            ("1.0000000005", 1_000_000_001),
            ("3155759999.123456789", 3_155_759_999_123_456_789),
            ("1e2", 100_000_000_000),
            ("5.", 5_000_000_000),
            (".5", 500_000_000),
        ] {
            assert_eq!(nanos(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for (text, message) in [
            ("", "`` is not a number of seconds"),
            ("x", "`x` is not a number of seconds"),
            ("-1", "`-1` is out of range: give seconds from 0 to 3155760000 (100 years)"),
            ("NaN", "`NaN` is out of range: give seconds from 0 to 3155760000 (100 years)"),
            ("inf", "`inf` is out of range: give seconds from 0 to 3155760000 (100 years)"),
            ("4000000000", "`4000000000` is out of range: give seconds from 0 to 3155760000 (100 years)"),
            ("99999999999999999999", "`99999999999999999999` is out of range: give seconds from 0 to 3155760000 (100 years)"),
        ] {
            assert_eq!(nanos(text).unwrap_err().to_string(), message);
        }
        assert_eq!(gpus("x").unwrap_err().to_string(), "`x` is not a whole number of GPUs");
        assert_eq!(gpus("1.5").unwrap_err().to_string(), "`1.5` is not a whole number of GPUs");
        assert_eq!(gpus("0").unwrap_err().to_string(), "`0` is out of range: give a number of GPUs from 1 to 1000000");
        assert_eq!(
            gpus("1000001").unwrap_err().to_string(),
            "`1000001` is out of range: give a number of GPUs from 1 to 1000000"
        );
        assert_eq!(gpus("8.0").unwrap(), 8);
    }

    proptest! {
        #[test]
        fn written_seconds_read_back_to_the_nanosecond(given in 0..=NANOS_MAX) {
            prop_assert_eq!(nanos(&Seconds(given).to_string()).unwrap(), given);
        }
    }
}
