//! Allocations against a simplex that knows nothing of rows, prices or merging: equal objectives, shares that fit, bounds that hold.

#![expect(clippy::unwrap_used, reason = "a bad case is a bad test")]

mod cases;

use cases::{Case, any_case, simplex};
use proptest::prelude::*;
use rota_policy::allocation::{Allocation, Solver, allocator};

const BOTH: [Solver; 2] = [Solver::Price, Solver::Interior];

fn solve(case: &Case, name: &str, solver: Solver) -> Allocation {
    let allocation = allocator(name, solver).unwrap().allocate(&case.demand()).unwrap_or_else(|error| panic!("{name}: {error}"));
    case.assert_fits(name, &allocation);
    allocation
}

/// Both solvers reach the optimum, and what they call a bound is one.
fn assert_optimum(case: &Case, name: &str, optimum: f64, minimised: bool) {
    for solver in BOTH {
        let found = solve(case, name, solver);
        let error = (found.objective - optimum).abs() / optimum.abs().max(1e-12);
        assert!(error <= 1e-6, "{name} {solver:?}: {} for {optimum} ({found:?})", found.objective);
        let beyond = if minimised { found.upper_bound - optimum } else { optimum - found.upper_bound };
        assert!(beyond <= 1e-7 * optimum.abs(), "{name} {solver:?}: bound {} for {optimum}", found.upper_bound);
        assert!(found.gap <= 1e-6, "{name} {solver:?}: gap {}", found.gap);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn max_min_is_the_optimum(case in any_case()) {
        assert_optimum(&case, "max-min-perf", simplex::max_min(&case, &case.real()), false);
        assert_optimum(&case, "max-min", simplex::max_min(&case, &case.unit()), false);
    }

    #[test]
    fn makespan_is_the_optimum(case in any_case()) {
        assert_optimum(&case, "makespan-perf", simplex::makespan(&case, &case.real()), true);
        assert_optimum(&case, "makespan", simplex::makespan(&case, &case.best()), true);
    }

    #[test]
    fn finish_time_fairness_is_the_optimum(case in any_case()) {
        assert_optimum(&case, "ftf-perf", simplex::finish_time(&case, &case.real()), true);
        assert_optimum(&case, "ftf", simplex::finish_time(&case, &case.best()), true);
    }

    #[test]
    fn the_greatest_throughput_is_the_optimum(case in any_case()) {
        let one = vec![1.0; case.gpus.len()];
        let dollars: Vec<f64> = case.prices.iter().map(|price| 1.0 / price).collect();
        let none = vec![0.0; case.claims.len()];
        assert_optimum(&case, "max-throughput-perf", simplex::sum(&case, &one, &none).unwrap(), false);
        assert_optimum(&case, "max-throughput-cost-perf", simplex::sum(&case, &dollars, &none).unwrap(), false);
    }

    #[test]
    fn deadlines_are_kept_where_all_can_be(case in any_case()) {
        let dollars: Vec<f64> = case.prices.iter().map(|price| 1.0 / price).collect();
        let wanted = case.rates_in_time();
        let part = simplex::part_in_time(&case, &wanted);
        // Floors are kept up to 1e-7, and where they are tight that much more room can be worth more than 1e-6 of the sum.
        let with_slack = |slack: f64| {
            let floors: Vec<f64> = wanted.iter().map(|rate| rate * part.min(1.0) * (1.0 - slack)).collect();
            simplex::sum(&case, &dollars, &floors).unwrap()
        };
        let (least, most) = (with_slack(1e-9), with_slack(2e-7));
        for solver in BOTH {
            let found = solve(&case, "max-throughput-cost-slo-perf", solver);
            let fits = found.objective >= least * (1.0 - 2e-6) && found.objective <= most * (1.0 + 2e-6);
            prop_assert!(fits, "{solver:?}: {} is not between {least} and {most}", found.objective);
            for (claim, &wanted) in wanted.iter().enumerate() {
                let rate = case.rate(claim, &found);
                prop_assert!(rate >= wanted * part.min(1.0) * (1.0 - 1e-6), "{solver:?}: claim {claim} has {rate} of {wanted}");
            }
        }
    }

    #[test]
    fn water_filling_raises_the_least_first_and_leaves_nothing_to_raise(case in any_case()) {
        for (name, speeds) in [("water-filling-perf", case.real()), ("water-filling", case.unit())] {
            let optimum = simplex::max_min(&case, &speeds);
            for solver in BOTH {
                let found = solve(&case, name, solver);
                prop_assert!((found.objective - optimum).abs() <= 1e-6 * optimum, "{name} {solver:?}: {} for {optimum}", found.objective);
                // Sorted measures are the largest in the sense of the lexicographic order: compared with the stages of a simplex.
                let levels = simplex::water_levels(&case, &speeds);
                for (claim, &level) in levels.iter().enumerate() {
                    let measure = case.measure(claim, &speeds, &found);
                    prop_assert!(measure >= level * (1.0 - 1e-5), "{name} {solver:?}: claim {claim} at {measure} of {level}");
                }
            }
        }
    }

    #[test]
    fn a_single_fair_entity_is_water_filling(case in any_case()) {
        let levels = simplex::water_levels(&case, &case.real());
        let found = solve(&case, "hierarchical", Solver::Price);
        for (claim, &level) in levels.iter().enumerate() {
            let measure = case.measure(claim, &case.real(), &found);
            prop_assert!(measure >= level * (1.0 - 1e-5), "claim {claim} at {measure} of {level}");
        }
    }
}
