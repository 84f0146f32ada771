//! Renumbering: rows of jobs that are over are dropped from the scheduler's tables, and the others move up in the same order.
//!
//! A live queue runs for years. Whoever keeps something by job row implements this, and nobody's order changes by it.

use crate::JobId;
use std::collections::BTreeSet;

/// Which row each job has from now on.
#[derive(Clone, Debug)]
pub struct Renumbering {
    new_of: Vec<Option<JobId>>,
}

impl Renumbering {
    /// Keeps the rows for which `keeps` holds, of so many.
    pub fn keeping(rows: usize, keeps: impl Fn(JobId) -> bool) -> Self {
        let mut next = 0;
        let new_of = (0..rows).map(JobId::from_index).map(|job| {
            keeps(job).then(|| {
                next += 1;
                JobId(next - 1)
            })
        });
        Self { new_of: new_of.collect() }
    }

    /// The new row of a job; `None` if its row is dropped.
    pub fn new_of(&self, job: JobId) -> Option<JobId> {
        self.new_of.get(job.index()).copied().flatten()
    }

    /// The new row of a job that is kept. One that is not gets a row that no job has.
    pub fn of(&self, job: JobId) -> JobId {
        self.new_of(job).unwrap_or(JobId(u32::MAX))
    }

    /// Drops the entries of dropped rows from a table by job. A table that has become much smaller gives its memory back.
    pub fn keep<T>(&self, by_job: &mut Vec<T>) {
        let mut row = 0;
        by_job.retain(|_| {
            row += 1;
            self.new_of.get(row - 1).is_none_or(Option::is_some)
        });
        by_job.shrink_to(2 * by_job.len());
    }

    /// The same for a list of jobs.
    pub fn rename(&self, jobs: &mut Vec<JobId>) {
        let kept = jobs.iter().filter_map(|job| self.new_of(*job)).collect();
        *jobs = kept;
    }

    /// The same for a set of jobs, each with something in front by which it is ordered.
    pub fn rename_keyed<K: Ord>(&self, jobs: &mut BTreeSet<(K, JobId)>) {
        let kept = std::mem::take(jobs).into_iter().filter_map(|(key, job)| Some((key, self.new_of(job)?)));
        *jobs = kept.collect();
    }

    /// The same for a set of jobs.
    pub fn rename_set(&self, jobs: &mut BTreeSet<JobId>) {
        let kept = jobs.iter().filter_map(|job| self.new_of(*job)).collect();
        *jobs = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_move_up_in_order() {
        let rows = Renumbering::keeping(5, |job| job.0 % 2 == 0);
        let mut table = vec!["a", "b", "c", "d", "e", "beyond"];
        rows.keep(&mut table);
        assert_eq!(table, ["a", "c", "e", "beyond"]);
        let mut jobs = vec![JobId(4), JobId(1), JobId(0)];
        rows.rename(&mut jobs);
        assert_eq!(jobs, [JobId(2), JobId(0)]);
    }
}
