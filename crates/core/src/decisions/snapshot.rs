//! What a policy sees: the state of every job and node at one moment, and which jobs changed since it last looked.

use crate::{Bound, GpuList, GpuTypeId, Job, JobId, MilliGpu, RestartCosts, Span, Time};
use serde::{Deserialize, Serialize};

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Not yet submitted.
    #[default]
    Pending,
    /// Submitted, but jobs it waits for have not ended.
    Blocked,
    /// Ready to run.
    Waiting,
    /// On its GPUs.
    Running,
    /// Asked to stop; on its GPUs until it has ended.
    Stopping,
    /// The job has ended well.
    Finished,
    /// The job has ended badly, for good.
    Failed,
}

impl Phase {
    /// Whether the job may be given GPUs, or has them.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Waiting | Self::Running | Self::Stopping)
    }

    /// Whether the job is on its GPUs.
    pub fn has_gpus(self) -> bool {
        matches!(self, Self::Running | Self::Stopping)
    }

    /// Whether the job has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Failed)
    }
}

/// What has become of a job so far: a fold over its events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    /// Where it is.
    pub phase: Phase,
    /// When it entered that phase; of a job on GPUs, when it was started.
    pub since: Time,
    /// Its GPUs while it runs.
    pub gpus: GpuList,
    /// Work done before it took up its present pace.
    pub done: Span,
    /// Work done before its present run, or its last.
    pub done_before: Span,
    /// Work it would still have if its node were lost before it saved again.
    pub saved: Span,
    /// Work done per time at its present pace.
    pub speed: f64,
    /// Since when it has its present pace: the beginning of its run after the restart, or a partner's coming or going.
    pub paced_from: Time,
    /// The job on the same whole GPUs.
    pub partner: Option<JobId>,
    /// Time at the beginning of the present run that is spent on starting again.
    pub overhead: Span,
    /// GPU time received before the present run, without the time spent on starting again: a policy that counted that too would
    /// take the GPUs of a wide job before it did anything.
    pub service: Span,
    /// How often it was started.
    pub starts: u32,
    /// How often the scheduler took its GPUs away.
    pub preemptions: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// Jobs it still waits for, and holds on it.
    pub blockers: u32,
    /// Whether GPUs are promised to it that other jobs are still leaving.
    pub is_promised: bool,
    /// Whether it has told of work that it saved: that alone is kept when it loses its GPUs.
    pub has_saved: bool,
    /// How often it lost all work of a run because the scheduler took its GPUs away.
    pub losses: u32,
    /// Whether others ended the job for good, by cancelling it or with its node: it would have run on.
    pub was_cut_off: bool,
}

/// A job that lost its work this often by being stopped for others runs to its end.
pub const LOSSES_MAX: u32 = 2;

impl JobState {
    /// Whether the job is not stopped for others any more, because it lost its work too often.
    pub fn is_spared(&self) -> bool {
        self.losses >= LOSSES_MAX
    }
}

/// Whether a policy is told how long jobs really run where their users gave no estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durations {
    /// It is not: a job without an estimate may run for ever.
    #[default]
    Hidden,
    /// It is, because its row in the registry says that it needs to know.
    Known,
}

/// How long a job may run that nobody has said anything about: as good as for ever, and no sum of it overflows.
const UNKNOWN_WORK: Span = Span(u64::MAX / 1024);

/// A part of one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Share of the GPU.
    pub share: MilliGpu,
    /// Memory on the GPU.
    pub memory_mib: u32,
    /// With whom it may be shared: [`Job::group`](crate::Job::group).
    pub group: u32,
    /// Whose speed beside others is known: [`Shape::class`](crate::Shape::class).
    pub class: Option<crate::ClassId>,
}

/// One job with its state, and what follows from the two.
#[derive(Clone, Copy)]
pub struct JobView<'a> {
    /// What was asked for.
    pub job: &'a Job,
    /// What has become of it.
    pub state: &'a JobState,
    bound: &'a Bound,
    durations: Durations,
    now: Time,
    restart_cost: Span,
}

