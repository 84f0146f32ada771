//! The price kernel against an independent simplex on random small problems, and its edge cases.

mod cases;

use cases::{Case, any_case, simplex};
use proptest::prelude::*;
use rota_solver::SolveError;
use rota_solver::price::{LevelSolution, Method, Options, max_min, maximise_level};
use rota_solver::problem::Problem;
use rota_solver::requirement::Requirement;
use rota_solver::water::water_filling;

/// The certificate must be honest whatever the method: what others reach ≤ the bound, and the shares fit.
fn check(case: &Case, solution: &LevelSolution, reached: f64) {
    let violation = case.problem().violation(&solution.shares);
    assert!(violation <= 1e-12, "shares do not fit: {violation:e}");
    assert!(solution.gap <= 1e-9, "gap {:e} by {:?}", solution.gap, solution.method);
    assert!(solution.upper_bound >= reached * (1.0 - 1e-12), "bound {} below {reached}, which was reached", solution.upper_bound);
    assert!(solution.level >= reached * (1.0 - 1e-9), "level {} below {reached}, which was reached", solution.level);
}

/// The largest τ with rate ≥ slope·τ, by simplex: as it says, and as its shares really give. Rows and level are scaled: the simplex has absolute tolerances.
fn level_by_simplex(case: &Case, slopes: &[f64]) -> Option<(f64, f64)> {
    let best: Vec<f64> = (0..slopes.len()).map(|row| case.problem().best_rate(row)).collect();
    let steepest = slopes.iter().zip(&best).map(|(slope, best)| slope / best).fold(0.0, f64::max);
    let scaled = simplex(case, |program, shares| {
        let level = program.add_var(1.0, (0.0, f64::INFINITY));
        for row in 0..case.sizes.len() {
            let mut terms: Vec<_> =
                shares[row].iter().zip(case.row(row)).map(|(&share, &rate)| (share, rate / best[row])).collect();
            terms.push((level, -slopes[row] / best[row] / steepest));
            program.add_constraint(terms.as_slice(), microlp::ComparisonOp::Ge, 0.0);
        }
    });
    scaled.map(|found| {
        let levels = slopes.iter().enumerate().map(|(row, slope)| case.problem().row_rate(row, &found.shares) / slope);
        (found.objective / steepest, levels.fold(f64::INFINITY, f64::min))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn max_min_equals_simplex(case in any_case()) {
        let solution = max_min(&case.problem(), &case.weights, &Options::default(), None).unwrap();
        if let Some((objective, reached)) = level_by_simplex(&case, &case.weights) {
            check(&case, &solution, reached);
            prop_assert!((solution.level - objective).abs() <= 1e-6 * objective + 1e-9, "level {} is not {}", solution.level, objective);
        }
    }

    #[test]
    fn warm_starts_change_nothing_but_time(case in any_case(), level in 0.0..100.0_f64, prices in prop::collection::vec(0.0..1.0_f64, 8)) {
        let problem = case.problem();
        let cold = max_min(&problem, &case.weights, &Options::default(), None).unwrap();
        let warm = rota_solver::price::Warm { prices: prices[..problem.columns()].to_vec(), level };
        let solution = max_min(&problem, &case.weights, &Options::default(), Some(&warm)).unwrap();
        check(&case, &solution, cold.level);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn second_method_equals_the_first(case in any_case()) {
        let problem = case.problem();
        let first = max_min(&problem, &case.weights, &Options::default(), None).unwrap();
        let options = Options { first: Method::PlainCuts, ..Options::default() };
        let second = max_min(&problem, &case.weights, &options, None).unwrap();
        check(&case, &second, first.level);
    }

    #[test]
    fn backend_is_certified_too(case in any_case()) {
        let problem = case.problem();
        let first = max_min(&problem, &case.weights, &Options::default(), None).unwrap();
        let options = Options { first: Method::Backend, ..Options::default() };
        if let Ok(third) = max_min(&problem, &case.weights, &options, None) {
            prop_assert_eq!(third.method, Method::Backend);
            prop_assert!(problem.violation(&third.shares) <= 1e-12);
            prop_assert!(third.upper_bound >= first.level * (1.0 - 1e-12));
            prop_assert!(third.level <= first.upper_bound * (1.0 + 1e-12));
        }
    }

    /// Ratios of twelve orders of magnitude: no simplex to trust, but the certificate speaks for itself.
    #[test]
    fn huge_ratios_are_still_certified(case in any_case(), powers in prop::collection::vec(-6.0..6.0_f64, 40 * 8)) {
        let mut case = case;
        case.rates.iter_mut().zip(&powers).for_each(|(rate, power)| *rate = if *rate > 0.0 { 10_f64.powf(*power) } else { 0.0 });
        let solution = max_min(&case.problem(), &case.weights, &Options::default(), None).unwrap();
        prop_assert!(case.problem().violation(&solution.shares) <= 1e-12);
        prop_assert!(solution.gap <= 1e-9, "gap {:e} by {:?}", solution.gap, solution.method);
    }

    /// At the ρ found, the linear requirement of that ρ is feasible, and at a slightly better one it is not.
    #[test]
    fn finish_time_level_is_the_last_feasible_one(case in any_case(), elapsed in prop::collection::vec(0.0..50.0_f64, 40)) {
        let problem = case.problem();
        let rows = problem.rows();
        let remaining: Vec<f64> = case.weights.iter().map(|weight| weight * 30.0).collect();
        let expected: Vec<f64> = (0..rows).map(|row| elapsed[row] + remaining[row] / problem.best_rate(row) * 2.0).collect();
        let requirement = Requirement::finish_time(&remaining, &elapsed[..rows], &expected).unwrap();
        let solution = maximise_level(&problem, &requirement, &Options::default(), None).unwrap();
        prop_assert!(solution.gap <= 1e-9);
        prop_assert!(problem.violation(&solution.shares) <= 1e-12);
        for row in 0..rows {
            let finish = elapsed[row] + remaining[row] / problem.row_rate(row, &solution.shares);
            prop_assert!(finish / expected[row] <= 1.0 / solution.level * (1.0 + 1e-9));
        }
        let factor = |level: f64| -> Vec<f64> { (0..rows).map(|row| remaining[row] / (expected[row] / level - elapsed[row])).collect() };
        let better = factor(solution.level * (1.0 + 1e-6));
        if better.iter().all(|need| *need > 0.0)
            && let Some((_, reach)) = level_by_simplex(&case, &better)
        {
            prop_assert!(reach < 1.0, "a better level was feasible: {}", reach);
        }
    }

    /// Water filling is max-min fair: no row can rise unless a row with no more than it falls.
    #[test]
    fn water_levels_are_max_min_fair(case in any_case()) {
        let mut case = case;
        // Mild ratios and no near ties: what one row gives up within the oracle's tolerance, another may otherwise make 1e5 times more of.
        case.rates.iter_mut().filter(|rate| **rate > 0.0).for_each(|rate| *rate = ((*rate * 4.0).round() / 4.0).clamp(0.25, 4.0));
        let problem = case.problem();
        let filled = water_filling(&problem, &case.weights, &Options::default()).unwrap();
        prop_assert!(problem.violation(&filled.shares) <= 1e-12);
        let share = |row: usize| filled.levels[row] / case.weights[row];
        let chosen = case.sizes.len() / 2;
        for row in 0..problem.rows() {
            prop_assert!(problem.row_rate(row, &filled.shares) >= filled.levels[row] * (1.0 - 1e-9));
        }
        let best = simplex(&case, |program, shares| {
            for (row, shares) in shares.iter().enumerate() {
                let best = problem.best_rate(row);
                let terms: Vec<_> = shares.iter().zip(case.row(row)).map(|(&share, &rate)| (share, rate / best)).collect();
                if row == chosen {
                    let rise = program.add_var(1.0, (0.0, f64::INFINITY));
                    let mut terms = terms;
                    terms.push((rise, -1.0));
                    program.add_constraint(terms.as_slice(), microlp::ComparisonOp::Ge, 0.0);
                } else if share(row) <= share(chosen) * (1.0 + 1e-7) {
                    program.add_constraint(terms.as_slice(), microlp::ComparisonOp::Ge, filled.levels[row] / best * (1.0 - 2e-11));
                }
            }
        });
        // The simplex may overdraw the others by its absolute tolerance, which ratios of rates magnify: such answers say nothing.
        if let Some(found) = best {
            let rate = |row: usize| problem.row_rate(row, &found.shares);
            let kept = |row: usize| row == chosen || share(row) > share(chosen) * (1.0 + 1e-7) || rate(row) >= filled.levels[row] * (1.0 - 1e-10);
            if (0..problem.rows()).all(kept) {
                prop_assert!(rate(chosen) <= filled.levels[chosen] * (1.0 + 1e-4), "row {} could have {} instead of {}", chosen, rate(chosen), filled.levels[chosen]);
            }
        }
    }
}

#[test]
fn edges_of_the_input() {
    let solve = |capacities: &[f64], sizes: &[f64], rates: &[f64]| {
        let problem = Problem::new(capacities, sizes, rates)?;
        max_min(&problem, &vec![1.0; sizes.len()], &Options::default(), None)
    };
    // One row, one pool: either its own best or what the pool holds.
    assert!((solve(&[4.0], &[2.0], &[3.0]).unwrap().level - 3.0).abs() < 1e-12);
    assert!((solve(&[1.0], &[2.0], &[3.0]).unwrap().level - 1.5).abs() < 1e-12);
    // A pool without units cannot serve, however fast.
    assert!((solve(&[0.0, 1.0], &[1.0], &[9.0, 1.0]).unwrap().level - 1.0).abs() < 1e-12);
    assert_eq!(solve(&[0.0, 1.0], &[1.0], &[9.0, 0.0]).unwrap_err(), SolveError::HopelessRow(0));
    assert!(matches!(solve(&[1.0], &[1.0], &[f64::NAN]), Err(SolveError::Number { what: "rates", .. })));
    assert!(matches!(solve(&[f64::INFINITY], &[1.0], &[1.0]), Err(SolveError::Number { what: "capacities", .. })));
    assert!(matches!(solve(&[1.0], &[-1.0], &[1.0]), Err(SolveError::Number { what: "sizes", .. })));
    assert!(matches!(solve(&[1.0], &[1.0], &[1.0, 2.0]), Err(SolveError::Shape { what: "rates", .. })));
    assert_eq!(solve(&[], &[1.0], &[]).unwrap_err(), SolveError::Empty("pools"));
}

#[test]
fn duplicates_are_merged_and_share_alike() {
    let problem = Problem::new(&[30.0, 20.0], &vec![1.0; 1000], &[1.0, 3.0].repeat(1000)).unwrap();
    let merged = problem.merge(&[]).unwrap();
    assert_eq!((merged.problem.rows(), merged.problem.counts()[0]), (1, 1000.0));
    let solution = max_min(&problem, &vec![1.0; 1000], &Options::default(), None).unwrap();
    assert!((solution.level - 0.09).abs() < 1e-12);
    assert_eq!(solution.shares[..2], solution.shares[1998..]);
}

#[test]
fn many_rows_take_the_thinned_path() {
    // Large enough to be sampled and settled; the certificate is the check.
    for columns in [2, 5, 8, 16, 20] {
        let case = cases::large(6000, columns, 17);
        let solution = max_min(&case.problem(), &case.weights, &Options::default(), None).unwrap();
        assert!(
            solution.gap <= 1e-9 && solution.method == Method::Prices,
            "{columns} columns: gap {:e}, {:?}",
            solution.gap,
            solution.method
        );
        assert!(case.problem().violation(&solution.shares) <= 1e-12);
        // Like a vertex: rows on more than two columns are at most about as many as pools.
        let spread =
            solution.shares.chunks_exact(columns).filter(|row| row.iter().filter(|share| **share > 1e-12).count() > 2).count();
        assert!(spread <= columns + 1, "{spread} rows are spread over more than two of {columns} columns");
    }
}
