//! Restoring: jobs of the store go back to a scheduler, and to those who supervise them. At the start, when the policy changes, and when too
//! many of the scheduler's rows are of ended jobs.

use crate::api::{self, AfterCondition, State};
use crate::platform::{Message, Outcome, Platform};
use crate::record::Record;
use crate::world::{LiveWorld, StopCause};
use rota_core::bind::Binder;
use rota_core::{Bound, Event, EventKind, GpuId, GpuList, Span, Time};
use rota_engine::{Engine, EngineOptions, Restart, State as EngineState};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;

impl<P: Platform> LiveWorld<P> {
    /// A scheduler with the jobs of the store: at the start, when the policy changes, and when too many of its rows are of ended jobs.
    pub fn restore(&mut self) -> Result<Engine, String> {
        let policy = rota_policy::build(self.policy()).map_err(|error| error.to_string())?;
        let bound = Arc::new(Bound::empty("live", self.machine.cluster.clone()));
        let options =
            EngineOptions { seed: self.config.seed, score: self.config.score(), restart: Restart::default(), round: None };
        let mut engine = Engine::new(bound, policy, &options);
        self.binder = Binder::new(&self.machine.cluster);
        self.ids.clear();
        self.numbers.clear();
        // Until they have had their turn, those that wait take nothing from the shares of their users.
        self.quota_held = self.jobs.values().filter(|record| !record.state.has_gpus()).map(|record| record.id).collect();
        self.timers.clear();
        self.predicted.clear();
        self.profile_runs.clear();
        let mut events = Vec::new();
        for record in self.jobs.values().cloned().collect::<Vec<_>>() {
            self.quota_held.remove(&record.id);
            self.restore_job(&record, &mut engine, &mut events);
        }
        for event in &events {
            engine.record(event);
        }
        for record in self.jobs.values() {
            let Some(number) = self.numbers.get(&record.id) else { continue };
            // What it did before counts as if the scheduler had seen it.
            let job = &mut engine.state.jobs[number.index()];
            job.service = Span(record.service_ns);
            job.starts = record.attempts;
            job.failures = record.failures;
            job.preemptions = record.preemptions;
        }
        let mut events = Vec::new();
        for gpu in 0..self.machine.devices.len() {
            self.occupy(GpuId::from_index(gpu), &engine.state, &mut events);
        }
        for event in &events {
            engine.record(event);
        }
        self.telemetry.wants_decision = true;
        self.show_gpus(&engine.state);
        Ok(engine)
    }

    fn restore_job(&mut self, record: &Record, engine: &mut Engine, events: &mut Vec<Event>) {
        let at = |time: u64, kind| Event { time_ns: Time(time), kind };
        let gone =
            record.spec.ask.after.iter().map(|after| after.id).filter(|id| !self.jobs.contains_key(id)).collect::<Vec<_>>();
        let ended = self.store.states_of(&gone).unwrap_or_default();
        let unmet = |after: &api::After| {
            after.condition == AfterCondition::Ok && ended.get(&after.id).is_some_and(|state| *state != State::Done)
        };
        if !record.state.has_gpus() && record.spec.ask.after.iter().any(unmet) {
            let change = self.failed_dependency(record);
            // If the store refuses, it is found again at the next start.
            _ = self.commit(vec![change]);
            return;
        }
        let mut record = record.clone();
        if !record.state.has_gpus() {
            record.memory_mib = self.memory_for(&record);
            self.jobs.insert(record.id, Arc::new(record.clone()));
        }
        self.follow_profile(&record);
        let record = &record;
        let Ok(job) = self.admit(record, &mut engine.state) else {
            // It fitted when it was submitted: the machine has changed.
            let reason = "it does not fit this machine any more";
            if record.state.has_gpus() {
                // It runs on GPUs that are gone; its end will be told by its supervisor.
                return;
            }
            let failed = Record {
                state: State::Failed,
                reason: Some(reason.to_owned()),
                finished_ns: Some(self.platform.wall_ns()),
                ..record.clone()
            };
            _ = self.commit_one(failed, "failed", json!({ "reason": reason }));
            return;
        };
        events.push(at(record.arrived_at, EventKind::Submitted { job }));
        if record.user_hold {
            events.push(at(record.arrived_at, EventKind::Held { job }));
        }
        if let Some(due) = record.not_before {
            events.push(at(record.arrived_at, EventKind::Held { job }));
            self.timers.insert((Time(due), record.id));
        }
        if record.state.has_gpus() {
            let gpus = record.gpu_uuids.iter().filter_map(|uuid| self.machine.gpu_of(uuid)).collect::<GpuList>();
            let gpus = if record.spec.ask.gpus == 0 { self.free_slot(&engine.state, events).into_iter().collect() } else { gpus };
            if gpus.len() == record.spec.ask.gpus.max(1) as usize {
                events.push(at(record.started_at.unwrap_or(record.arrived_at), EventKind::Started { job, gpus }));
            } else {
                // It runs on a GPU that is not there any more: whatever happens, it must not be started a second time.
                events.push(at(record.arrived_at, EventKind::Held { job }));
            }
        } else if self.is_over_quota(record, &[]) {
            self.quota_held.insert(record.id);
            events.push(at(record.arrived_at, EventKind::Held { job }));
        }
    }

    /// A processor slot that no job among these events has.
    fn free_slot(&self, state: &EngineState, events: &[Event]) -> Option<GpuId> {
        let taken = events.iter().filter_map(|event| match &event.kind {
            EventKind::Started { gpus, .. } => gpus.first().copied(),
            _ => None,
        });
        let taken = taken.collect::<HashSet<_>>();
        let slots = self.machine.devices.len()..state.bound.cluster.gpus.len();
        slots.map(GpuId::from_index).find(|slot| !taken.contains(slot))
    }

    /// Asks the supervisors of all jobs that were under way how they are; to be called once, before the first decision.
    pub fn adopt(&mut self) {
        self.telemetry.awaits_look = !self.machine.devices.is_empty();
        let under_mps = self.running().filter(|record| record.is_under_mps()).flat_map(|record| record.gpu_uuids.clone());
        let under_mps = under_mps.collect();
        for problem in self.platform.recover_mps(&under_mps) {
            self.board.write().warnings.insert("mps", problem);
        }
        for record in
            self.jobs.values().filter(|record| record.state.has_gpus() || record.is_claim()).cloned().collect::<Vec<_>>()
        {
            let outcome = if record.is_claim() { self.platform.watch_holder(&record) } else { self.platform.adopt(&record) };
            if record.cancel {
                self.stopping.insert(record.id, StopCause::Cancel);
            }
            match outcome {
                Some(outcome) => self.queue_end(&record, outcome),
                // A stop may have been written down and not carried out.
                None if record.cancel && !record.is_claim() => self.platform.stop(&record, false),
                None if record.state == State::Starting => self.show_running(&record),
                None => {}
            }
        }
    }

    pub(crate) fn queue_end(&mut self, record: &Record, outcome: Outcome) {
        self.undelivered.push(Message::Ended { job: record.id, attempt: record.attempts, outcome });
        self.retry_store_now();
    }
}
