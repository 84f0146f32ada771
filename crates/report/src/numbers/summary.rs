//! A run in numbers: one row a policy, with the names that scripts rely on.

use crate::fairness::fairness_seconds;
use crate::record::{JobStatus, Run};
use rota_core::Bound;
use serde::Serialize;
use std::ops::Range;

const JOULES_PER_KWH: f64 = 3.6e6;
/// Run times below this count as this in the bounded slowdown, as the batch world does.
const SLOWDOWN_BOUND_SECONDS: f64 = 10.0;
/// Rounding must not make a job unfair that got exactly its share.
const FAIR_SLACK: f64 = 1e-9;

/// How a run was made: what its events do not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunMeta {
    /// The policy, as the user named it.
    pub policy: String,
    /// `event`, `rounds` or `gavel`.
    pub mechanism: String,
    /// The seed of everything random.
    pub seed: u64,
    /// Length of a round, for mechanisms that have them.
    pub round_seconds: Option<f64>,
    /// Time a job loses whenever it is started again.
    pub restart_cost_seconds: f64,
    /// What else a reader must know to believe the numbers, in sentences.
    pub assumptions: Vec<String>,
    /// First and last job (both included) that job metrics are taken over; all jobs if not given.
    pub window: Option<(u32, u32)>,
    /// How often the policy was asked.
    pub allocations: u64,
    /// Mean wall time of an answer.
    pub allocation_seconds_mean: f64,
    /// Longest wall time of an answer.
    pub allocation_seconds_max: f64,
    /// Wall time of the whole run.
    pub wall_seconds: f64,
    /// Events of the run.
    pub events: u64,
}

impl RunMeta {
    /// The window as rows of a table of `jobs` jobs.
    pub fn window_of(&self, jobs: usize) -> Range<usize> {
        match self.window {
            Some((first, last)) => (first as usize).min(jobs)..(last as usize + 1).clamp((first as usize).min(jobs), jobs),
            None => 0..jobs,
        }
    }
}

/// The metrics of one run. Field names and their order are an interface; what is not known is `null`.
///
/// `jobs`, `completed`, `failed`, JCT, wait, turnaround, fairness and deadlines are taken over the window;
/// makespan, throughput, utilisation, energy, cost and preemptions over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "each field is its own name and unit; the metrics are described in `metric`")]
pub struct Summary {
    pub policy: String,
    pub mechanism: String,
    pub seed: u64,
    pub jobs: u64,
    pub completed: u64,
    pub failed: u64,
    pub makespan_s: Option<f64>,
    pub jct_mean_s: Option<f64>,
    pub jct_p50_s: Option<f64>,
    pub jct_p90_s: Option<f64>,
    pub jct_p99_s: Option<f64>,
    pub wait_mean_s: Option<f64>,
    pub wait_p99_s: Option<f64>,
    pub turnaround_mean_s: Option<f64>,
    pub throughput_jobs_per_h: Option<f64>,
    pub utilisation: Option<f64>,
    pub energy_kwh: Option<f64>,
    pub cost_usd: Option<f64>,
    pub preemptions: u64,
    pub ftf_worst: Option<f64>,
    pub ftf_unfair_fraction: Option<f64>,
    pub slo_violations: u64,
    pub allocations: u64,
    pub allocation_seconds_mean: f64,
    pub allocation_seconds_max: f64,
    pub wall_seconds: f64,
    pub events: u64,
    pub bsld_mean: Option<f64>,
    /// The worst rho where times below 10 s count as 10 s, so that a job of a second is not called unfair for waiting ten.
    pub ftf_bounded_worst: Option<f64>,
}

