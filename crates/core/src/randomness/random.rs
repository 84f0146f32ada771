//! Named random streams: one per concern, all from one run seed.
//!
//! Because each concern draws from its own stream, adding a draw in one place does not move any other:
//! two policies compared under one seed see the same arrivals and the same failures.

use crate::mark;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

/// A deterministic stream of random numbers, the same on every machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RandomStream(ChaCha8Rng);

impl RandomStream {
    /// The stream called `name` of the run with this `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // The mark keeps distinct names apart; ChaCha does the mixing.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&mark(name).to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A stream of its own for the thing with this number, the same whatever has been drawn for others.
    #[must_use]
    pub fn part(&self, number: u64) -> Self {
        let mut own = self.0.clone();
        own.set_stream(number);
        own.set_word_pos(0);
        Self(own)
    }

    /// Uniform in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in [`low`, `high`).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A whole number below `bound`, each equally likely; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let bound = bound.max(1);
        loop {
            let draw = self.0.next_u64();
            let value = draw % bound;
            // A draw from the last numbers, where not every value has its place, is drawn again: every value is equally likely.
            if (draw - value).checked_add(bound).is_some() {
                return value;
            }
        }
    }

    /// A whole number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Standard normal (Box–Muller, one draw of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_every_time_and_differs_by_name_and_seed() {
        let draws = |seed, name| {
            let mut stream = RandomStream::new(seed, name);
            (0..4).map(|_| stream.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(7, "arrivals"), draws(7, "arrivals"));
        assert_ne!(draws(7, "arrivals"), draws(7, "lottery"));
        assert_ne!(draws(7, "arrivals"), draws(8, "arrivals"));
    }

    #[test]
    fn a_part_does_not_depend_on_what_was_drawn_before() {
        let mut stream = RandomStream::new(7, "lengths");
        let before = stream.part(3).below(1 << 60);
        stream.unit();
        assert_eq!(stream.part(3).below(1 << 60), before);
        assert_ne!(stream.part(4).below(1 << 60), before);
        let mean = (0..10_000).map(|number| stream.part(number).unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }

    #[test]
    fn below_is_uniform() {
        let mut stream = RandomStream::new(1, "test");
        let mut counts = [0_u32; 5];
        for _ in 0..50_000 {
            counts[stream.below(5) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
    }

    #[test]
    fn moments_of_the_distributions() {
        let mut stream = RandomStream::new(1, "moments");
        let count = 100_000;
        let mean = (0..count).map(|_| stream.exponential(3.0)).sum::<f64>() / f64::from(count);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        let square = (0..count).map(|_| stream.normal().powi(2)).sum::<f64>() / f64::from(count);
        assert!((square - 1.0).abs() < 0.02, "{square}");
    }
}
