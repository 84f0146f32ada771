//! The clock by which the silence of nodes is measured. It stands still while the daemon does not get to listen: a daemon that was
//! suspended, or had no processor, has heard nothing of any node, and none of them is lost for that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that is moved by whoever listens.
pub(super) struct ListeningClock {
    began: Instant,
    every_ms: u64,
    /// The real time of the last tick.
    ticked_ms: AtomicU64,
    now_ms: AtomicU64,
}

impl ListeningClock {
    /// A clock that is to be ticked at this interval.
    pub(super) fn new(every: Duration) -> Self {
        Self { began: Instant::now(), every_ms: millis(every), ticked_ms: AtomicU64::default(), now_ms: AtomicU64::default() }
    }

    /// The interval between two ticks.
    pub(super) fn every(&self) -> Duration {
        Duration::from_millis(self.every_ms)
    }

    /// The daemon listens now.
    pub(super) fn tick(&self) {
        self.tick_at(self.began.elapsed());
    }

    fn tick_at(&self, real: Duration) {
        let real_ms = millis(real);
        let gap_ms = real_ms.saturating_sub(self.ticked_ms.swap(real_ms, Ordering::Relaxed));
        self.now_ms.fetch_add(gap_ms.min(2 * self.every_ms), Ordering::Relaxed);
    }

    /// The time of the last tick, without the time in which nobody listened.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// Whether nothing was heard for so long, as far as the ticks can tell.
    pub(super) fn is_silent(&self, heard_ms: u64, after: Duration) -> bool {
        self.now_ms().saturating_sub(heard_ms) >= millis(after) + self.every_ms
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(5);

    #[test]
    fn a_node_is_silent_after_its_time_and_not_before() {
        let clock = ListeningClock::new(Duration::from_millis(500));
        let silent_from = (0_u64..20).find(|tick| {
            clock.tick_at(Duration::from_millis(500 * tick));
            clock.is_silent(0, AFTER)
        });
        assert_eq!(silent_from, Some(11), "a tick after the five seconds");
    }

    #[test]
    fn the_time_in_which_nobody_listened_does_not_count() {
        let clock = ListeningClock::new(Duration::from_millis(500));
        clock.tick_at(Duration::from_millis(500));
        clock.tick_at(Duration::from_mins(1));
        assert_eq!(clock.now_ms(), 1500);
        assert!(!clock.is_silent(500, AFTER), "the daemon was suspended for a minute");
        for tick in 1..=10 {
            clock.tick_at(Duration::from_millis(60_000 + 500 * tick));
        }
        assert!(clock.is_silent(500, AFTER), "it listens again, and hears nothing");
    }
}
