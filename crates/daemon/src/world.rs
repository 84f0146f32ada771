//! The live world: it turns messages into events, and plans into processes.
//!
//! Every change of a job goes through [`LiveWorld::commit`]: first to the disk, then to memory and to those who look, and only then is
//! anything done or acknowledged. A start is written down before the process is made, so that a daemon that dies in between finds the
//! job and asks its supervisor; an end is taken from the supervisor's own record, so that it is never guessed.

use crate::api::{self, State};
use crate::board::Board;
use crate::config::Config;
use crate::machine::Machine;
use crate::platform::{Caller, Message, Outcome, Platform, Refusal, RefusalKind, Run};
use crate::profiles::{ClassKey, Profiles};
use crate::record::Record;
use crate::runs::ENDS;
use crate::store::{Entry, Stamp, Store, StoreError};
use crate::text::Text;
use rota_core::bind::Binder;
use rota_core::{Event, EventKind, GpuId, GpuList, JobId, MilliGpu, Plan, ThroughputTable, Time};
use rota_engine::{Moment, Occasion, State as EngineState, World};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// How long to wait before the store is tried again after it refused.
const STORE_RETRY_NS: u64 = 1_000_000_000;
/// No decision follows another sooner than this many times its own length, so that submits are not held up by a long queue.
const REST_FACTOR: u64 = 2;
/// But nobody waits longer than this for a decision.
const REST_MAX_NS: u64 = 50_000_000;
/// Rows of ended jobs in the scheduler's tables before they are made anew without them.
const ENDED_ROWS_MAX: usize = 20_000;

/// Why a running job was asked to stop, other than to cancel it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Its user, or an administrator.
    Cancel,
    /// The policy wants its GPUs for others.
    Preempt,
    /// Its GPU was lost; it is to be tried again.
    Evict,
    /// Its GPU was lost; it has failed.
    Fail(String),
    /// It used more memory than it was given, beside others.
    Overuse,
}

/// Why the loop over the world was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The scheduler is to be made anew, with this policy.
    Rebuild(String),
    /// The daemon ends; jobs run on.
    Exit,
}

/// A job that changes, and what to write of it.
pub struct Change {
    /// As it is from now on.
    pub record: Record,
    /// Its environment, if it is new.
    pub env: Option<Arc<Vec<(Text, Text)>>>,
    /// What happened.
    pub entry: Entry,
}

/// The queue on this machine.
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct LiveWorld<P> {
    pub(crate) platform: P,
    pub(crate) store: Store,
    pub(crate) board: Arc<Board>,
    pub(crate) config: Config,
    pub(crate) machine: Machine,
    pub(crate) model: crate::model::Model,
    pub(crate) binder: Binder,
    pub(crate) table: ThroughputTable,
    /// Jobs that are not over.
    pub(crate) jobs: BTreeMap<u64, Arc<Record>>,
    /// Those of them that have GPUs, or a processor slot: few, however many wait.
    on_gpus: BTreeSet<u64>,
    /// The scheduler's number of each.
    pub(crate) numbers: HashMap<u64, JobId>,
    /// The job of each of the scheduler's numbers.
    pub(crate) ids: Vec<u64>,
    pub(crate) next_id: u64,
    pub(crate) next_seq: u64,
    /// Jobs that wait for a moment.
    pub(crate) timers: BTreeSet<(Time, u64)>,
    pub(crate) stopping: HashMap<u64, StopCause>,
    pub(crate) quota_held: BTreeSet<u64>,
    pub(crate) profiles: Profiles,
    /// Jobs whose memory is predicted, and that do not run, by their class.
    pub(crate) predicted: HashMap<ClassKey, BTreeSet<u64>>,
    /// The runs under way that are to tell how much memory a class needs.
    pub(crate) profile_runs: HashMap<ClassKey, u64>,
    pub(crate) draining: bool,
    pub(crate) exit_when_idle: bool,
    pub(crate) drained_gpus: HashSet<GpuId>,
    pub(crate) lost_gpus: HashSet<GpuId>,
    /// GPUs whose MPS server does not end though its jobs have.
    pub(crate) mps_lingers: HashSet<GpuId>,
    /// Messages that the store could not take yet.
    pub(crate) undelivered: Vec<Message>,
    store_retry_at: Option<Time>,
    /// Jobs that the scheduler's state says can never start.
    doomed: std::sync::mpsc::Receiver<JobId>,
    pub(crate) doomed_sender: std::sync::mpsc::Sender<JobId>,
    pub(crate) leave: Option<Leave>,
    /// Whether jobs came to or left GPUs since the board showed them.
    gpus_stale: bool,
    pub(crate) telemetry: crate::telemetry::Telemetry,
    polled_at: Time,
    is_deciding: bool,
    rest_until: Time,
    pub(crate) policy: String,
}

