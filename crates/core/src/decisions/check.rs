//! The plan checker: says whether a plan may be carried out, knowing nothing of how it was made.
//!
//! Written apart from all policies and placement, from the snapshot alone. On in every test and every debug build.

use crate::{GpuId, GpuList, JobId, Phase, Plan, Snapshot};
use std::collections::{HashMap, HashSet};

/// What a plan does that it must not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A job nobody submitted.
    #[error("job {0} is not known")]
    UnknownJob(JobId),
    /// Stopping what may not be stopped.
    #[error("job {0} is stopped but may not be preempted")]
    NotPreemptible(JobId),
    /// Stopping what does not run.
    #[error("job {0} is stopped but does not run")]
    NotRunning(JobId),
    /// Starting what is not ready: finished, blocked, not yet submitted, or running and not stopped first.
    #[error("job {0} is started but is not waiting")]
    NotWaiting(JobId),
    /// A job twice in one list.
    #[error("job {0} is named twice")]
    Twice(JobId),
    /// Part of a gang.
    #[error("job {job} needs {wanted} GPUs and is given {given}")]
    Gang {
        /// The job that the plan is wrong about.
        job: JobId,
        /// Its gang size.
        wanted: u32,
        /// GPUs in the plan.
        given: usize,
    },
    /// A GPU that does not exist, twice the same, not among those it may use, or on a lost node.
    #[error("job {0} is given GPU {1}, which it cannot have")]
    BadGpu(JobId, GpuId),
    /// GPUs of two types, or of one it cannot use.
    #[error("job {0} is given GPUs of a type it cannot use, or of two types")]
    GpuType(JobId),
    /// Spread over more nodes than it allows.
    #[error("job {0} is spread over too many nodes")]
    TooManyNodes(JobId),
    /// More than the whole of a GPU given out.
    #[error("GPU {0} is given out beyond its share: {1} thousandths")]
    ShareExceeded(GpuId, u32),
    /// Two whole-GPU jobs that cannot share, or do not share all of their GPUs.
    #[error("jobs {0} and {1} are given the same GPU, which they cannot share")]
    CannotShare(JobId, JobId),
    /// More memory given out than the GPU has.
    #[error("GPU {0} is given out beyond its memory: {1} MiB")]
    MemoryExceeded(GpuId, u64),
}

/// Checks a plan against the state it was made for.
pub fn check(snapshot: &Snapshot<'_>, plan: &Plan) -> Result<(), Violation> {
    let mut stopped = HashSet::new();
    for &job in &plan.stops {
        let state = snapshot.states.get(job.index()).ok_or(Violation::UnknownJob(job))?;
        if state.phase != Phase::Running {
            return Err(Violation::NotRunning(job));
        }
        if !snapshot.bound.job(job).preemptible || state.losses >= 2 || snapshot.now.since(state.since) < snapshot.min_run_of(job)
        {
            return Err(Violation::NotPreemptible(job));
        }
        if !stopped.insert(job) {
            return Err(Violation::Twice(job));
        }
    }
    let mut usage: HashMap<GpuId, Usage> = HashMap::new();
    let mut add = |job: JobId, gpus: &GpuList| {
        let spec = snapshot.bound.job(job);
        for &gpu in gpus {
            let used = usage.entry(gpu).or_default();
            used.share += u32::from(spec.share.0);
            used.memory_mib += u64::from(spec.memory_mib);
            used.jobs.push((job, gpus.clone()));
        }
    };
    for (index, state) in snapshot.states.iter().enumerate() {
        let job = JobId::from_index(index);
        if state.phase.has_gpus() && !stopped.contains(&job) {
            add(job, &state.gpus);
        }
    }
    let mut started = HashSet::new();
    for start in &plan.starts {
        check_start(snapshot, start, &stopped)?;
        if !started.insert(start.job) {
            return Err(Violation::Twice(start.job));
        }
        add(start.job, &start.gpus);
    }
    for gpu in plan.starts.iter().flat_map(|start| &start.gpus) {
        if let Some(used) = usage.get(gpu) {
            check_usage(snapshot, *gpu, used)?;
        }
    }
    Ok(())
}

