//! The same case in the simulator, with the deeds of users and the losses of nodes.

use super::*;

/// The simulated world with somebody in it who cancels, holds and releases jobs and gives them other priorities.
struct Scripted {
    inner: SimulatedWorld,
    script: std::collections::VecDeque<(Time, JobId, Deed)>,
    /// Cancelled jobs that were running a moment ago.
    leaving: Vec<JobId>,
    held: BTreeSet<JobId>,
}

impl Scripted {
    fn act(&mut self, job: JobId, deed: Deed, state: &State, events: &mut Vec<Event>) {
        let now = self.inner.now();
        // What just happened is not in the state yet.
        let told = events.iter().rev().find(|event| event.kind.job() == Some(job)).map(|event| &event.kind);
        let phase = match told {
            Some(EventKind::Ended { end, .. }) if end.is_over() => Phase::Failed,
            Some(EventKind::Submitted { .. } | EventKind::Ended { .. }) => Phase::Waiting,
            _ => state.jobs[job.index()].phase,
        };
        let waits = matches!(phase, Phase::Waiting | Phase::Blocked);
        let kind = match deed {
            _ if phase == Phase::Pending || phase.is_over() => return,
            Deed::Cancel if waits => EventKind::ended(job, End::Cancelled),
            Deed::Cancel if phase == Phase::Running => {
                self.leaving.push(job);
                EventKind::Stopping { job, cause: StopCause::Cancel, note: () }
            }
            Deed::Hold if waits && self.held.insert(job) => EventKind::Held { job, hold: Hold::User, note: () },
            Deed::Release if waits && self.held.remove(&job) => EventKind::Released { job, hold: Hold::User, note: () },
            Deed::Prioritise(priority) if waits && state.bound.job(job).priority != priority => {
                EventKind::Changed { job, change: JobChange::Priority(priority), note: () }
            }
            _ => return,
        };
        events.push(Event::at(now, kind));
    }
}

impl World for Scripted {
    fn now(&self) -> Time {
        self.inner.now()
    }

    fn pace(&mut self, job: JobId, end: Time) {
        self.inner.pace(job, end);
    }

    fn poll(&mut self, state: &State, wait: Wait, events: &mut Vec<Event>) -> Step {
        let leaving = std::mem::take(&mut self.leaving);
        if !leaving.is_empty() {
            let now = self.inner.now();
            events.extend(leaving.into_iter().map(|job| Event::at(now, EventKind::ended(job, End::Cancelled))));
            return Step::Decide(now);
        }
        let next = self.script.front().map(|(at, _, _)| *at);
        let until = wait.until.into_iter().chain(next).min();
        let step = self.inner.poll(state, Wait { until, ..wait }, events);
        while let Some((_, job, deed)) = self.script.front().copied().filter(|(at, _, _)| *at <= self.inner.now()) {
            self.script.pop_front();
            self.act(job, deed, state, events);
        }
        // Somebody tried something that came to nothing: no reason to decide.
        let is_due = wait.has_news || wait.until.is_some_and(|until| until <= self.inner.now());
        match step {
            Step::Decide(_) if events.is_empty() && !is_due => Step::Happened,
            step => step,
        }
    }

    fn apply(&mut self, plan: &Plan, decision: Option<Moment>, state: &State, events: &mut Vec<Event>) {
        self.inner.apply(plan, decision, state, events);
    }
}

/// What the simulator did in a case.
#[derive(Default)]
pub(super) struct SimulatedRun {
    pub starts: Vec<Start>,
    /// When jobs were asked to leave, and which.
    pub stops: Vec<(u64, u64)>,
    /// The jobs among them whose GPUs were promised to another job at that moment.
    pub made_room: BTreeSet<(u64, u64)>,
}

impl SimulatedRun {
    fn note(&mut self, event: &Event) {
        let (at, id) = (event.time_ns.0, |job: &JobId| u64::from(job.0) + 1);
        match &event.kind {
            EventKind::Started { job, gpus, .. } => self.starts.push((at, id(job), gpus.iter().map(|gpu| gpu.0).collect())),
            EventKind::Stopping { job, cause: StopCause::Preempt, .. } => self.stops.push((at, id(job))),
            EventKind::Promised { job, after, .. } => {
                self.made_room.extend(after.iter().filter(|other| *other != job).map(|other| (at, id(other))));
            }
            _ => {}
        }
    }
}

/// The same case in the simulator.
pub(super) fn run_of_the_simulator(case: &Case, setting: Setting<'_>) -> SimulatedRun {
    let Case { asks, script, outages, stop_millis } = case;
    let mut cluster = machine().cluster;
    let lost = outages.iter().enumerate().filter_map(|(node, outage)| Some((NodeId::from_index(node), (*outage)?)));
    let outage = |(node, (from, until))| Outage { node, from: Time(from * SECOND), until: Some(Time(until * SECOND)) };
    cluster.outages = lost.map(outage).collect();
    let mut workload = Workload::new("asks");
    let kinds = cluster
        .types
        .iter()
        .map(|kind| kind.name.clone())
        .filter(|kind| kind != crate::machine::inventory::CPU)
        .collect::<Vec<_>>();
    for ask in asks {
        let gpu_types = kinds.iter().map(|kind| workload.names.intern(kind)).collect();
        let estimate = Some(Span(ask.says * SECOND));
        let user = workload.names.intern(USERS[ask.user]);
        let kind = workload.names.intern(KINDS[ask.kind]);
        let share = if ask.memory_mib.is_some() { MilliGpu(125) } else { MilliGpu::WHOLE };
        let job = Job::new(Time(ask.arrival * SECOND), Span(ask.runs * SECOND));
        let job = Job { share, memory_mib: ask.memory_mib.unwrap_or(0), kind, priority: ask.priority, gpus: ask.gpus, ..job };
        let preemptible = ask.preemptible;
        let (retries, fails_at) = (u32::from(ask.fails_at.is_some()), ask.fails_at.map(|at| Span(at * SECOND)));
        workload.push(Job { gpu_types, estimate, user, preemptible, saves_progress: preemptible, retries, fails_at, ..job });
    }
    workload.finish();
    let bound = Arc::new(Bound::new(workload, cluster, &table(), BadJobs::Refuse).unwrap());
    let mechanism = setting.round.map_or(Mechanism::Event, |round| Mechanism::Rounds { length: Span(round * SECOND) });
    let options = SimOptions { mechanism, stop_time: Span(stop_millis * (SECOND / 1000)), ..SimOptions::default() };
    let mut deeds = script.clone();
    deeds.sort_by_key(|(at, _, _)| *at);
    let world = Scripted {
        inner: SimulatedWorld::new(Arc::clone(&bound), &options),
        script: deeds.into_iter().map(|(at, job, deed)| (Time(at * SECOND), JobId(job as u32 - 1), deed)).collect(),
        leaving: Vec::new(),
        held: BTreeSet::new(),
    };
    let engine = Engine::new(bound, rota_policy::build(setting.policy).unwrap(), &options.engine());
    let mut session = Session::new(engine, world);
    let mut run = SimulatedRun::default();
    let mut observe = |event: &Event| run.note(event);
    while session.advance(&mut observe).is_some_and(|moment| moment.now.0 <= HORIZON) {
        let target = session.ask();
        session.hand_in(&target, &mut observe);
    }
    run.starts = in_order(run.starts);
    run
}