impl<P: Platform> LiveWorld<P> {
    /// The same world, which knows the speeds of some job types beside others.
    #[must_use]
    pub fn with_throughputs(self, table: ThroughputTable) -> Self {
        Self { table, ..self }
    }

    /// A world whose jobs are those of the store. They are admitted to a scheduler by [`Self::restore`].
    pub fn new(platform: P, store: Store, board: Arc<Board>, config: Config, machine: Machine) -> Result<Self, StoreError> {
        let (last_job, last_seq, _) = store.last()?;
        let mut jobs = store.unfinished()?.into_iter().map(|record| (record.id, Arc::new(record))).collect::<BTreeMap<_, _>>();
        let (doomed_sender, doomed) = std::sync::mpsc::channel();
        let policy =
            store.meta("policy")?.filter(|policy| rota_policy::build(policy).is_ok()).unwrap_or_else(|| config.policy.clone());
        let draining = store.meta("draining")?.as_deref() == Some("yes");
        let profiles = store.profiles()?;
        store.tokens()?.into_iter().for_each(|token| board.tokens.insert(token));
        let clients = crate::watchmen::restored(&store, &mut jobs, platform.now())?;
        {
            let mut view = board.write();
            view.jobs.clone_from(&jobs);
            for record in jobs.values() {
                board.metrics.moved(None, Some(record));
            }
            view.policy.clone_from(&policy);
            view.draining = draining;
            view.clients = clients;
        }
        Ok(Self {
            profiles,
            predicted: HashMap::new(),
            profile_runs: HashMap::new(),
            binder: Binder::new(&machine.cluster),
            table: ThroughputTable::new("live"),
            platform,
            store,
            board,
            telemetry: crate::telemetry::Telemetry::new(machine.devices.len()),
            model: model_of(&config, &machine),
            config,
            machine,
            on_gpus: jobs.values().filter(|record| record.state.has_gpus()).map(|record| record.id).collect(),
            jobs,
            numbers: HashMap::new(),
            ids: Vec::new(),
            next_id: last_job + 1,
            next_seq: last_seq + 1,
            timers: BTreeSet::new(),
            stopping: HashMap::new(),
            quota_held: BTreeSet::new(),
            draining,
            exit_when_idle: false,
            drained_gpus: HashSet::new(),
            lost_gpus: HashSet::new(),
            mps_lingers: HashSet::new(),
            undelivered: Vec::new(),
            store_retry_at: None,
            doomed,
            doomed_sender,
            leave: None,
            gpus_stale: false,
            polled_at: Time::ZERO,
            is_deciding: false,
            rest_until: Time::ZERO,
            policy,
        })
    }

    /// The policy in force.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Why the loop was left; asked once.
    pub fn take_leave(&mut self) -> Option<Leave> {
        self.leave.take()
    }

