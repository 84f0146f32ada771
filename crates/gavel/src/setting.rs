//! The inputs of a run as plain numbers: seconds, steps and steps per second in the arrays that Gavel's formulas use.
//!
//! GPU types are kept in alphabetical order, which is the order in which policies see them; the order in which rounds fill
//! them is a list beside it. What Gavel could not run is refused here, so that nothing after it can fail on its input.

use crate::{GavelError, GavelOptions};
use rota_core::{Bound, GpuId, GpuTypeId, Job, JobId, ThroughputTable};
use std::collections::HashMap;

/// The types that Gavel knows, in the order in which its rounds fill them; types it does not know come after them.
const KNOWN_FIRST: [&str; 3] = ["v100", "p100", "k80"];

/// A GPU type with its workers.
#[derive(Clone, Debug)]
pub(crate) struct WorkerType {
    pub name: String,
    /// The GPUs in the order of Gavel's worker numbers.
    pub gpus: Vec<GpuId>,
}

/// A job as Gavel sees it.
#[derive(Clone, Debug)]
pub(crate) struct GavelJob {
    pub steps: f64,
    pub arrival_seconds: f64,
    /// The job's gang size.
    pub gpus: u32,
    pub weight: f64,
    pub deadline_seconds: Option<f64>,
    /// Steps per second alone, one per type.
    pub speeds: Vec<f64>,
    /// Row and column of its job type and gang size in the table of pairs.
    gang: usize,
}

/// Speeds of two jobs on the same GPUs, one pair of numbers per type.
type PairSpeeds = Box<[[f64; 2]]>;

/// Everything a run depends on.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Types with workers, alphabetically.
    pub types: Vec<WorkerType>,
    /// The order in which rounds fill the types.
    pub fill_order: Vec<usize>,
    pub jobs: Vec<GavelJob>,
    gangs: usize,
    pairs: Vec<PairSpeeds>,
}

impl Setting {
    /// Takes the numbers from a bound workload; `packs` says whether speeds in pairs will be asked for.
    pub fn new(bound: &Bound, table: &ThroughputTable, packs: bool, options: &GavelOptions) -> Result<Self, GavelError> {
        if !bound.cluster.outages.is_empty() {
            return Err(GavelError::Outages);
        }
        let types = worker_types(bound, options.gpus_per_server.max(1));
        if types.is_empty() {
            return Err(GavelError::NoServers(options.gpus_per_server));
        }
        let mut gangs = Gangs::default();
        let jobs = bound.jobs.iter().map(|job| gavel_job(job, bound, table, &types, &mut gangs)).collect::<Result<_, _>>()?;
        let pairs = if packs { gangs.pair_speeds(bound, table, &types) } else { Vec::new() };
        let fill_order = fill_order(&types);
        Ok(Self { types, fill_order, jobs, gangs: gangs.list.len(), pairs })
    }

    /// The speeds of two jobs that share the same GPUs on each type; only of runs that were set up for it.
    pub fn pair_speeds(&self, first: u32, second: u32) -> &[[f64; 2]] {
        let gang = |job: u32| self.jobs[job as usize].gang;
        &self.pairs[gang(first) * self.gangs + gang(second)]
    }
}

/// The types with their workers. GPUs that do not fill a server are not registered, as in Gavel.
fn worker_types(bound: &Bound, gpus_per_server: u32) -> Vec<WorkerType> {
    let mut types = Vec::new();
    for (index, kind) in bound.cluster.types.iter().enumerate() {
        let is_of_type = |id: &GpuId| bound.cluster.gpus[id.index()].gpu_type == GpuTypeId::from_index(index);
        let mut gpus = (0..bound.cluster.gpus.len()).map(GpuId::from_index).filter(is_of_type).collect::<Vec<_>>();
        gpus.truncate(gpus.len() - gpus.len() % gpus_per_server as usize);
        if !gpus.is_empty() {
            types.push(WorkerType { name: kind.name.clone(), gpus });
        }
    }
    types.sort_by(|one, other| one.name.cmp(&other.name));
    types
}

