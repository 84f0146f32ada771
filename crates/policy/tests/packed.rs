//! Packed allocations against a simplex over every job and every pair of jobs, and the other special cases.

#![expect(
    clippy::unwrap_used,
    clippy::float_cmp,
    clippy::needless_for_each,
    clippy::needless_range_loop,
    reason = "a bad case is a bad test, gangs are whole numbers, and programs are written as they are on paper"
)]

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, SolveOutcome, Variable};
use proptest::prelude::*;
use rota_core::JobId;
use rota_policy::allocation::{Allocation, Claim, Demand, Entity, EntityRule, NAMES, NoPairs, PairRates, Solver, allocator};

const CLASSES: usize = 4;
const TYPES: usize = 3;

#[derive(Clone, Debug)]
struct Case {
    claims: Vec<Claim>,
    gpus: Vec<f64>,
    /// What each class keeps of its speed beside each other class, by type.
    kept: Vec<f64>,
    speeds: Vec<Vec<f64>>,
}

impl Case {
    fn pair_rates(&self, first: usize, second: usize, kind: usize) -> (f64, f64) {
        let kept = |one: usize, other: usize| self.kept[(one * CLASSES + other) * TYPES + kind];
        (self.speeds[first][kind] * kept(first, second), self.speeds[second][kind] * kept(second, first))
    }

    fn demand(&self) -> Demand<'_> {
        Demand { claims: &self.claims, gpus: &self.gpus, prices: &[2.0, 1.0, 0.5], pairs: self, entities: &[] }
    }
}

impl PairRates for Case {
    fn pair(&self, first: u32, second: u32) -> Option<Box<[(f64, f64)]>> {
        Some((0..TYPES).map(|kind| self.pair_rates(first as usize, second as usize, kind)).collect())
    }
}

fn any_case() -> impl Strategy<Value = Case> {
    let speed = prop_oneof![5 => 0.2..10.0_f64, 1 => Just(0.0)];
    let kept = prop_oneof![4 => 0.3..1.0_f64, 1 => Just(0.0)];
    let job = (0..CLASSES, prop::sample::select(vec![1.0, 3.0]), 10.0..1e4_f64, 0.0..1e3_f64, prop::option::of(100.0..1e5_f64));
    (
        prop::collection::vec(prop::collection::vec(speed, TYPES), CLASSES),
        prop::collection::vec(kept, CLASSES * CLASSES * TYPES),
        prop::collection::vec(job, 2..7),
        prop::collection::vec(1.0..6.0_f64, TYPES),
    )
        .prop_map(|(mut speeds, kept, jobs, gpus)| {
            speeds.iter_mut().for_each(|row| row[0] = row[0].max(0.5));
            let claim =
                |(index, (class, weight, remaining, age, deadline)): (usize, (usize, f64, f64, f64, Option<f64>))| Claim {
                    id: JobId(index as u32),
                    class: class as u32,
                    rates: speeds[class].clone().into(),
                    // Two classes of single GPUs and two of pairs of GPUs: only equal gangs may share.
                    gang: if class < 2 { 1.0 } else { 2.0 },
                    weight,
                    remaining,
                    age,
                    deadline,
                    entity: 0,
                };
            let claims = jobs.into_iter().enumerate().map(claim).collect();
            Case { claims, gpus: gpus.iter().map(|gpus| gpus.floor()).collect(), kept, speeds }
        })
}

/// Every single and pair of jobs on every type.
struct Program {
    problem: Problem,
    /// For each job: (variable, its rate there).
    rates: Vec<Vec<(Variable, f64)>>,
}