impl JobView<'_> {
    /// The job's id.
    pub fn id(&self) -> JobId {
        self.job.id
    }

    /// The job's best speed on this cluster.
    pub fn best_speed(&self) -> f64 {
        self.bound.best_speed(self.job.id)
    }

    /// How long the job is believed to run, alone, on the reference GPU: its estimate, what is usual here, or its length where the policy may know that.
    pub fn believed_work(&self) -> Span {
        self.job.estimate.or(self.job.usual).or_else(|| self.exact_work()).unwrap_or(UNKNOWN_WORK)
    }

    /// How long the job will really run, where the policy may know that.
    pub fn exact_work(&self) -> Option<Span> {
        (self.durations == Durations::Known).then(|| self.bound.truth(self.job.id).work)
    }

    /// Work done until now.
    pub fn done(&self) -> Span {
        work_done(self.state, self.now)
    }

    /// GPU time received until now: GPUs × share × time, without restarts.
    pub fn service(&self) -> Span {
        if self.state.phase.has_gpus() {
            self.state.service + gpu_time(self.job, self.now.since(self.state.since + self.state.overhead))
        } else {
            self.state.service
        }
    }

    /// How long the job is believed to run, alone, on its best GPU type.
    pub fn believed_seconds(&self) -> f64 {
        self.believed_work().at_speed(self.best_speed()).seconds()
    }

    /// How long the job is believed to need still on its best type, the restart it is in or would need included. Not on the type it
    /// runs on: a job would look longer for running on a slow one, lose its GPUs, and look short again.
    pub fn believed_remaining(&self) -> Span {
        let starting = match self.state.phase {
            Phase::Running | Phase::Stopping => (self.state.since + self.state.overhead).since(self.now),
            _ if self.state.starts > 0 => self.restart_cost,
            _ => Span::ZERO,
        };
        starting + self.believed_work().minus(self.done()).at_speed(self.best_speed())
    }
}

/// Work a job has done by `now`.
pub fn work_done(state: &JobState, now: Time) -> Span {
    if state.phase.has_gpus() { state.done + now.since(state.paced_from).work_at_speed(state.speed) } else { state.done }
}

/// GPU time that a job takes in a span of wall time.
pub fn gpu_time(job: &Job, span: Span) -> Span {
    if job.share == crate::MilliGpu::WHOLE {
        span.times(u64::from(job.gpus))
    } else {
        Span((span.0 as f64 * job.share.fraction()) as u64).times(u64::from(job.gpus))
    }
}

/// The whole state at one moment. Borrowed, because it is looked at a million times in a simulation.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    /// The moment of the decision.
    pub now: Time,
    /// The length of a round, if time is cut into rounds (mechanism `rounds`), at whose ends alone running jobs may be stopped.
    pub round: Option<Span>,
    /// Whether a round ends here.
    pub is_tick: bool,
    /// Jobs and cluster.
    pub bound: &'a Bound,
    /// The state of each job, by id.
    pub states: &'a [JobState],
    /// Which nodes are up, by id.
    pub nodes_up: &'a [bool],
    /// What others than the scheduler's jobs hold of each GPU, by id.
    pub outside: &'a [Slice],
    /// How often that or a node changed, so that whoever counted GPUs knows when to count again. Zero: every GPU is the scheduler's.
    pub outside_changes: u64,
    /// How long each GPU has worked for jobs that left it again, by id.
    pub gpu_busy: &'a [Span],
    /// What a job loses at the beginning of every run but its first, where nothing was measured of its type.
    pub restart_cost: Span,
    /// What was measured of job types.
    pub restart_costs: &'a RestartCosts,
    /// How long a job runs at the least before it is stopped for others, where that does not depend on its type.
    pub min_run: Span,
    /// How many of its restarts a job runs for at the least before it is stopped for others, where that is not set as a time.
    pub min_run_restarts: Option<u32>,
    /// How often speeds were changed by measurements, so that whoever keeps them knows when to look again.
    pub speed_changes: u64,
    /// Whether the policy is told how long jobs really run.
    pub durations: Durations,
    /// Jobs whose phase changed since the last decision, without repeats, in order of change.
    pub changed: &'a [JobId],
    /// How long jobs are reckoned to run in all, as work, by id, where a policy said so; placement fills it in for itself.
    pub lengths: &'a [Option<Span>],
    /// Running jobs whose pace changed since then because others came to their GPUs or left them. A job may come more than once.
    pub repaced: &'a [JobId],
}