    /// Jobs that have GPUs.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.on_gpus.iter().filter_map(|id| self.jobs.get(id))
    }

    /// Both clocks.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { at: self.platform.now().0, wall_ns: self.platform.wall_ns() }
    }

    /// Writes changes to the disk, then takes them in and tells everybody.
    pub(crate) fn commit(&mut self, mut changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let stamp = self.stamp();
        let first_seq = self.next_seq;
        let board = Arc::clone(&self.board);
        let began = std::time::Instant::now();
        let outcome = self.store.transaction(|writer| {
            for (change, seq) in changes.iter_mut().zip(first_seq..) {
                if let Some(env) = &change.env {
                    change.record.env_id = writer.environment(env)?;
                    writer.put_job(&change.record)?;
                } else {
                    writer.update_job(&change.record)?;
                }
                let record = &change.record;
                if self.jobs.get(&record.id).is_some_and(|before| !Arc::ptr_eq(&before.spec, &record.spec)) {
                    writer.update_spec(record)?;
                }
                match change.entry.kind {
                    "started" => writer.begin_run(record, self.model.of(record).1, stamp)?,
                    kind if ENDS.contains(&kind) => {
                        let measure = self.telemetry.measure_of(record);
                        writer.end_run(record, kind, measure, ended_ns(&change.entry).unwrap_or(stamp.wall_ns))?;
                    }
                    _ => {}
                }
                if change.record.spec.client.is_some() {
                    writer.put_client(&board.read().clients.row(&change.record, stamp.wall_ns))?;
                }
                writer.event(seq, stamp, &change.entry)?;
            }
            Ok(())
        });
        self.board.metrics.wrote(began.elapsed());
        self.note_store(&outcome);
        outcome?;
        self.next_seq += changes.len() as u64;
        self.gpus_stale = true;
        let mut view = self.board.write();
        for (change, seq) in changes.into_iter().zip(first_seq..) {
            let record = Arc::new(change.record);
            view.clients.note(&record, stamp);
            self.board.metrics.changed(self.jobs.get(&record.id).map(|before| &**before), &record, change.entry.kind, stamp.at);
            if record.state.has_gpus() {
                self.on_gpus.insert(record.id);
            } else if self.on_gpus.remove(&record.id) {
                self.telemetry.end_run(&record, stamp.wall_ns / 1_000_000_000);
            }
            if record.state.is_over() {
                self.jobs.remove(&record.id);
                view.jobs.remove(&record.id);
                view.promises.remove(&record.id);
                view.notes.remove(&record.id);
                view.measured.remove(&record.id);
            } else {
                self.jobs.insert(record.id, Arc::clone(&record));
                view.jobs.insert(record.id, record);
            }
            self.board.tell(api::LiveEvent {
                seq,
                at: crate::clock::rfc3339(stamp.wall_ns),
                kind: change.entry.kind.to_owned(),
                job: change.entry.job,
                detail: change.entry.detail,
            });
        }
        Ok(())
    }

    /// A store that refuses is an administrator's business, and is tried again.
    pub(crate) fn note_store<T>(&mut self, outcome: &Result<T, StoreError>) {
        let mut view = self.board.write();
        match outcome {
            Ok(_) => _ = view.warnings.remove("store"),
            Err(error) => {
                view.warnings.insert("store", error.to_string());
                self.store_retry_at = Some(Time(self.platform.now().0 + STORE_RETRY_NS));
            }
        }
    }

    fn retry_store_later(&mut self) {
        self.store_retry_at = Some(Time(self.platform.now().0 + STORE_RETRY_NS));
    }

    /// What the store could not take is tried at the next occasion.
    pub(crate) fn retry_store_now(&mut self) {
        self.store_retry_at = Some(self.platform.now());
    }

    /// A job that is not over, if the caller may touch it.
    pub(crate) fn touch(&self, id: u64, caller: &Caller) -> Result<Arc<Record>, Refusal> {
        let Some(record) = self.jobs.get(&id) else {
            return match self.store.job(id) {
                Ok(Some(record)) => {
                    may_touch(&record, caller)?;
                    Err(Refusal::new(RefusalKind::Conflict, format!("job {id} is over already: {}", record.state.word())))
                }
                Ok(None) => Err(no_such_job(id)),
                Err(error) => Err(Refusal::new(RefusalKind::Unavailable, error.to_string())),
            };
        };
        may_touch(record, caller)?;
        Ok(Arc::clone(record))
    }

    /// The scheduler's number of a job.
    pub(crate) fn number(&self, id: u64) -> Option<JobId> {
        self.numbers.get(&id).copied()
    }

    pub(crate) fn tell(&self, events: &mut Vec<Event>, kind: EventKind) {
        events.push(Event { time_ns: self.platform.now(), kind });
    }

    /// Everything that came in: ends first, all in one write; then submits, all in one write; then the rest one by one.
    fn handle(&mut self, messages: Vec<Message>, state: &mut EngineState, events: &mut Vec<Event>) {
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

    fn take_other(&mut self, message: Message, state: &mut EngineState, events: &mut Vec<Event>) {
        // Who has gone away does not want the answer any more.
        match message {
            Message::Claim(claim, caller, reply) => _ = reply.send(self.claim(&claim, &caller, state, events)),
            Message::Register(registration, caller, reply) => {
                _ = reply.send(self.register(&registration, &caller, state, events));
            }
            Message::Pinged(job, asker) => self.pinged(job, asker),
            Message::LetGo(job, caller, reply) => _ = reply.send(self.let_go(job, &caller, state, events)),
            Message::Act(verb, ids, caller, reply) => _ = reply.send(self.act(verb, &ids, &caller, state, events)),
            Message::Prioritise(id, priority, caller, reply) => _ = reply.send(self.prioritise(id, priority, &caller, state)),
            Message::Looked(looks) => self.take_looks(looks, state, events),
            Message::Explain(id, caller, reply) => _ = reply.send(self.explain(id, &caller, state)),
            Message::Drain(drain, caller, reply) => _ = reply.send(self.drain(&drain, &caller, state, events)),
            Message::Resume(gpus, caller, reply) => _ = reply.send(self.resume(&gpus, &caller, state, events)),
            Message::Policy(policy, caller, reply) => _ = reply.send(self.set_policy(policy, &caller)),
            Message::Flush(reply) => {
                self.write_samples(self.platform.wall_ns() / 1_000_000_000);
                _ = reply.send(Ok(()));
            }
            Message::Tokens(change, reply) => _ = reply.send(self.change_tokens(change)),
            Message::Profiles(caller, reply) => _ = reply.send(Ok(self.profiles_of(&caller))),
            Message::Forget(class, caller, reply) => _ = reply.send(self.forget_profile(class, &caller, state, events)),
            Message::Shutdown => self.leave = Some(Leave::Exit),
            Message::Submit(..) | Message::Ended { .. } => {}
        }
    }

    /// Timers that are due: jobs to be tried again.
    fn ring(&mut self, state: &mut EngineState, events: &mut Vec<Event>) {
        let now = self.platform.now();
        let mut changes = Vec::new();
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(record) = self.jobs.get(&id).filter(|record| record.not_before.is_some()) {
                let record = Record { not_before: None, reason: None, ..(**record).clone() };
                changes.push(Change { record, env: None, entry: Entry { job: Some(id), kind: "ready", detail: json!({}) } });
            }
        }
        let ready = changes.iter().map(|change| change.record.id).collect::<Vec<_>>();
        let outcome = self.commit(changes);
        for id in ready {
            if outcome.is_err() {
                self.timers.insert((Time(now.0 + STORE_RETRY_NS), id));
                continue;
            }
            self.board.write().notes.remove(&id);
            self.reshape(id, state, events);
            if let Some(job) = self.number(id) {
                self.tell(events, EventKind::Released { job });
            }
        }
        if self.store_retry_at.is_some_and(|at| at <= now) {
            self.store_retry_at = None;
            let ends = std::mem::take(&mut self.undelivered).into_iter().filter_map(|message| match message {
                Message::Ended { job, attempt, outcome } => Some((job, attempt, outcome)),
                _ => None,
            });
            let ends = ends.collect();
            self.take_ends(ends, state, events);
            self.telemetry.wants_decision = true;
        }
    }

    /// Jobs that wait for a job that failed have failed.
    fn take_doomed(&mut self) {
        let mut changes = Vec::new();
        let mut doomed = Vec::new();
        while let Ok(job) = self.doomed.try_recv() {
            doomed.push(job);
        }
        for job in &doomed {
            let Some(record) = self.ids.get(job.index()).and_then(|id| self.jobs.get(id)) else { continue };
            changes.push(self.failed_dependency(record));
        }
        if self.commit(changes).is_err() {
            // They stay doomed: the store is tried again.
            for job in doomed {
                _ = self.doomed_sender.send(job);
            }
        }
    }

    pub(crate) fn failed_dependency(&self, record: &Record) -> Change {
        let awaited = record.spec.ask.after.iter().filter(|after| after.condition == api::AfterCondition::Ok);
        let awaited = awaited.map(|after| after.id).filter(|id| !self.jobs.contains_key(id)).collect::<Vec<_>>();
        let failed = self.store.states_of(&awaited).unwrap_or_default();
        let which = awaited.iter().find(|id| failed.get(id).is_some_and(|state| *state != State::Done));
        let reason = which.map_or_else(
            || "a job it waits for did not end well".to_owned(),
            |id| format!("job {id}, which it waits for, did not end well"),
        );
        let record = Record {
            state: State::Failed,
            reason: Some(reason.clone()),
            finished_ns: Some(self.platform.wall_ns()),
            ..record.clone()
        };
        let detail = json!({ "reason": reason });
        Change { entry: Entry { job: Some(record.id), kind: "failed", detail }, env: None, record }
    }

    fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at).into_iter().chain(self.store_retry_at).min()
    }

    fn wants_rebuild(&self) -> bool {
        self.ids.len() > ENDED_ROWS_MAX && self.ids.len() > 3 * self.jobs.len()
    }
}