/// What is given out of one GPU, and to whom with which gang.
#[derive(Default)]
struct Usage {
    share: u32,
    memory_mib: u64,
    jobs: Vec<(JobId, GpuList)>,
}

fn check_usage(snapshot: &Snapshot<'_>, gpu: GpuId, used: &Usage) -> Result<(), Violation> {
    let outside = snapshot.outside.get(gpu.index()).copied().unwrap_or_default();
    let share = used.share + u32::from(outside.share.0);
    let memory_mib = used.memory_mib + u64::from(outside.memory_mib);
    let is_whole = |job: JobId| snapshot.bound.job(job).share == crate::MilliGpu::WHOLE;
    match used.jobs.as_slice() {
        [(a, gpus_of_a), (b, gpus_of_b)] if is_whole(*a) && is_whole(*b) => {
            let gpu_type = snapshot.bound.cluster.gpus[gpu.index()].gpu_type;
            if gpus_of_a != gpus_of_b || outside.share.0 > 0 || snapshot.bound.pair_part(*a, *b, gpu_type).is_none() {
                return Err(Violation::CannotShare(*a, *b));
            }
        }
        jobs if jobs.iter().any(|(job, _)| snapshot.bound.job(*job).group != snapshot.bound.job(jobs[0].0).group) => {
            return Err(Violation::CannotShare(jobs[0].0, jobs[1].0));
        }
        _ if share > 1000 => return Err(Violation::ShareExceeded(gpu, share)),
        _ => {}
    }
    if memory_mib > u64::from(snapshot.bound.cluster.type_of(gpu).memory_mib) {
        return Err(Violation::MemoryExceeded(gpu, memory_mib));
    }
    Ok(())
}

