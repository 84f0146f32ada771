//! `lag-match` and its kin: at every decision, the assignment of jobs to GPU types that is worth most.
//!
//! A job on a type is worth its speed there, against its mean speed over the cluster, times the worth of its turn ([`super::weight`]):
//! that grows as the job falls behind what a private n-th part of every GPU type would have done for it, without bound, so nobody starves.
//! Prices on the types find the assignment. A job that would have to restart must be worth more than one that runs on.

use super::alike::Alike;
use super::per_shape::PerShape;
use super::strictness::Strictness;
use super::weight::{GittinsTable, Knowledge, Memo, Turn, worth};
use crate::history::{Tracker, attained_seconds};
use crate::params::{Param, Params, PolicyError};
use crate::watch::{Watch, size};
use crate::{Context, Policy};
use rota_core::{
    Bound, GpuTypeId, JobId, Name, Preempt, Renumbering, RestartCost, RestartCosts, Shape, ShapeId, Snapshot, Span, Target, Time,
    Wish,
};
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
    /// How strongly lag counts where lengths are learned.
    strictness: Strictness,
    // What follows from the rest, kept so that it need not be found again.
    #[serde(skip)]
    rows: Vec<Row>,
    #[serde(skip)]
    alike: Alike,
    #[serde(skip)]
    speed_changes: u64,
    /// How much was known of lengths when the last matching was made.
    #[serde(skip)]
    known_then: u64,
    /// What restarts cost when the last matching was made.
    #[serde(skip)]
    restarts: (Span, RestartCosts),
    #[serde(skip)]
    matched: Matched,
    /// Lists to fill again.
    #[serde(skip)]
    spare: Spare,
    #[serde(skip)]
    rates: PerShape<f64>,
    #[serde(skip)]
    speeds: PerShape<ShapeSpeeds>,
}

/// A matching that counts for nothing any more: a copy need not have it.
#[derive(Default)]
struct Spare(Matched);

impl Clone for Spare {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A matching: what it was made from, and what came of it.
#[derive(Clone, Default)]
struct Matched {
    jobs: Vec<JobId>,
    values: Vec<f64>,
    sizes: Vec<f64>,
    capacities: Vec<f64>,
    types: Vec<Option<GpuTypeId>>,
    /// Whether jobs are of several sizes. Those of one size are matched from what was before, too.
    has_gangs: bool,
}

impl Matched {
    /// Whether the other would be matched alike.
    fn is_like(&self, other: &Self) -> bool {
        self.has_gangs
            && self.jobs == other.jobs
            && is_same(&self.values, &other.values)
            && is_same(&self.sizes, &other.sizes)
            && is_same(&self.capacities, &other.capacities)
    }
}

fn is_same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// What is known of one job, close together: a decision looks at every job, and most have not changed since the last.
#[derive(Clone, Copy, Default)]
struct Row {
    is_known: bool,
    has_gpus: bool,
    /// The type it runs on.
    here: Option<GpuTypeId>,
    shape: ShapeId,
    gpus: u32,
    size: f64,
    kind: Name,
    weight: f64,
    /// What it has done, in seconds on its best type, unless it goes on.
    done_seconds: f64,
    memo: Memo,
}

impl Row {
    fn look(&mut self, job: JobId, snapshot: &Snapshot<'_>) {
        let (bound, view) = (snapshot.bound, snapshot.view(job));
        *self = Self {
            is_known: true,
            has_gpus: view.state.phase.has_gpus(),
            here: snapshot.type_now(job),
            shape: bound.shape_of[job.index()],
            gpus: view.job.gpus,
            size: size(&bound.shapes[bound.shape_of[job.index()].index()]),
            kind: view.job.kind,
            weight: view.job.weight,
            done_seconds: attained_seconds(&view),
            memo: self.memo,
        };
    }
}

/// What the jobs of one shape have in common.
#[derive(Clone, Copy)]
struct ShapeSpeeds {
    /// The mean speed over the cluster.
    mean: f64,
    best: f64,
}

impl ShapeSpeeds {
    /// `total` is the number of all GPUs.
    fn of(shape: &Shape, speeds: &[f64], capacities: &[f64], total: f64) -> Self {
        let types = || shape.types.iter().map(GpuTypeId::index);
        let mean = types().map(|index| speeds[index] * capacities[index]).sum::<f64>() / total;
        Self { mean, best: types().map(|index| speeds[index]).fold(0.0, f64::max) }
    }
}

impl Lag {
    /// Looks at the jobs again that changed since the last decision.
    fn look(&mut self, snapshot: &Snapshot<'_>) {
        if std::mem::replace(&mut self.speed_changes, snapshot.speed_changes) != snapshot.speed_changes {
            self.rows.clear();
        }
        self.rows.resize(snapshot.states.len(), Row::default());
        for &job in snapshot.changed.iter().chain(snapshot.repaced) {
            self.rows[job.index()].is_known = false;
        }
        for &job in &self.watch.active {
            let row = &mut self.rows[job.index()];
            if !row.is_known {
                row.look(job, snapshot);
            }
        }
    }

