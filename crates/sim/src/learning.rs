//! A simulated world whose speeds the scheduler does not know at first. It learns them as a live queue does, from jobs that tell their
//! steps: twice a round, and when a run ends.
//!
//! Two states fold the same events. By the true one jobs progress and end; the scheduler's own one knows the speeds that were measured.

use crate::{SimOptions, SimulatedWorld, Tally};
use rota_core::bind::{BadJobs, BindError};
use rota_core::event::EventKind;
use rota_core::snapshot::work_done;
use rota_core::{Bound, End, Event, GpuTypeId, Job, JobId, PairEstimator, Plan, Span, ThroughputTable, Time, Workload};
use rota_engine::{Engine, Moment, Session, State, Step, Wait, World};
use rota_policy::Configured;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fewer steps than this are not measured while a job runs on, as in a live queue.
const STEPS_MIN: u64 = 10;
/// Fewer steps than this are not measured when a run ends.
const LAST_STEPS_MIN: u64 = 2;

/// How speeds are learned.
#[derive(Clone)]
pub struct Learning {
    /// Time between two measurements of a running job.
    pub every: Span,
    /// What is expected of pairs of jobs that were never measured.
    pub estimator: Arc<dyn PairEstimator>,
}

/// Runs one simulation to its end, in which the policy learns the speeds of jobs that are given in steps.
pub fn simulate_learning(
    bound: &Arc<Bound>,
    policy: Configured,
    options: &SimOptions,
    learning: &Learning,
    observe: &mut dyn FnMut(&Event),
    seconds: &dyn Fn() -> f64,
) -> Result<Tally, BindError> {
    let believed = Arc::new(without_speeds(bound)?);
    let mut engine = Engine::new(believed, policy, &options.engine());
    engine.state = engine.state.taught().with_estimator(Arc::clone(&learning.estimator));
    let world = LearningWorld {
        inner: SimulatedWorld::new(Arc::clone(bound), options),
        truth: State::new(Arc::clone(bound), options.restart),
        every: learning.every.max(Span(1)),
        marks: BTreeMap::new(),
    };
    Ok(Session::new(engine, world).run(observe, seconds))
}

/// The same jobs, of which no more is known than the cluster says of its GPU types.
fn without_speeds(bound: &Bound) -> Result<Bound, BindError> {
    let mut workload = Workload { names: bound.names.clone(), ..Workload::new(&*bound.source) };
    for index in 0..bound.jobs.len() {
        let job = JobId::from_index(index);
        // A job is not tried where it cannot run.
        let kinds = bound.shape(job).types.iter().map(|kind| workload.names.intern(&bound.cluster.types[kind.index()].name));
        let gpu_types = kinds.collect();
        workload.jobs.push(Job { steps: 0.0, gpu_types, ..bound.whole_job(job) });
    }
    let cluster = bound.cluster.clone();
    Ok(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse)?.with_prices(bound.prices.clone()))
}

/// From where a running job is measured.
#[derive(Clone, Copy)]
struct Mark {
    at: Time,
    done: Span,
    /// The job on the same GPUs: steps beside it and without it are not measured together.
    partner: Option<JobId>,
}

struct LearningWorld {
    inner: SimulatedWorld,
    /// What is really so.
    truth: State,
    every: Span,
    /// By job, of those on their GPUs.
    marks: BTreeMap<JobId, Mark>,
}

impl LearningWorld {
    /// Takes in what happened since `from`. Runs that end are measured before their ends are told.
    fn take_in(&mut self, events: &mut Vec<Event>, from: usize) {
        for event in events.split_off(from) {
            if let EventKind::Ended { job, .. } = event.kind {
                let partner = self.truth.jobs[job.index()].partner;
                events.extend(self.measured(job, LAST_STEPS_MIN));
                events.extend(partner.and_then(|partner| self.measured(partner, STEPS_MIN)));
                self.marks.remove(&job);
            }
            self.truth.apply(&event);
            if let EventKind::Started { job, .. } = event.kind {
                self.mark(job);
            }
            events.push(event);
        }
        // Which jobs can never start is found out by the scheduler's own state.
        self.truth.take_doomed();
        let moved = |(job, mark): (&JobId, &Mark)| (self.truth.jobs[job.index()].partner != mark.partner).then_some(*job);
        for job in self.marks.iter().filter_map(moved).collect::<Vec<_>>() {
            self.mark(job);
        }
    }