fn program(case: &Case, gain: impl Fn(f64, usize) -> f64) -> Program {
    let jobs = case.claims.len();
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let (mut rates, mut times) = (vec![Vec::new(); jobs], vec![LinearExpr::empty(); jobs]);
    let mut pools = vec![LinearExpr::empty(); TYPES];
    for kind in 0..TYPES {
        for first in 0..jobs {
            let one = &case.claims[first];
            let variable = problem.add_var(gain(one.rates[kind], kind), (0.0, 1.0));
            rates[first].push((variable, one.rates[kind]));
            times[first].add(variable, 1.0);
            pools[kind].add(variable, one.gang);
            for second in first + 1..jobs {
                let other = &case.claims[second];
                if one.gang == other.gang {
                    let (mine, theirs) = case.pair_rates(one.class as usize, other.class as usize, kind);
                    let variable = problem.add_var(gain(mine + theirs, kind), (0.0, 1.0));
                    rates[first].push((variable, mine));
                    rates[second].push((variable, theirs));
                    times[first].add(variable, 1.0);
                    times[second].add(variable, 1.0);
                    pools[kind].add(variable, one.gang);
                }
            }
        }
    }
    times.into_iter().for_each(|time| problem.add_constraint(time, ComparisonOp::Le, 1.0));
    pools.into_iter().zip(&case.gpus).for_each(|(pool, gpus)| problem.add_constraint(pool, ComparisonOp::Le, *gpus));
    Program { problem, rates }
}

fn largest_part(case: &Case, weights: &[f64]) -> f64 {
    let mut program = program(case, |_, _| 0.0);
    let level = program.problem.add_var(1.0, (0.0, f64::INFINITY));
    for (terms, &weight) in program.rates.iter().zip(weights) {
        if weight > 0.0 {
            let mut sum = LinearExpr::empty();
            terms.iter().for_each(|(variable, rate)| sum.add(*variable, *rate / weight));
            sum.add(level, -1.0);
            program.problem.add_constraint(sum, ComparisonOp::Ge, 0.0);
        }
    }
    objective(&program.problem)
}

fn objective(problem: &Problem) -> f64 {
    match problem.solve() {
        Ok(SolveOutcome::Solution(solution)) => solution.objective(),
        other => panic!("the simplex failed: {other:?}"),
    }
}

fn unit(case: &Case, job: usize) -> f64 {
    let claim = &case.claims[job];
    let total: f64 = case.gpus.iter().sum();
    claim.weight * claim.rates.iter().zip(&case.gpus).map(|(rate, gpus)| rate * gpus / total).sum::<f64>() / claim.gang
}

/// Rates of the jobs; times and pools must hold.
fn rates(case: &Case, name: &str, allocation: &Allocation) -> Vec<f64> {
    let mut times: Vec<f64> = allocation.shares.chunks_exact(TYPES).map(|row| row.iter().sum()).collect();
    let mut used = vec![0.0; TYPES];
    let mut rates = vec![0.0; case.claims.len()];
    for (cell, &share) in allocation.shares.iter().enumerate() {
        used[cell % TYPES] += share * case.claims[cell / TYPES].gang;
        rates[cell / TYPES] += share * case.claims[cell / TYPES].rates[cell % TYPES];
    }
    for pair in &allocation.pairs {
        let (one, other) = (&case.claims[pair.first], &case.claims[pair.second]);
        assert!(pair.first != pair.second && one.gang == other.gang && pair.share >= 0.0, "{name}: {pair:?}");
        let (mine, theirs) = case.pair_rates(one.class as usize, other.class as usize, pair.gpu_type);
        rates[pair.first] += mine * pair.share;
        rates[pair.second] += theirs * pair.share;
        times[pair.first] += pair.share;
        times[pair.second] += pair.share;
        used[pair.gpu_type] += pair.share * one.gang;
    }
    assert!(times.iter().all(|time| *time <= 1.0 + 1e-7), "{name}: {times:?}");
    assert!(used.iter().zip(&case.gpus).all(|(used, gpus)| *used <= gpus * (1.0 + 1e-7)), "{name}: {used:?}");
    rates
}

