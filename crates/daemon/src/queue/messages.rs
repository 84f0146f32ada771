//! Messages: what reaches the queue, and who takes care of it. Those that came together share one write to the disk.

use crate::machine::platform::{Message, Outcome, Platform, Run};
use crate::queue::switches::Leave;
use crate::queue::world::LiveWorld;
use crate::store::journal::{Note, QueueEvent};
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{Event, GpuId, Hold, MilliGpu, Slice};
use rota_engine::State;
use rota_exec::Started;
use std::sync::Arc;

impl<P: Platform> LiveWorld<P> {
    /// Everything that came in: ends first, all in one write; then submits, all in one write; then the rest one by one.
    pub(crate) fn handle(&mut self, messages: Vec<Message>, state: &State, events: &mut Vec<Event>) {
        let mut submits = Vec::new();
        let mut ends = Vec::new();
        let mut rest = Vec::new();
        for message in messages {
            match message {
                Message::Submit(ask, caller, reply) => submits.push((ask, caller, reply)),
                Message::Ended { job, attempt, outcome } => ends.push((job, attempt, outcome)),
                other => rest.push(other),
            }
        }
        self.take_ends(ends, state, events);
        self.take_submits(submits, state, events);
        for message in rest {
            self.take_other(message, state, events);
        }
    }

    fn take_other(&mut self, message: Message, state: &State, events: &mut Vec<Event>) {
        // A caller that has gone away does not want the answer any more.
        match message {
            Message::Claim(claim, caller, reply) => _ = reply.send(self.claim(&claim, &caller, state, events)),
            Message::Register(registration, caller, reply) => {
                _ = reply.send(self.register(&registration, &caller, state, events));
            }
            Message::Pinged(job, asker) => self.pinged(job, asker),
            Message::LetGo(job, caller, reply) => _ = reply.send(self.let_go(job, &caller, state, events)),
            Message::Act(verb, ids, caller, reply) => _ = reply.send(self.act(verb, &ids, &caller, state, events)),
            Message::ActOnMany(action, caller, reply) => _ = reply.send(Ok(self.act_on_many(&action, &caller, state, events))),
            Message::Prioritise(id, priority, caller, reply) => _ = reply.send(self.prioritise(id, priority, &caller, events)),
            Message::Executor(event) => self.take_executor_event(event, state, events),
            Message::Looked(looks) => self.take_looks(looks, state, events),
            Message::ForgetNode(node, caller, reply) => _ = reply.send(self.forget_node(&node, &caller)),
            Message::NodesLeaving { nodes, reason } => self.take_leaving(&nodes, &reason, state, events),
            Message::DryRun(ask, caller, reply) => _ = reply.send(self.candidate(*ask, &caller, state).map(Box::new)),
            Message::Explain(id, caller, reply) => _ = reply.send(self.explain(id, &caller, state)),
            Message::Drain(drain, caller, reply) => _ = reply.send(self.drain(&drain, &caller, state, events)),
            Message::Resume(gpus, caller, reply) => _ = reply.send(self.resume(&gpus, &caller, state, events)),
            Message::Policy(policy, caller, reply) => _ = reply.send(self.set_policy(&policy, &caller, events)),
            Message::Flush(reply) => {
                self.write_samples(self.platform.wall_ns() / 1_000_000_000);
                _ = reply.send(Ok(()));
            }
            Message::Rest => {
                self.journal.store.release_memory();
                self.board.write().recent_ends.clear();
            }
            Message::Tokens(change, reply) => _ = reply.send(self.change_tokens(change)),
            Message::Profiles(caller, reply) => _ = reply.send(Ok(self.profiles_of(&caller))),
            Message::Forget(class, caller, reply) => _ = reply.send(self.forget_profile(class, &caller, state, events)),
            Message::Extra(request, reply) => _ = reply.send(self.take_extra_request(&request, state, events)),
            Message::Lease(request, reply) => _ = reply.send(self.take_lease_request(request, events)),
            // A daemon that is about to do something else is asked again later.
            Message::Fork(asker) if self.switches.leave.is_none() => self.switches.leave = Some(Leave::Fork(asker)),
            Message::Shutdown => self.switches.leave = Some(Leave::Exit),
            Message::Fork(_) | Message::Submit(..) | Message::Ended { .. } => {}
        }
    }

