//! What the site's earlier jobs taught about lengths, read from the store.

use crate::api::JobState;
use crate::store::record::JobRecord;
use crate::store::{Archive, StoreError};
use rota_forecast::{LengthBelief, Lengths, RunLength};
use rota_policy::history::JobTraits;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The newest so many ended jobs teach; older ones say little about today.
const JOBS_MAX: usize = 50_000;

/// At most about so many classes of jobs are kept. The newest jobs alone make fewer.
const CLASSES_MAX: usize = 20 * JOBS_MAX;

/// What was learned, for the thread that makes forecasts and for requests.
#[derive(Clone, Default)]
pub struct SharedLearned(Arc<Mutex<Learned>>);

impl SharedLearned {
    /// What was learned, for one caller at a time. Counts that a caller left half done are still counts.
    pub fn lock(&self) -> MutexGuard<'_, Learned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lengths that are learned from the store, a few jobs at a time.
#[derive(Default)]
pub struct Learned {
    lengths: Lengths,
    /// The end of the newest job that was read, in nanoseconds since 1970, and the jobs that ended at that very moment.
    newest: Option<i64>,
    at_newest: HashSet<u64>,
}

/// What is known of a job when it is submitted.
fn traits(record: &JobRecord) -> JobTraits<'_> {
    let ask = &record.spec.ask;
    JobTraits {
        user: &record.user,
        project: ask.project.as_deref().unwrap_or(""),
        job_type: ask.job_type.as_deref().or(record.spec.profile.as_deref()).or(ask.name.as_deref()).unwrap_or(""),
        gpus: ask.gpus,
        estimate_seconds: ask.estimate_seconds.or(ask.time_limit_seconds),
    }
}

/// Seconds that an ended job ran, with those of earlier attempts that it went on from.
pub fn ran_seconds(record: &JobRecord) -> Option<f64> {
    // A wall clock that was set back says nothing about a length.
    let last = u64::try_from(record.finished_ns? - record.started_ns?).ok()?;
    let ask = &record.spec.ask;
    let gpus = f64::from(ask.gpus.max(1)) * ask.share.unwrap_or(1.0).max(0.001);
    Some((last as f64 + record.service_ns as f64 / gpus) / 1e9)
}

impl Learned {
    /// Ended jobs that taught so far.
    pub fn jobs(&self) -> u64 {
        self.lengths.history().ended()
    }

    /// Reads the jobs that ended since this was last called, one at a time, and hands over each when it has taught.
    pub fn read(&mut self, archive: &Archive, mut each: impl FnMut(&mut Self, &JobRecord)) -> Result<(), StoreError> {
        // Users who give each job a name of its own make classes without end: the newest jobs teach again from the beginning.
        if self.lengths.history().classes() > CLASSES_MAX {
            *self = Self::default();
        }
        archive.ended_since(self.newest, JOBS_MAX, |record| {
            if self.at_newest.contains(&record.id) {
                return;
            }
            self.take_in(record);
            if record.finished_ns > self.newest {
                (self.newest, self.at_newest) = (record.finished_ns, HashSet::new());
            }
            self.at_newest.insert(record.id);
            each(self, record);
        })
    }

    fn take_in(&mut self, record: &JobRecord) {
        if record.is_claim() {
            return;
        }
        match (record.state, ran_seconds(record)) {
            (JobState::Done | JobState::Failed, Some(seconds)) => self.lengths.ended(record.id, &traits(record), seconds),
            // Others ended it: it would have run on.
            (JobState::Cancelled, Some(seconds)) => self.lengths.ran(record.id, &traits(record), seconds),
            _ => {}
        }
        self.lengths.cut_off(record.id);
    }

    /// A running job has so many seconds behind it. Nobody chose the length of a claim.
    pub fn ran(&mut self, record: &JobRecord, seconds: f64) {
        if !record.is_claim() {
            self.lengths.ran(record.id, &traits(record), seconds);
        }
    }

    /// What is believed of a job's length.
    pub fn length(&self, record: &JobRecord) -> RunLength {
        let belief = if record.is_claim() { LengthBelief::Unknown } else { self.lengths.belief(&traits(record)) };
        RunLength { belief, limit_seconds: record.spec.ask.time_limit_seconds }
    }
}