/// The metrics of a run.
pub fn summarise(run: &Run, bound: &Bound, meta: &RunMeta) -> Summary {
    let window = meta.window_of(run.jobs.len());
    let rows = || run.jobs[window.clone()].iter().zip(&bound.jobs[window.clone()]);
    let jct_s = sorted(rows().filter_map(|(record, job)| record.jct(job.arrival)).map(rota_core::Span::seconds));
    let wait_s = sorted(rows().filter_map(|(record, job)| record.wait(job.arrival)).map(rota_core::Span::seconds));
    let bsld = rows().filter_map(|(record, job)| bounded_slowdown(record, job.arrival)).collect::<Vec<_>>();
    let times = fairness_seconds(run, bound, window.clone());
    let ratios = times.iter().map(|(jct, fluid)| jct / fluid).collect::<Vec<_>>();
    let bounded = |&(jct, fluid): &(f64, f64)| jct.max(SLOWDOWN_BOUND_SECONDS) / fluid.max(SLOWDOWN_BOUND_SECONDS);
    let unfair = ratios.iter().filter(|&&ratio| ratio > 1.0 + FAIR_SLACK).count();
    let late = rows().filter(|(record, job)| match (job.deadline, record.status) {
        (Some(_), JobStatus::Failed(_)) => true,
        (Some(deadline), JobStatus::Completed) => record.end.is_some_and(|end| end > deadline),
        (Some(deadline), JobStatus::Waiting | JobStatus::Running) => run.until > deadline,
        _ => false,
    });
    let makespan_s = Some(run.makespan().seconds()).filter(|&seconds| seconds > 0.0);
    let completed_in_run = run.jobs.iter().filter(|record| record.status == JobStatus::Completed).count();
    Summary {
        policy: meta.policy.clone(),
        mechanism: meta.mechanism.clone(),
        seed: meta.seed,
        jobs: window.len() as u64,
        completed: jct_s.len() as u64,
        failed: rows().filter(|(record, _)| matches!(record.status, JobStatus::Failed(_))).count() as u64,
        makespan_s,
        jct_mean_s: mean(&jct_s),
        jct_p50_s: percentile(&jct_s, 0.50),
        jct_p90_s: percentile(&jct_s, 0.90),
        jct_p99_s: percentile(&jct_s, 0.99),
        wait_mean_s: mean(&wait_s),
        wait_p99_s: percentile(&wait_s, 0.99),
        turnaround_mean_s: mean(&jct_s),
        throughput_jobs_per_h: makespan_s.map(|seconds| completed_in_run as f64 / (seconds / 3600.0)),
        utilisation: makespan_s.map(|seconds| run.busy_gpu_seconds() / (run.gpus.len() as f64 * seconds)),
        energy_kwh: makespan_s.map(|_| run.energy_joules() / JOULES_PER_KWH),
        cost_usd: makespan_s.and_then(|_| cost_usd(run)),
        preemptions: run.jobs.iter().map(|record| u64::from(record.preemptions)).sum(),
        ftf_worst: ratios.iter().copied().reduce(f64::max),
        ftf_unfair_fraction: (!ratios.is_empty()).then(|| unfair as f64 / ratios.len() as f64),
        slo_violations: late.count() as u64,
        allocations: meta.allocations,
        allocation_seconds_mean: meta.allocation_seconds_mean,
        allocation_seconds_max: meta.allocation_seconds_max,
        wall_seconds: meta.wall_seconds,
        events: meta.events,
        bsld_mean: mean(&bsld),
        ftf_bounded_worst: times.iter().map(bounded).reduce(f64::max),
    }
}

/// The time from arrival to completion over the time on GPUs, jobs shorter than [`SLOWDOWN_BOUND_SECONDS`] counting as that long; at
/// least 1. `None` unless the job completed.
fn bounded_slowdown(record: &crate::record::JobOutcome, arrival: rota_core::Time) -> Option<f64> {
    let jct = record.jct(arrival)?.seconds();
    Some((jct / record.running.seconds().max(SLOWDOWN_BOUND_SECONDS)).max(1.0))
}

/// Price of the GPU time used; not known if a type that was used has no price.
fn cost_usd(run: &Run) -> Option<f64> {
    run.gpus.iter().filter(|gpu| gpu.busy_seconds > 0.0).map(|gpu| gpu.cost_usd).sum()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values = values.collect::<Vec<_>>();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The value below which `fraction` of the sorted values lie, straight between the two nearest.
pub(crate) fn percentile(sorted: &[f64], fraction: f64) -> Option<f64> {
    let position = fraction * sorted.len().checked_sub(1)? as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    Some(below + (above - below) * position.fract())
}