fn solve(case: &Case, name: &str) -> (Allocation, Vec<f64>) {
    let allocation =
        allocator(name, Solver::Price).unwrap().allocate(&case.demand()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let rates = rates(case, name, &allocation);
    (allocation, rates)
}

fn close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 3e-6 * wanted.abs().max(1e-9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn max_min_and_water_filling(case in any_case()) {
        let units: Vec<f64> = (0..case.claims.len()).map(|job| unit(&case, job)).collect();
        let optimum = largest_part(&case, &units);
        for name in ["max-min-packed", "water-filling-packed"] {
            let (found, rates) = solve(&case, name);
            prop_assert!(close(found.objective, optimum), "{name}: {} for {optimum}", found.objective);
            prop_assert!(found.upper_bound >= optimum * (1.0 - 1e-6) && found.gap <= 1e-5, "{name}: {found:?}");
            let least = rates.iter().zip(&units).map(|(rate, unit)| rate / unit).fold(f64::INFINITY, f64::min);
            prop_assert!(close(least, optimum), "{name}: jobs get {least} for {optimum}");
        }
    }

    #[test]
    fn makespan(case in any_case()) {
        let remaining: Vec<f64> = case.claims.iter().map(|claim| claim.remaining).collect();
        let optimum = 1.0 / largest_part(&case, &remaining);
        let (found, rates) = solve(&case, "makespan-packed");
        prop_assert!(close(found.objective, optimum), "{} for {optimum}", found.objective);
        let last = rates.iter().zip(&remaining).map(|(rate, steps)| steps / rate).fold(0.0, f64::max);
        prop_assert!(close(last, optimum), "jobs end at {last} for {optimum}");
    }

    #[test]
    fn finish_time_fairness(case in any_case()) {
        let jobs = case.claims.len() as f64;
        let expected: Vec<f64> = case.claims.iter().map(|claim| {
            let shares: Vec<f64> = case.gpus.iter().map(|gpus| gpus / jobs / claim.gang).collect();
            let time = shares.iter().sum::<f64>().max(1.0);
            claim.remaining / shares.iter().zip(&claim.rates).map(|(share, rate)| share / time * rate).sum::<f64>()
        }).collect();
        let (found, rates) = solve(&case, "ftf-packed");
        let ratio = |job: usize| (case.claims[job].age + case.claims[job].remaining / rates[job]) / expected[job];
        let worst = (0..case.claims.len()).map(ratio).fold(0.0, f64::max);
        prop_assert!(close(found.objective, worst), "{} said, {worst} given", found.objective);
        // The rates of a slightly better ratio do not fit.
        let better = worst * (1.0 - 1e-5);
        let needs: Vec<f64> = (0..case.claims.len()).map(|job| {
            let seconds = better * expected[job] - case.claims[job].age;
            if seconds > 0.0 { case.claims[job].remaining / seconds } else { f64::INFINITY }
        }).collect();
        prop_assert!(needs.iter().any(|need| need.is_infinite()) || largest_part(&case, &needs) < 1.0, "{better} can be had");
        prop_assert!(found.gap <= 1e-5, "gap {}", found.gap);
    }

    #[test]
    fn deadlines(case in any_case()) {
        let wanted: Vec<f64> = case.claims.iter().map(|claim| {
            let best = claim.rates.iter().copied().fold(0.0, f64::max);
            claim.deadline.filter(|seconds| claim.remaining <= best * seconds).map_or(0.0, |seconds| claim.remaining / seconds)
        }).collect();
        let part = if wanted.iter().any(|rate| *rate > 0.0) { largest_part(&case, &wanted).min(1.0) } else { 1.0 };
        let (found, rates) = solve(&case, "max-throughput-cost-slo-packed");
        for (rate, wanted) in rates.iter().zip(&wanted) {
            prop_assert!(*rate >= wanted * part * (1.0 - 3e-6), "{rate} of {wanted} x {part}");
        }
        let prices = [2.0, 1.0, 0.5];
        let mut program = program(&case, |rate, kind| rate / prices[kind]);
        for (terms, wanted) in program.rates.iter().zip(&wanted) {
            if *wanted > 0.0 {
                let mut sum = LinearExpr::empty();
                terms.iter().for_each(|(variable, rate)| sum.add(*variable, *rate / wanted));
                program.problem.add_constraint(sum, ComparisonOp::Ge, part * (1.0 - 1e-6));
            }
        }
        let optimum = objective(&program.problem);
        prop_assert!((found.objective - optimum).abs() <= 1e-5 * optimum, "{} for {optimum}", found.objective);
    }

    #[test]
    fn nobody_is_held_back_below_nothing(case in any_case()) {
        let (found, _) = solve(&case, "strategy-proof");
        prop_assert!(found.gap <= 1e-4, "gap {}", found.gap);
        prop_assert!(found.shares.iter().all(|share| (0.0..=1.0 + 1e-9).contains(share)));
    }
}

fn plain(id: u32, entity: u32) -> Claim {
    Claim {
        id: JobId(id),
        class: 0,
        rates: [1.0].into(),
        gang: 1.0,
        weight: 1.0,
        remaining: 1.0,
        age: 0.0,
        deadline: None,
        entity,
    }
}

fn demand<'a>(claims: &'a [Claim], gpus: &'a [f64], entities: &'a [Entity]) -> Demand<'a> {
    Demand { claims, gpus, prices: &[1.0], pairs: &NoPairs, entities }
}

