//! The state of every job, GPU and node: a fold over events, the same in the simulated and the live world.

use crate::recent_starts::RecentStarts;
use crate::{Handover, Restart};
use rota_core::event::EventKind;
use rota_core::snapshot::{gpu_time, work_done};
use rota_core::{
    Binder, Bound, Companions, DependencyCondition, End, Event, GpuId, GpuList, JobChange, JobId, JobState, MeasuredSpeeds,
    MilliGpu, NewJob, NoEstimates, NodeId, PairEstimator, Phase, Renumbering, RestartCost, RestartCosts, Slice, Span,
    SpeedSample, ThroughputTable, Time,
};
use rota_place::pool::Pool;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// All jobs, GPUs and nodes now. It has many fields because it is what all folds of the scheduler share; each is plain data.
#[derive(Clone, Serialize, Deserialize)]
pub struct State {
    /// Jobs and cluster.
    pub bound: Arc<Bound>,
    /// The state of each job, by id.
    pub jobs: Vec<JobState>,
    /// What is free.
    pub pool: Pool,
    /// Which nodes are up.
    pub nodes_up: Vec<bool>,
    /// What others than the scheduler's jobs hold of each GPU.
    pub outside: Vec<Slice>,
    /// How often that or a node changed.
    pub outside_changes: u64,
    /// How long each GPU has worked for jobs that left it again.
    pub gpu_busy: Vec<Span>,
    /// Jobs submitted and not over.
    pub unfinished: usize,
    /// Jobs ready to run.
    pub waiting: usize,
    /// Jobs on their GPUs that were not asked to stop.
    pub running: usize,
    /// Jobs on their GPUs that were asked to stop.
    pub stopping: usize,
    /// Whether nothing may be started.
    pub is_drained: bool,
    /// What it costs a job to start again, where nothing was measured of its type.
    pub restart: Restart,
    /// What was measured of job types.
    pub restart_costs: RestartCosts,
    /// The speeds that were measured.
    pub measured: MeasuredSpeeds,
    /// How often the speeds in force were changed by them.
    pub speed_changes: u64,
    /// Starts that wait for other jobs to leave their GPUs.
    pub handovers: Vec<Handover>,
    pub(crate) binder: Binder,
    #[serde(skip)]
    pub(crate) table: Arc<ThroughputTable>,
    #[serde(skip, default = "no_estimates")]
    pub(crate) estimator: Arc<dyn PairEstimator>,
    companions: Companions,
    /// The jobs on each GPU that share it and whose speeds beside others are known.
    sharers: Vec<SmallVec<[JobId; 4]>>,
    /// Jobs whose pace was set since the world last asked.
    paced: Vec<JobId>,
    /// Those among them that ran before, since the last decision.
    pub(crate) repaced: Vec<JobId>,
    changed: Vec<JobId>,
    is_changed: Vec<bool>,
    doomed: Vec<JobId>,
    /// Runs that may be too new to be stopped.
    #[serde(skip)]
    pub(crate) recent_starts: RecentStarts,
}

fn no_estimates() -> Arc<dyn PairEstimator> {
    Arc::new(NoEstimates)
}

impl State {
    /// The state before the first event.
    pub fn new(bound: Arc<Bound>, restart: Restart) -> Self {
        Self {
            jobs: vec![JobState::default(); bound.jobs.len()],
            pool: Pool::new(&bound.cluster),
            nodes_up: vec![true; bound.cluster.nodes.len()],
            outside: vec![Slice::default(); bound.cluster.gpus.len()],
            outside_changes: 0,
            gpu_busy: vec![Span::ZERO; bound.cluster.gpus.len()],
            unfinished: 0,
            waiting: 0,
            running: 0,
            stopping: 0,
            is_drained: false,
            restart,
            restart_costs: RestartCosts::default(),
            measured: MeasuredSpeeds::default(),
            speed_changes: 0,
            handovers: Vec::new(),
            binder: Binder::new(&bound.cluster),
            table: Arc::new(ThroughputTable::new("live")),
            estimator: no_estimates(),
            companions: Companions::new(bound.cluster.gpus.len()),
            sharers: vec![SmallVec::new(); bound.cluster.gpus.len()],
            paced: Vec::new(),
            repaced: Vec::new(),
            changed: Vec::new(),
            is_changed: vec![false; bound.jobs.len()],
            doomed: Vec::new(),
            recent_starts: RecentStarts::default(),
            bound,
        }
    }

