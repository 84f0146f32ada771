//! The live world: it turns messages into events, and plans into processes.
//!
//! Every change goes through [`LiveWorld::commit`]: first to the disk, then to memory and to those who look, and only then is anything
//! done or acknowledged. A start is written down before the process is made, so that a daemon that dies in between finds the job and
//! asks its supervisor; an end is taken from the supervisor's own record, so that it is never guessed.

use crate::api::JobState;
use crate::config::Config;
use crate::lease::running_leases::RunningLeases;
use crate::machine::devices::Devices;
use crate::machine::inventory::Machine;
use crate::machine::platform::{Caller, Message, Platform, Refusal, RefusalKind};
use crate::memory::knowledge::MemoryKnowledge;
use crate::queue::arrays::PendingArray;
use crate::queue::commit::Journal;
use crate::queue::extras::ExtraListeners;
use crate::queue::pace::Pace;
use crate::queue::records::Records;
use crate::queue::rows::Rows;
use crate::queue::switches::{Leave, Switches};
use crate::store::journal::{Launch, QueueEvent, RunReport};
use crate::store::record::JobRecord;
use crate::store::{Store, StoreError};
use crate::view::board::Board;
use rota_core::event::EventKind;
use rota_core::{End, Event, JobId, NoEstimates, PairEstimator, Plan, Start, StopCause, ThroughputTable, Time};
use rota_engine::{Moment, State, Step, Wait, World};
use rota_policy::Registry;
use rota_trace::estimate::PairFiller;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// The queue on this machine.
pub struct LiveWorld<P> {
    pub(crate) platform: P,
    pub(crate) journal: Journal,
    pub(crate) records: Records,
    pub(crate) rows: Rows,
    pub(crate) devices: Devices,
    pub(crate) memory: MemoryKnowledge,
    pub(crate) switches: Switches,
    pub(crate) pace: Pace,
    pub(crate) listeners: ExtraListeners,
    pub(crate) board: Arc<Board>,
    /// The leases of running jobs; none where jobs are not real.
    pub(crate) leases: Option<Arc<RunningLeases>>,
    pub(crate) config: Config,
    pub(crate) registry: Arc<Registry>,
    pub(crate) table: Arc<ThroughputTable>,
    /// What is expected of jobs beside each other that were never measured so.
    pub(crate) estimator: Arc<dyn PairEstimator>,
    pub(crate) next_id: u64,
    pub(crate) backlog: Backlog,
}

/// What is known and not written down yet.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Messages that the store could not take yet.
    pub undelivered: Vec<Message>,
    /// Jobs that can never start, and of which the store could not take that yet.
    pub doomed: Vec<JobId>,
    /// Arrays whose jobs are being made.
    pub arrays: VecDeque<PendingArray>,
}

impl<P: Platform> LiveWorld<P> {
    /// A world whose jobs are those of the store. They get to a scheduler by [`Self::restore`].
    pub fn new(platform: P, store: Store, board: Arc<Board>, config: Config, machine: Machine) -> Result<Self, StoreError> {
        let registry = Arc::new(Registry::default());
        let (last_job, _, _) = store.last()?;
        let on_disk = platform.executor().highest_job().ok().flatten().unwrap_or(0);
        let mut jobs = std::collections::BTreeMap::new();
        for record in store.unfinished()? {
            match record {
                Ok(record) => _ = jobs.insert(record.id, Arc::new(record)),
                Err((id, problem)) => {
                    let text =
                        format!("the row of job {id} cannot be read, and the job is left out: {problem}; see `rota check`");
                    board.write().warnings.insert("row", text);
                }
            }
        }
        let known = store.meta("policy")?.filter(|policy| registry.build(policy).is_ok());
        let (switches, drained) = Switches::restored(&store, &machine, known.unwrap_or_else(|| config.policy.clone()))?;
        let memory = MemoryKnowledge::new(store.profiles()?, &config, &machine);
        store.tokens()?.into_iter().for_each(|token| board.tokens.insert(token));
        let clients = crate::watchmen::clients::restored(&store, &mut jobs, platform.now())?;
        {
            let mut view = board.write();
            view.jobs.clone_from(&jobs);
            for record in jobs.values() {
                board.metrics.moved(None, Some(record));
            }
            view.policy.clone_from(&switches.policy);
            view.draining = switches.is_draining;
            view.clients = clients;
            if on_disk > last_job {
                let text = format!(
                    "there are run directories up to job {on_disk}, and the database knows jobs up to {last_job}: it is older than they \
                     are, or was begun anew. New jobs get higher numbers; `rota check` says what else differs"
                );
                view.warnings.insert("older", text);
            }
        }
        let environments = store.environment_bytes()?;
        let mut world = Self {
            platform,
            journal: Journal::new(store)?,
            records: Records::new(jobs, environments),
            rows: Rows::default(),
            devices: Devices::new(machine, drained),
            memory,
            switches,
            pace: Pace::default(),
            listeners: ExtraListeners::default(),
            board,
            leases: None,
            config,
            registry,
            table: Arc::new(ThroughputTable::new("live")),
            estimator: Arc::new(NoEstimates),
            next_id: last_job.max(on_disk) + 1,
            backlog: Backlog::default(),
        };
        world.take_up_arrays()?;
        Ok(world)
    }

