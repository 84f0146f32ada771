//! What the policies optimise is what an independent solver finds, and what they give out is possible.

use super::finish_time::FinishTime;
use super::{GavelPolicy, JobView, PairView, Shares, View, build};
use crate::name::{Awareness, PolicyName, Worth};
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome, Variable};
use rota_core::mersenne::Mersenne;

struct Job {
    gpus: u32,
    weight: f64,
    steps: f64,
    age_seconds: f64,
    speeds: Vec<f64>,
}

/// A random state of a cluster.
struct Case {
    counts: Vec<f64>,
    jobs: Vec<Job>,
    pairs: Vec<([usize; 2], Vec<[f64; 2]>)>,
}

impl Case {
    fn draw(seed: u128, packs: bool) -> Self {
        let mut stream = Mersenne::new(seed);
        let types = 1 + stream.below(3) as usize;
        let counts = (0..types).map(|_| 8.0 + stream.below(9) as f64).collect();
        let mut jobs = Vec::new();
        for _ in 0..=stream.below(20) {
            let gpus = 1 << stream.below(4);
            let fastest = 10_f64.powf(stream.uniform(0.0, 1.5));
            jobs.push(Job {
                gpus,
                weight: if stream.unit() < 0.2 { 5.0 } else { 1.0 },
                steps: fastest * stream.uniform(100.0, 1e5),
                age_seconds: stream.uniform(0.0, 2e4),
                speeds: (0..types).map(|_| fastest * stream.uniform(0.2, 1.0)).collect(),
            });
        }
        let mut pairs = Vec::new();
        for first in 0..jobs.len() {
            for second in first + 1..jobs.len() {
                if packs && jobs[first].gpus == jobs[second].gpus {
                    let mut beside = |job: usize, kind: usize| jobs[job].speeds[kind] * stream.uniform(0.3, 0.9);
                    let speeds = (0..types).map(|kind| [beside(first, kind), beside(second, kind)]).collect();
                    pairs.push(([first, second], speeds));
                }
            }
        }
        Self { counts, jobs, pairs }
    }

    fn view(&self) -> View<'_> {
        let job = |(id, job): (usize, &'_ Job)| JobView {
            id: id as u32,
            gpus: job.gpus,
            weight: job.weight,
            steps_left: job.steps,
            age_seconds: job.age_seconds,
            deadline_seconds: Some(1e6),
            speeds: self.jobs[id].speeds.as_slice(),
        };
        View {
            now_seconds: 0.0,
            counts: &self.counts,
            reference_type: Some(0),
            prices: None,
            jobs: self.jobs.iter().enumerate().map(job).collect(),
            pairs: self.pairs.iter().map(|(members, speeds)| PairView { members: *members, speeds }).collect(),
        }
    }

    /// What an even division of the cluster gives a job, in steps per second.
    fn even_speed(&self, job: usize) -> f64 {
        let all = self.counts.iter().sum::<f64>();
        self.jobs[job].speeds.iter().zip(&self.counts).map(|(speed, count)| speed * count / all).sum()
    }

    /// What its own part of the cluster gives a job.
    fn alone_speed(&self, job: usize) -> f64 {
        let parts = self.counts.iter().map(|count| count / self.jobs.len() as f64 / f64::from(self.jobs[job].gpus));
        let parts = parts.collect::<Vec<_>>();
        let all = parts.iter().sum::<f64>().max(1.0);
        self.jobs[job].speeds.iter().zip(parts).map(|(speed, part)| speed * part / all).sum()
    }
}