    /// Timers that are due: jobs to be tried again, and a store to be tried again.
    pub(crate) fn ring(&mut self, state: &State, events: &mut Vec<Event>) {
        let now = self.platform.now();
        let due = self.records.due(now);
        if !due.is_empty() && self.journal.retry_at.is_none() {
            // More may be known of their memory by now.
            for id in &due {
                self.reshape(*id, state, events);
            }
            let ready = due.iter().filter(|id| self.records.jobs.contains_key(id));
            let ready = ready.map(|id| EventKind::Released { job: *id, hold: Hold::Delay, note: Note::default() });
            let ready = ready.map(|event: QueueEvent| event.into()).collect();
            if self.commit(ready, events).is_ok() {
                let mut view = self.board.write();
                for id in &due {
                    view.notes.remove(id);
                }
            }
        }
        if self.journal.retry_at.is_some_and(|at| at <= now) {
            self.journal.retry_at = None;
            self.write_unwritten();
            self.try_store();
            let ends = std::mem::take(&mut self.backlog.undelivered).into_iter().filter_map(|message| match message {
                Message::Ended { job, attempt, outcome } => Some((job, attempt, outcome)),
                _ => None,
            });
            let ends = ends.collect();
            self.take_ends(ends, state, events);
            self.find_nodes(state, events);
            self.pace.wants_decision = true;
        }
    }

    /// Makes the process of a job that is written down as starting.
    pub(crate) fn launch(&mut self, id: u64) {
        let Some(record) = self.records.jobs.get(&id).cloned().filter(|record| !record.is_claim()) else { return };
        let launched = self
            .journal
            .store
            .environment(record.env_id)
            .map_err(|error| Outcome::NotLaunched(error.to_string()))
            .and_then(|env| self.platform.launch(Run { record: &record, env }));
        match launched {
            Ok(Started::Running) => self.show_running(&record),
            // Whether it runs is told by a message.
            Ok(Started::Taken) => {}
            Err(outcome) => self.queue_end(&record, outcome),
        }
    }

    /// The end of a run that was found rather than told.
    pub(crate) fn queue_end(&mut self, record: &JobRecord, outcome: Outcome) {
        self.backlog.undelivered.push(Message::Ended { job: record.id, attempt: record.attempts, outcome });
        self.retry_store_now();
    }

    /// What the policy could not do is an administrator's business.
    pub(crate) fn show_problems(&self, problems: Vec<String>) {
        if let Some(problem) = problems.into_iter().next_back() {
            self.board.write().warnings.insert("policy", problem);
        }
    }

    /// Only for those who look: to the store, starting and running are the same until the supervisor says more.
    pub(crate) fn show_running(&mut self, record: &JobRecord) {
        let record = Arc::new(JobRecord { state: crate::api::JobState::Running, ..record.clone() });
        self.board.metrics.moved(self.records.jobs.get(&record.id).map(|before| &**before), Some(&record));
        self.board.write().jobs.insert(record.id, Arc::clone(&record));
        self.records.put(record);
    }

    /// What others than jobs hold of these GPUs, written down where it is news.
    pub(crate) fn occupy_all(&mut self, gpus: impl Iterator<Item = GpuId>, state: &State, events: &mut Vec<Event>) {
        let news = gpus.filter_map(|gpu| self.occupied(gpu, state, events)).map(Into::into).collect();
        // What the store refuses is found again by the next look.
        _ = self.commit(news, events);
    }

    pub(crate) fn occupied(&self, gpu: GpuId, state: &State, events: &[Event]) -> Option<QueueEvent> {
        let held = self.devices.outside(gpu, self.config.sharing.buffer_mib);
        let told = events.iter().rev().find_map(|event| match event.kind {
            EventKind::Occupied { gpu: other, share, memory_mib } if other == gpu => {
                Some(Slice { share, memory_mib, ..Slice::default() })
            }
            _ => None,
        });
        let Slice { share, memory_mib, .. } = held;
        let is_news = told.unwrap_or(state.outside[gpu.index()]) != held;
        is_news.then(|| EventKind::Occupied { gpu: self.devices.machine.name(gpu), share, memory_mib })
    }
}

/// All of a GPU.
pub(crate) const WHOLE: Slice = Slice { share: MilliGpu::WHOLE, memory_mib: 0, group: 0, class: None };
