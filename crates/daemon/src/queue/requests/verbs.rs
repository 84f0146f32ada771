//! What users do to their jobs: cancel, hold, release and retry them.

use crate::api::{JobState, Submit};
use crate::machine::platform::{Caller, Platform, Refusal, RefusalKind, Verb};
use crate::queue::intake::Accepted;
use crate::queue::world::{LiveWorld, may_touch, no_such_job};
use crate::store::journal::{Note, RunReport};
use crate::store::record::Spec;
use rota_core::event::EventKind;
use rota_core::{End, Event, Hold, StopCause};
use rota_engine::State;
use std::sync::Arc;

impl<P: Platform> LiveWorld<P> {
    /// Does it to each of these jobs, until one refuses; gives those that it was done to, or the new ones.
    pub(crate) fn act(
        &mut self,
        verb: Verb,
        ids: &[u64],
        caller: &Caller,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<Vec<u64>, Refusal> {
        let mut done = Vec::new();
        for &id in ids {
            match verb {
                Verb::Cancel => self.cancel(id, caller, events)?,
                Verb::Hold => self.hold(id, caller, events)?,
                Verb::Release => self.release(id, caller, events)?,
                Verb::Retry => {
                    done.extend(self.retry(id, caller, state, events)?);
                    continue;
                }
            }
            done.push(id);
        }
        Ok(done)
    }

    pub(crate) fn cancel(&mut self, id: u64, caller: &Caller, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let record = self.touch(id, caller)?;
        if record.state.has_gpus() && !record.is_claim() {
            let again = record.cancel;
            if !again {
                let note = Note::by(&caller.user);
                self.commit_or_keep(EventKind::Stopping { job: id, cause: StopCause::Cancel, note }, events);
            }
            // A job that is cancelled a second time is killed.
            self.platform.stop(&record, again);
            return Ok(());
        }
        let report = RunReport {
            reason: Some(format!("cancelled by {}", caller.user)),
            by: Some(caller.user.clone()),
            ..RunReport::default()
        };
        self.commit_or_keep(EventKind::Ended { job: id, end: End::Cancelled, report }, events);
        self.release_quota(events);
        Ok(())
    }

    fn hold(&mut self, id: u64, caller: &Caller, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let record = self.touch(id, caller)?;
        match record.state {
            JobState::Held => return Ok(()),
            JobState::Waiting => {}
            other => return Err(Refusal::new(RefusalKind::Conflict, format!("job {id} cannot be held: it is {}", other.word()))),
        }
        self.commit_one(EventKind::Held { job: id, hold: Hold::User, note: Note::by(&caller.user) }, events)
    }

    fn release(&mut self, id: u64, caller: &Caller, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let record = self.touch(id, caller)?;
        if record.state != JobState::Held {
            return Err(Refusal::new(RefusalKind::Conflict, format!("job {id} is not held: it is {}", record.state.word())));
        }
        let released = EventKind::Released { job: id, hold: Hold::User, note: Note::by(&caller.user) };
        if record.quota_hold || !self.is_over_quota(&record, 0) {
            return self.commit_one(released, events);
        }
        // While its user held it, it counted against no quota.
        let held = EventKind::Held { job: id, hold: Hold::Quota, note: Note::default() };
        let committed = self.commit(vec![held.into(), released.into()], events);
        committed.map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        let note = format!("{} has as many GPUs as it may have at once", record.user);
        self.board.write().notes.insert(id, note);
        Ok(())
    }

    /// The same again, as a new job.
    fn retry(&mut self, id: u64, caller: &Caller, state: &State, events: &mut Vec<Event>) -> Result<Vec<u64>, Refusal> {
        let unavailable = |error: crate::store::StoreError| Refusal::new(RefusalKind::Unavailable, error.to_string());
        let accepted = self.accept_again(id, caller, state)?;
        self.commit(accepted.entries, events).map_err(unavailable)?;
        Ok(accepted.ids)
    }

    /// The new job that a job becomes which is run again, not yet written.
    pub(crate) fn accept_again(&mut self, id: u64, caller: &Caller, state: &State) -> Result<Accepted, Refusal> {
        let unavailable = |error: crate::store::StoreError| Refusal::new(RefusalKind::Unavailable, error.to_string());
        if let Some(record) = self.records.jobs.get(&id) {
            may_touch(record, caller)?;
            return Err(Refusal::new(RefusalKind::Conflict, format!("job {id} is not over yet: it is {}", record.state.word())));
        }
        let record = self.journal.store.job(id).map_err(unavailable)?.ok_or_else(|| no_such_job(id))?;
        may_touch(&record, caller)?;
        if record.is_claim() {
            return Err(Refusal::new(RefusalKind::BadInput, format!("{id} was a claim; claim again with `rota claim`")));
        }
        let env = self.journal.store.environment(record.env_id).map_err(unavailable)?;
        let ask = Submit { env, key: None, hold: false, after: Vec::new(), ..(*record.spec.ask).clone() };
        let owner = Caller { uid: record.uid, gid: record.spec.gid, user: record.user.clone(), is_admin: false, may_write: true };
        let mut accepted = self.accept(ask, &owner, state)?;
        accepted
            .respecify(|spec| Arc::new(Spec { ask: spec.ask.clone(), profile: spec.profile.clone(), ..(*record.spec).clone() }));
        Ok(accepted)
    }
}