impl<P: Platform> World for LiveWorld<P> {
    fn poll(&mut self, state: &mut EngineState, wake: Option<Time>, events: &mut Vec<Event>) -> Option<Moment> {
        self.note_decision();
        // Real jobs end when they end.
        state.each_paced(|_, _| {});
        self.take_doomed();
        if std::mem::take(&mut self.gpus_stale) {
            self.show_gpus(state);
        }
        if self.wants_rebuild() && self.stopping.is_empty() {
            self.leave = Some(Leave::Rebuild(self.policy.clone()));
        }
        loop {
            if self.exit_when_idle && self.on_gpus.is_empty() {
                self.leave = Some(Leave::Exit);
            }
            // What was taken in must reach the scheduler before it is left, unless it is made anew from the store anyway.
            if self.leave.is_some() {
                return None;
            }
            self.ring(state, events);
            let now = self.platform.now();
            let due = !events.is_empty() || self.telemetry.wants_decision || wake.is_some_and(|wake| wake <= now);
            let due = due && !self.telemetry.awaits_look;
            if due && now >= self.rest_until {
                self.telemetry.wants_decision = false;
                self.polled_at = now;
                self.is_deciding = true;
                return Some(Moment { now, occasion: Occasion::Event });
            }
            let rest = due.then_some(self.rest_until);
            let until = self.next_timer().into_iter().chain(wake.filter(|wake| *wake > now)).chain(rest).min();
            let Some(messages) = self.platform.wait(until) else {
                self.leave = Some(Leave::Exit);
                return None;
            };
            self.handle(messages, state, events);
        }
    }

