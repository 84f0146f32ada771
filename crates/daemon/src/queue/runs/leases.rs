//! What jobs ask of their leases that must be written down: that they hear of stops through them, and what they have saved.

use crate::lease::token::LeaseHolder;
use crate::machine::platform::{LeaseRequest, Platform, Refusal, RefusalKind};
use crate::queue::commit::Entry;
use crate::queue::world::{LiveWorld, no_such_job};
use crate::store::journal::Note;
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{Event, JobChange, JobId, Time};
use std::sync::Arc;

impl<P: Platform> LiveWorld<P> {
    /// Writes down what a job asks of its lease.
    pub(crate) fn take_lease_request(&mut self, request: LeaseRequest, events: &mut Vec<Event>) -> Result<(), Refusal> {
        match request {
            LeaseRequest::Take(holder) => {
                let record = self.lease_of(holder)?;
                // A run that is being stopped already got its signal, and ends by that.
                if record.progress.is_leased || record.stop_cause.is_some() {
                    return Ok(());
                }
                self.commit_one(EventKind::Leased { job: record.id }, events)
            }
            LeaseRequest::Commit { holder, step, checkpoint } => {
                let record = self.lease_of(holder)?;
                let known = record.progress.step.unwrap_or(0);
                if step < known {
                    let message =
                        format!("step: {step} is below {known}, which is saved already; steps count from the job's first start");
                    return Err(Refusal::new(RefusalKind::BadInput, message));
                }
                self.commit_one(EventKind::Committed { job: record.id, step, checkpoint }, events)
            }
        }
    }

    /// When the present round ends, by the queue's clock.
    pub(crate) fn end_of_round(&self) -> Option<Time> {
        let round = self.config.round()?.0.max(1);
        Some(Time((self.platform.now().0 / round + 1).saturating_mul(round)))
    }

    /// When the next round is to be planned: at half time, once a round, if jobs run whose leases depend on it.
    pub(crate) fn plan_due(&self) -> Option<Time> {
        let round = self.config.round().filter(|_| self.leases.is_some())?.0.max(1);
        self.running().next()?;
        let now = self.platform.now().0;
        let is_planned = self.pace.planned_round == Some(now / round);
        Some(Time((now / round + u64::from(is_planned)) * round + round / 2))
    }

    /// Takes note that the present round's plan for the next one is made.
    pub(crate) fn note_planned(&mut self) {
        let round = self.config.round().map_or(1, |round| round.0.max(1));
        self.pace.planned_round = Some(self.platform.now().0 / round);
    }

    /// These jobs will have to leave when the round ends; the others get longer leases.
    pub(crate) fn plan_leaves(&self, stops: &[JobId]) {
        if let Some(leases) = &self.leases {
            leases.plan_next(&stops.iter().filter_map(|job| self.rows.id(*job)).collect::<Vec<_>>());
        }
    }

    /// The job of a lease that is not over.
    pub(crate) fn lease_of(&self, holder: LeaseHolder) -> Result<Arc<JobRecord>, Refusal> {
        let record = self.records.jobs.get(&holder.job).ok_or_else(|| no_such_job(holder.job))?;
        if record.attempts != holder.lease || !record.state.has_gpus() {
            let message = format!(
                "lease {} of job {} is over: the job has lease {} now, and what an older run saved is not taken",
                holder.lease, holder.job, record.attempts
            );
            return Err(Refusal::new(RefusalKind::Conflict, message));
        }
        Ok(Arc::clone(record))
    }

    /// What the job told of the run that ends.
    pub(crate) fn progress_of_run(&self, record: &JobRecord) -> Option<Entry> {
        let told = self.leases.as_ref()?.progress(record.id)?;
        let (steps, run_steps, ran) = (told.steps, told.run_steps, told.ran);
        Some(EventKind::Progress { job: record.id, steps, run_steps, ran }.into())
    }
}

/// The run did not leave in time, and what it did since it last saved is lost.
pub(crate) fn work_lost(job: u64) -> Entry {
    EventKind::Changed { job, change: JobChange::WorkLost, note: Note::default() }.into()
}