/// The shares of the jobs as variables of a problem of the simplex solver, with the speed of each job.
fn simplex(case: &Case, direction: OptimizationDirection) -> (Problem, Vec<Vec<(Variable, f64)>>) {
    let mut problem = Problem::new(direction);
    let mut used = vec![Vec::new(); case.counts.len()];
    let mut time = vec![Vec::new(); case.jobs.len()];
    let mut speeds = vec![Vec::new(); case.jobs.len()];
    for (index, job) in case.jobs.iter().enumerate() {
        for (kind, &speed) in job.speeds.iter().enumerate() {
            let share = problem.add_var(0.0, (0.0, f64::INFINITY));
            used[kind].push((share, f64::from(job.gpus)));
            time[index].push((share, 1.0));
            speeds[index].push((share, speed));
        }
    }
    for (members, pair_speeds) in &case.pairs {
        for (kind, pair) in pair_speeds.iter().enumerate() {
            let share = problem.add_var(0.0, (0.0, f64::INFINITY));
            used[kind].push((share, f64::from(case.jobs[members[0]].gpus)));
            for (place, &job) in members.iter().enumerate() {
                time[job].push((share, 1.0));
                speeds[job].push((share, pair[place]));
            }
        }
    }
    for (terms, count) in used.iter().zip(&case.counts) {
        problem.add_constraint(terms.as_slice(), ComparisonOp::Le, *count);
    }
    for terms in &time {
        problem.add_constraint(terms.as_slice(), ComparisonOp::Le, 1.0);
    }
    (problem, speeds)
}

fn value(problem: &Problem) -> Option<f64> {
    match problem.solve() {
        Ok(SolveOutcome::Solution(solution)) => Some(solution.objective()),
        _ => None,
    }
}

/// The largest number that every job's speed, divided by its own scale, can reach.
fn max_min(case: &Case, scale: impl Fn(usize) -> f64) -> f64 {
    let (mut problem, speeds) = simplex(case, OptimizationDirection::Maximize);
    let least = problem.add_var(1.0, (0.0, f64::INFINITY));
    for (job, mut terms) in speeds.into_iter().enumerate() {
        for (_, speed) in &mut terms {
            *speed /= scale(job);
        }
        terms.push((least, -1.0));
        problem.add_constraint(terms.as_slice(), ComparisonOp::Ge, 0.0);
    }
    value(&problem).unwrap()
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
}

fn allocate(name: PolicyName, view: &View<'_>) -> (f64, Shares) {
    let mut policy = build(name, 0);
    let shares = policy.allocate(view).unwrap();
    (policy.objective().unwrap(), shares)
}

fn assert_possible(view: &View<'_>, shares: &[f64]) {
    let types = view.types();
    for (kind, &count) in view.counts.iter().enumerate() {
        let used = (0..view.rows()).map(|row| shares[row * types + kind] * view.row_gpus(row)).sum::<f64>();
        assert!(used <= count * (1.0 + 1e-6), "{used} of {count} GPUs");
    }
    for rows in view.rows_of_jobs() {
        let time = rows.iter().flat_map(|&(row, _)| &shares[row * types..][..types]).sum::<f64>();
        assert!(time <= 1.0 + 1e-6, "a job is given {time} of its time");
    }
}

#[test]
fn max_min_fairness_is_that_of_a_simplex_solver() {
    for (seed, awareness) in (0..60).flat_map(|seed| [(seed, Awareness::Perf), (seed, Awareness::Packed)]) {
        let case = Case::draw(seed, awareness == Awareness::Packed);
        let view = case.view();
        let (objective, shares) = allocate(PolicyName::MaxMin(awareness), &view);
        let expected = max_min(&case, |job| {
            let Job { gpus, weight, .. } = case.jobs[job];
            weight * case.even_speed(job) / f64::from(gpus)
        });
        assert!(is_near(objective, expected), "seed {seed}, {awareness:?}: {objective}, simplex {expected}");
        assert_possible(&view, &shares);
    }
}