    /// The same world, which knows the speeds of some job types beside others.
    #[must_use]
    pub fn with_throughputs(self, table: ThroughputTable) -> Self {
        Self { estimator: Arc::new(PairFiller::new(&table)), table: Arc::new(table), ..self }
    }

    /// The same world, whose jobs have leases.
    #[must_use]
    pub fn with_leases(self, leases: Arc<RunningLeases>) -> Self {
        for record in self.records.jobs.values() {
            leases.follow(record);
        }
        Self { leases: Some(leases), ..self }
    }

    /// The same world with more policies to choose from.
    #[must_use]
    pub fn with_registry(self, registry: Arc<Registry>) -> Self {
        Self { registry, ..self }
    }

    /// Why the loop was left; asked once.
    pub fn take_leave(&mut self) -> Option<Leave> {
        self.switches.leave.take()
    }

    /// Jobs that have GPUs.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Arc<JobRecord>> {
        self.records.running()
    }

    /// A job that is not over, if the caller may touch it.
    pub(crate) fn touch(&self, id: u64, caller: &Caller) -> Result<Arc<JobRecord>, Refusal> {
        let Some(record) = self.records.jobs.get(&id) else {
            return match self.journal.store.job(id) {
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

    /// The row of a job in the scheduler's tables.
    pub(crate) fn row(&self, id: u64) -> Option<JobId> {
        self.rows.of(id)
    }

    /// A job that waited for one that did not end well has failed.
    pub(crate) fn failed_dependency(&self, id: u64) -> QueueEvent {
        let after = self.records.jobs.get(&id).map(|record| record.spec.ask.after.clone()).unwrap_or_default();
        self.failed_for(id, &after)
    }

    /// The same for a job that is about to be accepted.
    pub(crate) fn failed_for(&self, id: u64, after: &[crate::api::After]) -> QueueEvent {
        let awaited = after.iter().filter(|after| after.condition == crate::api::AfterCondition::Ok).map(|after| after.id);
        let awaited = awaited.filter(|id| !self.records.jobs.contains_key(id)).collect::<Vec<_>>();
        let ended = self.journal.store.states_of(&awaited).unwrap_or_default();
        let which = awaited.iter().find(|id| ended.get(id).is_some_and(|state| *state != JobState::Done));
        let reason = which.map_or_else(
            || "a job it waits for did not end well".to_owned(),
            |id| format!("job {id}, which it waits for, did not end well"),
        );
        over(id, End::Dependency, reason)
    }

    /// Tells the world that a job was asked to stop, and asks it. One that is being stopped already is asked no second time.
    pub(crate) fn stop(&mut self, record: &JobRecord, cause: StopCause, at_once: bool, events: &mut Vec<Event>) {
        if record.stop_cause.is_some() {
            return;
        }
        let stopping = EventKind::Stopping { job: record.id, cause, note: crate::store::journal::Note::default() };
        // What is not written down is not done; it is decided again.
        if self.commit(vec![stopping.into()], events).is_ok() {
            self.pace.stopping(record.id, self.platform.now());
            self.platform.stop(record, at_once);
        }
    }

    /// The events of a plan: who is asked to stop, who starts at once, and who starts when others have left.
    fn plan_events(&self, plan: &Plan, state: &State) -> Vec<QueueEvent> {
        let mut events = Vec::new();
        for id in plan.stops.iter().filter_map(|job| self.rows.id(*job)) {
            let note = crate::store::journal::Note::default();
            events.push(EventKind::Stopping { job: id, cause: StopCause::Preempt, note });
        }
        for start in &plan.starts {
            let Some(record) = self.rows.id(start.job).and_then(|id| self.records.jobs.get(&id)) else { continue };
            let after = plan.stops_before(start, &state.jobs).filter_map(|job| self.rows.id(job)).collect::<SmallVec<[u64; 2]>>();
            events.push(if after.is_empty() {
                self.started(record, start)
            } else {
                EventKind::Promised { job: record.id, gpus: self.names(start), after }
            });
        }
        events
    }

    /// The names of a start's GPUs.
    fn names(&self, start: &Start) -> SmallVec<[String; 4]> {
        start.gpus.iter().map(|gpu| self.devices.machine.name(*gpu)).collect()
    }

    fn started(&self, record: &JobRecord, start: &Start) -> QueueEvent {
        let devices = start.gpus.iter().filter_map(|gpu| self.devices.machine.device(*gpu));
        let launch =
            Launch { attempt: record.attempts + 1, indices: devices.map(|device| device.index).collect(), identity: None };
        EventKind::Started { job: record.id, gpus: self.names(start), launch }
    }

    /// Makes the places of the jobs that are about to start, so that one that is missing later was taken away.
    fn prepare(&mut self, planned: &mut [QueueEvent]) -> Result<(), String> {
        for event in planned {
            let EventKind::Started { job, launch, .. } = event else { continue };
            let Some(record) = self.records.jobs.get(job).filter(|record| !record.is_claim()) else { continue };
            let next = JobRecord { attempts: launch.attempt, ..(**record).clone() };
            launch.identity = Some(self.platform.prepare(&next)?);
        }
        Ok(())
    }
}

impl<P: Platform> World for LiveWorld<P> {
    fn now(&self) -> Time {
        self.platform.now()
    }

    fn poll(&mut self, state: &State, wait: Wait, events: &mut Vec<Event>) -> Step {
        self.note_decision();
        if !self.backlog.doomed.is_empty() {
            let doomed = std::mem::take(&mut self.backlog.doomed);
            self.doom(&doomed, state, events);
        }
        if std::mem::take(&mut self.devices.are_stale) {
            self.show_gpus(state);
        }
        self.show_speeds(state);
        self.warn_of_short_rounds(state);
        loop {
            if self.switches.exit_when_idle && self.records.is_idle() {
                self.switches.leave = Some(Leave::Exit);
            }
            if self.switches.leave.is_none() && std::mem::take(&mut self.switches.has_new_inventory) {
                self.switches.leave = Some(Leave::Inventory);
            }
            if self.switches.leave.is_some() {
                return Step::Over;
            }
            self.ring(state, events);
            if !events.is_empty() {
                return Step::Happened;
            }
            let now = self.platform.now();
            let measure_at = self.speeds_due();
            if measure_at.is_some_and(|at| at <= now) {
                self.measure_speeds(state, events);
                continue;
            }
            let plan_at = self.plan_due();
            if plan_at.is_some_and(|at| at <= now) {
                self.note_planned();
                self.switches.leave = Some(Leave::PlanRound);
                return Step::Over;
            }
            let due = wait.has_news || self.pace.wants_decision || wait.until.is_some_and(|until| until <= now);
            let due = due && !self.pace.awaits_look;
            if due && now >= self.pace.rest_until {
                self.pace.begin_decision(now);
                return Step::Decide(now);
            }
            if !due {
                self.review_extras(state, events);
                if !events.is_empty() {
                    return Step::Happened;
                }
            }
            let rest = due.then_some(self.pace.rest_until);
            let timers = self
                .records
                .next_timer()
                .into_iter()
                .chain(self.journal.retry_at)
                .chain(plan_at)
                .chain(measure_at)
                .chain(self.next_withdrawal_end());
            // Messages are taken between two parts of an array, and not waited for.
            let part = (!self.backlog.arrays.is_empty() && self.journal.retry_at.is_none()).then_some(now);
            let until = timers.chain(wait.until.filter(|until| *until > now)).chain(rest).chain(part).min();
            // Between two parts of an array nothing is waited for; the next part takes everything with it.
            if part.is_none()
                && let Err(error) = self.journal.flush_decisions()
            {
                self.note_store::<()>(&Err(error));
            }
            let Some(messages) = self.platform.wait(until) else {
                self.switches.leave = Some(Leave::Exit);
                return Step::Over;
            };
            self.handle(messages, state, events);
            self.make_some(state, events);
        }
    }

    fn apply(&mut self, plan: &Plan, decision: Option<Moment>, state: &State, events: &mut Vec<Event>) {
        if let Some(moment) = decision {
            self.note_decision();
            self.show_promises(plan);
            let stamp = crate::store::Stamp { at: moment.now.0, wall_ns: self.platform.wall_ns() };
            self.journal.decided(stamp, EventKind::Decided { occasion: moment.occasion });
        }
        let mut planned = self.plan_events(plan, state);
        if planned.is_empty() {
            return;
        }
        if let Err(problem) = self.prepare(&mut planned) {
            self.board.write().warnings.insert("start", format!("jobs cannot be started: {problem}"));
            self.retry_store_later();
            return;
        }
        if self.commit(planned.iter().cloned().map(Into::into).collect(), events).is_err() {
            // Nothing was started; when the store works again everything is decided anew.
            return;
        }
        self.board.write().warnings.remove("start");
        for event in planned {
            match event {
                EventKind::Stopping { job, .. } => {
                    self.pace.stopping(job, self.platform.now());
                    if let Some(record) = self.records.jobs.get(&job).cloned() {
                        self.platform.make_leave(&record);
                    }
                }
                EventKind::Started { job, .. } => self.launch(job),
                _ => {}
            }
        }
    }

    fn doom(&mut self, jobs: &[JobId], _: &State, events: &mut Vec<Event>) {
        let ids = jobs.iter().filter_map(|job| self.rows.id(*job)).filter(|id| self.records.jobs.contains_key(id));
        let failed = ids.map(|id| self.failed_dependency(id).into()).collect();
        if self.commit(failed, events).is_err() {
            // They stay doomed: the store is tried again.
            self.backlog.doomed.extend_from_slice(jobs);
        }
    }
}

/// A job that is over without having run.
pub(crate) fn over(id: u64, end: End, reason: String) -> QueueEvent {
    EventKind::Ended { job: id, end, report: RunReport { reason: Some(reason), ..RunReport::default() } }
}

/// Whether a caller may touch a job.
pub(crate) fn may_touch(record: &JobRecord, caller: &Caller) -> Result<(), Refusal> {
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
