//! Episodes on the simulator itself: a policy from the registry, or a model, runs a workload, and what came of it is summed up.

use crate::environment::Outcome;
use crate::model::{Model, Ranges, Use};
use crate::policy::{Learned, Observer};
use crate::train::imitate::Decision;
use rota_core::bind::BadJobs;
use rota_core::random::RandomStream;
use rota_core::{Bound, Cluster, Durations, EventKind, ThroughputTable, Time, Workload};
use rota_policy::{Configured, Context, PolicyError};
use rota_sim::SimOptions;
use rota_trace::generate::Classroom;
use std::sync::{Arc, Mutex};

/// Run times below this count as this in the bounded slowdown.
const SLOWDOWN_BOUND_SECONDS: f64 = 10.0;

/// Seconds of a day.
const DAY_SECONDS: f64 = 86_400.0;

/// Where the workloads of episodes come from.
#[derive(Clone)]
enum Source {
    /// The task generator of the teaching environment, one workload a seed.
    Classroom(Box<Classroom>),
    /// Stretches of a trace.
    Trace {
        workload: Arc<Workload>,
        table: Arc<ThroughputTable>,
        /// Jobs in one stretch.
        length: usize,
    },
}

/// Which episodes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Episodes {
    /// Those to learn from: stretches drawn from the trace.
    Training,
    /// Those to be judged by: stretches one after the other.
    Judging,
}

/// What a power limit does to the GPUs of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The type of the GPUs with this limit.
    pub gpu_type: String,
    /// The power limit of each of them.
    pub watts: f64,
    /// Work done in the same time, against no limit.
    pub speed: f64,
    /// Power drawn at work, against no limit.
    pub power: f64,
}

/// Something to simulate, episode by episode.
#[derive(Clone)]
pub struct Scenario {
    source: Source,
    cluster: Cluster,
    options: SimOptions,
    limits: Vec<Limit>,
}