    /// Books what the private shares have done since the last decision.
    fn accrue(&mut self, snapshot: &Snapshot<'_>) {
        let seconds = snapshot.now.since(self.last).seconds();
        self.last = snapshot.now;
        if seconds == 0.0 || self.watch.active.is_empty() {
            return;
        }
        let jobs = self.watch.active.len() as f64;
        for &job in &self.watch.active {
            let row = &self.rows[job.index()];
            let shape = &snapshot.bound.shapes[row.shape.index()];
            let rate = self.rates.get(row.shape, || private_rate(shape, snapshot.bound, &self.watch.capacities, jobs));
            self.due_seconds[job.index()] += seconds * row.weight * rate;
        }
        self.rates.clear();
    }

    /// Finds how far behind jobs are that are alike.
    fn find_alike(&mut self, snapshot: &Snapshot<'_>) {
        let Knowledge::History(tracker) = &self.knowledge else { return };
        self.alike.clear(tracker.kinds());
        if !self.strictness.counts_together() {
            return;
        }
        for &job in &self.watch.active {
            if let Some(kind) = kind_of(&self.knowledge, self.watch.capacities.len(), job) {
                let done_seconds = attained_seconds(&snapshot.view(job));
                self.alike.add(kind, self.due_seconds[job.index()], done_seconds);
            }
        }
    }

    /// Finds the worth of jobs on each type, 0 where they cannot be. `jobs` come with their places in the list.
    fn find_values(&mut self, jobs: impl Iterator<Item = (usize, JobId)>, snapshot: &Snapshot<'_>, values: &mut [f64]) {
        let types = self.watch.capacities.len();
        let total = self.watch.capacities.iter().sum::<f64>().max(1.0);
        // Most jobs lose the same by a restart.
        let bonus_of = |cost: Span, tick: Span| (2.0 * cost.seconds() / tick.seconds()).min(STAY_BONUS_MAX);
        let mut bonus = (Span::ZERO, bonus_of(Span::ZERO, self.tick));
        for (place, job) in jobs {
            let row = &mut self.rows[job.index()];
            if !row.is_known {
                row.look(job, snapshot);
            }
            let shape = &snapshot.bound.shapes[row.shape.index()];
            let speeds = &snapshot.bound.speeds[shape.speeds as usize];
            let of_shape = self.speeds.get(row.shape, || ShapeSpeeds::of(shape, speeds, &self.watch.capacities, total));
            if row.has_gpus {
                row.done_seconds = snapshot.view(job).done().at_speed(of_shape.best).seconds();
            }
            let cost = snapshot.restart_costs.of(row.kind).map_or(snapshot.restart_cost, RestartCost::whole);
            if cost != bonus.0 {
                bonus = (cost, bonus_of(cost, self.tick));
            }
            let stay_bonus = bonus.1;
            let turn = Turn {
                job,
                snapshot,
                best_speed: of_shape.best,
                done_seconds: row.done_seconds,
                gpus: row.gpus,
                due_seconds: self.due_seconds[job.index()],
                lag_alike: kind_of(&self.knowledge, types, job).map_or(0.0, |kind| self.alike.lag(kind)),
                stay_bonus,
                types,
            };
            let turn = worth(&turn, self.fairness, self.strictness, &mut self.knowledge, &mut row.memo);
            for (index, (value, speed)) in values[place * types..][..types].iter_mut().zip(speeds).enumerate() {
                let gpu_type = GpuTypeId::from_index(index);
                let bonus = if row.here == Some(gpu_type) { 1.0 + stay_bonus } else { 1.0 };
                let is_usable = of_shape.mean > 0.0 && shape.types.contains(gpu_type);
                *value = if is_usable { turn * speed / of_shape.mean * bonus } else { 0.0 };
            }
        }
        self.speeds.clear();
    }