fn fill_order(types: &[WorkerType]) -> Vec<usize> {
    let rank = |index: &usize| {
        let name = types[*index].name.as_str();
        KNOWN_FIRST.iter().position(|known| *known == name).unwrap_or(KNOWN_FIRST.len())
    };
    let mut order = (0..types.len()).collect::<Vec<_>>();
    order.sort_by_key(rank);
    order
}

fn gavel_job(
    job: &Job,
    bound: &Bound,
    table: &ThroughputTable,
    types: &[WorkerType],
    gangs: &mut Gangs,
) -> Result<GavelJob, GavelError> {
    let refuse = |problem| GavelError::Job { job: job.display_id(), problem };
    if !bound.shape(job.id).is_exclusive() {
        return Err(refuse("has a share of a GPU, and Gavel gives out whole ones"));
    }
    if !job.after.is_empty() {
        return Err(refuse("waits for another job, which Gavel does not know of"));
    }
    if !(job.weight.is_finite() && job.weight > 0.0) {
        return Err(refuse("has a weight that is not above 0"));
    }
    let job_type = bound.names.text(job.kind);
    let measured = |name: &str| table.get(job_type, job.gpus, name).unwrap_or(0.0);
    let truth = bound.truth(job.id);
    let in_steps = truth.steps > 0.0 && types.iter().any(|kind| measured(&kind.name) > 0.0);
    let mut speeds = if in_steps {
        types.iter().map(|kind| measured(&kind.name)).collect::<Vec<_>>()
    } else {
        types.iter().map(|kind| speed_in_time(bound, job.id, &kind.name)).collect()
    };
    let allowed = job.gpu_types.iter().map(|name| bound.names.text(*name)).collect::<Vec<_>>();
    for (speed, kind) in speeds.iter_mut().zip(types) {
        if !allowed.is_empty() && !allowed.contains(&kind.name.as_str()) {
            *speed = 0.0;
        }
    }
    if speeds.iter().any(|speed| !speed.is_finite()) {
        return Err(refuse("has a throughput that is not a number"));
    }
    if !speeds.iter().zip(types).any(|(speed, kind)| *speed > 0.0 && kind.gpus.len() >= job.gpus as usize) {
        return Err(refuse("can run on no GPU type alone: Gavel keeps a gang on one type that has a throughput for it"));
    }
    Ok(GavelJob {
        steps: if in_steps { truth.steps } else { truth.work.seconds() },
        arrival_seconds: job.arrival.seconds(),
        gpus: job.gpus,
        weight: job.weight,
        deadline_seconds: job.deadline.map(rota_core::Time::seconds),
        speeds,
        gang: gangs.row(in_steps.then_some(job.kind), job.gpus),
    })
}

/// The speed of a job whose length is given as time: a step is a second of work.
fn speed_in_time(bound: &Bound, job: JobId, type_name: &str) -> f64 {
    bound.cluster.type_named(type_name).map_or(0.0, |gpu_type| bound.speeds(job)[gpu_type.index()])
}

/// Job types with their gang sizes, numbered as they are met; jobs given in time have no type, and so no pairs.
#[derive(Default)]
struct Gangs {
    list: Vec<(Option<rota_core::Name>, u32)>,
    rows: HashMap<(Option<rota_core::Name>, u32), usize>,
}

impl Gangs {
    fn row(&mut self, kind: Option<rota_core::Name>, gpus: u32) -> usize {
        let next = self.list.len();
        let row = *self.rows.entry((kind, gpus)).or_insert(next);
        if row == next {
            self.list.push((kind, gpus));
        }
        row
    }

    fn pair_speeds(&self, bound: &Bound, table: &ThroughputTable, types: &[WorkerType]) -> Vec<PairSpeeds> {
        let speed = |first: &(Option<rota_core::Name>, u32), second: &(Option<rota_core::Name>, u32), kind: &WorkerType| {
            let (one, other) = (bound.names.text(first.0?), bound.names.text(second.0?));
            table.get_pair((one, first.1), (other, second.1), &kind.name).map(|(first, second)| [first, second])
        };
        let mut pairs = Vec::with_capacity(self.list.len() * self.list.len());
        for first in &self.list {
            for second in &self.list {
                pairs.push(types.iter().map(|kind| speed(first, second, kind).unwrap_or_default()).collect());
            }
        }
        pairs
    }
}