    fn apply(&mut self, plan: &Plan, now: Time, events: &mut Vec<Event>) {
        self.note_decision();
        self.show_promises(plan);
        let mut busy: HashSet<GpuId> = HashSet::new();
        for &job in &plan.stops {
            let id = self.ids[job.index()];
            let Some(record) = self.jobs.get(&id).cloned() else { continue };
            busy.extend(record.gpu_uuids.iter().filter_map(|uuid| self.machine.gpu_of(uuid)));
            if let std::collections::hash_map::Entry::Vacant(e) = self.stopping.entry(id) {
                e.insert(StopCause::Preempt);
                self.platform.stop(&record, false);
            }
        }
        if self.draining {
            return;
        }
        // What stops still has its GPUs: who is to follow starts when it has left them, by another decision.
        let starts = plan.starts.iter().filter(|start| !start.gpus.iter().any(|gpu| busy.contains(gpu)));
        let starts = starts.filter(|start| plan.stops.iter().all(|stopped| *stopped != start.job)).collect::<Vec<_>>();
        let wall_ns = self.platform.wall_ns();
        let mut changes = Vec::with_capacity(starts.len());
        for start in &starts {
            let Some(record) = self.jobs.get(&self.ids[start.job.index()]) else { continue };
            changes.push(self.started(record, &start.gpus, now, wall_ns));
        }
        // A place that is missing later was taken away, and does not mean that nothing ran there.
        let prepared = changes
            .iter()
            .filter(|change| !change.record.is_claim())
            .try_for_each(|change| self.platform.prepare(&change.record));
        if let Err(problem) = prepared {
            self.board.write().warnings.insert("start", format!("jobs cannot be started: {problem}"));
            self.retry_store_later();
            return;
        }
        if self.commit(changes).is_err() {
            // Nothing was started; when the store works again everything is decided anew.
            return;
        }
        self.board.write().warnings.remove("start");
        for start in starts {
            let id = self.ids[start.job.index()];
            events.push(Event { time_ns: now, kind: EventKind::Started { job: start.job, gpus: start.gpus.clone() } });
            self.launch(id);
        }
    }
}