    /// Whether only jobs that changed can be worth more or less than in the last matching: it was made at this moment, from the same
    /// jobs and GPUs, and nothing was learned since.
    fn is_weighed(&self, snapshot: &Snapshot<'_>, has_changed: bool) -> bool {
        let restarts = (&self.restarts.0, &self.restarts.1) == (&snapshot.restart_cost, snapshot.restart_costs);
        !has_changed && self.known_then == self.knowledge.version() && restarts && self.matched.jobs == self.watch.active
    }

    /// Matches jobs to types; `is_weighed` as above.
    fn assign(&mut self, snapshot: &Snapshot<'_>, is_weighed: bool) -> Vec<(JobId, Option<GpuTypeId>)> {
        // What came of the last plan is looked at in the same moment, and often nothing is worth more or less by it.
        let is_matched = if is_weighed { self.weigh_changed(snapshot) } else { self.weigh(snapshot) };
        if !is_matched {
            self.find_types();
        }
        // A job that waits and is to wait need not be named.
        let wanted = self.matched.jobs.iter().copied().zip(self.matched.types.iter().copied());
        wanted.filter(|(job, gpu_type)| gpu_type.is_some() || self.rows[job.index()].has_gpus).collect()
    }

    /// Weighs the jobs that changed. Says whether the last matching still holds.
    fn weigh_changed(&mut self, snapshot: &Snapshot<'_>) -> bool {
        let mut matched = std::mem::take(&mut self.matched);
        let types = matched.capacities.len();
        let changed = snapshot.changed.iter().chain(snapshot.repaced);
        let places = changed.filter_map(|job| Some((matched.jobs.binary_search(job).ok()?, *job))).collect::<Vec<_>>();
        let of_changed =
            |values: &[f64]| places.iter().flat_map(|(place, _)| &values[place * types..][..types]).copied().collect();
        let before: Vec<f64> = of_changed(&matched.values);
        self.find_values(places.iter().copied(), snapshot, &mut matched.values);
        let after: Vec<f64> = of_changed(&matched.values);
        self.matched = matched;
        self.matched.has_gangs && is_same(&before, &after)
    }

    /// Weighs all jobs. Says whether the last matching still holds.
    fn weigh(&mut self, snapshot: &Snapshot<'_>) -> bool {
        let mut next = std::mem::take(&mut self.spare.0);
        next.jobs.clone_from(&self.watch.active);
        next.capacities.clone_from(&self.watch.capacities);
        let mut values = std::mem::take(&mut next.values);
        values.clear();
        values.resize(next.jobs.len() * next.capacities.len(), 0.0);
        self.find_alike(snapshot);
        self.find_values(next.jobs.iter().copied().enumerate(), snapshot, &mut values);
        next.values = values;
        next.sizes.clear();
        next.sizes.extend(next.jobs.iter().map(|&job| self.rows[job.index()].size));
        next.has_gangs = next.sizes.iter().any(|size| size.to_bits() != next.sizes[0].to_bits());
        self.restarts.0 = snapshot.restart_cost;
        self.restarts.1.clone_from(snapshot.restart_costs);
        self.known_then = self.knowledge.version();
        let is_matched = next.is_like(&self.matched);
        self.spare.0 = if is_matched { next } else { std::mem::replace(&mut self.matched, next) };
        is_matched
    }

