//! The supervisor's one timer, on the clock that nobody can set and that counts suspended time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};

/// Time since boot, suspended time included.
pub(crate) fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// A deadline that can be waited for with `poll`.
#[derive(Debug)]
pub(crate) struct Timer(OwnedFd);

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?))
    }

    /// Readable from this time since boot on; `None` for never.
    pub(crate) fn set(&self, at: Option<Duration>) {
        let at = at.map_or(Timespec::default(), |at| {
            // Zero would mean never.
            let at = at.max(Duration::from_nanos(1));
            Timespec { tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX), tv_nsec: at.subsec_nanos().into() }
        });
        // Nothing that can fail: a timer of our own, a valid time.
        let _ =
            timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: Timespec::default(), it_value: at });
    }

    /// Whether the deadline has passed since it was last set or asked about.
    pub(crate) fn expired(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
