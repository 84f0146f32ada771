//! The lag of a user's jobs of the same kind, taken together.
//!
//! Jobs of one user that are alike often run equally long. If each were weighed by its own lag, they would take turns: a job that waits
//! falls behind the one that runs, until it takes over. Then all of them end late. So each counts as at least as far behind as they are on
//! average: the one that runs keeps its GPUs longer, and the first of them end sooner. The last of a long row fall behind a private share
//! by that, so it is done only while few jobs end behind ([`super::strictness`]).

use super::weight::LAG_SECONDS;

/// What was done for the jobs of each kind, and what private shares would have done.
#[derive(Clone, Default)]
pub struct Alike {
    sums: Vec<Sums>,
    /// Kinds with a sum. There may be many more kinds than jobs, because a kind stays when its jobs have ended.
    kinds: Vec<usize>,
}

/// Seconds on the jobs' best GPU type, softened as the lag of a single job is.
#[derive(Clone, Copy, Default)]
struct Sums {
    due: f64,
    done: f64,
}

impl Alike {
    /// Begins anew, with so many kinds.
    pub fn clear(&mut self, kinds: usize) {
        for kind in self.kinds.drain(..) {
            self.sums[kind] = Sums::default();
        }
        self.sums.resize(kinds, Sums::default());
    }

    /// Takes in one job.
    pub fn add(&mut self, kind: usize, due_seconds: f64, done_seconds: f64) {
        let sums = &mut self.sums[kind];
        if sums.done <= 0.0 {
            self.kinds.push(kind);
        }
        sums.due += due_seconds + LAG_SECONDS;
        sums.done += done_seconds + LAG_SECONDS;
    }

    /// The lag of all jobs of a kind together; 0 if there are none.
    pub fn lag(&self, kind: usize) -> f64 {
        self.sums.get(kind).filter(|sums| sums.done > 0.0).map_or(0.0, |sums| sums.due / sums.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn jobs_of_the_last_weighing_do_not_count_in_the_next() {
        let mut alike = Alike::default();
        alike.clear(3);
        alike.add(0, 1800.0, 600.0);
        alike.add(2, 600.0, 0.0);
        alike.add(2, 0.0, 600.0);
        assert_eq!([0, 1, 2, 3].map(|kind| alike.lag(kind).to_bits()), [2.0, 0.0, 1.0, 0.0].map(f64::to_bits));
        // Kinds are dropped and others come.
        for kinds in [1, 4] {
            alike.clear(kinds);
            assert_eq!([0, 1, 2, 3].map(|kind| alike.lag(kind).to_bits()), [0; 4]);
            alike.add(kinds - 1, 0.0, 0.0);
            assert_eq!(alike.lag(kinds - 1).to_bits(), 1.0_f64.to_bits());
        }
    }

    #[test]
    fn a_weighing_of_few_jobs_takes_no_longer_where_there_are_many_kinds() {
        let mut alike = Alike::default();
        alike.clear(1_000_000);
        let started = Instant::now();
        for round in 0..40_000 {
            alike.clear(1_000_000);
            alike.add(round, 1.0, 1.0);
        }
        // To clear every kind each time took 9 s.
        assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());
    }
}