impl<P: Platform> LiveWorld<P> {
    fn started(&self, record: &Record, gpus: &GpuList, now: Time, wall_ns: i64) -> Change {
        let devices = gpus.iter().filter_map(|gpu| self.machine.device(*gpu)).collect::<Vec<_>>();
        let record = Record {
            state: if record.is_claim() { State::Running } else { State::Starting },
            attempts: record.attempts + 1,
            gpu_uuids: devices.iter().map(|device| device.uuid.clone()).collect(),
            gpu_indices: devices.iter().map(|device| device.index).collect(),
            started_ns: Some(wall_ns),
            started_at: Some(now.0),
            exit_code: None,
            signal: None,
            reason: None,
            ..record.clone()
        };
        let detail = json!({ "attempt": record.attempts, "gpus": record.gpu_indices, "uuids": record.gpu_uuids });
        Change { entry: Entry { job: Some(record.id), kind: "started", detail }, env: None, record }
    }

    /// Makes the process of a job that is written down as starting.
    fn launch(&mut self, id: u64) {
        let Some(record) = self.jobs.get(&id).cloned().filter(|record| !record.is_claim()) else { return };
        let launched = self
            .store
            .environment(record.env_id)
            .map_err(|error| Outcome::NotLaunched(error.to_string()))
            .and_then(|env| self.platform.launch(Run { record: &record, env }));
        match launched {
            Ok(()) => {
                self.show_running(&record);
            }
            Err(outcome) => {
                self.undelivered.push(Message::Ended { job: id, attempt: record.attempts, outcome });
                self.retry_store_now();
            }
        }
    }

    /// Only for those who look: to the store, starting and running are the same until the supervisor says more.
    pub(crate) fn show_running(&mut self, record: &Record) {
        let record = Arc::new(Record { state: State::Running, ..record.clone() });
        self.board.metrics.moved(self.jobs.get(&record.id).map(|before| &**before), Some(&record));
        self.board.write().jobs.insert(record.id, Arc::clone(&record));
        self.jobs.insert(record.id, record);
    }

