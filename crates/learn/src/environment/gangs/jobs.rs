//! The jobs of an episode as numbers: what of a job never changes while it waits.

use crate::features::{self, COUNT, ClusterFacts, JobFacts};
use crate::policy::estimate_index;
use rota_core::{Bound, JobId, Span, Time};
use rota_policy::history::{History, JobTraits, Lineage};
use rota_sim::{Mechanism, SimOptions};
use std::collections::HashMap;
use std::sync::Arc;

/// One job.
#[derive(Clone, Copy)]
pub struct GangJob {
    /// When it is submitted.
    pub arrival: Time,
    /// How long it runs.
    pub run: Span,
    /// How long it is believed to run by those that wait for its GPUs.
    pub believed_run: Span,
    /// How long it is believed to run by a chooser; without end where nothing is known.
    pub believed_seconds: f64,
    /// One over the estimate that slowdowns are measured by; 0 where a chooser sees none.
    pub per_estimate: f32,
    /// The GPUs of its gang, and the place of that number in [`Jobs::sizes`].
    pub gpus: u32,
    pub size: u16,
    /// Jobs of one kind share all classes that durations are learned by.
    pub kind: u32,
    /// Its user's place among the users.
    pub user: u32,
    /// What its GPUs draw for it.
    pub watts: f64,
}

/// All jobs of an episode, and the machine.
pub struct Jobs {
    /// The jobs as the simulator has them.
    pub bound: Arc<Bound>,
    /// The jobs in order of arrival.
    pub all: Vec<GangJob>,
    /// The row of each, without what changes.
    pub rows: Vec<[f32; COUNT]>,
    /// The sizes of gangs, ascending.
    pub sizes: Vec<u32>,
    /// The GPUs of the machine.
    pub gpus: u32,
    /// The classes of each kind.
    pub kinds: Vec<Lineage>,
    /// The number of users.
    pub users: usize,
    /// A history that knows the classes of all kinds and has seen no job.
    pub blank: History,
}

/// Whether these jobs are of the simple kind that is played here.
pub fn is_plain(bound: &Bound, options: &SimOptions) -> bool {
    let takes_any = |job: &JobId| {
        let shape = bound.shape(*job);
        let is_free = shape.only.is_none() && shape.nodes_max == 0 && !shape.is_mixed && shape.class.is_none();
        shape.is_exclusive() && is_free && bound.class(*job).spread_part.is_none() && bound.truth(*job).fails_at.is_none()
    };
    bound.cluster.types.len() == 1
        && bound.cluster.outages.is_empty()
        && options.faults.is_none()
        && options.mechanism == Mechanism::Event
        && options.window.is_none()
        && (0..bound.jobs.len()).map(JobId::from_index).all(|job| takes_any(&job))
}

impl Jobs {
    /// The jobs of a trace. With `estimates` a chooser sees how long jobs are believed to run.
    pub fn new(bound: &Arc<Bound>, estimates: bool) -> Self {
        let mut sizes = bound.jobs.iter().map(|job| job.gpus).collect::<Vec<_>>();
        sizes.sort_unstable();
        sizes.dedup();
        let gpus = bound.cluster.gpus.len() as u32;
        let mut jobs = Self {
            all: Vec::with_capacity(bound.jobs.len()),
            rows: Vec::with_capacity(bound.jobs.len()),
            sizes,
            gpus,
            kinds: Vec::new(),
            users: 0,
            blank: History::default(),
            bound: Arc::clone(bound),
        };
        let (mut kind_of, mut user_of) = (HashMap::new(), HashMap::new());
        for (place, job) in bound.jobs.iter().enumerate() {
            let id = JobId::from_index(place);
            let speed = bound.best_speed(id);
            let lineage = jobs.blank.lineage(&JobTraits::of(job, &bound.names, speed));
            let next = jobs.kinds.len() as u32;
            let kind = *kind_of.entry(lineage).or_insert_with_key(|lineage| {
                jobs.kinds.push(Lineage::clone(lineage));
                next
            });
            let next = user_of.len() as u32;
            let user = *user_of.entry(job.user).or_insert(next);
            let work = bound.truth(id).work;
            let believed = job.estimate.or(estimates.then_some(work)).map(|work| work.at_speed(speed).seconds());
            let estimate = believed.filter(|_| estimates);
            let type_of_all = &bound.cluster.types[0];
            let watts = type_of_all.idle_watts + (type_of_all.full_watts - type_of_all.idle_watts) * job.utilisation;
            jobs.all.push(GangJob {
                arrival: job.arrival,
                run: work.at_speed(speed),
                believed_run: job.estimate.unwrap_or(work).at_speed(speed),
                believed_seconds: believed.unwrap_or(f64::INFINITY),
                per_estimate: estimate.map_or(0.0, |estimate| (1.0 / estimate.max(10.0)) as f32),
                gpus: job.gpus,
                size: jobs.sizes.partition_point(|size| *size < job.gpus) as u16,
                kind,
                user,
                watts: watts * f64::from(job.gpus),
            });
            jobs.rows.push(row(bound, id, estimate));
        }
        jobs.users = user_of.len();
        jobs
    }
}

/// The row of a job of which nothing is known but what was submitted.
fn row(bound: &Bound, id: JobId, estimate: Option<f64>) -> [f32; COUNT] {
    let job = bound.job(id);
    let largest = bound.cluster.types.iter().map(|kind| kind.memory_mib).max().unwrap_or(0).max(1);
    let facts = JobFacts {
        submitted_second: job.arrival.seconds(),
        estimate_seconds: estimate,
        remaining_seconds: estimate,
        estimate_index: estimate.map(|estimate| estimate_index(0.0, estimate)),
        gpus: f64::from(job.gpus),
        share: job.share.fraction(),
        memory: f64::from(job.memory_mib) / f64::from(largest),
        priority: f64::from(job.priority),
        ..JobFacts::default()
    };
    let cluster = ClusterFacts { gpus: bound.cluster.gpus.len() as f64, ..ClusterFacts::default() };
    let mut row = Vec::with_capacity(COUNT);
    features::push_row(&mut row, &facts, &cluster);
    let mut fixed = [0.0; COUNT];
    fixed.copy_from_slice(&row);
    fixed
}
