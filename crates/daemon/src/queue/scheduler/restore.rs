//! Restoring: a scheduler that decides as the one before it would have.
//!
//! It is the scheduler's image with everything that was written since replayed, decisions included. Where there is no image that fits
//! (a first start, another machine, another version) the scheduler is made anew from the jobs' records.

use crate::api::{self, AfterCondition, JobState};
use crate::forecast::learned::{CLASSES_MAX, history_until};
use crate::machine::devices::Devices;
use crate::machine::inventory::Machine;
use crate::machine::platform::Platform;
use crate::queue::rows::{Rows, Translator};
use crate::queue::world::{LiveWorld, over};
use crate::store::Stamp;
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{Bound, End, Event, GpuId, Hold, PriceTable, RestartCosts, Span, StopCause, Time};
use rota_engine::{Engine, EngineOptions, Pending, Restart, Session, State};
use rota_exec::Adoption;
use std::collections::HashSet;
use std::sync::Arc;

/// What a restart takes up: the rows of jobs, the engine, and what no decision has seen yet.
type Image = (Vec<u64>, Vec<u8>, Pending);

/// Something that happened since an image was made.
enum Since {
    Event(Event),
    /// A policy was set, by this event.
    Policy(String, u64),
}

impl<P: Platform> LiveWorld<P> {
    /// The loop of this world, as it was when the last event was written.
    pub fn restore(mut self) -> Result<Session<Self>, String> {
        for record in self.records.jobs.values().cloned().collect::<Vec<_>>() {
            self.follow_profile(&record);
        }
        let image = self.take_up_image();
        let is_new = image.is_none();
        let mut session = if let Some((engine, pending, since)) = image {
            let mut session = Session::resumed(engine, self, pending);
            for step in since {
                match step {
                    Since::Event(event) => session.replay(&event),
                    Since::Policy(policy, seq) => begin_policy(&mut session, &policy, Some(seq))?,
                }
            }
            session
        } else {
            let mut engine = self.engine_anew()?;
            self.teach(&mut engine, None);
            Session::new(engine, self)
        };
        if session.engine.policy() != session.world.switches.policy {
            let policy = session.world.switches.policy.clone();
            begin_policy(&mut session, &policy, None)?;
        }
        let mut events = Vec::new();
        session.world.find_astray(&session.engine.state, &mut events);
        session.world.find_extras(&session.engine.state, &mut events);
        session.world.find_nodes(&session.engine.state, &mut events);
        for event in &events {
            session.replay(event);
        }
        if is_new {
            // From here on everything can be replayed, also after a kill.
            save_image(&mut session);
        }
        session.world.show_gpus(&session.engine.state);
        session.world.show_speeds(&session.engine.state);
        Ok(session)
    }

    fn options(&self) -> EngineOptions {
        let cost = self.config.jobs.restart_seconds.and_then(Span::from_seconds).unwrap_or_default();
        EngineOptions {
            seed: self.config.seed,
            score: self.config.score(),
            restart: Restart { cost, checkpoint: None, min_run: self.config.min_run() },
            round: self.config.round(),
        }
    }

    /// The engine of the image, and what happened since it was made; `None` if there is no image that fits.
    fn take_up_image(&mut self) -> Option<(Engine, Pending, Vec<Since>)> {
        let (seq, content) = self.journal.store.image().ok()??;
        let (ids, engine, pending): Image = postcard::from_bytes(&content).ok()?;
        let cluster = &self.devices.machine.cluster;
        let prices = PriceTable::of_cluster(cluster);
        let engine = Engine::from_image(&engine, cluster, prices, Arc::clone(&self.table), &self.registry, self.config.round());
        let engine = match engine {
            Ok(mut engine) => {
                engine.state = engine.state.with_estimator(Arc::clone(&self.estimator));
                engine.state.restart.min_run = self.config.min_run();
                if let Some(cost) = self.config.jobs.restart_seconds.and_then(Span::from_seconds) {
                    (engine.state.restart.cost, engine.state.restart_costs) = (cost, RestartCosts::default());
                }
                engine
            }
            Err(error) => {
                self.board.write().warnings.insert("image", format!("{error}; the scheduler was made anew from its jobs"));
                return None;
            }
        };
        let mut rows = Rows::new(ids);
        let translator = Translator { machine: &self.devices.machine, estimates: &self.memory.estimates };
        let mut since = Vec::new();
        for (seq, stamp, event) in self.journal.store.journal_after(seq).ok()? {
            if let EventKind::PolicySet { policy, .. } = &event {
                since.push(Since::Policy(policy.to_string(), seq));
                continue;
            }
            let record = match &event {
                EventKind::Admitted { .. } => crate::store::journal::fold(None, &event, stamp),
                _ => None,
            };
            let translated = translator.events(&mut rows, &event, stamp, record.as_ref());
            since.extend(translated.into_iter().map(|kind| Since::Event(Event::at(Time(stamp.at), kind))));
        }
        self.rows = rows;
        Some((engine, pending, since))
    }