#[test]
fn two_like_jobs_on_one_gpu_pay_half_of_their_half() {
    let claims = [plain(0, 0), plain(1, 0)];
    let found = allocator("strategy-proof", Solver::Price).unwrap().allocate(&demand(&claims, &[1.0], &[])).unwrap();
    assert!((found.objective - 0.5).abs() < 1e-6);
    assert!(found.shares.iter().all(|share| (share - 0.25).abs() < 1e-6), "{:?}", found.shares);
}

#[test]
fn entities_rise_together_and_divide_by_their_own_rule() {
    let entities = [Entity { weight: 2.0, rule: EntityRule::Fairness }, Entity { weight: 1.0, rule: EntityRule::Fifo }];
    let claims = [plain(0, 0), plain(1, 0), plain(2, 1), plain(3, 1)];
    let shares = |gpus: f64| {
        allocator("hierarchical", Solver::Price).unwrap().allocate(&demand(&claims, &[gpus], &entities)).unwrap().shares
    };
    let near = |found: &[f64], wanted: &[f64]| found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-6);
    // 1.5 GPUs: twice as much for the first entity, halved; all of the second's for its first job.
    assert!(near(&shares(1.5), &[0.5, 0.5, 0.5, 0.0]), "{:?}", shares(1.5));
    // 3.5 GPUs: the first three have all their time, and the last in line has what is left.
    assert!(near(&shares(3.5), &[1.0, 1.0, 1.0, 0.5]), "{:?}", shares(3.5));
}

#[test]
fn bad_numbers_are_errors_and_nothing_to_do_is_not() {
    for name in NAMES {
        let mut one = allocator(name, Solver::Price).unwrap();
        let nothing = one.allocate(&demand(&[], &[4.0], &[])).unwrap();
        assert!(nothing.shares.is_empty() && nothing.objective == 0.0, "{name}");
        let mut idle = plain(0, 0);
        idle.weight = 0.0;
        assert_eq!(one.allocate(&demand(&[idle], &[4.0], &[])).unwrap().shares, [0.0], "{name}");
        let spoil: [fn(&mut Claim); 7] = [
            |claim| claim.rates[0] = f64::NAN,
            |claim| claim.rates[0] = -1.0,
            |claim| claim.gang = 0.0,
            |claim| claim.weight = f64::INFINITY,
            |claim| claim.remaining = f64::NAN,
            |claim| claim.age = -1.0,
            |claim| claim.deadline = Some(f64::NAN),
        ];
        for spoil in spoil {
            let mut claim = plain(0, 0);
            spoil(&mut claim);
            assert!(one.allocate(&demand(&[claim], &[4.0], &[])).is_err(), "{name}");
        }
        assert!(one.allocate(&demand(&[plain(0, 0)], &[f64::NAN], &[])).is_err(), "{name}");
        assert!(one.allocate(&demand(&[plain(0, 0)], &[1.0, 1.0], &[])).is_err(), "{name}");
    }
    assert!(allocator("fcfs", Solver::Price).is_none());
}