fn check_start(snapshot: &Snapshot<'_>, start: &crate::Start, stopped: &HashSet<JobId>) -> Result<(), Violation> {
    let job = start.job;
    let state = snapshot.states.get(job.index()).ok_or(Violation::UnknownJob(job))?;
    if state.phase != Phase::Waiting && !stopped.contains(&job) {
        return Err(Violation::NotWaiting(job));
    }
    let spec = snapshot.bound.job(job);
    if start.gpus.len() != spec.gpus as usize {
        return Err(Violation::Gang { job, wanted: spec.gpus, given: start.gpus.len() });
    }
    let mut seen = HashSet::new();
    let mut nodes = HashSet::new();
    let mut types = HashSet::new();
    for &gpu in &start.gpus {
        let place = snapshot.bound.cluster.gpus.get(gpu.index()).ok_or(Violation::BadGpu(job, gpu))?;
        let is_allowed = spec.only.is_empty() || spec.only.contains(&gpu);
        if !seen.insert(gpu) || !is_allowed || !snapshot.nodes_up[place.node.index()] {
            return Err(Violation::BadGpu(job, gpu));
        }
        nodes.insert(place.node);
        types.insert(place.gpu_type);
    }
    let is_mixed = snapshot.bound.shape(job).is_mixed;
    if (types.len() != 1 && !is_mixed) || !types.iter().all(|&gpu_type| snapshot.bound.shape(job).types.contains(gpu_type)) {
        return Err(Violation::GpuType(job));
    }
    if spec.nodes_max > 0 && nodes.len() > spec.nodes_max as usize {
        return Err(Violation::TooManyNodes(job));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::BadJobs;
    use crate::{Bound, Cluster, GpuList, Job, JobState, MilliGpu, Span, Start, ThroughputTable, Time, Workload};

    /// Jobs: 0 runs on GPU 0 with half of it and 10 GiB; 1 and 2 wait (one GPU; two GPUs); 3 is not submitted.
    fn situation() -> (Bound, Vec<JobState>) {
        let mut workload = Workload::new("check");
        let half = Job { share: MilliGpu(500), memory_mib: 10_240, ..Job::new(Time::ZERO, Span(1)) };
        workload.push(half.clone());
        workload.push(Job { memory_mib: 10_240, ..half.clone() });
        workload.push(Job { gpus: 2, nodes_max: 1, ..Job::new(Time::ZERO, Span(1)) });
        workload.push(half);
        workload.finish();
        let cluster = Cluster::from_spec("t4:4,k80:2", 2).unwrap();
        let bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap();
        let waiting = JobState { phase: Phase::Waiting, ..JobState::default() };
        let running = JobState { phase: Phase::Running, gpus: GpuList::from_slice(&[GpuId(0)]), ..JobState::default() };
        (bound, vec![running, waiting.clone(), waiting, JobState::default()])
    }

    fn verdict(stops: &[u32], starts: &[(u32, &[u32])]) -> Result<(), Violation> {
        let (bound, states) = situation();
        let snapshot = Snapshot {
            now: Time::ZERO,
            round: None,
            is_tick: false,
            bound: &bound,
            states: &states,
            nodes_up: &[true, true, false],
            gpu_busy: &[],
            outside: &[],
            outside_changes: 0,
            restart_cost: Span::ZERO,
            restart_costs: &crate::RestartCosts::default(),
            min_run: Span::ZERO,
            min_run_restarts: None,
            speed_changes: 0,
            durations: crate::Durations::Hidden,
            changed: &[],
            lengths: &[],
            repaced: &[],
        };
        let starts = starts
            .iter()
            .map(|(job, gpus)| Start { job: JobId(*job), gpus: gpus.iter().map(|&gpu| GpuId(gpu)).collect() })
            .collect();
        check(&snapshot, &Plan { stops: stops.iter().map(|&job| JobId(job)).collect(), starts, promises: vec![] })
    }

    #[test]
    fn sound_plans_pass() {
        assert_eq!(verdict(&[], &[]), Ok(()));
        assert_eq!(verdict(&[], &[(1, &[1]), (2, &[2, 3])]), Ok(()));
        assert_eq!(verdict(&[0], &[(1, &[0]), (0, &[1])]), Ok(()));
    }

    #[test]
    fn every_kind_of_unsound_plan_is_caught() {
        use Violation::*;
        assert_eq!(verdict(&[9], &[]), Err(UnknownJob(JobId(9))));
        assert_eq!(verdict(&[1], &[]), Err(NotRunning(JobId(1))));
        assert_eq!(verdict(&[0, 0], &[]), Err(Twice(JobId(0))));
        assert_eq!(verdict(&[], &[(3, &[1])]), Err(NotWaiting(JobId(3))));
        assert_eq!(verdict(&[], &[(0, &[1])]), Err(NotWaiting(JobId(0))));
        assert_eq!(verdict(&[], &[(1, &[1]), (1, &[2])]), Err(Twice(JobId(1))));
        assert_eq!(verdict(&[], &[(2, &[1])]), Err(Gang { job: JobId(2), wanted: 2, given: 1 }));
        assert_eq!(verdict(&[], &[(2, &[1, 1])]), Err(BadGpu(JobId(2), GpuId(1))));
        assert_eq!(verdict(&[], &[(1, &[77])]), Err(BadGpu(JobId(1), GpuId(77))));
        assert_eq!(verdict(&[], &[(1, &[4])]), Err(BadGpu(JobId(1), GpuId(4))), "its node is lost");
        assert_eq!(verdict(&[], &[(2, &[1, 2])]), Err(TooManyNodes(JobId(2))));
        assert_eq!(verdict(&[], &[(2, &[0, 1])]), Err(ShareExceeded(GpuId(0), 1500)));
        assert_eq!(verdict(&[], &[(1, &[0])]), Err(MemoryExceeded(GpuId(0), 20_480)));
    }
}