    /// A scheduler made from the jobs' records. Its policy knows nothing of earlier jobs yet.
    fn engine_anew(&mut self) -> Result<Engine, String> {
        let policy = self.registry.build(&self.switches.policy).map_err(|error| error.to_string())?;
        let bound = Arc::new(Bound::empty("live", self.devices.machine.cluster.clone()));
        let mut engine = Engine::new(bound, policy, &self.options());
        engine.state = engine.state.with_throughputs(Arc::clone(&self.table)).with_estimator(Arc::clone(&self.estimator));
        engine.state.measured = self.kept_speeds();
        self.rows = Rows::default();
        for record in self.records.jobs.values().cloned().collect::<Vec<_>>() {
            self.restore_job(&record, &mut engine);
        }
        if self.switches.is_draining {
            engine.record(&Event::at(self.platform.now(), EventKind::Drained { gpu: None, note: () }));
        }
        let mut events = Vec::new();
        let gpus = (0..self.devices.machine.devices.len()).map(GpuId::from_index);
        self.occupy_all(gpus, &engine.state, &mut events);
        for event in &events {
            engine.record(event);
        }
        self.pace.wants_decision = true;
        Ok(engine)
    }

    /// The policy in force goes by what the jobs taught whose ends were written up to an event, or to this day.
    fn teach(&mut self, engine: &mut Engine, until: Option<u64>) {
        if engine.classes_learned().is_none() {
            return;
        }
        match history_until(&self.journal.store, until) {
            Ok(history) => engine.teach(&history),
            Err(error) => {
                let text = format!("the policy begins without what earlier jobs taught, because they cannot be read: {error}");
                self.board.write().warnings.insert("taught", text);
            }
        }
    }

    /// Takes over the nodes and GPUs that the executor has now.
    fn move_to(&mut self, nodes: &[rota_exec::Node]) {
        let before = &self.devices.machine;
        let slots = before.cluster.gpus.len() - before.devices.len();
        let entities = before.cluster.entities.clone();
        let machine = Machine::new(&before.host, nodes, slots as u32).with_entities(&entities);
        let known = std::mem::replace(&mut self.devices, Devices::new(machine.clone(), HashSet::new()));
        self.devices = known.moved(machine);
        self.memory.estimates = crate::memory::knowledge::estimates_of(&self.config, &self.devices.machine);
        self.platform.requests().set_nodes(nodes);
        let remembered = crate::server::remember_gpus(&mut self.journal.store, &self.devices.machine);
        self.note_store(&remembered);
    }