    /// The same state, which knows the speeds of job types that arrive later.
    #[must_use]
    pub fn with_throughputs(self, table: Arc<ThroughputTable>) -> Self {
        Self { table, ..self }
    }

    /// The same state, with expectations of pairs that were never measured.
    #[must_use]
    pub fn with_estimator(self, estimator: Arc<dyn PairEstimator>) -> Self {
        Self { estimator, ..self }
    }

    /// Whether a job that arrives could ever run here.
    pub fn check(&self, new: &NewJob) -> Result<(), rota_core::bind::BindProblem> {
        self.binder.check(&self.bound.cluster, new)
    }

    fn admit(&mut self, new: NewJob, now: Time) {
        let classes = self.bound.classes.len();
        // It was checked before it was accepted; one that does not fit any more has no row and is never started.
        let admitted = Arc::make_mut(&mut self.bound).admit(&mut self.binder, new, &self.table);
        if let Ok(job) = admitted {
            self.jobs.push(JobState::default());
            self.is_changed.push(false);
            self.note_change(job);
            self.submit(job, now);
            let class = self.bound.class(job);
            let known = self.measured.believed(self.bound.names.text(class.kind), class.gpus, &[], &self.table);
            if !class.is_measured && known.is_some() {
                self.use_measured_speeds(now);
            }
            if self.bound.classes.len() > classes {
                self.use_measured_pairs(now);
            }
        }
    }

    fn change(&mut self, job: JobId, change: JobChange) {
        let bound = Arc::make_mut(&mut self.bound);
        match change {
            JobChange::Priority(priority) => bound.reprioritise(job, priority),
            JobChange::Slice { share, memory_mib, group } => {
                debug_assert!(!self.jobs[job.index()].phase.has_gpus(), "it holds GPUs by its old measure");
                let slice = Slice { share, memory_mib, group, ..bound.shape(job).slice() };
                // Checked before it was written down, like a new job.
                _ = bound.reshape(&mut self.binder, job, slice, &self.table);
            }
            JobChange::WorkLost => self.jobs[job.index()].losses += 1,
        }
    }

    /// Takes in one event.
    pub fn apply(&mut self, event: &Event) {
        let now = event.time_ns;
        // A job to which GPUs are promised waits on as it did: to a policy that would be a new one.
        let is_promise = matches!(event.kind, EventKind::Promised { .. });
        if let Some(job) = event.kind.job().filter(|job| !is_promise && job.index() < self.jobs.len()) {
            self.note_change(job);
        }
        match &event.kind {
            EventKind::Admitted { request, .. } => self.admit((**request).clone(), now),
            EventKind::Submitted { job } => self.submit(*job, now),
            EventKind::Changed { job, change, .. } => self.change(*job, *change),
            EventKind::Started { job, gpus, .. } => self.start(*job, gpus, now),
            EventKind::Stopping { job, .. } => self.begin_stop(*job),
            EventKind::Promised { job, gpus, after } => self.promise(*job, gpus, after),
            EventKind::Ended { job, end, .. } => self.end_run(*job, *end, now),
            EventKind::Held { job, .. } => self.hold(*job, now),
            EventKind::Released { job, .. } => self.unblock(*job, now),
            EventKind::Occupied { gpu, share, memory_mib } => {
                self.set_outside(*gpu, Slice { share: *share, memory_mib: *memory_mib, ..Slice::default() });
            }
            EventKind::Drained { gpu: None, .. } => {
                self.is_drained = true;
                self.break_promises(|_| true);
            }
            EventKind::Resumed { gpu: None, .. } => self.is_drained = false,
            EventKind::RestartMeasured { job_type, cost, start } => {
                let kind = Arc::make_mut(&mut self.bound).names.intern(job_type);
                self.restart_costs.set(kind, RestartCost { stop: cost.minus(*start), start: *start });
                self.recent_starts.forget();
                // What the last job lost is the best guess for types of which nothing is known.
                self.restart.cost = *cost;
            }
            EventKind::SpeedMeasured { job_type, gpus, gpu_type, beside, steps, ran } => {
                let sample = SpeedSample { steps: *steps, ran: *ran };
                self.measured.take_in(job_type, *gpus, gpu_type, beside.as_deref(), sample);
                match beside {
                    None => self.use_measured_speeds(now),
                    Some(beside) => self.use_measured_pair([job_type, beside], *gpus, gpu_type, now),
                }
            }
            EventKind::Committed { job, .. } => self.keep_work(*job, now),
            EventKind::NodeLost { node } => self.set_node_up(*node, false),
            EventKind::NodeReturned { node } => self.set_node_up(*node, true),
            // A GPU that is drained or lost is told as occupied; policies and decisions are the session's.
            EventKind::Drained { .. }
            | EventKind::Resumed { .. }
            | EventKind::DeviceLost { .. }
            | EventKind::DeviceReturned { .. }
            | EventKind::Overused { .. }
            | EventKind::Leased { .. }
            | EventKind::Progress { .. }
            | EventKind::Extra { .. }
            | EventKind::PolicySet { .. }
            | EventKind::Decided { .. } => {}
        }
    }

