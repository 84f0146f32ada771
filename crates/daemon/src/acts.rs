//! What users want done to their jobs: cancelled, held, released, tried again; and how jobs leave the queue.

use crate::api::{State, Submit};
use crate::platform::{Caller, Platform, Refusal, RefusalKind, Verb};
use crate::record::{Record, Spec};
use crate::store::Entry;
use crate::world::{Change, LiveWorld, StopCause};
use rota_core::{Event, EventKind, FailReason};
use rota_engine::State as EngineState;
use serde_json::json;
use std::sync::Arc;

impl<P: Platform> LiveWorld<P> {
    /// Does it to each of these jobs, until one refuses; gives those that it was done to, or the new ones.
    pub(crate) fn act(
        &mut self,
        verb: Verb,
        ids: &[u64],
        caller: &Caller,
        state: &mut EngineState,
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

    fn cancel(&mut self, id: u64, caller: &Caller, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let record = self.touch(id, caller)?;
        let by = json!({ "by": caller.user });
        if record.state.has_gpus() && !record.is_claim() {
            let again = record.cancel;
            if !again {
                let stopping = Record { state: State::Stopping, cancel: true, ..(*record).clone() };
                self.commit_one(stopping, "stopping", by)?;
            }
            self.stopping.insert(id, StopCause::Cancel);
            // Asked twice, it is not asked but ended.
            self.platform.stop(&record, again);
            return Ok(());
        }
        let over = Record {
            state: State::Cancelled,
            cancel: true,
            reason: Some(format!("cancelled by {}", caller.user)),
            finished_ns: Some(self.platform.wall_ns()),
            ..(*record).clone()
        };
        self.commit_one(over, "cancelled", by)?;
        self.leave_play(id, EventKindOf::Cancelled, events);
        Ok(())
    }

    fn hold(&mut self, id: u64, caller: &Caller, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let record = self.touch(id, caller)?;
        match record.state {
            State::Held => return Ok(()),
            State::Waiting => {}
            other => return Err(Refusal::new(RefusalKind::Conflict, format!("job {id} cannot be held: it is {}", other.word()))),
        }
        self.commit_one(
            Record { state: State::Held, user_hold: true, ..(*record).clone() },
            "held",
            json!({ "by": caller.user }),
        )?;
        if let Some(job) = self.number(id) {
            self.tell(events, EventKind::Held { job });
        }
        Ok(())
    }

    fn release(&mut self, id: u64, caller: &Caller, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let record = self.touch(id, caller)?;
        if record.state != State::Held {
            return Err(Refusal::new(RefusalKind::Conflict, format!("job {id} is not held: it is {}", record.state.word())));
        }
        self.commit_one(
            Record { state: State::Waiting, user_hold: false, ..(*record).clone() },
            "released",
            json!({ "by": caller.user }),
        )?;
        if let Some(job) = self.number(id) {
            self.tell(events, EventKind::Released { job });
        }
        Ok(())
    }

    /// The same again, as a new job.
    fn retry(&mut self, id: u64, caller: &Caller, state: &mut EngineState, events: &mut Vec<Event>) -> Result<Vec<u64>, Refusal> {
        let unavailable = |error: crate::store::StoreError| Refusal::new(RefusalKind::Unavailable, error.to_string());
        if let Some(record) = self.jobs.get(&id) {
            crate::world::may_touch(record, caller)?;
            return Err(Refusal::new(RefusalKind::Conflict, format!("job {id} is not over yet: it is {}", record.state.word())));
        }
        let record = self.store.job(id).map_err(unavailable)?.ok_or_else(|| crate::world::no_such_job(id))?;
        crate::world::may_touch(&record, caller)?;
        if record.is_claim() {
            return Err(Refusal::new(RefusalKind::BadInput, format!("{id} was a claim; claim again with `rota claim`")));
        }
        let env = self.store.environment(record.env_id).map_err(unavailable)?;
        let ask = Submit { env, key: None, hold: false, after: Vec::new(), ..record.spec.ask.clone() };
        let owner = Caller { uid: record.uid, gid: record.spec.gid, user: record.user.clone(), is_admin: false, may_write: true };
        let mut accepted = self.accept(ask, &owner, state)?;
        for change in &mut accepted.changes {
            let profile = change.record.spec.profile.clone();
            change.record.spec = Arc::new(Spec { ask: change.record.spec.ask.clone(), profile, ..(*record.spec).clone() });
        }
        self.commit(accepted.changes).map_err(unavailable)?;
        for kind in accepted.events {
            self.tell(events, kind);
        }
        Ok(accepted.ids)
    }

    pub(crate) fn commit_one(&mut self, record: Record, kind: &'static str, detail: serde_json::Value) -> Result<(), Refusal> {
        let entry = Entry { job: Some(record.id), kind, detail };
        self.commit(vec![Change { record, env: None, entry }])
            .map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))
    }

    /// Tells the scheduler that a job is over, and lets others of its user into play.
    pub(crate) fn leave_play(&mut self, id: u64, how: EventKindOf, events: &mut Vec<Event>) {
        self.stopping.remove(&id);
        self.quota_held.remove(&id);
        if let Some(job) = self.numbers.remove(&id) {
            let kind = match how {
                EventKindOf::Finished => EventKind::Finished { job },
                EventKindOf::Failed => EventKind::Failed { job, reason: FailReason::Crashed },
                EventKindOf::Cancelled => EventKind::Failed { job, reason: FailReason::Cancelled },
                EventKindOf::Lost => EventKind::Failed { job, reason: FailReason::Lost },
            };
            self.tell(events, kind);
        }
        self.release_quota(events);
    }
}

/// How a job left the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKindOf {
    Finished,
    Failed,
    Cancelled,
    Lost,
}