    fn restore_job(&mut self, record: &JobRecord, engine: &mut Engine) {
        let gone = record.spec.ask.after.iter().map(|after| after.id).filter(|id| !self.records.jobs.contains_key(id));
        let ended = self.journal.store.states_of(&gone.collect::<Vec<_>>()).unwrap_or_default();
        let unmet = |after: &api::After| {
            after.condition == AfterCondition::Ok && ended.get(&after.id).is_some_and(|state| *state != JobState::Done)
        };
        if !record.state.has_gpus() && record.spec.ask.after.iter().any(unmet) {
            let failed = self.failed_dependency(record.id);
            // If the store refuses, it is found again at the next start.
            _ = self.commit(vec![failed.into()], &mut Vec::new());
            return;
        }
        let stamp = Stamp { at: record.arrived_at, wall_ns: record.submitted_ns };
        let translator = Translator { machine: &self.devices.machine, estimates: &self.memory.estimates };
        let new = translator.new_job(record, &self.rows, stamp).filter(|new| engine.state.check(new).is_ok());
        let Some(new) = new else {
            // It fitted when it was submitted: the machine has changed. One that runs on GPUs that are gone is told of by its supervisor.
            if !record.state.has_gpus() {
                let failed = over(record.id, End::NeverFits, "it does not fit this machine any more".to_owned());
                _ = self.commit(vec![failed.into()], &mut Vec::new());
            }
            return;
        };
        let gpus = translator.gpus(&record.gpu_uuids);
        let job = self.rows.add(record.id);
        let mut tell = |at: u64, kind| engine.record(&Event::at(Time(at), kind));
        let held = |hold| EventKind::Held { job, hold, note: () };
        tell(record.arrived_at, EventKind::Admitted { job, request: Box::new(new) });
        let holds =
            [(record.user_hold, Hold::User), (record.not_before.is_some(), Hold::Delay), (record.quota_hold, Hold::Quota)];
        for (_, hold) in holds.into_iter().filter(|(holds, _)| *holds) {
            tell(record.arrived_at, held(hold));
        }
        if record.state.has_gpus() {
            let slot = || free_slot(engine, self.devices.machine.devices.len()).into_iter().collect();
            let gpus = if record.spec.ask.gpus == 0 { slot() } else { gpus.unwrap_or_default() };
            let at = record.started_at.unwrap_or(record.arrived_at);
            let is_whole = gpus.len() == record.spec.ask.gpus.max(1) as usize;
            // A job that runs on a GPU that is not there any more must not be started a second time, whatever happens.
            let kind = if is_whole { EventKind::started(job, gpus) } else { held(Hold::Astray) };
            engine.record(&Event::at(Time(at), kind));
            if let Some(cause) = record.stop_cause.clone().filter(|_| is_whole) {
                self.pace.unpromised.insert(record.id);
                engine.record(&Event::at(Time(at), EventKind::Stopping { job, cause, note: () }));
            }
        }
        // What it did before counts as if the scheduler had seen it.
        let state = &mut engine.state.jobs[job.index()];
        state.service = Span(record.service_ns);
        (state.starts, state.failures, state.preemptions) = (record.attempts, record.failures, record.preemptions);
        (state.has_saved, state.losses) = (record.progress.has_saved, record.progress.losses);
        let kept = Span(record.progress.work_ns);
        (state.done, state.done_before, state.saved) = (kept, kept, kept);
    }

    /// Finds jobs that run and that the scheduler has on no GPU, because some of their GPUs are not there any more. The others are
    /// taken until such a job has ended.
    fn find_astray(&mut self, state: &State, events: &mut Vec<Event>) {
        let is_booked = |id: u64| self.row(id).is_some_and(|row| state.jobs[row.index()].phase.has_gpus());
        let astray = self.records.running().filter(|record| !is_booked(record.id));
        let gpus_of = |record: &JobRecord| record.gpu_uuids.iter().filter_map(|uuid| self.devices.machine.gpu_of(uuid)).collect();
        let astray = astray.map(|record| (record.id, gpus_of(record))).collect::<Vec<(u64, Vec<GpuId>)>>();
        for (job, gpus) in astray {
            self.devices.astray.insert(job, gpus.clone());
            self.occupy_all(gpus.into_iter(), state, events);
        }
    }

