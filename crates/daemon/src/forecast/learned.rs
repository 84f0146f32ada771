//! What the site's earlier jobs taught about lengths, read from the store.

use crate::api::{JobState, Submit};
use crate::store::archive::{Ends, ended};
use crate::store::record::JobRecord;
use crate::store::{Archive, Store, StoreError};
use rota_core::mark;
use rota_forecast::{LengthBelief, Lengths, RunLength};
use rota_policy::history::{History, JobTraits};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The newest so many ended jobs teach; older ones say little about today.
const JOBS_MAX: usize = 50_000;

/// At most about so many classes of jobs are kept. The newest jobs alone make fewer.
pub const CLASSES_MAX: usize = 10 * JOBS_MAX;

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
    /// The event up to which ends were read.
    read_until: Option<u64>,
}

/// What is known of a job when it is submitted.
fn traits(record: &JobRecord) -> JobTraits {
    let ask = &record.spec.ask;
    JobTraits {
        user: mark(&record.user),
        project: mark(ask.project.as_deref().unwrap_or("")),
        program: program(ask, record.spec.profile.as_deref(), record.spec.program),
        gpus: ask.gpus,
        estimate_seconds: ask.estimate_seconds.or(ask.time_limit_seconds),
    }
}

/// The mark by which a user's jobs are told apart: that of the job type, the memory class or the name, or of the script; 0 if it has none.
pub fn program(ask: &Submit, profile: Option<&str>, script: Option<u64>) -> u64 {
    let named = ask.job_type.as_deref().or(profile).or(ask.name.as_deref());
    named.map(mark).or(script).unwrap_or(0)
}

/// What an ended job taught: for how many seconds it ran, and whether it ended by itself. Nobody chose the length of a claim.
fn lesson(record: &JobRecord) -> Option<(f64, bool)> {
    let has_ended = match record.state {
        _ if record.is_claim() => return None,
        JobState::Done => true,
        // A job that failed while it waited did not end by itself.
        JobState::Failed => record.started_at.is_some(),
        // Others ended it: it would have run on.
        JobState::Cancelled => false,
        _ => return None,
    };
    Some((ran_seconds(record)?, has_ended))
}

/// What the newest jobs taught whose ends were written up to an event, or to this day.
pub fn history_until(store: &Store, until: Option<u64>) -> Result<History, StoreError> {
    let mut history = History::default();
    let mut teach = |_, record: &JobRecord| {
        if let Some((seconds, has_ended)) = lesson(record) {
            history.ran(&traits(record), seconds, has_ended);
        }
    };
    store.read(|connection| ended(connection, Ends { after: None, until }, JOBS_MAX, &mut teach))?;
    Ok(history)
}

/// Seconds that an ended job ran, with those of earlier runs whose work it kept; `None` if it never ran.
pub fn ran_seconds(record: &JobRecord) -> Option<f64> {
    let finished_ns = record.finished_ns?;
    let ran_ns = match (record.progress.run_ns, record.progress.work_ns) {
        (Some(ran_ns), _) => ran_ns,
        // Jobs that ended under an earlier version: its scheduler wrote down their work, by a clock that nobody can set.
        (None, work_ns @ 1..) => work_ns,
        // A wall clock that was set back says nothing about a length.
        (None, 0) => u64::try_from(finished_ns - record.started_ns?).ok()?,
    };
    Some(ran_ns as f64 / 1e9)
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
        archive.ended(Ends { after: self.read_until, until: None }, JOBS_MAX, |seq, record| {
            self.take_in(record);
            self.read_until = Some(seq);
            each(self, record);
        })
    }

    fn take_in(&mut self, record: &JobRecord) {
        match lesson(record) {
            Some((seconds, true)) => self.lengths.ended(record.id, &traits(record), seconds),
            Some((seconds, false)) => self.lengths.ran(record.id, &traits(record), seconds),
            None => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Access;
    use crate::store::journal::{RunReport, Stamp, Submission, fold};
    use rota_core::End;
    use rota_core::event::EventKind;

    #[test]
    fn jobs_go_on_teaching_when_a_clock_that_was_a_year_ahead_is_put_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rota.db");
        let mut store = Store::open(&path).unwrap();
        store.transaction(|writer| writer.environment(&Arc::default())).unwrap();
        let archive = Archive::open(&path, Access::Shared).unwrap();
        let mut learned = Learned::default();
        let year_ns = 365 * 86_400 * 1_000_000_000;
        for (id, wall_ns) in [(1, 10), (2, year_ns), (3, 20), (4, 20)] {
            let stamp = Stamp { at: id, wall_ns };
            let request = Submission { uid: 1, gpus: 1, env_id: 1, ..Submission::default() };
            let waits = JobRecord::new(id, &request, stamp);
            let report = RunReport { attempt: 1, kept_run_ns: Some(5_000_000_000), ..RunReport::default() };
            let event = EventKind::Ended { job: id, end: End::Finished, report };
            let write = |writer: &mut crate::store::Writer<'_>| {
                writer.put_job(&waits)?;
                writer.update_job(&fold(Some(&waits), &event, stamp).unwrap())?;
                writer.event(id, stamp, &event)
            };
            store.transaction(write).unwrap();
            let mut read = Vec::new();
            learned.read(&archive, |_, record| read.push(record.id)).unwrap();
            assert_eq!((learned.jobs(), read), (id, vec![id]));
        }
    }
}