impl<'a> Snapshot<'a> {
    /// Whether running jobs may not be stopped now: a round is going on.
    pub fn is_within_round(&self) -> bool {
        self.round.is_some() && !self.is_tick
    }

    /// Whole GPUs of each type that are nobody else's, on nodes that are up.
    pub fn capacities(&self) -> Vec<f64> {
        let mut capacities = vec![0.0; self.bound.cluster.types.len()];
        for (gpu, outside) in self.bound.cluster.gpus.iter().zip(self.outside) {
            if self.nodes_up[gpu.node.index()] && outside.share == MilliGpu(0) {
                capacities[gpu.gpu_type.index()] += 1.0;
            }
        }
        capacities
    }

    /// Whether a job may be stopped for others: it runs, it lets itself be stopped, it has run for long enough to be worth its start,
    /// and its GPUs would then be free.
    pub fn may_stop(&self, job: JobId) -> bool {
        let state = &self.states[job.index()];
        let is_held = |gpu: &crate::GpuId| {
            let node = self.bound.cluster.gpus[gpu.index()].node;
            !self.nodes_up[node.index()] || self.outside.get(gpu.index()).is_some_and(|outside| outside.share > MilliGpu(0))
        };
        let is_new = self.now.since(state.since) < self.min_run_of(job);
        let lets_itself = self.bound.job(job).preemptible && !state.is_spared() && !is_new;
        state.phase == Phase::Running && lets_itself && !state.gpus.iter().any(is_held)
    }

    /// What a job loses when it is stopped and started again.
    pub fn restart_cost_of(&self, job: JobId) -> Span {
        self.restart_costs.of(self.bound.job(job).kind).map_or(self.restart_cost, crate::RestartCost::whole)
    }

    /// How long a job runs at the least before it is stopped for others.
    pub fn min_run_of(&self, job: JobId) -> Span {
        self.min_run_restarts.map_or(self.min_run, |restarts| self.restart_cost_of(job).times(restarts.into()))
    }

    /// The GPU type a job runs on.
    pub fn type_now(&self, job: JobId) -> Option<GpuTypeId> {
        let state = &self.states[job.index()];
        let first = state.gpus.first().filter(|_| state.phase.has_gpus())?;
        Some(self.bound.cluster.gpus[first.index()].gpu_type)
    }

    /// A job with its state at this moment.
    pub fn view(&self, job: JobId) -> JobView<'a> {
        JobView {
            job: self.bound.job(job),
            state: &self.states[job.index()],
            bound: self.bound,
            durations: self.durations,
            now: self.now,
            restart_cost: self.restart_cost_of(job),
        }
    }

    /// How long a job is believed to run, alone, on the reference GPU: its estimate, or its length where the policy may know that.
    pub fn believed_work(&self, job: JobId) -> Span {
        self.view(job).believed_work()
    }

    /// How long a job is reckoned to run in all, as work: what the policy learned, or else [`Self::believed_work`].
    pub fn length(&self, job: JobId) -> Span {
        self.lengths.get(job.index()).copied().flatten().unwrap_or_else(|| self.believed_work(job))
    }

    /// How long a waiting job is believed to hold its GPUs if it starts now on this type.
    pub fn believed_run(&self, job: JobId, gpu_type: GpuTypeId) -> Span {
        let state = &self.states[job.index()];
        let left = self.length(job).minus(state.done);
        let starting = if state.starts > 0 { self.restart_cost_of(job) } else { Span::ZERO };
        starting + left.at_speed(self.bound.speeds(job)[gpu_type.index()])
    }

    /// The jobs that changed since the last decision.
    pub fn changed_jobs(&self) -> impl Iterator<Item = JobView<'a>> {
        let this = *self;
        self.changed.iter().map(move |&job| this.view(job))
    }

    /// The jobs that changed and now wait: new ones, preempted ones, ones to be tried again.
    pub fn newly_waiting(&self) -> impl Iterator<Item = JobView<'a>> {
        self.changed_jobs().filter(|view| view.state.phase == Phase::Waiting)
    }
}
