//! Choosing jobs and pairs of jobs for the GPUs: each job once, the GPUs of no type overfilled.

use rota_core::{GpuTypeId, JobId, Preempt, Snapshot, Wish};
use rota_solver::match_prices::{Matching, match_by_prices};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Times what conflicts left over is matched again.
const PASSES: usize = 4;

/// A job or a pair, and what it is worth on each GPU type.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The job, or the first of a pair.
    pub first: JobId,
    /// The second of a pair.
    pub second: Option<JobId>,
    /// GPUs it takes.
    pub gang: f64,
    /// What it is worth on each type; nothing at 0.
    pub worths: Vec<f64>,
}

/// Matches candidates to GPU types so that they are worth most. Of candidates that share a job the one worth more per GPU stays, and
/// what the others would have taken is matched again; then waiting jobs may join.
pub fn choose(
    mut candidates: Vec<Candidate>,
    jobs: &[JobId],
    capacities: &[f64],
    parts_min: f64,
    snapshot: &Snapshot<'_>,
) -> Wish {
    // A fixed order, so that equal worths never depend on the order candidates came in.
    candidates.sort_by_key(|candidate| (candidate.first, candidate.second));
    let mut free = capacities.to_vec();
    let mut chosen: BTreeMap<JobId, GpuTypeId> = BTreeMap::new();
    let mut pairs = Vec::new();
    for _ in 0..PASSES {
        let values = candidates.iter().flat_map(|candidate| candidate.worths.iter().copied()).collect::<Vec<_>>();
        let sizes = candidates.iter().map(|candidate| candidate.gang).collect::<Vec<_>>();
        // Worths are finite and gangs positive by construction; should they be refused all the same, nobody is moved.
        let Ok(matched) = match_by_prices(&Matching { values: &values, sizes: &sizes, capacities: &free }) else { break };
        let mut taken = candidates.iter().zip(matched).filter_map(|(row, column)| Some((row, column?))).collect::<Vec<_>>();
        taken.sort_by(|(a, on_a), (b, on_b)| (b.worths[*on_b] / b.gang).total_cmp(&(a.worths[*on_a] / a.gang)));
        let before = chosen.len();
        for (candidate, column) in taken {
            let is_taken = |job: JobId| chosen.contains_key(&job);
            if is_taken(candidate.first) || candidate.second.is_some_and(is_taken) || candidate.gang > free[column] + 1e-9 {
                continue;
            }
            free[column] = (free[column] - candidate.gang).max(0.0);
            chosen.insert(candidate.first, GpuTypeId::from_index(column));
            if let Some(second) = candidate.second {
                chosen.insert(second, GpuTypeId::from_index(column));
                pairs.push((candidate.first, second));
            }
        }
        let is_free = |job: JobId| !chosen.contains_key(&job);
        candidates.retain(|candidate| is_free(candidate.first) && candidate.second.is_none_or(is_free));
        if chosen.len() == before || candidates.is_empty() {
            break;
        }
    }
    let mut types = jobs.iter().map(|&job| (job, chosen.get(&job).copied())).collect::<Vec<_>>();
    join_waiting(&mut types, &mut pairs, parts_min, snapshot);
    Wish::Assignment { types, pairs, preempt: Preempt::Always }
}

/// Puts jobs that would wait beside jobs that would run alone, where the two make more than `parts_min` of what they make alone.
pub fn join_waiting(
    types: &mut [(JobId, Option<GpuTypeId>)],
    pairs: &mut Vec<(JobId, JobId)>,
    parts_min: f64,
    snapshot: &Snapshot<'_>,
) {
    let bound = snapshot.bound;
    if bound.pair_parts.is_empty() {
        return;
    }
    let paired = pairs.iter().flat_map(|&(a, b)| [a, b]).collect::<std::collections::HashSet<_>>();
    // Hosts of one class on one type are alike: the earliest is taken first.
    let mut hosts: HashMap<(rota_core::ClassId, GpuTypeId), Vec<JobId>> = HashMap::new();
    for &(job, gpu_type) in types.iter().rev() {
        if let Some(gpu_type) = gpu_type.filter(|_| !paired.contains(&job) && bound.shape(job).is_exclusive()) {
            hosts.entry((bound.class_of[job.index()], gpu_type)).or_default().push(job);
        }
    }
    if hosts.is_empty() {
        return;
    }
    for (job, place) in types.iter_mut().filter(|(_, gpu_type)| gpu_type.is_none()) {
        let job = *job;
        if !bound.shape(job).is_exclusive() {
            continue;
        }
        let together = |host: JobId, gpu_type: GpuTypeId| {
            let usable = bound.shape(job).types.contains(gpu_type) && bound.shape(host).gpus == bound.shape(job).gpus;
            bound.pair_part(job, host, gpu_type).filter(|_| usable).map(|part| part.0 + part.1)
        };
        let offers = hosts.iter().filter_map(|(&(class, gpu_type), waiting)| {
            let parts = together(*waiting.last()?, gpu_type).filter(|parts| *parts > parts_min)?;
            Some((parts, Reverse((class, gpu_type))))
        });
        let best = offers.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        if let Some((_, Reverse((class, gpu_type)))) = best
            && let Some(host) = hosts.get_mut(&(class, gpu_type)).and_then(Vec::pop)
        {
            *place = Some(gpu_type);
            pairs.push((host, job));
        }
    }
}