#[test]
fn finish_time_fairness_is_that_of_a_simplex_solver() {
    for seed in 0..40 {
        let case = Case::draw(seed, false);
        let view = case.view();
        // Where Gavel stops, the ratio is only known to 1e-5: the problem is the same, so a stricter end shows what it is.
        let mut policy = FinishTime::new(Awareness::Perf);
        policy.tolerance = 1e-10;
        let shares = policy.allocate(&view).unwrap();
        let objective = policy.objective().unwrap();
        // A ratio is possible if every job can have the speed that it takes; the simplex solver finds by how much it can.
        let expected_seconds = |job: usize| case.jobs[job].steps / case.alone_speed(job);
        let is_possible = |ratio: f64| {
            let left = |job: usize| ratio * expected_seconds(job) - case.jobs[job].age_seconds;
            (0..case.jobs.len()).all(|job| left(job) > 0.0) && max_min(&case, |job| case.jobs[job].steps / left(job)) >= 1.0
        };
        let (mut low, mut high) = (0.0, 1e6);
        while high - low > 1e-9 * high {
            let middle = f64::midpoint(low, high);
            if is_possible(middle) { high = middle } else { low = middle }
        }
        assert!(is_near(objective, high), "seed {seed}: {objective}, simplex {high}");
        assert_possible(&view, &shares);
    }
}

#[test]
fn makespan_is_that_of_a_simplex_solver() {
    for seed in 0..40 {
        let case = Case::draw(seed, false);
        let view = case.view();
        let (objective, shares) = allocate(PolicyName::Makespan(Awareness::Perf), &view);
        let least_seconds = 1.0 / max_min(&case, |job| case.jobs[job].steps);
        let (mut low, mut high) = (100.0, 1e6);
        while 1.05 * low < high {
            let middle = f64::midpoint(low, high);
            if middle >= least_seconds { high = middle } else { low = middle }
        }
        assert!(is_near(objective, high), "seed {seed}: {objective}, simplex {high} ({least_seconds})");
        assert_possible(&view, &shares);
    }
}

#[test]
fn most_throughput_is_that_of_a_simplex_solver() {
    for seed in 0..40 {
        let case = Case::draw(seed, false);
        let view = case.view();
        let (objective, shares) = allocate(PolicyName::MaxSum(Worth::Steps, Awareness::Perf), &view);
        let (mut problem, speeds) = simplex(&case, OptimizationDirection::Maximize);
        let sum = problem.add_var(1.0, (0.0, f64::INFINITY));
        let terms = speeds.into_iter().flatten().chain([(sum, -1.0)]).collect::<Vec<_>>();
        problem.add_constraint(terms.as_slice(), ComparisonOp::Ge, 0.0);
        let expected = value(&problem).unwrap();
        assert!(is_near(objective, expected), "seed {seed}: {objective}, simplex {expected}");
        assert_possible(&view, &shares);
    }
}

#[test]
fn water_filling_gives_the_worst_off_what_max_min_fairness_gives() {
    for (seed, awareness) in (0..20).flat_map(|seed| [(seed, Awareness::Perf), (seed, Awareness::Packed)]) {
        let case = Case::draw(seed, awareness == Awareness::Packed);
        let view = case.view();
        let standings = |shares: &[f64]| {
            let rows = view.rows_of_jobs();
            let standing = |job: usize| {
                let speed = rows[job].iter().flat_map(|&(row, place)| (0..view.types()).map(move |kind| (row, place, kind)));
                let speed = speed.map(|(row, place, kind)| view.speed(row, place, kind) * shares[row * view.types() + kind]);
                speed.sum::<f64>() / case.even_speed(job) * f64::from(case.jobs[job].gpus) / case.jobs[job].weight
            };
            let mut standings = (0..case.jobs.len()).map(standing).collect::<Vec<_>>();
            standings.sort_by(f64::total_cmp);
            standings
        };
        let (_, even) = allocate(PolicyName::MaxMin(awareness), &view);
        let (_, filled) = allocate(PolicyName::WaterFilling(awareness), &view);
        assert_possible(&view, &filled);
        let (worst, worst_filled) = (standings(&even)[0], standings(&filled)[0]);
        assert!(worst_filled >= worst * (1.0 - 1e-4), "seed {seed}, {awareness:?}: {worst_filled}, max-min {worst}");
    }
}
