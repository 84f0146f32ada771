//! `allox`: the least mean completion time, by matching jobs to places in the queues of the GPU types.
//!
//! A job that is the k-th from the end of a GPU's queue delays k jobs, itself included, so it costs k times its time there. The cheapest
//! assignment of jobs to such places says which type each job belongs to; on each type the shortest go first. It is found anew as jobs
//! come, go and progress, and running jobs may move. Gangs have no single place: with gangs in the queue, jobs are taken by GPU time,
//! shortest first, each where it would end first.

use crate::params::{Param, Params, PolicyError};
use crate::watch::{Watch, size};
use crate::{Context, Policy};
use rota_core::{GpuTypeId, JobId, Preempt, Renumbering, Snapshot, Span, Target, Wish};
use rota_solver::transport::assign_to_places;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of `allox`.
pub const PARAMS: &[Param] = &[
    Param { name: "alpha", default: "1", meaning: "which part of the waiting jobs is looked at, the oldest first; 1 for all" },
    Param { name: "tick", default: "360", meaning: "seconds after which all is weighed again even if nothing happened" },
];

/// Jobs looked at for each GPU: those further down the queue could not start soon whatever is decided.
const JOBS_PER_GPU_MAX: f64 = 4.0;

#[derive(Clone, Serialize, Deserialize)]
struct AlloX {
    alpha: f64,
    tick: Span,
    watch: Watch,
}

/// A job with the seconds it still needs on each type; infinite where it cannot run.
struct Waiting {
    job: JobId,
    gang: f64,
    seconds: Vec<f64>,
}

impl Waiting {
    fn new(job: JobId, snapshot: &Snapshot<'_>) -> Self {
        let (bound, view) = (snapshot.bound, snapshot.view(job));
        let (shape, here) = (bound.shape(job), snapshot.type_now(job));
        let left = view.believed_work().minus(view.done());
        let seconds = |(index, &speed): (usize, &f64)| {
            let gpu_type = GpuTypeId::from_index(index);
            if !shape.types.contains(gpu_type) {
                return f64::INFINITY;
            }
            let restart =
                if here == Some(gpu_type) || view.state.starts == 0 { 0.0 } else { snapshot.restart_cost_of(job).seconds() };
            restart + left.at_speed(speed).seconds().max(1e-3)
        };
        Self { job, gang: size(shape), seconds: bound.speeds(job).iter().enumerate().map(seconds).collect() }
    }