    /// Tells how long the scheduler took, once for each decision, and lets it rest for as long. Starting jobs does not count.
    fn note_decision(&mut self) {
        if std::mem::take(&mut self.is_deciding) {
            let now = self.platform.now();
            let length = now.since(self.polled_at);
            self.rest_until = Time(now.0 + (length.0 * REST_FACTOR).min(REST_MAX_NS));
            let seconds = length.seconds();
            self.board.metrics.decided(seconds);
            let mut view = self.board.write();
            view.decisions += 1;
            view.decision_seconds_max = view.decision_seconds_max.max(seconds);
        }
    }

    fn show_promises(&self, plan: &Plan) {
        let (now, wall_ns) = (self.platform.now(), self.platform.wall_ns());
        let promises = plan.promises.iter().filter_map(|promise| {
            let id = *self.ids.get(promise.job.index())?;
            Some((id, wall_ns + promise.start.0.saturating_sub(now.0).cast_signed()))
        });
        self.board.write().promises = promises.collect();
    }

    /// What others than jobs hold of a GPU, told to the scheduler if it is news.
    pub(crate) fn occupy(&mut self, gpu: GpuId, state: &EngineState, events: &mut Vec<Event>) {
        let held = if self.drained_gpus.contains(&gpu) || self.lost_gpus.contains(&gpu) || self.mps_lingers.contains(&gpu) {
            rota_core::Slice { share: MilliGpu::WHOLE, ..Default::default() }
        } else {
            let strangers = self.telemetry.strangers.get(gpu.index()).copied().unwrap_or_default();
            let overused = self.telemetry.overused_mib.get(gpu.index()).copied().unwrap_or_default();
            let memory_mib = strangers.memory_mib.saturating_add(overused).saturating_add(self.config.sharing.buffer_mib);
            rota_core::Slice { memory_mib, ..strangers }
        };
        let told = events.iter().rev().find_map(|event| match event.kind {
            EventKind::Occupied { gpu: other, share, memory_mib } if other == gpu => {
                Some(rota_core::Slice { share, memory_mib, ..Default::default() })
            }
            _ => None,
        });
        if told.unwrap_or(state.outside[gpu.index()]) != held {
            self.tell(events, EventKind::Occupied { gpu, share: held.share, memory_mib: held.memory_mib });
        }
    }
}

/// When a run really ended, which may be long before anybody heard of it.
fn ended_ns(entry: &Entry) -> Option<i64> {
    let ended: jiff::Timestamp = entry.detail.get("ended_at")?.as_str()?.parse().ok()?;
    i64::try_from(ended.as_nanosecond()).ok()
}

/// What jobs are counted with on a machine.
pub fn model_of(config: &Config, machine: &Machine) -> crate::model::Model {
    let kinds = machine.cluster.types.iter().filter(|kind| kind.name != crate::machine::CPU);
    crate::model::Model {
        host: machine.host.clone(),
        memory_mib: kinds.map(|kind| (kind.name.clone(), kind.memory_mib)).collect(),
        estimate_seconds: config.jobs.estimate_seconds,
        buffer_mib: config.sharing.buffer_mib,
        jobs_per_gpu: config.gpus.jobs_per_gpu,
    }
}

/// Whether a caller may touch a job.
pub(crate) fn may_touch(record: &Record, caller: &Caller) -> Result<(), Refusal> {
    if caller.may_write && (caller.is_admin || caller.uid == record.uid) {
        return Ok(());
    }
    let message = if caller.may_write {
        format!("job {} belongs to {}; only its owner or an administrator may touch it", record.id, record.user)
    } else {
        "this token may only read".to_owned()
    };
    Err(Refusal::new(RefusalKind::Forbidden, message))
}

pub(crate) fn needs_admin(caller: &Caller) -> Result<(), Refusal> {
    if caller.is_admin && caller.may_write {
        return Ok(());
    }
    Err(Refusal::new(RefusalKind::Forbidden, format!("{} is not an administrator of this queue", caller.user)))
}

pub(crate) fn no_such_job(id: u64) -> Refusal {
    Refusal::new(RefusalKind::NotFound, format!("there is no job {id}; `rota queue --all` lists them"))
}
