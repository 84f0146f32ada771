//! `lag-match` and its kin: at every decision, the assignment of jobs to GPU types that is worth most.
//!
//! A job on a type is worth its speed there, against its mean speed over the cluster, times the worth of its turn ([`super::weight`]):
//! that grows as the job falls behind what a private n-th part of every GPU type would have done for it, without bound, so nobody starves.
//! Prices on the types find the assignment. A job that would have to restart must be worth more than one that runs on.

use super::weight::{GittinsTable, Knowledge, worth};
use crate::params::{Param, Params, PolicyError};
use crate::watch::{Watch, size};
use crate::{Context, Policy};
use rota_core::{Bound, GpuTypeId, JobId, Preempt, Renumbering, Shape, Snapshot, Span, Target, Time, Wish};
use rota_solver::match_prices::{Matcher, Matching};
use serde::{Deserialize, Serialize};

const TICK: Param =
    Param { name: "tick", default: "360", meaning: "seconds after which all is weighed again even if nothing happened" };
const fn fairness(default: &'static str) -> Param {
    Param { name: "fairness", default, meaning: "how much being behind counts: 1 for throughput, 4 for strict fairness" }
}

/// Parameters of `lag-match`.
pub const MATCH_PARAMS: &[Param] = &[fairness("2"), TICK];
/// Parameters of `lag-gittins`.
pub const GITTINS_PARAMS: &[Param] = &[
    Param { name: "sigma", default: "1", meaning: "error of the estimates: deviation of their logarithm" },
    fairness("1"),
    TICK,
];
/// Parameters of `lag-history`.
pub const HISTORY_PARAMS: &[Param] = &[fairness("1"), TICK];
/// Parameters of `lag-srsf`.
pub const SRSF_PARAMS: &[Param] = &[fairness("1"), TICK];

/// The most a job that runs on is worth more than one that must restart; beyond it jobs stay on slow types.
const STAY_BONUS_MAX: f64 = 0.5;

#[derive(Clone, Serialize, Deserialize)]
struct Lag {
    fairness: f64,
    tick: Span,
    knowledge: Knowledge,
    watch: Watch,
    /// Work a private share would have done for each job, in seconds on its best type.
    due_seconds: Vec<f64>,
    last: Time,
    matcher: Matcher,
}

impl Lag {
    /// Books what the private shares have done since the last decision.
    fn accrue(&mut self, snapshot: &Snapshot<'_>) {
        let seconds = snapshot.now.since(self.last).seconds();
        self.last = snapshot.now;
        if seconds == 0.0 || self.watch.active.is_empty() {
            return;
        }
        let jobs = self.watch.active.len() as f64;
        let rates = snapshot
            .bound
            .shapes
            .iter()
            .map(|shape| private_rate(shape, snapshot.bound, &self.watch.capacities, jobs))
            .collect::<Vec<_>>();
        for &job in &self.watch.active {
            let weight = snapshot.bound.job(job).weight;
            self.due_seconds[job.index()] += seconds * weight * rates[snapshot.bound.shape_of[job.index()].index()];
        }
    }

    /// Worth of a job on each type; 0 where it cannot be.
    fn values(&mut self, job: JobId, snapshot: &Snapshot<'_>, values: &mut Vec<f64>) {
        let stay_bonus = (2.0 * snapshot.restart_cost_of(job).seconds() / self.tick.seconds()).min(STAY_BONUS_MAX);
        let (shape, speeds) = (snapshot.bound.shape(job), snapshot.bound.speeds(job));
        let view = snapshot.view(job);
        let total = self.watch.capacities.iter().sum::<f64>().max(1.0);
        let usable = |index: usize| shape.types.contains(GpuTypeId::from_index(index));
        let mean_speed = (0..speeds.len())
            .filter(|&index| usable(index))
            .map(|index| speeds[index] * self.watch.capacities[index])
            .sum::<f64>()
            / total;
        let turn = worth(&view, self.due_seconds[job.index()], self.fairness, &mut self.knowledge, stay_bonus, speeds.len());
        let here = snapshot.type_now(job);
        values.extend((0..speeds.len()).map(|index| {
            let bonus = if here == Some(GpuTypeId::from_index(index)) { 1.0 + stay_bonus } else { 1.0 };
            if usable(index) && mean_speed > 0.0 { turn * speeds[index] / mean_speed * bonus } else { 0.0 }
        }));
    }

