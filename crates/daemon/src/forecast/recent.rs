//! The jobs that came lately, from which forecasts draw the jobs to come.

use crate::forecast::learned::{Learned, program, ran_seconds};
use crate::queue::estimates::Estimates;
use crate::store::record::JobRecord;
use rota_core::{Job, MilliGpu, NewJob, Span, Time};
use rota_forecast::{ArrivalPool, RecentArrivals, RunLength};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The newest so many jobs are kept.
const JOBS_MAX: usize = 5000;

/// A job that came lately. Jobs in a row that ask for the same, as those of an array do, have one copy of it.
struct Came {
    at: Time,
    request: Arc<NewJob>,
    length: Arc<RunLength>,
    /// How long it ran, if it is over.
    ran: Option<Span>,
    /// The seconds it has behind it while it runs.
    runs_seconds: f64,
}

/// Jobs that came lately, by number.
#[derive(Default)]
pub struct Recent {
    jobs: BTreeMap<u64, Came>,
}

impl Recent {
    /// Takes in a job that waits, runs or is over. `gpu_types` are those of this machine.
    pub fn take_in(&mut self, record: &JobRecord, estimates: &Estimates, gpu_types: &[Box<str>], learned: &mut Learned) {
        let ask = &record.spec.ask;
        if record.is_claim() || ask.gpus == 0 {
            return;
        }
        if record.state.is_over() && record.attempts == 0 {
            // It was a job to come only as long as it could run.
            self.jobs.remove(&record.id);
            return;
        }
        let ran = ran_seconds(record).and_then(Span::from_seconds);
        if let Some(known) = self.jobs.get_mut(&record.id) {
            known.ran = ran;
            return;
        }
        if self.jobs.len() >= JOBS_MAX && self.jobs.first_key_value().is_some_and(|(oldest, _)| record.id < *oldest) {
            return;
        }
        let (believed, share, memory_mib) = estimates.of(record);
        let job = Job {
            gpus: ask.gpus,
            share: MilliGpu(share),
            memory_mib,
            estimate: ask.estimate_seconds.or(ask.time_limit_seconds).and_then(Span::from_seconds),
            usual: Span::from_seconds(believed),
            program: program(ask, record.spec.profile.as_deref(), record.spec.program),
            priority: ask.priority,
            weight: ask.weight,
            tickets: ask.tickets,
            preemptible: ask.preemptible,
            saves_progress: ask.saves_progress,
            any_type: ask.gpus > 1 && ask.any_type,
            // When it came is known without the request.
            ..Job::new(Time::ZERO, Span(1))
        };
        let types = if ask.gpu_types.is_empty() {
            gpu_types.to_vec()
        } else {
            ask.gpu_types.iter().map(|name| name.as_str().into()).collect()
        };
        let request = NewJob {
            job,
            user: record.user.as_str().into(),
            project: ask.project.as_deref().unwrap_or("").into(),
            job_type: ask.job_type.as_deref().unwrap_or("").into(),
            gpu_types: types,
        };
        let length = learned.length(record);
        let newest = self.jobs.last_key_value().map(|(_, came)| came);
        let request = shared(newest.map(|came| &came.request), request);
        let length = shared(newest.map(|came| &came.length), length);
        self.jobs.insert(record.id, Came { at: Time(record.arrived_at), request, length, ran, runs_seconds: 0.0 });
        while self.jobs.len() > JOBS_MAX {
            self.jobs.pop_first();
        }
    }

    /// A running job has so many seconds behind it: it is no short one.
    pub fn runs(&mut self, number: u64, seconds: f64) {
        if let Some(came) = self.jobs.get_mut(&number) {
            came.runs_seconds = seconds;
        }
    }

    /// What is drawn from at this moment; nothing where too little is known.
    pub fn pool(&self, now: Time) -> Option<Arc<ArrivalPool>> {
        let mut recent = RecentArrivals::default();
        for (number, came) in self.jobs.iter().filter(|(_, came)| came.at <= now) {
            recent.came(*number, came.at, Arc::clone(&came.request), Arc::clone(&came.length), 1.0);
            match came.ran {
                Some(ran) => recent.ended(*number, ran),
                None => recent.ran(*number, came.runs_seconds),
            }
        }
        recent.pool(now)
    }
}

/// The value that is known, if it is the same as the new one.
fn shared<T: PartialEq>(known: Option<&Arc<T>>, new: T) -> Arc<T> {
    match known {
        Some(known) if **known == new => Arc::clone(known),
        _ => Arc::new(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{JobState, Submit};
    use crate::store::journal::{Stamp, Submission};
    use crate::store::record::Spec;

    fn job(id: u64, ask: &Submit) -> JobRecord {
        let spec = Some(Arc::new(Spec { ask: Arc::new(ask.clone()), ..Spec::default() }));
        let request =
            Submission { uid: 1, user: "ann".to_owned(), gpus: ask.gpus, env_id: 1, memory_mib: None, group: None, spec };
        JobRecord::new(id, &request, Stamp { at: id, wall_ns: 0 })
    }

    fn estimates() -> Estimates {
        let (host, memory_mib) = ("gauss".to_owned(), Vec::new());
        Estimates { host, memory_mib, estimate_seconds: 60.0, jobs_per_gpu: 1, buffer_mib: 0 }
    }

    #[test]
    fn a_job_that_is_over_and_never_ran_is_no_job_to_come() {
        let (mut recent, mut learned) = (Recent::default(), Learned::default());
        let waiting = job(1, &Submit { gpus: 1, ..Submit::default() });
        let cancelled = JobRecord { state: JobState::Cancelled, finished_ns: Some(9), ..waiting.clone() };
        recent.take_in(&waiting, &estimates(), &["A100".into()], &mut learned);
        assert_eq!(recent.jobs.len(), 1);
        recent.take_in(&cancelled, &estimates(), &["A100".into()], &mut learned);
        assert_eq!(recent.jobs.len(), 0);
        recent.take_in(&cancelled, &estimates(), &["A100".into()], &mut learned);
        assert_eq!(recent.jobs.len(), 0, "the daemon was started after it was cancelled");
        let ran = JobRecord { attempts: 1, started_ns: Some(2), ..cancelled };
        recent.take_in(&ran, &estimates(), &["A100".into()], &mut learned);
        assert_eq!(recent.jobs.len(), 1, "it ran until it was cancelled");
    }

    #[test]
    fn jobs_that_ask_for_the_same_have_one_copy_of_it_and_only_the_newest_are_kept() {
        let (mut recent, mut learned) = (Recent::default(), Learned::default());
        let estimates = estimates();
        let mut take_in = |recent: &mut Recent, id, ask: &Submit| {
            recent.take_in(&job(id, ask), &estimates, &["A100".into()], &mut learned);
        };
        let (small, large) = (Submit { gpus: 1, ..Submit::default() }, Submit { gpus: 2, ..Submit::default() });
        let most = JOBS_MAX as u64;
        (1..=most).for_each(|id| take_in(&mut recent, id, &small));
        assert!(Arc::ptr_eq(&recent.jobs[&1].request, &recent.jobs[&most].request), "an array is kept once");
        assert!(Arc::ptr_eq(&recent.jobs[&1].length, &recent.jobs[&most].length));
        take_in(&mut recent, most + 1, &large);
        take_in(&mut recent, 1, &small);
        assert_eq!((recent.jobs.len(), recent.jobs.contains_key(&1)), (JOBS_MAX, false));
        assert_eq!(recent.jobs[&(most + 1)].request.job.gpus, 2);
        assert_eq!(recent.jobs[&2].at, Time(2), "each has its own time");
    }
}