    /// A run ended, or the wait of a job that never ran. What is kept of its work depends on how.
    fn end_run(&mut self, job: JobId, end: End, now: Time) {
        let has_saved = self.jobs[job.index()].has_saved;
        let is_loss = end == End::Preempted && !has_saved && !self.bound.job(job).saves_progress;
        let done = match end {
            End::Finished => self.bound.truth(job).work,
            End::Retried | End::Preempted if has_saved => self.jobs[job.index()].saved,
            End::Retried => Span::ZERO,
            End::Evicted => self.saved_work(job, now),
            End::Preempted if !self.bound.job(job).saves_progress => Span::ZERO,
            End::Preempted | End::Crashed | End::Dependency | End::NeverFits | End::Cancelled | End::Lost => {
                work_done(&self.jobs[job.index()], now)
            }
        };
        let next = match end {
            End::Finished => Phase::Finished,
            _ if end.is_over() => Phase::Failed,
            _ => self.phase_off_gpus(job),
        };
        self.leave_gpus(job, now, next);
        let state = &mut self.jobs[job.index()];
        state.done = done;
        state.preemptions += u32::from(end == End::Preempted);
        state.losses += u32::from(is_loss);
        state.failures += u32::from(end == End::Retried);
        state.was_cut_off = matches!(end, End::Cancelled | End::Lost | End::Dependency | End::NeverFits);
        if end.is_over() {
            self.break_promises(|handover| handover.job == job);
            self.end(job, now);
        }
    }

    /// The job saved what it has done until now.
    fn keep_work(&mut self, job: JobId, now: Time) {
        let done = work_done(&self.jobs[job.index()], now);
        let state = &mut self.jobs[job.index()];
        state.saved = done;
        state.has_saved = true;
    }

    fn hold(&mut self, job: JobId, now: Time) {
        self.jobs[job.index()].blockers += 1;
        self.break_promises(|handover| handover.job == job);
        if self.jobs[job.index()].phase == Phase::Waiting {
            self.enter(job, Phase::Blocked, now);
        }
    }

    /// A job was asked to stop: it works on until it has ended.
    fn begin_stop(&mut self, job: JobId) {
        let state = &mut self.jobs[job.index()];
        if state.phase == Phase::Running {
            self.running -= 1;
            self.stopping += 1;
            state.phase = Phase::Stopping;
        }
    }

