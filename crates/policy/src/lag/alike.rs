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
        self.sums.clear();
        self.sums.resize(kinds, Sums::default());
    }

    /// Takes in one job.
    pub fn add(&mut self, kind: usize, due_seconds: f64, done_seconds: f64) {
        let sums = &mut self.sums[kind];
        sums.due += due_seconds + LAG_SECONDS;
        sums.done += done_seconds + LAG_SECONDS;
    }

    /// The lag of all jobs of a kind together; 0 if there are none.
    pub fn lag(&self, kind: usize) -> f64 {
        self.sums.get(kind).filter(|sums| sums.done > 0.0).map_or(0.0, |sums| sums.due / sums.done)
    }
}