    fn shortest(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Jobs that should run now, each with its type.
type Chosen = Vec<(JobId, GpuTypeId)>;

/// Single-GPU jobs: the cheapest assignment to places, then the shortest of each type.
fn match_singles(waiting: &[Waiting], free: &[f64]) -> Chosen {
    let types = (0..free.len()).filter(|&index| free[index] >= 1.0).collect::<Vec<_>>();
    // Places of a type are filled from the end of the queue on: no optimum uses the k-th before all nearer ones are taken.
    let positions = |index: usize| (waiting.len() as f64 / free[index]).ceil() as usize;
    let columns = types.iter().flat_map(|&index| (1..=positions(index)).map(move |k| (index, k as f64))).collect::<Vec<_>>();
    let places = columns.iter().map(|&(index, _)| free[index] as usize).collect::<Vec<_>>();
    // A type on which a job cannot run costs more than any queue.
    let longest = waiting.iter().flat_map(|row| &row.seconds).copied().filter(|seconds| seconds.is_finite()).fold(1.0, f64::max);
    let never = longest * (waiting.len() + 1) as f64 * 4.0;
    let cost = |row: &Waiting, &(index, k): &(usize, f64)| {
        if row.seconds[index].is_finite() { k * row.seconds[index] } else { never }
    };
    let costs = waiting.iter().flat_map(|row| columns.iter().map(move |column| cost(row, column))).collect::<Vec<_>>();
    let Ok(matched) = assign_to_places(&costs, &places) else { return Vec::new() };
    let mut chosen = Vec::new();
    for &index in &types {
        let mut here = waiting
            .iter()
            .zip(&matched)
            .filter(|(row, column)| columns[**column].0 == index && row.seconds[index].is_finite())
            .map(|(row, _)| (row.seconds[index], row.job))
            .collect::<Vec<_>>();
        here.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let first = here.into_iter().take(free[index] as usize);
        chosen.extend(first.map(|(_, job)| (job, GpuTypeId::from_index(index))));
    }
    chosen
}

/// Any jobs: by GPU time, shortest first, each on the type where it would end first.
fn list_gangs(waiting: &mut [Waiting], free: &[f64]) -> Chosen {
    waiting.sort_by(|a, b| (a.shortest() * a.gang).total_cmp(&(b.shortest() * b.gang)).then(a.job.cmp(&b.job)));
    // When each GPU of a type falls free, soonest first.
    let mut free_at = free.iter().map(|count| vec![0.0_f64; count.floor() as usize]).collect::<Vec<_>>();
    let mut chosen = Vec::new();
    for row in waiting {
        let gpus = row.gang.ceil().max(1.0) as usize;
        let end = |index: usize| {
            let start = *free_at[index].get(gpus - 1)?;
            row.seconds[index].is_finite().then_some((start + row.seconds[index], start, index))
        };
        let Some((end, start, index)) = (0..free.len()).filter_map(end).min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        if start == 0.0 {
            chosen.push((row.job, GpuTypeId::from_index(index)));
        }
        free_at[index][..gpus].fill(end);
        free_at[index].sort_by(f64::total_cmp);
    }
    chosen
}

impl AlloX {
    fn choose(&self, jobs: &[JobId], free: &[f64], snapshot: &Snapshot<'_>) -> Chosen {
        let mut waiting = jobs.iter().map(|&job| Waiting::new(job, snapshot)).collect::<Vec<_>>();
        let gpus = free.iter().sum::<f64>();
        // Arrival order is the order of ids.
        waiting.truncate(((waiting.len() as f64 * self.alpha) as usize).max(gpus as usize));
        let most = (gpus * JOBS_PER_GPU_MAX) as usize;
        if waiting.len() > most {
            waiting.sort_by(|a, b| a.shortest().total_cmp(&b.shortest()).then(a.job.cmp(&b.job)));
            waiting.truncate(most);
        }
        if waiting.iter().all(|row| (row.gang - 1.0).abs() < 1e-9) {
            match_singles(&waiting, free)
        } else {
            list_gangs(&mut waiting, free)
        }
    }
}

impl Policy for AlloX {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        self.watch.update(snapshot);
        let mut free = self.watch.capacities.clone();
        let mut types = Vec::new();
        if snapshot.is_within_round() {
            for &job in &self.watch.active {
                if let Some(gpu_type) = snapshot.type_now(job) {
                    free[gpu_type.index()] = (free[gpu_type.index()] - size(snapshot.bound.shape(job))).max(0.0);
                    types.push((job, Some(gpu_type)));
                }
            }
        }
        let stays = types.iter().map(|&(job, _)| job).collect::<BTreeSet<_>>();
        let jobs = self.watch.active.iter().copied().filter(|job| !stays.contains(job)).collect::<Vec<_>>();
        let mut chosen = self.choose(&jobs, &free, snapshot).into_iter().collect::<BTreeMap<_, _>>();
        fill_idle(&mut chosen, &jobs, &mut free, snapshot);
        types.extend(jobs.iter().map(|&job| (job, chosen.get(&job).copied())));
        let somebody_runs = types.iter().any(|(_, gpu_type)| gpu_type.is_some());
        let review_at = somebody_runs.then(|| snapshot.now + snapshot.round.unwrap_or(self.tick));
        Target { wish: Wish::Assignment { types, pairs: Vec::new(), preempt: Preempt::Always }, review_at }
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.watch.renumber(rows);
    }
}

/// Gives what the matching left free to jobs that wait, oldest first, each on its fastest open type: a job that would do better to wait
/// for a faster type can still move there when it falls free.
fn fill_idle(chosen: &mut BTreeMap<JobId, GpuTypeId>, jobs: &[JobId], free: &mut [f64], snapshot: &Snapshot<'_>) {
    for (job, gpu_type) in chosen.iter() {
        free[gpu_type.index()] -= size(snapshot.bound.shape(*job));
    }
    for &job in jobs {
        if !chosen.contains_key(&job)
            && let Some(&gpu_type) = super::fifo::open_types(job, free, snapshot).first()
        {
            free[gpu_type.index()] -= size(snapshot.bound.shape(job));
            chosen.insert(job, gpu_type);
        }
    }
}

/// Builds the policy `allox`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(AlloX {
        alpha: params.number("alpha", 0.0, 1.0)?,
        tick: Span::from_seconds(params.number("tick", 0.1, 1e8)?).unwrap_or_default(),
        watch: Watch::default(),
    }))
}