    /// Drops the rows of jobs that are over and numbers the others anew, in the same order.
    pub fn renumber(&mut self, rows: &Renumbering) {
        Arc::make_mut(&mut self.bound).renumber(rows);
        rows.keep(&mut self.jobs);
        rows.keep(&mut self.is_changed);
        rows.rename(&mut self.changed);
        rows.rename(&mut self.paced);
        rows.rename(&mut self.repaced);
        rows.rename(&mut self.doomed);
        self.recent_starts.forget();
        self.companions.renumber(rows);
        for sharers in &mut self.sharers {
            sharers.iter_mut().for_each(|job| *job = rows.of(*job));
        }
        for state in &mut self.jobs {
            state.partner = state.partner.map(|partner| rows.of(partner));
        }
        for handover in &mut self.handovers {
            handover.job = rows.of(handover.job);
            handover.after.iter_mut().for_each(|job| *job = rows.of(*job));
        }
    }

    /// Which rows to keep when those of jobs that are over are dropped. A change that no decision has seen yet is kept.
    pub fn kept_rows(&self) -> Renumbering {
        Renumbering::keeping(self.jobs.len(), |job| !self.jobs[job.index()].phase.is_over() || self.is_changed[job.index()])
    }

    /// Jobs that can never start because a job they wait for failed. The world reports them failed.
    pub fn take_doomed(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.doomed)
    }

    /// When a running job will have done all its work, or reach the point at which it fails.
    pub fn end_of_run(&self, job: JobId) -> Time {
        let (truth, state) = (self.bound.truth(job), &self.jobs[job.index()]);
        let goal = truth.fails_at.map_or(truth.work, |fails_at| fails_at.min(truth.work));
        state.paced_from + goal.minus(state.done).at_speed(state.speed)
    }

    /// Calls for jobs that run and whose end has moved since this was last asked: started, joined by others, or left by them. A job
    /// may come more than once.
    pub fn each_paced(&mut self, mut call: impl FnMut(JobId, Time)) {
        let mut paced = std::mem::take(&mut self.paced);
        for job in paced.drain(..) {
            if self.jobs[job.index()].phase.has_gpus() {
                call(job, self.end_of_run(job));
            }
        }
        // Handed back to be filled again without allocating.
        self.paced = paced;
    }

    /// Jobs with a GPU on this node.
    pub fn jobs_on_node(&self, node: NodeId) -> Vec<JobId> {
        let range = &self.bound.cluster.nodes[node.index()].gpus;
        let on_node = |state: &JobState| state.gpus.iter().any(|gpu| range.contains(&gpu.0));
        let running = self.jobs.iter().enumerate().filter(|(_, state)| state.phase.has_gpus() && on_node(state));
        running.map(|(index, _)| JobId::from_index(index)).collect()
    }

    pub(crate) fn take_changed(&mut self) -> Vec<JobId> {
        let changed = std::mem::take(&mut self.changed);
        for job in &changed {
            self.is_changed[job.index()] = false;
        }
        changed
    }

    pub(crate) fn take_repaced(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.repaced)
    }

    /// Every job counts as changed: somebody looks who has seen nothing yet.
    pub(crate) fn note_everybody(&mut self) {
        (0..self.jobs.len()).map(JobId::from_index).for_each(|job| self.note_change(job));
    }

    /// Hands the emptied list back, to be filled again without allocating.
    pub(crate) fn recycle_changed(&mut self, mut changed: Vec<JobId>) {
        changed.clear();
        self.changed = changed;
    }

    pub(crate) fn note_change(&mut self, job: JobId) {
        if !std::mem::replace(&mut self.is_changed[job.index()], true) {
            self.changed.push(job);
        }
    }

    pub(crate) fn slice(&self, job: JobId) -> Slice {
        let shape = self.bound.shape(job);
        shape.slice()
    }

    fn submit(&mut self, job: JobId, now: Time) {
        self.unfinished += 1;
        let bound = Arc::clone(&self.bound);
        let mut blockers = 0;
        for dependency in &bound.job(job).after {
            match self.jobs[dependency.job.index()].phase {
                Phase::Finished => {}
                Phase::Failed if dependency.condition == DependencyCondition::Any => {}
                Phase::Failed => self.doomed.push(job),
                _ => blockers += 1,
            }
        }
        self.jobs[job.index()].blockers = blockers;
        self.enter(job, if blockers == 0 { Phase::Waiting } else { Phase::Blocked }, now);
    }

    fn start(&mut self, job: JobId, gpus: &GpuList, now: Time) {
        self.break_promises(|handover| handover.job == job);
        self.enter(job, Phase::Running, now);
        let ripe_at = now + self.min_run_of(job);
        self.recent_starts.push(job, now, ripe_at);
        self.pool.take(gpus, self.slice(job));
        let start = self.restart_costs.of(self.bound.job(job).kind).map_or(self.restart.cost, |cost| cost.start);
        let state = &mut self.jobs[job.index()];
        state.overhead = if state.starts > 0 { start } else { Span::ZERO };
        state.starts += 1;
        state.gpus.clone_from(gpus);
        state.saved = state.done;
        state.done_before = state.done;
        state.paced_from = now + state.overhead;
        if self.bound.shape(job).is_exclusive()
            && let Some(host) = self.companions.start(job, gpus)
        {
            self.jobs[job.index()].partner = Some(host);
            self.jobs[host.index()].partner = Some(job);
            self.change_pace(host, now);
        }
        if self.bound.shape(job).class.is_some() {
            let others = self.sharers_of(gpus);
            for gpu in gpus {
                self.sharers[gpu.index()].push(job);
            }
            self.change_paces(&others, now);
        }
        self.set_speed(job);
    }

    /// The jobs that share any of these GPUs, each once.
    fn sharers_of(&self, gpus: &[GpuId]) -> SmallVec<[JobId; 4]> {
        let mut sharers = gpus.iter().flat_map(|gpu| &self.sharers[gpu.index()]).copied().collect::<SmallVec<_>>();
        sharers.sort_unstable();
        sharers.dedup();
        sharers
    }

    pub(crate) fn change_paces(&mut self, jobs: &[JobId], now: Time) {
        for &job in jobs {
            self.change_pace(job, now);
        }
    }

    /// Books what a job did at its old pace, and gives it the pace it has beside the partner it has now.
    pub(crate) fn change_pace(&mut self, job: JobId, now: Time) {
        let (done, saved) = (work_done(&self.jobs[job.index()], now), self.saved_work(job, now));
        let state = &mut self.jobs[job.index()];
        state.done = done;
        state.saved = saved;
        state.paced_from = state.paced_from.max(now);
        self.set_speed(job);
        self.repaced.push(job);
    }

    fn set_speed(&mut self, job: JobId) {
        let state = &self.jobs[job.index()];
        let cluster = &self.bound.cluster;
        let first = &cluster.gpus[state.gpus[0].index()];
        let gpu_type = first.gpu_type;
        let speeds = self.bound.speeds(job);
        // A gang goes as fast as its slowest.
        let speed_on = |gpu: &GpuId| speeds[cluster.gpus[gpu.index()].gpu_type.index()];
        let mut speed = state.gpus.iter().map(speed_on).fold(f64::INFINITY, f64::min);
        if let Some(parts) = &self.bound.class(job).spread_part
            && state.gpus.iter().any(|gpu| cluster.gpus[gpu.index()].node != first.node)
        {
            speed *= parts[gpu_type.index()];
        }
        if let Some(part) = state.partner.and_then(|partner| self.bound.pair_part(job, partner, gpu_type)) {
            speed *= part.0;
        }
        if let Some(class) = self.bound.shape(job).class {
            let others = |gpu: &GpuId| self.sharers[gpu.index()].iter().filter(|other| **other != job);
            let classes = |gpu| others(gpu).map(|other| self.bound.class_of[other.index()]);
            let pace = |gpu| self.bound.pair_parts.pace(class, classes(gpu), gpu_type);
            speed *= state.gpus.iter().map(pace).fold(f64::INFINITY, f64::min);
        }
        let state = &mut self.jobs[job.index()];
        state.speed = speed;
        self.paced.push(job);
    }

    /// Frees the GPUs of a job, if it has any, and books the time.
    fn leave_gpus(&mut self, job: JobId, now: Time, next: Phase) {
        let slice = self.slice(job);
        let state = &mut self.jobs[job.index()];
        if state.phase.has_gpus() {
            let held = now.since(state.since);
            state.service += gpu_time(self.bound.job(job), held.minus(state.overhead));
            for gpu in &state.gpus {
                self.gpu_busy[gpu.index()] += held;
            }
            let gpus = std::mem::take(&mut state.gpus);
            state.partner = None;
            self.pool.give(&gpus, slice);
            if self.bound.shape(job).is_exclusive()
                && let Some(partner) = self.companions.leave(job, &gpus)
            {
                self.jobs[partner.index()].partner = None;
                self.change_pace(partner, now);
            }
            if self.bound.shape(job).class.is_some() {
                for gpu in &gpus {
                    self.sharers[gpu.index()].retain(|other| *other != job);
                }
                let others = self.sharers_of(&gpus);
                self.change_paces(&others, now);
            }
            for handover in &mut self.handovers {
                handover.after.retain(|other| *other != job);
            }
        }
        self.enter(job, next, now);
    }

    fn enter(&mut self, job: JobId, next: Phase, now: Time) {
        let state = &mut self.jobs[job.index()];
        self.waiting -= usize::from(state.phase == Phase::Waiting);
        self.running -= usize::from(state.phase == Phase::Running);
        self.stopping -= usize::from(state.phase == Phase::Stopping);
        self.waiting += usize::from(next == Phase::Waiting);
        self.running += usize::from(next == Phase::Running);
        state.phase = next;
        state.since = now;
    }

    /// Work that a job keeps when its node is lost.
    fn saved_work(&self, job: JobId, now: Time) -> Span {
        let state = &self.jobs[job.index()];
        if state.has_saved {
            return state.saved;
        }
        let began = state.since + state.overhead;
        let last_saved = match self.restart.checkpoint {
            Some(every) if every > Span::ZERO => {
                let ran = now.since(began);
                began + Span(ran.0 - ran.0 % every.0)
            }
            Some(_) => now,
            None => began,
        };
        if last_saved > state.paced_from {
            state.done + last_saved.since(state.paced_from).work_at_speed(state.speed)
        } else {
            state.saved
        }
    }

    /// Tells the jobs that wait for one that it is over.
    fn end(&mut self, job: JobId, now: Time) {
        self.unfinished -= 1;
        let bound = Arc::clone(&self.bound);
        let failed = self.jobs[job.index()].phase == Phase::Failed;
        for &dependant in bound.dependants.get(&job).into_iter().flatten() {
            if self.jobs[dependant.index()].phase != Phase::Blocked {
                continue;
            }
            let needs_ok =
                |dependency: &&rota_core::Dependency| dependency.job == job && dependency.condition == DependencyCondition::Ok;
            if failed && bound.job(dependant).after.iter().any(|dependency| needs_ok(&dependency)) {
                self.doomed.push(dependant);
                continue;
            }
            self.unblock(dependant, now);
            self.note_change(dependant);
        }
    }

    /// Where a job goes that lost its GPUs: it was held meanwhile, or not.
    fn phase_off_gpus(&self, job: JobId) -> Phase {
        if self.jobs[job.index()].blockers == 0 { Phase::Waiting } else { Phase::Blocked }
    }

    /// One thing less that a job waits for.
    fn unblock(&mut self, job: JobId, now: Time) {
        let state = &mut self.jobs[job.index()];
        state.blockers = state.blockers.saturating_sub(1);
        if state.blockers == 0 && state.phase == Phase::Blocked {
            self.enter(job, Phase::Waiting, now);
        }
    }

    fn set_outside(&mut self, gpu: GpuId, after: Slice) {
        let before = std::mem::replace(&mut self.outside[gpu.index()], after);
        if before != after {
            self.pool.set_outside(gpu, before, after);
            self.outside_changes += 1;
            if after.share > MilliGpu(0) {
                self.break_promises(|handover| handover.gpus.contains(&gpu));
            }
        }
    }

    fn set_node_up(&mut self, node: NodeId, up: bool) {
        self.nodes_up[node.index()] = up;
        self.outside_changes += 1;
        if !up {
            let gpus = self.bound.cluster.nodes[node.index()].gpus.clone();
            self.break_promises(|handover| handover.gpus.iter().any(|gpu| gpus.contains(&gpu.0)));
        }
        self.pool.set_node_up(node, up);
    }
}