    /// A job is measured from now on, or from when it works.
    fn mark(&mut self, job: JobId) {
        let (state, now) = (&self.truth.jobs[job.index()], self.inner.now());
        self.marks.insert(job, Mark { at: state.paced_from.max(now), done: work_done(state, now), partner: state.partner });
    }

    /// How fast a job was since it was last measured, if it has done so many steps of a job type of which steps are known.
    fn measured(&mut self, job: JobId, least_steps: u64) -> Option<Event> {
        let (mark, now) = (*self.marks.get(&job)?, self.inner.now());
        let (bound, state) = (&self.truth.bound, &self.truth.jobs[job.index()]);
        let (truth, class) = (bound.truth(job), bound.class(job));
        let done = work_done(state, now);
        let steps = (done.minus(mark.done).seconds() / truth.work.seconds() * truth.steps).round() as u64;
        let ran = now.since(mark.at);
        let gpu_type = self.gpu_type_of(job)?;
        if steps < least_steps || ran == Span::ZERO {
            return None;
        }
        let beside = mark.partner.map(|partner| bound.names.text(bound.job(partner).kind).into());
        let kind = EventKind::SpeedMeasured {
            job_type: bound.names.text(class.kind).into(),
            gpus: class.gpus,
            gpu_type: bound.cluster.types[gpu_type.index()].name.as_str().into(),
            beside,
            steps,
            ran,
        };
        self.mark(job);
        Some(Event::at(now, kind))
    }

    /// The type of a job's GPUs, if they are whole GPUs close together: other speeds are not measured.
    fn gpu_type_of(&self, job: JobId) -> Option<GpuTypeId> {
        let (gpus, cluster) = (&self.truth.jobs[job.index()].gpus, &self.truth.bound.cluster);
        let first = &cluster.gpus[gpus.first()?.index()];
        let is_close =
            gpus.iter().map(|gpu| &cluster.gpus[gpu.index()]).all(|gpu| (gpu.node, gpu.gpu_type) == (first.node, first.gpu_type));
        (is_close && self.truth.bound.shape(job).is_exclusive()).then_some(first.gpu_type)
    }
}

impl World for LearningWorld {
    fn now(&self) -> Time {
        self.inner.now()
    }

    fn poll(&mut self, _: &State, wait: Wait, events: &mut Vec<Event>) -> Step {
        let inner = &mut self.inner;
        self.truth.each_paced(|job, end| inner.pace(job, end));
        let next = Time((inner.now().0 / self.every.0 + 1) * self.every.0);
        let next = (!self.marks.is_empty()).then_some(next);
        let until = wait.until.into_iter().chain(next).min();
        let step = inner.poll(&self.truth, Wait { until, ..wait }, events);
        let now = inner.now();
        let happened = !events.is_empty();
        self.take_in(events, 0);
        if next.is_some_and(|next| next <= now) {
            for job in self.marks.keys().copied().collect::<Vec<_>>() {
                events.extend(self.measured(job, STEPS_MIN));
            }
        }
        let is_due = happened || wait.has_news || wait.until.is_some_and(|until| until <= now);
        match step {
            // A measurement is a reason to decide only if a speed has moved by it, which the scheduler's own state finds out.
            Step::Decide(_) if !is_due => Step::Happened,
            step => step,
        }
    }

    fn apply(&mut self, plan: &Plan, decision: Option<Moment>, _: &State, events: &mut Vec<Event>) {
        let from = events.len();
        self.inner.apply(plan, decision, &self.truth, events);
        self.take_in(events, from);
    }

    fn doom(&mut self, jobs: &[JobId], _: &State, events: &mut Vec<Event>) {
        let (from, now) = (events.len(), self.now());
        events.extend(jobs.iter().map(|&job| Event::at(now, EventKind::ended(job, End::Dependency))));
        self.take_in(events, from);
    }
}
