//! A workload: the jobs of a trace in order of arrival.

use crate::{Job, JobId, Names};

/// Jobs in order of arrival (ties in file order), with ids equal to their position.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Where it came from, for messages: a file name or a generator.
    pub source: String,
    /// Users and job types.
    pub names: Names,
    /// The jobs, sorted by arrival, `jobs[i].id == i`.
    pub jobs: Vec<Job>,
}

impl Workload {
    /// An empty workload with a name for messages.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), ..Self::default() }
    }

    /// Adds a job, to be numbered by [`Workload::finish`].
    pub fn push(&mut self, job: Job) {
        self.jobs.push(job);
    }

    /// Sorts by arrival (stable) and numbers the jobs; dependencies given by position in insertion order are renumbered.
    pub fn finish(&mut self) {
        for (position, job) in self.jobs.iter_mut().enumerate() {
            job.id = JobId::from_index(position);
        }
        self.jobs.sort_by_key(|job| job.arrival);
        let mut new_ids = vec![JobId(0); self.jobs.len()];
        for (position, job) in self.jobs.iter_mut().enumerate() {
            new_ids[job.id.index()] = JobId::from_index(position);
            job.id = JobId::from_index(position);
        }
        for job in &mut self.jobs {
            for dependency in &mut job.after {
                dependency.job = new_ids[dependency.job.index()];
            }
        }
    }
}
