//! Rates: how fast one caller may send requests. Each caller has a bucket that fills at a steady rate.

use super::connections::Guest;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Buckets that are kept before those that are full again are forgotten.
const BUCKETS_MAX: usize = 4096;

/// The caller that a bucket belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A token's, with all its sessions.
    Token(u64),
    /// A caller without one: a user of this machine, or an address.
    Guest(Guest),
}

struct Bucket {
    left: f64,
    at: Instant,
}

/// The buckets of all callers.
pub struct Rates {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<Key, Bucket>>,
}

impl Rates {
    /// So many requests a second, and so many at once; 0 a second means any number.
    pub fn new(per_second: f64, burst: u32) -> Self {
        Self { per_second, burst: f64::from(burst), buckets: Mutex::default() }
    }

    /// Takes one request out of a bucket, or says how long to wait for one.
    pub fn take(&self, key: Key, now: Instant) -> Result<(), Duration> {
        if self.per_second <= 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(&key) {
            buckets.retain(|_, bucket| self.level(bucket, now) < self.burst);
        }
        let bucket = buckets.entry(key).or_insert(Bucket { left: self.burst, at: now });
        let level = self.level(bucket, now);
        (bucket.left, bucket.at) = (level, now);
        if level < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - level) / self.per_second));
        }
        bucket.left = level - 1.0;
        Ok(())
    }

    fn level(&self, bucket: &Bucket, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.left + seconds * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_a_burst_and_then_a_steady_rate_whatever_others_do() {
        let rates = Rates::new(10.0, 3);
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let (ann, bob) = (Key::Token(1), Key::Guest(Guest::at("192.0.2.1".parse().unwrap())));
        assert!((0..3).all(|_| rates.take(ann, at(0)).is_ok()));
        let wait = rates.take(ann, at(0)).unwrap_err();
        assert!((0.09..=0.1).contains(&wait.as_secs_f64()), "{wait:?}");
        assert!(rates.take(bob, at(0)).is_ok());
        assert!(rates.take(ann, at(100)).is_ok() && rates.take(ann, at(100)).is_err());
        // However long nothing comes, no more than the burst is saved.
        assert_eq!((0..10).filter(|_| rates.take(ann, at(60_000)).is_ok()).count(), 3);
        assert!((0..1000).all(|_| Rates::new(0.0, 1).take(ann, at(0)).is_ok()));
    }

    #[test]
    fn those_who_asked_long_ago_are_forgotten() {
        let rates = Rates::new(1.0, 2);
        let start = Instant::now();
        for number in 0..BUCKETS_MAX as u64 {
            rates.take(Key::Token(number), start).unwrap();
        }
        rates.take(Key::Token(u64::MAX), start + Duration::from_mins(1)).unwrap();
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
