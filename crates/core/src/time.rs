//! Simulated time: whole nanoseconds, so that two events at the same moment compare equal on every machine.
//!
//! [`Time`] is a moment since the zero of the trace, [`Span`] a length of time (or of work, which is measured
//! in the time it takes alone on the reference GPU). Arithmetic saturates: no input can make a clock wrap.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

const NANOS_PER_SECOND: f64 = 1e9;

/// Longest time or span accepted from a file: 100 years. Longer values are mistakes, and sums of these cannot overflow.
pub const SECONDS_MAX: f64 = 100.0 * 365.25 * 86_400.0;

/// A moment: nanoseconds since the zero of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A length of time: nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Time {
    /// The zero of the trace.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The moment `seconds` after zero, rounded to a nanosecond; `None` if negative, not a number or past [`SECONDS_MAX`].
    pub fn from_seconds(seconds: f64) -> Option<Self> {
        Span::from_seconds(seconds).map(|span| Self(span.0))
    }

    /// Seconds since zero.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `seconds`, rounded to a nanosecond; `None` if negative, not a number or past [`SECONDS_MAX`].
    pub fn from_seconds(seconds: f64) -> Option<Self> {
        (0.0..=SECONDS_MAX).contains(&seconds).then(|| Self((seconds * NANOS_PER_SECOND).round() as u64))
    }

    /// A span of whole seconds.
    pub const fn from_whole_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Length in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }

    /// The time it takes to do this much work at `speed`, rounded up so that the work is never short.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "speed 1 is exact, and must not round")]
    pub fn at_speed(self, speed: f64) -> Self {
        if speed == 1.0 { self } else { Self((self.0 as f64 / speed).ceil() as u64) }
    }

    /// The work done in this much time at `speed`.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "speed 1 is exact, and must not round")]
    pub fn work_at_speed(self, speed: f64) -> Self {
        if speed == 1.0 { self } else { Self((self.0 as f64 * speed) as u64) }
    }

    /// This span times a whole number.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// The rest after `other` is taken off; zero if nothing is left.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.minus(other)
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Self) {
        *self = self.minus(other);
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", Span(self.0))
    }
}

impl fmt::Display for Span {
    /// Written for people: `42.5s`, `3m05s`, `2h10m`, `5d03h`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total_seconds = self.0 / 1_000_000_000;
        let (days, hours) = (total_seconds / 86_400, total_seconds / 3600 % 24);
        let (minutes, seconds) = (total_seconds / 60 % 60, total_seconds % 60);
        if total_seconds < 60 {
            write!(formatter, "{:.1}s", self.seconds())
        } else if total_seconds < 3600 {
            write!(formatter, "{minutes}m{seconds:02}s")
        } else if days == 0 {
            write!(formatter, "{hours}h{minutes:02}m")
        } else {
            write!(formatter, "{days}d{hours:02}h")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_outside_the_range_are_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY, SECONDS_MAX * 1.01] {
            assert_eq!(Time::from_seconds(bad), None, "{bad}");
        }
        assert_eq!(Time::from_seconds(1.5), Some(Time(1_500_000_000)));
    }

    #[test]
    fn spans_read_like_a_person_writes_them() {
        let shown = |seconds| Span::from_seconds(seconds).unwrap().to_string();
        assert_eq!(shown(42.51), "42.5s");
        assert_eq!(shown(185.0), "3m05s");
        assert_eq!(shown(7800.0), "2h10m");
        assert_eq!(shown(442_800.0), "5d03h");
    }
}