    /// Asks the supervisors of all jobs that were under way how they are; to be called once, before the first decision.
    pub fn adopt(&mut self) {
        self.pace.awaits_look = !self.devices.machine.devices.is_empty();
        let under_way = self.records.jobs.values().filter(|record| record.state.has_gpus() || record.is_claim());
        for record in under_way.cloned().collect::<Vec<_>>() {
            let (outcome, is_known) = if record.is_claim() {
                (self.platform.watch_holder(&record), true)
            } else {
                match self.platform.adopt(&record) {
                    Adoption::Running => (None, true),
                    // Whether it runs, or how it ended, is told by a message.
                    Adoption::Unknown => (None, false),
                    Adoption::Ended(end) => (Some(end.into()), true),
                }
            };
            match (outcome, &record.stop_cause) {
                (Some(outcome), _) => self.queue_end(&record, outcome),
                // A stop may have been written down and not carried out.
                (None, Some(cause)) if !record.is_claim() => match cause {
                    StopCause::Preempt => self.platform.make_leave(&record),
                    cause => self.platform.stop(&record, matches!(cause, StopCause::Evict | StopCause::Fail(_))),
                },
                (None, _) if record.state == JobState::Starting && is_known => self.show_running(&record),
                (None, _) => {}
            }
        }
        self.platform.executor_mut().settle();
    }
}

/// A processor slot that no job has.
fn free_slot(engine: &Engine, devices: usize) -> Option<GpuId> {
    let taken = engine.state.jobs.iter().flat_map(|job| job.gpus.iter().copied()).collect::<HashSet<_>>();
    (devices..engine.state.bound.cluster.gpus.len()).map(GpuId::from_index).find(|slot| !taken.contains(slot))
}

/// The nodes or their GPUs are others than before: the scheduler is made anew for them, from the jobs' records, as at a
/// start on another machine. Nothing happens to running jobs. The policy keeps what it learned of lengths; what else it remembers beyond the
/// records is of the GPUs before.
pub(crate) fn take_inventory<P: Platform>(session: &mut Session<LiveWorld<P>>) -> Result<(), String> {
    let nodes = session.world.platform.executor().inventory();
    session.world.move_to(&nodes);
    let measured = session.engine.state.measured.clone();
    let taught = session.engine.taught_by_ended();
    let mut engine = session.world.engine_anew()?;
    engine.state.measured = measured;
    if let Some(history) = taught {
        engine.teach(&history);
    }
    session.take_engine(engine);
    let mut events = Vec::new();
    session.world.find_astray(&session.engine.state, &mut events);
    session.world.find_extras(&session.engine.state, &mut events);
    session.world.find_nodes(&session.engine.state, &mut events);
    for event in &events {
        session.replay(event);
    }
    // What was written before speaks of other GPUs.
    save_image(session);
    session.world.show_gpus(&session.engine.state);
    Ok(())
}

/// Another policy decides from now on.
pub(crate) fn set_policy<P: Platform>(session: &mut Session<LiveWorld<P>>, policy: &str) -> Result<(), String> {
    begin_policy(session, policy, None)?;
    // Jobs that end from now on must not teach a second time after a restart.
    save_image(session);
    Ok(())
}

/// Another policy decides from now on. It knows what the jobs taught whose ends were written up to an event, or to this day.
fn begin_policy<P: Platform>(session: &mut Session<LiveWorld<P>>, policy: &str, until: Option<u64>) -> Result<(), String> {
    let configured = session.world.registry.build(policy).map_err(|error| error.to_string())?;
    session.engine.set_policy(configured);
    session.world.teach(&mut session.engine, until);
    session.world.pace.wants_decision = true;
    Ok(())
}

/// What has to be done now and then, and then [`save_image`].
pub(crate) fn keep_up<P: Platform>(session: &mut Session<LiveWorld<P>>) {
    // Users who give each job a name of its own make classes without end: the newest jobs teach again from the beginning.
    if session.engine.classes_learned().is_some_and(|classes| classes > CLASSES_MAX) {
        session.world.teach(&mut session.engine, None);
    }
    save_image(session);
}

/// Writes down everything that decisions depend on, as of the last event.
pub(crate) fn save_image<P: Platform>(session: &mut Session<LiveWorld<P>>) {
    let image: Image = (session.world.rows.ids().to_vec(), session.engine.image(), session.pending());
    let kept = session.world.keep_speeds(&session.engine.state.measured);
    session.world.note_store(&kept);
    // Plain data can always be written to memory; what the store refuses is tried again later.
    let content = postcard::to_allocvec(&image).unwrap_or_default();
    let written = session.world.journal.put_image(&content);
    session.world.note_store(&written);
}
