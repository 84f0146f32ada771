//! The jobs that came lately, from which forecasts draw the jobs to come.

use crate::forecast::learned::Learned;
use crate::queue::estimates::Estimates;
use crate::store::record::JobRecord;
use rota_core::{Job, MilliGpu, NewJob, Span, Time};
use rota_forecast::{ArrivalPool, RecentArrivals, RunLength};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The newest so many jobs are kept.
const JOBS_MAX: usize = 5000;

struct Came {
    at: Time,
    request: NewJob,
    length: RunLength,
    /// How long it ran, if it is over.
    ran: Option<Span>,
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
        let ran = record.started_ns.zip(record.finished_ns).and_then(|(start, end)| u64::try_from(end - start).ok()).map(Span);
        if let Some(known) = self.jobs.get_mut(&record.id) {
            known.ran = ran;
            return;
        }
        let (believed, share, memory_mib) = estimates.of(record);
        let at = Time(record.arrived_at);
        let job = Job {
            gpus: ask.gpus,
            share: MilliGpu(share),
            memory_mib,
            estimate: Span::from_seconds(believed),
            priority: ask.priority,
            weight: ask.weight,
            tickets: ask.tickets,
            preemptible: ask.preemptible,
            saves_progress: ask.saves_progress,
            any_type: ask.gpus > 1 && ask.any_type,
            ..Job::new(at, Span(1))
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
        self.jobs.insert(record.id, Came { at, request, length: learned.length(record), ran });
        while self.jobs.len() > JOBS_MAX {
            self.jobs.pop_first();
        }
    }

    /// What is drawn from at this moment; nothing where too little is known.
    pub fn pool(&self, now: Time) -> Option<Arc<ArrivalPool>> {
        let mut recent = RecentArrivals::default();
        for (number, came) in self.jobs.iter().filter(|(_, came)| came.at <= now) {
            recent.came(*number, came.at, came.request.clone(), came.length.clone(), 1.0);
            if let Some(ran) = came.ran {
                recent.ended(*number, ran);
            }
        }
        recent.pool(now)
    }
}
