//! Time: the queue's own, which only goes forward whatever happens to the machine's clock, and the wall clock for people.

use rota_core::Time;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the world gets its time from.
pub trait Clock: Send {
    /// The queue's time.
    fn now(&self) -> Time;
    /// Nanoseconds since 1970 by the wall clock.
    fn wall_ns(&self) -> i64;
}

/// The machine's clocks. The queue's time goes on from where the store left it, by the clock that counts from boot, sleep included.
#[derive(Clone, Copy)]
pub struct SystemClock {
    base: Time,
    boot_ns: u64,
}

impl SystemClock {
    /// Goes on from a moment.
    pub fn from(base: Time) -> Self {
        Self { base, boot_ns: boot_ns() }
    }
}

/// Nanoseconds since this machine was booted, sleep included.
pub fn boot_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        Time(self.base.0 + boot_ns().saturating_sub(self.boot_ns))
    }

    fn wall_ns(&self) -> i64 {
        wall_ns()
    }
}

/// What tells this boot of the machine from any other.
pub fn boot_id() -> String {
    // A machine that does not say has one boot, and its queue's time goes on from what was written last.
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// Nanoseconds since 1970 by the wall clock.
pub fn wall_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// A moment as people and programs read it.
pub fn rfc3339(wall_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(wall_ns)).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}