    /// Finds the types of the jobs as they are weighed now.
    fn find_types(&mut self) {
        self.matcher.forget_prices();
        let Matched { values, sizes, capacities, types, .. } = &mut self.matched;
        types.clear();
        match self.matcher.find(&Matching { values, sizes, capacities }) {
            Ok(columns) => types.extend(columns.iter().map(|column| column.map(GpuTypeId::from_index))),
            // Values are finite and sizes positive by construction; should the engine refuse them all the same, everybody waits.
            Err(_) => types.resize(sizes.len(), None),
        }
    }
}

/// The number that a job shares with those alike, where GPUs are alike and lengths are learned.
fn kind_of(knowledge: &Knowledge, types: usize, job: JobId) -> Option<usize> {
    match knowledge {
        Knowledge::History(tracker) if types <= 1 => tracker.alike(job),
        _ => None,
    }
}

/// Progress per second of a private n-th part of every type the shape can use, in seconds on its best type.
fn private_rate(shape: &Shape, bound: &Bound, capacities: &[f64], jobs: f64) -> f64 {
    let speeds = &bound.speeds[shape.speeds as usize];
    let part = |gpu_type: GpuTypeId| capacities[gpu_type.index()] / jobs / size(shape);
    let whole = shape.types.iter().map(part).sum::<f64>().max(1.0);
    let best = shape.types.iter().map(|gpu_type| speeds[gpu_type.index()]).fold(0.0, f64::max);
    let rate = shape.types.iter().map(|gpu_type| speeds[gpu_type.index()] * part(gpu_type) / whole).sum::<f64>();
    if best > 0.0 { rate / best } else { 0.0 }
}

impl Policy for Lag {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        self.due_seconds.resize(snapshot.states.len(), 0.0);
        self.look(snapshot);
        let is_later = snapshot.now > self.last;
        self.accrue(snapshot);
        let has_changed = self.watch.update(snapshot) || is_later;
        if let Knowledge::History(tracker) = &mut self.knowledge {
            tracker.follow(snapshot);
            for &(job, done_seconds) in tracker.ended() {
                self.strictness.learn(done_seconds, self.due_seconds[job.index()]);
            }
        }
        let is_weighed = self.is_weighed(snapshot, has_changed);
        let wanted = self.assign(snapshot, is_weighed);
        // While nobody runs or can run, time alone changes nothing.
        let somebody_runs = wanted.iter().any(|(_, gpu_type)| gpu_type.is_some());
        let review_at = somebody_runs.then(|| snapshot.now + self.tick);
        Target { wish: Wish::Assignment { types: wanted, pairs: Vec::new(), preempt: Preempt::Always }, review_at }
    }

    fn waits_for_rounds(&self) -> bool {
        false
    }

    fn begin_forecast(&mut self) {
        self.matched = Matched::default();
        if let Knowledge::History(tracker) = &mut self.knowledge {
            tracker.close();
        }
    }

    fn trackers(&mut self) -> Vec<&mut Tracker> {
        if let Knowledge::History(tracker) = &mut self.knowledge { vec![&mut **tracker] } else { Vec::new() }
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.watch.renumber(rows);
        rows.keep(&mut self.due_seconds);
        self.rows.clear();
        self.alike = Alike::default();
        self.matched = Matched::default();
        if let Knowledge::History(tracker) = &mut self.knowledge {
            tracker.renumber(rows);
        }
    }
}

fn lag(params: &Params<'_>, knowledge: Knowledge) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(Lag {
        fairness: params.number("fairness", 0.0, 20.0)?,
        tick: Span::from_seconds(params.number("tick", 0.1, 1e8)?).unwrap_or_default(),
        knowledge,
        watch: Watch::default(),
        due_seconds: Vec::new(),
        last: Time::ZERO,
        matcher: Matcher::default(),
        strictness: Strictness::default(),
        rows: Vec::new(),
        alike: Alike::default(),
        speed_changes: 0,
        known_then: 0,
        restarts: Default::default(),
        matched: Matched::default(),
        spare: Spare::default(),
        rates: PerShape::default(),
        speeds: PerShape::default(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::bind::BadJobs;
    use rota_core::{Cluster, Job, ThroughputTable, Workload};

    #[test]
    fn a_private_share_of_slow_gpus_is_measured_by_the_slow_gpus_where_the_job_takes_no_others() {
        let mut workload = Workload::new("slow");
        let slow = workload.names.intern("slow");
        workload.push(Job { gpu_types: [slow].into_iter().collect(), ..Job::new(Time::ZERO, Span::from_whole_seconds(60)) });
        workload.push(Job::new(Time::ZERO, Span::from_whole_seconds(60)));
        workload.finish();
        let mut cluster = Cluster::from_spec("quick:2,slow:2", 2).unwrap();
        for (kind, speed) in cluster.types.iter_mut().zip([4.0, 0.5]) {
            kind.speed = speed;
        }
        let bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap();
        let rate = |job: usize| private_rate(&bound.shapes[bound.shape_of[job].index()], &bound, &[2.0, 2.0], 4.0);
        // Half a GPU of each type for each of four jobs.
        assert!((rate(0) - 0.5).abs() < 1e-12, "{}", rate(0));
        assert!((rate(1) - (0.5 * 4.0 + 0.5 * 0.5) / 4.0).abs() < 1e-12, "{}", rate(1));
    }
}
