//! Sums under floors, packed pairs, assignment and matching against independent solvers.

mod cases;

use cases::{any_case, simplex};
use proptest::prelude::*;
use rota_solver::SolveError;
use rota_solver::assign::assign_dense;
use rota_solver::lp::{Clarabel, LinearProgram, LpBackend, LpStatus, Relation};
use rota_solver::match_prices::{Matching, match_by_prices};
use rota_solver::max_sum::{SumGoal, max_sum_with_floors};
use rota_solver::packed::{Class, PackedGoal, PackedProblem, Pair};
use rota_solver::price::{Bound, Method, Options, max_min, reach_level};
use rota_solver::requirement::Requirement;
use rota_solver::top_up::top_up;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn max_sum_over_max_min_equals_simplex(case in any_case(), part in prop::sample::select(vec![0.0, 0.5, 1.0 - 1e-7])) {
        let problem = case.problem();
        let minimum = max_min(&problem, &case.weights, &Options::default(), None).unwrap();
        let floors: Vec<f64> = case.weights.iter().map(|weight| weight * minimum.level * part).collect();
        let weights: Vec<f64> = (0..problem.rows()).map(|row| 1.0 / problem.best_rate(row)).collect();
        let factors = vec![1.0; problem.columns()];
        let goal = SumGoal { weights: &weights, factors: &factors, floors: &floors, near: None };
        let solution = max_sum_with_floors(&problem, &goal, &Options::default()).unwrap();
        prop_assert!(solution.gap <= 1e-7, "gap {:e} by {:?}", solution.gap, solution.method);
        prop_assert!(solution.shortfall <= 1e-9 && problem.violation(&solution.shares) <= 1e-12);
        let optimum = simplex(&case, |program, shares| {
            let total = program.add_var(1.0, (0.0, f64::INFINITY));
            let mut sum = vec![(total, -1.0)];
            for row in 0..problem.rows() {
                let terms: Vec<_> = shares[row].iter().zip(problem.rates(row)).map(|(&share, &rate)| (share, rate)).collect();
                sum.extend(terms.iter().map(|&(share, rate)| (share, rate * weights[row])));
                program.add_constraint(terms.as_slice(), microlp::ComparisonOp::Ge, floors[row]);
            }
            program.add_constraint(sum.as_slice(), microlp::ComparisonOp::Ge, 0.0);
        });
        if let Some(optimum) = optimum.map(|found| found.objective) {
            prop_assert!(solution.upper_bound >= optimum * (1.0 - 1e-7), "bound {} below {}", solution.upper_bound, optimum);
            prop_assert!((solution.value - optimum).abs() <= 1e-6 * optimum, "value {} is not {}", solution.value, optimum);
        }
    }

    #[test]
    fn assignment_costs_what_kuhn_munkres_costs(rows in 1..9_usize, extra in 0..5_usize, seed in prop::collection::vec(0..30_i64, 9 * 13)) {
        let columns = rows + extra;
        let costs = &seed[..rows * columns];
        let floats: Vec<f64> = costs.iter().map(|&cost| cost as f64).collect();
        let ours = assign_dense(rows, columns, &floats).unwrap();
        let total: i64 = ours.iter().enumerate().map(|(row, column)| costs[row * columns + column.unwrap()]).sum();
        let matrix = pathfinding::matrix::Matrix::from_vec(rows, columns, costs.iter().map(|cost| -cost).collect()).unwrap();
        let (best, _) = pathfinding::kuhn_munkres::kuhn_munkres(&matrix);
        prop_assert_eq!(total, -best);
        // Turned over, the same cost is reached with rows left out.
        let turned: Vec<f64> = (0..columns * rows).map(|cell| floats[(cell % rows) * columns + cell / rows]).collect();
        let other = assign_dense(columns, rows, &turned).unwrap();
        let other_total: f64 = other.iter().enumerate().filter_map(|(row, column)| column.map(|column| turned[row * rows + column])).sum();
        prop_assert!((total as f64 - other_total).abs() < 1e-9);
    }

    #[test]
    fn matching_never_overfills(case in any_case(), shift in 0.0..0.5_f64) {
        let values: Vec<f64> = case.rates.iter().map(|rate| rate - shift).collect();
        let matching = Matching { values: &values, sizes: &case.sizes, capacities: &case.capacities };
        let columns = match_by_prices(&matching).unwrap();
        let mut free = case.capacities.clone();
        for (row, column) in columns.iter().enumerate() {
            if let Some(column) = *column {
                free[column] -= case.sizes[row];
                prop_assert!(values[row * case.capacities.len() + column] > 0.0);
            }
        }
        prop_assert!(free.iter().all(|units| *units >= -1e-9));
        prop_assert_eq!(&columns, &match_by_prices(&matching).unwrap());
        // Nothing that would still fit is left out.
        for (row, _) in columns.iter().enumerate().filter(|(_, column)| column.is_none()) {
            for (column, units) in free.iter().enumerate() {
                prop_assert!(values[row * case.capacities.len() + column] <= 0.0 || case.sizes[row] > units + 1e-9);
            }
        }
    }
}