    /// Matches jobs to types.
    fn assign(&mut self, matcher: &mut Matcher, snapshot: &Snapshot<'_>) -> Vec<(JobId, Option<GpuTypeId>)> {
        let jobs = self.watch.active.clone();
        let mut values = Vec::with_capacity(jobs.len() * self.watch.capacities.len());
        for &job in &jobs {
            self.values(job, snapshot, &mut values);
        }
        let sizes = jobs.iter().map(|&job| size(snapshot.bound.shape(job))).collect::<Vec<_>>();
        matcher.forget_prices();
        // Values are finite and sizes positive by construction; should the engine refuse them all the same, everybody waits.
        let Ok(columns) = matcher.find(&Matching { values: &values, sizes: &sizes, capacities: &self.watch.capacities }) else {
            return jobs.iter().map(|&job| (job, None)).collect();
        };
        jobs.iter().copied().zip(columns.iter().map(|column| column.map(GpuTypeId::from_index))).collect()
    }
}

/// Progress per second of a private n-th part of every type the shape can use.
fn private_rate(shape: &Shape, bound: &Bound, capacities: &[f64], jobs: f64) -> f64 {
    let speeds = &bound.speeds[shape.speeds as usize];
    let part = |gpu_type: GpuTypeId| capacities[gpu_type.index()] / jobs / size(shape);
    let whole = shape.types.iter().map(part).sum::<f64>().max(1.0);
    shape.types.iter().map(|gpu_type| speeds[gpu_type.index()] * part(gpu_type) / whole).sum()
}

impl Policy for Lag {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        self.due_seconds.resize(snapshot.states.len(), 0.0);
        self.accrue(snapshot);
        self.watch.update(snapshot);
        if let Knowledge::History(tracker) = &mut self.knowledge {
            tracker.follow(snapshot);
        }
        let mut matcher = std::mem::take(&mut self.matcher);
        let wanted = self.assign(&mut matcher, snapshot);
        self.matcher = matcher;
        // While nobody runs or can run, time alone changes nothing.
        let somebody_runs = wanted.iter().any(|(_, gpu_type)| gpu_type.is_some());
        let review_at = somebody_runs.then(|| snapshot.now + self.tick);
        Target { wish: Wish::Assignment { types: wanted, pairs: Vec::new(), preempt: Preempt::Always }, review_at }
    }

    fn waits_for_rounds(&self) -> bool {
        false
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.watch.renumber(rows);
        rows.keep(&mut self.due_seconds);
        if let Knowledge::History(tracker) = &mut self.knowledge {
            tracker.renumber(rows);
        }
    }
}

fn lag(params: &Params<'_>, knowledge: Knowledge) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(Lag {
        fairness: params.number("fairness", 0.0, 100.0)?,
        tick: Span::from_seconds(params.number("tick", 0.1, 1e8)?).unwrap_or_default(),
        knowledge,
        watch: Watch::default(),
        due_seconds: Vec::new(),
        last: Time::ZERO,
        matcher: Matcher::default(),
    }))
}

/// Builds the policy `lag-match`.
pub fn build_match(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    lag(params, Knowledge::Nothing)
}

/// Builds the policy `lag-gittins`.
pub fn build_gittins(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    lag(params, Knowledge::Estimate(GittinsTable::new(params.number("sigma", 0.01, 10.0)?)))
}

/// Builds the policy `lag-srsf`.
pub fn build_srsf(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    lag(params, Knowledge::Exact)
}

/// Builds the policy `lag-history`.
pub fn build_history(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    lag(params, Knowledge::History(Box::default()))
}
