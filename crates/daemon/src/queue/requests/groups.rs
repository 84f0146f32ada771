//! Groups in the queue: which group new jobs go to, and one thing that is done to many jobs with one write to the disk.

use crate::api::{JobRefused, JobState, JobVerb, JobsActed, JobsAction, Submit};
use crate::machine::platform::{Caller, Platform, Refusal, RefusalKind};
use crate::queue::commit::Entry;
use crate::queue::world::LiveWorld;
use crate::store::groups::GroupWish;
use crate::store::journal::{Note, QueueEvent, RunReport};
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{End, Event, Hold};
use rota_engine::State;
use std::sync::Arc;

impl<P: Platform> LiveWorld<P> {
    /// The group that the jobs of a submit go to. Only the owner of a group may add to it.
    pub(crate) fn group_wish(&self, ask: &Submit, caller: &Caller) -> Result<Option<GroupWish>, Refusal> {
        let is_many = !ask.array.is_empty() || !ask.params.is_empty();
        match ask.group {
            None => Ok(is_many.then_some(GroupWish::New)),
            Some(0) => Ok(Some(GroupWish::New)),
            Some(group) => {
                let first = self.known_job(group).filter(|record| {
                    record.uid == caller.uid && record.spec.membership.is_some_and(|membership| membership.group == group)
                });
                let refusal = || Refusal::new(RefusalKind::BadInput, format!("group: {} has no group {group}", caller.user));
                first.map(|_| Some(GroupWish::Join(group))).ok_or_else(refusal)
            }
        }
    }

    /// The group of jobs that came with one submit.
    pub(crate) fn group_of(&self, ids: &[u64]) -> Option<u64> {
        let record = self.known_job(*ids.first()?)?;
        record.spec.membership.map(|membership| membership.group)
    }

    fn known_job(&self, id: u64) -> Option<Arc<JobRecord>> {
        let live = self.records.jobs.get(&id).cloned();
        live.or_else(|| self.journal.store.job(id).ok().flatten().map(Arc::new))
    }

    /// Does one thing to many jobs. Each is tried; jobs that refuse do not keep the others from it.
    pub(crate) fn act_on_many(
        &mut self,
        action: &JobsAction,
        caller: &Caller,
        state: &State,
        events: &mut Vec<Event>,
    ) -> JobsActed {
        let mut acted = JobsActed::default();
        let mut planned = Vec::new();
        for &id in &action.ids {
            let is_other = |state: JobState| !action.states.is_empty() && !action.states.contains(&state);
            if self.known_job(id).is_some_and(|record| is_other(record.state)) {
                acted.skipped.push(id);
                continue;
            }
            let outcome = match action.verb {
                JobVerb::Cancel => self.plan_cancel(id, caller, events),
                JobVerb::Hold => self.plan_hold(id, caller),
                JobVerb::Release => self.plan_release(id, caller),
                JobVerb::Retry => {
                    self.accept_again(id, caller, state).map(|accepted| Step { ids: accepted.ids, entries: accepted.entries })
                }
            };
            match outcome {
                Ok(step) => planned.push((id, step)),
                Err(refusal) => acted.refused.push(JobRefused { id, reason: refusal.message }),
            }
        }
        self.write_steps(planned, action.verb, &mut acted, events);
        acted
    }

    /// Writes what was planned for many jobs at once.
    fn write_steps(&mut self, planned: Vec<(u64, Step)>, verb: JobVerb, acted: &mut JobsActed, events: &mut Vec<Event>) {
        let ends = planned.iter().flat_map(|(_, step)| &step.entries).map(|entry| entry.event.clone()).collect::<Vec<_>>();
        let (mut entries, mut done) = (Vec::new(), Vec::new());
        for (id, step) in planned {
            entries.extend(step.entries);
            done.push((id, step.ids));
        }
        match self.commit(entries, events) {
            Ok(()) => acted.ids.extend(done.into_iter().flat_map(|(_, ids)| ids)),
            Err(_) if verb == JobVerb::Cancel => {
                // Cancelling must not need room on the disk.
                for end in ends {
                    self.commit_or_keep(end, events);
                }
                acted.ids.extend(done.into_iter().flat_map(|(_, ids)| ids));
            }
            Err(error) => {
                let refused = done.into_iter().map(|(id, _)| JobRefused { id, reason: error.to_string() });
                acted.refused.extend(refused);
            }
        }
        if verb == JobVerb::Cancel {
            self.release_quota(events);
        }
    }

    /// A job that has GPUs is asked to stop at once; the end of one that waits is written with the others.
    fn plan_cancel(&mut self, id: u64, caller: &Caller, events: &mut Vec<Event>) -> Result<Step, Refusal> {
        let record = self.touch(id, caller)?;
        if record.state.has_gpus() || record.is_claim() {
            self.cancel(id, caller, events)?;
            return Ok(Step { ids: vec![id], entries: Vec::new() });
        }
        let report = RunReport {
            reason: Some(format!("cancelled by {}", caller.user)),
            by: Some(caller.user.clone()),
            ..RunReport::default()
        };
        Ok(Step::of(id, EventKind::Ended { job: id, end: End::Cancelled, report }))
    }

    fn plan_hold(&self, id: u64, caller: &Caller) -> Result<Step, Refusal> {
        match self.touch(id, caller)?.state {
            JobState::Held => Ok(Step { ids: vec![id], entries: Vec::new() }),
            JobState::Waiting => Ok(Step::of(id, EventKind::Held { job: id, hold: Hold::User, note: Note::by(&caller.user) })),
            other => Err(Refusal::new(RefusalKind::Conflict, format!("job {id} cannot be held: it is {}", other.word()))),
        }
    }

    fn plan_release(&self, id: u64, caller: &Caller) -> Result<Step, Refusal> {
        match self.touch(id, caller)?.state {
            JobState::Held => Ok(Step::of(id, EventKind::Released { job: id, hold: Hold::User, note: Note::by(&caller.user) })),
            other => Err(Refusal::new(RefusalKind::Conflict, format!("job {id} is not held: it is {}", other.word()))),
        }
    }
}

/// What is to be written for one job, and the numbers that the caller is told.
struct Step {
    ids: Vec<u64>,
    entries: Vec<Entry>,
}

impl Step {
    fn of(id: u64, event: QueueEvent) -> Self {
        Self { ids: vec![id], entries: vec![event.into()] }
    }
}
