//! Episodes on the simulator itself: a policy from the registry, or a model, runs a workload, and what came of it is summed up.

use crate::environment::Outcome;
use crate::model::{Model, Ranges};
use crate::policy::Learned;
use rota_core::bind::BadJobs;
use rota_core::random::RandomStream;
use rota_core::{Bound, Cluster, Durations, EventKind, ThroughputTable, Time, Workload};
use rota_policy::{Configured, PolicyError};
use rota_sim::SimOptions;
use rota_trace::generate::Classroom;
use std::sync::{Arc, Mutex};

/// Run times below this count as this in the bounded slowdown.
const SLOWDOWN_BOUND_SECONDS: f64 = 10.0;

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

/// Something to simulate, episode by episode.
#[derive(Clone)]
pub struct Scenario {
    source: Source,
    cluster: Cluster,
    options: SimOptions,
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
        Self { source: Source::Classroom(Box::default()), cluster, options }
    }

    /// Stretches of a trace.
    pub fn trace(workload: Workload, table: ThroughputTable, length: usize, cluster: Cluster, options: SimOptions) -> Self {
        let length = length.clamp(1, workload.jobs.len().max(1));
        let source = Source::Trace { workload: Arc::new(workload), table: Arc::new(table), length };
        Self { source, cluster, options }
    }

    /// The workload of an episode, on the cluster.
    pub fn bound(&self, seed: u64, episodes: Episodes) -> Result<Arc<Bound>, ScenarioError> {
        let (workload, table) = match &self.source {
            Source::Classroom(config) => (rota_trace::generate::classroom(config, seed), &ThroughputTable::default()),
            Source::Trace { workload, table, length } => {
                let places = workload.jobs.len() - length + 1;
                let first = match episodes {
                    Episodes::Training => RandomStream::new(seed, "stretch").below(places as u64) as usize,
                    Episodes::Judging => (seed as usize * length).min(places - 1),
                };
                (stretch(workload, first, *length), &**table)
            }
        };
        Ok(Arc::new(Bound::new(workload, self.cluster.clone(), table, BadJobs::Refuse)?))
    }

    /// The options of the simulation.
    pub(crate) fn options(&self) -> SimOptions {
        self.options
    }

    /// Binds everything that episodes may take jobs from, so that no episode can fail later.
    pub fn check(&self) -> Result<(), ScenarioError> {
        match &self.source {
            Source::Classroom(_) => self.bound(0, Episodes::Training).map(drop),
            Source::Trace { workload, table, .. } => {
                Bound::new(Workload::clone(workload), self.cluster.clone(), table, BadJobs::Refuse)?;
                Ok(())
            }
        }
    }

    /// Plays an episode by a policy of the registry.
    pub fn play_policy(&self, spec: &str, seed: u64, episodes: Episodes) -> Result<Outcome, ScenarioError> {
        let policy = crate::policy::registry().build(spec)?;
        Ok(run(&self.bound(seed, episodes)?, policy, &SimOptions { seed, ..self.options }))
    }

    /// Plays an episode by a model.
    pub fn play_model(
        &self,
        model: &Arc<Model>,
        seed: u64,
        episodes: Episodes,
        ranges: Option<&Arc<Mutex<Ranges>>>,
    ) -> Result<Outcome, ScenarioError> {
        let policy = Box::new(Learned::new(Arc::clone(model)).noting(ranges.cloned()));
        let durations = if model.header.used.estimates { Durations::Known } else { Durations::Hidden };
        let configured = Configured { spec: "learned".to_owned(), policy, durations };
        Ok(run(&self.bound(seed, episodes)?, configured, &SimOptions { seed, ..self.options }))
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
    since: Option<Time>,
    running_seconds: f64,
    end: Option<Time>,
}

/// Takes an event into the courses of the jobs.
pub(crate) fn note(courses: &mut [Course], event: &rota_core::Event) {
    match &event.kind {
        EventKind::Started { job, .. } => courses[job.index()].since = Some(event.time_ns),
        EventKind::Ended { job, end, .. } => {
            let course = &mut courses[job.index()];
            if let Some(since) = course.since.take() {
                course.running_seconds += event.time_ns.since(since).seconds();
            }
            if *end == rota_core::End::Finished {
                course.end = Some(event.time_ns);
            }
        }
        _ => {}
    }
}

/// Runs a workload to its end under a policy.
pub fn run(bound: &Arc<Bound>, policy: Configured, options: &SimOptions) -> Outcome {
    let mut courses = vec![Course::default(); bound.jobs.len()];
    rota_sim::simulate(bound, policy, options, &mut |event| note(&mut courses, event), &|| 0.0);
    sum_up(bound, &courses)
}

/// What the jobs of an episode came to.
pub(crate) fn sum_up(bound: &Bound, courses: &[Course]) -> Outcome {
    let (mut outcome, mut ended) = (Outcome::default(), 0.0);
    let zero = bound.jobs.iter().map(|job| job.arrival).min().unwrap_or(Time::ZERO);
    for (job, course) in bound.jobs.iter().zip(courses) {
        let Some(end) = course.end else {
            outcome.lost += 1;
            continue;
        };
        let jct = end.since(job.arrival).seconds();
        ended += 1.0;
        outcome.jct_mean_s += jct;
        outcome.wait_mean_s += jct - course.running_seconds;
        outcome.bsld_mean += (jct / course.running_seconds.max(SLOWDOWN_BOUND_SECONDS)).max(1.0);
        outcome.makespan_s = outcome.makespan_s.max(end.since(zero).seconds());
    }
    let count = f64::max(ended, 1.0);
    outcome.jct_mean_s /= count;
    outcome.wait_mean_s /= count;
    outcome.bsld_mean /= count;
    outcome.reward = -outcome.wait_mean_s;
    outcome
}