/// A scenario that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The trace and the cluster do not go together.
    #[error("{0}")]
    Bind(#[from] rota_core::bind::BindError),
    /// A policy that cannot be made.
    #[error("{0}")]
    Policy(#[from] PolicyError),
    /// A network that cannot be made.
    #[error(transparent)]
    Network(#[from] rota_nn::BadSizes),
}

impl Scenario {
    /// The corrected classroom: every task runs.
    pub fn classroom(cluster: Cluster, options: SimOptions) -> Self {
        Self { source: Source::Classroom(Box::default()), cluster, options, limits: Vec::new() }
    }

    /// Stretches of a trace.
    pub fn trace(workload: Workload, table: ThroughputTable, length: usize, cluster: Cluster, options: SimOptions) -> Self {
        let length = length.clamp(1, workload.jobs.len().max(1));
        let source = Source::Trace { workload: Arc::new(workload), table: Arc::new(table), length };
        Self { source, cluster, options, limits: Vec::new() }
    }

    /// The same with the GPUs under power limits.
    #[must_use]
    pub fn under(&self, limits: Vec<Limit>) -> Self {
        Self { limits, ..self.clone() }
    }

    /// The first job of an episode, where episodes are stretches of a trace: the same jobs are then the same episode.
    pub(crate) fn first_job(&self, seed: u64, episodes: Episodes) -> usize {
        let Source::Trace { workload, length, .. } = &self.source else { return 0 };
        let places = workload.jobs.len() - length + 1;
        match episodes {
            Episodes::Training => RandomStream::new(seed, "stretch").below(places as u64) as usize,
            Episodes::Judging => (seed as usize * length).min(places - 1),
        }
    }

    /// The workload of an episode, on the cluster.
    pub fn bound(&self, seed: u64, episodes: Episodes) -> Result<Arc<Bound>, ScenarioError> {
        let (workload, table) = match &self.source {
            Source::Classroom(config) => (rota_trace::generate::classroom(config, seed), &ThroughputTable::default()),
            Source::Trace { workload, table, length } => (stretch(workload, self.first_job(seed, episodes), *length), &**table),
        };
        let mut bound = Bound::new(workload, self.cluster.clone(), table, BadJobs::Refuse)?;
        for limit in &self.limits {
            let places = bound.cluster.types.iter().enumerate().filter(|(_, kind)| kind.name == limit.gpu_type);
            for place in places.map(|(place, _)| place).collect::<Vec<_>>() {
                let kind = &mut bound.cluster.types[place];
                kind.full_watts = (kind.full_watts * limit.power).max(kind.idle_watts);
                bound.speeds.iter_mut().for_each(|speeds| speeds[place] *= limit.speed);
            }
        }
        Ok(Arc::new(bound))
    }

    /// The generator, the cluster and the options, where the task generator makes the episodes.
    pub(crate) fn as_classroom(&self) -> Option<(&Classroom, &Cluster, &SimOptions)> {
        match &self.source {
            Source::Classroom(config) if self.limits.is_empty() => Some((config, &self.cluster, &self.options)),
            _ => None,
        }
    }

    /// The options of the simulation.
    pub(crate) fn options(&self) -> SimOptions {
        self.options
    }

    /// Binds everything that episodes may take jobs from, so that no episode can fail later.
    pub fn check(&self) -> Result<Arc<Bound>, ScenarioError> {
        match &self.source {
            Source::Classroom(_) => self.bound(0, Episodes::Training),
            Source::Trace { workload, table, .. } => {
                Ok(Arc::new(Bound::new(Workload::clone(workload), self.cluster.clone(), table, BadJobs::Refuse)?))
            }
        }
    }

    /// Whether episodes are stretches of a trace.
    pub(crate) fn is_trace(&self) -> bool {
        matches!(self.source, Source::Trace { .. })
    }

    /// Plays an episode by a policy of the registry.
    pub fn play_policy(&self, spec: &str, seed: u64, episodes: Episodes) -> Result<Outcome, ScenarioError> {
        Ok(self.play_policy_by_day(spec, seed, episodes)?.0)
    }

    /// The same, with what came of the jobs of each day.
    pub fn play_policy_by_day(&self, spec: &str, seed: u64, episodes: Episodes) -> Result<(Outcome, Vec<Day>), ScenarioError> {
        let policy = crate::policy::registry().build(spec)?;
        Ok(run_by_day(&self.bound(seed, episodes)?, policy, &SimOptions { seed, ..self.options }))
    }

    /// Plays an episode by a model.
    pub fn play_model(
        &self,
        model: &Arc<Model>,
        seed: u64,
        episodes: Episodes,
        ranges: Option<&Arc<Mutex<Ranges>>>,
    ) -> Result<Outcome, ScenarioError> {
        Ok(self.play_model_by_day(model, seed, episodes, ranges)?.0)
    }

    /// The same, with what came of the jobs of each day.
    pub fn play_model_by_day(
        &self,
        model: &Arc<Model>,
        seed: u64,
        episodes: Episodes,
        ranges: Option<&Arc<Mutex<Ranges>>>,
    ) -> Result<(Outcome, Vec<Day>), ScenarioError> {
        let policy = Box::new(Learned::new(Arc::clone(model)).noting(ranges.cloned()));
        let durations = if model.header.used.estimates { Durations::Known } else { Durations::Hidden };
        let configured = Configured { spec: "learned".to_owned(), policy, durations };
        Ok(run_by_day(&self.bound(seed, episodes)?, configured, &SimOptions { seed, ..self.options }))
    }
}

impl Scenario {
    /// Lets a policy of the registry play an episode, and gives the waiting jobs of its decisions as rows, with the one it ranked first.
    /// Policies that do not rank jobs teach nothing.
    pub(crate) fn observe(&self, spec: &str, seed: u64, used: Use, most: usize) -> Result<Vec<Decision>, ScenarioError> {
        let configured = crate::policy::registry().build(spec)?;
        let bound = self.bound(seed, Episodes::Training)?;
        let mut policy = configured.policy.fork();
        let mut session = rota_sim::session(&bound, configured, &SimOptions { seed, ..self.options });
        let mut context = Context { stream: RandomStream::new(seed, "policy"), problems: Vec::new() };
        let mut observer = Observer::new(used);
        let mut decisions = Vec::new();
        while session.advance(&mut |_| {}).is_some() && decisions.len() < most {
            let Some(snapshot) = session.snapshot() else { break };
            let target = policy.decide(&snapshot, &mut context);
            decisions.extend(observer.look(&snapshot, &target).map(|(rows, choice)| Decision { rows, choice }));
            session.hand_in(&target, &mut |_| {});
        }
        Ok(decisions)
    }
}

/// Jobs of a trace from a position on, their times counted from the first of them.
fn stretch(whole: &Workload, first: usize, length: usize) -> Workload {
    let jobs = &whole.jobs[first..(first + length).min(whole.jobs.len())];
    let zero = jobs.first().map_or(Time::ZERO, |job| job.arrival);
    let mut workload = Workload { source: whole.source.clone(), names: whole.names.clone(), jobs: Vec::new() };
    for job in jobs {
        // Jobs before the stretch are not there to be waited for.
        let after = Box::default();
        workload.push(rota_core::Job { arrival: Time(job.arrival.0 - zero.0), after, label: None, ..job.clone() });
    }
    workload.finish();
    workload
}

/// What became of a job.
#[derive(Clone, Copy, Default)]
pub(crate) struct Course {
    /// The start of the present run, and the watts that its GPUs draw for it.
    run: Option<(Time, f64)>,
    running_seconds: f64,
    watt_seconds: f64,
    end: Option<Time>,
}

impl Course {
    /// Whether the job holds GPUs.
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The job is started on GPUs that draw so many watts for it.
    pub fn begin(&mut self, now: Time, watts: f64) {
        self.run = Some((now, watts));
    }

    /// The job leaves its GPUs, if it has any; perhaps because it is done.
    pub fn leave(&mut self, now: Time, is_done: bool) {
        if let Some((since, watts)) = self.run.take() {
            let seconds = now.since(since).seconds();
            self.running_seconds += seconds;
            self.watt_seconds += watts * seconds;
        }
        if is_done {
            self.end = Some(now);
        }
    }

    /// The energy of its runs that are over.
    pub fn watt_seconds(&self) -> f64 {
        self.watt_seconds
    }

    /// Its bounded slowdown, once it has ended.
    pub fn slowdown(&self, arrival: Time) -> Option<f64> {
        let jct = self.end?.since(arrival).seconds();
        Some((jct / self.running_seconds.max(SLOWDOWN_BOUND_SECONDS)).max(1.0))
    }
}

/// What came of the jobs that were submitted on one day: sums over these jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Day {
    /// The jobs that ended.
    pub jobs: f64,
    /// The seconds that these jobs waited.
    pub wait_s: f64,
    /// The bounded slowdowns of these jobs.
    pub bsld: f64,
    /// Seconds from submission to completion.
    pub jct_s: f64,
    /// The energy of GPUs while these jobs held them.
    pub energy_kwh: f64,
}

/// Takes an event into the courses of the jobs.
pub(crate) fn note(courses: &mut [Course], event: &rota_core::Event, bound: &Bound) {
    match &event.kind {
        EventKind::Started { job, gpus, .. } => {
            let row = bound.job(*job);
            let kinds = gpus.iter().map(|gpu| bound.cluster.type_of(*gpu));
            let watts = kinds.map(|kind| kind.idle_watts + (kind.full_watts - kind.idle_watts) * row.utilisation).sum::<f64>();
            courses[job.index()].begin(event.time_ns, watts * row.share.fraction());
        }
        EventKind::Ended { job, end, .. } => courses[job.index()].leave(event.time_ns, *end == rota_core::End::Finished),
        _ => {}
    }
}

/// Runs a workload to its end under a policy.
pub fn run(bound: &Arc<Bound>, policy: Configured, options: &SimOptions) -> Outcome {
    run_by_day(bound, policy, options).0
}

/// Runs a workload to its end under a policy, and sums up the jobs of each day too.
pub fn run_by_day(bound: &Arc<Bound>, policy: Configured, options: &SimOptions) -> (Outcome, Vec<Day>) {
    let mut courses = vec![Course::default(); bound.jobs.len()];
    rota_sim::simulate(bound, policy, options, &mut |event| note(&mut courses, event, bound), &|| 0.0);
    sum_up(bound, &courses)
}

/// What the jobs of an episode came to, in all and by the day of their submission.
pub(crate) fn sum_up(bound: &Bound, courses: &[Course]) -> (Outcome, Vec<Day>) {
    let mut outcome = Outcome::default();
    let mut days = Vec::<Day>::new();
    let zero = bound.jobs.iter().map(|job| job.arrival).min().unwrap_or(Time::ZERO);
    let watt_seconds = courses.iter().map(|course| course.watt_seconds).sum::<f64>();
    outcome.energy_kwh = Some(watt_seconds / 3.6e6);
    for (job, course) in bound.jobs.iter().zip(courses) {
        let Some(end) = course.end else {
            outcome.lost += 1;
            continue;
        };
        let jct = end.since(job.arrival).seconds();
        let number = (job.arrival.since(zero).seconds() / DAY_SECONDS) as usize;
        if days.len() <= number {
            days.resize(number + 1, Day::default());
        }
        let day = &mut days[number];
        day.jobs += 1.0;
        day.jct_s += jct;
        day.wait_s += jct - course.running_seconds;
        day.bsld += course.slowdown(job.arrival).unwrap_or(1.0);
        day.energy_kwh += course.watt_seconds / 3.6e6;
        outcome.makespan_s = outcome.makespan_s.max(end.since(zero).seconds());
    }
    let count = days.iter().map(|day| day.jobs).sum::<f64>().max(1.0);
    let mean = |of: fn(&Day) -> f64| days.iter().map(of).sum::<f64>() / count;
    outcome.jct_mean_s = mean(|day| day.jct_s);
    outcome.wait_mean_s = mean(|day| day.wait_s);
    outcome.bsld_mean = mean(|day| day.bsld);
    outcome.reward = -outcome.wait_mean_s;
    (outcome, days)
}
