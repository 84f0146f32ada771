//! Run times: how long a job had run when a run of it ended. An ended job teaches this length.
//!
//! It is measured by clocks that nobody can set: by that of the run's supervisor, which knows when the run really ended, or else by the
//! queue's. Only work that the job still has counts. A job that begins again from nothing begins again at 0.

use crate::machine::platform::Outcome;
use crate::store::journal::RunReport;
use crate::store::record::JobRecord;
use rota_core::{End, JobState, Time};
use rota_exec::Cause;

/// How long a run lasted, in nanoseconds, without the time that it spent on starting again. `job` is the job as the scheduler sees it.
pub(crate) fn run_time(record: &JobRecord, outcome: &Outcome, job: Option<&JobState>, now: Time) -> u64 {
    let held = now.0.saturating_sub(record.started_at.unwrap_or(now.0));
    let lasted = match outcome {
        Outcome::Ended(exit) if exit.cause == Cause::NoRoom => 0,
        Outcome::Ended(exit) => exit.duration_ns,
        // The job had its GPUs on paper only.
        Outcome::NeverStarted | Outcome::NotLaunched(_) => 0,
        _ => held,
    };
    lasted.saturating_sub(job.map_or(0, |job| job.overhead.0))
}

/// How long a job has run of which a run ended so, in nanoseconds: for the work that it has now, and for work that it lost with this end.
pub(crate) fn kept_and_lost(record: &JobRecord, end: End, report: &RunReport, run_ns: u64) -> (u64, u64) {
    let (ask, progress) = (&record.spec.ask, &record.progress);
    let before = progress.run_time_ns();
    let whole = before.saturating_add(run_ns);
    let kept = match end {
        _ if end.is_over() || report.has_saved => whole,
        // It goes on from its last commit.
        _ if progress.has_saved => progress.committed_run_ns.clamp(before, whole),
        End::Preempted if ask.saves_progress => whole,
        End::Preempted | End::Retried if !record.resumes() => 0,
        _ => before,
    };
    (kept, whole - kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Submit;
    use crate::store::journal::{Launch, Stamp, Submission, fold};
    use crate::store::record::Spec;
    use rota_core::event::EventKind;
    use std::sync::Arc;

    const SECOND: u64 = 1_000_000_000;

    /// A job that was started at second 100.
    fn started(ask: Submit) -> JobRecord {
        let spec = Spec { ask: Arc::new(ask), ..Spec::default() };
        let request = Submission { uid: 1, gpus: 1, spec: Some(Arc::new(spec)), ..Submission::default() };
        start(&JobRecord::new(1, &request, Stamp { at: 0, wall_ns: 0 }), 100)
    }

    fn start(record: &JobRecord, second: u64) -> JobRecord {
        let event = EventKind::Started { job: 1, gpus: std::iter::empty().collect(), launch: Launch::default() };
        fold(Some(record), &event, Stamp { at: second * SECOND, wall_ns: 0 }).unwrap()
    }

    /// The job after a run of so many seconds.
    fn ended(record: &JobRecord, end: End, seconds: u64, has_saved: bool) -> JobRecord {
        let report = RunReport { attempt: 1, has_saved, ..RunReport::default() };
        let (kept, lost_run_ns) = kept_and_lost(record, end, &report, seconds * SECOND);
        let event = EventKind::Ended { job: 1, end, report: RunReport { kept_run_ns: Some(kept), lost_run_ns, ..report } };
        fold(Some(record), &event, Stamp { at: 1000 * SECOND, wall_ns: 0 }).unwrap()
    }

    fn committed(record: &JobRecord, second: u64) -> JobRecord {
        let event = EventKind::Committed { job: 1, step: 7, checkpoint: None };
        fold(Some(record), &event, Stamp { at: second * SECOND, wall_ns: 0 }).unwrap()
    }

    fn seconds(record: &JobRecord) -> u64 {
        record.progress.run_ns.unwrap() / SECOND
    }

    #[test]
    fn a_job_that_begins_again_from_nothing_begins_again_at_zero() {
        let job = started(Submit { preemptible: true, ..Submit::default() });
        for end in [End::Preempted, End::Evicted, End::Retried] {
            let again = ended(&job, end, 8, false);
            assert_eq!(seconds(&again), 0, "{end:?}");
            assert_eq!(seconds(&ended(&start(&again, 200), End::Finished, 16, false)), 16, "{end:?}");
        }
    }

    #[test]
    fn what_a_job_keeps_of_its_work_counts_with_the_next_run() {
        let saves = started(Submit { preemptible: true, saves_progress: true, ..Submit::default() });
        let stopped = ended(&saves, End::Preempted, 8, false);
        assert_eq!(seconds(&ended(&start(&stopped, 200), End::Finished, 16, false)), 24);
        // A run that went with its node took only its own work with it.
        let lost = ended(&start(&stopped, 200), End::Evicted, 5, false);
        assert_eq!(seconds(&ended(&start(&lost, 300), End::Crashed, 16, false)), 24);
        // Others save when they are told to leave.
        let told = ended(&started(Submit::default()), End::Preempted, 8, true);
        assert_eq!(seconds(&ended(&start(&told, 200), End::Finished, 16, false)), 24);
        let killed = ended(&start(&told, 200), End::Preempted, 5, false);
        assert_eq!(seconds(&ended(&start(&killed, 300), End::Finished, 16, false)), 24);
    }

    #[test]
    fn a_job_that_commits_keeps_the_time_until_its_last_commit() {
        let job = committed(&started(Submit { preemptible: true, saves_progress: true, ..Submit::default() }), 106);
        for end in [End::Preempted, End::Evicted, End::Retried] {
            let again = ended(&job, end, 8, false);
            assert_eq!(seconds(&again), 6, "{end:?}");
            let second = start(&again, 200);
            assert_eq!(seconds(&ended(&second, End::Finished, 16, false)), 22, "{end:?}");
            assert_eq!(seconds(&ended(&second, End::Evicted, 16, false)), 6, "{end:?}: it committed nothing more");
            assert_eq!(seconds(&ended(&committed(&second, 203), End::Evicted, 16, false)), 9, "{end:?}");
        }
    }
}