/// Every pair of equal size, keeping a part of each member's rate.
fn packed(case: &cases::Case, kept: &[f64]) -> PackedProblem {
    let columns = case.capacities.len();
    let rows = case.sizes.len().min(8);
    let classes: Vec<Class> = (0..rows)
        .map(|row| Class {
            count: 1.0 + (row % 3) as f64,
            size: case.sizes[row],
            weight: case.weights[row],
            rates: case.problem().rates(row).to_vec(),
        })
        .collect();
    let mut pairs = Vec::new();
    for first in 0..rows {
        for second in first..rows {
            let part = |class: usize, other: usize| -> Vec<f64> {
                (0..columns)
                    .map(|column| classes[class].rates[column] * kept[(class * 7 + other * 3 + column) % kept.len()])
                    .collect()
            };
            pairs.push(Pair { first, second, first_rates: part(first, second), second_rates: part(second, first) });
        }
    }
    PackedProblem { capacities: case.capacities.clone(), classes, pairs }
}

/// The whole packed max-min program, every column written out.
fn packed_optimum(problem: &PackedProblem) -> Option<f64> {
    let mut program = microlp::Problem::new(microlp::OptimizationDirection::Maximize);
    let level = program.add_var(1.0, (0.0, f64::INFINITY));
    let (mut rates, mut times, mut pools): (Vec<Vec<_>>, Vec<Vec<_>>, Vec<Vec<_>>) = (
        vec![Vec::new(); problem.classes.len()],
        vec![Vec::new(); problem.classes.len()],
        vec![Vec::new(); problem.capacities.len()],
    );
    for (pool, pool_terms) in pools.iter_mut().enumerate() {
        for (index, class) in problem.classes.iter().enumerate() {
            let share = program.add_var(0.0, (0.0, f64::INFINITY));
            rates[index].push((share, class.rates[pool]));
            times[index].push((share, 1.0));
            pool_terms.push((share, class.size));
        }
        for pair in &problem.pairs {
            let (one, other) = (&problem.classes[pair.first], &problem.classes[pair.second]);
            if (one.size - other.size).abs() < 1e-9 && (pair.first != pair.second || one.count >= 2.0) {
                let share = program.add_var(0.0, (0.0, f64::INFINITY));
                pool_terms.push((share, one.size));
                if pair.first == pair.second {
                    rates[pair.first].push((share, pair.first_rates[pool] + pair.second_rates[pool]));
                    times[pair.first].push((share, 2.0));
                } else {
                    for (class, rate) in [(pair.first, pair.first_rates[pool]), (pair.second, pair.second_rates[pool])] {
                        rates[class].push((share, rate));
                        times[class].push((share, 1.0));
                    }
                }
            }
        }
    }
    for (index, class) in problem.classes.iter().enumerate() {
        rates[index].push((level, -class.count * class.weight));
        program.add_constraint(rates[index].as_slice(), microlp::ComparisonOp::Ge, 0.0);
        program.add_constraint(times[index].as_slice(), microlp::ComparisonOp::Le, class.count);
    }
    for (terms, &capacity) in pools.iter().zip(&problem.capacities) {
        program.add_constraint(terms.as_slice(), microlp::ComparisonOp::Le, capacity);
    }
    match program.solve() {
        Ok(microlp::SolveOutcome::Solution(solution)) => Some(solution.objective()),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn packed_max_min_equals_simplex(case in any_case(), kept in prop::collection::vec(0.2..1.0_f64, 11)) {
        let problem = packed(&case, &kept);
        let solution = problem.max_min(60.0);
        if let (Ok(solution), Some(optimum)) = (solution, packed_optimum(&problem)) {
            prop_assert!(solution.value <= optimum * (1.0 + 1e-7), "value {} above the optimum {}", solution.value, optimum);
            prop_assert!(solution.upper_bound >= optimum * (1.0 - 1e-7), "bound {} below the optimum {}", solution.upper_bound, optimum);
        }
    }
}

#[test]
fn packing_beats_running_alone() {
    let class = |rate: f64| Class { count: 2.0, size: 1.0, weight: 1.0, rates: vec![rate] };
    let pair = Pair { first: 0, second: 1, first_rates: vec![0.8], second_rates: vec![0.8] };
    let problem = PackedProblem { capacities: vec![2.0], classes: vec![class(1.0), class(1.0)], pairs: vec![pair] };
    // Alone each agent runs half of the time at 1; in pairs all of the time at 0.8.
    let solution = problem.max_min(60.0).unwrap();
    assert!((solution.value - 0.8).abs() < 1e-6 && solution.gap < 1e-5, "{solution:?}");
    let goal = PackedGoal::Sum { gains: vec![1.0, 1.0], factors: vec![1.0], floors: vec![0.5, 0.5] };
    let sum = problem.solve(&goal, 60.0).unwrap();
    assert!((sum.value - 3.2).abs() < 1e-5 && sum.gap < 1e-5, "{sum:?}");
    let too_much = PackedGoal::Sum { gains: vec![1.0, 1.0], factors: vec![1.0], floors: vec![0.9, 0.9] };
    assert_eq!(problem.solve(&too_much, 60.0), Err(SolveError::Infeasible));
}

#[test]
fn floors_that_do_not_fit_are_refused() {
    let problem = rota_solver::problem::Problem::new(&[1.0], &[1.0, 1.0], &[1.0, 1.0]).unwrap();
    let goal = SumGoal { weights: &[1.0, 1.0], factors: &[1.0], floors: &[0.7, 0.7], near: None };
    assert_eq!(max_sum_with_floors(&problem, &goal, &Options::default()), Err(SolveError::Infeasible));
}

#[test]
fn the_backend_reports_duals_and_status() {
    let mut program = LinearProgram::default();
    let (x, y) = (program.add_variable(3.0), program.add_variable(2.0));
    program.add_constraint(vec![(x, 1.0), (y, 1.0)], Relation::AtMost, 4.0);
    program.add_constraint(vec![(x, 1.0)], Relation::AtMost, 3.0);
    let solution = Clarabel::default().solve(&program, 60.0).unwrap();
    assert_eq!(solution.status, LpStatus::Optimal);
    assert!((solution.objective - 11.0).abs() < 1e-7);
    assert!((solution.duals[0] - 2.0).abs() < 1e-6 && (solution.duals[1] - 1.0).abs() < 1e-6);
    program.add_constraint(vec![(x, 1.0), (y, 1.0)], Relation::AtLeast, 9.0);
    assert_eq!(Clarabel::default().solve(&program, 60.0).unwrap().status, LpStatus::Infeasible);
}

#[test]
fn what_is_free_above_the_level_goes_to_those_who_can_use_it() {
    for (columns, free) in [(3, 1), (5, 2), (8, 3)] {
        let mut case = cases::large(6000, columns, 5);
        // Pools of which there is more than enough, and closed to every other row: the others are what holds the level down.
        case.rates.chunks_exact_mut(columns).step_by(2).for_each(|rates| rates[..free].fill(0.0));
        case.capacities[..free].fill(4000.0);
        let (problem, requirement) = (case.problem(), Requirement::max_min(case.weights.clone()).unwrap());
        let reached = reach_level(&problem, &requirement, None).unwrap().unwrap();
        assert_eq!(reached.solution.bound_by, Bound::Pools);
        let gains: Vec<f64> = (0..problem.rows()).map(|row| 1.0 / problem.best_rate(row)).collect();
        let options = Options { tolerance: 1e-6, last: Method::PlainCuts, ..Options::default() };
        let shares = top_up(&problem, &requirement, &reached, &gains, &options).unwrap();
        assert!(problem.violation(&shares) <= 1e-9);
        let level =
            (0..problem.rows()).map(|row| problem.row_rate(row, &shares) / case.weights[row]).fold(f64::INFINITY, f64::min);
        assert!(level >= reached.solution.upper_bound * (1.0 - 1e-8), "{level} is below {}", reached.solution.upper_bound);
        let sum = |shares: &[f64]| (0..problem.rows()).map(|row| gains[row] * problem.row_rate(row, shares)).sum::<f64>();
        let floors: Vec<f64> = case.weights.iter().map(|weight| weight * level * (1.0 - 1e-7)).collect();
        let goal = SumGoal { weights: &gains, factors: &vec![1.0; columns], floors: &floors, near: None };
        let best = max_sum_with_floors(&problem, &goal, &options).unwrap();
        let first = sum(&reached.shares(&problem, &requirement));
        assert!(sum(&shares) >= best.upper_bound * 0.999, "{} of {}, from {first}", sum(&shares), best.upper_bound);
        assert!(first < best.upper_bound * 0.9, "nothing was free, so nothing was shown");
    }
}
